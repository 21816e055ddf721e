"""The cluster's kubeconfig: printed, or merged into the user's own without harm to anything that is there."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from kubexm.cli.exits import ExitCode
from kubexm.cli.kubeconfig_merge import merge_into, merged, place
from kubexm.cli.main import main
from kubexm.components.pki.kubeconfig import kubeconfig_text
from kubexm.components.pki.wanted import Kubeconfig
from kubexm.components.pki.x509 import Pair
from kubexm.errors import ConflictError, KubexmError
from tests.unit.runtime.clusters import cluster_file
from tests.unit.service.work import CLUSTER

SEVERAL = (("cp1", "https://10.0.0.1:6443"), ("cp2", "https://10.0.0.2:6443"))


def made(
    name: str = "prod",
    *,
    ca: str = "CA",
    key: str = "KEY",
    server: str = "https://10.0.0.1:6443",
    servers: tuple[tuple[str, str], ...] = (),
) -> str:
    wanted = Kubeconfig(
        name="kubeconfig.admin",
        client="x",
        server=server,
        cluster=name,
        user=f"{name}-admin",
        context=name,
        servers=servers,
    )
    return kubeconfig_text(wanted, ca * 60, Pair("CRT", key))


THEIRS = """\
# mine, with love
apiVersion: v1
kind: Config
clusters:
- cluster: {server: "https://other:6443"}   # the old one
  name: other
users:
- name: me
  user: {token: 'abc'}
contexts:
- context: {cluster: other, user: me, namespace: work}
  name: other
current-context: other
preferences: {}
extra: kept
"""


def loaded(text: str) -> dict[str, Any]:
    found = YAML(typ="safe", pure=True).load(text)
    assert isinstance(found, dict)
    return found


def names(text: str, kind: str) -> list[str]:
    return [entry["name"] for entry in loaded(text)[kind]]


def test_what_is_there_stays_comments_and_all() -> None:
    text, context, current = merged(THEIRS, made())
    assert context == "prod"
    assert not current
    assert names(text, "clusters") == ["other", "prod"]
    assert names(text, "users") == ["me", "prod-admin"]
    assert names(text, "contexts") == ["other", "prod"]
    assert loaded(text)["current-context"] == "other"
    for line in THEIRS.splitlines():
        if line.strip():
            assert line in text


def test_certificates_stay_on_one_line() -> None:
    text, _, _ = merged(THEIRS, made(ca="a long certificate "))
    assert max(map(len, text.splitlines())) > 1000


def test_the_first_one_is_used_at_once_and_others_on_request() -> None:
    assert merged("", made())[2]
    assert loaded(merged("", made())[0])["current-context"] == "prod"
    assert loaded(merged(THEIRS, made(), use=True)[0])["current-context"] == "prod"


def test_a_renewed_one_replaces_the_older() -> None:
    before, _, _ = merged(THEIRS, made(key="OLD"))
    after, _, _ = merged(before, made(key="NEW", server="https://10.0.0.9:6443"))
    assert names(after, "users") == ["me", "prod-admin"]
    assert loaded(after)["clusters"][1]["cluster"]["server"] == "https://10.0.0.9:6443"
    assert loaded(after)["users"][1] == loaded(made(key="NEW"))["users"][0]


def test_the_same_again_changes_nothing() -> None:
    once, _, _ = merged(THEIRS, made())
    assert merged(once, made())[0] == once
    spaced = once.replace("current-context: other", "current-context:    'other'  # for now")
    assert merged(spaced, made())[0] == spaced, "how it is written is the user's affair"


def test_another_cluster_of_this_name_is_not_replaced() -> None:
    before, _, _ = merged(THEIRS, made(ca="OTHER"))
    with pytest.raises(ConflictError, match="'prod' already, and it is another cluster") as caught:
        merged(before, made())
    assert "--name" in caught.value.hint
    text, context, _ = merged(before, made(), name="prod2")
    assert context == "prod2"
    assert names(text, "contexts") == ["other", "prod", "prod2"]
    assert loaded(text)["contexts"][2]["context"] == {"cluster": "prod2", "user": "prod2-admin"}
    assert names(merged(before, made(), force=True)[0], "clusters") == ["other", "prod"]


def test_a_users_own_entry_of_this_name_is_not_replaced() -> None:
    context = THEIRS.replace("  name: other\ncurrent", "  name: prod\ncurrent")
    with pytest.raises(ConflictError):
        merged(context, made())
    user = THEIRS.replace("name: me", "name: prod-admin")
    with pytest.raises(ConflictError):
        merged(user, made())


@pytest.mark.parametrize("text", ["a: [", "- 1\n", "just text", "clusters: 7\n"])
def test_what_is_no_kubeconfig_is_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(KubexmError, match=r"no YAML|no kubeconfig"):
        merge_into(path, made())
    assert path.read_text() == text
    assert sorted(each.name for each in tmp_path.iterdir()) == ["config"]


def test_empty_sections_are_no_problem() -> None:
    text, _, _ = merged("apiVersion: v1\nkind: Config\nclusters: null\nusers: null\ncontexts: null\n", made())
    assert names(text, "clusters") == ["prod"]


_NAMES = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,10}[a-z0-9])?", fullmatch=True)


@given(st.lists(_NAMES, unique=True, max_size=5), st.data())
def test_any_order_of_merging_ends_with_each_cluster_once(found: list[str], data: st.DataObject) -> None:
    text = THEIRS
    clusters = [name for name in found if name not in ("other", "me")]
    for name in data.draw(st.permutations(clusters * 2)) if clusters else []:
        text, _, _ = merged(text, made(name, ca=name))
    assert sorted(names(text, "clusters")) == sorted(["other", *clusters])
    assert sorted(names(text, "contexts")) == sorted(["other", *clusters])


def test_the_file_is_private_whole_and_backed_up(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "config"
    first = merge_into(path, made())
    assert first.backup is None
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    path.chmod(0o644)
    before = path.read_text()
    again = merge_into(path, made())
    assert not again.changed
    assert stat.S_IMODE(path.stat().st_mode) == 0o600, "made private all the same"
    third = merge_into(path, made("dev", ca="DEV"))
    assert third.backup is not None
    assert third.backup.read_text() == before
    assert stat.S_IMODE(third.backup.stat().st_mode) == 0o600
    assert not list(path.parent.glob("*.lock"))
    assert not list(path.parent.glob(".*"))


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    real = tmp_path / "dotfiles" / "kubeconfig"
    real.parent.mkdir()
    real.write_text(THEIRS)
    link = tmp_path / "config"
    link.symlink_to(real)
    merge_into(link, made())
    assert link.is_symlink()
    assert "prod" in names(real.read_text(), "clusters")


def test_kubectls_lock_is_respected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubexm.cli.kubeconfig_merge._PATIENCE", 0.2)
    path = tmp_path / "config"
    (tmp_path / "config.lock").touch()
    with pytest.raises(ConflictError, match="being changed by somebody else"):
        merge_into(path, made())
    assert not path.exists()
    assert (tmp_path / "config.lock").exists(), "it is not ours to remove"


def test_a_file_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(KubexmError, match="cannot be changed"):
        merge_into(tmp_path / "file" / "config", made())


def test_the_file_is_the_one_kubectl_would_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert place({}) == tmp_path / ".kube" / "config"
    assert place({"KUBECONFIG": ""}) == tmp_path / ".kube" / "config"
    one, two = tmp_path / "one", tmp_path / "two"
    listed = {"KUBECONFIG": f"{one}{os.pathsep}{two}"}
    assert place(listed) == two
    one.touch()
    assert place(listed) == one


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert isinstance(ended.value.code, int)
    return ended.value.code


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A cluster file, beside it a work directory with a kubeconfig."""
    path = cluster_file(tmp_path, CLUSTER)
    work = tmp_path / ".kubexm" / "demo"
    work.mkdir(parents=True)
    (work / "kubeconfig").write_text(made())
    return path


