"""Brings everything to its safe level: by asking the keeper, by ending one that hangs, or alone. Imports little."""

import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from picoclaw.errors import ConfigError, HardwareError
from picoclaw.reflex.keeper import place

_ANSWER_S = 0.1
_NOTICE_S = 0.05
_YIELD_S = 1.0
_MEND_S = 2.0


def halt(home: Path, board: Callable[[], str], who: str, *, stop: bool = True) -> str:
    """Bring everything to its safe level, with the keeper's help, or against its will, or without one.

    `stop` keeps it there until a person resumes; that is on the disk first, so that a keeper that is just beginning
    switches nothing on. Raises HardwareError naming what could not be made safe.
    """
    if stop:
        with contextlib.suppress(OSError):
            (home / place.STOP).touch(mode=0o600)
    return _asked(home, who, stop=stop) or _halt_alone(home, board, who, stop=stop)


def _asked(home: Path, who: str, *, stop: bool) -> str:
    if connection := place.connect(home, _ANSWER_S):
        with connection, contextlib.suppress(OSError, ValueError):
            answer = place.exchange(connection, {"do": "stop" if stop else "safe", "who": who}, _ANSWER_S)
            if answer.get("ok"):
                return str(answer.get("text"))
    return ""


def _halt_alone(home: Path, board: Callable[[], str], who: str, *, stop: bool) -> str:
    from picoclaw.reflex.keeper.rescue import rescue, undriven

    lock = _oust(home)
    try:
        problems = rescue(home, place.holder(home).board or _named(board), f"asked by {who}", stop=stop)
    finally:
        if lock >= 0:
            os.close(lock)
    if stop and not (home / place.STOP).exists():
        problems["stop"] = f"the stop could not be kept in {home / place.STOP}"
    if problems:
        listed = "; ".join(problems.values())
        raise HardwareError(f"not everything could be brought to its safe level: {listed}; cut the power of the loads")
    resume = "; `picoclaw outputs resume` ends the stop" if stop else ""
    return f"everything is at its safe level{undriven(home)}{resume}"


def mended(home: Path, board: Callable[[], str]) -> bool:
    """Make safe what was left on when both of a keeper's processes were killed; tells whether nothing is left to do.

    The watch holds the lock for as long as it lives, and so does the next keeper: either does it then. Raises OSError.
    """
    from picoclaw.reflex.keeper.rescue import rescue

    lock = place.take_lock(home, _MEND_S)
    if lock < 0:
        return True
    try:
        left = (home / place.LIVE).exists()
        return not left or not rescue(home, place.holder(home).board or _named(board), "its keeper was killed")
    finally:
        os.close(lock)


def _named(board: Callable[[], str]) -> str:
    """A configuration that is wrong must not keep anything from going safe; the real board is the one that matters."""
    try:
        return board()
    except ConfigError:
        return "linux"


def _oust(home: Path) -> int:
    """End a keeper that lives and does not answer: by its watch, which ends the hands, and soon both at once.

    One that is just beginning changes its processes, so that they are looked up again each time. Returns the
    descriptor of its lock, -1 when that cannot be had.
    """
    begun = time.monotonic()
    while (waited := time.monotonic() - begun) < _YIELD_S:
        try:
            lock = place.take_lock(home, _NOTICE_S / 5)
        except OSError:
            return -1
        if lock >= 0:
            return lock
        holder = place.holder(home)
        number, pids = (signal.SIGKILL, holder[:2]) if waited >= _NOTICE_S else (signal.SIGUSR1, holder[:1])
        for pid in filter(_is_keeper, pids):
            with contextlib.suppress(OSError):
                os.kill(pid, number)
    return -1


def _is_keeper(pid: int) -> bool:
    """A number that was given to another process since is not one."""
    try:
        return pid > 0 and b"picoclaw.reflex.keeper" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
