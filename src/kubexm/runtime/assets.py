"""What is at hand of a cluster's files, images and packages: for planning what they are, for steps their bytes.

Where they came from is settled before planning (see stock.py) and is never part of a plan; their sums are. With nothing
at hand the catalog tells names, versions and places, and sums stay unknown until there is a bundle. A plan that goes
from one Kubernetes release to another refers to both: `release` gives the shelf as another release sees it.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, runtime_checkable

from kubexm.apis.v1alpha1 import Cluster
from kubexm.assets import ROLES, Bundle, ImageEntry, ImageReference, Manifest, PackageSet, assets_for, catalog
from kubexm.assets.cache import default_cache
from kubexm.assets.catalog import Install, Release
from kubexm.assets.kept import kept_archive, kept_packed, packs
from kubexm.assets.names import version_key
from kubexm.errors import AssetError

__all__ = [
    "AssetShelf",
    "NeedsAssets",
    "ShelfFile",
    "ShelfImage",
    "ShelfObjects",
    "features_of",
    "registry_secret",
    "versions_of",
]


@runtime_checkable
class NeedsAssets(Protocol):
    """A step that takes something from the bundle."""

    def sums_needed(self) -> tuple[str, ...]:
        """The sha256 of everything it may send, as far as that was known when planning."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ShelfFile:
    """A file of the cluster, for one architecture."""

    name: str
    version: str
    path: str
    """In the bundle; what it ends in tells what kind of archive it is."""
    install: Install
    sha256: str = ""
    """Empty: not known, for there is no bundle at hand."""
    size: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ShelfObjects:
    """Objects that upstream publishes for the API: a manifest or a chart. Plans refer to them by digest."""

    name: str
    kind: str
    """manifest or chart."""
    version: str
    path: str
    images: tuple[str, ...] = ()
    """Names of the images they use."""
    sha256: str = ""
    """Empty: not known, for neither the catalog nor a bundle at hand tells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShelfImage:
    """An image of the cluster, for one architecture."""

    name: str
    reference: str
    """As pods and the runtime name it."""
    digest: str = ""
    """Of its manifest. Empty: not known, for there is no bundle at hand."""
    size: int = 0
    """Of all its blobs."""
    bundled: bool = True
    """False: the bundle at hand does not hold it, so that nodes must get it from a registry."""


def features_of(cluster: Cluster) -> tuple[str, ...]:
    """What the cluster uses, in the catalog's words."""
    spec = cluster.spec
    behind_balancer = any(
        host.has_role("loadbalancer") or (host.has_role("worker") and not host.has_role("controlPlane"))
        for host in cluster.hosts
    )
    used = {
        "kubeadm": spec.kubernetes.type == "kubeadm",
        "binary": spec.kubernetes.type == "kubexm",
        "systemdEtcd": spec.etcd.type == "kubexm",
        "stackedEtcd": spec.etcd.type == "kubeadm",
        "haproxy": spec.control_plane_endpoint.load_balancer == "haproxy" and behind_balancer,
        "localPath": spec.storage.local_path.enabled,
        "helm": any(addon.chart is not None for addon in spec.addons),
        "registry": any(host.has_role("registry") for host in cluster.hosts),
        "verify": True,
        spec.network.plugin: True,  # a network plugin's feature is called as the plugin
    }
    return tuple(feature for feature in catalog.features() if used.get(feature))


def versions_of(cluster: Cluster) -> dict[str, str]:
    """The versions the file asks for where it does not leave them to the catalog."""
    wanted = {"etcd": cluster.spec.etcd.version, "containerd": cluster.spec.kubernetes.container_runtime.version}
    return {name: f"v{str(version).removeprefix('v')}" for name, version in wanted.items() if version is not None}


def registry_secret(registry: str, what: str) -> str:
    """The name under which the work directory keeps a registry's `login` (for basic authentication) or `ca`."""
    return f"registry.{registry.replace('*', '_').replace(':', '_')}.{what}"


