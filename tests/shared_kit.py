"""Rows and places for the tests of shared stores."""

import contextlib
from datetime import UTC, datetime

from picoclaw.config import Config
from picoclaw.config.tables import AgentConfig, PersonConfig
from picoclaw.messages import Message, Notice, Turn, Usage
from picoclaw.shared_store.home import EVERYONE, SharedHome
from picoclaw.shared_store.store import make_id, open_shared_store
from picoclaw.shared_store.sync import StoreSync
from picoclaw.store.conversations import History
from picoclaw.store.database import Database
from picoclaw.store.ledger import Ledger, LedgerKey, LedgerTotals
from picoclaw.store.sessions import Sessions

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
        "person": "",
        "requests": requests,
        "prompt_tokens": 10,
        "completion_tokens": 5,
        "estimated": 0,
        "money": 0.25,
        "cached": 0,
        "reasoning": 0,
    }
    return row | values


class StorePlace:
    """The address of one empty store, and as many connections to it as a test wants."""

    def __init__(self, kind, url):
        self.kind, self.url = kind, url
        self.stack = contextlib.ExitStack()

    def open(self, board="shed", nonce="n1"):
        store = open_shared_store(self.url)
        self.stack.callback(store.close)
        if board:
            store.claim(board, nonce)
        return store


class Clock:
    """The time of all boards of a test."""

    def __init__(self):
        self.seconds = 1_790_000_000.0

    def __call__(self):
        return datetime.fromtimestamp(self.seconds, UTC)


class Board:
    """A home with its notes and conversations, and its way to the store."""

    def __init__(self, folder, url, clock, name="", people=("anna",), agents=("garden",)):
        self.name, self.url, self.clock = name or folder.name, url, clock
        folder.mkdir(exist_ok=True)
        members = {person: PersonConfig() for person in people}
        self.config = Config(home=folder, people=members, agents={agent: AgentConfig() for agent in agents})
        self.database = Database(folder / "state.db")
        self.stack = contextlib.ExitStack()
        self.stack.callback(self.database.close)
        self.sync = None

    def connect(self):
        home = SharedHome(self.config, self.name)
        self.stack.callback(home.close)
        store = open_shared_store(self.url)
        self.stack.callback(store.close)
        self.sync = StoreSync(home, store, self.clock)

    def run(self):
        if self.sync is None:
            self.connect()
        return self.sync.run()

    def path(self, name, person="", agent=""):
        folder = self.config.home / (f"agents/{agent}" if agent else "")
        if person == EVERYONE:
            return folder / "shared" / name
        return folder / (f"people/{person}" if person else "") / "workspace" / name

    def write(self, name, text, **whose):
        path = self.path(name, **whose)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def read(self, name, **whose):
        path = self.path(name, **whose)
        return path.read_text() if path.exists() else None

    def say(self, text, key="terminal", agent="", person=""):
        messages = (Message("user", text), Message("assistant", f"heard: {text}"))
        turn = Turn(messages[1].text, messages, 1, (), Usage(3, 4), "", "matcher", Notice(""))
        if agent:
            Sessions(self.database).set_agent(key, agent, self.clock())
        History(self.database).keep(key, turn, self.clock(), person=person)

    def spend(self, requests=1, day="2026-11-26", agent="", person=""):
        ledger = Ledger(lambda: self.database)
        ledger.note(LedgerKey(day, "m", "chat", "terminal", agent, person), LedgerTotals(requests, 10, 5))
        with ledger.transaction():
            pass

    def said(self):
        """What people have said, by the conversations' keys, as it is kept here."""
        return self.database.select(
            "SELECT key, text FROM messages JOIN turns ON turns.id = turn JOIN sessions ON sessions.id = session"
            " WHERE role = 'user' ORDER BY messages.id"
        )
