"""`kubexm bundle` as people type it: what it prints, what it leaves, and its exit codes."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from kubexm.assets import Bundle, Manifest, catalog, pack
from kubexm.cli.bundle import app
from kubexm.errors import AssetError, ConfigError, KubexmError, UsageError
from tests.unit.assets.registry_double import PASSWORD, USER, Registry
from tests.unit.assets.samples import sample_bundle, tree
from tests.unit.assets.upstream_double import upstream
from tests.unit.assets.web import Web


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No proxy, no cache and no password of this machine has a say."""
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("KUBEXM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NETRC", "/dev/null")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    sample_bundle(tmp_path / "b")
    return tmp_path / "b"


@pytest.fixture
def packed(bundle: Path, tmp_path: Path) -> Path:
    pack(bundle, tmp_path / "b.tar.zst")
    return tmp_path / "b.tar.zst"


def kubexm(*arguments: object, code: int = 0) -> Result:
    """Runs `kubexm bundle …`; what a user would see as an error is raised."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if isinstance(result.exception, KubexmError):
        raise result.exception
    assert result.exit_code == code, (result.exit_code, result.output, result.exception)
    return result


def test_show(bundle: Path, packed: Path) -> None:
    for path in (bundle, packed):
        text = kubexm("show", path).output
        for telling in ("v1.34.4", "amd64", "kubeadm", "registry.k8s.io/pause", "debian-12-amd64", "Apache-2.0"):
            assert telling in text
        worker = kubexm("show", path, "--role", "worker").output
        assert "kube-apiserver" not in worker
        document = json.loads(kubexm("show", path, "-o", "json").output)
        assert document["formatVersion"] == 1
        assert document["digest"].startswith("sha256:")
        assert "kubernetes:" in kubexm("show", path, "-o", "yaml").output
    with pytest.raises(AssetError, match="'wroker' is not a role"):
        kubexm("show", bundle, "--role", "wroker")


def test_verify_says_what_is_wrong_and_exits_with_1(bundle: Path, packed: Path) -> None:
    assert "is whole" in kubexm("verify", packed, "--arch", "amd64").output
    (bundle / "files/stray").write_bytes(b"")
    text = kubexm("verify", bundle, "--arch", "arm64", code=1).output
    assert "files/stray" in text
    assert "not for arm64" in text
    assert "2 faults" in text
    found = json.loads(kubexm("verify", bundle, "-o", "json", code=1).output)
    assert found["findings"] == [{"kind": "extra", "path": "files/stray", "detail": "is not in the manifest"}]
    packed.write_bytes(packed.read_bytes()[:-1])
    assert "cut short" in kubexm("verify", packed, code=1).output


def test_keys_and_signatures(bundle: Path, packed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Key id" in kubexm("keygen", "key").output
    assert Path("key").stat().st_mode & 0o777 == 0o600
    with pytest.raises(AssetError, match="key is there already"):
        kubexm("keygen", "key")
    for path in (bundle, packed):
        assert "not signed" in kubexm("verify", path).output
        assert "Signed by" in kubexm("sign", path, "--key", "key").output
        assert "was not checked" in kubexm("verify", path).output
        assert "is good" in kubexm("verify", path, "--key", "key.pub").output
    monkeypatch.setenv("WORDS", "open sesame")
    kubexm("keygen", "locked", "--passphrase", "env:WORDS")
    with pytest.raises(AssetError, match="is encrypted"):
        kubexm("sign", bundle, "--key", "locked")
    kubexm("sign", bundle, "--key", "locked", "--passphrase", "env:WORDS")
    monkeypatch.setenv("WORDS", "wrong")
    with pytest.raises(AssetError, match="passphrase is wrong"):
        kubexm("sign", bundle, "--key", "locked", "--passphrase", "env:WORDS")
    assert "NOT good" in kubexm("verify", bundle, "--key", "key.pub", code=1).output
    Path("key").chmod(0o644)
    with pytest.raises(AssetError, match="others may read"):
        kubexm("sign", bundle, "--key", "key")
    with pytest.raises(AssetError, match="is a private key"):
        kubexm("verify", bundle, "--key", "locked")
    with pytest.raises(AssetError, match="is not there"):
        kubexm("verify", bundle, "--key", "nokey.pub")


def test_a_damaged_bundle_is_not_signed(bundle: Path) -> None:
    kubexm("keygen", "key")
    (bundle / "files/stray").write_bytes(b"")
    assert "files/stray" in kubexm("sign", bundle, "--key", "key", code=1).output
    assert not (bundle / "manifest.json.sig").exists()


def test_pack_and_unpack(bundle: Path, packed: Path) -> None:
    kubexm("pack", bundle, "again.tar.zst")
    assert Path("again.tar.zst").read_bytes() == packed.read_bytes()
    kubexm("unpack", packed, "out")
    assert tree(Path("out")) == tree(bundle)
    with pytest.raises(UsageError, match="is there already"):
        kubexm("pack", bundle, "again.tar.zst")
    with pytest.raises(UsageError, match=r"must end in \.tar\.zst"):
        kubexm("pack", bundle, "again.tgz")
    with pytest.raises(AssetError, match="is there already"):
        kubexm("unpack", packed, "out")


def test_images(bundle: Path) -> None:
    assert "1 images" in kubexm("images", bundle, "worker.tar", "--role", "worker").output
    assert Path("worker.tar").stat().st_size > 0


@pytest.fixture
def server() -> Iterator[tuple[Web, Registry]]:
    with upstream() as running:
        yield running


def test_create_from_a_mirror(server: tuple[Web, Registry]) -> None:
    web, _ = server
    result = kubexm(
        *("create", "--from", "mirror", web.url, "--kubernetes", "1.34.4", "--arch", "amd64"),
        *("--out", "made.tar.zst", "--registry-mirror", web.url),
    )
    assert "made.tar.zst: Kubernetes v1.34.4 for amd64" in result.output
    assert "is whole" in kubexm("verify", "made.tar.zst").output
    with Bundle.open(Path("made.tar.zst")) as made:
        assert {file.name for file in made.manifest.files} == {
            file.name for file in catalog.release("v1.34.4", "amd64").files
        }
    with pytest.raises(AssetError, match="is there already"):
        kubexm("create", "--from", "mirror", web.url, "-k", "1.34.4", "--arch", "amd64", "--out", "made.tar.zst")


def test_create_signed_from_a_bundle_and_a_mirror_with_events(server: tuple[Web, Registry], bundle: Path) -> None:
    web, _ = server
    kubexm("keygen", "key")
    result = kubexm(
        *("create", "--from", "bundle", "--from", "mirror", bundle, web.url, "-k", "v1.34.4", "--arch", "amd64"),
        *("--out", "made", "--registry-mirror", web.url, "--sign", "key", "-o", "json", "--feature", "kubeadm"),
    )
    events = [json.loads(line) for line in result.stdout.splitlines()]
    assert {"event": "done", "what": "kubeadm v1.34.4"} in events
    assert "is good" in kubexm("verify", "made", "--key", "key.pub").output
    made = Manifest.from_json(Path("made/manifest.json").read_bytes())
    assert made.file("kubeadm").size == 7000, "the bundle was named first"
    assert made.image("coredns").version == "v1.12.1"


@pytest.mark.parametrize(
    ("arguments", "telling"),
    [
        (["--out", "x"], "which Kubernetes version"),
        (["-k", "1.34.4"], "where the bundle goes"),
        (["--from", "mirror", "-k", "1.34.4", "--out", "x"], "--from mirror needs to know where"),
        (["--from", "upstream", "http://a", "-k", "1.34.4", "--out", "x"], "belongs to no --from"),
        (["http://a", "-k", "1.34.4", "--out", "x", "--user", "me"], "go together"),
        (
            ["http://a", "-k", "1.34.4", "--out", "x", "--user", "me", "--password", "hush"],
            "may not be written on the command line",
        ),
        (["http://a", "-k", "1.34.4", "--out", "x", "--set", "runc"], "is not a version"),
        (["http://a", "-k", "1.34.4", "--out", "x", "--packages", "debs"], "is not a package directory"),
    ],
)
def test_create_with_the_wrong_words(arguments: list[str], telling: str) -> None:
    with pytest.raises(UsageError, match=telling):
        kubexm("create", *arguments)
    assert not Path("x").exists()


def test_create_of_what_there_is_not() -> None:
    with pytest.raises(AssetError, match=r"Kubernetes 1\.12 is not in the catalog"):
        kubexm("create", "http://127.0.0.1:1", "-k", "1.12", "--out", "x")
    with pytest.raises(AssetError, match="no component 'rnc'"):
        kubexm("create", "http://127.0.0.1:1", "-k", "1.34", "--out", "x", "--set", "rnc=v1", "--arch", "amd64")
    with pytest.raises(AssetError, match="is not there"):
        kubexm("create", "nothing.tar.zst", "-k", "1.34", "--out", "x")


def test_push(server: tuple[Web, Registry], bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, registry = server
    registry.auth = "bearer"
    target = f"{registry.host}/team"
    with pytest.raises(AssetError, match="wants a user and a password"):
        kubexm("push", bundle, target, "--plain-http")
    monkeypatch.setenv("PUSH_PASSWORD", PASSWORD)
    words = ("--plain-http", "--user", USER, "--password", "env:PUSH_PASSWORD")
    assert "2 images are at" in kubexm("push", bundle, target, *words, "--role", "controlPlane").output
    assert {"team/pause", "team/kube-apiserver"} <= set(registry.manifests)
    assert "2 were there" in kubexm("push", bundle, target, *words).output
    Path("password").write_text(f"{PASSWORD}\n")
    events = kubexm("push", bundle, target, *words[:-1], "file:password", "-o", "json").stdout
    assert all(json.loads(line) for line in events.splitlines())
    monkeypatch.setenv("PUSH_PASSWORD", "")
    with pytest.raises(ConfigError, match="PUSH_PASSWORD is empty"):
        kubexm("push", bundle, target, *words)
    shutil.rmtree(bundle / "images")
    with pytest.raises(AssetError, match="cannot be read"):
        kubexm("push", bundle, f"{registry.host}/other", *words[:-1], "file:password")
