"""Backup sets of real clusters: stacked and systemd etcd, a member that is down, a killed backup, and what is left."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kubexm.components.backup.age import open_sealed, parse_identity
from kubexm.components.backup.sealed import unpack
from kubexm.lab import Lab
from tests.cluster.commands import create, edit, killed, kubexm, started_kubexm
from tests.cluster.marks import BUNDLE, LONG, PATIENT

pytestmark = [LONG, PATIENT, BUNDLE]


def local(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kubexm", "backup", *words], capture_output=True, text=True, check=False, cwd=cwd
    )


def listed(file: Path) -> list[dict[str, Any]]:
    done = local("list", "-f", str(file), "-o", "json", cwd=file.parent)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def assert_nothing_left(lab: Lab) -> None:
    for host in lab.hosts:
        assert lab.run(host.name, "sh", stdin="ls -d /var/lib/kubexm/backup 2>/dev/null || :") == "", host.name


@pytest.mark.parametrize(("topology", "etcd"), [("1+1", "kubeadm"), ("3+1", "kubexm")])
def test_a_cluster_is_backed_up_verified_and_pruned(
    fresh_lab: Callable[..., Lab], tmp_path: Path, topology: str, etcd: str
) -> None:
    lab = fresh_lab(topology=topology)
    file, key = lab.cluster_file, tmp_path / "backup.key"
    made = local("keygen", str(key), cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    edit(file, etcd={"type": etcd, "backup": {"recipients": [made.stdout.strip()]}})
    create(lab)

    first = kubexm(file, "backup", "now")
    assert first.exit_code == 0, (first.stderr[-2000:], first.errors)
    assert_nothing_left(lab)
    one = listed(file)[0]
    assert (one["status"], one["keys"]) == ("complete", "sealed")
    opened = local("verify", one["set"], "-f", str(file), "--identity", str(key), cwd=tmp_path)
    assert opened.returncode == 0, opened.stderr
    assert "sealed part opened and complete" in opened.stdout

    path = next(file.parent.glob(f".kubexm/*/backups/{one['set']}"))
    manifest = json.loads((path / "manifest.json").read_text())
    assert len(manifest["members"]) == (3 if topology == "3+1" else 1)
    assert manifest["encryption_keys"]
    contents = unpack(open_sealed((path / "secrets.age").read_bytes(), parse_identity(key.read_text())))
    ca_key = contents.files["secrets/pki.ca.key"]
    assert contents.files["cluster.yaml"] == file.read_bytes()
    for written in [*path.rglob("*"), *file.parent.glob(".kubexm/*/runs/*/**/*")]:
        if written.is_file():
            assert ca_key.splitlines()[1] not in written.read_bytes(), written

    if topology == "3+1":  # a member that is down costs nothing: another one is asked
        lab.run("n1", "systemctl", "stop", "etcd")
        down = kubexm(file, "backup", "now")
        assert down.exit_code == 0, (down.stderr[-2000:], down.errors)
        lab.run("n1", "systemctl", "start", "etcd")
    else:
        assert kubexm(file, "backup", "now").exit_code == 0

    cut = started_kubexm(file, "backup", "now", until="backup.set.fetch")
    killed(cut)
    assert len(listed(file)) in (2, 3)  # it may have been done already, never a half set
    again = kubexm(file, "runs", "resume", "last")
    assert again.exit_code == 0, (again.stderr[-2000:], again.errors)
    assert_nothing_left(lab)
    sets = listed(file)
    assert len(sets) == 3
    assert all(local("verify", each["set"], "-f", str(file), cwd=tmp_path).returncode == 0 for each in sets)

    pruned = local("prune", "-f", str(file), "--keep", "1", cwd=tmp_path)
    assert pruned.returncode == 0, pruned.stderr
    assert [each["set"] for each in listed(file)] == [sets[-1]["set"]]
