"""A conversation's requests grow at their end only, from the first byte and over processes."""

import itertools
from pathlib import Path

import pytest
from bench.reuse import raw, reuse, talk


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def test_each_request_is_the_one_before_and_what_is_new(tmp_path: Path) -> None:
    turns, requests = talk(tmp_path / "home", 3)
    assert [(turn.stopped, turn.notice.text, turn.steps) for turn in turns] == [("", "", 2)] * 3
    assert len(requests) == 6
    for before, after in itertools.pairwise(requests):
        found = reuse(before, after)
        assert (found.of_all, found.of_messages) == (1.0, 1.0)
        assert found.sent - found.shared < 1000
    assert raw(requests[0]).startswith(b'{"model":"scripted",')
