"""`python -m picoclaw.outputs.supervisor HOME BOARD`: takes the lock, forks, and watches. Sources: fork(2), pidfd_open(2).

Everything is imported before the fork, so that the watchdog needs nothing from the disk when it is needed most.
"""

import contextlib
import fcntl
import gc
import hashlib  # noqa: F401 - arming needs it, which by itself imports it late
import os
import select
import signal
import struct
import sys
import time
from pathlib import Path

from picoclaw.automation.clock import boottime
from picoclaw.files import explain_os_error
from picoclaw.outputs import supervisor
from picoclaw.outputs.supervisor.leases import load_marker, open_board, rescue
from picoclaw.outputs.supervisor.worker import SupervisorWorker

_LOCK_TIMEOUT_S = 2.0
_HANG_TIMEOUT_S = 0.6
_TRIES = 60
_DEADLINE = struct.Struct("d")


def main(words: list[str]) -> int:
    """Start a supervisor and return at once; on standard output it says `ready`, `busy` or what is wrong."""
    home, kind = Path(words[0]), words[1]
    os.chdir("/")
    os.umask(0o077)
    try:
        lock = supervisor.take_lock(home, _LOCK_TIMEOUT_S)
    except OSError as error:
        return _report(f"{home / supervisor.LOCK_FILE}: {explain_os_error(error)}")
    if lock < 0:
        return _report("busy")
    supervisor.write_holder(lock, supervisor.LockHolder(os.getpid(), 0, kind))
    left = load_marker(home).board or kind
    if left != kind and (problems := rescue(home, left, f"a supervisor of the {left} board was killed")):
        return _report(
            f"what was left on by a supervisor of the {left} board is not safe: {'; '.join(problems.values())}"
        )
    open_board(kind, home).close()  # imports it
    gc.freeze()
    if os.fork():
        return 0
    return _run_watchdog(home, kind, lock)


def _report(text: str) -> int:
    with contextlib.suppress(OSError):
        os.write(1, text.encode() + b"\n")
    return 1


def _run_watchdog(home: Path, kind: str, lock: int) -> int:
    ours, theirs = os.pipe(), os.pipe()  # promises to the watchdog; its end, for the worker
    os.set_blocking(ours[1], False)
    with contextlib.suppress(OSError):
        fcntl.fcntl(ours[1], fcntl.F_SETPIPE_SZ, 4096)  # the less it holds, the sooner a frozen watchdog is noticed
    watchdog = os.getpid()
    supervisor.write_holder(lock, supervisor.LockHolder(watchdog, 0, kind))
    # the watchdog's signals arrive on a descriptor; the worker takes over with handlers of their own
    signals, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, lambda *_: None)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    pid = os.fork()
    if pid == 0:
        os.close(ours[0])
        os.close(theirs[1])
        supervisor.write_holder(lock, supervisor.LockHolder(watchdog, os.getpid(), kind))
        return _run_worker(home, kind, watchdog, (theirs[0], ours[1]))
    os.close(ours[1])
    os.close(theirs[0])
    _close_stdout()
    why = _watch_worker(pid, ours[0], signals)
    if not why:
        return 0
    # try until everything is safe; a second supervisor cannot begin meanwhile, because the lock is ours
    for _ in range(_TRIES):
        if not rescue(home, kind, why, stop=why == STOPPED):
            return 0
        time.sleep(_HANG_TIMEOUT_S)
    return 1


def _run_worker(home: Path, kind: str, watchdog: int, ends: tuple[int, int]) -> int:
    lock = supervisor.get_lock_inode(home)
    try:
        listener = supervisor.listen(home)
    except OSError as error:
        return _report(f"{home / supervisor.SOCKET_FILE}: {explain_os_error(error)}")
    worker = SupervisorWorker(home, open_board(kind, home), listener, *ends)
    worker.heed_signals()
    safe = worker.run(_report_ready)
    with contextlib.suppress(OSError):
        if supervisor.get_lock_inode(home) == lock:
            (home / supervisor.SOCKET_FILE).unlink()
    if worker.alone:  # a frozen one would keep the lock
        with contextlib.suppress(OSError):
            os.kill(watchdog, signal.SIGKILL)
    return 0 if safe else 1


def _report_ready() -> None:
    _report("ready")
    _close_stdout()


def _close_stdout() -> None:
    """Close what we were started with, so that whoever reads it sees the end."""
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 1)
    os.close(null)


def _watch_worker(pid: int, promises: int, signals: int) -> str:
    """Wait for the worker's end; returns why everything has to be made safe, nothing after a clean end."""
    end, why, due, last = os.pidfd_open(pid), "", 0.0, 0.0
    poller = select.poll()
    for file in (end, promises, signals):
        poller.register(file, select.POLLIN)
    while True:
        soonest = last or due  # whoever was told to end keeps no promise any more
        late = soonest + _HANG_TIMEOUT_S - boottime() if soonest else None
        if late is not None and late <= 0:
            os.kill(pid, signal.SIGKILL)
            why, due, last = why or "the supervisor hung", 0.0, 0.0
            continue
        happened = dict(poller.poll(None if late is None else late * 1000 + 1))
        if end in happened:
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            return why or (f"the supervisor ended with {status}" if status else "")
        if promises in happened:
            due = _read_deadline(promises, poller)
        if signals in happened:
            numbers = os.read(signals, 4096)
            os.kill(pid, signal.SIGKILL if signal.SIGUSR1 in numbers else signal.SIGTERM)
            why = STOPPED if signal.SIGUSR1 in numbers else why
            last = boottime()


STOPPED = "stop"


def _read_deadline(promises: int, poller: select.poll) -> float:
    said = os.read(promises, _DEADLINE.size * 512)
    if not said:
        poller.unregister(promises)
        return 0.0
    return float(_DEADLINE.unpack(said[-_DEADLINE.size :])[0])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
