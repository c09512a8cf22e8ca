"""The one door to the memory: always up to date, always an answer, whatever is wrong with disks, servers and files."""

import json
import os
import random
import shutil
import subprocess
import sys
import time
import zlib
from collections import Counter
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest
import sweep
from model_server import ModelServer, raw, refusal
from rights import ordinary_user
from test_memory_index import killed

from picoclaw.errors import ProviderError, StoreError, Unavailable
from picoclaw.files import find_shipped
from picoclaw.memory import embedding, index, search
from picoclaw.memory import files as memory_files
from picoclaw.memory import memory as memory_memory
from picoclaw.memory.embedding import RemoteEmbedder, StaticEmbedder
from picoclaw.memory.files import Document
from picoclaw.memory.memory import MemoryIndex
from picoclaw.memory.search import extract_terms

NOW = datetime(2026, 11, 22, 10, tzinfo=UTC)  # a Sunday
NOTE = "memory/202611/20261121.md"
FUSE = "- 14:05 the pump's fuse is 3 A"
DAY = f"# 2026-11-21\n\n{FUSE}\n- 15:30 watered the ferns\n- 15:40 the tank was\n  cleaned by Grace\n"


@cache
def table():
    return StaticEmbedder(find_shipped("templates") / "embeddings")


class Words:
    """An embedder that needs no table: which words a text has. Remembers what it was asked."""

    def __init__(self, name="words", dims=300, failing=""):
        self.name, self.dims, self.failing, self.asked = name, dims, failing, []

    def embed(self, texts):
        self.asked += texts
        if self.failing:
            raise Unavailable(self.failing)
        rows = np.zeros((len(texts), self.dims), np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in extract_terms(text):
                row[zlib.crc32(word.encode("utf-8", "replace")) % self.dims] += 1
        return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)


@pytest.fixture(autouse=True)
def every_write_has_a_time_of_its_own(monkeypatch):
    monkeypatch.setattr(memory_files, "_RACY_NS", 0)


@pytest.fixture
def place(tmp_path):
    """A home and a workspace with one note."""
    write(tmp_path, NOTE, DAY)
    return tmp_path


def write(place, name, text):
    file = place / "workspace" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape"))


def opened(place, embedder=None, others=tuple):
    return MemoryIndex(place / "home", place / "workspace", lambda: embedder, others)


def found(memory, query, **more):
    return [hit.snippet for hit in memory.search(query, NOW, **more)]


def best(memory, query):
    return found(memory, query)[:1]


# --- up to date ---


@pytest.mark.parametrize("embedder", [None, Words()])
def test_a_note_is_found_as_soon_as_it_is_written(place, embedder):
    with closing(opened(place, embedder)) as memory:
        assert best(memory, "what fuse has the pump?") == [FUSE]
        write(place, "memory/MEMORY.md", "The attic window is broken.\n")
        assert best(memory, "attic window") == ["The attic window is broken."]
        (place / "workspace/memory/MEMORY.md").unlink()
        assert found(memory, "attic window") == []


@contextmanager
def statements():
    """Count the statements of connections that are opened meanwhile."""
    real, seen = index.open_index, Counter()

    def connected(path, **more):
        connection = real(path, **more)
        connection.exec_trace = lambda _, sql, __: seen.update([sql]) or True
        return connection

    index.open_index = connected
    try:
        yield seen
    finally:
        index.open_index = real


def written():
    lines = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(lines["wchar"])


@contextmanager
def unreadable(folder):
    files = list(folder.rglob("*.md"))
    for file in files:
        file.chmod(0)
    try:
        with ordinary_user():
            yield
    finally:
        for file in files:
            file.chmod(0o600)


def test_an_unchanged_memory_costs_looks_and_nothing_else(place):
    """No file is read, nothing is written or embedded again, and the statements are few, however many notes."""
    costs = []
    for notes in (20, 400):
        for number in range(notes):
            write(place, f"memory/more/{number}.md", f"the pump number {number} has a fuse\n")
        embedder = Words()
        with statements() as seen, closing(opened(place, embedder)) as memory:
            memory.refresh()
            memory.search("the pump's fuse", NOW)
            embedder.asked.clear()
            seen.clear()
            before = written()
            with unreadable(place / "workspace"):
                assert memory.search("the pump's fuse", NOW)
            assert written() == before
            assert embedder.asked == ["the pump's fuse"]
            costs.append(sum(seen.values()))
    assert max(costs) <= 30
    assert costs[0] == costs[1]


