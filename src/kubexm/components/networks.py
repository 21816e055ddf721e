"""The network plugins there are. Everything that must know of one asks here, by what the file names."""

from __future__ import annotations

from typing import Final

from kubexm.apis.v1alpha1 import Cluster
from kubexm.components.flannel import FLANNEL
from kubexm.components.network_plugin import NetworkPlugin
from kubexm.module import Module
from kubexm.plan import EMPTY, ExecutionFragment
from kubexm.runtime import ModuleContext

__all__ = ["NO_PLUGIN", "PLUGINS", "PodNetwork", "plugin_named", "plugin_of", "plugins_possible"]

PLUGINS: Final[tuple[NetworkPlugin, ...]] = (FLANNEL,)
NO_PLUGIN: Final = "none"
"""Users bring their own."""


def plugin_named(name: str) -> NetworkPlugin | None:
    """The plugin of this name; None where users bring their own."""
    return next((plugin for plugin in PLUGINS if plugin.name == name), None)


def plugin_of(cluster: Cluster) -> NetworkPlugin | None:
    """The plugin the file names; None where users bring their own."""
    return plugin_named(cluster.spec.network.plugin)


def plugins_possible(cluster: Cluster) -> tuple[NetworkPlugin, ...]:
    """The plugin the file names; where users bring their own, any of these may be it."""
    chosen = plugin_of(cluster)
    return PLUGINS if chosen is None else (chosen,)


class PodNetwork(Module):
    """The network of pods, by the plugin the file names."""

    def plan(self, ctx: ModuleContext) -> ExecutionFragment:
        """What that plugin plans; nothing where users bring their own."""
        chosen = plugin_of(ctx.cluster)
        return EMPTY if chosen is None else chosen.module().fragment(ctx)
