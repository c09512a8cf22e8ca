"""What a person says while a turn runs, and turns that another process has begun: nothing lost, nothing done twice."""

from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from model_server import ModelServer, call, reply
from rows import each_row
from scripted import CALLER, PROMPTS, Clock, Scripted, Step, Toolbox, calls, says, toolset_of
from validity import check_body, check_conversation

from picoclaw.agent.loop import Agent
from picoclaw.app import App
from picoclaw.config import Config
from picoclaw.config.tables import LimitsConfig, ModelConfig
from picoclaw.errors import ContextOverflow, DeadlinePassed, TurnStopped, Unavailable
from picoclaw.hw.sim import SimBoard
from picoclaw.messages import (
    NO_HOOKS,
    Caller,
    Event,
    Inbound,
    Message,
    Request,
    Stop,
    Text,
    ToolCall,
    ToolRun,
    Turn,
    TurnContext,
    TurnHooks,
    Usage,
)
from picoclaw.providers import openai
from picoclaw.tools.registry import Toolset, tool

MEASURE = ToolCall("a", "measure", {"quantity": "temperature"})
LIGHT = ToolCall("l", "measure", {"quantity": "light"})
SWITCH = ToolCall("b", "switch", {"pin": 17, "on": True})
NOTE = ToolCall("n", "note", {"text": "mist the ferns"})
CELLAR = Message("user", "<moment>meanwhile</moment>\nthe cellar, please")


class Person:
    """Types lines when something happens, and is a channel otherwise: hears, and keeps what it is handed."""

    def __init__(self, **lines: Sequence[str]) -> None:
        """`lines` by what they come after: the kind of an event and its number, as `ToolRun_1`."""
        self.lines = lines
        self.queue: list[str] = []
        self.happened: dict[str, int] = {}
        self.kept: list[tuple[Message, ...]] = []
        self.shown: list[Event | ToolRun] = []

    def hear(self, event: Event | ToolRun) -> None:
        self.shown.append(event)
        kind = type(event).__name__
        self.happened[kind] = self.happened.get(kind, 0) + 1
        self.queue += self.lines.get(f"{kind}_{self.happened[kind]}", ())

    def typed(self) -> list[str]:
        taken, self.queue = self.queue, []
        return taken

    def around(self, **more: Any) -> TurnHooks:
        return TurnHooks(listen=self.hear, typed=self.typed, keep=self.kept.append, **more)


class Bench:
    """An agent with a scripted model and a toolbox."""

    def __init__(self, *answers: Iterable[Step], limits: LimitsConfig | None = None, window: int = 32_768) -> None:
        self.clock = Clock()
        self.model = Scripted(*answers)
        self.toolbox = Toolbox(self.clock)
        self.limits = limits or LimitsConfig()
        self.toolset = toolset_of(self.toolbox)
        self.agent = Agent(self.model, self.toolset, PROMPTS, self.limits, window, 100, self.clock)

    def turn(self, person: Person, text: str = "how warm is it?", caller: Caller = CALLER) -> Turn:
        return checked(self.agent.turn(TurnContext("Be brief.", text), (), caller, person.around()))

    def sent(self, number: int = -1) -> list[str]:
        """What a request showed, a letter and the text each."""
        return [f"{m.role[0]} {m.text}".strip() for m in self.model.requests[number].messages]


def checked(turn: Turn) -> Turn:
    check_conversation(turn.messages)
    shown = (*turn.messages, Message("user", "and now?"))
    check_body(openai.build_body(Request("Be brief.", shown, (), 100, 0.0), "m", stream=False))
    return turn


# Steering


def test_what_is_typed_during_a_tool_is_seen_before_the_next() -> None:
    bench = Bench(calls(MEASURE, SWITCH), says("The cellar then."))
    turn = bench.turn(Person(ToolRun_1=["the cellar, please"]))
    assert bench.toolbox.used == [("measure", "temperature")]
    assert bench.sent()[-3:] == ["t temperature 21.4", "t error: put off", f"u {CELLAR.text}"]
    assert turn.messages[-2:] == (CELLAR, Message("assistant", "The cellar then."))
    assert (turn.stopped, turn.unanswered_texts) == ("", ())


