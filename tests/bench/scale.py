"""How far one shared store goes: many boards, agents, people and chunks in one PostgreSQL, on this machine.

    make .venv-postgres/installed
    python tests/bench/scale.py [--full] [--boards N] [--agents N] [--people N] [--chunks N] [--seconds S] [--away S]

Usually 20 boards, 10 agents, 100 people and 20,000 chunks; --full is 200, 100, 1,000 and 1,000,000. The server is one
of postgres_server.py, durable (fsync). Prints figures, and fails where something was lost or is there twice.

A simulated board is what the daemon has of a store and nothing else: a real home in /dev/shm with its state.db and notes,
the thread of picoclaw.shared_store.sync with a connection, user and password of its own, turns and sums written as a
conversation writes them, notes written by add_note. What it has not: a process of its own (the boards share --processes),
a model, channels, hardware, and the agent's older notes (its cursor stands behind what was there before). Its searches are those of
`picoclaw store search`, a connection for each. Real daemons run beside them, and whole homes are synchronised by the command.
Boards and server share this machine's processors, so that times are longer than with a server of its own.
"""

import argparse
import json
import multiprocessing as mp
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import psycopg  # noqa: E402
from memory_search import list_words, load_table  # noqa: E402
from person import environment  # noqa: E402
from pgbouncer_server import PROGRAM, Pgbouncer  # noqa: E402
from postgres_server import PostgresServer, is_installed  # noqa: E402
from scale_fill import ARCHIVE, EVERYBODYS, Size, fill  # noqa: E402

from picoclaw.agents import agent_id  # noqa: E402
from picoclaw.config import Config  # noqa: E402
from picoclaw.config.tables import AgentConfig, PersonConfig, StoreConfig  # noqa: E402
from picoclaw.errors import PicoclawError  # noqa: E402
from picoclaw.memory.notes import add_note, get_day_file  # noqa: E402
from picoclaw.messages import Message, Notice, Turn, Usage  # noqa: E402
from picoclaw.records import replace  # noqa: E402
from picoclaw.shared_store.home import SharedHome  # noqa: E402
from picoclaw.shared_store.postgres import PostgresStore, set_up_board  # noqa: E402
from picoclaw.shared_store.store import SearchScope, open_shared_store, search_store  # noqa: E402
from picoclaw.shared_store.sync import StoreSync, StoreWorker  # noqa: E402
from picoclaw.store.conversations import History  # noqa: E402
from picoclaw.store.database import Database  # noqa: E402
from picoclaw.store.ledger import Ledger, LedgerKey, LedgerTotals  # noqa: E402

ROOT = Path(__file__).parents[2]
RUN = f"{time.time():.0f}"
EVERY_S = {"chat": 15.0, "note": 30.0, "search": 30.0}
"""How often a board does what, in seconds, on average."""
SETTINGS = {
    "fsync": "on",
    "shared_buffers": "1GB",
    "maintenance_work_mem": "512MB",
    "max_wal_size": "4GB",
    "log_autovacuum_min_duration": "0",
    "wal_level": "minimal",
    "max_wal_senders": 0,
}


def now():
    return datetime.now().astimezone()


# --- a simulated board, in a process of some of them ---


class Times:
    """What took how long, by name; from any thread."""

    def __init__(self):
        self._lock, self._found, self._errors = threading.Lock(), {}, {}

    def add(self, name, seconds):
        with self._lock:
            self._found.setdefault(name, []).append(seconds)

    def fail(self, text):
        with self._lock:
            self._errors[text] = self._errors.get(text, 0) + 1

    def take(self):
        with self._lock:
            found, errors, self._found, self._errors = self._found, self._errors, {}, {}
        return found, errors


TIMES = Times()


def measure(owner, name):
    """Let a method note how long it takes."""
    method = getattr(owner, name)

    def measured(*given, **named):
        begun = time.perf_counter()
        try:
            return method(*given, **named)
        finally:
            TIMES.add(name, time.perf_counter() - begun)

    setattr(owner, name, measured)


