"""kubexm as most people run it: an ordinary user without sudo here, the system's own Python, sudo on the hosts."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from kubexm.lab import Lab
from kubexm.lab.places import cache_directory
from kubexm.lab.sources import built_bundle
from tests.cluster.commands import ready_nodes
from tests.cluster.conftest import MakeLab
from tests.cluster.host_snapshot import allowed_to_differ, take
from tests.cluster.marks import BUNDLE, PATIENT

USER = os.environ.get("KUBEXM_ORDINARY_USER", "")
TOOL = Path(__file__).parents[2] / "tools" / "ordinary-user"

pytestmark = [
    PATIENT,
    BUNDLE,
    pytest.mark.skipif(not USER, reason="no ordinary user was made for it: .ci/run makes one where it is root"),
]


@dataclass(frozen=True)
class Person:
    """An ordinary user with a cluster file, and copies of what it names that belong to nobody else."""

    place: Path

    def run(self, *words: str, timeout: float = 900) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [TOOL, "run", *words], capture_output=True, text=True, timeout=timeout, check=False, cwd=TOOL.parents[1]
        )

    def kubexm(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.run(".venv/bin/kubexm", *words, "-f", str(self.place / "cluster.yaml"))


def person_with(lab: Lab) -> Person:
    """Gives the user what the lab's cluster file names: key, known hosts, sudo password, bundle."""
    entry = pwd.getpwnam(USER)
    place = Path(entry.pw_dir) / lab.name
    place.mkdir()
    text = lab.cluster_file.read_text()
    bundle = built_bundle(cache_directory())
    assert bundle is not None
    access = lab.access
    for source in (access.private_key, access.known_hosts, access.sudo_password_file, bundle.path):
        target = place / source.name
        if source.is_dir():
            shutil.copytree(source, target)
        else:
            shutil.copy(source, target)
        assert str(source) in text
        text = text.replace(str(source), str(target))
    (place / "cluster.yaml").write_text(text)
    subprocess.run(["chown", "-R", f"{entry.pw_uid}:{entry.pw_gid}", place], check=True)
    return Person(place)


def test_a_cluster_is_made_and_deleted_by_a_user_who_has_no_sudo(fresh_lab: MakeLab) -> None:
    lab = fresh_lab(topology="1+1", flavours={"n2": "sudo-password"})
    person = person_with(lab)
    assert person.run("sudo", "-n", "true").returncode != 0, "this user must not have sudo here"
    before = take(lab, "n1")
    for words in (("preflight",), ("create", "cluster"), ("verify",)):
        done = person.kubexm(*words)
        assert done.returncode == 0, (words, done.stdout[-2000:], done.stderr[-2000:])
    assert ready_nodes(lab) == {"n1", "n2"}
    again = person.kubexm("create", "cluster", "-o", "json")
    results = [event["data"] for event in map(json.loads, again.stdout.splitlines()) if event["kind"] == "result"]
    assert [result["changed"] for result in results] == [False], again.stdout[-2000:]
    done = person.kubexm("delete", "cluster", "--yes")
    assert done.returncode == 0, (done.stdout[-2000:], done.stderr[-2000:])
    found = before.differences(take(lab, "n1"), allowed_to_differ())
    assert not found, found
