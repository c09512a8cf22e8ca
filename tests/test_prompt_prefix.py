"""A conversation's requests grow at their end only, from the first byte and over processes."""

import itertools
from pathlib import Path
from typing import Any

from bench.reuse import CALLS, list_calls, raw, reuse, talk
from model_server import Received

from picoclaw.app import App
from picoclaw.config import Config
from picoclaw.hw.sim import SimBoard


def test_each_request_is_the_one_before_and_what_is_new(tmp_path: Path) -> None:
    calls = [made for made in list_calls() if made[0] != "first_run"]
    turns, requests = talk(tmp_path / "home", calls, settled=True)
    assert len(requests) == 2 * len(turns) == 2 * len(calls)
    assert list_changed(calls, requests) == []
    assert {"delegate", "delegate_search"} <= {tool["function"]["name"] for tool in requests[0].body["tools"]}
    assert '<system_context name=\\"TEAM.md\\">' in raw(requests[0]).decode()
    assert raw(requests[0]).startswith(b'{"model":"scripted",')


def test_only_the_first_meeting_leaves_the_system_text(tmp_path: Path) -> None:
    calls: list[tuple[str, dict[str, Any]]] = [("sensor_read", {}), ("first_run", {"name": "Ada"})]
    calls += [
        ("first_run", {"done": True}),
        ("sensor_read", {}),
        ("memory_store", {"text": "It is 3 A.", "lasting": True}),
    ]
    _, requests = talk(tmp_path / "home", calls * 2)
    assert list_changed(calls * 2, requests) == ["sensor_read"]  # after which it is over


def list_changed(calls: list[tuple[str, dict[str, Any]]], requests: list[Received]) -> list[str]:
    """The calls before which not all of the request before was sent again."""
    pairs = enumerate(itertools.pairwise(requests), 1)
    return [calls[number // 2][0] for number, pair in pairs if reuse(*pair)[2:] != (1.0, 1.0)]


def test_every_tool_is_called(tmp_path: Path) -> None:
    app = App(Config(home=tmp_path), SimBoard())
    assert set(CALLS) >= app.toolset.names
    app.close()


def test_what_changes_is_told_once_in_the_newest_message(tmp_path: Path) -> None:
    calls = [
        ("sensor_read", {}),
        ("write_file", {"path": "USER.md", "content": "Name: Ada", "mode": "append"}),
        *[("sensor_read", {})] * 2,
    ]
    _, requests = talk(tmp_path / "home", calls, settled=True)
    told = [
        "Changed since" in message["content"] for message in requests[-1].body["messages"] if message["role"] == "user"
    ]
    assert told == [False, False, True, False]
    assert "+ Name: Ada" in str(requests[-1].body["messages"])


def test_a_new_conversation_has_it_in_its_system_text(tmp_path: Path) -> None:
    _, requests = talk(
        tmp_path / "home", [("write_file", {"path": "USER.md", "content": "Name: Ada", "mode": "append"})], settled=True
    )
    _, again = talk(tmp_path / "home", [("sensor_read", {})], session="other")
    assert "Ada" not in requests[0].body["messages"][0]["content"]
    assert "Ada" in again[0].body["messages"][0]["content"]
