"""The cluster file a lab writes for its hosts. Must not know how the hosts were made."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from kubexm import releases
from kubexm.errors import UsageError
from kubexm.lab.access import Access
from kubexm.lab.hosts import LabHost
from kubexm.lab.kubernetes import Choice, choose
from kubexm.lab.sources import BundleSource
from kubexm.lab.state import LabRecord

__all__ = ["check_place", "cluster_text", "digest", "lab_version"]


def check_place(file: Path, record: LabRecord | None) -> None:
    """Refuse to write over a file that the lab did not write."""
    if not file.parent.is_dir():
        raise UsageError(f"There is no directory {file.parent} to save the cluster file in.", hint="Make it first.")
    if file.exists() and (record is None or Path(record.cluster_file) != file):
        raise UsageError(
            f"{file} exists and was not written by this lab.",
            hint="Move it away, or choose another place with `--save PATH`.",
        )


def digest(text: str) -> str:
    """What tells a cluster file that nobody has touched from one that somebody has."""
    return hashlib.sha256(text.encode()).hexdigest()


def cluster_text(
    *,
    name: str,
    hosts: Sequence[LabHost],
    control_planes: int,
    access: Access,
    conntrack_is_fixed: bool,
    cgroup_v1: bool,
    bundle: BundleSource | None,
) -> str:
    """The cluster file for these hosts, the first `control_planes` of which are control planes and run etcd.

    It holds no secret, only the names of the files that do.
    """
    planes = [host.name for host in hosts[:control_planes]]
    workers = [host.name for host in hosts[control_planes:]] or planes
    lines = [
        f"# The lab {name!r}: made by `kubexm lab up`, removed by `kubexm lab down {name}`.",
        "apiVersion: kubexm.io/v1alpha1",
        "kind: Cluster",
        "metadata:",
        f"  name: {_text(name)}",
        "spec:",
        "  global:",
        "    user: root",
        f"    privateKeyPath: {_text(access.private_key)}",
        f"    knownHostsFile: {_text(access.known_hosts)}",
        "  hosts:",
        *(f"    - {_host(host, access)}" for host in hosts),
        "  roleGroups:",
        f"    etcd: [{', '.join(planes)}]",
        f"    controlPlane: [{', '.join(planes)}]",
        f"    worker: [{', '.join(workers)}]",
    ]
    version = lab_version(bundle, cgroup_v1=cgroup_v1)
    differs = version.version != releases.default_kubernetes()
    if differs or conntrack_is_fixed or cgroup_v1:
        lines += ["  kubernetes:"]
    if differs:
        lines += [f"    # {version.reason[:1].upper()}{version.reason[1:]}."]
        lines += [f"    version: {_text(version.version)}"]
    if conntrack_is_fixed:
        lines += [
            "    # These hosts share this machine's kernel, and its connection table is not theirs to resize.",
            "    kubeProxy: {config: {conntrack: {maxPerCore: 0, min: 0}}}",
        ]
    if cgroup_v1:
        lines += [
            "    # This machine has cgroup v1, which the kubelet of Kubernetes 1.35 and later refuses by default.",
            "    kubelet: {config: {failCgroupV1: false}}",
        ]
    if bundle is not None:
        lines += ["  assets:", f"    sources: [{{bundle: {_text(bundle.path)}}}]"]
    return "\n".join(lines) + "\n"


def lab_version(bundle: BundleSource | None, *, cgroup_v1: bool) -> Choice:
    """The Kubernetes version of the lab's cluster: one that the bundle has and this machine runs, and why."""
    return choose(bundle.kubernetes if bundle else (), cgroup_v1=cgroup_v1)


def _host(host: LabHost, access: Access) -> str:
    fields = f"name: {host.name}, address: {host.address}"
    if not host.flavour.root_login:
        fields += f", user: {host.login}, sudoPassword: {_text('file:' + str(access.sudo_password_file))}"
    return f"{{{fields}}}"


def _text(value: Path | str) -> str:
    """A string as YAML reads it back, whatever is in it."""
    return json.dumps(str(value), ensure_ascii=False)
