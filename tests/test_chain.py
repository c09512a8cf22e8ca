"""The chain of models: what is done about an error, who is asked next, how often, and what is told of it."""

import os
import random
import re
import time
from contextlib import ExitStack, closing

import pytest
from model_server import ModelServer, call, refusal, reply
from person import ROOT
from rows import each_row
from scripted import CALLER, PROMPTS, Clock, Scripted, Toolbox, calls, joined, says, text_of, toolset_of
from validity import check_conversation

from picoclaw import errors
from picoclaw.agent.loop import Agent
from picoclaw.app import App
from picoclaw.config import Config, load_config
from picoclaw.config.tables import HeartbeatConfig, LimitsConfig, ModelConfig
from picoclaw.daemon.status import ModelHealth
from picoclaw.daemon.status_text import format_status
from picoclaw.errors import (
    CircuitOpen,
    ContextOverflow,
    DeadlinePassed,
    KeyRefused,
    KnownDown,
    NoCredit,
    NotServed,
    OverBudget,
    ProviderError,
    Refused,
    TurnStopped,
    Unavailable,
)
from picoclaw.hw.sim import SimBoard
from picoclaw.maintenance import doctor
from picoclaw.maintenance.doctor import examine_models
from picoclaw.messages import (
    Inbound,
    Message,
    Notice,
    Request,
    Stop,
    Text,
    ToolCall,
    Turn,
    TurnContext,
    TurnHooks,
    Usage,
)
from picoclaw.providers.model import Chain, ModelLink, ModelProvider, build_links, describe_links
from picoclaw.providers.retry import (
    BREAKER_AFTER,
    MAX_HOLD_S,
    MAX_RETRIES,
    MAX_RETRY_S,
    MAX_WAIT_S,
    OWNER_RETRY_S,
    CircuitBreaker,
    decide_retry,
)
from picoclaw.providers.sanitize import fit_window, shorten_request
from picoclaw.records import replace
from picoclaw.workspace import prepare_home

BUSY = Unavailable("the model server cannot answer now (503): busy")
WARM = ToolCall("c1", "measure")


# --- what to do about an error: one table, total


