"""Manifests as data: what YAML means to kubectl, object by object. Must not know a cluster or where the text is from.

Kubernetes reads YAML 1.1 as Go does it: `0644` is octal, `yes` and `y` are true, dates and times of day stay text.
"""

from __future__ import annotations

import hashlib
import json
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from kubexm.components.documents import rendered
from kubexm.errors import KubexmError

__all__ = ["LABEL", "ManifestObject", "Ref", "objects_of", "yaml_documents"]

LABEL: Final = "kubexm.io/applied"
"""On every object: the name of the manifests it came with."""

_BOOL: Final = {**dict.fromkeys(("y", "yes", "on", "true"), True), **dict.fromkeys(("n", "no", "off", "false"), False)}
_SECRETS: Final = frozenset({("", "Secret")})
_OF_THE_CLUSTER: Final = frozenset(
    {
        *("APIService", "CertificateSigningRequest", "ClusterRole", "ClusterRoleBinding", "CSIDriver", "CSINode"),
        *(
            "CustomResourceDefinition",
            "FlowSchema",
            "IngressClass",
            "MutatingWebhookConfiguration",
            "Namespace",
            "Node",
        ),
        *("PersistentVolume", "PriorityClass", "PriorityLevelConfiguration", "RuntimeClass", "StorageClass"),
        *("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "ValidatingWebhookConfiguration"),
    }
)
"""Kinds that have no namespace. Only for how things read: kubectl itself takes it off what has none."""


@dataclass(frozen=True, slots=True, order=True)
class Ref:
    """Which object: version apart, what the API knows it by."""

    group: str
    kind: str
    namespace: str
    """Empty for objects of the cluster; a manifest may name one all the same, which then means nothing."""
    name: str
    version: str = ""

    @property
    def api_version(self) -> str:
        """As manifests write it."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """What tells it from every other object: the version does not."""
        return self.group, self.kind, self.namespace, self.name

    def stub(self) -> dict[str, Any]:
        """The least kubectl needs to find it."""
        place = {"namespace": self.namespace} if self.namespace else {}
        return {"apiVersion": self.api_version, "kind": self.kind, "metadata": {"name": self.name, **place}}

    def means(self, other: Ref) -> bool:
        """True if the other, as the cluster has it, is the object this one names."""
        same = (self.group, self.kind, self.name) == (other.group, other.kind, other.name)
        return same and other.namespace in (self.namespace, "")

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Ref:
        """Of an object as the API or a manifest has it."""
        group, _, version = document["apiVersion"].rpartition("/")
        metadata = document["metadata"]
        return cls(group, document["kind"], metadata.get("namespace") or "", metadata["name"], version)


@dataclass(frozen=True, slots=True)
class ManifestObject:
    """One object of a manifest."""

    ref: Ref
    document: Mapping[str, Any]
    digest: str

    @property
    def secret(self) -> bool:
        """True if its data must not be shown."""
        return (self.ref.group, self.ref.kind) in _SECRETS


def objects_of(text: str, name: str, namespace: str = "default") -> tuple[ManifestObject, ...]:
    """Every object of a manifest, each with the label `name` and a namespace; KubexmError says what is wrong."""
    return _parsed(text, name, namespace)


@lru_cache(maxsize=64)
def _parsed(text: str, name: str, namespace: str) -> tuple[ManifestObject, ...]:
    found: dict[tuple[str, str, str, str], ManifestObject] = {}
    for number, document in enumerate(yaml_documents(text, name), 1):
        for item in _opened(document, f"{name}, document {number}"):
            made = _object(item, name, namespace, f"{name}, document {number}")
            if made.ref.identity in found:
                raise KubexmError(
                    f"{name}: {made.ref} is there twice", hint="one object has one manifest: remove one of the two"
                )
            found[made.ref.identity] = made
    return tuple(found.values())


def _object(document: Any, name: str, namespace: str, place: str) -> ManifestObject:
    if not isinstance(document, dict) or not document.get("kind") or not document.get("apiVersion"):
        raise KubexmError(
            f"{place}: this is no object of Kubernetes", hint="an object has apiVersion, kind and metadata"
        )
    metadata = document.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        raise KubexmError(
            f"{place}: this {document['kind']} has no metadata.name",
            hint="give it one; generateName cannot be applied again and again",
        )
    whole = {key: value for key, value in document.items() if key != "status"}
    place_in = {} if document["kind"] in _OF_THE_CLUSTER else {"namespace": metadata.get("namespace") or namespace}
    named = {"name": metadata["name"], **place_in}
    rest = {key: value for key, value in metadata.items() if key not in ("name", "namespace", "creationTimestamp")}
    whole["metadata"] = {**named, **rest, "labels": {**(metadata.get("labels") or {}), LABEL: name}}
    if document["kind"] == "Secret" and isinstance(whole.get("stringData"), dict):
        # As the API would turn it, but so that an entry that leaves the manifest leaves the cluster too.
        plain = {key: b64encode(str(value).encode()).decode() for key, value in whole.pop("stringData").items()}
        whole["data"] = {**(whole.get("data") or {}), **plain}
    text = json.dumps(whole, sort_keys=True, separators=(",", ":"))
    return ManifestObject(Ref.of(whole), whole, hashlib.sha256(text.encode()).hexdigest()[:32])


def _opened(document: Any, place: str) -> Iterator[Any]:
    if isinstance(document, dict) and str(document.get("kind", "")).endswith("List") and "items" in document:
        if not isinstance(document["items"], list):
            raise KubexmError(f"{place}: the items of a {document['kind']} are no list")
        for item in document["items"]:
            yield from _opened(item, place)
    elif document is not None:
        yield document


def yaml_documents(text: str, name: str) -> list[Any]:
    """The documents of a YAML stream as plain data; KubexmError says what is wrong, and where."""
    if (known := rendered(text)) is not None:
        return known
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    yaml = YAML(typ="safe", pure=True)
    yaml.version = (1, 1)
    yaml.Constructor = _constructor()
    try:
        return [_plain(document) for document in yaml.load_all(text)]
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark is not None else ""
        what = getattr(error, "problem", None) or str(error).partition("\n")[0]
        raise KubexmError(f"{name}{where}: this is no YAML: {what}") from error


@lru_cache(maxsize=1)
def _constructor() -> type:
    from ruamel.yaml.constructor import SafeConstructor

    class Constructor(SafeConstructor):
        """Scalars as Go's YAML has them."""

        def scalar(self, node: Any) -> Any:
            return _scalar(node.value)

        def text(self, node: Any) -> Any:
            # What YAML 1.1 of this library takes for text and Go's does not.
            odd = node.style is None and re.fullmatch(r"[yYnN]|[-+]?0[oO][0-7]+", node.value)
            return _scalar(node.value) if odd else node.value

    for tag in ("bool", "int", "float", "timestamp", "value", "null"):
        Constructor.add_constructor(f"tag:yaml.org,2002:{tag}", Constructor.scalar)
    Constructor.add_constructor("tag:yaml.org,2002:str", Constructor.text)
    return Constructor


def _scalar(text: str) -> Any:
    """A plain scalar: null, a boolean, a number, or else text."""
    if text in ("", "~") or text.lower() == "null":
        return None
    if text.lower() in _BOOL:
        return _BOOL[text.lower()]
    number = text.replace("_", "")
    if re.fullmatch(r"[-+]?0[0-7]+", number):
        return int(number, 8)
    if re.fullmatch(r"[-+]?(0|[1-9][0-9]*|0[xX][0-9a-fA-F]+|0[oO][0-7]+|0[bB][01]+)", number):
        return int(number, 0)
    if re.fullmatch(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", text):
        value = float(text)
        return int(value) if value.is_integer() and abs(value) < 1e21 else value
    return text


def _plain(value: Any) -> Any:
    """JSON data: keys are text."""
    match value:
        case dict():
            return {_key(key): _plain(item) for key, item in value.items()}
        case list():
            return [_plain(item) for item in value]
        case bytes():
            return value.decode(errors="replace")
    return value


def _key(key: Any) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    return "null" if key is None else str(key)
