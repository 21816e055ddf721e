"""What both ways of running a control plane share: arguments, files they name, objects a new cluster has. No module."""

from kubexm.components.control_plane.arguments import Arguments, feature_gates
from kubexm.components.control_plane.layout import SETTINGS
from kubexm.components.control_plane.leaving import check_interval, shutdown_delay, stop_timeout
from kubexm.components.control_plane.objects import BOOTSTRAPPERS, admin_binding, cluster_info, joining_objects
from kubexm.components.control_plane.programs import api_server, controller_manager, health_ports, scheduler
from kubexm.components.control_plane.settings import SettingsFile, limits_anonymous, read_at_start, settings_files

__all__ = [
    "BOOTSTRAPPERS",
    "SETTINGS",
    "Arguments",
    "SettingsFile",
    "admin_binding",
    "api_server",
    "check_interval",
    "cluster_info",
    "controller_manager",
    "feature_gates",
    "health_ports",
    "joining_objects",
    "limits_anonymous",
    "read_at_start",
    "scheduler",
    "settings_files",
    "shutdown_delay",
    "stop_timeout",
]
