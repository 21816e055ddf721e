"""Facts in, commands out: what each group sends, and how it reads the answers."""

from __future__ import annotations

import dataclasses
from pathlib import PurePosixPath
from typing import Any

import pytest

from kubexm.errors import CommandError, ConnectError, HostKeyError, KubexmError, OutcomeUnknown, StepError
from kubexm.redact import Secret
from kubexm.runner import (
    Commands,
    Directories,
    Facts,
    Files,
    Firewall,
    Leases,
    Modules,
    ModuleState,
    Mounts,
    Opening,
    Packages,
    Ports,
    Power,
    Processes,
    Runner,
    Services,
    Sysctl,
    TimeSync,
    render,
)
from kubexm.runner.hints import hint_for
from kubexm.runner.mounts import parse_mounts

EVIL = "a'; touch /pwned; echo '"


class TestEveryGroup:
    def test_the_runner_gives_out_every_group(self, recorder: Any, assumed: Facts) -> None:
        names = [
            "command", "files", "directories", "archives", "users", "services", "packages", "sysctl", "modules", "swap",
            "hosts_file", "time", "mounts", "firewall", "ports", "processes", "power", "originals", "marker", "lease",
        ]  # fmt: skip
        runner = Runner(PurePosixPath("/elsewhere"))
        for name in names:
            group = getattr(runner, name)(recorder, assumed)
            assert (group.connector, group.facts, group.state) == (recorder, assumed, PurePosixPath("/elsewhere"))

    async def test_reads_change_nothing_and_are_one_command(self, recorder: Any, assumed: Facts) -> None:
        files, directories = Files(recorder, assumed), Directories(recorder, assumed)
        recorder.answers = ["x", "81a4 1 0 0 1 root root", "", "", "", "", (44, "", "")]
        await files.read("/a")
        await files.stat("/a")
        await files.matches("/a", content="x", mode=0o644, owner="root")
        await files.exists("/a")
        await files.links_to("/a", "b")
        await directories.matches("/a", mode=0o755)
        assert await directories.entries("/a") is None
        assert len(recorder.commands) == 7
        assert not any(command.changes for command in recorder.commands)

    async def test_changes_say_so_and_are_one_command(self, recorder: Any, assumed: Facts) -> None:
        files = Files(recorder, assumed)
        recorder.answers = ["changed", "changed", "same"]
        assert await files.write("/a", "x")
        assert await files.link("/a", "b")
        assert not await files.remove("/a")
        assert [command.changes for command in recorder.commands] == [True] * 3

    async def test_what_comes_in_is_quoted(self, recorder: Any, assumed: Facts) -> None:
        import shlex

        recorder.answers = ["changed", "1000:x", "", "unknown", "", ""]
        await Files(recorder, assumed).write(PurePosixPath("/") / EVIL, "x", owner=EVIL)
        await Commands(recorder, assumed).run(["echo", EVIL])
        await Mounts(recorder, assumed).unmount_below(PurePosixPath("/") / EVIL)
        for command in recorder.commands:
            assert "\n; touch" not in command.script
            assert "touch" not in shlex.split(command.script, comments=False)

    async def test_secrets_travel_by_stdin_only(self, recorder: Any, assumed: Facts) -> None:
        recorder.answers = ["changed", ""]
        await Files(recorder, assumed).write("/etc/key", Secret("hunter22"), mode=0o600)
        await Files(recorder, assumed).matches("/etc/key", content=Secret("hunter22"))
        for command in recorder.commands:
            assert "hunter22" not in command.script + command.display
        assert recorder.commands[0].stdin == b"hunter22"

    async def test_a_large_file_is_a_transfer(self, recorder: Any, assumed: Facts) -> None:
        await Files(recorder, assumed).write("/big", b"x" * 600_000, mode=0o600, owner="etcd", group="etcd")
        (upload,) = recorder.uploads
        assert (upload.mode, upload.owner, upload.group) == (0o600, "etcd", "etcd")
        assert recorder.commands[0].changes
        assert "kx_prepare" in recorder.script

    async def test_a_file_too_large_to_read_at_once(self, recorder: Any, assumed: Facts) -> None:
        class Truncating:
            def __getattr__(self, name: str) -> Any:
                return getattr(recorder, name)

            async def execute(self, command: Any) -> Any:
                return dataclasses.replace(await recorder.execute(command), truncated=True)

        with pytest.raises(StepError, match="too large"):
            await Files(Truncating(), assumed).read("/big")


