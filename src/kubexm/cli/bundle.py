"""`kubexm bundle`: make, check, sign and push what hosts without internet are installed from. Reads options, no more.

Everything heavy is imported inside the commands, so that `kubexm --help` stays fast.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kubexm.cli.bundle_create import create
from kubexm.cli.bundle_options import (
    AuthFile,
    BundlePath,
    CaFile,
    Password,
    User,
    credentials_for,
    run,
    secret,
)
from kubexm.cli.options import several
from kubexm.cli.output import Shown, Streamed

__all__ = ["app"]

app = typer.Typer(help="Make, check and push bundles for hosts without internet.", no_args_is_help=True)
app.command()(create)

_Output = Annotated[Shown, typer.Option("--output", "-o", help="How to show it.")]
_Passphrase = Annotated[
    str, typer.Option("--passphrase", metavar="REF", help="The key's passphrase: env:NAME, file:PATH or prompt.")
]
_Roles = Annotated[
    list[str] | None,
    typer.Option(
        "--role", "-r", metavar="ROLE", help="Only what hosts of these roles need; repeat, or join by commas."
    ),
]


@app.command()
def show(bundle: BundlePath, role: _Roles = None, output: _Output = Shown.TABLE) -> None:
    """Show what a bundle holds. Only its manifest is read; `verify` reads the rest."""
    from kubexm.assets import Bundle
    from kubexm.assets.names import check_roles
    from kubexm.cli.bundle_output import show_bundle

    roles = several(role, "--role")
    if roles:
        check_roles(roles)
    with Bundle.open(bundle) as opened:
        show_bundle(opened, output, roles)


@app.command()
def verify(
    bundle: BundlePath,
    key: Annotated[Path | None, typer.Option("--key", metavar="PUB", help="Check the signature with this key.")] = None,
    arch: Annotated[str, typer.Option("--arch", help="Also check that it is for this architecture.")] = "",
    output: _Output = Shown.TABLE,
) -> None:
    """Check every byte of a bundle, and its signature. All faults are named at once; exit code 1 if there are any."""
    from kubexm.assets import verify as verify_bundle
    from kubexm.assets.signing import PublicKey
    from kubexm.cli.bundle_output import show_report

    report = verify_bundle(bundle, key=PublicKey.load(key) if key else None, arch=arch)
    show_report(report, output)
    if not report.ok:
        raise typer.Exit(1)


@app.command()
def keygen(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where the private key goes; FILE.pub is the public.")],
    passphrase: _Passphrase = "",
) -> None:
    """Make a key pair for signing bundles."""
    from kubexm.assets.signing import keygen as make_keys

    words = secret(passphrase, "the key's passphrase").reveal().encode() if passphrase else None
    public, key = make_keys(file, passphrase=words)
    typer.echo(f"Private key {file}: keep it to yourself.\nPublic key {public}: give it to those who verify.")
    typer.echo(f"Key id {key.key_id}")


@app.command()
def sign(
    bundle: BundlePath,
    key: Annotated[Path, typer.Option("--key", metavar="PRIVATE", help="The private key that `keygen` made.")],
    passphrase: _Passphrase = "",
) -> None:
    """Sign a bundle, after checking that it is whole. An older signature is replaced."""
    from kubexm.assets import Bundle
    from kubexm.assets import verify as verify_bundle
    from kubexm.assets.signing import PrivateKey
    from kubexm.cli.bundle_output import show_report

    words = secret(passphrase, "the key's passphrase").reveal().encode() if passphrase else None
    private = PrivateKey.load(key, passphrase=words)
    report = verify_bundle(bundle)
    if any(finding.kind != "signature" for finding in report.findings):
        show_report(report, Shown.TABLE)
        typer.echo("A bundle with faults is not signed.", err=True)
        raise typer.Exit(1)
    with Bundle.open(bundle) as opened:
        typer.echo(f"Signed by {opened.sign(private)}.")


@app.command()
def push(
    bundle: BundlePath,
    registry: Annotated[str, typer.Argument(metavar="REGISTRY[/PREFIX]", help="Where to: HOST[:PORT][/PREFIX].")],
    role: _Roles = None,
    keep_registry: Annotated[
        bool, typer.Option("--keep-registry", help="Keep the original registry's name in front of each repository.")
    ] = False,
    plain_http: Annotated[bool, typer.Option("--plain-http", help="The registry has no TLS.")] = False,
    ca_file: CaFile = None,
    user: User = "",
    password: Password = "",
    auth_file: AuthFile = None,
    chunk_size: Annotated[
        int, typer.Option("--chunk-size", min=1, metavar="MIB", help="Longer blobs are sent in pieces of this length.")
    ] = 32,
    output: Annotated[
        Streamed, typer.Option("--output", "-o", help="text, or json: one event a line.")
    ] = Streamed.TEXT,
) -> None:
    """Put a bundle's images into a registry. What is there already is not sent again."""
    from kubexm.assets import Bundle
    from kubexm.assets.disk import human_size
    from kubexm.assets.names import check_roles
    from kubexm.assets.registry import Pusher, PushSummary, RegistryAccess, RegistrySession, parse_target
    from kubexm.assets.transfer import open_client
    from kubexm.cli.bundle_output import watching

    roles = several(role, "--role")
    if roles:
        check_roles(roles)
    host, prefix = parse_target(registry)
    access = RegistryAccess(
        plain_http=frozenset({host} if plain_http else ()),
        credentials=credentials_for([host], user, password, auth_file),
    )

    async def work() -> PushSummary:
        with Bundle.open(bundle) as opened, watching(output) as watcher:
            async with open_client(ca_file=ca_file) as client:
                pusher = Pusher(
                    RegistrySession(client, access.registry(host, prefix=prefix)),
                    opened,
                    keep_registry=keep_registry,
                    chunk=chunk_size * 1024 * 1024,
                    progress=watcher.progress,
                )
                wanted = [image for image in opened.manifest.images if not roles or set(roles) & set(image.roles)]
                return await pusher.push(wanted)

    done = run(work())
    text = (
        f"{done.images} images are at {registry}: {done.present} were there; blobs: {done.sent} sent "
        f"({human_size(done.bytes_sent)}), {done.mounted} shared, {done.skipped} there already."
    )
    typer.echo(text, err=output is Streamed.JSON)