@each_row(
    ("error", "failures", "action", "seconds"),
    [
        (BUSY, 0, "retry", 0.5),
        (BUSY, 1, "retry", 1.5),
        (BUSY, 2, "retry", 4.5),
        (BUSY, 3, "retry", 13.5),
        (BUSY, 4, "later", 40.5),
        (BUSY, 99, "later", MAX_HOLD_S),
        (Unavailable("slow", retry_after=4), 0, "retry", 4),
        (Unavailable("slow", retry_after=MAX_WAIT_S), 3, "retry", MAX_WAIT_S),
        (Unavailable("slow", retry_after=21), 0, "later", 21),
        (Unavailable("quota", retry_after=86_400), 0, "later", MAX_HOLD_S),
        (Unavailable("odd", retry_after=float("inf")), 0, "later", MAX_HOLD_S),
        (Unavailable("odd", retry_after=float("nan")), 0, "retry", 0.5),
        (Unavailable("odd", retry_after=-3), 0, "retry", 0.5),
        (KnownDown("away"), 0, "next", 0),
        (KnownDown("away"), 1, "retry", 1.5),
        (CircuitOpen("not yet"), 0, "next", 0),
        (CircuitOpen("not yet"), 1, "next", 0),
        (OverBudget("the day's tokens are used"), 0, "next", 0),
        (ContextOverflow("too long"), 0, "compact", 0),
        (KeyRefused("401"), 0, "owner", OWNER_RETRY_S),
        (NotServed("404"), 0, "owner", OWNER_RETRY_S),
        (NoCredit("402"), 0, "owner", OWNER_RETRY_S),
        (Refused("400"), 0, "next", 0),
        (ProviderError("odd"), 0, "next", 0),
        (DeadlinePassed("time"), 0, "give up", 0),
        (TurnStopped("stop"), 0, "give up", 0),
        (errors.StoreError("disk"), 0, "give up", 0),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)
def test_verdict(error, failures, action, seconds):
    assert decide_retry(error, failures) == (action, pytest.approx(seconds))


def kinds(of):
    return [of, *(kind for below in of.__subclasses__() for kind in kinds(below))]


@each_row("kind", kinds(ProviderError), ids=lambda kind: kind.__name__)
def test_every_error_of_a_provider_has_a_verdict(kind):
    assert decide_retry(kind("said")).action in {"retry", "later", "next", "compact", "owner", "give up"}


# --- a chain


class Matcher(Scripted):
    """Knows about lamps."""

    name = "intents"

    def __init__(self):
        super().__init__(*[says("Without a model.")] * 9)
        self.closed = 0

    def answers(self, text):
        return "lamp" in text

    def close(self):
        self.closed += 1


class Named(Scripted):
    def __init__(self, name, *answers):
        super().__init__(*answers)
        self.name = name
        self.closed = 0

    def close(self):
        self.closed += 1


class Bench:
    """A chain of scripted models over a clock that only waits turn."""

    def __init__(self, first, *then, retries=2, matcher=True):
        self.clock, self.waits = Clock(), []
        self.first, self.matcher = first, Matcher()
        self.models = [first, *(link.provider for link in then)]
        fallback = (lambda: self.matcher) if matcher else None
        self.chain = Chain(ModelLink("", first, retries), fallback, then=then, sleep=self.wait, clock=self.clock)
        self.deadline = 0.0

    def wait(self, seconds):
        self.waits.append(seconds)
        self.clock.turn(seconds)

    def request(self, *messages, model="", seconds=1000.0):
        said = messages or (Message("user", "switch on the lamp"),)
        self.deadline = self.clock() + seconds
        return Request("", said, (), 100, self.deadline, model)

    def ask(self, *messages, model=""):
        """A turn of one request."""
        self.clock.turn(1)
        return joined(self.chain.events(self.request(*messages, model=model)))

    def asked(self):
        return [len(model.requests) for model in self.models]


def link(name, *answers, **more):
    return ModelLink(name, Named(f"openai:{name}", *answers), **more)


def first(*answers):
    return Named("openai:first", *answers)


def notices(events):
    return [event for event in events if isinstance(event, Notice)]


def test_the_next_is_asked_when_one_does_not_answer():
    bench = Bench(first(*[[BUSY]] * 3), link("lan", [BUSY]), link("local", says("Here.")))
    events = bench.ask()
    assert text_of(events) == "Here."
    assert bench.asked() == [3, 1, 1]
    assert bench.chain.name == "openai:local"
    assert [notice.text for notice in notices(events)] == [
        f"openai:first was passed over, and lan asked: {BUSY}",
        f"lan was passed over, and local asked: {BUSY}",
    ]
    assert not any(notice.failed for notice in notices(events))
    assert not bench.matcher.requests


def test_the_next_is_asked_when_our_own_code_fails_at_an_answer(capsys):
    bench = Bench(first([IndexError("what was said")]), link("local", [KeyError("said")]))
    events = bench.ask()
    assert bench.asked() == [1, 1]
    assert "a defect of its own (IndexError in scripted.py, line " in notices(events)[0].text
    assert bench.matcher.requests
    log = capsys.readouterr().err
    assert re.findall(r"^(\w+), a defect:$", log, re.MULTILINE) == ["IndexError", "KeyError"]
    assert "raise step" in log
    assert "said" not in log


def test_what_our_own_code_fails_at_within_an_answer_is_not_asked_again():
    bench = Bench(first([Text("It is "), IndexError()]), link("local", says("warm")))
    with pytest.raises(errors.Defect):
        bench.ask()
    assert bench.asked() == [1, 0]


def test_why_one_was_passed_over_is_told_once_until_it_has_answered_again():
    down, lan = Unavailable("no route"), says("lan")
    bench = Bench(first([down], [down], says("first"), [down]), link("lan", lan, lan, lan), retries=0)
    told_then = [len(notices(bench.ask())) for _ in range(4)]
    assert told_then == [1, 0, 0, 1]


@each_row("error", [KeyRefused("401"), NotServed("404"), NoCredit("402")], ids=lambda e: type(e).__name__)
def test_what_the_owner_has_to_mend_is_marked_and_another_answers_meanwhile(error):
    bench = Bench(first([error], [error]), link("lan", says("lan"), says("lan")))
    [notice] = notices(bench.ask())
    assert notice.failed
    assert str(error) in notice.text
    assert notices(bench.ask()) == []
    assert bench.waits == []


def test_at_last_the_matcher_answers_and_says_what_became_of_each():
    bench = Bench(first([Refused("no tools")]), link("lan", [BUSY]))
    *_, notice = notices(bench.ask())
    assert notice.text == f"openai:first: no tools; lan: {BUSY} - answered without a model"
    assert notice.failed
    assert bench.chain.name == "intents"


@each_row(("errors_", "kind"), [([Refused("a"), BUSY], Unavailable), ([Refused("a"), NotServed("b")], Refused)])
def test_without_a_matcher_all_errors_are_raised_as_one(errors_, kind):
    bench = Bench(first([errors_[0]]), link("lan", [errors_[1]]), matcher=False)
    with pytest.raises(kind, match="openai:first: a; lan: "):
        bench.ask()
    with pytest.raises(kind):  # and again in the same turn, without anybody being asked
        list(
            bench.chain.events(
                bench.request(Message("user", "x"), Message("tool", "y"))._replace(deadline=bench.deadline)
            )
        )
    assert bench.asked()[1] == 1


def test_one_alone_raises_its_own_error():
    error = KeyRefused("401")
    bench = Bench(first([error]), matcher=False)
    with pytest.raises(KeyRefused) as caught:
        bench.ask()
    assert caught.value is error


@each_row("broken", [BUSY, Refused("odd")], ids=["unavailable", "refused"])
def test_what_was_begun_is_said_again_by_nobody(broken):
    bench = Bench(first([Text("It is "), broken]), link("lan", says("It is 21.")))
    heard = bench.chain.events(bench.request())
    assert next(heard) == Text("It is ")
    with pytest.raises(type(broken)):
        next(heard)
    assert bench.asked() == [1, 0]
    assert not bench.matcher.requests


def test_a_notice_of_the_models_own_begins_nothing():
    bench = Bench(first([Notice("the picture was left out"), BUSY], says("ok")))
    assert text_of(bench.ask()) == "ok"


@each_row(("model", "asked"), [("", [1, 1, 0]), ("spare", [0, 0, 1]), ("lan", [0, 1, 0])], ids=["none", "spare", "lan"])
def test_one_that_is_chosen_is_asked_first_and_a_spare_one_never_else(model, asked):
    spare = link("spare", says("spare"), on_request_only=True)
    bench = Bench(first([BUSY]), link("lan", says("lan")), spare, retries=0)
    bench.ask(model=model)
    assert bench.asked() == asked
    assert {request.model for model in bench.models for request in model.requests} == {""}


def test_a_spare_one_is_not_asked_when_all_others_have_failed():
    bench = Bench(first([BUSY]), link("lan", [BUSY]), link("spare", on_request_only=True), retries=0, matcher=False)
    with pytest.raises(Unavailable):
        bench.ask()
    assert bench.asked() == [1, 1, 0]


def test_after_the_chosen_one_come_the_others_in_their_order():
    bench = Bench(
        first([BUSY]), link("lan", [BUSY]), link("spare", [BUSY], on_request_only=True), retries=0, matcher=False
    )
    with pytest.raises(Unavailable, match=r"^spare: .*; openai:first: .*; lan: "):
        bench.ask(model="spare")


def test_another_model_of_the_first_server_is_no_name_of_the_others():
    bench = Bench(first([NotServed("no llama")], [BUSY]), link("lan", says("lan")), retries=0)
    events = bench.ask(model="llama")
    assert text_of(events) == "lan"
    assert [request.model for request in bench.first.requests] == ["llama", ""]
    assert bench.models[1].requests[0].model == ""


@each_row("error", [KeyRefused("401"), NoCredit("402")], ids=lambda error: type(error).__name__)
def test_a_key_that_is_refused_for_a_chosen_model_is_not_shown_again_for_the_usual_one(error):
    bench = Bench(first([error]), link("lan", says("lan")))
    assert text_of(bench.ask(model="llama")) == "lan"
    assert bench.asked() == [1, 1]


@each_row("error", [NotServed("404"), CircuitOpen("not asked again for 50 s: 404")], ids=["404", "held"])
def test_a_chosen_model_that_is_none_leaves_the_usual_one(error):
    bench = Bench(first([error], says("usual")))
    events = bench.ask(model="lama")
    assert text_of(events) == "usual"
    assert "the model 'lama' did not answer, so the usual one was asked" in notices(events)[0].text


def test_all_are_closed():
    bench = Bench(first([BUSY]), link("lan", [BUSY]), retries=0)
    bench.ask()
    bench.chain.close()
    assert [model.closed for model in (*bench.models, bench.matcher)] == [1, 1, 1]


# --- caps of a turn


def turn_of(bench, steps):
    """Requests of one turn, each after a tool's result; how often each was asked."""
    asked = Message("user", "switch on the lamp")
    deadline, said, before = bench.clock() + 10_000, (asked,), sum(bench.asked())
    counts = []
    for i in range(steps):
        list(bench.chain.events(Request("", said, (), 100, deadline)))
        counts.append(sum(bench.asked()) - before)
        before = sum(bench.asked())
        said = (*said, Message("assistant", "", (replace(WARM, id=f"c{i}"),)), Message("tool", "21", call_id=f"c{i}"))
    return counts


def test_further_tries_are_counted_over_the_whole_turn():
    script = [step for _ in range(9) for step in ([BUSY], says("ok"))]
    bench = Bench(first(*script), link("lan", *[says("lan")] * 9), retries=2)
    assert turn_of(bench, 8) == [2] * MAX_RETRIES + [2, 1, 1, 1]  # the fifth failure: lan answers, and the rest as well
    assert bench.asked() == [2 * MAX_RETRIES + 1, 4]
    assert len(bench.waits) == MAX_RETRIES
    assert turn_of(bench, 1) == [1]  # a new turn, a new start: the first answers


def test_no_turn_spends_more_than_so_many_seconds_on_trying():
    def slow(seconds):
        return [lambda: bench.clock.turn(seconds), Unavailable("slow", retry_after=19)]

    script = [step for _ in range(9) for step in (slow(9), says("ok"))]
    bench = Bench(first(*script), link("lan", *[says("lan")] * 9), retries=10)
    turn_of(bench, 6)
    assert sum(bench.waits) + 9 * len(bench.waits) <= MAX_RETRY_S
    assert len(bench.waits) == 3  # of 28 s each; the fourth would be more than 90


def test_a_long_silence_is_not_tried_again():
    bench = Bench(first([lambda: bench.clock.turn(11), BUSY]), link("lan", says("lan")))
    assert text_of(bench.ask()) == "lan"
    assert bench.waits == []


def test_the_wait_that_a_server_asks_for_is_no_silence_of_its():
    slow = Unavailable("slow", retry_after=12)
    bench = Bench(first([slow], [slow], says("ok")), link("lan", says("lan")))
    assert text_of(bench.ask()) == "ok"
    assert bench.waits == [12, 12]


def test_nobody_waits_past_the_deadline():
    bench = Bench(first([BUSY]), link("lan", says("lan")))
    list(bench.chain.events(bench.request(seconds=0.4)))
    assert bench.waits == []


def test_the_word_to_stop_ends_the_wait_for_another_try():
    stop = Stop()
    stop.set()
    bench = Bench(first([Unavailable("slow", retry_after=20)], says("ok")))
    began = time.monotonic()
    list(bench.chain.events(bench.request()._replace(stop=stop)))
    assert time.monotonic() - began < 1
    assert bench.waits == []


# --- turns


def agent_of(chain, toolbox):
    return Agent(chain, toolset_of(toolbox), PROMPTS, LimitsConfig(), 32_768, 100)


def test_a_round_that_one_model_began_goes_on_with_the_next_and_stays_there():
    toolbox = Toolbox()
    script = [calls(replace(WARM, id=f"c{i}")) for i in range(2)]
    bench = Bench(first(script[0], [BUSY]), link("lan", script[1], says("It is 21.4.")), retries=0)
    turn = agent_of(bench.chain, toolbox).turn(TurnContext("", "how warm is it?"), (), CALLER)
    assert (turn.reply, turn.provider, turn.stopped) == ("It is 21.4.", "openai:lan", "")
    assert bench.asked() == [2, 2]
    assert bench.models[1].requests[0].messages[-1].role == "tool"
    assert "was passed over, and lan asked" in turn.notice.text
    check_conversation(turn.messages)


def test_words_said_meanwhile_go_to_the_next_model_and_not_to_the_matcher():
    typed = ["and the cellar?"]
    around = TurnHooks(typed=lambda: [typed.pop()] if typed else [])
    bench = Bench(first(calls(WARM), [BUSY]), link("lan", says("Both are 21.4.")), retries=0)
    turn = agent_of(bench.chain, Toolbox()).turn(TurnContext("", "how warm is it?"), (), CALLER, around)
    assert (turn.reply, turn.provider) == ("Both are 21.4.", "openai:lan")
    assert not bench.matcher.requests


def test_a_turn_that_goes_on_with_a_result_begins_with_the_first_again():
    """As one does whose call has waited for a yes: its newest message is nobody's word."""
    bench = Bench(first([BUSY], says("first")), retries=0)
    bench.ask()
    assert bench.chain.name == "intents"
    asked = Message("user", "x"), Message("assistant", "", (WARM,)), Message("tool", "21", call_id="c1")
    assert text_of(bench.ask(*asked)) == "first"


MISHAPS = (
    BUSY,
    Unavailable("slow", retry_after=7),
    Unavailable("quota", retry_after=700),
    KnownDown("away"),
    CircuitOpen("not yet"),
    OverBudget("used"),
    Refused("400"),
    KeyRefused("401"),
    ContextOverflow("long"),
)


def outcome(dice, number):
    """What one request comes to: an answer, calls, an error at once, or one after some words."""
    kind = dice.randrange(7)
    if kind < 2:
        return calls(replace(WARM, id=f"c{number}"))
    if kind == 2:
        return says(f"Answer {number}.")
    if kind == 3:
        return [Text(f"Begun {number}. "), dice.choice(MISHAPS[:7])]
    return [dice.choice(MISHAPS)]


@each_row("seed", range(40))
def test_whatever_happens_a_turn_ends_and_stays_valid(seed):
    dice = random.Random(seed)
    names = ("lan", "local", "spare")[: dice.randrange(4)]
    scripts = [[outcome(dice, 1000 * i + n) for n in range(60)] for i in range(4)]
    then = [
        link(name, *scripts[i], window=8192, answer=100, on_request_only=name == "spare")
        for i, name in enumerate(names, 1)
    ]
    bench = Bench(first(*scripts[0]), *then, retries=dice.randrange(4), matcher=dice.random() < 0.5)
    agent, history = agent_of(bench.chain, Toolbox()), ()
    for _ in range(4):
        heard, before, waited = [], bench.asked(), len(bench.waits)
        around = TurnHooks(listen=heard.append)
        brief = TurnContext("", "switch on the lamp", model=dice.choice(["", "", "spare", "llama"]))
        done = agent.turn(brief, history, CALLER, around)
        asked = [after - earlier for after, earlier in zip(bench.asked(), before, strict=True)]
        check_conversation(done.messages)
        read = "".join(event.text for event in heard if isinstance(event, Text))
        begun = re.findall(r"Begun (\d+)", read)
        assert len(begun) == len(set(begun)) <= done.steps
        assert len(bench.waits) - waited <= 2 * MAX_RETRIES  # a last word may try as well
        assert sum(asked) <= done.steps * 2 + len(asked) * 3 + 3 * MAX_RETRIES
        history = (*history, done.messages)


# --- a smaller window


def talk(turns, size=3000):
    """Turns of about so many bytes each."""
    said = [m for i in range(turns) for m in (Message("user", f"{i} " + "x" * size), Message("assistant", "ok"))]
    return (*said, Message("user", "and now?"))


def test_older_turns_are_left_out_for_a_smaller_window_and_only_there():
    lan = link("lan", says("lan"), window=4096, answer=512)
    bench = Bench(first([BUSY], says("first")), lan, retries=0)
    said = talk(10)
    assert text_of(bench.ask(*said)) == "lan"
    [request] = lan.provider.requests
    assert request.messages == said[-len(request.messages) :]
    assert 1 < len(request.messages) < len(said)
    assert request.messages[0].role == "user"
    assert text_of(bench.ask(*said)) == "first"
    assert bench.first.requests[1].messages == said


@each_row(("window", "answer", "left"), [(1_000_000, 9000, 9000), (4096, 9000, 1024), (4096, 100, 100), (4096, 0, 0)])
def test_an_answer_is_no_longer_than_both_allow(window, answer, left):
    request = Request("", (Message("user", "x"),), (), 5000, 0.0)
    assert fit_window(request, window, answer).answer_tokens == min(5000, left)


def test_tools_that_matter_less_are_left_out_before_a_model_is_passed_over():
    names = ("spawn", "exec", "sensor_read")
    tools = tuple({"name": name, "description": "z" * 4000, "parameters": {}} for name in names)
    request = Request(
        "", (Message("user", "old " * 500), Message("assistant", "ok"), Message("user", "x")), tools, 9, 0.0
    )
    fitting = fit_window(request, 4096, 100)
    assert [tool["name"] for tool in fitting.tools] == ["exec", "sensor_read"]
    assert fitting.messages == request.messages[2:]
    assert fit_window(request, 100_000, 100).tools == tools
    with pytest.raises(ContextOverflow):
        fit_window(request._replace(system="y" * 12_000), 4096, 100)


def test_one_whose_window_is_too_small_for_the_present_turn_is_passed_over():
    lan = link("lan", window=2048, answer=512)
    bench = Bench(first([BUSY]), lan, link("local", says("local")), retries=0)
    events = bench.ask(Message("user", "y" * 9000))
    assert text_of(events) == "local"
    assert lan.provider.requests == []
    assert "do not fit its window of 2048" in notices(events)[1].text


def test_one_that_counts_more_tokens_than_was_thought_is_asked_with_less():
    overflow = [ContextOverflow("too long")]
    lan = link("lan", overflow, overflow, says("lan"), window=100_000, answer=512)
    bench = Bench(first([BUSY]), lan, retries=0)
    assert text_of(bench.ask(*talk(8, 10))) == "lan"
    assert [len(request.messages) for request in lan.provider.requests] == [17, 9, 5]
    assert bench.waits == []


def test_one_that_overflows_with_the_present_turn_alone_is_passed_over():
    lan = link("lan", [ContextOverflow("too long")], window=100_000, answer=512)
    bench = Bench(first([BUSY]), lan, retries=0)
    assert text_of(bench.ask()) == "Without a model."


def test_the_first_leaves_an_overflow_to_the_turn():
    bench = Bench(first([ContextOverflow("too long")]), link("lan", says("lan")))
    with pytest.raises(ContextOverflow):
        bench.ask()
    assert bench.asked() == [1, 0]


TOO_LONG = [ContextOverflow("too long")]


@each_row(
    ("said", "window", "asked"),
    [
        ((Message("user", "y" * 9000),), 100_000, [1, 1]),
        ((Message("user", "y" * 9000),), 2048, [1, 0]),
        (talk(2, 10), 100_000, [1, 0]),
    ],
    ids=["a larger one takes the turn whole", "none does", "older turns can be left out before"],
)
def test_who_overflows_with_the_present_turn_alone_leaves_it_to_a_larger_window(said, window, asked):
    bench = Bench(first(TOO_LONG), link("large", says("large"), window=window, answer=512))
    if asked[1]:
        events = bench.ask(*said)
        assert text_of(events) == "large"
        assert "too long" in notices(events)[0].text
    else:
        with pytest.raises(ContextOverflow):
            bench.ask(*said)
    assert bench.asked() == asked


def test_a_turn_that_only_one_takes_who_is_away_is_shortened_and_that_one_asked_no_more():
    large = link("large", [BUSY], says("never"), window=100_000, answer=512)
    bench = Bench(first(TOO_LONG, TOO_LONG, says("short enough")), large, retries=0)
    agent = Agent(bench.chain, toolset_of(Toolbox()), PROMPTS, LimitsConfig(), 32_768, 100, clock=bench.clock)
    turn = agent.turn(TurnContext("", "y" * 90_000), (), CALLER)
    assert (turn.reply, turn.stopped) == ("short enough", "")
    assert bench.asked() == [3, 1]


@each_row(("error", "rests"), [(OverBudget("used"), True), (BUSY, False)], ids=["a cap", "busy"])
def test_the_matcher_knows_whether_only_a_cap_is_why_it_answers(error, rests):
    bench = Bench(first([OverBudget("used")]), link("lan", [error]), retries=0)
    assert text_of(bench.ask()) == "Without a model."
    assert bench.matcher.rests is rests


def test_words_said_while_tools_ran_begin_no_turn():
    said = (
        *(Message("user", "a"), Message("assistant", "b"), Message("user", "c"), Message("assistant", "", (WARM,))),
        *(Message("tool", "21", call_id="c1"), Message("user", "and d?")),
    )
    assert shorten_request(Request("", said, (), 1, 0.0)).messages == said[2:]
    assert shorten_request(Request("", said[2:], (), 1, 0.0)) is None


# --- a breaker


class Breaking:
    def __init__(self):
        self.clock = Clock()
        self.breaker = CircuitBreaker(self.clock)

    def held(self, model=""):
        """The seconds for which a model is not asked."""
        before = self.clock.now
        while self.clock.now - before < 20_000:
            try:
                self.breaker.check(model)
            except CircuitOpen:
                self.clock.turn(1)
            else:
                break
        return self.clock.now - before


@each_row(
    ("error", "seconds"),
    [
        (KeyRefused("401"), OWNER_RETRY_S),
        (NotServed("404"), OWNER_RETRY_S),
        (NoCredit("402"), OWNER_RETRY_S),
        (Unavailable("quota", retry_after=300), 300),
        (Unavailable("quota", retry_after=90_000), MAX_HOLD_S),
        (Unavailable("slow", retry_after=5), 0),
        (BUSY, 0),
        (Refused("400"), 0),
        (ContextOverflow("long"), 0),
        (DeadlinePassed("late"), 0),
        (KnownDown("away"), 0),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)
def test_how_long_a_server_is_let_alone(error, seconds):
    bench = Breaking()
    bench.breaker.record_failure("", error)
    assert bench.held() == seconds
    assert bench.held() == 0


def test_the_same_error_again_and_again_is_asked_for_less_and_less():
    bench, held = Breaking(), []
    for number in range(BREAKER_AFTER + 9):
        bench.breaker.record_failure("", Unavailable(f"the model server cannot answer now (500): trace {number}"))
        held.append(bench.held())
    assert held == [0] * (BREAKER_AFTER - 1) + [60, 120, 240, 480, 960, 1920] + [MAX_HOLD_S] * 4
    bench.breaker.record_failure("", BUSY)  # another one
    assert bench.held() == 0


@each_row("error", [KnownDown("away"), OverBudget("used"), ContextOverflow("long")], ids=lambda e: type(e).__name__)
def test_what_no_server_has_said_is_not_counted(error):
    bench = Breaking()
    for _ in range(BREAKER_AFTER * 2):
        bench.breaker.record_failure("", error)
    assert bench.held() == 0


def test_an_answer_ends_it():
    bench = Breaking()
    for _ in range(BREAKER_AFTER - 1):
        bench.breaker.record_failure("", BUSY)
    bench.breaker.record_answer("")
    bench.breaker.record_failure("", BUSY)
    assert bench.held() == 0


def test_it_says_how_often_and_for_how_long():
    bench = Breaking()
    for _ in range(BREAKER_AFTER):
        bench.breaker.record_failure("", BUSY)
    with pytest.raises(CircuitOpen, match=r"^not asked again for 60 s, 10 times in a row: the model server .*busy$"):
        bench.breaker.check("")
    bench.breaker.record_failure("", Unavailable("quota", retry_after=600))
    with pytest.raises(CircuitOpen, match=r"^not asked again for 10 min: quota$"):
        bench.breaker.check("")


def test_a_model_that_is_none_holds_up_no_other_of_its_server():
    bench = Breaking()
    bench.breaker.record_failure("lama", NotServed("404"))
    assert bench.held("") == 0
    assert bench.held("lama") == OWNER_RETRY_S


# --- a server as the chain reaches it


@each_row(("api", "name"), [("openai", "openai:x"), ("anthropic", "anthropic:x")])
def test_a_provider_speaks_what_its_server_does(api, name):
    with closing(ModelProvider(ModelConfig(base_url="http://127.0.0.1:9/v1", name="x", api=api), "k")) as provider:
        assert provider.name == name


def write(home, config, secrets=""):
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(config)
    (home / "secrets.toml").write_text(secrets)
    (home / "secrets.toml").chmod(0o600)
    return load_config({"PICOCLAW_HOME": str(home)})


def keyed(good):
    """A server that knows one key."""

    def answer(exchange):
        known = exchange.server.requests[-1].headers.get("authorization") == f"Bearer {good}"
        (reply("Welcome.") if known else refusal(401, "Incorrect key"))(exchange)

    return lambda _: answer


@pytest.fixture
def clean(monkeypatch):
    """No key or address of whoever runs the tests."""
    for name in [name for name in os.environ if name.startswith(("PICOCLAW_", "OPENAI_", "OPENROUTER_", "ANTHROPIC_"))]:
        monkeypatch.delenv(name)


def asked_of(chain, text="switch on the lamp"):
    return joined(chain.events(Request("", (Message("user", text),), (), 100, time.monotonic() + 10)))


def test_a_new_key_is_taken_without_a_restart_and_a_wrong_one_is_sent_once_a_minute(tmp_path, clean):
    with ModelServer(keyed("sk-right")) as server:
        text = f"[model]\nbase_url = '{server.url}'\nname = 'qwen'"
        config = write(tmp_path / "home", text, "api_key = 'sk-wrong'")
        [only] = build_links(config)
        matcher = Matcher()
        with closing(Chain(ModelLink("", only.provider, 2), lambda: matcher)) as chain:
            said = [notices(asked_of(chain))[0] for _ in range(3)]
            assert len(server.requests) == 1
            assert all(notice.failed == (i == 0) or "not asked again" in notice.text for i, notice in enumerate(said))
            write(tmp_path / "home", text, "api_key = 'sk-right'\n")
            assert text_of(asked_of(chain)) == "Welcome."
            assert len(server.requests) == 2


def test_a_new_key_is_taken_although_another_model_of_that_server_has_answered_meanwhile(tmp_path, clean):
    answers = [refusal(401, "bad key"), reply("another"), reply("the usual one")]
    with ModelServer(answers) as server:
        config = write(tmp_path / "home", f"[model]\nbase_url = '{server.url}'\nname = 'big'\n")
        [only] = build_links(config)

        def ask(model):
            request = Request("", (Message("user", "x"),), (), 9, time.monotonic() + 9, model)
            return text_of(list(only.provider.events(request)))

        with closing(only.provider):
            with pytest.raises(KeyRefused):
                ask("")
            assert ask("other") == "another"
            secrets = config.home / "secrets.toml"
            secrets.write_text('api_key = "sk-new"\n')
            secrets.chmod(0o600)
            assert ask("") == "the usual one"
        assert server.requests[2].headers["authorization"] == "Bearer sk-new"


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (401, "check PICOCLAW_API_KEY_LAN, or lan below [keys] in secrets.toml"),
        (400, "check [models.lan] in config.toml"),
    ],
)
def test_an_error_names_the_settings_of_its_own_model(tmp_path, clean, status, told):
    with ModelServer(lambda _: refusal(status, "no")) as server:
        table = f"base_url = '{server.url}'\nname = 'small'\n"
        config = write(tmp_path / "home", f"[model]\n{table}[models.lan]\n{table}")
        first, lan = (link.provider for link in build_links(config))
        for provider, named in ((first, False), (lan, True)):
            with closing(provider), pytest.raises(Refused) as refused:
                list(provider.events(Request("", (Message("user", "x"),), (), 9, time.monotonic() + 9)))
            assert (told in str(refused.value)) is named


