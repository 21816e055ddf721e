"""Files as they are against files as they should be: one read, reasons, diffs. Must not know which step asks."""

from __future__ import annotations

import difflib
import hashlib
from dataclasses import dataclass
from pathlib import PurePosixPath

from kubexm.connector.base import shell
from kubexm.errors import StepError
from kubexm.runtime import HostRuntime

__all__ = ["FoundFile", "look_at", "sha256_of", "unified"]

_SHOWN = 64 * 1024
"""Up to this size contents are fetched to show what would change."""

# Only what everybody on the host may read anyway is fetched: an old kubeconfig must not end up in a diff. Where only
# kubexm writes, and never a secret, the mode does not matter.
_LOOK = """p={path}
if [ -L "$p" ]; then k=link; elif [ -f "$p" ]; then k=file; elif [ -d "$p" ]; then k=directory
elif [ -e "$p" ]; then k=other; else echo absent; exit 0; fi
s=$(stat -c '%a %s %u %g %U %G' -- "$p") || exit 1
if [ $k != file ]; then echo "$k - $s"; exit 0; fi
h=$(sha256sum <"$p") || exit 1
h=${{h%% *}}
echo "$k $h $s"
z=${{s#* }}
case ${{s%% *}}{trusted} in
  *[4567]) if [ {show} = yes ] && [ "$h" != {sha256} ] && [ "${{z%% *}}" -le {most} ]; then cat -- "$p"; fi ;;
esac
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFile:
    """How a path was found; `kind` is absent, file, directory, link or other."""

    kind: str
    sha256: str = ""
    mode: int = 0
    size: int = 0
    uid: str = ""
    gid: str = ""
    owner: str = ""
    group: str = ""
    content: bytes | None = None
    """Of a file that differs, where it may be shown."""

    def faults(self, *, sha256: str, mode: int, owner: str, group: str) -> list[str]:
        """What is not as it should be, in a few words each; nothing if all is."""
        if self.kind == "absent":
            return ["it is not there"]
        if self.kind != "file":
            return [f"it is a {self.kind}" if self.kind != "other" else "it is no plain file"]
        found = ["its content differs"] if self.sha256 != sha256 else []
        if self.mode != mode:
            found.append(f"its mode is {self.mode:04o} and should be {mode:04o}")
        wrong_owner = owner != (self.uid if owner.isdigit() else self.owner)
        if wrong_owner or group != (self.gid if group.isdigit() else self.group):
            found.append(f"it belongs to {self.owner}:{self.group} and should to {owner}:{group}")
        return found


async def look_at(
    host: HostRuntime, path: PurePosixPath, *, sha256: str = "-", show: bool = True, trusted: bool = False
) -> FoundFile:
    """How the path is, in one read; with `show` also the content of a file whose sha256 is another.

    Only if all may read it, unless it is `trusted` to hold no secret.
    """
    script = _LOOK.format(
        path=shell(path),
        show="yes" if show else "no",
        sha256=shell(sha256),
        most=_SHOWN,
        trusted="4" if trusted else "",
    )
    result = (await host.command.read(script, display=f"look at {path}")).stdout
    first, _, content = result.partition(b"\n")
    kind, *words = first.decode(errors="replace").split(" ")
    if kind == "absent" and not words:
        return FoundFile(kind=kind)
    if len(words) != 7:
        raise StepError(
            f"cannot tell how {path} is: {first[:80]!r}",
            host=host.name,
            hint="stat or sha256sum on this host prints something else than GNU's do: is coreutils installed?",
        )
    digest, mode, size, uid, gid, owner, group = words
    return FoundFile(
        kind=kind,
        sha256="" if digest == "-" else digest,
        mode=int(mode, 8),
        size=int(size),
        uid=uid,
        gid=gid,
        owner=owner,
        group=group,
        content=content if show and digest != sha256 and len(content) == int(size) else None,
    )


def sha256_of(content: bytes) -> str:
    """The digest by which contents are compared."""
    return hashlib.sha256(content).hexdigest()


def unified(path: PurePosixPath, old: bytes | None, new: bytes) -> str:
    """What would change, as a unified diff; nothing for what is no text. `old` None: there is no file yet."""
    before, after = _lines(old or b""), _lines(new)
    if before is None or after is None:
        return ""
    origin = "/dev/null" if old is None else f"{path} (now)"
    return "\n".join(difflib.unified_diff(before, after, origin, str(path), lineterm=""))


def _lines(content: bytes) -> list[str] | None:
    if len(content) > _SHOWN or b"\0" in content:
        return None
    try:
        return content.decode().splitlines()
    except UnicodeDecodeError:
        return None
