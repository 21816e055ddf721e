"""A file that comes from elsewhere reaches nothing of the machine that carries it out."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest

from kubexm import config
from kubexm.apis.v1alpha1 import Cluster, LiteralSecret
from kubexm.config import ConfigErrors
from kubexm.config.remote import _is_path, references, refused, with_stored
from kubexm.errors import ConfigError
from kubexm.redact import Secret

GOOD = """\
apiVersion: kubexm.io/v1alpha1
kind: Cluster
metadata: {name: demo}
spec:
  global:
    user: ops
    privateKey: secret:key
    sudoPassword: secret:sudo
    knownHostsFile: known_hosts
  hosts:
    - {name: n1, address: 10.0.0.1}
    - {name: n2, address: 10.0.0.2, password: "secret:n2.pw"}
  roleGroups: {etcd: [n1], controlPlane: [n1], worker: [n2]}
  registry:
    auths:
      r.example.com: {username: u, password: "secret:registry", caFile: ca.pem}
  addons:
    - {name: mine, manifests: [a.yaml, b.yaml]}
  assets:
    sources: [{bundle: kubexm-1.34.tar}]
"""


def loads(text: str) -> config.Loaded:
    return config.loads(text, name="cluster.yaml", more=[refused])


def test_stored_secrets_and_uploaded_files_may_be_named() -> None:
    cluster = loads(GOOD).cluster
    found = references(cluster)
    assert found.secrets == {"key", "sudo", "n2.pw", "registry"}
    assert found.files == {"known_hosts", "ca.pem", "a.yaml", "b.yaml", "kubexm-1.34.tar"}


@pytest.mark.parametrize(
    ("old", "new", "path", "message"),
    [
        ("secret:sudo", "env:KUBEXM_SERVER_KEY", "spec.global.sudoPassword", "would be read on the server"),
        ("secret:sudo", "file:/etc/shadow", "spec.global.sudoPassword", "would be read on the server"),
        ("secret:sudo", "prompt", "spec.global.sudoPassword", "would be read on the server"),
        ("secret:sudo", "hunter2", "spec.global.sudoPassword", "everybody who may see the cluster"),
        ("secret:registry", "env:X", 'spec.registry.auths["r.example.com"].password', "would be read on the server"),
        ("knownHostsFile: known_hosts", "knownHostsFile: ../x", "spec.global.knownHostsFile", "a path on the server"),
        (
            "privateKey: secret:key",
            "privateKeyPath: ~/.ssh/id_rsa",
            "spec.global.privateKeyPath",
            "a path on the server",
        ),
        ("ca.pem", "/etc/passwd", 'spec.registry.auths["r.example.com"].caFile', "a path on the server"),
        ("[a.yaml, b.yaml]", "[a.yaml, ./b.yaml]", "spec.addons[0].manifests[1]", "a path on the server"),
        ("bundle: kubexm-1.34.tar", "bundle: /x/y", "spec.assets.sources[0].bundle", "a path on the server"),
        ("user: ops", "workDir: w", "spec.global.workDir", "its own work directory"),
        ("user: ops", "workDir: /var/tmp", "spec.global.workDir", "its own work directory"),
        ("{name: n1, address: 10.0.0.1}", "{name: n1, type: local}", "spec.hosts[0].type", "the server itself"),
        ("user: ops", "agent: true", "spec.global.agent", "the SSH agent would be the server's"),
        ("privateKey: secret:key", "agent: true", "spec.hosts[0]", "nothing to log in with as ops"),
        ("privateKey: secret:key", "port: 22", "spec.hosts[0]", "nothing to log in with as ops"),
        (
            "privateKey: secret:key",
            "privateKey: secret:key\n    bastion: [{address: 10.1.1.1, agent: true}]",
            "spec.global.bastion",
            "the SSH agent would be the server's",
        ),
    ],
)
def test_what_would_reach_into_the_server_is_refused_at_its_line(old: str, new: str, path: str, message: str) -> None:
    assert old in GOOD
    text = GOOD.replace(old, new)
    with pytest.raises(ConfigErrors) as caught:
        loads(text)
    problem = next(problem for problem in caught.value.problems if problem.path.startswith(path))
    assert message in problem.message
    assert problem.line > 1
    assert problem.hint
    assert "hunter2" not in caught.value.message


def test_what_the_file_does_not_say_is_no_fault() -> None:
    config.loads(GOOD.replace("    knownHostsFile: known_hosts\n", ""), more=[refused])


def _path_fields(model: Any, seen: set[Any]) -> list[str]:
    from pydantic import BaseModel

    found: list[str] = []

    def models(annotation: Any) -> list[Any]:
        inner = [each for part in getattr(annotation, "__args__", ()) for each in models(part)]
        is_model = isinstance(annotation, type) and issubclass(annotation, BaseModel)
        return [annotation, *inner] if is_model else inner

    seen.add(model)
    for name, info in model.model_fields.items():
        if _is_path(info):
            found.append(f"{model.__name__}.{name}")
        for below in models(info.annotation):
            if below not in seen:
                found += _path_fields(below, seen)
    return found


def test_every_path_on_this_machine_is_known() -> None:
    """A new one is listed here once somebody has made sure that a server refuses it."""
    assert sorted(_path_fields(Cluster, set())) == sorted(
        textwrap.dedent(
            """\
            Addon.manifests AssetSource.bundle Bastion.certificate_path Bastion.private_key_path Chart.path
            Chart.values_files ExternalEtcd.ca_file ExternalEtcd.cert_file ExternalEtcd.key_file Global.certificate_path
            Global.known_hosts_file Global.private_key_path Global.work_dir HostEntry.certificate_path
            HostEntry.private_key_path RegistryAuth.ca_file"""
        ).split()
    )


def test_stored_secrets_take_their_place_and_nothing_else_changes() -> None:
    loaded = loads(GOOD)
    assert loaded.cluster.hosts, "worked out before, as rules do"
    stored = {name: Secret(f"the {name}") for name in references(loaded.cluster).secrets}
    opened = with_stored(loaded, stored).cluster
    assert opened.spec.global_.sudo_password == LiteralSecret(Secret("the sudo"))
    assert opened.host("n2").credentials.password == LiteralSecret(Secret("the n2.pw"))
    assert opened.host("n1").credentials.private_key == LiteralSecret(Secret("the key"))
    assert opened.spec.registry.auths["r.example.com"].password == LiteralSecret(Secret("the registry"))
    assert opened.spec.addons is loaded.cluster.spec.addons
    assert "the sudo" not in repr(opened)
    assert "the sudo" not in opened.model_dump_json()


def test_secrets_that_are_not_stored_are_all_named() -> None:
    with pytest.raises(ConfigError, match=r"not stored: n2\.pw, registry"):
        with_stored(loads(GOOD), {"key": Secret("k"), "sudo": Secret("s")})


def test_a_stored_secret_means_nothing_without_a_server(tmp_path: Any) -> None:
    source = config.loads(GOOD).cluster.spec.global_.sudo_password
    assert source is not None
    with pytest.raises(ConfigError, match="on a kubexm server, and this is not one"):
        config.resolve(source, base_dir=tmp_path, ask=None)
