"""What an idle daemon has not loaded, opened or started: gates that are the same on every machine.

Megabytes and milliseconds differ between machines, and tests/bench/daemon.py prints them; what they come from does not.
"""

import contextlib
import ctypes
import re
import socket
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import apsw
import pytest
from person import picoclaw
from telegram_server import TOKEN, TelegramServer
from test_run import Daemon

from picoclaw.daemon import background
from picoclaw.store.database import Database
from picoclaw.store.inbox_outbox import Outbox

HEAVY = {
    "numpy",
    "yaml",
    "rich",
    "click",
    "pygments",
    "asyncio",
    "anyio.abc",
    "subprocess",
    "multiprocessing",
    "difflib",
    "sqlite3",
    "certifi",
    "lxml",
    "unittest",
    "picoclaw.agent.compaction",
    "picoclaw.agent.commands",
    "picoclaw.skills.frontmatter",
    "picoclaw.agent.summon",
    "picoclaw.maintenance.doctor",
    "picoclaw.maintenance.update",
    "picoclaw.maintenance.backup",
    "picoclaw.maintenance.systemd",
}
NETWORK = {"httpx", "httpcore", "h11", "idna", "urllib.request"}
WEB = {"bottle", "waitress", "logging"}
CRYPTO = {"ssl", "hashlib", "_hashlib", "_ssl", "hmac", "email", "http.client"}
KINDS = {
    "socket": (NETWORK | WEB | CRYPTO | {"picoclaw.channels.dashboard", "picoclaw.channels.telegram"}, 8),
    "page": (NETWORK | {"picoclaw.channels.telegram"}, 10),
    "telegram": (WEB - {"logging"} | {"picoclaw.channels.dashboard"}, 12),
    "both": (set(), 14),
}
"""What each kind of daemon must not have imported, besides what none has, and how many threads it has at most."""
DATABASES = 6


class Noted(Daemon):
    """A daemon that tells what it imports."""

    def __init__(self, home):
        super().__init__(home, PYTHONPROFILEIMPORTTIME="1")
        self.imported = set()

    def says(self, text):
        for line in self.process.stdout:
            if line.startswith("import time:"):
                self.imported.add(line.rpartition("|")[2].strip())
            if text in line:
                return line
        raise AssertionError(f"it ended without saying {text!r}")


def settings(home, kind, stack):
    (home / "picoclaw").mkdir(mode=0o700)
    text = ""
    if kind in {"page", "both"}:
        with socket.create_server(("127.0.0.1", 0)) as free:
            text += f"[page]\nenabled = true\nport = {free.getsockname()[1]}\n"
    if kind in {"telegram", "both"}:
        text += f'[telegram]\nallow = [7]\napi_url = "{stack.enter_context(TelegramServer()).url}"\n'
        secrets = home / "picoclaw" / "secrets.toml"
        secrets.write_text(f'telegram_token = "{TOKEN}"\n')
        secrets.chmod(0o600)
    (home / "picoclaw" / "config.toml").write_text(text)


def opened_databases(pid):
    """The connections to databases, by the descriptors of the files: each has one of its own."""
    found = []
    for number in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            found.append(number.readlink().name)
    return [name for name in found if name.endswith(".db")]


def settled(daemon):
    """Wait until no thread has run any more for a while."""
    before = None
    for _ in range(100):
        now = {}
        for task in Path(f"/proc/{daemon.process.pid}/task").iterdir():
            with contextlib.suppress(OSError):  # it has just ended
                status = (task / "status").read_text()
                now[task.name] = re.search(r"^voluntary_ctxt_switches:\t(\d+)", status, re.MULTILINE)[1]
        if now == before:
            return len(now)
        before = now
        time.sleep(0.3)
    raise AssertionError("it never comes to rest")


def stirred(daemon):
    """How often its threads have run of their own accord, and how often anything was written."""
    process = Path(f"/proc/{daemon.process.pid}")
    statuses = [(task / "status").read_text() for task in (process / "task").iterdir()]
    switches = sum(int(re.search(r"\nvoluntary_ctxt_switches:\t(\d+)", status)[1]) for status in statuses)
    return switches, int(re.search(r"syscw: (\d+)", (process / "io").read_text())[1])


@pytest.mark.parametrize("kind", KINDS)
def test_an_idle_daemon_has_only_what_it_needs(kind, tmp_path):
    with contextlib.ExitStack() as stack:
        settings(tmp_path, kind, stack)
        picoclaw(tmp_path, "prompt", "--board", "sim")  # a first start reads the skills, with yaml
        with Noted(tmp_path) as daemon:
            daemon.ready()
            threads = settled(daemon)
            before = stirred(daemon)
            time.sleep(1.5)
            woken, written = (after - begun for after, begun in zip(stirred(daemon), before, strict=True))
            databases = opened_databases(daemon.process.pid)
            daemon.process.terminate()
            with contextlib.suppress(AssertionError):
                daemon.says("a line that never comes")
        without, most = KINDS[kind]
        too_much = daemon.imported & (HEAVY | without)
        assert not too_much
        assert {"picoclaw.daemon.service", "threading", "apsw"} <= daemon.imported  # so that this can fail
        assert threads <= most
        assert woken <= 2  # ten a minute are allowed; who polls has more
        assert written == 0
        assert 2 <= len(databases) <= DATABASES, databases


