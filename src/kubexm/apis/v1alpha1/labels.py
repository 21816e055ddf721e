"""Labels and taints of nodes, in the form Kubernetes gives them. Must not know the hosts."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, Any, ClassVar, Final

from pydantic import BeforeValidator

from kubexm.apis.v1alpha1.base import TYPE_KEY, invalid, schema, shown
from kubexm.apis.v1alpha1.scalars import FromText, text_of

__all__ = ["Labels", "Taint"]

_VALUE: Final = r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?"
_PREFIX: Final = r"([a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*/)?"
_KEY: Final = _PREFIX + r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def _labels(value: object) -> dict[str, str]:
    """Keys and values as Kubernetes takes them; numbers and booleans are taken as their text."""
    if not isinstance(value, dict):
        raise invalid(f"expected a mapping of labels, found {shown(value)}", "write it like `{disk: ssd}`")
    labels: dict[str, str] = {}
    for key, content in value.items():
        match content:
            case bool():
                text = str(content).lower()
            case int() | str():
                text = str(content)
            case _:
                raise invalid(f"the label `{key}` must be text, found {shown(content)}", f'write `{key}: "…"`')
        if re.fullmatch(_KEY, key) is None:
            raise invalid(f"{shown(key)} is not a label key", "write it like `disk` or `example.com/disk`")
        if re.fullmatch(_VALUE, text) is None:
            raise invalid(
                f"{shown(text)} is not a value of a label",
                "at most 63 letters, digits, `-`, `_` and `.`, with a letter or digit at both ends",
            )
        labels[key] = text
    return labels


Labels = Annotated[
    dict[str, str],
    BeforeValidator(_labels),
    schema(
        "labels",
        "object",
        propertyNames={"pattern": f"^{_KEY}$"},
        additionalProperties={
            "anyOf": [{"type": "string", "pattern": f"^{_VALUE}$"}, {"type": "integer"}, {"type": "boolean"}]
        },
    ),
]


@dataclass(frozen=True, slots=True)
class Taint(FromText):
    """What keeps pods off a node that do not tolerate it."""

    key: str
    value: str
    effect: str
    _schema: ClassVar[dict[str, Any]] = {
        "type": "string",
        TYPE_KEY: "taint",
        "pattern": f"^{_KEY}(={_VALUE})?:({'|'.join(_EFFECTS)})$",
    }

    @classmethod
    def parse(cls, value: object) -> Taint:
        """`gpu=true:NoSchedule` or `gpu:NoSchedule`."""
        text = text_of(value, "a taint", "gpu=true:NoSchedule")
        head, colon, effect = text.rpartition(":")
        key, _, content = head.partition("=")
        if not colon or re.fullmatch(_KEY, key) is None or re.fullmatch(_VALUE, content) is None:
            raise invalid(f"{shown(text)} is not a taint", "write it like `gpu=true:NoSchedule` or `gpu:NoSchedule`")
        if effect not in _EFFECTS:
            near = get_close_matches(effect, _EFFECTS, 1)
            hint = f"did you mean `{near[0]}`?" if near else f"one of {', '.join(_EFFECTS)}"
            raise invalid(f"{shown(effect)} is not an effect of a taint", hint)
        return cls(key, content, effect)

    def __str__(self) -> str:
        return f"{self.key}{'=' + self.value if self.value else ''}:{self.effect}"
