"""What commands about a server share: where its data is, and opening its store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from kubexm.service.places import Places
    from kubexm.store.store import Store

__all__ = ["DataDir", "Database", "local_actor", "opened", "places_of"]

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
