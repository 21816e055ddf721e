"""`kubexm serve` with workers that take this machine for every host: `python -m …server HOSTS serve …`."""

from __future__ import annotations

import sys
from functools import partial

from kubexm.cli.main import main
from kubexm.pipeline import PIPELINES
from kubexm.service import tasks
from tests.integration.service.work import PLACES, WORKER

if __name__ == "__main__":
    hosts, *words = sys.argv[1:]
    PIPELINES.update(PLACES)
    tasks.TaskOptions = partial(tasks.TaskOptions, worker=(*WORKER, hosts))  # type: ignore[assignment,misc]
    main(words)
