"""Downloads one file: resumed where it was cut, in parallel ranges where that pays, checked before it appears.

Nothing a server says about length or content is believed without checking: what counts is the sha256.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kubexm.assets.disk import hash_file, human_size, write_errors
from kubexm.assets.partial import PartialFile, Segment
from kubexm.assets.transfer import (
    Damaged,
    Opener,
    Progress,
    Refused,
    Retry,
    Transient,
    check_status,
    shown_url,
)
from kubexm.errors import AssetError

if TYPE_CHECKING:
    import httpx

__all__ = ["Download", "Downloader"]

_GOOD = frozenset({200, 206})


@dataclass(frozen=True, slots=True, kw_only=True)
class Download:
    """What to get: from where, what it must be, and what to call it when progress is shown."""

    url: str
    sha256: str = ""
    size: int | None = None
    """How long it must be, where that is known for sure."""
    name: str = ""

    @property
    def shown(self) -> str:
        """What it is called in messages."""
        return shown_url(self.url)


class _Changed(Exception):
    """The server has another file under this URL than the one that was begun."""


class Downloader:
    """Gets files over HTTP. `part` is the length of a range, `parallel` how many of one file are got at once."""

    def __init__(
        self,
        opener: Opener,
        *,
        retry: Retry | None = None,
        part: int = 16 * 1024 * 1024,
        parallel: int = 4,
        progress: Progress | None = None,
    ) -> None:
        self._open = opener
        self._retry = retry or Retry()
        self._part = part
        self._parallel = parallel
        self._progress = progress

    async def fetch(self, wanted: Download, target: Path) -> str:
        """Gets the file to `target`, whole and right or not at all; gives its sha256.

        What has arrived when it fails stays beside the target and is used by the next attempt.
        """
        partial = PartialFile(target, wanted.url)
        resumed = partial.resume()
        with write_errors(target), contextlib.ExitStack() as stack:
            stack.callback(partial.close)
            try:
                await self._fill(wanted, partial)
                found = await self._check(wanted, partial)
                if found is None and resumed:  # an old part was bad, or another file's: once more from nothing
                    partial.restart()
                    await self._fill(wanted, partial)
                    found = await self._check(wanted, partial)
                if found is None:
                    size, sha256 = await asyncio.to_thread(hash_file, partial.path)
                    raise _damaged(wanted, size, sha256)
                partial.finish()
            except (OSError, Damaged):
                partial.discard()  # a full disk must not stay full, and what is wrong is of no use
                raise
        return found

    async def _fill(self, wanted: Download, partial: PartialFile) -> None:
        for _ in range(3):
            try:
                await self._begin_or_go_on(wanted, partial)
            except _Changed:
                partial.restart()
            else:
                return
        raise Damaged(f"{wanted.shown} changes on the server while it is being downloaded")

    async def _begin_or_go_on(self, wanted: Download, partial: PartialFile) -> None:
        if not partial.begun:
            await self._persist(wanted, partial, lambda: self._begin(wanted, partial))
        gate = asyncio.Semaphore(self._parallel)

        async def rest(segment: Segment) -> None:
            async with gate:
                await self._persist(wanted, partial, lambda: self._get_segment(wanted, partial, segment))

        waiting = [segment for segment in partial.segments if not segment.complete]
        try:
            async with asyncio.TaskGroup() as group:
                for segment in waiting:
                    group.create_task(rest(segment))
        except BaseExceptionGroup as errors:
            raise _first(errors) from errors

    async def _persist(self, wanted: Download, partial: PartialFile, work: Callable[[], Awaitable[None]]) -> None:
        most = partial.done

        def progressed() -> bool:
            nonlocal most
            before, most = most, max(most, partial.done)
            return most > before

        await self._retry(work, f"{wanted.shown} could not be downloaded", progressed=progressed)

    async def _begin(self, wanted: Download, partial: PartialFile) -> None:
        """The first request: finds out whether the server does ranges, and takes what it gives."""
        if partial.begun:
            unfinished = next((segment for segment in partial.segments if not segment.complete), None)
            if unfinished is not None:
                await self._get_segment(wanted, partial, unfinished)
            return
        async with self._open(wanted.url, {"Range": f"bytes=0-{self._part - 1}"}) as response:
            if response.status_code != 416:
                check_status(response, wanted.url, good=_GOOD)
                total = self._total(wanted, response)
                _check_room(partial.path, total)
                can_resume = bool(_validator(response)) or bool(wanted.sha256)
                step = self._part if response.status_code == 206 and can_resume else 0
                partial.begin(total, _validator(response), step)
                await self._receive(wanted, partial, partial.segments[0], response)
                return
        async with self._open(wanted.url, {}) as response:  # an empty file has no first byte to ask for
            check_status(response, wanted.url, good=frozenset({200}))
            partial.begin(None, "", 0)
            await self._receive(wanted, partial, partial.segments[0], response)

    async def _get_segment(self, wanted: Download, partial: PartialFile, segment: Segment) -> None:
        end = "" if segment.end is None else str(segment.end - 1)
        headers = {"Range": f"bytes={segment.start + segment.done}-{end}"}
        if partial.validator:
            headers["If-Range"] = partial.validator
        async with self._open(wanted.url, headers) as response:
            if response.status_code == 200 and len(partial.segments) == 1:  # it does no ranges, or has a new file
                partial.begin(self._total(wanted, response), _validator(response), 0)
                await self._receive(wanted, partial, partial.segments[0], response)
                return
            if response.status_code in {200, 416}:
                raise _Changed
            check_status(response, wanted.url, good=_GOOD)
            start, total = _content_range(response)
            if start != segment.start + segment.done or (
                partial.total is not None and total not in {partial.total, None}
            ):
                raise _Changed
            await self._receive(wanted, partial, segment, response)

    async def _receive(
        self, wanted: Download, partial: PartialFile, segment: Segment, response: httpx.Response
    ) -> None:
        try:
            async for chunk in response.aiter_raw():
                if not partial.write(segment, chunk):
                    raise Damaged(f"{wanted.shown}: the server sent more than it announced")
                if self._progress:
                    self._progress(wanted.name or wanted.shown, partial.done, partial.total)
        finally:
            partial.save()
        if segment.end is None:
            segment.end = segment.start + segment.done
            partial.save()
        elif not segment.complete:
            raise Transient(f"the connection ended after {partial.done} of {partial.total} bytes")

    def _total(self, wanted: Download, response: httpx.Response) -> int | None:
        if response.status_code == 206:
            start, total = _content_range(response)
            if start != 0:
                raise Refused(f"{wanted.shown}: the server answered with another range than was asked for")
        else:
            length = response.headers.get("content-length", "")
            total = int(length) if length.isdigit() else None
        if wanted.size is not None and total is not None and total != wanted.size:
            raise Damaged(f"{wanted.shown} has {total} bytes, expected {wanted.size}")
        return total

    async def _check(self, wanted: Download, partial: PartialFile) -> str | None:
        size, sha256 = await asyncio.to_thread(hash_file, partial.path)
        right_size = wanted.size is None or wanted.size == size
        return sha256 if right_size and wanted.sha256 in {"", sha256} else None


def _damaged(wanted: Download, size: int, sha256: str) -> Damaged:
    expected = f"sha256 {wanted.sha256}" + (f" and {wanted.size} bytes" if wanted.size is not None else "")
    return Damaged(
        f"{wanted.shown} is not what it should be: expected {expected}, got sha256 {sha256} and {size} bytes",
        hint="The server or its list of sums is wrong, or someone meddled with it. Nothing was kept.",
    )


def _validator(response: httpx.Response) -> str:
    """What If-Range can be asked with: a strong ETag, else the date of last change."""
    etag = response.headers.get("etag", "")
    if etag and not etag.startswith("W/"):
        return str(etag)
    return str(response.headers.get("last-modified", ""))


def _content_range(response: httpx.Response) -> tuple[int, int | None]:
    value = response.headers.get("content-range", "")
    match = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+|\*)", value)
    if match is None:
        raise Refused(f"the server answered a range with {value!r}, which is none")
    return int(match[1]), None if match[3] == "*" else int(match[3])


def _check_room(path: Path, total: int | None) -> None:
    free = os.statvfs(path.parent)
    available = free.f_bavail * free.f_frsize
    if total is not None and total > available:
        raise AssetError(
            f"no space left for {path.parent}: {human_size(total)} are needed, {human_size(available)} are free",
            hint="Free some space or choose another place.",
        )


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    first = errors.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first
