"""kubectl on a control plane: the way to the API that every cluster has. Must not know what is asked or applied.

Nothing is left on the host but kubectl's notes on which kinds there are, below /run/kubexm, which a reboot clears.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kubexm.components.topology import control_planes, joined_control_planes
from kubexm.connector import CommandResult, Host
from kubexm.connector.base import shell
from kubexm.errors import CommandError
from kubexm.runtime import HostRuntime, TaskContext

__all__ = ["ADMIN_CONF", "CACHE", "FIELD_MANAGER", "Kubectl", "api_hosts", "is_transient", "list_of", "through_api"]

ADMIN_CONF: Final = "/etc/kubernetes/admin.conf"
CACHE: Final = "/run/kubexm/kubectl"
FIELD_MANAGER: Final = "kubexm"

_TRANSIENT: Final = re.compile(
    r"connection (refused|reset|lost)|broken pipe|unexpected EOF|: EOF\b|i/o timeout|no route to host|handshake timeout"
    r"|context deadline exceeded|Client\.Timeout|request timed out|[Tt]imeout: request did not complete"
    r"|ServiceUnavailable|[Ss]ervice [Uu]navailable|server is currently unable to handle the request"
    r"|etcdserver: |leader changed|TooManyRequests|too many requests|has asked for the client to provide credentials"
    r"|apiserver not ready|InternalError|an error on the server|try again|not yet ready to handle request"
    r"|the object has been modified|http2: client connection|GOAWAY|use of closed network connection"
)
"""The API is away, starting, or busy."""
_LATER: Final = re.compile(
    r"no matches for kind|could not find the requested resource|resource mapping not found"
    r"|namespaces \"[^\"]*\" not found|because it is being terminated|object is being deleted"
    r"|failed calling webhook|no endpoints available for service"
)
"""Something the change stands on is not there yet, and may be in a moment."""
_FIRST_WAIT, _LONGEST_WAIT = 0.3, 3.0
_READ_PATIENCE = 5.0


def through_api(ctx: TaskContext) -> dict[str, Any]:
    """Where a node acts that goes through the API and concerns no single host: for `FragmentBuilder.add`."""
    return {"on": ctx.whole_cluster, "via": api_hosts(ctx)}


def api_hosts(ctx: TaskContext) -> tuple[Host, ...]:
    """The control planes through which the API is asked: those that were brought up before, or all of a new cluster."""
    return joined_control_planes(ctx) or control_planes(ctx)


def is_transient(result: CommandResult) -> bool:
    """True if the API was away or busy: the same is worth trying again."""
    return not result.ok and _TRANSIENT.search(result.error_text) is not None


def list_of(documents: Iterable[Mapping[str, Any]]) -> bytes:
    """Objects as kubectl takes them over stdin."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(documents)}).encode()


@dataclass(frozen=True, slots=True)
class Kubectl:
    """Runs kubectl as the cluster's administrator."""

    host: HostRuntime

    async def read(
        self,
        *words: str,
        stdin: bytes | None = None,
        display: str = "",
        patience: float = _READ_PATIENCE,
        within: float = 30.0,
        long: bool = False,
    ) -> CommandResult:
        """Asks, and again while the API is away, for `patience` seconds; gives the last answer, whatever it is."""
        until, wait = time.monotonic() + patience, _FIRST_WAIT
        while True:
            result = await self.host.command.read(
                self._command(words), stdin=stdin, within=within, check=False, long=long, display=_shown(words, display)
            )
            if not is_transient(result) or time.monotonic() + wait > until:
                return result
            await asyncio.sleep(wait)
            wait = min(wait * 2, _LONGEST_WAIT)

    async def change(
        self,
        *words: str,
        stdin: bytes | None = None,
        display: str = "",
        told: str = "",
        patience: float,
        hint: str = "",
    ) -> CommandResult:
        """Changes something, and again while the API is away or not ready for it, for `patience` seconds.

        Only for what may be done twice: apply, delete, label. Raises CommandError.
        """
        until, wait = time.monotonic() + patience, _FIRST_WAIT
        while True:
            result = await self.host.command.run(
                self._command(words), stdin=stdin, check=False, long=True, display=_shown(words, display), told=told
            )
            if result.ok:
                return result
            later = is_transient(result) or _LATER.search(result.error_text) is not None
            if not later or time.monotonic() + wait > until:
                raise self.error(result, hint=hint)
            await asyncio.sleep(wait)
            wait = min(wait * 2, _LONGEST_WAIT)

    async def apply(
        self,
        documents: Sequence[Mapping[str, Any]],
        *,
        display: str,
        patience: float,
        validate: bool = False,
        output: Sequence[str] = (),
    ) -> CommandResult:
        """Applies objects in kubexm's name, whoever changed them since. Raises CommandError.

        `output`: words that say what it prints of them. `validate`: a field the schema does not know is an error, which
        a server that has just started is busy with for longer than with all the rest.
        """
        return await self.change(
            *("apply", "--server-side", "--field-manager", FIELD_MANAGER, "--force-conflicts"),
            *(() if validate else ("--validate=false",)),
            *("-f", "-", *output),
            stdin=list_of(documents),
            patience=patience,
            display=display,
            told="\n".join(map(_applied, documents)) if output else "",
        )

    def error(self, result: CommandResult, *, hint: str = "") -> CommandError:
        """What a failed command means to the user."""
        return CommandError(
            host=self.host.name,
            command=result.command,
            exit_code=result.exit_code,
            stdout=result.text,
            stderr=result.error_text,
            hint=hint or _hint(result),
        )

    def _command(self, words: tuple[str, ...]) -> str:
        # What waits is one long request.
        limit = "0" if words[0] in ("wait", "rollout", "exec") else "20s"
        options = ("--kubeconfig", ADMIN_CONF, "--cache-dir", CACHE, "--request-timeout", limit)
        # It ends in a moment: collecting garbage meanwhile would be a quarter of what it costs.
        return f"GOGC=400 {shell('kubectl', *options, *words)}"


def _applied(document: Mapping[str, Any]) -> str:
    """As kubectl tells it, unless it is to print something else."""
    group = document["apiVersion"].rpartition("/")[0]
    kind = document["kind"].lower() + (f".{group}" if group else "")
    return f"{kind}/{document['metadata']['name']} serverside-applied"


def _shown(words: tuple[str, ...], display: str) -> str:
    return display or shell("kubectl", *words)


def _hint(result: CommandResult) -> str:
    text = result.error_text
    if is_transient(result):
        return f"is the API server of {result.host} up? `crictl ps -a` and `journalctl -u kubelet` there tell more"
    if "no matches for kind" in text or "resource mapping not found" in text:
        return "the cluster does not know this kind: apply its CustomResourceDefinition first"
    if "field is immutable" in text or "may not change" in text:
        return "this cannot be changed in place: delete the object with kubectl, then run this again"
    if "not found" in text and result.exit_code == 127:
        return "kubectl is missing on this host: run `create` again, which puts it there"
    return ""
