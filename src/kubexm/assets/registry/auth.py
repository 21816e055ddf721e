"""How a registry wants to be asked: its challenges, tokens for them, and where a user's credentials come from."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kubexm.assets.transfer import Refused, check_status, shown_url, transport_errors
from kubexm.errors import AssetError
from kubexm.redact import Secret

if TYPE_CHECKING:
    import httpx

__all__ = ["Authenticator", "Challenge", "Credentials", "credentials_from_file"]

_PARAMETER = re.compile(r'([a-zA-Z_]+)=(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))')
_GOOD = frozenset({200})


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """A user and a password, or an access token in its place."""

    username: str
    password: Secret

    def basic(self) -> str:
        """The value of an Authorization header."""
        pair = f"{self.username}:{self.password.reveal()}"
        return "Basic " + base64.b64encode(pair.encode()).decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Challenge:
    """What a WWW-Authenticate header asks for."""

    scheme: str
    parameters: Mapping[str, str]

    @classmethod
    def parse(cls, header: str) -> Challenge:
        """The challenge in a header; its scheme is in lower case."""
        scheme, _, rest = header.strip().partition(" ")
        found = {
            match[1].lower(): (match[2] if match[2] is not None else match[3]) for match in _PARAMETER.finditer(rest)
        }
        return cls(scheme=scheme.lower(), parameters=found)


class Authenticator:
    """Answers one registry's challenges, and remembers the tokens it got."""

    def __init__(self, client: httpx.AsyncClient, url: str, credentials: Credentials | None) -> None:
        self._client = client
        self._registry = url.partition("://")[2]
        self._encrypted = url.startswith("https://")
        self._credentials = credentials
        self._tokens: dict[str, str] = {}
        self._basic = False

    def headers(self, scope: str) -> dict[str, str]:
        """What to send along, as far as it is known."""
        if scope in self._tokens:
            return {"Authorization": f"Bearer {self._tokens[scope]}"}
        if self._basic and self._credentials:
            return {"Authorization": self._credentials.basic()}
        return {}

    async def answer(self, response: httpx.Response, scope: str, sent: Mapping[str, str]) -> dict[str, str]:
        """The headers to ask once more with after a 401; Refused if there is nothing better to send."""
        challenge = Challenge.parse(response.headers.get("www-authenticate", ""))
        if challenge.scheme == "bearer":  # also when a token was sent: it may have expired
            self._tokens[scope] = await self._token(challenge, scope)
        elif challenge.scheme == "basic" and self._credentials and not sent:
            self._basic = True
        else:
            raise self.refused()
        return self.headers(scope)

    async def _token(self, challenge: Challenge, scope: str) -> str:
        realm = challenge.parameters.get("realm", "")
        if not realm.startswith(("http://", "https://")):
            raise AssetError(f"the registry {self._registry} asks for a token but does not say where to get it")
        if self._credentials and self._encrypted and realm.startswith("http://"):
            raise Refused(
                f"the registry {self._registry} wants the password sent to {shown_url(realm)} without encryption"
            )
        service = {"service": challenge.parameters["service"]} if "service" in challenge.parameters else {}
        query: dict[str, str | list[str]] = {"scope": scope.split(" "), **service}
        headers = {"Authorization": self._credentials.basic()} if self._credentials else {}
        async with transport_errors():
            response = await self._client.get(realm, params=query, headers=headers)
        if response.status_code in {401, 403}:
            raise self.refused()
        check_status(response, realm, good=_GOOD)
        try:
            document = response.json()
            token = document.get("token") or document.get("access_token")
        except (ValueError, AttributeError):
            token = None
        if not isinstance(token, str) or not token:
            raise AssetError(f"{shown_url(realm)} gave no token for the registry {self._registry}")
        return token

    def refused(self) -> Refused:
        """What to raise when the registry does not take what we have."""
        who = f"refuses the user {self._credentials.username!r}" if self._credentials else "wants a user and a password"
        return Refused(
            f"the registry {self._registry} {who}",
            hint="Give --user and --password (env:NAME or file:PATH), or --auth-file.",
        )


def credentials_from_file(path: Path) -> dict[str, Credentials]:
    """The users and passwords in a file as `docker login` writes it, by registry."""
    try:
        document = json.loads(path.read_bytes())
        entries = document.get("auths", {}).items()
    except OSError as error:
        raise AssetError(f"the auth file {path} cannot be read: {error.strerror}") from error
    except (ValueError, AttributeError):
        raise AssetError(f"the auth file {path} is not JSON as `docker login` writes it") from None
    found: dict[str, Credentials] = {}
    for name, entry in entries:
        host = re.sub(r"^https?://", "", str(name)).split("/")[0]
        host = "docker.io" if host in {"index.docker.io", "registry-1.docker.io"} else host
        user, password = _user_and_password(entry)
        if user:
            found[host] = Credentials(username=user, password=Secret(password))
    if not found and (document.get("credsStore") or document.get("credHelpers")):
        raise AssetError(
            f"{path} keeps its passwords in a credential helper, which kubexm does not ask",
            hint="Give --user and --password env:NAME instead.",
        )
    return found


def _user_and_password(entry: object) -> tuple[str, str]:
    if not isinstance(entry, dict):
        return "", ""
    if entry.get("username"):
        return str(entry["username"]), str(entry.get("password", ""))
    try:
        user, _, password = base64.b64decode(str(entry.get("auth", "")), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return "", ""
    return user, password
