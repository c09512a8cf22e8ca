"""A disk that takes nothing, or little: what is said, what goes on, and that nothing is missing afterwards."""

import os
import resource
import subprocess
import threading
import time
from contextlib import closing
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from daemon_kit import Daemon, furnished
from model_server import ModelServer, reply
from test_chat_commands import Chat
from test_daemon import Desk
from test_repair import NOON, filled, letters, pages_of, said, spoil

from picoclaw import files
from picoclaw.channels.channel import ChannelStatus
from picoclaw.daemon.delivery import DeliveryWorker, MessageBoxes, WriteBehindQueue, merge_messages
from picoclaw.errors import ChannelDown, StoreDamaged, StoreError
from picoclaw.maintenance import repair
from picoclaw.store.conversations import UNREAD_TAINT, History, TurnWriteBehind
from picoclaw.store.conversations import UnsavedTurn as Turned
from picoclaw.store.database import HISTORY_FILE, HISTORY_MIGRATIONS, Database
from picoclaw.store.inbox_outbox import Inbox, Outbox, OutboxMessage
from picoclaw.store.samples import ClockReading, RuleLog, SampleBlock, Samples, Series


def refuse(database, how):
    """Have a database take nothing any more, as a disk that is read-only or full does."""
    database.connection.execute("PRAGMA query_only = ON" if how == "read-only" else "PRAGMA max_page_count = 1")


def take(database):
    database.connection.execute("PRAGMA query_only = OFF")
    database.connection.execute("PRAGMA max_page_count = 1000000")


@pytest.fixture
def chat(tmp_path):
    with (
        ModelServer([reply(f"{word} is said.") for word in "abcdef"]) as server,
        Chat(tmp_path / "home", server) as chat,
    ):
        yield chat


def test_a_conversation_that_could_not_be_read_is_kept_with_what_it_has_read(chat):
    database = chat.app.stores.database
    history = History(database)
    history.keep("home", said(1)._replace(taints=("web_fetch a page",)), NOON)
    history.keep("home", said(2)._replace(taints=(UNREAD_TAINT, "read_file a")), NOON)
    assert history.heard("home") == {"web_fetch a page", "read_file a"}
    history.keep("another", said(1)._replace(taints=(UNREAD_TAINT,)), NOON)
    assert history.heard("another") == frozenset()


LONG = "x" * 20_000  # more than the pages of a new database that are free


@pytest.mark.parametrize("how", ["read-only", "full"])
def test_a_conversation_goes_on_from_memory_and_is_kept_when_the_disk_takes_it(chat, how):
    chat.turn("before")
    refuse(chat.app.stores.database, how)
    first, second = chat.turn(f"one {LONG}"), chat.turn(f"two {LONG}")
    assert "could not be saved" in first.notice.text
    assert "kept in memory until" in first.notice.text
    assert first.notice.failed
    assert second.reply == "c is said."
    assert "could not be saved" not in second.notice.text
    sent = [str(message["content"]) for message in chat.server.requests[-1].body["messages"]]
    assert any(f"one {LONG}" in text for text in sent)
    assert "b is said." in sent
    take(chat.app.stores.database)
    third = chat.turn("three")
    assert "2 earlier turns are kept now" in third.notice.text
    shown = chat.shown()
    assert [text[:3] for text in shown[::2]] == ["bef", "one", "two", "thr"]
    refuse(chat.app.stores.database, how)
    assert "could not be saved" in chat.turn(f"again {LONG}").notice.text


def test_what_is_owed_is_kept_at_the_end(tmp_path):
    database = Database(tmp_path / "state.db")
    write_behind = TurnWriteBehind(tmp_path, lambda: History(database))
    refuse(database, "read-only")
    with pytest.raises(StoreError):
        write_behind.keep(Turned("home", said(1), NOON))
    assert len(write_behind.turns("home")) == 1
    assert write_behind.turns("shed") == []
    take(database)
    write_behind.settle()
    assert write_behind.turns("home") == []
    assert len(History(database).turns("home")) == 1
    database.close()


def test_a_damaged_database_is_not_remembered_away():
    class Damaged:
        def keep(self, *_):
            raise StoreDamaged("damaged")

    write_behind = TurnWriteBehind(Path("/"), Damaged)
    with pytest.raises(StoreDamaged):
        write_behind.keep(Turned("home", said(1), NOON))
    assert len(write_behind) == 0


