"""etcd: forming a cluster of members under systemd, keeping it through restarts and reinstalled hosts, snapshots."""

from kubexm.components.etcd.module import Etcd

__all__ = ["Etcd"]