class Board:
    """The home of a board, and its thread."""

    def __init__(self, folder, about, url):
        self.name, self.agents, self.cursor = about["name"], about["agents"], about["cursor"]
        folder.mkdir(exist_ok=True)
        (folder / "workspace").mkdir(exist_ok=True)
        own, *others = self.agents
        agents = {own: AgentConfig(default=True), **{key: AgentConfig() for key in others}}
        self.config = Config(
            home=folder,
            people={name: PersonConfig() for name in about["people"]},
            agents=agents,
            store=StoreConfig(url=url.format(board=self.name), board=self.name),
            store_password=about["password"],
        )
        self.database = Database(folder / "state.db")
        self.said, self.noted, self.pending = [], [], []
        self._lock = threading.Lock()
        self._pass_over_older_notes()
        self.worker = None

    def _pass_over_older_notes(self):
        with closing(SharedHome(self.config, self.name)) as home:
            home.note_places()
            for agent in home.agents:
                for kind in ("documents", "user_context_files"):
                    if not home.state(f"cursor {kind} {agent}"):
                        home.set_state(f"cursor {kind} {agent}", self.cursor)

    def start(self):
        self.worker = StoreWorker(self.config, now, self._note)
        self.worker.start()

    def stop(self):
        if self.worker:
            self.worker.stop()

    def _note(self, text, *, trouble=True):
        if trouble:
            TIMES.fail(text.partition(": ")[2].partition("; this board")[0].partition(": ")[2] or text)

    def chat(self):
        with self._lock:
            text = f"turn {RUN} {self.name} {len(self.said)}"
            messages = (Message("user", text), Message("assistant", "The pump is off since 08:00. " * 12))
            turn = Turn(messages[1].text, messages, 1, (), Usage(300, 40), "", "m", Notice(""))
            History(self.database).keep("telegram:1", turn, now())
            ledger = Ledger(lambda: self.database)
            ledger.note(LedgerKey(str(now().date()), "m", "chat", "telegram"), LedgerTotals(1, 300, 40))
            with ledger.transaction():
                pass
            self.said.append(text)
            self.pending.append(("turn in the store", time.perf_counter()))
        self.worker.wake()

    def note(self, text="", key=""):
        folder = self.config.home / "agents" / key if key else self.config.home
        (folder / "workspace").mkdir(parents=True, exist_ok=True)
        with self._lock:
            text = text or f"note {RUN} {self.name} {len(self.noted)} of the pump"
            add_note(folder / "workspace", text, now())
            self.noted.append(text)
            self.pending.append(("note in the store", time.perf_counter()))
        self.worker.wake()

    def search(self, words, embedder):
        begun = time.perf_counter()
        with closing(open_shared_store(self.config.store.url, self.config.store_password)) as store:
            TIMES.add("connect", time.perf_counter() - begun)
            search_store(store, SearchScope(agent_id(self.agents[0])), words, embedder, now())
        TIMES.add("search", time.perf_counter() - begun)

    def take_pending(self):
        with self._lock:
            found, self.pending = self.pending, []
        return found

    def finish(self, found):
        for name, at in found:
            TIMES.add(name, time.perf_counter() - at)


BOARDS = {}


def watch_runs():
    """Note of each synchronisation how long it takes, and what has waited for it."""
    run = StoreSync.run

    def measured(self, *given):
        board = BOARDS[self._home.board]
        waiting, begun = board.take_pending(), time.perf_counter()
        try:
            report = run(self, *given)
        except BaseException:
            with board._lock:
                board.pending = waiting + board.pending
            raise
        TIMES.add("synchronisation", time.perf_counter() - begun)
        if not report.is_empty:
            TIMES.add("synchronisation with news", time.perf_counter() - begun)
        board.finish(waiting)
        return report

    StoreSync.run = measured


def stop_all():
    stops = [threading.Thread(target=board.stop) for board in BOARDS.values()]
    for one in stops:
        one.start()
    for one in stops:
        one.join(30)