class AssetShelf:
    """The assets of one cluster, by architecture: from bundles where some were opened, else from the catalog."""

    def __init__(
        self,
        cluster: Cluster,
        bundles: Mapping[str, Bundle | Sequence[Bundle]] | None = None,
        *,
        cache: Path | None = None,
    ) -> None:
        self._kubernetes = str(cluster.spec.kubernetes.version)
        self._versions = versions_of(cluster)
        self._private = cluster.spec.registry.private.rstrip("/")
        self._bundles = {
            arch: (held,) if isinstance(held, Bundle) else tuple(held) for arch, held in (bundles or {}).items()
        }
        self._cache = cache or default_cache()
        self._made: dict[tuple[str, ...], asyncio.Task[tuple[Path, str]]] = {}
        self.features = features_of(cluster)

    def release(self, kubernetes: str, *, versions: Mapping[str, str] | None = None) -> AssetShelf:
        """The same shelf, as a cluster of another Kubernetes release sees it: what follows is about that one.

        `versions` are those of single components that differ from what goes with the release; for the cluster's own
        release they are what the file asks for.
        """
        if kubernetes == self._kubernetes and versions is None:
            return self
        other = copy.copy(self)
        other._kubernetes = kubernetes
        other._versions = dict(versions or {})
        return other

    @property
    def kubernetes(self) -> str:
        """The release it is about."""
        return self._kubernetes

    @property
    def releases(self) -> tuple[str, ...]:
        """The Kubernetes releases that the bundles at hand hold, oldest first."""
        held = {version for bundle in self._opened() for version in bundle.manifest.kubernetes}
        return tuple(sorted(held, key=version_key))

    @property
    def arches(self) -> tuple[str, ...]:
        """The architectures there is a bundle for."""
        return tuple(sorted(self._bundles))

    # Planning

    def file(self, name: str, arch: str) -> ShelfFile:
        """What planning knows of a file."""
        known = self._release(arch).file(name)
        if known.install is None:
            raise AssetError(f"{name} is a {known.kind}, which is not put on hosts")
        bundle = self._held(arch)
        if bundle is None:
            return ShelfFile(name=name, version=known.version, path=known.path, install=known.install)
        entry = bundle.manifest.file(name, self._kubernetes)
        return ShelfFile(
            name=name,
            version=entry.version,
            path=entry.path,
            install=known.install,
            sha256=entry.sha256,
            size=entry.size,
        )

    def objects(self, name: str) -> ShelfObjects:
        """What planning knows of a manifest or chart; it is the same for every architecture."""
        arch = next(iter(sorted(self._bundles)), "amd64")
        known, bundle = self._release(arch).objects(name), self._held(arch)
        version, path, sha256 = known.version, known.path, known.sha256
        if bundle is not None:
            entry = bundle.manifest.file(name, self._kubernetes)
            version, path, sha256 = entry.version, entry.path, entry.sha256
        return ShelfObjects(name=name, kind=known.kind, version=version, path=path, images=known.images, sha256=sha256)

    def programs(self, arch: str) -> tuple[tuple[str, str], ...]:
        """Name and version of every program this cluster uses that is staged by version."""
        bundle = self._held(arch)
        held = {entry.name for entry in bundle.manifest.files if entry.serves(self._kubernetes)} if bundle else None
        files = self._release(arch).select(features=self.features).files
        names = [
            file.name for file in files if file.install and file.install.program and (held is None or file.name in held)
        ]
        found = (self.file(name, arch) for name in names)
        return tuple((file.install.program, file.version) for file in found)

    def image(self, name: str, arch: str = "amd64") -> ShelfImage:
        """What planning knows of an image; its reference is the same for every architecture."""
        bundle = self._held(arch) or next((one for other in self._bundles if (one := self._held(other))), None)
        entries = bundle.manifest.images if bundle is not None else ()
        entry = next((one for one in entries if one.name == name and one.serves(self._kubernetes)), None)
        if bundle is None or entry is None:
            known = self._release(arch).image(name)
            return ShelfImage(name=name, reference=self.reference(known.reference), bundled=bundle is None)
        return self._image(bundle.manifest, entry)

    def upstream(self, name: str, arch: str = "amd64") -> str:
        """What upstream calls an image, in the version that is at hand."""
        bundle = self._held(arch)
        entries = bundle.manifest.images if bundle is not None else ()
        entry = next((one for one in entries if one.name == name and one.serves(self._kubernetes)), None)
        return entry.reference if entry is not None else self._release(arch).image(name).reference

    def images(self, roles: Iterable[str], arch: str) -> tuple[ShelfImage, ...]:
        """The images a node with these roles needs, the biggest first where sizes are known."""
        wanted = _known(roles)
        if not wanted:
            return ()
        release = self._release(arch)
        bundle = self._held(arch)
        held = {entry.name: entry for entry in self._selected(bundle, wanted, arch)} if bundle is not None else {}
        listed = {image.name: image.reference for image in release.select(roles=wanted, features=self.features).images}
        # What the catalog knows as files only is not run as an image, whatever else a bundle holds of it.
        programs = {file.name for file in release.files} - {image.name for image in release.images}
        found = [self._image(bundle.manifest, held[name]) for name in held if name not in programs] if bundle else []
        missing = [name for name in listed if name not in held]
        return (
            *found,
            *(
                ShelfImage(name=name, reference=self.reference(listed[name]), bundled=bundle is None)
                for name in missing
            ),
        )

    def packages(self, target: str) -> PackageSet | None:
        """The OS packages for DISTRO-ARCH, if the bundle brings any."""
        held = self._bundles.get(target.rpartition("-")[2], ())
        groups = (group for bundle in held for group in bundle.manifest.packages)
        return next((group for group in groups if group.target == target), None)

    def reference(self, upstream: str) -> str:
        """What hosts call the image that upstream calls so: below `registry.private`, where one is set."""
        if not self._private:
            return upstream
        name = ImageReference.parse(upstream)
        host, _, prefix = self._private.partition("/")
        path = f"{prefix}/{name.repository}" if prefix else name.repository
        return str(replace(name, registry=host, repository=path))

    # Running

    def bundle(self, arch: str) -> Bundle:
        """The bundle for an architecture; AssetError if none is at hand."""
        found = self._held(arch)
        if found is None:
            raise AssetError(
                f"there is no bundle at hand for {arch}",
                hint="name one, or `upstream: true`, under spec.assets.sources",
            )
        return found

    def local(self, path: str, arch: str, *, sha256: str = "") -> Path:
        """Where a file of the bundle is on this machine; AssetError if it is not the one that was planned."""
        bundle = self._holding(path, arch, sha256)
        entry = bundle.entry(path)
        place = bundle.local_path(path)
        if sha256 and entry.sha256 != sha256:
            raise AssetError(
                f"{bundle.path}: {path} has the sha256 {entry.sha256[:16]}…, and {sha256[:16]}… was planned",
                hint="name the bundle the plan was made with, or plan again",
            )
        if place is None:
            raise AssetError(f"{bundle.path} is packed, and was not unpacked")
        return place

    def refuse_others(self, sums: Iterable[str]) -> None:
        """AssetError if something that was planned is not in the bundles at hand."""
        held = {entry.sha256: entry.path for bundle in self._opened() for entry in bundle.manifest.entries()}
        missing = sorted(set(sums) - set(held))
        if missing:
            places = ", ".join(str(bundle.path) for bundle in self._opened())
            raise AssetError(
                f"{places}: {len(missing)} of the files that were planned are not in it, the first with the sha256 "
                f"{missing[0][:16]}…",
                hint="name the bundle the plan was made with, or plan again",
            )

    async def archive(self, names: Iterable[str], arch: str) -> tuple[Path, str]:
        """A file with these images as `ctr images import` takes them, and its sha256; made once for all hosts."""
        entries = self._entries(names, arch)
        key = ("images", arch, *sorted(entry.reference for entry in entries))
        return await self._once(key, kept_archive, self.bundle(arch), entries)

    async def packed(self, path: str, arch: str, *, sha256: str) -> tuple[Path, str] | None:
        """A file of the bundle packed with zstd, and the sha256 of that; nothing if it is not worth it."""
        source = self.local(path, arch, sha256=sha256)
        if not packs(path, self._holding(path, arch, sha256).entry(path).size):
            return None
        return await self._once(("file", sha256), kept_packed, source, sha256)

    async def _once(
        self, key: tuple[str, ...], make: Callable[..., tuple[Path, str]], *what: object
    ) -> tuple[Path, str]:
        """What is made for all hosts, by the first that asks; made anew if that failed."""
        task = self._made.get(key)
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            made = asyncio.to_thread(make, *what, self._cache / "archives")
            task = self._made[key] = asyncio.get_running_loop().create_task(made)
        return await asyncio.shield(task)

    def _entries(self, names: Iterable[str], arch: str) -> tuple[ImageEntry, ...]:
        """The bundle's entries of these images, under the references hosts know them by."""
        manifest = self.bundle(arch).manifest
        entries = (manifest.image(name, self._kubernetes) for name in names)
        return tuple(replace(entry, reference=self.reference(entry.reference)) for entry in entries)

    def close(self) -> None:
        """Closes the bundles."""
        for bundle in self._opened():
            bundle.close()

    def _opened(self) -> tuple[Bundle, ...]:
        return tuple(bundle for held in self._bundles.values() for bundle in held)

    def _held(self, arch: str) -> Bundle | None:
        """The bundle for an architecture that holds this release."""
        return next((one for one in self._bundles.get(arch, ()) if self._kubernetes in one.manifest.kubernetes), None)

    def _holding(self, path: str, arch: str, sha256: str) -> Bundle:
        """The bundle that holds a file: of several with this path, the one whose sum is right."""
        held = [one for one in self._bundles.get(arch, ()) if one.holds(path)]
        right = [one for one in held if not sha256 or one.entry(path).sha256 == sha256]
        return next(iter((*right, *held)), None) or self.bundle(arch)

    def _release(self, arch: str) -> Release:
        return catalog.release(self._kubernetes, arch, versions=self._versions)

    def _selected(self, bundle: Bundle, roles: tuple[str, ...], arch: str) -> tuple[ImageEntry, ...]:
        return assets_for(
            bundle.manifest, roles=roles, arch=arch, kubernetes=self._kubernetes, features=self.features
        ).images

    def _image(self, manifest: Manifest, entry: ImageEntry) -> ShelfImage:
        sizes = {blob.digest: blob.size for blob in manifest.blobs}
        return ShelfImage(
            name=entry.name,
            reference=self.reference(entry.reference),
            digest=entry.digest,
            size=sum(sizes[digest] for digest in set(entry.blobs)),
        )


def _known(roles: Iterable[str]) -> tuple[str, ...]:
    given = set(roles)
    return tuple(role for role in ROLES if role in given)
