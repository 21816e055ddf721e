"""Hosts for the tests in this folder: real ones, made by the lab on this machine.

`lab` is one lab for the whole session; `make_lab` makes more of them, of any shape, `fresh_lab` such that go with the
test. All are gone when the session ends, and those that a killed session left are taken down by the next one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kubexm.errors import LabError
from kubexm.lab import Lab, lab_names
from kubexm.lab.needs import check_platform, check_tools

MakeLab = Callable[..., Lab]


@pytest.fixture(scope="session")
def lab_machine() -> None:
    """Skips what needs a lab where there can be none, and says why."""
    try:
        check_platform("up")
        check_tools(log=Path("/dev/null"))
    except LabError as error:
        pytest.skip(f"{error.message} {error.hint}")


@pytest.fixture(scope="session")
def make_lab(lab_machine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MakeLab]:
    """Makes labs of the shape `Lab.up` takes: `make_lab(topology="1+2", flavours={"n2": "nopython"})`."""
    for name in lab_names():
        match = re.fullmatch(r"pytest-(\d+)-\d+", name)
        if match and not Path(f"/proc/{match[1]}").exists():
            Lab(name).down()
    made: list[Lab] = []

    def make(**shape: object) -> Lab:
        lab = Lab(f"pytest-{os.getpid()}-{len(made)}")
        made.append(lab)
        save = tmp_path_factory.mktemp(lab.name) / "cluster.yaml"
        lab.up(**{"save": save, **shape})  # type: ignore[arg-type]
        return lab

    yield make
    for lab in made:
        if lab.exists:
            lab.down()


@pytest.fixture(scope="session")
def lab(make_lab: MakeLab) -> Lab:
    """A lab of 5 plain hosts (3+2), or as many as KUBEXM_TEST_HOSTS says. Tests leave its hosts as they found them.

    `lab.hosts` have names and addresses, `lab.access.private_key` and `lab.access.known_hosts` let one in,
    `lab.cluster_file` is the cluster file.
    """
    return make_lab(hosts=int(os.environ.get("KUBEXM_TEST_HOSTS", "5")))


@pytest.fixture
def fresh_lab(make_lab: MakeLab) -> Iterator[MakeLab]:
    """Makes labs that are gone after the test: a cluster nobody looks at still takes its share of the machine."""
    made: list[Lab] = []

    def make(**shape: object) -> Lab:
        made.append(make_lab(**shape))
        return made[-1]

    yield make
    for lab in made:
        lab.down()
