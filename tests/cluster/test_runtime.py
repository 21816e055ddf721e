"""A real containerd and real images on lab hosts: brought, kept, mended, and registries it reaches with logins."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kubexm.assets import Bundle, BundleWriter, ImageReference, catalog
from kubexm.assets.layout import blob_path
from kubexm.assets.oci import ImageManifest
from kubexm.components.assets import place_packages
from kubexm.components.containerd import Containerd
from kubexm.components.images import Images
from kubexm.lab import Lab
from kubexm.lab.bundle import BundleBuild, PlainProgress
from kubexm.module import Module
from kubexm.plan import ExecutionFragment, RunStatus
from kubexm.runtime import ModuleContext, TaskContext
from kubexm.task import FragmentBuilder, Task
from tests.cluster.conftest import MakeLab
from tests.cluster.marks import LONG
from tests.cluster.parts import Outcome, Parts
from tests.integration.assets.servers import write_certificates
from tests.unit.assets.registry_double import PASSWORD, USER, Registry
from tests.unit.assets.web import serving

pytestmark = LONG

VERSION = "v1.34.4"
POD = {
    "metadata": {"name": "test", "namespace": "default", "uid": "test", "attempt": 1},
    "log_directory": "/tmp",
    "linux": {"cgroup_parent": "system.slice", "security_context": {"namespace_options": {"network": 2}}},
}
CONTAINER = {
    "metadata": {"name": "sleeper"},
    "image": {"image": "registry.k8s.io/e2e-test-images/busybox:1.35.0"},
    "command": ["sleep", "3600"],
    "log_path": "sleeper.log",
    "linux": {},
}
IMAGES = "ctr -n k8s.io images ls -q"
WIPE_IMAGES = f"{IMAGES} | xargs -r ctr -n k8s.io images rm --sync >/dev/null; rm -rf /var/lib/kubexm/incoming"


@pytest.fixture(scope="module")
def bundle() -> Path:
    """The bundle of one Kubernetes version, from the user's cache."""
    return BundleBuild([VERSION], progress=PlainProgress(print)).run(install=True)


@pytest.fixture(scope="module")
def hosts(make_lab: MakeLab) -> Iterator[Lab]:
    """A control plane, n1, and a worker, n2, that lacks the packages a node needs."""
    lab = make_lab(topology="1+1", flavours={"n2": "airgapped"})
    yield lab
    lab.down()


class Runtime(Parts):
    """A container runtime and its images on both hosts."""

    async def invocation(self, host: str) -> str:
        """Which start of containerd this is."""
        return await self.sh(host, "systemctl show -p InvocationID --value containerd")

    async def references(self, host: str) -> set[str]:
        """The images containerd has."""
        return set((await self.sh(host, IMAGES)).split())


@pytest.fixture
def runtime(hosts: Lab, bundle: Path, tmp_path: Path) -> Runtime:
    return Runtime(hosts, bundle, tmp_path, (Containerd, Images), spec={"kubernetes": {"version": VERSION}})


def nodes_of(outcome: Outcome) -> set[str]:
    return {node for node, _ in outcome.changed}


async def test_an_interrupted_run_is_gone_on_with(runtime: Runtime) -> None:
    half_sent = "find /var/lib/kubexm/incoming -name '.kubexm-images-*.part' 2>/dev/null || :"
    first = asyncio.create_task(runtime.run())
    while not await runtime.sh("n1", half_sent):
        assert not first.done(), "it was too fast to be interrupted"
    first.cancel()
    await asyncio.wait([first])
    assert first.cancelled() or first.result().result.status is not RunStatus.SUCCEEDED
    (await runtime.run()).ok()
    assert (await runtime.run()).ok().changed == [], "a second run changes nothing"
    assert await runtime.everywhere("ls -A /var/lib/kubexm/incoming") == ["", ""], "nothing that was sent stays"
    assert await runtime.everywhere("find / -xdev -name '.kubexm-*'") == ["", ""]


