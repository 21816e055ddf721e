"""Where etcd's files are on a host, and as whom it runs."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final

__all__ = ["BOOTSTRAP", "ETCD", "ETCDCTL", "ETCDUTL", "UNIT", "UNIT_FILE", "USER"]

ETCD: Final = PurePosixPath("/usr/local/bin/etcd")
ETCDCTL: Final = PurePosixPath("/usr/local/bin/etcdctl")
ETCDUTL: Final = PurePosixPath("/usr/local/bin/etcdutl")
BOOTSTRAP: Final = PurePosixPath("/etc/etcd/bootstrap.env")
"""What an empty member is told of the cluster it forms or joins; of no meaning to one that has data."""
UNIT: Final = "etcd"
UNIT_FILE: Final = PurePosixPath("/etc/systemd/system/etcd.service")
USER: Final = "etcd"
"""etcd needs no right of root's: a flaw in it, or a client that gets too far, is then kept to its own files."""