def test_a_refresh_says_what_it_did(place):
    write(place, "memory/MEMORY.md", "The boiler has a valve.\n")
    embedder, told = Words(), []
    with closing(opened(place, embedder)) as memory:
        assert memory.refresh(seconds=0) == (2, 2, 0, 0, 2, (), 0, 0, "")
        assert embedder.asked == []
        assert memory.refresh(lambda done, total: told.append((done, total))) == (2, 0, 0, 0, 0, (), 2, 0, "")
        assert told == [(2, 2)]
        assert memory.refresh() == (2, 0, 0, 0, 0, (), 0, 0, "")
        assert memory.stats() == memory.stats() | {"files": 2, "vectors": 2, "model": "words", "problem": ""}
        assert memory.check() == []


def test_a_search_embeds_a_part_and_the_rest_another_time(place, monkeypatch):
    monkeypatch.setattr(memory_memory, "_EMBED_IN_SEARCH_S", 0.0)
    search._probe_cache.clear()
    for number in range(50):
        write(place, f"memory/{number}.md", f"bolt {number}\n")
    with closing(opened(place, Words())) as memory:
        had = []
        for _ in range(5):
            assert best(memory, "pump fuse") == [FUSE]
            had.append(memory.stats()["vectors"])
        assert had[0] == 16
        assert had == sorted(had)
        assert had[-1] == 51


def test_a_slow_embedder_is_asked_for_less(place, monkeypatch):
    monkeypatch.setattr(embedding, "_SLOW_S", -1.0)
    for number in range(20):
        write(place, f"memory/{number}.md", f"bolt {number}\n")
    with closing(opened(place, Words())) as memory:
        assert memory.refresh().embedded == 21
        assert memory._embedder.batch_size == 1


def test_another_embedder_means_other_vectors(place):
    first, second, longer = Words("one"), Words("two"), Words("two", 400)
    for embedder in (first, second, longer):
        with closing(opened(place, embedder)) as memory:
            done = memory.refresh()
            assert (done.embedded, done.left, memory.stats()["model"]) == (1, 0, embedder.name)
            assert best(memory, "pump fuse") == [FUSE]


def sends(dims):
    def answer(body):
        data = [{"index": i, "embedding": [1.0 + len(t), *[1.0] * (dims - 1)]} for i, t in enumerate(body["input"])]
        return raw(json.dumps({"data": data}).encode())

    return answer


@contextmanager
def served(place, answers):
    """A memory whose vectors come from a server."""
    with (
        ModelServer(answers) as server,
        closing(RemoteEmbedder(server.url, "m")) as remote,
        closing(opened(place, remote)) as memory,
    ):
        yield memory, server


def test_a_server_whose_model_has_changed_is_followed_by_the_next_start(place):
    for dims in (3, 5):
        with served(place, sends(dims)) as (memory, _):
            for _ in range(2):
                assert best(memory, "pump fuse") == [FUSE]
            assert memory._index.model() == ("m", dims)
            assert memory.refresh().left == 0


# --- vectors that cannot be made ---


def refused():
    raise ProviderError("the word vectors are damaged; install picoclaw again")


NONSENSE = {
    "wrong count": raw(b'{"data": []}'),
    "unequal": raw(b'{"data": [{"index": 0, "embedding": [1, 2]}, {"index": 1, "embedding": [1]}]}'),
    "NaN": raw(b'{"data": [{"index": 0, "embedding": [NaN, 1]}]}'),
    "a page": raw(b"<html>log in</html>"),
    "no embeddings": refusal(501, "not enabled"),
}


@pytest.mark.parametrize("answer", NONSENSE.values(), ids=NONSENSE)
def test_a_server_that_sends_nonsense_leaves_the_words(place, answer):
    with served(place, [answer]) as (memory, server):
        for _ in range(3):
            assert best(memory, "pump fuse") == [FUSE]
        assert memory.stats()["problem"]
        assert memory.refresh().problem == memory.stats()["problem"]
        assert len(server.requests) == 1, "it is left alone for a minute"


