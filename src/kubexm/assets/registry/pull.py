"""Brings an image out of a registry into a blob store, for one platform, every blob checked against its digest."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kubexm.assets.download import Download, Downloader
from kubexm.assets.oci import BlobStore, Descriptor, ImageManifest, StoredImage, parse_document, pick_platform
from kubexm.assets.reference import ImageReference
from kubexm.assets.registry.access import Endpoint, RegistryAccess
from kubexm.assets.registry.session import RegistrySession
from kubexm.assets.transfer import NotThere, Progress, Refused, Retry, Unreachable
from kubexm.errors import AssetError

if TYPE_CHECKING:
    import httpx

__all__ = ["Puller"]

_AT_ONCE = 3


class Puller:
    """Pulls images: from mirrors in the user's order, then from the registry itself."""

    def __init__(
        self,
        client: httpx.AsyncClient,
        access: RegistryAccess,
        *,
        retry: Retry | None = None,
        progress: Progress | None = None,
    ) -> None:
        self._client = client
        self._access = access
        self._retry = retry or Retry()
        self._progress = progress
        self._sessions: dict[Endpoint, RegistrySession] = {}

    async def pull(self, reference: ImageReference, arch: str, store: BlobStore) -> StoredImage:
        """The image, all of it in the store; what is there already is not fetched again.

        NotThere if no place has it, Unreachable if some place may have it but does not give it.
        """
        reasons: list[str] = []
        kind: type[AssetError] = NotThere
        hint = ""
        for endpoint in self._access.endpoints(reference):
            try:
                return await self._pull(self._session(endpoint), reference, arch, store)
            except (NotThere, Refused, Unreachable) as error:  # another place may have it
                reasons.append(error.message)
                hint = error.hint
                kind = kind if isinstance(error, NotThere) else Unreachable
        raise kind(
            f"the image {reference} could not be pulled:\n" + "\n".join(f"  {reason}" for reason in reasons), hint=hint
        )

    def _session(self, endpoint: Endpoint) -> RegistrySession:
        if endpoint not in self._sessions:
            self._sessions[endpoint] = RegistrySession(self._client, endpoint, retry=self._retry)
        return self._sessions[endpoint]

    async def _pull(
        self, session: RegistrySession, reference: ImageReference, arch: str, store: BlobStore
    ) -> StoredImage:
        repository = session.endpoint.repository(reference.repository)
        data = await session.manifest(repository, reference.target)
        document = parse_document(data, str(reference))
        if "manifests" in document:
            picked = pick_platform(document, arch, str(reference))
            data = await session.manifest(repository, picked.digest)
        elif document.get("schemaVersion") == 1:
            raise AssetError(f"{reference} has a manifest of an old kind (schema 1), which no runtime takes any more")
        manifest = ImageManifest.parse(data, str(reference))
        gate = asyncio.Semaphore(_AT_ONCE)
        blobs = {blob.digest: blob for blob in (manifest.config, *manifest.layers)}
        try:
            async with asyncio.TaskGroup() as group:
                for blob in blobs.values():
                    group.create_task(self._blob(session, repository, blob, store, gate, reference))
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from errors
        store.put_bytes(data)
        return StoredImage.of(manifest)

    async def _blob(
        self,
        session: RegistrySession,
        repository: str,
        blob: Descriptor,
        store: BlobStore,
        gate: asyncio.Semaphore,
        reference: ImageReference,
    ) -> None:
        async with gate, store.exclusive(blob.digest):
            if await asyncio.to_thread(store.intact, blob):
                return
            downloader = Downloader(
                session.get(session.scope(repository)), retry=session.retry, progress=self._progress
            )
            wanted = Download(
                url=session.url(repository, f"blobs/{blob.digest}"),
                sha256=blob.digest.removeprefix("sha256:"),
                size=blob.size,
                name=f"{reference} {blob.digest[7:19]}",
            )
            await downloader.fetch(wanted, store.path(blob.digest))