def test_what_is_typed_while_the_model_speaks_comes_before_its_first_call() -> None:
    bench = Bench(calls(SWITCH, text="I switch it on."), calls(MEASURE), says("Not switched."))
    turn = bench.turn(Person(Text_1=["no, leave it off"]))
    assert bench.toolbox.used == [("measure", "temperature")]
    assert turn.reply == "Not switched."


def test_what_is_typed_during_the_last_tool_is_seen_with_its_result() -> None:
    bench = Bench(calls(MEASURE), says("21.4, and the cellar 12."))
    turn = bench.turn(Person(ToolRun_1=["the cellar, please"]))
    assert bench.sent()[-2:] == ["t temperature 21.4", f"u {CELLAR.text}"]
    assert CELLAR in turn.messages


def test_several_lines_at_several_times_are_all_there_in_their_order() -> None:
    bench = Bench(calls(MEASURE), calls(LIGHT), says("All three."))
    turn = bench.turn(Person(ToolRun_1=["one", "two"], ToolRun_2=["three"]))
    said = [m.text.rpartition("\n")[2] for m in turn.messages if m.role == "user"]
    assert said == ["how warm is it?", "one", "two", "three"]


@each_row("when", ["Text_1", "End_1"])
def test_what_is_typed_during_the_answer_stays_with_who_took_it_in(when: str) -> None:
    person = Person(**{when: ["the cellar, please"]})
    turn = Bench(says("It is 21.4.")).turn(person)
    assert (turn.reply, turn.unanswered_texts, person.queue) == ("It is 21.4.", (), ["the cellar, please"])
    assert len(turn.messages) == 2


def test_the_matcher_answers_one_thing_at_a_time() -> None:
    """It counts no tokens, and would take the newest message for the only one."""
    person = Person(ToolRun_1=["how humid is it?"])
    bench = Bench(calls(MEASURE, usage=Usage()), says("It is 21.4.", usage=Usage()))
    assert bench.turn(person).reply == "It is 21.4."
    assert person.queue == ["how humid is it?"]


def test_words_that_look_like_ours_are_sent_as_they_are() -> None:
    bench = Bench(calls(MEASURE), says("ok"))
    bench.turn(Person(ToolRun_1=["{content} {tools} \\1"]))
    assert bench.sent()[-1].endswith("\n{content} {tools} \\1")


def test_an_emptied_template_loses_no_word() -> None:
    bench = Bench(calls(MEASURE), says("ok"))
    agent = Agent(bench.model, bench.toolset, {**PROMPTS, "meanwhile": ""}, bench.limits, 32_768, 100, bench.clock)
    turn = agent.turn(TurnContext("", "go"), (), CALLER, Person(ToolRun_1=["the cellar"]).around())
    assert Message("user", "the cellar") in turn.messages


def test_what_was_asked_for_anew_is_no_repetition() -> None:
    bench = Bench(*[calls(SWITCH)] * 4, says("Switched four times."))
    turn = bench.turn(Person(ToolRun_1=["again"], ToolRun_2=["and again"], ToolRun_3=["once more"]))
    assert (turn.stopped, len(bench.toolbox.used)) == ("", 4)


def test_a_value_is_measured_for_the_newest_question() -> None:
    bench = Bench(calls(MEASURE), says("The humidity is 50 %."), says("I cannot say."))
    turn = bench.turn(Person(ToolRun_1=["how humid is the cellar?"]))
    assert turn.messages[-2] == Message("user", "how humid is the cellar? Measure it.")


class Witness:
    """Tools that look at who asks."""

    def __init__(self) -> None:
        self.said: list[tuple[str, ...]] = []

    @tool(effect="read")
    def look(self, caller: Caller) -> str:
        """Look at what the person has said."""
        self.said.append(caller.user_texts)
        return "seen"


def test_a_tool_knows_what_was_said_meanwhile() -> None:
    witness, look = Witness(), ToolCall("w", "look")
    model = Scripted(calls(look), calls(look), says("ok"))
    agent = Agent(model, toolset_of(witness), PROMPTS, LimitsConfig(), 32_768, 100)
    agent.turn(TurnContext("", "go"), (), CALLER, Person(ToolRun_1=["yes, delete it"]).around())
    assert witness.said == [(), ("yes, delete it",)]


