"""Where agents live on hosts, tried with a shell."""

from __future__ import annotations

import subprocess

from kubexm.components.probes.places import Places, parse_alive


def test_the_token_is_never_among_arguments_and_the_agent_has_no_rights() -> None:
    start = Places("abc").start()
    assert "token" not in start
    assert "CapabilityBoundingSet=" in start
    assert "NoNewPrivileges=yes" in start


def test_everything_of_a_measurement_is_removed_and_nothing_else() -> None:
    places = Places("abc")
    removed = places.remove()
    assert "/var/lib/kubexm/probes/abc /usr/local/bin/kubexm-probe-abc" in removed
    assert "systemctl stop kubexm-probe-abc-burn.service kubexm-probe-abc.service" in removed
    assert "rmdir /var/lib/kubexm/probes" in removed  # only if it is empty
    assert "*" not in removed


def test_what_is_sent_to_hosts_is_valid_shell() -> None:
    places = Places("abc")
    for text in (places.prepare(), places.start(), places.poll(), places.set_phase("a b"), places.remove()):
        subprocess.run(["sh", "-n", "-c", text], check=True)


def test_ages_of_measurements_are_read() -> None:
    assert parse_alive("abc 4\ndef 300\nabc -\nold -\n") == {"abc": 4, "def": 300, "old": None}
