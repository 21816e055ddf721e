"""Users, archives, kernel, mounts, processes and the rest, on a real system."""

from __future__ import annotations

import hashlib
import io
import socket
import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

import pytest

from kubexm.errors import CommandError, StepError
from kubexm.runner import (
    LAYOUT,
    Archives,
    ClusterMarker,
    Commands,
    Directories,
    Facts,
    Files,
    HostsFile,
    Marker,
    Modules,
    ModuleState,
    Mounts,
    Originals,
    Outcome,
    Ports,
    Processes,
    Reach,
    Swap,
    Sysctl,
    TimeSync,
    Users,
)

W = PurePosixPath("/scratch")


def archive(*members: tuple[tarfile.TarInfo, bytes], mode: str = "w:gz") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as tar:  # type: ignore[call-overload]
        for info, data in members:
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def member(name: str, data: bytes = b"", *, mode: int = 0o644, link: str = "", kind: bytes = b"") -> Any:
    info = tarfile.TarInfo(name)
    info.mode = mode
    if link:
        info.type, info.linkname = tarfile.SYMTYPE, link
    if kind:
        info.type = kind
    return info, data


class TestArchives:
    async def test_extract(self, sandbox: Any, facts: Facts) -> None:
        archives, files = Archives(sandbox, facts), Files(sandbox, facts)
        data = archive(
            member("top/bin/tool", b"\x7fELF", mode=0o4755),
            member("top/share/doc", b"text"),
            member("top/bin/alias", link="tool"),
        )
        digest = hashlib.sha256(data).hexdigest()
        sandbox.sh("mkdir -p /scratch/local/bin && echo old >/scratch/local/bin/tool")
        await files.write(W / "a.tar.gz", data)
        assert await archives.members(W / "a.tar.gz") == ("top/bin/tool", "top/share/doc", "top/bin/alias")
        assert not await archives.extracted(digest, W / "local", strip_components=1)
        assert await archives.extract(W / "a.tar.gz", W / "local", strip_components=1, sha256=digest)
        assert await archives.extracted(digest, W / "local", strip_components=1)
        assert await files.matches(W / "local/bin/tool", content=b"\x7fELF", mode=0o755, owner="root")
        assert await files.links_to(W / "local/bin/alias", "tool")
        assert not await archives.extract(W / "a.tar.gz", W / "local", strip_components=1, sha256=digest)
        assert sandbox.sh("ls -A /scratch/local").split() == ["bin", "share"]
        sandbox.sh("echo edited >/scratch/local/share/doc")
        assert not await archives.extracted(digest, W / "local", strip_components=1)
        await files.remove(W / "local/share/doc", keep=False)
        restored = {r.name: r.outcome for r in await Originals(sandbox, facts).restore()}
        assert restored["/scratch/local/bin/tool"] is Outcome.RESTORED
        assert restored["/scratch/local/share"] is Outcome.RESTORED
        assert sandbox.sh("cat /scratch/local/bin/tool; ls -A /scratch/local") == "old\nbin\n"

    @pytest.mark.parametrize(
        "evil",
        [
            member("../outside", b"x"),
            member("/scratch/absolute", b"x"),
            member("a/../../outside", b"x"),
            member("link", link="/etc"),
            member("link", link="../../etc"),
            member("sub/pipe", kind=tarfile.FIFOTYPE),
        ],
        ids=["parent", "absolute", "inner-parent", "absolute-link", "relative-link", "fifo"],
    )
    async def test_an_archive_cannot_reach_outside(self, sandbox: Any, facts: Facts, evil: Any) -> None:
        await Files(sandbox, facts).write(W / "evil.tar", archive(member("good", b"g"), evil, mode="w"))
        with pytest.raises(CommandError) as caught:
            await Archives(sandbox, facts).extract(W / "evil.tar", W / "into/deep")
        assert "Do not trust" in caught.value.hint
        assert sandbox.sh("cd /scratch && find . | sort").split() == [".", "./evil.tar", "./into", "./into/deep"]

    async def test_damage_is_noticed(self, sandbox: Any, facts: Facts) -> None:
        data = archive(member("f", b"x" * 100_000))
        await Files(sandbox, facts).write(W / "a.tar.gz", data[:-40])
        with pytest.raises(CommandError, match="damaged"):
            await Archives(sandbox, facts).extract(W / "a.tar.gz", W / "x", sha256=hashlib.sha256(data).hexdigest())
        with pytest.raises(CommandError):
            await Archives(sandbox, facts).extract(W / "a.tar.gz", W / "x")
        assert sandbox.sh("ls -A /scratch/x") == ""

    async def test_formats(self, sandbox: Any, facts: Facts, runner: Any) -> None:
        real = await runner.gather_facts(sandbox)
        sandbox.sh("cd /scratch && echo hi >f && tar -cJf a.tar.xz f && tar -I zstd -cf a.tar.zst f && tar -cf a.tar f")
        for name in ("a.tar.xz", "a.tar.zst", "a.tar"):
            assert await Archives(sandbox, real).extract(W / name, W / "out" / name)
            assert await Files(sandbox, real).text(W / "out" / name / "f") == "hi\n"
        assert not facts.has_command("zstd")
        bare = Facts.from_dict({**real.to_dict(), "commands": []})
        with pytest.raises(StepError, match="needs zstd"):
            await Archives(sandbox, bare).extract(W / "a.tar.zst", W / "x")


