"""From a file to a `Cluster`: all that is wrong with it at once, each at its place."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path as FilePath
from typing import Any, Final, Literal

from pydantic import ValidationError

from kubexm.apis.v1alpha1 import Cluster, Finding, LiteralSecret, Model, check
from kubexm.apis.v1alpha1.rules import dotted
from kubexm.config.document import Document, Path, Place, read
from kubexm.config.errors import ConfigErrors, Problem
from kubexm.config.fields import PLAIN_KEYS, SECRET_KEYS
from kubexm.config.masking import SourceLines
from kubexm.config.repair import salvage
from kubexm.config.translate import Fault, faults
from kubexm.redact import Secret, is_maskable

__all__ = ["Loaded", "Source", "load", "loads", "names_in"]

MOST_BYTES: Final = 4 * 2**20
_READABLE_BY_OTHERS: Final = stat.S_IRGRP | stat.S_IROTH
Rules = Sequence[Callable[[Cluster], Iterable[Finding]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a cluster was read from."""

    name: str
    path: FilePath | None = None
    text: str = field(default="", repr=False)

    @property
    def directory(self) -> FilePath:
        """Where relative paths in the file start."""
        return self.path.parent if self.path is not None else FilePath.cwd()


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A valid cluster, what is doubtful about it, and where it came from."""

    cluster: Cluster
    warnings: tuple[Problem, ...]
    source: Source


def load(path: str | FilePath, *, more: Rules = ()) -> Loaded:
    """The cluster a file describes, or `ConfigErrors` with everything that is wrong with it.

    `more` are rules besides those of every file.
    """
    file = FilePath(path).expanduser()
    name = str(path)
    try:
        mode = file.stat().st_mode
        if stat.S_ISDIR(mode):
            raise _unreadable(name, "this is a directory", f"name a file in it, such as `{file / 'cluster.yaml'}`")
        with file.open("rb") as stream:
            content = stream.read(MOST_BYTES + 1)
    except FileNotFoundError:
        raise _unreadable(
            name, "there is no such file", "`kubexm config init > cluster.yaml` writes one to start from"
        ) from None
    except OSError as error:
        raise _unreadable(name, f"the file cannot be read: {error.strerror}") from None
    source = Source(name=name, path=file.absolute(), text=_decode(name, content))
    return _loaded(source, exposed=stat.S_ISREG(mode) and bool(mode & _READABLE_BY_OTHERS), more=more)


def loads(text: str, *, name: str = "<text>", more: Rules = ()) -> Loaded:
    """The cluster a text describes, or `ConfigErrors` with everything that is wrong with it.

    `more` are rules besides those of every file.
    """
    return _loaded(Source(name=name, text=text), exposed=False, more=more)


def _unreadable(name: str, message: str, hint: str = "") -> ConfigErrors:
    return ConfigErrors([Problem(file=name, line=0, column=0, path="", message=message, hint=hint)])


def _decode(name: str, content: bytes) -> str:
    if len(content) > MOST_BYTES:
        raise _unreadable(name, f"the file is larger than {MOST_BYTES // 2**20} MiB", "is this the right file?")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start]
        line, column = before.count(b"\n") + 1, len(before) - (before.rfind(b"\n") + 1) + 1
        raise ConfigErrors(
            [
                Problem(
                    file=name,
                    line=line,
                    column=column,
                    path="",
                    message="the file is not UTF-8 text",
                    hint="save it as UTF-8",
                )
            ]
        ) from None


class _Reporter:
    """Turns places of a document into problems with their line."""

    def __init__(self, source: Source, document: Document) -> None:
        self._file = source.name
        self._document = document
        self._lines = SourceLines(source.text, document, SECRET_KEYS, PLAIN_KEYS)

    def problem(
        self, place: Place, path: Path, message: str, hint: str, severity: Literal["error", "warning"] = "error"
    ) -> Problem:
        excerpt, span = self._lines.excerpt(place.line, place.column, place.length)
        return Problem(
            file=self._file,
            line=place.line,
            column=place.column,
            path=dotted(path),
            message=message,
            hint=hint,
            severity=severity,
            excerpt=excerpt,
            span=span,
        )

    def of_fault(self, fault: Fault) -> Problem:
        return self.problem(self._document.place(fault.path, key=fault.at_key), fault.path, fault.message, fault.hint)

    def of_finding(self, finding: Finding) -> Problem:
        written = next((path for path in (finding.path, *finding.also) if self._document.has(path)), finding.path)
        place = self._document.place(written)
        return self.problem(place, written, finding.message, finding.hint, "warning" if finding.warning else "error")


def _loaded(source: Source, *, exposed: bool, more: Rules = ()) -> Loaded:
    document = read(source.text)
    report = _Reporter(source, document)
    problems = [
        report.problem(complaint.place, complaint.path, complaint.message, complaint.hint)
        for complaint in document.complaints
    ]
    if document.data is None and not problems:
        problems.append(
            report.problem(Place(1, 1), (), "the file is empty", "`kubexm config init` prints one to start from")
        )
    elif document.data is not None and not isinstance(document.data, dict):
        problems.append(
            report.problem(
                Place(1, 1),
                (),
                "expected a mapping at the top of the file",
                "it begins with `apiVersion: kubexm.io/v1alpha1` and `kind: Cluster`",
            )
        )
    if not isinstance(document.data, dict):
        raise ConfigErrors(problems)
    cluster, found = _validated(document, report)
    if cluster is not None:
        found += [report.of_finding(finding) for rule in more for finding in rule(cluster)]
    problems += [problem for problem in found if problem.severity == "error"]
    warnings = [problem for problem in found if problem.severity == "warning"]
    if cluster is not None:
        warnings += _literal_warnings(cluster, document, report, exposed=exposed)
    warnings.sort(key=_position)
    if problems or cluster is None:
        raise ConfigErrors(sorted(problems, key=_position), warnings)
    return Loaded(cluster=cluster, warnings=tuple(warnings), source=source)


def _position(problem: Problem) -> tuple[int, int]:
    return problem.line, problem.column


def _validated(document: Document, report: _Reporter) -> tuple[Cluster | None, list[Problem]]:
    try:
        cluster = Cluster.model_validate(document.data, by_alias=True, by_name=False)
    except ValidationError as error:
        wrong = faults(error, document)
        problems = [report.of_fault(fault) for fault in wrong]
        remains = salvage(document.data)
        if remains is None:
            return None, problems
        # An unknown field that is like a valid one was meant to be that one: its default is not what the user wants.
        unknown = {fault.path for fault in wrong if fault.unknown}
        damaged = (remains.damaged - unknown) | {fault.meant for fault in wrong if fault.meant is not None}
        for finding in check(remains.cluster, damaged):
            path = remains.original(finding.path)
            if not any(place[: len(path)] == path or path[: len(place)] == place for place in damaged):
                also = tuple(remains.original(other) for other in finding.also)
                problems.append(
                    report.of_finding(
                        Finding(
                            path=path, message=finding.message, hint=finding.hint, warning=finding.warning, also=also
                        )
                    )
                )
        return None, problems
    return cluster, [report.of_finding(finding) for finding in check(cluster)]


def _literals(value: Any, path: Path) -> Iterator[tuple[Path, Secret]]:
    match value:
        case LiteralSecret():
            yield path, value.secret
        case Model():
            for name, info in type(value).model_fields.items():
                yield from _literals(getattr(value, name), (*path, str(info.alias)))
        case tuple():
            for index, part in enumerate(value):
                yield from _literals(part, (*path, index))
        case dict():
            for key, part in value.items():
                yield from _literals(part, (*path, key))


def _literal_warnings(cluster: Cluster, document: Document, report: _Reporter, *, exposed: bool) -> Iterator[Problem]:
    names = names_in(cluster)
    for path, secret in _literals(cluster, ()):
        place = document.place(path, key=True)
        if exposed:
            yield report.problem(
                place,
                path,
                "a secret stands in a file that others on this machine can read",
                "use `env:NAME`, `file:path` or `prompt`, or `chmod 600` the file",
                "warning",
            )
        if not is_maskable(secret, names):
            found = report.problem(
                place,
                path,
                "this secret cannot be masked in logs and output: it is too short or an ordinary word",
                "choose a longer one",
                "warning",
            )
            # What is left of a secret that should have been quoted may stand behind it, as a comment.
            yield replace(found, excerpt="", span=(0, 0))


def names_in(cluster: Cluster) -> frozenset[str]:
    """Names of the file that stand in all output: masking a secret of the same text would reveal it."""
    hosts = cluster.hosts
    users = {host.credentials.user for host in hosts} | {
        jump.credentials.user for host in hosts for jump in host.bastion
    }
    return frozenset({cluster.name, *cluster.groups, *users, *(host.name for host in hosts)})
