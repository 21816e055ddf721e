"""What the commands of a server share: its options, the packages it needs, and opening its store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from kubexm.service.places import Places
    from kubexm.store.store import Store

__all__ = ["SERVER_PACKAGES", "DataDir", "Database", "local_actor", "opened", "places_of", "require_server_packages"]

SERVER_PACKAGES = (
    "aiosqlite",
    "alembic",
    "asyncpg",
    "fastapi",
    "prometheus_client",
    "sqlalchemy",
    "uvicorn",
)
"""The packages of the extra `kubexm[server]`, by the names they are imported under."""

DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        metavar="DIR",
        envvar="KUBEXM_DATA_DIR",
        help="Where the server keeps everything.  [default: ~/.local/share/kubexm]",
        show_default=False,
    ),
]
Database = Annotated[
    str,
    typer.Option(
        "--db",
        metavar="URL",
        envvar="KUBEXM_DB",
        help="sqlite:////FILE or postgresql://USER@HOST/NAME.  [default: SQLite in the data directory]",
        show_default=False,
    ),
]


def require_server_packages(command: str) -> None:
    """Raises an error that names the extra to install if packages of a server are missing."""
    from importlib.util import find_spec

    from kubexm.errors import UsageError

    missing = [name for name in SERVER_PACKAGES if find_spec(name) is None]
    if missing:
        raise UsageError(
            f"`kubexm {command}` needs packages that are not installed: {', '.join(missing)}",
            hint="install the server extra: pip install 'kubexm[server]' (in a clone: pip install '.[server]')",
        )


def places_of(data_dir: Path | None) -> Places:
    """The directories of the server."""
    from kubexm.service.places import Places

    return Places.usual() if data_dir is None else Places(data_dir.expanduser().absolute())


async def opened(places: Places, database: str) -> Store:
    """The server's store."""
    from kubexm.store.store import Store

    places.prepare()
    return await Store.open(database or places.database, places.key)


def local_actor() -> str:
    """What the audit calls somebody at this machine."""
    import getpass
    import os

    try:
        return f"local:{getpass.getuser()}"
    except (KeyError, OSError):
        return f"local:{os.getuid()}"