def test_it_is_printed(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("kubeconfig", "-f", str(file)) == 0
    assert capsys.readouterr().out == made()
    assert run("kubeconfig", "-f", str(file), "-o", "json") == 0
    assert json.loads(capsys.readouterr().out) == loaded(made())


def test_it_is_merged(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "mine"
    target.write_text(THEIRS)
    monkeypatch.setenv("KUBECONFIG", str(target))
    assert run("kubeconfig", "-f", str(file), "--merge") == 0
    shown = capsys.readouterr().out
    assert f"context prod in {target}" in shown
    assert "to use it: kubectl config use-context prod" in shown
    assert "KEY" not in shown
    assert run("kubeconfig", "-f", str(file), "--merge", "--use", "-o", "json") == 0
    assert json.loads(capsys.readouterr().out)["current"] is True
    assert run("kubeconfig", "-f", str(file), "--merge") == 0
    assert "it was there already" in capsys.readouterr().out


def test_without_one_the_way_to_it_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("kubeconfig", "-f", str(cluster_file(tmp_path, CLUSTER))) == ExitCode.USAGE
    error = capsys.readouterr().err
    assert "was not created from here" in error
    assert "kubexm create cluster" in error


def test_options_of_merging_go_with_it(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("kubeconfig", "-f", str(file), "--use") == ExitCode.USAGE
    assert "go with --merge" in capsys.readouterr().err


def test_through_another_control_plane(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / ".kubexm" / "demo" / "kubeconfig").write_text(made(servers=SEVERAL))
    assert run("kubeconfig", "-f", str(file)) == 0
    whole = loaded(capsys.readouterr().out)
    assert [entry["name"] for entry in whole["contexts"]] == ["prod", "prod-cp1", "prod-cp2"]
    assert whole["current-context"] == "prod"
    assert run("kubeconfig", "-f", str(file), "--via", "cp2") == 0
    chosen = loaded(capsys.readouterr().out)
    assert chosen["current-context"] == "prod-cp2"
    assert [entry["cluster"]["server"] for entry in chosen["clusters"]] == ["https://10.0.0.2:6443"]
    assert chosen["users"] == whole["users"]
    target = tmp_path / "mine"
    monkeypatch.setenv("KUBECONFIG", str(target))
    assert run("kubeconfig", "-f", str(file), "--merge") == 0
    assert run("kubeconfig", "-f", str(file), "--merge", "--via", "cp2", "--use") == 0
    merged_both = loaded(target.read_text())
    assert [entry["name"] for entry in merged_both["contexts"]] == ["prod", "prod-cp2"]
    assert merged_both["current-context"] == "prod-cp2"


def test_through_a_host_that_is_no_control_plane(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("kubeconfig", "-f", str(file), "--via", "cp2") == ExitCode.USAGE
    assert "it has one control plane" in capsys.readouterr().err
    (tmp_path / ".kubexm" / "demo" / "kubeconfig").write_text(made(servers=SEVERAL))
    assert run("kubeconfig", "-f", str(file), "--via", "w1") == ExitCode.USAGE
    assert "control planes: cp1, cp2" in capsys.readouterr().err
