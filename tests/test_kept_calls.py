"""Calls that need the owner's yes, as the channels show them: who may answer, where, once, and how it has ended."""

import json
import re
import time
from contextlib import ExitStack, closing, contextmanager, nullcontext
from types import SimpleNamespace

import pytest
from daemon_kit import Daemon, events_until, furnished, until
from model_server import ModelServer, call, reply
from mqtt_broker import free_port
from page_house import Client
from person import Person, picoclaw_process
from telegram_server import GROUP, OWNER, STRANGER, TOKEN, TelegramServer

from picoclaw.channels.polled import Timing
from picoclaw.channels.telegram import NOT_OWNER, QUESTION_CLOSED, TelegramChannel
from picoclaw.config import Config
from picoclaw.config.tables import TelegramConfig
from picoclaw.messages import ToolCall
from picoclaw.store.approvals import Approval, Approvals
from picoclaw.store.database import Database
from picoclaw.store.inbox_outbox import OutboxMessage
from picoclaw.workspace import prepare_home

QUICK = Timing(hold=0.3, grace=0.4, first=0.02, longest=0.1, wait=0.5, between=0.0, in_groups=0.0, album=0.3)
CHAT = f"telegram:{OWNER}"
CALL = ToolCall("1", "outputs_set", {"name": "valve"})
GUEST = 8


def question(number=3, chat=CHAT, text="outputs_set\n  name: valve"):
    call = (chat, chat, "owner", CHAT, CALL, "actuate", "actuate.owner = ask", "it acts", "", {}, "", ())
    return Approval(number, f"{number:024x}", *call, text, 1.0, 2e9)


class Bench:
    """A channel that can be begun anew over the same home and the same server; `kept` are the calls."""

    def __init__(self, home, server):
        prepare_home(home)
        self.home, self.server, self.kept, self.posted = home, server, {}, []
        self.channel = self.new()
        self.channel.start(self.posted.append)

    def new(self):
        allow = [OWNER, GUEST]
        config = Config(self.home, telegram=TelegramConfig(allow, self.server.url), telegram_token=TOKEN)
        return TelegramChannel(config, {}, QUICK, kept=self.kept.get)

    def restart(self):
        self.channel.stop()
        self.channel = self.new()
        self.channel.start(self.posted.append)

    def asks(self, approval, letter=""):
        self.kept[approval.number] = approval
        text = letter or f"number {approval.number} waits for your approval:\n{approval.question}"
        self.channel.send(OutboxMessage(approval.number, approval.chat, text, time.time(), approval=approval.number))
        return {key["text"].split()[1].lower(): key["callback_data"] for key in self.server.sent[-1].keys}

    def ends(self, number, **how):
        self.kept[number] = self.kept[number]._replace(**how)
        self.channel.changed(self.kept[number])

    def pressed(self, *press):
        """Press a button; returns what the person is told at once."""
        before = len(self.server.called("answerCallbackQuery"))
        self.server.presses(*press)
        self.server.wait(lambda: len(self.server.called("answerCallbackQuery")) > before)
        return self.server.called("answerCallbackQuery")[-1]["text"]


@pytest.fixture
def server():
    with TelegramServer() as running:
        yield running


@pytest.fixture
def bench(tmp_path, server):
    made = Bench(tmp_path / "home", server)
    yield made
    made.channel.stop()


@pytest.mark.parametrize("word", ["yes", "no", "always"])
def test_the_owners_button_is_posted_as_what_they_would_type(bench, word):
    keys = bench.asks(question())
    assert bench.pressed(OWNER, keys[word]) not in {QUESTION_CLOSED, NOT_OWNER}
    (came,) = bench.posted
    assert (came.key, came.text) == (CHAT, f"/{word} 3 {3:024x}")
    assert (came.origin, came.who, came.foreign) == ("owner", CHAT, ())
    assert all(len(data.encode()) <= 64 for data in keys.values())


