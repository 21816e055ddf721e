"""`kubexm serve`: REST, tasks and a store on this machine; and the tokens and keys of a server."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kubexm.cli.serve_tokens import app as tokens
from kubexm.cli.server_options import Database, DataDir, opened, places_of, require_server_packages
from kubexm.cli.style import paint

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from kubexm.rest.serve import Certificate, Listening
    from kubexm.rest.state import Server
    from kubexm.service.places import Places
    from kubexm.service.retention import Keep
    from kubexm.store.store import Store

__all__ = ["app"]

_DESCRIPTORS = 48  # for the database, the processes that check specs, and files being read

app = typer.Typer(help="Serve REST, tasks and a store; tokens and keys of a server.", invoke_without_command=True)
app.add_typer(tokens, name="token")


@app.callback()
def serve(
    ctx: typer.Context,
    listen: Annotated[
        str,
        typer.Option(
            "--listen", metavar="HOST:PORT", envvar="KUBEXM_LISTEN", help="Where to listen; port 0: any free one."
        ),
    ] = "127.0.0.1:8008",
    database: Database = "",
    data_dir: DataDir = None,
    tls_cert: Annotated[Path | None, typer.Option("--tls-cert", metavar="FILE", help="Certificate, PEM.")] = None,
    tls_key: Annotated[Path | None, typer.Option("--tls-key", metavar="FILE", help="Its private key, PEM.")] = None,
    tls_self_signed: Annotated[
        bool, typer.Option("--tls-self-signed", help="Make a certificate here, and print its fingerprint.")
    ] = False,
    connections: Annotated[
        int,
        typer.Option(
            "--connections-per-address",
            min=8,
            metavar="N",
            help="How many connections one address may have; raise it behind a proxy.",
        ),
    ] = 1000,
    parallel: Annotated[int, typer.Option("--parallel", min=1, max=256, help="How many tasks run at once.")] = 4,
    keep_days: Annotated[float, typer.Option("--keep-days", min=0.0, help="Forget tasks that ended so long ago.")] = 90,
    keep_size: Annotated[
        str, typer.Option("--keep-size", metavar="SIZE", help="Forget the oldest tasks beyond so much.")
    ] = "10Gi",
) -> None:
    """Serve REST and the page. Listens on this machine alone unless told otherwise; anything else needs TLS.

    The first start creates a database, a key and an administrator token. The token is printed once if standard output
    is a terminal; otherwise it is written to the file `first-token` in the data directory, so no log contains it."""
    if ctx.invoked_subcommand is not None:
        return
    require_server_packages("serve")
    import asyncio

    from kubexm.apis.v1alpha1.scalars import parse_memory
    from kubexm.cli.settings import Settings
    from kubexm.service.retention import Keep

    ctx.ensure_object(Settings).apply()
    certificate = _certificate(tls_cert, tls_key)
    try:
        keep = Keep(days=keep_days, bytes=parse_memory(keep_size))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--keep-size") from None
    places = places_of(data_dir)
    with places.claimed():
        try:
            asyncio.run(_serve(places, database, listen, certificate, tls_self_signed, connections, parallel, keep))
        except KeyboardInterrupt:  # uvicorn has ended everything, and says how it was asked to
            typer.echo("stopped", err=True)


def _certificate(certificate: Path | None, key: Path | None) -> Certificate | None:
    from kubexm.errors import UsageError
    from kubexm.rest.serve import Certificate

    if (certificate is None) != (key is None):
        raise UsageError("--tls-cert and --tls-key go together", hint="give both, or --tls-self-signed")
    return None if certificate is None or key is None else Certificate(certificate, key)


async def _serve(
    places: Places,
    database: str,
    address: str,
    certificate: Certificate | None,
    self_signed: bool,
    connections: int,
    parallel: int,
    keep: Keep,
) -> None:
    from kubexm.rest.app import create_app
    from kubexm.rest.gate import ConnectionLimits, raise_descriptor_limit
    from kubexm.rest.serve import listen, own_certificate, serve
    from kubexm.rest.state import Server, ServerSettings
    from kubexm.service.registry import Registry
    from kubexm.service.tasks import TaskOptions, TaskService
    from kubexm.web import page

    store = await opened(places, database)
    try:
        await store.database.claim()
        limits = ConnectionLimits.within(raise_descriptor_limit(), _DESCRIPTORS + 8 * parallel, connections)
        listening = listen(
            address, certificate, (lambda host: own_certificate(places.tls, host)) if self_signed else None, limits
        )
        try:
            registry = Registry(store, places)
            server = Server(
                store=store,
                places=places,
                tasks=TaskService(store, places, TaskOptions(parallel=parallel, keep=keep), registry),
                registry=registry,
                settings=ServerSettings(secure=listening.certificate is not None),
            )
            first = await _first_token(store, places)
            await serve(
                create_app(server, site=page()),
                listening,
                ready=lambda: _greet(server, listening, first, self_signed),
            )
        finally:
            listening.socket.close()
    finally:
        await _to_its_end(store.close())


async def _to_its_end(closing: Coroutine[Any, Any, None]) -> None:
    """Waits for it even if this task is cancelled: after Ctrl-C it is, as soon as the server has shut down."""
    import asyncio

    task = asyncio.ensure_future(closing)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise


async def _first_token(store: Store, places: Places) -> str:
    """A token for whoever starts the first server, once: what to print about it."""
    if await store.tokens.all():
        return ""
    made, secret = await store.tokens.create("first", {"*": "admin"}, by="kubexm serve")
    await store.audit.add(actor="kubexm serve", action="make token", target=made.id, outcome="201")
    if sys.stdout.isatty():
        return f"{paint(secret.reveal(), 'bold')}\n            (an administrator's, and shown this once)"
    places.first_token.unlink(missing_ok=True)
    with os.fdopen(os.open(places.first_token, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(f"{secret.reveal()}\n")
    return f"in {places.first_token}\n            (an administrator's; delete the file once you have stored the token)"


def _greet(server: Server, listening: Listening, first: str, self_signed: bool) -> None:
    lines = [f"kubexm serves at {paint(listening.url, 'bold')}", f"  data:     {server.places.data}"]
    lines.append(f"  database: {server.store.database.shown}")
    if self_signed and listening.certificate is not None:
        lines.append(f"  TLS:      self-signed, SHA-256 {listening.certificate.fingerprint}")
    lines.append(f"  token:    {first or '`kubexm serve token create` makes one'}")
    typer.echo("\n".join(lines))
    sys.stdout.flush()


@app.command("rotate-key")
def rotate_key(data_dir: DataDir = None, database: Database = "") -> None:
    """Seal everything with a new key. The server must be stopped.

    With keys in the environment (KUBEXM_SERVER_KEY=NEW,OLD) everything is sealed with the first of them."""
    require_server_packages("serve rotate-key")
    import asyncio

    from kubexm.store.cipher import KEY_VARIABLE, new_key, read_keys, write_keys

    places = places_of(data_dir)
    with places.claimed():
        if os.environ.get(KEY_VARIABLE):
            done = asyncio.run(_reseal(places, database))
            typer.echo(f"{done} sealed anew with the first key of {KEY_VARIABLE}; the others can go")
            return
        old = read_keys(places.key)
        write_keys(places.key, [new_key(), *old])  # whatever happens now, both are there
        done = asyncio.run(_reseal(places, database))
        write_keys(places.key, read_keys(places.key)[:1])
        typer.echo(f"{done} sealed anew; the key in {places.key} is new: keep a copy in a safe place")


async def _reseal(places: Places, database: str) -> int:
    from kubexm.cli.server_options import local_actor

    store = await opened(places, database)
    try:
        done = await store.vault.reseal()
        await store.audit.add(actor=local_actor(), action="rotate key", outcome="200", detail={"sealed": done})
        return done
    finally:
        await store.close()
