"""What is asked of containerd with its own tool, because CRI has no such request. Pure: shell text."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

from kubexm.components.containerd.config import SOCKET
from kubexm.connector.base import shell

__all__ = ["LIST_IMAGES", "import_images", "library", "remove_images", "run_once"]

_CTR: Final = ("ctr", "-n", "k8s.io")

LIST_IMAGES: Final = f"""\
if [ -S {shell(SOCKET)} ] && command -v ctr >/dev/null; then
  n=0 l=
  until l=$(timeout 15 {shell(*_CTR)} images ls); do
    n=$((n + 1))
    case $(systemctl is-active containerd):$n in
      active:[1-5] | activating:[1-5] | reloading:[1-5]) sleep 2 ;;
      *) break ;;
    esac
  done
  printf '%s\\n' "$l" | while read -r r _ d _; do printf '%s %s\\n' "$r" "$d"; done
fi"""
"""A containerd that runs and does not answer is asked again: it would look as if it had no images, and all be sent."""


def import_images(archive: str) -> str:
    """Imports without unpacking: containerd does that when a container first needs an image."""
    return shell(*_CTR, "images", "import", "--local", "--no-unpack", archive)


def remove_images(references: Sequence[str]) -> str:
    """Removes images by name."""
    return shell(*_CTR, "images", "rm", *references)


def run_once(image: str, name: str, directory: str, writable: str = "") -> str:
    """Begins a command in a container that is gone when it ends."""
    mounts = [(directory, "ro"), *([(writable, "rw")] if writable else [])]
    options = [
        word for path, mode in mounts for word in ("--mount", f"type=bind,src={path},dst={path},options=rbind:{mode}")
    ]
    return f'{shell(*_CTR, "run", "--rm", "--net-host", *options, image)} "{name}"'


@cache
def library() -> str:
    """The shell functions of this runtime, without comments."""
    text = (Path(__file__).parent / "scripts" / "runtime.sh").read_text(encoding="utf-8")
    lines = (line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#"))
    return "\n".join(lines) + "\n"