def test_a_file_that_was_changed_for_the_worse_is_named(tmp_path, clean):
    with ModelServer(keyed("sk-right")) as server:
        text = f"[model]\nbase_url = '{server.url}'\nname = 'qwen'"
        [only] = build_links(write(tmp_path / "home", text, "api_key = 'sk-wrong'"))
        with closing(Chain(ModelLink("", only.provider, 0), None)) as chain:
            with pytest.raises(KeyRefused):
                asked_of(chain)
            (tmp_path / "home/config.toml").write_text("[model\n")
            with pytest.raises(Refused, match=r"config\.toml is not valid TOML"):
                asked_of(chain)
            write(tmp_path / "home", text, "api_key = 'sk-right'\n")
            assert text_of(asked_of(chain)) == "Welcome."


def test_a_key_that_no_header_may_hold_lets_the_next_answer(tmp_path):
    with ModelServer([reply("lan")]) as server:
        bad = ModelProvider(ModelConfig(base_url=server.url), "sk\n1")
        lan = ModelLink("lan", ModelProvider(ModelConfig(base_url=server.url, name="qwen")))
        with closing(Chain(ModelLink("", bad, 0), None, then=(lan,))) as chain:
            assert text_of(asked_of(chain)) == "lan"


def test_each_server_gets_its_own_key_alone(tmp_path, clean, monkeypatch):
    with ExitStack() as stack:
        servers = [stack.enter_context(ModelServer(lambda _: refusal(400, "no"))) for _ in range(4)]
        names = ["lan", "local", "keyless"]
        tables = [
            f"[models.{name}]\nbase_url = '{s.url}'\nname = 'm'" for name, s in zip(names, servers[1:], strict=True)
        ]
        text = f"[model]\nbase_url = '{servers[0].url}'\nname = 'm'\nthen = {names}\n" + "\n".join(tables)
        secrets = "api_key = 'sk-file'\n[keys]\nlan = 'sk-lan'\nlocal = 'sk-of-the-file'"
        monkeypatch.setenv("PICOCLAW_API_KEY", "sk-first")
        monkeypatch.setenv("PICOCLAW_API_KEY_LOCAL", "sk-local")
        write(tmp_path / "home", text, secrets)
        config = load_config({**os.environ, "PICOCLAW_HOME": str(tmp_path / "home")})
        chosen, *then = build_links(config)
        with closing(Chain(ModelLink("", chosen.provider, 0), None, then=then)) as chain, pytest.raises(Refused):
            asked_of(chain)
        sent = [[request.headers.get("authorization") for request in server.requests] for server in servers]
        assert sent == [["Bearer sk-first"], ["Bearer sk-lan"], ["Bearer sk-local"], [None]]
        assert "sk-" not in repr(config)


