"""The assets of a cluster at hand before its plan is made or carried out. Must not know what they are for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from kubexm.config import Loaded
from kubexm.plan import ExecutionGraph
from kubexm.runtime import Context, NeedsAssets
from kubexm.step import OnlyRead

__all__ = ["stocked", "stocked_for"]

Ask = Callable[[str], str] | None


async def stocked(
    ctx: Context, loaded: Loaded, ask: Ask, *, unpack: bool, chosen: Callable[[Context], ExecutionGraph] | None = None
) -> Context:
    """The context with the assets of its cluster at hand; offline, with what this machine has of them.

    With `unpack` they are checked and ready to be sent, and what steps need to know of registries is kept for them.
    `chosen` plans a part of a pipeline: if nothing in that part takes assets, none are looked up or fetched.
    """
    from kubexm.runtime.stock import Stock  # brings an HTTP client along, which most commands do not need

    stock = Stock(
        ctx.cluster,
        loaded.source.directory,
        ask=ask,
        redactor=ctx.redactor,
        say=lambda text: ctx.logger.info("%s", text),
    )
    arches = sorted({ctx.facts_of(host.name).arch for host in ctx.hosts})
    if ctx.offline:
        for path in stock.missing():
            ctx.logger.warning("spec.assets.sources: there is no bundle %s on this machine; a run needs it", path)
        return replace(ctx, assets=stock.at_hand(arches))
    if unpack:
        stock.keep_secrets(ctx.secrets)
    if chosen is not None:
        local = replace(ctx, assets=stock.at_hand(arches))
        if not _takers(chosen(local)):
            return local
        local.assets.close()
    return replace(ctx, assets=await stock.fill(arches, unpack=unpack))


async def stocked_for(ctx: Context, loaded: Loaded, ask: Ask, graph: ExecutionGraph) -> Context:
    """The context with what a plan made earlier takes from bundles; AssetError if that is not at hand."""
    takers = _takers(graph)
    if not takers:
        return ctx
    filled = await stocked(ctx, loaded, ask, unpack=True)
    filled.assets.refuse_others(digest for step in takers for digest in step.sums_needed())
    return filled


def _takers(graph: ExecutionGraph) -> list[NeedsAssets]:
    """The steps that take something from a bundle, of the nodes that are not left out."""
    steps = [node.step for node in graph.nodes.values() if not node.excluded]
    inner = [step.step if isinstance(step, OnlyRead) else step for step in steps]
    return [step for step in inner if isinstance(step, NeedsAssets)]
