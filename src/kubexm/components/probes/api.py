"""The few things a measurement asks of the API, through whichever control plane answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from kubexm.components.api import Kubectl
from kubexm.components.probes.objects import ACCOUNT, LABEL, namespace_of
from kubexm.components.probes.observed import CONTAINERS
from kubexm.errors import KubexmError
from kubexm.redact import Secret
from kubexm.runtime import HostRuntime

__all__ = ["KubectlApi", "ProbeApi"]

TOKEN_SECONDS: Final = 3600
_KINDS: Final = "namespaces,clusterroles,clusterrolebindings"
_PATIENCE: Final = 20.0


class ProbeApi(Protocol):
    """What a measurement needs of the API."""

    async def apply(self, documents: Sequence[Mapping[str, Any]]) -> None:
        """Brings these objects."""
        ...

    async def token(self, mark: str) -> Secret:
        """A short-lived token for the account of a measurement."""
        ...

    async def service_address(self, mark: str) -> str:
        """The address of the probed service."""
        ...

    async def marks(self) -> set[str]:
        """The ids of all measurements that have objects in the cluster."""
        ...

    async def remove(self, mark: str) -> None:
        """Removes everything of a measurement, without waiting for it to be gone."""
        ...

    async def containers(self) -> str:
        """All pods with their containers, as `parse_containers` reads them."""
        ...

    async def images(self, node: str) -> list[str]:
        """The images a node has."""
        ...


class KubectlApi:
    """kubectl on the control planes, the first that answers."""

    def __init__(self, hosts: Sequence[HostRuntime]) -> None:
        self._hosts = list(hosts)

    async def apply(self, documents: Sequence[Mapping[str, Any]]) -> None:
        """Brings these objects."""
        await self._try("apply", documents)

    async def token(self, mark: str) -> Secret:
        """A token for an hour, straight from kubectl's output."""
        words = ("create", "token", ACCOUNT, "-n", namespace_of(mark), f"--duration={TOKEN_SECONDS}s")
        return Secret((await self._read(*words, display="ask for a token for the probe")).strip())

    async def service_address(self, mark: str) -> str:
        """Once it has one, which is when it is made."""
        words = ("get", "service", "replica", "-n", namespace_of(mark), "-o", "jsonpath={.spec.clusterIP}")
        return (await self._read(*words, display="ask for the address of the probed service")).strip()

    async def marks(self) -> set[str]:
        """From the labels of everything that is not in a namespace, and the namespaces."""
        output = f'jsonpath={{range .items[*]}}{{.metadata.labels.{LABEL.replace(".", chr(92) + ".")}}}{{"\\n"}}{{end}}'
        words = ("get", _KINDS, "-l", LABEL, "-o", output)
        return set((await self._read(*words, display="look for earlier measurements")).split())

    async def remove(self, mark: str) -> None:
        """Namespace, cluster role and binding."""
        await self._try("remove", mark)

    async def containers(self) -> str:
        """One line a pod."""
        return await self._read("get", "pods", "-A", "-o", CONTAINERS, display="note all containers")

    async def images(self, node: str) -> list[str]:
        """By name, digests left out."""
        words = ("get", "node", node, "-o", "jsonpath={.status.images[*].names[*]}")
        return [name for name in (await self._read(*words)).split() if "@" not in name]

    async def _read(self, *words: str, display: str = "") -> str:
        error: KubexmError | None = None
        for host in self._hosts:
            kubectl = Kubectl(host)
            try:
                result = await kubectl.read(*words, display=display, long=True)
            except KubexmError as found:
                error = found
                continue
            if result.ok:
                return result.text
            error = kubectl.error(result)
        raise error or _nobody()

    async def _try(self, what: str, argument: Any) -> None:
        """Changes through the first control plane that takes it; all of these may be done twice."""
        error: KubexmError | None = None
        for host in self._hosts:
            kubectl = Kubectl(host)
            try:
                if what == "apply":
                    await kubectl.apply(argument, display="bring what probes need", patience=_PATIENCE)
                else:
                    await kubectl.change(
                        *("delete", _KINDS, "-l", f"{LABEL}={argument}", "--ignore-not-found", "--wait=false"),
                        display="remove what probes needed",
                        patience=_PATIENCE,
                        hint=f"remove it by hand: `kubectl delete {_KINDS} -l {LABEL}={argument}`",
                    )
            except KubexmError as found:
                error = found
            else:
                return
        raise error or _nobody()


def _nobody() -> KubexmError:
    return KubexmError("no control plane of this cluster was reached", hint="`kubexm verify` tells what is wrong")
