"""Where the cluster's own programs write: what was there before stays, what came later goes."""

from __future__ import annotations

from typing import Any

import pytest

from kubexm.runner import Baseline, Facts, Originals, Outcome

DIRECTORIES = ("/scratch/new", "/scratch/old", "/scratch/disk", "/scratch/data", "/scratch/with space")


@pytest.fixture
def baseline(sandbox: Any, facts: Facts) -> Baseline:
    return Baseline(sandbox, facts)


def tree(sandbox: Any) -> str:
    return str(sandbox.sh("cd /scratch && find . -printf '%p %y %m %u %l\\n' | LC_ALL=C sort"))


def host_before(sandbox: Any) -> None:
    sandbox.sh(
        "cd /scratch && mkdir -m 750 old && echo mine >old/mine && echo hidden >old/.hidden && mkdir disk && "
        "mount -t tmpfs tmpfs disk && mkdir disk/lost+found && mkdir elsewhere && ln -s elsewhere data && "
        "mkdir 'with space'"
    )


def cluster_lives(sandbox: Any) -> None:
    sandbox.sh(
        "cd /scratch && mkdir -p new/pods/a/volume old/pods disk/pods data/x 'with space/a b' && touch old/.new && "
        "mount -t tmpfs tmpfs new/pods/a/volume && touch new/pods/a/volume/theirs && "
        "mount -t tmpfs tmpfs data/x && mount -t tmpfs tmpfs 'with space/a b' && chmod 700 old"
    )


async def test_what_came_goes_and_what_was_there_stays(sandbox: Any, baseline: Baseline) -> None:
    host_before(sandbox)
    before = tree(sandbox)
    assert await baseline.missing(DIRECTORIES) == (*DIRECTORIES, "packet filters")
    await baseline.keep(DIRECTORIES)
    assert await baseline.missing(DIRECTORIES) == ()
    cluster_lives(sandbox)
    await baseline.keep(DIRECTORIES)
    assert set(await baseline.clear()) == set(DIRECTORIES)
    assert tree(sandbox) == before
    mounts = [line.split()[4] for line in sandbox.sh("cat /proc/self/mountinfo").splitlines()]
    assert [mount for mount in mounts if mount.startswith("/scratch/")] == ["/scratch/disk"]
    assert await baseline.directories() == ()
    assert await baseline.clear() == ()


async def test_what_is_to_be_left_is_left_and_can_be_cleared_later(sandbox: Any, baseline: Baseline) -> None:
    host_before(sandbox)
    before = tree(sandbox)
    await baseline.keep(DIRECTORIES)
    cluster_lives(sandbox)
    await baseline.clear(leave=("/scratch/new",))
    assert sandbox.sh("cat /scratch/old/mine; ls /scratch/new/pods/a/volume") == "mine\ntheirs\n"
    assert await baseline.directories() == ("/scratch/new",)
    await baseline.clear()
    assert tree(sandbox) == before


async def test_where_somebody_goes_on_writing_files_go_and_directories_stay(sandbox: Any, baseline: Baseline) -> None:
    sandbox.sh("mkdir /scratch/old && echo mine >/scratch/old/mine")
    before, shared = tree(sandbox), ("/scratch/new", "/scratch/new/inner", "/scratch/old")
    await baseline.keep(shared)
    sandbox.sh("cd /scratch && mkdir -p new/inner && touch new/inner/net.conf new/.hidden old/theirs")
    inodes = sandbox.sh("stat -c %i /scratch/new /scratch/new/inner")
    await baseline.clear(noted=shared)
    assert sandbox.sh("stat -c %i /scratch/new /scratch/new/inner") == inodes, "who watches them does not notice"
    assert sandbox.sh("cd /scratch && find . -type f") == "./old/mine\n"
    await baseline.clear()
    assert tree(sandbox) == before


async def test_a_file_system_that_was_mounted_later_keeps_its_mount_but_not_its_content(
    sandbox: Any, baseline: Baseline
) -> None:
    await baseline.keep(["/scratch/new"])
    sandbox.sh("mkdir /scratch/new && mount -t tmpfs tmpfs /scratch/new && touch /scratch/new/wal")
    await baseline.clear()
    assert sandbox.sh("ls -A /scratch/new; mountpoint /scratch/new").endswith("is a mountpoint\n")


async def test_parameters_come_back_whoever_changed_them(sandbox: Any, facts: Facts, baseline: Baseline) -> None:
    sandbox.sh("mount -t tmpfs tmpfs /proc/sys/vm && echo 0 >/proc/sys/vm/panic_on_oom")
    assert "vm.panic_on_oom" in await baseline.missing((), ["vm.panic_on_oom", "vm.is_not_there"])
    await baseline.keep((), ["vm.panic_on_oom", "vm.is_not_there"])
    assert await baseline.missing((), ["vm.panic_on_oom", "vm.is_not_there"]) == ()
    sandbox.sh("echo 7 >/proc/sys/vm/panic_on_oom")
    restored = {each.name: each.outcome for each in await Originals(sandbox, facts).restore(kinds=["sysctl"])}
    assert restored == {"vm/panic_on_oom": Outcome.RESTORED, "vm/is_not_there": Outcome.UNCHANGED}
    assert sandbox.sh("cat /proc/sys/vm/panic_on_oom") == "0\n"


async def test_which_filters_there_were_is_known(sandbox: Any, baseline: Baseline) -> None:
    sandbox.sh(
        "mkdir -p /usr/local/sbin && cd /usr/local/sbin && "
        "printf '#!/bin/sh\\necho *nat; echo :MINE - [0:0]; echo -A MINE -j ACCEPT\\n' >iptables-save && "
        "printf '#!/bin/sh\\necho table inet filter\\n' >nft && chmod 755 iptables-save nft"
    )
    await baseline.keep(())
    known = await baseline.filters()
    assert "chain MINE" in known
    assert "table inet filter" in known
    await baseline.forget_filters()
    assert await baseline.filters() == ()


async def test_mount_points_go_if_they_are_new_and_empty(sandbox: Any, facts: Facts, baseline: Baseline) -> None:
    points = ("/scratch/made", "/scratch/used", "/scratch/there")
    sandbox.sh("mkdir /scratch/there")
    await baseline.keep((), (), points)
    assert await baseline.missing((), (), points) == ()
    sandbox.sh("mkdir -p /scratch/made /scratch/used/6.1 /scratch/there/6.2")
    restored = await Originals(sandbox, facts).restore(kinds=["file"])
    assert {each.name: each.outcome for each in restored} == {
        "/scratch/made": Outcome.RESTORED,
        "/scratch/used": Outcome.KEPT,
        "/scratch/there": Outcome.UNCHANGED,
    }
    assert sandbox.sh("ls -d /scratch/*/*") == "/scratch/there/6.2\n/scratch/used/6.1\n"


async def test_directories_of_the_system_are_refused(baseline: Baseline) -> None:
    with pytest.raises(ValueError, match="/var/lib is never cleared"):
        await baseline.keep(["/var/lib"])
