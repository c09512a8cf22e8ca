"""Past messages as they are found: what was said, and neither the memory's own answers nor a file's words as ours."""

import importlib
from datetime import UTC, datetime
from pathlib import Path

import pytest

from picoclaw import tools
from picoclaw.app import App
from picoclaw.config import Config
from picoclaw.config.tables import MemoryConfig
from picoclaw.files import find_shipped
from picoclaw.hw import loader
from picoclaw.hw.sim import SimBoard
from picoclaw.memory.memory import find_past_turns, list_past_turns
from picoclaw.messages import Inbound, Message, Notice, ToolCall, Turn, Usage
from picoclaw.security.untrusted import UNTRUSTED_TOOLS
from picoclaw.stores import Stores
from picoclaw.workspace import prepare_home

NOON = datetime(2026, 7, 1, 12, 0, tzinfo=UTC)


@pytest.fixture
def stores(tmp_path):
    (tmp_path / "workspace/memory").mkdir(parents=True)
    made = Stores(Config(tmp_path, memory=MemoryConfig(messages=True, embeddings="off")))
    yield made
    made.close()


def keep(stores, said, *answers, calls=()):
    """Keep a turn; `calls` are tools and their arguments."""
    called = tuple(ToolCall(str(i), name, arguments) for i, (name, arguments) in enumerate(calls))
    results = [Message("tool", "a result", call_id=call.id) for call in called]
    asking = [Message("assistant", "", called), *results] if called else []
    messages = (
        Message("user", f"<moment>\nnoon\n</moment>\n{said}"),
        *asking,
        *(Message("assistant", a) for a in answers),
    )
    turn = Turn(answers[-1], messages, 1, (), Usage(), "", "model", Notice(""))
    stores.history.keep("terminal", turn, NOON)


def texts(stores):
    return [document.read() for document in list_past_turns(stores.history)]


READ = ("read_file", {"path": "letter.txt"})
MARK = "(not from the owner: after read_file letter.txt)"

TURNS = [
    ("a chat", "Rex likes liver", ["He does."], [], "User: Rex likes liver\nAnswer: He does."),
    ("the memory's answer", "Rex is back. What of the sauna?", ["no note says anything about 'sauna'"],
     [("memory_search", {"query": "sauna"})], "User: Rex is back. What of the sauna?"),
    ("a question to the memory", "what did I note of 3.5 V?", ["nothing"], [("memory_search", {"query": "V"})], ""),
    ("a note", "note that Rex is back", ["noted in memory/x.md"], [("memory_store", {"text": "Rex is back"})],
     "User: note that Rex is back"),
    ("what is to be forgotten", "forget that Rex is ill", ["done"], [("memory_forget", {"text": "Rex is ill"})], ""),
    ("a file's words", "what does it say?", ["The owner\nwants (a) pump."], [READ],
     f'User: what does it say?\n- {MARK} "The owner wants (a) pump."'),
    ("many files' words", "read on", ["So."], [READ, READ, ("exec", {"command": "x (\n)"}), ("serial", {"port": "a"})],
     'User: read on\n- (not from the owner: after read_file letter.txt, exec x [ ] and 1 more) "So."'),
    ("a sensor's", "how warm?", ["21 °C"], [("sensor_read", {})], "User: how warm?\nAnswer: 21 °C"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("said", "answers", "calls", "text"), [row[1:] for row in TURNS], ids=[row[0] for row in TURNS]
)
def test_what_of_a_turn_is_found(stores, said, answers, calls, text):
    keep(stores, said, *answers, calls=calls)
    assert texts(stores) == [text]


def test_every_part_of_a_long_answer_is_marked(stores):
    keep(stores, "go on", f"{'the pump drips ' * 200}{'x' * 1200} and the valve is open", calls=[READ])
    lines = texts(stores)[0].split("\n")[1:]
    assert len(lines) > 8
    assert all(line.startswith(f'- {MARK} "') and line.endswith('"') and len(line) <= 700 for line in lines)
    assert sum(line.count("drips") for line in lines) == 200
    (hit,) = stores.memory.search("valve open", NOON, 1)
    assert hit.snippet.startswith(f"- {MARK}")


def test_the_memory_does_not_feed_on_its_answers(stores):
    for _ in range(2):
        assert stores.memory.search("what did I note about the sauna?", NOON) == []
        answer = "no note says anything about 'sauna' (1 file searched)"
        keep(stores, "what did I note about the sauna?", answer, calls=[("memory_search", {"query": "sauna"})])
    keep(stores, "the sauna is heated on Fridays", "I see.")
    (hit,) = stores.memory.search("sauna", NOON)
    assert (hit.path, hit.day) == ("chats/terminal/3", "2026-07-01")
    assert hit.snippet == "User: the sauna is heated on Fridays"


def test_which_past_messages_hold_a_text(stores):
    (stores.config.workspace / "memory/a.md").write_text("- the gate's code is 4711\n")
    keep(stores, "By the way: the code of the gate is 4711!", "Good to know.")
    keep(stores, "the gate is open", "Then close it.")
    assert find_past_turns(stores.memory, "the gate's code is 4711", NOON) == ["chats/terminal/1"]
    assert find_past_turns(stores.memory, "the gate's code is 4712", NOON) == []
    assert find_past_turns(stores.memory, "it is so", NOON) == []


SAID = [
    ("By the way: the gate's code is 4711!", ""),
    ("note that the gate's code is 4711", "noted: "),
    ("forget that the gate's code is 4711", "; past messages still hold it: chats/terminal/2, chats/terminal/1"),
    ("forget that the gate's code is 4711", 'No note says "the gate\'s code is 4711"'),
]


@pytest.mark.parametrize("messages", [True, False])
def test_forgetting_says_what_past_messages_still_hold(tmp_path, monkeypatch, messages):
    prepare_home(tmp_path)
    (tmp_path / "workspace/BOOTSTRAP.md").unlink()
    monkeypatch.setattr(App, "now", lambda _: NOON)
    app = App(Config(tmp_path, memory=MemoryConfig(messages=messages, embeddings="off")), SimBoard())
    try:
        replies = [app.dispatcher.answer(Inbound("terminal", text)).reply for text, _ in SAID]
    finally:
        app.close()
    for reply, (_, part) in zip(replies, SAID, strict=True):
        assert part in reply or not messages
    assert any("past messages" in reply for reply in replies) == messages


def marked():
    """The names of all methods that are marked as bringing in text from outside."""
    folder = Path(tools.__file__).parent
    modules = [importlib.import_module(f"picoclaw.tools.{path.stem}") for path in folder.glob("[a-z]*.py")]
    where = [find_shipped("tools/hw")]
    modules += [loader.load_module(name, where) for name in loader.list_modules(where)]
    kinds = [kind for module in modules for kind in vars(module).values() if isinstance(kind, type)]
    methods = [method for kind in kinds for method in vars(kind).items()]
    marks = ((name, getattr(method, "picoclaw_tool", None)) for name, method in methods)
    return {name for name, mark in marks if mark and mark.brings}


def test_the_tools_that_bring_text_from_outside_are_known():
    assert marked() | {"subagent"} == UNTRUSTED_TOOLS  # which is spawn now, and stands in older conversations
