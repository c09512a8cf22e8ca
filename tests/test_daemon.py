"""The daemon's parts: what arrives is answered once, after a crash as well; what is frozen or too large is noticed."""

import os
import resource
import socket
import threading
from contextlib import nullcontext, suppress
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from rows import each_row

from picoclaw import workspace
from picoclaw.app import App
from picoclaw.channels import ipc
from picoclaw.channels.channel import ChannelStatus
from picoclaw.config import load_config
from picoclaw.config.tables import BoardConfig
from picoclaw.daemon import process, queue
from picoclaw.daemon.dashboard import DaemonBackend
from picoclaw.daemon.delivery import DeliveryWorker, MessageBoxes, group_for_delivery, merge_messages
from picoclaw.daemon.process import (
    MEGABYTE,
    ResourceUsage,
    ThreadDeadlines,
    Watchdog,
    get_default_memory_limit,
    get_resident_bytes,
    get_resource_limits,
    get_watchdog_interval,
    list_exceeded_limits,
    measure_usage,
    notify_systemd,
)
from picoclaw.daemon.queue import MessageQueue, format_turn
from picoclaw.daemon.service import DaemonService
from picoclaw.errors import ChannelDown, ChannelError, ChatBusy, PicoclawError, StoreDamaged, StoreError
from picoclaw.files import listen_unix
from picoclaw.hw import detect
from picoclaw.messages import Message, Notice, Stop, ToolCall, Turn, TurnHooks, Usage
from picoclaw.records import replace
from picoclaw.store import conversations
from picoclaw.store.conversations import History
from picoclaw.store.database import Database
from picoclaw.store.inbox_outbox import Inbox, InboxMessage, Outbox, OutboxMessage
from picoclaw.store.subagent_tasks import abandon_own_work

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
DEAD = "999999999:1:boot"


def turn(asked, reply, **more):
    messages = (Message("user", asked), Message("assistant", reply))
    made = Turn(reply, messages, 1, (), Usage(), "", "scripted", Notice(""))
    return made._replace(**more)


def ok(inbound, around):
    return turn(inbound.text, "ok")


def in_turn(*answers):
    """Answer with one after the other."""
    left = list(answers)

    def answer(inbound, around):
        return left.pop(0)(inbound, around)

    return answer


class Wire:
    """A channel with memory; `down` and `refuses` are raised by `send`, `live` is whether answers need no letter."""

    name = "wire"

    def __init__(self, *, live=False):
        self.live = live
        self.error = None
        self.told, self.answers, self.changes = [], [], []

    def start(self, post):
        self.post = post

    def stop(self):
        pass

    def status(self):
        return ChannelStatus(up=True, since=0.0)

    def send(self, letter):
        if self.error:
            raise self.error
        self.told.append(letter)

    def around(self, arrived):
        return TurnHooks()

    def changed(self, approval):
        self.changes.append(approval)

    def answered(self, arrived, turn, reply):
        if self.live:
            self.answers.append((arrived.text, reply))
        return self.live


class Desk:
    """A desk loop over a real database, whose answers are a function of the test's."""

    def __init__(self, path, answer=None, **channel):
        self.database = Database(path / "state.db")
        self.boxes = MessageBoxes(Inbox(self.database), Outbox(self.database), threading.RLock())
        self.history = History(self.database)
        self.wire = Wire(**channel)
        self.stop = Stop()
        self.notes, self.seen, self.halted, self.taken = [], [], [], []
        self.respond = answer or (lambda inbound, around: turn(inbound.text, f"re {inbound.text}"))
        app = SimpleNamespace(
            dispatcher=SimpleNamespace(answer=self._answer),
            wiring=SimpleNamespace(obey_stop_order=self._stop_outputs),
            prompts={"attached": ""},
            board=SimpleNamespace(simulated=False),
            config=SimpleNamespace(limits=SimpleNamespace(seconds=10)),
        )
        stopper = SimpleNamespace(turn=lambda: nullcontext(self.stop), end_turn=self.stop.set, shield=nullcontext)
        self.progress = ThreadDeadlines()
        self.loop = MessageQueue(app, self.boxes, stopper, self.progress, self.notes.append)
        self.loop.show_heard = lambda arrived: self.taken.append(arrived.text)
        self.loop.channels = {"wire": self.wire, "socket": self.wire}

    def _stop_outputs(self, text, who):
        return (self.halted.append(who) or (True, "all safe")) if text == "stop" else None

    def _answer(self, inbound, around):
        self.seen.append(inbound.text)
        made = self.respond(inbound, around)
        self.history.keep(inbound.session, made, NOON, inbox=inbound.inbox)
        return made

    def arrives(self, text, external="", key="wire:1", **more):
        self.loop.post(InboxMessage(key, text, external=external, **more))

    def works(self):
        """Answer all that waits."""
        self.loop.drain()
        self.loop.run()

    def letters(self):
        return [(letter.session, letter.text) for letter in self.boxes.outbox.waiting()]

    def waiting(self):
        return [arrived.text for arrived in self.boxes.inbox.waiting()]


