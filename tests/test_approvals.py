"""Calls that wait for a yes: kept, asked about once, answered once by the owner, made once or never."""

import subprocess
import sys
import threading
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from model_server import ModelServer, call, reply
from person import Person, picoclaw
from policy_kit import override_effects
from test_chat_commands import Chat
from validity import check_body

from picoclaw.app import App
from picoclaw.config import Config
from picoclaw.daemon.background import BackgroundWorker
from picoclaw.errors import Denied, StoreError
from picoclaw.hw.sim import SimBoard
from picoclaw.messages import DEFAULT_SESSION, Caller, Inbound, ToolCall
from picoclaw.records import replace
from picoclaw.security.guard import ApprovalAnswer, ApprovalManager, Guard
from picoclaw.security.policy import CallRequest, Decision, Policy
from picoclaw.store.approvals import MAX_WAITING_PER_SESSION, Approvals
from picoclaw.store.database import LAST_CHAT_MARK, Database, Marks
from picoclaw.store.inbox_outbox import Outbox
from picoclaw.tools.registry import Toolset, tool
from picoclaw.workspace import prepare_home

NOW = datetime(2026, 7, 1, 12, 0, tzinfo=UTC)
WHY = Decision("ask", "exec.owner = ask", "exec, asked for by the owner")
OWNER = "telegram:1"


def caller(origin="owner", session="home", **more):
    return Caller(session, origin, NOW, print, **more)


def asked(number=1, **bound):
    return CallRequest("exec", ToolCall("c1", "valve", {"number": number}), bound=bound)


class Kept:
    """A database of kept calls with a clock that is turned by hand."""

    def __init__(self, path):
        self.path, self.wall = path, 1_000_000.0
        self.database = Database(path)
        self.approvals = Approvals(self.database, lambda: self.wall)

    def open(self, number=1, who=None, question="the question"):
        return self.approvals.open(asked(number), who or caller(), WHY, "home", question, 15)

    def letters(self):
        return [letter.text for letter in Outbox(self.database).waiting()]

    def settle(self, session):
        """Nothing is crossed off here."""

    def close(self):
        self.database.close()


@pytest.fixture
def kept(tmp_path):
    with closing(Kept(tmp_path / "state.db")) as found:
        yield found


# --- the store ---


def test_a_kept_call_comes_back_as_it_went_in_after_a_restart(kept):
    odd = CallRequest("exec", ToolCall("c1", "valve", {"x": "caf\udce9 \u202e", "n": 1.5}), "opens it", {"cwd": "/srv"})
    who = Caller("home", "guest", NOW, print, {"web_fetch x"}, who="telegram:7", reply_to="")
    number = kept.approvals.open(odd, who, WHY, "owner's", "whole " * 5000, 15)
    with closing(Database(kept.path)) as again:
        found = Approvals(again, lambda: kept.wall).get(number)
    assert (found.session, found.chat, found.origin, found.asked_by) == ("home", "owner's", "guest", "telegram:7")
    assert (found.asked.effect, found.means, found.bound) == ("exec", "opens it", {"cwd": "/srv"})
    assert found.call.arguments == {"x": "caf\udce9 \u202e".encode("utf-8", "replace").decode(), "n": 1.5}
    assert (found.question, found.heard, found.state) == ("whole " * 5000, ("web_fetch x",), "waiting")
    assert found.expires - found.at == 900
    (letter,) = Outbox(kept.database).waiting()
    assert (letter.session, letter.approval) == ("owner's", number)
    assert found.question in letter.text


def test_a_question_is_put_once_and_the_same_call_elsewhere_is_another(kept):
    assert kept.open() == kept.open() == 1
    assert kept.open(2) == 2
    assert kept.open(who=caller(session="another")) == 3
    assert len(kept.letters()) == 3


def test_nobody_can_be_flooded_with_questions(kept):
    for number in range(MAX_WAITING_PER_SESSION):
        kept.open(number)
    with pytest.raises(Denied, match="20 calls wait for the owner's yes"):
        kept.open(99)
    assert kept.open(5) == 6
    assert kept.open(who=caller(session="another")) == MAX_WAITING_PER_SESSION + 1
    kept.approvals.answer(1, OWNER, yes=True)
    kept.open(99)