async def test_images_go_where_they_are_needed(runtime: Runtime) -> None:
    (await runtime.run()).ok()
    plane, worker = await runtime.references("n1"), await runtime.references("n2")
    assert {f"registry.k8s.io/{name}:{VERSION}" for name in ("kube-apiserver", "kube-scheduler")} <= plane
    assert not any("apiserver" in name or "scheduler" in name or "controller-manager" in name for name in worker)
    assert any("kube-proxy" in name for name in worker)
    assert not any("haproxy" in name for name in worker), "the balancer runs from files"
    pinned = json.loads(await runtime.sh("n2", "crictl images -o json"))["images"]
    assert [image["repoTags"] for image in pinned if image["pinned"]] == [["registry.k8s.io/pause:3.10.1"]]


async def test_pods_run_and_outlive_a_restart_that_only_settings_bring_about(runtime: Runtime) -> None:
    (await runtime.run()).ok()
    await runtime.sh("n2", f"cat >/tmp/pod.json <<'E'\n{json.dumps(POD)}\nE")
    await runtime.sh("n2", f"cat >/tmp/container.json <<'E'\n{json.dumps(CONTAINER)}\nE")
    pod = await runtime.sh("n2", "crictl runp /tmp/pod.json")
    try:
        await runtime.sh("n2", f"crictl start $(crictl create {pod} /tmp/container.json /tmp/pod.json)")
        running = "crictl ps --state Running -o json"
        before = json.loads(await runtime.sh("n2", running))["containers"]
        assert [container["metadata"]["name"] for container in before] == ["sleeper"], "unpacked when it was wanted"

        first = await runtime.invocation("n2")
        runtime.spec["registry"] = {"mirrors": {"docker.io": ["https://mirror.example.com"]}}
        changed = (await runtime.run()).ok().changed
        assert sorted(changed) == [("containerd.install.registries", host) for host in ("n1", "n2")]
        assert await runtime.invocation("n2") == first, "a mirror restarts nothing"
        assert "mirror.example.com" in await runtime.sh("n2", "cat /etc/containerd/certs.d/docker.io/hosts.toml")

        runtime.spec["kubernetes"] = {"version": VERSION, "containerRuntime": {"config": {"debug": {"level": "debug"}}}}
        assert nodes_of((await runtime.run()).ok()) == {"containerd.install.settings", "containerd.start.service"}
        assert await runtime.invocation("n2") != first
        after = json.loads(await runtime.sh("n2", running))["containers"]
        assert [container["id"] for container in after] == [container["id"] for container in before]
    finally:
        await runtime.sh("n2", f"crictl rmp -f {pod}", check=False)
    runtime.spec.pop("registry")
    runtime.spec["kubernetes"] = {"version": VERSION}
    (await runtime.run()).ok()
    assert await runtime.sh("n2", "ls /etc/containerd/certs.d/docker.io", check=False) == "", "what is not wanted goes"


async def test_what_is_harmed_is_mended_and_nothing_else_touched(runtime: Runtime) -> None:
    (await runtime.run()).ok()
    first = await runtime.invocation("n2")
    await runtime.sh("n2", "rm /opt/cni/bin/bridge; echo x >>/usr/local/bin/crictl; chmod 700 /usr/local/sbin/runc")
    await runtime.sh("n2", "ctr -n k8s.io images rm --sync registry.k8s.io/pause:3.10.1")
    await runtime.sh("n2", "echo left >/var/lib/kubexm/incoming/images-0.tar")
    changed = (await runtime.run()).ok().changed
    assert {host for _, host in changed} == {"n2"}
    assert {node for node, _ in changed} == {
        "containerd.install.cni-plugins-active",
        "containerd.install.crictl",
        "containerd.install.runc",
        "images.bring.send-worker",
        "images.bring.import-worker",
    }
    assert await runtime.invocation("n2") == first
    assert await runtime.sh("n2", "stat -L -c %a /usr/local/sbin/runc") == "755"
    assert "registry.k8s.io/pause:3.10.1" in await runtime.references("n2")
    assert (await runtime.run()).ok().changed == []


