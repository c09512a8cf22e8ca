"""A real daemon on a home of its own, and what is needed to watch it."""

import os
import subprocess
import threading
import time
from pathlib import Path

from forked import OWN_START, STARTER
from person import PICOCLAW, environment

from picoclaw.channels import ipc
from picoclaw.config import load_config
from picoclaw.outputs import config
from picoclaw.workspace import prepare_home

SOON = {
    "daemon.service._TERMINAL_GRACE_S": 0.5,
    "daemon.delivery._FIRST_RETRY_S": 0.2,
    "daemon.delivery._CHECK_INTERVAL_S": 0.2,
}
"""What goes to a terminal is sent elsewhere half a second after the start, and what failed is tried again at once."""

SAYS_WITHIN_S = 120.0
"""A daemon that does not say within this time what a test waits for is ended, so that the test fails and does not hang."""

PUMP = """
[outputs.pump]
line = "GPIO17"
kind = "pump"
longest_on_s = 600
confirm = false
"""


def until(found, seconds=30.0):
    """Wait until a function finds something; returns that."""
    end = time.monotonic() + seconds
    while not (it := found()):
        assert time.monotonic() < end, f"not within {seconds} s"
        time.sleep(0.02)
    return it


def furnished(home, settings="", outputs=""):
    """Make a home with these settings, and outputs that are armed."""
    folder = home / "picoclaw"
    prepare_home(load_config({"PICOCLAW_HOME": str(folder)}).home)
    (folder / "config.toml").write_text(settings)
    if outputs:
        (folder / "outputs.toml").write_text(outputs)
        found = config.load_outputs(folder / "outputs.toml").outputs
        config.save_armed(folder, {name: output.digest for name, output in found.items()})
    return folder


class Daemon:
    """A daemon on a home of its own, told to end when the test is over."""

    def __init__(self, home, *words, constants=(), **more):
        self.home = home
        self.folder = home / "picoclaw"
        output, given = os.pipe()
        words = ["run", "--board", "sim", *words]
        with Path(os.devnull).open("rb") as nothing:
            if any(name.startswith(OWN_START) for name in more):
                assert not constants
                streams = {"stdin": nothing, "stdout": given, "stderr": given}
                self.process = subprocess.Popen([*PICOCLAW, *words], env=environment(home, **more), cwd="/", **streams)
            else:
                streams = [nothing.fileno(), given, given]
                self.process = STARTER.start(words, environment(home, **more), streams, constants=constants)
        os.close(given)
        self.process.stdout = os.fdopen(output, encoding="utf-8")

    def ready(self):
        self.says("channels: ")
        return self

    def says(self, text):
        limit = threading.Timer(SAYS_WITHIN_S, self.process.kill)
        limit.start()
        try:
            for found in self.process.stdout:
                if text in found:
                    return found
        finally:
            limit.cancel()
        raise AssertionError(f"it ended, or was ended after {SAYS_WITHIN_S} s, without saying {text!r}")

    def asked(self, word):
        return ipc.ask_daemon(self.folder, {"do": word}, 5)

    def line(self):
        made = ipc.connect(self.folder, 10)
        assert made
        return made

    def ends(self, seconds=10):
        return self.process.wait(seconds)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def events_until(connection, name):
    """What the daemon says up to and with a word."""
    found = []
    while (words := connection.next()) is not None:
        found.append(words)
        if name in words:
            return found
    raise AssertionError(f"no {name!r} in {found}")
