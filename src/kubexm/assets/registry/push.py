"""Puts a bundle's images into a registry: blobs that are there are skipped, shared ones are mounted, not sent twice."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from kubexm.assets.bundle import Bundle
from kubexm.assets.layout import blob_path
from kubexm.assets.manifest import ImageEntry
from kubexm.assets.oci import ImageManifest
from kubexm.assets.reference import ImageReference
from kubexm.assets.registry.session import RegistrySession
from kubexm.assets.transfer import NotThere, Progress, Transient
from kubexm.errors import AssetError

if TYPE_CHECKING:
    import httpx

__all__ = ["PushSummary", "Pusher"]

_AT_ONCE = 3


@dataclass(slots=True, kw_only=True)
class PushSummary:
    """What a push did."""

    images: int = 0
    present: int = 0
    """Images that were there already."""
    sent: int = 0
    skipped: int = 0
    mounted: int = 0
    bytes_sent: int = 0


class _UploadLost(Exception):
    """The registry forgot the upload; the blob has to be sent from its start."""


class Pusher:
    """Pushes images of one bundle to one registry."""

    def __init__(
        self,
        session: RegistrySession,
        bundle: Bundle,
        *,
        keep_registry: bool = False,
        chunk: int = 32 * 1024 * 1024,
        progress: Progress | None = None,
    ) -> None:
        self._session = session
        self._bundle = bundle
        self._keep_registry = keep_registry
        self._chunk = chunk
        self._progress = progress
        self._sizes = {blob.digest: blob.size for blob in bundle.manifest.blobs}
        self._homes: dict[str, str] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self.summary = PushSummary()

    def target(self, image: ImageEntry) -> tuple[str, str]:
        """The repository and the tag an image gets."""
        reference = ImageReference.parse(image.reference)
        name = f"{reference.registry}/{reference.repository}" if self._keep_registry else reference.repository
        return self._session.endpoint.repository(name.replace(":", "-")), reference.tag or reference.target

    async def push(self, images: Iterable[ImageEntry]) -> PushSummary:
        """Pushes these images; afterwards each is there under its tag, with its own digest."""
        gate = asyncio.Semaphore(_AT_ONCE)
        wanted = {self.target(image): image for image in images}
        await self._session.check()
        for repository, tag in list(wanted)[:1]:
            await self._digest_of(repository, tag)  # a registry that refuses us says so once, not to each image

        async def one(image: ImageEntry) -> None:
            async with gate:
                await self._image(image)

        try:
            async with asyncio.TaskGroup() as group:
                for image in wanted.values():
                    group.create_task(one(image))
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from errors
        return self.summary

    async def _image(self, image: ImageEntry) -> None:
        repository, tag = self.target(image)
        self.summary.images += 1
        if await self._digest_of(repository, tag) == image.digest:
            self.summary.present += 1
            return
        for digest in image.blobs[1:]:
            async with self._locks.setdefault(digest, asyncio.Lock()):
                await self._blob(repository, digest, f"{repository}:{tag} {digest[7:19]}")
                self._homes.setdefault(digest, repository)
        await self._manifest(image, repository, tag)

    async def _digest_of(self, repository: str, tag: str) -> str:
        url, scope = self._session.url(repository, f"manifests/{tag}"), self._session.scope(repository, push=True)
        types = "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json"

        async def work() -> str:
            good = frozenset({200, 404})
            response = await self._session.send("HEAD", url, scope, good=good, headers={"Accept": types})
            return str(response.headers.get("docker-content-digest", "")) if response.status_code == 200 else ""

        return await self._session.retry(work, f"{url} could not be asked for")

    async def _manifest(self, image: ImageEntry, repository: str, tag: str) -> None:
        data = await asyncio.to_thread(self._read, image.digest)
        manifest = ImageManifest.parse(data, image.reference)
        url, scope = self._session.url(repository, f"manifests/{tag}"), self._session.scope(repository, push=True)
        headers = {"Content-Type": manifest.media_type}

        async def work() -> str:
            response = await self._session.send("PUT", url, scope, good=frozenset({201}), headers=headers, content=data)
            return str(response.headers.get("docker-content-digest", image.digest))

        found = await self._session.retry(work, f"the manifest of {repository}:{tag} could not be pushed")
        if found != image.digest:
            raise AssetError(f"the registry stored {repository}:{tag} as {found}, not as {image.digest}")

    async def _blob(self, repository: str, digest: str, name: str) -> None:
        what = f"the blob {digest[7:19]} of {repository} could not be pushed"
        tries = 0

        async def attempt() -> None:
            nonlocal tries
            if await self._has_blob(repository, digest):  # also after an attempt whose end nobody saw
                self.summary.skipped += not tries
            elif location := await self._start(repository, digest):
                tries += 1
                try:
                    await self._upload(repository, digest, location, name, what)
                except _UploadLost:
                    raise Transient("the registry lost the upload") from None
            else:
                self.summary.mounted += 1

        await self._session.retry(attempt, what)
        if tries:
            self.summary.sent += 1
            self.summary.bytes_sent += self._sizes[digest]

    async def _has_blob(self, repository: str, digest: str) -> bool:
        url, scope = self._session.url(repository, f"blobs/{digest}"), self._session.scope(repository, push=True)
        response = await self._session.send("HEAD", url, scope, good=frozenset({200, 404}))
        return response.status_code == 200

    async def _start(self, repository: str, digest: str) -> str:
        """Begins an upload and gives its address, or an empty one if another repository's blob could be used."""
        home = self._homes.get(digest, "")
        query = f"?mount={digest}&from={home}" if home and home != repository else ""
        scope = self._session.scope(repository, push=True, mount_from=home if query else "")
        url = self._session.url(repository, f"blobs/uploads/{query}")
        response = await self._session.send("POST", url, scope, good=frozenset({201, 202}))
        return "" if response.status_code == 201 else self._location(response, url)

    async def _upload(self, repository: str, digest: str, location: str, name: str, what: str) -> None:
        scope, size = self._session.scope(repository, push=True), self._sizes[digest]
        with self._bundle.open_file(blob_path(digest)) as stream:
            data, at = await asyncio.to_thread(_read_some, stream, self._chunk), 0
            while at + len(data) < size:
                step = _Chunk(self._session, scope, location, at, data)
                location = await self._session.retry(step.send, what)
                at += len(data)
                self._say(name, at, size)
                data = await asyncio.to_thread(_read_some, stream, self._chunk)
            await self._finish(scope, location, digest, at, data)
            self._say(name, size, size)

    async def _finish(self, scope: str, location: str, digest: str, at: int, data: bytes) -> None:
        """The last piece, or all of a small blob, in one request that also closes the upload."""
        url = str(_url(location).copy_add_param("digest", digest))
        headers = {"Content-Type": "application/octet-stream"}
        if at:
            headers["Content-Range"] = f"{at}-{at + len(data) - 1}"
        try:
            await self._session.send("PUT", url, scope, good=frozenset({201}), headers=headers, content=data)
        except (Transient, NotThere) as error:
            raise _UploadLost from error  # whether it arrived cannot be told: look, then begin again

    def _location(self, response: httpx.Response, url: str) -> str:
        location = response.headers.get("location", "")
        if not location:
            raise AssetError(f"the registry {self._session.endpoint.host} began an upload but does not say where")
        return str(_url(url).join(location))

    def _read(self, digest: str) -> bytes:
        with self._bundle.open_file(blob_path(digest)) as stream:
            return stream.read()

    def _say(self, name: str, done: int, total: int) -> None:
        if self._progress:
            self._progress(name, done, total)


