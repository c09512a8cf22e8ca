"""What the guard says to a call: by what it does, who asks, and what the turn has read."""

import json
from datetime import UTC, datetime
from itertools import product

import pytest
from policy_kit import override_effects
from rows import each_row

from picoclaw.errors import Denied, Pending
from picoclaw.messages import Caller, ToolCall
from picoclaw.security.guard import Guard, format_ascii
from picoclaw.security.policy import DEFAULTS, EFFECTS, CallRequest, Policy, compute_digest, decide

NOW = datetime(2026, 7, 1, 12, 0, tzinfo=UTC)
ANSWERS = {"yes": lambda _: True, "no": lambda _: False, "nobody": None}
COLUMNS = {
    "owner": "owner",
    "web": "owner",
    "guest": "guest",
    "cron": "unattended",
    "heartbeat": "unattended",
    "rule": "unattended",
    "subagent": "unattended",
}
ORDER = ["allow", "ask", "refuse"]


def caller(origin="owner", *heard):
    return Caller("home", origin, NOW, print, set(heard))


def asked(effect="exec", **arguments):
    return CallRequest(effect, ToolCall("c1", "valve", arguments))


@each_row("effect", EFFECTS)
def test_the_verdict(effect):
    row = DEFAULTS[effect]._asdict()
    for policy, origin, answer, tainted in product([None, *ORDER], COLUMNS, ANSWERS, [False, True]):
        verdict = policy or max(row[COLUMNS[origin]], row["tainted"] if tainted else "allow", key=ORDER.index)
        passes = verdict == "allow" or (verdict == "ask" and origin in {"owner", "web"} and answer == "yes")
        guard = Guard(lambda policy=policy: override_effects({effect: policy}) if policy else Policy(), ANSWERS[answer])
        heard = ["web_fetch http://x.example"] if tainted else []
        try:
            guard(asked(effect), caller(origin, *heard))
            said = ""
        except Denied as error:
            said = str(error)
        assert said.startswith("valve was refused") if not passes else not said, (policy, origin, answer, tainted, said)


@each_row(
    ("verdict", "origin", "answer", "said"),
    [
        ("refuse", "owner", "yes", r"rule exec\.owner = refuse \(exec, asked for by the owner\)"),
        ("ask", "cron", "yes", r"rule exec\.unattended = ask \(exec, asked for by a job\) needs the owner's yes"),
        ("ask", "guest", "yes", "another person who may chat"),
        ("ask", "owner", "nobody", "nobody can be asked; .* an interactive `picoclaw chat`"),
        ("ask", "owner", "no", "the answer was no"),
    ],
)
def test_a_refusal_names_its_rule(verdict, origin, answer, said):
    with pytest.raises(Denied, match=said):
        Guard(lambda: override_effects({"exec": verdict}), ANSWERS[answer])(asked(), caller(origin))


def test_a_person_is_asked_only_when_the_answer_counts():
    questions = []
    rules = override_effects({"exec": "refuse", "write": "ask"})
    guard = Guard(lambda: rules, lambda question: not questions.append(question))
    guard(asked("read"), caller())
    for effect, origin in [("exec", "owner"), ("write", "cron"), ("write", "heartbeat"), ("write", "guest")]:
        with pytest.raises(Denied):
            guard(asked(effect), caller(origin))
    assert questions == []
    guard(asked("write", text="hi"), caller())
    assert questions == ['valve {"text": "hi"}']


@each_row("origin", COLUMNS)
def test_where_nobody_sits_the_call_is_kept_and_everybody_is_told_that_it_waits(origin):
    kept = []
    guard = Guard(Policy, keep=lambda *given: kept.append(given) or 7)
    with pytest.raises(Pending, match=r"^valve was not done yet: .* number 7.*; it is done when that comes$"):
        guard(asked("actuate"), caller(origin))
    assert [(one.effect, by.origin, decision.verdict) for one, by, decision in kept] == [("actuate", origin, "ask")]