def test_a_server_that_is_away_leaves_the_words_until_it_is_back(place, monkeypatch):
    embedder = Words(failing="the embedding server is away")
    with closing(opened(place, embedder)) as memory:
        assert best(memory, "pump fuse") == [FUSE]
        assert memory.refresh()[6:] == (0, 1, "the embedding server is away")
        embedder.failing = ""
        assert memory.refresh().embedded == 0
        monkeypatch.setattr(memory._embedder, "_until", 0.0)
        assert memory.refresh()[6:] == (1, 0, "")


def resting(seconds, then=None):
    def answer(exchange):
        exchange.rest(seconds)
        if then:
            then(exchange)

    return answer


def test_a_server_that_hangs_is_not_waited_for(place, monkeypatch):
    monkeypatch.setattr(memory_memory, "_MAX_EMBED_WAIT_S", 0.3)
    with served(place, [resting(20)]) as (memory, server):
        began = time.monotonic()
        for _ in range(3):
            assert best(memory, "pump fuse") == [FUSE]
        assert time.monotonic() - began < 3
        assert len(server.requests) == 1, "it is left alone for a minute"
        assert "took longer than" in memory.problem


def test_a_server_that_hangs_later_is_not_waited_for_either(place, monkeypatch):
    search._probe_cache.clear()
    hanging = []
    with served(place, lambda body: resting(20) if hanging else sends(3)(body)) as (memory, server):
        monkeypatch.setattr(memory_memory, "_MAX_EMBED_WAIT_S", 0.3)
        assert best(memory, "pump fuse") == [FUSE]
        assert memory.stats()["vectors"] == 1
        hanging.append(True)
        write(place, "memory/new.md", "the attic window is broken\n")
        before, began = len(server.requests), time.monotonic()
        assert best(memory, "attic window") == ["the attic window is broken"]
        assert time.monotonic() - began < 2
        assert len(server.requests) == before + 1, "what is new is not embedded and the question not asked as well"


def test_a_slow_server_is_asked_about_the_question_only(place, monkeypatch):
    search._probe_cache.clear()
    monkeypatch.setattr(memory_memory, "_QUICK_REQUEST_S", 0.05)
    with served(place, lambda body: resting(0.1, sends(3)(body))) as (memory, server):
        for _ in range(2):
            assert best(memory, "pump fuse") == [FUSE]
        assert memory.stats()["vectors"] == 0
        assert len(server.requests) == 1, "without vectors there is nothing to compare the question with"
        assert memory.refresh().left == 0, "when nobody waits, it is asked all the same"
        assert best(memory, "pump fuse") == [FUSE]
        assert memory.problem == ""


def test_a_table_that_cannot_be_used_leaves_the_words(place):
    with closing(MemoryIndex(place / "home", place / "workspace", refused)) as memory:
        assert best(memory, "pump fuse") == [FUSE]
        assert memory.stats()["problem"] == "the word vectors are damaged; install picoclaw again"
        assert memory.refresh().problem == memory.stats()["problem"]


# --- documents that are no files ---


class Chats:
    """Documents that change, go, and count how often they are read."""

    def __init__(self, **texts):
        self.texts, self.stamps, self.read = texts, Counter(), []

    def __call__(self):
        for name in self.texts:
            yield Document(f"chats/{name}", self.stamps[name], partial(self._text, name), "2026-03-03")

    def _text(self, name):
        self.read.append(name)
        if self.texts[name] is None:
            raise StoreError("state.db: the disk reported an error")
        return self.texts[name]


def test_documents_are_found_beside_the_files(place):
    chats = Chats(one="User: which tyres fit my bicycle?\nAnswer: 28 inches", two="User: who built the Titanic?")
    with closing(opened(place, Words(), chats)) as memory:
        hit = memory.search("bicycle tyres", NOW)[0]
        assert (hit.path, hit.day, hit.snippet) == (
            "chats/one",
            "2026-03-03",
            "User: which tyres fit my bicycle?",
        )
        assert {hit.path for hit in memory.search("on 3 March", NOW)} == {"chats/one", "chats/two"}
        assert best(memory, "pump fuse") == [FUSE]
        chats.read.clear()
        chats.texts["two"] = "User: my shoes have the size 44"
        chats.stamps["two"] += 1
        assert best(memory, "shoes") == ["User: my shoes have the size 44"]
        assert found(memory, "Titanic") == []
        assert chats.read == ["two"]
        del chats.texts["one"]
        assert found(memory, "bicycle tyres") == []
        assert memory.stats()["files"] == 2
        assert memory.check() == []


