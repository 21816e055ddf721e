"""What a pipeline declares about itself. The command line, REST, the page and the remote client derive from it.

Imports next to nothing: `kubexm --help` reads every declaration.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from kubexm.errors import UsageError

__all__ = ["PROBE_LEVELS", "SHARED", "Button", "Edits", "Kind", "Option", "checked", "probes_option"]


class Kind(StrEnum):
    """The type of an option: what the command line parses, REST validates and the page shows."""

    FLAG = "flag"
    """True or false; a checkbox."""
    TEXT = "text"
    CHOICE = "choice"
    """One of `choices`; a drop-down list."""
    NUMBER = "number"
    COUNT = "count"
    """A whole number."""
    NAMES = "names"
    """Several words: repeated or joined by commas on the command line, a list in REST."""
    HOSTS = "hosts"
    """Names of hosts; the command line also takes ranges such as `w[1:3]`."""


class Edits(StrEnum):
    """Kinds of edits of cluster.yaml that a pipeline can apply to a cluster that exists."""

    ADDED = "added"
    """Hosts, or roles of hosts, that are new in the file."""
    LIVE = "live"
    """Settings that can be changed while the cluster runs."""
    VERSIONS = "upgrade"
    """Versions of Kubernetes and of what comes with it."""
    REMOVED = "removed"
    """Hosts, or roles of hosts, that are gone from the file."""


_DEFAULTS: Final[Mapping[Kind, Any]] = {
    Kind.FLAG: False,
    Kind.TEXT: "",
    Kind.CHOICE: "",
    Kind.NUMBER: 0.0,
    Kind.COUNT: None,
    Kind.NAMES: (),
    Kind.HOSTS: (),
}
_LONGEST, _MOST_NAMES = 300, 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option of a pipeline: `name` is its field in REST and its keyword, `--name` its flag."""

    name: str
    kind: Kind
    help: str
    default: Any = None
    """What holds if it is not given; for most kinds the empty value if left out."""
    choices: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None
    required: bool = False
    positional: bool = False
    """True if the command line takes it as an argument, without a flag."""
    short: str = ""
    """A letter with its dash, `-d`."""
    metavar: str = ""
    local: bool = False
    """True if it names something on the machine of the command line: servers do not take it."""
    label: str = ""
    """What the page calls it in the dialog of the pipeline; empty if the page does not ask for it."""

    @property
    def usual(self) -> Any:
        """Its value if it is not given."""
        return _DEFAULTS[self.kind] if self.default is None else self.default

    @property
    def flag(self) -> str:
        """How the command line and messages call it."""
        return (self.metavar or self.name.upper()) if self.positional else "--" + self.name.replace("_", "-")

    @property
    def widget(self) -> str:
        """What the page shows for it."""
        return {Kind.FLAG: "checkbox", Kind.CHOICE: "select", Kind.NUMBER: "number", Kind.COUNT: "number"}.get(
            self.kind, "text"
        )

    def check(self, value: Any) -> Any:
        """The value as the pipeline gets it. UsageError if it is not one of this option."""
        kind, text = self.kind, value if isinstance(value, str) else ""
        match kind:
            case Kind.FLAG if isinstance(value, bool):
                return value
            case Kind.TEXT if text and len(text) <= _LONGEST and text.isprintable():
                return text
            case Kind.CHOICE if text in self.choices:
                return text
            case Kind.NUMBER if isinstance(value, int | float) and not isinstance(value, bool):
                if self._is_between(value):
                    return float(value)
            case Kind.COUNT if isinstance(value, int) and not isinstance(value, bool):
                if self._is_between(value):
                    return value
            case Kind.NAMES | Kind.HOSTS if isinstance(value, list | tuple) and len(value) <= _MOST_NAMES:
                if all(isinstance(each, str) and 0 < len(each) <= _LONGEST and each.isprintable() for each in value):
                    return tuple(value)
        raise UsageError(f"{self.flag} must be {self._wanted()}, and is {_shown(value)}")

    def _is_between(self, value: float) -> bool:
        return (self.least is None or value >= self.least) and (self.most is None or value <= self.most)

    def _wanted(self) -> str:
        match self.kind:
            case Kind.FLAG:
                return "true or false"
            case Kind.TEXT:
                return f"a line of at most {_LONGEST} characters"
            case Kind.CHOICE:
                return "one of " + ", ".join(self.choices)
            case Kind.NAMES | Kind.HOSTS:
                return f"a list of at most {_MOST_NAMES} names"
        words = "a whole number" if self.kind is Kind.COUNT else "a number"
        if self.least is not None and self.most is not None:
            return f"{words} from {self.least:g} to {self.most:g}"
        if self.least is not None:
            return f"{words} of at least {self.least:g}"
        return words if self.most is None else f"{words} of at most {self.most:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Button:
    """How the page offers a pipeline. What applies edits is planned for review first; the others are started."""

    label: str
    first: str = ""
    """The label as long as the cluster does not exist."""
    primary: bool = False


def checked(pipeline: str, options: Iterable[Option], given: Mapping[str, Any]) -> dict[str, Any]:
    """The value of every option of a pipeline. UsageError for one it does not have, or a value that does not fit."""
    known = {option.name: option for option in options}
    for name in given:
        if name not in known:
            has = ", ".join(option.flag for option in known.values())
            raise UsageError(
                f"{pipeline} has no option {name!r}", hint=f"it has: {has}" if has else "it has no options of its own"
            )
    for name, option in known.items():
        if option.required and not given.get(name):
            raise UsageError(f"{pipeline} needs {option.flag}", hint=option.help)
    return {name: option.check(given[name]) if name in given else option.usual for name, option in known.items()}


PROBE_LEVELS: Final = ("none", "api", "full")


def probes_option(default: str) -> Option:
    """What is measured beside a run."""
    return Option(
        name="probes",
        kind=Kind.CHOICE,
        choices=PROBE_LEVELS,
        default=default,
        help="What to measure beside it on a running cluster: the API, everything, or nothing.",
    )


SHARED: Final = {
    option.name: option
    for option in (
        Option(
            name="dry_run",
            kind=Kind.FLAG,
            help="Read every host, change nothing, and show what would change.",
        ),
        Option(
            name="only",
            kind=Kind.NAMES,
            metavar="ID",
            help="Only these nodes, tasks or modules (etcd, etcd.install, …).",
        ),
        Option(name="skip", kind=Kind.NAMES, metavar="ID", help="Everything but these nodes, tasks or modules."),
        Option(name="rollback", kind=Kind.FLAG, help="After a failure, undo what this run changed."),
        Option(
            name="parallel",
            kind=Kind.COUNT,
            least=1,
            most=10_000,
            metavar="N",
            help="How many steps may run at once, over all hosts.",
        ),
        Option(name="ignore_errors", kind=Kind.FLAG, help="Report failures, and continue with everything that can."),
    )
}
"""Settings of a run that pipelines share; each pipeline says which of them it takes."""


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:79] + "…"
