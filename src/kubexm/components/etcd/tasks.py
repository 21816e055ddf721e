"""etcd's tasks: forming a cluster, keeping one, snapshots by the clock, and looking at one that is the user's.

Left on a host, besides what the runner keeps originals of: the data below `etcd.dataDir` and the snapshots below
`etcd.backup.directory`. Delete removes the former with `host.directories.remove`, once the unit is stopped.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from kubexm.components.assets import place, stamp_of
from kubexm.components.etcd import backup, unit
from kubexm.components.etcd.arguments import arguments, client_url, peer_url
from kubexm.components.etcd.external import ExternalEtcdHealthy
from kubexm.components.etcd.forming import FoundersKnown, MemberSealed
from kubexm.components.etcd.joining import MemberAdmitted
from kubexm.components.etcd.layout import UNIT, UNIT_FILE, USER
from kubexm.components.etcd.serving import MemberRunning, MemberServing
from kubexm.components.host_files import FilesPresent, HostFile, per_host_files
from kubexm.components.identity import HostMarked
from kubexm.components.milestones import ETCD_QUORUM, HOST_READY, PKI_ISSUED
from kubexm.components.pki import control_plane_files, etcd_files, place_files
from kubexm.components.pki.files import ETCD_PKI, KUBERNETES_PKI
from kubexm.components.topology import (
    LOCALHOST,
    control_planes,
    etcd_members,
    etcd_urls,
    internal_address,
    is_initialised,
    marker_of,
    server_url,
)
from kubexm.connector import Host
from kubexm.errors import PlanError
from kubexm.module import rolling
from kubexm.plan import ExecutionFragment, Milestone, join_after
from kubexm.runtime import TaskContext
from kubexm.step import DirectoryPresent, FileAbsent, ServiceRunning, ServiceStopped, UserPresent
from kubexm.task import Batch, FragmentBuilder, NodeHandle, Task

__all__ = ["CheckExternal", "FormCluster", "KeepCluster", "PrepareHosts", "ScheduleBackups"]

_ACCOUNT = Milestone("EtcdAccount", per_host=True)


class PrepareHosts(Task):
    """Makes the user etcd runs as."""

    def plan(self, ctx: TaskContext) -> ExecutionFragment:
        """One node, which waits for nothing."""
        g = FragmentBuilder("etcd.prepare")
        g.add("user", UserPresent(name=USER), on=etcd_members(ctx), provides=_ACCOUNT)
        return g.build()


class FormCluster(Task):
    """Forms a new cluster: every member starts as soon as it can, and together they come to a quorum."""

    def is_required(self, ctx: TaskContext) -> bool:
        """Not where there is a cluster already."""
        return not is_initialised(ctx)

    def plan(self, ctx: TaskContext) -> ExecutionFragment:
        """Nobody waits for another member before all are asked how they are."""
        members, g = etcd_members(ctx), FragmentBuilder("etcd.form")
        spec = ctx.cluster.spec.etcd
        founders = FoundersKnown(data_dir=spec.data_dir, peers=_peer_urls(ctx))
        known = g.add("founders", founders, on=members, needs=PKI_ISSUED)
        pki = place_files(g, etcd_files(), on=members, owner=USER, group=USER, needs=_ACCOUNT)
        binary = place(g, ctx, "etcd", on=members, node="binary")
        ready = [pki, binary, *_prepared(g, ctx, members, known)]
        start = g.add(
            "start",
            MemberRunning(unit=UNIT, inputs=_inputs()),
            on=members,
            after_same_host=ready,
            needs=HOST_READY,
            weight=3.0,
        )
        serving = g.add("serving", _serving(ctx), on=members, after=[start], provides=ETCD_QUORUM, weight=2.0)
        _settled(g, ctx, members, serving, after=[serving])
        return g.build()


class KeepCluster(Task):
    """Keeps a cluster that is there: one member after the other gets its settings, empty ones join."""

    def is_required(self, ctx: TaskContext) -> bool:
        """Only where there is a cluster."""
        return is_initialised(ctx)

    def plan(self, ctx: TaskContext) -> ExecutionFragment:
        """The same for each member; the next waits until this one serves.

        Those that are down come first, since others cannot be restarted without them, and those that never were
        members last.
        """
        members = etcd_members(ctx)
        survivors = sorted((host for host in members if _was_member(ctx, host)), key=lambda host: _runs(ctx, host))
        if not survivors:
            raise PlanError(
                f"the cluster {ctx.cluster.name} is there, and none of its hosts for etcd holds data of it any more",
                hint="without it there is no cluster: restore a snapshot, or delete the cluster and make a new one",
            )
        order = [*survivors, *(host for host in members if host not in survivors)]
        last = FragmentBuilder("etcd.keep")
        last.add("quorum", _serving(ctx), on=members, provides=ETCD_QUORUM)
        return join_after(rolling([[host] for host in order], lambda batch: _kept(ctx, batch, survivors)), last.build())


def _kept(ctx: TaskContext, batch: Batch, survivors: Sequence[Host]) -> ExecutionFragment:
    """Members get their settings, are restarted if these differ, and serve again."""
    g, members, urls = FragmentBuilder("etcd.keep", batch), batch.hosts, _client_urls(ctx)
    admitted = MemberAdmitted(
        data_dir=ctx.cluster.spec.etcd.data_dir,
        peer_urls=_peer_urls(ctx),
        others=tuple(entry for entry in urls if entry[0] in {host.name for host in survivors}),
    )
    pki = place_files(g, etcd_files(), on=members, owner=USER, group=USER, needs=_ACCOUNT)
    binary = place(g, ctx, "etcd", on=members, node="binary")
    known = g.add("admitted", admitted, on=members, after_same_host=[pki, binary])
    ready = _prepared(g, ctx, members, known)
    start = g.add(
        "start",
        MemberRunning(unit=UNIT, inputs=_inputs(), urls=urls),
        on=members,
        after_same_host=ready,
        needs=HOST_READY,
    )
    serving = g.add("serving", _serving(ctx, joins=True), on=members, after_same_host=[start])
    _settled(g, ctx, members, serving)
    return g.build()


class ScheduleBackups(Task):
    """Lets every member take a snapshot when asked, and by the clock where the file says when."""

    def plan(self, ctx: TaskContext) -> ExecutionFragment:
        """Directory, script and unit on each member; the timer too, or no timer."""
        members, g = etcd_members(ctx), FragmentBuilder("etcd.backup")
        etcd = ctx.cluster.spec.etcd
        # Here and not by the unit: systemd does not start one whose only place to write is not there.
        place = DirectoryPresent(path=PurePosixPath(etcd.backup.directory), mode=0o700, owner=USER, group=USER)
        made = g.add("directory", place, on=members, needs=_ACCOUNT)
        files = [
            HostFile(path=backup.SCRIPT, content=backup.script(etcd), mode=0o755),
            HostFile(path=backup.SERVICE_FILE, content=backup.service(etcd)),
        ]
        if etcd.backup.schedule:
            files.append(HostFile(path=backup.TIMER_FILE, content=backup.timer(etcd)))
            written = g.add("files", FilesPresent(files=tuple(files)), on=members)
            # systemd holds on to the unit of a timer: one that was edited is read again when the timer is restarted.
            running = ServiceRunning(unit=backup.TIMER, inputs=(backup.SERVICE_FILE,))
            g.add("running", running, on=members, after_same_host=[made, written])
        else:
            g.add("files", FilesPresent(files=tuple(files)), on=members)
            stopped = g.add("stopped", ServiceStopped(unit=backup.TIMER), on=members)
            g.add("timer", FileAbsent(path=backup.TIMER_FILE), on=members, after_same_host=[stopped])
        return g.build()


class CheckExternal(Task):
    """Looks whether the user's own etcd answers, from a control plane."""

    def plan(self, ctx: TaskContext) -> ExecutionFragment:
        """Its files, a client, and the question."""
        g = FragmentBuilder("etcd.external")
        host = control_planes(ctx)[:1]
        wanted = {
            f"{KUBERNETES_PKI}/{name}"
            for name in ("etcd/ca.crt", "apiserver-etcd-client.crt", "apiserver-etcd-client.key")
        }
        files = [file for file in control_plane_files(ctx.cluster) if str(file.path) in wanted]
        pki = place_files(g, files, on=host)
        client = place(g, ctx, "kubectl", on=host, node="client")
        g.add(
            "healthy",
            ExternalEtcdHealthy(endpoints=etcd_urls(ctx)),
            on=host,
            after_same_host=[pki, client],
            provides=ETCD_QUORUM,
        )
        return g.build()


