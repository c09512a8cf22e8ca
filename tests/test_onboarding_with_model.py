"""The first meeting beside a model: what belongs to it goes to the matcher, everything else to the model."""

import pytest
from model_server import ModelServer, call, reply, status
from rows import each_row
from scripted import TOOLS, Scripted, Step, calls_of, says, text_of

from picoclaw.agent.dispatcher import OnboardingProvider
from picoclaw.app import App
from picoclaw.config import Config
from picoclaw.config.tables import ModelConfig
from picoclaw.files import find_shipped
from picoclaw.hw.sim import SimBoard
from picoclaw.intents.provider import IntentProvider
from picoclaw.messages import End, Inbound, Message, Request, ToolCall, Usage
from picoclaw.workspace import list_intent_files, read_intent_tables

FIRST_RUN = {"name": "first_run", "description": "Note.", "parameters": {"type": "object", "properties": {}}}
INVITED = "(Say hello.)"
NAME = (
    Message("user", "hello"),
    Message("assistant", "", (ToolCall("intent-1", "first_run"),)),
    Message("tool", "Name: what should I call you?", call_id="intent-1"),
    Message("assistant", "Name: what should I call you?"),
)


@pytest.fixture(scope="module")
def matcher(tmp_path_factory):
    return IntentProvider(list(read_intent_tables(list_intent_files(tmp_path_factory.mktemp("home")))))


def led(matcher, *answers, leads=True):
    model = Scripted(*answers)
    return OnboardingProvider(model, lambda: matcher, lambda _: leads, lambda: INVITED), model


def asked(provider, *messages, tools=(*TOOLS, FIRST_RUN), calls=True):
    return list(provider.events(Request("", tuple(messages), tools, 100, 0.0, calls=calls)))


@each_row(
    ("said", "before", "noted"),
    [
        ("hello", (), {}),
        ("I'm Ada", (), {"name": "Ada"}),
        ("Ada", NAME, {"name": "Ada"}),
        ("<moment>now</moment>\nAda", NAME, {"name": "Ada"}),
        ("skip", NAME, {"name": "skip"}),
    ],
)
def test_what_belongs_to_the_meeting_does_not_reach_the_model(matcher, said, before, noted):
    provider, model = led(matcher)
    (call,) = calls_of(asked(provider, *before, Message("user", said)))
    assert (call.name, call.arguments, provider.name) == ("first_run", noted, "intents")
    done = (*before, Message("user", said), Message("assistant", "", (call,)))
    result = Message("tool", "Noted.\nTime zone: which city are you near?", call_id=call.id)
    assert text_of(asked(provider, *done, result)) == result.text
    assert not model.requests


@each_row(
    ("said", "before"),
    [
        ("how warm is it?", ()),
        ("tell me a joke", ()),
        ("how warm is it?", NAME),
        ("why do you want to know that?", NAME),
    ],
)
def test_what_does_not_belong_to_it_goes_to_the_model_which_knows_nothing_of_it(matcher, said, before):
    provider, model = led(matcher, says("Well."))
    told = text_of(asked(provider, *before, Message("user", said)))
    assert told == ("Well." if before else f"Well.\n\n{INVITED}")
    assert [tool["name"] for tool in model.requests[0].tools] == [tool["name"] for tool in TOOLS]
    assert provider.name == "scripted"


@each_row(
    ("answer", "invited"),
    [
        (says("Well."), True),
        ([ToolCall("a", "sensor_read"), End("tool_calls", Usage())], False),
        (says(""), False),
    ],
)
def test_an_invitation_follows_an_answer_alone(matcher, answer: list[Step], invited):
    provider, _ = led(matcher, answer)
    events = asked(provider, Message("user", "how warm is it?"))
    assert (INVITED in text_of(events)) == invited
    assert isinstance(events[-1], End)