def test_memory_is_not_for_ever(tmp_path):
    database = Database(tmp_path / "state.db")
    write_behind = TurnWriteBehind(tmp_path, lambda: History(database))
    refuse(database, "read-only")
    for number in range(60):
        with pytest.raises(StoreError):
            write_behind.keep(Turned("home", said(number), NOON))
    assert [turn[0].text.split()[0] for turn in write_behind.turns("home")] == [str(n) for n in range(10, 60)]
    database.close()


def nearly_full(monkeypatch, *what):
    """Leave no room for these of RESERVES."""

    def spare(wanted, folder):
        if wanted in what:
            raise files.DiskNearlyFull(wanted, folder)

    for module in ("store.conversations", "store.samples", "memory.index", "memory.versions"):
        monkeypatch.setattr(f"picoclaw.{module}.check_reserve", spare)


def test_a_new_conversation_gives_way_and_one_that_goes_on_is_kept(tmp_path, monkeypatch):
    database = Database(tmp_path / "state.db")
    write_behind = TurnWriteBehind(tmp_path, lambda: History(database))
    write_behind.keep(Turned("old", said(1), NOON))
    nearly_full(monkeypatch, "new conversations")
    write_behind.keep(Turned("old", said(2), NOON))
    with pytest.raises(StoreError, match="nearly full, without room for new conversations"):
        write_behind.keep(Turned("new", said(3), NOON))
    assert len(History(database).turns("old")) == 2
    assert History(database).turns("new") == []
    assert len(write_behind.turns("new")) == 1
    database.close()


def test_measurements_give_way_and_where_the_rules_stand_is_kept(tmp_path, monkeypatch):
    database = Database(tmp_path / HISTORY_FILE, HISTORY_MIGRATIONS)
    kept, series = Samples(database), Series("porch", "temperature")
    moment = ClockReading("boot", 100.0, NOON, True)
    nearly_full(monkeypatch, "measurements")
    with pytest.raises(StoreError, match="nearly full, without room for measurements"):
        kept.keep(moment, [SampleBlock(series, [(90.0, 20.0)])], states={"frost": "{}"})
    assert kept.known() == {}
    assert RuleLog(database).states() == {"frost": "{}"}
    monkeypatch.undo()
    kept.keep(moment, [SampleBlock(series, [(90.0, 20.0)])])
    assert list(kept.known()) == [series]
    database.close()


# --- promises ---


def test_a_promise_that_cannot_be_kept_is_refused(tmp_path):
    with Chat(tmp_path / "home") as bare:
        bare.turn("remind me in 50 minutes to drink")
        refuse(bare.app.stores.database, "read-only")
        turn = bare.turn("remind me in 5 minutes to eat")
        assert "That did not work: nothing was done, since it cannot be written down first" in turn.reply
        take(bare.app.stores.database)
        assert "drink" in bare.turn("what reminders are there?").reply
        assert "eat" not in bare.turn("what reminders are there?").reply


# --- the daemon's bookkeeping ---


class Broken:
    """A box whose disk takes nothing while `down`."""

    def __init__(self, box, down):
        self._box, self._down = box, down

    def __getattr__(self, name):
        real = getattr(self._box, name)

        def act(*args, **more):
            if self._down() and name not in {"waiting", "left_behind"}:
                raise StoreError("state.db: the disk is full")
            return real(*args, **more)

        return act


@pytest.fixture
def desk(tmp_path):
    made = Desk(tmp_path)
    made.down = False
    made.real = made.boxes
    broken = {name: Broken(getattr(made.boxes, name), lambda: made.down) for name in ("inbox", "outbox")}
    made.loop._boxes = made.boxes._replace(**broken)
    yield made
    made.database.close()


def test_an_answer_is_told_at_once_while_letters_cannot_be_kept(desk):
    sent = []
    desk.wire.send = lambda letter: sent.append((letter.session, letter.text))
    desk.down = True
    desk.arrives("hello", external="1")
    desk.works()
    assert sent == [("wire:1", "re hello")]
    assert len([note for note in desk.notes if "kept in memory until" in note]) <= 1
    desk.down = False
    desk.loop.writes.flush()
    assert desk.letters() == []
    assert desk.waiting() == []


