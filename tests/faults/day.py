"""A scripted day: chat, notes, reminders, jobs, rules, sensors, questions, sub-agents, a heartbeat, two restarts.

The model is a real server on the loopback that does what a message says in double brackets. Each wish has a token, so
that it can be found in what picoclaw has told, done and kept. `player.py` plays it.
"""

import json
import re
from typing import Any, NamedTuple

from model_server import Answer, ModelServer, call, reply

TOKEN = re.compile(r"\bT\d{3}\b")
_WISHES = (re.compile(r"\[\[(\w+) (\{.*?\})\]\]", re.DOTALL), re.compile(r"<<(\w+) (\{.*?\})>>", re.DOTALL))
"""What the model does in a chat, and, within that, what it does later or as a sub-agent."""
PHONE, TERMINAL = "phone:1", "home"
Event = tuple[Any, ...]
"""Something that the world has seen: its kind, and what it was."""


class Say(NamedTuple):
    """Somebody says something; `kind` is what must come of it, `where` on which channel."""

    token: str
    kind: str
    text: str
    where: str = PHONE


class Press(NamedTuple):
    """The owner answers the newest question about a wish."""

    word: str
    token: str


class Pass(NamedTuple):
    """Time passes, in steps of so many seconds."""

    seconds: float
    step: float = 60.0


class Beat(NamedTuple):
    """The heart may beat."""


class Tidy(NamedTuple):
    """What is done between turns is done."""


class Restart(NamedTuple):
    """The daemon ends and begins again."""


Move = Say | Press | Pass | Beat | Tidy | Restart


def wish(token: str, kind: str, tool: str, where: str = PHONE, /, **arguments: Any) -> Say:
    """Say what makes the model use a tool."""
    return Say(token, kind, f"{token} please [[{tool} {json.dumps(arguments)}]]", where)


def later(line: str) -> str:
    """What a job or a sub-agent is to do, as a part of its task."""
    return f"<<write_file {json.dumps({'path': 'list.txt', 'content': line + chr(10), 'mode': 'append'})}>>"


DAY: tuple[Move, ...] = (
    Say("T001", "chat", "T001 good morning"),
    wish("T002", "note", "memory_store", text="the T002 filter of the pond was changed", lasting=True),
    wish("T003", "note", "memory_store", TERMINAL, text="T003 the beans were sown"),
    wish("T004", "reminder", "cron", action="add", message="T004 turn the roast", at_seconds=600),
    wish("T005", "file", "write_file", path="list.txt", content="T005 milk\n", mode="append"),
    wish("T006", "file", "write_file", TERMINAL, path="list.txt", content="T006 bread\n", mode="append"),
    wish("T007", "task", "pulse", action="add", text="T007 mend the gutter"),
    wish("T008", "valve", "i2c", action="write", address="0x20", register=1, data=[8]),
    Press("yes", "T008"),
    wish("T009", "rule", "rule", action="add", name="t009", when="every day at 6:00", notify="T009 good morning"),
    Press("yes", "T009"),
    wish("T010", "valve", "i2c", action="write", address="0x20", register=1, data=[10]),
    Press("no", "T010"),
    wish("T011", "job", "cron", action="add", kind="fresh", at_seconds=900, message=f"T011 go {later('T011 eggs')}"),
    Pass(120),
    Restart(),
    wish("T012", "sensor", "sensor_add", name="t012", part="lm75", address="0x48"),
    Press("yes", "T012"),
    Say("T013", "file", 'T013 both [[write_file {"path": "list.txt", "content": "T013 salt\\n", "mode": "append"}]] [[memory_store {"text": "T013 salt is out"}]]'),
    wish("T014", "rule", "rule", action="add", name="t014", when="t012.temperature > 1", notify="T014 it is warm"),
    Press("yes", "T014"),
    wish("T023", "subagent", "spawn", task=f"T023 go {later('T023 flour')}"),
    Pass(300, 20),
    Tidy(),
    wish("T015", "write", "write_file", path="plan.txt", content="T015 dig\n"),
    wish("T016", "edit", "edit_file", path="plan.txt", old_text="T015 dig", new_text="T015 dig, T016 rest"),
    wish("T017", "beat", "write_file", path="HEARTBEAT.md", content="- [ ] T017 look at the pond every 5 minutes\n", mode="append"),
    Pass(300),
    Beat(),
    Say("T018", "chat", "/new"),
    wish("T019", "reminder", "cron", TERMINAL, action="add", message="T019 tea", at_seconds=300),
    wish("T020", "skill", "skill_create", name="t020-pond", description="T020 the pond", text="T020: look at it."),
    Press("yes", "T020"),
    Pass(600),
    Say("T021", "chat", "T021 and good night"),
    Restart(),
    wish("T022", "note", "memory_store", text="T022 the pump is loud"),
    Pass(60),
)  # fmt: skip

SHORT: tuple[Move, ...] = (DAY[0], *DAY[1:9], Pass(660), *DAY[-3:])
"""A morning, for the tests that everybody runs."""


def brain(body: Any) -> Answer:
    """Do what the newest user message says, one call after the other, then tell what came of it."""
    messages = body["messages"]
    newest = max(place for place, message in enumerate(messages) if message["role"] == "user")
    text = str(messages[newest]["content"])
    after = messages[newest + 1 :]
    now, later_ = (wishes.findall(text) for wishes in _WISHES)
    wishes = now or later_
    made = sum(bool(message.get("tool_calls")) for message in after)
    if made < len(wishes):
        name, arguments = wishes[made]
        return reply("", call(name, arguments, number=f"call_{len(messages)}"))
    results = [str(message["content"])[:300] for message in after if message["role"] == "tool"]
    words = re.sub(r"<moment>.*?</moment>", "", text, flags=re.DOTALL)
    made_of = TOKEN.findall(words) or re.findall(r"umber \d+", words)[:1]
    tokens = " ".join(dict.fromkeys(made_of))
    well = results and not any(result.startswith("error") for result in results)
    said = f"{'done' if well else 'heard'} {tokens}: {' / '.join(results)}".strip()
    return reply(said if now or not later_ else f"later {said}")


def server() -> ModelServer:
    """The model of the day."""
    return ModelServer(brain)
