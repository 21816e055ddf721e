"""Why pods do not run: their containers' states, warnings about them, the last lines they wrote. Only reads.

What is found is put into an error, so it is few lines, and finding nothing is no error.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from kubexm.components.api.kubectl import Kubectl
from kubexm.errors import telling_lines

__all__ = ["is_ready", "pod_troubles"]

_PODS: Final = 3
_LINES: Final = 3


def is_ready(document: Mapping[str, Any], condition: str = "Ready") -> bool:
    """True if an object, a pod or a node, says so of itself."""
    conditions = document.get("status", {}).get("conditions") or ()
    return any(one["type"] == condition and one["status"] == "True" for one in conditions)


async def pod_troubles(kubectl: Kubectl, namespace: str, *words: str) -> list[str]:
    """What is wrong with the pods of a namespace that are not ready, or with those that `words` select."""
    result = await kubectl.read("get", "pods", "-n", namespace, "-o", "json", *words, display="look at pods")
    if not result.ok or result.truncated:
        return []
    found = json.loads(result.text or "{}")
    pods = [pod for pod in found.get("items", [found] if found else []) if not _is_done(pod)]
    told = await asyncio.gather(*(_trouble(kubectl, pod) for pod in pods[:_PODS]))
    rest = [f"and {len(pods) - _PODS} more pods that are not ready"] if len(pods) > _PODS else []
    return [line for lines in told for line in lines] + rest


def _is_done(pod: Mapping[str, Any]) -> bool:
    return is_ready(pod) or pod.get("status", {}).get("phase") == "Succeeded"


async def _trouble(kubectl: Kubectl, pod: Mapping[str, Any]) -> list[str]:
    metadata, status = pod["metadata"], pod.get("status", {})
    node = pod["spec"].get("nodeName")
    name = f"pod {metadata['namespace']}/{metadata['name']} on {node or 'no node yet'}"
    events, logs = await asyncio.gather(_events(kubectl, metadata), _logs(kubectl, pod))
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


async def _events(kubectl: Kubectl, metadata: Mapping[str, Any]) -> Sequence[str]:
    result = await kubectl.read(
        *("get", "events", "-n", metadata["namespace"], "-o", 'jsonpath={range .items[*]}{.message}{"\\n"}{end}'),
        *("--field-selector", f"involvedObject.name={metadata['name']},type=Warning", "--sort-by", ".lastTimestamp"),
        display="look at events",
    )
    lines = [line.strip() for line in result.text.splitlines() if line.strip()] if result.ok else []
    return list(dict.fromkeys(line[:300] for line in lines))[-_LINES:]


async def _logs(kubectl: Kubectl, pod: Mapping[str, Any]) -> Sequence[str]:
    """The telling lines of the first container that failed, or else of the first that is not ready."""
    status = pod.get("status", {})
    containers = [*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())]
    begun = [one for one in containers if not one.get("ready") and "waiting" not in one.get("state", {})]
    again = [one for one in containers if one.get("restartCount")]
    for container, words in [*((one, ("--previous",)) for one in again), *((one, ()) for one in begun)]:
        if container.get("state", {}).get("terminated", {}).get("reason") == "Completed":
            continue
        result = await kubectl.read(
            *("logs", "-n", pod["metadata"]["namespace"], pod["metadata"]["name"], "-c", container["name"]),
            *("--tail", "20", *words),
            display="look at its log",
        )
        if result.ok and result.text.strip():
            return telling_lines(result.text, most=_LINES)
    return ()
