"""No sentence reaches a model but those of the templates, the owner's files, the person and the tools."""

import ast
import os
import re
import sys
import time
from datetime import datetime
from pathlib import Path

import pytest
from grammars import refusals
from model_server import ModelServer, call, reply, status
from test_house import nodes_of

from picoclaw.app import App
from picoclaw.config import Config
from picoclaw.config.tables import LimitsConfig, ModelConfig, PromptConfig
from picoclaw.files import find_shipped
from picoclaw.hw import kernel
from picoclaw.hw.sim import SimBoard
from picoclaw.messages import Inbound
from picoclaw.workspace import PAGES, Pages, prepare_home

ROOT = Path(__file__).resolve().parents[1]
TEMPLATES = {path.stem: path.read_text() for path in (find_shipped("templates") / "prompts").glob("*.md")}
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
    prepare_home(folder)
    prompts = folder / "workspace/prompts"
    prompts.mkdir()
    for name, text in TEMPLATES.items():
        places = "¦".join(f"{{{place}}}" for place in dict.fromkeys(re.findall(r"\{([a-z_]+)\}", text)))
        (prompts / f"{name}.md").write_text(f"⟦{name}:{places}⟧")
    skill = folder / "workspace/skills/ferns"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text(SKILL)
    (folder / "workspace/BOOTSTRAP.md").unlink()
    (folder / "workspace/AGENTS.md").write_text("Water the ferns.")
    return folder


def taken_apart(text):
    """Return what stands outside of all marks, and what stands in each mark beside those within it, by its name."""
    outside, stack, inside = "", [], []
    for letter in text:
        if letter == "⟦":
            stack.append("")
        elif letter == "⟧":
            name, _, value = stack.pop().partition(":")
            inside.append((name, value.strip()))
        elif stack:
            stack[-1] += letter
        else:
            outside += letter
    assert not stack
    return outside.strip(), inside


def values(home):
    """What may stand in the places of each template, as a pattern: the files' texts and plain facts of this machine."""
    pages = "|".join(re.escape(f"{page.name}¦{page.text}") for page in Pages(home).pages(PAGES))
    board, arch, python = kernel.read_model(SimBoard()), os.uname().machine, ".".join(map(str, sys.version_info[:3]))
    return {
        "identity": "picoclaw",
        "skills": r"(- [\w-]+: [^\n]+\n?)+",
        "workspace": re.escape(str(home / "workspace")) + "|",
        "time": re.escape(time.tzname[0]),
        "session": "garden|cron|heartbeat",
        "coordinator": "exec",
        "extra": "E",
        "file": pages,
        "runtime": re.escape(f"{board}¦Linux¦{arch}¦{python}¦m"),
        "moment": r"\w+ \d{4}-\d\d-\d\d \d\d:\d\d [\w+-]+ \(UTC[+-]\d{4}\)[;\s]*",
        "skill": "ferns¦Mist them[.]",
        "repeated": "greenhouse: .*",
        "limit_steps": "1",
        "result": "sensor_read¦greenhouse: .*",
        "unmeasured": "31[.]5 °C",
        "measure": re.escape(SAID),
        "unfinished": ".*greenhouse: .*",
        "noted": r"(\d{4}-\d\d-\d\d \d\d:\d\d misted\n?)+",
        "pulse": r"[\d: -]+¦1 \[p5\] order filters \(since [\d-]+\)",
        "condense": r"memory/MEMORY.md \(\d+ characters, 10000 are enough\)",
        "dream": r".*- the pump is on 17.*misted.*",
        "tidy": r".*1 \[p5\] order filters \(since [\d-]+\).*",
        "review": r".*1 \[p5\] order filters \(since [\d-]+\).*",
    }


def unexplained(inside, home):
    """List what stands in a template's places and is no known fact."""
    known = values(home)
    return [(name, value) for name, value in inside if not re.fullmatch(known.get(name, ""), value, re.DOTALL)]


