"""The daemon ends in the middle of something, gently or not: what was asked over Telegram is answered once, or said."""

import os
import signal
import time
from contextlib import closing
from pathlib import Path

import pytest
from daemon_kit import PUMP, Daemon, events_until, furnished, until
from model_server import ModelServer, call, chunk, reply, silence
from person import Person
from sandbox_kit import needs_walls
from telegram_server import OWNER, TOKEN, TelegramServer, black_hole, reset_after

from picoclaw.store.database import Database
from picoclaw.store.inbox_outbox import Inbox, Outbox

CUT_OFF = "picoclaw was cut off while it answered this: 'do it'. It is not known whether an action under way was done"
ACT = "print('done', file=open('acts', 'a'), flush=True)"
WRITES = call("exec", {"argv": ["python3", "-c", ACT], "write": True})
SLEEP = f"1000.{os.getpid():07d}"
"""A time that is nobody else's, so that nobody else's command is taken for one of these."""
SLEEPS = call(
    "exec",
    {"argv": ["python3", "-c", f"{ACT}; import os; os.execlp('sleep', 'sleep', '{SLEEP}')"], "write": True},
)
READS = call("sensor_read", {"quantity": "temperature"})


class House:
    """A home with a model, a bot and outputs, and the daemons that live there one after the other."""

    def __init__(self, home, model, telegram, settings=""):
        bot = f'[telegram]\nallow = [{OWNER}]\napi_url = "{telegram.url}"\n'
        self.folder = furnished(home, settings + bot, PUMP)
        self.home, self.model, self.telegram = home, model, telegram

    def daemon(self):
        return Daemon(self.home, PICOCLAW_BASE_URL=self.model.url, PICOCLAW_TELEGRAM_TOKEN=TOKEN).ready()

    def acts(self):
        path = self.folder / "workspace/acts"
        return path.read_text().count("done") if path.exists() else 0

    def open(self):
        """What is still to be answered."""
        database = Database(self.folder / "state.db")
        rows = database.connection.execute("SELECT text FROM inbox WHERE NOT done").fetchall()
        database.close()
        return rows

    def untold(self):
        """What no process is telling."""
        with closing(Database(self.folder / "state.db")) as database:
            return Outbox(database).waiting()


@pytest.fixture
def telegram():
    with TelegramServer() as server:
        yield server


def marked(texts):
    return [text.replace("\n[simulated board, not real values]", "") for text in texts]


def asked(server):
    return any(sent.keys for sent in server.sent)


# --- killed

REPEATED = "Done. (perhaps a repeat: picoclaw stopped while it delivered this)"


PHASES = {
    "in the inbox": ([silence(), reply("Late."), reply("Done.")], lambda h, d: h.model.requests and h.open()[1:], ["Done."], 0),
    "before a word": ([silence(), reply("Done.")], lambda h, d: h.model.requests, ["Done."], 0),
    "in the answer": ([silence(chunk(content="Do")), reply("Done.")], lambda h, d: h.model.requests and not time.sleep(0.1), ["Done."], 0),
    "after it has read": ([reply("", READS), silence(), reply("", READS), reply("Done.")], lambda h, d: h.model.requests[1:], ["Done."], 0),
    "while it acts": ([reply("", SLEEPS)], lambda h, d: h.acts(), [CUT_OFF], 1),
    "after an act": ([reply("", WRITES), silence()], lambda h, d: h.model.requests[1:], [CUT_OFF], 1),
    "before it is sent": ([reply("Done.")], lambda h, d: h.telegram.called("sendMessage"), [REPEATED], 0),
    "after the network broke off": ([reply("Done.")], lambda h, d: h.telegram.texts() and h.untold(), ["Done.", REPEATED], 0),
}  # fmt: skip


@pytest.mark.parametrize("phase", PHASES)
@needs_walls
def test_a_kill_at_any_moment_is_answered_once_or_said(tmp_path, telegram, phase):
    script, reached, told, acts = PHASES[phase]
    with ModelServer(script) as model:
        house = House(tmp_path, model, telegram)
        with house.daemon() as daemon, closing(daemon.line()) as connection:
            if phase == "in the inbox":
                connection.say({"do": "chat", "session": "terminal", "text": "first"})
                events_until(connection, "begin")
            if phase == "before it is sent":
                telegram.fail("sendMessage", black_hole)
            if phase == "after the network broke off":
                telegram.fail("sendMessage", reset_after)
            telegram.says(OWNER, "do it")
            until(lambda: reached(house, daemon))
            daemon.process.kill()
            daemon.ends()
        ended_of_commands()
        with house.daemon():
            telegram.wait(lambda: len(telegram.texts()) >= len(told), 15)
            until(lambda: not house.open())
            time.sleep(0.2)
        with house.daemon():
            time.sleep(0.2)
    assert all(text.startswith(start) for text, start in zip(marked(telegram.texts()), told, strict=True))
    assert house.acts() == acts


