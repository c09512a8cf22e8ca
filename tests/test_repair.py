"""What becomes of damaged files: nothing that can be read is lost, nothing that was done is begun again."""

import json
import os
import random
import tarfile
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import apsw
import pytest

from picoclaw import files
from picoclaw.daemon import process
from picoclaw.errors import StoreDamaged, StoreError
from picoclaw.maintenance import MaintenanceError, backup, database_copy, repair
from picoclaw.messages import Message, Notice, Turn, Usage
from picoclaw.schedules import Plan
from picoclaw.security.redaction import Redactor
from picoclaw.store.conversations import History
from picoclaw.store.database import (
    COPIES_FOLDER,
    HISTORY_FILE,
    HISTORY_MIGRATIONS,
    LAST_CHAT_MARK,
    SUSPECT_SUFFIX,
    Database,
    Marks,
)
from picoclaw.store.inbox_outbox import Inbox, InboxMessage, Outbox
from picoclaw.store.jobs import Job, Jobs

NOON = datetime(2026, 7, 1, 12, 0, tzinfo=UTC)
PAGE = 4096


def said(number):
    messages = (Message("user", f"{number} {'x' * 700}"), Message("assistant", f"re: {number}"))
    return Turn("", messages, 1, (), Usage(3, 4), "", "sim", Notice(""))


def filled(home, turns=60):
    """Make a `state.db` with conversations, an open chat and letters."""
    database = Database(home / "state.db")
    for number in range(turns):
        History(database).keep("home", said(number), NOON)
    Marks(database).set(LAST_CHAT_MARK, "telegram:7")
    Outbox(database).put("telegram:7", "a letter", 1.0)
    database.close()
    return home / "state.db"


def pages_of(path, *names):
    """Name the pages that hold these tables or indexes."""
    connection = apsw.Connection(str(path))
    marks = ", ".join("?" * len(names))
    rows = connection.execute(f"SELECT pageno, pagetype FROM dbstat WHERE name IN ({marks}) ORDER BY pageno", names)
    found = [(int(number), kind) for number, kind in rows]
    connection.close()
    return found


def spoil(path, *pages, with_=b"\0"):
    with path.open("r+b") as file:
        for page in pages:
            file.seek((page - 1) * PAGE)
            file.write(with_ * PAGE if len(with_) == 1 else with_)


def numbers(path):
    database = Database(path)
    try:
        return [int(turn[0].text.split()[0]) for turn in History(database).turns("home")]
    finally:
        database.close()


def letters(home):
    database = Database(home / "state.db")
    try:
        return [(letter.session, letter.text, letter.begun) for letter in Outbox(database).waiting()]
    finally:
        database.close()


def backed_up(home):
    """Have a copy of the present `state.db`, which was made yesterday."""
    (home / COPIES_FOLDER).mkdir(exist_ok=True)
    database_copy.copy_database(home / "state.db", home / COPIES_FOLDER / "state.db")


def damaged_seen(path):
    """Meet the damage, as a process does that reads everything: the next start looks the file through."""
    path.with_name(path.name + SUSPECT_SUFFIX).touch()


@pytest.fixture
def home(tmp_path):
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    return folder


def test_a_whole_home_is_left_alone(home):
    path = filled(home)
    before = path.read_bytes()
    assert repair.repair_home(home) == []
    assert path.read_bytes() == before
    assert [p.name for p in home.iterdir()] == ["state.db"]


def test_a_home_that_is_not_there_is_not_made(tmp_path):
    assert repair.repair_home(tmp_path / "nowhere") == []
    assert not (tmp_path / "nowhere").exists()


def test_a_damaged_index_loses_nothing(home):
    path = filled(home)
    page = next(number for number, kind in pages_of(path, "messages_of_turn") if kind == "leaf")
    spoil(path, page)
    damaged_seen(path)
    (line,) = repair.repair_home(home)
    assert "nothing is lost" in line
    assert numbers(path) == [*range(60)]
    assert letters(home)[-1] == ("telegram:7", line, "")


