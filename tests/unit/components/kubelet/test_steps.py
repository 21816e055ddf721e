"""How nodes join, on hosts that answer as told: what is taken for a good certificate, and what is done without one."""

from __future__ import annotations

import asyncio
import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kubexm.components.control_plane import admin_binding, joining_objects
from kubexm.components.kubelet.certified import KubeletCertified
from kubexm.components.kubelet.config import bootstrap_conf, kubelet_conf
from kubexm.components.kubelet.controllers import ControllersWork
from kubexm.components.kubelet.credentials import CA_SECRET, fault_of
from kubexm.components.kubelet.founding import FoundingObjectsApplied
from kubexm.components.kubelet.joining import KubeletAdmitted, NodeJoined, NodeRegistered
from kubexm.components.kubelet.running import KubeletRunning
from kubexm.components.kubelet.token import JOIN_TOKEN, JoinTokenMade
from kubexm.connector import Command, CommandResult
from kubexm.engine.attempts import LocalAttempts
from kubexm.engine.values import ValueBook
from kubexm.errors import CommandError, StepError
from kubexm.plan import ExecutionNode
from kubexm.redact import Secret
from kubexm.runner.base import ABSENT
from kubexm.runtime import Context, StepContext, Transcript, UnitConnector
from kubexm.step import ServiceRunning
from kubexm.step.content import sha256_of
from kubexm.testing import MemoryConnector
from kubexm.testing.context import memory_context
from tests.unit.components.kube_api import KubeApi
from tests.unit.components.kube_http import status

SERVER, OWN = "https://lb:6443", "https://127.0.0.1:6443"
YEAR = 365 * 24 * 3600
CONF_READ = re.compile(r"(?s).*cat -- /etc/kubernetes/admin.conf")
TOKEN = "abcdef.0123456789abcdef"
CONF = sha256_of(kubelet_conf("n1", SERVER).encode())
BOOTSTRAP = sha256_of(bootstrap_conf(SERVER, TOKEN).encode())


