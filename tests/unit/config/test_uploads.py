"""Files made ready for a server: nothing of this machine is left in them, and nothing else is changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubexm.config import ConfigErrors, load, loads
from kubexm.config.remote import references
from kubexm.config.uploads import Upload, upload_of
from kubexm.errors import ConfigError

FILE = """\
apiVersion: kubexm.io/v1alpha1
kind: Cluster
metadata: {name: demo}
spec:
  global:
    workDir: ./work
    user: ops
    password: &p env:OPS_PW   # a comment
    sudoPassword: *p
    knownHostsFile: known
  hosts:
    - {name: n1, address: 10.0.0.1, password: "lit: eral", privateKeyPath: keys/id}
    - name: n2
      address: 10.0.0.2
      privateKey: |
        -----BEGIN KEY-----
        abc
        -----END KEY-----

    - name: n3
      address: 10.0.0.3
      password: secret:mine
      privateKeyPath: other/id
    - name: n4
      address: 10.0.0.4
      password: prompt
  roleGroups: {etcd: [n1], controlPlane: [n1], worker: [n2, n3, n4]}
  assets: {sources: [{bundle: /srv/far/away.kxb}]}
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OPS_PW", "from the environment")
    for name, text in (("keys/id", "one"), ("other/id", "two"), ("known", "n1 ssh-ed25519 AAAA")):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    path = tmp_path / "cluster.yaml"
    path.write_text(FILE)
    path.chmod(0o600)
    return path


def ready(file: Path) -> Upload:
    return upload_of(load(file), lambda what: f"typed for {what}")


def test_secrets_and_files_are_named_and_everything_else_stays(file: Path) -> None:
    made = ready(file)
    assert {name: secret.reveal() for name, secret in made.secrets.items()} == {
        "global.password": "from the environment",
        "hosts.0.password": "lit: eral",
        "hosts.1.privateKey": "-----BEGIN KEY-----\nabc\n-----END KEY-----\n",
        "hosts.3.password": "typed for spec.hosts[3].password",
    }
    assert made.files == {"known": b"n1 ssh-ed25519 AAAA", "id": b"one", "hosts.2.privateKeyPath.id": b"two"}
    assert made.bundles == {"away.kxb"}
    before, after = FILE.splitlines(), made.text.splitlines()
    assert len(after) == len(before), "what a server says of a line is of the same line here"
    assert after[7] == '    password: &p "secret:global.password"   # a comment'
    assert after[8] == "    sudoPassword: *p"
    assert after[5] == '    workDir: ""'
    changed = [number for number, (old, new) in enumerate(zip(before, after, strict=True), 1) if old != new]
    assert changed == [6, 8, 10, 12, 15, 16, 17, 18, 23, 26, 28]
    named = references(loads(made.text).cluster)
    assert named.secrets == {*made.secrets, "mine"}
    assert named.files >= set(made.files)


def test_what_a_server_has_by_its_name_needs_nothing_from_here(file: Path) -> None:
    once = ready(file)
    (file.parent / "known").unlink()
    file.write_text(once.text)
    again = ready(file)
    assert (again.text, again.secrets, again.files) == (once.text, {}, {})


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("keys/id", "keys", "is a directory"),
        ("keys/id", "keys/none", "cannot be read: No such file"),
        ("env:OPS_PW", "env:OPS_NONE", "OPS_NONE is not set"),
    ],
)
def test_what_cannot_be_read_says_where(file: Path, old: str, new: str, words: str) -> None:
    file.write_text(FILE.replace(old, new))
    with pytest.raises(ConfigError, match=words) as refused:
        ready(file)
    assert refused.value.message.startswith("spec.")


def test_what_no_server_can_do_is_refused_at_its_line(file: Path) -> None:
    text = FILE.replace(
        '- {name: n1, address: 10.0.0.1, password: "lit: eral", privateKeyPath: keys/id}', "- {name: n1, type: local}"
    )
    file.write_text(
        text.replace("password: &p env:OPS_PW   # a comment", "agent: true").replace("sudoPassword: *p", "")
    )
    with pytest.raises(ConfigErrors) as refused:
        ready(file)
    found = {(problem.line, problem.message.partition(":")[0]) for problem in refused.value.problems}
    assert (12, "n1 would be the server itself") in found
    assert any("agent would be the server's" in problem.message for problem in refused.value.problems)
