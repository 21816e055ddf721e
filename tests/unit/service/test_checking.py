"""Specs checked beside the server: the same once, everybody in turn, within a time, and after a process died."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kubexm.config import ConfigErrors
from kubexm.errors import KubexmError
from kubexm.service.checking import SpecChecker

GOOD = """\
apiVersion: kubexm.io/v1alpha1
kind: Cluster
metadata: {name: demo}
spec:
  global: {user: root, password: 'secret:login'}
  hosts:
    - {name: n1, address: 10.0.0.1}
    - {name: n2, address: 10.0.0.2}
  roleGroups: {etcd: [n1], controlPlane: [n1], worker: [n1, n2]}
"""
STUB = """
echo ready
while read -r line; do
    echo asked >>COUNT
    case $line in *dies*) exit 1;; *slow*) until [ -e GO ]; do sleep 0.05; done;; esac
    echo '{"name": "demo", "warnings": [], "secrets": [], "files": [], "edits": []}'
done
"""


@contextlib.asynccontextmanager
async def checker(tmp_path: Path | None = None, **options: float) -> AsyncIterator[SpecChecker]:
    """Real processes, or with a directory ones that answer the same to everything and count there."""
    stub = STUB.replace("COUNT", f"{tmp_path}/count").replace("GO", f"{tmp_path}/go")
    command = {"command": ("sh", "-c", stub)} if tmp_path is not None else {}
    made = SpecChecker(**command, **options)  # type: ignore[arg-type]
    try:
        yield made
    finally:
        await made.close()


async def test_a_spec_is_checked_with_what_it_names_and_what_differs() -> None:
    async with checker() as made:
        checked = await made.check(GOOD, old=GOOD.replace("worker: [n1, n2]", "worker: [n1]"))
        assert (checked.name, checked.secrets, checked.files) == ("demo", frozenset({"login"}), frozenset())
        assert [each["path"] for each in checked.edits] == ["spec.roleGroups.worker"]
        with pytest.raises(ConfigErrors) as caught:
            await made.check(GOOD.replace("address: 10.0.0.2", "address: nonsense!"))
        assert [each.line for each in caught.value.problems] == [8]
        with pytest.raises(ConfigErrors, match="env"):
            await made.check(GOOD.replace("secret:login", "env:LOGIN"))
        assert (await made.check(GOOD.replace("secret:login", "env:LOGIN"), sent=False)).name == "demo"


async def test_the_same_spec_is_parsed_once_for_all_who_ask(tmp_path: Path) -> None:
    async with checker(tmp_path) as made:
        await asyncio.gather(*(made.check(GOOD, who=who) for who in ("ann", "bob", "")))
        await made.check(GOOD)
        await made.check(GOOD.replace("n2", "n3"))
    assert (tmp_path / "count").read_text().count("asked") == 2


async def test_nobody_keeps_others_from_checking(tmp_path: Path) -> None:
    async with checker(tmp_path) as made:
        slow = [asyncio.create_task(made.check(f"slow {number}", who="eve")) for number in range(5)]
        assert (await made.check(GOOD, who="ann")).name == "demo"
        assert not any(each.done() for each in slow)
        (tmp_path / "go").touch()
        await asyncio.gather(*slow)


async def test_a_spec_that_takes_too_long_is_refused_and_the_next_one_is_checked() -> None:
    hosts = "".join(f"    - {{name: h{number}, address: 10.0.0.1}}\n" for number in range(20_000))
    async with checker(processes=1, seconds=0.5) as made:
        with pytest.raises(ConfigErrors, match=r"it takes longer than 0\.5 s"):
            await made.check(f"spec:\n  hosts:\n{hosts}")
    async with checker(processes=1) as made:
        assert (await made.check(GOOD)).name == "demo"


async def test_a_process_that_dies_is_replaced(tmp_path: Path) -> None:
    async with checker(tmp_path, processes=1) as made:
        with pytest.raises(KubexmError, match="the process that checks specs ended"):
            await made.check("dies")
        assert (await made.check(GOOD)).name == "demo"


async def test_thousands_of_problems_are_cut_short() -> None:
    hosts = "".join(f"    - {{name: h{number}, adress: 10.0.0.1}}\n" for number in range(700))
    async with checker() as made:
        with pytest.raises(ConfigErrors) as caught:
            await made.check(f"apiVersion: kubexm.io/v1alpha1\nkind: Cluster\nspec:\n  hosts:\n{hosts}")
    assert len(caught.value.problems) == 501
    assert "more are not listed" in caught.value.problems[-1].message
