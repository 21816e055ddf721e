"""Who may do what, who did what, and how the server is."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field

from kubexm.rest.models.basics import GrantName, In, RoleName, storable
from kubexm.store.audit import AuditEntry
from kubexm.store.tokens import Token

__all__ = [
    "AuditOut",
    "AuditReportOut",
    "Health",
    "LoginIn",
    "Readiness",
    "SessionOut",
    "TokenIn",
    "TokenMade",
    "TokenOut",
]


class TokenIn(In):
    """A token to be made."""

    name: Annotated[str, AfterValidator(storable)] = Field(min_length=1, max_length=100, examples=["ann"])
    grants: dict[GrantName, RoleName] = Field(
        min_length=1,
        max_length=1000,
        description="The role on each cluster; on `*`, on all that are not named.",
        examples=[{"*": "viewer", "demo": "operator"}],
    )
    expires: float | None = Field(default=None, ge=0, le=2**40, description="When it ends; null: never.")


class TokenOut(BaseModel):
    """A token, without its secret."""

    id: str
    name: str
    grants: dict[str, str]
    created: float
    created_by: str
    expires: float | None
    revoked: float | None
    used: float | None

    @classmethod
    def of(cls, token: Token) -> TokenOut:
        """As it goes out."""
        return cls(**{name: getattr(token, name) for name in cls.model_fields})


class TokenMade(TokenOut):
    """A new token: the only time it is shown."""

    token: str = Field(examples=["kx_0a1b2c3d4e5f_…"])


class LoginIn(In):
    """A token to log in with."""

    token: str = Field(min_length=1, max_length=200, examples=["kx_0a1b2c3d4e5f_…"])


class SessionOut(BaseModel):
    """Who one is."""

    name: str
    token: str = Field(description="The id of the token, not the token.")
    grants: dict[str, str]
    role: str = Field(description="The role on clusters that are not named.")
    expires: float | None
    csrf: str | None = Field(description="For those with a cookie: what to send as X-CSRF-Token with each change.")


class AuditOut(BaseModel):
    """One entry of the audit."""

    n: int
    time: float
    actor: str
    address: str
    action: str
    target: str
    outcome: str
    detail: dict[str, Any]
    hash: str

    @classmethod
    def of(cls, entry: AuditEntry) -> AuditOut:
        """As it goes out."""
        return cls(**{name: getattr(entry, name) for name in AuditEntry.__slots__})


class AuditReportOut(BaseModel):
    """Whether the chain of the audit is whole."""

    ok: bool
    entries: int
    head: str
    problem: str


class Health(BaseModel):
    """That the server is there."""

    status: Literal["ok"] = "ok"
    version: str


class Readiness(BaseModel):
    """Whether the server can do its work."""

    ready: bool
    database: str = Field(description="`ok`, or `away`.")
    disk: str = Field(description="`ok`, `full`, or `failed` if the data directory cannot be written to.")
    running: int
    waiting: int
