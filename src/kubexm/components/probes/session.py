"""One measurement, from bringing the agents to taking them away. Knows how to measure, not when.

Nothing in here may harm what is measured or the run beside it: what cannot be measured is noted in the cost.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kubexm.components.probes.api import TOKEN_SECONDS, ProbeApi
from kubexm.components.probes.objects import COUNTER, SERVICE_PORT, api_objects, namespace_of, pod_objects, start_spec
from kubexm.components.probes.observed import (
    changed_containers,
    elections_between,
    leader_question,
    parse_containers,
    parse_elections,
)
from kubexm.components.probes.places import UNATTENDED, Places, alive_question, parse_alive
from kubexm.components.probes.records import ENDED, SETUP, Cost, cost_of, parse_record
from kubexm.errors import KubexmError
from kubexm.runtime import HostRuntime

__all__ = ["API", "FULL", "ProbeSession", "Site"]

API: Final = "api"
FULL: Final = "full"
_RATES: Final = {"rate": 10, "write_rate": 5}
_POD_RATES: Final = {"udp_rate": 20, "tcp_rate": 5, "dns_rate": 5}
_SERVICE_RATE: Final = 20
_LEAST_RATE: Final = 2
_EVERY: Final = 10
"""Seconds between pods that are started to see how long that takes."""
_PODS_WITHIN: Final = 90.0
_ALL_PAIRS: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What a measurement must know of a cluster."""

    prober: HostRuntime
    """The host whose agent asks the API."""
    targets: Mapping[str, str]
    """The ways to the API from there, by name; the first is also used for writes and watches."""
    nodes: Mapping[str, HostRuntime]
    members: Mapping[str, HostRuntime]
    """The hosts of etcd's members."""
    ca: str
    image: str
    dns: str
    dns_name: str
    metrics_port: int
    taints: tuple[str, ...] = ()
    anywhere: bool = False
    """No node is only a worker: pods may run on control planes."""
    program: Callable[[str], Path] = field(repr=False)
    """The program for an architecture; AssetError if there is none."""