# --- at the doors


class House:
    """An app with a chain of real servers."""

    def __init__(self, home, scripts, then=("lan",), **more):
        self.stack = ExitStack()
        self.servers = {name: self.stack.enter_context(ModelServer(script)) for name, script in scripts.items()}
        prepare_home(home)
        (home / "workspace/BOOTSTRAP.md").unlink()
        first_, *rest = [
            (name, ModelConfig(base_url=server.url, name=f"{name}-model", retries=0))
            for name, server in self.servers.items()
        ]
        config = Config(home, replace(first_[1], then=list(then)), models=dict(rest), **more)
        self.app = App(config, SimBoard())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.app.close()
        self.stack.close()

    def turn(self, text, origin="owner"):
        return self.app.dispatcher.answer(Inbound("terminal", text, origin))

    def asked(self):
        return {name: len(server.requests) for name, server in self.servers.items()}


DOWN = refusal(503, "busy")


def test_a_turn_of_the_app_is_answered_by_the_next_model_and_kept_under_its_name(tmp_path):
    lan = [reply("", call("sensor_read")), reply("I have looked.")]
    with House(tmp_path / "home", {"cloud": [DOWN], "lan": lan}) as house:
        turn = house.turn("how warm is it in the greenhouse?")
        assert (turn.provider, turn.stopped) == ("openai:lan-model", "")
        assert [run.name for run in turn.tools] == ["sensor_read"]
        assert "openai:cloud-model was passed over, and lan asked" in turn.notice.text
        assert [spent.provider for spent in house.app.stores.sessions.usage(house.app.now())] == ["openai:lan-model"]
        check_conversation(turn.messages)


