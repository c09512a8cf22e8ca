"""Brings everything to its safe level: by asking the supervisor, by ending one that hangs, or alone. Imports little.

`watch_outputs` does that for what a supervisor has left on, in a thread of whoever has to notice it. Source: pidfd_open(2).
"""

import contextlib
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from socket import socket
from typing import Any

from picoclaw.automation.clock import boottime
from picoclaw.errors import ConfigError, HardwareError, PicoclawError
from picoclaw.outputs import supervisor

_ANSWER_S = 0.1
_LOCK_WAIT_S = 0.05
_KILL_TIMEOUT_S = 1.0
_RECOVER_S = 2.0
"""How long a supervisor may take to answer before it is ended, when something is on that it may not look after."""
_LATE_GRACE_S, _RECHECK_S = 1.0, 1.0
_PROCESSES = 2


def stop_outputs(home: Path, board: Callable[[], str], who: str, *, stop: bool = True) -> str:
    """Bring everything to its safe level, with the supervisor's help, or against its will, or without one.

    `stop` keeps it there until a person resumes; that is on the disk first, so that a supervisor that is just beginning
    switches nothing on; but a disk that takes nothing is not waited for. Raises HardwareError naming what could not be
    made safe.
    """
    if stop:
        keeping = threading.Thread(target=_save_stop, args=(home,), daemon=True)
        keeping.start()
        keeping.join(_ANSWER_S)
    answer = supervisor.ask(home, {"do": "stop" if stop else "safe", "who": who}, _ANSWER_S)
    return str(answer.get("text")) if answer.get("ok") else _stop_directly(home, board, who, stop=stop)


def _save_stop(home: Path) -> None:
    with contextlib.suppress(OSError):
        (home / supervisor.STOP_FILE).touch(mode=0o600)


def _stop_directly(home: Path, board: Callable[[], str], who: str, *, stop: bool) -> str:
    from picoclaw.outputs.config import describe_unarmed, load_outputs
    from picoclaw.outputs.supervisor.leases import rescue
    from picoclaw.workspace import find_outputs_file

    lock = _kill_supervisor(home, gently=stop)
    try:
        problems = rescue(
            home, supervisor.read_holder(home).board or _resolve_board(board), f"asked by {who}", stop=stop
        )
    finally:
        if lock >= 0:
            os.close(lock)
    if stop and not (home / supervisor.STOP_FILE).exists():
        problems["stop"] = f"the stop could not be saved in {home / supervisor.STOP_FILE}"
    if problems:
        listed = "; ".join(problems.values())
        raise HardwareError(f"not everything could be brought to its safe level: {listed}; cut the power of the loads")
    unarmed = describe_unarmed(home, load_outputs(find_outputs_file(home)).outputs)
    resume = (
        "; nothing is switched on until you type /resume, or `picoclaw outputs resume` on the board" if stop else ""
    )
    return f"everything is at its safe level{unarmed}{resume}"


def recover_outputs(home: Path, board: Callable[[], str]) -> bool:
    """Make safe what was left on by a supervisor that was killed or hangs; tells whether nothing is left to do.

    A supervisor that answers does it itself. One that holds the lock and does not answer is ended. Raises OSError.
    """
    return _try_recover(home, board, time.monotonic() + _RECOVER_S) is not False


def _try_recover(home: Path, board: Callable[[], str], until: float) -> bool | None:
    """Do it; returns whether everything is safe now, None where there is nothing to do."""
    from picoclaw.outputs.supervisor.leases import rescue

    why, lock = "its supervisor was killed", -1
    while lock < 0:
        if not (home / supervisor.LIVE_FILE).exists():
            return None
        lock = supervisor.take_lock(home, _LOCK_WAIT_S)
        if lock < 0 and _list_outputs(home, max(_LOCK_WAIT_S, until - time.monotonic())) is not None:
            return None
        if lock < 0 and time.monotonic() >= until:
            why, lock = "its supervisor did not answer", _kill_supervisor(home, gently=False)
            if lock < 0:
                return False
    try:
        if not (home / supervisor.LIVE_FILE).exists():
            return None
        return not rescue(home, supervisor.read_holder(home).board or _resolve_board(board), why)
    finally:
        os.close(lock)


def _list_outputs(home: Path, seconds: float) -> Sequence[Any] | None:
    """Ask the supervisor for its outputs; None when none answers."""
    found = supervisor.ask(home, {"do": "list"}, seconds).get("outputs")
    return found if isinstance(found, list) else None