def test_documents_with_the_same_stamp_are_not_confused(place):
    chats = Chats(one="about the bicycle")
    with closing(opened(place, None, chats)) as memory:
        assert found(memory, "bicycle")
        chats.texts = {"two": "about the tyres"}
        assert (found(memory, "bicycle"), found(memory, "tyres")) == ([], ["about the tyres"])


@pytest.mark.parametrize("text", ["\0\ud800 bicycle \x1b", "bicycle " + "x" * 1_000_000, "# bicycle\n" * 3000])
def test_odd_documents_are_texts_all_the_same(place, text):
    with closing(opened(place, None, Chats(one=text))) as memory:
        assert memory.search("bicycle", NOW)[0].path == "chats/one"
        assert memory.check() == []


def test_a_document_that_cannot_be_read_is_told_and_tried_again(place):
    chats = Chats(one=None)
    with closing(opened(place, None, chats)) as memory:
        assert memory.refresh().problems == ("chats/one: it cannot be read: state.db: the disk reported an error",)
        assert best(memory, "pump fuse") == [FUSE]
        chats.texts["one"] = "the bicycle"
        assert found(memory, "bicycle") == ["the bicycle"]


def test_documents_that_cannot_be_listed_leave_the_notes(place):
    def others():
        raise StoreError("state.db is damaged")

    with closing(opened(place, None, others)) as memory:
        assert best(memory, "pump fuse") == [FUSE]
        assert memory.stats()["problem"] == "state.db is damaged"


# --- disks ---


@pytest.fixture
def tiny_disk(place, mount_disk):
    return mount_disk(place / "home", "400k")


@pytest.mark.parametrize("before", [False, True])
def test_a_full_disk_does_not_keep_notes_from_being_found(tiny_disk, place, before):
    with closing(opened(place, Words())) as memory:
        if before:
            memory.refresh()
        (tiny_disk / "filler").write_bytes(b"x" * (os.statvfs(tiny_disk).f_bavail * 4096 - 4096))
        for number in range(400):
            write(place, f"memory/{number}.md", f"bolt {number} " + "is tight " * 60)
        for _ in range(2):
            assert best(memory, "pump fuse") == [FUSE]
            assert memory.search("bolt 399", NOW)[0].path == "memory/399.md"
        assert "full" in memory.stats()["problem"]
        with pytest.raises(StoreError, match=r"the disk is (nearly )?full"):
            memory.refresh()
        number = memory.search("pump fuse", NOW)[0].id
        assert memory.row(number).path == NOTE
        subprocess.run(["mount", "-o", "remount,size=50m", str(tiny_disk)], check=True)
        assert best(memory, "pump fuse") == [FUSE]
        assert memory.stats()["problem"] == ""
        assert memory.refresh().left == 0
        assert memory.check() == []


@pytest.mark.parametrize("before", [False, True])
def test_a_home_that_may_not_be_written(place, before):
    with closing(opened(place)) as memory:
        if before:
            memory.refresh()
        memory.close()
        (place / "home").mkdir(exist_ok=True)
        for file in (place / "home").iterdir():
            file.chmod(0o400)
        (place / "home").chmod(0o500)
        write(place, "memory/new.md", "the attic window is broken\n")
        with ordinary_user():
            assert best(memory, "pump fuse") == [FUSE]
            assert best(memory, "attic window") == ["the attic window is broken"]
            assert memory.stats()["problem"].startswith(f"{place / 'home/memory.db'}: ")
            with pytest.raises(StoreError):
                memory.boost(memory.search("pump fuse", NOW)[0].id, 0.25)
            memory.close()
        (place / "home").chmod(0o700)


def test_many_notes_are_not_indexed_in_memory(place, monkeypatch):
    """What was indexed before the disk failed still answers."""
    with closing(opened(place)) as memory:
        memory.refresh()
        monkeypatch.setattr(memory_memory, "_MAX_IN_MEMORY_BYTES", 10)
        monkeypatch.setattr(index, "_BUSY_MS", 10)
        memory.close()
        write(place, "memory/new.md", "the attic window is broken\n")
        with closing(index.open_index(place / "home/memory.db")) as other:
            other.execute("BEGIN IMMEDIATE")
            assert best(memory, "pump fuse") == [FUSE]
            assert found(memory, "attic window") == []
            assert "locked" in memory.stats()["problem"]
        assert best(memory, "attic window") == ["the attic window is broken"]


