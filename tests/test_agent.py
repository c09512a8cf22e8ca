"""The loop: whatever a model, a tool or a person does, the turn ends and its conversation stays valid."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rows import each_row
from scripted import CALLER, PROMPTS, Clock, Scripted, Step, Toolbox, calls, says, toolset_of
from validity import check_body, check_conversation

from picoclaw.agent.loop import Agent
from picoclaw.answers import REPEATS
from picoclaw.config.tables import LimitsConfig
from picoclaw.errors import ContextOverflow, DeadlinePassed, Refused, TurnStopped, Unavailable
from picoclaw.messages import (
    End,
    Event,
    Message,
    Notice,
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
from picoclaw.prompts import fill_template
from picoclaw.providers import openai
from picoclaw.records import replace
from picoclaw.security.untrusted import OWN_TEXT_MARK
from picoclaw.tools.registry import tool

MEASURE = ToolCall("a", "measure", {"quantity": "temperature"})
SWITCH = ToolCall("b", "switch", {"pin": 17, "on": True})
EARLIER = ((Message("user", "hello"), Message("assistant", "Hello.")),)


class Bench:
    """An agent with a scripted provider, a toolbox and a clock, all of which can be looked at afterwards."""

    def __init__(
        self,
        *answers: Iterable[Step],
        limits: LimitsConfig | None = None,
        window: int = 32_768,
        clock: Clock | None = None,
        earlier: Sequence[tuple[Message, ...]] = (),
        writes: Callable[[ToolCall], bool] = lambda _: False,
    ) -> None:
        self.clock = clock or Clock()
        self.provider = Scripted(*answers)
        self.toolbox = Toolbox(self.clock)
        self.heard: list[Event | ToolRun] = []
        self.earlier = earlier
        self.agent = Agent(
            self.provider,
            toolset_of(self.toolbox, longest_result=100_000),
            PROMPTS,
            limits or LimitsConfig(),
            window,
            100,
            self.clock,
            writes,
        )

    def turn(self, text: str = "how warm is it?", stop: Stop | None = None) -> Turn:
        turn = self.agent.turn(
            TurnContext("Be brief.", text), self.earlier, CALLER, TurnHooks(listen=self.heard.append, stop=stop)
        )
        check_conversation(turn.messages)
        assert turn.messages[0] == Message("user", text)
        assert turn.messages[-1].text == turn.reply
        shown = (*(m for one in self.earlier for m in one), *turn.messages, Message("user", "and now?"))
        check_body(openai.build_body(Request("Be brief.", shown, (), 100, 0.0), "m", stream=False))
        return turn

    def results(self, turn: Turn) -> list[str]:
        return [m.text for m in turn.messages if m.role == "tool"]

    def last_asked(self) -> str:
        return self.provider.requests[-1].messages[-1].text


class StopAfter(Stop):
    """A person who says stop when `count` events of a kind were shown."""

    def __init__(self, bench: Bench, kind: type[Any], count: int = 1) -> None:
        super().__init__()
        self.said = lambda: sum(isinstance(event, kind) for event in bench.heard) >= count

    def __bool__(self) -> bool:
        return self.said()


def test_a_plain_answer() -> None:
    bench = Bench(says("It is warm."), earlier=EARLIER)
    turn = bench.turn()
    assert (turn.reply, turn.steps, turn.stopped, turn.provider) == ("It is warm.", 1, "", "scripted")
    assert turn.usage == Usage(7, 3)
    request = bench.provider.requests[0]
    assert request.system == "Be brief."
    assert request.messages == (*EARLIER[0], Message("user", "how warm is it?"))
    assert {t["name"] for t in request.tools} >= {"measure", "switch"}
    assert request.deadline == 1000.0 + LimitsConfig().seconds


def test_a_defect_of_ours_ends_the_turn_and_not_the_process() -> None:
    bench = Bench([Text("It is "), IndexError("list index out of range")], says("It is warm."))
    turn = bench.turn()
    assert turn.stopped == "error"
    assert turn.notice.failed
    assert "IndexError in scripted.py, line " in turn.notice.text
    assert "say it in other words" in turn.notice.text
    assert bench.turn().reply == "It is warm."


def test_tools_run_in_order_and_their_results_go_back() -> None:
    bench = Bench(calls(MEASURE, SWITCH), calls(ToolCall("c", "measure", {"quantity": "light"})), says("Done."))
    turn = bench.turn()
    assert bench.toolbox.used == [("measure", "temperature"), ("switch", 17, True), ("measure", "light")]
    assert bench.results(turn) == ["temperature 21.4", "pin 17 is on", "light 21.4"]
    assert (turn.tools[0].name, turn.tools[0].result) == ("measure", "temperature 21.4")
    assert (turn.reply, turn.steps, turn.usage) == ("Done.", 3, Usage(21, 9))
    assert [m.role for m in bench.provider.requests[1].messages] == ["user", "assistant", "tool", "tool"]


def test_what_is_heard_comes_in_order() -> None:
    bench = Bench(calls(MEASURE, text="One moment."), says("21"))
    bench.turn()
    kinds = [type(event).__name__ for event in bench.heard]
    assert kinds == ["Text", "End", "ToolCall", "ToolRun", "Text", "Text", "End"]


def test_text_beside_calls_is_kept() -> None:
    turn = Bench(calls(MEASURE, text="One moment."), says("21")).turn()
    assert turn.messages[1].text == "One moment."
    assert turn.reply == "21"


def test_notice_of_the_provider_is_handed_on() -> None:
    turn = Bench([Notice("answered without a model"), *says("21")]).turn()
    assert turn.notice == Notice("answered without a model")
    assert not turn.stopped


@each_row(
    ("call", "told"),
    [
        (ToolCall("a", "measur"), "measure"),
        (ToolCall("a", ""), "no tool ''"),
        (ToolCall("a", "no such/tool\n"), "no tool"),
        (ToolCall("a", "x" * 300), "no tool"),
        (ToolCall("a", "switch", {"pin": "seventeen", "on": True}), "pin"),
        (ToolCall("a", "switch", {"pin": 17}), "on"),
        (ToolCall("a", "switch", {}, '{"pin": 1'), '{"pin": 1'),
        (ToolCall("a", "fail"), "wake it first"),
        (ToolCall("a", "explode"), "ZeroDivisionError"),
    ],
    ids=lambda value: value.name[:12] if isinstance(value, ToolCall) else "",
)
def test_a_call_that_fails_is_told_to_the_model(call: ToolCall, told: str) -> None:
    bench = Bench(calls(call), says("I could not."))
    turn = bench.turn()
    assert bench.results(turn)[0].startswith("error: ")
    assert told in bench.results(turn)[0]
    assert (turn.reply, turn.stopped) == ("I could not.", "")
    assert not [use for use in bench.toolbox.used if use[0] == "switch"]


def test_a_failing_call_does_not_keep_the_next_from_running() -> None:
    bench = Bench(calls(ToolCall("a", "explode"), SWITCH), says("ok"))
    bench.turn()
    assert bench.toolbox.used == [("explode",), ("switch", 17, True)]


def test_half_a_character_in_a_result_is_replaced() -> None:
    bench = Bench(calls(ToolCall("a", "garble")), says("ok"))
    assert bench.results(bench.turn()) == ["caf?.txt"]


def test_duplicate_call_ids_in_one_message() -> None:
    twice = (MEASURE, ToolCall("a", "switch", {"pin": 1, "on": False}))
    bench = Bench(calls(*twice), says("ok"))
    turn = bench.turn()
    assert bench.results(turn) == ["temperature 21.4", "pin 1 is off"]
    body = openai.build_body(bench.provider.requests[1], "m", stream=False)
    check_body(body)
    assert [m["content"] for m in body["messages"][-2:]] == ["temperature 21.4", "pin 1 is off"]


@each_row("answer", [says(""), says(" \n"), []])
def test_an_empty_answer_is_named(answer: list[Step]) -> None:
    turn = Bench(answer).turn()
    assert (turn.reply, turn.stopped) == ("[empty]", "")


def test_an_answer_cut_at_its_limit_says_so() -> None:
    turn = Bench(says("It is wa", finish="length")).turn()
    assert turn.reply == "It is wa\n[cut at 100 tokens]"


# Limits


def rounds(count: int) -> list[list[Step]]:
    return [calls(ToolCall("a", "measure", {"quantity": f"number {i}"})) for i in range(count)]


def test_step_limit_gets_a_last_word_without_tools() -> None:
    bench = Bench(*rounds(3), says("Got as far as 3."), limits=LimitsConfig(steps=3))
    turn = bench.turn()
    assert (turn.stopped, turn.reply, turn.steps) == ("steps", "Got as far as 3.", 4)
    first, last = bench.provider.requests[0], bench.provider.requests[-1]
    assert (first.calls, last.calls) == (True, False)
    assert last.tools == first.tools  # the bytes before the messages stay the same
    assert bench.last_asked().endswith(f"\n{OWN_TEXT_MARK}\nLast step: the limit of 3 steps is reached.")


def test_token_limit() -> None:
    bench = Bench(calls(MEASURE, usage=Usage(90, 10)), says("So far."), limits=LimitsConfig(tokens=100))
    assert (bench.turn().stopped, bench.provider.requests[-1].calls) == ("tokens", False)


def test_time_limit_after_a_slow_tool() -> None:
    slow = ToolCall("a", "dawdle", {"seconds": 61})
    bench = Bench(calls(slow), says("It took long."), limits=LimitsConfig(seconds=60))
    turn = bench.turn()
    assert (turn.stopped, turn.reply) == ("seconds", "It took long.")
    assert bench.provider.requests[-1].deadline == 1061 + 60


def test_time_limit_between_the_calls_of_one_message() -> None:
    slow = [ToolCall("a", "dawdle", {"seconds": 40 + i}) for i in range(4)]
    bench = Bench(calls(*slow), says("It took long."), limits=LimitsConfig(seconds=60))
    turn = bench.turn()
    assert turn.stopped == "seconds"
    assert len(bench.toolbox.used) == 2
    assert [r.partition("\n")[0] for r in bench.results(turn)[2:]] == ["error: not run"] * 2


@each_row("said", ["", "It is wa"])
def test_time_limit_in_the_middle_of_an_answer(said: str) -> None:
    cut: list[Step] = [*([Text(said)] if said else []), DeadlinePassed("too long")]
    bench = Bench(cut, says("I ran out of time."), limits=LimitsConfig(seconds=60))
    turn = bench.turn()
    assert (turn.stopped, turn.reply) == ("seconds", "I ran out of time.")
    assert [m.text for m in turn.messages if m.role == "assistant"] == [*([said] if said else []), turn.reply]


@each_row(
    ("last", "reply"),
    [
        ([Unavailable("gone")], "[unfinished: the limit of 1 steps is reached; used measure; newest temperature 21.4]"),
        ([DeadlinePassed("late")], "[unfinished: the limit of 1 steps"),
        (says(""), "[unfinished: the limit of 1 steps"),
        (calls(SWITCH), "[unfinished: the limit of 1 steps"),
        ([Text("Half an ans"), Unavailable("gone")], "Half an ans\n[unfinished: the limit of 1 steps"),
        ([Text("Half"), *calls(SWITCH)], "Half"),
    ],
    ids=["error", "late", "empty", "calls", "half", "text and calls"],
)
def test_last_word_that_fails(last: list[Step], reply: str) -> None:
    bench = Bench(calls(MEASURE), last, limits=LimitsConfig(steps=1))
    turn = bench.turn()
    assert turn.stopped == "steps"
    assert turn.reply.startswith(reply)
    assert bench.toolbox.used == [("measure", "temperature")]


def test_last_word_failing_before_any_tool() -> None:
    turn = Bench([DeadlinePassed("late")], [Unavailable("gone")]).turn()
    assert turn.reply == "[unfinished: the limit of 300 seconds is reached; used nothing; newest none]"
    assert turn.notice == Notice("gone", failed=True)


@each_row("last", [[TurnStopped()], [KeyboardInterrupt()], [Text("Half"), KeyboardInterrupt()]])
def test_stop_during_the_last_word(last: list[Step]) -> None:
    turn = Bench(calls(MEASURE), last, limits=LimitsConfig(steps=1)).turn()
    assert turn.stopped == "stopped"
    assert turn.reply.endswith("[stopped]")


@each_row(
    ("call", "made", "done"),
    [(MEASURE, 3, 3), (MEASURE, 4, 3), (SWITCH, 2, 2), (SWITCH, 3, 2), (ToolCall("f", "fail"), 3, 2)],
)
def test_the_same_is_looked_up_three_times_and_done_twice(call: ToolCall, made: int, done: int) -> None:
    bench = Bench(*[calls(call)] * made, says("It stays so."))
    turn = bench.turn()
    assert (turn.stopped, turn.reply) == ("repeated" if made > done else "", "It stays so.")
    assert len(bench.toolbox.used) == done


def test_a_call_that_is_not_made_again_gives_its_newest_result() -> None:
    bench = Bench(*[calls(MEASURE)] * 4, says("It stays at 21.4."))
    turn = bench.turn()
    assert bench.results(turn)[-1].startswith("error: made already: temperature 21.4")


def test_the_same_call_four_times_in_one_message() -> None:
    bench = Bench(calls(MEASURE, MEASURE, MEASURE, MEASURE), says("ok"))
    assert (bench.turn().stopped, len(bench.toolbox.used)) == ("repeated", 3)


def test_the_same_broken_call_is_a_repetition_too() -> None:
    broken = ToolCall("a", "switch", {}, "{")
    assert Bench(calls(broken), calls(broken), calls(broken), says("I give up.")).turn().stopped == "repeated"


LIGHT = ToolCall("l", "measure", {"quantity": "light"})


def test_two_calls_that_only_look_and_take_turns_are_not_made_a_third_time() -> None:
    bench = Bench(*[calls(one) for one in (MEASURE, LIGHT, MEASURE, LIGHT, MEASURE)], says("It stays at 21.4."))
    turn = bench.turn()
    assert (turn.stopped, turn.reply, len(bench.toolbox.used)) == ("repeated", "It stays at 21.4.", 4)
    assert bench.results(turn)[-1].startswith("error: made already: temperature 21.4\n")


def test_two_values_may_be_compared_twice() -> None:
    bench = Bench(*[calls(one) for one in (MEASURE, LIGHT, MEASURE, LIGHT)], says("Both stay."))
    turn = bench.turn()
    assert (turn.stopped, turn.reply, len(bench.toolbox.used)) == ("", "Both stay.", 4)


def test_a_lamp_may_go_on_and_off() -> None:
    bench = Bench(*[calls(one) for _ in range(4) for one in (MEASURE, SWITCH)], says("Done."))
    turn = bench.turn()
    assert (turn.stopped, turn.reply, len(bench.toolbox.used)) == ("", "Done.", 8)


def test_same_tool_with_other_arguments_is_no_repetition() -> None:
    bench = Bench(*rounds(5), says("Done."))
    assert (bench.turn().stopped, len(bench.toolbox.used)) == ("", 5)


NOTE = ToolCall("n", "note", {"text": "the key is under the mat"})


@each_row(
    ("made", "noted"),
    [
        ([NOTE, NOTE], 1),
        ([NOTE, NOTE, NOTE], 1),
        ([NOTE, MEASURE, NOTE], 2),
        ([NOTE, ToolCall("n", "note", {"text": "and more"})], 2),
        ([ToolCall("n", "note", {}), NOTE], 1),
    ],
)
def test_the_same_is_written_once_in_a_row(made: list[ToolCall], noted: int) -> None:
    bench = Bench(*map(calls, made), says("Noted."), writes=lambda call: call.name == "note")
    turn = bench.turn()
    assert turn.reply == "Noted."
    assert len([use for use in bench.toolbox.used if use[0] == "note"]) == noted
    if made == [NOTE, NOTE]:
        assert bench.results(turn)[-1] == "error: written already: noted: the key is under the mat"


def test_a_write_that_failed_may_be_tried_again() -> None:
    again = ToolCall("f", "fail")
    bench = Bench(calls(again), calls(again), says("It sleeps."), writes=lambda _: True)
    bench.turn()
    assert bench.toolbox.used == [("fail",), ("fail",)]


# Answers that are none


@each_row(
    ("rounds", "reply"),
    [
        ([calls(MEASURE), says("")], "[measure gave temperature 21.4]"),
        ([calls(MEASURE), says(" \n")], "[measure gave temperature 21.4]"),
        ([calls(MEASURE), calls(ToolCall("f", "fail")), says("")], "[measure gave temperature 21.4]"),
        ([calls(ToolCall("f", "fail")), says("")], "[empty]"),
        ([says("")], "[empty]"),
        ([calls(ToolCall("r", "recite", {"characters": 5000})), says("")], f"[recite gave {'x' * 999}…]"),
    ],
)
def test_an_empty_answer_after_a_result_tells_the_result(rounds: list[list[Step]], reply: str) -> None:
    assert Bench(*rounds).turn().reply == reply


def test_an_answer_that_only_repeats_itself_is_ended_and_the_server_hung_up_on() -> None:
    text = "Well: " + "- Alerts\n- Maintenance schedule\n" * 60
    bench = Bench([Text(text), End(REPEATS, Usage(7, 3)), Text("never heard")])
    turn = bench.turn()
    assert turn.reply == "Well: - Alerts\n- Maintenance schedule\n[repeats]"
    assert bench.provider.hung_up == 1
    assert bench.heard == [Text(text), End(REPEATS, Usage(7, 3))]


INVENTED = says("The humidity is 50 %.")


@each_row(
    ("rounds", "earlier", "reply"),
    [
        ([INVENTED, calls(MEASURE), says("It is 21.4 °C.")], (), "It is 21.4 °C."),
        ([INVENTED, says("I cannot measure that.")], (), "I cannot measure that."),
        ([INVENTED, INVENTED], (), "The humidity is 50 %.\n[not measured: 50 %]"),
        ([calls(MEASURE), says("The humidity is 21.4 %.")], (), "The humidity is 21.4 %."),
        ([INVENTED], ((Message("user", "50 % here"), Message("assistant", "Fine.")),), "The humidity is 50 %."),
        ([INVENTED, says("Well.")], ((Message("user", "well?"), Message("assistant", "The humidity is 50 %.")),), "Well."),
        ([says("Water boils at 100 °C.")], (), "Water boils at 100 °C."),
    ],
)  # fmt: skip
def test_what_nobody_measured_is_marked_and_the_model_sent_to_measure(
    rounds: list[list[Step]], earlier: Any, reply: str
) -> None:
    bench = Bench(*rounds, earlier=earlier)
    turn = bench.turn("well?")
    assert (turn.reply, turn.stopped) == (reply, "")
    invented = rounds[0] is INVENTED and len(rounds) > 1
    assert (turn.messages[1].text == "The humidity is 50 %.\n[not measured: 50 %]") == invented
    assert (Message("user", "well? Measure it.") in turn.messages) == invented
    assert (Text("\n[not measured: 50 %]\n") in bench.heard) == invented


@each_row("first", [ToolCall("f", "fail"), SWITCH, MEASURE])
def test_a_call_that_gave_no_such_value_bears_none_out(first: ToolCall) -> None:
    turn = Bench(calls(first), INVENTED, says("I cannot say.")).turn("how humid is it?")
    assert turn.reply == "I cannot say."
    assert Message("assistant", "The humidity is 50 %.\n[not measured: 50 %]") in turn.messages


@each_row(
    ("head", "reply"),
    [
        ("Sunday 2026-11-22 05:50 UTC", "[not measured: 50 %]"),
        ("Sunday; 50 tools", "[not measured: 50 %]"),
        ("Sunday\n- the cellar has 50 %", "is 50 %."),
    ],
)
def test_the_head_of_a_message_bears_out_only_what_has_a_unit(head: str, reply: str) -> None:
    turn = Bench(INVENTED, INVENTED).turn(f"<moment>{head}</moment>\nhow humid is it?")
    assert turn.reply.endswith(reply)


@each_row("offered", [frozenset(), frozenset({"switch"})])
def test_nobody_is_sent_to_measure_without_a_tool_that_measures(offered: frozenset[str]) -> None:
    bench = Bench(INVENTED)
    turn = bench.agent.turn(TurnContext("Be brief.", "how humid is it?", tools=offered), (), CALLER)
    assert turn.reply == "The humidity is 50 %."


# Stop and Ctrl-C


def test_stop_in_the_middle_of_an_answer_hangs_up_and_keeps_what_was_said() -> None:
    bench = Bench([Text("It is "), Text("warm, "), Text("never said")])
    turn = bench.turn(stop=StopAfter(bench, Text, 2))
    assert (turn.stopped, turn.reply) == ("stopped", "It is warm, \n[stopped]")
    assert bench.provider.hung_up == 1


def test_stop_between_tools_leaves_the_rest_undone() -> None:
    bench = Bench(calls(MEASURE, SWITCH, SWITCH))
    turn = bench.turn(stop=StopAfter(bench, ToolRun))
    assert bench.toolbox.used == [("measure", "temperature")]
    assert bench.results(turn) == ["temperature 21.4", "error: not run", "error: not run"]
    assert (turn.stopped, turn.reply) == ("stopped", "[stopped]")


def test_stop_after_the_tools_makes_no_further_request() -> None:
    bench = Bench(calls(MEASURE))
    assert bench.turn(stop=StopAfter(bench, ToolRun)).stopped == "stopped"
    assert len(bench.provider.requests) == 1


def test_stop_before_anything() -> None:
    bench = Bench()
    turn = bench.turn(stop=StopAfter(bench, Text, 0))
    assert (turn.reply, bench.provider.requests) == ("[stopped]", [])


@each_row("before", [[], [Text("It is ")], [MEASURE]], ids=["silent", "text", "call"])
def test_ctrl_c_while_the_model_answers(before: list[Step]) -> None:
    bench = Bench([*before, KeyboardInterrupt()])
    turn = bench.turn()
    assert turn.stopped == "stopped"
    assert turn.reply == ("It is \n[stopped]" if before == [Text("It is ")] else "[stopped]")
    assert not bench.toolbox.used


def test_ctrl_c_in_a_tool() -> None:
    bench = Bench(calls(MEASURE, ToolCall("b", "interrupted"), SWITCH))
    turn = bench.turn()
    assert turn.stopped == "stopped"
    assert bench.results(turn) == ["temperature 21.4", "error: not run", "error: not run"]
    assert bench.toolbox.used == [("measure", "temperature"), ("interrupted",)]


@each_row("kind", [Text, ToolCall, ToolRun])
def test_ctrl_c_while_an_event_is_shown(kind: type[Any]) -> None:
    bench = Bench(calls(MEASURE, SWITCH, text="One moment."), says("never"))

    def shown(event: Event | ToolRun) -> None:
        if isinstance(event, kind):
            raise KeyboardInterrupt

    turn = bench.agent.turn(TurnContext("", "hello"), (), CALLER, TurnHooks(listen=shown))
    check_conversation(turn.messages)
    assert turn.stopped == "stopped"


# Errors of the provider


@each_row("error", [Unavailable("the server\nis away"), Refused("the server\nis away")])
def test_an_error_at_once(error: BaseException) -> None:
    turn = Bench([error]).turn()
    assert (turn.stopped, turn.reply) == ("error", "[failed: the server is away]")
    assert turn.notice == Notice("the server is away", failed=True)
    assert [m.role for m in turn.messages] == ["user", "assistant"]


def test_an_error_in_the_middle_of_an_answer_keeps_what_was_said() -> None:
    turn = Bench([Text("It is "), Unavailable("broke off")]).turn()
    assert turn.reply == "It is \n[failed: broke off]"


def test_an_error_after_tools_keeps_their_results() -> None:
    bench = Bench(calls(MEASURE), [Unavailable("away")])
    turn = bench.turn()
    assert (turn.stopped, bench.results(turn)) == ("error", ["temperature 21.4"])


def test_calls_of_an_answer_that_broke_off_are_never_run() -> None:
    bench = Bench([SWITCH, Unavailable("broke off")])
    turn = bench.turn()
    assert not bench.toolbox.used
    assert not any(m.calls for m in turn.messages)


# The window


def history(turns: int, size: int = 400) -> tuple[tuple[Message, ...], ...]:
    return tuple((Message("user", f"{i} " + "x" * size), Message("assistant", f"ok {i}")) for i in range(turns))


def test_long_history_is_shortened_before_it_is_sent() -> None:
    bench = Bench(says("ok"), window=1500, earlier=history(12))
    turn = bench.turn()
    assert turn.forgotten == 6
    assert bench.provider.requests[0].messages[0].text.startswith("6 ")


def test_overflow_takes_earlier_turns_first_and_results_next() -> None:
    overflow: list[Step] = [ContextOverflow("too long")]
    recite = ToolCall("a", "recite", {"characters": 2000})
    bench = Bench(calls(recite), overflow, overflow, overflow, says("ok"), earlier=history(3, 10))
    turn = bench.turn()
    assert (turn.reply, turn.stopped, turn.forgotten) == ("ok", "", 3)
    assert [len(r.messages) for r in bench.provider.requests[1:]] == [9, 5, 3, 3]
    assert bench.results(turn) == ["x" * 1000 + "[shortened]"]


def test_overflow_of_many_long_results_shortens_the_longest() -> None:
    wanted = [ToolCall("a", "recite", {"characters": n}) for n in (600, 4000, 900)]
    bench = Bench(calls(*wanted), [ContextOverflow("too long")], [ContextOverflow("too long")], says("ok"))
    assert [len(text) for text in bench.results(bench.turn())] == [600, 1016, 900]


@each_row("length", [0, 100, 250, 600, 5000])
@each_row("template", ["{head}", "{head}{head}", "", "no place for it"])
def test_a_long_mark_of_what_was_shortened_does_not_keep_a_turn_for_ever(length: int, template: str) -> None:
    """The template is the owner's: workspace/prompts/shortened.md."""
    recite = ToolCall("a", "recite", {"characters": 9000})
    bench = Bench(calls(recite, ToolCall("b", "recite", {"characters": 700})), *[[ContextOverflow("too long")]] * 60)
    prompts = {**PROMPTS, "shortened": template + "m" * length}
    turn = replace(bench.agent, prompts=prompts).turn(TurnContext("Be brief.", "go"), bench.earlier, CALLER)
    assert (turn.stopped, turn.reply) == ("error", "[failed: too long]")
    assert len(bench.provider.requests) < 30
    tight = Bench(calls(recite), says("ok"), window=1024)
    assert replace(tight.agent, prompts=prompts).turn(TurnContext("Be brief.", "go"), (), CALLER).reply == "ok"


