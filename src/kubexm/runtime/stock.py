"""Fills the shelf before a run: finds, fetches and checks a bundle for each architecture of the cluster.

All that can be wrong with what the user named is said here, before anything on a host is changed.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from kubexm import config
from kubexm.apis.v1alpha1 import Cluster
from kubexm.assets import Bundle, catalog
from kubexm.assets.cache import default_cache
from kubexm.assets.intact import check_intact
from kubexm.assets.layout import INDEX, OCI_LAYOUT, blob_path
from kubexm.assets.locks import locked
from kubexm.assets.provide import SourceOptions, SourceSpec, covers, provide_bundle
from kubexm.assets.registry.access import RegistryAccess
from kubexm.assets.registry.auth import Credentials
from kubexm.errors import AssetError
from kubexm.redact import Redactor, Secret
from kubexm.runtime.assets import AssetShelf, features_of, registry_secret, versions_of
from kubexm.runtime.secrets import SecretStore

__all__ = ["Stock"]


class Stock:
    """Where the assets of a cluster come from: what its file says, with paths and secrets resolved."""

    def __init__(
        self,
        cluster: Cluster,
        base_dir: Path,
        *,
        ask: Callable[[str], str] | None = None,
        redactor: Redactor | None = None,
        cache: Path | None = None,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._cluster = cluster
        self._base_dir = base_dir
        self._ask = ask
        self._redactor = redactor or Redactor()
        self._cache = cache or default_cache()
        self._say = say
        self._kubernetes = str(cluster.spec.kubernetes.version)
        self._features = features_of(cluster)
        self._logins: dict[str, Credentials] = {}
        self._packed: dict[Path, Path] = {}
        """Where bundles that were unpacked came from."""

    # At hand

    def at_hand(self, arches: Iterable[str], *, releases: Iterable[str] = ()) -> AssetShelf:
        """What can be told with no network and no waiting: bundles on this machine that hold all that is needed."""
        bundles: dict[str, list[Bundle]] = {}
        for arch, kubernetes in self._each(arches, releases):
            if any(kubernetes in bundle.manifest.kubernetes for bundle in bundles.get(arch, ())):
                continue
            for spec in self._specs():
                if spec.bundle is None or not spec.bundle.exists():
                    break  # what is before it in the list may come from elsewhere: nobody can tell from here
                bundle = Bundle.open(spec.bundle)
                private = bool(self._cluster.spec.registry.private)
                if covers(bundle, kubernetes=kubernetes, arch=arch, features=self._features, images=not private):
                    bundles.setdefault(arch, []).append(bundle)
                    break
                bundle.close()
        return self._shelf(bundles)

    def missing(self) -> list[Path]:
        """Bundles that the file names and that are not on this machine."""
        return [spec.bundle for spec in self._specs() if spec.bundle is not None and not spec.bundle.exists()]

    # For a run

    async def fill(self, arches: Iterable[str], *, unpack: bool, releases: Iterable[str] = ()) -> AssetShelf:
        """A bundle for each architecture, fetched if need be; with `unpack` as directories, checked and ready to send.

        `releases` are Kubernetes releases that a plan refers to besides the cluster's own. AssetError if something is
        not found, is damaged, or is for another version or architecture.
        """
        bundles: dict[str, list[Bundle]] = {}
        try:
            for arch, kubernetes in self._each(arches, releases):
                held = bundles.setdefault(arch, [])
                place = await self._bundle(arch, kubernetes)
                found = next((bundle for bundle in held if place in (bundle.path, self._packed.get(bundle.path))), None)
                if found is None:
                    held.append(Bundle.open(place))
                    if unpack:
                        held[-1] = await self._unpacked(held[-1])
                        self._packed[held[-1].path] = place
                    found = held[-1]
                if unpack:
                    await asyncio.to_thread(check_intact, found, self._needed(found, kubernetes), self._cache)
            return self._shelf(bundles)
        except BaseException:
            for bundle in (one for held in bundles.values() for one in held):
                bundle.close()
            raise

    def _each(self, arches: Iterable[str], releases: Iterable[str]) -> list[tuple[str, str]]:
        """Every architecture with every release, the cluster's own first."""
        wanted = dict.fromkeys((self._kubernetes, *releases))
        return [(arch, kubernetes) for arch in dict.fromkeys(arches) for kubernetes in wanted]

    def keep_secrets(self, secrets: SecretStore) -> None:
        """Puts logins and certificates of registries where steps find them."""
        registry = self._cluster.spec.registry
        for host, auth in registry.auths.items():
            login = self._login(host)
            pair = f"{login.username}:{login.password.reveal()}".encode()
            secrets.put(registry_secret(host, "login"), Secret(base64.b64encode(pair).decode()))
            if auth.ca_file:
                secrets.put(registry_secret(host, "ca"), Secret(self._text(auth.ca_file, f"CA certificate of {host}")))

    async def _bundle(self, arch: str, kubernetes: str) -> Path:
        specs = self._specs()
        await asyncio.to_thread(self._refuse_other_bundles, specs, arch, kubernetes)
        remote = any(spec.bundle is None for spec in specs)
        images = not await asyncio.to_thread(self._images_from_registries, specs, arch, kubernetes)
        versions = self._wanted() if kubernetes == self._kubernetes else {}
        return await provide_bundle(
            specs,
            kubernetes=kubernetes,
            arch=arch,
            features=self._features,
            options=SourceOptions(access=self._access() if remote else RegistryAccess(), versions=versions),
            images=images,
            cache=self._cache,
            say=self._say,
        )

    def _images_from_registries(self, specs: Sequence[SourceSpec], arch: str, kubernetes: str) -> bool:
        """Whether nodes pull images themselves: from a private registry, or by mirrors where a bundle has none."""
        registry = self._cluster.spec.registry
        if registry.private:
            return True
        if not registry.mirrors or any(spec.bundle is None for spec in specs):
            return False
        return not any(self._covers(spec, arch, kubernetes) for spec in specs) and any(
            self._covers(spec, arch, kubernetes, images=False) for spec in specs
        )

    def _covers(self, spec: SourceSpec, arch: str, kubernetes: str, *, images: bool = True) -> bool:
        if spec.bundle is None or not spec.bundle.exists():
            return False
        with Bundle.open(spec.bundle) as bundle:
            return covers(bundle, kubernetes=kubernetes, arch=arch, features=self._features, images=images)

    def _refuse_other_bundles(self, specs: Sequence[SourceSpec], arch: str, kubernetes: str) -> None:
        """Where bundles are all there is, one at least is for this version and architecture."""
        held: list[str] = []
        for spec in specs:
            if spec.bundle is None:
                return
            if not spec.bundle.exists():
                raise AssetError(
                    f"there is no bundle {spec.bundle}",
                    hint="spec.assets.sources names it; relative paths start at the directory of the file",
                )
            with Bundle.open(spec.bundle) as bundle:
                if bundle.manifest.arch == arch and kubernetes in bundle.manifest.kubernetes:
                    return
                versions = ", ".join(bundle.manifest.kubernetes)
                held.append(f"{spec.bundle} is for Kubernetes {versions} on {bundle.manifest.arch}")
        raise AssetError(
            f"no bundle holds Kubernetes {kubernetes} for {arch}:\n" + "\n".join(f"  {line}" for line in held),
            hint=f"make one with `kubexm bundle create --kubernetes {kubernetes.removeprefix('v')} --arch {arch}`"
            " and name it in spec.assets.sources",
        )

    async def _unpacked(self, bundle: Bundle) -> Bundle:
        """The bundle as a directory: itself, or what is unpacked once into the cache."""
        if not bundle.is_archive:
            return bundle
        place = self._cache / "unpacked" / bundle.manifest.digest[:32]
        try:
            async with locked(place.with_name(f".{place.name}.unpack")):
                if not place.is_dir():
                    self._say(f"unpacking {bundle.path}")
                    await asyncio.to_thread(bundle.extract, place)
        finally:
            bundle.close()
        return Bundle.open(place)

    def _needed(self, bundle: Bundle, kubernetes: str) -> list[str]:
        """The paths of what this cluster uses of the bundle in this release, for whatever role."""
        manifest = bundle.manifest
        release = catalog.release(kubernetes, manifest.arch).select(features=self._features)
        files = {file.name for file in release.files}
        images = {image.name for image in release.images}
        paths = [file.path for file in manifest.files if file.name in files and file.serves(kubernetes)]
        paths += [package.path for group in manifest.packages for package in group.packages]
        for image in manifest.images:
            if image.name in images and image.serves(kubernetes):
                paths += [blob_path(digest) for digest in image.blobs]
        return [*paths, *((INDEX, OCI_LAYOUT) if manifest.images else ())]

    def _shelf(self, bundles: dict[str, list[Bundle]]) -> AssetShelf:
        for bundle in (one for held in bundles.values() for one in held):
            for component, version in self._wanted().items():
                files = bundle.manifest.files
                held = {file.version for file in files if file.name == component and file.serves(self._kubernetes)}
                if held and held != {version}:
                    raise AssetError(
                        f"{bundle.path} holds {component} {', '.join(sorted(held))}, and the file asks for {version}",
                        hint="leave the version out of the file, or name a bundle that was made with it",
                    )
        return AssetShelf(self._cluster, bundles)

    # What the file says

    def _specs(self) -> list[SourceSpec]:
        found = []
        for source in self._cluster.spec.assets.sources:
            if source.bundle is not None:
                found.append(SourceSpec(bundle=config.local_path(source.bundle, self._base_dir)))
            else:
                found.append(SourceSpec(mirror=str(source.mirror or "")))
        return found

    def _wanted(self) -> dict[str, str]:
        return versions_of(self._cluster)

    def _access(self) -> RegistryAccess:
        registry = self._cluster.spec.registry
        return RegistryAccess(
            mirrors={host: tuple(map(str, urls)) for host, urls in registry.mirrors.items()},
            plain_http=frozenset(registry.insecure),
            credentials={host: self._login(host) for host in registry.auths},
        )

    def _login(self, host: str) -> Credentials:
        if host not in self._logins:
            auth = self._cluster.spec.registry.auths[host]
            secret = config.resolve(
                auth.password, base_dir=self._base_dir, ask=self._ask, what=f"password of {auth.username} at {host}"
            )
            self._redactor.add(secret)
            self._logins[host] = Credentials(username=auth.username, password=secret)
        return self._logins[host]

    def _text(self, path: str, what: str) -> str:
        place = config.local_path(path, self._base_dir)
        try:
            return place.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not text"
            raise AssetError(f"{what}: {place} cannot be read: {reason}") from error