@pytest.mark.parametrize("log", [True, False])
def test_many_notes_are_found_on_a_disk_that_may_not_be_written(place, monkeypatch, log):
    with closing(opened(place, Words())) as memory:
        memory.refresh()
        monkeypatch.setattr(memory_memory, "_MAX_IN_MEMORY_BYTES", 10)
        memory.close()
        if not log:
            for end in ("-wal", "-shm"):
                (place / f"home/memory.db{end}").unlink(missing_ok=True)
        for file in (place / "home").iterdir():
            file.chmod(0o400)
        (place / "home").chmod(0o500)
        write(place, "memory/new.md", "the attic window is broken\n")
        before = {file.name: file.read_bytes() for file in (place / "home").iterdir()}
        with ordinary_user():
            for _ in range(2):
                assert best(memory, "pump fuse") == [FUSE]
                assert found(memory, "attic window") == []
            assert memory.problem.startswith(f"{place / 'home/memory.db'}: ")
            number = memory.search("pump fuse", NOW)[0].id
            assert memory.row(number).path == NOTE
            with pytest.raises(StoreError):
                memory.boost(number, 0.25)
            memory.close()
        (place / "home").chmod(0o700)
        assert {file.name: file.read_bytes() for file in (place / "home").iterdir()} == before
        for file in (place / "home").iterdir():
            file.chmod(0o600)
        assert best(memory, "attic window") == ["the attic window is broken"]
        assert memory.problem == ""


def test_many_notes_without_an_index_on_a_disk_that_may_not_be_written(place, monkeypatch):
    monkeypatch.setattr(memory_memory, "_MAX_IN_MEMORY_BYTES", 10)
    (place / "home").mkdir()
    (place / "home").chmod(0o500)
    with ordinary_user(), closing(opened(place)) as memory, pytest.raises(StoreError, match=r"memory\.db"):
        memory.search("pump fuse", NOW)


def test_no_place_for_an_index_at_all(place):
    (place / "home").write_text("a file where the home would be")
    with closing(opened(place, Words())) as memory:
        assert best(memory, "pump fuse") == [FUSE]
        assert "home" in memory.stats()["problem"]
        assert memory.check() != []


# --- kill -9, other processes ---


@pytest.mark.sweep
def test_kill_9_before_any_statement_then_a_search(place):
    """Half of the changes may be there, but what is there fits together, and the next look brings the rest."""
    write(place, "memory/MEMORY.md", "the boiler has a valve\n\n" * 60)
    write(place, "memory/new.md", "the pump is in the garden\n")
    with closing(opened(place, Words())) as memory:
        memory.refresh()
        expected = [hit._replace(id=0) for hit in memory.search("pump valve", NOW, least=0)]
    write(place, NOTE, "# 2026-11-21\n\nnothing yet\n")
    write(place, "memory/gone.md", "the pump is for sale\n")
    (place / "workspace/memory/new.md").rename(place / "workspace/memory/old.md")
    with closing(opened(place, Words())) as memory:
        memory.refresh()
    write(place, NOTE, DAY)
    (place / "workspace/memory/gone.md").unlink()
    (place / "workspace/memory/old.md").rename(place / "workspace/memory/new.md")
    shutil.copytree(place / "home", place / "older")
    for template in ("nothing", "older"):
        assert _survived(place, place / template, expected) > 25


def search_and_refresh(place):
    memory = opened(place, Words())
    memory.search("pump fuse", NOW)
    memory.refresh()


def _survived(place, template, expected):
    """Kill at each statement in turn, beginning with a copy of a home; how many there are."""
    for at in sweep.steps(5):
        shutil.rmtree(place / "home", ignore_errors=True)
        if template.exists():
            shutil.copytree(template, place / "home")
        died = killed(at, lambda: search_and_refresh(place))
        with closing(opened(place, Words())) as memory:
            memory.refresh()
            assert [hit._replace(id=0) for hit in memory.search("pump valve", NOW, least=0)] == expected
            assert memory.stats()["chunks"] == memory.stats()["vectors"]
            if at % 3 == 0:
                assert memory.check() == []
        if not died:
            break
    return at


