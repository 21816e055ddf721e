"""What to do about failures every Unix host can have. Must not know which operation met them."""

from __future__ import annotations

__all__ = ["hint_for"]

_HINTS = (
    ("No space left on device", "The disk is full: free some space (`df -h` and `df -i` show where), then run again."),
    ("Disk quota exceeded", "A disk quota is used up: raise it or free some space, then run again."),
    (
        "Read-only file system",
        "The file system is mounted read-only: look for disk errors in `dmesg`, remount it, run again.",
    ),
    ("Input/output error", "The disk reports errors: look at `dmesg` on the host before going on."),
    ("Cannot allocate memory", "The host is out of memory: see what uses it (`free -m`), then run again."),
    (
        "Operation not permitted",
        "Root itself was refused: is the file immutable (`lsattr`), or the host a restricted container?",
    ),
    ("Permission denied", "The user may not do this: does the host's `user` have full sudo rights?"),
    ("invalid user", "That user or group does not exist on the host: create it first."),
    ("invalid group", "That user or group does not exist on the host: create it first."),
    ("Text file busy", "The program is running: stop its service before replacing it."),
    (
        "command not found",
        "A program this needs is missing on the host: install it (or add its package to `system.packages`).",
    ),
    (
        ": not found",
        "A program this needs is missing on the host: install it (or add its package to `system.packages`).",
    ),
    (
        "System has not been booted with systemd",
        "kubexm manages services through systemd; this host runs another init.",
    ),
    ("Failed to connect to bus", "systemd does not answer on this host: is it running as init (`ps -p 1`)?"),
)


def hint_for(output: str) -> str:
    """What to do about this output, or nothing if it says nothing we know."""
    return next((hint for sign, hint in _HINTS if sign in output), "")
