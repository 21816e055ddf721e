"""What is kept from others: secrets and files, tokens and sessions, the chain of the audit."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from sqlalchemy import delete, select, update

from kubexm.errors import NotFoundError, StoreError
from kubexm.redact import Secret
from kubexm.store.cipher import Keyring, new_key
from kubexm.store.store import Store
from kubexm.store.tables import audit, files, meta, secrets, tokens
from kubexm.store.vault import Vault


async def test_secrets_and_files_are_sealed_and_each_clusters_own(store: Store) -> None:
    await store.vault.put_secret("demo", "pw", Secret("correct horse"), by="ann")
    await store.vault.put_secret("demo", "pw", Secret("battery staple"), by="bob")
    await store.vault.put_file("demo", "id_ed25519", b"\0PRIVATE\xff", by="ann")
    assert await store.vault.open_secrets("demo") == {"pw": Secret("battery staple")}
    assert await store.vault.open_files("demo") == {"id_ed25519": b"\0PRIVATE\xff"}
    assert await store.vault.open_secrets("other") == {}
    assert [(each.name, each.created_by) for each in await store.vault.secrets("demo")] == [("pw", "bob")]
    assert [(each.name, each.size) for each in await store.vault.files("demo")] == [("id_ed25519", 9)]
    assert await store.vault.size_of_files("demo") == 9
    async with store.database.read() as connection:
        sealed = [*(await connection.scalars(select(secrets.c.sealed))).all()]
        sealed += (await connection.scalars(select(files.c.sealed))).all()
    assert len(sealed) == 2
    assert not any(b"battery" in each or b"PRIVATE" in each for each in sealed)
    async with store.database.write() as connection:  # moved to another name by somebody who can write there
        await connection.execute(update(secrets).values(cluster="other"))
    with pytest.raises(StoreError, match="damaged or tampered with"):
        await store.vault.open_secrets("other")
    await store.vault.remove_file("demo", "id_ed25519")
    with pytest.raises(NotFoundError, match="demo has no file"):
        await store.vault.remove_file("demo", "id_ed25519")


async def test_a_key_is_replaced_with_nothing_lost_at_any_point(store: Store) -> None:
    old, new = new_key(), new_key()
    first = Vault(store.database, Keyring([old]))
    async with store.database.write() as connection:
        await connection.execute(delete(meta))
    await first.check()
    for number in range(3):
        await first.put_secret("demo", f"s{number}", Secret(f"value {number}"), by="ann")
    await first.put_file("demo", "f", b"content", by="ann")
    both = Vault(store.database, Keyring([new, old]))
    assert await both.open_files("demo") == {"f": b"content"}
    assert await both.reseal() == 5
    assert await both.reseal() == 0
    after = Vault(store.database, Keyring([new]))
    await after.check()
    assert (await after.open_secrets("demo"))["s2"] == Secret("value 2")
    assert await after.open_files("demo") == {"f": b"content"}
    with pytest.raises(StoreError, match="a key that is not here"):
        await first.open_secrets("demo")


async def test_a_token_is_shown_once_and_kept_as_a_hash(store: Store) -> None:
    token, secret = await store.tokens.create("ann", {"*": "operator", "prod": "viewer"}, by="root")
    shown = secret.reveal()
    found = await store.tokens.check(shown)
    assert found is not None
    assert (found.name, found.grants) == ("ann", {"*": "operator", "prod": "viewer"})
    async with store.database.read() as connection:
        row = (await connection.execute(select(tokens))).one()
    assert not any(shown.split("_", 2)[2] in str(value) for value in row)
    for wrong in ("", "kx_", shown[:-1], shown + "x", shown[:-1] + "!", f"kx_{'a' * 12}_{'b' * 43}", "\0"):
        assert await store.tokens.check(wrong) is None
    await store.tokens.touch(token.id)
    assert (await store.tokens.get(token.id)).used is not None


async def test_a_token_that_expired_or_was_revoked_opens_nothing(store: Store) -> None:
    _, late = await store.tokens.create("late", {"*": "viewer"}, by="root", expires=time.time() - 1)
    assert await store.tokens.check(late.reveal()) is None
    token, secret = await store.tokens.create("ann", {"*": "admin"}, by="root")
    session = (await store.tokens.open_session(token, seconds=60)).reveal()
    assert (await store.tokens.session(session)) == await store.tokens.get(token.id)
    revoked = await store.tokens.revoke(token.id, force=True)
    assert revoked.revoked is not None
    assert await store.tokens.check(secret.reveal()) is None
    assert await store.tokens.session(session) is None
    assert {each.name for each in await store.tokens.all()} == {"late", "ann"}
    with pytest.raises(NotFoundError):
        await store.tokens.revoke("nobody")


async def test_a_session_ends(store: Store) -> None:
    token, _ = await store.tokens.create("ann", {"*": "viewer"}, by="root")
    over = (await store.tokens.open_session(token, seconds=-1)).reveal()
    assert await store.tokens.session(over) is None
    open_ = (await store.tokens.open_session(token, seconds=60)).reveal()
    await store.tokens.close_session(open_)
    assert await store.tokens.session(open_) is None


async def written(store: Store, number: int) -> list[str]:
    made = [
        await store.audit.add(actor="ann", action=f"do {each}", outcome="201", detail={"x": "é\0"})
        for each in range(number)
    ]
    return [entry.hash for entry in made]


async def test_the_chain_of_the_audit_is_whole(store: Store) -> None:
    assert (await store.audit.verify()).entries == 0
    hashes = await written(store, 3)
    await asyncio.gather(*(store.audit.add(actor="bob", action="x", outcome="202") for _ in range(10)))
    report = await store.audit.verify(expect=hashes[1])
    assert report.ok
    assert report.entries == 13
    assert not (await store.audit.verify(expect="f" * 64)).ok
    assert [entry.n for entry in await store.audit.page(limit=2)] == [13, 12]
    assert [entry.n for entry in await store.audit.page(before=4, actor="ann")] == [3, 2, 1]


@pytest.mark.parametrize("how", ["edit", "remove", "remove the last", "swap", "rebuild"])
async def test_whoever_tampers_with_the_audit_is_found_out(store: Store, how: str, tmp_path: Path) -> None:
    await written(store, 5)
    async with store.database.write() as connection:
        match how:
            case "edit":
                await connection.execute(update(audit).where(audit.c.n == 3).values(actor="eve"))
            case "remove":
                await connection.execute(delete(audit).where(audit.c.n == 2))
            case "remove the last":
                await connection.execute(delete(audit).where(audit.c.n == 5))
            case "swap":
                await connection.execute(update(audit).where(audit.c.n == 2).values(n=99))
                await connection.execute(update(audit).where(audit.c.n == 3).values(n=2))
                await connection.execute(update(audit).where(audit.c.n == 99).values(n=3))
            case "rebuild":  # with a key of one's own
                await connection.execute(delete(audit))
                await connection.execute(delete(meta).where(meta.c.name.in_(["audit key", "audit head"])))
    if how == "rebuild":
        assert await store.audit.page(limit=1) == []
        report = await store.audit.verify(expect="e" * 64)
    else:
        report = await store.audit.verify()
    assert not report.ok
    assert report.problem
