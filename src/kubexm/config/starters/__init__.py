"""Files to start from, one for each topology. They are data: this module only reads them."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Final

from kubexm.apis.v1alpha1.versions import DEFAULT_KUBERNETES

__all__ = ["TOPOLOGIES", "starter"]

TOPOLOGIES: Final = ("single", "ha", "airgap")


_VERSION: Final = "$version"
"""Stands in the files for the number of the default Kubernetes version."""


def starter(topology: str, *, name: str = "") -> str:
    """A commented cluster.yaml that is valid as it is; `name` replaces the cluster's name."""
    if topology not in TOPOLOGIES:
        raise ValueError(f"no such topology: {topology}")
    text = files(__name__).joinpath(f"{topology}.yaml").read_text(encoding="utf-8")
    text = text.replace(_VERSION, str(DEFAULT_KUBERNETES).removeprefix("v"))
    if name:
        text = re.sub(r"(?m)^  name: \S+( *)(?=#)", lambda match: f"  name: {name}{match[1]}", text, count=1)
    return text
