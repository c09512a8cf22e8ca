"""A person at a terminal: types into a real pty and waits until something is on the screen."""

import contextlib
import io
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Self

from forked import OWN_START, STARTER

ROOT = Path(__file__).resolve().parents[1]
PICOCLAW = [sys.executable, "-m", "picoclaw"]


def environment(home, **more):
    """What a fresh user has, with the home folder somewhere harmless."""
    kept = {name: os.environ[name] for name in ("PATH", "VIRTUAL_ENV", "PYTHONPATH") if name in os.environ}
    return {**kept, "HOME": str(home), "LANG": "C.UTF-8", "PICOCLAW_HOME": str(home / "picoclaw"), **more}


def picoclaw_process(home, *words, stdin="", timeout=60, **more):
    """Run a command to its end in a process of its own: where that is what is tried, or others run beside it."""
    given = environment(home, **more)
    if not any(name.startswith(OWN_START) for name in more):
        return STARTER.run(words, given, stdin, timeout)
    return subprocess.run(
        [*PICOCLAW, *words],
        env=given,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=timeout,
        cwd="/",
    )


def picoclaw(home, *words, stdin="", **more):
    """Run a command to its end, in this process: a tenth of the time that one of its own takes."""
    if any(name.startswith(OWN_START) for name in more):
        return picoclaw_process(home, *words, stdin=stdin, **more)
    from picoclaw.cli import run

    streams, variables, folder = (sys.stdin, sys.stdout, sys.stderr), dict(os.environ), Path.cwd()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    try:
        os.environ.clear()
        os.environ.update(environment(home, **more))
        os.chdir("/")
        time.tzset()
        sys.stdin, sys.stdout, sys.stderr = io.TextIOWrapper(io.BytesIO(stdin.encode()), "utf-8"), out, err
        code = run(words)
    except SystemExit as wrong_usage:
        code = wrong_usage.code
    finally:
        sys.stdin, sys.stdout, sys.stderr = streams
        os.environ.clear()
        os.environ.update(variables)
        time.tzset()
        os.chdir(folder)
        for number, handler in handlers.items():
            signal.signal(number, handler)
    return subprocess.CompletedProcess(words, code, *(stream.buffer.getvalue().decode() for stream in (out, err)))


class Person:
    """Someone at a terminal of a given width."""

    def __init__(self, home, *words, columns=80, **more) -> None:
        self.seen = ""
        self._screen, terminal = pty.openpty()
        settings = termios.tcgetattr(terminal)
        # Ctrl-C would throw away what a slow test has not read yet, and be shown as two characters in the middle of a text
        settings[3] = settings[3] & ~termios.ECHOCTL | termios.NOFLSH
        termios.tcsetattr(terminal, termios.TCSANOW, settings)
        wide = environment(home, TERM="xterm", COLUMNS=str(columns), **more)
        self._process = STARTER.start(words, wide, [terminal] * 3, terminal=True)
        os.close(terminal)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._screen)

    def types(self, text):
        os.write(self._screen, text.encode())

    def _read(self):
        self.seen += os.read(self._screen, 65_536).decode("utf-8", "replace").replace("\x03", "")

    def sees(self, text, seconds=60):
        """Wait for a text after what was seen before; returns everything up to and with it."""
        until = time.monotonic() + seconds
        while text not in self.seen:
            left = until - time.monotonic()
            assert left > 0, f"{text!r} did not appear in {self.seen!r}"
            if select.select([self._screen], [], [], left)[0]:
                try:
                    self._read()
                except OSError:
                    assert text in self.seen, f"{text!r} did not appear before the end of {self.seen!r}"
        before, found, self.seen = self.seen.partition(text)
        return before + found

    def leaves(self, seconds=60):
        """Wait for the program's end; returns its exit code."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if (code := self._process.poll()) is not None:
                with contextlib.suppress(OSError):  # the end of a terminal; before it comes what is still unread
                    while select.select([self._screen], [], [], 0)[0]:
                        self._read()
                return code
            if select.select([self._screen], [], [], 0.05)[0]:
                try:
                    self._read()
                except OSError:
                    time.sleep(0.05)
        raise AssertionError("it did not end")
