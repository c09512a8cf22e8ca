"""The index with real files and real SQLite: it says what the files say, whatever happens to either of them."""

import json
import os
import random
import shutil
import signal
import subprocess
import time
from itertools import count, product
from pathlib import Path

import apsw
import pytest
import sweep
from rights import ordinary_user

from picoclaw.errors import StoreError
from picoclaw.memory import files as memory_files
from picoclaw.memory import index as memory_index
from picoclaw.memory.index import IndexFile, find_note_day

BOILER = "# House\n\n## Boiler\nThe pressure was 1.2 bar when the valve leaked.\n"
FERNS = "# 2026-03-01\n\n- 09:00 watered the ferns\n- 10:00 the postman brought seeds\n"
NOTE = "memory/202603/20260301.md"
WORDS = ("boiler", "ferns", "leak", "seed", "pressure", "valve", "sensor", "garden", "house", "warm", "cold", "dry")
QUESTIONS = (["boiler"], ["ferns", "leaking"], ["seed"], ["pressure", "valves"], ["sensor"], ["garden", "house"])


@pytest.fixture
def workspace(tmp_path):
    folder = tmp_path / "workspace"
    (folder / "memory/202603").mkdir(parents=True)
    (folder / "memory/MEMORY.md").write_text(BOILER)
    (folder / NOTE).write_text(FERNS)
    return folder


@pytest.fixture(autouse=True)
def every_write_has_a_time_of_its_own(monkeypatch):
    monkeypatch.setattr(memory_files, "_RACY_NS", 0)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "home/memory.db"


@pytest.fixture
def index(path, workspace):
    made = IndexFile(path, workspace)
    yield made
    made.close()


def many(workspace, number, seed=0):
    """Write notes of one word each that nothing else has, and others that all have."""
    dice = random.Random(seed)
    for n in range(number):
        words = dice.choices(WORDS, k=60)
        file = workspace / f"memory/{n % 7}/note{n}.md"
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"# note {n}\n\nonly{n} " + " ".join(words) + "\n")


def found(index, *words):
    return [(row.path, row.start) for row in index.rows([number for number, _ in index.match(words, 6)])]


def answers(index):
    """What is answered, without the ids, which may differ."""
    said = []
    for words in QUESTIONS:
        scores = dict(index.match(words, 10_000))
        said.append(sorted((row._replace(id=0), round(scores[row.id], 9)) for row in index.rows(list(scores))))
    return said


def fresh_answers(tmp_path, workspace):
    """What an index says that was built just now."""
    made = IndexFile(tmp_path / f"fresh{time.monotonic_ns()}.db", workspace)
    made.sync()
    try:
        return answers(made)
    finally:
        made.close()


def embedded(index, model="m", dims=4):
    """Give every chunk that lacks one a vector that is made of its text; returns how many did."""
    lacking = index.unembedded(model, 10_000)
    index.keep_vectors(model, dims, [(number, vector(text, dims)) for number, text in lacking])
    return len(lacking)


def vector(text, dims=4):
    return random.Random(text).randbytes(dims)


def all_vectors(index, most=34):
    kept = {}
    for block, there, rows in (row for some in index.vectors(most) for row in some):
        dims = len(rows) // memory_index.SLOTS_PER_BLOCK
        slots = (slot for slot in range(memory_index.SLOTS_PER_BLOCK) if there >> slot & 1)
        kept |= {block * memory_index.SLOTS_PER_BLOCK + slot: rows[slot * dims : (slot + 1) * dims] for slot in slots}
    return kept


# --- what is found ---


def test_a_chunk_comes_with_its_place_heading_and_day(index):
    assert index.sync()[:5] == (2, 2, 0, 0, 2)
    ((number, score),) = index.match(["valve"], 5)
    assert score > 0
    (row,) = index.rows([number])
    assert row[1:] == ("memory/MEMORY.md", 1, 4, "House", BOILER.strip(), "", 0.0)
    assert index.rows([index.match(["postman"], 1)[0][0]])[0].day == "2026-03-01"
    assert [row.id for row in index.rows([2, 99, 1, 2])] == [2, 1, 2]