SEARCHING = """
import sys
from datetime import datetime, UTC
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from test_memory import Words, opened
memory = opened(Path(sys.argv[1]), Words())
for turn in range(30):
    (Path(sys.argv[1]) / f"workspace/memory/{sys.argv[3]}.md").write_text(f"the {sys.argv[3]} is at {turn}")
    snippets = [hit.snippet for hit in memory.search(f"the {sys.argv[3]}", datetime.now(UTC))]
    assert snippets[:1] == [f"the {sys.argv[3]} is at {turn}"], snippets
"""


def test_two_processes_at_once(place):
    command = [sys.executable, "-c", SEARCHING, str(place), str(Path(__file__).parent)]
    children = [subprocess.Popen([*command, name], stderr=subprocess.PIPE, text=True) for name in ("lamp", "door")]
    assert [child.communicate(timeout=60)[1] for child in children] == ["", ""]
    with closing(opened(place, Words())) as memory:
        assert memory.refresh().left == 0
        assert best(memory, "door") == ["the door is at 29"]
        assert memory.check() == []


# --- odd questions, files and clocks ---


def test_files_that_come_and_go_meanwhile(place):
    dice = random.Random(3)
    child = subprocess.Popen(
        [sys.executable, "-c", CHURNING, str(place / "workspace/memory")], stdout=subprocess.PIPE, text=True
    )
    child.stdout.readline()
    try:
        with closing(opened(place, Words())) as memory:
            for _ in range(40):
                assert best(memory, "pump fuse") == [FUSE]
                time.sleep(dice.uniform(0, 0.01))
    finally:
        child.kill()
        child.communicate()
    with closing(opened(place, Words())) as memory:
        assert memory.refresh().left == 0
        assert memory.check() == []


CHURNING = """
import random, sys
from pathlib import Path
print("go", flush=True)
while True:
    file = Path(sys.argv[1]) / f"{random.randrange(30)}.md"
    if random.randrange(3):
        file.write_text("the garden is dry " * random.randrange(1, 300))
    else:
        file.unlink(missing_ok=True)
"""


@pytest.mark.parametrize("year", [1, 1970, 9999])
def test_a_clock_that_is_wrong_does_not_matter(place, year):
    with closing(opened(place, table())) as memory:
        hits = memory.search("what fuse has the pump?", datetime(year, 1, 1, tzinfo=UTC))
        assert [hit.snippet for hit in hits] == [FUSE]
        memory.search("the pump yesterday, last week, on the 3rd, 5 years ago", datetime(year, 1, 1, tzinfo=UTC))


def test_no_workspace_and_no_notes(tmp_path):
    with closing(opened(tmp_path, table())) as memory:
        assert memory.search("anything yesterday", NOW) == []
        assert memory.refresh().files == 0


# --- what a new owner has: a few notes ---

