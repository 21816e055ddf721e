"""Who does what: role groups, and groups of your own. Must not know the hosts; resolving names is `inventory`'s."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Annotated, Final

from pydantic import AfterValidator, BeforeValidator, ConfigDict

from kubexm.apis.v1alpha1.base import Model, invalid, live, schema, shown
from kubexm.apis.v1alpha1.ranges import expand
from kubexm.apis.v1alpha1.scalars import text_of

__all__ = ["ALL", "GROUP_NAME", "ROLES", "RoleGroups", "near_role"]

ROLES: Final = ("etcd", "controlPlane", "worker", "loadbalancer", "registry")
ALL: Final = "all"
GROUP_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,62}")
_OTHER_NAMES: Final = {
    "master": "controlPlane",
    "controller": "controlPlane",
    "controlplane": "controlPlane",
    "control-plane": "controlPlane",
    "node": "worker",
    "lb": "loadbalancer",
    "load-balancer": "loadbalancer",
}


def near_role(name: str) -> str | None:
    """The role a misspelt group most likely means."""
    key = name.lower().replace("_", "-")
    for spelling in (key, key.removesuffix("s")):
        for role in ROLES:
            if role.lower() == spelling:
                return role
        if spelling in _OTHER_NAMES:
            return _OTHER_NAMES[spelling]
    return next(iter(get_close_matches(name, ROLES, 1, 0.8)), None)


def _member(value: object) -> str:
    text = text_of(value, "a host, a range or a group", "node[1:3]")
    if not text:
        raise invalid("an empty name names no host", "remove it")
    if text.startswith("group:"):
        if GROUP_NAME.fullmatch(text.removeprefix("group:")) is None:
            raise invalid(f"{shown(text)} names no group", "write it like `group:controlPlane`")
    else:
        expand(text)
    return text


def _duplicates(value: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(value))


Members = Annotated[
    tuple[Annotated[str, BeforeValidator(_member), schema("host, range or group", minLength=1)], ...],
    AfterValidator(_duplicates),
]


class RoleGroups(Model):
    """Which host does what. Members are names of hosts, ranges, or other groups as `group:NAME`.

    Groups with names of your own may stand beside these, for use in other groups, in hooks and on the command line.
    """

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Members]

    etcd: Annotated[
        Members,
        live(
            "Members of etcd, best three or five. With `etcd.type: kubeadm` these are the control planes and may be "
            "left out; with `external` there are none."
        ),
    ] = ()
    control_plane: Annotated[Members, live("Control planes. At least one.")] = ()
    worker: Annotated[
        Members,
        live(
            "Nodes that run your pods. A control plane named here too runs pods as well (it gets no taint); at least "
            "one host must be here."
        ),
    ] = ()
    loadbalancer: Annotated[Members, live("Hosts that are an entrance to the API from outside.")] = ()
    registry: Annotated[Members, live("Hosts of a private registry. Must be empty: kubexm installs none yet.")] = ()

    def members(self) -> Mapping[str, tuple[str, ...]]:
        """Every group as written, the roles first."""
        return {
            "etcd": self.etcd,
            "controlPlane": self.control_plane,
            "worker": self.worker,
            "loadbalancer": self.loadbalancer,
            "registry": self.registry,
            **(self.__pydantic_extra__ or {}),
        }