def test_status_imports_next_to_nothing(tmp_path):
    with Noted(tmp_path) as daemon:
        daemon.ready()
        asked = picoclaw(tmp_path, "status", PYTHONPROFILEIMPORTTIME="1")
    imported = {line.rpartition("|")[2].strip() for line in asked.stderr.splitlines()}
    assert f"(process {daemon.process.pid})" in asked.stdout
    ours = {name for name in imported if name.startswith("picoclaw.")}
    assert ours == {
        "picoclaw.channels",
        "picoclaw.channels.ipc",
        "picoclaw.cli",
        "picoclaw.cli.arguments",
        "picoclaw.cli.common",
        "picoclaw.daemon",
        "picoclaw.daemon.status_text",
        "picoclaw.daemon.process",
        "picoclaw.files",
        "picoclaw.errors",
        "picoclaw.text",
        "picoclaw.records",
        "picoclaw.times",
    }
    assert not imported & {"apsw", "dataclasses", "inspect", "shutil", "subprocess", "tomllib", "ssl", "hashlib"}


def test_a_chat_with_a_daemon_that_runs_imports_nothing_of_the_agent(tmp_path):
    with Noted(tmp_path) as daemon:
        daemon.ready()
        asked = picoclaw(tmp_path, "chat", "-m", "how warm is it?", PYTHONPROFILEIMPORTTIME="1")
    assert "temperature" in asked.stdout
    imported = {line.rpartition("|")[2].strip() for line in asked.stderr.splitlines()}
    rooms = {name.split(".")[1] for name in imported if name.startswith("picoclaw.")}
    assert rooms == {"channels", "cli", "daemon", "errors", "files", "records", "text"}
    assert not imported & {"apsw", "dataclasses", "inspect", "subprocess", "tomllib", "ssl", "hashlib"}


def test_what_is_open_here_is_checked_once(tmp_path):
    """Each part of a daemon has a connection of its own; reading all of a big database for each would take seconds."""
    path = tmp_path / "state.db"
    with closing(Database(path)) as first:
        rows = (("letter " * 100,) for _ in range(2000))
        with first.transaction() as connection:
            connection.executemany("INSERT INTO outbox (session, text, at) VALUES ('a', ?, 1)", rows)
        with closing(Database(path)) as second:
            assert second.connection.status(apsw.SQLITE_DBSTATUS_CACHE_MISS)[0] < 30
    Path(f"{path}-wal").touch()  # as after a power cut
    with closing(Database(path)) as third:
        assert third.connection.status(apsw.SQLITE_DBSTATUS_CACHE_MISS)[0] > 300


def test_channels_sleep_until_there_is_a_letter(tmp_path):
    outbox = Outbox(Database(tmp_path / "state.db"))
    woken = []
    look = background._make_outbox_check(outbox, lambda: woken.append(len(outbox.waiting())))
    for put, expected in [(0, []), (1, [1]), (0, [1]), (2, [1, 3]), (0, [1, 3])]:
        for _ in range(put):
            outbox.put("main", "hello", 1.0)
        look()
        assert woken == expected
    for letter in outbox.waiting():
        outbox.strike(letter)
    look()
    outbox.put("main", "again", 2.0)
    look()
    assert woken == [1, 3, 1]


# --- one heap for all threads ---


SHOW = """
import ctypes, threading
from picoclaw.daemon.process import limit_malloc_arenas
if {shared}:
    assert limit_malloc_arenas()
meet = threading.Barrier(9)
def take():
    kept = [bytes(10_000) for _ in range(50)]
    meet.wait(), meet.wait()
threads = [threading.Thread(target=take) for _ in range(8)]
for one in threads:
    one.start()
meet.wait()
libc = ctypes.CDLL(None)
libc.fdopen.restype = ctypes.c_void_p
out = ctypes.c_void_p(libc.fdopen(1, b"w"))
libc.malloc_info(0, out)
libc.fflush(out)
meet.wait()
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_info"), reason="another C library than GNU's")
@pytest.mark.parametrize("shared", [True, False], ids=["shared", "as usual"])
def test_threads_share_one_heap(shared):
    words = [sys.executable, "-c", SHOW.format(shared=shared)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=20)
    assert (done.stdout.count("<heap nr=") == 1) is shared