FEW = {
    NOTE: """# 2026-11-21

- 14:05 the pump's fuse is 3 A
- 15:30 the greenhouse temperature rose to 41 degrees
- 19:12 Ada's birthday is on 12 May
- 20:40 the spare key lies under the red flower pot
- 21:00 the wifi password of the workshop is soldering-iron
"""
}
MANY = FEW | {
    "memory/MEMORY.md": """# Owner

- Ada, lives in Leipzig, prefers Celsius
- allergic to walnuts
- works as a nurse, night shifts on Thursdays

# House

- the boiler pressure is to be between 1.2 and 1.6 bar
- printer: 192.168.1.40
- the cat is called Turing
""",
    "memory/202611/20261118.md": """# 2026-11-18

- 08:10 replaced the batteries of the door sensor (CR2032)
- 12:00 the relay on GPIO 17 switches the fan
- 18:45 bought 20 m of garden hose for 35 euros
""",
    "memory/202611/20261119.md": """# 2026-11-19

- 07:15 the DS18B20 on the roof showed -3.5 degrees
- 09:00 the plumber comes on Friday at ten
- 21:30 the BME280 has the address 0x76
""",
    "memory/202611/20261120.md": """# 2026-11-20

- 10:20 plumber was here, valve replaced, 120 euros
- 16:00 the car's licence plate is L-AB 123
- 17:10 doctor's appointment moved to 3 December
- 22:00 my sister Grace has a new phone number: 0341 5550
""",
}
ASKED_FEW = {
    "what fuse has the pump?": "fuse is 3 A",
    "which fuse does the pump need": "fuse is 3 A",
    "when is Ada's birthday?": "12 May",
    "where is the spare key?": "red flower pot",
    "where did I hide the key": "red flower pot",
    "wifi password": "soldering-iron",
    "what did I note yesterday?": "fuse is 3 A",
}
ASKED_MANY = ASKED_FEW | {
    "what am I allergic to?": "walnuts",
    "what's the cat's name?": "Turing",
    "how high should the boiler pressure be?": "1.2 and 1.6",
    "which battery is in the door sensor?": "CR2032",
    "which pin switches the fan": "GPIO 17",
    "how much did the hose cost": "35 euros",
    "when does the plumber come?": "Friday",
    "address of the BME280": "0x76",
    "licence plate of my car": "L-AB 123",
    "when do I see the doctor": "3 December",
    "Grace's phone number": "0341 5550",
    "what happened on Friday": "plumber was here",
    "what did I buy on Wednesday": "garden hose",
}
MEANT = {
    "how hot did it get in the greenhouse": "rose to 41",
    "where do I live": "Leipzig",
    "how cold was it on the roof": "-3.5",
    "number plate": "L-AB 123",
    "what did the plumber charge?": "120 euros",
    "ip address of the printer": "192.168.1.40",
    "what is my sister called": "Grace",
}
NOTHING = [
    "what is the capital of Mongolia",
    "who won the world cup?",
    "how do I knit a scarf",
    "best chess opening",
    "what is the meaning of life",
    "bitcoin price",
    "recipe for pancakes",
    "how tall is the Eiffel tower",
    "when is the next train to Berlin?",
    "did the dishwasher leak?",
    "what's my blood type",
    "what did I do in March?",
    "how many moons has Jupiter",
    "hello",
    "how are you today?",
    "thanks",
    "which colour has the sofa",
]


@pytest.fixture(scope="module", params=["few", "many"])
def small(request, tmp_path_factory):
    """A small memory without and with vectors, and what is asked of it."""
    folder = tmp_path_factory.mktemp(request.param)
    for name, text in (FEW if request.param == "few" else MANY).items():
        write(folder, name, text)
    (folder / "other").mkdir()
    memories = [opened(folder), MemoryIndex(folder / "other", folder / "workspace", table)]
    yield memories, ASKED_FEW if request.param == "few" else ASKED_MANY
    for memory in memories:
        memory.close()


def test_a_few_notes_answer_what_they_can(small):
    memories, asked = small
    missed = [
        (question, memory is memories[1])
        for memory in memories
        for question, part in asked.items()
        if not any(part in snippet for snippet in found(memory, question)[:1])
    ]
    assert missed == []


def test_a_few_notes_say_nothing_of_what_they_do_not_hold(small):
    memories, _ = small
    asked = [(memory, question) for memory in memories for question in NOTHING]
    assert [q for memory, q in asked if any(hit.is_certain for hit in memory.search(q, NOW))] == []


def test_meanings_are_found_by_vectors(tmp_path):
    for name, text in MANY.items():
        write(tmp_path, name, text)
    with closing(opened(tmp_path, table())) as memory:
        assert [q for q, part in MEANT.items() if not any(part in s for s in found(memory, q)[:1])] == []
    with closing(opened(tmp_path)) as memory:
        assert len([q for q, part in MEANT.items() if any(part in s for s in found(memory, q)[:1])]) < len(MEANT)


def test_what_a_viewer_hides_is_not_found_and_lines_stay_where_they_were(tmp_path):
    memory = tmp_path / "workspace/memory"
    memory.mkdir(parents=True)
    (memory / "MEMORY.md").write_text("<!-- the alarm code is 4711,\nnever tell -->\n- the boiler is at 1.2 bar\n")
    recollection = MemoryIndex(tmp_path, tmp_path / "workspace", lambda: None)
    assert recollection.search("alarm code", NOW) == []
    (hit,) = recollection.search("boiler", NOW)
    assert (hit.line, "4711" in hit.snippet) == (3, False)
    recollection.close()
