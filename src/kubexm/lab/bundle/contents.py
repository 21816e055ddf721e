"""What a lab bundle holds: the catalog's files and images, each joined to the artefact that is it. Builds nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from kubexm.assets.catalog import FileAsset, ImageAsset, Release, packages, release
from kubexm.assets.names import sorted_roles
from kubexm.components.probes.program import PROGRAM
from kubexm.errors import UsageError
from kubexm.lab.bundle import programs, versions
from kubexm.lab.bundle.artefacts import Artefact
from kubexm.lab.bundle.debian import DebianFiles, DebianPackages
from kubexm.lab.bundle.gobuild import GoPrograms
from kubexm.lab.bundle.image_recipes import ImageRecipes
from kubexm.lab.bundle.images import Image, ReleaseArchive
from kubexm.lab.bundle.probe import ProbeProgram, probe_asset
from kubexm.lab.bundle.toolchain import multiarch
from kubexm.lab.bundle.trees import Taken

__all__ = ["Contents", "PlannedFile", "PlannedImage", "in_order", "plan_contents"]

_KUBERNETES_FILES = (
    *("kubeadm", "kubectl", "kubelet"),
    *("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy"),
)
_EXTRA_PACKAGES = ("kmod",)
"""Needed to load kernel modules; most installations have it, a minimal one has not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFile:
    """A file of the catalog, and the artefact that has it."""

    asset: FileAsset
    artefact: Artefact
    file: str
    origin: str
    kubernetes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedImage:
    """An image of the catalog, and the artefact that is it."""

    asset: ImageAsset
    image: Image
    origin: str
    kubernetes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """Everything a bundle will hold."""

    kubernetes: tuple[str, ...]
    arch: str
    parts: tuple[str, ...]
    files: tuple[PlannedFile, ...]
    images: tuple[PlannedImage, ...]
    packages: DebianPackages
    package_roles: tuple[str, ...]

    def artefacts(self) -> list[Artefact]:
        """All that must be made, each once and after what it needs; what takes longest comes first."""
        roots: list[Artefact] = [file.artefact for file in self.files]
        roots += [image.image for image in self.images]
        return in_order([*roots, self.packages])


def in_order(roots: Iterable[Artefact]) -> list[Artefact]:
    """The artefacts with all they need, each once, after what it needs."""
    ordered: dict[str, Artefact] = {}

    def visit(artefact: Artefact) -> None:
        if artefact.name not in ordered:
            for need in artefact.needs:
                visit(need)
            ordered[artefact.name] = artefact

    for root in roots:
        visit(root)
    return list(ordered.values())


def plan_contents(kubernetes: Iterable[str], *, arch: str, parts: Iterable[str] = (), mirror: str = "") -> Contents:
    """What a bundle for these Kubernetes versions holds; UsageError for a part there is not."""
    asked = ("cluster", *(part for part in dict.fromkeys(parts) if part != "cluster"))
    if strange := [part for part in asked if part not in versions.PARTS]:
        raise UsageError(
            f"there is no part {strange[0]!r} of a lab bundle", hint=f"The parts are {', '.join(versions.PARTS)}."
        )
    wanted = versions.kubernetes_versions(kubernetes)
    planner = _Planner(arch=arch, mirror=mirror)
    files: dict[str, PlannedFile] = {}
    images: dict[str, PlannedImage] = {}
    for version in wanted:
        more_files, more_images = planner.of_release(version)
        for file in more_files:
            known = files.setdefault(file.asset.path, file)
            files[file.asset.path] = replace(known, kubernetes=_union(known.kubernetes, file.kubernetes))
        for image in more_images:
            same = images.setdefault(image.asset.reference, image)
            images[image.asset.reference] = replace(same, kubernetes=_union(same.kubernetes, image.kubernetes))
    shared_files, shared_images = planner.shared(wanted[0], asked)
    return Contents(
        kubernetes=wanted,
        arch=arch,
        parts=asked,
        files=(*files.values(), *shared_files),
        images=(*images.values(), *shared_images),
        packages=DebianPackages(
            name="packages-debian-12",
            release=versions.DEBIAN,
            arch=arch,
            packages=tuple(sorted({*(package.name for package in packages("apt")), *_EXTRA_PACKAGES})),
            mirror=mirror,
        ),
        package_roles=sorted_roles(role for package in packages("apt") for role in package.roles),
    )


