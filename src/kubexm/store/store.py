"""The whole store, opened: one database, one keyring, and everything that is kept in them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from kubexm.store.audit import Audit
from kubexm.store.cipher import Keyring
from kubexm.store.clusters import Clusters
from kubexm.store.database import Database
from kubexm.store.plans import Answers, Plans
from kubexm.store.runs import Runs
from kubexm.store.tasks import Tasks
from kubexm.store.tokens import Tokens
from kubexm.store.vault import Vault

__all__ = ["Store"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """Everything the service keeps."""

    database: Database
    clusters: Clusters
    tasks: Tasks
    runs: Runs
    plans: Plans
    answers: Answers
    tokens: Tokens
    audit: Audit
    vault: Vault

    @classmethod
    async def open(cls, url: str, key_file: Path) -> Self:
        """Connects, migrates, and proves that the key is the right one."""
        keyring = Keyring.load(key_file)
        database = await Database.open(url)
        store = cls(
            database=database,
            clusters=Clusters(database),
            tasks=Tasks(database),
            runs=Runs(database),
            plans=Plans(database),
            answers=Answers(database),
            tokens=Tokens(database),
            audit=Audit(database, keyring),
            vault=Vault(database, keyring),
        )
        try:
            await store.vault.check()
        except BaseException:
            await database.close()
            raise
        return store

    async def close(self) -> None:
        """Ends all connections."""
        await self.database.close()