class TestUsers:
    async def test_user_and_group(self, sandbox: Any, facts: Facts) -> None:
        users = Users(sandbox, facts)
        assert await users.user("etcdx") is None
        assert await users.ensure_group("etcdx", gid=977)
        assert not await users.ensure_group("etcdx")
        assert await users.ensure_user("etcdx", group="etcdx", home="/var/lib/etcdx", groups=("adm",))
        assert not await users.ensure_user("etcdx", group="etcdx", home="/var/lib/etcdx", groups=("adm",))
        user = await users.user("etcdx")
        assert user is not None
        assert (user.gid, user.home, user.shell, user.groups) == (
            977,
            "/var/lib/etcdx",
            "/usr/sbin/nologin",
            ("adm", "etcdx"),
        )
        assert await users.ensure_user("etcdx", home="/elsewhere")
        group = await users.group("adm")
        assert group is not None
        assert group.members == ("etcdx",)
        restored = {(r.kind, r.outcome) for r in await Originals(sandbox, facts).restore()}
        assert ("user", Outcome.RESTORED) in restored  # which takes the group of the same name with it
        assert await users.user("etcdx") is None
        assert await users.group("etcdx") is None

    async def test_removing(self, sandbox: Any, facts: Facts) -> None:
        users = Users(sandbox, facts)
        await users.ensure_user("shortlived", keep=False)
        assert await users.remove_user("shortlived")
        assert not await users.remove_user("shortlived")
        with pytest.raises(ValueError, match="not a name"):
            await users.ensure_user("Robert'); drop")


