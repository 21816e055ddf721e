"""Who asks whom, by a real shell, and what the answers mean."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from kubexm.components.verify.asking import Probe, questions, read_answers
from kubexm.components.verify.objects import PORT, sample_of

NSLOOKUP = "Server:\t\t10.96.0.10\nAddress:\t10.96.0.10:53\n\nName:\tkubernetes.default.svc\nAddress: 10.96.0.1\n\n"


def probe(count: int = 3) -> Probe:
    return Probe(
        sample=sample_of([f"node{index}" for index in range(count)]),
        addresses={index: f"10.244.{index}.5" for index in range(count)},
        service="10.96.7.7",
        dns="10.96.0.10",
        name="kubernetes.default.svc.cluster.local",
        expected="10.96.0.1",
    )


def asked(one: Probe) -> list[tuple[str, int, str, str]]:
    """What the script asks: kind, source, target, URL."""
    lines = [line.split(" ") for line in questions(one).splitlines() if line.startswith(("dns ", "pair ", "service "))]
    return [(what, int(source), target, url) for what, source, target, url in lines]


def answers(one: Probe, spoil: Callable[[str, int, str], str | None] = lambda *_: None) -> str:
    """The answers of a network where all is well, but for what `spoil` answers instead."""
    lines = []
    for what, source, target, _ in asked(one):
        right = {
            "dns": {"output": NSLOOKUP},
            "pair": {"responses": [f"probe-{target}"]},
            "service": {"responses": [f"probe-{index}" for index in one.addresses]},
        }[what]
        spoiled = spoil(what, source, target)
        lines.append(f"{what} {source} {target} {json.dumps(right) if spoiled is None else spoiled}")
    return "\n".join(lines)


def test_few_nodes_are_all_asked_about_each_other() -> None:
    assert sample_of(["a", "b", "c"]).pairs == ((0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1))
    assert sample_of(["a"]).pairs == ()


@pytest.mark.parametrize("count", [9, 50, 51, 1000])
def test_many_nodes_make_a_ring_that_is_bounded(count: int) -> None:
    sample = sample_of([f"n{index}" for index in range(count)])
    assert len(sample.nodes) == min(count, 50)
    assert len(set(sample.nodes)) == len(sample.nodes)
    assert len(sample.pairs) == 2 * len(sample.nodes)
    assert all((b, a) in sample.pairs for a, b in sample.pairs)


def test_a_network_where_all_is_well() -> None:
    assert read_answers(probe(), answers(probe())) == []
    assert read_answers(probe(1), answers(probe(1))) == []


def test_each_pod_is_asked_for_a_name_every_other_pod_and_the_service() -> None:
    found = asked(probe())
    assert len(found) == 3 * (1 + 2 + 1)
    first = [(what, target) for what, source, target, _ in found if source == 0]
    assert first == [("dns", "-"), ("pair", "1"), ("pair", "2"), ("service", "-")]
    url = urlsplit(next(url for what, _, target, url in found if what == "pair" and target == "2"))
    assert url.netloc == f"10.244.0.5:{PORT}"
    assert parse_qs(url.query)["host"] == ["10.244.2.5"]
    command = parse_qs(urlsplit(found[0][3]).query)["cmd"]
    assert command == ["timeout 5 nslookup kubernetes.default.svc.cluster.local 10.96.0.10"]


def test_addresses_of_ipv6_are_written_as_urls_have_them() -> None:
    one = Probe(
        sample=sample_of(["a"]),
        addresses={0: "fd00::5"},
        service="fd00::7",
        dns="fd00::10",
        name="x",
        expected="fd00::1",
    )
    assert asked(one)[0][3].startswith(f"http://[fd00::5]:{PORT}/")


def test_nodes_that_cannot_reach_each_other_are_named() -> None:
    def cut(what: str, source: int, target: str) -> str | None:
        if what == "pair" and (source == 2 or target == "2"):
            return json.dumps({"errors": ["dial tcp: i/o timeout"]})
        return None

    faults = read_answers(probe(), answers(probe(), cut))
    assert "a pod on node0 cannot reach a pod on node2: dial tcp: i/o timeout" in faults
    assert len(faults) == 4


def test_a_pod_that_cannot_be_asked_is_named() -> None:
    faults = read_answers(
        probe(2), answers(probe(2), lambda what, source, target: "! timed out" if source == 1 else None)
    )
    assert faults[0] == "a pod on node0 cannot reach the pod on node1: timed out"


def test_another_pod_that_answers_is_no_proof() -> None:
    wrong = answers(probe(2), lambda what, *_: '{"responses": ["elsewhere"]}' if what == "pair" else None)
    assert "another pod answered" in read_answers(probe(2), wrong)[0]


@pytest.mark.parametrize("output", [NSLOOKUP.replace("10.96.0.1\n", "10.96.0.12\n"), "connection timed out", ""])
def test_a_wrong_address_is_no_answer_though_the_servers_own_starts_alike(output: str) -> None:
    wrong = answers(probe(1), lambda what, *_: json.dumps({"output": output}) if what == "dns" else None)
    [fault] = read_answers(probe(1), wrong)
    assert fault.startswith("kubernetes.default.svc.cluster.local cannot be looked up at 10.96.0.10 from node0")


def test_a_service_that_always_answers_from_one_pod_does_not_balance() -> None:
    one = answers(probe(), lambda what, *_: '{"responses": ["probe-0"]}' if what == "service" else None)
    assert read_answers(probe(), one) == ["the service balances over 1 of 3 pods only"]


def test_answers_that_are_missing_are_told() -> None:
    whole = answers(probe())
    assert read_answers(probe(), whole.rpartition("\n")[0]) == ["the pod on node2 was not asked"]
    assert len(read_answers(probe(), "")) == 3
    assert "gave no answer" in read_answers(probe(1), "dns 0 - <html>\nservice 0 - {}")[0]


def test_names_are_waited_for_in_the_pod_but_not_for_ever(tmp_path: Path) -> None:
    for name, script in (("wget", "exit 1"), ("nslookup", f'echo "$*" >>{tmp_path}/asked; [ -e {tmp_path}/up ]')):
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)

    def ask(seconds: int) -> int:
        given = questions(probe(1), seconds=seconds).encode()
        shell = shutil.which("dash") or "bash"  # one that runs what is on PATH, not programs of its own
        subprocess.run([shell], input=given, env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, capture_output=True, check=True)
        lines = (tmp_path / "asked").read_text().splitlines()
        (tmp_path / "asked").unlink()
        assert set(lines) == {"kubernetes.default.svc.cluster.local 10.96.0.10"}
        return len(lines)

    assert ask(0) == 1
    assert ask(1) > 1
    (tmp_path / "up").touch()
    assert ask(60) == 1


def test_the_script_asks_with_any_shell_and_keeps_answers_apart(tmp_path: Path) -> None:
    tool = tmp_path / "wget"
    tool.write_text(
        "#!/bin/sh\nfor last; do :; done\ncase $last in *10.244.1.5*/shell*) echo broken >&2; exit 1;; esac\n"
        'printf \'{"url":\\n"%s"}\' "$last"\n'
    )
    tool.chmod(0o755)
    # BusyBox's shell prefers its own wget to the one on PATH and would ask the addresses for real: it only parses.
    if (box := shutil.which("busybox")) is not None:
        subprocess.run([box, "sh", "-n"], input=questions(probe()).encode(), check=True, capture_output=True)
    for shell in filter(None, map(shutil.which, ("dash", "bash"))):
        result = subprocess.run(
            [shell],
            input=questions(probe()).encode(),
            env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
            capture_output=True,
            check=True,
        )
        lines = result.stdout.decode().splitlines()
        assert len(lines) == len(asked(probe()))
        assert "dns 1 - ! broken" in lines
        said = {tuple(line.split(" ", 3)[:3]): line.split(" ", 3)[3] for line in lines}
        assert json.loads(said["pair", "2", "0"])["url"] == next(
            url for what, source, target, url in asked(probe()) if (what, source, target) == ("pair", 2, "0")
        )
