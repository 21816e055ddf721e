"""Whose data is in etcd's directory: the ids of cluster and member, from the head of its log. Changes nothing.

Every segment of etcd's write-ahead log begins with a checksum record and one that names member and cluster. A member's
id comes from its peer URLs and the cluster's token, and the cluster's id from its first members' ids, so that the id of
a cluster to be formed is known beforehand, and data of any other is told apart and left alone (decision 20).
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from kubexm.connector.base import shell

__all__ = ["DataState", "WalIds", "cluster_id", "member_id", "parse_state", "state_script"]

_HEAD = 1024
_NOTHING = 64
"""KiB on disk of a database that holds nothing yet: the file itself is longer, with a hole in it."""
_METADATA = 1


@dataclass(frozen=True, slots=True)
class WalIds:
    """Who wrote a log."""

    member: int
    cluster: int


@dataclass(frozen=True, slots=True)
class DataState:
    """What is in etcd's directory."""

    ids: WalIds | None = None
    """Of the log that is there."""
    stranger: str = ""
    """The name of something that is no data of etcd's, or of data that cannot be read."""

    @property
    def is_empty(self) -> bool:
        """True if nothing is there."""
        return self.ids is None and not self.stranger


def state_script(directory: PurePosixPath | str) -> str:
    """Shell text that prints on one line what `parse_state` reads.

    What a disk of its own has (lost+found) does not count, nor what an etcd leaves that ended before it was a member:
    a database with nothing in it, and no log.
    """
    return f"""kx_d={shell(str(directory))}
kx_w=$(ls -- "$kx_d/member/wal" 2>/dev/null | grep '\\.wal$' | tail -n 1)
if [ -n "$kx_w" ]; then
  echo "wal $(head -c {_HEAD} -- "$kx_d/member/wal/$kx_w" | od -A n -t x1 -v | tr -d ' \\n')"
else
  kx_o=$(ls -A -- "$kx_d" 2>/dev/null | grep -v -x lost+found)
  if [ "$kx_o" = member ] && [ "$(du -k -- "$kx_d/member/snap/db" 2>/dev/null | cut -f 1)0" -le {_NOTHING}0 ] &&
    ! find "$kx_d/member" ! -type d ! -path '*/member/wal.tmp/*' ! -path '*/member/snap/db' | grep -q .; then kx_o=; fi
  printf 'other %s\\n' "$(printf '%s\\n' "$kx_o" | head -n 1)"
fi"""


def parse_state(output: str) -> DataState:
    """What the first line, that of `state_script`, says."""
    kind, _, rest = output.partition("\n")[0].partition(" ")
    if kind != "wal":
        return DataState(stranger=rest.strip())
    try:
        ids = _ids(bytes.fromhex(rest))
    except (ValueError, IndexError, struct.error):
        ids = None
    return DataState(ids=ids) if ids is not None else DataState(stranger="member/wal")


def member_id(peer_urls: Iterable[str], token: str) -> int:
    """The id etcd gives a member of a cluster that is formed."""
    return _first_8_bytes("".join(sorted(peer_urls)).encode() + token.encode())


def cluster_id(peer_urls: Iterable[str], token: str) -> int:
    """The id of the cluster that members with one peer URL each form."""
    ids = sorted(member_id([url], token) for url in peer_urls)
    return _first_8_bytes(b"".join(struct.pack(">Q", one) for one in ids))


def _first_8_bytes(data: bytes) -> int:
    found: int = struct.unpack(">Q", hashlib.sha1(data, usedforsecurity=False).digest()[:8])[0]
    return found


def _ids(head: bytes) -> WalIds | None:
    """The ids in the first metadata record: frames of a length and a protobuf message, padded to 8 bytes."""
    offset = 0
    while offset + 8 <= len(head):
        (field,) = struct.unpack_from("<q", head, offset)
        size, padding = field & ((1 << 56) - 1), (field >> 56) & 0x7 if field < 0 else 0
        if size == 0:
            return None
        record = dict(_fields(head[offset + 8 : offset + 8 + size]))
        if record.get(1) == _METADATA:
            content = record.get(3, b"")
            ids = dict(_fields(content)) if isinstance(content, bytes) else {}
            member, cluster = ids.get(1), ids.get(2)
            return WalIds(member, cluster) if isinstance(member, int) and isinstance(cluster, int) else None
        offset += 8 + size + padding
    return None


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a protobuf message that has numbers and bytes only."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        match tag & 7:
            case 0:
                value, at = _varint(message, at)
                yield tag >> 3, value
            case 2:
                size, at = _varint(message, at)
                yield tag >> 3, message[at : at + size]
                at += size
            case kind:
                raise ValueError(f"field of kind {kind}")


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return value, at
