"""The real HAProxy on a lab host, in front of small TLS servers that stand for API servers on others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from kubexm.components.haproxy import LoadBalancer
from kubexm.components.pki.module import Pki
from kubexm.lab import Lab
from kubexm.lab.bundle import BundleBuild, PlainProgress
from tests.cluster.conftest import MakeLab
from tests.cluster.marks import LONG
from tests.cluster.parts import HostsReady, Parts

pytestmark = LONG

VERSION = "v1.34.4"
WIPE = """
for unit in kubexm-haproxy api; do systemctl disable --now $unit 2>/dev/null; done
rm -rf /etc/systemd/system/kubexm-haproxy* /etc/systemd/system/api.service /root/*
rm -rf /etc/kubexm /opt/kubexm /var/lib/kubexm
systemctl daemon-reload; systemctl reset-failed 2>/dev/null; userdel kubexm-haproxy 2>/dev/null; :
"""
# Answers /readyz as /root/unready says, and everything else with its name; as many requests on a connection as come.
SERVER = """#!/bin/sh
while read -r method path version; do
  while read -r header; do [ ${#header} -le 1 ] && break; done
  status='200 OK' body=$(hostname)
  if [ "$path" = /readyz ] && [ -e /root/unready ]; then status='500 Not Ready'; fi
  if [ "$path" = /readyz ] && [ -e /root/unknown ]; then status='401 Unauthorized'; fi
  printf 'HTTP/1.1 %s\\r\\nContent-Length: %s\\r\\n\\r\\n%s' "$status" ${#body} "$body"
done
"""
UNIT = """[Service]
ExecStart=/usr/bin/socat \\
    OPENSSL-LISTEN:6443,fork,reuseaddr,cert=/root/api.crt,key=/root/api.key,verify=0 EXEC:/root/server
"""
ASK = "curl -s --max-time 5 --cacert /etc/kubexm/haproxy/ca.crt https://127.0.0.1:6443/"


@pytest.fixture(scope="module")
def bundle() -> Path:
    """The bundle of one Kubernetes version, from the user's cache."""
    return BundleBuild([VERSION], progress=PlainProgress(print)).run(install=True)


@pytest.fixture(scope="module")
def hosts(make_lab: MakeLab) -> Iterator[Lab]:
    """Two control planes, n1 and n2, and a plain node, n3."""
    lab = make_lab(topology="2+1")
    yield lab
    lab.down()


class Balanced(Parts):
    """A balancer on n3 before n1 and n2."""

    async def serve(self, *names: str, secret: str = "pki.apiserver.{host}") -> None:
        """Starts a server on these hosts, with a certificate of the cluster's."""
        for name in names:
            for kind in ("crt", "key"):
                content = self.secret(f"{secret.format(host=name)}.{kind}").read_text()
                await self.sh(name, f"umask 077; cat >/root/api.{kind} <<'END'\n{content}\nEND")
            await self.sh(name, f"cat >/root/server <<'END'\n{SERVER}END\nchmod +x /root/server")
            await self.sh(name, f"cat >/etc/systemd/system/api.service <<'END'\n{UNIT}END")
            await self.sh(name, "systemctl daemon-reload && systemctl restart api")

    async def answers(self, times: int = 10) -> dict[str, int]:
        """Who answers on the node's own way to the API, and how often; nobody is ''."""
        said = await self.sh("n3", f'for i in $(seq {times}); do echo "answer:$({ASK})"; done')
        found: dict[str, int] = {}
        for line in said.splitlines():
            name = line.removeprefix("answer:")
            found[name] = found.get(name, 0) + 1
        return found

    async def until(self, holds: Callable[[dict[str, int]], bool], what: str) -> dict[str, int]:
        """Waits until the answers are so."""
        for _ in range(60):
            found = await self.answers()
            if holds(found):
                return found
            await asyncio.sleep(0.5)
        pytest.fail(f"{what}: {found}")

    async def both(self) -> None:
        """Waits until both servers answer."""
        await self.until(lambda found: set(found) == {"n1", "n2"}, "both servers are used")


@pytest.fixture
async def balanced(hosts: Lab, bundle: Path, tmp_path: Path) -> AsyncIterator[Balanced]:
    """Hosts with nothing of this on them."""
    made = Balanced(hosts, bundle, tmp_path, (Pki, HostsReady, LoadBalancer), {"kubernetes": {"version": VERSION}})
    await made.everywhere(WIPE)
    yield made
    await made.everywhere(WIPE)


async def test_it_listens_though_no_api_server_is_there_yet(balanced: Balanced) -> None:
    outcome = (await balanced.run()).ok()
    assert ("haproxy.install.start", "n3") in outcome.changed
    listening = await balanced.sh("n3", "ss -H -l -t -n sport = :6443")
    assert "127.0.0.1:6443" in listening
    assert "0.0.0.0" not in listening.replace("0.0.0.0:*", ""), "for the node itself alone"
    assert await balanced.answers(1) == {"": 1}
    status = await balanced.sh("n3", "cat /proc/$(systemctl show -p MainPID --value kubexm-haproxy)/status")
    (uid,) = [line.split()[1] for line in status.splitlines() if line.startswith("Uid:")]
    assert uid == await balanced.sh("n3", "id -u kubexm-haproxy")
    assert "CapEff:\t0000000000000000" in status
    assert await balanced.sh("n3", "readlink /proc/$(systemctl show -p MainPID --value kubexm-haproxy)/root") == "/"
    assert (await balanced.run()).ok().changed == []
    assert await balanced.sh("n1", "systemctl cat kubexm-haproxy 2>/dev/null", check=False) == "", (
        "not on control planes"
    )


async def test_who_is_not_ready_gets_nothing(balanced: Balanced) -> None:
    (await balanced.run()).ok()
    await balanced.serve("n1", "n2")
    await balanced.both()
    await balanced.sh("n1", "touch /root/unready")
    await balanced.until(lambda found: set(found) == {"n2"}, "only the one that is ready is used")
    await balanced.sh("n1", "rm /root/unready; touch /root/unknown")
    await balanced.both()  # who lets nobody ask without a name is there, and more cannot be known


async def test_one_that_dies_costs_no_request(balanced: Balanced) -> None:
    (await balanced.run()).ok()
    await balanced.serve("n1", "n2")
    await balanced.both()
    await balanced.sh("n1", "systemctl kill -s KILL api")
    assert await balanced.answers(30) == {"n2": 30}
    balanced.lab.kill("n1")
    try:
        assert await balanced.answers(5) == {"n2": 5}
    finally:
        await asyncio.to_thread(balanced.lab.start, "n1")


async def test_a_host_that_goes_dark_is_left_out_and_its_connections_are_cut(balanced: Balanced) -> None:
    (await balanced.run()).ok()
    await balanced.serve("n1")
    await balanced.until(lambda found: set(found) == {"n1"}, "the one that is there is used")
    hold = "(printf 'GET /a HTTP/1.1\\r\\n\\r\\n'; sleep 90) | openssl s_client -quiet -connect 127.0.0.1:6443"
    await balanced.sh("n3", f"cat >/root/hold <<'END'\n{hold} >/root/held 2>&1\nEND")
    await balanced.sh("n3", "setsid sh /root/hold >/dev/null 2>&1 </dev/null &")
    await balanced.sh("n3", "for i in $(seq 100); do grep -q 200 /root/held && exit 0; sleep 0.1; done; exit 1")
    await balanced.serve("n2")
    await balanced.both()
    balanced.lab.cut("n1")
    try:
        await balanced.until(lambda found: found == {"n2": 10}, "the other one is used")
        ended = "for i in $(seq 300); do ps -C openssl >/dev/null || exit 0; sleep 0.1; done; exit 1"
        await balanced.sh("n3", ended)
    finally:
        balanced.lab.heal("n1")
    await balanced.both()


async def test_a_server_that_is_not_the_clusters_is_not_trusted(balanced: Balanced) -> None:
    (await balanced.run()).ok()
    await balanced.serve("n1")
    await balanced.serve("n2", secret="pki.etcd-ca")
    found = await balanced.until(lambda found: "n1" in found and "" not in found, "the right one is used")
    assert set(found) == {"n1"}


async def test_a_reload_drops_no_connection(balanced: Balanced) -> None:
    (await balanced.run()).ok()
    await balanced.serve("n1", "n2")
    await balanced.both()
    before = await balanced.sh("n3", "systemctl show -p MainPID --value kubexm-haproxy")
    hold = (
        "(printf 'GET /a HTTP/1.1\\r\\n\\r\\n'; while ! [ -e /root/go ]; do sleep 0.1; done; "
        "printf 'GET /b HTTP/1.1\\r\\n\\r\\n'; sleep 2) "
        "| openssl s_client -quiet -no_ign_eof -connect 127.0.0.1:6443 2>/dev/null"
    )
    again = f'n=$((n + 1)); [ -n "$({ASK})" ] || bad=$((bad + 1))'
    storm = f"n=0 bad=0; while ! [ -e /root/go ]; do {again}; done; echo $n $bad"
    await balanced.sh(
        "n3",
        f"""cat >/root/hold <<'END'
{hold} >/root/held; touch /root/ended
END
cat >/root/storm <<'END'
{storm} >/root/storm.out; touch /root/over
END
for s in hold storm; do setsid sh /root/$s >/dev/null 2>&1 </dev/null & done
for i in $(seq 100); do grep -q HTTP/1.1 /root/held && exit 0; sleep 0.1; done; exit 1""",
    )
    balanced.spec["roleGroups"] = {
        "etcd": ["n1"],
        "controlPlane": ["n1", "n2"],
        "worker": ["n3"],
        "loadbalancer": ["n3"],
    }
    outcome = (await balanced.run()).ok()
    changed = [node for node, _ in outcome.changed if not node.startswith("pki.")]
    assert changed == ["haproxy.install.files", "haproxy.install.start"]
    await balanced.sh(
        "n3", "systemctl reload kubexm-haproxy; sleep 1; systemctl reload kubexm-haproxy; sleep 1; touch /root/go"
    )
    await balanced.sh(
        "n3", "for i in $(seq 100); do [ -e /root/ended ] && [ -e /root/over ] && exit 0; sleep 0.1; done; exit 1"
    )
    held = await balanced.sh("n3", "cat /root/held")
    assert held.count("HTTP/1.1 200 OK") == 2, "the second request went over the connection from before"
    asked, bad = map(int, (await balanced.sh("n3", "cat /root/storm.out")).split())
    assert asked > 10
    assert bad == 0
    assert await balanced.sh("n3", "systemctl show -p MainPID --value kubexm-haproxy") == before
    await balanced.serve("n1", "n2")  # with certificates that name the entrance too
    await balanced.both()
    address = balanced.lab.hosts[2].address
    known = "--cacert /root/ca.crt"
    await balanced.sh("n1", "cat >/root/ca.crt <<'END'\n" + balanced.secret("pki.ca.crt").read_text() + "END")
    assert await balanced.sh("n1", f"curl -s --max-time 5 {known} https://{address}:6443/") in ("n1", "n2"), (
        "from outside"
    )
    assert (await balanced.run()).ok().changed == []


async def test_what_is_killed_comes_back(balanced: Balanced) -> None:
    (await balanced.run()).ok()
    await balanced.serve("n1", "n2")
    await balanced.both()
    await balanced.sh("n3", "systemctl kill -s KILL kubexm-haproxy")
    await balanced.both()
    assert (await balanced.run()).ok().changed == []
