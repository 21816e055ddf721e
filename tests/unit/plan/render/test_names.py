from __future__ import annotations

import pytest

from kubexm.plan.render import id_parts, short_hosts


@pytest.mark.parametrize(
    ("hosts", "short"),
    [
        ([], ""),
        (["a"], "a"),
        (["n1", "n2"], "n1, n2"),
        (["n1", "n2", "n3"], "n[1:3]"),
        (["w08", "w09", "w10", "w11"], "w[08:11]"),
        (["w8", "w9", "w10"], "w[8:10]"),
        (["w08", "w9", "w10"], "w08, w9, w10"),
        (["w099", "w100", "w101"], "w[099:101]"),
        (["n3", "n2", "n1"], "n3, n2, n1"),
        (["cp1", "cp2", "cp3", "edge", "w1", "w2", "w3"], "cp[1:3], edge, w[1:3]"),
        (["n1.example.com", "n2.example.com", "n3.example.com"], "n[1:3].example.com"),
        (["1", "2", "3"], "[1:3]"),
    ],
)
def test_hosts_as_ranges(hosts: list[str], short: str) -> None:
    assert short_hosts(hosts) == short


def test_parts_of_an_id() -> None:
    assert id_parts("etcd.install.start") == ("etcd", "install", "start")
    assert id_parts("cp.upgrade.drain.n1.example.com") == ("cp", "upgrade", "drain.n1.example.com")
