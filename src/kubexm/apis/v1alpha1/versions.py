"""Versions of Kubernetes and of what it runs on, and which of them fit together. Knows no download location."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from kubexm import releases
from kubexm.apis.v1alpha1.base import TYPE_KEY, invalid, shown
from kubexm.apis.v1alpha1.scalars import FromText

__all__ = ["DEFAULT_KUBERNETES", "NEWEST_MINOR", "OLDEST_MINOR", "KubernetesVersion", "Version"]

OLDEST_MINOR: Final = int(releases.minors()[0].partition(".")[2])
NEWEST_MINOR: Final = int(releases.minors()[-1].partition(".")[2])


@dataclass(frozen=True, slots=True, order=True)
class Version(FromText):
    """Three numbers, compared as numbers."""

    major: int
    minor: int
    patch: int
    _schema: ClassVar[dict[str, Any]] = {"type": "string", TYPE_KEY: "version", "pattern": r"^v?\d+\.\d+\.\d+$"}
    _example: ClassVar[str] = "v3.6.5"

    @classmethod
    def parse(cls, value: object) -> Version:
        """`v3.6.5` or `3.6.5`."""
        if isinstance(value, int | float) and not isinstance(value, bool):
            raise invalid(
                f"expected a version, found {shown(value)}", f'write all three numbers, like `"{cls._example}"`'
            )
        match = re.fullmatch(r"v?([0-9]{1,6})\.([0-9]{1,6})\.([0-9]{1,6})", value) if isinstance(value, str) else None
        if match is None:
            raise invalid(
                f"expected a version, found {shown(value)}", f"write all three numbers, like `{cls._example}`"
            )
        return cls(*map(int, match.groups()))

    def __str__(self) -> str:
        return f"v{self.major}.{self.minor}.{self.patch}"


@dataclass(frozen=True, slots=True, order=True)
class KubernetesVersion(Version):
    """A version of Kubernetes that kubexm can install."""

    _example: ClassVar[str] = "v1.34.4"

    @classmethod
    def parse(cls, value: object) -> KubernetesVersion:
        """`v1.34.4` or `1.34.4`, within the supported minors."""
        version = Version.parse.__func__(cls, value)  # type: ignore[attr-defined]
        assert isinstance(version, KubernetesVersion)
        if version.major != 1 or not OLDEST_MINOR <= version.minor <= NEWEST_MINOR:
            nearest = OLDEST_MINOR if (version.major, version.minor) < (1, OLDEST_MINOR) else NEWEST_MINOR
            raise invalid(
                f"Kubernetes {version} is not supported: this kubexm installs v1.{OLDEST_MINOR} to v1.{NEWEST_MINOR}",
                f"the nearest supported minor is v1.{nearest}",
            )
        return version

    @property
    def minor_text(self) -> str:
        """`v1.34`."""
        return f"v{self.major}.{self.minor}"


DEFAULT_KUBERNETES: Final = KubernetesVersion.parse(releases.default_kubernetes())