@pytest.fixture
def desk(tmp_path):
    made = Desk(tmp_path)
    yield made
    made.database.close()


def test_what_arrives_is_durable_and_then_answered_in_its_order(desk, tmp_path):
    for number, text in enumerate(["one", "two", "three"]):
        desk.arrives(text, external=str(number))
    other = Database(tmp_path / "state.db")
    assert [arrived.text for arrived in Inbox(other).waiting()] == ["one", "two", "three"]
    other.close()
    desk.works()
    assert desk.seen == ["one", "two", "three"]
    assert desk.letters() == [("wire:1", "re one"), ("wire:1", "re two"), ("wire:1", "re three")]
    assert desk.waiting() == []


def test_the_same_number_is_answered_once_and_another_chat_has_its_own(desk):
    desk.arrives("a", external="7")
    desk.arrives("a", external="7")
    desk.arrives("b", external="7", key="wire:2")
    desk.works()
    desk.arrives("a", external="7")
    desk.works()
    assert desk.seen == ["a", "b"]


def test_people_are_answered_before_webhooks(desk):
    desk.arrives("a push", key="hook:github", origin="hook", foreign=("the webhook github",))
    desk.arrives("another", key="hook:github", origin="hook", foreign=("the webhook github",))
    desk.arrives("hello")
    desk.works()
    assert desk.seen == ["hello", "a push", "another"]


def test_who_sends_much_keeps_nobody_else_waiting(desk):
    for number in range(5):
        desk.arrives(f"bob {number}", key=f"wire:{number}", origin="member", who="terminal:bob")
    for number in range(2):
        desk.arrives(f"me {number}", who="page:1", key="wire:me")
        desk.arrives(f"ada {number}", who="login:ada", key="wire:ada", origin="member")
    desk.works()
    assert desk.seen == ["bob 0", "me 0", "ada 0", "bob 1", "me 1", "ada 1", "bob 2", "bob 3", "bob 4"]


def test_what_is_withdrawn_is_not_answered_and_a_turn_for_it_stops(tmp_path):
    def busy(inbound, around):
        desk.loop.withdraw("openai:ha:1", "b")
        desk.loop.withdraw("openai:ha:1", "a")
        return turn(inbound.text, "late", stopped="stopped" if around.stop else "")

    desk = Desk(tmp_path, busy)
    for external in "ab":
        desk.arrives(external, external, key="openai:ha:1")
    desk.works()
    assert desk.seen == ["a"]
    assert desk.stop
    assert desk.waiting() == []
    desk.database.close()


def test_a_request_whose_daemon_died_is_answered_to_nobody(tmp_path):
    desk = Desk(tmp_path)
    desk.boxes.inbox.put(InboxMessage("openai:ha:1", "turn it on", "token:ha", "guest", "a"))
    desk.boxes.inbox.put(InboxMessage("wire:1", "hello"))
    desk.works()
    assert desk.seen == ["hello"]
    assert desk.waiting() == []
    desk.database.close()


def test_a_live_answer_needs_no_letter(tmp_path):
    desk = Desk(tmp_path, live=True)
    desk.arrives("hello")
    desk.works()
    assert desk.wire.answers == [("hello", "re hello")]
    assert desk.letters() == desk.waiting() == []
    desk.database.close()


def test_stopping_the_outputs_waits_for_nobody(desk):
    def busy(inbound, around):
        desk.arrives("stop", external="2")
        desk.arrives("/stop", external="3", key="wire:2")
        assert not around.typed()
        return turn(inbound.text, "long", stopped="stopped" if around.stop else "")

    desk.arrives("work", external="1")
    desk.respond = in_turn(busy, lambda inbound, around: turn(inbound.text, "nothing runs"))
    desk.works()
    assert desk.halted == ["owner in wire:1"]
    assert bool(desk.stop)
    assert desk.letters() == [("wire:1", "all safe"), ("wire:1", "long"), ("wire:2", "nothing runs")]


