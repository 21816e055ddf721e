"""States of a host that a cluster has left. Each goes by what is kept on the host, and changes nothing without it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import ClassVar

from kubexm.components.networks import PLUGINS
from kubexm.components.runtimes import DEFAULT_RUNTIME, runtime_named
from kubexm.connector.base import shell
from kubexm.runner import STATE
from kubexm.runtime import StepContext
from kubexm.step import EVERYTHING, Check, Resources, Step, resources

__all__ = ["DirectoriesCleared", "HostReleased", "NetworkCleared", "PackagesGone", "WorkloadsGone"]

_ORIGINALS = STATE / "originals"
_FILTERS = _ORIGINALS / "network" / "filters"
_BORROWED = PurePosixPath("/run/kubexm/nft")
_POLITE, _SHORT = 10, 1
_TABLES = ("ip/kube-proxy", "ip6/kube-proxy", "inet/cni_hostport", "inet/cni_plugins_masquerade")
_LEASE = ("lease", "lease.lock", "lease.new")
# What a killed kubexm had sent half lies beside where it was to go; found before the mark goes.
_HALF_SENT = """for d in /usr/local /opt /etc; do
  if [ -d "$d" ]; then find "$d" -xdev -type f -name '.kubexm-*.part' -user root -exec rm -f -- {} + || exit 1; fi
done"""
_CLEAN = """kx_clean() {
  d=$1
  shift
  if ! [ -d "$d" ]; then return 0; fi
  for f in "$d"/* "$d"/.[!.]* "$d"/..?*; do
    if ! [ -e "$f" ] && ! [ -L "$f" ]; then continue; fi
    for n; do case ${f##*/} in "$n"|"$n".stat) continue 2 ;; esac; done
    rm -rf --one-file-system -- "$f" || exit 1
  done
}"""


@cache
def script(name: str) -> str:
    """A shell library of this component, without its comments."""
    text = (Path(__file__).parent / "scripts" / f"{name}.sh").read_text(encoding="utf-8")
    lines = (line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#"))
    return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadsGone(Step):
    """Nothing of the cluster runs: no kubelet, no pod, no etcd, no balancer, no runtime."""

    settle: ClassVar[float] = 5.0

    runtime: str = DEFAULT_RUNTIME
    keep_runtime: bool = False
    """The container runtime goes on, but knows of no pod any more."""
    keep_data: bool = False
    """Programs get more time to end by themselves, since what they wrote matters."""
    tools: tuple[str, ...] = ()
    """Images that have nft, for hosts that have none."""

    async def precheck(self, ctx: StepContext) -> Check:
        """Looks for units that kubexm brought and for processes of pods, in one read."""
        found = (await ctx.host.command.read(f"{self._library()}kx_left", display="look for what runs")).text
        if not found:
            return Check(True)
        return Check(False, reason=", ".join(found.split("\n")[:6]))

    async def run(self, ctx: StepContext) -> None:
        """Stops all of it, the kubelet first."""
        grace = _POLITE if self.keep_data else _SHORT
        borrow = f"kx_borrow_nft {shell(_BORROWED, *self.tools)} || exit 1\n" if self.tools else ""
        await ctx.host.command.run(
            f"{self._library()}{borrow}kx_stop {grace}",
            within=600,
            long=True,
            display="stop the cluster's programs",
            hint="a process that cannot be ended hangs in the kernel: `ps -o pid,stat,wchan,args`; a reboot helps",
        )

    def reads(self) -> Resources:
        """Units and processes."""
        return resources("unit:*", "process:*")

    def writes(self) -> Resources:
        """Anything: what stops may write once more."""
        return EVERYTHING

    def describe(self) -> str:
        """The state."""
        return "nothing of the cluster runs" + (" but the container runtime" if self.keep_runtime else "")

    def _library(self) -> str:
        runtime = runtime_named(self.runtime)
        keep = runtime.unit if self.keep_runtime else ""
        head = f"kx_root={shell(_ORIGINALS)} kx_runtime={shell(runtime.unit)} kx_keep={shell(keep)}\n"
        return f"{head}{runtime.library()}{script('workloads')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkCleared(Step):
    """The kernel has no rule, set, interface or route of the cluster any more."""

    links: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()
    """Of pods; no route leads there any more."""

    async def precheck(self, ctx: StepContext) -> Check:
        """What was there before is kept until this is done."""
        there = await ctx.host.files.exists(_FILTERS)
        return Check(False, reason="rules and interfaces may be left") if there else Check(True)

    async def run(self, ctx: StepContext) -> None:
        """Removes what was not there before."""
        programs = ("iptables", "ip6tables", "iptables-nft", "ip6tables-nft", "iptables-legacy", "ip6tables-legacy")
        calls = [f"kx_chains {program}" for program in programs]
        calls += ["kx_tables", "kx_sets", "kx_virtual_servers"]
        calls.append(f"kx_links kube-ipvs0 {shell(*self.links)}" if self.links else "kx_links kube-ipvs0")
        if self.networks:
            calls.append(f"kx_routes {shell(*self.networks)}")
        lines = "\n".join(f"{call} || exit 1" for call in calls)
        head = f"kx_known={shell(_FILTERS / 'content')} kx_borrowed={shell(_BORROWED)}\n{cluster_names()}"
        text = f"{head}{script('network')}{lines}\nrm -rf -- {shell(_BORROWED)}"
        told = await ctx.host.command.run(text, within=300, long=True, display="clear the network")
        for line in told.text.split("\n"):
            if line:
                ctx.warn(line)
        await ctx.host.baseline.forget_filters()

    def reads(self) -> Resources:
        """What is known of before."""
        return resources("baseline:*")

    def writes(self) -> Resources:
        """The network."""
        return resources("baseline:*", "firewall:*", "network:*")

    def describe(self) -> str:
        """The state."""
        return "no rules, interfaces and routes of the cluster"


def cluster_names() -> str:
    """What the cluster's chains and tables are called, whichever plugin it had: users may have brought one of these."""
    chains = ("KUBE", "CNI", *(name for plugin in PLUGINS for name in plugin.chains))
    tables = (*_TABLES, *(name for plugin in PLUGINS for name in plugin.tables))
    return f"kx_names={shell('(' + '|'.join(chains) + ')-[^ ]*')} kx_ours={shell(' ' + ' '.join(tables) + ' ')}\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoriesCleared(Step):
    """Where the cluster's own programs wrote it is as before, and nothing of theirs is mounted."""

    keep: tuple[str, ...] = ()
    """Directories that stay as they are, on purpose."""
    shared: tuple[str, ...] = ()
    """Directories of which only files go, since what is kept goes on writing there: to be cleared again in the end."""
    why: str = ""
    """What the user said to keep them."""

    async def precheck(self, ctx: StepContext) -> Check:
        """Lists the directories that are not cleared yet."""
        found = await ctx.host.baseline.directories()
        kept = [path for path in found if path in self.keep]
        if kept:
            ctx.warn(f"kept on purpose ({self.why}): {', '.join(kept)}")
        left = [path for path in found if path not in (*self.keep, *self.shared)]
        return Check(False, reason=f"{len(left)} directories to clear") if left else Check(True)

    async def run(self, ctx: StepContext) -> None:
        """Unmounts what is below them and removes what came since."""
        await ctx.host.baseline.clear(leave=self.keep, noted=self.shared)

    def reads(self) -> Resources:
        """What is known of before."""
        return resources("baseline:*")

    def writes(self) -> Resources:
        """Directories all over the host."""
        return resources("baseline:*", "file:*")

    def describe(self) -> str:
        """The state."""
        return "directories of the cluster cleared"