def test_an_answer_that_nobody_took_becomes_a_letter_when_the_disk_is_well(desk):
    def away(_):
        raise ChannelDown("no network")

    desk.wire.send = away
    desk.arrives("hello", external="1")
    desk.down = True
    desk.works()
    assert desk.letters() == []
    assert desk.waiting() == ["hello"]
    desk.down = False
    desk.loop.writes.flush()
    assert desk.letters() == [("wire:1", "re hello")]
    assert desk.waiting() == []
    desk.arrives("hello", external="1")
    desk.works()
    assert desk.seen == ["hello"]


def test_what_was_told_at_once_is_not_told_again_nor_answered_again(desk, tmp_path):
    sent = []
    desk.wire.send = lambda letter: sent.append(letter.text)
    desk.arrives("hello", external="1")
    desk.down = True
    desk.works()
    desk.down = False
    desk.arrives("and now", external="2")
    desk.loop.writes.flush()
    desk.works()
    assert sent == ["re hello"]
    assert desk.letters() == [("wire:1", "re and now")]
    after = Desk(tmp_path)
    after.works()
    assert after.seen == []
    after.database.close()


def test_what_is_owed_is_written_in_its_order_and_said_once():
    notes, done, down = [], [], [True]

    def act(what):
        def write():
            if down[0]:
                raise StoreError("full")
            done.append(what)

        return write

    owed = WriteBehindQueue(threading.RLock(), notes.append)
    assert [owed.write(act(what)) for what in "abc"] == [False, False, False]
    assert len(notes) == 1
    down[0] = False
    assert owed.write(act("d"))
    assert done == ["a", "b", "c", "d"]
    assert "can be written again" in notes[1]


def test_a_disk_that_takes_nothing_is_said_once_and_never_said_to_be_well(desk):
    sent = []
    desk.wire.send = lambda letter: sent.append(letter.text)
    desk.down = True
    for text in ("one", "two", "three"):
        desk.arrives(text)
        desk.works()
        desk.loop.writes.flush()
    assert sent == ["re one", "re two", "re three"]
    assert len(desk.notes) == 1, desk.notes
    assert "the disk is full" in desk.loop.writes.trouble
    desk.down = False
    desk.arrives("four")
    desk.works()
    assert "can be written again" in desk.notes[1]
    assert desk.loop.writes.trouble == ""


@pytest.mark.parametrize("taken", [True, False])
def test_a_disk_that_is_well_again_while_an_answer_is_sent_has_it_told_once(desk, taken):
    sent = []

    def send(letter):
        desk.down = False
        desk.loop.writes.flush()
        if not taken:
            raise ChannelDown("no network")
        sent.append(letter.text)

    desk.wire.send = send
    desk.arrives("hello", external="1")
    desk.down = True
    desk.works()
    assert (sent, desk.letters()) == ((["re hello"], []) if taken else ([], [("wire:1", "re hello")]))
    assert desk.waiting() == []


# --- a real disk ---


@pytest.fixture
def small_disk(tmp_path, mount_disk):
    return mount_disk(tmp_path / "disk", "6m")


def test_a_disk_that_was_mounted_read_only_is_read_from_and_that_is_said(small_disk):
    database = Database(small_disk / "state.db")
    History(database).keep("home", said(1), NOON)
    database.close()
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    database = Database(small_disk / "state.db")
    assert len(History(database).turns("home")) == 1
    with pytest.raises(StoreError, match="the file system is read-only"):
        History(database).keep("home", said(2), NOON)
    database.close()


def test_a_disk_that_is_full_says_so_whatever_sqlite_calls_it(small_disk):
    Database(small_disk / "state.db").close()
    with (small_disk / "filler").open("wb") as file:
        file.write(b"x" * (os.statvfs(small_disk).f_bavail * 4096))
    with pytest.raises(StoreError, match="the disk is full: free some space"):
        Database(small_disk / "state.db")
    (small_disk / "filler").unlink()
    Database(small_disk / "state.db").close()


def test_a_process_with_too_many_files_open_says_that(tmp_path):
    path = tmp_path / "state.db"
    Database(path).close()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.open("/dev/null", os.O_RDONLY)  # all below it are open
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, limits[1]))
    try:
        with pytest.raises(StoreError, match="too many files open"):
            Database(path)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    Database(path).close()