def live(folder, abouts, url, pipe):
    """A process of some boards; does what it is told through a pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for name in ("claim", "changes", "put"):
        measure(PostgresStore, name)
    watch_runs()
    for about in abouts:
        BOARDS[about["name"]] = Board(folder / about["name"], about, url)
    embedder = load_table()
    words = list_words(embedder)
    active, ended = threading.Event(), threading.Event()

    def act(board, what):
        try:
            if what == "search":
                board.search(" ".join(random.choices(words[:2000], k=4)), embedder)
            else:
                getattr(board, what)()
        except PicoclawError as error:
            TIMES.fail(f"{what}: {str(error).partition(': ')[2]}")

    def drive():
        boards = list(BOARDS.values())
        rate = sum(1 / every for every in EVERY_S.values()) * len(boards)
        with ThreadPoolExecutor(8) as pool:
            while not ended.is_set():
                active.wait()
                what = random.choices(list(EVERY_S), [1 / every for every in EVERY_S.values()])[0]
                pool.submit(act, random.choice(boards), what)
                ended.wait(random.expovariate(rate))

    threading.Thread(target=drive, daemon=True).start()
    while True:
        word, *given = pipe.recv()
        answer = True
        if word == "start":
            for board in BOARDS.values():
                board.start()
        elif word == "connect to":  # all at once, by another way
            stop_all()
            for board in BOARDS.values():
                table = StoreConfig(url=given[0].format(board=board.name), board=board.name)
                board.config = replace(board.config, store=table)
                board.start()
        elif word == "act":
            TIMES.take()
            active.set()
        elif word == "rest":
            active.clear()
        elif word == "take":
            answer = TIMES.take()
        elif word == "note":
            BOARDS[given[0]].note(given[1], given[2])
        elif word == "have":  # how many have this note
            path = f"agents/{EVERYBODYS}/workspace/{get_day_file(now().date())}"
            answer = sum(given[0] in read(board.config.home / path) for board in BOARDS.values())
        elif word == "status":
            answer = {name: (board.worker.status(), len(board.pending)) for name, board in BOARDS.items()}
        elif word == "written":
            answer = [(board.name, list(board.said), list(board.noted)) for board in BOARDS.values()]
        elif word == "memory":
            answer = read_memory([os.getpid()])
        elif word == "end":
            ended.set()
            active.set()
            stop_all()
            pipe.send(True)
            os._exit(0)
        pipe.send(answer)


def read(path):
    with suppress(OSError):
        return path.read_text()
    return ""


def read_memory(pids):
    """The proportional share of some processes in MB: what they share is counted once."""
    total = 0
    for pid in pids:
        with suppress(OSError):
            rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            total += next(int(row.split()[1]) for row in rows if row.startswith("Pss:"))
    return total / 1024


# --- the fleet, and the server ---


class Fleet:
    """All simulated boards, in their processes."""

    def __init__(self, folder, abouts, url, processes):
        self.boards, self._pipes, self._processes = len(abouts), [], []
        for place in range(processes):
            own, theirs = mp.Pipe()
            one = mp.Process(target=live, args=(folder, abouts[place::processes], url, theirs), daemon=True)
            one.start()
            self._pipes.append(own)
            self._processes.append(one)

    def ask(self, *words):
        for pipe in self._pipes:
            pipe.send(words)
        return [pipe.recv() for pipe in self._pipes]

    def tell(self, place, *words):
        """Ask one of the processes."""
        self._pipes[place].send(words)
        return self._pipes[place].recv()

    def take(self):
        """What took how long since it was asked last, and what went wrong."""
        found, errors = {}, {}
        for times, failed in self.ask("take"):
            for name, taken in times.items():
                found.setdefault(name, []).extend(taken)
            for text, count in failed.items():
                errors[text] = errors.get(text, 0) + count
        return found, errors

    def status(self):
        return {name: one for each in self.ask("status") for name, one in each.items()}

    def count_synced(self, since):
        return sum(
            one["synced"] > since and not one["error"] and not pending for one, pending in self.status().values()
        )

    def wait_synced(self, since, seconds):
        """Wait until every board has synchronised after a moment, with nothing left to push; seconds, and how many."""
        begun = time.monotonic()
        while (count := self.count_synced(since)) < self.boards and time.monotonic() - begun < seconds:
            time.sleep(0.5)
        return time.monotonic() - begun, count

    def end(self):
        for pipe in self._pipes:
            with suppress(OSError):
                pipe.send(("end",))
        for one in self._processes:
            one.join(30)
            one.kill()


class Watch:
    """Counts the server's connections, memory and processor every second."""

    def __init__(self, server):
        self._server, self._ended, self.rows = server, threading.Event(), []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        before = self._ticks()
        while not self._ended.wait(1):
            with suppress(OSError, psycopg.Error):
                found = dict(
                    self._server.run(
                        "SELECT state, count(*) FROM pg_stat_activity WHERE usename LIKE 'picoclaw%' GROUP BY 1"
                    )
                )
                ticks = self._ticks()
                self.rows.append((sum(found.values()), found.get("active", 0), max(0, ticks - before)))
                before = ticks

    def _ticks(self):
        return sum(read_ticks(pid) for pid in self._server.pids())

    def end(self):
        self._ended.set()
        self._thread.join()
        if not self.rows:
            return "no figures"
        most, active, busy = (
            max(row[0] for row in self.rows),
            max(row[1] for row in self.rows),
            statistics.mean(row[2] for row in self.rows),
        )
        return f"{most} connections at most, {active} of them at work; the server's processors {busy:.0f} %"