async def test_a_full_disk_is_told_and_gone_on_from(runtime: Runtime) -> None:
    (await runtime.run()).ok()
    await runtime.sh("n2", WIPE_IMAGES)
    await asyncio.to_thread(runtime.lab.fill, "n2", leave=20 * 2**20)
    try:
        outcome = await runtime.run()
        node, host = outcome.failure()
        assert (node, host.host) == ("images.bring.send-worker", "n2")
        assert host.error is not None
        assert "No space left on device" in host.error.message
        assert "make room on the file system" in host.error.hint
    finally:
        await asyncio.to_thread(runtime.lab.free, "n2")
    assert nodes_of((await runtime.run()).ok()) == {"images.bring.send-worker", "images.bring.import-worker"}


class _Packages(Task):
    def plan(self, ctx: TaskContext) -> ExecutionFragment:
        g = FragmentBuilder("os.packages")
        place_packages(g, ctx, on=ctx.hosts())
        return g.build()


class Packages(Module):
    """The packages of every host's roles."""

    def tasks(self, ctx: ModuleContext) -> Sequence[Task]:
        return (_Packages(),)


async def test_packages_come_from_the_bundle(runtime: Runtime) -> None:
    runtime.modules = (Packages,)
    there = "dpkg-query -W -f '${db:Status-Abbrev}\\n' conntrack socat ipset 2>/dev/null | grep -c ^ii || :"
    assert await runtime.sh("n2", there) == "0"
    assert (await runtime.run()).ok().changed == [("os.packages.packages", "n2")]
    assert await runtime.sh("n2", there) == "3"
    assert (await runtime.run()).ok().changed == []
    assert await runtime.sh("n2", "ls -A /var/lib/kubexm/incoming") == ""
    assert "conntrack" in await runtime.sh("n2", "ls /var/lib/kubexm/originals/package"), "delete knows they are ours"


@asynccontextmanager
async def registry(bundle: Path, directory: Path, address: str, *, auth: str) -> AsyncIterator[tuple[Registry, str]]:
    """A registry below `k8s` that hosts reach over TLS, with every image of the bundle; gives its host and port.

    Images have their tags of the lab and those of the catalog, which is what is asked for where no bundle has them.
    """
    async with serving() as web:
        made = Registry(web, auth=auth)
        with Bundle.open(bundle) as opened:
            release = catalog.release(VERSION, opened.manifest.arch)
            for image in opened.manifest.images:
                if image.name not in {known.name for known in release.images}:
                    continue
                name = ImageReference.parse(image.reference)
                repository = f"k8s/{name.repository}"
                blobs = {digest: (bundle / blob_path(digest)).read_bytes() for digest in image.blobs}
                manifest = blobs[image.digest]
                entry = (ImageManifest.parse(manifest, image.reference).media_type, manifest)
                made.blobs.setdefault(repository, {}).update(blobs)
                tags = {name.tag, ImageReference.parse(release.image(image.name).reference).tag}
                made.manifests.setdefault(repository, {}).update(dict.fromkeys([*tags, image.digest], entry))
        write_certificates(directory, address)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(directory / "server.pem", directory / "server.key")

        serving_now: set[asyncio.Task[None]] = set()

        async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError):
                while chunk := await source.read(65536):
                    sink.write(chunk)
                    await sink.drain()
            sink.close()

        async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            serving_now.add(task)
            ends = [writer]
            try:
                onward_reader, onward_writer = await asyncio.open_connection("127.0.0.1", web.port)
                ends.append(onward_writer)
                await asyncio.gather(pump(reader, onward_writer), pump(onward_reader, writer))
            except asyncio.CancelledError:
                pass  # the test is over; asyncio would make a fuss about a handler that was cancelled
            finally:
                for end in ends:
                    end.transport.abort()
                    with contextlib.suppress(OSError):
                        await end.wait_closed()
                serving_now.discard(task)

        server = await asyncio.start_server(forward, address, 0, ssl=tls)
        port = server.sockets[0].getsockname()[1]
        web.url = f"https://{address}:{port}"  # where tokens are to be had
        try:
            yield made, f"{address}:{port}"
        finally:
            server.close()
            for task in list(serving_now):
                task.cancel()
            await asyncio.gather(*serving_now, return_exceptions=True)


