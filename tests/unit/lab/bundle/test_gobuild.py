"""Building Go programs: what the go command is told, and what its refusals mean. A script stands in for Go."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kubexm.errors import LabError
from kubexm.lab.bundle.artefacts import Workplace
from kubexm.lab.bundle.commands import CommandFailed, Commands
from kubexm.lab.bundle.gobuild import GoPrograms, Module, Program, go_environment
from kubexm.lab.bundle.programs import cni_plugins, crictl, etcd, kubernetes, runc

GO = """
echo "$*" >> "$RECORD/argv"
case "$1 $2" in
"mod download")
    shift 3
    for module; do
        printf '{"GoMod": "%s/go.mod", "Info": "%s/info", "Dir": "%s/dir"}\\n' "$RECORD" "$RECORD" "$RECORD"
    done ;;
"mod edit") cat "$RECORD/edit.json" ;;
"build -v")
    env > "$RECORD/env"
    cp go.mod "$RECORD/written.mod"
    echo "example.com/dep/a" >&2
    echo sums > go.sum
    while [ $# -gt 0 ]; do
        case "$1" in -o) out=$2; shift 2 ;; -tags|-ldflags) shift 2 ;; -v|build) shift ;;
        *) name=${1##*/}; [ "$name" = v3 ] && name=$(basename "$(dirname "$1")"); echo "$1" > "$out$name"; shift ;; esac
    done ;;
esac
"""


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, programs_on_path: Callable[..., Path]) -> Path:
    """Where the stand-in for Go notes what it was asked."""
    directory = tmp_path / "record"
    (directory / "dir" / "certs").mkdir(parents=True)
    (directory / "dir" / "certs" / "x.crt").write_text("certificate")
    (directory / "info").write_text(json.dumps({"Version": "v1.0.0", "Time": "2026-02-10T12:53:36.123Z"}))
    (directory / "edit.json").write_text(json.dumps({"Go": "1.24.0"}))
    monkeypatch.setenv("RECORD", str(directory))
    programs_on_path(go=GO)
    return directory


def made(recipe: GoPrograms, place: Workplace) -> Workplace:
    with_environment = replace(place, commands=Commands(environment=go_environment(place.scratch / "go")))
    recipe.make(with_environment)
    return with_environment


def test_programs_get_upstreams_names_and_a_record_of_their_modules(record: Path, place: Workplace) -> None:
    made(etcd("v3.6.5"), place)
    assert sorted(path.name for path in place.out.iterdir()) == ["etcd", "etcdctl", "etcdutl", "go.mod", "go.sum"]
    assert (place.out / "etcd").read_text().strip() == "go.etcd.io/etcd/server/v3"


def test_staging_modules_are_replaced_and_examples_are_not(record: Path, place: Workplace) -> None:
    replaced = [
        {"Old": {"Path": f"k8s.io/{name}"}, "New": {"Path": f"./staging/src/k8s.io/{name}"}}
        for name in ("api", "kubelet", "sample-controller")
    ]
    other = {"Old": {"Path": "example.com/fork"}, "New": {"Path": "example.com/forked", "Version": "v1.0.0"}}
    document = {"Go": "1.24.0", "Godebug": [{"Key": "default", "Value": "go1.24"}], "Replace": [*replaced, other]}
    (record / "edit.json").write_text(json.dumps(document))
    made(kubernetes("v1.34.4"), place)
    lines = (record / "written.mod").read_text().splitlines()
    assert "require k8s.io/kubernetes v1.34.4" in lines
    assert "go 1.24.0" in lines
    assert "godebug default=go1.24" in lines
    assert [line for line in lines if line.startswith("replace")] == [
        "replace k8s.io/api => k8s.io/api v0.34.4",
        "replace k8s.io/kubelet => k8s.io/kubelet v0.34.4",
        "replace example.com/fork => example.com/forked v1.0.0",
    ]


def test_versions_and_the_modules_date_are_stamped_in(record: Path, place: Workplace) -> None:
    made(kubernetes("v1.34.4"), place)
    argv = (record / "argv").read_text()
    assert "-X k8s.io/component-base/version.gitVersion=v1.34.4" in argv
    assert "-X k8s.io/component-base/version.buildDate=2026-02-10T12:53:36Z" in argv
    assert "-s -w -buildid= " in argv
    assert "-linkmode" not in argv


def test_c_is_linked_statically_and_without_a_build_id(record: Path, place: Workplace) -> None:
    made(runc("v1.3.6"), place)
    argv = (record / "argv").read_text()
    assert "-linkmode external -extldflags '-static -Wl,--build-id=none'" in argv
    assert "-tags seccomp,urfave_cli_no_docs,netgo,osusergo" in argv
    assert "CGO_ENABLED=1\n" in (record / "env").read_text()


def test_nothing_inherited_changes_a_build_or_weakens_verification(
    record: Path, place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GOFLAGS", "GONOSUMDB", "GOPRIVATE", "GOINSECURE", "GOEXPERIMENT", "CGO_CFLAGS", "GOAMD64", "CC"):
        monkeypatch.setenv(name, "-strange")
    made(cni_plugins("v1.7.1"), place)
    env = dict(line.split("=", 1) for line in (record / "env").read_text().splitlines() if "=" in line)
    assert "-strange" not in env.values()
    assert env["GOFLAGS"] == "-mod=mod -modcacherw -trimpath -buildvcs=false"
    assert "GOSUMDB" not in env or env["GOSUMDB"] != "off"
    assert (env["GOPRIVATE"], env["CGO_ENABLED"], env["GOAMD64"]) == ("", "0", "v1")
    assert env["GOMODCACHE"].startswith(str(place.scratch))


def test_a_module_served_under_another_path_is_replaced_by_it(record: Path, place: Workplace) -> None:
    made(crictl("v1.30.0"), place)
    argv, go_mod = (record / "argv").read_text(), (record / "written.mod").read_text()
    assert "mod download -json sigs.k8s.io/cri-tools@v1.30.0" in argv
    assert "replace github.com/kubernetes-sigs/cri-tools => sigs.k8s.io/cri-tools v1.30.0" in go_mod


def test_files_are_copied_out_of_the_module(record: Path, place: Workplace) -> None:
    recipe = GoPrograms(
        name="x",
        modules=(Module(path="example.com/x", version="v1.0.0"),),
        programs=(Program(package="example.com/x", file="x"),),
        copies=(("certs/x.crt", "x.crt"),),
    )
    said: list[str] = []
    made(recipe, replace(place, say=said.append))
    assert (place.out / "x.crt").read_text() == "certificate"
    assert said == ["downloading modules", "compiling, 1 packages: example.com/dep/a"]


REFUSALS = [
    (
        "verifying go.mod: k8s.io/x@v0.33.9/go.mod: reading https://proxy/sumdb/lookup/k8s.io/x@v0.33.9: 404 Not Found",
        "k8s.io/x@v0.33.9 cannot be verified",
        "never switched off",
    ),
    (
        "mod/k8s.io/y@v1.0.0/y.go:1:2: k8s.io/x@v0.33.9: reading https://proxy/k8s.io/x/@v/v0.33.9.zip: 403 Forbidden",
        "k8s.io/x@v0.33.9 is not to be had",
        "another version",
    ),
    ("verifying k8s.io/x@v0.33.9: checksum mismatch", "does not match Go's checksum database", "Do not build"),
    ("dial tcp 127.0.0.1:1: connect: connection refused", "the Go module proxy does not answer", "GOPROXY"),
    ("go: go.mod requires go >= 1.30.0 (running go 1.26.8)", "needs a newer Go compiler", "Install"),
    ("write /x: no space left on device", "no space left", "KUBEXM_CACHE"),
]


@pytest.mark.parametrize(("line", "message", "hint"), REFUSALS)
@pytest.mark.parametrize("step", ["mod download", "build -v"])
def test_a_refusal_is_explained(
    record: Path,
    place: Workplace,
    programs_on_path: Callable[..., Path],
    line: str,
    message: str,
    hint: str,
    step: str,
) -> None:
    (record / "refusal").write_text(line)
    programs_on_path(go=f'case "$1 $2" in "{step}") cat "$RECORD/refusal" >&2; exit 1 ;; esac\n{GO}')
    with pytest.raises(LabError) as caught:
        made(etcd("v3.6.5"), place)
    assert message in caught.value.message
    assert line in caught.value.message
    assert hint in caught.value.hint


def test_a_refusal_nobody_foresaw_is_shown_as_it_is(
    record: Path, place: Workplace, programs_on_path: Callable[..., Path]
) -> None:
    programs_on_path(go=f'case "$1" in build) echo "x.go:1: syntax error" >&2; exit 2 ;; esac\n{GO}')
    with pytest.raises(CommandFailed, match=r"x\.go:1: syntax error"):
        made(etcd("v3.6.5"), place)
