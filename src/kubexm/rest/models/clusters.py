"""Clusters, their specs, and what they were given."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, Field

from kubexm.rest.models.basics import FileName, In, Words, storable
from kubexm.rest.models.tasks import TaskOut
from kubexm.store.clusters import ClusterRecord, SpecRecord
from kubexm.store.tasks import Task

__all__ = [
    "BundleOut",
    "ClusterIn",
    "ClusterOut",
    "EditOut",
    "FactsOut",
    "FileOut",
    "SecretIn",
    "SecretOut",
    "SpecIn",
    "SpecOut",
    "ValidateIn",
    "Validation",
]

MOST_SPEC = 2 * 2**20
SPEC = """\
apiVersion: kubexm.io/v1alpha1
kind: Cluster
metadata: {name: demo}
spec:
  global: {user: ops, privateKey: "secret:key", sudoPassword: "secret:sudo"}
  hosts:
    - {name: n1, address: 10.0.0.11, hostKey: "SHA256:AbCdEfGhIjKlMnOpQrStUvWxYz0123456789abcdefg"}
  roleGroups: {etcd: [n1], controlPlane: [n1], worker: [n1]}
"""


class EditOut(BaseModel):
    """One difference between two versions of a spec."""

    path: str = Field(examples=["spec.kubernetes.apiServer.extraArgs"])
    old: Any = None
    new: Any = None
    kind: str = Field(description="live, upgrade, fixed, added or removed.", examples=["live"])
    note: str = ""


class ValidateIn(In):
    """A spec to be checked."""

    spec: str = Field(description="The cluster.yaml.", max_length=MOST_SPEC, examples=[SPEC])


class Validation(BaseModel):
    """Whether a spec is valid, and everything that is wrong or doubtful about it."""

    valid: bool
    name: str = Field(description="The name of the cluster; empty if there is none.")
    exists: bool = Field(default=False, description="True if there is a cluster of that name, as far as one may see.")
    problems: list[dict[str, Any]] = Field(description="Each with severity, line, column, path, message and hint.")
    secrets: list[str] = Field(default=[], description="Secrets it names.")
    files: list[str] = Field(default=[], description="Files it names.")
    edits: list[EditOut] = Field(default=[], description="What differs from the spec of the cluster of that name.")


class ClusterIn(In):
    """A cluster to be registered, with what its spec names."""

    spec: Annotated[str, AfterValidator(storable)] = Field(max_length=MOST_SPEC, examples=[SPEC])
    note: Words = Field(default="", examples=["the first one"])
    secrets: dict[FileName, str] = Field(
        default={}, description="Secrets, by the name the spec gives them.", examples=[{"sudo": "correct horse"}]
    )
    files: dict[FileName, str] = Field(
        default={}, description="Files in base64, by name.", examples=[{"known_hosts": "bjEgc3NoLWVkMjU1MTkgQUFBQQo="}]
    )


class ClusterOut(BaseModel):
    """A cluster that is registered."""

    name: str = Field(examples=["demo"])
    version: int = Field(description="Version of its spec.", examples=[1])
    state: str = Field(description="registered, up, partial or incomplete.", examples=["up"])
    created: float
    created_by: str
    updated: float
    task: TaskOut | None = Field(default=None, description="Its latest task.")
    missing_secrets: list[str] | None = Field(default=None, description="Secrets the spec names and nobody stored.")
    missing_files: list[str] | None = Field(default=None, description="Files the spec names and nobody uploaded.")

    @classmethod
    def of(cls, record: ClusterRecord, task: Task | None = None, **more: Any) -> ClusterOut:
        """As it goes out."""
        return cls(
            name=record.name,
            version=record.version,
            state=record.state,
            created=record.created,
            created_by=record.created_by,
            updated=record.updated,
            task=None if task is None else TaskOut.of(task),
            **more,
        )


class SpecIn(In):
    """A further version of a spec."""

    spec: Annotated[str, AfterValidator(storable)] = Field(max_length=MOST_SPEC, examples=[SPEC])
    note: Words = Field(default="", examples=["more workers"])
    version: int | None = Field(
        default=None, ge=1, le=2**31 - 1, description="The version that was edited; refused if it is not the newest."
    )


class SpecOut(BaseModel):
    """One version of a spec."""

    version: int
    text: str
    created: float
    created_by: str
    note: str
    edits: list[EditOut]

    @classmethod
    def of(cls, record: SpecRecord) -> SpecOut:
        """As it goes out."""
        return cls(
            version=record.version,
            text=record.text,
            created=record.created,
            created_by=record.created_by,
            note=record.note,
            edits=[EditOut(**each) for each in record.edits],
        )


class SecretIn(In):
    """A secret; it never comes out again."""

    value: str = Field(min_length=1, max_length=64 * 2**10, examples=["correct horse battery staple"])


class SecretOut(BaseModel):
    """That there is a secret."""

    name: str
    created: float
    created_by: str


class FileOut(BaseModel):
    """That there is a file."""

    name: str
    size: int
    created: float
    created_by: str


class BundleOut(BaseModel):
    """A bundle on the server that every spec may name."""

    name: str
    size: int


class FactsOut(BaseModel):
    """What one host last told about itself."""

    host: str
    time: float
    facts: dict[str, Any]
    error: str = Field(description="Why it could not be asked; empty if it was.")