def read_ticks(pid):
    with suppress(OSError, ValueError):
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
        return int(words[11]) + int(words[12])
    return 0


def show_times(found, names=()):
    for name in names or sorted(found):
        taken = sorted(found.get(name, []))
        if len(taken) > 1:
            cuts = statistics.quantiles(taken, n=100)
            print(
                f"  {name}: {len(taken)} times, p50 {show_seconds(cuts[49])}, p99 {show_seconds(min(cuts[98], taken[-1]))},"
                f" longest {show_seconds(taken[-1])}"
            )


def show_seconds(seconds):
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"


def show_errors(errors):
    for text, count in sorted(errors.items(), key=lambda one: -one[1])[:6]:
        print(f"  said {count} times: {text[:150]}")


def show_sizes(server, database):
    rows = server.run(
        "SELECT s.relname, pg_total_relation_size(c.oid), pg_indexes_size(c.oid), n_dead_tup, autovacuum_count FROM pg_class c"
        " JOIN pg_stat_user_tables s ON s.relid = c.oid WHERE schemaname = 'picoclaw' ORDER BY 2 DESC LIMIT 6",
        database,
    )
    total = server.run(f"SELECT pg_database_size('{database}')")[0][0]
    print(f"size on disk: {total / 1e6:.0f} MB")
    for name, size, indexes, dead, vacuums in rows:
        print(
            f"  {name}: {size / 1e6:.0f} MB, {indexes / 1e6:.0f} of them indexes; {dead} dead rows, vacuumed {vacuums} times"
        )


def make_boards(url, size, cursor):
    """Give each board its user in the database."""
    found = []
    begun = time.perf_counter()
    for number in range(size.boards):
        keys = size.agents_of(number)
        role = set_up_board(url, "", f"board{number}", {key: agent_id(key) for key in keys}, replaces=True)
        people = size.people_of(keys[0])
        about = {"name": f"board{number}", "agents": keys, "people": people, "cursor": cursor}
        found.append(about | {"password": role.password, "address": role.address})
    print(f"set up: {(time.perf_counter() - begun) / size.boards * 1000:.0f} ms a board")
    return found


# --- the parts of a run ---


def show_plans(url, about):
    """Explain what a board asks for, as the database does it for the board's user."""
    agent, question, vector = about["agent"], "'pump' | 'boiler'", f"[{','.join(['1'] * 128)}]"
    notes = "FROM picoclaw.chunks WHERE agent_id = %s AND person = ANY (%s)"
    changes = (
        "SELECT * FROM picoclaw.documents WHERE agent_id = %s AND (changed, id) > (%s::xid8, %s::uuid)"
        " AND changed < pg_snapshot_xmin(pg_current_snapshot()) ORDER BY changed, id LIMIT 100"
    )
    asked = {
        "changes": (changes, (agent, *about["cursor"].split())),
        "a board's turns": ("SELECT * FROM picoclaw.turns WHERE agent_id = %s AND board = %s AND id > %s ORDER BY id LIMIT 100", (agent, about["name"], agent)),
        "words": (f"SELECT count(*), count(*) FILTER (WHERE words @@ %s::tsquery) {notes}", (question, agent, [""])),
        "vectors": (f"SELECT number {notes} ORDER BY vector <=> %s::halfvec LIMIT 36", (agent, [""], vector)),
    }  # fmt: skip
    with psycopg.connect(url, password=about["password"], autocommit=True) as connection:
        for name, (sql, values) in asked.items():
            rows = [row for (row,) in connection.execute(f"EXPLAIN (ANALYZE, BUFFERS) {sql}", values)]
            scans = [row.strip(" ->").partition("  (")[0] for row in rows if "Scan" in row and "board" not in row]
            print(f"  plan of {name}: {', '.join(scans)}; {rows[-1].partition(': ')[2]}")