@pytest.mark.parametrize(
    ("file", "heading", "day"),
    [
        (NOTE, "", "2026-03-01"),
        (NOTE, "2020-01-01", "2026-03-01"),
        ("memory/202613/20261301.md", "", ""),
        ("memory/a.md", "Trips > 2024-02-29 to the sea", "2024-02-29"),
        ("memory/a.md", "2024-02-28 > 2024-02-29", "2024-02-29"),
        ("memory/a.md", "2023-02-29", ""),
        ("memory/a.md", "12026-03-011", ""),
        ("memory/202603/20260301.md.md", "", ""),
    ],
)
def test_the_day_of_a_chunk(file, heading, day):
    assert find_note_day(file, heading) == day


@pytest.mark.parametrize(
    ("words", "paths"),
    [
        (["valves"], ["memory/MEMORY.md"]),
        (["watering", "nothing"], [NOTE]),
        (["boiler", "ferns"], ["memory/MEMORY.md", NOTE]),
        (["1.2"], ["memory/MEMORY.md"]),
        (["House"], ["memory/MEMORY.md"]),
        ([], []),
        ([""], []),
        (['"'], []),
        (["*", "(", "NEAR(", "-", "^", ":", "boiler"], ["memory/MEMORY.md"]),
        (["AND", "OR", "NOT", 'fe"rns', "text:ferns", "fern*"], [NOTE]),
        (["\0", "\ud800", "fern\0s", "🙂"], []),
        (["x" * 10_000, "ferns"], [NOTE]),
        (["a." * 5000, "(" * 5000, "東" * 5000], []),
        (["ferns", "a." * 5000, "東京" * 5000], [NOTE]),
        (["ferns", *(f"w{n}" for n in range(5000))], [NOTE]),
    ],
)
def test_words_are_words_whatever_is_in_them(index, words, paths):
    index.sync()
    assert sorted(file for file, _ in found(index, *words)) == sorted(paths)


@pytest.mark.parametrize(
    ("text", "word", "there"),
    [
        ("昨日は東京タワーに行った。", "東京", True),
        ("昨日は東京タワーに行った。", "東京に行く", True),
        ("昨日は東京タワーに行った。", "京東", False),
        ("昨日は東京タワーに行った。", "京", True),
        ("BME280を東京で買った", "bme280", True),
        ("หม้อน้ำรั่วเมื่อวาน", "หม้อน้ำ", True),
        ("보일러가 샜다", "보일러가", True),
        ("Der Kühler tropft", "KÜHLER", True),
    ],
)
def test_languages_without_spaces(index, workspace, text, word, there):
    (workspace / "memory/a.md").write_text(text)
    index.sync()
    assert (("memory/a.md", 1) in found(index, word)) is there
    assert index.document_frequencies({word: [word]}) == (3, {word: int(there)})
    assert index.check() == []


def test_how_many_chunks_have_a_word(index, workspace):
    many(workspace, 50)
    index.sync()
    total, having = index.document_frequencies(
        {w: [w] for w in ("only7", "note", "notes", "boiled", "BOILER", '"', "")}
    )
    assert total == 52
    assert (having["only7"], having["note"], having["notes"], having['"'], having[""]) == (1, 50, 50, 0, 0)
    assert having["BOILER"] == len(index.match(["boiler"], 1000)) > having["only7"]


def test_the_best_comes_first(index, workspace):
    (workspace / "memory/a.md").write_text("ferns " * 20)
    (workspace / "memory/b.md").write_text("ferns " + "and other plants " * 40)
    many(workspace, 20)
    index.sync()
    scores = [score for _, score in index.match(["ferns"], 100)]
    assert scores == sorted(scores, reverse=True)
    assert found(index, "ferns")[0] == ("memory/a.md", 1)
    assert len(index.match(["ferns"], 3)) == 3


# --- following the files ---


def test_what_changes_is_followed_and_the_rest_stays(index, workspace):
    (workspace / "MEMORY.md").write_text("at the top: a sensor\n")
    many(workspace, 30)
    assert index.sync().files == 33
    ids = {row.path: row.id for row in index.rows(range(1, 40))}
    assert embedded(index) == 33
    (workspace / NOTE).write_text(FERNS + "- 11:00 the sensor fell\n")
    (workspace / "memory/0/note0.md").unlink()
    (workspace / "memory/1/note1.md").rename(workspace / "memory/new name.md")
    (workspace / "memory/2").rename(workspace / "memory/two")
    (workspace / "MEMORY.md").touch()
    done = index.sync()
    assert done[:6] == (32, 2, 5, 1, 1, ())
    after = {row.path: row.id for row in index.rows(range(1, 40))}
    assert after["memory/new name.md"] == ids["memory/1/note1.md"]
    assert after["memory/two/note9.md"] == ids["memory/2/note9.md"]
    assert after[NOTE] == ids[NOTE]
    assert "memory/0/note0.md" not in after
    assert [number for number, _ in index.unembedded("m", 99)] == [ids[NOTE]]
    assert index.check() == []


