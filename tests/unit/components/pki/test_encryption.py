"""Encryption at rest: one key for ever, whatever else changes; what was encrypted once stays readable."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubexm.components.pki.encryption import (
    EncryptionConfigKept,
    encryption_config,
    new_key,
    read_encryption_config,
)
from kubexm.errors import StepError
from kubexm.plan.codec import decode, encode
from kubexm.redact import Secret, SecretRef
from tests.unit.step.bench import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench.make(tmp_path)


def kept(bench: Bench) -> str:
    return bench.context.secrets.get(SecretRef("encryption-config")).reveal()


def step(*resources: str, enabled: bool = True, initialised: bool = False) -> EncryptionConfigKept:
    return EncryptionConfigKept(
        provider="secretbox", resources=resources or ("secrets",), enabled=enabled, initialised=initialised
    )


async def test_the_key_is_made_once_and_outlives_every_edit(bench: Bench) -> None:
    await bench.reach(step())
    key = read_encryption_config(kept(bench)).key
    for edited in (step("secrets", "configmaps"), step(enabled=False), step("configmaps"), step("*.*"), step()):
        await bench.reach(edited)
        assert read_encryption_config(kept(bench)).key == key
    assert bench.connector.commands == []


async def test_what_is_encrypted_no_longer_stays_readable(bench: Bench) -> None:
    await bench.reach(step("secrets", "configmaps"))
    await bench.reach(step("secrets"))
    assert kept(bench).index("- secrets") < kept(bench).index("- configmaps")
    first, second = kept(bench).split("- resources:")[1:]
    assert first.index("secretbox") < first.index("identity"), "written encrypted"
    assert second.index("identity") < second.index("secretbox"), "written plain, read either way"


async def test_switched_off_it_writes_plain_text_and_reads_both(bench: Bench) -> None:
    await bench.reach(step(enabled=False))
    assert kept(bench).index("identity") < kept(bench).index("secretbox")
    assert kept(bench).count("- resources:") == 1


async def test_a_cluster_that_exists_gets_no_new_key(bench: Bench) -> None:
    with pytest.raises(StepError, match="is not there"):
        await bench.check(step(initialised=True))
    bench.context.secrets.put("encryption-config", Secret("half of it"))
    with pytest.raises(StepError, match="cannot be read"):
        await bench.check(step(initialised=True))
    await bench.reach(step())


def test_wildcards_stand_for_what_they_cover() -> None:
    text = encryption_config("aescbc", new_key(), ("*.*", "secrets"), before=("secrets", "widgets.example.com"))
    assert read_encryption_config(text).resources == ("*.*",)
    text = encryption_config("aescbc", new_key(), ("secrets",), before=("*.*", "secrets"))
    assert read_encryption_config(text).resources == ("secrets", "*.*")
    text = encryption_config("aescbc", new_key(), ("*.apps",), before=("deployments.apps", "secrets"))
    assert read_encryption_config(text).resources == ("*.apps", "secrets")


@given(st.lists(st.sampled_from(["secrets", "configmaps", "*.*", "*.apps", "jobs.batch", "x.apps"]), max_size=4),
       st.lists(st.sampled_from(["secrets", "configmaps", "*.*", "*.apps", "jobs.batch", "x.apps"]), max_size=4),
       st.booleans())  # fmt: skip
def test_nothing_ever_becomes_unreadable(wanted: list[str], before: list[str], enabled: bool) -> None:
    key = new_key()
    found = read_encryption_config(
        encryption_config("secretbox", key, tuple(wanted), enabled=enabled, before=tuple(before))
    )
    assert found.key == key
    assert len(found.resources) == len(set(found.resources)) >= 1
    for kind in before:
        group = "*." + kind.partition(".")[2]
        assert {kind, group, "*.*"} & set(found.resources)


@pytest.mark.parametrize("text", ["", "a: [", "resources: 7", "resources: []", "apiVersion: v1", "- 1"])
def test_anything_else_is_no_configuration(text: str) -> None:
    with pytest.raises(ValueError, match=r"configuration|key"):
        read_encryption_config(text)


def test_a_key_of_the_wrong_length_is_refused() -> None:
    with pytest.raises(ValueError, match="wrong length"):
        read_encryption_config(encryption_config("secretbox", "c2hvcnQ=", ("secrets",)))


def test_it_is_plain_data() -> None:
    assert decode(encode(step()), EncryptionConfigKept) == step()