def test_a_server_that_wants_to_be_paid_is_asked_once_a_minute_while_another_answers(tmp_path):
    scripts = {"cloud": [refusal(429, "insufficient_quota")], "lan": lambda _: reply("lan")}
    with House(tmp_path / "home", scripts) as house:
        told_of = [house.turn("hello").notice.text for _ in range(3)]
        assert house.asked() == {"cloud": 1, "lan": 3}
    assert ["asks for payment" in text for text in told_of] == [True, False, False]


def test_what_a_token_takes_is_learned_of_the_model_that_answered(tmp_path):
    scripts = {"cloud": [DOWN], "lan": [reply("lan", usage=(9000, 3)), reply("again", usage=(9000, 3))]}
    with House(tmp_path / "home", scripts) as house:
        house.turn("hello")
        ratios = {name: house.app.stores.bytes_a_token(name) for name in ("cloud-model", "lan-model", "lan")}
        assert ratios["cloud-model"] == ratios["lan"] != ratios["lan-model"]
        house.turn("/model lan")
        house.turn("hello")
        assert house.app.stores.bytes_a_token("lan") != ratios["lan"]


def test_a_heartbeat_is_never_answered_by_the_matcher(tmp_path):
    with House(tmp_path / "home", {"cloud": [DOWN], "lan": [DOWN]}) as house:
        turn = house.turn("how warm is it?", origin="heartbeat")
        assert (turn.stopped, turn.tools) == ("error", ())
        assert "openai:cloud-model: " in turn.notice.text
        assert "lan: " in turn.notice.text


