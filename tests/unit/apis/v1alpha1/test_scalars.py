from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from kubexm.apis.v1alpha1.execution import Execution
from kubexm.apis.v1alpha1.host import HostKey
from kubexm.apis.v1alpha1.scalars import (
    CountOrPercent,
    Duration,
    Memory,
    PortRange,
    format_duration,
    format_memory,
    parse_duration,
    parse_memory,
)
from kubexm.apis.v1alpha1.texts import DataDir, Schedule, Url


def why(kind: Any, value: object) -> tuple[str, str]:
    """Message and hint of the one error a value has."""
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(kind).validate_python(value)
    (error,) = caught.value.errors()
    return error["ctx"]["message"], error["ctx"]["hint"]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10s", 10),
        ("1h30m", 5400),
        ("500ms", 0.5),
        ("8760h", 31_536_000),
        ("2d", 172_800),
        ("1.5s", 1.5),
        ("1m1s1ms", 61.001),
    ],
)
def test_durations_are_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@given(st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=365 * 100)))
def test_a_duration_survives_being_written_and_read(value: timedelta) -> None:
    assert parse_duration(format_duration(value)) == value


@pytest.mark.parametrize("text", ["", "s", "10", "1h ", "-5s", "5s1h", "1,5s", "h1", "10 s", "9999999999999999h"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"duration|200 years"):
        parse_duration(text)


def test_a_duration_without_a_unit_says_what_to_write() -> None:
    assert why(Duration, 10) == ("a duration needs a unit, found the number `10`", "write `10s`, `10m` or `10h`")


def test_a_duration_of_nothing_is_refused() -> None:
    assert why(Duration, "0s")[0] == "a duration here must be longer than zero"


@pytest.mark.parametrize(
    ("text", "size"), [("1700Mi", 1_782_579_200), ("8Gi", 2**33), ("1.5Ki", 1536), ("2G", 2 * 10**9)]
)
def test_sizes_are_read(text: str, size: int) -> None:
    assert parse_memory(text) == size


@given(st.integers(min_value=1, max_value=2**50))
def test_a_size_survives_being_written_and_read(value: int) -> None:
    assert parse_memory(format_memory(value)) == value


@pytest.mark.parametrize("value", ["", "1700", "Mi", "1700mi", "1700 Mi", "-1Gi", True, None])
def test_what_is_no_size_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="memory or disk"):
        parse_memory(value)


def test_a_size_without_a_unit_says_what_to_write() -> None:
    assert why(Memory, 1700) == ("an amount of memory or disk needs a unit, found the number `1700`", "write `1700Mi`")


@pytest.mark.parametrize(
    ("value", "total", "meant"),
    [
        ("10%", 20, 2),
        ("10%", 19, 1),
        ("10%", 5, 1),
        ("10%", 2, 1),
        ("99%", 1, 0),
        ("100%", 7, 7),
        ("100%", 1, 1),
        ("0%", 5, 0),
        ("1%", 0, 0),
        (3, 20, 3),
        (3, 2, 2),
        (0, 9, 0),
    ],
)
def test_counts_and_shares(value: object, total: int, meant: int) -> None:
    assert CountOrPercent.parse(value).of(total) == meant


@pytest.mark.parametrize("value", ["10", "101%", "-1%", -1, True, 1.5, "%", None])
def test_what_is_no_count_is_refused(value: object) -> None:
    assert why(CountOrPercent, value)[1] == "write it like `2` or `10%`"


@pytest.mark.parametrize("value", [0, 3, "10%"])
def test_a_count_or_share_is_written_as_it_is_read(value: object) -> None:
    assert CountOrPercent.parse(value).written() == value


@pytest.mark.parametrize(
    ("value", "total", "allowed"), [(1, 5, 1), (3, 2, 2), ("1%", 5, 1), ("50%", 5, 2), ("9%", 1, 1)]
)
def test_at_least_one_node_may_be_unavailable(value: object, total: int, allowed: int) -> None:
    assert Execution.model_validate({"maxUnavailable": value}).unavailable_nodes(total) == allowed


@pytest.mark.parametrize("value", [0, "0%"])
def test_no_node_at_all_unavailable_is_refused(value: object) -> None:
    with pytest.raises(ValidationError, match=f"must be at least 1, found {value}"):
        Execution.model_validate({"maxUnavailable": value})


@given(st.integers(0, 100), st.integers(0, 10_000))
def test_a_share_is_never_more_than_the_whole(percent: int, total: int) -> None:
    assert 0 <= CountOrPercent.parse(f"{percent}%").of(total) <= total


def test_a_range_of_ports_knows_what_is_in_it() -> None:
    ports = PortRange.parse("30000-32767")
    assert 30000 in ports
    assert 32767 in ports
    assert 29999 not in ports
    assert str(ports) == "30000-32767"


@pytest.mark.parametrize("value", ["30000", "32767-30000", "0-5", "1-70000", "a-b", 30000])
def test_what_is_no_range_of_ports_is_refused(value: object) -> None:
    assert "range of ports" in why(PortRange, value)[0]


@pytest.mark.parametrize("text", ["0 3 * * *", "*/5 * * * *", "0 0 1,15 * 1-5", "", "59 23 31 12 7"])
def test_schedules(text: str) -> None:
    assert TypeAdapter(Schedule).validate_python(text) == text


@pytest.mark.parametrize(
    "text", ["0 3 * *", "60 3 * * *", "0 24 * * *", "0 0 0 * *", "5-1 * * * *", "*/0 * * * *", "daily"]
)
def test_what_is_no_schedule_is_refused(text: str) -> None:
    assert "schedule" in why(Schedule, text)[0]


@pytest.mark.parametrize("text", ["ftp://x", "mirror.example.com", "https://", "https://a b", "https://x:99999"])
def test_what_is_no_url_is_refused(text: str) -> None:
    assert why(Url, text)[1] == "write it like `https://mirror.example.com/v2`"


@pytest.mark.parametrize("text", ["https://joe:hunter2@mirror.example.com", "ftp://joe:hunter2@x"])
def test_a_password_in_a_url_is_refused_and_not_repeated(text: str) -> None:
    message, hint = why(Url, text)
    assert "hunter2" not in message + hint
    assert "must not hold" in message


@pytest.mark.parametrize(
    "path", ["/", "/var", "/etc", "/var/lib", "/var/lib/", "/proc/x", "/usr/local", "relative", "/a/../b/c"]
)
def test_a_directory_of_the_system_cannot_hold_data(path: str) -> None:
    assert "is a directory of the system" in why(DataDir, path)[0] or "absolute path" in why(DataDir, path)[0]


def test_a_directory_of_ones_own_can() -> None:
    assert TypeAdapter(DataDir).validate_python("/var/lib/etcd/") == "/var/lib/etcd"


_ED25519 = "AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"


@pytest.mark.parametrize("text", [f"ssh-ed25519 {_ED25519}", f"ssh-ed25519 {_ED25519} root@n1", "SHA256:" + "A" * 43])
def test_host_keys_are_fingerprints_or_whole_public_keys(text: str) -> None:
    assert TypeAdapter(HostKey).validate_python(text) == text


@pytest.mark.parametrize(
    "text",
    ["ssh-ed25519 AAAA", f"ssh-rsa {_ED25519}", f"ssh-ed25519 {_ED25519[:-1]}", "ssh-ed25519", "SHA256:AAAA", _ED25519],
)
def test_what_is_not_a_host_key_is_refused(text: str) -> None:
    assert "is not a host key" in why(HostKey, text)[0]
