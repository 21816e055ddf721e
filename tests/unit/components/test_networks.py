"""The plugins there are, and that what the file names is what every part of kubexm goes by."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import get_args

from kubexm import config
from kubexm.apis.v1alpha1 import Cluster
from kubexm.apis.v1alpha1.network import Plugin
from kubexm.components import required
from kubexm.components.networks import NO_PLUGIN, PLUGINS, PodNetwork, plugin_of, plugins_possible
from kubexm.components.os import places
from kubexm.components.removal import steps
from kubexm.connector import Host
from tests.unit.components.api_plan import api_graph
from tests.unit.components.around import cluster, context_of

NODE = Host(name="w1", address="10.0.0.21", roles=frozenset({"worker"}))
OTHER = Host(name="lb", address="10.0.0.31", roles=frozenset({"loadbalancer"}))


def of(network: str) -> Cluster:
    return config.loads(cluster(f"network: {network}"), name="t").cluster


def test_each_plugin_of_the_model_is_there_and_each_that_is_there_can_be_chosen() -> None:
    assert {plugin.name for plugin in PLUGINS} | {NO_PLUGIN} == set(get_args(Plugin))
    assert len({plugin.name for plugin in PLUGINS}) == len(PLUGINS)


def test_the_links_that_go_are_among_the_interfaces_preflight_knows() -> None:
    assert "flannel.7" in PLUGINS[0].links(of("{flannel: {vni: 7}}"))
    for plugin in PLUGINS:
        links = plugin.links(of(f"{{plugin: {plugin.name}}}"))
        assert all(link.startswith(plugin.interfaces) for link in links)


def test_the_network_of_pods_is_the_chosen_plugins(tmp_path: Path) -> None:
    for plugin in PLUGINS:
        text = cluster(f"network: {{plugin: {plugin.name}}}")
        assert (
            api_graph(context_of(text, tmp_path), PodNetwork).nodes
            == api_graph(context_of(text, tmp_path), plugin.module).nodes
        )


def test_users_who_bring_their_own_network_get_none(tmp_path: Path) -> None:
    graph = api_graph(context_of(cluster("network: {plugin: none}"), tmp_path), PodNetwork)
    assert [node for node in graph.nodes if not node.startswith("api.")] == []
    assert plugin_of(of("{plugin: none}")) is None


def test_only_nodes_need_what_the_plugin_needs_and_only_with_it() -> None:
    def used(network: str, host: Host) -> tuple[set[int], bool]:
        return {use.port for use in required.ports(of(network), host)}, "vxlan" in required.modules(of(network), host)

    assert used("{flannel: {port: 4789}}", NODE) == (used("{plugin: none}", NODE)[0] | {4789}, True)
    assert used("{flannel: {backend: host-gw}}", NODE) == used("{plugin: none}", NODE)
    assert used("{flannel: {port: 4789}}", OTHER) == used("{plugin: none}", OTHER)
    assert not used("{plugin: none}", NODE)[1]


def test_where_users_bring_their_own_it_may_be_any_of_these() -> None:
    assert plugins_possible(of("{plugin: none}")) == PLUGINS
    for network in ("{plugin: flannel}", "{plugin: none}"):
        assert "/run/flannel" in places.directories(of(network), NODE)
        assert "/run/flannel" not in places.directories(of(network), OTHER)


def test_the_clusters_tables_go_and_others_stay(tmp_path: Path) -> None:
    tables = [
        "ip kube-proxy",
        "ip flannel-ipv4",
        "ip6 flannel-ipv6",
        "inet mine",
        "ip flannel-ipv",
        "inet flannel-ipv4",
    ]
    log, known = tmp_path / "log", tmp_path / "known"
    known.write_text("table ip6 flannel-ipv6\n")
    script = f"""nft() {{
  case $1 in list) printf 'table %s\\n' {" ".join(f"'{table}'" for table in tables)} ;; *) echo "$*" >>{log} ;; esac
}}
kx_known={known} kx_borrowed=/nonexistent
{steps.cluster_names()}{steps.script("network")}kx_tables
"""
    subprocess.run(["sh", "-c", script], check=True)
    assert log.read_text().splitlines() == ["delete table ip kube-proxy", "delete table ip flannel-ipv4"]


def test_the_clusters_chains_go_and_others_stay(tmp_path: Path) -> None:
    log = tmp_path / "log"
    saved = [
        "*nat",
        ":POSTROUTING ACCEPT [0:0]",
        *(f":{name} - [0:0]" for name in ("FLANNEL-POSTRTG", "KUBE-X", "CNI-X", "MINE", "FLANNELS")),
        "-A POSTROUTING -j FLANNEL-POSTRTG",
        "-A POSTROUTING -j MINE",
        "COMMIT",
    ]
    (tmp_path / "saved").write_text("\n".join(saved) + "\n")
    for name, text in {"x-save": f"cat {tmp_path}/saved", "x-restore": f"cat >>{log}"}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    script = (
        f"PATH={tmp_path}:$PATH\nkx_known=/nonexistent\n{steps.cluster_names()}{steps.script('network')}kx_chains x\n"
    )
    subprocess.run(["sh", "-c", script], check=True)
    done = [line for line in log.read_text().splitlines() if line.startswith("-")]
    gone = ["FLANNEL-POSTRTG", "KUBE-X", "CNI-X"]
    assert done == ["-D POSTROUTING -j FLANNEL-POSTRTG", *(f"-{how} {name}" for how in "FX" for name in gone)]
