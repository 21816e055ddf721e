"""Credentials from kubeconfigs."""

from __future__ import annotations

import base64

import pytest

from kubexm.components.api.credentials import credentials_of
from kubexm.errors import ApiError

WHOLE = """\
clusters:
- name: c
  cluster: {{server: "https://10.0.0.1:6443/", tls-server-name: kubernetes, certificate-authority-data: {ca}}}
users: [{{name: u, user: {{{user}}}}}]
contexts: [{{name: x, context: {{cluster: c, user: u}}}}, {{name: y, context: {{cluster: c, user: nobody}}}}]
current-context: {context}
"""


def text(user: str, context: str = "x") -> str:
    return WHOLE.format(ca=packed("the CA"), user=user, context=context)


def packed(value: str) -> str:
    return base64.b64encode(value.encode()).decode()


def test_the_current_context_says_who_and_where() -> None:
    user = f"client-certificate-data: {packed('cert')}, client-key-data: {packed('key')}"
    found = credentials_of(text(user), "n1")
    assert (found.url, found.authority, found.server_name) == ("https://10.0.0.1:6443", "10.0.0.1:6443", "kubernetes")
    assert (found.authority_pem, found.certificate_pem) == ("the CA", "cert")
    assert found.key_pem is not None
    assert found.key_pem.reveal() == "key"
    assert "key" not in repr(found.key_pem)
    assert found.token is None


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "[1, 2",
        text("token: t", context="y"),
        text("token: t", context="none"),
        text("client-certificate: /a/file, client-key: /very-secret"),
        text("client-certificate-data: '%%%', client-key-data: very-secret"),
        "very-secret: [",
    ],
)
def test_what_is_no_kubeconfig_is_refused_without_quoting_it(wrong: str) -> None:
    with pytest.raises(ApiError, match="admin.conf is no kubeconfig") as caught:  # noqa: RUF043
        credentials_of(wrong, "n1")
    assert "very-secret" not in f"{caught.value.message} {caught.value.hint} {caught.value.__cause__}"
    assert caught.value.host == "n1"