@dataclass(frozen=True, slots=True, kw_only=True)
class PackagesGone(Step):
    """Packages that kubexm brought are gone, except those that others need by now."""

    async def precheck(self, ctx: StepContext) -> Check:
        """Lists them."""
        found = await ctx.host.packages.ours()
        return Check(False, reason=f"{', '.join(found)} to remove") if found else Check(True)

    async def run(self, ctx: StepContext) -> None:
        """Removes them."""
        needed = await ctx.host.packages.remove(await ctx.host.packages.ours())
        if needed:
            ctx.warn(f"other packages need {', '.join(needed)} by now, so they stay")

    def reads(self) -> Resources:
        """The packages."""
        return resources("package:*")

    def writes(self) -> Resources:
        """The packages."""
        return resources("package:*")

    def describe(self) -> str:
        """The state."""
        return "packages that kubexm brought are gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostReleased(Step):
    """kubexm keeps nothing on the host any more, and the host belongs to no cluster; the mark goes last.

    The lease stays until the run is over: it is what keeps others from the cluster until then.
    """

    keep: tuple[str, ...] = ()
    """What stays below kubexm's own directory because of what was kept on purpose: `originals`, `assets/runc`."""

    async def precheck(self, ctx: StepContext) -> Check:
        """Looks into kubexm's own directory."""
        found = await ctx.host.directories.entries(STATE) or ()
        left = [name for name in found if name not in (*_LEASE, *self._tops)]
        return Check(False, reason="its mark and kubexm's notes are there") if left else Check(True)

    async def run(self, ctx: StepContext) -> None:
        """Removes them, the mark last."""
        lines = [f"cd -- {shell(STATE)} || exit 0", _CLEAN]
        lines.append("kx_clean . " + shell(*_LEASE, "cluster.json", *self._tops))
        for top in self._tops:
            below = [path.partition("/")[2] for path in self.keep if path.startswith(f"{top}/")]
            if below:
                lines.append(f"kx_clean {shell(top, *below)}")
        lines.append(f"rm -rf -- /run/kubexm/kubectl /run/kubexm/helm {_BORROWED}")
        lines.append(_HALF_SENT)
        lines.append("if [ -d originals ]; then rmdir -- originals/* originals 2>/dev/null; fi")
        lines.append(f"rm -f -- cluster.json && sync -- . || exit 1\ncd / && rmdir -- {shell(STATE)} 2>/dev/null || :")
        await ctx.host.command.run("\n".join(lines), display="remove what kubexm kept on the host")

    def reads(self) -> Resources:
        """kubexm's own directory."""
        return resources(f"file:{STATE}*", "baseline:*")

    def writes(self) -> Resources:
        """kubexm's own directory."""
        return self.reads()

    def describe(self) -> str:
        """The state."""
        return "host belongs to no cluster"

    @property
    def _tops(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(path.partition("/")[0] for path in self.keep))
