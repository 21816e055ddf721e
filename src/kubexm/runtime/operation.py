"""Operations: what has to be completed once it has begun, recorded on the keepers of the lease (decision 23).

Progress is read from the hosts each time. What cannot be read from them is what was meant: that is the intent record.
It is written under the lease before the first change and closed when the operation ends. A keeper that was away may
have an older record: the newest fencing token wins. While an operation is open, whatever applies the file and every
other operation is refused; a run of the same operation takes it over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from kubexm.errors import ConflictError, FormatError, KubexmError
from kubexm.runner import LAYOUT, Intent
from kubexm.runtime.context import Context
from kubexm.runtime.host import HostRuntime
from kubexm.runtime.lease import keepers

__all__ = ["close_operation", "refuse_newer_layout", "refuse_other_operation", "write_intent"]


def refuse_other_operation(
    ctx: Context, operation: str, command: Callable[[str], str] = lambda name: f"kubexm {name}"
) -> None:
    """Raises ConflictError that names the operation under way, unless it is this one. Empty: none may be under way.

    `command`: the command line of an operation.
    """
    intent = ctx.open_intent
    if intent is None or intent.operation == operation:
        return
    if intent.unreadable:
        hosts = [name for name, host in ctx.host_runtimes.items() if host.facts.intent == intent]
        raise ConflictError(
            f"{hosts[0]}: /var/lib/kubexm/intent.json cannot be read, so which operation is under way is not known",
            hint="copy it from another etcd member or control plane, or remove it if no operation was begun",
        )
    raise ConflictError(
        f"{intent.described} of {ctx.cluster.name} is not finished (run {intent.run})",
        hint=f"finish it first: run `{command(intent.operation)}` again, or `kubexm runs resume {intent.run}`",
    )


def refuse_newer_layout(ctx: Context) -> None:
    """Raises FormatError if a host was set up by a newer kubexm, whose records this one does not understand."""
    for name, host in ctx.host_runtimes.items():
        marker, intent = host.facts.marker, host.facts.intent
        layout = max(marker.layout if marker is not None else 0, intent.layout if intent is not None else 0)
        if layout > LAYOUT:
            raise FormatError(
                f"{name}: a newer kubexm has been here: its records have the layout {layout}, and this version of "
                f"kubexm knows {LAYOUT}",
                hint="use the version of kubexm that last changed this cluster, or a newer one",
            )


async def write_intent(ctx: Context, intent: Intent, token: int) -> None:
    """Records on every keeper that the operation is under way. All of them, or nothing may be changed."""
    hosts = keepers(ctx)
    made = replace(intent, token=token, open=True)
    for outcome in await _written(hosts, made):
        if outcome is not None:
            raise outcome


async def close_operation(ctx: Context, intent: Intent, token: int) -> None:
    """Records on every keeper that the operation has ended. The newest counts where one was away."""
    hosts = keepers(ctx)
    outcomes = await _written(hosts, replace(intent, token=token, open=False))
    for host, outcome in zip(hosts, outcomes, strict=True):
        if isinstance(outcome, KubexmError):
            ctx.logger.warning(
                "%s: the end of %s is not recorded there: %s", host.name, intent.operation, outcome.message
            )
        elif outcome is not None:
            raise outcome


async def _written(hosts: list[HostRuntime], intent: Intent) -> list[BaseException | None]:
    found = await asyncio.gather(*(host.intents.write(intent) for host in hosts), return_exceptions=True)
    return [each if isinstance(each, BaseException) else None for each in found]