class TestKernel:
    def _own_parameters(self, sandbox: Any) -> None:
        """Parameters of this machine are those of the sandbox as well: without this a test would change them."""
        sandbox.sh("mkdir -p /scratch/vm && echo 60 >/scratch/vm/swappiness && mount --bind /scratch/vm /proc/sys/vm")
        assert sandbox.sh("ls /proc/sys/vm").split() == ["swappiness"]

    async def test_sysctl(self, sandbox: Any, facts: Facts) -> None:
        sysctl = Sysctl(sandbox, facts)
        self._own_parameters(sandbox)
        values = await sysctl.read(["vm.swappiness", "vm/swappiness", "no.such.key", "net.ipv4.ip_local_port_range"])
        assert values["vm.swappiness"] == values["vm/swappiness"] == "60"
        assert values["no.such.key"] is None
        assert len((values["net.ipv4.ip_local_port_range"] or "").split(" ")) == 2
        assert not await sysctl.matches({"vm.swappiness": 10})
        assert await sysctl.apply({"vm.swappiness": 10})
        assert await sysctl.matches({"vm.swappiness": 10})
        assert not await sysctl.matches({"vm.swappiness": 11})
        assert not await sysctl.apply({"vm.swappiness": 10})
        assert await sysctl.apply({"vm.swappiness": "20"})
        assert sandbox.sh("cat /etc/sysctl.d/99-zz-kubexm.conf") == "# Managed by kubexm.\nvm.swappiness = 20\n"
        restored = {r.name: r.outcome for r in await Originals(sandbox, facts).restore()}
        assert restored["vm/swappiness"] is Outcome.RESTORED
        assert await sysctl.read(["vm.swappiness"]) == {"vm.swappiness": "60"}
        assert sandbox.sh("ls /etc/sysctl.d").find("kubexm") == -1

    async def test_a_parameter_that_is_wanted_no_more_goes_back(self, sandbox: Any, facts: Facts) -> None:
        sysctl, originals, run = Sysctl(sandbox, facts), Originals(sandbox, facts), PurePosixPath("/var/lib/kubexm/run")
        self._own_parameters(sandbox)
        await sysctl.apply({"vm.swappiness": 10})
        await sysctl.apply({"vm.swappiness": 20})
        assert await sysctl.left_over(["vm.swappiness", "net.ipv4.ip_local_port_range"]) == {
            "vm.swappiness": ("20", "60")
        }
        assert await sysctl.apply({}, dropped=("vm.swappiness",), snapshot=run)
        assert await sysctl.read(["vm.swappiness"]) == {"vm.swappiness": "60"}
        assert sandbox.sh("cat /etc/sysctl.d/99-zz-kubexm.conf") == "# Managed by kubexm.\n"
        assert await sysctl.left_over(["vm.swappiness"]) == {}
        (restored,) = await originals.restore_parameters(["vm.swappiness"], under=run)
        assert restored.outcome is Outcome.RESTORED
        assert await sysctl.read(["vm.swappiness"]) == {"vm.swappiness": "20"}

    async def test_an_unknown_sysctl_changes_nothing(self, sandbox: Any, facts: Facts) -> None:
        with pytest.raises(CommandError, match=r"no such kernel parameter: net\.nope") as caught:
            await Sysctl(sandbox, facts).apply({"net.nope": 1})
        assert "br_netfilter" in caught.value.hint
        assert "kubexm" not in sandbox.sh("ls /etc/sysctl.d")

    async def test_modules(self, sandbox: Any, runner: Any) -> None:
        real = await runner.gather_facts(sandbox)
        modules = Modules(sandbox, real)
        states = await modules.states(["overlay", "no_such_module"])
        assert states["overlay"].present
        assert states["no_such_module"] is ModuleState.MISSING
        if states["overlay"] is ModuleState.BUILTIN:
            assert await modules.matches(["overlay"])
            assert not await modules.ensure(["overlay"])
            assert not await Files(sandbox, real).exists("/etc/modules-load.d/kubexm.conf")

    async def test_loading_modules(self, sandbox: Any, facts: Facts) -> None:
        """With a modprobe and a /proc/modules of our own, since this kernel may load none."""
        fake = '#!/bin/sh\n[ "$2" != bad_module ] || exit 1\necho "$2 1 0" >>/scratch/modules\n'
        await Files(sandbox, facts).write("/usr/sbin/modprobe", fake, mode=0o755)
        sandbox.sh(
            "touch /scratch/modules && r=$(uname -r) && mkdir -p /lib/modules/$r"
            " && echo 'kernel/net/my-mod.ko.xz: kernel/a.ko' >/lib/modules/$r/modules.dep"
        )
        modules = Modules(_ProcModules(sandbox), facts)
        assert await modules.states(["my-mod"]) == {"my-mod": ModuleState.LOADABLE}
        assert not await modules.matches(["my-mod"])
        assert await modules.ensure(["my-mod"])
        assert await modules.matches(["my-mod"])
        assert not await modules.ensure(["my-mod"])
        assert sandbox.sh("cat /etc/modules-load.d/kubexm.conf") == "# Managed by kubexm.\nmy_mod\n"
        with pytest.raises(CommandError, match="bad_module cannot be loaded"):
            await modules.ensure(["bad_module"])


class _ProcModules:
    """The sandbox, with a /proc/modules of its own."""

    def __init__(self, sandbox: Any) -> None:
        self._sandbox = sandbox

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sandbox, name)

    async def execute(self, command: Any) -> Any:
        import dataclasses

        script = command.script.replace("/proc/modules", "/scratch/modules")
        return await self._sandbox.execute(dataclasses.replace(command, script=script))