def _union(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*one, *other)))


class _Planner:
    """Joins recipes to the catalog for one architecture."""

    def __init__(self, *, arch: str, mirror: str) -> None:
        self.arch = arch
        haproxy, busybox = versions.SHARED["haproxy"], versions.SHARED["busybox"]
        self.debian = DebianFiles(
            name="debian-files",
            release=versions.DEBIAN,
            arch=arch,
            packages=(*versions.DEBIAN_PACKAGES, "ca-certificates"),
            mirror=mirror,
            upstream=(("haproxy", haproxy), ("busybox-static", busybox)),
        )
        self.recipes = ImageRecipes(arch=arch, triplet=multiarch(arch), debian=self.debian)

    def of_release(self, version: str) -> tuple[list[PlannedFile], list[PlannedImage]]:
        """What a Kubernetes version has for itself."""
        catalog, chosen = self._release(version)
        kubernetes = programs.kubernetes(version)
        etcd, coredns = programs.etcd(chosen["etcd"]), programs.coredns(chosen["coredns"])
        pause = programs.pause(version, chosen["pause"])
        own = (version,)
        files = [
            PlannedFile(
                asset=catalog.file(name), artefact=kubernetes, file=name, origin=kubernetes.origin, kubernetes=own
            )
            for name in _KUBERNETES_FILES
        ]
        etcd_root = f"etcd-{etcd.modules[0].version}-linux-{self.arch}"
        files.append(replace(self._archive(catalog.file("etcd"), etcd, f"{etcd_root}/"), kubernetes=own))
        control_plane = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
        found = [(name, self.recipes.control_plane(kubernetes, name, version), kubernetes) for name in control_plane]
        found += [
            ("kube-proxy", self.recipes.kube_proxy(kubernetes, version), kubernetes),
            ("etcd", self.recipes.etcd(etcd, chosen["etcd-image"]), etcd),
            ("coredns", self.recipes.coredns(coredns, chosen["coredns"]), coredns),
        ]
        images = [
            PlannedImage(asset=catalog.image(name), image=image, origin=made_from.origin, kubernetes=own)
            for name, image, made_from in found
        ]
        if bridge := chosen.get("etcd-bridge"):
            files, images = self._with_bridge(catalog, bridge, own, files, images)
        picture = self.recipes.pause(pause, chosen["pause"])
        images.append(PlannedImage(asset=catalog.image("pause"), image=picture, origin=pause.origin, kubernetes=own))
        return files, images

    def _with_bridge(
        self, catalog: Release, version: str, own: tuple[str, ...], files: list[PlannedFile], images: list[PlannedImage]
    ) -> tuple[list[PlannedFile], list[PlannedImage]]:
        """Adds the etcd that members run on the way from the previous minor."""
        etcd = programs.etcd(version)
        root = f"etcd-{version}-linux-{self.arch}"
        file = replace(self._archive(catalog.file("etcd-bridge"), etcd, f"{root}/"), kubernetes=own)
        image = PlannedImage(
            asset=catalog.image("etcd-bridge"),
            image=self.recipes.etcd(etcd, version),
            origin=etcd.origin,
            kubernetes=own,
        )
        return [*files, file], [*images, image]

    def shared(self, newest: str, parts: tuple[str, ...]) -> tuple[list[PlannedFile], list[PlannedImage]]:
        """What every Kubernetes version of the bundle uses."""
        catalog, chosen = self._release(newest)
        recipes = self.recipes
        containerd, runc = programs.containerd(chosen["containerd"]), programs.runc(chosen["runc"])
        cni, crictl = programs.cni_plugins(chosen["cni-plugins"]), programs.crictl(chosen["crictl"])
        flannel = programs.flannel(chosen["flannel"])
        flannel_cni = programs.flannel_cni_plugin(chosen["flannel-cni-plugin"])
        local_path = programs.local_path_provisioner(chosen["local-path-provisioner"])
        agnhost = programs.agnhost(newest, chosen["agnhost"])
        debian, probe = f"Debian {versions.DEBIAN}", ProbeProgram()
        files = [
            self._archive(catalog.file("containerd"), containerd, "bin/"),
            PlannedFile(asset=catalog.file("runc"), artefact=runc, file="runc", origin=runc.origin),
            self._archive(catalog.file("cni-plugins"), cni, ""),
            self._archive(catalog.file("crictl"), crictl, ""),
            self._haproxy(catalog.file("haproxy"), debian),
            PlannedFile(asset=probe_asset(self.arch), artefact=probe, file=PROGRAM, origin=probe.origin),
        ]
        made: list[tuple[str, Image, str]] = [
            ("flannel", recipes.flannel(flannel, chosen["flannel"]), flannel.origin),
            (
                "flannel-cni-plugin",
                recipes.flannel_cni_plugin(flannel_cni, chosen["flannel-cni-plugin"]),
                flannel_cni.origin,
            ),
            (
                "local-path-provisioner",
                recipes.local_path_provisioner(local_path, chosen["local-path-provisioner"]),
                local_path.origin,
            ),
            ("busybox", recipes.busybox(chosen["busybox"]), f"{debian} package busybox-static"),
            ("agnhost", recipes.agnhost(agnhost, chosen["agnhost"]), agnhost.origin),
        ]
        images = [PlannedImage(asset=catalog.image(name), image=image, origin=origin) for name, image, origin in made]
        haproxy_file = catalog.file("haproxy")
        haproxy_asset = ImageAsset(
            name="haproxy",
            component="haproxy",
            version=haproxy_file.version,
            arch=self.arch,
            reference=f"docker.io/library/haproxy:{haproxy_file.version}",
            licence=haproxy_file.licence,
            roles=haproxy_file.roles,
            features=haproxy_file.features,
        )
        image = recipes.haproxy(haproxy_file.version)
        images.append(PlannedImage(asset=haproxy_asset, image=image, origin=f"{debian} package haproxy"))
        if "helm" in parts:
            helm = programs.helm(chosen["helm"])
            files.append(self._archive(catalog.file("helm"), helm, f"linux-{self.arch}/"))
        if "registry" in parts:
            registry = programs.registry(chosen["registry"])
            files.append(self._archive(catalog.file("registry"), registry, ""))
            asset = replace(
                haproxy_asset,
                name="registry",
                component="registry",
                version=chosen["registry"],
                reference=f"docker.io/library/registry:{chosen['registry'].removeprefix('v')}",
                licence="Apache-2.0",
                roles=catalog.file("registry").roles,
                features=catalog.file("registry").features,
            )
            picture = recipes.registry(registry, chosen["registry"])
            images.append(PlannedImage(asset=asset, image=picture, origin=registry.origin))
        return files, images

    def _release(self, version: str) -> tuple[Release, dict[str, str]]:
        chosen = versions.chosen(version)
        own = {name: value for name, value in chosen.items() if name != "kubernetes"}
        return release(version, self.arch, versions=own), chosen

    def _archive(self, asset: FileAsset, made_from: GoPrograms, prefix: str) -> PlannedFile:
        """Programs as the archive upstream releases them in."""
        name = asset.path.rpartition("/")[2]
        archive = ReleaseArchive(
            name=f"archive-{made_from.name}",
            file=name,
            parts=tuple(
                Taken(path=f"{prefix}{program.file}", artefact=made_from, file=program.file)
                for program in made_from.programs
            ),
        )
        return PlannedFile(asset=asset, artefact=archive, file=name, origin=made_from.origin)

    def _haproxy(self, asset: FileAsset, debian: str) -> PlannedFile:
        name = asset.path.rpartition("/")[2]
        archive = ReleaseArchive(name=f"archive-haproxy-{asset.version}", file=name, parts=self.recipes.haproxy_tree())
        return PlannedFile(asset=asset, artefact=archive, file=name, origin=f"{debian} package haproxy")