@pytest.mark.parametrize("copied", [False, True])
def test_a_damaged_page_costs_what_was_on_it(home, copied):
    path = filled(home)
    if copied:
        backed_up(home)
        database = Database(path)
        History(database).keep("home", said(60), NOON)
        database.close()
    leaves = [number for number, kind in pages_of(path, "messages") if kind == "leaf"]
    spoil(path, leaves[len(leaves) // 2])
    damaged_seen(path)
    (line,) = repair.repair_home(home)
    found = numbers(path)
    assert 60 in found if copied else found[-1] == 59
    assert found[0] == 0
    assert len(found) == 61 if copied else 50 < len(found) < 60
    assert "newer may be lost of conversations" in line
    assert ("are as they were on" in line) is copied
    assert not [*home.glob(".*")]


def test_two_damaged_pages_leave_what_lies_between(home):
    path = filled(home, 200)
    leaves = [number for number, kind in pages_of(path, "messages") if kind == "leaf"]
    spoil(path, leaves[5], leaves[-5])
    damaged_seen(path)
    repair.repair_home(home)
    found = numbers(path)
    assert {0, 100, 199} <= set(found)
    assert len(found) > 180


@pytest.mark.parametrize("how", ["noise", "zeros", "empty", "half", "no header"])
def test_a_file_that_says_nothing_gives_way_to_the_copy(home, how):
    path = filled(home)
    backed_up(home)
    size = path.stat().st_size
    content = {"noise": random.Random(1).randbytes(size), "zeros": bytes(size), "empty": b""}
    if how in content:
        path.write_bytes(content[how])
    elif how == "half":
        os.truncate(path, size // 2)
    else:
        spoil(path, 1, with_=random.Random(2).randbytes(PAGE))
    (line,) = repair.repair_home(home)
    assert numbers(path) == [*range(60)]
    (aside,) = home.glob("state.db.damaged-*")
    assert aside.name in line
    assert (home / "state.db").stat().st_mode & 0o777 == 0o600


def test_without_a_copy_it_begins_anew_and_says_so(home):
    (home / "state.db").write_bytes(b"not a database at all" * 400)
    (line,) = repair.repair_home(home)
    assert "there was no copy" in line
    assert numbers(home / "state.db") == []
    assert [text for _, text, _ in letters(home)] == [line]
    assert repair.repair_home(home) == []
    assert len(letters(home)) == 1


def test_the_newest_which_is_in_the_log_alone_is_not_lost(home):
    path = filled(home)
    child = os.fork()
    if not child:
        database = Database(path)
        History(database).keep("home", said(60), NOON)
        os._exit(0)
    os.waitpid(child, 0)
    page = next(number for number, kind in pages_of_readonly(path, "messages") if kind == "leaf")
    spoil(path, page)
    repair.repair_home(home)
    assert numbers(path)[-1] == 60


def pages_of_readonly(path, *names):
    """As pages_of, of a copy, so that the log stays where it is."""
    copy = path.with_name("looked-at.db")
    copy.write_bytes(path.read_bytes())
    try:
        return pages_of(copy, *names)
    finally:
        for left in path.parent.glob("looked-at.db*"):
            left.unlink()


# --- nothing is begun again ---


def test_what_the_copy_had_begun_is_told_as_doubtful(home):
    path = filled(home)
    database = Database(path)
    kept = Inbox(database).put(InboxMessage("telegram:7", "switch it on", external="41"))
    with database.transaction() as connection:
        connection.execute("INSERT INTO always (digest, question, at, by) VALUES ('d', 'q', 1, 'me')")
        connection.execute(
            "INSERT INTO jobs (session, message, due, kind, plan) VALUES ('s', 'once', 5, 'turn', 'at'),"
            " ('s', 'drink', 5, 'reminder', 'at'), ('s', 'daily', 5, 'turn', 'cron')"
        )
    database.close()
    backed_up(home)
    path.write_bytes(b"\0" * 8192)
    repair.repair_home(home)
    database = Database(path)
    assert Inbox(database).waiting() == []
    assert Inbox(database).put(InboxMessage("telegram:7", "switch it on", external="41")) is None
    with database.reading() as connection:
        assert connection.execute("SELECT message, enabled FROM jobs ORDER BY id").fetchall() == [
            ("once", 0),
            ("drink", 1),
            ("daily", 1),
        ]
        assert connection.execute("SELECT count(*) FROM always").get == 0
        assert connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'inbox'").get >= kept.number + 1000
    database.close()
    (old, news) = letters(home)
    assert old[1:] == ("a letter", "before the damage")
    assert news[0] == "telegram:7"


def test_letters_that_were_told_since_the_copy_stay_told(home):
    path = filled(home)
    backed_up(home)
    database = Database(path)
    outbox = Outbox(database)
    outbox.strike(outbox.waiting()[0])
    database.close()
    page = next(number for number, kind in pages_of(path, "messages") if kind == "leaf")
    spoil(path, page)
    damaged_seen(path)
    (line,) = repair.repair_home(home)
    assert [text for _, text, _ in letters(home)] == [line]


# --- cuts ---


class Cut(BaseException):
    """The power is gone: nothing that comes after it happens."""


def cut_after(monkeypatch, count):
    """Let so many changes of the disk happen, and none after them."""
    left = [count]

    def counted(real):
        def change(*args, **more):
            if not left[0]:
                raise Cut
            left[0] -= 1
            return real(*args, **more)

        return change

    for name in ("hardlink_to", "replace", "unlink"):
        monkeypatch.setattr(Path, name, counted(getattr(Path, name)))
    for name in ("link", "replace"):
        monkeypatch.setattr(os, name, counted(getattr(os, name)))
    return left


def test_a_cut_anywhere_in_a_mending_loses_nothing_and_tells_once(home, monkeypatch):
    path = filled(home)
    backed_up(home)
    database = Database(path)
    History(database).keep("home", said(60), NOON)
    database.close()
    page = [number for number, kind in pages_of(path, "messages") if kind == "leaf"][3]
    spoil(path, page)
    damaged_seen(path)
    picture = {p.relative_to(home): p.read_bytes() for p in home.rglob("*") if p.is_file()}
    for count in range(200):
        for left in home.rglob("*"):
            if left.is_file():
                left.unlink()
        for name, content in picture.items():
            (home / name).write_bytes(content)
        with monkeypatch.context() as patched:
            left = cut_after(patched, count)
            with suppress(Cut):
                repair.repair_home(home)
            done = left[0] > 0
        repair.repair_home(home)
        assert numbers(path) == [*range(61)], count
        assert [text.partition(" was")[0] for _, text, _ in letters(home)] == ["a letter", "state.db"], count
        assert len([*home.glob("state.db.damaged-*")]) == 1, count
        if done:
            break
    assert 5 < count < 100


# --- in the way of a mending ---


def test_a_database_that_another_process_has_open_is_not_taken_from_it(home):
    path = filled(home)
    page = next(number for number, kind in pages_of(path, "messages") if kind == "leaf")
    ready, go = os.pipe(), os.pipe()
    child = os.fork()
    if not child:
        open_elsewhere = Database(path)
        os.write(ready[1], b"x")
        os.read(go[0], 1)
        del open_elsewhere
        os._exit(0)
    os.read(ready[0], 1)
    spoil(path, page)
    damaged_seen(path)
    try:
        with pytest.raises(StoreError, match=f"process {child} has it open"):
            repair.repair_home(home)
    finally:
        os.write(go[1], b"x")
        os.waitpid(child, 0)
    assert not [*home.glob("*.damaged-*")]
    assert len(repair.repair_home(home)) == 1


def test_no_room_for_a_mended_file_changes_nothing(home, monkeypatch):
    path = filled(home)
    spoil(path, *[number for number, kind in pages_of(path, "messages") if kind == "leaf"][:2])
    damaged_seen(path)
    before = path.read_bytes()

    def full(*_args):
        raise apsw.FullError("no")

    monkeypatch.setattr(repair, "copy_readable_rows", full)
    with pytest.raises(StoreError, match="full"):
        repair.repair_home(home)
    assert path.read_bytes() == before
    monkeypatch.undo()
    assert len(repair.repair_home(home)) == 1


def test_damage_that_is_met_is_looked_for_at_the_next_start(home):
    path = filled(home)
    page = [number for number, kind in pages_of(path, "messages") if kind == "leaf"][2]
    spoil(path, page)
    database = Database(path)
    with pytest.raises(StoreDamaged):
        History(database).turns("home")
    database.close()
    assert path.with_name("state.db.suspect").exists()
    assert len(repair.repair_home(home)) == 1
    assert not path.with_name("state.db.suspect").exists()


def test_a_suspicion_without_damage_is_forgotten(home):
    path = filled(home)
    damaged_seen(path)
    assert repair.repair_home(home) == []
    assert [p.name for p in home.iterdir()] == ["state.db"]


def test_the_history_of_the_sensors_is_read_as_far_as_it_goes(home):
    filled(home)
    path = home / HISTORY_FILE
    database = Database(path, HISTORY_MIGRATIONS)
    with database.transaction() as connection:
        connection.execute("INSERT INTO series VALUES (1, 'porch', 'temperature')")
        rows = [(60, at * 60, 1, 1, 0, 20.0, 20.0, 20.0) for at in range(5000)]
        connection.executemany("INSERT INTO spans VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
    database.close()
    leaves = [number for number, kind in pages_of(path, "spans") if kind == "leaf"]
    spoil(path, leaves[len(leaves) // 2])
    damaged_seen(path)
    (line,) = repair.repair_home(home)
    assert line.startswith("history.db was damaged")
    assert [text for _, text, _ in letters(home)] == ["a letter", line]
    database = Database(path, HISTORY_MIGRATIONS)
    with database.reading() as connection:
        assert 4500 < connection.execute("SELECT count(*) FROM spans").get < 5000
    database.close()


def test_only_the_newest_damaged_files_are_kept(home):
    for number in range(5):
        (home / "state.db").write_bytes(b"x" * 5000)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(repair.time, "strftime", lambda _, n=number: f"2026010{n}-000000")
            repair.repair_home(home)
    assert sorted(p.name for p in home.glob("*.damaged-*")) == [
        f"state.db.damaged-2026010{n}-000000" for n in (2, 3, 4)
    ]


# --- small files ---

GOOD = {
    "config.toml": b"[limits]\nsteps = 3\n",
    "sensors.toml": b'[sensors.porch]\npart = "bme280"\n',
    "rules.toml": b"",
    "seeds.json": b"{}\n",
}


@pytest.mark.parametrize("name", ["config.toml", "sensors.toml", "seeds.json"])
@pytest.mark.parametrize("damage", [b"", b"\0" * 40, b"\xff\xfe\x80", b'[a]\nb = "\0\0"'])
def test_a_damaged_small_file_gives_way_to_its_copy(home, name, damage):
    filled(home)
    (home / name).write_bytes(GOOD[name])
    repair.copy_changed_files(home)
    (home / name).write_bytes(damage)
    (line,) = repair.repair_home(home)
    assert (home / name).read_bytes() == GOOD[name]
    (aside,) = home.glob(f"{name}.damaged-*")
    assert aside.read_bytes() == damage
    assert aside.name in line
    assert letters(home)[-1][1] == line
    assert repair.repair_home(home) == []


@pytest.mark.parametrize("typo", [b"[limits\nsteps = 3\n", b"steps = = 4", "é = 1".encode()])
def test_what_its_owner_has_mistyped_is_left_to_them(home, typo):
    (home / "config.toml").write_bytes(GOOD["config.toml"])
    repair.copy_changed_files(home)
    (home / "config.toml").write_bytes(typo)
    repair.copy_changed_files(home)
    assert repair.repair_home(home) == []
    assert (home / "config.toml").read_bytes() == typo
    assert (home / COPIES_FOLDER / "config.toml").read_bytes() == GOOD["config.toml"]


def test_without_a_copy_a_setting_stays_and_what_can_be_made_again_goes(home):
    (home / "config.toml").write_bytes(b"\0\0\0")
    (home / "seeds.json").write_bytes(b"\0\0\0")
    (line,) = repair.repair_home(home)
    assert "seeds.json was damaged and starts empty" in line
    assert (home / "config.toml").read_bytes() == b"\0\0\0"
    assert not (home / "seeds.json").exists()


def test_what_its_owner_deletes_does_not_come_back(home):
    (home / "rules.toml").write_bytes(b"# a rule\n")
    repair.copy_changed_files(home)
    (home / "rules.toml").unlink()
    repair.copy_changed_files(home)
    (home / "rules.toml").write_bytes(b"")
    assert repair.repair_home(home) == []
    assert not (home / COPIES_FOLDER / "rules.toml").exists()


def test_who_was_let_in_has_no_copy_and_is_let_in_anew_after_damage(home):
    (home / "page_logins.json").write_text('{"digest": {"seen": 1}}')
    repair.copy_changed_files(home)
    assert not (home / COPIES_FOLDER).exists()
    (home / "page_logins.json").write_bytes(b"\0" * 30)
    (line,) = repair.repair_home(home)
    assert "page_logins.json was damaged and starts empty" in line


def test_the_pages_letters_are_a_list_and_whole(home):
    (home / "page_letters.json").write_text('[["web:1", "The tank is full."]]')
    assert repair.repair_home(home) == []
    assert (home / "page_letters.json").exists()


def test_keys_have_no_copy(home):
    (home / "secrets.toml").write_text('api_key = "k"')
    repair.copy_changed_files(home)
    assert not (home / COPIES_FOLDER).exists()


# --- the daily copy ---


def test_a_copy_is_made_once_a_day_when_something_has_changed(home):
    path = filled(home)
    now = time.time()
    assert repair.copy_state_database(home, now) is True
    assert repair.copy_state_database(home, now + 90_000) is False
    os.utime(path, (now + 60, now + 60))
    assert repair.copy_state_database(home, now + 60) is False
    assert repair.copy_state_database(home, now + 90_000) is True
    assert [p.name for p in (home / COPIES_FOLDER).iterdir()] == ["state.db"]
    assert numbers(home / COPIES_FOLDER / "state.db") == [*range(60)]


def test_a_large_file_is_copied_less_often(home, monkeypatch):
    path, now = filled(home), time.time()
    repair.copy_state_database(home, now)
    os.utime(path, (now + 60, now + 60))
    monkeypatch.setattr(repair, "_MAX_BYTES_PER_DAY", path.stat().st_size / 3)
    assert repair.copy_state_database(home, now + 2 * 86_400) is False
    assert repair.copy_state_database(home, now + 3 * 86_400) is True


def test_what_is_erased_is_not_in_the_copy(home):
    path = filled(home)
    repair.copy_state_database(home, time.time())
    database = Database(path)
    with database.erasure() as connection:
        connection.execute("DELETE FROM messages")
    database.close()
    assert not (home / COPIES_FOLDER / "state.db").exists()


BOT = "123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw1"


def test_secrets_that_wait_in_the_database_are_not_in_its_copy(home):
    database = Database(home / "state.db")
    Inbox(database).put(InboxMessage("page:home", f"the bot's token is {BOT}", "page:1", "web", external="1"))
    Inbox(database).put(InboxMessage("page:home", "and the key of the heating is Zugspitze2962", "page:1", "web"))
    for text in (f"Reminder: enter {BOT}", f"[draft] {BOT}", f'["{BOT}"]'):
        Outbox(database).put("page:home", text, 1.0)
    plan = Plan("at", "in an hour", anchor=time.time() + 3600)
    jobs = Jobs(database)
    for kind, text in (("reminder", f"enter {BOT}"), ("command", f"curl -H 'Authorization: Bearer {BOT}'")):
        jobs.add(Job(0, "terminal", text, plan, kind=kind))
    jobs.add(Job(0, "terminal", "uptime", plan, kind="command"))
    database.close()
    assert repair.copy_state_database(home, time.time(), Redactor(["Zugspitze2962"]))
    assert BOT.encode() in (home / "state.db").read_bytes()
    data = (home / COPIES_FOLDER / "state.db").read_bytes()
    assert (BOT.encode() in data, b"Zugspitze2962" in data, b"uptime" in data) == (False, False, True)
    (home / COPIES_FOLDER / "state.db").rename(home / "state.db")
    database = Database(home / "state.db")
    assert [(job.payload[:14], job.enabled, "secret" in job.last_error) for job in Jobs(database).all()] == [
        ("enter [secret]", True, False),
        ("curl -H 'Autho", False, True),
        ("uptime", True, False),
    ]
    assert next(one.text for one in Inbox(database).waiting()) == "the bot's token is [secret]"
    texts = [one.text for one in Outbox(database).waiting()]
    assert texts == ["Reminder: enter [secret]", "[draft] [secret]", '["[secret]"]']
    database.close()


def test_no_copy_is_made_of_a_damaged_file_nor_the_good_one_replaced(home):
    path = filled(home)
    repair.copy_state_database(home, time.time() - 90_000)
    os.utime(home / COPIES_FOLDER / "state.db", (1, 1))
    spoil(path, *[number for number, kind in pages_of(path, "messages") if kind == "leaf"])
    with pytest.raises(MaintenanceError):
        repair.copy_state_database(home, time.time())
    assert path.with_name("state.db.suspect").exists()
    assert numbers(home / COPIES_FOLDER / "state.db") == [*range(60)]


def test_a_nearly_full_disk_has_no_room_for_copies(home, monkeypatch):
    filled(home)

    def nearly(what, folder):
        raise files.DiskNearlyFull(what, folder)

    monkeypatch.setattr(repair, "check_reserve", nearly)
    with pytest.raises(files.DiskNearlyFull):
        repair.copy_state_database(home, time.time())
    assert json.loads("[]") == [p.name for p in home.iterdir() if p.name == COPIES_FOLDER]


# --- room for a worse day ---


class Disk:
    f_frsize, f_flag, f_blocks = 4096, 0, 1_000_000

    def __init__(self, free):
        self.f_bavail = free // 4096


@pytest.mark.parametrize(("free", "spent"), [(0, True), (200_000, True), (300_000, False), (9_000_000_000, False)])
def test_the_reserve_goes_when_the_disk_is_full_and_comes_back(home, monkeypatch, free, spent):
    repair.create_reserve(home)
    assert (home / COPIES_FOLDER / repair.RESERVE_FILE).stat().st_size == repair.RESERVE_BYTES
    with monkeypatch.context() as patched:
        patched.setattr(os, "statvfs", lambda _: Disk(free))
        assert repair.release_reserve(home) is spent
        assert (home / COPIES_FOLDER / repair.RESERVE_FILE).exists() is not spent
        if spent:
            with pytest.raises(files.DiskNearlyFull):
                repair.create_reserve(home)
    repair.create_reserve(home)
    assert (home / COPIES_FOLDER / repair.RESERVE_FILE).exists()


def test_without_reserve_there_is_nothing_to_spend(home):
    assert repair.release_reserve(home) is False
    assert repair.release_reserve(home / "nowhere") is False


# --- clean ends, and backups ---


def test_a_clean_end_is_told_from_a_cut(home):
    assert not process.has_unclean_end(home)
    for number in range(process.MAX_CRASHES):
        assert not process.is_crash_loop(home, 1000.0 + number)
        process.record_start(home, 1000.0 + number)
        assert process.has_unclean_end(home)
    assert process.is_crash_loop(home, 1010.0)
    assert not process.is_crash_loop(home, 1010.0 + 2 * process.CRASH_WINDOW_S)
    process.record_clean_end(home)
    assert not process.has_unclean_end(home)


def test_a_backup_holds_neither_copies_nor_what_is_damaged(home):
    filled(home)
    repair.copy_state_database(home, time.time())
    repair.create_reserve(home)
    (home / "state.db.damaged-20260101-000000").write_bytes(b"x")
    (home / "state.db.suspect").touch()
    target = home.with_name("backup.tar.gz")
    backup.write_backup(home, target)
    with tarfile.open(target) as packed:
        assert sorted(packed.getnames()) == ["backup.json", "home/state.db"]
