"""Values on their way from producers to consumers: into the caches, and as names and digests into the journal.

Also what one unit is given of them, and what its reports leave behind for others.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from kubexm.cache import RUN_CHANGED, Given, StepCache
from kubexm.engine.asked import Asked, Report, StoredSecrets
from kubexm.engine.prior import Prior
from kubexm.errors import StepError
from kubexm.plan import ExecutionGraph, ExecutionNode
from kubexm.redact import Secret, SecretRef
from kubexm.runtime import Context
from kubexm.step import Values

__all__ = ["ValueBook"]

_ALWAYS = frozenset({RUN_CHANGED.name})
_FEW = 8


class ValueBook:
    """Publishes what steps produce and knows what is there."""

    def __init__(self, ctx: Context, run: str) -> None:
        self._ctx = ctx
        self._run = run
        self._secrets = StoredSecrets(ctx.secrets)
        self._any = Given(ctx.caches.pipeline, _ALWAYS)
        """All that most units are given."""
        self._of_node: dict[str, tuple[StepCache, Given | None]] = {}
        """The cache of each node, and what its units are given where that is the same for all of them."""

    def asked(self, node: ExecutionNode, host: str, actor: str, urgency: float = 0.0) -> Asked:
        """What is asked for one unit, with the values and secrets its step declares."""
        known = self._of_node.get(node.id)
        if known is None:
            plain = not node.step.consumes() and not node.step.gathers() and not node.step.may_use()
            known = self._of_node[node.id] = (self._ctx.caches.step(node.id), self._any if plain else None)
        cache, given = known
        if given is None:
            consumed = _ALWAYS.union(key.name for key in node.step.consumes())
            gathered = frozenset(key.name for key in (*node.step.gathers(), *node.step.may_use()))
            given = Given(cache, consumed, gathered, host)
        return Asked(node, host, actor, self._run, urgency, given, cache.own, self._secrets)

    async def take_in(self, node: ExecutionNode, report: Report) -> None:
        """Keeps what a report leaves for later attempts: notes of the node, and secrets in the work directory."""
        if report.notes:
            self._ctx.caches.step(node.id).note(report.notes)
        if len(report.kept) > _FEW:
            await asyncio.to_thread(self._ctx.secrets.put_all, report.kept)
        elif report.kept:
            self._ctx.secrets.put_all(report.kept)

    def publish(self, node: ExecutionNode, host: str, values: Values) -> dict[str, Any]:
        """Keeps the values where consumers find them; returns what the journal may know of them."""
        journalled: dict[str, Any] = {}
        produced = node.step.produces()
        if not produced and not values:
            return journalled
        for key, value in values.items():
            if key not in produced:
                raise StepError(f"{node.id} produced {key}, which it had not said it would", host=host)
            if key.secret != isinstance(value, Secret):
                raise StepError(f"{node.id}: {key} is {'' if key.secret else 'not '}declared secret", host=host)
            self._ctx.caches.publish(node.id, key, value, host)
            if key.expires:
                if isinstance(value, Secret):
                    self._ctx.redactor.add(value)  # kept nowhere, and masked all the same
                continue
            if isinstance(value, Secret):
                ref = self._ctx.secrets.put(_secret_name(key.name, host if key.per_host else ""), value)
                journalled[key.name] = {"secret": ref.name, "digest": self._ctx.secrets.digest(value)}
            else:
                _refuse_what_json_changes(node, key.name, value, host)
                journalled[key.name] = {"value": value}
        missing = [key.name for key in produced if key not in values and not self._there(node, key.name, host)]
        if missing:
            raise StepError(f"{node.id} did not produce {', '.join(missing)}", host=host)
        return journalled

    def restore(self, graph: ExecutionGraph, prior: Prior) -> None:
        """Puts journalled values back into the caches."""
        for (node_id, host), done in prior.done.items():
            node = graph.nodes.get(node_id)
            if node is None:
                continue
            for key in node.step.produces():
                noted: Mapping[str, Any] | None = done.get("values", {}).get(key.name)
                if noted is None:
                    continue
                if "secret" in noted:
                    ref = SecretRef(noted["secret"])
                    if ref in self._ctx.secrets:
                        self._ctx.caches.publish(node_id, key, self._ctx.secrets.get(ref), host)
                else:
                    self._ctx.caches.publish(node_id, key, noted["value"], host)

    def has_all(self, node: ExecutionNode, host: str) -> bool:
        """True if everything this node produces is there."""
        return all(self._there(node, key.name, host) for key in node.step.produces())

    def require(self, node: ExecutionNode, host: str) -> None:
        """Raises unless every value the node consumes is there."""
        missing = self.missing(node, host)
        if missing:
            raise StepError(f"{node.id} lacks {', '.join(missing)}, which was not produced", host=host)

    def missing(self, node: ExecutionNode, host: str) -> list[str]:
        """The values the node consumes that are not there."""
        if not node.step.consumes():
            return []
        cache = self._ctx.caches.step(node.id)
        return [key.name for key in node.step.consumes() if (key, host) not in cache]

    def _there(self, node: ExecutionNode, name: str, host: str) -> bool:
        cache = self._ctx.caches.step(node.id)
        return any((key, host) in cache for key in node.step.produces() if key.name == name)


def _secret_name(key: str, host: str) -> str:
    return f"value-{key}" + (f"@{host}" if host else "")


def _refuse_what_json_changes(node: ExecutionNode, key: str, value: Any, host: str) -> None:
    """A resumed run must see the same value as the first: plain data only."""
    try:
        same = json.loads(json.dumps(value)) == value
    except (TypeError, ValueError):
        same = False
    if not same:
        raise StepError(f"{node.id}: the value of {key} is not plain JSON data", host=host)