def test_what_follows_is_what_a_new_index_says(index, workspace, tmp_path):
    dice = random.Random(5)
    many(workspace, 20)
    for turn in range(25):
        existing = sorted((workspace / "memory").rglob("*.md"))
        for file in dice.sample(existing, 3):
            act = dice.randrange(4)
            if act == 0:
                file.unlink()
            elif act == 1:
                file.rename(file.with_name(f"moved{turn}.md"))
            else:
                lines = file.read_text().splitlines()
                lines.insert(dice.randrange(len(lines) + 1), "## boiler sensor\n" * dice.randrange(1, 80))
                file.write_text("\n".join(lines))
        (workspace / f"memory/more{turn}.md").write_text("ferns in the garden\n\n" * dice.randrange(200))
        index.sync()
        embedded(index)
        assert {
            number: vector(row.text) for number in all_vectors(index) for row in index.rows([number])
        } == all_vectors(index)
    assert index.check() == []
    assert answers(index) == fresh_answers(tmp_path, workspace)


def test_swapped_names_are_not_confused(index, workspace):
    a, b = workspace / "memory/a.md", workspace / "memory/b.md"
    a.write_text("alpha alpha")
    b.write_text("bravo bravo")
    index.sync()
    a.rename(workspace / "memory/c")
    b.rename(a)
    (workspace / "memory/c").rename(b)
    index.sync()
    assert (found(index, "alpha"), found(index, "bravo")) == ([("memory/b.md", 1)], [("memory/a.md", 1)])


def test_lines_added_above_keep_what_is_below(index, workspace):
    note = workspace / "memory/long.md"
    paragraphs = [f"## part {n}\n" + f"word{n} " * 90 for n in range(10)]
    note.write_text("\n\n".join(paragraphs))
    index.sync()
    embedded(index)
    note.write_text("\n\n".join(["## new\n" + "word " * 180, *paragraphs]))
    assert index.sync().chunks == 1
    assert len(index.unembedded("m", 99)) == 1
    assert found(index, "word7") == [("memory/long.md", 25)]


def written():
    """Bytes this process has given the system to write."""
    lines = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(lines["wchar"])


def picture(folder):
    return {p.name: (p.stat().st_mtime_ns, p.read_bytes()) for p in folder.iterdir()}


def test_an_unchanged_sync_writes_nothing(index, workspace, path):
    many(workspace, 200)
    index.sync()
    before = written()
    assert index.sync()[:6] == (202, 0, 0, 0, 0, ())
    assert written() == before
    index.close()
    before = picture(path.parent)
    assert index.sync().read == 0
    index.match(["boiler"], 5)
    index.close()
    assert picture(path.parent) == before
    assert list(before) == ["memory.db"]


def test_two_writes_in_one_tick_are_both_seen(index, workspace, monkeypatch):
    file, now = workspace / "memory/tick.md", time.time_ns()
    real = memory_files.time.time_ns
    monkeypatch.setattr(memory_files, "_RACY_NS", 2_000_000_000)
    for word in ("lamp", "door"):
        file.write_text(word)
        os.utime(file, ns=(now, now))
        assert index.sync().chunks
        assert found(index, word) == [("memory/tick.md", 1)]
    before = written()
    assert index.sync()[1:6] == (0, 0, 0, 0, ())
    assert written() == before, "looked at again, but the same"
    file.rename(workspace / "memory/tock.md")
    assert index.sync().renamed == 1
    monkeypatch.setattr(memory_files.time, "time_ns", lambda: real() + 3_000_000_000)
    index.sync()
    monkeypatch.setattr(memory_files.MemoryFiles, "read", None)  # not looked at any more
    assert index.sync()[1:6] == (0, 0, 0, 0, ())


