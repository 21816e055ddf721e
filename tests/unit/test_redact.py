"""A secret does not show itself, and is masked wherever else it turns up."""

from __future__ import annotations

import copy
import pickle
from dataclasses import asdict, dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubexm.redact import MASK, Redactor, Secret, SecretRef, is_maskable


def test_only_reveal_gives_a_secret_out() -> None:
    secret = Secret("hunter22")
    for shown in (str(secret), repr(secret), f"{secret}", f"{secret!r}", repr([secret]), "%s" % secret):  # noqa: UP031
        assert "hunter22" not in shown
        assert MASK in shown
    assert secret.reveal() == "hunter22"


def test_a_secret_is_never_pickled_or_copied_into_plain_data() -> None:
    @dataclass
    class Holder:
        secret: Secret

    secret = Secret("hunter22")
    for spread in (pickle.dumps, copy.deepcopy, lambda one: asdict(Holder(one))):
        with pytest.raises(TypeError, match="never pickled"):
            spread(secret)


def test_secrets_compare_by_value() -> None:
    assert Secret("a") == Secret("a")
    assert Secret("a") != Secret("b")
    assert Secret("a") != "a"
    assert len({Secret("a"), Secret("a"), Secret("b")}) == 2


def test_a_digest_tells_secrets_apart_and_depends_on_its_key() -> None:
    assert Secret("a").digest(b"k") == Secret("a").digest(b"k")
    assert Secret("a").digest(b"k") != Secret("b").digest(b"k")
    assert Secret("a").digest(b"k") != Secret("a").digest(b"other")
    assert SecretRef("name") == SecretRef("name")


def test_text_without_secrets_is_left_alone() -> None:
    assert Redactor()("anything at all") == "anything at all"
    assert Redactor(["hunter22"])("nothing here") == "nothing here"
    assert Redactor(["hunter22"])("") == ""


def test_every_occurrence_is_masked() -> None:
    mask = Redactor(["hunter22", Secret("s3cret!")])
    assert mask("hunter22 and s3cret!, hunter22") == f"{MASK} and {MASK}, {MASK}"
    assert mask("xhunter22y") == f"x{MASK}y"


def test_each_line_of_a_long_secret_is_masked_by_itself() -> None:
    key = "-----BEGIN KEY-----\nAAAABBBB\nCCCC\n-----END KEY-----\n"
    mask = Redactor([key])
    assert mask(key) == MASK
    assert mask(key.strip()) == MASK
    assert mask("log: AAAABBBB") == f"log: {MASK}"
    assert "CCCC" not in mask("AAAABBBB\r\nCCCC\r\n")


PUBLIC = "-----BEGIN CERTIFICATE-----\nMIIBpublicpublicpublic\n-----END CERTIFICATE-----\n"


def test_certificates_are_no_secret() -> None:
    mask = Redactor(
        [PUBLIC, f"{PUBLIC}-----BEGIN EC PRIVATE KEY-----\nMHcCprivateprivate\n-----END EC PRIVATE KEY-----\n"]
    )
    assert mask(PUBLIC) == PUBLIC
    assert mask("it begins with -----BEGIN EC PRIVATE KEY-----") == "it begins with -----BEGIN EC PRIVATE KEY-----"
    assert mask("MHcCprivateprivate") == MASK


def test_of_kubernetes_own_files_only_what_is_secret_is_masked() -> None:
    config = 'apiVersion: v1\nkind: Config\nusers:\n- name: admin\n  user:\n    client-key-data: "LS0tLS1CRUdJTg=="\n'
    mask = Redactor([config, "apiVersion: x/v1\nresources:\n- keys:\n  - name: key1\n    secret: c2VjcmV0\n"])
    assert mask("kind: Config, - name: admin, - name: key1") == "kind: Config, - name: admin, - name: key1"
    assert mask("LS0tLS1CRUdJTg== c2VjcmV0") == f"{MASK} {MASK}"
    assert mask(config) == MASK


def test_long_and_short_secrets_meet() -> None:
    mask = Redactor(["0123456789abcdef-long", "0123456789abcdef", "f-lo", "x" * 40])
    assert mask("<0123456789abcdef-long>") == f"<{MASK}>"
    assert mask("<0123456789abcdef> f-lo " + "x" * 41) == f"<{MASK}> {MASK} {MASK}"
    assert mask("0123456789abcde") == "0123456789abcde"


def test_short_pieces_do_not_garble_everything() -> None:
    mask = Redactor(["no", "a\nb\nthe\nlong-enough"])
    assert mask("no banana, the end") == "no banana, the end"
    assert mask("say long-enough") == f"say {MASK}"


def test_secrets_that_overlap_or_contain_each_other_are_masked_whole() -> None:
    mask = Redactor(["abcdef-1", "ef-1ghij", "abcdefgh-long"])
    assert mask("abcdef-1ghij") == MASK, "one begins inside the other"
    assert mask("abcdefgh-long") == MASK
    assert mask("<abcdef-1>") == f"<{MASK}>"
    assert Redactor(["1a1a1a1a"])("1a1a1a1a1a1a!") == f"{MASK}!"


def test_characters_that_mean_something_elsewhere_mean_nothing_here() -> None:
    assert Redactor(["a.*b$("])("a.*b$( axxb") == f"{MASK} axxb"


def test_secrets_may_be_added_later() -> None:
    mask = Redactor()
    mask.add("hunter22")
    mask.add(Secret("hunter22"))
    assert mask("hunter22") == MASK


strong = st.text(alphabet="a1", min_size=8, max_size=10).filter(lambda text: not text.isalpha())


@given(
    secrets=st.lists(st.lists(strong, min_size=1, max_size=2).map("\n".join), max_size=4),
    text=st.text(alphabet="a1\n.", max_size=60),
)
def test_nothing_of_a_strong_secret_is_left(secrets: list[str], text: str) -> None:
    masked = Redactor(secrets)(text)
    for secret in secrets:
        assert secret not in masked
        assert not any(line in masked for line in secret.splitlines() if len(line) >= 4)
    covered = [False] * len(text)
    for part in {part for s in secrets for part in (s, s.strip(), *s.splitlines()) if len(part) >= 4}:
        for start in range(len(text)):
            if text.startswith(part, start):
                covered[start : start + len(part)] = [True] * len(part)
    rest = "".join(MASK if hidden else char for char, hidden in zip(text, covered, strict=True))
    assert masked.replace(MASK, "") == rest.replace(MASK, ""), "all else is as it was"


@pytest.mark.parametrize("weak", ["root", "abc", "hunter", "a1b2c3", "Tuesday"])
def test_weak_secrets_are_masked_as_words_only(weak: str) -> None:
    """Within names and words they would garble what is shown, and the garbling would reveal them."""
    mask = Redactor([weak])
    for text in (f"password: {weak}", f"({weak})", f"--password={weak}", f"{weak}.", f"user:{weak}@host", f"'{weak}'"):
        assert mask(text) == text.replace(weak, MASK)
    for text in (f"{weak}-1", f"n1.{weak}.example", f"{weak}.example.com", f"my{weak}", f"{weak}s", f"pre-{weak}"):
        assert mask(text) == text


def test_strong_secrets_are_masked_within_words_too() -> None:
    assert Redactor(["s3cr3t-pw"])("mysql -ps3cr3t-pw") == f"mysql -p{MASK}"


@pytest.mark.parametrize("value", ["", "x", "ab", "root", "Password", "node1"])
def test_what_masks_cannot_hide(value: str) -> None:
    assert not is_maskable(Secret(value), {"node1"})
    assert is_maskable(Secret("correct horse"), {"node1"})