def test_what_the_chat_says_meanwhile_is_heard_and_the_rest_waits(desk):
    heard = []

    def listening(inbound, around):
        desk.arrives("and the shed", external="2")
        desk.arrives("another chat", external="3", key="wire:2")
        desk.arrives("/new", external="4")
        desk.arrives("after the command", external="5")
        heard.extend(around.typed())
        return turn(inbound.text, "done")

    desk.respond = in_turn(listening, *[ok] * 3)
    desk.arrives("how warm", external="1")
    desk.works()
    assert heard == ["and the shed"]
    assert desk.seen == ["how warm", "another chat", "/new", "after the command"]
    assert desk.waiting() == []


def test_another_terminal_of_the_chat_is_answered_by_itself(desk):
    def listening(inbound, around):
        for who, text in (("b", "mine"), ("a", "and tea")):
            desk.arrives(text, key="home", who=who)
        assert around.typed() == ["and tea"]
        assert (desk.loop.count_waiting("a"), desk.loop.count_waiting("b")) == (0, 1)
        return turn(inbound.text, "done")

    desk.loop.channels = {"socket": desk.wire}
    desk.respond = in_turn(listening, ok)
    desk.arrives("how warm", key="home", who="a")
    desk.works()
    assert desk.seen == ["how warm", "mine"]
    assert desk.taken == ["and tea"]


def test_what_no_model_has_heard_is_answered_next(desk):
    def deaf(inbound, around):
        for number, text in enumerate(["second", "third"]):
            desk.arrives(text, external=f"x{number}")
        desk.arrives("other", external="y", key="wire:2")
        assert around.typed() == ["second", "third"]
        return turn(inbound.text, "gone", unanswered_texts=("third",))

    desk.respond = in_turn(deaf, *[ok] * 2)
    desk.arrives("first", external="1")
    desk.works()
    assert desk.seen == ["first", "third", "other"]
    assert desk.waiting() == []


def test_a_turn_knows_the_files_that_came_with_its_message(desk):
    came = []

    def looking(inbound, around):
        came.append(inbound.attachments)
        return turn(inbound.text, "A lamp.")

    desk.respond = in_turn(looking, ok)
    desk.arrives("what is it?", external="1", attachments=("inbox/x.jpg",))
    desk.arrives("sure?", external="2")
    desk.works()
    assert came == [("inbox/x.jpg",)]


@pytest.mark.parametrize(
    ("more", "heard"),
    [
        ({"who": "telegram:7"}, ["and now"]),
        ({"who": "telegram:8", "origin": "guest"}, []),
        ({"who": "telegram:7", "foreign": ("a message that was forwarded from Eve",)}, []),
        ({"who": "telegram:7", "attachments": ("inbox/x.jpg",)}, []),
    ],
)
def test_a_turn_takes_in_the_words_of_who_asked_for_it_and_no_others(desk, more, heard):
    taken = []

    def listening(inbound, around):
        desk.arrives("and now", external="2", **more)
        taken.extend(around.typed())
        return turn(inbound.text, "done")

    desk.respond = in_turn(listening, ok)
    desk.arrives("how warm", external="1", who="telegram:7")
    desk.works()
    assert taken == heard


def test_a_turn_knows_who_asks_and_what_is_not_their_word_also_after_a_restart(desk, tmp_path):
    seen = []
    desk.respond = lambda inbound, _: seen.append(inbound) or turn(inbound.text, "ok")
    desk.arrives("look", external="1", who="telegram:8", origin="guest", foreign=("a message of another",))
    desk.database.close()
    after = Desk(tmp_path, desk.respond)
    after.works()
    after.database.close()
    (inbound,) = seen
    assert (inbound.origin, inbound.who, inbound.foreign) == ("guest", "telegram:8", ("a message of another",))


def test_an_origin_of_another_version_is_a_guests(desk):
    desk.arrives("look", external="1", origin="boss")
    assert [arrived.origin for arrived in desk.boxes.inbox.waiting()] == ["guest"]


@pytest.mark.parametrize(
    ("origin", "who"), [("web", "owner in wire:1"), ("guest", "telegram:8 in wire:1"), ("cron", "")]
)
def test_whoever_types_it_may_stop_the_outputs_at_once(desk, origin, who):
    desk.arrives("stop", external="1", origin=origin, who="telegram:8")
    assert desk.halted == ([who] if who else [])


def test_an_interrupted_turn_is_not_the_end_of_the_loop(desk):
    def interrupted(inbound, around):
        raise KeyboardInterrupt

    desk.respond = in_turn(interrupted, ok)
    desk.arrives("one", external="1")
    desk.arrives("two", external="2")
    desk.works()
    assert desk.letters() == [("wire:1", "stopped before it had started"), ("wire:1", "ok")]


class Killed(BaseException):
    """Stands for the end of the process in the middle of something."""