def test_too_long_for_the_window_ends_in_one_clear_error() -> None:
    recite = ToolCall("a", "recite", {"characters": 3000})
    bench = Bench(calls(recite), *[[ContextOverflow("does not fit")]] * 40, earlier=history(9))
    turn = bench.turn()
    assert (turn.stopped, turn.reply) == ("error", "[failed: does not fit]")
    assert len(bench.provider.requests) < 12


def test_a_question_too_long_for_the_window() -> None:
    refused = [ContextOverflow("does not fit")]
    bench = Bench(refused, refused, refused, earlier=history(1), window=1024)
    turn = bench.turn("y" * 10_000)
    assert (turn.stopped, turn.forgotten, turn.messages[0].text) == ("error", 1, "y" * 10_000)
    assert max(len(m.text) for request in bench.provider.requests for m in request.messages) < 3000


def test_the_templates_used_here_are_those_that_ship() -> None:
    """A turn reads no template beside those above, and fills no other value into them."""
    from picoclaw.files import find_shipped

    for name, text in PROMPTS.items():
        values = {
            "tokens",
            "error",
            "reason",
            "count",
            "head",
            "tools",
            "result",
            "steps",
            "seconds",
            "same",
            "tool",
            "content",
        }
        shipped_text = (find_shipped("templates") / "prompts" / f"{name}.md").read_text()
        used = {v for v in values if f"{{{v}}}" in shipped_text}
        assert used <= {v for v in values if f"{{{v}}}" in text}, name
        assert fill_template(shipped_text, dict.fromkeys(values, "?")).strip()


