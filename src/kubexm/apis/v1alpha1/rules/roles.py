"""Rules about role groups: who is in them, and whether the roles make a cluster. Must not know networks."""

from __future__ import annotations

from collections.abc import Iterator

from kubexm.apis.v1alpha1.cluster import Cluster
from kubexm.apis.v1alpha1.ranges import expand
from kubexm.apis.v1alpha1.roles import ALL, GROUP_NAME, ROLES, near_role
from kubexm.apis.v1alpha1.rules.base import Finding, Path, Rule, listed, nearest

__all__ = ["RULES"]

_HOSTS: Path = ("spec", "hosts")
_NAMES: Path = (*_HOSTS, "*", "name")
_GROUPS: Path = ("spec", "roleGroups")
_ETCD: Path = ("spec", "etcd", "type")


def _names_of(cluster: Cluster) -> list[str]:
    return [host.name for host in cluster.hosts]


def _members(cluster: Cluster) -> Iterator[Finding]:
    names = _names_of(cluster)
    known = frozenset(names)
    for group, members in cluster.spec.role_groups.members().items():
        for index, member in enumerate(members):
            if member.startswith("group:"):
                continue
            unknown = [name for name in expand(member) if name not in known]
            if not unknown:
                continue
            what = (
                f"no host is called `{listed(unknown)}`"
                if len(unknown) == 1
                else f"no hosts are called {listed(unknown)}"
            )
            groups = cluster.spec.role_groups.members()
            hint = f"did you mean `group:{member}`?" if member in groups else nearest(unknown[0], names, "hosts")
            yield Finding(path=(*_GROUPS, group, index), message=what, hint=hint)


def _groups(cluster: Cluster) -> Iterator[Finding]:
    written = cluster.spec.role_groups.members()
    for group, members in written.items():
        for index, member in enumerate(members):
            other = member.removeprefix("group:")
            if other != member and other not in written:
                yield Finding(
                    path=(*_GROUPS, group, index),
                    message=f"no group is called `{other}`",
                    hint=nearest(other, written, "groups"),
                )


def _group_names(cluster: Cluster) -> Iterator[Finding]:
    for group in cluster.spec.role_groups.members():
        if group in ROLES:
            continue
        near = near_role(group)
        if near is not None:
            yield Finding(
                path=(*_GROUPS, group),
                message=f"`{group}` is no role, and too like one for a group of your own",
                hint=f"did you mean `{near}`?",
            )
        elif group == ALL or GROUP_NAME.fullmatch(group) is None:
            reason = "`all` stands for every host" if group == ALL else "letters, digits, `-` and `_` only"
            yield Finding(path=(*_GROUPS, group), message=f"a group cannot be called `{group}`: {reason}")


def _cycles(cluster: Cluster) -> Iterator[Finding]:
    written = cluster.spec.role_groups.members()
    done: set[str] = set()
    for start in written:
        stack: list[tuple[str, Iterator[tuple[int, str]]]] = [(start, iter(enumerate(written[start])))]
        while stack:
            group, members = stack[-1]
            for index, member in members:
                other = member.removeprefix("group:")
                path = [name for name, _ in stack]
                if other == member or other in done or other not in written:
                    continue
                if other in path:
                    cycle = [*path[path.index(other) :], other]
                    yield Finding(
                        path=(*_GROUPS, group, index),
                        message=f"groups contain each other: {' → '.join(cycle)}",
                        hint="remove one of these memberships",
                    )
                    continue
                stack.append((other, iter(enumerate(written[other]))))
                break
            else:
                done.add(group)
                stack.pop()


def _shadowed(cluster: Cluster) -> Iterator[Finding]:
    groups = {*cluster.spec.role_groups.members(), ALL}
    for host in cluster.hosts:
        if host.name in groups:
            yield Finding(
                path=(*_HOSTS, host.entry, "name"),
                message=f"a host is called `{host.name}`, like a group: where both may be named, the group is meant",
                hint="give the host another name",
                warning=True,
            )


def _needed(cluster: Cluster) -> Iterator[Finding]:
    written, etcd = cluster.spec.role_groups.members(), cluster.spec.etcd.type
    # A group whose every member is unknown is not empty to its author; the unknown names are reported already.
    named = {group: any(not member.startswith("group:") for member in members) for group, members in written.items()}
    groups = {group: names or named[group] for group, names in cluster.groups.items()}
    if not groups["controlPlane"]:
        yield Finding(
            path=(*_GROUPS, "controlPlane"),
            message="no host is a control plane",
            hint="name at least one host under controlPlane",
        )
    if not groups["worker"]:
        yield Finding(
            path=(*_GROUPS, "worker"),
            message="no host is a worker, so no pod could run",
            hint="name hosts under worker; control planes may be named there too, and then run pods as well",
        )
    if etcd == "kubexm" and not groups["etcd"]:
        yield Finding(
            path=(*_GROUPS, "etcd"),
            message="the control plane has no etcd",
            hint="name one, three or five hosts under etcd, or set spec.etcd.type to `external`",
        )


