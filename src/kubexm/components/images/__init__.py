"""The images of the cluster on its nodes, before anything wants to run them. By role: workers get no control plane's.

Each node gets what it lacks as one archive, which is gone afterwards; images themselves are containerd's data.
"""

from kubexm.components.images.module import Images

__all__ = ["Images"]
