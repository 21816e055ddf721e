"""What is compared before and after a run: containers and their ids, and etcd's leader. Pure, but for the questions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

__all__ = [
    "CONTAINERS",
    "Elections",
    "changed_containers",
    "elections_between",
    "leader_question",
    "parse_containers",
    "parse_elections",
]

CONTAINERS: Final = (
    'jsonpath={range .items[*]}{.metadata.uid}{"\\t"}{.metadata.namespace}/{.metadata.name}{"\\t"}'
    '{range .status.containerStatuses[*]}{.name}{"="}{.containerID}{"@"}{.state.running.startedAt}{" "}{end}'
    '{"\\n"}{end}'
)
"""What kubectl prints of all pods."""
_MOST: Final = 50
_LEADER: Final = """\
url=http://127.0.0.1:{port}
if command -v curl >/dev/null 2>&1; then curl -sf -m 5 "$url/metrics"
elif command -v wget >/dev/null 2>&1; then wget -q -T 5 -O - "$url/metrics"
else kubectl --kubeconfig=/dev/null --server="$url" --request-timeout=5s get --raw /metrics
fi | sed -n -e 's/^etcd_server_leader_changes_seen_total /changes /p' -e 's/^process_start_time_seconds /started /p'"""


def parse_containers(text: str, *, without: Iterable[str] = ()) -> dict[str, tuple[str, dict[str, str]]]:
    """Each pod's name and its containers (id and start by name), by the pod's UID; `without` names namespaces."""
    found: dict[str, tuple[str, dict[str, str]]] = {}
    for line in text.splitlines():
        uid, pod, rest = (*line.split("\t", 2), "", "")[:3]
        if not pod or any(pod.startswith((f"{name}/", f"{name}-")) for name in without):
            continue
        pairs = (entry.partition("=") for entry in rest.split())
        found[uid] = (pod, {name: state for name, _, state in pairs})
    return found


def changed_containers(
    before: Mapping[str, tuple[str, dict[str, str]]], after: Mapping[str, tuple[str, dict[str, str]]]
) -> dict[str, Any]:
    """Containers that were restarted in pods that stayed, and pods that went or came."""
    restarted = [
        f"{pod}/{name}"
        for uid, (pod, containers) in before.items()
        if uid in after
        for name, state in containers.items()
        if after[uid][1].get(name) != state
    ]
    gone = sorted(pod for uid, (pod, _) in before.items() if uid not in after)
    came = sorted(pod for uid, (pod, _) in after.items() if uid not in before)
    return {
        "before": sum(len(containers) for _, containers in before.values()),
        "restarted": sorted(restarted)[:_MOST],
        "gone": gone[:_MOST],
        "new": came[:_MOST],
    }


@dataclass(frozen=True, slots=True)
class Elections:
    """What a member of etcd has seen since it was started."""

    changes: float
    started: float


def leader_question(port: int) -> str:
    """Shell text for a member's host."""
    return _LEADER.format(port=port)


def parse_elections(text: str) -> Elections | None:
    """The answer to it; None if there is none."""
    found = dict(line.split(" ", 1) for line in text.splitlines() if " " in line)
    try:
        return Elections(float(found["changes"]), float(found["started"]))
    except (KeyError, ValueError):
        return None


def elections_between(before: Mapping[str, Elections], after: Mapping[str, Elections]) -> int | None:
    """How often the leader changed, as the member that saw most says; None if nobody can tell.

    A member that was restarted meanwhile counts from 0, and its first leader is no change.
    """
    seen = []
    for name, now in after.items():
        then = before.get(name)
        if then is not None and then.started == now.started:
            seen.append(now.changes - then.changes)
        elif then is not None:
            seen.append(max(0.0, now.changes - 1))
    return round(max(seen)) if seen else None
