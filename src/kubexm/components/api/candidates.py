"""The API servers of a cluster as candidates for a request: the first that answers, again while none does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from kubexm.components.api.credentials import NO_CREDENTIALS
from kubexm.components.api.failures import is_passing
from kubexm.components.api.servers import ControlPlane
from kubexm.connector import Connector
from kubexm.errors import ApiError, ApiUnavailable, CommandTimeout, ConnectError, ConnectionLost, HostError

__all__ = ["FIRST_WAIT", "Candidates"]

T = TypeVar("T")
FIRST_WAIT: Final = 0.2
_LONGEST_WAIT: Final = 3.0


class Candidates:
    """Control planes, the preferred one first; one that answered is preferred from then on."""

    def __init__(self, control_planes: Sequence[Connector], kubeconfig: str, patience: float) -> None:
        if not control_planes:
            raise ValueError("an API client needs a control plane to go through")
        self._servers = [ControlPlane(connector, kubeconfig) for connector in control_planes]
        self._patience = patience

    async def call(
        self,
        work: Callable[[ControlPlane], Awaitable[T]],
        patience: float | None,
        *,
        also: Callable[[ApiError], bool] = lambda error: False,
    ) -> T:
        """Does it with the first server that answers, and again for `patience` seconds while none does or `also`."""
        until = time.monotonic() + (self._patience if patience is None else patience)
        wait = 0.0
        while True:
            failures: list[HostError] = []
            for server in tuple(self._servers):
                try:
                    result = await work(server)
                except ApiError as error:
                    if not is_passing(error) and not also(error):
                        raise
                    failures.append(error)
                    wait = max(wait, error.retry_after)
                    if not is_passing(error):
                        break  # another server would say the same
                except (ConnectError, ConnectionLost, CommandTimeout) as error:
                    failures.append(error)
                else:
                    self._prefer(server)
                    return result
            if all(map(_is_final, failures)) or time.monotonic() + wait > until:
                raise _worst(failures)
            await asyncio.sleep(wait)
            wait = min(max(wait * 2, FIRST_WAIT), _LONGEST_WAIT)

    def _prefer(self, server: ControlPlane) -> None:
        """The server that answered is asked first from now on."""
        if self._servers[0] is not server:
            self._servers.remove(server)
            self._servers.insert(0, server)


def _is_final(error: HostError) -> bool:
    """True if asking again is pointless: the host is lost, or has no credentials."""
    if isinstance(error, ApiError):
        return error.reason == NO_CREDENTIALS
    return isinstance(error, ConnectError | ConnectionLost)


def _worst(failures: Sequence[HostError]) -> HostError:
    """What the user is told of servers none of which answered."""
    first = failures[0]
    if len(failures) == 1:
        return first
    lines = "".join(f"\n  {error.host}: {error.message}" for error in failures)
    return ApiUnavailable(f"no control plane's API server answers:{lines}", host=first.host, hint=first.hint)
