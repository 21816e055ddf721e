"""Packages with the real apt and dpkg, from files made here; the sandbox's repositories are out of reach."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from kubexm.errors import CommandError, StepError
from kubexm.runner import Facts, Files, Originals, Packages

W = PurePosixPath("/scratch")
pytestmark = pytest.mark.skipif(shutil.which("apt-get") is None, reason="needs apt and dpkg")


def deb(directory: Path, name: str, version: str = "1.0", depends: str = "", conffile: str = "") -> Path:
    root = directory / f"{name}-{version}"
    (root / "DEBIAN").mkdir(parents=True)
    (root / "usr/share" / name).mkdir(parents=True)
    (root / "usr/share" / name / "version").write_text(version)
    control = f"Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: nobody <nobody@localhost>\n"
    control += f"Depends: {depends}\n" if depends else ""
    (root / "DEBIAN/control").write_text(control + "Description: a test\n")
    if conffile:
        (root / "etc").mkdir()
        (root / "etc" / conffile).write_text("shipped\n")
        (root / "DEBIAN/conffiles").write_text(f"/etc/{conffile}\n")
    target = directory / f"{name}_{version}.deb"
    subprocess.run(
        ["dpkg-deb", "--build", "--root-owner-group", str(root), str(target)], check=True, capture_output=True
    )
    return target


@pytest.fixture
async def packages(sandbox: Any, facts: Facts) -> Packages:
    sandbox.sh("rm -rf /etc/apt/sources.list /etc/apt/sources.list.d/* /var/lib/apt/lists/*")
    return Packages(sandbox, facts)


async def test_from_files_with_dependencies_and_back(
    packages: Packages, sandbox: Any, facts: Facts, tmp_path: Path
) -> None:
    files = Files(sandbox, facts)
    needed, wanted = (
        deb(tmp_path, "kx-lib"),
        deb(tmp_path, "kx-tool", depends="kx-lib (>= 1.0)", conffile="kx-tool.conf"),
    )
    for path in (needed, wanted):
        await files.write(W / path.name, path.read_bytes())
    paths = [W / wanted.name, W / needed.name]
    assert await packages.installed(["kx-tool", "kx-lib", "dpkg"]) == {
        "dpkg": (await packages.installed(["dpkg"]))["dpkg"]
    }
    assert await packages.install_files(paths) == ("kx-lib", "kx-tool")
    assert await packages.installed(["kx-tool", "kx-lib"]) == {"kx-tool": "1.0", "kx-lib": "1.0"}
    assert await packages.install_files(paths) == ()
    assert await packages.install(["kx-tool"]) == ()
    assert await packages.ours() == ("kx-lib", "kx-tool")
    kept = {o.name: o.was_absent for o in await Originals(sandbox, facts).list() if o.kind == "package"}
    assert kept == {"kx-lib": True, "kx-tool": True}
    assert await packages.remove(await packages.ours()) == ()
    assert await packages.installed(["kx-tool", "kx-lib"]) == {}
    assert not await files.exists("/etc/kx-tool.conf")
    assert await packages.ours() == ()


async def test_what_others_need_by_now_stays(packages: Packages, sandbox: Any, facts: Facts, tmp_path: Path) -> None:
    files = Files(sandbox, facts)
    for path in (deb(tmp_path, "kx-lib"), deb(tmp_path, "kx-other"), deb(tmp_path, "kx-users", depends="kx-lib")):
        await files.write(W / path.name, path.read_bytes())
    await packages.install_files([W / "kx-lib_1.0.deb", W / "kx-other_1.0.deb"])
    sandbox.sh("dpkg -i /scratch/kx-users_1.0.deb")
    assert await packages.remove(["kx-lib", "kx-other"]) == ("kx-lib",)
    assert set(await packages.installed(["kx-lib", "kx-other", "kx-users"])) == {"kx-lib", "kx-users"}


async def test_newer_ones_stay_and_older_ones_are_brought_up(
    packages: Packages, sandbox: Any, facts: Facts, tmp_path: Path
) -> None:
    files = Files(sandbox, facts)
    for version in ("1.0", "2.0"):
        await files.write(W / f"kx-lib_{version}.deb", deb(tmp_path, "kx-lib", version).read_bytes())
    await packages.install_files([W / "kx-lib_2.0.deb"])
    await packages.install_files([W / "kx-lib_1.0.deb"])
    assert await packages.installed(["kx-lib"]) == {"kx-lib": "2.0"}
    sandbox.sh("dpkg --purge kx-lib && dpkg -i /scratch/kx-lib_1.0.deb")
    assert await packages.install_files([W / "kx-lib_2.0.deb"]) == ()
    assert await packages.installed(["kx-lib"]) == {"kx-lib": "2.0"}


async def test_errors_say_what_to_do(packages: Packages, sandbox: Any, facts: Facts, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="Unable to locate package kx-nowhere") as caught:
        await packages.install(["kx-nowhere"])
    assert "check its name" in caught.value.hint
    lonely = deb(tmp_path, "kx-lonely", depends="kx-missing")
    await Files(sandbox, facts).write(W / lonely.name, lonely.read_bytes())
    with pytest.raises(CommandError, match="kx-missing") as caught:
        await packages.install_files([W / lonely.name])
    assert caught.value.hint
    with pytest.raises(ValueError, match="not a package's name"):
        await packages.install(["a; rm -rf /"])
    unknown = Facts.from_dict({**facts.to_dict(), "package_manager": ""})
    with pytest.raises(StepError, match="package manager"):
        await Packages(sandbox, unknown).install(["x"])


async def test_a_held_lock_is_waited_for_but_not_for_ever(
    packages: Packages, sandbox: Any, facts: Facts, tmp_path: Path
) -> None:
    path = deb(tmp_path, "kx-lib")
    await Files(sandbox, facts).write(W / path.name, path.read_bytes())
    code = (
        "import fcntl,sys,time;f=open('/var/lib/dpkg/lock-frontend','w');fcntl.lockf(f,fcntl.LOCK_EX);"
        "print('held',flush=True);sys.stdin.read(1)"
    )
    argv = ["nsenter", "-t", str(sandbox.pid), "-m", "chroot", str(sandbox.root), "/usr/bin/env", "python3", "-c", code]
    holder = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdin is not None
    assert holder.stdout is not None
    try:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(CommandError, match="held the lock all the time"):
            await packages.install_files([W / path.name], lock_wait=1)
    finally:
        holder.stdin.close()
        holder.wait()
        holder.stdout.close()
    assert await packages.install_files([W / path.name], lock_wait=1) == ("kx-lib",)


async def test_an_installation_that_was_cut_off_still_counts_as_ours(
    packages: Packages, sandbox: Any, facts: Facts, tmp_path: Path
) -> None:
    for path in (deb(tmp_path, "kx-one"), deb(tmp_path, "kx-two")):
        await Files(sandbox, facts).write(W / path.name, path.read_bytes())
    sandbox.sh(
        "mkdir -p /var/lib/kubexm/originals && dpkg-query -W -f '${Package}\\n' | LC_ALL=C sort -u "
        ">/var/lib/kubexm/originals/packages.before && dpkg -i /scratch/kx-one_1.0.deb"
    )
    assert await packages.install_files([W / "kx-two_1.0.deb"]) == ("kx-one", "kx-two")
    assert await packages.ours() == ("kx-one", "kx-two")