def test_a_heartbeat_goes_to_the_next_model(tmp_path):
    with House(tmp_path / "home", {"cloud": [DOWN], "lan": [reply("All is well.")]}) as house:
        assert house.turn("how is it?", origin="heartbeat").reply == "All is well."


def test_a_heartbeat_may_have_a_model_of_its_own(tmp_path):
    scripts = {"cloud": [], "lan": [], "small": [reply("All is well.")]}
    with House(tmp_path / "home", scripts, heartbeat=HeartbeatConfig(model="small")) as house:
        assert house.turn("how is it?", origin="heartbeat").reply == "All is well."
        assert house.asked() == {"cloud": 0, "lan": 0, "small": 1}


def test_a_conversation_is_held_with_a_further_model_by_its_name(tmp_path):
    scripts = {"cloud": lambda _: reply("cloud"), "lan": lambda _: reply("lan"), "small": lambda _: reply("small")}
    with House(tmp_path / "home", scripts) as house:
        assert "goes on with small. /model default goes back to cloud-model." in house.turn("/model small").reply
        assert house.turn("hello").reply == "small"
        house.turn("/model default")
        assert house.turn("hello").reply == "cloud"
        listed = house.turn("/model").reply.splitlines()
    assert listed[:2] == ["cloud-model.", "Asked in this order:"]
    assert [line.split(" at ")[0].strip() for line in listed[2:5]] == [
        "default: cloud-model",
        "lan: lan-model",
        "small: small-model",
    ]
    assert listed[2].endswith("answered 0 s ago")
    assert listed[3].endswith("not asked yet")
    assert ", only if chosen with /model, answered " in listed[4]
    assert listed[5].strip() == "and then the built-in matcher"


