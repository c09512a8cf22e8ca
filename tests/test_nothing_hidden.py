"""No sentence reaches a model but those of the templates, the owner's files, the person and the tools."""

import ast
import re
from pathlib import Path

import pytest
from model_server import ModelServer, call, reply, status

from picoclaw.app import App
from picoclaw.config import Config, LimitsConfig, ModelConfig, PromptConfig
from picoclaw.hw.sim.board import SimBoard
from picoclaw.messages import Inbound
from picoclaw.resources import shipped
from picoclaw.workspace import prepare

ROOT = Path(__file__).resolve().parents[1]
TEMPLATES = {path.stem: path.read_text() for path in (shipped("templates") / "prompts").glob("*.md")}
READ = call("sensor_read", {"sensor": "greenhouse"})
SKILL = """---
name: ferns
description: Care for ferns.
triggers: [ferns]
---
Mist them.
"""


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home in which all wording is marks: what a template says is ⟦name: its placeholders⟧."""
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / "home"
    prepare(folder)
    prompts = folder / "workspace/prompts"
    prompts.mkdir()
    for name, text in TEMPLATES.items():
        places = "".join(f"{{{place}}}" for place in dict.fromkeys(re.findall(r"\{([a-z_]+)\}", text)))
        (prompts / f"{name}.md").write_text(f"⟦{name}:{places}⟧")
    skill = folder / "workspace/skills/ferns"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text(SKILL)
    (folder / "workspace/AGENTS.md").write_text("Water the ferns.")
    (folder / "workspace/HEARTBEAT.md").write_text("- look at the tank")
    return folder


def outside(text):
    """What is left of a text when all marks, and what is in them, are taken out."""
    left, deep = "", 0
    for letter in text:
        deep += letter == "⟦"
        left += "" if deep else letter
        deep -= letter == "⟧"
    assert deep == 0
    return left.strip()


def bodies(home, answers, inbounds, *, mode="full", limits=None):
    """Run turns against a server and return every body that it got."""
    with ModelServer(answers) as server:
        model = ModelConfig(base_url=server.url, name="m", stream=False, retries=0)
        config = Config(home, model, limits or LimitsConfig(), prompt=PromptConfig(mode=mode, extra="⟦e⟧"))
        app = App(config, SimBoard())
        try:
            for inbound in inbounds:
                app.answer(inbound, lambda _: None)
        finally:
            app.close()
        return [received.body for received in server.requests]


SAID = "how are the ferns?"
SITUATIONS = {
    "a question": ([reply("Well.")], [Inbound("terminal", SAID)], {}),
    "a tool": ([reply("", READ), reply("24 °C.")], [Inbound("terminal", SAID)], {}),
    "two turns": ([reply("One."), reply("Two.")], [Inbound("terminal", SAID)] * 2, {}),
    "another conversation": ([reply("One.")], [Inbound("garden", SAID)], {}),
    "a cron job": ([reply("Done.")], [Inbound("cron", SAID, "cron")], {}),
    "a heartbeat": ([reply("HEARTBEAT_OK")], [Inbound("heartbeat", SAID, "heartbeat")], {}),
    "an empty answer": ([reply(""), reply("Here.")], [Inbound("terminal", SAID)] * 2, {}),
    "a refused request": (
        [status(400, {"error": {"message": "no"}}), reply("Yes.")],
        [Inbound("terminal", SAID)] * 2,
        {},
    ),
    "the limit of steps": (
        [reply("", READ), reply("24.")],
        [Inbound("terminal", SAID)],
        {"limits": LimitsConfig(steps=1)},
    ),
    "the same call": ([reply("", READ)] * 3 + [reply("24.")], [Inbound("terminal", SAID)], {}),
    "the limit, and nothing to say": (
        [reply("", READ), reply(""), reply("24.")],
        [Inbound("terminal", SAID)] * 2,
        {"limits": LimitsConfig(steps=1)},
    ),
    "an unknown tool": ([reply("", call("fly")), reply("No.")], [Inbound("terminal", SAID)], {}),
    "mode coordinator": ([reply("Well.")], [Inbound("terminal", SAID)], {"mode": "coordinator"}),
    "mode minimal": ([reply("Well.")], [Inbound("terminal", SAID)], {"mode": "minimal"}),
    "mode base": ([reply("Well.")], [Inbound("terminal", SAID)], {"mode": "base"}),
    "mode none": ([reply("Well.")], [Inbound("terminal", SAID)], {"mode": "none"}),
}
REFUSED = "I can't do that without a model"
ANSWERS = {"Well.", "24 °C.", "One.", "Two.", "Done.", "Here.", "Yes.", "24.", "", "…"}


@pytest.mark.parametrize("name", SITUATIONS)
def test_all_that_is_said_is_in_a_template(home, name):
    answers, inbounds, settings = SITUATIONS[name]
    seen = bodies(home, answers, inbounds, **settings)
    assert len(seen) == len(answers)
    for body in seen:
        for message in body["messages"]:
            left = outside(message["content"] or "")
            if message["role"] == "system":
                assert left == ""
            elif message["role"] == "user":
                assert left in {SAID, ""}
            elif message["role"] == "assistant":
                assert left in ANSWERS or left.startswith(REFUSED)
            else:
                assert not left or left.startswith(("greenhouse: ", "error: there is no tool", "A few questions")), left
    system = [m["content"] for m in seen[0]["messages"] if m["role"] == "system"]
    assert bool(system) == (settings.get("mode") != "none")


def test_the_marks_show_what_was_there(home):
    """The check above would see nothing if the owner's wording were not used at all."""
    (body,) = bodies(home, [reply("Well.")], [Inbound("terminal", SAID)])
    system, said = (message["content"] for message in body["messages"])
    assert "⟦identity:picoclaw⟧" in system
    assert "Water the ferns." in system
    assert "Mist them." in said
    assert said.startswith("⟦moment:")


def test_requests_are_made_in_few_places():
    """Whoever makes one is looked at here: the loop, the verb that prints it, the check and the summoning."""
    makers = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "picoclaw").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Request"
    }
    assert makers == {"picoclaw/agent.py", "picoclaw/cli/prompt.py", "picoclaw/cli/doctor.py", "picoclaw/summon.py"}


def test_a_tool_is_described_in_the_owners_words(home):
    (home / "workspace/prompts/tool_sensor_read.md").write_text("⟦measure⟧")
    (body,) = bodies(home, [reply("Well.")], [Inbound("terminal", SAID)])
    described = {tool["function"]["name"]: tool["function"]["description"] for tool in body["tools"]}
    assert described["sensor_read"] == "⟦measure⟧"
    assert described["sensor_list"]
