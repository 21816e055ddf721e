"""Takes the fact script's output apart. Must not know what the sections mean."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Sections", "key_values", "split_files"]


@dataclass(frozen=True, slots=True)
class Sections:
    """The output by section, and the files among it by path."""

    texts: dict[str, str]
    files: dict[str, str]

    @classmethod
    def parse(cls, output: str, marker: str) -> Sections:
        """From the script's output; what does not fit is left out."""
        texts: dict[str, str] = {}
        for part in f"\n{output}".split(f"\n{marker} ")[1:]:
            name, _, body = part.partition("\n")
            texts[name.strip()] = body.rstrip("\n")
        files: dict[str, str] = {}
        for name in ("files", "proc-net", "proc-ports"):
            files |= split_files(texts.get(name, ""))
        return cls(texts, files)

    @property
    def complete(self) -> bool:
        """True if the script came to its end."""
        return "end" in self.texts

    def __contains__(self, name: str) -> bool:
        return name in self.texts

    def text(self, name: str) -> str:
        """A section, stripped; empty if it is not there."""
        return self.texts.get(name, "").strip()

    def lines(self, name: str) -> list[str]:
        """A section's lines that are not empty."""
        return [line for line in self.texts.get(name, "").split("\n") if line.strip()]

    def has_program(self, name: str) -> bool:
        """True if the script found this program."""
        return any(line.rsplit("/", 1)[-1] == name for line in self.lines("commands"))

    def file(self, *paths: str) -> str:
        """The first of these files that was there, stripped."""
        return next((self.files[path].strip() for path in paths if path in self.files), "")


def split_files(text: str) -> dict[str, str]:
    """What `head -v` printed, by path."""
    files: dict[str, str] = {}
    path = ""
    body: list[str] = []
    for line in text.split("\n"):
        if line.startswith("==> ") and line.endswith(" <==") and line[4:5] == "/":
            if path:
                files[path] = "\n".join(body)
            path, body = line[4:-4], []
        else:
            body.append(line)
    if path:
        files[path] = "\n".join(body)
    return files


def key_values(text: str, separator: str = "=") -> dict[str, str]:
    """Lines `KEY=value`, with shell quotes taken off."""
    values: dict[str, str] = {}
    for line in text.split("\n"):
        key, found, value = line.strip().partition(separator)
        if found and not key.startswith("#"):
            value = value.strip()
            if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
                value = value[1:-1].replace('\\"', '"').replace("\\$", "$").replace("\\\\", "\\").replace("\\`", "`")
            values[key.strip()] = value
    return values