def test_a_daemon_whose_database_is_damaged_while_it_lives_begins_afresh_and_mends_it(tmp_path):
    folder = furnished(tmp_path)
    filled(folder)
    with Daemon(tmp_path) as daemon:
        daemon.ready()
        leaves = [number for number, kind in pages_of(folder / "state.db", "messages", "turns") if kind == "leaf"]
        spoil(folder / "state.db", *leaves)
        asking = daemon.line()
        asking.say({"do": "chat", "session": "home", "text": "how warm is it?"})
        assert "restarts to repair it" in daemon.says("restarts to repair it")
        daemon.says("was damaged (")
        daemon.ready()
        assert daemon.asked("status")["problems"] == []
        asking.close()
    assert [(one.name, one.detail) for one in repair.check_home(folder) if one.status == "bad"] == []
    assert len([text for _, text, _ in letters(folder) if "was damaged" in text]) == 1


# --- messages of the outbox ---


class Full(Outbox):
    """An outbox whose disk takes nothing while it is `full`."""

    full, room = False, 1000

    def begin(self, letter):
        self.room -= 1
        self.full = self.full or self.room < 0
        self._room()
        return super().begin(letter)

    def put_back(self, letter):
        self._room()
        super().put_back(letter)

    def strike(self, letter):
        self._room()
        super().strike(letter)

    def _room(self):
        if self.full:
            raise StoreError("the disk is full: free some space")


class Wire:
    """A channel that fills the disk up while it sends, and fails as long as it is `down`."""

    name = "wire"

    def __init__(self, outbox):
        self._outbox, self.down, self.told = outbox, False, []

    def send(self, letter):
        self._outbox.full = True
        if self.down:
            raise ChannelDown("the wire is cut")
        self.told.append(letter.text)

    def status(self):
        return ChannelStatus(up=True, since=0.0)


@pytest.mark.parametrize(("down", "before"), [(True, []), (False, ["the tank is empty"])], ids=["not told", "told"])
def test_a_letter_on_the_way_while_the_disk_fills_up_is_told_once(tmp_path, down, before):
    with closing(Database(tmp_path / "state.db")) as database:
        outbox = Full(database)
        wire = Wire(outbox)
        postman = DeliveryWorker(
            wire, MessageBoxes(Inbox(database), outbox, threading.RLock()), lambda _: True, lambda _: None
        )
        outbox.put("wire:1", "the tank is empty", time.time())
        wire.down = down
        assert postman.deliver(), "it is to be tried again"
        assert postman.deliver(), "the disk is still full, so that nothing is sent"
        assert wire.told == before
        wire.down = outbox.full = False
        postman.deliver()
        outbox.full = False  # the wire has filled it once more
        assert postman.deliver() is None
        assert wire.told == ["the tank is empty"]
        assert not database.connection.execute("SELECT count(*) FROM outbox").get


def test_letters_of_which_only_the_first_could_be_begun_are_told_together_later(tmp_path):
    with closing(Database(tmp_path / "state.db")) as database:
        outbox = Full(database)
        wire = Wire(outbox)
        postman = DeliveryWorker(
            wire, MessageBoxes(Inbox(database), outbox, threading.RLock()), lambda _: True, lambda _: None
        )
        for n in range(5):
            outbox.put("wire:1", f"drop {n}", time.time())
        outbox.room = 2
        with pytest.raises(StoreError):
            postman.deliver()
        assert not wire.told
        outbox.full, outbox.room = False, 1000
        postman.deliver()
        assert [f"drop {n}" in wire.told[0] for n in range(5)] == [True] * 5
        assert "perhaps" not in wire.told[0]


def test_many_letters_at_once_name_the_owners_time():
    waiting = [OutboxMessage(number, "garden", f"{number}", 1_800_000_000.0) for number in (1, 2)]
    said = [
        merge_messages(waiting, 1_800_000_100.0, ZoneInfo(zone)).text for zone in ("Asia/Tokyo", "America/New_York")
    ]
    assert [text.splitlines()[1] for text in said] == ["2027-01-15 17:00: 1", "2027-01-15 03:00: 1"]