ENDINGS: list[tuple[str, list[Any], dict[str, Any], str, bool]] = [
    # how the turn ends, the model's further answers, the limits, the reply's end, whether the words were heard
    ("error", [[Unavailable("away")]], {}, "[failed: away]", False),
    ("error", [[Text("The cel"), Unavailable("away")]], {}, "The cel\n[failed: away]", True),
    ("error", [[ContextOverflow("too long")]], {}, "[failed: too long]", False),
    ("stopped", [[TurnStopped()]], {}, "[stopped]", True),
    ("stopped", [[KeyboardInterrupt()]], {}, "[stopped]", True),
    ("stopped", [[Text("The cel"), TurnStopped()]], {}, "The cel\n[stopped]", True),
    ("seconds", [[DeadlinePassed("late")], says("No time.")], {}, "No time.", True),
    ("seconds", [[Text("The"), DeadlinePassed("late")], [Unavailable("away")]], {}, "newest temperature 21.4]", True),
    ("seconds", [[DeadlinePassed("late")], [Unavailable("away")]], {}, "newest temperature 21.4]", False),
    ("seconds", [[DeadlinePassed("late")], says("")], {}, "newest temperature 21.4]", True),
    ("steps", [says("Later.")], {"steps": 1}, "Later.", True),
    ("steps", [[Unavailable("away")]], {"steps": 1}, "newest temperature 21.4]", False),
    ("tokens", [says("Later.")], {"tokens": 100}, "Later.", True),
]


@each_row(("how", "then", "limits", "reply", "heard"), ENDINGS)
def test_however_the_turn_ends_the_words_are_in_it_or_handed_back(
    how: str, then: list[Any], limits: dict[str, Any], reply: str, heard: bool
) -> None:
    first = calls(MEASURE, SWITCH, usage=Usage(99, 1))
    bench = Bench(first, *then, limits=LimitsConfig(**limits) if limits else None)
    turn = bench.turn(Person(ToolRun_1=["the cellar, please"]))
    assert (turn.stopped, bench.toolbox.used) == (how, [("measure", "temperature")])
    assert turn.reply.endswith(reply)
    assert turn.messages.count(CELLAR) == heard
    assert turn.unanswered_texts == (() if heard else ("the cellar, please",))


def test_a_reached_limit_takes_no_more_words() -> None:
    """They are the next turn, which has limits of its own."""
    person = Person(ToolRun_1=["the cellar, please"])
    bench = Bench(calls(MEASURE), says("Got so far."), limits=LimitsConfig(steps=1))
    turn = bench.turn(person)
    assert (turn.stopped, turn.unanswered_texts, person.queue) == ("steps", (), ["the cellar, please"])


def test_a_person_who_never_stops_talking_does_not_outtalk_the_limits() -> None:
    bench = Bench(*[calls(SWITCH)] * 5, says("Enough."), limits=LimitsConfig(steps=5))
    person = Person(**{f"End_{number}": [f"wait {number}"] for number in range(9)})
    turn = bench.turn(person)
    assert (turn.stopped, turn.reply, bench.toolbox.used) == ("steps", "Enough.", [])
    assert len([m for m in turn.messages if m.role == "user"]) + len(person.queue) == 1 + 6


# What may be called


@each_row(
    ("only", "may", "made"),
    [
        (None, None, True),
        (None, {"switch", "measure"}, True),
        (None, {"measure"}, False),
        (None, set(), False),
        ({"switch"}, {"measure"}, False),
        ({"measure"}, None, False),
        ({"switch", "measure"}, {"switch"}, True),
    ],
)
def test_a_caller_that_may_not_call_everything(only: Any, may: Any, made: bool) -> None:
    bench = Bench(calls(SWITCH), says("ok"))
    caller = Caller("terminal", "subagent", CALLER.now, CALLER.say, may=None if may is None else frozenset(may))
    brief = TurnContext("", "go", only=None if only is None else frozenset(only))
    turn = checked(bench.agent.turn(brief, (), caller))
    assert bench.toolbox.used == ([("switch", 17, True)] if made else [])
    assert turn.tools[0].result.startswith("pin 17" if made else "error: switch is not among ")


# Kept as it goes, and gone on with


def roles(messages: Sequence[Message]) -> str:
    return "".join(m.role[0] for m in messages)


def test_a_turn_is_handed_on_before_something_is_done_and_after_each_round() -> None:
    """Reading alone is handed on once a round: it may be done again."""
    person = Person()
    bench = Bench(calls(MEASURE, LIGHT), calls(MEASURE, SWITCH, LIGHT), calls(SWITCH, NOTE), says("ok"))
    turn = bench.turn(person)
    assert [roles(kept) for kept in person.kept] == [
        "uatt",
        *("uattat", "uattatt", "uattattt"),
        *("uattattta", "uattatttat", "uattatttatt"),
    ]
    assert all(turn.messages[: len(kept)] == kept for kept in person.kept)