def bodies(home, answers, inbounds, *, mode="full", limits=None):
    """Run turns against a server and return every body that it got."""
    with ModelServer(answers) as server:
        model = ModelConfig(base_url=server.url, name="m", stream=False, retries=0)
        config = Config(home, model, limits or LimitsConfig(), prompt=PromptConfig(mode=mode, extra="E"))
        app = App(config, SimBoard())
        try:
            for inbound in inbounds:
                app.dispatcher.answer(inbound)
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
    "a refused request": ([status(400, {"error": {"message": "no"}}), reply("Yes.")], [Inbound("terminal", SAID)] * 2, {}),
    "the limit of steps": ([reply("", READ), reply("24.")], [Inbound("terminal", SAID)], {"limits": LimitsConfig(steps=1)}),
    "the same call": ([reply("", READ)] * 3 + [reply("24.")], [Inbound("terminal", SAID)], {}),
    "nothing to say of a result": ([reply("", READ), reply(""), reply("Here.")], [Inbound("terminal", SAID)] * 2, {}),
    "an invented measurement": ([reply("Here it is 31.5 °C right now."), reply("Well.")], [Inbound("terminal", SAID)], {}),
    "a runaway": ([reply("Well, " * 400), reply("Well.")], [Inbound("terminal", SAID)] * 2, {}),
    "the limit, and nothing to say": ([reply("", READ), reply(""), reply("24.")], [Inbound("terminal", SAID)] * 2, {"limits": LimitsConfig(steps=1)}),
    "an unknown tool": ([reply("", call("fly")), reply("No.")], [Inbound("terminal", SAID)], {}),
    "mode coordinator": ([reply("Well.")], [Inbound("terminal", SAID)], {"mode": "coordinator"}),
    "mode minimal": ([reply("Well.")], [Inbound("terminal", SAID)], {"mode": "minimal"}),
    "mode base": ([reply("Well.")], [Inbound("terminal", SAID)], {"mode": "base"}),
    "mode none": ([reply("Well.")], [Inbound("terminal", SAID)], {"mode": "none"}),
}  # fmt: skip
REFUSED = refusals()
ANSWERS = {
    "Well.",
    "Well,",
    "Here it is 31.5 °C right now.",
    "24 °C.",
    "One.",
    "Two.",
    "Done.",
    "Here.",
    "Yes.",
    "24.",
    "",
    "…",
}


@pytest.mark.parametrize("name", SITUATIONS)
def test_all_that_is_said_is_in_a_template(home, name):
    answers, inbounds, settings = SITUATIONS[name]
    seen = bodies(home, answers, inbounds, **settings)
    assert len(seen) == len(answers)
    for body in seen:
        for message in body["messages"]:
            left, inside = taken_apart(message["content"] or "")
            assert unexplained(inside, home) == []
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


def remembering(home):
    """Lasting facts, a note of today and a task."""
    now = datetime.now().astimezone()
    day = home / f"workspace/memory/{now:%Y%m}/{now:%Y%m%d}.md"
    day.parent.mkdir(parents=True)
    day.write_text(f"- {now:%H:%M} misted\n")
    (home / "workspace/memory/MEMORY.md").write_text("- the pump is on 17\n" * 600)
    return now


def test_notes_tasks_and_what_is_too_long_are_told_by_templates(home):
    now = remembering(home)
    app = App(Config(home, ModelConfig(base_url="http://127.0.0.1:9/v1", name="m")), SimBoard())
    app.stores.pulse.add("order filters", 5, "terminal", now)
    text = app.context_builder.build(Inbound("terminal", SAID), (), (), now).brief.text
    app.close()
    left, inside = taken_apart(text)
    assert left == SAID
    assert unexplained(inside, home) == []
    assert {"noted", "pulse", "condense"} <= {name for name, _ in inside}


def test_a_dream_is_asked_for_by_templates(home):
    now = remembering(home)
    (home / "workspace/memory/MEMORY.md").write_text("- the pump is on 17\n- valve 2 drips\n")
    with ModelServer([reply("no"), reply("[]"), reply("[]")]) as server:
        app = App(Config(home, ModelConfig(base_url=server.url, name="m", stream=False, retries=0)), SimBoard())
        app.stores.pulse.add("order filters", 5, "terminal", now)
        app.maintenance_jobs().run_dream(now)
        app.close()
    assert len(server.requests) >= 2
    for received in server.requests:
        (message,) = received.body["messages"]
        left, inside = taken_apart(message["content"])
        assert left == ""
        assert unexplained(inside, home) == []


def test_the_marks_show_what_was_there(home):
    """The check above would see nothing if the owner's wording were not used at all."""
    (body,) = bodies(home, [reply("Well.")], [Inbound("terminal", SAID)])
    system, said = (message["content"] for message in body["messages"])
    assert "⟦identity:picoclaw⟧" in system
    assert "Water the ferns." in system
    assert "Mist them." in said
    assert said.startswith("⟦moment:")


def test_requests_are_made_in_few_places():
    """Whoever makes one is looked at here: the loop, the verb that prints it, the check, the probe, the warming, the summoning, the dream."""
    makers = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "picoclaw").rglob("*.py")
        if "Request(" in path.read_text()
        for node in nodes_of(path)
        if isinstance(node, ast.Call) and "Request" in {getattr(node.func, "id", ""), getattr(node.func, "attr", "")}
    }
    looked_at = {
        "agent/loop.py",
        "agent/small.py",
        "providers/model.py",
        "cli/model.py",
        "maintenance/doctor.py",
        "agent/summon.py",
        "memory/dream.py",
    }
    assert makers == {f"picoclaw/{name}" for name in looked_at}


def test_a_tool_is_described_in_the_owners_words(home):
    (home / "workspace/prompts/tool_sensor_read.md").write_text("⟦measure⟧")
    (body,) = bodies(home, [reply("Well.")], [Inbound("terminal", SAID)])
    described = {tool["function"]["name"]: tool["function"]["description"] for tool in body["tools"]}
    assert described["sensor_read"] == "⟦measure⟧"
    assert described["sensor_list"]
