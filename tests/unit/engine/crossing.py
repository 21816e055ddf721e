"""Attempts whose questions and reports are sent through JSON: what does not survive that cannot cross a process."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from kubexm.cache import Key, Scope
from kubexm.engine.asked import Asked, Attempts, Fault, Report, needed_secrets
from kubexm.engine.attempts import LocalAttempts, Output
from kubexm.plan import ErrorInfo, ExecutionNode
from kubexm.plan.codec import decode, encode
from kubexm.redact import Secret
from kubexm.runtime import Context
from kubexm.step import Check


class Crossing(Attempts):
    """Encodes what is asked, decodes it, has it carried out in this process, and does the same with the report."""

    def __init__(self, ctx: Context, output: Output) -> None:
        self._inner = LocalAttempts(ctx, output)

    async def look(self, asked: Asked) -> Report:
        return _report(await self._inner.look(_asked(asked)))

    async def run(self, asked: Asked, receipts: str, *, seconds: float, readable: bool) -> Report:
        return _report(await self._inner.run(_asked(asked), receipts, seconds=seconds, readable=readable))

    async def settle(self, asked: Asked, receipts: str, *, boot_id: str, seconds: float, here: bool) -> Report:
        settled = await self._inner.settle(_asked(asked), receipts, boot_id=boot_id, seconds=seconds, here=here)
        return _report(settled)

    async def undo(self, asked: Asked, receipts: str, *, seconds: float) -> Report:
        return _report(await self._inner.undo(_asked(asked), receipts, seconds=seconds))

    def stop(self, node: str, host: str) -> None:
        self._inner.stop(node, host)


def _sent(data: Any) -> Any:
    """Over the wire and back."""
    return json.loads(json.dumps(data).encode())


def _asked(asked: Asked) -> Asked:
    data = _sent(
        {
            "node": encode(asked.node),
            "host": asked.host,
            "actor": asked.actor,
            "run": asked.run,
            "urgency": asked.urgency,
            "values": _pairs(asked.values),
            "notes": _pairs(asked.notes),
            "secrets": {name: secret.reveal() for name, secret in needed_secrets(asked).items()},
        }
    )
    return Asked(
        node=decode(data["node"], ExecutionNode),
        host=data["host"],
        actor=data["actor"],
        run=data["run"],
        urgency=data["urgency"],
        values=_mapping(data["values"]),
        notes=_mapping(data["notes"]),
        secrets={name: Secret(text) for name, text in data["secrets"].items()},
    )


def _report(report: Report) -> Report:
    check, fault = report.check, report.fault
    plain = {"done", "interrupted", "stdout", "stderr", "busy", "round_trips"}
    special = {"check", "values", "fault", "warnings", "notes", "kept"}
    assert {one.name for one in fields(Report)} == plain | special, "this test has to learn of a new field"
    data = _sent(
        {
            **{name: getattr(report, name) for name in plain},
            "check": None if check is None else [check.satisfied, _values(check.values), check.reason, check.diff],
            "values": _values(report.values),
            "fault": None if fault is None else [fault.info.to_dict(), fault.retry, fault.gone, fault.unknown],
            "warnings": list(report.warnings),
            "notes": _pairs(report.notes),
            "kept": {name: secret.reveal() for name, secret in report.kept.items()},
        }
    )
    looked, failed = data["check"], data["fault"]
    return Report(
        **{name: data[name] for name in plain},
        check=None if looked is None else Check(looked[0], _by_key(looked[1]), looked[2], looked[3]),
        values=_by_key(data["values"]),
        fault=None if failed is None else Fault(ErrorInfo(**failed[0]), failed[1], failed[2], failed[3]),
        warnings=tuple(data["warnings"]),
        notes=_mapping(data["notes"]),
        kept={name: Secret(text) for name, text in data["kept"].items()},
    )


def _pairs(values: Mapping[tuple[str, str], Any]) -> list[Any]:
    return [[name, host, _data(value)] for (name, host), value in values.items()]


def _mapping(pairs: list[Any]) -> dict[tuple[str, str], Any]:
    return {(name, host): _value(data) for name, host, data in pairs}


def _values(values: Mapping[Key[Any], Any]) -> list[Any]:
    return [
        [key.name, key.per_host, key.secret, key.expires, int(key.scope), _data(value)] for key, value in values.items()
    ]


def _by_key(items: list[Any]) -> dict[Key[Any], Any]:
    return {
        Key(name, per_host=per_host, secret=secret, expires=expires, scope=Scope(scope)): _value(data)
        for name, per_host, secret, expires, scope, data in items
    }


def _data(value: Any) -> Any:
    """A value as JSON that tells lists from tuples; anything that is not plain data goes as part of a plan would."""
    match value:
        case Secret():
            return {"secret": value.reveal()}
        case bytes():
            return {"bytes": base64.b64encode(value).decode()}
        case None | bool() | int() | float() | str():
            return value
        case list():
            return {"list": [_data(item) for item in value]}
        case tuple():
            return {"tuple": [_data(item) for item in value]}
        case Mapping():
            return {"map": [[_data(key), _data(item)] for key, item in value.items()]}
    return {"plan": encode(value)}


def _value(data: Any) -> Any:
    match data:
        case {"secret": text}:
            return Secret(text)
        case {"bytes": text}:
            return base64.b64decode(text)
        case {"list": items}:
            return [_value(item) for item in items]
        case {"tuple": items}:
            return tuple(_value(item) for item in items)
        case {"map": pairs}:
            return {_value(key): _value(item) for key, item in pairs}
        case {"plan": encoded}:
            return decode(encoded, object)
    return data