class TestSwapAndHosts:
    async def test_swap_in_fstab(self, sandbox: Any, facts: Facts) -> None:
        sandbox.sh("printf '/dev/a / ext4 defaults 0 1\\n/swap.img none swap sw 0 0\\n# old swap swap\\n' >/etc/fstab")
        swap = Swap(sandbox, facts)
        assert (await swap.look()).configured == ("/swap.img",)
        assert await swap.off()
        assert (await swap.look()).configured == ()
        assert not await swap.off()
        assert "# switched off by kubexm: /swap.img none swap sw 0 0" in sandbox.sh("cat /etc/fstab")
        await Originals(sandbox, facts).restore()
        assert (await swap.look()).configured == ("/swap.img",)

    async def test_hosts(self, sandbox: Any, facts: Facts) -> None:
        sandbox.sh("printf '127.0.0.1 localhost\\n' >/scratch/h && cp /scratch/h /etc/hosts")
        hosts = HostsFile(sandbox, facts)
        entries = {"10.0.0.1": ["n1", "n1.cluster.local"], "fd00::1": ["n1-six"]}
        assert not await hosts.matches(entries)
        assert await hosts.ensure(entries)
        assert await hosts.matches(entries)
        assert not await hosts.ensure(entries)
        sandbox.sh("echo '10.9.9.9 mine' >>/etc/hosts")
        assert await hosts.ensure({"10.0.0.2": ["n2"]})
        text = sandbox.sh("cat /etc/hosts")
        assert text.startswith("127.0.0.1 localhost\n# begin kubexm")
        assert text.endswith("# end kubexm\n10.9.9.9 mine\n")
        assert await hosts.clear()
        assert sandbox.sh("cat /etc/hosts") == "127.0.0.1 localhost\n10.9.9.9 mine\n"
        sandbox.sh("echo '# begin kubexm (managed by kubexm)' >>/etc/hosts")
        with pytest.raises(StepError, match="damaged"):
            await hosts.ensure(entries)
        with pytest.raises(ValueError, match="not host names"):
            await hosts.ensure({"10.0.0.1": ["a\n10.0.0.2 b"]})


class TestMountsAndDirectories:
    async def test_mounts(self, sandbox: Any, facts: Facts) -> None:
        mounts = Mounts(sandbox, facts)
        sandbox.sh("echo '# my fstab' >/etc/fstab")
        assert await mounts.mount("tmpfs", W / "a b/c", fstype="tmpfs", options=("size=1m",), persist=True)
        assert await mounts.mounted(W / "a b/c", source="tmpfs", persist=True)
        assert not await mounts.mounted(W / "a b/c", source="/dev/sdz")
        assert await mounts.mount("tmpfs", W / "a b/c/sub", fstype="tmpfs")
        assert not await mounts.mount("tmpfs", W / "a b/c/sub", fstype="tmpfs")
        assert [m.path for m in await mounts.list(W)] == ["/scratch/a b/c", "/scratch/a b/c/sub"]
        assert await mounts.unmount_below(W / "a b")
        assert not await mounts.unmount_below(W / "a b")
        assert await mounts.list(W) == ()
        assert await mounts.unmount(W / "a b/c", persist=True)
        assert sandbox.sh("cat /etc/fstab") == "# my fstab\n"

    async def test_a_busy_mount_is_an_error_that_says_so(self, sandbox: Any, facts: Facts) -> None:
        await Mounts(sandbox, facts).mount("tmpfs", W / "m", fstype="tmpfs")
        argv = [
            "nsenter",
            "-t",
            str(sandbox.pid),
            "-m",
            "chroot",
            str(sandbox.root),
            "sh",
            "-c",
            "cd /scratch/m; sleep 60",
        ]
        holder = subprocess.Popen(argv)
        try:
            await _until(lambda: "/scratch/m" in sandbox.sh(f"readlink /proc/{holder.pid}/cwd"))
            with pytest.raises(CommandError) as caught:
                await Mounts(sandbox, facts).unmount(W / "m")
            assert "fuser" in caught.value.hint
        finally:
            holder.kill()
            holder.wait()

    async def test_directories(self, sandbox: Any, facts: Facts) -> None:
        directories = Directories(sandbox, facts)
        assert await directories.entries(W / "d") is None
        assert await directories.ensure(W / "d/e", mode=0o700, owner="daemon")
        assert not await directories.ensure(W / "d/e", mode=0o700, owner="daemon")
        assert await directories.matches(W / "d/e", mode=0o700, owner="daemon", group="root")
        assert not await directories.matches(W / "d/e", mode=0o755)
        sandbox.sh("touch /scratch/d/e/.hidden '/scratch/d/e/a b' /scratch/d/e/..c && printf x >/scratch/file")
        assert await directories.entries(W / "d/e") == ("..c", ".hidden", "a b")
        with pytest.raises(CommandError, match="is not a directory"):
            await directories.ensure(W / "file")
        sandbox.sh("mkdir -m 700 /scratch/real && ln -s real /scratch/alias")
        assert await directories.ensure(W / "alias", mode=0o755)
        assert await directories.matches(W / "alias", mode=0o755)
        await Originals(sandbox, facts).restore_path(W / "real")
        assert await directories.matches(W / "real", mode=0o700)
        assert await directories.remove(W / "d")
        assert not await directories.remove(W / "d")
        for path in ("/", "/etc", "/var/lib"):
            with pytest.raises(ValueError, match="never removed"):
                await directories.remove(path)