def test_one_changed_file_is_the_only_one_read(index, workspace):
    many(workspace, 200)
    index.sync()
    for file in (workspace / "memory").rglob("*.md"):
        file.chmod(0)
    changed = workspace / "memory/3/note3.md"
    changed.chmod(0o600)
    changed.write_text("new words\n")
    with ordinary_user():
        assert index.sync()[:6] == (202, 1, 0, 0, 1, ())
    assert found(index, "new") == [("memory/3/note3.md", 1)]


def test_progress_is_told(index, workspace):
    many(workspace, 2500)
    told = []
    index.sync(lambda done, total: told.append((done, total)))
    assert told == [(1000, 2502), (2000, 2502), (2502, 2502)]
    index.sync(lambda done, total: told.append((done, total)))
    assert len(told) == 3


# --- files that are not what they should be ---


def test_links_are_followed_inside_the_workspace_only(index, workspace, tmp_path):
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/s.md").write_text("the password is hunter")
    (workspace / "memory/out.md").symlink_to(tmp_path / "secret/s.md")
    (workspace / "memory/outfolder").symlink_to(tmp_path / "secret")
    (workspace / "memory/loop").symlink_to(workspace / "memory")
    (workspace / "memory/a.md").symlink_to("b.md")
    (workspace / "memory/b.md").symlink_to("a.md")
    (workspace / "memory/nowhere.md").symlink_to("missing.md")
    (workspace / "memory/in.md").symlink_to(workspace / NOTE)
    done = index.sync()
    assert done.files == 3
    assert found(index, "password") == []
    assert sorted(found(index, "ferns")) == [(NOTE, 1), ("memory/in.md", 1)]
    assert any("out.md: it is a link that leads out of the workspace" in problem for problem in done.problems)
    (workspace / NOTE).unlink()
    (workspace / NOTE).symlink_to(tmp_path / "secret/s.md")
    index.sync()
    assert found(index, "password") == found(index, "ferns") == []


def test_a_memory_folder_that_is_a_link_out_holds_nothing(index, workspace, tmp_path):
    shutil.move(workspace / "memory", tmp_path / "elsewhere")
    (workspace / "memory").symlink_to(tmp_path / "elsewhere")
    assert index.sync().files == 0
    (workspace / "memory").unlink()
    assert index.sync().files == 0


def make_odd(folder):
    """Put everything there that could stand under a name that ends in .md."""
    (folder / "binary.md").write_bytes(b"boiler\0" * 100)
    (folder / "latin.md").write_bytes("Kühler".encode("latin-1") + b"\n\xff\xfe boiler")
    (folder / "bom.md").write_bytes("\ufeff# Boiler\n".encode())
    (folder / "empty.md").touch()
    (folder / "longline.md").write_text("boiler " * 150_000 + "hippopotamus")
    (folder / "huge.md").write_text(("boiler " * 20 + "\n") * 30_000)
    (folder / ".hidden.md").write_text("boiler")
    (folder / "text.txt").write_text("boiler")
    (folder / "folder.md").mkdir()
    (folder / "folder.md/new\nline.md").write_text("boiler")
    os.mkfifo(folder / "pipe.md")
    (folder / os.fsdecode(b"caf\xe9.md")).write_text("boiler")
    (folder / "1969.md").write_text("boiler")
    os.utime(folder / "1969.md", ns=(-1, -1))
    (folder / "2300.md").write_text("boiler")
    os.utime(folder / "2300.md", ns=(1 << 63, 1 << 63))


def test_odd_files_are_indexed_as_far_as_they_are_text(index, workspace):
    make_odd(workspace / "memory")
    done = index.sync()
    paths = {row.path for row in index.rows([number for number, _ in index.match(["boiler"], 100_000)])}
    expected = {"MEMORY", "latin", "bom", "longline", "huge", "folder.md/new\nline", "1969", "2300"}
    assert paths == {f"memory/{name}.md" for name in expected}
    assert found(index, "hippopotamus") == [("memory/longline.md", 1)]
    assert index.rows([index.match(["hippopotamus"], 1)[0][0]])[0].text.endswith("hippopotamus")
    assert {problem.split(": ")[0] for problem in done.problems} == {
        "memory/binary.md",
        "memory/huge.md",
        r"'memory/caf\udce9.md'",
    }
    assert index.sync().read == 0
    assert {problem.split(": ")[0] for problem in index.check()} == {
        "memory/binary.md",
        "memory/huge.md",
        r"'memory/caf\udce9.md'",
    }


