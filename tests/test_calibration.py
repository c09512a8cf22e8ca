"""The ratio of bytes to tokens: learned from servers that count well, hardly from those that do not."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from model_server import ModelServer, reply
from scripted import CALLER, PROMPTS, Toolbox, toolset_of

from picoclaw.agent.conversation import Conversation
from picoclaw.agent.loop import Agent
from picoclaw.config.tables import LimitsConfig, ModelConfig
from picoclaw.errors import StoreError
from picoclaw.messages import Message, Notice, Turn, TurnContext, Usage
from picoclaw.providers import http
from picoclaw.providers.model import ModelProvider
from picoclaw.store.conversations import History
from picoclaw.store.database import Database
from picoclaw.store.ledger import TokenCalibration

NOON = datetime(2026, 7, 1, 12, 0, tzinfo=UTC)
Counted = tuple[int, int]


class Kept:
    """A database, its history and what it knows of tokens."""

    def __init__(self, path: Path) -> None:
        self.database = Database(path)
        self.history = History(self.database)
        self.calibration = TokenCalibration(self.database)

    def learn(self, *counted: Counted, model: str = "qwen") -> str:
        return self.history.keep("home", turn_of(*counted), NOON, model=model)

    def ratio(self, model: str = "qwen") -> float:
        return self.calibration.bytes_a_token(model)


def turn_of(*counted: Counted) -> Turn:
    usage = Usage(sum(tokens for _, tokens in counted), 5, counted)
    messages = (Message("user", "hi"), Message("assistant", "Hello."))
    return Turn("Hello.", messages, 1, (), usage, "", "sim", Notice(""))


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    made = Kept(tmp_path / "state.db")
    yield made
    made.database.close()


def test_nothing_is_known_at_first(kept: Kept) -> None:
    assert kept.ratio() == 4.0
    assert not kept.learn()
    assert kept.ratio() == 4.0


def test_what_was_learned_of_each_model_outlasts_the_process(kept: Kept) -> None:
    for _ in range(3):
        kept.learn((8100, 3000))
        kept.learn((9000, 2000), model="llama\udce9")
    kept.database.close()
    again = Kept(kept.database.path)
    assert again.ratio() == pytest.approx(2.7, rel=0.05)
    assert again.ratio("llama\udce9") == pytest.approx(4.5, rel=0.05)
    assert again.ratio("gemma") == 4.0
    again.database.close()


def test_it_is_kept_in_the_turns_own_transaction(kept: Kept) -> None:
    commits = []
    kept.database.connection.set_commit_hook(lambda: bool(commits.append(1)))
    kept.learn((8100, 3000))
    assert len(commits) == 1
    known = kept.ratio()
    assert known < 4.0
    broken = turn_of((8100, 4000))._replace(messages=(Message(None, "of no role"),))  # type: ignore[arg-type]
    with pytest.raises(StoreError):
        kept.history.keep("home", broken, NOON, model="qwen")
    assert kept.ratio() == known


@pytest.mark.parametrize(
    ("counted", "low", "high"),
    [
        ((8000, 0), 4.0, 4.0),  # says nothing
        ((8000, 1), 4.0, 4.0),
        ((8000, 60), 4.0, 4.0),  # counts only what it had not cached
        ((80_000, 4096), 4.0, 4.0),  # cut it
        ((8000, -7), 4.0, 4.0),
        ((499, 300), 4.0, 4.0),  # too small to tell
        ((8000, 10**12), 1.5, 1.6),
        ((8000, 8000), 1.5, 1.6),
        ((8000, 1001), 7.5, 8.0),
        ((500, 250), 2.0, 2.3),
    ],
)
def test_odd_counts(kept: Kept, counted: Counted, low: float, high: float) -> None:
    for _ in range(40):
        kept.learn(counted)
    assert low <= kept.ratio() <= high


@pytest.mark.parametrize(("size", "tokens", "ratio"), [(1e9, 0.0, 8.0), (0.0, 1e9, 1.5), (1e999, 1e999, 1.5)])
def test_figures_that_somebody_else_wrote_stay_within_reason(
    kept: Kept, size: float, tokens: float, ratio: float
) -> None:
    with kept.database.transaction() as connection:
        connection.execute("INSERT INTO calibration VALUES ('qwen', ?, ?)", (size, tokens))
    assert kept.ratio() == ratio


def test_one_odd_request_moves_it_little(kept: Kept) -> None:
    for _ in range(20):
        kept.learn((8000, 2000))
    kept.learn((8000, 1010))
    assert 4.0 < kept.ratio() < 4.2
    kept.learn((8000, 6000))
    assert 3.5 < kept.ratio() < 4.2


def test_the_newest_requests_count_most(kept: Kept) -> None:
    for _ in range(100):
        kept.learn((8000, 2000))
    for _ in range(20):
        kept.learn((8000, 3200))
    assert 2.5 < kept.ratio() < 3.0


@pytest.mark.parametrize(
    ("counted", "note"),
    [
        (
            ((36_000, 4096),),
            "the server counted 4096 tokens of about 9000: its window may be smaller than context_token",
        ),
        (((12_000, 2900), (36_000, 4096)), "counted 4096 tokens of about 9"),
        (((36_000, 4096), (3000, 900)), "counted 4096 tokens of about 9"),
        (((36_000, 5000),), ""),
        (((36_000, 300),), ""),  # no window is as small as that
        (((7900, 980),), ""),  # nor is a small request cut
        (((36_000, 0),), ""),
    ],
)
def test_a_prompt_that_was_cut_in_silence_is_made_known(kept: Kept, counted: tuple[Counted, ...], note: str) -> None:
    told = kept.learn(*counted)
    assert note in told
    assert bool(note) == bool(told)


@pytest.mark.parametrize("bytes_a_token", [2.2, 4.0])
def test_a_window_that_is_smaller_than_the_conversation_is_always_noticed_in_the_end(
    kept: Kept, bytes_a_token: float
) -> None:
    """The conversation grows slowly, and so does what the server leaves out."""
    notes = [kept.learn((size, min(int(size / bytes_a_token), 4096))) for size in range(4000, 60_000, 1000)]
    assert all(notes[-20:])
    assert not any(notes[: int((4096 * bytes_a_token - 4000) / 1000)])
    assert kept.ratio() <= 8.0


def test_another_language_is_believed_after_a_while(kept: Kept) -> None:
    for _ in range(40):
        kept.learn((8000, 5300))
    for _ in range(40):
        kept.learn((9000, 2000))
    assert kept.ratio() == pytest.approx(4.5, rel=0.1)


SAID = {
    "German": (
        "Wie feucht ist die Erde bei den größeren Tomaten heute früh? ",
        "Die Bodenfeuchte beträgt 41 Prozent. ",
    ),
    "Japanese": ("今朝の温室の温度と湿度を教えてください。", "温室は現在二十一度、湿度は五十八パーセントです。"),
}


@pytest.mark.parametrize("language", SAID)
@pytest.mark.parametrize("length", [3, 12])
def test_three_turns_are_enough_to_estimate_another_language(kept: Kept, language: str, length: int) -> None:
    asked, answered = (text * length for text in SAID[language])
    for _ in range(30):
        kept.history.keep(
            "home", turn_of()._replace(messages=(Message("user", asked), Message("assistant", answered))), NOON
        )

    def tokens(body: Any) -> int:
        return int(len(http.encode_body(body)) / 2.7)

    with ModelServer(lambda body: reply(answered, usage=(tokens(body), 20))) as server:
        provider = ModelProvider(ModelConfig(base_url=server.url, name="qwen"))
        agent = Agent(provider, toolset_of(Toolbox()), PROMPTS, LimitsConfig(), 100_000, 100)
        errors = []
        for _ in range(4):
            earlier, ratio = kept.history.turns("home"), kept.ratio()
            talk = Conversation(earlier, [Message("user", asked)])
            estimate = talk.count_tokens("Be brief.", agent.toolset.definitions(), ratio)
            turn = agent.turn(TurnContext("Be brief.", asked, bytes_a_token=ratio), earlier, CALLER)
            kept.history.keep("home", turn, NOON, model="qwen")
            errors.append(abs(estimate / turn.usage.prompt_tokens - 1))
        provider.close()
    assert errors[0] > 0.25
    assert errors[3] < 0.15