class TestMarkerAndTime:
    async def test_marker(self, sandbox: Any, facts: Facts, runner: Any) -> None:
        marker = Marker(sandbox, facts)
        assert await marker.read() is None
        mine = ClusterMarker(
            uid="u", name="prod", ca_fingerprint="sha256:aa", roles=("etcd", "worker"), details={"v": "1"}
        )
        assert await marker.write(mine)
        assert not await marker.write(mine)
        written = replace(mine, layout=LAYOUT)
        assert await marker.read() == written
        assert (await runner.gather_facts(sandbox)).marker == written
        assert await marker.remove()
        assert await marker.read() is None

    async def test_timezone(self, sandbox: Any, facts: Facts) -> None:
        time = TimeSync(sandbox, facts)
        sandbox.sh("mkdir -p /usr/share/zoneinfo/Europe && touch /usr/share/zoneinfo/Europe/Vienna")
        assert await time.set_timezone("Europe/Vienna")
        assert not await time.set_timezone("Europe/Vienna")
        assert (await time.look()).timezone == "Europe/Vienna"
        with pytest.raises(StepError, match="knows no time zone"):
            await time.set_timezone("Europe/Atlantis")

    async def test_no_time_service_is_an_error_that_says_what_to_do(self, sandbox: Any, facts: Facts) -> None:
        with pytest.raises(StepError, match="no time service"):
            await TimeSync(sandbox, facts).use(["10.0.0.1"])


@pytest.fixture
def listener() -> Iterator[int]:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(8)
        yield server.getsockname()[1]


class TestPortsAndProcesses:
    @pytest.mark.parametrize("with_ss", [True, False])
    async def test_ports(self, sandbox: Any, facts: Facts, listener: int, with_ss: bool) -> None:
        if not with_ss:
            sandbox.sh("rm -f /bin/ss /sbin/ss /usr/bin/ss /usr/sbin/ss")
        ports = Ports(sandbox, facts)
        taken = await ports.taken(listener)
        assert taken is not None
        assert (taken.address, taken.process.startswith(("python", "pytest"))) == ("127.0.0.1", True)
        assert await ports.taken(listener, address="127.0.0.2") is None
        assert await ports.taken(listener, protocol="udp") is None

    async def test_reach(self, sandbox: Any, facts: Facts, listener: int) -> None:
        ports = Ports(sandbox, facts)
        assert await ports.reach("127.0.0.1", listener) is Reach.OPEN
        assert await ports.reach("127.0.0.1", 1) is Reach.REFUSED
        with pytest.raises(ValueError, match="does not appear"):
            await ports.reach("not an address", 1)

    async def test_processes(self, sandbox: Any, facts: Facts) -> None:
        processes = Processes(sandbox, facts)
        stubborn = subprocess.Popen(
            ["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1; done"], stdout=subprocess.PIPE
        )
        polite = subprocess.Popen(["sleep", "1000"])
        try:
            assert stubborn.stdout is not None
            assert stubborn.stdout.readline() == b"ready\n"
            known = {p.pid: p for p in await processes.list()}
            assert known[polite.pid].arguments == ("sleep", "1000")
            assert known[polite.pid] in await processes.named("sleep")
            other_start = Processes(sandbox, facts)
            import dataclasses

            assert not await other_start.end([dataclasses.replace(known[polite.pid], started=1)])
            assert polite.poll() is None
            ending = await processes.end([known[polite.pid], known[stubborn.pid]], grace=0.4)
            assert ending
            assert (polite.wait(), stubborn.wait()) == (-15, -9)
            assert not await processes.end([known[polite.pid]])
        finally:
            for process in (stubborn, polite):
                if process.poll() is None:
                    process.kill()
                    process.wait()
            if stubborn.stdout is not None:
                stubborn.stdout.close()


class TestCommands:
    async def test_commands(self, sandbox: Any, facts: Facts) -> None:
        commands = Commands(sandbox, facts)
        assert (await commands.read(["printf", "%s", "a b;$(c)"])).text == "a b;$(c)"
        assert (await commands.run("echo $X; cat", env={"X": "1"}, stdin=b"in")).stdout == b"1\nin"
        assert await commands.succeeds(["true"])
        assert not await commands.succeeds("exit 3")
        with pytest.raises(CommandError, match="exited with 4: no such thing"):
            await commands.run("echo no such thing >&2; exit 4")
        assert (await commands.run("exit 4", check=False)).exit_code == 4


async def _until(condition: Any) -> None:
    import asyncio

    for _ in range(200):
        if condition():
            return
        await asyncio.sleep(0.05)
    raise AssertionError("it never came to be")
