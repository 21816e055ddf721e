"""The load balancer's one task: HAProxy in front of the API servers, on each host that needs one.

Left on a host, besides what the runner keeps originals of: mount points systemd makes below /opt/kubexm/haproxy. Delete
removes that directory with all in it, once the unit is stopped.
"""

from __future__ import annotations

from ipaddress import ip_address

from kubexm.components.assets import asset_stamp, place
from kubexm.components.haproxy.config import CA, CONFIG, CONFIG_DIRECTORY, UNIT, USER, configuration, service
from kubexm.components.health import PortListened
from kubexm.components.host_files import FilesPresent, HostFile, per_host_files
from kubexm.components.milestones import BALANCER_READY, HOST_READY, PKI_ISSUED
from kubexm.components.pki import names
from kubexm.components.topology import LOCALHOST, balanced, control_planes, internal_address
from kubexm.components.units import unit_path
from kubexm.connector import Host
from kubexm.plan import ExecutionFragment
from kubexm.redact import SecretRef
from kubexm.runtime import TaskContext
from kubexm.step import ServiceRunning, UserPresent
from kubexm.task import FragmentBuilder, Task

__all__ = ["BalanceApi"]


class BalanceApi(Task):
    """Gives each host that is no control plane its own way to the API, and the entrances theirs."""

    def plan(self, ctx: TaskContext) -> ExecutionFragment:
        """User, program and settings side by side, then the unit; whether API servers are there yet does not matter."""
        hosts, g = balanced(ctx), FragmentBuilder("haproxy.install")
        planes = [(plane.name, internal_address(ctx, plane)) for plane in control_planes(ctx)]
        settings = {
            host.name: configuration(planes, port=_port(ctx), binds=_binds(ctx, host), balancers=len(hosts))
            for host in hosts
        }
        files = (
            *per_host_files(CONFIG, settings),
            HostFile(path=CA, content=SecretRef(names.certificate(names.CA))),
            HostFile(path=unit_path(UNIT), content=service(ctx.cluster.name, port=_port(ctx))),
        )
        ready = [
            g.add("user", UserPresent(name=USER), on=hosts),
            place(g, ctx, "haproxy", on=hosts, node="program"),
            g.add("files", FilesPresent(files=files), on=hosts, needs=PKI_ISSUED),
        ]
        running = ServiceRunning(unit=UNIT, inputs=(CONFIG_DIRECTORY, asset_stamp("haproxy")), reload=True)
        start = g.add("start", running, on=hosts, after_same_host=ready, needs=HOST_READY)
        g.add(
            "listening",
            PortListened(unit=UNIT, port=_port(ctx), within=30),
            on=hosts,
            after_same_host=[start],
            provides=BALANCER_READY,
        )
        return g.build()


def _port(ctx: TaskContext) -> int:
    return ctx.cluster.spec.control_plane_endpoint.port


def _binds(ctx: TaskContext, host: Host) -> list[str]:
    """An entrance listens on all of its addresses, a plain node for itself alone."""
    port = _port(ctx)
    if "loadbalancer" not in host.roles:
        return [f"{LOCALHOST}:{port}"]
    has_v6 = any(ip_address(one).version == 6 for one in ctx.facts(host).network.addresses)
    return [f"*:{port}", *([f":::{port} v6only"] if has_v6 else [])]
