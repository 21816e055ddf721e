"""The images of the cluster on its nodes."""

from __future__ import annotations

from collections.abc import Sequence

from kubexm.components.images.tasks import BringImages
from kubexm.module import Module
from kubexm.runtime import ModuleContext
from kubexm.task import Task

__all__ = ["Images"]


class Images(Module):
    """Images by role on every node; provides IMAGES_PRESENT."""

    def tasks(self, ctx: ModuleContext) -> Sequence[Task]:
        """One."""
        return (BringImages(),)
