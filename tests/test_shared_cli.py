"""`picoclaw store`, the daemon's thread and the doctor, with a store in a file and with PostgreSQL."""

import json
import os
import re
import subprocess
import sys
import threading
import time

import pytest
from daemon_kit import until
from postgres_server import PASSWORD, Proxy
from shared_kit import Board, Clock

from picoclaw.agents import agent_id
from picoclaw.config import Config, load_config
from picoclaw.config.tables import StoreConfig
from picoclaw.errors import ConfigError
from picoclaw.shared_store.sync import StoreWorker
from picoclaw.stores import list_secrets

DAY = "memory/202611/20261126.md"


def run(home, *words, **environment):
    done = subprocess.run(
        [sys.executable, "-m", "picoclaw", *words],
        env=os.environ | {"PICOCLAW_HOME": str(home), "COLUMNS": "200"} | environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def board(tmp_path):
    """A home with a note, a conversation and costs, which shares nothing yet."""
    made = Board(tmp_path / "shed", "", Clock())
    made.write(DAY, "- 08:00 the pump is blue\n")
    made.say("hello")
    made.spend(2)
    yield made
    made.stack.close()


def configure(home, url, board="shed", password=""):
    (home / "config.toml").write_text(f'[store]\nurl = "{url}"\nboard = "{board}"\n')
    (home / "secrets.toml").write_text(f'store_password = "{password}"\n' if password else "")
    (home / "secrets.toml").chmod(0o600)


def test_a_home_without_a_store_says_how_to_have_one(tmp_path):
    for words in ((), ("status",), ("sync",), ("move", "to")):
        code, said = run(tmp_path, "store", *words)
        assert code == 1
        assert "write url under [store]" in said
    for words in (("setup",), ("revoke",)):
        assert "the administrator's address" in run(tmp_path, "store", *words)[1]
    assert "only PostgreSQL is set up" in run(tmp_path, "store", "setup", "sqlite:/tmp/x.db")[1]


@pytest.mark.parametrize(
    ("table", "text"),
    [
        ({"url": "mysql://h/d"}, "url must be postgresql://USER@HOST/DATABASE"),
        ({"url": "sqlite:here.db"}, "url must be"),
        ({"board": "My Shed"}, "board takes small letters"),
        ({"bord": "x"}, "bord"),
    ],
)
def test_a_table_that_is_wrong_is_refused(tmp_path, table, text):
    lines = "\n".join(f'{name} = "{value}"' for name, value in table.items())
    (tmp_path / "config.toml").write_text(f"[store]\n{lines}\n")
    with pytest.raises(ConfigError, match=text):
        load_config({"PICOCLAW_HOME": str(tmp_path)})


def test_the_password_is_a_secret_wherever_it_stands(tmp_path):
    configure(tmp_path, "postgresql://shed:inTheAddress@h/d", password="ofTheFile")
    environment = {"PICOCLAW_HOME": str(tmp_path)}
    config = load_config(environment)
    assert config.store_password == "ofTheFile"
    assert {"inTheAddress", "ofTheFile"} <= set(list_secrets(config, environment))
    assert "inTheAddress" not in config.store.shown_url + repr(config)
    assert load_config(environment | {"PICOCLAW_STORE_PASSWORD": "x"}).store_password == "x"
    code, said = run(tmp_path, "store", "status")
    assert code == 1
    assert not re.search("inTheAddress|ofTheFile", said)


def test_a_home_moves_there_and_back(tmp_path, board):
    """Into a file, and out of it into a new home: nothing is lost, and doing it again changes nothing."""
    home, url = board.config.home, f"sqlite:{tmp_path}/shared.db"
    configure(home, url)
    dry = run(home, "store", "move", "to", "--dry-run")
    assert dry[0] == 0
    assert "notes 1, conversations 1, turns 1, days of costs 1, descriptions of agents 1" in dry[1]
    assert not (tmp_path / "shared.db").exists()
    assert "5 written there" in run(home, "store", "move", "to")[1]
    assert "both are the same" in run(home, "store", "move", "to")[1]
    code, said = run(home, "store", "status")
    assert code == 0
    assert "not in the store yet: nothing" in said
    assert "default: notes 1" in said
    new = Board(tmp_path / "new", "", Clock())
    configure(new.config.home, url, "new")
    dry = run(new.config.home, "store", "move", "from", "--board", "shed", "--dry-run")[1]
    assert "notes 1, conversations 1, turns 1, days of costs 1" in dry
    assert new.said() == []
    assert "brought back" in run(new.config.home, "store", "move", "from", "--board", "shed")[1]
    assert "both are the same" in run(new.config.home, "store", "move", "from", "--board", "shed")[1]
    for sql in (
        "SELECT key, begun, ended FROM sessions",
        "SELECT at, provider, steps, prompt_tokens, completion_tokens, stopped, undone, heard, asked_by FROM turns",
        "SELECT role, text, calls, call_id FROM messages",
        "SELECT * FROM ledger",
    ):
        assert new.database.select(sql) == board.database.select(sql)
    assert new.read(DAY) == board.read(DAY)
    new.stack.close()


def test_setup_prints_what_a_board_needs_and_it_works(tmp_path, board, postgres):
    home, url = board.config.home, postgres.empty_database()
    admin = url.replace(f":{PASSWORD}", "")
    code, said = run(home, "store", "setup", admin, "--board", "shed", PICOCLAW_STORE_ADMIN_PASSWORD=PASSWORD)
    assert code == 0
    assert PASSWORD not in said
    address, password = (re.search(rf'{name} = "(.*)"', said)[1] for name in ("url", "store_password"))
    configure(home, address, "shed", password)
    assert "5 written there" in run(home, "store", "sync")[1]
    said = run(home, "store", "status")[1]
    assert "picoclaw does not run" in said
    assert password not in said
    assert postgres.run("SELECT agent_id::text FROM picoclaw.board_agents", "shared") == [(agent_id("default"),)]
    words = ("store", "setup", admin, "--board", "attic", "--agents", "default,garden")  # as docs/howto/store.md has it
    said = run(home, *words, PICOCLAW_STORE_ADMIN_PASSWORD=PASSWORD)[1]
    assert "attic may read and write what belongs to default, garden, and nothing else" in said
    assert "note: default is an agent of shed too" in said
    code, said = run(home, "doctor")
    assert re.search(r"good +store: postgresql://\S+ answers; this board is shed there", said)
    code, said = run(home, "store", "revoke", url, "--board", "cellar")
    assert (code, "it has attic, shed" in said) == (1, True)
    assert run(home, "store", "revoke", url, "--board", "shed")[0] == 0
    code, said = run(home, "store", "sync")
    assert (code, "this board was revoked" in said) == (1, True)
    assert re.search(r"bad +store: .*this board was revoked", run(home, "doctor")[1])


# --- the daemon's thread ---


class Log:
    def __init__(self):
        self.lines = []

    def __call__(self, text, *, trouble=True):
        self.lines.append(text)


def make_worker(board, url, log):
    config = Config(home=board.config.home, store=StoreConfig(url=url, board=board.name))
    return StoreWorker(config, board.clock, log, (0.05, 0.2, 0.5, 0.2))


def test_the_daemons_thread_hears_of_others_and_outlives_the_store(tmp_path, board, postgres):
    url = postgres.empty_database()
    proxy, log = Proxy(postgres.port), Log()
    worker = make_worker(board, url.replace(str(postgres.port), str(proxy.port)), log)
    other = Board(tmp_path / "kitchen", url, board.clock)
    worker.start()
    try:
        until(lambda: worker.status()["synced"])
        other.run()
        other.write(DAY, other.read(DAY) + "- 09:00 from the kitchen\n")
        other.run()
        until(lambda: "from the kitchen" in board.read(DAY), 10)  # it was told, and looked at once
        proxy.cut()
        until(lambda: worker.status()["error"])
        board.say("while it was away")
        worker.wake()
        time.sleep(0.5)
        assert worker.status()["error"]
        proxy.heal()
        until(lambda: not worker.status()["error"])
        board.say("afterwards")
        worker.wake()
        store = other.sync._store

        def said():
            rows = store.list_rows("turns", {"board": "shed"})
            return sorted(json.loads(row["messages"])[0][1] for row in rows)

        until(lambda: said() == ["afterwards", "hello", "while it was away"])
    finally:
        worker.stop()
        other.stack.close()
        proxy.close()
    assert re.search(r"store: postgresql://admin@\S+: .*; this board goes on with what it has", log.lines[0])
    assert re.search(r"store: it answers again after .*; \d+ written there", log.lines[-1])
    assert not any(PASSWORD in line for line in log.lines)
    assert "store" not in {thread.name for thread in threading.enumerate()}


def test_what_was_held_back_is_taken_over_soon_after(tmp_path, board, postgres):
    """A note is told of when it is written, and given when every older transaction is over: nobody is told of that."""
    import psycopg

    url = postgres.empty_database()
    worker = make_worker(board, url, Log())
    other = Board(tmp_path / "kitchen", url, board.clock)
    other.run()
    worker.start()
    try:
        until(lambda: worker.status()["synced"])
        with psycopg.connect(url) as slow:
            slow.execute("SELECT pg_current_xact_id()")
            other.write("memory/late.md", "- from the kitchen\n")
            other.run()
            synced = worker.status()["synced"]
            until(lambda: worker.status()["synced"] > synced)
            assert board.read("memory/late.md") is None
            slow.rollback()
        until(lambda: board.read("memory/late.md"), 10)
    finally:
        worker.stop()
        other.stack.close()


def test_the_thread_waits_longer_and_longer_and_says_so_once(board):
    log = Log()
    worker = make_worker(board, "postgresql://nobody@127.0.0.1:9/x", log)
    worker.start()
    time.sleep(2.5)
    worker.stop()
    assert len(log.lines) == 1
    assert "nothing listens there" in worker.status()["error"]


def test_the_thread_ends_soon_while_the_store_hangs(board):
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        worker = make_worker(board, f"postgresql://a@127.0.0.1:{silent.getsockname()[1]}/d", Log())
        worker.start()
        time.sleep(0.3)
        begun = time.monotonic()
        worker.stop()
        assert time.monotonic() - begun < 7


def test_nothing_of_it_is_imported_in_a_home_without_a_store():
    code = (
        "import sys, picoclaw.daemon.service, picoclaw.app, picoclaw.stores, picoclaw.memory.memory;"
        "print([m for m in sys.modules if m.startswith(('picoclaw.shared_store', 'picoclaw.shared_store.sync', 'psycopg'))])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