def killed(inbound, around):
    raise Killed


def acts(desk):
    def acted(inbound, around):
        desk.history.begin_act(inbound.session, ToolCall("1", "exec", {"command": "x"}), NOON)
        raise Killed

    return acted


def kept(desk):
    def answered(inbound, around):
        desk.history.keep(inbound.session, turn(inbound.text, "the answer"), NOON, inbox=inbound.inbox)
        raise Killed

    return answered


@pytest.mark.parametrize(
    ("text", "how", "again", "letters"),
    [
        ("hello", lambda _: killed, ["hello"], ["re hello"]),
        ("hello", kept, [], ["the answer"]),
        ("hello", acts, [], ["picoclaw was cut off while it answered this: 'hello'. It is not known whether an action"]),
        ("/undo", lambda _: killed, [], ["picoclaw was cut off while it answered this: '/undo'. It is not known whether it was"]),
    ],
    ids=["had done nothing", "had kept its turn", "had done something", "was a command"],
)  # fmt: skip
def test_after_a_crash_what_was_begun(tmp_path, monkeypatch, text, how, again, letters):
    desk = Desk(tmp_path)
    desk.respond = how(desk)
    for module in ("picoclaw.store.inbox_outbox", "picoclaw.store.conversations"):
        monkeypatch.setattr(f"{module}.get_process_identity", lambda: DEAD)
    desk.arrives(text, external="1")
    with pytest.raises(Killed):
        desk.works()
    desk.database.close()
    monkeypatch.undo()

    after = Desk(tmp_path)
    after.works()
    assert after.seen == again
    assert [found.startswith(letter) for (_, found), letter in zip(after.letters(), letters, strict=True)] == [True]
    assert after.waiting() == []
    after.database.close()
    once_more = Desk(tmp_path)
    once_more.works()
    assert once_more.seen == []
    assert len(once_more.letters()) == 1
    once_more.database.close()


def test_what_kills_whoever_answers_it_is_tried_once_more_and_then_given_up(tmp_path, monkeypatch):
    for _ in range(2):
        desk = Desk(tmp_path, killed)
        desk.arrives("poison", external="1")
        with monkeypatch.context() as dead:
            dead.setattr("picoclaw.store.inbox_outbox.get_process_identity", lambda: DEAD)
            with pytest.raises(Killed):
                desk.works()
        desk.database.close()
    after = Desk(tmp_path)
    after.arrives("hello", external="2")
    after.works()
    assert after.seen == ["hello"]
    assert [text[:26] for _, text in after.letters()] == ["picoclaw was cut off while", "re hello"]
    assert "twice" in after.letters()[0][1]
    after.database.close()


def test_what_a_killed_turn_had_heard_is_answered_by_itself(tmp_path, monkeypatch):
    desk = Desk(tmp_path)

    def hears(inbound, around):
        desk.arrives("more", external="2")
        assert around.typed() == ["more"]
        raise Killed

    desk.respond = hears
    for module in ("picoclaw.store.inbox_outbox", "picoclaw.store.conversations"):
        monkeypatch.setattr(f"{module}.get_process_identity", lambda: DEAD)
    desk.arrives("first", external="1")
    with pytest.raises(Killed):
        desk.works()
    desk.database.close()
    monkeypatch.undo()
    after = Desk(tmp_path)
    after.works()
    assert after.seen == ["first", "more"]
    after.database.close()


def test_an_answer_that_a_terminal_may_have_seen_is_told_again_with_a_word_of_that(tmp_path, monkeypatch):
    for module in ("picoclaw.store.inbox_outbox", "picoclaw.store.conversations"):
        monkeypatch.setattr(f"{module}.get_process_identity", lambda: DEAD)
    desk = Desk(tmp_path)
    for key in ("home", "wire:1"):
        desk.respond = kept(desk)
        desk.arrives("hello", key=key)
        with pytest.raises(Killed):
            desk.works()
    desk.database.close()
    monkeypatch.undo()
    after = Desk(tmp_path)
    after.loop.channels = {"wire": after.wire, "socket": Wire()}
    after.works()
    perhaps = "\n(perhaps a repeat: picoclaw stopped while it delivered this)"
    assert after.letters() == [("home", f"the answer{perhaps}"), ("wire:1", "the answer")]
    after.database.close()


class Full:
    """An inbox on a full disk, or in a damaged database."""

    def __init__(self, error=StoreError):
        self.error = error

    def put(self, arrived):
        raise self.error("the disk is full")