def test_nobody_else_and_no_other_button_counts(bench):
    keys = bench.asks(question())
    other = bench.asks(question(4, f"telegram:{GROUP}"))
    for who in (STRANGER, GUEST, 0):
        for chat in (0, OWNER, GROUP):
            if who:
                assert bench.pressed(who, keys["yes"], chat) == NOT_OWNER
    for data in (
        "",
        "y",
        "y3",
        "y3:",
        f"y3:{4:024x}",
        f"y4:{3:024x}",
        f"x{keys['yes'][1:]}",
        "y" * 64,
        f" {keys['yes']}",
    ):
        assert bench.pressed(OWNER, data) == QUESTION_CLOSED
    assert bench.pressed(OWNER, keys["yes"], GROUP) == QUESTION_CLOSED
    assert bench.pressed(OWNER, other["yes"]) == QUESTION_CLOSED
    assert not bench.posted
    bench.pressed(OWNER, other["no"], GROUP)
    assert [came.key for came in bench.posted] == [f"telegram:{GROUP}"]


@pytest.mark.parametrize("state", ["running", "done", "refused", "expired", "void", "unknown"])
def test_what_is_no_longer_open_takes_no_answer(bench, state):
    keys = bench.asks(question())
    bench.kept[3] = bench.kept[3]._replace(state=state)
    assert bench.pressed(OWNER, keys["yes"]) == QUESTION_CLOSED
    assert not bench.posted


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ({"state": "done", "answered_by": "page:ab"}, "Number 3: done (answered on the page)."),
        ({"state": "expired"}, "Number 3: not done, because nobody answered in time."),
        ({"state": "unknown"}, "Number 3: cut off; whether it was done is not known."),
    ],
)
@pytest.mark.parametrize("away", [False, True])
def test_how_it_ended_is_written_below_the_question_also_after_a_restart(bench, server, how, told, away):
    bench.asks(question())
    if away:
        bench.channel.stop()
        bench.kept[3] = bench.kept[3]._replace(**how)
        bench.restart()
        bench.channel.send(OutboxMessage(9, CHAT, "the outcome", time.time()))
    else:
        bench.ends(3, **how)
    server.wait(lambda: not server.sent[0].keys)
    assert server.sent[0].text.endswith(f"name: valve\n\n{told}")
    edits = len(server.called("editMessageText"))
    bench.ends(3, **how)
    bench.channel.send(OutboxMessage(10, CHAT, "another", time.time()))
    assert len(server.called("editMessageText")) == edits == 1


def test_a_long_question_is_shown_whole_with_its_length_and_the_buttons_at_its_end(bench, server):
    call = json.dumps({"text": "a**b `c` " * 1200})
    bench.asks(question(text=call))
    *before, last = server.sent
    assert len(before) >= 2
    assert not any(one.keys for one in before)
    assert not any(one.entities for one in server.sent)
    assert len(last.keys) == 3
    assert "".join(call.split()) in "".join("".join(server.texts()).split())
    assert re.match(r"\(A long question: 1\d,\d{3} characters\.\)", server.texts()[0])
    bench.ends(3, state="refused")
    server.wait(lambda: not server.sent[-1].keys)


def test_a_question_that_is_over_when_it_arrives_has_no_buttons(bench, server):
    bench.asks(question()._replace(state="expired"))
    assert not server.sent[-1].keys
    assert server.texts()[-1].endswith("nobody answered in time.")


def test_a_message_that_was_deleted_is_no_trouble(bench, server):
    bench.asks(question())
    server.sent.clear()
    bench.ends(3, state="done")
    server.wait(lambda: server.called("editMessageText"))
    bench.channel.send(OutboxMessage(9, CHAT, "more", time.time()))
    assert len(server.called("editMessageText")) == 1


# --- a real daemon ---

VALVE = """
[outputs.valve]
line = "GPIO17"
kind = "valve"
longest_on_s = 600
confirm = true
"""


@contextmanager
def begun(home):
    with Daemon(home) as daemon:
        yield daemon.ready()
        daemon.asked("quit")
        daemon.ends()


def waiting(folder):
    with closing(Database(folder / "state.db")) as database:
        return Approvals(database).waiting()


def ended(folder):
    with closing(Database(folder / "state.db")) as database:
        return Approvals(database).ended()


def switched(folder):
    """How often the valve was switched on, as the supervisor has written down."""
    return (folder / "outputs.audit").read_text().count('"act": "on"') if (folder / "outputs.audit").exists() else 0


