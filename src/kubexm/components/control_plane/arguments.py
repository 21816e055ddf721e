"""The arguments of a program of the control plane, and whose they are. Knows no program.

kubeadm sets some arguments itself, to the same values; in its mode only the others are handed to it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

__all__ = ["Arguments", "feature_gates", "listed", "with_gates"]


@dataclass(frozen=True, slots=True)
class Arguments:
    """By name, without dashes, each with its values in order: several repeat the argument."""

    own: Mapping[str, str] = field(default_factory=dict, hash=False)
    """What kubeadm sets as well."""
    added: Mapping[str, str] = field(default_factory=dict, hash=False)
    """What kubexm sets besides."""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    """What the user sets: these win."""

    def whole(self) -> dict[str, tuple[str, ...]]:
        """Every argument, sorted."""
        ours = {name: (value,) for name, value in {**self.own, **self.added}.items()}
        return dict(sorted({**ours, **self.extra}.items()))

    def beyond_kubeadm(self) -> dict[str, tuple[str, ...]]:
        """What kubeadm must be told, sorted: all it does not set itself, and whatever the user says."""
        ours = {name: (value,) for name, value in self.added.items()}
        return dict(sorted({**ours, **self.extra}.items()))

    def words(self) -> tuple[str, ...]:
        """Every argument as it stands on a command line."""
        return tuple(f"--{name}={value}" for name, values in self.whole().items() for value in values)

    def without(self, names: Collection[str]) -> Arguments:
        """The same without these of kubexm's own, which exclude what the user wants."""
        return Arguments(
            {name: value for name, value in self.own.items() if name not in names},
            {name: value for name, value in self.added.items() if name not in names},
            self.extra,
        )


def listed(values: Iterable[str]) -> list[str]:
    """The members of an argument that is a list, each once, however they are spread over commas and repetitions."""
    return list(dict.fromkeys(word for value in values for part in value.split(",") if (word := part.strip())))


def with_gates(extra: Mapping[str, tuple[str, ...]], gates: Mapping[str, bool]) -> dict[str, tuple[str, ...]]:
    """The user's arguments; gates among them stand beside those of the whole cluster, and win over them."""
    if "feature-gates" not in extra:
        return dict(extra)
    theirs = listed(extra["feature-gates"])
    named = {gate.partition("=")[0] for gate in theirs}
    ours = feature_gates({name: on for name, on in gates.items() if name not in named})
    return {**extra, "feature-gates": (",".join([*ours.values(), *theirs]),)}


def feature_gates(gates: Mapping[str, bool]) -> dict[str, str]:
    """The argument that sets these gates; none if there are none."""
    text = ",".join(f"{name}={'true' if on else 'false'}" for name, on in sorted(gates.items()))
    return {"feature-gates": text} if text else {}