def test_what_a_full_disk_does_not_take_is_answered_all_the_same_and_once(desk):
    good = desk.boxes
    desk.loop._boxes = good._replace(inbox=Full())
    desk.arrives("hello", external="1")
    desk.arrives("hello", external="1")
    desk.arrives("here at the terminal")
    desk.loop._boxes = good
    desk.arrives("hello", external="1")
    desk.works()
    assert desk.seen == ["hello", "here at the terminal"]
    assert "could not be saved" in desk.notes[0]


def test_what_a_former_life_of_the_same_process_had_in_hand_is_taken_up_again(desk):
    """Who begins afresh by exec, as to mend a database, keeps the number and the start time it is known by."""
    arrived = desk.boxes.inbox.put(InboxMessage("wire:1", "hello", external="1"))
    desk.boxes.inbox.begin([arrived.number])
    desk.boxes.outbox.put("wire:1", "a letter", 1.0)
    (letter,) = desk.boxes.outbox.waiting()
    desk.boxes.outbox.begin(letter)
    assert (desk.boxes.inbox.left_behind(), desk.boxes.outbox.waiting()) == ([], [])
    abandon_own_work(desk.database)
    assert [one.text for one in desk.boxes.outbox.waiting() if one.begun] == ["a letter"]
    desk.works()
    assert desk.seen == ["hello"]


def test_damage_refuses_what_would_be_sent_again_after_the_mending(desk):
    good = desk.boxes
    desk.loop._boxes = good._replace(inbox=Full(StoreDamaged))
    with pytest.raises(StoreDamaged):
        desk.arrives("hello", external="1")
    desk.loop._boxes = good
    desk.arrives("hello", external="1")
    desk.works()
    assert desk.seen == ["hello"]


@each_row(
    ("made", "said"),
    [
        (turn("a", "fine"), "fine\n[sim]"),
        (turn("a", "fine", notice=Notice("answered without a model")), "fine\n[sim]\n(answered without a model)"),
        (turn("a", "x", stopped="error", notice=Notice("no model", failed=True)), "no model"),
    ],
)
def test_a_turn_in_words(made, said):
    assert format_turn(made, "[sim]") == said


def test_what_the_end_of_the_daemon_cuts_off_is_answered_after_the_next_start(tmp_path):
    def cut(inbound, around):
        desk.loop.leave()
        return turn(inbound.text, "[stopped by the user]", stopped="stopped")

    desk = Desk(tmp_path, in_turn(cut))
    desk.arrives("how warm is it?", external="1")
    desk.loop.run()
    assert desk.letters() == []
    assert desk.waiting() == ["how warm is it?"]
    desk.database.close()


# --- letters


def letters(count, session="wire:1", begun=""):
    return [OutboxMessage(n, session, f"text {n}", 1000.0 + n, begun) for n in range(1, count + 1)]


@each_row(
    ("waiting", "down", "sizes"),
    [
        (letters(6), False, [1] * 6),
        (letters(3), True, [1] * 3),
        (letters(6), True, [6]),
        ([*letters(5), OutboxMessage(9, "wire:2", "b", 1.0)], True, [5, 1]),
    ],
)
def test_what_is_sent_at_once(waiting, down, sizes):
    assert [len(parcel) for parcel in group_for_delivery(waiting, together=down)] == sizes


def test_many_letters_become_few_of_which_each_fits_a_message_and_nothing_is_left_out():
    waiting = [letter._replace(text=f"<{letter.number}> {'w' * 500}") for letter in letters(100)]
    made = [merge_messages(parcel, 2000.0).text for parcel in group_for_delivery(waiting, together=True)]
    assert len(made) < 25
    assert max(map(len, made)) <= 4096
    assert all(sum(letter.text in text for text in made) == 1 for letter in waiting)
    (alike,) = group_for_delivery([letter._replace(text="no answer") for letter in letters(100)], together=True)
    assert "100 times" in merge_messages(alike, 2000.0).text


def test_a_channel_that_is_down_keeps_its_letters_and_days_become_one(tmp_path):
    desk = Desk(tmp_path)
    postman = DeliveryWorker(desk.wire, desk.boxes, lambda session: session.startswith("wire"), desk.notes.append)
    desk.wire.error = ChannelDown("no route to host")
    waits = []
    for n in range(8):
        desk.boxes.outbox.put("wire:1", f"reading {n}", 1000.0 + n)
        waits.append(postman.deliver())
    assert waits == [5, 10, 20, 40, 60, 60, 60, 60]
    assert desk.notes == ["wire: no route to host"]
    assert len(desk.letters()) == 8
    desk.wire.error = None
    assert postman.deliver() is None
    (told,) = desk.wire.told
    assert told.text.startswith("8 messages from while this chat could not be reached:")
    assert all(f"reading {n}" in told.text for n in range(8))
    assert desk.letters() == []
    desk.boxes.outbox.put("other:1", "not ours", 1.0)
    assert postman.deliver() is None
    assert desk.letters() == [("other:1", "not ours")]
    desk.database.close()