def watch_outputs(
    home: Path,
    board: Callable[[], str],
    wake: int,
    is_over: Callable[[], bool],
    *,
    line: socket | None = None,
    due: Callable[[], float] = lambda: 0.0,
    say: Callable[[str], None] = lambda _: None,
) -> None:
    """Until `is_over()`, make safe what is on and no supervisor looks after any more; `say` is told of it.

    Sleeps until `wake` has something or its other end is closed, until `line`, a connection to the supervisor, or one of
    the supervisor's processes ends, or until a lease should have: at `due()` by boottime, or when the supervisor says. Without
    a `line` any more it ends when nothing is on.
    """
    said, is_cut = "", False
    while not is_over():
        with _open_pidfds(home) as ends:
            wait, wrong = _check_outputs(home, board, len(ends), due())
            if wrong and wrong != said:
                say(wrong)
            said = wrong
            if is_cut and wait is None:
                return
            poller = select.poll()
            poller.register(wake, select.POLLIN)
            for end in ends:
                poller.register(end, select.POLLIN)
            if line and not is_cut:
                poller.register(line, select.POLLRDHUP)
            happened = {file for file, _ in poller.poll(None if wait is None else wait * 1000 + 1)}
        if line and line.fileno() in happened:
            is_cut = True
        if wake in happened and not os.read(wake, 4096):
            return


def _check_outputs(home: Path, board: Callable[[], str], processes: int, due: float) -> tuple[float | None, str]:
    """Look once whether a supervisor looks after what is on; returns when to look again, and what is to be told."""
    if not (home / supervisor.LIVE_FILE).exists():
        return None, ""
    if processes == _PROCESSES and (early := due + _LATE_GRACE_S - boottime()) > 0:
        return early, ""
    until = time.monotonic() + _RECOVER_S
    if processes == _PROCESSES and (found := _list_outputs(home, _RECOVER_S)) is not None:
        left = [row["left"] for row in found if row["left"] is not None]
        return min(left) + _LATE_GRACE_S if left else _RECHECK_S, ""
    try:
        is_safe, why = _try_recover(home, board, until), "see `picoclaw outputs audit`"
    except (PicoclawError, OSError) as error:
        is_safe, why = False, str(error)
    if is_safe is None:
        return _RECHECK_S, ""
    if not is_safe:
        return _RECHECK_S, f"what a supervisor left on is not safe ({why}): cut the power of the loads"
    return None, "outputs were left on by a supervisor that was killed or hung; they were brought to their safe level"


@contextlib.contextmanager
def _open_pidfds(home: Path) -> Iterator[list[int]]:
    """Open a descriptor for each process of the supervisor that lives; it becomes readable when that ends."""
    files: list[int] = []
    try:
        for pid in supervisor.read_holder(home)[:2] if (home / supervisor.LIVE_FILE).exists() else ():
            with contextlib.suppress(OSError):
                if pid > 0:
                    files.append(os.pidfd_open(pid))
                    if not _is_supervisor(pid):  # the number is another process's by now
                        os.close(files.pop())
        yield files
    finally:
        for file in files:
            os.close(file)


def recover_and_report(home: Path, board: Callable[[], str]) -> str:
    """Make safe what a supervisor that was killed has left on; returns what is wrong, nothing when all is well.

    Needs neither outputs.toml nor a configuration that can be read: what may be on is in the marker.
    """
    if not (home / supervisor.LIVE_FILE).exists():
        return ""
    try:
        if recover_outputs(home, board):
            return ""
        return f"what was left on is not safe, see `picoclaw outputs audit`: cut the power of the loads ({home})"
    except (PicoclawError, OSError) as error:
        return f"what was left on is not safe: {error}"


def _resolve_board(board: Callable[[], str]) -> str:
    """A configuration that is wrong must not keep anything from going safe; the real board is the one that matters."""
    try:
        return board()
    except ConfigError:
        return "linux"


def _kill_supervisor(home: Path, *, gently: bool) -> int:
    """End a supervisor that lives and does not answer: both processes at once, or `gently` by its watchdog at first.

    A watchdog that is told so ends the worker, and keeps everything stopped. One that is just beginning changes its
    processes, so that they are looked up again each time. Returns the descriptor of its lock, -1 when that cannot be
    had.
    """
    begun = time.monotonic()
    while (waited := time.monotonic() - begun) < _KILL_TIMEOUT_S:
        try:
            lock = supervisor.take_lock(home, _LOCK_WAIT_S / 5)
        except OSError:
            return -1
        if lock >= 0:
            return lock
        holder = supervisor.read_holder(home)
        number, pids = (
            (signal.SIGKILL, holder[:2]) if waited >= _LOCK_WAIT_S or not gently else (signal.SIGUSR1, holder[:1])
        )
        for pid in filter(_is_supervisor, pids):
            with contextlib.suppress(OSError):
                os.kill(pid, number)
    return -1


def _is_supervisor(pid: int) -> bool:
    """A number that was given to another process since is not one."""
    try:
        return pid > 0 and b"picoclaw.outputs.supervisor" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
