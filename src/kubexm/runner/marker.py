"""Which cluster a host belongs to, written on the host itself. Must not know what is done about it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import PurePosixPath

from kubexm.connector.base import shell
from kubexm.runner.base import ABSENT, Operations
from kubexm.runner.facts.model import LAYOUT, ClusterMarker
from kubexm.runner.facts.parse import parse_marker

__all__ = ["Marker"]


@dataclass(frozen=True, slots=True)
class Marker(Operations):
    """The cluster marker of the host, `cluster.json` in kubexm's own directory."""

    async def read(self) -> ClusterMarker | None:
        """The marker, or None if the host belongs to no cluster."""
        p = shell(self._path)
        result = await self._read(f"[ -e {p} ] || exit {ABSENT}\ncat -- {p}", "read the cluster marker")
        return None if result.exit_code == ABSENT else parse_marker(self._checked(result).text or "unreadable")

    async def write(self, marker: ClusterMarker) -> bool:
        """The host belongs to this cluster. False if it said so already."""
        content = {
            "uid": marker.uid,
            "name": marker.name,
            "caFingerprint": marker.ca_fingerprint,
            "roles": list(marker.roles),
            "details": dict(marker.details),
            "layout": LAYOUT,
        }
        data = (json.dumps(content, indent=2, sort_keys=True) + "\n").encode()
        call = "kx_put " + shell(self._path, "644", "root", "root", len(data), "-")
        result = await self._change(self._keeping(False, None) + call, "write the cluster marker", stdin=data)
        return self._checked(result).text == "changed"

    async def remove(self) -> bool:
        """The host belongs to no cluster. False if it did not before."""
        call = "kx_remove " + shell(self._path)
        result = await self._change(self._keeping(False, None) + call, "remove the cluster marker")
        return self._checked(result).text == "changed"

    @property
    def _path(self) -> PurePosixPath:
        return self.state / "cluster.json"
