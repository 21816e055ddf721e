"""Programs staged by version on real hosts: links, facts, pruning, taking over an older layout, and delete."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable

import pytest

from kubexm.lab import Lab
from tests.cluster.commands import assert_nothing_to_do, create, kubexm
from tests.cluster.host_snapshot import Snapshot, allowed_to_differ, take
from tests.cluster.marks import BUNDLE, PATIENT

pytestmark = [PATIENT, BUNDLE]

PROGRAMS = "/opt/kubexm/programs"
SHIMS = "/run/containerd/io.containerd.runtime.v2.task/k8s.io/*/shim-binary-path"
LINKED = ("/usr/local/bin/kubelet", "/usr/local/bin/containerd", "/usr/local/sbin/runc", "/opt/cni/bin/bridge")
# As kubexm 0.1 left hosts: programs where the links are, with stamps below its own directory.
OLDER = f"""
for link in /usr/local/bin/* /usr/local/sbin/* /opt/cni/bin/*; do
  case $(readlink -- "$link") in
    {PROGRAMS}/*) cp -L -- "$link" "$link.old" && mv -f -- "$link.old" "$link" || exit 1 ;;
  esac
done
for name in {PROGRAMS}/*; do
  mkdir -p /var/lib/kubexm/assets && sed "s|{PROGRAMS}/[^/]*/[^/]*/bin|/usr/local/bin|" "$name/current/stamp" \\
    >"/var/lib/kubexm/assets/${{name##*/}}" || exit 1
done
rm -rf {PROGRAMS}
systemctl restart containerd kubelet
"""
# Of the cluster's own pods: those of the proof come and go.
LISTED = "crictl ps -q --label io.kubernetes.pod.namespace=kube-system | sort"
CONTAINERS = f"for c in $({LISTED}); do echo $c; crictl inspect -o json $c | grep -m 1 startedAt; done"


@pytest.fixture(scope="module")
def lab(make_lab: Callable[..., Lab]) -> Lab:
    return make_lab(topology="1+1")


def sh(lab: Lab, host: str, script: str) -> str:
    return lab.run(host, script, user="root").strip()


def names(lab: Lab) -> list[str]:
    return [host.name for host in lab.hosts]


@pytest.fixture(scope="module")
def before(lab: Lab) -> dict[str, Snapshot]:
    """How the hosts were, and a cluster on them."""
    found = {name: take(lab, name) for name in names(lab)}
    create(lab)
    return found


def test_programs_are_started_through_links_to_their_version(lab: Lab, before: dict[str, Snapshot]) -> None:
    for name in names(lab):
        for link in LINKED:
            program = link.rpartition("/")[2] if "cni" not in link else "cni-plugins"
            assert sh(lab, name, f"readlink {link}").startswith(f"{PROGRAMS}/{program}/current/bin/")
            assert sh(lab, name, f"readlink -f {link}").startswith(f"{PROGRAMS}/{program}/v")
        exe = sh(lab, name, "readlink /proc/$(systemctl show -P MainPID kubelet)/exe")
        assert exe.startswith(f"{PROGRAMS}/kubelet/v1.")
        shims = sh(lab, name, f"grep -h '' {SHIMS} | sort -u")
        assert shims == "/usr/local/bin/containerd-shim-runc-v2", "through the link that stays"


def test_facts_tell_what_each_host_runs(lab: Lab, before: dict[str, Snapshot]) -> None:
    line = [sys.executable, "-m", "kubexm", "facts", "-f", str(lab.cluster_file), "-o", "json"]
    found = json.loads(subprocess.run(line, capture_output=True, text=True, check=True).stdout)
    for name in names(lab):
        running = {one["name"]: one["version"] for one in found[name]["programs"]["running"]}
        version = sh(lab, name, "/usr/local/bin/kubelet --version").split()[-1]
        assert running["kubelet"] == running["kube-proxy"] == version
        assert running["containerd"] in sh(lab, name, "/usr/local/bin/containerd --version")
    first = {one["name"]: one["version"] for one in found[names(lab)[0]]["programs"]["running"]}
    assert {"kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd"} <= set(first)


def test_versions_that_nothing_uses_are_pruned(lab: Lab, before: dict[str, Snapshot]) -> None:
    unused, used = f"{PROGRAMS}/runc/v0.0.1/bin", f"{PROGRAMS}/runc/v0.0.2/bin"
    for name in names(lab):
        sh(lab, name, f"mkdir -p {unused} {used}; cp /bin/sleep {used}/")
        sh(lab, name, f"setsid {used}/sleep 3600 >/dev/null 2>&1 </dev/null & echo $! >/run/sleeper")
    done = create(lab)
    assert "programs.prune.unused" in done.changed
    assert done.changed <= {"programs.prune.unused", "verify.probe.workloads"}, "and the proof that follows a change"
    for name in names(lab):
        left = sh(lab, name, f"ls {PROGRAMS}/runc").split()
        assert "v0.0.1" not in left
        assert "v0.0.2" in left, "a process runs it"
        sh(lab, name, "kill $(cat /run/sleeper); rm /run/sleeper")
    create(lab)
    for name in names(lab):
        assert "v0.0.2" not in sh(lab, name, f"ls {PROGRAMS}/runc").split()
    assert_nothing_to_do(lab)


def test_programs_of_an_older_layout_are_taken_over_and_containers_go_on(lab: Lab, before: dict[str, Snapshot]) -> None:
    for name in names(lab):
        sh(lab, name, OLDER)
    running = {name: sh(lab, name, CONTAINERS) for name in names(lab)}
    create(lab)
    assert {name: sh(lab, name, CONTAINERS) for name in names(lab)} == running
    for name in names(lab):
        assert sh(lab, name, "readlink /usr/local/bin/kubelet") == f"{PROGRAMS}/kubelet/current/bin/kubelet"
    assert_nothing_to_do(lab)


def test_delete_leaves_nothing(lab: Lab, before: dict[str, Snapshot]) -> None:
    done = kubexm(lab.cluster_file, "delete", "cluster", "--yes")
    assert done.exit_code == 0, done.stderr[-2000:]
    for name in names(lab):
        assert not sh(lab, name, "ls -d /opt/kubexm 2>/dev/null; :")
        found = before[name].differences(take(lab, name), allowed_to_differ())
        assert not found, (name, found)