@pytest.mark.parametrize(
    ("who", "began", "asks"),
    [
        ({}, -1, False),  # the turn that asks had begun when the no came
        ({}, 1, True),  # the owner has said something since
        ({"origin": "web"}, 1, True),
        ({"taints": {"web_fetch x"}}, 1, False),
        ({"origin": "cron"}, 1, False),
        ({"origin": "member"}, 1, False),
        ({"origin": "guest"}, 1, False),
    ],
)
def test_a_no_holds_for_a_while_unless_the_owner_asks_anew(kept, who, began, asks):
    kept.approvals.answer(kept.open(), OWNER, yes=False)
    kept.wall += 2
    again = replace(caller(**who), now=datetime.fromtimestamp(kept.wall - 2 + began, UTC))
    if asks:
        assert kept.open(who=again) == 2
        return
    with pytest.raises(Denied, match="the answer to exactly this was no a moment ago"):
        kept.open(who=again)
    kept.open(2)
    kept.wall += 601
    assert kept.open(who=again) == 3


@pytest.mark.parametrize("yes", [True, False])
def test_an_answer_counts_once(kept, yes):
    number = kept.open()
    taken = kept.approvals.answer(number, OWNER, yes=yes)
    assert (taken.state, taken.answered_by) == ("running" if yes else "refused", OWNER)
    nonce = kept.approvals.get(number).nonce
    for again, sign in [(False, None), (False, nonce), (True, nonce), (True, None)]:
        assert isinstance(kept.approvals.answer(number, OWNER, yes=again, nonce=sign), str)


@pytest.mark.parametrize("later", [0, 1, 899, 900, -61])
def test_a_no_is_final(kept, later):
    number = kept.open()
    kept.approvals.answer(number, OWNER, yes=False)
    kept.wall += later
    told = f"number {number} was refused: the answer was no, and it was not done; ask for it anew"
    assert kept.approvals.answer(number, OWNER, yes=True) == told
    with closing(Database(kept.path)) as again:
        assert Approvals(again, lambda: kept.wall).answer(number, OWNER, yes=True) == told
    assert kept.approvals.get(number).state == "refused"


