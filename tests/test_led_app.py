"""The first meeting, wired up with a model."""

import pytest
from model_server import ModelServer, call, reply

from picoclaw.app import App
from picoclaw.config import Config
from picoclaw.config.tables import ModelConfig
from picoclaw.hw.sim.board import SimBoard
from picoclaw.messages import Inbound
from picoclaw.resources import find_shipped

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