def measure_searches(url, about, keys, count=20):
    """Search with nobody else there, as a board's user, all notes of an agent and its people."""
    embedder = load_table()
    words, chance = list_words(embedder), random.Random(7)
    with closing(open_shared_store(url, about["password"])) as store:
        for key, people in keys.items():
            taken, scope = [], SearchScope(agent_id(key), ("", *people))
            for _ in range(count):
                question = " ".join(chance.choices(words[:2000], k=4))
                begun = time.perf_counter()
                search_store(store, scope, question, embedder, now())
                taken.append(time.perf_counter() - begun)
            show_times({f"search in {store.count_chunks(scope, {})[0]} chunks": taken})


class Home:
    """A whole home, for the commands of picoclaw."""

    def __init__(self, folder, about, url, keys, people=()):
        self.folder, self.name = folder, folder.name
        (folder / "picoclaw").mkdir(parents=True)
        own, *others = keys
        tables = [f'[store]\nurl = "{url.format(board=about["name"])}"\nboard = "{about["name"]}"']
        tables += [f"[agents.{own}]\ndefault = true", *(f"[agents.{key}]" for key in others)]
        tables += [f"[people.{person}]" for person in people]
        (folder / "picoclaw/config.toml").write_text("\n".join(tables) + "\n")
        secrets = folder / "picoclaw/secrets.toml"
        secrets.write_text(f'store_password = "{about["password"]}"\n')
        secrets.chmod(0o600)

    def start(self, *words, **streams):
        given = environment(self.folder, PYTHONPATH=str(ROOT))
        return subprocess.Popen([sys.executable, "-m", "picoclaw", *words], env=given, cwd="/", text=True, **streams)

    def run(self, *words):
        """Run a command; returns what it says, seconds, seconds of processor and MB at most."""
        begun = time.perf_counter()
        made = self.start(*words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        said = " ".join(made.stdout.read().split())
        used = os.wait4(made.pid, 0)[2]
        made.returncode = 0
        return said, time.perf_counter() - begun, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def measure_cold(home):
    """Synchronise a new home with `picoclaw store sync`, and once more with nothing new."""
    for name in ("a new home", "nothing new"):
        said, seconds, busy, most = home.run("store", "sync")
        print(f"  store sync, {name}: {show_seconds(seconds)}, {busy:.1f} s of processor, {most:.0f} MB: {said[:120]}")


def measure_daemons(homes):
    """Ask whole daemons while all the others are at work."""
    for home in homes:
        for words in (
            ("chat", "-m", f"note that {home.name} is blue"),
            ("store", "search", home.name),
            ("store", "status"),
        ):
            said, seconds, _, _ = home.run(*words)
            print(f"  daemon {home.name}: {' '.join(words)}: {show_seconds(seconds)}: {said[:150]}")


def check_written(fleet, url):
    """Count what boards have said and noted, and what the store has of it; returns how many are lost or twice."""
    answers = [one for answer in fleet.ask("written") for one in answer]
    said = [turn for _, turns, _ in answers for turn in turns]
    noted = [note for _, _, notes in answers for note in notes if note.startswith("note ")]
    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT messages FROM picoclaw.turns WHERE said_at > '2026-06'").fetchall()
        pages = connection.execute(
            "SELECT content FROM picoclaw.documents WHERE NOT deleted AND at > 1.79e9"
        ).fetchall()
    turns = [json.loads(row)[0][1] for (row,) in rows]
    turns = [turn for turn in turns if turn.startswith(f"turn {RUN}")]
    notes = [line[8:] for (page,) in pages for line in page.splitlines() if line[8:].startswith(f"note {RUN}")]
    lost = len(set(said) - set(turns)) + len(set(noted) - set(notes))
    twice = len(turns) - len(set(turns)) + len(notes) - len(set(notes))
    print(f"  {len(said)} turns and {len(noted)} notes were written until now: {lost} of them lost, {twice} twice")
    return lost + twice


def show_phase(fleet, server, name, seconds):
    """Let the boards be at work for some time, and say how it went."""
    watch = Watch(server)
    fleet.ask("act")
    time.sleep(seconds)
    fleet.ask("rest")
    found, errors = fleet.take()
    print(f"{name}, {seconds} s, load {os.getloadavg()[0]:.1f}: {watch.end()}")
    show_times(found)
    show_errors(errors)
    boards = sum(fleet.ask("memory")) / fleet.boards
    print(f"  memory: server {read_memory(server.pids()):.0f} MB, a simulated board {boards:.1f} MB")


def tell_everybody(fleet, text, seconds=120):
    """One board writes a note for all; says how long until half of them, and all, have it."""
    fleet.tell(0, "note", "board0", f"{text} {RUN}", EVERYBODYS)
    begun, half, count = time.monotonic(), 0.0, 0
    while count < fleet.boards and time.monotonic() - begun < seconds:
        time.sleep(0.3)
        count = sum(fleet.ask("have", f"{text} {RUN}"))
        half = half or (time.monotonic() - begun if count >= fleet.boards / 2 else 0.0)
    taken = time.monotonic() - begun
    print(
        f"a note for all ({text}): {count} of {fleet.boards} have it after {taken:.1f} s, half of them after {half:.1f} s"
    )


def leave_open(fleet, url, seconds):
    """Somebody has written something on this server, and does not commit."""
    with psycopg.connect(url) as other:
        other.execute("CREATE TABLE picoclaw.left_open (a int)")
        tell_everybody(fleet, "while a transaction is open", seconds)
        problems = {problem for one, _ in fleet.status().values() for problem in one["problems"]}
        print(f"  boards say: {', '.join(problems) or 'nothing'}")
        other.rollback()
    begun = time.monotonic()
    while (
        sum(fleet.ask("have", f"while a transaction is open {RUN}")) < fleet.boards and time.monotonic() - begun < 400
    ):
        time.sleep(0.5)
    print(f"  it is over: all of them have the note after {time.monotonic() - begun:.1f} s")


def go_away(fleet, server, seconds):
    """The server stops; the boards go on writing, and bring it all together afterwards."""
    fleet.ask("act")
    server.stop()
    time.sleep(seconds)
    fleet.ask("rest")
    since = time.time()
    server.start()
    watch = Watch(server)
    taken, count = fleet.wait_synced(since, 900)
    found, errors = fleet.take()
    print(
        f"away for {seconds} s: {count} of {fleet.boards} are up to date {taken:.0f} s after it is back; {watch.end()}"
    )
    show_times(found, ["synchronisation with news", "put", "turn in the store"])
    show_errors(errors)


def connect_otherwise(fleet, server, name, template):
    """All boards begin anew, by an address of their own or another one."""
    since = time.time()
    fleet.ask("connect to", template)
    watch = Watch(server)
    taken, count = fleet.wait_synced(since, 600)
    print(f"{name}: {count} of {fleet.boards} have synchronised after {taken:.0f} s; {watch.end()}")
    show_errors(fleet.take()[1])


def start_together(url, what, count=20):
    """So many boards, as the owner of the schema, open one store at once."""
    taken, failed = [], []

    def begin():
        begun = time.perf_counter()
        try:
            open_shared_store(url).close()
        except PicoclawError as error:
            failed.append(str(error))
        taken.append(time.perf_counter() - begun)

    boards = [threading.Thread(target=begin) for _ in range(count)]
    for one in boards:
        one.start()
    for one in boards:
        one.join()
    print(f"{count} boards open {what} at once: {show_seconds(max(taken))}, failed {len(failed)} {failed[:1]}")


def run_parts(given, size, folder, server, url, abouts):
    """All parts, in order; returns how much was lost or is there twice."""
    database = url.rpartition("/")[2]
    template = f"postgresql://picoclaw_{{board}}@127.0.0.1:{server.port}/{database}"
    about = abouts[0] | {"agent": agent_id(abouts[0]["agents"][0])}
    own = about["agents"][0]
    reader = set_up_board(url, "", "reader", {key: agent_id(key) for key in (own, ARCHIVE)}, replaces=True)
    asking = {"name": "reader", "password": reader.password, "cursor": about["cursor"], "agent": agent_id(own)}
    address = template.format(board="reader")
    show_plans(address, asking)
    if "search" not in given.skip:
        measure_searches(address, asking, {own: size.people_of(own), ARCHIVE: size.people_of(ARCHIVE)})
    if "cold" not in given.skip:
        measure_cold(Home(folder / "cold", asking, template, [own], size.people_of(own)))
    wrong = 0
    fleet = Fleet(folder, abouts[:-3], template, given.processes)
    homes = [Home(folder / f"whole-{one['name']}", one, template, one["agents"]) for one in abouts[-3:]]
    daemons = []
    try:
        since = time.time()
        fleet.ask("start")
        taken, count = fleet.wait_synced(since, 300)
        print(f"{count} of {fleet.boards} boards are connected and up to date after {taken:.0f} s")
        show_errors(fleet.take()[1])
        for home in homes:
            with (home.folder / "log").open("wb") as log:
                daemons.append(home.start("run", "--board", "sim", stdout=log, stderr=log))
        show_phase(fleet, server, "all at work", given.seconds)
        fleet.ask("act")
        measure_daemons(homes)
        print(f"  memory: a daemon {read_memory([one.pid for one in daemons]) / 3:.0f} MB")
        fleet.ask("rest")
        tell_everybody(fleet, "while nobody else writes")
        if "open" not in given.skip:
            leave_open(fleet, url, 45)
        wrong += settle_and_check(fleet, url)
        if "away" not in given.skip:
            go_away(fleet, server, given.away)
            wrong += settle_and_check(fleet, url)
        show_sizes(server, database)
        if "full" not in given.skip:
            server.stop()
            server.settings["max_connections"] = max(20, size.boards // 2)
            server.start()
            connect_otherwise(fleet, server, f"max_connections = {server.settings['max_connections']}", template)
            show_phase(fleet, server, "all at work, with half of the connections", given.seconds)
            tell_everybody(fleet, "with half of the connections")
            wrong += settle_and_check(fleet, url)
        if "pool" not in given.skip and PROGRAM:
            with Pgbouncer(server) as pooler:
                connect_otherwise(
                    fleet,
                    server,
                    "through pgbouncer, 20 connections",
                    template.replace(str(server.port), str(pooler.port)),
                )
                show_phase(fleet, server, "all at work, through pgbouncer", given.seconds)
                tell_everybody(fleet, "through pgbouncer")
                wrong += settle_and_check(fleet, url)
                fleet.end()
    finally:
        for one in daemons:
            one.terminate()
        for one in daemons:
            one.wait(30)
        fleet.end()
    return wrong


def settle_and_check(fleet, url):
    """Wait until nothing is on its way, then count."""
    fleet.wait_synced(0, 400)
    return check_written(fleet, url)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="200 boards, 100 agents, 1,000 people, 1,000,000 chunks")
    names, small = ("boards", "agents", "people", "chunks", "seconds", "away"), (20, 10, 100, 20_000, 20, 20)
    for name, usual in zip(names, small, strict=True):
        parser.add_argument(f"--{name}", type=int, help=f"usually {usual}")
    parser.add_argument("--keep", type=Path, help="a folder for the database, which is filled once and used again")
    parser.add_argument("--processes", type=int, default=4, help="of the simulated boards")
    parser.add_argument(
        "--skip", nargs="*", default=[], help="parts to leave out: search, cold, open, away, full, pool"
    )
    given = parser.parse_args()
    for name, usual in zip(names, (200, 100, 1000, 1_000_000, 120, 300) if given.full else small, strict=True):
        setattr(given, name, getattr(given, name) or usual)
    if not is_installed():
        sys.exit("no PostgreSQL here: make .venv-postgres/installed")
    size = Size(given.boards, given.agents, given.people, given.chunks)
    print(f"{size}; {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
    folder = Path(tempfile.mkdtemp(prefix="picoclaw-scale-", dir="/dev/shm"))
    try:
        with PostgresServer(SETTINGS | {"max_connections": size.boards + 50}, given.keep) as server:
            server.run("DROP DATABASE IF EXISTS empty")
            server.run("CREATE DATABASE empty")
            start_together(server.url("empty"), "an empty database")
            url = server.url("scale")
            if not server.run("SELECT 1 FROM pg_database WHERE datname = 'scale'"):
                server.run("CREATE DATABASE scale")
                begun = time.monotonic()
                fill(url, size, lambda text: print(f"  filled: {text}, {time.monotonic() - begun:.0f} s"))
            start_together(url, "the full one")
            show_sizes(server, "scale")
            last = server.run("SELECT max(changed::text::bigint) FROM picoclaw.documents", "scale")[0][0]
            abouts = make_boards(url, size, f"{last} ffffffff-ffff-ffff-ffff-ffffffffffff")
            return 1 if run_parts(given, size, folder, server, url, abouts) else 0
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    sys.exit(main())