def test_of_many_who_answer_at_once_one_gets_the_call(kept):
    number, taken, start = kept.open(), [], threading.Barrier(4)

    def press():
        with closing(Database(kept.path)) as own:
            start.wait()
            taken.append(Approvals(own, lambda: kept.wall).answer(number, OWNER, yes=True))

    threads = [threading.Thread(target=press) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(isinstance(one, str) for one in taken) == [False, True, True, True]


@pytest.mark.parametrize("given", [0, -1, 2, 10**30])
def test_there_is_no_such_question(kept, given):
    kept.open()
    assert kept.approvals.answer(given, OWNER, yes=True) == f"there is no question number {given}"
    assert kept.approvals.get(given) is None


def test_a_button_answers_its_own_question_alone(kept):
    one, other = kept.open(1), kept.open(2)
    nonce = kept.approvals.get(other).nonce
    assert "with that button" in kept.approvals.answer(one, OWNER, yes=True, nonce=nonce)
    assert kept.approvals.answer(other, OWNER, yes=True, nonce=nonce).number == other


@pytest.mark.parametrize(("later", "state"), [(899, "running"), (900, "expired"), (-61, "expired"), (-59, "running")])
def test_a_question_ends_in_time_also_when_the_clock_is_set_back(kept, later, state):
    number = kept.open()
    kept.wall += later
    kept.approvals.answer(number, OWNER, yes=True)
    assert kept.approvals.get(number).state == state
    assert kept.approvals.waiting() == []
    assert [text for text in kept.letters() if "has expired" in text] == (
        [f"number {number} has expired: nobody answered in time, and it was not done (the question)"]
        if state == "expired"
        else []
    )


def test_both_the_one_who_asked_and_the_owner_hear_that_it_has_expired(kept):
    kept.approvals.open(asked(), caller("guest", "stranger"), WHY, "home", "the question", 15)
    assert kept.approvals.next_expiry() == kept.wall + 900
    kept.wall += 901
    assert [one.state for one in kept.approvals.expired()] == ["expired"]
    assert kept.approvals.expired() == []
    assert kept.approvals.next_expiry() is None
    told = [letter.session for letter in Outbox(kept.database).waiting() if "has expired" in letter.text]
    assert told == ["home", "stranger"]


DIES = """
import os, sys
from picoclaw.store.approvals import Approvals
from picoclaw.store.database import LAST_CHAT_MARK
from picoclaw.store.database import Database
from picoclaw.store.database import Marks
Approvals(Database(sys.argv[1])).answer(1, "telegram:1", yes=True)
os.kill(os.getpid(), 9)
"""


def test_what_was_cut_off_is_told_as_unknown_and_never_made_again(kept):
    kept.wall = time.time()
    number = kept.open()
    subprocess.run(
        [sys.executable, "-c", DIES.replace("sys.argv[1]", f"__import__('pathlib').Path({str(kept.path)!r})")]
    )
    assert kept.approvals.get(number).state == "running"
    assert [one.state for one in kept.approvals.cut_off()] == ["unknown"]
    assert kept.approvals.cut_off() == []
    assert "whether it was done is not known" in kept.approvals.answer(number, OWNER, yes=True)
    assert any("whether it was done is not known" in text for text in kept.letters())


def test_what_runs_is_not_taken_for_cut_off(kept):
    kept.approvals.answer(kept.open(), OWNER, yes=True)
    assert kept.approvals.cut_off() == []


# --- an answer, and the call that is made for it ---


class Valve:
    """A tool with a memory, which runs a script of its owner's."""

    def __init__(self, script):
        self.script, self.runs, self.during = script, [], lambda: None

    def _binds(self, _arguments):
        return {"script": self.script.read_text()}

    @tool("exec", binds=_binds)
    def valve(self, caller: Caller, number: int = 1) -> str:
        """Turn it."""
        self.during()
        self.runs.append(number)
        return f"turned {number} for {caller.session}"


class House:
    """A valve behind the real guard, with its kept calls."""

    def __init__(self, kept, folder):
        self.kept, self.rules, self.noted, self.heard = kept, override_effects({"exec": "ask"}), [], []
        (folder / "script").write_text("turn")
        self.valve, self.journal = Valve(folder / "script"), []
        self.approving = ApprovalManager(
            kept,
            lambda _: self.toolset,
            lambda: self.rules,
            lambda: NOW,
            15,
            lambda approval: self.heard.append(approval.state),
            lambda asked, caller, decision, outcome: self.noted.append(outcome),
        )
        self.toolset = Toolset(
            [self.valve],
            guard=Guard(lambda: self.rules, keep=self.approving.queue_call),
            journal=lambda call, _: self.journal.append(kept.approvals.get(1).state),
            longest_result=1000,
        )

    def ask(self, who=None, **arguments):
        return self.toolset.call(ToolCall("c1", "valve", arguments), who or caller())

    def say(self, number=1, *, yes=True, origin="owner", **more):
        return self.approving.answer(ApprovalAnswer(number, yes, OWNER, origin, **more))


@pytest.fixture
def house(kept, tmp_path):
    return House(kept, tmp_path)


@pytest.mark.parametrize("always", [False, True], ids=["once", "always"])
def test_what_was_done_is_not_said_to_be_undone_when_the_disk_fails(house, always):
    def full(*_):
        if house.valve.runs:
            raise StoreError("audit.log cannot be written: the disk is full")

    house.approving.note = full
    house.ask(number=3)
    said = house.say(always=always)
    assert (said.good, house.valve.runs) == (True, [3])
    assert (
        said.text
        == "Number 1 was done. But that could not be written down: audit.log cannot be written: the disk is full"
    )


def test_a_call_is_made_when_the_yes_comes_and_only_then(house):
    assert "waits for the owner's yes as number 1 (`/yes 1`" in house.ask(number=4)
    assert house.valve.runs == []
    outcome = house.say()
    assert (outcome.good, outcome.text, outcome.made.outcome) == (True, "Number 1 was done.", "turned 4 for home")
    assert house.valve.runs == [4]
    assert house.journal == ["running"], "that it is made is on the disk before it is"
    assert house.say().text == "Nothing was done: number 1 was answered already: it was done."
    assert house.valve.runs == [4]
    assert house.heard == ["waiting", "running", "done"]
    assert house.noted == [f"yes to number 1 by {OWNER}", "number 1: done"]


@pytest.mark.parametrize("origin", ["guest", "cron", "heartbeat", "rule", "subagent"])
def test_nobody_but_the_owner_can_say_yes(house, origin):
    house.ask()
    assert not house.say(origin=origin).good
    assert house.valve.runs == []
    assert house.kept.approvals.get(1).state == "waiting"


def test_a_no_is_told_to_whoever_has_asked(house):
    house.ask(caller("guest", "stranger", who="telegram:9"))
    assert house.say(yes=False) == ("Number 1 is not done.", True, None)
    assert house.valve.runs == []
    (told,) = (one for one in Outbox(house.kept.database).waiting() if one.session == "stranger")
    assert told.text == "number 1 (valve) is not done: the owner said no"


CHANGES = [
    (lambda house: house.valve.script.write_text("burn"), "has changed since the question"),
    (
        lambda house: setattr(house, "rules", override_effects({"exec": "refuse"})),
        "rule exec.owner = refuse does not allow it now",
    ),
    (lambda house: house.toolset._groups.clear(), "there is no tool 'valve'"),
]


@pytest.mark.parametrize(("change", "why"), CHANGES)
def test_a_yes_holds_for_what_was_asked_and_for_nothing_else(house, change, why):
    house.ask()
    change(house)
    outcome = house.say()
    assert (outcome.good, outcome.made) == (False, None)
    assert why in outcome.text
    assert house.valve.runs == []
    assert house.kept.approvals.get(1).state == "void"


def test_what_fails_is_told_as_failed(house):
    house.ask()
    house.valve.during = lambda: 1 / 0
    outcome = house.say()
    assert (outcome.good, outcome.made.state) == (False, "failed")
    assert "ZeroDivisionError" in outcome.made.outcome
    assert house.valve.runs == []


def test_what_is_allowed_for_good_is_exactly_that_call(house):
    house.rules = Policy(house.rules.effects, always=AlwaysOf(house.kept.approvals))
    house.ask(number=4)
    assert "allowed for good as rule 1" in house.say(always=True).text
    assert house.ask(number=4) == "turned 4 for home"
    assert "waits" in house.ask(number=5)
    house.valve.script.write_text("another script")
    assert "waits" in house.ask(number=4)
    house.valve.script.write_text("turn")
    assert house.kept.approvals.revoke(1)
    assert not house.kept.approvals.revoke(1)
    assert "waits" in house.ask(number=4)


class AlwaysOf(dict):
    """The rules as they are now."""

    def __init__(self, approvals):
        self._approvals = approvals

    def get(self, exact, default=None):
        return {rule.digest: rule.number for rule in self._approvals.always()}.get(exact, default)


@pytest.mark.parametrize(
    ("who", "chat"),
    [
        (caller("owner", "telegram:1"), "telegram:1"),
        (caller("web", "page"), "page"),
        (caller("guest", "telegram:9"), DEFAULT_SESSION),
        (caller("cron", "job 3", reply_to="telegram:9"), DEFAULT_SESSION),
        (caller("heartbeat", "heartbeat"), DEFAULT_SESSION),
        (caller("subagent", "subagent:2", reply_to="telegram:9"), DEFAULT_SESSION),
    ],
)
@pytest.mark.parametrize("spoke", ["", "telegram:1"])
def test_the_owner_is_asked_where_they_read_it(house, who, chat, spoke):
    Marks(house.kept.database).set(LAST_CHAT_MARK, spoke)
    chat = chat if who.origin in {"owner", "web"} else spoke or chat
    house.ask(who)
    assert house.kept.approvals.get(1).chat == chat
    assert [letter.session for letter in Outbox(house.kept.database).waiting()] == [chat]


# --- at the desk ---


class Desk(Chat):
    """A chat in which the owner wants to be asked about files."""

    def __init__(self, home, server=None, **more):
        super().__init__(home, server, **more)
        (home / "policy.toml").write_text('[effects]\nwrite = "ask"\n')
        (home / "policy.toml").chmod(0o600)
        self.file = home / "workspace/plan.md"

    def letters(self, session=DEFAULT_SESSION):
        return [one.text for one in Outbox(self.app.stores.database).waiting() if one.session == session]


WRITES = reply("", call("write_file", {"path": "plan.md", "content": "water the figs"}))


@pytest.fixture
def desk(tmp_path):
    script = [WRITES, reply("It waits."), reply("I wrote the plan."), reply("more"), reply("even more")]
    with ModelServer(script) as server, Desk(tmp_path / "home", server) as desk:
        yield desk


def test_the_conversation_goes_on_after_the_yes(desk):
    assert desk.turn("write the plan").reply == "It waits."
    assert not desk.file.exists()
    (letter,) = desk.letters()
    assert "write_file" in letter
    assert "water the figs" in letter
    turn = desk.turn("/yes 1")
    assert (turn.reply, turn.notice.text) == ("I wrote the plan.", "Number 1 was done.")
    assert desk.file.read_text() == "water the figs"
    body = desk.server.requests[-1].body
    check_body(body)
    *_, said, made, result = body["messages"]
    assert "The owner has said yes to number 1" in said["content"]
    assert "figs" not in said["content"], "what was done is not put into the owner's mouth"
    assert made["tool_calls"][0]["function"]["name"] == "write_file"
    assert "wrote" in result["content"]
    assert desk.app.stores.history.turns(DEFAULT_SESSION)[-1] == turn.messages
    assert desk.app.stores.history.unknown_acts(DEFAULT_SESSION) == []


def test_a_yes_survives_the_end_of_the_process(desk):
    desk.turn("write the plan")
    desk.app.close()
    desk.app = type(desk.app)(desk.app.config, desk.app.board)
    assert desk.turn("/yes").reply == "I wrote the plan."
    assert desk.file.exists()


def test_a_yes_from_another_chat_has_the_first_one_go_on(desk):
    desk.turn("write the plan", "telegram:1")
    answer = desk("/yes 1", "page:1")
    assert answer.startswith("Number 1 was done.\nwrote")
    assert desk.letters("telegram:1")[-1] == "I wrote the plan."
    assert desk.shown("telegram:1")[-1] == "I wrote the plan."
    assert desk.shown("page:1") == []


@pytest.mark.parametrize("origin", ["guest", "cron", "heartbeat", "subagent"])
def test_the_words_of_another_are_no_answer(desk, origin):
    desk.turn("write the plan")
    desk.turn("/yes 1", origin=origin)
    assert desk.app.stores.approvals.get(1).state == "waiting"


def test_what_somebody_else_has_written_is_no_answer(desk):
    desk.turn("write the plan")
    desk.app.dispatcher.answer(Inbound(DEFAULT_SESSION, "/yes 1", foreign=("forwarded from Eve",)))
    assert not desk.file.exists()


def test_what_a_model_says_is_no_answer(tmp_path):
    script = [WRITES, reply("/yes 1"), reply("/yes 1", call("message", {"text": "/yes 1"})), reply("ok")]
    with ModelServer(script) as server, Desk(tmp_path / "home", server) as desk:
        desk.turn("write the plan")
        desk.turn("go on")
        assert desk.app.stores.approvals.get(1).state == "waiting"
        assert not desk.file.exists()


def test_an_answer_without_a_number_is_only_taken_where_one_question_waits(desk):
    assert "nothing waits for your approval in this chat" in desk("/yes")
    assert "/always takes the number" in desk("/always")
    desk.turn("write the plan")
    desk.app.approving.queue_call(asked(), caller(session=DEFAULT_SESSION), WHY)
    assert "several questions wait, so it takes a number" in desk("/no")
    assert "is no number of a question" in desk("/no one")
    assert desk("/no 2") == "Number 2 is not done."
    assert desk("/approvals").startswith("1  write_file")
    assert "water the figs" in desk("/approvals 1")
    assert desk("/no") == "Number 1 is not done."
    assert desk("/approvals") == "Nothing waits for your approval."


def write(name, text="x"):
    return call("write_file", {"path": name, "content": text}, id=name)


BOTH = {
    "one message": [reply("", write("a.md"), write("b.md")), reply("They wait.")],
    "one after the other": [reply("", write("a.md")), reply("", write("b.md")), reply("They wait.")],
}
LISTED = """numbers 1 and 2 wait for your approval until {until}:
2 calls, one answer for all of them:
number 1: write_file {{"path": "a.md", "content": "x"{more}}}
({why})
number 2: write_file {{"path": "b.md", "content": "x"{more}}}
({why})
/yes or /no for all of them, or with a number for one, such as /yes 1; /always 1 allows one for good"""


class Listing(Desk):
    """A desk at which a turn has asked for two files; the words that answer them, and what becomes of them."""

    def states(self):
        approvals = self.app.stores.approvals
        return [approvals.get(n).state for n in range(1, 9) if approvals.get(n)]

    def files(self):
        return sorted(one.name for one in (self.app.config.home / "workspace").glob("[a-d].md"))

    def restart(self):
        self.app.close()
        self.app = type(self.app)(self.app.config, self.app.board)

    def nonce(self, number):
        return self.app.stores.approvals.get(number).nonce


@pytest.fixture(params=BOTH)
def listing(request, tmp_path):
    script = [*BOTH[request.param], *(reply(f"went on {n}") for n in range(9))]
    with ModelServer(script) as server, Listing(tmp_path / "home", server) as desk:
        desk.turn("write both")
        yield desk


def test_the_calls_of_a_turn_are_asked_about_in_one_question(listing):
    one = listing.app.stores.approvals.get(1)
    (letter,) = listing.letters()
    until = datetime.fromtimestamp(one.expires, listing.app.now().tzinfo)
    more = one.question.partition('"content": "x"')[2].rstrip("}")
    assert letter == LISTED.format(until=f"{until:%H:%M}", why=one.why, more=more)
    assert listing.files() == []


W = DEFAULT_SESSION
ANSWERS = [  # what is said in which chat, with `{1}` for the sign of number 1, and the files there are then
    ([("/yes", W)], "ab"),
    ([("/yes 1 {1}", W)], "ab"),
    ([("/yes 1 {1}", "page")], "ab"),
    ([("/always 1 {1}", W)], "ab"),
    ([("restart", W), ("/yes", W)], "ab"),
    ([("/yes", "page"), ("/no", "telegram:1")], ""),
    ([("/yes 2", W)], "b"),
    ([("/yes 1", W), ("/yes", W)], "ab"),
    ([("/yes 2 {2}", W)], ""),
    ([("/yes 1 {2}", W)], ""),
    ([("/no", W), ("/yes", W)], ""),
    ([("/no 1 {1}", W), ("/yes 1 {1}", W)], ""),
    ([("/no", W), ("/yes 2", W)], ""),
    ([("/no 1", W), ("/yes", W)], "b"),
    ([("/no 1", W), ("/yes 1", W)], ""),
    ([("later", W), ("/yes", W)], ""),
]


@pytest.mark.parametrize(("said", "files"), ANSWERS)
def test_one_answer_is_for_what_was_listed(listing, said, files):
    for text, chat in said:
        if text == "restart":
            listing.restart()
        elif text == "later":
            with listing.app.stores.database.transaction() as connection:
                connection.execute("UPDATE approvals SET at = at - 1000, expires = expires - 1000")
        else:
            listing.turn(text.format("", listing.nonce(1), listing.nonce(2)), chat)
    assert listing.files() == [f"{name}.md" for name in files]
    made = [one for one in listing.states() if one == "done"]
    assert len(made) == len(files)
    for text in ("/yes", f"/yes 1 {listing.nonce(1)}", "/always 1"):  # again
        for name in files:
            (listing.app.config.home / f"workspace/{name}.md").unlink(missing_ok=True)
        listing.turn(text)
        assert not set(listing.files()) & {f"{name}.md" for name in files}, "each is made once"


def test_the_conversation_goes_on_after_all_of_them(listing):
    turn = listing.turn("/yes")
    assert (turn.reply, turn.notice.text) == ("went on 0", "Number 1 was done. Number 2 was done.")
    body = listing.server.requests[-1].body
    check_body(body)
    said, made, *results = body["messages"][-4:]
    assert "said yes to number 1 and 2" in said["content"]
    assert [one["function"]["name"] for one in made["tool_calls"]] == ["write_file", "write_file"]
    assert all("wrote" in result["content"] for result in results)


def test_a_yes_is_never_for_what_was_asked_later(tmp_path):
    script = [*BOTH["one message"], reply("", write("c.md")), reply("It waits too."), *[reply("on")] * 5]
    with ModelServer(script) as server, Listing(tmp_path / "home", server) as desk:
        desk.turn("write both")
        desk.turn("write c")
        refused = desk("/yes")
        assert refused.startswith(
            "error: Nothing was done: several questions wait, so it takes a number.\n1  write_file"
        )
        desk.turn(f"/yes 1 {desk.nonce(1)}")
        assert (desk.files(), desk.states()) == (["a.md", "b.md"], ["done", "done", "waiting"])
        desk.turn("/yes")
        assert desk.files() == ["a.md", "b.md", "c.md"]


AGAIN = call("write_file", {"path": "a.md", "content": "y", "mode": "replace"})


def test_the_same_with_other_words_asks_anew(tmp_path):
    script = [*BOTH["one message"], reply("", AGAIN), reply("It waits."), *[reply("on")] * 5]
    with ModelServer(script) as server, Listing(tmp_path / "home", server) as desk:
        desk.turn("write both")
        desk.turn("/yes")
        assert desk.states() == ["done", "done", "waiting"]
        assert (desk.app.config.home / "workspace/a.md").read_text() == "x"


def test_behind_one_that_fails_nothing_is_done_and_the_rest_waits(listing):
    (listing.app.config.home / "workspace/a.md").mkdir()
    turn = listing.turn("/yes")
    assert "Not done, and still waiting for your approval: 2." in turn.notice.text + turn.reply
    assert listing.states()[1:] == ["waiting"]
    listing.turn("/yes")
    assert "b.md" in listing.files()


def test_what_a_process_has_not_asked_about_any_more_the_next_one_asks(kept):
    script = DIES.replace("sys.argv[1]", f"__import__('pathlib').Path({str(kept.path)!r})").replace(
        'answer(1, "telegram:1", yes=True)',
        'open(CallRequest("exec", ToolCall("c1", "valve", {})), Caller("home", "owner", datetime.now(UTC), print, asks=[]),'
        ' Decision("ask", "", ""), "home", "the question", 15)',
    )
    imports = "from datetime import UTC, datetime\nfrom picoclaw.messages import Caller, ToolCall\n"
    imports += "from picoclaw.security.policy import CallRequest, Decision\n"
    kept.wall = time.time()
    subprocess.run([sys.executable, "-c", imports + script])
    assert (kept.letters(), kept.approvals.next_expiry(), kept.approvals.left()) == ([], None, [[1]])
    asked = kept.approvals.ask([1], UTC)
    assert [asked.number in (one.number for one in kept.approvals.waiting()), len(kept.letters())] == [True, 1]
    assert (kept.approvals.ask([1], UTC), kept.approvals.left()) == (None, [])


def test_a_turn_may_take_longer_than_a_question(kept):
    number = kept.open(who=caller(asks=[]))
    kept.wall += 5000
    assert (kept.approvals.expired(), kept.approvals.next_expiry()) == ([], None)
    kept.approvals.ask([number], UTC)
    assert kept.approvals.next_expiry() == kept.wall + 900


def test_without_a_model_the_result_is_told_plainly(tmp_path):
    with Desk(tmp_path / "home") as desk:
        app = desk.app
        write = ToolCall("1", "write_file", {"path": "plan.md", "content": "water the figs"})
        app.toolset.run(write, Caller(DEFAULT_SESSION, "owner", app.now(), print))
        assert desk("/yes").startswith("Number 1 was done.\nwrote")
        assert desk.file.read_text() == "water the figs"


WISHES = {
    "yes": "remind me in 2 hours to water the figs",
    "ja": "erinnere mich in 2 Stunden an die Feigen",
    "sí": "recuérdame regar en 2 horas",
    "oui": "rappelle-moi d'arroser dans 2 heures",
}
REFUSED = "number 1 was refused: the answer was no, and it was not done; ask for it anew"


@pytest.mark.parametrize(
    ("no", "yes", "told"),
    [
        (no, yes, REFUSED)
        for no in ("no", "/no", "/no 1", "/no 1 {nonce}")
        for yes in ("/yes 1", "/always 1", "/yes 1 {nonce}")
    ]
    + [
        ("no", "yes", REFUSED),
        ("/no 1", "yes", REFUSED),
        ("no", "/yes", "nothing waits for your approval in this chat"),
        ("/no 1", "/yes", "nothing waits for your approval in this chat"),
        ("nein", "ja", "Nummer 1 wurde mit Nein beantwortet und nicht getan"),
        ("no", "sí", "al número 1 se respondió que no"),
        ("non", "oui", "le numéro 1 a été refusé"),
    ],
)
@pytest.mark.parametrize("elsewhere", [False, True])
def test_after_a_no_no_yes_does_it(tmp_path, no, yes, told, elsewhere):
    with Desk(tmp_path / "home") as desk:
        (desk.app.config.home / "policy.toml").write_text('[effects]\nplan = "ask"\n')
        desk.turn(WISHES.get(yes, WISHES["yes"]))
        (one,) = desk.app.approving.approvals.waiting()
        for text, chat in ((no, DEFAULT_SESSION), (yes, "telegram:1" if elsewhere else DEFAULT_SESSION)):
            turn = desk.turn(text.format(nonce=one.nonce), chat)
        if yes.startswith("/") or not elsewhere:
            assert told in turn.reply
        assert desk.app.approving.approvals.get(1).state == "refused"
        assert desk.app.stores.jobs.all() == []


def test_of_several_what_was_refused_by_its_number_stays_so(listing):
    listing.turn("/no 1")
    listing.turn("/yes")
    assert (listing.files(), listing.states()) == (["b.md"], ["refused", "done"])
    assert REFUSED in listing("/yes 1")
    assert listing.files() == ["b.md"]


@pytest.mark.parametrize(("origin", "more"), [("owner", set()), ("cron", {"what a cron has asked for"})])
def test_the_turn_that_goes_on_has_read_what_the_first_one_had(tmp_path, origin, more):
    looks = reply("", call("list_dir", {"path": "."}))
    with ModelServer([looks, reply("Done.")]) as server, Desk(tmp_path / "home", server) as desk:
        app, heard, callers = desk.app, {"web_fetch http://x.example"}, []
        write = ToolCall("1", "write_file", {"path": "plan.md", "content": "x"})
        session = DEFAULT_SESSION if origin == "owner" else "job 3"
        app.toolset.run(write, Caller(session, origin, app.now(), print, set(heard), reply_to=DEFAULT_SESSION))
        run = app.toolset.run

        def watch(call, by, approved=None):
            if not approved:
                callers.append((by.session, by.origin, set(by.taints)))
            return run(call, by, approved)

        app.toolset.run = watch
        assert desk.turn("/yes 1").reply == "Done."
        assert callers == [(DEFAULT_SESSION, "owner", heard | more)]


def test_what_nobody_answers_is_told_while_picoclaw_runs(tmp_path):
    with Desk(tmp_path / "home") as desk:
        app, shown, ended = desk.app, [], threading.Event()
        app.approving.minutes = 0.005
        app.changed = lambda approval: approval.state == "expired" and ended.set()
        with BackgroundWorker(app, DEFAULT_SESSION, shown.append):
            app.approving.queue_call(asked(), caller(session=DEFAULT_SESSION), WHY)
            assert ended.wait(5)
        assert app.stores.approvals.get(1).state == "expired"
        assert ["waits for your approval" in shown[0], "has expired" in shown[-1]] == [True, True]


def test_a_broken_file_of_rules_is_told_once_and_has_everything_asked(tmp_path):
    with (
        ModelServer([reply("one"), reply("two"), WRITES, reply("It waits.")]) as server,
        Desk(tmp_path, server) as desk,
    ):
        Path(tmp_path / "policy.toml").write_text("[effects]\nexec = 1\n")
        assert "effects.exec must be a table" in desk.turn("hello").notice.text
        assert desk.turn("hello").notice.text == ""
        desk.turn("write the plan")
        assert not desk.file.exists()


def test_a_person_at_a_terminal_answers_without_a_chat(tmp_path):
    picoclaw(tmp_path, "init", "--no-questions")
    home = tmp_path / "picoclaw"
    (home / "policy.toml").write_text('[tools]\nwrite_file = "ask"\n')
    done = picoclaw(tmp_path, "tool", "write_file", '{"path": "a.md", "content": "\\u001b[2Jhi"}', "--board", "sim")
    assert (done.returncode, "waits for the owner's yes as number 1" in done.stderr) == (1, True)
    listed = picoclaw(tmp_path, "approvals").stdout
    assert listed.startswith('1  write_file {"path": "a.md", "content": "\\u001b[2Jhi"')
    assert "min left, asked in terminal" in listed
    with Person(tmp_path, "approvals", "yes", "1", "--board", "sim") as person:
        person.sees("Number 1 was done.")
        person.sees("wrote a.md")
    assert (home / "workspace/a.md").read_text() == "\x1b[2Jhi"
    listed = picoclaw(tmp_path, "approvals").stdout.splitlines()
    assert listed[0].startswith("1  done, ")
    assert listed[1:] == ["nothing waits for your approval"]
    shown = picoclaw(tmp_path, "approvals", "show", "1").stdout
    assert shown.startswith("number 1: done by terminal\nwrite_file ")


RULES_THAT_WAIT = (
    ("tell me when the greenhouse is above 30", "rule? greenhouse_temperature:"),
    ("tell me when the greenhouse is below 5", "rule? greenhouse_temperature_2:"),
    ("no make it 6", "change the rule to this? greenhouse_temperature_2:"),
    ("show my rules", "1 waits for your yes"),
    ("/yes 2", "number 2 was replaced by a later question"),
    ("/yes 1", "the rule is kept: greenhouse_temperature:"),
    ("show my rules", "3 waits for your yes"),
    ("/yes 3", "is below 6 °C"),
    ("/approvals", "Nothing waits for your approval."),
    ("show my rules", "2. greenhouse_temperature_2:"),
)


def test_rules_that_wait_stay_apart_and_one_that_is_changed_is_asked_about_once(tmp_path):
    prepare_home(tmp_path / "home")
    (tmp_path / "home/workspace/BOOTSTRAP.md").unlink(missing_ok=True)
    with closing(App(Config(tmp_path / "home"), SimBoard())) as app:
        for text, part in RULES_THAT_WAIT:
            assert part in app.dispatcher.answer(Inbound("terminal", text)).reply, text