def _prepared(g: FragmentBuilder, ctx: TaskContext, members: Sequence[Host], known: NodeHandle) -> list[NodeHandle]:
    """The unit, and the directory once it is known that no other cluster's data is in it."""
    etcd = ctx.cluster.spec.etcd
    units = per_host_files(UNIT_FILE, {host.name: _unit(ctx, host) for host in members})
    directory = DirectoryPresent(path=PurePosixPath(etcd.data_dir), mode=0o700, owner=USER, group=USER, own=True)
    return [
        g.add("unit", FilesPresent(files=units), on=members, after_same_host=[known]),
        g.add("data", directory, on=members, after_same_host=[known], needs=_ACCOUNT),
    ]


def _settled(
    g: FragmentBuilder,
    ctx: TaskContext,
    members: Sequence[Host],
    serving: NodeHandle,
    after: Sequence[NodeHandle] = (),
) -> None:
    """A member that serves forms no other cluster if its data is lost one day, and its host says what it is."""
    sealed = MemberSealed(data_dir=ctx.cluster.spec.etcd.data_dir)
    g.add("sealed", sealed, on=members, after_same_host=[serving])
    mark = HostMarked(cluster=ctx.cluster.name, role="etcd")
    g.add("marked", mark, on=members, after=after, after_same_host=[serving])


