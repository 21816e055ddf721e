"""What the probe's pods are asked, and what their answers mean. Pure.

One pod asks all others to ask each other: one command in one container proves every pair, names and the service.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, urlencode

from kubexm.components.verify.objects import PORT, SERVICE_PORT, Sample
from kubexm.connector.base import shell

__all__ = ["Probe", "questions", "read_answers"]

_TRIES_PER_NODE: Final = 4
_LOOKUP: Final = 5
"""Seconds for one look-up."""
# The cluster's DNS may be the last to come up: that is waited for in the pod, since each command in a pod costs much.
_AWAIT: Final = """end=$(($(date +%s) + {seconds}))
until {lookup} </dev/null >/dev/null 2>&1 || [ "$(date +%s)" -ge "$end" ]; do sleep 0.3; done
"""
# Sources are asked side by side, their questions one after the other: a node that is cut off holds up nobody else.
_ASK: Final = """ask() {
  while read -r what from to url; do
    answer=$(timeout 8 wget -q -O - "$url" 2>&1) || answer="! $answer"
    printf '%s %s %s %s\\n' "$what" "$from" "$to" "$(printf '%s' "$answer" | tr '\\n' ' ')"
  done
}
"""


@dataclass(frozen=True, slots=True)
class Probe:
    """What is asked: which pods, at which addresses, and the services they must reach."""

    sample: Sample
    addresses: Mapping[int, str]
    """Of the pods, by their index in the sample."""
    service: str
    """Address of the service over all of them."""
    dns: str
    """Address of the cluster's DNS service."""
    name: str
    """A name every cluster has."""
    expected: str
    """Its address."""


def questions(probe: Probe, *, seconds: int = 0) -> str:
    """The script that one pod runs: an answer on each line. `seconds`: to wait for names before anything is asked."""
    blocks = []
    # In less time than the asker has: names that nobody answers are no pod that cannot be reached.
    lookup = shell("timeout", str(_LOOKUP), "nslookup", probe.name, probe.dns)
    tries = str(_TRIES_PER_NODE * max(2, len(probe.sample.nodes)) if probe.sample.whole else _TRIES_PER_NODE)
    for source, address in probe.addresses.items():
        base = f"http://[{address}]:{PORT}" if ":" in address else f"http://{address}:{PORT}"
        lines = [f"dns {source} - {base}/shell?{urlencode({'cmd': lookup}, quote_via=quote)}"]
        targets = (b for a, b in probe.sample.pairs if a == source)
        lines += [f"pair {source} {target} {base}/dial?{_dial(probe.addresses[target], PORT)}" for target in targets]
        lines.append(f"service {source} - {base}/dial?{_dial(probe.service, SERVICE_PORT, tries)}")
        block = "\n".join(lines)
        blocks.append(f"ask <<'END' &\n{block}\nEND\n")
    return _AWAIT.format(lookup=lookup, seconds=seconds) + _ASK + "".join(blocks) + "wait\n"


def read_answers(probe: Probe, output: str) -> list[str]:
    """What is wrong, by the names of nodes; nothing if every answer is there and right."""
    faults: list[str] = []
    answered: set[tuple[str, int, str]] = set()
    served: set[str] = set()
    for line in output.splitlines():
        what, source, target, answer = (*line.split(" ", 3), "", "", "")[:4]
        if what not in ("dns", "pair", "service") or not source.isdigit():
            continue
        answered.add((what, int(source), target))
        fault, seen = _judge(probe, what, int(source), target, answer)
        faults += [fault] if fault else []
        served |= seen
    missing = [f"the pod on {probe.sample.nodes[a]} was not asked" for a in _unasked(probe, answered)]
    faults += missing
    backends = len(probe.sample.nodes)
    wanted = backends if probe.sample.whole else backends // 2
    if not faults and len(served) < wanted:
        faults.append(f"the service balances over {len(served)} of {backends} pods only")
    return faults


def _judge(probe: Probe, what: str, source: int, target: str, answer: str) -> tuple[str, set[str]]:
    """What is wrong with one answer, and which pods served it."""
    node = probe.sample.nodes[source]
    if answer.startswith("!"):
        asker = probe.sample.nodes[next(iter(probe.addresses))]
        return f"a pod on {asker} cannot reach the pod on {node}: {answer[1:].strip()}", set()
    try:
        said = json.loads(answer)
    except ValueError:
        return f"the pod on {node} gave no answer: {answer[:100]}", set()
    if what == "dns":
        whole = rf"(?<![0-9a-f.:]){re.escape(probe.expected)}(?![0-9a-f.])"
        found = re.search(whole, said.get("output", ""))
        why = " ".join(said.get("output", "").split())[-200:] or "no answer"
        return ("" if found else f"{probe.name} cannot be looked up at {probe.dns} from {node}: {why}"), set()
    errors, responses = said.get("errors") or [], set(said.get("responses") or [])
    if what == "service":
        fault = f"the service {probe.service} does not answer from {node}: {errors[0]}" if errors else ""
        return fault, responses
    right = f"probe-{target}" in responses
    other = probe.sample.nodes[int(target)]
    return ("" if right else f"a pod on {node} cannot reach a pod on {other}: {_first(errors)}"), set()


def _unasked(probe: Probe, answered: Iterable[tuple[str, int, str]]) -> Sequence[int]:
    count: dict[int, int] = {}
    for _, source, _ in answered:
        count[source] = count.get(source, 0) + 1
    wanted = {source: 2 + sum(a == source for a, _ in probe.sample.pairs) for source in probe.addresses}
    return [source for source, number in wanted.items() if count.get(source, 0) < number]


def _dial(host: str, port: int, tries: str = "1") -> str:
    words = {"host": host, "port": str(port), "protocol": "http", "request": "hostname", "tries": tries}
    return urlencode(words, quote_via=quote)


def _first(errors: Sequence[str]) -> str:
    return errors[0] if errors else "another pod answered"