@app.command()
def pack(
    directory: Annotated[Path, typer.Argument(metavar="DIRECTORY", help="A bundle directory.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The .tar.zst to write.")],
) -> None:
    """Turn a bundle directory into one file. The same bundle gives the same bytes."""
    from kubexm.assets import pack as pack_bundle
    from kubexm.errors import UsageError

    if not file.name.endswith(".tar.zst"):
        raise UsageError(f"{file} must end in .tar.zst")
    if file.exists():
        raise UsageError(f"{file} is there already", hint="Choose another name, or remove it first.")
    pack_bundle(directory, file)
    typer.echo(file)


@app.command()
def unpack(
    bundle: Annotated[Path, typer.Argument(metavar="FILE", help="A packed bundle.")],
    directory: Annotated[Path, typer.Argument(metavar="DIRECTORY", help="A directory that is not there yet.")],
) -> None:
    """Turn a packed bundle into a directory, checked on the way: all of it or nothing."""
    from kubexm.assets import Bundle

    with Bundle.open(bundle) as opened:
        opened.extract(directory)
    typer.echo(directory)


@app.command()
def images(
    bundle: BundlePath,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The .tar to write.")],
    role: _Roles = None,
) -> None:
    """Write a bundle's images as one tar, as `ctr images import` and others take it."""
    from kubexm.assets import Bundle, ImageArchive
    from kubexm.assets.names import check_roles

    roles = several(role, "--role")
    if roles:
        check_roles(roles)
    with Bundle.open(bundle) as opened:
        wanted = [image for image in opened.manifest.images if not roles or set(roles) & set(image.roles)]
        archive = ImageArchive(opened, wanted)
        archive.write(file)
    typer.echo(f"{file}: {len(wanted)} images")
