"""A lab: hosts on this machine, as real as they can be. Brings the parts together; knows none of their insides.

Everything that changes a lab holds its folder. The lab's record is written before what it describes is made, so each
of these can be cut short at any point, and repeated or taken down after that.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from kubexm.errors import LabError
from kubexm.lab import cluster_file, provision, teardown
from kubexm.lab.access import Access
from kubexm.lab.cgroups import Subtree, hierarchies
from kubexm.lab.commands import Progress, quiet
from kubexm.lab.flavours import FLAVOURS
from kubexm.lab.hosts import HostStatus, LabHost, hosts_of
from kubexm.lab.image import ImageStore
from kubexm.lab.limits import raise_limits, restore_limits
from kubexm.lab.locks import locked_directory, locked_machine
from kubexm.lab.network import LabNetwork, choose_subnet, networks_in_use, unused_prefix
from kubexm.lab.places import cache_directory, labs_directory
from kubexm.lab.shape import Wanted, first_record, grown_record
from kubexm.lab.sources import BundleSource, built_bundle
from kubexm.lab.state import LabRecord, check_name, read_record, write_atomically, write_record
from kubexm.lab.systems import SYSTEMS

__all__ = ["BootedHost", "Lab", "lab_names"]

_GROUP = "kubexm-lab-"


@dataclass(frozen=True, slots=True, kw_only=True)
class BootedHost:
    """A host that is up: what its systemd says of itself, and the seconds it took; 0 if it was up before."""

    name: str
    state: str
    seconds: float


class Lab:
    """One lab of this machine, by its name, whether it exists yet or not."""

    def __init__(
        self,
        name: str = "lab",
        *,
        labs: Path | None = None,
        cache: Path | None = None,
        mirror: str = "",
        progress: Progress = quiet,
        detail: Progress = quiet,
    ) -> None:
        """`progress` hears of each stage, `detail` of each package while an image is built."""
        self.name = check_name(name)
        self.folder = (labs or labs_directory()) / name
        self.access = Access(folder=self.folder)
        self._cache = cache or cache_directory()
        self._images = ImageStore(self._cache, mirror=mirror, progress=progress, detail=detail)
        self._progress = progress

    # What it is

    @property
    def exists(self) -> bool:
        return read_record(self.folder) is not None

    @property
    def record(self) -> LabRecord:
        """What the lab consists of."""
        record = read_record(self.folder)
        if record is None:
            raise self._unknown()
        return record

    @property
    def network(self) -> LabNetwork:
        return _network(self.record)

    @property
    def cluster_file(self) -> Path:
        """The cluster file that was written for the hosts."""
        return Path(self.record.cluster_file)

    @property
    def hosts(self) -> tuple[LabHost, ...]:
        """Every host, in order."""
        return self._hosts(self.record)

    def host(self, name: str) -> LabHost:
        """The host of that name."""
        hosts = {host.name: host for host in self.hosts}
        if name not in hosts:
            names = list(hosts)
            listed = ", ".join(names) if len(names) < 4 else f"{names[0]} to {names[-1]}"
            raise LabError(f"The lab {self.name!r} has no host {name!r}.", hint=f"Its hosts are {listed}.")
        return hosts[name]

    def status(self) -> tuple[HostStatus, ...]:
        """How every host is now."""
        hosts = self.hosts
        with ThreadPoolExecutor(len(hosts)) as pool:
            return tuple(pool.map(LabHost.status, hosts))

    def ssh_command(self, host: str, *command: str, user: str = "") -> list[str]:
        """The ssh command line that runs `command`, or a shell, on a host."""
        chosen = self.host(host)
        return self.access.ssh_command(user or chosen.login, chosen.address, command)

    def run(self, host: str, *command: str, user: str = "", stdin: str = "", timeout: float = 60) -> str:
        """Run a command on a host over ssh and return its output; one that fails is a LabError."""
        done = subprocess.run(
            self.ssh_command(host, *command, user=user),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        if done.returncode != 0:
            raise LabError(f"{host}: `{' '.join(command)}` exited with {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    # All of it

    def up(
        self,
        *,
        hosts: int | None = None,
        topology: str | None = None,
        system: str | None = None,
        systems: Mapping[str, str] | None = None,
        flavours: Mapping[str, str] | None = None,
        disk: int | None = None,
        save: Path | None = None,
        bundle: BundleSource | None = None,
    ) -> tuple[BootedHost, ...]:
        """Bring the lab up: make what is missing, power on what is off, and write the cluster file.

        Hosts run `system`, except those that `systems` names. The cluster file names `bundle` as its source, or else
        the bundle that was built last on this machine.
        """
        wanted = Wanted(
            hosts=hosts,
            topology=topology,
            system=system,
            systems=systems or {},
            flavours=flavours or {},
            disk=disk,
        )
        with self._held(make=True):
            record = self._reserve(wanted, save)
            self.access.make(f"kubexm lab {self.name}")
            self.access.write_known_hosts({host.name: host.address for host in self._hosts(record)})
            booted = self._boot(record, self._hosts(record))
            self._save(record, bundle)
            connected = [host for host in self._hosts(record) if not host.is_cut]
            for first, second in pairwise(connected[:2]):
                provision.check_reach(first, second)
            return booted

    def down(self) -> Path | None:
        """Remove the lab without a trace; returns the cluster file if somebody changed it and it was kept."""
        self._images.sweep()
        with self._held():
            record = read_record(self.folder)
            kept = None
            if record is not None:
                teardown.remove_everything(
                    folder=self.folder,
                    machines=[host.machine for host in self._hosts(record)],
                    group=_group(record),
                    network=_network(record),
                )
                with locked_machine():
                    if not _group(record).siblings(_GROUP):
                        restore_limits()
                kept = teardown.remove_cluster_file(record)
            teardown.remove_folder(self.folder)
            return kept

    # One host

    def cut(self, name: str) -> None:
        """Pull the host's network cable."""
        self._connect(name, up=False)

    def heal(self, name: str) -> None:
        """Plug the host's network cable in again."""
        self._connect(name, up=True)

    def kill(self, name: str) -> None:
        """Cut the host's power; its disk keeps what was written."""
        with self._held():
            host = self.host(name)
            host.machine.kill()
            host.network.remove_link(name)

    def start(self, name: str) -> BootedHost:
        """Power the host on and wait until it has booted."""
        with self._held():
            return self._boot(self.record, [self.host(name)])[0]

    def fill(self, name: str, *, leave: int = 0) -> int:
        """Fill the host's disk but for `leave` bytes; returns the bytes taken."""
        with self._held():
            return self.host(name).disk.fill(leave=leave)

    def free(self, name: str) -> None:
        """Give back what `fill` took."""
        with self._held():
            self.host(name).disk.free()

    # How

    @contextmanager
    def _held(self, *, make: bool = False) -> Iterator[None]:
        with locked_directory(self.folder, make=make) as there:
            if not there:
                raise self._unknown()
            try:
                yield
            finally:
                if make and read_record(self.folder) is None:
                    with suppress(OSError):  # refused before there was anything to it
                        self.folder.rmdir()

    def _unknown(self) -> LabError:
        names = lab_names(self.folder.parent)
        hint = f"There is {', '.join(names)}." if names else "Make it with `kubexm lab up`."
        return LabError(f"There is no lab {self.name!r}.", hint=hint)

    def _reserve(self, wanted: Wanted, save: Path | None) -> LabRecord:
        """Settle what the lab consists of, write it down, and take its subnet."""
        old = read_record(self.folder)
        with locked_machine():
            if old is None:
                taken = networks_in_use()
                record = first_record(self.name, wanted, prefix=unused_prefix(), subnet=choose_subnet(taken))
            else:
                record = grown_record(old, wanted)
            place = (save or Path(record.cluster_file or f"{self.name}.yaml")).absolute()
            cluster_file.check_place(place, old)
            if str(place) != record.cluster_file:
                record = replace(record, cluster_file=str(place), cluster_file_digest="")
            if old is not None and not _network(record).exists and _network(record).collides():
                raise LabError(
                    f"The subnet {record.subnet} of the lab {self.name!r} is in use by something else by now.",
                    hint=f"Take the lab down and make it anew: `kubexm lab down {self.name}`.",
                )
            write_record(self.folder, record)
            _group(record).make()
            raise_limits()
            _network(record).make_bridge()
        return record

    def _boot(self, record: LabRecord, hosts: Sequence[LabHost]) -> tuple[BootedHost, ...]:
        """Bring these hosts up, all at once."""
        new = {(host.system.name, host.flavour.name) for host in hosts if host.disk.layers is None}
        images = {kind: self._images.layers(SYSTEMS[kind[0]], FLAVOURS[kind[1]]) for kind in sorted(new)}
        password = self._password(images)
        _network(record).make_bridge()

        def bring_up(host: LabHost) -> BootedHost:
            began = time.monotonic()
            was_on = host.machine.is_on
            if not was_on:
                if (layers := host.disk.layers) is not None:
                    host.disk.mount(layers)
                else:
                    image = images[host.system.name, host.flavour.name]
                    provision.prepare(host, size=record.disk, layers=image, access=self.access, password=password)
                host.machine.start()
            if host.is_cut:
                provision.keep_cut(host)
                return BootedHost(name=host.name, state="cut", seconds=0.0)
            state = provision.await_ready(host, self.access)
            seconds = 0.0 if was_on else time.monotonic() - began
            self._progress(f"{host.name} is {state}" + (f" after {seconds:.1f} s" if seconds else ""))
            return BootedHost(name=host.name, state=state, seconds=seconds)

        self._progress(f"Booting {len(hosts)} host{'s' if len(hosts) > 1 else ''}")
        with ThreadPoolExecutor(len(hosts)) as pool:
            return tuple(pool.map(bring_up, hosts))

    def _password(self, images: Mapping[tuple[str, str], tuple[Path, ...]]) -> str:
        """What stands in the shadow file of new hosts; the tool that makes it is in every image."""
        trees = [layers[-1] for layers in images.values()]
        return provision.password_hash(trees[0], self.access.sudo_password()) if trees else ""

    def _save(self, record: LabRecord, bundle: BundleSource | None) -> None:
        """Write the cluster file, unless somebody changed it since it was written."""
        hosts = self._hosts(record)
        source = bundle or built_bundle(self._cache)
        cgroup_v1 = any(tree.version == 1 for tree in hierarchies())
        text = cluster_file.cluster_text(
            name=self.name,
            hosts=hosts,
            control_planes=record.control_planes,
            access=self.access,
            conntrack_is_fixed=provision.conntrack_is_fixed(hosts[0]),
            cgroup_v1=cgroup_v1,
            bundle=source,
        )
        file = Path(record.cluster_file)
        if file.exists():
            there = cluster_file.digest(file.read_text(encoding="utf-8"))
            if there == cluster_file.digest(text):
                return
            if there != record.cluster_file_digest:
                self._progress(f"{file} was changed since it was written, and is left as it is")
                return
        write_record(self.folder, replace(record, cluster_file_digest=cluster_file.digest(text)))
        write_atomically(file, text, mode=0o644)
        chosen = cluster_file.lab_version(source, cgroup_v1=cgroup_v1)
        if chosen.reason:
            self._progress(f"{file.name} asks for Kubernetes {chosen.version}: {chosen.reason}")

    def _connect(self, name: str, *, up: bool) -> None:
        with self._held():
            host = self.host(name)
            write_record(self.folder, self.record.with_cut(name, cut=not up))
            if host.machine.is_on:
                host.network.connect(name, up=up)

    def _hosts(self, record: LabRecord) -> tuple[LabHost, ...]:
        return hosts_of(record, folder=self.folder, group=_group(record), network=_network(record))


def lab_names(labs: Path | None = None) -> list[str]:
    """The labs there are."""
    folder = labs or labs_directory()
    if not folder.is_dir():
        return []
    return sorted(path.name for path in folder.iterdir() if (path / "lab.json").is_file())


def _network(record: LabRecord) -> LabNetwork:
    return LabNetwork(prefix=record.prefix, subnet=record.subnet)


def _group(record: LabRecord) -> Subtree:
    return Subtree(path=f"{_GROUP}{record.prefix}", trees=hierarchies())
