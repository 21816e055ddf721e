"""Opening a database: made, migrated, private, refused when it is another's."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, text

from kubexm.errors import StoreError
from kubexm.store.cipher import KEY_VARIABLE, new_key, read_keys, write_keys
from kubexm.store.database import Database
from kubexm.store.database import database_url as parsed
from kubexm.store.store import Store
from kubexm.store.tables import METADATA


async def test_migrations_end_in_exactly_these_tables(empty_database_url: str) -> None:
    database = await Database.open(empty_database_url)

    def differences(connection: Connection) -> list[object]:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        return list(compare_metadata(context, METADATA))

    async with database.read() as connection:
        assert await connection.run_sync(differences) == []
    await database.close()


async def test_two_may_open_a_new_database_at_once_and_one_is_the_server(empty_database_url: str) -> None:
    first, second = await asyncio.gather(Database.open(empty_database_url), Database.open(empty_database_url))
    await first.claim()
    if not second.is_sqlite:
        with pytest.raises(StoreError, match="another kubexm server uses the database"):
            await second.claim()
        await first.close()
        await second.claim()
    await first.close()
    await second.close()


async def test_a_database_of_a_newer_kubexm_is_left_alone(empty_database_url: str) -> None:
    database = await Database.open(empty_database_url)
    async with database.write() as connection:
        await connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    await database.close()
    with pytest.raises(StoreError, match="made by another version of kubexm"):
        await Database.open(empty_database_url)


async def test_a_write_that_fails_leaves_nothing(database_url: str) -> None:
    database = await Database.open(database_url)

    async def half() -> None:
        async with database.write() as connection:
            await connection.execute(text("INSERT INTO meta (name, value) VALUES ('a', 'b')"))
            await connection.execute(text("INSERT INTO nowhere VALUES (:word)").bindparams(word="s3cret"))

    with pytest.raises(StoreError, match=r"the database .* failed") as caught:
        await half()
    assert "s3cret" not in caught.value.message
    async with database.read() as connection:
        assert await connection.scalar(text("SELECT count(*) FROM meta")) == 0
    await database.close()


async def test_the_files_are_private(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "kubexm.db"
    store = await Store.open(f"sqlite:///{path}", tmp_path / "key")
    for each in (path, path.with_name("kubexm.db-wal"), tmp_path / "key"):
        assert each.stat().st_mode & 0o077 == 0, each
    await store.close()


async def test_a_store_needs_the_key_it_was_made_with(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await (await Store.open(database_url, tmp_path / "key")).close()
    with pytest.raises(StoreError, match="a key that is not here"):
        await Store.open(database_url, tmp_path / "other")
    write_keys(tmp_path / "both", [new_key(), *read_keys(tmp_path / "key")])
    await (await Store.open(database_url, tmp_path / "both")).close()
    lines = (tmp_path / "key").read_text().splitlines()
    monkeypatch.setenv(KEY_VARIABLE, lines[-1])
    await (await Store.open(database_url, tmp_path / "never made")).close()
    assert not (tmp_path / "never made").exists()


@pytest.mark.parametrize(
    "url", ["", "mysql://x/y", "sqlite://", "sqlite:///:memory:", "postgres", "sqlite:///file:x?uri=1"]
)
def test_what_is_no_database_is_refused(url: str) -> None:
    with pytest.raises(StoreError):
        parsed(url)


async def test_a_database_that_cannot_be_reached_says_which_and_hides_the_password() -> None:
    with pytest.raises(StoreError) as caught:
        await Database.open("postgresql://kubexm:hunter2@127.0.0.1:1/x")
    assert "127.0.0.1:1/x" in caught.value.message
    assert "hunter2" not in caught.value.message + caught.value.hint