def test_what_was_decided_is_written_down_but_for_what_only_looks():
    noted = []
    guard = Guard(
        lambda: override_effects({"write": "refuse"}),
        keep=lambda *_: 3,
        note=lambda *row: noted.append((row[0].effect, row[3])),
    )
    for effect in ("read", "exec", "write", "actuate"):
        try:
            guard(asked(effect), caller())
        except Denied:
            continue
    assert noted == [("exec", "allowed"), ("write", "refused"), ("actuate", "kept as number 3")]


def test_a_tool_goes_before_its_effect_and_always_before_asking_but_not_before_refusing():
    call = asked("actuate", pin=4)
    always = {compute_digest(call): 9}
    cases = [
        (Policy(), "ask", "actuate.owner = ask"),
        (Policy(tools={"valve": {"owner": "allow"}}), "allow", "tools.valve.owner = allow"),
        (Policy(always=always), "allow", "always 9"),
        (Policy(override_effects({"actuate": "refuse"}).effects, always=always), "refuse", "actuate.owner = refuse"),
    ]
    for policy, verdict, rule in cases:
        assert decide(policy, call, "owner", ())[:2] == (verdict, rule)
    other = call._replace(call=ToolCall("c2", "valve", {"pin": 5}))
    assert decide(Policy(always=always), other, "owner", ()).verdict == "ask"


@each_row(
    ("rules", "verdict", "rule"),
    [
        ({}, "allow", "network.owner = allow"),
        ({"exec": "ask"}, "ask", "exec.owner = ask"),
        ({"exec": "refuse"}, "refuse", "exec.owner = refuse"),
        ({"network": "ask"}, "ask", "network.owner = ask"),
        ({"network": "refuse", "exec": "ask"}, "refuse", "network.owner = refuse"),
        ({"network": "ask", "exec": "refuse"}, "refuse", "exec.owner = refuse"),
    ],
)
def test_of_several_effects_the_strictest_rule_counts(rules, verdict, rule):
    call = asked("network")._replace(other_effects=("exec",))
    assert decide(override_effects(rules), call, "owner", ())[:2] == (verdict, rule)
    for_good = Policy(override_effects(rules).effects, always={compute_digest(call): 4})
    assert decide(for_good, call, "owner", ()).verdict == ("refuse" if verdict == "refuse" else "allow")
    is_requested = call._replace(is_requested=True, other_effects=("exec",))
    assert decide(Policy({"exec": {"tainted": "refuse"}}), is_requested, "owner", ["x"]).rule == "exec.tainted = refuse"


@each_row(
    "other",
    [
        CallRequest("exec", ToolCall("c1", "valve", {"pin": 4.0})),
        CallRequest("exec", ToolCall("c1", "valve", {"pin": "4"})),
        CallRequest("exec", ToolCall("c1", "valve", {"pin": 4, "more": None})),
        CallRequest("exec", ToolCall("c1", "valves", {"pin": 4})),
        CallRequest("write", ToolCall("c1", "valve", {"pin": 4})),
        CallRequest("exec", ToolCall("c1", "valve", {"pin": 4}), bound={"cwd": "/"}),
        CallRequest("exec", ToolCall("c1", "valve", {"pin": 4}), "opens another one by now"),
    ],
)
def test_a_yes_holds_for_exactly_one_call(other):
    same = CallRequest("exec", ToolCall("another id", "valve", {"pin": 4}))
    assert compute_digest(same) == compute_digest(CallRequest("exec", ToolCall("c1", "valve", {"pin": 4})))
    assert compute_digest(same) != compute_digest(other)


@each_row(
    "text",
    ["rm -rf /\r echo harmless", "\x1b[2K\x1b[1A", "a\x00b", "\x7f\x7f", "\x9b2J", "\u202egpj.exe", "\u200b", "\ud800"],
)
def test_what_a_person_is_asked_hides_nothing(text):
    shown = format_ascii(asked(command=text), {})
    assert shown.isascii()
    assert shown.isprintable()
    assert json.loads(shown.removeprefix("valve ")) == {"command": text}


def test_what_a_person_is_asked_is_the_whole_call():
    command = "x" * 20_000 + "; rm -rf /"
    assert format_ascii(asked(command=command), {}).endswith('; rm -rf /"}')