def ended_of_commands():
    """What was started and outlived the kill of its daemon is of no use to these tests."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes() == f"sleep\0{SLEEP}\0".encode():
                os.kill(int(path.parent.name), signal.SIGKILL)
        except OSError:
            pass


@needs_walls
def test_a_kill_while_somebody_is_asked_for_a_yes_leaves_the_question_open(tmp_path, telegram):
    def script(body):
        last = body["messages"][-1]
        if last["role"] != "tool":
            return reply("", WRITES)
        return reply("It waits." if "waits for the owner's yes" in last["content"] else "Done.")

    with ModelServer(script) as model:
        house = House(tmp_path, model, telegram, '[tools]\nexec = "ask"\n')
        with house.daemon() as daemon:
            telegram.says(OWNER, "do it")
            telegram.wait(lambda: asked(telegram), 15)
            button = next(one.keys[0]["callback_data"] for one in telegram.sent if one.keys)
            daemon.process.kill()
            daemon.ends()
        assert house.acts() == 0
        with house.daemon():
            for _ in range(2):
                telegram.presses(OWNER, button)
            telegram.wait(lambda: "Done.\n(Number 1 was done.)" in marked(telegram.texts()), 15)
            telegram.wait(lambda: len(telegram.called("answerCallbackQuery")) == 2)
    assert house.acts() == 1


# --- told to end


@pytest.mark.parametrize(
    ("script", "settings", "busy", "done"),
    [
        ([silence(chunk(content="Half"))], "", lambda h: h.model.requests, False),
        ([reply("", SLEEPS)], "", lambda h: h.acts(), True),
    ],
    ids=["while it answers", "while a command runs"],
)
@pytest.mark.parametrize("twice", [False, True])
@needs_walls
def test_it_ends_soon_and_cleanly(tmp_path, telegram, script, settings, busy, done, twice):
    with ModelServer(script) as model:
        house = House(tmp_path, model, telegram, settings)
        with house.daemon() as daemon, Person(tmp_path, "chat") as person:
            person.sees("> ")
            telegram.says(OWNER, "do it")
            until(lambda: busy(house))
            began = time.monotonic()
            daemon.process.send_signal(signal.SIGTERM)
            if twice:
                time.sleep(0.02)
                daemon.process.send_signal(signal.SIGTERM)
            assert daemon.ends() in ({0, 1} if twice else {0})
            assert time.monotonic() - began < (2 if twice else 5)
            person.sees("picoclaw has ended")
    assert not [one for one in Path("/proc").glob("[0-9]*/cmdline") if sleeps(one)] or twice
    ended_of_commands()
    if not twice:
        database = Database(house.folder / "state.db")
        assert database.connection.execute("SELECT stopped FROM turns").fetchall() == [("stopped",)]
        left = Inbox(database).waiting()  # what had done nothing yet is answered after the next start
        assert [one.text for one in left] == ([] if done else ["do it"])
        database.close()


def sleeps(path):
    try:
        return path.read_bytes() == f"sleep\0{SLEEP}\0".encode()
    except OSError:
        return False


def test_what_waits_when_it_ends_is_answered_after_the_next_start(tmp_path, telegram):
    texts = [f"question {number}." for number in range(50)]

    def script(body):
        said = body["messages"][-1]["content"].strip().rpartition("\n")[2]
        return silence() if said == "first" else reply(f"To {said}")

    with ModelServer(script) as model:
        house = House(tmp_path, model, telegram)
        with house.daemon() as daemon, closing(daemon.line()) as connection:
            for text in ["first", *texts]:
                connection.say({"do": "chat", "session": "shed", "text": text})
            until(lambda: daemon.asked("status")["queue"] == len(texts))
            began = time.monotonic()
            daemon.process.terminate()
            assert daemon.ends() == 0
            assert time.monotonic() - began < 5
        assert len(house.open()) == len(texts)
        with house.daemon() as daemon:
            until(lambda: not house.open(), 60)
            daemon.process.terminate()
            assert daemon.ends() == 0
    told = "\n".join(
        [*(letter.text for letter in house.untold()), *telegram.texts()]
    )  # the owner may be told elsewhere
    assert [told.count(f"To {text}") for text in texts] == [1] * len(texts)


# --- all at once


def test_everybody_is_heard_while_one_of_them_is_asked_for_a_yes(tmp_path, telegram):
    def script(body):
        last = body["messages"][-1]
        if last["role"] == "tool":
            return reply("Done.")
        return reply("Hello.") if "hello" in last["content"] else reply("", WRITES)

    with ModelServer(script) as model:
        house = House(tmp_path, model, telegram, '[tools]\nexec = "ask"\n')
        with house.daemon() as daemon, Person(tmp_path, "chat") as person:
            person.sees("> ")
            telegram.says(OWNER, "do it")
            telegram.wait(lambda: asked(telegram), 15)
            person.types("hello\r")
            person.sees("Hello.")
            person.types("stop\r")
            person.sees("safe level")
            telegram.says(OWNER, "stop")
            telegram.wait(lambda: "safe level" in "".join(telegram.texts()), 15)
            until(lambda: daemon.asked("status")["turn"] == "")
            assert asked(telegram)
    assert house.acts() == 0


def test_a_turn_is_stopped_and_steered_from_its_own_chat(tmp_path, telegram):
    def script(body):
        said = str(body["messages"])
        if "and tea" in said:
            return reply("With tea.")
        return silence() if "forever" in said else reply("", call("exec", {"command": "sleep 1"}))

    with ModelServer(script) as model:
        house = House(tmp_path, model, telegram)
        with house.daemon() as daemon:
            telegram.says(OWNER, "do it")
            until(lambda: daemon.asked("status")["turn"])
            telegram.says(OWNER, "and tea")
            telegram.wait(lambda: "With tea." in marked(telegram.texts()), 15)
            telegram.says(OWNER, "/new")
            telegram.says(OWNER, "forever")
            until(lambda: "forever" in str(model.requests[-1].body["messages"][-1]))
            telegram.says(OWNER, "/stop")
            telegram.wait(lambda: "[stopped by the user]" in "".join(telegram.texts()), 15)
