"""Undoing what a run changed, from the snapshots its changes left on the host. Must not know what was changed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import TypeVar

from kubexm.cache import Key
from kubexm.errors import StepError
from kubexm.runner import Outcome, Restored
from kubexm.runtime import StepContext

__all__ = ["recall", "remember", "restore", "restore_below", "restore_parameters", "snapshot", "tell", "was_absent"]

T = TypeVar("T")


def snapshot(ctx: StepContext) -> PurePosixPath:
    """Where this run keeps how things on this host were before it changed them."""
    return ctx.host.runner.snapshots(ctx.run)


async def restore(ctx: StepContext, *paths: PurePosixPath) -> None:
    """Puts paths back as they were before this run, except what somebody else changed since: that is told."""
    tell(ctx, [await ctx.host.originals.restore_path(path, under=snapshot(ctx)) for path in paths])


async def restore_parameters(ctx: StepContext, keys: Iterable[str]) -> None:
    """Puts kernel parameters back to what they were before this run, except what somebody else changed since."""
    tell(ctx, await ctx.host.originals.restore_parameters(keys, under=snapshot(ctx)))


def tell(ctx: StepContext, restored: Iterable[Restored]) -> None:
    """Says what somebody else changed since and was left; StepError for what could not be put back."""
    failed: list[str] = []
    for one in restored:
        if one.outcome is Outcome.FAILED:
            failed.append(one.name)
        elif one.outcome is Outcome.KEPT:
            ctx.warn(f"{one.name} was changed by somebody else since, and is left as it is")
    if failed:
        raise StepError(
            f"could not put back {', '.join(failed)}",
            host=ctx.host.name,
            hint=f"how it was is kept below {snapshot(ctx)} on the host: put it back by hand",
        )


async def was_absent(ctx: StepContext, path: PurePosixPath) -> bool:
    """True if this run made the path: it changed it, and there was nothing before."""
    kept = await ctx.host.originals.list(under=snapshot(ctx))
    return any(item.kind == "file" and item.name == str(path) and item.was_absent for item in kept)


async def restore_below(ctx: StepContext, directory: PurePosixPath) -> None:
    """Puts back every path at or below the directory that this run changed."""
    kept = await ctx.host.originals.list(under=snapshot(ctx))
    paths = [PurePosixPath(item.name) for item in kept if item.kind == "file"]
    below = [path for path in paths if path.is_relative_to(directory)]
    await restore(ctx, *sorted(below, key=lambda path: (-len(path.parts), str(path))))


def remember(ctx: StepContext, what: Key[T], value: T) -> None:
    """Keeps how a thing was before this run's first change to it, for as long as this process lives."""
    if (what, ctx.host.name) not in ctx.cache:
        ctx.cache.set(what, value, ctx.host.name)


def recall(ctx: StepContext, what: Key[T]) -> T:
    """What was remembered; StepError where another process of this run made the change."""
    try:
        return ctx.value(what)
    except KeyError:
        raise StepError(
            "cannot be undone: it was changed by an earlier process of this run, and how it was is not known here",
            host=ctx.host.name,
            hint="undo it by hand, or run `create` again, which brings it to what the file says",
        ) from None
