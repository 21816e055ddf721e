"""Facts in, commands out: networks in firewalls and what was opened, the host's name, SELinux."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

import pytest

from kubexm.runner import Facts, Firewall, Naming, Opening, Selinux

PODS = Opening.network("10.244.0.0/16")


class TestNetworks:
    async def test_firewalld_trusts_them(self, recorder: Any, assumed: Facts) -> None:
        recorder.answers = ["firewalld", "no", ""]
        assert await Firewall(recorder, assumed).open([PODS])
        assert (
            "firewall-cmd -q --zone=trusted --add-source=10.244.0.0/16 && "
            "firewall-cmd -q --permanent --zone=trusted --add-source=10.244.0.0/16" in recorder.script
        )

    async def test_ufw_lets_them_in_and_through(self, recorder: Any, assumed: Facts) -> None:
        recorder.answers = ["ufw", "no", ""]
        assert await Firewall(recorder, assumed).open([PODS])
        for rule in ("allow from", "route allow from", "route allow to"):
            assert f"ufw {rule} 10.244.0.0/16 comment kubexm" in recorder.script

    async def test_plain_rules_let_them_in_and_through_until_the_unit_stops(
        self, recorder: Any, assumed: Facts
    ) -> None:
        recorder.answers = ["iptables", "", "changed", "changed", ""]
        assert await Firewall(recorder, assumed).open([PODS])
        script = next(c.stdin.decode() for c in recorder.commands if "firewall.sh" in c.display)
        opening, closing = script.partition("= close ]; then")[::2]
        del opening
        assert "for p in iptables ip6tables; do for c in INPUT FORWARD; do" in closing
        for rule in ("INPUT -s", "FORWARD -s", "FORWARD -d"):
            assert f"iptables -w -I {rule} 10.244.0.0/16" in closing
        assert "ip6tables -w" not in script
        unit = next(c.stdin.decode() for c in recorder.commands if "kubexm-firewall.service (" in c.display)
        assert "ExecStop=/bin/sh /var/lib/kubexm/firewall.sh close\n" in unit

    async def test_nftables_accept_where_things_come_in_and_where_they_go_through(
        self, recorder: Any, assumed: Facts
    ) -> None:
        recorder.answers = ["nftables", "", "changed", "changed", ""]
        await Firewall(recorder, assumed).open([Opening.network("fd00:1::/64")])
        script = next(c.stdin.decode() for c in recorder.commands if "firewall.sh" in c.display)
        assert "hook forward" in script
        assert "ip6 daddr fd00:1::/64 accept comment" in script

    def test_everything_from_everywhere_is_not_an_opening(self) -> None:
        with pytest.raises(ValueError, match="not an opening"):
            Opening(port=0)


class TestWhatWasOpened:
    async def test_it_is_noted_before_it_is_opened(self, recorder: Any, assumed: Facts) -> None:
        recorder.answers = ["ufw", "no\nyes", ""]
        await Firewall(recorder, assumed).open([Opening(port=6443), Opening(port=10250)])
        note, opening = "firewall 'ufw tcp 6443 - -' absent", "ufw allow 6443/tcp"
        assert recorder.script.index(note) < recorder.script.index(opening)
        assert "10250" not in recorder.script

    async def test_it_is_closed_again_from_the_notes(self, recorder: Any, assumed: Facts) -> None:
        notes = "ufw tcp 6443 - -\nfirewalld udp 30000 32767 10.0.0.0/8\nufw tcp 0 - 10.244.0.0/16"
        recorder.answers = [notes, ""]
        assert await Firewall(recorder, assumed).close_opened() == tuple(notes.split("\n"))
        script = recorder.script
        assert "if command -v ufw >/dev/null; then ufw delete allow 6443/tcp; fi" in script
        assert 'port port="30000-32767" protocol="udp" accept' in script
        assert "ufw route delete allow to 10.244.0.0/16" in script
        assert script.count('rm -rf -- "$kx_e"') == 3 + script.count('rm -rf -- "$kx_e"; }')

    async def test_nothing_opened_is_nothing_to_close(self, recorder: Any, assumed: Facts) -> None:
        recorder.answers = [""]
        assert await Firewall(recorder, assumed).close_opened() == ()
        assert not any(command.changes for command in recorder.commands)


class TestUndone:
    """Plain rules: what a run did to the unit that opens them."""

    @pytest.mark.parametrize("was", ["absent", "file 644 0 0 123"])
    async def test_the_unit_goes_or_opens_what_it_did(self, recorder: Any, assumed: Facts, was: str) -> None:
        unit, script = "/etc/systemd/system/kubexm-firewall.service", "/var/lib/kubexm/firewall.sh"
        kept = f"file\t{was}\t{unit}\nfile\t{was}\t{script}\nfile\tabsent\t/etc/other\n"
        down = ["", ""] if was == "absent" else []
        back = [f"restored\tfile\t{unit}\n", f"restored\tfile\t{script}\n"]
        recorder.answers = ["", kept, *down, *back]
        restored = await Firewall(recorder, assumed).undo(PurePosixPath("/run/1"))
        assert [item.name for item in restored] == [unit, script]
        done = [command.display for command in recorder.commands if command.changes]
        assert "/etc/other" not in str(done)
        first, last = f"{done[0]} {done[1]}", done[-1]
        if was == "absent":
            assert "stop kubexm-firewall.service" in first, "while its script is there, which closes"
            assert "disable kubexm-firewall.service" in first
        else:
            assert "stop" not in str(done)
            assert "restart kubexm-firewall.service" in last

    async def test_nothing_opened_is_nothing_to_undo(self, recorder: Any, assumed: Facts) -> None:
        recorder.answers = ["", "file\tabsent\t/etc/other\n"]
        assert await Firewall(recorder, assumed).undo(PurePosixPath("/run/1")) == ()
        assert not any(command.changes for command in recorder.commands)


class TestNaming:
    @pytest.mark.parametrize(
        ("answer", "reason"),
        [("n1\nn1", ""), ("localhost\nn1", "it is localhost"), ("n1\nold", "it is old after a reboot")],
    )
    async def test_now_and_after_a_boot(self, recorder: Any, assumed: Facts, answer: str, reason: str) -> None:
        recorder.answers = [answer]
        assert await Naming(recorder, assumed).why_not("n1") == reason

    async def test_the_old_name_is_kept(self, recorder: Any, assumed: Facts) -> None:
        recorder.answers = ["changed", ""]
        await Naming(recorder, assumed).call("n1")
        assert "hostname kernel" in recorder.script
        assert recorder.script.endswith("kx_name n1")

    async def test_names_are_checked(self, recorder: Any, assumed: Facts) -> None:
        with pytest.raises(ValueError, match="not a host's name"):
            await Naming(recorder, assumed).call("n1; reboot")


class TestSelinux:
    @pytest.mark.parametrize(
        ("answer", "reason"),
        [
            ("", ""),
            ("1\nenforcing", "it enforces"),
            ("0\nenforcing", "it enforces after a reboot"),
            ("0\npermissive", ""),
        ],
    )
    async def test_now_and_after_a_boot(self, recorder: Any, assumed: Facts, answer: str, reason: str) -> None:
        recorder.answers = [answer]
        assert await Selinux(recorder, assumed).why_not_permissive() == reason

    async def test_only_its_own_setting_is_changed(self, recorder: Any, assumed: Facts) -> None:
        config = "# SELINUX= can be enforcing\nSELINUX=enforcing\nSELINUXTYPE=targeted\n"
        recorder.answers = ["", config, config, "changed"]
        await Selinux(recorder, assumed).make_permissive()
        assert recorder.commands[-1].stdin == config.replace("=enforcing\n", "=permissive\n").encode()