def test_a_turn_may_call_only_what_its_skills_name() -> None:
    bench = Bench(calls(SWITCH), calls(MEASURE), says("21"))
    brief = TurnContext("Be brief.", "go", only=frozenset({"measure"}))
    turn = bench.agent.turn(brief, (), CALLER)
    assert [run.result for run in turn.tools] == ["error: switch is not among measure", "temperature 21.4"]
    assert bench.toolbox.used == [("measure", "temperature")]
    assert all(request.tools == bench.provider.requests[0].tools for request in bench.provider.requests)


def test_what_a_turn_relies_on_is_said_again_when_it_is_forgotten() -> None:
    skill = "<skill>mist them</skill>"
    old = (Message("user", f"<moment>{skill}</moment>\nferns?"), Message("assistant", "Yes. " * 300))
    filler = tuple((Message("user", "and?"), Message("assistant", "Well. " * 300)) for _ in range(6))
    for earlier, times in (((old, *filler), 1), ((old,), 1)):
        bench = Bench(says("ok"), earlier=earlier, window=2000)
        turn = bench.agent.turn(TurnContext("", "ferns again", relied_on=(skill,)), earlier, CALLER)
        sent = "".join(message.text for message in bench.provider.requests[0].messages)
        assert sent.count(skill) == times
        assert bool(turn.forgotten) == (len(earlier) > 1)
        assert turn.messages[0].text.endswith("ferns again")


class Shelf:
    """Tools of which one follows the other."""

    @tool(effect="read")
    def find(self) -> str:
        """Find a book."""
        return "on shelf 3"

    @tool(effect="write")
    def lend(self) -> str:
        """Lend it."""
        return "lent"


def test_no_call_changes_the_tools() -> None:
    provider = Scripted(calls(ToolCall("1", "find")), calls(ToolCall("2", "lend")), says("there"))
    agent = Agent(provider, toolset_of(Shelf()), PROMPTS, LimitsConfig(), 32_768, 100)
    agent.turn(TurnContext("Be brief.", "go"), (), CALLER)
    assert [[tool["name"] for tool in request.tools] for request in provider.requests] == [["find", "lend"]] * 3
