"""The assets of a cluster at hand before its plan is made or carried out. Must not know what they are for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from kubexm.config import Loaded
from kubexm.plan import ExecutionGraph
from kubexm.runtime import Context, NeedsAssets

__all__ = ["stocked", "stocked_for"]

Ask = Callable[[str], str] | None


async def stocked(ctx: Context, loaded: Loaded, ask: Ask, *, unpack: bool) -> Context:
    """The context with the assets of its cluster at hand; offline, with what this machine has of them.

    With `unpack` they are checked and ready to be sent, and what steps need to know of registries is kept for them.
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
    return replace(ctx, assets=await stock.fill(arches, unpack=unpack))


async def stocked_for(ctx: Context, loaded: Loaded, ask: Ask, graph: ExecutionGraph) -> Context:
    """The context with what a plan made earlier takes from bundles; AssetError if that is not at hand."""
    steps = [node.step for node in graph.nodes.values()]
    takers = [step for step in steps if isinstance(step, NeedsAssets)]
    if not takers:
        return ctx
    filled = await stocked(ctx, loaded, ask, unpack=True)
    filled.assets.refuse_others(digest for step in takers for digest in step.sums_needed())
    return filled