def test_a_chat_that_wants_a_pause_holds_up_no_other(tmp_path):
    desk = Desk(tmp_path)
    postman = DeliveryWorker(desk.wire, desk.boxes, lambda _: True, desk.notes.append)
    tried = []

    def send(letter):
        tried.append(letter.text)
        if letter.session == "wire:group":
            raise ChatBusy("too many")

    desk.wire.send = send
    for session in ("wire:group", "wire:group", "wire:1"):
        desk.boxes.outbox.put(session, session, 1e10)
    assert postman.deliver() == 5
    assert tried == ["wire:group", "wire:1"]
    assert desk.letters() == [("wire:group", "wire:group")] * 2
    desk.database.close()


def test_what_is_cut_off_at_the_end_says_later_that_it_may_have_been_told(tmp_path):
    desk = Desk(tmp_path)
    postman = DeliveryWorker(desk.wire, desk.boxes, lambda _: True, desk.notes.append)
    desk.boxes.outbox.put("wire:1", "hello", 1e10)
    postman.leave()
    desk.wire.error = ChannelDown("it was left")
    postman.deliver()
    with desk.database.transaction() as connection:
        assert connection.execute("SELECT begun FROM outbox").get
        connection.execute("UPDATE outbox SET begun = ?", (DEAD,))  # the process is gone
    after = DeliveryWorker(desk.wire, desk.boxes, lambda _: True, desk.notes.append)
    desk.wire.error = ChannelDown("no route to host")
    after.deliver()
    desk.wire.error = None
    after.deliver()
    (told,) = desk.wire.told
    assert told.text.startswith("hello (perhaps a repeat")
    assert merge_messages(letters(5, begun=DEAD), 2000.0).text.count("perhaps a repeat") == 5
    desk.database.close()


def test_a_letter_that_is_refused_for_good_is_given_up_and_noted(tmp_path):
    desk = Desk(tmp_path)
    postman = DeliveryWorker(desk.wire, desk.boxes, lambda _: True, desk.notes.append)
    desk.wire.error = ChannelError("the bot was blocked")
    desk.boxes.outbox.put("wire:1", "hello", 1.0)
    assert postman.deliver() is None
    assert desk.letters() == []
    assert "the bot was blocked" in desk.notes[0]
    desk.database.close()


# --- crashes, lock, progress, watchdog, memory


@pytest.mark.parametrize(
    ("starts", "safe"),
    [
        ([0, 60, 120, 180, 240], False),
        ([0, 60, 120, 180, 240, 300], True),
        ([0, 60, 120, 180, 240, 700], False),
        ([0, 60, 120, 180, "end", 240, 300], False),
        ([1000, 60, 120, 180, 240, 300], False),
        ([0, 60, 120, 180, 240, 300, 360, 420], True),
    ],
)
def test_five_crashes_in_ten_minutes_are_too_many(tmp_path, starts, safe):
    found = False
    for at in starts:
        if at == "end":
            process.record_clean_end(tmp_path)
        else:
            found = process.record_start(tmp_path, 1_800_000_000.0 + at)
    assert found is safe


def test_a_list_of_starts_that_is_nonsense_counts_for_nothing(tmp_path):
    (tmp_path / process.STARTS_FILE).write_bytes(b"\xff\x00 12x nan\n-1\n")
    assert not process.record_start(tmp_path, 1_800_000_000.0)
    process.record_clean_end(tmp_path)
    process.record_clean_end(tmp_path)


class Late(Wire):
    """A channel whose address comes after some tries."""

    def __init__(self, tries):
        super().__init__()
        self.tries, self.up = tries, threading.Event()

    def start(self, post):
        self.tries -= 1
        if self.tries:
            raise ChannelError("no such address")
        super().start(post)
        self.up.set()


def test_a_channel_that_cannot_be_begun_is_begun_as_soon_as_it_can():
    wire, notes = Late(3), []
    give_up = queue.retry_channel_start(wire, print, notes.append, 0.01)
    assert wire.up.wait(5)
    give_up()
    assert (wire.tries, notes) == (0, ["wire: up now"])
    never = Late(3)
    queue.retry_channel_start(never, print, notes.append, 60)()
    assert never.tries == 3


