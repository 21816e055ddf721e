"""What a container runtime is to the rest of kubexm. Each declares itself in its folder; `runtimes.py` lists them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from kubexm.module import Module

__all__ = ["ContainerRuntime", "RunOnce"]


class RunOnce(Protocol):
    """Shell text that begins a command in a container of this image and this name, on the host's network.

    `directory` is mounted read-only, `writable` for writing. The name is shell text; the words to run are appended.
    """

    def __call__(self, image: str, name: str, directory: str, writable: str = "") -> str:
        """The text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerRuntime:
    """All there is to know of a runtime.

    What every runtime offers needs no entry here: pods are asked for over CRI, with crictl, which the runtime's own
    module configures. Images are not: CRI can neither import an archive nor run a container outside of a pod.
    """

    name: str
    """Its value of spec.kubernetes.containerRuntime.type."""
    module: type[Module]
    """Installs and starts it; provides RUNTIME_STARTED and RUNTIME_READY."""
    unit: str
    """Its systemd unit, suffix included."""
    socket: str
    """Where it answers CRI requests."""
    usual_data: str
    """Where it keeps images and containers by default."""
    programs: tuple[str, ...]
    """The staged programs that it needs to keep running."""
    files: tuple[str, ...]
    """Its settings, its unit and its active programs: what stays with it if the runtime is kept."""
    directories: tuple[str, ...]
    """Where it writes by itself, besides its data."""
    packages: tuple[str, ...]
    """What distributions call it."""
    list_images: str
    """Shell: prints reference and digest of each image, one per line."""
    import_images: Callable[[str], str]
    """Shell: imports the images of an archive."""
    remove_images: Callable[[Sequence[str]], str]
    """Shell: removes images by reference."""
    run_once: RunOnce
    """Shell: begins a command in a container."""
    library: Callable[[], str]
    """Shell functions: `kx_rt_here` (it can be asked), `kx_rt_end_pods` (ends pods that crictl could not),
    `kx_rt_mount IMAGE DIRECTORY` and `kx_rt_unmount DIRECTORY`."""

    @property
    def endpoint(self) -> str:
        """The socket as clients of CRI name it."""
        return f"unix://{self.socket}"
