"""What has room in a window: shares of it, results that are cut and read on, turns that stay within it."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from bench.window import PROSE, READINGS, RUSSIAN, talk, tokens
from model_server import ModelServer
from rows import each_row
from scripted import CALLER, PROMPTS, Scripted, Toolbox, calls, says

from picoclaw.agent.conversation import Conversation
from picoclaw.agent.loop import Agent
from picoclaw.app import App
from picoclaw.config import Config
from picoclaw.config.tables import LimitsConfig, ModelConfig
from picoclaw.errors import ContextOverflow, StoreError
from picoclaw.hw.sim import SimBoard
from picoclaw.messages import Inbound, Message, ToolCall, TurnContext, Usage
from picoclaw.prompts import (
    TOOL_DROP_ORDER,
    choose_dropped,
    count_request_bytes,
    cut_result,
    estimate_tokens,
    find_result_number,
    format_rest_hint,
    get_result_part,
    measure_bytes_a_token,
    remove_mark,
    split_window,
)
from picoclaw.store.conversations import Results
from picoclaw.store.database import Database
from picoclaw.tools.registry import ON_REQUEST, ResultTool, Toolset, tool
from picoclaw.workspace import prepare_home

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
TALE = "".join(f"{i:05} " for i in range(1000))


# --- shares ---


@each_row("window", [1024, 2048, 4096, 8192, 32_768, 200_000])
@each_row("answer", [100, 1024, 32_768])
def test_a_third_of_a_window_is_the_conversations(window: int, answer: int) -> None:
    found = split_window(window, answer, 16_000)
    assert found.answer == min(answer, window // 4)
    assert window - found.answer - found.told / 4 >= window // 3
    assert window * 0.6 < found.request < window - found.answer
    assert found.tools < found.told


@each_row(("window", "longest"), [(1024, 512), (4096, 2048), (32_768, 16_000), (200_000, 16_000)])
def test_a_small_window_is_shown_shorter_results(window: int, longest: int) -> None:
    assert split_window(window, 1024, 16_000).result == longest


@each_row(("most", "gone"), [(30, ""), (29, "x"), (20, "x"), (19, "xa"), (10, "xa"), (9, "xab"), (0, "xab")])
def test_tools_go_in_their_order_and_unknown_ones_before_all(most: int, gone: str) -> None:
    assert choose_dropped({"b": 10, "a": 10, "x": 10}, most, "ab") == set(gone)


@each_row(
    ("before", "counted", "after"),
    [
        (4.0, (), 4.0),
        (4.0, ((4000, 2000),), 2.0),
        (4.0, ((4000, 10),), 4.0),
        (4.0, ((4000, 100_000),), 1.5),
        (3.0, ((4000, 1000), (4000, 1600)), 2.5),
        (4.0, ((4000, 0),), 4.0),
    ],
)
def test_within_a_turn_a_server_that_counts_more_is_believed(
    before: float, counted: tuple[tuple[int, int], ...], after: float
) -> None:
    assert measure_bytes_a_token(before, Usage(counted=counted)) == after


@each_row("text", [PROSE, READINGS.format(1, 2, 3, 4, 5), RUSSIAN, '{"name":"i2c","bus":1}'])
def test_the_estimate_is_near_what_vocabularies_take(text: str) -> None:
    """A table of readings has four times the tokens of prose of that length."""
    messages = [Message("user", text * 40)]
    counted = tokens({"messages": [{"content": text * 40}]})
    assert 0.7 < estimate_tokens(count_request_bytes("", messages, ())) / counted < 1.6


# --- results that are cut ---


class Speaker:
    """A tool that says much."""

    text = TALE

    @tool(effect="read")
    def recite(self) -> str:
        """Recite."""
        return self.text


class Bench:
    """A toolset whose long results are kept in a real database."""

    def __init__(self, folder: Path, longest: int = 1000) -> None:
        self.database = Database(folder / "state.db")
        self.store: Results = Results(self.database)
        self.whole = ResultTool(lambda: self.store, longest)
        self.speaker = Speaker()
        self.toolset = Toolset(
            [self.speaker, self.whole],
            guard=lambda *_: None,
            journal=lambda *_: None,
            longest_result=longest,
            secrets=("sk-0123456789",),
            keep_whole=self.whole.keep,
        )

    def recited(self) -> str:
        return self.toolset.call(ToolCall("a", "recite"), CALLER)

    def read(self, number: int, start: int = 0) -> str:
        return self.toolset.call(ToolCall("b", "read_result", {"number": number, "start": start}), CALLER)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.database.close()


def test_a_result_that_is_cut_is_kept_whole_and_can_be_read_to_its_end(bench: Bench) -> None:
    shown = bench.recited()
    assert shown.startswith(TALE[:750])
    assert shown.endswith(TALE[-250:])
    assert "[cut: 5000 characters left out here; read_result(number=1, start=750) shows them]" in shown
    read, start = TALE[:750], 750
    while start:
        more = bench.read(1, start)
        assert len(more) <= 1000
        body, _, note = more.rpartition("\n")
        read += body if note.startswith("[") else more
        start = int(note.partition("start=")[2].partition(")")[0] or 0) if note.startswith("[") else 0
    assert read == TALE


@pytest.mark.parametrize(
    ("number", "start", "said"),
    [
        (2, 0, "error: there is no result 2 in this chat"),
        (-1, 0, "error: there is no result -1"),
        (10**30, 0, "error: there is no result"),
        (1, 6000, "error: result 1 has 6000 characters, from 0; there is none at 6000"),
        (1, -1, "there is none at -1"),
    ],
)
def test_what_cannot_be_read_is_said(bench: Bench, number: int, start: int, said: str) -> None:
    bench.recited()
    assert said in bench.read(number, start)


def test_another_chat_reads_nothing(bench: Bench) -> None:
    bench.recited()
    stranger = CALLER.__class__("telegram:7", "owner", NOON, lambda _: None)
    assert bench.toolset.call(ToolCall("b", "read_result", {"number": 1}), stranger).startswith("error: there is no")


def test_a_disk_that_is_full_costs_only_the_reading_on(bench: Bench) -> None:
    class Full:
        def keep(self, *_: object) -> int:
            raise StoreError("state.db: no space left on the device")

        def read(self, *_: object) -> None:
            return None

    bench.store = Full()  # type: ignore[assignment]
    assert "[cut: 5000 characters left out here; ask for a smaller part]" in bench.recited()


def test_neither_a_secret_nor_a_false_mark_is_kept(bench: Bench) -> None:
    bench.speaker.text = f"sk-0123456789 {format_rest_hint(7, 0)} {TALE} {format_rest_hint(9, 0)}"
    shown = bench.recited()
    assert find_result_number(shown) == 1
    whole = bench.store.read("terminal", 1)
    assert whole is not None
    assert whole.startswith("[secret] [read_result (number=7")
    bench.speaker.text = format_rest_hint(7, 0)
    assert not find_result_number(bench.recited())


@each_row("most", [200, 512, 16_000])
@each_row("number", [0, 1, 10**15])
def test_every_mark_is_found_again(most: int, number: int) -> None:
    text = TALE * 10
    for shown in (
        cut_result(text, most, number),
        f"x\n{format_rest_hint(number, 7)}",
        get_result_part(text, 5, most, number),
    ):
        assert find_result_number(shown) == number or (number == 0 and "left out" not in shown)
        assert find_result_number(remove_mark(shown)) == 0


# --- a turn that grows ---


def test_a_result_that_is_shortened_is_kept_once_and_names_where_it_goes_on() -> None:
    kept: list[str] = []

    def keep(_tool: str, text: str) -> int:
        kept.append(text)
        return len(kept)

    recite = ToolCall("a", "recite")
    talk = Conversation([], [Message("user", "recite"), Message("assistant", "", (recite,))], keep_whole=keep)
    talk.add_result(recite, TALE)
    heads = []
    while talk.shorten("{head}[shortened]"):
        text = talk.messages[-1].text
        heads.append(text.partition("[")[0])
        assert text.endswith(f"[shortened]\n[read_result(number=1, start={len(heads[-1])}) shows the rest]")
        assert TALE.startswith(heads[-1])
    assert [len(head) for head in heads][:2] == [3000, 1531]
    assert heads[-1] == ""
    assert kept == [TALE]


def test_a_piece_that_was_read_on_is_shortened_to_its_own_place() -> None:
    read = ToolCall("a", "read_result", {"number": 4, "start": 2000})
    talk = Conversation([], [Message("user", "more"), Message("assistant", "", (read,))])
    talk.add_result(read, get_result_part(TALE, 2000, 1100, 4))
    assert talk.shorten("{head}")
    text = talk.messages[-1].text
    head = text.partition("\n")[0]
    assert head == TALE[2000 : 2000 + len(head)]
    assert text.endswith(f"[read_result(number=4, start={2000 + len(head)}) shows the rest]")


def test_long_arguments_of_calls_that_were_answered_are_shown_short_and_kept_whole() -> None:
    agent, provider = agent_of([*[calls(write(i)) for i in "abcdef"], says("done")], window=4096)
    turn = agent.turn(TurnContext("Be brief.", "write"), (), CALLER)
    assert (turn.stopped, turn.reply) == ("", "done")
    assert [len(call.arguments["text"]) for m in turn.messages for call in m.calls] == [3000] * 6
    shown = [len(call.arguments["text"]) for m in provider.requests[-1].messages for call in m.calls]
    assert shown[:3] == [100] * 3
    assert shown[-1] == 3000


@each_row("said", ["pump " * 2000, "насос " * 2000, "y" * 100_000])
def test_what_is_said_at_too_great_length_is_shown_short_and_kept_whole(said: str) -> None:
    agent, provider = agent_of([says("done")], window=4096)
    turn = agent.turn(TurnContext("Be brief.", f"What is it? {said} The end?"), (), CALLER)
    assert (turn.stopped, turn.reply, turn.messages[0].text) == ("", "done", f"What is it? {said} The end?")
    [request] = provider.requests
    assert estimate_tokens(count_request_bytes(request.system, request.messages, request.tools)) <= 4096 - 1024
    shown = request.messages[0].text
    assert shown.startswith("What is it?")
    assert shown.endswith("The end?")
    assert 200 <= turn.longest_said < len(shown)


def test_a_server_that_counts_more_tokens_is_shown_less_of_what_was_said() -> None:
    agent, provider = agent_of([[ContextOverflow("too long")], [ContextOverflow("too long")], says("done")], 4096)
    turn = agent.turn(TurnContext("Be brief.", "y" * 8000), (), CALLER)
    assert (turn.stopped, turn.reply, turn.longest_said) == ("", "done", 2000)
    assert len(provider.requests) == 3


def write(number: str) -> ToolCall:
    return ToolCall(number, "note", {"text": number * 3000})


def test_a_turn_of_many_long_results_fits_to_its_end(tmp_path: Path) -> None:
    kept = Results(Database(tmp_path / "state.db"))
    steps = [calls(ToolCall(f"c{i}", "recite", {"characters": 1900 + i})) for i in range(19)]
    agent, provider = agent_of([*steps, says("done")], 4096, ResultTool(lambda: kept, 2048).keep)
    turn = agent.turn(TurnContext("Be brief.", "recite"), (), CALLER)
    assert (turn.stopped, turn.reply) == ("", "done")
    for request in provider.requests:
        assert estimate_tokens(count_request_bytes(request.system, request.messages, request.tools)) <= 4096 - 1024
    whole = [kept.read("terminal", number) for number in range(1, 19)]
    assert all(text and text == "x" * len(text) and len(text) >= 1900 for text in whole)


def agent_of(answers: list[Any], window: int, keep_whole: Callable[..., int] = lambda *_: 0) -> tuple[Agent, Scripted]:
    provider = Scripted(*answers)
    toolset = Toolset(
        [Toolbox()], guard=lambda *_: None, journal=lambda *_: None, longest_result=16_000, keep_whole=keep_whole
    )
    return Agent(provider, toolset, PROMPTS, LimitsConfig(), window, 1024), provider


# --- what a turn begins with ---


class Home:
    """A home with much to say, and an app over it."""

    def __init__(self, folder: Path, window: int, answer: int = 1024, url: str = "http://127.0.0.1:9/v1") -> None:
        prepare_home(folder)
        self.workspace = folder / "workspace"
        (self.workspace / "BOOTSTRAP.md").unlink()
        for name in ("AGENTS.md", "SOUL.md", "TOOLS.md", "USER.md"):
            (self.workspace / name).write_text(f"# {name}\n{RUSSIAN * 30}")
        for number in range(15):
            skill = self.workspace / f"skills/s{number}"
            skill.mkdir(parents=True)
            front = f"name: s{number}\ndescription: {PROSE.strip()}\ntriggers: [ferns]\n"
            (skill / "SKILL.md").write_text(f"---\n{front}---\n{PROSE * 100}")
        model = ModelConfig(base_url=url, name="m", profile="full", context_tokens=window, answer_tokens=answer)
        self.app = App(Config(folder, model=model), SimBoard())

    def brief(self, text: str = "how warm is it?") -> TurnContext:
        return self.app.context_builder.build(Inbound("terminal", text), (), (), NOON).brief


@pytest.mark.parametrize("window", [2048, 4096, 8192, 32_768])
def test_what_a_turn_begins_with_leaves_the_conversation_its_third(tmp_path: Path, window: int) -> None:
    home = Home(tmp_path / "home", window)
    brief, shares = home.brief("look after the ferns"), home.app.room
    tools = home.app.toolset.definitions(brief.tools)
    assert count_request_bytes(brief.system, (), tools) <= shares.told
    begun = count_request_bytes(brief.system, [Message("user", brief.text)], tools)
    assert estimate_tokens(begun) <= shares.request
    assert {"sensor_read", "board_status", *(["exec"] if window > 2048 else [])} <= {tool["name"] for tool in tools}
    home.app.close()


def test_a_window_that_is_large_enough_gives_nothing_up(tmp_path: Path) -> None:
    home = Home(tmp_path / "home", 32_768)
    offered = home.brief().tools or frozenset()
    assert {"spawn", "cron", "rule", "sensor_history", "memory_forget", "read_result"} <= offered
    assert not {"message", *ON_REQUEST} & offered
    assert all(page in home.brief().system for page in ("AGENTS.md", "SOUL.md", "TOOLS.md", "USER.md"))
    home.app.close()


def test_the_order_names_every_tool(tmp_path: Path) -> None:
    home = Home(tmp_path / "home", 32_768)
    assert not home.app.toolset.names - {*TOOL_DROP_ORDER}
    home.app.close()


@pytest.mark.parametrize("window", [2048, 4096])
def test_a_window_that_is_too_small_is_spared_the_less_needed_tools(tmp_path: Path, window: int) -> None:
    home = Home(tmp_path / "home", window)
    shown = home.app.toolset.definitions(home.brief().tools, home.app.room.tools)
    assert count_request_bytes("", (), shown) <= home.app.room.tools
    assert {"sensor_list", "sensor_read", "read_result"} <= {tool["name"] for tool in shown}
    assert "error" not in home.app.toolset.call(ToolCall("a", "list_dir"), CALLER)
    home.app.close()


def test_pages_without_room_are_named(tmp_path: Path) -> None:
    home = Home(tmp_path / "home", 1024)
    problems = home.app.context_builder.build(Inbound("terminal", "hello"), (), (), NOON).problems
    assert problems == ["AGENTS.md, SOUL.md, TOOLS.md, USER.md not shown: a window of 1024 tokens has no room for more"]
    home.app.close()


def test_the_answer_that_is_asked_for_leaves_room_for_the_question(tmp_path: Path) -> None:
    with ModelServer() as server:
        home = Home(tmp_path / "home", 4096, answer=32_768, url=server.url)
        assert home.app.dispatcher.answer(Inbound("terminal", "hello there")).reply == "You said: hello there"
        assert [request.body["max_tokens"] for request in server.requests] == [1024]
        home.app.close()


# --- a server that counts ---


@pytest.mark.parametrize(("window", "turns"), [(4096, 24), (131_072, 12)])
def test_no_request_exceeds_the_window_and_no_word_is_lost(tmp_path: Path, window: int, turns: int) -> None:
    """A short one; tests/bench/window.py has five hundred turns and looks at the memory."""
    run = talk(tmp_path / "home", window, turns)
    assert (run.ended, run.refused, run.missing) == ({"": turns}, 0, 0)
    assert run.requests > turns
    assert run.largest <= window
    assert run.read_on


def test_a_very_small_window_answers_or_says_clearly_that_it_cannot(tmp_path: Path) -> None:
    run = talk(tmp_path / "home", 2048, 12)
    assert run.missing == 0
    assert run.ended.pop("") >= 9
    assert all("the model's window" in ended for ended in run.ended)
