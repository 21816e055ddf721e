"""HAProxy's configuration and unit. Pure: text only.

Keeps to what HAProxy 2.6 and all later ones know.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Final

from kubexm.components.control_plane import check_interval
from kubexm.components.units import unit_word

__all__ = ["CA", "CONFIG", "CONFIG_DIRECTORY", "TREE", "UNIT", "USER", "configuration", "service"]

UNIT: Final = "kubexm-haproxy"
"""Not `haproxy`: a host that is an entrance may run one of its owner's."""
USER: Final = "kubexm-haproxy"
TREE: Final = PurePosixPath("/opt/kubexm/haproxy")
CONFIG_DIRECTORY: Final = PurePosixPath("/etc/kubexm/haproxy")
CONFIG: Final = CONFIG_DIRECTORY / "haproxy.cfg"
CA: Final = CONFIG_DIRECTORY / "ca.crt"
_RUN: Final = f"/run/{UNIT}"
_HEADER: Final = "# Written by kubexm; changes by hand are undone.\n"


def configuration(backends: Sequence[tuple[str, str]], *, port: int, binds: Sequence[str], balancers: int) -> str:
    """The configuration of one of so many balancers, which listens at `binds`, before API servers by name and address.

    Traffic is passed on as it is, so that client certificates reach the API server. A server that is not ready gets no
    connections, and clients that have one to it are disconnected rather than left waiting for a host that is gone. A
    server that is shutting down says so: it gets no new connections and keeps those it has until it ends them. API
    servers that refuse anonymous requests answer 401: all that is known of them then is that they are running.
    """
    listening = "\n".join(f"    bind {bind}" for bind in binds)
    servers = "\n".join(f"    server {name} {_at(address, port)}" for name, address in backends)
    return f"""{_HEADER}global
    nbthread 2
    spread-checks 20
    hard-stop-after 12h
    stats socket {_RUN}/admin.sock mode 600 level admin

defaults
    mode tcp
    retries 3
    option redispatch 1
    option clitcpka
    option srvtcpka
    timeout connect 1s
    timeout check 3s
    timeout queue 5s
    timeout client 24h
    timeout server 24h
    timeout client-fin 30s

frontend api
{listening}
    default_backend control-planes

backend control-planes
    balance leastconn
    option httpchk
    http-check send meth GET uri /readyz ver HTTP/1.1 hdr Host kubernetes
    http-check expect ! string [-]shutdown error-status L7OKC
    http-check expect rstatus ^(200|401)$
    default-server check check-ssl verify required ca-file {CA} {_pace(balancers)}
    default-server observe layer4 error-limit 1 on-error fastinter on-marked-down shutdown-sessions
{servers}
"""


def service(cluster: str, *, port: int) -> str:
    """The unit: HAProxy in a tree of its own, which is all it sees, as a user who may do nothing else.

    A reload starts a new worker, which takes over the listening sockets; the old one serves what it has to the end.
    The umask is the usual one: systemd 247 makes the mount points inside the tree with it, and HAProxy's user must be
    able to pass through them. The one file HAProxy makes, its socket, has a mode of its own.
    """
    low = "CAP_NET_BIND_SERVICE" if port < 1024 else ""
    return f"""{_HEADER}[Unit]
Description=load balancer for the API servers of the Kubernetes cluster {cluster}
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=0

[Service]
Type=notify
RootDirectory={unit_word(str(TREE))}
RootDirectoryStartOnly=yes
MountAPIVFS=yes
BindReadOnlyPaths={CONFIG_DIRECTORY} /run/systemd/notify
RuntimeDirectory={UNIT}
BindPaths={_RUN}
User={USER}
Group={USER}
AmbientCapabilities={low}
CapabilityBoundingSet={low}
ExecStart=/usr/local/sbin/haproxy -Ws -f {CONFIG}
ExecReload=/bin/sh -c 'kill -USR2 "$MAINPID"'
KillMode=mixed
SuccessExitStatus=143
Restart=always
RestartSec=1s
TimeoutStopSec=10s
LimitNOFILE=65536
OOMScoreAdjust=-900
UMask=0022
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectControlGroups=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
LockPersonality=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service

[Install]
WantedBy=multi-user.target
"""


def _pace(balancers: int) -> str:
    """A connection that fails makes a balancer check at once, however rarely it does otherwise."""
    interval = check_interval(balancers) * 1000
    return f"inter {interval}ms fastinter 500ms downinter {interval // 4}ms fall 2 rise 1"


def _at(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