@pytest.mark.parametrize("auth", ["basic", "bearer"])
async def test_a_registry_with_a_login_and_a_ca_of_its_own(
    runtime: Runtime, bundle: Path, tmp_path: Path, auth: str
) -> None:
    address = str(runtime.lab.network.machine_address)
    runtime.modules = (Containerd,)
    async with registry(bundle, tmp_path, address, auth=auth) as (made, place):
        login = {"username": USER, "password": f"file:{tmp_path / 'password'}", "caFile": str(tmp_path / "ca.pem")}
        (tmp_path / "password").write_text(PASSWORD)
        runtime.spec["registry"] = {
            "mirrors": {"registry.k8s.io": [f"https://{place}/k8s"]},
            "auths": {place: login},
        }
        (await runtime.run()).ok()
        await runtime.sh("n2", "ctr -n k8s.io images rm --sync registry.k8s.io/coredns/coredns:v1.12.1", check=False)
        await runtime.sh("n2", "crictl pull registry.k8s.io/coredns/coredns:v1.12.1")
        await runtime.sh("n2", f"crictl pull {place}/k8s/pause:3.10.1")
        assert {"registry.k8s.io/coredns/coredns:v1.12.1", f"{place}/k8s/pause:3.10.1"} <= await runtime.references(
            "n2"
        )
        certs = "/etc/containerd/certs.d"
        modes = await runtime.sh("n2", f"stat -c '%a' {certs}/registry.k8s.io/hosts.toml {certs}/{place}/hosts.toml")
        assert modes.split() == ["600", "600"]
        journal = (runtime.directory / f"journal-{runtime.runs}").read_text()
        assert PASSWORD not in journal
        assert (await runtime.run()).ok().changed == []
        made.auth = "none"
    await runtime.sh("n2", f"ctr -n k8s.io images rm --sync {place}/k8s/pause:3.10.1")
    runtime.spec.pop("registry")
    (await runtime.run()).ok()


async def test_images_come_from_a_private_registry_where_the_bundle_has_none(
    runtime: Runtime, bundle: Path, tmp_path: Path
) -> None:
    files = tmp_path / "files"
    with Bundle.open(bundle) as opened, BundleWriter(files, kubernetes=[VERSION], arch="amd64") as writer:
        for file in opened.manifest.files:
            writer.add_file(
                bundle / file.path,
                path=file.upstream_path,
                name=file.name,
                component=file.component,
                version=file.version,
                roles=file.roles,
                origin=file.origin,
                licence=file.licence,
                link=True,
            )
        writer.finish()
    runtime.bundle = files
    address = str(runtime.lab.network.machine_address)
    async with registry(bundle, tmp_path, address, auth="none") as (_, place):
        runtime.spec["registry"] = {"private": f"{place}/k8s", "insecure": [place]}
        outcome = (await runtime.run()).ok()
        assert {"images.bring.pull-control-plane", "images.bring.pull-worker"} <= nodes_of(outcome)
        assert f"{place}/k8s/coredns/coredns:v1.12.1" in await runtime.references("n2")
        assert f'sandbox = "{place}/k8s/pause:3.10.1"' in await runtime.sh("n2", "cat /etc/containerd/config.toml")
        assert (await runtime.run()).ok().changed == []