class _Chunk:
    """One piece of a blob on its way; after a cut it asks how far it got and sends the rest."""

    def __init__(self, session: RegistrySession, scope: str, location: str, start: int, data: bytes) -> None:
        self._session = session
        self._scope = scope
        self._location = location
        self._start = start
        self._data = data
        self._uncertain = False

    async def send(self) -> str:
        """Sends it and gives the address for what comes next."""
        if self._uncertain:
            await self._ask()
        if not self._data:
            return self._location
        self._uncertain = True
        headers = {
            "Content-Type": "application/octet-stream",
            "Content-Range": f"{self._start}-{self._start + len(self._data) - 1}",
        }
        response = await self._session.send(
            "PATCH", self._location, self._scope, good=frozenset({202, 404, 416}), headers=headers, content=self._data
        )
        if response.status_code != 202:
            raise _UploadLost
        return str(_url(self._location).join(response.headers.get("location", self._location)))

    async def _ask(self) -> None:
        try:
            response = await self._session.send("GET", self._location, self._scope, good=frozenset({204}))
        except AssetError as error:
            raise _UploadLost from error
        last = response.headers.get("range", "").rpartition("-")[2]
        there = int(last) + 1 if last.isdigit() and last != "0" else 0
        if not self._start <= there <= self._start + len(self._data):
            raise _UploadLost
        self._data = self._data[there - self._start :]
        self._start = there
        self._location = str(_url(self._location).join(response.headers.get("location", self._location)))


def _url(text: str) -> httpx.URL:
    import httpx

    return httpx.URL(text)


def _read_some(stream: BinaryIO, size: int) -> bytes:
    return stream.read(size)
