"""The intent record of a cluster on one host: which operation is under way. Must not know what is done about it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import PurePosixPath

from kubexm.connector.base import shell
from kubexm.runner.base import ABSENT, Operations
from kubexm.runner.facts.model import Intent
from kubexm.runner.facts.parse import parse_intent

__all__ = ["INTENT_NAME", "Intents"]

INTENT_NAME = "intent.json"


@dataclass(frozen=True, slots=True)
class Intents(Operations):
    """The intent record of the host, `intent.json` in kubexm's own directory."""

    async def read(self) -> Intent | None:
        """The record, or None if there never was one."""
        p = shell(self._path)
        result = await self._read(f"[ -e {p} ] || exit {ABSENT}\ncat -- {p}", "read the intent record")
        return None if result.exit_code == ABSENT else parse_intent(self._checked(result).text or "unreadable")

    async def write(self, intent: Intent) -> bool:
        """Records it. False if it said so already."""
        data = (json.dumps(intent.to_json(), indent=2, sort_keys=True) + "\n").encode()
        call = "kx_put " + shell(self._path, "644", "root", "root", len(data), "-")
        result = await self._change(self._keeping(False, None) + call, "write the intent record", stdin=data)
        return self._checked(result).text == "changed"

    @property
    def _path(self) -> PurePosixPath:
        return self.state / INTENT_NAME