class ProbeSession:
    """One measurement."""

    def __init__(self, site: Site, api: ProbeApi, *, level: str, logger: logging.Logger) -> None:
        self._site = site
        self._api = api
        self._level = level
        self._logger = logger
        self.mark = secrets.token_hex(4)
        self._places = Places(self.mark)
        self._problems: list[str] = []
        self._records: dict[str, dict[str, Any]] = {}
        self._peers: dict[str, str] = {}
        self._before: tuple[Any, Any] | None = None
        self._started = 0.0
        self._renewed = 0.0

    @property
    def _hosts(self) -> dict[str, HostRuntime]:
        """All hosts with an agent."""
        prober = {self._site.prober.name: self._site.prober}
        return {**self._site.nodes, **prober} if self._level == FULL else prober

    # Beginning

    async def start(self) -> None:
        """Brings the agents and waits until they measure. KubexmError if the API cannot be measured at all."""
        await self._each(self._hosts, self._place)
        await self._tidy()
        await self._api.apply(api_objects(self.mark))
        token, containers, elections = await asyncio.gather(
            self._api.token(self.mark), self._containers(), self._elections()
        )
        self._before, self._renewed = (containers, elections), time.monotonic()
        config = {
            **self._config(self._site.prober.name),
            "api": {
                "targets": [{"name": name, "url": url} for name, url in self._site.targets.items()],
                "ca": self._site.ca,
                "namespace": namespace_of(self.mark),
                "object": COUNTER,
                "pod_start": None,
                **_RATES,
            },
        }
        if self._level == FULL:
            image = await self._image()
            await self._start_pods(image)
            spec = start_spec(image, self._site.taints, anywhere=self._site.anywhere)
            config["api"]["pod_start"] = {"every": _EVERY, "spec": spec}
        files, places = self._site.prober.files, self._places
        await files.write(places.api / "token", token, mode=0o600, keep=False)
        await files.write(places.api / "config.json", json.dumps(config), mode=0o600, keep=False)
        await self._site.prober.command.run(places.start(), display="start the probe")
        self._started = time.time()
        if self._level == FULL:
            await self._await_pods()
            await self.phase("run")

    async def _place(self, host: HostRuntime) -> None:
        program = await asyncio.to_thread(self._site.program, host.facts.arch)
        await host.command.run(self._places.prepare(), display="make room for the probe")
        await host.files.upload(program, self._places.program, mode=0o755, keep=False)

    async def _tidy(self) -> None:
        """Removes what measurements left whose kubexm was killed: nobody has asked for them for a while."""
        found: dict[str, int | None] = {}
        holders: dict[str, list[HostRuntime]] = {}

        async def look(host: HostRuntime) -> None:
            result = await host.command.read(alive_question(), display="look for earlier measurements")
            for mark, age in parse_alive(result.text).items():
                holders.setdefault(mark, []).append(host)
                ages = [each for each in (found.get(mark), age) if each is not None]
                found[mark] = min(ages) if ages else None

        await self._each({**self._site.nodes, self._site.prober.name: self._site.prober}, look)
        alive = {mark for mark, age in found.items() if age is not None and age <= UNATTENDED} | {self.mark}
        for mark in sorted((await self._api.marks()) - alive):
            self._logger.info("removing what the measurement %s left behind", mark)
            await self._api.remove(mark)
        for mark in sorted(found.keys() - alive):
            for host in holders[mark]:
                await host.command.run(Places(mark).remove(), display="remove what an earlier measurement left")

    async def _start_pods(self, image: str) -> None:
        site, places = self._site, self._places
        objects = pod_objects(
            self.mark,
            image=image,
            program=str(places.program),
            directory=str(places.pod),
            taints=site.taints,
            anywhere=site.anywhere,
        )
        await self._api.apply(objects[2:])  # budget and service first: the service's address goes into the config
        address = await self._api.service_address(self.mark)
        service = f"[{address}]:{SERVICE_PORT}" if ":" in address else f"{address}:{SERVICE_PORT}"
        rate = max(_LEAST_RATE, _SERVICE_RATE / max(1, len(site.nodes)))
        pod = {**_POD_RATES, "service": service, "service_rate": rate, "dns": site.dns, "dns_name": site.dns_name}

        async def configure(host: HostRuntime) -> None:
            config = json.dumps({**self._config(host.name), "pod": pod})
            await host.files.write(places.pod / "phase", SETUP, mode=0o644, keep=False)
            await host.files.write(places.pod / "config.json", config, mode=0o644, keep=False)

        await self._each(site.nodes, configure)
        await self._api.apply(objects[:2])

    async def _await_pods(self) -> None:
        """Waits until an agent measures in a pod of every node; those that do not come are noted."""
        until = time.monotonic() + _PODS_WITHIN
        while time.monotonic() < until:
            await self.poll()
            if len(self._peers) == len(self._site.nodes) and self._served():
                return
            await asyncio.sleep(1.0)
        missing = sorted(self._site.nodes.keys() - self._peers.keys())
        what = f"no pod of the probe runs on {', '.join(missing)}" if missing else "the probed service does not answer"
        self._note(f"{what} after {_PODS_WITHIN:.0f} s")

    def _served(self) -> bool:
        """True once the service answers from every node: its replicas are there."""
        found = [each for each in self._records.values() if "address" in each]
        series = [one for each in found for one in each["series"] if one["name"] == "service"]
        return bool(series) and all(one["phases"].get(SETUP, {}).get("ok", 0) > 0 for one in series)

    async def _image(self) -> str:
        """What the cluster was created with: without a bundle at hand, nobody else knows its version."""
        names = await self._api.images(next(iter(self._site.nodes)))
        wanted = self._site.image
        same = [name for name in names if name.rpartition(":")[0] == wanted.rpartition(":")[0]]
        return wanted if wanted in names or not same else same[0]

    def _config(self, name: str) -> dict[str, Any]:
        return {"id": self.mark, "name": name, "unattended": UNATTENDED}

    # Meanwhile

    async def poll(self) -> Cost:
        """Reads all records, keeps agents and token alive, and says what was measured so far."""

        async def read(host: HostRuntime) -> None:
            result = await host.command.read(self._places.poll(), display="read what the probe measured", long=True)
            for kind, text in zip(("api", "pod"), (*result.text.split("\n"), "", ""), strict=False):
                if text.strip():
                    self._records[f"{kind} {host.name}"] = parse_record(text, host=host.name)

        await self._each(self._hosts, read)
        await self._introduce()
        if time.monotonic() - self._renewed > TOKEN_SECONDS / 2:
            await self._renew()
        return self._cost()

    async def _renew(self) -> None:
        try:
            token = await self._api.token(self.mark)
            await self._site.prober.files.write(self._places.api / "token", token, mode=0o600, keep=False)
            self._renewed = time.monotonic()
        except KubexmError as error:  # asked again with the next poll: the old one is good for half an hour more
            self._logger.info("the probe's token was not renewed: %s", error.message)

    async def _introduce(self) -> None:
        """Tells the agents in pods where the others are, again whenever one moved."""
        found = {
            name.partition(" ")[2]: str(record["address"])
            for name, record in self._records.items()
            if name.startswith("pod ") and record.get("address")
        }
        if found == self._peers:
            return
        self._peers = found

        async def tell(host: HostRuntime) -> None:
            peers = {name: found[name] for name in _peers_of(host.name, found)}
            await host.files.write(self._places.pod / "peers.json", json.dumps(peers), keep=False)

        await self._each(self._site.nodes, tell)

    async def phase(self, name: str, *, busy: float = 0.0) -> None:
        """What is sent from now on belongs to this phase; `busy`: every core is kept busy for so many seconds."""

        async def tell(host: HostRuntime) -> None:
            await host.command.run(self._places.set_phase(name), display=f"begin phase {name}")

        await self._each(self._hosts, tell)
        if busy:
            machines = {host.facts.boot_id: host for host in self._hosts.values()}  # lab hosts share one machine
            await self._each(
                {host.name: host for host in machines.values()},
                lambda host: host.command.run(self._places.burn(busy), display="keep every core busy"),
            )

    # Ending

    async def stop(self) -> Cost:
        """Ends the measurement, removes everything it brought, and says what it measured."""
        ended = time.time()
        try:
            if self._started:
                await self.phase(ENDED)
                await self._each(
                    {self._site.prober.name: self._site.prober},
                    lambda host: host.command.run(self._places.stop(), within=60, long=True, display="stop the probe"),
                )
                await self.poll()
            after = await asyncio.gather(self._containers(), self._elections()) if self._before else None
        finally:
            await asyncio.shield(self._remove())
        return self._cost(ended=ended, after=after)

    async def _remove(self) -> None:
        await self._each(
            {**self._site.nodes, self._site.prober.name: self._site.prober} if self._level == FULL else self._hosts,
            lambda host: host.command.run(self._places.remove(), within=60, long=True, display="remove the probe"),
        )
        try:
            await self._api.remove(self.mark)
        except KubexmError as error:
            self._note(f"objects of the probe are left in the cluster: {error.message}")

    # Before and after

    async def _containers(self) -> dict[str, tuple[str, dict[str, str]]] | None:
        try:
            return parse_containers(await self._api.containers(), without=("kubexm-probe", "kubexm-verify"))
        except KubexmError as error:
            self._note(f"containers could not be compared: {error.message.splitlines()[0]}")
            return None

    async def _elections(self) -> dict[str, Any]:
        found: dict[str, Any] = {}

        async def ask(host: HostRuntime) -> None:
            question = leader_question(self._site.metrics_port)
            result = await host.command.read(question, check=False, long=True, display="ask etcd for leader changes")
            answer = parse_elections(result.text)
            if answer is not None:
                found[host.name] = answer

        await self._each(self._site.members, ask)
        return found

    # Together

    def _cost(self, *, ended: float | None = None, after: Sequence[Any] | None = None) -> Cost:
        containers, leaders = {}, None
        if after is not None and self._before is not None:
            before_containers, before_elections = self._before
            if before_containers is not None and after[0] is not None:
                containers = changed_containers(before_containers, after[0])
            leaders = elections_between(before_elections, after[1])
        return cost_of(
            self._records.values(),
            mark=self.mark,
            level=self._level,
            started=self._started,
            ended=ended or time.time(),
            host=self._site.prober.name,
            targets=self._site.targets,
            containers=containers,
            leader_changes=leaders,
            problems=self._problems,
        )

    async def _each(self, hosts: Mapping[str, HostRuntime], do: Callable[[HostRuntime], Any]) -> None:
        """Does it on all hosts side by side; a host that fails is noted, unless it is the one that asks the API."""
        names = list(hosts)
        outcomes = await asyncio.gather(*(do(hosts[name]) for name in names), return_exceptions=True)
        for name, outcome in zip(names, outcomes, strict=True):
            if isinstance(outcome, KubexmError):
                if name == self._site.prober.name and not self._started:
                    raise outcome
                self._note(f"{name}: {outcome.message.splitlines()[0]}")
            elif isinstance(outcome, BaseException):
                raise outcome

    def _note(self, problem: str) -> None:
        if problem not in self._problems:
            self._problems.append(problem)


def _peers_of(name: str, known: Iterable[str]) -> list[str]:
    """All others where nodes are few, the two neighbours in a ring where they are many."""
    names = sorted(known)
    if len(names) <= _ALL_PAIRS or name not in names:
        return [other for other in names if other != name]
    place = names.index(name)
    return sorted({names[place - 1], names[(place + 1) % len(names)]})
