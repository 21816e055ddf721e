"""What runs on top: storage, registries, addons. Must not know how they are brought in."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator

from kubexm.apis.v1alpha1.base import EMPTY, Model, Outside, invalid, live, section, shown
from kubexm.apis.v1alpha1.networks import parse_endpoint
from kubexm.apis.v1alpha1.scalars import Duration, Flag, FreeMapping
from kubexm.apis.v1alpha1.secret import SecretSource
from kubexm.apis.v1alpha1.texts import DataDir, FilePath, FilePathOrEmpty, Name, Url

__all__ = ["Addon", "Chart", "LocalPath", "Registry", "RegistryAuth", "Storage"]


def _registry(value: str) -> str:
    if parse_endpoint(value) is None:
        raise invalid(f"{shown(value)} is not a registry", "write host or host:port, like `docker.io`")
    return value


def _repository(value: str) -> str:
    host, _, path = value.partition("/")
    if value and (parse_endpoint(host) is None or re.fullmatch(r"([a-z0-9._-]+(/[a-z0-9._-]+)*)?", path) is None):
        raise invalid(f"{shown(value)} is not a place in a registry", "write it like `registry.example.com/kubernetes`")
    return value


def _hosts(value: object) -> object:
    for key in value if isinstance(value, dict) else ():
        if key != "*":
            _registry(key)
    return value


RegistryHost = Annotated[str, AfterValidator(_registry)]


class LocalPath(Model):
    """Volumes in a directory of the node a pod runs on."""

    enabled: Annotated[Flag, live("Whether the local-path provisioner is installed.")] = True
    default: Annotated[Flag, live("Whether its storage class is the default one.")] = True
    path: Annotated[DataDir, live("Directory for new volumes on each node.")] = "/opt/local-path-provisioner"


class Storage(Model):
    """Storage classes."""

    local_path: Annotated[LocalPath, section("Volumes in a directory of the node.")] = LocalPath()


class RegistryAuth(Model):
    """How to log in to a registry."""

    username: Annotated[str, live("User name.", outside=Outside.SECRET, min_length=1)]
    password: Annotated[
        SecretSource,
        live("Password or token: `env:NAME`, `file:path`, `prompt`, or a literal.", outside=Outside.SECRET),
    ]
    ca_file: Annotated[FilePathOrEmpty, live("CA certificate of the registry, on this machine.")] = ""


class Registry(Model):
    """Where images come from."""

    mirrors: Annotated[
        dict[str, tuple[Url, ...]],
        BeforeValidator(_hosts),
        live("For each registry the URLs to try first, in order; `*` stands for every registry."),
    ] = EMPTY
    auths: Annotated[
        dict[str, RegistryAuth], BeforeValidator(_hosts), live("Logins, by registry.", outside=Outside.SECRET)
    ] = EMPTY
    insecure: Annotated[
        tuple[RegistryHost, ...], live("Registries whose certificate is not checked, or that speak plain HTTP.")
    ] = ()
    private: Annotated[
        Annotated[str, AfterValidator(_repository)],
        live("Place that holds every image kubexm uses: `registry.example.com/kubernetes`. Empty: their usual places."),
    ] = ""


class Chart(Model):
    """A helm chart in a file."""

    path: Annotated[FilePath, live("Packed chart or directory, on this machine.")]
    release: Annotated[Name | None, live("Name of the release. Unset: the name of the addon.")] = None
    values: Annotated[FreeMapping, live("Values; they win over those of valuesFiles.")] = EMPTY
    values_files: Annotated[tuple[FilePath, ...], live("Files of values, later ones win.")] = ()


class Addon(Model):
    """Something of yours, applied once the cluster is up: manifests or one helm chart."""

    name: Annotated[Name, live("Name of the addon.")]
    manifests: Annotated[tuple[FilePath, ...], live("Manifests, files or directories, applied in order.")] = ()
    chart: Annotated[Chart | None, live("Helm chart from a file.")] = None
    namespace: Annotated[Name | None, live("Namespace for objects that name none; made if it does not exist.")] = None
    wait: Annotated[Duration | None, live("How long to wait until its workloads are ready. Unset: not at all.")] = None
