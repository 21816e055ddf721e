"""A file that is still arriving: which parts of it are there, kept beside the target so that a later run can go on."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

from kubexm.assets.disk import replacing

__all__ = ["PartialFile", "Segment"]


@dataclass(slots=True, kw_only=True)
class Segment:
    """A stretch of the file: from `start` up to `end` (None: wherever it ends), of which `done` bytes are there."""

    start: int
    end: int | None
    done: int = 0

    @property
    def complete(self) -> bool:
        """Whether all of it is there."""
        return self.end is not None and self.start + self.done == self.end


class PartialFile:
    """The data so far in TARGET.part, what of it is there in TARGET.part.json."""

    def __init__(self, target: Path, url: str) -> None:
        self.target = target
        self.path = target.with_name(f"{target.name}.part")
        self.total: int | None = None
        self.validator = ""
        self.segments: list[Segment] = []
        self._state = target.with_name(f"{target.name}.part.json")
        self._url = url
        self._handle = -1

    @property
    def begun(self) -> bool:
        """Whether anything is known about the file yet."""
        return bool(self.segments)

    @property
    def done(self) -> int:
        """How many bytes are there."""
        return sum(segment.done for segment in self.segments)

    def resume(self) -> bool:
        """Goes on where an earlier attempt for the same URL stopped, if there was one."""
        try:
            state = json.loads(self._state.read_bytes())
            if state["url"] != self._url or not self.path.is_file():
                return False
            segments = [Segment(start=start, end=end, done=done) for start, end, done in state["segments"]]
            self.total, self.validator = state["total"], str(state["validator"])
        except (OSError, ValueError, KeyError, TypeError):
            return False
        self.segments = segments
        if self.done == 0 or (not self.validator and self.total is None):
            self.segments = []  # nothing worth keeping, or nothing to tell the same file by
            return False
        return True

    def begin(self, total: int | None, validator: str, step: int) -> None:
        """Says how long the file is and in which steps it will come; no step means in one go."""
        self.total, self.validator = total, validator
        self.segments = [Segment(start=0, end=total)]
        if total and step:
            self.segments = [Segment(start=at, end=min(at + step, total)) for at in range(0, total, step)]
        self._open(truncate=True)
        self.save()

    def write(self, segment: Segment, data: bytes) -> bool:
        """Puts the next bytes of a segment in their place; False, and nothing written, if they are too many."""
        at = segment.start + segment.done
        if segment.end is not None and at + len(data) > segment.end:
            return False
        view = memoryview(data)
        while view:
            written = os.pwrite(self._open(), view, at)
            view, at = view[written:], at + written
        segment.done += len(data)
        return True

    def save(self) -> None:
        """Writes down what is there."""
        state = {
            "url": self._url,
            "total": self.total,
            "validator": self.validator,
            "segments": [[segment.start, segment.end, segment.done] for segment in self.segments],
        }
        with replacing(self._state, durable=False) as out:
            out.write(json.dumps(state).encode())

    def restart(self) -> None:
        """Forgets everything."""
        self.discard()
        self.segments, self.total, self.validator = [], None, ""

    def finish(self) -> None:
        """Puts the file in its place."""
        os.fsync(self._open())
        self.close()
        self.path.replace(self.target)
        self._state.unlink(missing_ok=True)

    def discard(self) -> None:
        """Removes what is there."""
        self.close()
        self.path.unlink(missing_ok=True)
        self._state.unlink(missing_ok=True)

    def close(self) -> None:
        """Closes the file; it stays for another attempt."""
        if self._handle >= 0:
            with contextlib.suppress(OSError):
                os.close(self._handle)
            self._handle = -1

    def _open(self, *, truncate: bool = False) -> int:
        if truncate:
            self.close()
        if self._handle < 0:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | (os.O_TRUNC if truncate else 0)
            self._handle = os.open(self.path, flags, 0o644)
        return self._handle