def test_nobody_is_invited_twice(matcher):
    provider, _ = led(matcher, says("Well."), says("Well."))
    first = (Message("user", "how warm is it?"), Message("assistant", f"Well.\n\n{INVITED}"))
    assert text_of(asked(provider, *first, Message("user", "how warm is it?"))) == "Well."


@each_row("settings", [{"leads": False}, {"tools": TOOLS}, {"calls": False}])
def test_without_an_open_meeting_that_it_leads_the_model_is_asked(matcher, settings):
    leads = settings.pop("leads", True)
    provider, model = led(matcher, says("Hi."), leads=leads)
    assert text_of(asked(provider, Message("user", "hello"), **settings)).startswith("Hi.")
    assert len(model.requests) == 1
    assert (FIRST_RUN in model.requests[0].tools) == (not leads)


def test_the_invitation_is_a_template():
    assert (find_shipped("templates") / "prompts/invitation.md").read_text().strip()


# --- wired up in an app ---


RITUAL = (find_shipped("templates") / "workspace/BOOTSTRAP.md").read_text()


def house(home, server, ritual):
    (home / "workspace").mkdir(parents=True)
    (home / "workspace/BOOTSTRAP.md").write_text(ritual)
    return App(Config(home, ModelConfig(base_url=server.url, name="m", stream=False, retries=0)), SimBoard())


def test_a_meeting_beside_a_model(tmp_path):
    """The model greets and lets a name pass; then the matcher asks, and the model is told nothing of it."""
    script = [reply("Hi."), reply("Nice name."), reply("", call("sensor_read")), reply("It is warm.")]
    texts = ("hello", "Ada", "hello", "Ada", "how warm is it?", "Berlin")
    with ModelServer(script) as server:
        app = house(tmp_path / "home", server, RITUAL)
        said = [app.dispatcher.answer(Inbound("t", text)).reply for text in texts]
        app.close()
    asked = ("Hi.", "Nice name.", "what should I call you?", "New York?", "It is warm.", "short answers?")
    assert all(reply.endswith(end) for reply, end in zip(said, asked, strict=True))
    before, _, after, _ = (received.body for received in server.requests)
    assert ["first_run" in str(body["tools"]) for body in (before, after)] == [True, False]
    assert ["FIRST MEETING" in body["messages"][0]["content"] for body in (before, after)] == [True, False]


def test_the_meeting_and_a_model_that_cannot_be_reached_have_one_matcher(tmp_path, monkeypatch):
    loaded, load = [], App.load_language
    monkeypatch.setattr(App, "load_language", lambda app, *language: loaded.append(language) or load(app, *language))
    script = [reply("Hi."), reply("Nice."), *(status(500, "Internal Server Error", "text/plain") for _ in range(3))]
    with ModelServer(script) as server:
        app = house(tmp_path / "home", server, RITUAL)
        said = [app.dispatcher.answer(Inbound("t", text)).reply for text in ("hi", "Ada", "how warm is it?", "hello")]
        app.close()
    assert "°C" in said[2]
    assert said[3].endswith("what should I call you?")
    assert loaded == [()]


@pytest.mark.parametrize(("given", "noted"), [("Bob", False), ("Ada", True)])
def test_a_changed_ritual_is_the_models_which_notes_nothing_invented(tmp_path, given, noted):
    with ModelServer([reply("", call("first_run", {"name": given})), reply("Hi.")]) as server:
        app = house(tmp_path / "home", server, "Ask for the name.")
        turn = app.dispatcher.answer(Inbound("t", "I am Ada"))
        app.close()
    assert turn.tools[0].result.startswith("Noted") == noted
    assert "FIRST MEETING" in server.requests[0].body["messages"][0]["content"]


def test_the_same_note_is_written_once(tmp_path):
    note = reply("", call("memory_store", {"text": "the key is under the mat"}))
    with ModelServer([note, note, reply("Noted.")]) as server:
        app = house(tmp_path / "home", server, "")
        turn = app.dispatcher.answer(Inbound("t", "the key is under the mat"))
        app.close()
    assert turn.tools[1].result.startswith("Not done again")
