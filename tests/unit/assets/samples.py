"""Small bundles and images, made the way real ones are, for the tests of assets."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from pathlib import Path

from kubexm.assets import BundleWriter, DockerArchive, Manifest

KUBERNETES = "v1.34.4"
ARCH = "amd64"


def layer(files: dict[str, bytes]) -> bytes:
    """A layer's tar, the same each time."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def docker_archive(
    path: Path, reference: str, layers: list[bytes], *, arch: str = ARCH, compress: bool = False, diff: str = ""
) -> Path:
    """A docker-archive with one image."""
    config = json.dumps(
        {
            "architecture": arch,
            "os": "linux",
            "config": {"Entrypoint": ["/x"]},
            "rootfs": {
                "type": "layers",
                "diff_ids": [diff or "sha256:" + hashlib.sha256(data).hexdigest() for data in layers],
            },
        }
    ).encode()
    members = {f"{number}/layer.tar": data for number, data in enumerate(layers)}
    listed = [{"Config": "config.json", "RepoTags": [reference], "Layers": list(members)}]
    if compress:
        members = {name: gzip.compress(data, mtime=0) for name, data in members.items()}
    path.write_bytes(layer({"config.json": config, **members, "manifest.json": json.dumps(listed).encode()}))
    return path


def fill(writer: BundleWriter, work: Path) -> None:
    """Two files, two images that share a layer, two packages."""
    work.mkdir(parents=True, exist_ok=True)
    kubeadm = work / "kubeadm"
    kubeadm.write_bytes(b"kubeadm" * 1000)
    etcd = work / "etcd.tar.gz"
    etcd.write_bytes(b"etcd" * 500)
    shared = layer({"base": b"base" * 300})
    writer.add_file(
        kubeadm,
        path=f"dl.k8s.io/{KUBERNETES}/bin/linux/amd64/kubeadm",
        name="kubeadm",
        component="kubernetes",
        version=KUBERNETES,
        roles=["worker", "controlPlane"],
        origin=f"https://dl.k8s.io/{KUBERNETES}/bin/linux/amd64/kubeadm",
        licence="Apache-2.0",
        kubernetes=[KUBERNETES],
    )
    writer.add_file(
        etcd,
        path="github.com/etcd-io/etcd/releases/download/v3.6.5/etcd-v3.6.5-linux-amd64.tar.gz",
        name="etcd",
        component="etcd",
        version="v3.6.5",
        roles=["etcd"],
        origin="https://github.com/etcd-io/etcd",
        licence="Apache-2.0",
    )
    for name, roles, extra in (
        ("pause", ["controlPlane", "worker"], b"pause"),
        ("kube-apiserver", ["controlPlane"], b"apiserver"),
    ):
        reference = f"registry.k8s.io/{name}:{KUBERNETES}"
        archive = docker_archive(work / f"{name}.tar", reference, [shared, layer({name: extra})])
        writer.add_image(
            DockerArchive(path=archive),
            reference=reference,
            name=name,
            component="kubernetes",
            version=KUBERNETES,
            roles=roles,
            origin=reference,
            licence="Apache-2.0",
        )
    for name, requested in (("conntrack", True), ("libmnl0", False)):
        deb = work / f"{name}_1.0_amd64.deb"
        deb.write_bytes(b"!<arch>\n" + name.encode() * 40)
        writer.add_package(
            deb,
            target="debian-12-amd64",
            name=name,
            version="1.0",
            roles=["controlPlane", "worker"],
            origin=f"debian bookworm {name}=1.0",
            licence="GPL-2.0-or-later",
            requested=requested,
        )


def sample_bundle(directory: Path, *, arch: str = ARCH) -> Manifest:
    """A bundle directory with a bit of everything."""
    work = directory.parent / f"{directory.name}-inputs"
    with BundleWriter(directory, kubernetes=[KUBERNETES], arch=arch) as writer:
        fill(writer, work)
        return writer.finish()


def tree(directory: Path) -> dict[str, bytes]:
    """Every file below a directory, hidden ones included."""
    return {
        str(path.relative_to(directory)): path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()
    }
