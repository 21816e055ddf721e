"""What was edited in the file since the cluster was last brought to it, judged before anything is planned.

The record on the control planes counts, since anybody may have applied the file last; without one, that of the work
directory. What an edit means stands in the model; here it is only said.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any

from kubexm.apis.v1alpha1 import Cluster, Edit, EditKind, edits, recorded
from kubexm.components import topology
from kubexm.components.identity.record import APPLIED
from kubexm.errors import ConfigError, FormatError
from kubexm.pipeline import Edits, accepting
from kubexm.runner import LAYOUT
from kubexm.runtime import Context

__all__ = ["judge_edits"]

_LASTING_ROLES = ("spec.roleGroups.etcd", "spec.roleGroups.controlPlane")
_LIVE_ROLE = "spec.roleGroups.worker"
"""A control plane that is a worker no longer gets a taint: that is applied."""


async def judge_edits(ctx: Context, accepts: Collection[Edits]) -> None:
    """Refuses edits that are not of these kinds, and reports hosts that are gone from the file and left as they are.

    With no kind at all the pipeline does not follow the file, and nothing is judged.
    """
    text = await _record(ctx) if accepts else ""
    if not text:
        return
    found = _edits(ctx, text)
    refused = [edit for edit in found if not _is_accepted(edit, accepts)]
    if refused:
        raise _refusal(ctx.cluster, refused)
    for edit in found:
        if edit.kind is EditKind.REMOVED and edit.path != _LIVE_ROLE and Edits.REMOVED not in accepts:
            ctx.logger.warning("%s", _left(edit))


def _is_accepted(edit: Edit, accepts: Collection[Edits]) -> bool:
    """True for what the pipeline applies, and for hosts that are gone, which it leaves alone."""
    if edit.kind is EditKind.FIXED:
        return False
    if edit.kind is EditKind.REMOVED and not _takes_lasting_role(edit):
        return True
    return Edits(edit.kind.value) in accepts


async def _record(ctx: Context) -> str:
    """What the cluster was last brought to; empty if it was not brought up yet."""
    here = ctx.work_dir.path / APPLIED
    if not ctx.offline:
        view = ctx.pipeline_context().for_module().for_task()
        if not topology.is_initialised(view):
            return ""
        for host in topology.joined_control_planes(view):
            runtime = ctx.host_runtimes.get(host.name)
            text = await runtime.files.text(runtime.runner.state / APPLIED) if runtime is not None else None
            if text:
                return text
    return here.read_text("utf-8") if here.exists() else ""


def _edits(ctx: Context, text: str) -> list[Edit]:
    try:
        data = json.loads(text)
        layout = data.pop("layout", 0) if isinstance(data, dict) else 0
        if layout > LAYOUT:
            raise FormatError(
                f"{APPLIED} of {ctx.cluster.name} has the layout {layout}, and this version of kubexm knows {LAYOUT}",
                hint="use the version of kubexm that last changed this cluster, or a newer one",
            )
        old = recorded(data)
    except ValueError as error:
        raise ConfigError(
            f"what {ctx.cluster.name} was last brought to cannot be read: {APPLIED} in {ctx.work_dir.path} and on its "
            "control planes",
            hint="was it written by a newer kubexm? Use that one; or remove these files if the file is as it was",
        ) from error
    return [edit for edit in edits(old, ctx.cluster) if not _says_what_was_so(edit)]


def _says_what_was_so(edit: Edit) -> bool:
    """True if the file now says, or no longer says, what was found on the host before."""
    return edit.path.endswith(".arch") and None in (edit.old, edit.new)


def _takes_lasting_role(edit: Edit) -> bool:
    return edit.kind is EditKind.REMOVED and edit.path in _LASTING_ROLES


def _refusal(cluster: Cluster, refused: Sequence[Edit]) -> ConfigError:
    lines = [f"the file of {cluster.name} was edited where the cluster cannot follow:"]
    for edit in refused:
        if edit.kind is EditKind.REMOVED:
            lines.append(f"  {edit.path}: {edit.old} is still in it: a role is not taken from a host that stays")
        else:
            lines.append(f"  {edit.path}: {_shown(edit.old)} → {_shown(edit.new)}{_note(edit)}")
    return ConfigError("\n".join(lines), hint=_hint(refused))


def _hint(refused: Sequence[Edit]) -> str:
    kinds = sorted({edit.kind for edit in refused})
    commands = [
        f"`{command}`" for kind in kinds if kind is not EditKind.FIXED for command in accepting(Edits(kind.value))
    ]
    if commands:
        return f"put the old values back, or apply the edits with {' or '.join(dict.fromkeys(commands))}"
    hint = "put the old values back"
    if EditKind.UPGRADE in kinds:
        hint += "; for another version make a new cluster, on hosts of its own or after `kubexm delete cluster`"
    return hint


def _left(edit: Edit) -> str:
    if edit.path.startswith("spec.roleGroups."):
        role = edit.path.rpartition(".")[2]
        return f"{edit.old} is no longer in roleGroups.{role}: what it runs as such is left as it is"
    name = edit.path.removeprefix("spec.hosts[").removesuffix("]")
    return f"{name} ({', '.join(edit.old) or 'no role'}) is gone from the file: it stays in the cluster, untouched"


def _note(edit: Edit) -> str:
    return f" ({edit.note})" if edit.note else ""


def _shown(value: Any) -> str:
    if value is None:
        return "unset"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