def _etcd(cluster: Cluster) -> Iterator[Finding]:
    groups, kind = cluster.groups, cluster.spec.etcd.type
    members = groups["etcd"]
    path: Path = (*_GROUPS, "etcd")
    if kind == "kubeadm" and members and set(members) != set(groups["controlPlane"]):
        yield Finding(
            path=path,
            message="with `etcd.type: kubeadm` the members of etcd are the control planes; these lists differ",
            hint="write `etcd: [group:controlPlane]`, or set spec.etcd.type to `kubexm`",
            also=(_ETCD,),
        )
    if kind == "external" and members:
        yield Finding(
            path=path,
            message="with `etcd.type: external` kubexm installs no etcd, but this group has hosts",
            hint="leave the group empty, or set spec.etcd.type to `kubexm`",
            also=(_ETCD,),
        )
    count = len(groups["controlPlane"] if kind == "kubeadm" else members)
    if kind != "external" and count and count % 2 == 0:
        survives = (count - 1) // 2
        yield Finding(
            path=path,
            message=f"{count} members of etcd survive the loss of {survives or 'none'}, just as {count - 1} would",
            hint="use an odd number: one, three or five",
            warning=True,
            also=((*_GROUPS, "controlPlane"),),
        )
    elif kind != "external" and count > 7:
        yield Finding(
            path=path,
            message=f"{count} members make etcd slow: every write waits for most of them",
            hint="use three or five",
            warning=True,
            also=((*_GROUPS, "controlPlane"),),
        )


def _not_yet(cluster: Cluster) -> Iterator[Finding]:
    if cluster.spec.role_groups.registry:
        yield Finding(
            path=(*_GROUPS, "registry"),
            message="this kubexm cannot install a registry yet: leave this group empty",
            hint="an existing registry goes under spec.registry (mirrors, private)",
        )


def _balancers(cluster: Cluster) -> Iterator[Finding]:
    groups = cluster.groups
    both = [name for name in groups["loadbalancer"] if name in groups["controlPlane"]]
    if both:
        yield Finding(
            path=(*_GROUPS, "loadbalancer"),
            message=f"{listed(both)}: a control plane cannot be a load balancer too, both would need the same port",
            hint="use hosts that are no control planes",
        )
    if groups["loadbalancer"] and cluster.spec.control_plane_endpoint.load_balancer == "external":
        yield Finding(
            path=(*_GROUPS, "loadbalancer"),
            message="with an external load balancer these hosts get nothing to do",
            hint="leave the group empty, or set spec.controlPlaneEndpoint.loadBalancer to `haproxy`",
            warning=True,
        )


def _idle(cluster: Cluster) -> Iterator[Finding]:
    idle: dict[int, list[str]] = {}
    for host in cluster.hosts:
        if not host.has_role(*ROLES):
            idle.setdefault(host.entry, []).append(host.name)
    for entry, names in idle.items():
        verb = "has" if len(names) == 1 else "have"
        yield Finding(
            path=(*_HOSTS, entry, "name"),
            message=f"{listed(names)} {verb} no role: only what spec.system says is done there",
            hint="name it in a role group, or remove it",
            warning=True,
        )


def _no_nodes(cluster: Cluster) -> Iterator[Finding]:
    nodes = {host.entry for host in cluster.hosts if host.has_role("controlPlane", "worker")}
    for index, entry in enumerate(cluster.spec.hosts):
        for key, written in (("labels", entry.labels), ("taints", entry.taints)):
            if written and index not in nodes:
                yield Finding(
                    path=(*_HOSTS, index, key),
                    message=f"`{key}` have no effect: {entry.name} is no node of Kubernetes",
                    hint="name it under controlPlane or worker, or remove this line",
                    warning=True,
                )


def _hooks(cluster: Cluster) -> Iterator[Finding]:
    names = sorted({host.name for host in cluster.hosts} | set(cluster.groups) | {ALL})
    for key, hooks in (
        ("preInstall", cluster.spec.system.pre_install),
        ("postInstall", cluster.spec.system.post_install),
    ):
        for index, hook in enumerate(hooks):
            for place, target in enumerate(hook.on):
                path: Path = ("spec", "system", key, index, "on", place)
                hosts, unknown = cluster.target(target)
                if unknown:
                    what = "group" if target.startswith("group:") else "group or host"
                    yield Finding(
                        path=path,
                        message=f"no {what} is called `{unknown[0]}`",
                        hint=nearest(unknown[0], names, "groups and hosts"),
                    )
                elif not hosts:
                    yield Finding(path=path, message=f"`{target}` has no hosts: nothing is run there", warning=True)


RULES = (
    Rule(_members, needs=(_NAMES,)),
    Rule(_groups, needs=(_GROUPS,)),
    Rule(_group_names),
    Rule(_cycles),
    Rule(_shadowed),
    Rule(_needed, needs=(_NAMES, _GROUPS, _ETCD)),
    Rule(_etcd, needs=(_NAMES, _GROUPS, _ETCD)),
    Rule(_not_yet),
    Rule(_balancers, needs=(("spec", "controlPlaneEndpoint"),)),
    Rule(_idle, needs=(_NAMES, _GROUPS)),
    Rule(_no_nodes, needs=(_NAMES, _GROUPS)),
    Rule(_hooks, needs=(_NAMES, _GROUPS)),
)