class TestPackages:
    @pytest.mark.parametrize(
        ("manager", "words"),
        [
            ("apt", ["kx_use_apt", "--no-install-recommends", "DEBIAN_FRONTEND=noninteractive"]),
            ("dnf", ["kx_use_dnf", "dnf -y -q --setopt=install_weak_deps=False install"]),
            ("yum", ["kx_use_yum", "yum -y -q install"]),
            ("zypper", ["kx_use_zypper", "zypper --non-interactive --quiet install --no-recommends"]),
        ],
    )
    async def test_install(self, recorder: Any, assumed: Facts, manager: str, words: list[str]) -> None:
        recorder.answers = ["socat\nlibwrap0"]
        packages = Packages(recorder, dataclasses.replace(assumed, package_manager=manager))
        assert await packages.install(["socat"]) == ("socat", "libwrap0")
        assert recorder.commands[0].changes
        assert recorder.commands[0].long
        assert f"kx_use_{manager}\nkx_begin" in recorder.script
        for word in words:
            assert word in recorder.script

    async def test_installed(self, recorder: Any, assumed: Facts) -> None:
        recorder.answers = [
            "ii \tsocat\t1.7.4\nrc \tipset\t7.0\nhi \tcurl\t8",
            "ii\tsocat\t1.7-4.el9\npackage x is not installed",
        ]
        assert await Packages(recorder, assumed).installed(["socat", "ipset", "curl"]) == {
            "socat": "1.7.4",
            "curl": "8",
        }
        rpm = Packages(recorder, dataclasses.replace(assumed, package_manager="dnf"))
        assert await rpm.installed(["socat", "x"]) == {"socat": "1.7-4.el9"}
        assert await rpm.installed([]) == {}

    @pytest.mark.parametrize(
        ("output", "hint"),
        [
            ("E: Unable to locate package nope", "check its name"),
            ("Error: Unable to find a match: nope", "check its name"),
            ("No provider of 'nope' found.", "check its name"),
            ("Temporary failure resolving 'deb.example.org'", "mirror or proxy"),
            ('Error: There are no enabled repositories in "/etc/yum.repos.d".', "mirror or proxy"),
            ("E: dpkg was interrupted, you must manually run", "dpkg --configure -a"),
            ("error: needs 12MB more space on the / filesystem", "disk is full"),
        ],
    )
    async def test_hints(self, recorder: Any, assumed: Facts, output: str, hint: str) -> None:
        recorder.answers = [(100, "", output)]
        with pytest.raises(CommandError) as caught:
            await Packages(recorder, assumed).install(["nope"])
        assert hint in caught.value.hint

    async def test_a_lock_held_for_too_long(self, recorder: Any, assumed: Facts) -> None:
        recorder.answers = [(49, "", "E: Could not get lock /var/lib/dpkg/lock-frontend")]
        with pytest.raises(CommandError, match="held the lock all the time"):
            await Packages(recorder, assumed).remove(["x"])


class TestFirewall:
    OPENINGS = (
        Opening(port=6443),
        Opening(port=30000, to=32767, protocol="udp"),
        Opening(port=2379, to=2380, source="10.0.0.0/24"),
        Opening(port=10250, source="fd00::/64"),
    )

    async def test_none_needs_nothing(self, recorder: Any, assumed: Facts) -> None:
        recorder.answers = ["none"]
        assert not await Firewall(recorder, assumed).open(self.OPENINGS)
        assert len(recorder.commands) == 1

    async def test_firewalld(self, recorder: Any, assumed: Facts) -> None:
        recorder.answers = ["firewalld", "yes\nno\nno\nno", ""]
        assert await Firewall(recorder, assumed).open(self.OPENINGS)
        script = recorder.script
        assert "6443" not in script
        assert (
            "firewall-cmd -q --add-port=30000-32767/udp && firewall-cmd -q --permanent --add-port=30000-32767/udp"
            in script
        )
        assert 'rule family="ipv4" source address="10.0.0.0/24" port port="2379-2380" protocol="tcp" accept' in script
        assert 'family="ipv6" source address="fd00::/64"' in script

    async def test_ufw(self, recorder: Any, assumed: Facts) -> None:
        recorder.answers = ["ufw", "no\nno\nno\nyes", ""]
        assert await Firewall(recorder, assumed).open(self.OPENINGS)
        assert "ufw allow 6443/tcp comment kubexm" in recorder.script
        assert "ufw allow 30000:32767/udp comment kubexm" in recorder.script
        assert "ufw allow from 10.0.0.0/24 to any port 2379:2380 proto tcp comment kubexm" in recorder.script

    async def test_plain_rules_come_back_at_boot(self, recorder: Any, assumed: Facts) -> None:
        recorder.answers = ["iptables", "", "changed", "changed", ""]
        assert await Firewall(recorder, assumed).open(self.OPENINGS)
        _, _, script, unit, start = recorder.commands
        assert b"iptables -w -I INPUT -p tcp --dport 6443 -m comment --comment kubexm -j ACCEPT" in script.stdin
        assert b"ip6tables -w -I INPUT -p tcp -s fd00::/64 --dport 10250" in script.stdin
        assert b" iptables -w -I INPUT -p tcp -s fd00::/64" not in script.stdin
        assert b"ExecStart=/bin/sh /var/lib/kubexm/firewall.sh" in unit.stdin
        assert "restart kubexm-firewall.service" in start.display

    async def test_all_open_already(self, recorder: Any, assumed: Facts) -> None:
        recorder.answers = ["ufw", "yes\nyes\nyes\nyes"]
        assert not await Firewall(recorder, assumed).open(self.OPENINGS)

    @pytest.mark.parametrize(
        "bad",
        [
            {"port": 0},
            {"port": 5, "to": 4},
            {"port": 70000},
            {"port": 1, "protocol": "icmp"},
            {"port": 1, "source": EVIL},
        ],
    )
    def test_nonsense_is_refused(self, bad: dict[str, Any]) -> None:
        with pytest.raises(ValueError, match=r"opening|network"):
            Opening(**bad)


