"""Why pods do not run: their containers' states, warnings about them, the last lines they wrote. Only reads.

What is found is put into an error, so it is few lines, and finding nothing is no error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from kubexm.components.api.client import KubeClient
from kubexm.components.api.resources import Kind
from kubexm.components.api.selection import Selection
from kubexm.errors import ApiError, telling_lines

__all__ = ["is_ready", "pod_troubles"]

_POD: Final = Kind("", "v1", "Pod")
_EVENT: Final = Kind("", "v1", "Event")
_PODS: Final = 3
_LINES: Final = 3


def is_ready(document: Mapping[str, Any], condition: str = "Ready") -> bool:
    """True if an object, a pod or a node, says so of itself."""
    conditions = document.get("status", {}).get("conditions") or ()
    return any(one["type"] == condition and one["status"] == "True" for one in conditions)


async def pod_troubles(client: KubeClient, namespace: str, *, labels: str = "", fields: str = "") -> list[str]:
    """What is wrong with the pods of a namespace that are not ready, or with those that selectors choose."""
    try:
        found = await client.list(Selection(kind=_POD, namespace=namespace, labels=labels, fields=fields))
    except ApiError:
        return []
    pods = [pod for pod in found if not _is_done(pod)]
    told = await asyncio.gather(*(_trouble(client, pod) for pod in pods[:_PODS]))
    rest = [f"and {len(pods) - _PODS} more pods that are not ready"] if len(pods) > _PODS else []
    return [line for lines in told for line in lines] + rest


def _is_done(pod: Mapping[str, Any]) -> bool:
    return is_ready(pod) or pod.get("status", {}).get("phase") == "Succeeded"


async def _trouble(client: KubeClient, pod: Mapping[str, Any]) -> list[str]:
    metadata, status = pod["metadata"], pod.get("status", {})
    node = pod["spec"].get("nodeName")
    name = f"pod {metadata['namespace']}/{metadata['name']} on {node or 'no node yet'}"
    events, logs = await asyncio.gather(_events(client, metadata), _logs(client, pod))
    states = [*_states(status), *_conditions(status)] or [f"is {status.get('phase', 'unknown')}"]
    return [
        f"{name}: {'; '.join(states)}",
        *(f"  event: {line}" for line in events),
        *(f"  log: {line}" for line in logs),
    ]


def _states(status: Mapping[str, Any]) -> Iterator[str]:
    """What each container that does not run says."""
    for container in (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())):
        for state in (container.get("state", {}), container.get("lastState", {})):
            for kind in ("waiting", "terminated"):
                detail = state.get(kind)
                if detail and detail.get("reason") not in (None, "Completed", "PodInitializing", "ContainerCreating"):
                    message = detail.get("message") or ""
                    code = f" with {detail['exitCode']}" if "exitCode" in detail else ""
                    yield f"{container['name']} {kind}{code}: {detail['reason']} {message}".strip()


def _conditions(status: Mapping[str, Any]) -> Iterator[str]:
    for condition in status.get("conditions") or ():
        if condition["status"] != "True" and condition.get("message") and condition["type"] == "PodScheduled":
            yield condition["message"]


async def _events(client: KubeClient, metadata: Mapping[str, Any]) -> Sequence[str]:
    fields = f"involvedObject.name={metadata['name']},type=Warning"
    try:
        found = await client.list(Selection(kind=_EVENT, namespace=metadata["namespace"], fields=fields))
    except ApiError:
        return ()
    found.sort(key=lambda event: event.get("lastTimestamp") or event.get("eventTime") or "")
    lines = [" ".join(str(event.get("message") or "").split())[:300] for event in found]
    return list(dict.fromkeys(filter(None, lines)))[-_LINES:]


async def _logs(client: KubeClient, pod: Mapping[str, Any]) -> Sequence[str]:
    """The telling lines of the first container that failed, or else of the first that is not ready."""
    status = pod.get("status", {})
    containers = [*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())]
    begun = [one for one in containers if not one.get("ready") and "waiting" not in one.get("state", {})]
    again = [one for one in containers if one.get("restartCount")]
    for container, previous in [*((one, True) for one in again), *((one, False) for one in begun)]:
        if container.get("state", {}).get("terminated", {}).get("reason") == "Completed":
            continue
        try:
            text = await client.logs(
                *(pod["metadata"]["namespace"], pod["metadata"]["name"]),
                container=container["name"],
                tail=20,
                previous=previous,
            )
        except ApiError:
            continue
        if text.strip():
            return telling_lines(text, most=_LINES)
    return ()
