"""Rows for the tests of shared stores."""

from picoclaw.shared.tables import make_id

AGENT, OTHER = make_id("agent", "home"), make_id("agent", "other")


def page(path="memory/a.md", content="one\n", version=1, agent=AGENT, person="", at=1000.0, deleted=False):
    return {
        "id": make_id("document", agent, person, path),
        "agent_id": agent,
        "at": at,
        "person": person,
        "path": path,
        "content": content,
        "version": version,
        "deleted": deleted,
    }


def session(number=1, agent=AGENT, at=1000.0, **values):
    row = {"id": make_id("session", agent, number), "agent_id": agent, "at": at, "person": "", "number": number}
    return row | {"key": "terminal", "begun": "2026-11-26T08:00:00", "ended": ""} | values


def turn(number=1, agent=AGENT, at=1000.0, **values):
    row = {
        "id": make_id("turn", agent, number),
        "agent_id": agent,
        "at": at,
        "session_id": make_id("session", agent, 1),
        "number": number,
        "said_at": "2026-11-26T08:00:00",
        "provider": "matcher",
        "steps": 1,
        "prompt_tokens": 3,
        "completion_tokens": 4,
        "stopped": "",
        "undone": False,
        "heard": "[]",
        "asked_by": "",
        "messages": '[["user", "hello"]]',
    }
    return row | values


def spending(day="2026-11-26", requests=1, agent=AGENT, at=1000.0, **values):
    row = {
        "id": make_id("ledger", "shed", agent, day),
        "agent_id": agent,
        "at": at,
        "day": day,
        "model": "m",
        "cause": "chat",
        "channel": "terminal",
        "requests": requests,
        "prompt_tokens": 10,
        "completion_tokens": 5,
        "estimated": 0,
        "money": 0.25,
        "cached": 0,
        "reasoning": 0,
    }
    return row | values