def test_a_folder_that_cannot_be_listed_just_now_keeps_its_rows(index, workspace):
    index.sync()
    (workspace / "memory/202603").chmod(0)
    with ordinary_user():
        done = index.sync()
        assert (done.files, done.removed) == (1, 0)
        assert done.problems == ("memory/202603: it cannot be listed: no permission: check its owner and mode",)
        assert found(index, "ferns") == [(NOTE, 1)]
    (workspace / "memory/202603").chmod(0o700)
    assert index.sync()[:6] == (2, 0, 0, 0, 0, ())


def test_a_file_that_may_not_be_read_is_said_and_tried_again(index, workspace):
    (workspace / NOTE).chmod(0)
    with ordinary_user():
        for _ in range(2):
            assert index.sync().problems == (f"{NOTE}: it cannot be read: no permission: check its owner and mode",)
    (workspace / NOTE).chmod(0o600)
    assert index.sync().read == 1


# --- vectors ---


@pytest.mark.parametrize("most", [1, 2, 34])
def test_vectors_come_back_with_their_ids(index, workspace, most):
    many(workspace, 200)
    index.sync()
    assert embedded(index, dims=8) == 202
    texts = {row.id: row.text for row in index.rows(range(1, 300))}
    assert all_vectors(index, most) == {number: vector(text, 8) for number, text in texts.items()}
    assert max(len(rows) for rows in index.vectors(most)) <= most
    assert index.stats()["vectors"] == 202


def test_another_model_starts_anew(index):
    index.sync()
    embedded(index)
    assert index.unembedded("m", 9) == []
    assert len(index.unembedded("other", 9)) == 2
    assert len(all_vectors(index)) == 2
    index.keep_vectors("other", 3, [(1, b"abc")])
    assert all_vectors(index) == {1: b"abc"}
    assert [number for number, _ in index.unembedded("other", 9)] == [2]
    assert embedded(index, "other", 5) == 1
    assert set(all_vectors(index)) == {2}


def test_a_vector_for_a_text_that_has_changed_meanwhile_is_not_kept(index, workspace, path):
    index.sync()
    lacking = index.unembedded("m", 9)
    (workspace / NOTE).write_text("something else\n")
    (workspace / "memory/MEMORY.md").unlink()
    other = IndexFile(path, workspace)
    other.sync()
    other.close()
    index.keep_vectors("m", 4, [(number, b"abcd") for number, _ in lacking])
    assert all_vectors(index) == {}
    assert [text for _, text in index.unembedded("m", 9)] == ["something else"]


def test_a_vector_of_the_wrong_length_is_refused(index):
    index.sync()
    with pytest.raises(ValueError, match="3 bytes instead of 4"):
        index.keep_vectors("m", 4, [(1, b"abcd"), (2, b"abc")])
    assert all_vectors(index) == {}


# --- the owner's opinion ---


EDITS = [
    ("added", "# Pump\n\n- the fuse has 3 A\n- the valve sticks\n- the seal is new\n", {"fuse": 0.25}),
    ("changed", "# Pump\n\n- the fuse has 5 A\n- the valve sticks\n", {"fuse": 0.25}),
    ("headed", "# The pump\n\n- the fuse has 3 A\n- the valve sticks\n", {"fuse": 0.25}),
    ("outgrown", "# Pump\n\n" + "- it ran today\n" * 80 + "- the fuse has 3 A\n- the valve sticks\n", {"fuse": 0.25}),
    ("another", "Eggs, milk, bread.\n", {"bread": 0}),
]


@pytest.mark.parametrize(("text", "boosts"), [case[1:] for case in EDITS], ids=[case[0] for case in EDITS])
def test_an_opinion_stays_with_what_is_left_of_its_chunk(index, workspace, path, text, boosts):
    file = workspace / "memory/pump.md"
    file.write_text("# Pump\n\n- the fuse has 3 A\n- the valve sticks\n")
    index.sync()
    index.feedback(index.match(["fuse"], 9)[0][0], 0.25)
    file.write_text(text)
    index.sync()

    def opinions(word):
        return {row.boost for row in index.rows([n for n, _ in index.match([word], 9)]) if row.path == "memory/pump.md"}

    assert {word: opinions(word) for word in boosts} == {word: {boost} for word, boost in boosts.items()}
    kept = json.loads(path.with_name("memory-feedback.json").read_text())
    assert len(kept) == 1, "what has gone keeps none, if it was taken over"