class Authority:
    """A CA that signs whatever a test needs."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kubernetes")])
        self.certificate = self._signed("kubernetes", self._key.public_key(), 10)
        form = serialization.PrivateFormat.TraditionalOpenSSL
        self.key = self._key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()

    def client(self, name: str, days: int = 10) -> str:
        return self._signed(name, ec.generate_private_key(ec.SECP256R1()).public_key(), days)

    def _signed(self, name: str, key: ec.EllipticCurvePublicKey, days: int) -> str:
        now = datetime.now(UTC)
        signed = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=100))
            .not_valid_after(now + timedelta(days=days))
            .sign(self._key, hashes.SHA256())
        )
        return signed.public_bytes(serialization.Encoding.PEM).decode()


class Host:
    """n1, with credentials as a test wants them."""

    def __init__(self, tmp_path: Path) -> None:
        self.authority = Authority()
        self.conf = self.bootstrap = "-"
        self.certificate = ""
        self.answers: list[CommandResult] = []
        self.memory = MemoryConnector("n1")
        self.memory.on(re.compile(r"(?s).*kx_sum.*kubelet-client-current\.pem.*"), callback=self._look)
        self.context: Context = memory_context(tmp_path, {"n1": self.memory})
        self.context.secrets.put(CA_SECRET.name, Secret(self.authority.certificate))
        self.connector = UnitConnector(self.memory, Transcript)
        self.runs = 0
        self.ctx: StepContext = self.context.step_context("m.t.n", self.connector, "run-1")

    def _look(self, command: Command) -> str:
        return f"{self.conf} {self.bootstrap}\n{self.certificate}"

    def knows_token(self) -> None:
        self.context.caches.publish("m.t.n", JOIN_TOKEN, Secret(TOKEN), "n1")

    async def run(self, step: Any) -> Any:
        self.runs += 1
        self.connector.begin(f"r{self.runs}")
        try:
            return await step.run(self.ctx)
        finally:
            self.connector.end()


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_a_good_certificate_is_this_nodes_this_clusters_and_in_date() -> None:
    ours, others = Authority(), Authority()
    assert fault_of(ours.client("system:node:n1"), ours.certificate, "n1") == ""
    assert "no client certificate" in fault_of("\n", ours.certificate, "n1")
    assert "another CA" in fault_of(others.client("system:node:n1"), ours.certificate, "n1")
    assert "damaged" in fault_of("-----BEGIN CERTIFICATE-----\nx\n", ours.certificate, "n1")
    assert "is for system:node:n2" in fault_of(ours.client("system:node:n2"), ours.certificate, "n1")
    assert "expired" in fault_of(ours.client("system:node:n1", days=-1), ours.certificate, "n1")


async def test_a_node_with_a_good_certificate_needs_no_token(host: Host) -> None:
    host.certificate = host.authority.client("system:node:n1")
    assert (await KubeletAdmitted(server=SERVER).precheck(host.ctx)).satisfied


async def test_without_one_it_asks_for_a_token_and_is_given_it_in_a_file_for_root(host: Host) -> None:
    step = KubeletAdmitted(server=SERVER)
    check = await step.precheck(host.ctx)
    assert check.satisfied is False
    assert check.reason == "the kubelet has no client certificate"
    assert step.consumes() == (JOIN_TOKEN,)
    host.knows_token()
    written: list[Command] = []
    host.memory.on(re.compile(r"(?s).*systemctl stop kubelet.*rm -f.*"))
    host.memory.on(re.compile(r"(?s).*kx_put /etc/kubernetes/bootstrap-kubelet\.conf 600.*"), callback=written.append)
    await host.run(step)
    assert written[0].stdin == bootstrap_conf(SERVER, TOKEN).encode()
    assert TOKEN not in written[0].script
    host.bootstrap = BOOTSTRAP
    assert (await step.precheck(host.ctx)).satisfied
    host.conf = CONF
    assert (await step.precheck(host.ctx)).satisfied is False, "credentials of no use are still there"


async def test_an_older_token_is_replaced(host: Host) -> None:
    host.knows_token()
    host.bootstrap = sha256_of(bootstrap_conf(SERVER, "zzzzzz.0123456789abcdef").encode())
    assert (await KubeletAdmitted(server=SERVER).precheck(host.ctx)).satisfied is False


async def test_joined_means_own_certificate_own_kubeconfig_and_no_token(host: Host) -> None:
    step = NodeJoined(server=SERVER)
    assert (await step.precheck(host.ctx)).reason == "the kubelet has no client certificate"
    host.certificate = host.authority.client("system:node:n1")
    assert (await step.precheck(host.ctx)).reason == f"kubelet.conf does not point at {SERVER}"
    host.conf, host.bootstrap = CONF, BOOTSTRAP
    assert (await step.precheck(host.ctx)).reason == "its token is still there"
    host.bootstrap = "-"
    assert (await step.precheck(host.ctx)).satisfied


async def test_a_kubelet_that_gets_no_certificate_tells_its_own_words(host: Host) -> None:
    host.memory.on(re.compile(r"(?s).*until \[ -L .*"), exit_code=71)
    host.memory.on(re.compile(r"(?s).*kx_is_up.*"), stdout="")
    host.memory.on(re.compile(r"(?s).*kx_log.*"), stdout="E1116 bootstrap: connection refused to the API\n")
    with pytest.raises(CommandError, match=r"got no client certificate.*connection refused") as caught:
        await host.run(NodeJoined(server=SERVER))
    assert "kubectl get csr" in caught.value.hint


async def test_a_run_gives_it_the_key_it_signs_with(host: Host) -> None:
    host.context.secrets.put("pki.ca.key", Secret(host.authority.key))
    host.memory.on(re.compile(r"(?s).*kubelet-client-\$\(date.*"))
    host.memory.on(re.compile(r"(?s).*kx_put /etc/kubernetes/kubelet\.conf.*"))
    node = ExecutionNode(id="m.t.n", step=KubeletCertified(server=OWN, duration=YEAR), hosts=("n1",))
    asked = ValueBook(host.context, "run-1").asked(node, "n1", "n1")
    attempts = LocalAttempts(host.context, lambda *_: None)
    assert (await attempts.run(asked, "run-1.0.1", seconds=60, readable=False)).fault is None


async def test_a_control_planes_kubelet_gets_a_certificate_signed_here_and_nothing_is_kept(
    host: Host, tmp_path: Path
) -> None:
    step = KubeletCertified(server=OWN, duration=YEAR)
    host.context.secrets.put("pki.ca.key", Secret(host.authority.key))
    assert (await step.precheck(host.ctx)).reason == "the kubelet has no client certificate"
    placed: list[Command] = []
    written: list[Command] = []
    host.memory.on(re.compile(r"(?s).*kubelet-client-\$\(date.*systemctl stop kubelet.*"), callback=placed.append)
    host.memory.on(re.compile(r"(?s).*kx_put /etc/kubernetes/kubelet\.conf 600.*"), callback=written.append)
    before = sorted(tmp_path.rglob("*"))
    await host.run(step)
    assert sorted(tmp_path.rglob("*")) == before
    host.certificate = (placed[0].stdin or b"").decode()
    assert fault_of(host.certificate, host.authority.certificate, "n1") == ""
    assert "PRIVATE KEY" in host.certificate
    assert "PRIVATE KEY" not in placed[0].script
    signed = x509.load_pem_x509_certificate(host.certificate.encode())
    assert [name.value for name in signed.subject] == ["system:nodes", "system:node:n1"]
    assert list(signed.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == [
        ExtendedKeyUsageOID.CLIENT_AUTH
    ]
    assert (await step.precheck(host.ctx)).reason == f"kubelet.conf does not point at {OWN}"
    await host.run(step)
    assert (len(placed), len(written)) == (1, 2), "a certificate that is good is not replaced"
    host.conf = sha256_of(kubelet_conf("n1", OWN).encode())
    assert (await step.precheck(host.ctx)).satisfied


async def test_a_control_plane_is_registered_once_the_api_knows_it(host: Host) -> None:
    ask = re.compile(r"(?s).*kubectl.*get node n1.*")
    host.memory.on(ask, stdout="", times=1)
    assert (await NodeRegistered().precheck(host.ctx)).reason == "it has not registered yet"
    host.memory.on(re.compile(r"(?s).*Successfully registered node.*"), times=1)
    await host.run(NodeRegistered())
    host.memory.on(ask, stdout="node/n1\n")
    assert (await NodeRegistered().precheck(host.ctx)).satisfied


async def test_a_token_is_made_and_never_used_by_another_process(host: Host) -> None:
    step, api = JoinTokenMade(), KubeApi(connector=host.memory)
    assert (await step.precheck(host.ctx)).satisfied is False
    values = await host.run(step)
    token = values[JOIN_TOKEN].reveal()
    assert re.fullmatch(r"[a-z0-9]{6}\.[a-z0-9]{16}", token)
    document = api.find("Secret", f"bootstrap-token-{token[:6]}")
    assert document is not None
    assert document["stringData"]["token-secret"] == token.partition(".")[2]
    until = datetime.fromisoformat(document["stringData"]["expiration"])
    assert timedelta(0) < until - datetime.now(UTC) <= timedelta(hours=1)
    assert all(token not in script for script in host.memory.scripts)
    assert all(token.partition(".")[2] not in change for change in host.memory.streams.changes)
    check = await step.precheck(host.ctx)
    assert check.satisfied
    assert check.values[JOIN_TOKEN].reveal() == token
    assert JOIN_TOKEN.expires
    assert JOIN_TOKEN.secret


def written(api: KubeApi) -> None:
    metadata = {"name": "kube-root-ca.crt", "namespace": "kube-system", "uid": "u1"}
    api.objects["", "ConfigMap", "kube-system", "kube-root-ca.crt"] = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
    }
    api.http.changed()


async def test_kubelets_wait_until_controllers_work(host: Host) -> None:
    step, api = ControllersWork(), KubeApi(connector=host.memory)
    assert (await step.precheck(host.ctx)).reason == "no controller has done anything yet"
    running = asyncio.ensure_future(step.run(host.ctx))
    await asyncio.sleep(0.1)
    written(api)
    await running
    assert (await step.precheck(host.ctx)).satisfied


async def test_controllers_that_do_not_begin_are_named(host: Host) -> None:
    KubeApi(connector=host.memory)
    with pytest.raises(StepError, match="no controller manager does its work after 0.2 s") as caught:  # noqa: RUF043
        await ControllersWork(patience=0.2).run(host.ctx)
    assert "kube-controller-manager" in caught.value.hint
    host.memory.on(CONF_READ, exit_code=44)
    await host.memory.close()
    assert (await ControllersWork().precheck(host.ctx)).reason == "the API does not answer"


async def test_founding_objects_are_compared_and_applied_with_the_one_identity_that_may(host: Host) -> None:
    step, api = FoundingObjectsApplied(), KubeApi(connector=host.memory)
    objects = [admin_binding(), *joining_objects()]
    assert (await step.precheck(host.ctx)).satisfied is False
    await host.run(step)
    assert len(api.objects) == len(objects)
    assert "super-admin.conf" in host.memory.scripts[-1], "admin.conf has no rights before"
    api.http.calls.clear()
    assert (await step.precheck(host.ctx)).satisfied, "as the apply itself tells"
    assert not api.http.calls
    name = objects[0]["metadata"]["name"]
    api.edit(objects[0]["kind"], name, "subjects", [])
    assert name in (await step.precheck(host.ctx)).reason, "which is believed once"
    await host.run(step)
    assert (await step.precheck(host.ctx)).satisfied


async def test_why_founding_objects_cannot_be_seen(host: Host) -> None:
    api = KubeApi(connector=host.memory)
    api.http.hook = lambda call: status(403, "clusterrolebindings is forbidden", "Forbidden")
    assert (await FoundingObjectsApplied().precheck(host.ctx)).reason == "administrators may do nothing yet"
    host.memory.on(CONF_READ, exit_code=44)
    await host.memory.close()
    assert (await FoundingObjectsApplied().precheck(host.ctx)).reason == "the API does not answer yet"


@pytest.mark.parametrize("roles", [None, ()])
async def test_a_kubelet_that_is_undone_takes_its_pods_along(
    host: Host, monkeypatch: pytest.MonkeyPatch, roles: tuple[str, ...] | None
) -> None:
    undone = await undo_kubelet(host, monkeypatch, host.context.work_dir.cluster_uid, roles)
    assert undone[0] == "kubelet", "or it would start them again"
    assert "is-active -q kubelet || ! systemctl is-active -q containerd.service; then exit 0" in undone[1]


@pytest.mark.parametrize(
    ("uid", "roles"), [("", ("worker",)), ("", ("controlPlane", "etcd")), ("another-cluster", ()), ("unreadable", ())]
)
async def test_pods_of_a_host_that_has_a_role_are_never_removed(
    host: Host, monkeypatch: pytest.MonkeyPatch, uid: str, roles: tuple[str, ...]
) -> None:
    undone = await undo_kubelet(host, monkeypatch, uid or host.context.work_dir.cluster_uid, roles)
    assert undone == ["kubelet"], "the service is as before, and what runs on the host stays"


async def undo_kubelet(
    host: Host, monkeypatch: pytest.MonkeyPatch, uid: str, roles: tuple[str, ...] | None
) -> list[str]:
    """What a rollback does where the host's mark says this; no roles at all: there is no mark."""
    undone: list[str] = []

    async def stopped(step: ServiceRunning, ctx: StepContext) -> None:
        undone.append(step.unit)

    def ended(command: Command) -> None:
        undone.append(command.script)

    monkeypatch.setattr(ServiceRunning, "rollback", stopped)
    mark = json.dumps({"uid": uid, "name": "demo", "roles": list(roles or ())})
    exit_code = ABSENT if roles is None else 0
    host.memory.on(
        re.compile(r"(?s).*cat -- /var/lib/kubexm/cluster.json.*"),
        stdout="not json" if uid == "unreadable" else mark,
        exit_code=exit_code,
    )
    host.memory.on(re.compile(r"(?s).*rmp -f -a.*"), callback=ended)
    host.connector.begin("r")
    await KubeletRunning(unit="kubelet").rollback(host.ctx)
    return undone
