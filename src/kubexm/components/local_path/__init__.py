"""Local storage: volumes in a directory of the node a pod runs on, by the local-path provisioner.

What it leaves on nodes: the directory of storage.localPath.path with the volumes that pods were given.
"""

from kubexm.components.local_path.module import LocalPath

__all__ = ["LocalPath"]