class TestPower:
    async def test_waits_for_another_boot(self, recorder: Any, assumed: Facts, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("kubexm.runner.power._PAUSE", 0)
        recorder.boots = ["one", "one", ConnectError("down"), ConnectError("down"), "two"]
        recorder.answers = [OutcomeUnknown("cut off"), "starting", "running"]
        await Power(recorder, assumed).reboot_and_wait(within=60)
        assert [command.changes for command in recorder.commands] == [True, False, False]

    async def test_gives_up(self, recorder: Any, assumed: Facts, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("kubexm.runner.power._PAUSE", 0)
        recorder.boots = ["one", ConnectError("no route to host")]
        with pytest.raises(StepError, match="did not come back within 0 s after a reboot: no route to host"):
            await Power(recorder, assumed).reboot_and_wait(within=0.05)

    async def test_another_host_at_its_address_is_not_waited_for(self, recorder: Any, assumed: Facts) -> None:
        recorder.boots = ["one", HostKeyError("the key changed")]
        with pytest.raises(HostKeyError):
            await Power(recorder, assumed).reboot_and_wait(within=60)


class TestTime:
    UNITS = (
        "Id=chrony.service\nLoadState=loaded\nActiveState=active\n\n"
        "Id=ntp.service\nLoadState=not-found\nActiveState=inactive\n"
    )
    TRACKING = "A,1.2.3.4,3,1.0,-0.25,0.1,0.1,0.1,0.1,0.1,0.1,0.1,64.0,Normal"

    async def test_chrony(self, recorder: Any, assumed: Facts) -> None:
        answer = f"{self.UNITS}\0{self.TRACKING}\0\0/usr/share/zoneinfo/UTC\0yes\n"
        recorder.answers = [answer]
        state = await TimeSync(recorder, assumed).look()
        assert (state.service, state.installed) == ("chrony.service", ("chrony.service",))
        assert (state.synchronized, state.offset, state.timezone) == (True, 0.25, "UTC")
        recorder.answers = [answer, "pool x iburst\n"]
        assert not await TimeSync(recorder, assumed).uses(["10.0.0.1"])
        recorder.answers = [answer, "pool x iburst\n", "changed", ""]
        await TimeSync(recorder, assumed).use(["10.0.0.1"])
        assert recorder.commands[-2].stdin is not None
        assert b"server 10.0.0.1 iburst prefer\n" in recorder.commands[-2].stdin
        assert "restart chrony.service" in recorder.commands[-1].display
        assert "/etc/chrony/chrony.conf" in recorder.commands[-1].script

    async def test_timesyncd(self, recorder: Any, assumed: Facts) -> None:
        answer = "Id=systemd-timesyncd.service\nLoadState=loaded\nActiveState=active\n\0\0yes\0\0yes"
        settings = "# Managed by kubexm.\n[Time]\nNTP=a.example b.example\n"
        recorder.answers = [answer, settings]
        assert await TimeSync(recorder, assumed).uses(["a.example", "b.example"])
        recorder.answers = [answer, "changed", ""]
        await TimeSync(recorder, assumed).use(["a.example", "b.example"])
        assert recorder.commands[-2].stdin == settings.encode()
        recorder.answers = [answer]
        with pytest.raises(ValueError, match="not time servers"):
            await TimeSync(recorder, assumed).use(["a\nb"])


class TestOddsAndEnds:
    async def test_services_need_systemd(self, recorder: Any, assumed: Facts) -> None:
        bare = dataclasses.replace(assumed, is_assumed=False, init="runit", systemd=type(assumed.systemd)())
        recorder.answers = [(3, "", "System has not been booted with systemd")]
        with pytest.raises(StepError, match="init is runit, not systemd"):
            await Services(recorder, bare).runs_with("etcd")

    async def test_unit_names(self, recorder: Any, assumed: Facts) -> None:
        for name in ("../etc/passwd", "a b", "x;y"):
            with pytest.raises(ValueError, match="not a unit"):
                await Services(recorder, assumed).runs_with(name)
        assert recorder.commands == []

    async def test_modules_known_as_built_in_need_no_modprobe(self, recorder: Any, assumed: Facts) -> None:
        kernel = dataclasses.replace(assumed.kernel, builtin=("overlay",))
        recorder.answers = ["missing\nloadable"]
        states = await Modules(recorder, dataclasses.replace(assumed, kernel=kernel)).states(["overlay", "vxlan"])
        assert states == {"overlay": ModuleState.BUILTIN, "vxlan": ModuleState.LOADABLE}

    async def test_sysctl_reads_all_at_once(self, recorder: Any, assumed: Facts) -> None:
        rows = "/proc/sys/net/ipv4/ip_forward:1\n/proc/sys/net/ipv4/tcp_rmem:4096\t87380   6291456\n"
        recorder.answers = [f"{rows}\0"]
        values = await Sysctl(recorder, assumed).read(["net.ipv4.ip_forward", "a.b", "net.ipv4.tcp_rmem"])
        assert values == {"net.ipv4.ip_forward": "1", "a.b": None, "net.ipv4.tcp_rmem": "4096 87380 6291456"}
        assert len(recorder.commands) == 1
        with pytest.raises(ValueError, match="not a kernel parameter"):
            await Sysctl(recorder, assumed).read(["../../etc/passwd"])

    async def test_processes_with_odd_names(self, recorder: Any, assumed: Facts) -> None:
        fields = " ".join(str(n) for n in range(3, 53))
        first = f"==> /proc/7/stat <==\n7 (a) b (c) S 1 {fields}\n\n==> /proc/7/cmdline <==\n/bin/x\0-a\0b c\0\n"
        second = f"\n==> /proc/8/stat <==\n8 (kthreadd) S 0 {fields}\n\n==> /proc/8/cmdline <==\n"
        recorder.answers = [first + second]
        one, two = await Processes(recorder, assumed).list()
        assert (one.name, one.parent, one.arguments, one.command) == (
            "a) b (c",
            1,
            ("/bin/x", "-a", "b c"),
            "/bin/x -a b c",
        )
        assert (two.command, two.started) == ("[kthreadd]", one.started)

    async def test_ports_without_ss(self, recorder: Any, assumed: Facts) -> None:
        table = "==> /proc/net/tcp <==\n  sl  local\n   0: 00000000:1F90 00000000:0000 0A 0:0 00:0 0 0 0 77 1\n"
        recorder.answers = [f"proc\n{table}\0/proc/5/fd:\nl 3 -> socket:[77]\n\0/proc/5/comm:web\n"]
        (port,) = await Ports(recorder, assumed).listening()
        assert (port.port, port.address, port.process, port.pid) == (8080, "0.0.0.0", "web", 5)

    def test_mountinfo(self) -> None:
        line = "36 35 98:0 /mnt1 /mnt\\0402 rw,noatime master:1 shared:2 - ext3 /dev/root rw,errors=continue"
        (mount,) = parse_mounts(line)
        assert (mount.path, mount.root, mount.source, mount.type, mount.options[0]) == (
            "/mnt 2", "/mnt1", "/dev/root", "ext3", "rw",
        )  # fmt: skip

    async def test_a_lease_needs_names(self, recorder: Any, assumed: Facts) -> None:
        with pytest.raises(ValueError, match="owner and a run"):
            await Leases(recorder, assumed).acquire(owner="", run="r", ttl=1)

    def test_hints(self) -> None:
        assert "disk is full" in hint_for("cp: error writing: No space left on device")
        assert "read-only" in hint_for("touch: Read-only file system")
        assert hint_for("something else") == ""


class TestTemplates:
    def test_values_filters_and_blank_lines(self) -> None:
        text = "{% for n in names %}\n- {{ n | json }} {{ n | quote }}\n{% endfor %}\nend\n"
        assert render(text, names=["a b", 'c"']) == '- "a b" \'a b\'\n- "c\\"" \'c"\'\nend\n'

    def test_a_missing_value_is_an_error_with_its_place(self) -> None:
        with pytest.raises(KubexmError, match=r"kubelet\.yaml, line 2: 'node' is undefined"):
            render("a: 1\nb: {{ node }}\n", template_name="kubelet.yaml")
        with pytest.raises(KubexmError, match=r"x, line 3"):
            render("a\nb\n{% if %}", template_name="x")
