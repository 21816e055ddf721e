"""Preflight on real hosts: fit ones pass, defects are found with their remedies, and --fix mends what is safe."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kubexm.lab import Lab
from tests.cluster.commands import edit


@dataclass(frozen=True)
class Outcome:
    """What `kubexm preflight` said."""

    exit_code: int
    errors: dict[tuple[str, str], tuple[str, str]]
    """Message and remedy, by (check, host)."""
    warnings: dict[tuple[str, str], list[str]]
    states: dict[tuple[str, str], str]


def preflight(file: Path, *options: str) -> Outcome:
    """Runs the command as a user would, and reads its stream of events."""
    words = [sys.executable, "-m", "kubexm", "preflight", "-f", str(file), "-o", "json", *options]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, cwd=file.parent, check=False)
    events: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    ended = [event for event in events if event["kind"] == "unit.done"]
    assert ended, done.stderr

    def name(event: dict[str, Any]) -> tuple[str, str]:
        return event["node"].rpartition(".")[2], event["host"]

    return Outcome(
        exit_code=done.returncode,
        errors={
            name(event): (event["data"]["error"]["message"], event["data"]["error"].get("hint", ""))
            for event in ended
            if "error" in event["data"]
        },
        warnings={name(event): event["data"]["warnings"] for event in ended if "warnings" in event["data"]},
        states={name(event): event["data"]["state"] for event in ended},
    )


def sh(lab: Lab, host: str, script: str) -> str:
    """Runs a script on a host, as root."""
    words = [sys.executable, "-m", "kubexm", "lab", "ssh", "--name", lab.name, host, script]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=True).stdout


def test_plain_hosts_are_fit(lab: Lab) -> None:
    outcome = preflight(lab.cluster_file)
    assert outcome.errors == {}
    assert outcome.exit_code == 0
    assert set(outcome.states.values()) == {"satisfied"}
    assert {check for check, _ in outcome.warnings} <= {"cgroup"}, "hosts of a lab may be on cgroup v1"


def test_ports_that_are_closed_between_hosts_are_found(lab: Lab) -> None:
    target = lab.hosts[1].name
    sh(lab, target, "iptables -I INPUT -p tcp --dport 6443 -j DROP; iptables -I INPUT -p tcp --dport 2380 -j REJECT")
    try:
        outcome = preflight(lab.cluster_file)
    finally:
        sh(
            lab,
            target,
            "iptables -D INPUT -p tcp --dport 6443 -j DROP; iptables -D INPUT -p tcp --dport 2380 -j REJECT",
        )
    others = {host.name for host in lab.hosts} - {target}
    assert {host for check, host in outcome.errors if check == "reachability"} == others
    message, remedy = outcome.errors["reachability", lab.hosts[0].name]
    assert f"it does not reach {target} " in message
    assert "6443 (kube-apiserver): no answer" in message
    assert "firewall" in remedy
    assert outcome.exit_code == 1


@pytest.mark.skipif(
    Path("/proc/net/ip_vs").exists() or any(Path("/lib/modules").glob("*/**/ip_vs.ko*")),
    reason="the kernel of this machine has ip_vs",
)
def test_ipvs_is_refused_where_the_kernel_has_none(lab: Lab, tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(lab.cluster_file.read_text())
    conntrack = {"maxPerCore": 0, "min": 0}
    edit(file, kubernetes={"kubeProxy": {"mode": "ipvs", "config": {"conntrack": conntrack}}})
    outcome = preflight(file)
    assert outcome.exit_code == 1
    assert set(outcome.errors) == {("modules", host.name) for host in lab.hosts}
    message, remedy = outcome.errors["modules", "n1"]
    assert "has no ip_vs" in message
    assert "or set kubernetes.kubeProxy.mode to nftables or iptables" in remedy


@pytest.fixture(scope="module")
def defective(make_lab: Callable[..., Lab]) -> Lab:
    """A control plane with defects, a host with no Python, and one whose sudo asks for a password."""
    return make_lab(topology="1+2", flavours={"n1": "defects", "n2": "nopython", "n3": "sudo-password"})


def test_defects_are_found_and_mended_as_far_as_is_safe(defective: Lab) -> None:
    file = defective.cluster_file
    found = preflight(file)
    assert list(found.errors) == [("ports", "n1")]
    message, remedy = found.errors["ports", "n1"]
    assert message.startswith("tcp port 6443, for kube-apiserver, is used by socat (pid ")
    assert remedy == "stop it, or choose another with controlPlaneEndpoint.port"
    assert "swap is on: /swapfile" in found.warnings["swap", "n1"][0]
    assert found.exit_code == 1

    dry = preflight(file, "--fix", "--dry-run")
    assert ("ports", "n1") in dry.errors
    assert "/swapfile" in sh(defective, "n1", "cat /proc/swaps")

    mended = preflight(file, "--fix")
    assert mended.states["swap", "n1"] == "succeeded"
    assert {mended.states["forwarding", host] for host in ("n1", "n2", "n3")} == {"succeeded"}
    assert list(mended.errors) == [("ports", "n1")], "what --fix cannot mend is still told"
    assert "/swapfile" not in sh(defective, "n1", "cat /proc/swaps; grep -v '^#' /etc/fstab || :")
    assert sh(defective, "n2", "cat /proc/sys/net/ipv4/ip_forward").strip() == "1"

    sh(defective, "n1", "systemctl disable --now occupied-port.service")
    again = preflight(file, "--fix")
    assert again.errors == {}
    assert set(again.states.values()) == {"satisfied"}, "a second run changes nothing"
    assert preflight(file).exit_code == 0


def test_a_host_of_another_cluster_is_refused(defective: Lab) -> None:
    mark = json.dumps({"uid": "5f1d", "name": "elsewhere"})
    sh(defective, "n2", f"mkdir -p /var/lib/kubexm && echo '{mark}' >/var/lib/kubexm/cluster.json")
    try:
        outcome = preflight(defective.cluster_file)
    finally:
        sh(defective, "n2", "rm /var/lib/kubexm/cluster.json")
    assert outcome.errors["membership", "n2"][0] == "it belongs to the cluster elsewhere"


async def test_two_at_once_do_not_disturb_each_other(lab: Lab) -> None:
    outcomes = await asyncio.gather(*(asyncio.to_thread(preflight, lab.cluster_file) for _ in range(2)))
    assert [outcome.exit_code for outcome in outcomes] == [0, 0]
