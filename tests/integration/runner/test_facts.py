"""Facts of this very machine, through the real script."""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path
from typing import Any

import pytest

from kubexm.runner import Facts, Runner
from kubexm.runner.facts import normal_arch


async def test_facts_of_this_machine(sandbox: Any, runner: Runner) -> None:
    facts = await runner.gather_facts(sandbox)
    assert facts.arch == normal_arch(platform.machine())
    assert facts.kernel.release == platform.release()
    assert facts.hostname == platform.node()
    assert facts.cpu.count == len(os.sched_getaffinity(0))
    assert facts.memory.total == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert facts.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert facts.filesystem_of("/var/lib/etcd") is not None
    assert "lo" in {interface.name for interface in facts.network.interfaces}
    assert abs(facts.clock.offset) <= facts.clock.error + 0.05
    assert "CAP_CHOWN" in facts.security.capabilities
    assert facts.uid == 0
    assert facts.marker is None
    assert facts.has_command("sha256sum")
    assert Facts.from_dict(json.loads(json.dumps(facts.to_dict()))) == facts


async def test_facts_without_ip_and_ss_are_the_same(sandbox: Any, runner: Runner) -> None:
    full = await runner.gather_facts(sandbox)
    sandbox.sh("rm -f /bin/ip /sbin/ip /usr/bin/ip /usr/sbin/ip /bin/ss /sbin/ss /usr/bin/ss /usr/sbin/ss")
    bare = await runner.gather_facts(sandbox)
    assert not bare.has_command("ip")
    for mine, theirs in zip(bare.network.interfaces, full.network.interfaces, strict=True):
        assert set(mine.addresses) == set(theirs.addresses)
    assert bare.network.route4 == full.network.route4
    assert bare.network.route6 == full.network.route6
    known = {(port.protocol, port.port) for port in full.ports}
    assert {(port.protocol, port.port) for port in bare.ports} >= {p for p in known if p[0] == "tcp"}


async def test_what_kubexm_left_is_read_with_the_facts(sandbox: Any, runner: Runner) -> None:
    sandbox.sh(
        "mkdir -p /var/lib/kubexm/stamps && cd /var/lib/kubexm && touch stamps/etcd.service && "
        """echo '{"uid": "u-1", "name": "prod", "caFingerprint": "aa", "roles": ["etcd"]}' >cluster.json && """
        "echo '7 me%40laptop run-1 1700000000' >lease"
    )
    facts = await runner.gather_facts(sandbox)
    assert facts.marker is not None
    assert (facts.marker.uid, facts.marker.name, facts.marker.roles) == ("u-1", "prod", ("etcd",))
    assert facts.lease is not None
    assert (facts.lease.token, facts.lease.owner, facts.lease.run) == (7, "me@laptop", "run-1")
    assert facts.presence.stamps == ("etcd.service",)
    sandbox.sh("echo broken >/var/lib/kubexm/cluster.json")
    facts = await runner.gather_facts(sandbox)
    assert facts.marker is not None
    assert facts.marker.uid == "unreadable"


async def test_leftovers(sandbox: Any, runner: Runner) -> None:
    sandbox.sh("mkdir -p /etc/kubernetes/manifests /var/lib/etcd /opt/cni/bin && touch /var/lib/etcd/.hidden")
    facts = await runner.gather_facts(sandbox)
    assert set(facts.presence.paths) >= {"/etc/kubernetes", "/var/lib/etcd"}
    assert not {"/etc/kubernetes/manifests", "/opt/cni/bin"} & set(facts.presence.paths)


@pytest.mark.parametrize("shell", ["dash", "bash"])
async def test_the_script_is_fine_in_both_shells(sandbox: Any, runner: Runner, shell: str) -> None:
    sandbox.sh(f"ln -sf $(command -v {shell}) /bin/sh")
    assert (await runner.gather_facts(sandbox)).hostname == platform.node()