def test_asked_on_telegram_answered_from_the_page_after_a_restart_and_done_once(tmp_path, server):
    port = free_port()
    settings = f'[telegram]\nowner = {OWNER}\napi_url = "{server.url}"\n[page]\nenabled = true\nport = {port}\n'
    folder = furnished(tmp_path, settings, VALVE)
    (folder / "secrets.toml").write_text(f'telegram_token = "{TOKEN}"\n')
    (folder / "secrets.toml").chmod(0o600)
    with begun(tmp_path):
        server.says(OWNER, "turn on the valve for 10 seconds")
        asked = server.wait(lambda: next((one for one in server.sent if one.keys), None), 15)
        assert "valve" in asked.text
    with begun(tmp_path):
        (open_one,) = waiting(folder)
        browser = Client(SimpleNamespace(port=port), folder, None, [])
        browser.login()
        (card,) = browser.told("/api/state")["questions"]
        assert (card["id"], card["chat"], card["outcome"]) == (open_one.nonce, CHAT, "")
        browser.told("/api/answer", {"id": card["id"], "word": "yes"})
        server.presses(OWNER, asked.keys[0]["callback_data"])
        until(lambda: ended(folder))
        server.wait(
            lambda: any(not one.keys and "Number 1: done (answered on the page" in one.text for one in server.sent)
        )
        (card,) = browser.told("/api/state")["questions"]
        assert card["outcome"].startswith("Number 1: done (answered on the page")
    assert [one.state for one in ended(folder)] == ["done"]
    assert switched(folder) == 1


def test_after_a_no_on_telegram_no_later_yes_switches(tmp_path, server):
    folder = furnished(tmp_path, f'[telegram]\nowner = {OWNER}\napi_url = "{server.url}"\n', VALVE)
    (folder / "secrets.toml").write_text(f'telegram_token = "{TOKEN}"\n')
    (folder / "secrets.toml").chmod(0o600)
    with begun(tmp_path) as daemon:
        server.says(OWNER, "turn on the valve for 10 seconds")
        asked = server.wait(lambda: next((one for one in server.sent if one.keys), None), 15)
        for text, told in (("no", "Number 1 is not done."), ("yes", "1 was refused"), ("/yes 1", "1 was refused")):
            before = len(server.sent)
            server.says(OWNER, text)
            server.wait(lambda told=told, before=before: any(told in one.text for one in server.sent[before:]), 15)
        server.presses(OWNER, asked.keys[0]["callback_data"])
        line = daemon.line()
        line.say({"do": "chat", "text": "/yes 1", "id": "1"})
        assert "number 1 was refused" in str(events_until(line, "end"))
        line.close()
    assert [one.state for one in ended(folder)] == ["refused"]
    assert switched(folder) == 0


def test_an_answer_on_the_command_line_is_taken_to_the_one_that_runs(tmp_path):
    folder = furnished(tmp_path, "", VALVE)
    with begun(tmp_path) as daemon:
        line = daemon.line()
        line.say({"do": "chat", "text": "turn on the valve for 10 seconds", "id": "1"})
        events_until(line, "end")
        assert [one.number for one in waiting(folder)] == [1]
        with Person(tmp_path, "approvals", "yes", "1") as person:
            person.sees("Number 1 was done")
            assert person.leaves() == 0
        with Person(tmp_path, "approvals", "yes", "1") as person:
            person.sees("was answered already: it was done")
            assert person.leaves() == 1
        line.close()
    assert switched(folder) == 1


@pytest.mark.parametrize(("typed", "state", "often"), [("y", "done", 1), ("n", "refused", 0)])
def test_at_an_attached_terminal_the_question_follows_the_turn(tmp_path, typed, state, often):
    folder = furnished(tmp_path, "", VALVE)
    with begun(tmp_path), Person(tmp_path, "chat") as person:
        person.sees("> ")
        person.types("turn on the valve for 10 seconds\n")
        person.sees("[y/N] ")
        person.types(f"{typed}\n")
        person.sees("Number 1")
        until(lambda: [one.state for one in ended(folder)] == [state])
        person.sees("> ")
        person.types("\x04")
        assert person.leaves() == 0
    assert switched(folder) == often


WRITES = [call("write_file", {"path": f"{name}.md", "content": "x"}, name) for name in "ab"]


@contextmanager
def wishing(tmp_path, settings="", then=()):
    """A home where the owner is asked about files, and a model that wants to write two in one message."""
    folder = furnished(tmp_path, settings)
    (folder / "policy.toml").write_text('[effects]\nwrite = "ask"\n')
    (folder / "policy.toml").chmod(0o600)
    with ModelServer([reply("", *WRITES), *then, *[reply("Went on.")] * 5]) as model:
        with (folder / "config.toml").open("a") as file:
            file.write(f'[model]\nbase_url = "{model.url}"\nname = "qwen"\n')
        yield folder


