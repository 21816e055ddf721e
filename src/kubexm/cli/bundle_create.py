"""`kubexm bundle create`: a bundle from upstream, a mirror or another bundle, in the order they are named."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kubexm.cli.bundle_options import (
    AuthFile,
    CaFile,
    Password,
    User,
    credentials_for,
    kubernetes_versions,
    machine_arch,
    pairs,
    run,
    secret,
)
from kubexm.cli.options import several
from kubexm.cli.output import Streamed
from kubexm.errors import UsageError

if TYPE_CHECKING:
    from kubexm.assets import Manifest
    from kubexm.assets.provide import SourceSpec

__all__ = ["create"]


class From(StrEnum):
    """What a bundle can be made from."""

    UPSTREAM = "upstream"
    MIRROR = "mirror"
    BUNDLE = "bundle"


def create(
    places: Annotated[
        list[str] | None,
        typer.Argument(metavar="[URL|BUNDLE]...", help="One for each --from mirror and --from bundle, in order."),
    ] = None,
    source: Annotated[
        list[From] | None,
        typer.Option("--from", help="Where from; several are asked in this order.  [default: upstream]"),
    ] = None,
    kubernetes: Annotated[
        list[str] | None,
        typer.Option(
            "--kubernetes", "-k", metavar="VERSION", help="Kubernetes version, such as 1.34.4; may be repeated."
        ),
    ] = None,
    arch: Annotated[str, typer.Option("--arch", help="amd64, arm64, …  [default: this machine's]")] = "",
    out: Annotated[
        Path | None, typer.Option("--out", help="Where to: a new directory, or one file if it ends in .tar.zst.")
    ] = None,
    feature: Annotated[
        list[str] | None,
        typer.Option("--feature", metavar="NAME", help="Only what clusters with these features need; see docs."),
    ] = None,
    version: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="COMPONENT=VERSION", help="Another version than the catalog's, e.g. runc=v1.3.5."
        ),
    ] = None,
    packages: Annotated[
        list[str] | None,
        typer.Option("--packages", metavar="DISTRO-ARCH=DIR", help="OS packages to take along, from a directory."),
    ] = None,
    sums: Annotated[
        Path | None,
        typer.Option("--sums", metavar="FILE", help="Pinned sha256 sums; upstream's own are not asked for."),
    ] = None,
    registry_mirror: Annotated[
        list[str] | None,
        typer.Option("--registry-mirror", metavar="[REGISTRY=]URL", help="Ask this registry first; may be repeated."),
    ] = None,
    plain_http: Annotated[
        list[str] | None,
        typer.Option("--plain-http", metavar="HOST", help="This registry has no TLS; may be repeated."),
    ] = None,
    ca_file: CaFile = None,
    user: User = "",
    password: Password = "",
    auth_file: AuthFile = None,
    key: Annotated[Path | None, typer.Option("--sign", metavar="PRIVATE", help="Sign it with this key.")] = None,
    passphrase: Annotated[
        str, typer.Option("--passphrase", metavar="REF", help="The key's passphrase: env:NAME, file:PATH or prompt.")
    ] = "",
    replace: Annotated[bool, typer.Option("--replace", help="Replace a bundle that is there.")] = False,
    output: Annotated[
        Streamed, typer.Option("--output", "-o", help="text, or json: one event a line.")
    ] = Streamed.TEXT,
) -> None:
    """Make a bundle: everything a Kubernetes version needs, images included.

    What is downloaded is kept (KUBEXM_CACHE, or the user's cache directory) and resumed when cut.
    """
    from kubexm.assets.create import BundleRequest, PackageDirectory
    from kubexm.assets.registry import RegistryAccess, parse_mirrors
    from kubexm.assets.signing import PrivateKey
    from kubexm.assets.sums import PinnedSums

    if not kubernetes or out is None:
        raise UsageError(
            "say which Kubernetes version, and where the bundle goes", hint="--kubernetes 1.34.4 --out DIR"
        )
    wanted = _places(source or [], places or [])
    mirrors = parse_mirrors(registry_mirror or ())
    hosts = [url.partition("://")[2].partition("/")[0] for urls in mirrors.values() for url in urls]
    private = None
    if key is not None:
        words = secret(passphrase, "the key's passphrase").reveal().encode() if passphrase else None
        private = PrivateKey.load(key, passphrase=words)
    request = BundleRequest(
        kubernetes=kubernetes_versions(kubernetes),
        arch=arch or machine_arch(),
        out=out,
        features=several(feature, "--feature") or None,
        packages=tuple(
            PackageDirectory(target=target, directory=Path(directory))
            for target, directory in pairs(packages or (), "a package directory", "debian-12-amd64=./debs")
        ),
        replace=replace,
    )
    versions = dict(pairs(version or (), "a version", "runc=v1.3.5"))
    access = RegistryAccess(
        mirrors=mirrors,
        plain_http=frozenset(plain_http or ()),
        credentials=credentials_for(hosts or ["docker.io"], user, password, auth_file),
    )
    pinned = PinnedSums.load(sums) if sums else None

    async def work() -> Manifest:
        from kubexm.assets.cache import FileCache, default_cache
        from kubexm.assets.create import create_bundle
        from kubexm.assets.provide import SourceOptions, open_sources
        from kubexm.cli.bundle_output import watching

        cache = FileCache(default_cache() / "downloads")
        with watching(output) as watcher:
            reached = SourceOptions(
                access=access, pinned=pinned, versions=versions, ca_file=ca_file, progress=watcher.progress
            )
            async with open_sources(wanted, cache, reached) as sources:
                return await create_bundle(request, sources, cache, say=watcher.say)

    manifest = run(work())
    if private is not None:
        from kubexm.assets.bundle import Bundle

        with Bundle.open(out) as made:
            made.sign(private)
    _tell(manifest, out, output)


def _tell(manifest: Manifest, out: Path, output: Streamed) -> None:
    from kubexm.assets.disk import human_size

    text = f"{out}: Kubernetes {', '.join(manifest.kubernetes)} for {manifest.arch}, {human_size(manifest.total_size)}"
    typer.echo(text, err=output is Streamed.JSON)


def _places(kinds: list[From], given: list[str]) -> list[SourceSpec]:
    """Each --from with its place; without any, places speak for themselves and upstream is the default."""
    from kubexm.assets.provide import SourceSpec

    def spec(kind: From, where: str) -> SourceSpec:
        if kind is not From.UPSTREAM and not where:
            raise UsageError(f"--from {kind} needs to know where", hint=f"kubexm bundle create --from {kind} URL …")
        return SourceSpec(bundle=Path(where)) if kind is From.BUNDLE else SourceSpec(mirror=where)

    if not kinds:
        guessed = [spec(From.MIRROR if "://" in where else From.BUNDLE, where) for where in given]
        return guessed or [SourceSpec()]
    rest = iter(given)
    found = [spec(kind, "" if kind is From.UPSTREAM else next(rest, "")) for kind in kinds]
    if left := list(rest):
        raise UsageError(f"{left[0]!r} belongs to no --from", hint="Write --from mirror URL or --from bundle PATH.")
    return found
