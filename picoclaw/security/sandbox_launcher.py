"""Starts one sandbox per connection and ends it with the connection.

The daemon's unit may create no namespaces. systemd starts this file for each connection in a unit that may, with a bare
Python, so it imports nothing of picoclaw. Input: eight digits, the length; the arguments of bwrap, each ended by NUL;
with them the descriptors of stdin, output and the filter, and of stderr where that is kept apart. Output: the exit code.
"""

import contextlib
import os
import select
import signal
import sys

FILTER_FD = 3
"""Where bwrap finds its system call filter."""
_PROGRAM = "bwrap"
_LENGTH_DIGITS = 8
_MAX_BYTES = 4_000_000  # bytes; more than the kernel takes as arguments


def kill_tree(pid: int) -> None:
    """Kill a bwrap and everything in it, also while it is still setting up: its child, then its process group.

    The child is the sandbox's init: when it dies, the kernel kills all others there.
    """
    children = ""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:  # noqa: PTH123
        children = file.read()
    for child in children.split():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(int(child), signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def serve(fd: int) -> int:
    """Run the command requested over the connection `fd`; 1 when the request is malformed."""
    import socket

    with socket.socket(fileno=fd) as connection:
        data, fds, _, _ = socket.recv_fds(connection, _LENGTH_DIGITS, 4)
        while len(data) < _LENGTH_DIGITS and (more := connection.recv(_LENGTH_DIGITS - len(data))):
            data += more
        length = int(data) if data.isdigit() else 0
        if len(fds) not in {3, 4} or not 0 < length <= _MAX_BYTES:
            return 1
        text = bytearray()
        while len(text) < length and (more := connection.recv(length - len(text))):
            text += more
        words = bytes(text).split(b"\0")[:-1]
        if len(text) != length or words[:1] != [_PROGRAM.encode()]:
            return 1
        pid = _start_bwrap(words, fds)
        for each in fds:
            os.close(each)
        with contextlib.suppress(OSError):
            connection.sendall(b"%d\n" % _wait_exit(pid, connection.fileno()))
    return 0


def _start_bwrap(words: list[bytes], fds: list[int]) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        high = [os.dup(fd) for fd in fds]  # out of the way of one another
        while min(high) <= FILTER_FD:
            high = [os.dup(fd) for fd in high]
        given, out, rules, *apart = high
        for source, number in ((given, 0), (out, 1), (apart[0] if apart else out, 2), (rules, FILTER_FD)):
            os.dup2(source, number)
        os.closerange(FILTER_FD + 1, 1024)
        os.execvp(_PROGRAM, words)  # noqa: S606
    except OSError as error:
        os.write(1, f"{_PROGRAM}: {error.strerror}\n".encode())
    os._exit(127)


def _wait_exit(pid: int, connection: int) -> int:
    """Wait for the sandbox or the connection to end; the latter kills the sandbox. Returns the exit code."""
    ended = os.pidfd_open(pid)
    ready, _, _ = select.select([ended, connection], [], [])
    if ended not in ready:
        kill_tree(pid)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


if __name__ == "__main__":
    sys.exit(serve(0))
