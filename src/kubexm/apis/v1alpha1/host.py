"""Hosts, the defaults for all of them, and how to reach them. Must not know what they are used for."""

from __future__ import annotations

import base64
import binascii
import re
from datetime import timedelta
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BeforeValidator

from kubexm.apis.v1alpha1.base import EMPTY, Model, Outside, fixed, invalid, live, schema, shown
from kubexm.apis.v1alpha1.labels import Labels, Taint
from kubexm.apis.v1alpha1.networks import is_domain, parse_addresses, parse_ip
from kubexm.apis.v1alpha1.ranges import expand, expand_list
from kubexm.apis.v1alpha1.scalars import Duration, Flag, Port, text_of
from kubexm.apis.v1alpha1.secret import SecretSource
from kubexm.apis.v1alpha1.texts import FilePath, FilePathOrEmpty

__all__ = ["Bastion", "Global", "HostEntry", "Login"]

_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*")
_FINGERPRINT: Final = re.compile(r"SHA256:[A-Za-z0-9+/]{43}=?")
_PUBLIC_KEY: Final = re.compile(r"(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(256|384|521)) [A-Za-z0-9+/]+={0,3}( .*)?")


def _host_names(value: object) -> str:
    text = text_of(value, "the name of a host", "node1")
    for name in {*expand(text)[:1], *expand(text)[-1:]}:
        if len(name) > 63 or _NAME.fullmatch(name) is None:
            raise invalid(
                f"{shown(name)} is not a name for a host",
                f"did you mean `{text.lower().replace('_', '-')}`?"
                if _NAME.fullmatch(name.lower().replace("_", "-"))
                else "lower-case letters, digits, `-` and `.`, at most 63",
            )
    return text


def _addresses(value: object) -> str:
    text = text_of(value, "an address", "10.0.0.11")
    for part in (text,) if _in_brackets(text) else expand(text):
        _address(part)
    return text


def _in_brackets(text: str) -> bool:
    """An IPv6 address as URLs write it, which is no range."""
    return text.startswith("[") and text.endswith("]") and parse_ip(text[1:-1]) is not None


def _address(value: object) -> str:
    text = text_of(value, "an address", "10.0.0.11")
    if parse_ip(text) is None and not is_domain(text):
        hint = "an IP address or a DNS name, such as `10.0.0.11`"
        hint = f"did you mean `{text[1:-1]}`?" if _in_brackets(text) else hint
        raise invalid(f"{shown(text)} is not an address", hint)
    return text


def _internal_addresses(value: object) -> str:
    text = text_of(value, "an IP address", "10.0.0.11")
    if _in_brackets(text):
        raise invalid(f"{shown(text)} is not an IP address", f"did you mean `{text[1:-1]}`?")
    for part in expand_list(text):
        parse_addresses(part)
    return text


def _host_key(value: object) -> str:
    text = text_of(value, "a host key", "SHA256:…")
    if _FINGERPRINT.fullmatch(text) is None and not _is_public_key(text):
        raise invalid(
            f"{shown(text)} is not a host key",
            "write the fingerprint that `ssh-keygen -lf` prints (`SHA256:` and 43 characters) or the whole public key",
        )
    return text


def _is_public_key(text: str) -> bool:
    """Whether the base64 part decodes to a key of the type written before it."""
    if _PUBLIC_KEY.fullmatch(text) is None:
        return False
    kind, encoded = text.split()[:2]
    try:
        blob = base64.b64decode(encoded, validate=True)
    except binascii.Error:
        return False
    return blob[4:].startswith(kind.encode()) and int.from_bytes(blob[:4], "big") == len(kind) < len(blob) - 4


def _user(value: str) -> str:
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.@\\-]{0,255}", value) is None:
        raise invalid(f"{shown(value)} is not a user name")
    return value


HostNames = Annotated[str, BeforeValidator(_host_names), schema("name or range", minLength=1)]
Addresses = Annotated[str, BeforeValidator(_addresses), schema("address or range", minLength=1)]
Address = Annotated[str, BeforeValidator(_address), schema("address", minLength=1)]
InternalAddresses = Annotated[
    str, BeforeValidator(_internal_addresses), schema("IP address, pair or range", minLength=1)
]
HostKey = Annotated[
    str,
    BeforeValidator(_host_key),
    schema("host key", pattern=f"^(?:{_FINGERPRINT.pattern}|{_PUBLIC_KEY.pattern})$"),
]
User = Annotated[str, AfterValidator(_user)]
_CONNECTION = Outside.CONNECTION
_SECRET = Outside.SECRET