def written(folder):
    return sorted(path.name for path in (folder / "workspace").glob("[a-c].md"))


@pytest.mark.parametrize(("typed", "files"), [("y", ["a.md", "b.md"]), ("n", [])])
@pytest.mark.parametrize("attached", [True, False])
def test_at_a_terminal_one_letter_answers_all_that_is_listed(tmp_path, attached, typed, files):
    with wishing(tmp_path, then=[reply("They wait.")] if attached else []) as folder, ExitStack() as stack:
        if attached:
            stack.enter_context(begun(tmp_path))
        person = stack.enter_context(Person(tmp_path, "chat", *([] if attached else ["--board", "sim"])))
        person.sees("> ")
        person.types("write both\n")
        shown = person.sees("[y/N] ")
        assert "Allow these calls? 2 calls, one answer for all of them:" in shown
        assert shown.partition("Allow these")[2].count('write_file {"path"') == 2
        person.types(f"{typed}\n")
        person.sees("Number 2" if attached else "Went on.")
        person.sees("> ")
        person.types("\x04")
        assert person.leaves() == 0
        assert written(folder) == files


def test_a_call_that_was_not_listed_asks_anew_at_the_terminal(tmp_path):
    other = call("write_file", {"path": "c.md", "content": "x"})
    with wishing(tmp_path, then=[reply("", other)]) as folder, Person(tmp_path, "chat", "--board", "sim") as person:
        person.sees("> ")
        person.types("write both\n")
        person.sees("[y/N] ")
        person.types("y\n")
        assert "Allow this call? write_file" in person.sees("[y/N] ")
        person.types("n\n")
        person.sees("Went on.")
        assert written(folder) == ["a.md", "b.md"]


@pytest.mark.parametrize(("word", "files"), [("", ["a.md", "b.md"]), (" 2", ["b.md"])])
@pytest.mark.parametrize("attached", [True, False])
def test_after_one_question_of_a_shell_a_yes_is_for_all_of_it(tmp_path, attached, word, files):
    board = () if attached else ("--board", "sim")
    with wishing(tmp_path, then=[reply("They wait.")]) as folder, begun(tmp_path) if attached else nullcontext():
        asked = picoclaw_process(tmp_path, "chat", "-m", "write both", *board)
        assert (asked.returncode, asked.stdout.count('write_file {"path"')) == (0, 2)
        assert "(it waits: /yes or /no for all of them, or with a number for one" in asked.stdout
        said = picoclaw_process(tmp_path, "chat", "-m", f"/yes{word}", *board)
        assert (said.returncode, "it waits" in said.stdout) == (0, False)
        assert written(folder) == files
        again = picoclaw_process(tmp_path, "chat", "-m", "/yes 2", *board)
        assert (again.returncode, "was answered already: it was done" in again.stderr) == (1, True)


def test_one_button_answers_all_that_is_listed_on_telegram_or_the_page(tmp_path, server):
    port = free_port()
    settings = f'[telegram]\nowner = {OWNER}\napi_url = "{server.url}"\n[page]\nenabled = true\nport = {port}\n'
    with wishing(tmp_path, settings, [reply("They wait.")]) as folder:
        (folder / "secrets.toml").write_text(f'telegram_token = "{TOKEN}"\n')
        (folder / "secrets.toml").chmod(0o600)
        with begun(tmp_path):
            server.says(OWNER, "write both")
            asked = server.wait(lambda: next((one for one in server.sent if one.keys), None), 15)
            assert (asked.text.count('write_file {"path"'), len(waiting(folder))) == (2, 2)
        with begun(tmp_path):
            browser = Client(SimpleNamespace(port=port), folder, None, [])
            browser.login()
            (card,) = browser.told("/api/state")["questions"]
            assert (card["call"].count('write_file {"path"'), card["outcome"]) == (2, "")
            server.presses(OWNER, next(key["callback_data"] for key in asked.keys if key["callback_data"][0] == "y"))
            until(lambda: len(ended(folder)) == 2)
            server.wait(
                lambda: any(
                    not one.keys
                    and "Number 1: done (answered on Telegram" in one.text
                    and "\nNumber 2: done" in one.text
                    for one in server.sent
                )
            )
            assert browser.ask("/api/answer", {"id": card["id"], "word": "yes"})[0] == 409
        assert written(folder) == ["a.md", "b.md"]