def test_one_model_alone_has_no_order(tmp_path):
    with House(tmp_path / "home", {"cloud": []}, then=()) as house:
        assert house.turn("/model").reply == "cloud-model."


def test_a_key_of_a_further_model_is_in_no_answer(tmp_path):
    with House(tmp_path / "home", {"cloud": [reply("It is sk-abcdef-123456, I think.")]}, then=(),
               model_keys={"lan": "sk-abcdef-123456"}) as house:  # fmt: skip
        assert "sk-abcdef" not in house.turn("what is the key?").reply


def test_the_doctor_asks_each_model(tmp_path, clean):
    with ModelServer([reply("ok"), refusal(401, "Incorrect key"), *[reply("ok")] * 3]) as server:
        further = [f"[models.{name}]\nbase_url = '{server.url}'\nname = '{name}-model'" for name in ("lan", "spare")]
        text = f"[model]\nbase_url = '{server.url}'\nname = 'big'\nthen = ['lan']\n" + "\n".join(further)
        rows = list(examine_models(write(tmp_path / "home", text)))
    assert [(row.status, row.name) for row in rows] == [
        ("good", "model"),
        ("bad", "model lan"),
        ("good", "model spare"),
        ("note", "profile"),
    ]
    assert "PICOCLAW_API_KEY_LAN or [keys] lan" in rows[1].fix
    assert rows[2].detail.endswith("it is asked only if chosen with /model ('then' under [model] does not name it)")