def test_one_daemon_a_home(tmp_path):
    held = process.acquire_lock(tmp_path)
    with pytest.raises(PicoclawError, match=f"process {os.getpid()}"):
        process.acquire_lock(tmp_path)
    os.close(held)
    os.close(process.acquire_lock(tmp_path))


def test_who_keeps_no_promise_is_late():
    now = [100.0]
    progress = ThreadDeadlines(lambda: now[0])
    progress.expect("agent", None)
    progress.expect("automation", 60)
    now[0] = 160.0
    assert progress.late() == []
    now[0] = 160.5
    assert progress.late() == ["automation"]
    progress.expect("agent", 30)
    progress.expect("automation", None)
    now[0] = 1e9
    assert progress.late() == ["agent"]


def test_a_desk_that_does_not_take_what_was_posted_is_late(desk):
    now = [0.0]
    desk.progress._clock = lambda: now[0]
    desk.arrives("hello", external="1")
    assert desk.progress.late() == []
    now[0] = 31.0
    assert desk.progress.late() == ["agent"]
    desk.works()
    assert desk.progress.late() == []
    now[0] = 1e6  # who waits for messages is not late, however long there is none
    assert desk.progress.late() == []


@each_row(
    ("environment", "seconds"),
    [
        ({}, 0),
        ({"WATCHDOG_USEC": "60000000"}, 60),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "42"}, 60),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "43"}, 0),
        ({"WATCHDOG_USEC": "soon"}, 0),
    ],
)
def test_how_often_the_manager_wants_to_hear(environment, seconds):
    assert get_watchdog_interval(environment, 42) == seconds