def test_an_opinion_of_what_stands_elsewhere_as_well_is_kept_for_both(index, workspace):
    for name in ("one", "two"):
        (workspace / f"memory/{name}.md").write_text("- the fuse has 3 A\n")
    index.sync()
    index.feedback(index.match(["fuse"], 9)[0][0], 0.25)
    (workspace / "memory/two.md").write_text("- the fuse has 3 A\n- the valve sticks\n")
    index.sync()
    found = index.rows([n for n, _ in index.match(["fuse"], 9)])
    assert {row.boost for row in found if row.path in {"memory/one.md", "memory/two.md"}} == {0.25}


def test_feedback_outlives_the_index_and_stays_within_bounds(index, path):
    index.sync()
    index.feedback(1, 0.25)
    index.feedback(2, -0.7)
    index.feedback(2, -0.7)
    assert [row.boost for row in index.rows([1, 2])] == [0.25, -1.0]
    index.close()
    path.unlink()
    assert [row.boost for row in index.rows([1, 2])] == [0.25, -1.0]
    index.feedback(1, -0.25)
    assert [row.boost for row in index.rows([1, 2])] == [0.0, -1.0]
    with pytest.raises(StoreError, match="nothing that is remembered has the id 77; search again"):
        index.feedback(77, 1.0)


@pytest.mark.parametrize("damage", [b"", b"{", b"[1]", b'{"a": "b"}', b"\xff", b'{"a": NaN}', b"[" * 100_000])
def test_damaged_feedback_is_none(index, path, damage):
    index.sync()
    path.with_name("memory-feedback.json").write_bytes(damage)
    assert index.rows([1])[0].boost == 0
    index.feedback(1, 0.5)
    assert index.rows([1])[0].boost == 0.5


# --- deleted, damaged, older ---


def sql(path, statement):
    connection = apsw.Connection(str(path))
    connection.execute(statement)
    connection.close()


def torn(path, place, length=8192):
    with path.open("r+b") as file:
        file.seek(int(path.stat().st_size * place))
        file.write(random.Random(3).randbytes(length))


DAMAGE = {
    "deleted": Path.unlink,
    "empty": lambda path: path.write_bytes(b""),
    "short": lambda path: path.write_bytes(b"SQLite format 3"),
    "garbage": lambda path: path.write_bytes(random.Random(1).randbytes(50_000)),
    "head": lambda path: torn(path, 0),
    "half": lambda path: os.truncate(path, path.stat().st_size // 2),
    **{f"torn at {n} %": lambda path, n=n: torn(path, n / 100) for n in range(10, 100, 10)},
    "other database": lambda path: path.unlink() or sql(path, "CREATE TABLE turns (x)"),
    "older": lambda path: sql(path, "PRAGMA user_version = 0"),
    "newer": lambda path: sql(path, "PRAGMA user_version = 99"),
    "table gone": lambda path: sql(path, "DROP TABLE chunks"),
    "words gone": lambda path: sql(path, "DROP TABLE words_data"),
}


@pytest.mark.sweep
@pytest.mark.parametrize(("damage", "still_open"), sweep.sample(product(DAMAGE, [False, True]), 3))
def test_what_is_deleted_or_damaged_is_built_again(index, workspace, path, damage, still_open):
    many(workspace, 60)
    index.sync()
    embedded(index, dims=256)
    before = answers(index)
    index.close()
    if still_open:
        index.match(["boiler"], 1)
    DAMAGE[damage](path)
    if not still_open or path.exists():
        index.check()
    assert answers(index) == before
    assert index.check() == []
    assert index.sync().read == 0
    assert len(all_vectors(index)) + len(index.unembedded("m", 1000)) == 62
    assert {file.name.removesuffix("-wal").removesuffix("-shm") for file in path.parent.iterdir()} == {"memory.db"}


def test_damage_that_sqlite_does_not_see_is_found(index, path):
    index.sync()
    index.close()
    data = path.read_bytes()
    assert b"postman brought seeds" in data
    path.write_bytes(data.replace(b"postman brought seeds", b"POSTMAN brought weeds"))
    assert "seeds" in index.rows([2])[0].text + index.rows([1])[0].text


def test_a_check_says_what_it_has_mended(index, path):
    index.sync()
    index._connection.execute("INSERT INTO words (words, rowid, text, heading) VALUES ('delete', 1, 'pressure', '')")
    (problem,) = index.check()
    assert problem.startswith(f"{path} is damaged")
    assert problem.endswith("it has been built again")
    assert found(index, "pressure") == [("memory/MEMORY.md", 1)]
    assert index.check() == []


def test_a_log_that_is_left_without_its_file_does_no_harm(index, workspace, path):
    killed(100, IndexFile(path, workspace).sync)
    assert path.with_name("memory.db-wal").exists()
    path.unlink()
    assert found(index, "ferns") == [(NOTE, 1)]
    assert index.check() == []


def test_a_folder_in_its_place_is_an_error(index, path):
    path.mkdir(parents=True)
    with pytest.raises(StoreError, match=r"memory\.db: it is not a regular file"):
        index.sync()


def test_the_index_is_private(index, path):
    index.sync()
    assert {file.stat().st_mode & 0o777 for file in path.parent.iterdir()} == {0o600}
    assert path.parent.stat().st_mode & 0o777 == 0o700


# --- kill -9, full disks, other processes ---


def killed(at, work):
    """Work in a process that kills itself before the statement of that number; tells whether there was that many."""
    pid = os.fork()
    if pid == 0:
        real, numbers = memory_index.open_index, count()

        def connected(path, **more):
            connection = real(path, **more)
            connection.exec_trace = lambda *_: next(numbers) != at or os.kill(os.getpid(), signal.SIGKILL)
            return connection

        memory_index.open_index = connected
        work()
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(pid, 0)[1])