class Login(Model):
    """Who logs in, and how. What is not written here comes from spec.global.

    The key settings (privateKey, privateKeyPath, privateKeyPassphrase, certificatePath) are one group: writing
    privateKey or privateKeyPath here replaces the whole group of spec.global.
    """

    user: Annotated[User | None, live("User to log in as.", outside=_CONNECTION)] = None
    port: Annotated[Port | None, live("Port of the SSH server.", outside=_CONNECTION)] = None
    password: Annotated[
        SecretSource | None,
        live("Password for logging in: `env:NAME`, `file:path`, `prompt`, or a literal.", outside=_SECRET),
    ] = None
    private_key: Annotated[
        SecretSource | None,
        live(
            "Private key itself: `env:NAME`, `file:path`, or a literal. Not together with privateKeyPath.",
            outside=_SECRET,
        ),
    ] = None
    private_key_path: Annotated[
        FilePath | None,
        live(
            "File with the private key. `~` is your home; relative paths start at the directory of this file.",
            outside=_CONNECTION,
        ),
    ] = None
    private_key_passphrase: Annotated[
        SecretSource | None,
        live("Passphrase of the private key: `env:NAME`, `file:path`, `prompt`, or a literal.", outside=_SECRET),
    ] = None
    certificate_path: Annotated[
        FilePath | None, live("OpenSSH user certificate that goes with the private key.", outside=_CONNECTION)
    ] = None
    agent: Annotated[
        Flag | None,
        live(
            "Whether to use the keys of the SSH agent. Unset: only if no password and no private key is given.",
            outside=_CONNECTION,
        ),
    ] = None


class Bastion(Login):
    """A host on the way to the others. User, key and agent that are not written here are those of spec.global."""

    address: Annotated[Address, live("IP address or DNS name of the bastion.", outside=_CONNECTION)]
    port: Annotated[Port, live("Port of its SSH server.", outside=_CONNECTION)] = 22
    host_key: Annotated[
        HostKey | None,
        live("Pinned host key: its `SHA256:` fingerprint or the whole public key.", outside=_CONNECTION),
    ] = None


class Global(Login):
    """Defaults for every host."""

    user: Annotated[User, live("User to log in as. Needs root rights or sudo.", outside=_CONNECTION)] = "root"
    port: Annotated[Port, live("Port of the SSH server.", outside=_CONNECTION)] = 22
    sudo_password: Annotated[
        SecretSource | None,
        live(
            "Password for sudo: `env:NAME`, `file:path`, `prompt`, or a literal. Unset: sudo must not ask.",
            outside=_SECRET,
        ),
    ] = None
    connection_timeout: Annotated[Duration, live("How long connecting to a host may take.", outside=_CONNECTION)] = (
        timedelta(seconds=10)
    )
    bastion: Annotated[
        tuple[Bastion, ...],
        live("Chain of hosts to jump through, the one nearest to this machine first.", outside=_CONNECTION),
    ] = ()
    known_hosts_file: Annotated[
        FilePath, live("File of known host keys, in OpenSSH's format.", outside=_CONNECTION)
    ] = "~/.ssh/known_hosts"
    work_dir: Annotated[
        FilePathOrEmpty,
        live(
            "Directory on this machine for runs, logs and the cluster's PKI; below it each cluster has its own. "
            "Relative paths start at the directory of this file. Empty: `.kubexm` beside this file.",
            outside=_CONNECTION,
        ),
    ] = ""
    ignore_errors: Annotated[
        Flag,
        live("Treat every step as optional: failures are reported, and what follows goes on. For salvage work only."),
    ] = False


class HostEntry(Login):
    """A host, or as many hosts as the range in its name has members."""

    name: Annotated[
        HostNames,
        fixed("Name of the host and of its node. A range makes several hosts: `w[01:20]` is w01 to w20."),
    ]
    type: Annotated[
        Literal["ssh", "local"],
        live(
            "`ssh`: reached over the network. `local`: the machine kubexm runs on; needs no address.",
            outside=_CONNECTION,
        ),
    ] = "ssh"
    address: Annotated[
        Addresses | None,
        live(
            "IP address or DNS name to connect to. May hold a range as long as the name's: `10.0.0.[11:13]`. "
            "Required for `type: ssh`.",
            outside=_CONNECTION,
        ),
    ] = None
    internal_address: Annotated[
        InternalAddresses | None,
        fixed(
            "IP address the other hosts reach it by; for dual stack an IPv4 and an IPv6 one: `10.0.0.4,fd00::4`. "
            "Ranges as for address. Unset: the address; if that is a DNS name or the host is local, the address of its "
            "default route."
        ),
    ] = None
    sudo_password: Annotated[
        SecretSource | None, live("Password for sudo on this host. Unset: that of spec.global.", outside=_SECRET)
    ] = None
    connection_timeout: Annotated[
        Duration | None,
        live("How long connecting to this host may take. Unset: as in spec.global.", outside=_CONNECTION),
    ] = None
    bastion: Annotated[
        tuple[Bastion, ...] | None,
        live("Chain of hosts to jump through. Unset: that of spec.global; `[]`: none.", outside=_CONNECTION),
    ] = None
    host_key: Annotated[
        HostKey | None,
        live("Pinned host key: its `SHA256:` fingerprint or the whole public key.", outside=_CONNECTION),
    ] = None
    labels: Annotated[Labels, live("Labels of the node.")] = EMPTY
    taints: Annotated[tuple[Taint, ...], live("Taints of the node, as `key=value:Effect`.")] = ()
    arch: Annotated[
        Literal["amd64", "arm64"] | None,
        fixed("Architecture of the host. Unset: found on the host; needed for planning offline if not amd64."),
    ] = None
