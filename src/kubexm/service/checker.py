"""Checks specs in a process of its own: reads one as a line of JSON, answers with a line, until its input ends.

Apart from the server, because parsing takes seconds for a large spec and must not take longer than the server allows.
"""

from __future__ import annotations

import dataclasses
import resource
import sys
from datetime import UTC, datetime
from typing import Any

from kubexm.apis.v1alpha1 import edits
from kubexm.apis.v1alpha1.rules.support import supported_on
from kubexm.config import ConfigErrors, Problem, loads
from kubexm.config.remote import references, refused
from kubexm.store.texts import from_json, to_json

__all__ = ["READY", "main"]

READY = b"ready\n"
_MEMORY = 2 * 2**30
_MOST_PROBLEMS = 500


def main() -> None:
    """Answers until nobody asks any more."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    sys.stdout.buffer.write(READY)
    sys.stdout.buffer.flush()
    for line in sys.stdin.buffer:
        answer = to_json(_answer(from_json(line.decode())))
        sys.stdout.buffer.write(answer.encode() + b"\n")
        sys.stdout.buffer.flush()


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    try:
        rules = [refused, supported_on(datetime.now(UTC).date())] if request["sent"] else []
        loaded = loads(request["text"], name="cluster.yaml", more=rules)
        old = loads(request["old"]).cluster if request["old"] else None
    except ConfigErrors as error:
        return {"problems": _plain(error.problems), "warnings": _plain(error.warnings)}
    except (MemoryError, RecursionError) as error:
        return {"failed": f"it needs too much memory ({type(error).__name__})"}
    named = references(loaded.cluster)
    return {
        "name": loaded.cluster.name,
        "warnings": _plain(loaded.warnings),
        "secrets": sorted(named.secrets),
        "files": sorted(named.files),
        "edits": []
        if old is None
        else [
            {"path": each.path, "old": each.old, "new": each.new, "kind": each.kind.value, "note": each.note}
            for each in edits(old, loaded.cluster)
        ],
    }


def _plain(problems: tuple[Problem, ...]) -> list[dict[str, Any]]:
    found = [dataclasses.asdict(each) for each in problems[:_MOST_PROBLEMS]]
    if len(problems) > _MOST_PROBLEMS:
        more = Problem(
            file="cluster.yaml",
            line=0,
            column=0,
            path="",
            message=f"{len(problems) - _MOST_PROBLEMS} more are not listed",
            hint="fix some of these first",
            severity=problems[0].severity,
        )
        found.append(dataclasses.asdict(more))
    return found


if __name__ == "__main__":
    main()
