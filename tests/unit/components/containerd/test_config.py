"""containerd's settings: golden for each major version, the user's own merged in, registries as it reads them."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

import pytest

from kubexm import config
from kubexm.apis.v1alpha1 import Cluster
from kubexm.components.containerd.config import RuntimeSettings, config_toml, crictl_yaml, unit_file
from kubexm.components.containerd.registries import MARK, registry_files
from kubexm.components.containerd.toml import merged, to_toml
from kubexm.errors import PlanError
from kubexm.redact import SecretRef
from tests.unit.components.around import cluster

GOLDEN = Path(__file__).parent / "golden"


def golden(name: str, text: str) -> None:
    path = GOLDEN / name
    if os.environ.get("KUBEXM_UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text(), "set KUBEXM_UPDATE_GOLDEN=1 to accept the new text"


def settings(version: str, **more: Any) -> RuntimeSettings:
    known = {"sandbox_image": "registry.k8s.io/pause:3.10.1", "data_dir": "/var/lib/containerd"}
    return RuntimeSettings(version=version, **{"restrict_oom_score": False, **known, **more})


@pytest.mark.parametrize("version", ["v1.7.34", "v2.0.11", "v2.1.9", "v2.3.4"])
def test_golden_config(version: str) -> None:
    golden(f"config-{version.rpartition('.')[0]}.toml", config_toml(settings(version)))


def test_golden_unit_and_crictl() -> None:
    golden("containerd.service", unit_file())
    golden("crictl.yaml", crictl_yaml())


@pytest.mark.parametrize(("version", "plugin"), [("v1.7.34", "grpc.v1.cri"), ("v2.1.9", "cri.v1.runtime")])
def test_a_kernel_that_keeps_oom_scores_is_respected(version: str, plugin: str) -> None:
    made = tomllib.loads(config_toml(settings(version, restrict_oom_score=True)))
    assert made["plugins"][f"io.containerd.{plugin}"]["restrict_oom_score_adj"] is True


def test_the_users_settings_win_and_the_rest_stays() -> None:
    own = {
        "debug": {"level": "debug"},
        "plugins": {
            "io.containerd.cri.v1.runtime": {
                "max_container_log_line_size": 32768,
                "containerd": {"runtimes": {"gvisor": {"runtime_type": "io.containerd.runsc.v1"}}},
            },
            "io.containerd.cri.v1.images": {"snapshotter": "native"},
        },
    }
    made = tomllib.loads(config_toml(settings("v2.1.9", extra=own, data_dir="/data/containerd")))
    runtime = made["plugins"]["io.containerd.cri.v1.runtime"]
    assert made["debug"] == {"level": "debug"}
    assert made["root"] == "/data/containerd"
    assert runtime["max_container_log_line_size"] == 32768
    assert set(runtime["containerd"]["runtimes"]) == {"runc", "gvisor"}
    assert runtime["containerd"]["runtimes"]["runc"]["options"]["SystemdCgroup"] is True
    assert made["plugins"]["io.containerd.cri.v1.images"]["snapshotter"] == "native"


def test_a_containerd_nobody_knows_yet_is_refused() -> None:
    with pytest.raises(PlanError, match=r"containerd v3\.0\.0"):
        config_toml(settings("v3.0.0"))


def test_toml_reads_back_as_it_was() -> None:
    data = {
        "text": 'quote " back \\ new\nline ü',
        "numbers": [1, 2.5, True],
        "empty": {},
        "none": None,
        "odd key": {"a.b": {"deep": "x"}, "plain": {"list": ["a", {"in": "line"}]}},
    }
    expected = {key: value for key, value in data.items() if value is not None}
    assert tomllib.loads(to_toml(data)) == expected
    assert merged({"a": {"b": 1, "c": [1]}}, {"a": {"c": [2], "d": 3}}) == {"a": {"b": 1, "c": [2], "d": 3}}
    with pytest.raises(PlanError, match=r"a\.b"):
        to_toml({"a": {"b": object()}})


def loaded(registry: str) -> Cluster:
    return config.loads(cluster(f"registry: {registry}"), name="t.yaml").cluster


def shown(registry: str) -> str:
    """The files as text, secrets by their names."""
    parts = []
    for file in registry_files(loaded(registry)):
        text = "".join(f"<{piece.name}>" if isinstance(piece, SecretRef) else piece for piece in file.pieces)
        parts.append(f"== {file.path}{' (secret)' if file.secret else ''}\n{text}")
    return "\n".join(parts)


def test_golden_registries() -> None:
    text = shown(
        "{mirrors: {docker.io: ['https://mirror.example.com', 'http://cache.example.com:5000/hub/'], "
        "registry.k8s.io: ['https://harbor.example.com/k8s'], '*': ['https://any.example.com']}, "
        "auths: {harbor.example.com: {username: ci, password: 'env:P', caFile: ca.pem}, "
        "ghcr.io: {username: me, password: 'env:Q'}}, "
        "insecure: ['registry.local:5000', mirror.example.com]}"
    )
    golden("registries.txt", text)


def test_registries_read_as_containerd_reads_them() -> None:
    files = registry_files(
        loaded(
            "{mirrors: {docker.io: ['https://b.example.com', 'https://a.example.com/p']}, "
            "auths: {docker.io: {username: u, password: x}}}"
        )
    )
    (file,) = files
    text = "".join("c2VjcmV0" if isinstance(piece, SecretRef) else piece for piece in file.pieces)
    assert text.startswith(f"{MARK}\n")
    made = tomllib.loads(text)
    assert made["server"] == "https://registry-1.docker.io"
    assert list(made["host"]) == ["https://b.example.com", "https://a.example.com/v2/p"], "in the user's order"
    assert made["host"]["https://a.example.com/v2/p"]["override_path"] is True
    assert made["header"] == {"Authorization": "Basic c2VjcmV0"}, "as Go spells it: a token takes its place"
    assert "header" not in made["host"]["https://b.example.com"], "nobody else is sent the login"


def test_nothing_said_is_no_file_and_a_login_for_all_is_refused() -> None:
    assert registry_files(loaded("{private: r.example.com/k8s}")) == ()
    with pytest.raises(PlanError, match="every registry"):
        registry_files(loaded("{auths: {'*': {username: u, password: x}}}"))
