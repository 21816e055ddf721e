"""Kernel parameters, live and for the next boot. Must not know why a value is wanted."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from kubexm.connector.base import shell
from kubexm.runner.base import Operations, library, posix

__all__ = ["Sysctl", "parameter_path"]

_KEY = re.compile(r"^[A-Za-z0-9_][A-Za-z0-9_./-]*$")
_DIRECTORY = PurePosixPath("/etc/sysctl.d")
_PROC = "/proc/sys"


@dataclass(frozen=True, slots=True)
class Sysctl(Operations):
    """Kernel parameters of the host, by their sysctl names."""

    async def read(self, keys: Iterable[str]) -> dict[str, str | None]:
        """The live values, blanks made single; None for what this kernel does not have."""
        names = list(keys)
        values, _ = await self._look(names, None)
        return values

    async def matches(self, values: Mapping[str, str | int], *, name: str = "kubexm") -> bool:
        """True if all have these values, now and at the next boot."""
        live, persisted = await self._look(list(values), name)
        wanted = {key: _normal(value) for key, value in values.items()}
        return live == wanted and persisted == _content(values)

    async def left_over(self, keys: Iterable[str]) -> dict[str, tuple[str, str]]:
        """Of these parameters those that still have a value kubexm gave them: that value, and the one before."""
        paths = {key: parameter_path(key) for key in keys}
        root = self._root(True)
        script = library("originals") + library("sysctl")
        script += "\n".join(
            f"if kx_left_parameter {shell(root, _PROC, path)}; then printf '%s\\t%s\\t%s\\n' {shell(key)} "
            '"$kx_now" "$kx_was"; fi'
            for key, path in paths.items()
        )
        result = self._checked(await self._read(script + "\n:", "look how kernel parameters were"))
        rows = (line.split("\t") for line in result.text.split("\n") if line)
        return {key: (now, was) for key, now, was in rows}

    async def apply(
        self,
        values: Mapping[str, str | int],
        *,
        dropped: Collection[str] = (),
        name: str = "kubexm",
        keep: bool = True,
        snapshot: PurePosixPath | None = None,
    ) -> bool:
        """All have these values, now and at the next boot. False if they had already.

        Those in `dropped`, which are under this name no more, get back what they had before kubexm; first, so that
        the file names them until that is done.
        """
        content = _content(values).encode()
        paths = {key: parameter_path(key) for key in values}
        missing = "\n".join(
            f"[ -e /proc/sys/{shell(p)} ] || kx_die 'no such kernel parameter:' {shell(k)}" for k, p in paths.items()
        )
        roots = shell(self._root(keep), "" if snapshot is None else str(posix(snapshot)), _PROC)
        back = "\n".join(f"kx_drop_parameter {roots} {shell(parameter_path(key))}" for key in dropped)
        sets = "\n".join(f"kx_set_parameter {roots} {shell(paths[key], _normal(v))}" for key, v in values.items())
        put = "kx_put " + shell(_file(name), "644", "root", "root", len(content), "-")
        head = self._keeping(keep, snapshot) + library("sysctl")
        script = f"{head}{missing}\n{back}\n( {put} ) || exit 1\n{sets}\n:"
        result = await self._change(script, f"set {', '.join([*values, *dropped])}", stdin=content)
        hint = ""
        if "no such kernel parameter" in result.error_text:
            hint = (
                "This kernel does not have it, or the module that brings it is not loaded (br_netfilter for "
                "net.bridge.*, nf_conntrack for net.netfilter.*): load that, or drop the key from `system.sysctl`."
            )
        elif "cannot set" in result.error_text or "write error" in result.error_text:
            hint = "The kernel refused the value; in a container this parameter may belong to the machine around it."
        return "changed" in self._checked(result, hint=hint).text.split("\n")

    async def _look(self, keys: list[str], name: str | None) -> tuple[dict[str, str | None], str | None]:
        paths = {key: f"/proc/sys/{parameter_path(key)}" for key in keys}
        file = shell(_file(name)) if name is not None else ""
        # One process for all of them. A builtin will not do: it reads byte by byte, and the kernel gives but the first.
        script = (
            (f"grep -Hs '' -- {shell(*dict.fromkeys(paths.values()))}\n" if paths else "")
            + "printf '\\0'\n"
            + (f"if [ -f {file} ]; then cat {file}; fi" if file else "")
        )
        result = self._checked(await self._read(script, "read kernel parameters"))
        live, _, persisted = result.stdout.decode().partition("\0")
        rows: dict[str, str] = {}
        for row in live.splitlines():
            path = next((each for each in paths.values() if row.startswith(f"{each}:")), "")
            rows[path] = f"{rows.get(path, '')} {row[len(path) + 1 :]}"
        values = {key: _normal(rows[path]) if path in rows else None for key, path in paths.items()}
        return values, persisted


def _file(name: str) -> PurePosixPath:
    """Files are applied in the order of their names; Debian's own 99-sysctl.conf must not come after ours."""
    return _DIRECTORY / f"99-zz-{name}.conf"


def _content(values: Mapping[str, str | int]) -> str:
    lines = [f"{key} = {_normal(value)}" for key, value in sorted(values.items())]
    return "\n".join(["# Managed by kubexm.", *lines, ""])


def parameter_path(key: str) -> str:
    """Where a parameter is below /proc/sys."""
    if not _KEY.match(key) or ".." in key.split("/"):
        raise ValueError(f"not a kernel parameter: {key}")
    return key if "/" in key else key.replace(".", "/")


def _normal(value: str | int) -> str:
    return " ".join(str(value).split())