@pytest.fixture
def manager(tmp_path, monkeypatch):
    """A service manager's socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as made:
        made.bind(str(tmp_path / "notify"))
        made.settimeout(5)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        monkeypatch.setenv("WATCHDOG_USEC", "40000")
        yield made


def drained(manager):
    while True:
        manager.recv(100)


def test_the_manager_hears_nothing_while_a_thread_is_frozen(manager):
    frozen, notes = [], []
    watchdog = Watchdog(lambda: list(frozen), notes.append)
    watchdog.start()
    assert manager.recv(100) == b"WATCHDOG=1"
    frozen.append("automation")
    manager.settimeout(0.2)
    with pytest.raises(TimeoutError):
        drained(manager)
    frozen.clear()
    assert manager.recv(100) == b"WATCHDOG=1"
    watchdog.stop()
    assert notes == ["frozen: automation; systemd's watchdog is no longer notified"]


def test_nobody_is_told_where_there_is_no_manager(tmp_path):
    assert not notify_systemd({}, "READY=1")
    assert not notify_systemd({"NOTIFY_SOCKET": str(tmp_path / "gone")}, "READY=1")
    assert not notify_systemd({"NOTIFY_SOCKET": "relative"}, "READY=1")


def test_memory():
    assert MEGABYTE < get_resident_bytes() < 1 << 40
    assert get_default_memory_limit(512 * MEGABYTE) == 128 * MEGABYTE
    assert get_default_memory_limit(256 * MEGABYTE) == 120 * MEGABYTE
    assert get_default_memory_limit(8192 * MEGABYTE) == 400 * MEGABYTE
    assert get_resource_limits(1 << 27).memory == 1 << 27
    assert 100 < get_resource_limits(1).files <= 400


@each_row(
    ("now", "age", "said"),
    [
        (ResourceUsage(128 * MEGABYTE, 30, 20), 601, []),
        (ResourceUsage(129 * MEGABYTE, 30, 20), 601, ["more than 128 MB of memory"]),
        (ResourceUsage(129 * MEGABYTE, 31, 21), 599, []),
        (ResourceUsage(0, 31, 21), 601, ["more than 30 open files", "more than 20 threads"]),
    ],
)
def test_what_leaks_is_named(now, age, said):
    assert list_exceeded_limits(now, ResourceUsage(128 * MEGABYTE, 30, 20), age) == said


@pytest.fixture
def household(tmp_path, monkeypatch):
    monkeypatch.setenv("PICOCLAW_HOME", str(tmp_path / "home"))
    workspace.prepare_home(tmp_path / "home")
    config = replace(load_config(), board=BoardConfig("sim"))
    app = App(config, detect.choose_board("sim", config))
    made = DaemonService(app, lambda _: None, 1 << 30, safe=False)
    yield made
    made.database.close()
    app.close()


def test_a_daemon_that_leaks_files_says_so_and_begins_afresh_once(household):
    assert household.status()["problems"] == []
    assert household.status()["files"] < household.status()["files_limit"]
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(household.live.limits.files)]
    try:
        household.expect_scheduler(1.0)
        assert not household._restarts  # it has just begun
        household.live.since -= 601
        household.expect_scheduler(1.0)
        household.expect_scheduler(1.0)
        said = household.status()
    finally:
        for file in opened:
            os.close(file)
    assert household._restarts
    told = f"more than {said['files_limit']} open files"
    assert told in said["problems"]
    assert [line["text"] for line in said["log"]] == [f"{told}: restarts when idle"]


def test_a_daemon_that_can_open_no_file_any_more_is_known_to_leak():
    usual = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = measure_usage().files + 8
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, usual[1]))
    opened = []
    try:
        with suppress(OSError):
            while True:
                opened.append(os.open(os.devnull, os.O_RDONLY))
        now, limits = measure_usage(), get_resource_limits(MEGABYTE)
    finally:
        for file in opened:
            os.close(file)
        resource.setrlimit(resource.RLIMIT_NOFILE, usual)
    assert f"more than {limits.files} open files" in list_exceeded_limits(now, limits)


def test_health_says_not_ok_while_a_thread_is_late(household):
    app = household.app
    room = DaemonBackend(app.config, app.wiring, lambda: UTC, "", household.status)
    assert room.troubles() == []
    household.progress.expect("automation", -1)
    assert room.troubles() == ["the automation thread is frozen"]
    assert household.status()["problems"] == ["the automation thread is frozen"]
    household.progress.expect("automation", None)
    assert room.troubles() == []
    room.close()


def test_the_page_finds_notes_and_reads_nothing_else(household):
    app = household.app
    folder = app.config.workspace / "memory"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "2026-11-20.md").write_text("# 2026-11-20\n\n- the pump's fuse is 5 A\n")
    (app.config.workspace / "other.txt").write_text("secret")
    (app.config.home / "secrets.toml").write_text("api_key = 'x'")
    room = DaemonBackend(app.config, app.wiring, lambda: UTC, "", household.status)
    (found,) = room.notes("pump fuse")
    assert (found.name, "5 A" in found.text, room.notes(" ")) == ("memory/2026-11-20.md", True, [])
    assert "5 A" in room.note(found.name)
    for path in (
        "other.txt",
        "../secrets.toml",
        "memory/../other.txt",
        "memory/absent.md",
        "",
        str(folder / "2026-11-20.md"),
    ):
        with pytest.raises(StoreError):
            room.note(path)
    room.close()


def test_a_disk_that_takes_nothing_is_a_problem_that_status_names(household):
    def refuses():
        raise StoreError("state.db: the disk is full")

    household.writes.write(refuses)
    (problem,) = household.status()["problems"]
    assert "the disk is full" in problem


def test_how_it_is_can_be_asked_while_the_disk_hangs(household, monkeypatch):
    monkeypatch.setattr("picoclaw.daemon.service._STATUS_LOCK_TIMEOUT_S", 0.05)
    assert household.status()["inbox"] == 0
    taken, let_go = threading.Event(), threading.Event()

    def hold():
        with household.boxes.lock:
            taken.set()
            let_go.wait(5)

    thread = threading.Thread(target=hold)
    thread.start()
    taken.wait(5)
    said = household.status()
    let_go.set()
    thread.join()
    assert (said["running"], "inbox" in said) == (True, False)


# --- the socket


def test_a_home_that_lies_deep_has_a_socket_for_its_owner_alone(tmp_path):
    home = tmp_path / ("d" * 120)
    home.mkdir()
    assert ipc.connect(home) is None
    listener = listen_unix(home / ipc.SOCKET_NAME)
    assert (home / ipc.SOCKET_NAME).stat().st_mode & 0o777 == 0o600
    client = ipc.connect(home, 1)
    server, _ = listener.accept()
    assert ipc.is_same_user(server)
    client.say({"a": "ü\ud800"})
    assert ipc.IpcConnection(server).next() == {"a": "ü?"}
    server.sendall(b'{"one":1}\nnonsense\n[2]\n{"two"')
    assert [client.next(), client.next(), client.next()] == [{"one": 1}, {}, {}]
    server.sendall(b":2}\n")
    assert client.next() == {"two": 2}
    server.close()
    assert client.next() is None
    with pytest.raises(BrokenPipeError):
        client.say({"a": "x" * 1_000_000})
    client.connection.close()
    listener.close()


def test_history_names_what_a_turn_answers(tmp_path):
    database = Database(tmp_path / "state.db")
    History(database).keep("s", turn("a", "b"), NOON, inbox=7)
    assert database.connection.execute("SELECT inbox FROM turns").get == 7
    assert conversations.is_process_alive(conversations.get_process_identity())
    database.close()