def test_another_process_that_holds_the_lock_is_an_error_at_last(index, path, workspace, monkeypatch):
    index.sync()
    index.close()
    monkeypatch.setattr(memory_index, "_BUSY_MS", 50)
    other = apsw.Connection(str(path))
    other.execute("BEGIN IMMEDIATE")
    assert index.sync().read == 0
    assert found(index, "ferns") == [(NOTE, 1)]
    (workspace / NOTE).write_text("ferns are dry")
    with pytest.raises(StoreError, match="another picoclaw has kept it locked"):
        index.sync()
    other.execute("ROLLBACK")
    other.close()
    assert index.sync().read == 1


@pytest.fixture
def tiny_disk(tmp_path, mount_disk):
    return mount_disk(tmp_path / "disk", "400k")


def test_a_full_disk_in_the_middle(tiny_disk, tmp_path, workspace):
    made = IndexFile(tiny_disk / "memory.db", workspace)
    made.sync()
    before = answers(made)
    many(workspace, 1000)
    for _ in range(2):
        with pytest.raises(StoreError, match=r"memory\.db: the disk is (nearly )?full.*: free some space"):
            made.sync()
    assert answers(made) == before
    subprocess.run(["mount", "-o", "remount,size=50m", str(tiny_disk)], check=True)
    assert made.sync().files == 1002
    assert answers(made) == fresh_answers(tmp_path, workspace)
    assert made.check() == []
    made.close()


def test_a_disk_that_is_full_from_the_start(tiny_disk, workspace):
    (tiny_disk / "filler").write_bytes(b"x" * 380_000)
    made = IndexFile(tiny_disk / "memory.db", workspace)
    with pytest.raises(StoreError, match="full"):
        made.sync()
    (tiny_disk / "filler").unlink()
    assert made.sync().read == 2
    made.close()


def test_a_file_larger_than_what_is_read_is_cut(index, workspace, monkeypatch):
    monkeypatch.setattr(memory_files, "MAX_READ_BYTES", 1000)
    (workspace / "memory/a.md").write_text("é" * 499 + " x" + "é" * 500 + " hippopotamus")
    assert index.sync().problems[0].startswith("memory/a.md: only its first")
    assert found(index, "hippopotamus") == []


def test_the_index_is_smaller_than_three_times_the_text(index, workspace):
    dice = random.Random(2)
    words = ["".join(dice.choices("abcdefghijklmnopqrstuvwxyz", k=dice.randrange(2, 10))) for _ in range(3000)]
    for n in range(300):
        text = "\n".join(" ".join(dice.choices(words, k=12)) for _ in range(24))
        (workspace / f"memory/{n}.md").write_text(f"# {n}\n{text}\n")
    index.sync()
    embedded(index, dims=256)
    stats = index.stats()
    assert stats["vectors"] == stats["chunks"] > 500
    assert stats["index_bytes"] <= 3 * stats["bytes"]