def test_what_is_done_was_handed_on_before() -> None:
    seen: list[str] = []
    person, bench = Person(), Bench(calls(SWITCH), says("ok"))
    bench.toolset = Toolset(
        [bench.toolbox],
        guard=lambda *_: seen.append(roles(person.kept[-1])),
        journal=lambda *_: None,
        longest_result=1000,
    )
    Agent(bench.model, bench.toolset, PROMPTS, bench.limits, 32_768, 100).turn(
        TurnContext("", "go"), (), CALLER, person.around()
    )
    assert seen == ["ua"]


def begun(*given: Message) -> list[Message]:
    return [Message("user", "how warm is it?"), *given]


def asked(*wanted: ToolCall) -> Message:
    return Message("assistant", "", wanted)


def gave(call: ToolCall, text: str) -> Message:
    return Message("tool", text, call_id=call.id)


RESUMED: list[tuple[str, list[Message], list[Any], list[str]]] = [
    # what was handed on, what is done now, the results that the next request shows
    ("nothing yet", begun(), [], []),
    ("a read", begun(asked(MEASURE)), [("measure", "temperature")], ["temperature 21.4"]),
    ("an act", begun(asked(SWITCH)), [], ["error: cut off"]),
    ("an act between reads", begun(asked(MEASURE, SWITCH, LIGHT), gave(MEASURE, "temperature 3")), [("measure", "light")], ["temperature 3", "error: cut off", "light 21.4"]),
    ("a call that there is not", begun(asked(ToolCall("x", "wish"))), [], ["error: cut off"]),
    ("a whole round", begun(asked(MEASURE), gave(MEASURE, "temperature 3")), [], ["temperature 3"]),
]  # fmt: skip


@each_row(("so_far", "done", "results"), [row[1:] for row in RESUMED], ids=[row[0] for row in RESUMED])
def test_a_turn_is_gone_on_with(so_far: list[Message], done: list[Any], results: list[str]) -> None:
    bench, person = Bench(says("ok")), Person()
    turn = checked(bench.agent.turn(TurnContext("Be brief.", so_far[0].text), (), CALLER, person.around(), so_far))
    assert bench.toolbox.used == done
    assert [m.text for m in bench.model.requests[0].messages if m.role == "tool"] == results
    assert turn.messages[: len(so_far)] == tuple(so_far)
    assert (turn.reply, turn.stopped, [run.result for run in turn.tools]) == ("ok", "", results)


def test_a_stop_that_came_before_a_turn_goes_on_leaves_its_open_calls_undone() -> None:
    stop, bench = Stop(), Bench()
    stop.set()
    open_turn = begun(asked(MEASURE, SWITCH))
    turn = checked(bench.agent.turn(TurnContext("", "go"), (), CALLER, Person().around(stop=stop), open_turn))
    assert (turn.stopped, bench.toolbox.used, bench.model.requests) == ("stopped", [], [])
    assert [m.text for m in turn.messages if m.role == "tool"] == ["error: not run"] * 2


def test_a_turn_that_was_answered_already_asks_nobody() -> None:
    bench = Bench()
    turn = bench.agent.turn(TurnContext("", "hello"), (), CALLER, NO_HOOKS, begun(Message("assistant", "It is warm.")))
    assert (turn.reply, turn.steps, bench.model.requests) == ("It is warm.", 0, [])


def test_repetition_is_noticed_across_the_break() -> None:
    before = [m for _ in range(2) for m in (asked(SWITCH), gave(SWITCH, "pin 17 is on"))]
    bench = Bench(calls(SWITCH), says("It is on."))
    turn = bench.agent.turn(TurnContext("", "go"), (), CALLER, NO_HOOKS, begun(*before))
    assert (turn.stopped, bench.toolbox.used) == ("repeated", [])
    assert turn.messages[-2].text.startswith("error: made already: pin 17 is on")


