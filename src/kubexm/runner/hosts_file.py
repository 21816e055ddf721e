"""Entries in /etc/hosts, in a block of their own. Must not know where names come from."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath

from kubexm.errors import StepError
from kubexm.runner.base import Operations
from kubexm.runner.files import Files
from kubexm.runner.lines import BlockError, block_of, with_block, without_block

__all__ = ["HostsFile"]

_PATH = PurePosixPath("/etc/hosts")
_NAME = re.compile(r"^[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?$")

Entries = Mapping[str, Sequence[str]]
"""Names by address."""


@dataclass(frozen=True, slots=True)
class HostsFile(Operations):
    """The host's /etc/hosts; only kubexm's own block of it is ever touched."""

    async def matches(self, entries: Entries, *, block: str = "kubexm") -> bool:
        """True if the block holds exactly these entries."""
        text = await self._files.text(_PATH) or ""
        with self._sound(block):
            return block_of(text, block) == _body(entries)

    async def ensure(
        self, entries: Entries, *, block: str = "kubexm", keep: bool = True, snapshot: PurePosixPath | None = None
    ) -> bool:
        """The block holds exactly these entries. False if it did already."""
        body = _body(entries)
        with self._sound(block):
            return await self._files.edit(
                _PATH, lambda text: with_block(text, block, body), keep=keep, snapshot=snapshot
            )

    async def clear(self, *, block: str = "kubexm") -> bool:
        """There is no such block. False if there was none."""
        with self._sound(block):
            return await self._files.edit(_PATH, lambda text: without_block(text, block))

    @property
    def _files(self) -> Files:
        return Files(self.connector, self.facts, state=self.state)

    @contextmanager
    def _sound(self, block: str) -> Iterator[None]:
        try:
            yield
        except BlockError as error:
            raise StepError(
                f"the block of {block} in {_PATH} is damaged: {error}",
                host=self.connector.host,
                hint=f"Remove what is left of the block from {_PATH} by hand, then run again.",
            ) from error


def _body(entries: Entries) -> str:
    for address, names in entries.items():
        ipaddress.ip_address(address)
        if not names or not all(_NAME.match(name) for name in names):
            raise ValueError(f"not host names: {' '.join(names)}")
    return "".join(f"{address} {' '.join(names)}\n" for address, names in entries.items())