def _serving(ctx: TaskContext, *, joins: bool = False) -> MemberServing:
    return MemberServing(
        url=server_url(LOCALHOST, ctx.cluster.spec.etcd.client_port),
        peer_urls=_peer_urls(ctx),
        others=etcd_urls(ctx) if joins else (),
    )


def _inputs() -> tuple[PurePosixPath, ...]:
    """What etcd must be restarted for. It reads its certificates anew by itself, but not the CA's."""
    return (stamp_of("etcd"), ETCD_PKI / "ca.crt")


def _unit(ctx: TaskContext, host: Host) -> str:
    etcd = ctx.cluster.spec.etcd
    version = ctx.assets.file("etcd", ctx.facts(host).arch).version
    told = arguments(etcd, version=version, name=host.name, address=internal_address(ctx, host))
    return unit.service(told, cluster=ctx.cluster.name, data_dir=etcd.data_dir)


def _peer_urls(ctx: TaskContext) -> tuple[tuple[str, str], ...]:
    etcd = ctx.cluster.spec.etcd
    return tuple((host.name, peer_url(etcd, internal_address(ctx, host))) for host in etcd_members(ctx))


def _client_urls(ctx: TaskContext) -> tuple[tuple[str, str], ...]:
    etcd = ctx.cluster.spec.etcd
    return tuple((host.name, client_url(etcd, internal_address(ctx, host))) for host in etcd_members(ctx))


def _runs(ctx: TaskContext, host: Host) -> bool:
    found = ctx.facts(host).unit(UNIT)
    return found is not None and found.active == "active"


def _was_member(ctx: TaskContext, host: Host) -> bool:
    marker = marker_of(ctx, host)
    return marker is not None and "etcd" in marker.roles