def test_whatever_the_moment_of_the_cut_nothing_is_done_twice() -> None:
    """Cut a turn after each thing that happens, go on from what was handed on, and count what was done."""
    script = [calls(MEASURE, SWITCH), calls(NOTE, LIGHT), says("Done.")]
    for cut in range(1, 12):
        bench, person = Bench(*script), Person()

        def hear(event: Event | ToolRun, person: Person = person, cut: int = cut) -> None:
            person.shown.append(event)
            if len(person.shown) == cut:
                raise SystemExit  # which nobody catches, as nobody does kill -9

        around = TurnHooks(listen=hear, keep=person.kept.append)
        try:
            turn = bench.agent.turn(TurnContext("", "how warm is it?"), (), CALLER, around)
        except SystemExit:
            so_far = person.kept[-1] if person.kept else begun()
            answers = roles(so_far).count("a")
            again = Bench(*script[answers:])
            again.toolbox.used = bench.toolbox.used
            again.agent = Agent(again.model, toolset_of(bench.toolbox), PROMPTS, again.limits, 32_768, 100)
            turn = again.agent.turn(TurnContext("", "how warm is it?"), (), CALLER, NO_HOOKS, so_far)
        assert checked(turn).reply == "Done."
        for act in ("switch", "note"):
            assert sum(use[0] == act for use in bench.toolbox.used) <= 1, (cut, bench.toolbox.used)
            told = [m.text for m in turn.messages if m.role == "tool"]
            assert (act in {use[0] for use in bench.toolbox.used}) or "error: cut off" in told


# The summary


EARLIER = tuple((Message("user", f"{i} {'x' * 300}"), Message("assistant", f"ok {i}")) for i in range(6))
HEAD = "<moment>summed up: the key is under the mat< /moment></moment>\n"
TOLD = TurnContext("Be brief.", "where is it?", summary="the key is under the mat</moment>")


@each_row(
    ("earlier", "window", "first"), [((), 32_768, "where is it?"), (EARLIER, 32_768, "0 x"), (EARLIER, 900, "3 x")]
)
def test_a_summary_stands_before_all_that_is_shown_and_is_kept_nowhere(earlier: Any, window: int, first: str) -> None:
    bench = Bench(calls(MEASURE), says("Under the mat."), window=window)
    turn = checked(bench.agent.turn(TOLD, earlier, CALLER))
    for request in bench.model.requests:
        texts = [message.text for message in request.messages]
        assert texts[0].startswith(HEAD + first)
        assert sum(HEAD in text for text in texts) == 1
        check_body(openai.build_body(request, "m", stream=False))
    assert not any(HEAD in message.text for message in turn.messages)


def test_a_summary_takes_its_room_in_the_window() -> None:
    def forgotten(summary: str) -> int:
        bench = Bench(says("ok"), window=1300)
        return bench.agent.turn(TurnContext("", "well?", summary=summary), EARLIER, CALLER).forgotten

    assert (forgotten(""), forgotten("the key is under the mat " * 80)) == (0, 3)


def test_an_emptied_template_leaves_the_summary_there() -> None:
    bench = Bench(says("ok"))
    agent = Agent(bench.model, bench.toolset, {**PROMPTS, "summarised": ""}, bench.limits, 32_768, 100)
    agent.turn(TOLD, (), CALLER)
    assert bench.sent()[0].startswith("u the key is under the mat")


# At the desk


def test_what_is_said_meanwhile_is_in_the_database_and_a_summary_is_not(tmp_path: Path) -> None:
    """The words with half a character as well, which no database takes."""
    lines = [["caf\udce9, please"], [], []]
    with ModelServer([reply("", call("sensor_list")), reply("In the café."), reply("There.")]) as server:
        app = App(Config(tmp_path, ModelConfig(base_url=server.url)), SimBoard())
        with closing(app):
            app.dispatcher.answer(Inbound("terminal", "where is it?"), TurnHooks(typed=lambda: lines.pop(0)))
            (turn,) = app.stores.history.turns("terminal")
            assert turn[-2].text.endswith("</moment>\ncaf?, please")
            assert "caf?, please" in server.requests[1].said
            ((number, _),) = app.stores.sessions.unsummarised("terminal")
            assert app.stores.sessions.add_summary("terminal", "The key is under the mat.", number, app.now(), 0)
            app.dispatcher.answer(Inbound("terminal", "and now?"))
            assert not any("under the mat" in m.text for turn in app.stores.history.turns("terminal") for m in turn)
        first = server.requests[2].body["messages"][1]
        assert first["role"] == "user"
        assert "under the mat" in first["content"]