def test_a_key_that_goes_over_an_open_line_is_bad(tmp_path):
    far = ModelConfig(base_url="http://models.example/v1")
    config = Config(tmp_path, models={"lan": far, "keyless": far}, model_keys={"lan": "sk-1", "keyless": ""})
    rows = list(doctor.examine_exposure(SimBoard(), config))
    assert [(row.status, row.name) for row in rows] == [("bad", "model lan")]


# --- what a daemon tells of it


def turn(provider, notice="", stopped="", steps=1):
    return Turn("", (), steps, (), Usage(), stopped, provider, Notice(notice))


def test_the_log_has_a_line_when_another_model_answers_and_when_the_first_does_again():
    notes = []
    models = ModelHealth("openai:a", (ModelLink("", first()), link("lan")), lambda text, **_: notes.append(text))
    away = [
        models.note_turn(turn(*given))
        for given in [
            ("openai:a",),
            ("openai:lan", "openai:a was passed over, and lan asked: busy"),
            ("openai:lan",),
            ("command", "", "", 0),
            ("intents", "openai:a: busy; lan: busy - answered without a model"),
            ("intents", "openai:a: busy; lan: busy - answered without a model"),
            ("openai:a",),
        ]
    ]
    assert away == [False, False, False, False, True, True, False]
    assert notes == [
        "model: openai:a was passed over, and lan asked: busy",
        "model: openai:a: busy; lan: busy",
        "model: it answers again",
    ]


def test_a_status_has_a_line_for_each_model(tmp_path, clean):
    with ModelServer([refusal(401, "Incorrect key"), reply("ok")]) as server:
        config = write(
            tmp_path / "home",
            f"[model]\nbase_url = '{server.url}'\nname = 'big'\nthen = ['lan']\n"
            f"[models.lan]\nbase_url = '{server.url}'\nname = 'small'\n"
            f"[models.spare]\nbase_url = '{server.url}'\nname = 'tiny'",
        )
        chosen, *then = build_links(config)
        with closing(Chain(ModelLink("", chosen.provider, 0), None, then=then)) as chain:
            assert text_of(asked_of(chain)) == "ok"
            rows = describe_links((chosen, *then))
    assert [(row["name"], row["model"], row["chosen"], row["needs_owner"]) for row in rows] == [
        ("", "big", True, True),
        ("lan", "small", True, False),
        ("spare", "tiny", False, False),
    ]
    status = {
        "running": True,
        "since": 0.0,
        "version": "1",
        "board": "Pi",
        "pid": 1,
        "memory_mb": 1,
        "channels": {},
        "memory_limit_mb": 2,
        "model": {"name": "openai:big", "chain": rows},
        "output_lines": [],
        "problems": [],
        "clock": {"text": "good"},
    }
    shown = [line for line in format_status(status, time.time()) if " at http" in line]
    assert [line.split(" at ")[0] for line in shown] == ["  first: big", "  lan: small", "  spare: tiny"]
    assert "no answer 0 s ago: the model server refused the key (401)" in shown[0]
    assert shown[1].endswith(", answered 0 s ago")
    assert shown[2].endswith(" (only if chosen with /model), not asked yet")


# --- what the manual says


MANUAL = (ROOT / "docs/howto/models.md").read_text()


def test_the_manuals_settings_are_taken(tmp_path, clean):
    config, secrets = re.findall(r"```toml\n(.*?)```", MANUAL, re.DOTALL)
    found = write(tmp_path / "home", config, secrets)
    assert found.model.then == ["lan", "local"]
    assert [(link.name, link.on_request_only) for link in build_links(found)] == [
        ("", False),
        ("lan", False),
        ("local", False),
        ("claude", True),
    ]
    assert found.model_keys == {"lan": "", "local": "", "claude": "sk-ant-..."}
    assert found.api_key == "sk-or-..."


@each_row(
    "said",
    [
        f"at most {MAX_RETRIES} retries",
        f"take at most {MAX_RETRY_S:.0f} seconds",
        f"more than {MAX_WAIT_S:.0f} seconds",
        "after 0.5, 1.5 and 4.5 seconds",
        "ten times in a row",
        "after a minute, then after 2, 4",
    ],
)
def test_the_manuals_numbers_are_those_of_the_code(said):
    assert said in " ".join(MANUAL.split())
    assert (BREAKER_AFTER, OWNER_RETRY_S, MAX_HOLD_S) == (10, 60, 3600)
