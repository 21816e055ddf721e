"""Tokens and the sessions made with them. Only hashes are kept: a token is shown once, when it is made.

A token reads `kx_ID_SECRET`. The id finds it; the secret, 32 random bytes, is compared by its hash in constant time.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import RowMapping, Select, delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from kubexm.errors import ConflictError, NotFoundError
from kubexm.redact import Secret
from kubexm.store.database import Database
from kubexm.store.tables import grants, sessions, tokens

__all__ = ["EVERY_CLUSTER", "Token", "Tokens"]

EVERY_CLUSTER = "*"
_SHAPE = re.compile(r"kx_([a-z0-9]{12})_([A-Za-z0-9_-]{43})")
_NOBODY = hashlib.sha256(b"nobody").hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """Who may do what, and until when."""

    id: str
    name: str
    grants: Mapping[str, str]
    """The role on each cluster; on `*`, on every one that is not named."""
    created: float
    created_by: str
    expires: float | None = None
    revoked: float | None = None
    used: float | None = None
    hash: str = field(repr=False, default="")

    def valid(self, now: float) -> bool:
        """True if it still opens anything."""
        return self.revoked is None and (self.expires is None or now < self.expires)

    @property
    def is_admin(self) -> bool:
        """True for a token that may manage the server."""
        return self.grants.get(EVERY_CLUSTER) == "admin"


class Tokens:
    """The tables of tokens and sessions."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(
        self, name: str, given: Mapping[str, str], *, by: str, expires: float | None = None
    ) -> tuple[Token, Secret]:
        """A new token and its only showing."""
        number, secret = _number(), secrets.token_urlsafe(32)
        token = Token(
            id=number,
            name=name,
            grants=dict(given),
            created=time.time(),
            created_by=by,
            expires=expires,
            hash=_hash(secret),
        )
        row = {field: getattr(token, field) for field in Token.__slots__ if field != "grants"}
        async with self._database.write() as connection:
            await connection.execute(insert(tokens).values(**row))
            rows = [{"token": number, "cluster": cluster, "role": role} for cluster, role in given.items()]
            await connection.execute(insert(grants), rows)
        return token, Secret(f"kx_{number}_{secret}")

    async def check(self, shown: str) -> Token | None:
        """The token somebody shows, if it is one and still valid. Takes as long for one that is not."""
        match = _SHAPE.fullmatch(shown)
        number, secret = (match[1], match[2]) if match else ("", "")
        found = (await self._tokens(select(tokens).where(tokens.c.id == number))) if match else []
        known = found[0].hash if found else _NOBODY
        same = hmac.compare_digest(_hash(secret), known)
        return found[0] if found and same and found[0].valid(time.time()) else None

    async def get(self, number: str) -> Token:
        """The token of this id."""
        found = await self._tokens(select(tokens).where(tokens.c.id == number))
        if not found:
            raise NotFoundError(f"there is no token {number!r}", hint="`kubexm serve token list` shows them")
        return found[0]

    async def all(self) -> list[Token]:
        """Every token, the oldest first."""
        return await self._tokens(select(tokens).order_by(tokens.c.created, tokens.c.id))

    async def revoke(self, number: str, *, force: bool = False) -> Token:
        """Makes it open nothing any more, and ends its sessions.

        ConflictError for the last valid token of an administrator, unless `force` is given.
        """
        token = await self.get(number)
        async with self._database.write() as connection:
            if not force and token.is_admin and token.valid(time.time()):
                await _refuse_last_admin(connection, token)
            still = (tokens.c.id == number) & tokens.c.revoked.is_(None)
            await connection.execute(update(tokens).where(still).values(revoked=time.time()))
            await connection.execute(delete(sessions).where(sessions.c.token == number))
        return await self.get(number)

    async def touch(self, number: str) -> None:
        """Notes that it was used now."""
        async with self._database.write() as connection:
            await connection.execute(update(tokens).where(tokens.c.id == number).values(used=time.time()))

    # Sessions

    async def open_session(self, token: Token, *, seconds: float) -> Secret:
        """A session of this token, for so long at most; its secret goes into a cookie."""
        secret, now = secrets.token_urlsafe(32), time.time()
        ends = now + seconds if token.expires is None else min(now + seconds, token.expires)
        async with self._database.write() as connection:
            await connection.execute(delete(sessions).where(sessions.c.expires < now))
            row = {"hash": _hash(secret), "token": token.id, "created": now, "expires": ends}
            await connection.execute(insert(sessions).values(**row))
        return Secret(secret)

    async def session(self, secret: str) -> Token | None:
        """The token of a session that is still open."""
        now = time.time()
        # Looked up by the hash of 32 random bytes: how long that takes tells nothing of use.
        found = select(sessions.c.token).where(sessions.c.hash == _hash(secret), sessions.c.expires > now)
        owners = await self._tokens(select(tokens).where(tokens.c.id.in_(found)))
        return owners[0] if owners and owners[0].valid(now) else None

    async def close_session(self, secret: str) -> None:
        """Ends a session."""
        async with self._database.write() as connection:
            await connection.execute(delete(sessions).where(sessions.c.hash == _hash(secret)))

    async def _tokens(self, query: Select[Any]) -> list[Token]:
        async with self._database.read() as connection:
            rows: Sequence[RowMapping] = (await connection.execute(query)).mappings().all()
            given: dict[str, dict[str, str]] = {row["id"]: {} for row in rows}
            for each in await connection.execute(select(grants).where(grants.c.token.in_(list(given)))):
                given[each.token][each.cluster] = each.role
        return [Token(**row, grants=given[row["id"]]) for row in rows]


async def _refuse_last_admin(connection: AsyncConnection, token: Token) -> None:
    others = (
        select(tokens.c.id)
        .join(grants, grants.c.token == tokens.c.id)
        .where(grants.c.cluster == EVERY_CLUSTER, grants.c.role == "admin", tokens.c.id != token.id)
        .where(tokens.c.revoked.is_(None), tokens.c.expires.is_(None) | (tokens.c.expires > time.time()))
    )
    if (await connection.execute(others.limit(1))).first() is None:
        raise ConflictError(
            f"token {token.id} of {token.name} is the last valid administrator token",
            hint="create another one first; `--force`, or `?force=true`, revokes it anyway",
        )


def _number() -> str:
    return "".join(secrets.choice("abcdefghijklmnopqrstuvwxyz0123456789") for _ in range(12))


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
