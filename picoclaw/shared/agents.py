"""The agents of a store: their tables of config.toml and their pages, for a home that takes one over."""

import json
from collections.abc import Mapping
from typing import Any

from picoclaw.agents import AGENT_PAGES, agent_id
from picoclaw.config.tables import AgentConfig
from picoclaw.records import NamedTuple
from picoclaw.shared.store import SharedStore
from picoclaw.shared.tables import Row

MAX_AGENT_PAGE_CHARS = 200_000
_TEXTS = ("name", "description", "model", "type")


class SharedAgent(NamedTuple):
    """An agent as a board has described it at a time, in seconds since 1970: `table` has what is not as usual."""

    key: str
    board: str
    at: float
    table: Mapping[str, Any]
    pages: Mapping[str, str]


def read_agent(row: Row) -> SharedAgent | None:
    """Read an agent's row; None for one that is not what it is called, or cannot be read. Parts that cannot are left out."""
    if row["deleted"] or row["id"] != agent_id(row["key"]):
        return None
    try:
        found = json.loads(row["settings"])
        about, written = dict(found.get("table") or {}), dict(found.get("pages") or {})
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None
    usual = AgentConfig()
    texts = {name: about.get(name) for name in _TEXTS}
    table: dict[str, Any] = {
        name: text for name, text in texts.items() if isinstance(text, str) and text != getattr(usual, name)
    }
    if (tools := about.get("tools")) and isinstance(tools, list) and all(isinstance(tool, str) for tool in tools):
        table["tools"] = tools
    pages = {
        name: text
        for name in AGENT_PAGES
        if isinstance(text := written.get(name), str) and 0 < len(text) <= MAX_AGENT_PAGE_CHARS
    }
    return SharedAgent(row["key"], row["board"], row["at"], table, pages)


def list_shared_agents(store: SharedStore) -> list[SharedAgent]:
    """The agents that this board may see in a store, by key. Raises StoreError."""
    found: list[SharedAgent] = []
    last = ""
    while rows := store.list_rows("agents", {}, last):
        found += filter(None, map(read_agent, rows))
        last = rows[-1]["id"]
    return sorted(found)
