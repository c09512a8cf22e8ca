"""Starts of `python -m picoclaw` that are forked off a process which has imported it: a quarter of a second less each.

The forked process is one of its own, with its own environment, folder and streams, and ends as a real one does.
"""

import contextlib
import fcntl
import gc
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import threading
import time
from pathlib import Path

import databases
import grammars

OWN_START = ("PYTHON", "LANG", "LC_", "LD_")
"""How variables begin that only a new interpreter takes notice of."""
PRELOADED = (
    *("app", "cli.chat", "cli.common", "cli.automation", "cli.outputs", "cli.status", "daemon.local", "daemon.service"),
    *("cli.daemon", "maintenance.repair", "skills.frontmatter"),
    *("agent.loop", "intents.frames", "intents.provider", "tools.exec", "hw.detect", "hw.linux", "hw.sim"),
    *("hw.sim.parts.climate", "tools.sensors"),
)


def serve(channel):
    """Fork a process for each request, until the test's process closes the channel."""
    for name in PRELOADED:
        importlib.import_module(f"picoclaw.{name}")
    databases.share_databases()
    grammars.share_grammars()
    grammars.share_skills()
    warm_up()
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # those that wait for the forked processes are reaped by the kernel
    while True:
        message, files, *_ = socket.recv_fds(channel, 1 << 20, 4)
        if not message:
            return
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            channel.close()
            watch(json.loads(message), files)
        for file in files:
            os.close(file)


def warm_up():
    """Run commands in a home that goes again, so that what they compile at first is there in all that are forked off."""
    from person import picoclaw

    with tempfile.TemporaryDirectory() as home:
        for words in (["chat", "--board", "sim", "-m", "how warm is it?"], ["status"]):
            picoclaw(Path(home), *words)


def watch(request, files):
    """Fork the process, and tell its number, and then how it ended."""
    *streams, reply = files
    with socket.socket(fileno=reply) as connection:
        if (process := os.fork()) == 0:
            connection.detach()
            os.close(reply)
            run(request, streams)
        for stream in streams:
            os.close(stream)
        with contextlib.suppress(OSError):
            connection.sendall(b"%d\n" % process)
        _, status = os.waitpid(process, 0)
        with contextlib.suppress(OSError):
            connection.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))
    os._exit(0)


def run(request, streams):
    code = 1
    try:
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        if request["terminal"]:
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        for name, number, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
            errors = "backslashreplace" if number == 2 else "surrogateescape"  # as in the locale C.UTF-8
            lines = 1 if number == 2 else -1  # what is printed there appears at once
            stream = open(number, mode, lines, encoding="utf-8", errors=errors, closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)
        os.environ.clear()
        os.environ.update(request["environment"])
        time.tzset()
        os.chdir("/")
        sys.argv = ["picoclaw", *request["words"]]
        sys.orig_argv = [sys.executable, "-m", "picoclaw", *request["words"]]
        for name, value in request["constants"].items():
            module, _, constant = name.rpartition(".")
            assert hasattr(importlib.import_module(f"picoclaw.{module}"), constant), name
            setattr(sys.modules[f"picoclaw.{module}"], constant, value)
        from picoclaw.__main__ import main

        sys.exit(main())
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001
        sys.excepthook(*sys.exc_info())
    finally:
        import atexit

        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError, AttributeError):
                stream.flush()
        os._exit(code)


class Forked:
    """A process that was forked off, with what a Popen has."""

    def __init__(self, words, reply):
        self.args, self.returncode, self.stdout = words, None, None
        self._reply = reply
        self._answer = b""
        self._texts, self._threads = ["", ""], []
        while b"\n" not in self._answer:
            self._answer += reply.recv(64)
        number, self._answer = self._answer.split(b"\n", 1)
        self.pid = int(number)

    def wait(self, timeout=None):
        if self.returncode is None:
            self._reply.settimeout(timeout)
            try:
                while b"\n" not in self._answer:
                    self._answer += self._reply.recv(64)
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired(self.args, timeout) from None
            self._reply.close()
            self.returncode = int(self._answer)
        return self.returncode

    def take_pipes(self, stdin, into, outputs):
        """Write into one pipe and read from two, each in a thread of its own; `communicate` returns what was read."""
        self._threads = [threading.Thread(target=_write, args=(into, stdin.encode()))]
        for at, output in enumerate(outputs):
            self._threads.append(threading.Thread(target=_read, args=(output, self._texts, at)))
        for thread in self._threads:
            thread.start()

    def first_line(self, seconds=60):
        """Wait for the first line that it writes; returns that."""
        end = time.monotonic() + seconds
        while "\n" not in self._texts[0]:
            assert time.monotonic() < end, "it wrote nothing"
            time.sleep(0.02)
        return self._texts[0].partition("\n")[0]

    def communicate(self, timeout=None):
        """Wait for its end; returns what it has written, and what as errors."""
        try:
            self.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        finally:
            for thread in self._threads:
                thread.join()
        return tuple(self._texts)

    def poll(self):
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def send_signal(self, number):
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it has just ended, and that is still being told
                os.kill(self.pid, number)

    def terminate(self):
        self.send_signal(signal.SIGTERM)

    def kill(self):
        self.send_signal(signal.SIGKILL)


class Starter:
    """The test's end of the channel; the other end starts with the first request."""

    def __init__(self):
        self._channel = None
        self._lock = threading.Lock()

    def _open(self, environment):
        with self._lock:
            if self._channel is None:
                self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                program = f"import socket, forked; forked.serve(socket.socket(fileno={theirs.fileno()}))"
                here = os.path.dirname(__file__)  # noqa: PTH120
                self._process = subprocess.Popen(
                    [sys.executable, "-c", program],
                    env={**environment, "PYTHONPATH": os.pathsep.join([here, environment.get("PYTHONPATH", "")])},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                )
                theirs.close()
        return self._channel

    def start(self, words, environment, streams, *, terminal=False, constants=()):
        """Fork a process with three streams, which stay open here; `terminal`: the first is its controlling one.

        `constants` are set in it ("daemon.delivery._FIRST_RETRY_S": 0.1), so that no test waits as long as a user would.
        """
        words = [str(word) for word in words]
        ours, theirs = socket.socketpair()
        given = {"environment": environment, "terminal": terminal, "constants": dict(constants)}
        request = json.dumps({"words": words, **given}).encode()
        with theirs:
            socket.send_fds(self._open(environment), [request], [*streams, theirs.fileno()])
        return Forked(words, ours)

    def begin(self, words, environment, stdin=""):
        """Fork a process with pipes."""
        pipes = [os.pipe() for _ in range(3)]
        given = [pipes[0][0], pipes[1][1], pipes[2][1]]
        process = self.start(words, environment, given)
        for file in given:
            os.close(file)
        process.take_pipes(stdin, pipes[0][1], (pipes[1][0], pipes[2][0]))
        return process

    def run(self, words, environment, stdin, timeout):
        """What subprocess.run does."""
        process = self.begin(words, environment, stdin)
        texts = process.communicate(timeout)
        return subprocess.CompletedProcess(words, process.returncode, *texts)


def _write(file, data):
    with contextlib.suppress(OSError), os.fdopen(file, "wb", 0) as stream:
        stream.write(data)


def _read(file, texts, at):
    with os.fdopen(file, "r", encoding="utf-8") as stream:
        for line in stream:
            texts[at] += line


STARTER = Starter()
