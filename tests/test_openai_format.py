"""The format of model servers, both ways: what is sent is strict, what is taken is whatever they send."""

import json
import random
import time
from typing import Any

import pytest
from model_server import NO_USAGE, call, chunk, chunks, usage_of, whole_body
from rows import each_row
from scripted import TOOLS, calls_of, joined, text_of
from validity import check_body

from picoclaw.errors import (
    ContextOverflow,
    KeyRefused,
    NoCredit,
    NotServed,
    PicoclawError,
    ProviderError,
    Refused,
    Unavailable,
)
from picoclaw.messages import End, Event, Image, Message, Request, Text, Thought, ToolCall, Usage
from picoclaw.providers import http, openai
from picoclaw.providers.openai import NO_THOUGHTS, REASONED
from picoclaw.providers.retry import make_error
from picoclaw.providers.text_calls import TextCallParser, get_user_text, parse_arguments

KNOWN = frozenset(str(t["name"]) for t in TOOLS)
READ = ToolCall("x", "sensor_read", {"quantity": "temperature"})
ASKED = Message("user", "how warm is it?")


def request_of(*messages: Message, system: str = "Be brief.", tools: Any = TOOLS) -> Request:
    return Request(system, messages, tools, 100, 0.0)


def sent(*messages: Message) -> list[dict[str, Any]]:
    """The messages of a body, without the system's, after the strict judge has seen the body."""
    body = openai.build_body(request_of(*messages), "m", stream=False)
    check_body(body)
    return [m for m in body["messages"] if m["role"] != "system"]


def heard(*parts: Any, known: frozenset[str] = KNOWN) -> list[Event]:
    """What an answer of these chunks comes to."""
    assembler = openai.AnswerAssembler(known)
    events = [event for part in (*parts, openai.COMPLETE_CHUNK) for event in assembler.feed(part)]
    return joined([*events, *assembler.end()])


def answered(text: str, finish: str = "stop") -> list[Event]:
    return heard(whole_body(text, finish=finish))


# What is sent


def test_body_of_a_first_question() -> None:
    body = openai.build_body(request_of(ASKED), "qwen", stream=False)
    assert body == {
        "model": "qwen",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "how warm is it?"},
        ],
        "tools": [{"type": "function", "function": t} for t in TOOLS],
        "max_tokens": 100,
    }


def test_what_stays_the_same_comes_first() -> None:
    body = openai.build_body(request_of(ASKED), "m", stream=True, temperature=0.5)
    assert list(body) == ["model", "max_tokens", "temperature", "stream", "stream_options", "tools", "messages"]


def test_a_body_is_sent_compact_and_as_it_is() -> None:
    body = openai.build_body(request_of(Message("user", "21 °C\n\ud83d"), tools=()), "m", stream=False)
    told = '{"role":"system","content":"Be brief."},{"role":"user","content":"21 °C\\n?"}'
    assert http.encode_body(body) == f'{{"model":"m","max_tokens":100,"messages":[{told}]}}'.encode()


def test_the_requests_own_model_goes_before_the_configured_one() -> None:
    assert openai.build_body(request_of(ASKED)._replace(model="llama"), "m", stream=False)["model"] == "llama"


@each_row("token", ["<|im_start|>", "</s>", "[INST]", "<｜User｜>", "<tool_call>"])
def test_control_tokens_of_chat_templates_go_out_broken_wherever_they_stand(token: str) -> None:
    told = f"x {token}system"
    called = ToolCall("x", "exec", {"command": told, token: [told]})
    messages = (
        Message("user", told),
        Message("assistant", told, (called,)),
        Message("tool", told, call_id="x"),
    )
    tools = ({"name": "exec", "description": told, "parameters": {"type": "object"}},)
    body = openai.build_body(request_of(*messages, system=told, tools=tools), "m", stream=False)
    check_body(body)
    sent = http.encode_body(body).decode()
    assert token not in sent
    assert sent.count(f"x {token[0]} {token[1:]}system") == 7
    assert (
        http.encode_body(openai.build_body(request_of(*messages, system=told, tools=tools), "m", stream=False)).decode()
        == sent
    )


def test_body_asks_for_a_stream_with_usage() -> None:
    body = openai.build_body(request_of(ASKED), "m", stream=True)
    assert body["stream"] is True
    assert body["stream_options"] == {"include_usage": True}


def test_body_names_the_cap_as_the_server_does() -> None:
    body = openai.build_body(request_of(ASKED), "m", stream=False, cap="max_completion_tokens")
    assert (body["max_completion_tokens"], "max_tokens" in body) == (100, False)


@each_row("system", ["", " \n"])
def test_body_leaves_out_what_is_empty(system: str) -> None:
    body = openai.build_body(request_of(ASKED, system=system, tools=()), "m", stream=False)
    assert "tools" not in body
    assert [m["role"] for m in body["messages"]] == ["user"]


def test_calls_and_results_are_paired() -> None:
    messages = sent(ASKED, Message("assistant", "", (READ,)), Message("tool", "21.4", call_id="x"))
    number = messages[1]["tool_calls"][0]["id"]
    function = {"name": "sensor_read", "arguments": '{"quantity": "temperature"}'}
    assert messages[1]["tool_calls"] == [{"id": number, "type": "function", "function": function}]
    assert messages[2] == {"role": "tool", "tool_call_id": number, "name": "sensor_read", "content": "21.4"}


def test_a_broken_call_goes_back_as_an_empty_object() -> None:
    broken = ToolCall("x", "exec", {}, '{"command": "rm')
    messages = sent(ASKED, Message("assistant", "", (broken,)), Message("tool", "error: ...", call_id="x"))
    assert messages[1]["tool_calls"][0]["function"]["arguments"] == "{}"


# What comes back: whole and in every chunking


ANSWERS = {
    "text": ("It is 21.4 °C.\nWarm enough?", []),
    "call": ("", [call("sensor_read", {"quantity": "temperature"})]),
    "calls": ("One moment.", [call("sensor_read", {"q": 'a "b"\n'}, "c1"), call("exec", {"command": "ls"}, "c2")]),
    "broken": ("", [call("exec", '{"command": "rm')]),
    "thought": ("<think>\nHm, {1}.\n</think>\n\nIt is 21 °C.", []),
    "thoughts": ("<think>a</think>\n<think>b</think>It is <think> 21.", []),
    "only thought": ("<think>and so on", []),
    "fenced": ('I will look.\n```json\n{"name": "sensor_read", "arguments": {"quantity": "light"}}\n```\n', []),
    "fence cut short": ('```json\n{"name": "sensor_read", "arguments": {}}', []),
    "tagged": ('<tool_call>\n{"name": "exec", "arguments": {"command": "ls"}}\n</tool_call>', []),
    "tagged in a line": ('Sure! <tool_call>{"name": "exec", "arguments": {}}</tool_call>', []),
    "two tags": ('<tool_call>{"name": "exec"}</tool_call>\n<tool_call>{"name": "sensor_read"}</tool_call>', []),
    "lone fence": ('{"name": "sensor_read", "parameters": {"quantity": "light"}}\n```\n', []),
    "bare": ('{"name": "sensor_read", "parameters": {"quantity": "light"}}', []),
    "indented": ('Look:\n  \t{"name": "sensor_read"}', []),
    "array": ('[{"name": "sensor_read"}, {"name": "exec"}]', []),
    "wrapped": ('{"type": "function", "function": {"name": "exec", "arguments": "{\\"command\\": \\"ls\\"}"}}', []),
    "thought and call": ('<think>I read.</think>\n\n{"name": "sensor_read"}', []),
    "code": ("Try:\n```python\nprint(1)\n```\nThat is all.\n", []),
    "almost": ("`code` and <b>, <tool, ``\n<thin\n<\n  [a](b) {c}\n", []),
    "odd line ends": ("a\r\n{b}\r \r{\u2028{x}\x85 [1]\x0c{", []),
    "spaces": ("  \n\n  hello  \n", []),
    "json text": ('{"temperature": 21}\nis the reading.', []),
}


@each_row("name", ANSWERS)
@each_row("finish", ["", "length"])
def test_every_chunking_gives_the_same_events(name: str, finish: str) -> None:
    text, calls = ANSWERS[name]
    expected = heard(whole_body(text, calls, finish))
    longest = max(len(text), *(len(c["function"]["arguments"]) for c in calls), 1)
    for pieces in range(1, longest + 1):
        assert heard(*chunks(text, calls, finish, pieces=pieces)) == expected, pieces


@each_row("name", ANSWERS)
def test_a_split_at_any_place_gives_the_same_events(name: str) -> None:
    text = ANSWERS[name][0]
    expected = heard(whole_body(text, usage=NO_USAGE))
    for i in range(len(text) + 1):
        assert heard(chunk(content=text[:i]), chunk("stop", content=text[i:])) == expected, i


def test_text_is_shown_as_it_comes() -> None:
    assembler = openai.AnswerAssembler(KNOWN)
    shown = [text_of(list(assembler.feed(chunk(content=piece)))) for piece in ("It", " is", " 21", ".\n", "`ok`")]
    assert shown == ["It", " is", " 21", ".\n", "`ok`"]


def test_text_after_a_thought_is_shown_as_it_comes() -> None:
    assembler = openai.AnswerAssembler(KNOWN)
    pieces = ("<think>", "Hm.", "</think>", "\n\n", "It", " is")
    assert [text_of(list(assembler.feed(chunk(content=piece)))) for piece in pieces] == ["", "", "", "", "It", " is"]


def test_a_very_long_thought_is_not_shown() -> None:
    pieces = ("<think>", *(f"thinking {number} " for number in range(50_000)), "</think>", "It is 21.")
    assert text_of(heard(*(chunk(content=piece) for piece in pieces))) == "It is 21."


# What comes back: the shapes


def test_usage_in_a_last_chunk_without_choices() -> None:
    last = {"choices": [], "usage": usage_of((41, 7))}
    assert heard(chunk(content="Hi"), chunk("stop"), last)[-1] == End("stop", Usage(41, 7))


@each_row(
    ("told", "believed"),
    [(2**63, 10**12), (10**400, 10**12), (-1, 0), (-(2**63), 0), (True, 0), (1e300, 0), (2**62, 10**12), (41, 41)],
)
def test_usage_that_no_database_takes_is_bounded(told: Any, believed: int) -> None:
    usage = {"prompt_tokens": told, "completion_tokens": told}
    assert heard(whole_body("Hi") | {"usage": usage})[-1] == End("stop", Usage(believed, believed))


@each_row("usage", [None, {}, {"prompt_tokens": None}, {"prompt_tokens": "many"}, [], -1])
def test_usage_that_says_nothing(usage: Any) -> None:
    assert heard(whole_body("Hi", usage=NO_USAGE) | {"usage": usage}) == [Text("Hi"), End("stop", Usage())]


@each_row("choices", [[], [None], ["text"], [{}], [{"message": None}], [{"message": "text"}]])
def test_choices_with_nothing_in_them(choices: list[Any]) -> None:
    assert heard({"choices": choices}) == [End("stop", Usage())]


@each_row(
    ("message", "text"),
    [
        ({"content": None}, ""),
        ({"content": ""}, ""),
        ({"content": [{"type": "text", "text": "It is "}, {"type": "text", "text": "21."}]}, "It is 21."),
        ({"content": [{"type": "thinking", "thinking": [{"text": "Hm."}]}, {"type": "text", "text": "21"}]}, "21"),
        ({"content": [None, "x", {"type": "image_url"}]}, ""),
        ({"content": 21}, ""),
        ({"content": None, "refusal": "I cannot help with that."}, "I cannot help with that."),
        ({"content": "21", "reasoning_content": "Hm.", "reasoning": "Hm.", "reasoning_details": [{}]}, "21"),
        ({"content": "21", "tool_calls": None, "function_call": None, "audio": None, "annotations": []}, "21"),
        ({"content": "21", "tool_calls": [None, "x"], "function_call": "x"}, "21"),
    ],
)
def test_content_in_all_its_forms(message: dict[str, Any], text: str) -> None:
    assert text_of(heard(whole_body(**message))) == text
    assert text_of(heard(chunk(**message), chunk("stop"))) == text


@each_row(
    ("finish", "known"), [("length", "length"), ("content_filter", "content_filter"), ("", "stop"), (None, "stop")]
)
def test_why_an_answer_ended(finish: Any, known: str) -> None:
    assert heard(chunk(content="Hi"), chunk(finish))[-1] == End(known, Usage())


def test_tool_calls_as_a_reason_with_none_and_stop_with_some() -> None:
    assert calls_of(heard(whole_body("Hi", finish="tool_calls"))) == []
    assert len(calls_of(heard(whole_body("", [call("exec")], finish="stop")))) == 1


@each_row(
    ("arguments", "meant"),
    [
        ('{"a": 1}', {"a": 1}),
        ("", {}),
        ("  ", {}),
        ('"{\\"a\\": 1}"', {"a": 1}),
        (' {"a": {"b": [1, null]}}\n', {"a": {"b": [1, None]}}),
        ('{"a": 1, "a": 2}', {"a": 2}),
        ('{"text": "\\ud83d\\ude00"}', {"text": "😀"}),
    ],
)
def test_arguments_that_can_be_read(arguments: str, meant: dict[str, Any]) -> None:
    assert calls_of(heard(whole_body("", [call("exec", arguments)]))) == [ToolCall("call_1", "exec", meant)]


@each_row(
    "arguments",
    [
        '{"command": "rm',
        '{"{"tagIds":',
        "{'a': 1}",
        '{"a": 1} {"b": 2}',
        "null",
        "[]",
        "7",
        '"text"',
        '""',
        '{"a": NaN}',
        '{"a": Infinity}',
        '{"a": -1e999}',
        '{"a": "\\ud83d"}',
        '{"a": "\0"}',
        "[" * 100_000,
        '{"a": ' + "9" * 5000 + "}",
        "sensor_read()",
    ],
    ids=lambda text: text[:20].replace("\0", "NUL"),
)
def test_broken_arguments_are_kept_apart_and_never_run(arguments: str) -> None:
    (found,) = calls_of(heard(whole_body("", [call("exec", arguments)])))
    assert (found.arguments, found.broken) == ({}, arguments)
    sent(ASKED, Message("assistant", "", (found,)), Message("tool", "error", call_id=found.id))


@each_row(
    ("arguments", "meant"),
    [({"a": 1}, {"a": 1}), ({}, {}), (None, {})],
)
def test_arguments_that_are_no_text(arguments: Any, meant: dict[str, Any]) -> None:
    one = {"id": "call_1", "function": {"name": "exec", "arguments": arguments}}
    assert calls_of(heard(whole_body("", [one]))) == [ToolCall("call_1", "exec", meant)]
    assert calls_of(heard(chunk(tool_calls=[one]), chunk("stop"))) == [ToolCall("call_1", "exec", meant)]


@each_row("arguments", [[1], 7, True, {"a": float("nan")}, {"a": "\ud83d"}])
def test_arguments_that_are_no_text_and_no_good(arguments: Any) -> None:
    one = {"id": "call_1", "function": {"name": "exec", "arguments": arguments}}
    (found,) = calls_of(heard(whole_body("", [one])))
    assert found.arguments == {}
    assert found.broken


def test_a_call_cut_at_the_limit_before_its_arguments_is_not_run_without_them() -> None:
    first, second = calls_of(heard(whole_body("", [call("exec", "{}"), call("exec", "", "c2")], finish="length")))
    assert not first.broken
    assert second.broken


def test_calls_without_ids_get_different_ones() -> None:
    bare = [{"function": {"name": "exec", "arguments": "{}"}} for _ in range(3)]
    assert len({c.id for c in calls_of(heard(whole_body("", bare)))}) == 3


@each_row("odd", [{}, {"function": None}, {"function": "exec"}, {"function": {"arguments": "{}"}}])
def test_a_call_without_a_name_is_one_that_no_tool_answers(odd: dict[str, Any]) -> None:
    assert [c.name for c in calls_of(heard(whole_body("", [odd])))] in ([""], [])


def test_whole_calls_in_chunks_of_their_own_stay_apart() -> None:
    """Some servers number every streamed call 0, or not at all."""
    parts = [call("exec", {"n": n}, f"c{n}") for n in range(3)]
    expected = [ToolCall(f"c{n}", "exec", {"n": n}) for n in range(3)]
    assert calls_of(heard(*(chunk(tool_calls=[p | {"index": 0}]) for p in parts))) == expected
    assert calls_of(heard(*(chunk(tool_calls=[p]) for p in parts))) == expected
    nameless = [chunk(tool_calls=[{"function": p["function"]}]) for p in parts]
    assert [c.arguments for c in calls_of(heard(*nameless))] == [{"n": 0}, {"n": 1}, {"n": 2}]


def test_a_call_whose_id_and_name_come_with_every_piece_is_one() -> None:
    whole = call("exec", {"command": "ls -l"})
    pieces = [
        chunk(tool_calls=[{"index": 0, "id": "c1", "function": {"name": "exec", "arguments": letter}}])
        for letter in whole["function"]["arguments"]
    ]
    assert calls_of(heard(*pieces)) == [ToolCall("c1", "exec", {"command": "ls -l"})]


def test_pieces_of_two_calls_may_be_mixed() -> None:
    parts = [
        {"index": 0, "id": "c1", "function": {"name": "exec", "arguments": '{"a"'}},
        {"index": 1, "id": "c2", "function": {"name": "sensor_read", "arguments": '{"b"'}},
        {"index": 0, "function": {"arguments": ": 1}"}},
        {"index": 1, "function": {"arguments": ": 2}"}},
    ]
    assert calls_of(heard(*(chunk(tool_calls=[p]) for p in parts))) == [
        ToolCall("c1", "exec", {"a": 1}),
        ToolCall("c2", "sensor_read", {"b": 2}),
    ]


def test_the_old_form_of_a_call() -> None:
    old = {"name": "exec", "arguments": '{"command": "ls"}'}
    (whole,) = calls_of(heard(whole_body(None, function_call=old)))
    pieces = [chunk(function_call={"name": "exec"}), *(chunk(function_call={"arguments": c}) for c in old["arguments"])]
    (streamed,) = calls_of(heard(*pieces, chunk("function_call")))
    assert whole == streamed == ToolCall(whole.id, "exec", {"command": "ls"})


@each_row("text", ["half \ud83d a pair", "\ude00"])
def test_half_a_character_is_replaced(text: str) -> None:
    assert "�" in text_of(answered(text))
    text_of(answered(text)).encode()


def test_a_character_split_over_two_chunks_is_whole() -> None:
    assert text_of(heard(chunk(content="ok \ud83d"), chunk("stop", content="\ude00!"))) == "ok 😀!"


@each_row("odd", [None, [], "text", 7, True])
def test_a_chunk_that_is_no_object(odd: Any) -> None:
    with pytest.raises(Unavailable, match="object"):
        heard(odd)


@each_row("odd", [{}, {"choices": None}, {"status": "ok"}, {"message": "Not here."}])
def test_a_body_that_is_no_answer(odd: Any) -> None:
    with pytest.raises(Unavailable, match="no answer"):
        heard(odd)


# Errors within an answer


@each_row(
    ("part", "kind", "told"),
    [
        ({"error": {"message": "overloaded"}}, Unavailable, "overloaded"),
        ({"error": "overloaded"}, Unavailable, "overloaded"),
        ({"error": {"code": 502, "message": "Provider returned error"}}, Unavailable, "Provider returned error"),
        ({"error": {"code": 401, "message": "No auth"}}, Refused, "PICOCLAW_API_KEY"),
        ({"error": {"code": "400", "message": "odd"}}, Refused, "odd"),
        ({"error": {"message": "maximum context length is 4096 tokens"}}, ContextOverflow, "4096"),
        ({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}, Unavailable, "busy"),
        (chunk("error"), Unavailable, "cannot answer now"),
        ({"choices": [{"finish_reason": "error", "error": {"message": "died"}}]}, Unavailable, "died"),
        ({"choices": [], "error": {"message": "died"}}, Unavailable, "died"),
        ({"object": "error", "message": "odd", "code": 400}, Refused, "odd"),
    ],
)
def test_error_within_an_answer(part: dict[str, Any], kind: type[ProviderError], told: str) -> None:
    with pytest.raises(kind) as caught:
        heard(chunk(content="It is "), part)
    assert told in str(caught.value)


# Calls written as text


@each_row(
    ("name", "shown", "wanted"),
    [
        ("fenced", "I will look.\n", [("sensor_read", {"quantity": "light"})]),
        ("fence cut short", "", [("sensor_read", {})]),
        ("tagged", "", [("exec", {"command": "ls"})]),
        ("tagged in a line", "Sure! ", [("exec", {})]),
        ("two tags", "", [("exec", {}), ("sensor_read", {})]),
        ("bare", "", [("sensor_read", {"quantity": "light"})]),
        ("indented", "Look:\n", [("sensor_read", {})]),
        ("array", "", [("sensor_read", {}), ("exec", {})]),
        ("wrapped", "", [("exec", {"command": "ls"})]),
        ("thought and call", "", [("sensor_read", {})]),
    ],
)
def test_calls_written_as_text(name: str, shown: str, wanted: list[tuple[str, Any]]) -> None:
    events = answered(ANSWERS[name][0])
    assert text_of(events) == shown
    assert [(c.name, c.arguments) for c in calls_of(events)] == wanted
    assert len({c.id for c in calls_of(events)}) == len(wanted)


@each_row(
    "text",
    [
        '```json\n{"name": "unknown_tool", "arguments": {}}\n```',
        '{"name": "unknown_tool", "arguments": {}}',
        '{"name": "Ann", "age": 7}',
        '{"name": ["exec"]}',
        '{"name": {"first": "Ann"}}',
        '{"name": null}',
        '{"function": null, "name": 7}',
        '{"name": "exec", "arguments": {"a": NaN}}',
        '{"name": "exec", "arguments": "{"}',
        '{"name": "exec", "arguments": [1]}',
        '{"name": "exec", "arguments": {}} is what I would send; shall I?',
        '[{"name": "exec"}, "and more"]',
        '{"temperature": 21}',
        "[1, 2]",
        "[]",
        "```json\n{not json}\n```",
        "<tool_call>not json</tool_call>",
        "".join(f"[{number}," for number in range(50_000)),
        "The tag <think> opens a thought.\nIt is not one here.",
        "```\n<think>\n```\nThis is how it is written.",
        'Call it like `{"name": "exec"}` please.',
        "  indented",
        "{",
        "```",
    ],
    ids=lambda text: text[:30],
)
def test_text_that_only_looks_like_a_call_stays_text(text: str) -> None:
    assert answered(text) == [Text(text), End("stop", Usage(7, 3))]


@each_row(
    "text",
    [
        '```json\n{"name": "exec", "arguments": {"command": "touch X"}}\n```\nI did not run it.',
        'So:\n```json\n{"name": "exec", "arguments": {}}\n```\nor\n```json\n{"name": "exec"}\n```\n',
        '{"name": "exec", "arguments": {}}\n```\nis how a call looks.',
        '{"name": "exec", "arguments": {}}\n```\n21 °C\n```',
        '`{"name": "exec", "arguments": {}}`',
        '```json\n{"exec": {"command": "ls"}}\n```\nPut it into bridge.json.',
        'This is bridge.json:\n```json\n{"exec": {"command": "ls"}}\n```\n',
        '```xml\n<tool_call>{"name": "exec"}</tool_call>\n```\nThat is how it looks.',
        '```\n<exec command="ls"/>\n```\nThat is how it looks.',
        '```\n<tool name="exec" arguments="{}"/>\n```\nThat is how it looks.',
        '<example>\n{"name": "exec"}\n</example>\nis an example.',
        "<exec>\nis an element.",
        'Write <exec command="ls"/> into it.',
        'Write\nor <exec command="ls"/> into it.',
        '<b id="exec">exec</b>',
    ],
)
@each_row("size", [1, 7, 1000])
def test_a_call_that_is_only_talked_about_is_not_made(text: str, size: int) -> None:
    inline = TextCallParser(KNOWN)
    shown = "".join(inline.feed(text[i : i + size]) for i in range(0, len(text), size))
    rest, found = inline.end(cut=False)
    assert (shown + rest, found) == (text, [])


@each_row("said", ["", "I look.\n"])
@each_row("end", ["\n```", "\n\n```\n", "```", "\n```json\n", "\n</tool_call>\n"])
@each_row("size", [1, 7, 1000])
def test_a_call_before_a_lone_fence_is_made(said: str, end: str, size: int) -> None:
    text = f'{said}{{"name": "exec", "arguments": {{"command": "ls"}}}}{end}'
    inline = TextCallParser(KNOWN)
    shown = "".join(inline.feed(text[i : i + size]) for i in range(0, len(text), size))
    rest, found = inline.end(cut=False)
    assert (shown + rest, found) == (said, [("exec", {"command": "ls"})])


@each_row("size", [1, 2, 5, 1000])
def test_attributes_are_arguments(size: int) -> None:
    text = """Look:\n<tools>
  <sensor_read sensor="porch" quantity='the "air"' />
  <exec command="echo &lt;a&gt; && ls"/><sensor_list/>\n</tools>"""
    inline = TextCallParser(frozenset({"sensor_read", "exec", "sensor_list"}))
    shown = "".join(inline.feed(text[i : i + size]) for i in range(0, len(text), size))
    assert (shown, inline.end(cut=False)) == (
        "Look:\n",
        (
            "",
            [
                ("sensor_read", {"sensor": "porch", "quantity": 'the "air"'}),
                ("exec", {"command": "echo <a> && ls"}),
                ("sensor_list", {}),
            ],
        ),
    )


@pytest.mark.parametrize("before", ["", "</s>", "It is 21."])
@pytest.mark.parametrize("field", ["content", "reasoning_content"])
def test_blanks_without_end_cost_no_time(before: str, field: str) -> None:
    text = before + "\n" + "".join(random.Random(1).choices(" \t", k=60_000)) + "."
    assembler = openai.AnswerAssembler(KNOWN)
    began = time.process_time()
    for start in range(0, len(text), 40):
        list(assembler.feed(chunk(**{field: text[start : start + 40]})))
    list(assembler.feed(chunk("stop")))
    list(assembler.end())
    assert time.process_time() - began < 2


@each_row("name", ["fenced", "fence cut short", "tagged", "bare", "array"])
def test_a_call_in_text_that_was_cut_is_not_run(name: str) -> None:
    text = ANSWERS[name][0]
    events = answered(text, finish="length")
    assert not calls_of(events)
    assert text_of(events) == text


def test_a_written_call_beside_a_real_one_is_not_run_twice() -> None:
    events = heard(whole_body('{"name": "exec"}', [call("exec", {"command": "ls"})]))
    assert [c.arguments for c in calls_of(events)] == [{"command": "ls"}]


def test_calls_are_not_looked_for_where_no_tool_was_offered() -> None:
    assert calls_of(heard(whole_body('{"name": "exec"}'), known=frozenset())) == []


@each_row(
    ("text", "shown"),
    [
        ("<think>Hm.</think>It is 21.", "It is 21."),
        ("<think>Hm.\n\n</think>\n\nIt is 21.", "It is 21."),
        ("\n<think>Hm.</think>\nIt is 21.", "It is 21."),
        ("<think>never ends", ""),
        ("<think></think>", ""),
    ],
)
def test_thoughts_are_not_shown(text: str, shown: str) -> None:
    assert text_of(answered(text)).strip() == shown


# Errors instead of an answer


def error_of(message: str, **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, **more}}


@each_row(
    ("status", "answer", "kind", "told"),
    [
        (401, error_of("Incorrect key"), KeyRefused, "PICOCLAW_API_KEY"),
        (403, error_of("unsupported_country_region_territory"), KeyRefused, "unsupported_country"),
        (404, error_of("The model `x` does not exist"), NotServed, "base_url"),
        (404, "404 page not found", NotServed, "base_url"),
        (400, error_of("tools is not supported"), Refused, "tools is not supported"),
        (400, {"detail": "Bad request"}, Refused, "Bad request"),
        (402, error_of("Insufficient credits"), NoCredit, "Insufficient credits"),
        (405, {}, NotServed, "base_url"),
        (413, error_of("Request too large"), ContextOverflow, "too large"),
        (422, {"detail": [{"loc": ["body", "x"], "msg": "extra forbidden"}]}, Refused, "extra forbidden"),
        (422, {"object": "error", "message": {"detail": [{"msg": "Extra"}]}}, Refused, "Extra"),
        (408, {}, Unavailable, "408"),
        (409, {}, Unavailable, "409"),
        (425, {}, Unavailable, "425"),
        (429, error_of("Rate limit reached"), Unavailable, "Rate limit reached"),
        (429, error_of("You exceeded your current quota", code="insufficient_quota"), NoCredit, "quota"),
        (500, error_of("no user query found"), Unavailable, "no user query"),
        (502, "it sent a web page", Unavailable, "web page"),
        (503, error_of("Loading model", type="unavailable_error"), Unavailable, "Loading model"),
        (520, "", Unavailable, "520"),
        (529, error_of("Overloaded", type="overloaded_error"), Unavailable, "Overloaded"),
        (400, error_of("x", code="context_length_exceeded"), ContextOverflow, "window"),
        (400, error_of("This model's maximum context length is 4096 tokens"), ContextOverflow, "4096"),
        (400, error_of("x", type="exceed_context_size_error"), ContextOverflow, "window"),
        (500, error_of("the request exceeds the available context size, try increasing it"), ContextOverflow, "window"),
        (400, error_of("prompt is too long: 210000 tokens > 200000 maximum"), ContextOverflow, "210000"),
        (400, error_of("The input token count (40000) exceeds the maximum number of tokens"), ContextOverflow, "40000"),
        (400, error_of("loaded with context length of only 4096 tokens"), ContextOverflow, "4096"),
        (400, None, Refused, "400"),
        (418, [1, 2], Refused, "418"),
        (400, 7, Refused, "400"),
        (400, {"error": True}, Refused, "400"),
        (300, {}, Refused, "300"),
    ],
)
def test_failure(status: int, answer: Any, kind: type[PicoclawError], told: str) -> None:
    error = make_error(status, answer)
    assert type(error) is kind
    assert told in str(error)
    assert len(str(error).splitlines()) == 1


@each_row(("status", "place"), [(400, "config.toml"), (402, "account"), (405, "base_url"), (418, "config.toml")])
def test_a_refusal_says_what_to_try(status: int, place: str) -> None:
    assert place in str(make_error(status, {}))


def test_a_long_error_is_cut_and_stays_one_line() -> None:
    error = str(make_error(500, error_of("line\n" * 5000)))
    assert len(error) < 500
    assert "\n" not in error


def test_the_wait_a_server_asks_for_is_kept() -> None:
    error = make_error(429, {}, retry_after=7.5)
    assert isinstance(error, Unavailable)
    assert error.retry_after == 7.5


def test_written_arguments_survive_the_way_there_and_back() -> None:
    original = {"text": 'He said "21 °C"\n\t\\', "n": [1, 2.5, None, True], "deep": {"a": {}}}
    there = sent(ASKED, Message("assistant", "", (ToolCall("x", "exec", original),)), Message("tool", "", call_id="x"))
    back = calls_of(heard(whole_body("", json.loads(json.dumps(there[1]["tool_calls"])))))
    assert back[0].arguments == original


# What small models take for JSON


@each_row(
    ("text", "arguments"),
    [
        ('{"a": 1,}', {"a": 1}),
        ('{"address": 0x76, "data": [0x1, 0xfF ]}', {"address": 118, "data": [1, 255]}),
        ('{"text": "at 0x76, then"}', {"text": "at 0x76, then"}),
    ],
)
def test_nearly_json_is_read(text: str, arguments: dict[str, Any]) -> None:
    assert parse_arguments(text) == (arguments, "")


@each_row("depth", [60, 200, 900, 960, 965, 970, 3000])
@each_row("written", ['{{"name": "exec", "arguments": {}}}', "{}"])
def test_what_is_nested_too_deep_to_be_kept_is_no_arguments(depth: int, written: str) -> None:
    text = f'{{"a": {"[" * depth}{"]" * depth}}}'
    assert parse_arguments(text) == ({}, text)
    calls = TextCallParser(frozenset({"exec"}))
    answer = written.format(text)
    assert (calls.feed(answer) + calls.end(cut=False)[0], calls.end(cut=False)[1]) == (answer, [])


@each_row(
    "text",
    [
        '{{"name": "sensor_read", "arguments": {"sensor": ""}}}',
        '{{"name": "sensor_read", "arguments": {"sensor": ""}}}}',
        '<tools>\n  {"name": "sensor_read", "arguments": {"sensor": ""}}\n</tools>',
        '<response>{"name": "sensor_read", "arguments": {"sensor": ""}}</response>',
        '<function_call>{"name": "sensor_read", "arguments": {"sensor": ""}}</function_call>',
        '```json\n{"name": "sensor_read", "arguments": {"sensor": "",}}\n```',
        '<tools>\n  <function name="sensor_read" arguments=\'{"sensor": ""}\'/>\n</tools>',
        "<tools>\n  <function name=\"sensor_read\" arguments=\"{'sensor': ''}\"/>\n</tools>",
        '<tool name="sensor_read" arguments=\'{"sensor": ""}\'/>',
        '<tool name="sensor_read" arguments="{&quot;sensor&quot;: &quot;&quot;}" />',
        '<tool name="sensor_read" parameters=\'{"sensor": ""}\'>21.4 °C</tool>',
        '```json\n{"sensor_read": {"sensor": ""}}\n```',
        '<tools>\n  <sensor_read sensor="" />\n</tools>',
        '<sensor_read sensor=""/>',
        "<sensor_read\n  sensor=''\n>\n</sensor_read>\nIt is 21 °C.",
        '```xml\n<sensor_read sensor=""/>\n```',
        '{"name": "sensor_read", "arguments": {"sensor": ""}}\n<tool_response>\n21 °C\n</tool_response>\nIt is 21 °C.',
        '<tool_call>\n{"name": "sensor_read", "arguments": {"sensor": ""}}\n</tool_call>\nIt is 21 °C.',
    ],
)
@each_row("size", [1, 3, 1000])
def test_calls_as_small_models_write_them(text: str, size: int) -> None:
    inline = TextCallParser(frozenset({"sensor_read"}))
    shown = "".join(inline.feed(text[i : i + size]) for i in range(0, len(text), size))
    rest, found = inline.end(cut=False)
    assert (shown + rest, found) == ("", [("sensor_read", {"sensor": ""})])


@each_row(
    ("text", "shown", "found"),
    [
        ("<tool_response>\n21 °C\n</tool_response>\nIt is 21 °C.", "", []),
        ("<tool_response> is what Qwen calls it.\nAnd more.", "<tool_response> is what Qwen calls it.\nAnd more.", []),
        ("I look.\n<tool_result>21 °C</tool_result>", "I look.\n", []),
        ("<response>Ada</response>", "Ada", []),
        ('<tool name="fly" arguments="{}"/>', '<tool name="fly" arguments="{}"/>', []),
        ('<tool name="sensor_read"/>\n<tool name="sensor_read"/>', "", [("sensor_read", {})] * 2),
        ("The tag <tool_response> holds a result.", "The tag <tool_response> holds a result.", []),
        ('<a name="top"> is an anchor.', '<a name="top"> is an anchor.', []),
        ('<input name="sensor_read">\nSave it.', '<input name="sensor_read">\nSave it.', []),
        ('{"name": "sensor_read", "description": "x"}', '{"name": "sensor_read", "description": "x"}', []),
        ('{"sensor_read": []}', '{"sensor_read": []}', []),
        ('{"name": "sensor_read", "arguments": {"sensor": "[0x10, 1,]"}}', "", [("sensor_read", {"sensor": "[0x10, 1,]"})]),
        ('{"fly": {}}', '{"fly": {}}', []),
        ('{"sensor_read": 21.4}', '{"sensor_read": 21.4}', []),
    ],
)  # fmt: skip
@each_row("size", [1, 3, 1000])
def test_results_that_a_model_makes_up_are_not_shown(text: str, size: int, shown: str, found: Any) -> None:
    inline = TextCallParser(frozenset({"sensor_read"}))
    told = "".join(inline.feed(text[i : i + size]) for i in range(0, len(text), size))
    rest, calls = inline.end(cut=False)
    assert (told + rest, calls) == (shown, found)


@each_row(
    ("said", "text", "shown"),
    [
        ("<moment>Sunday; an XML file</moment>\nWho are you?", "<response>Ada</response>", "Ada"),
        ("who are you?", "<response>Ada</response>", "Ada"),
        ("Answer in XML.", "<response>ok</response>", "<response>ok</response>"),
        ("Put it into <response>.", "<response>ok</response>", "<response>ok</response>"),
        ("how is it?", "<output><state>ok</state></output>", "<output><state>ok</state></output>"),
    ],
)
def test_a_tag_around_an_answer_is_dropped_unless_it_is_wanted(said: str, text: str, shown: str) -> None:
    request = request_of(Message("user", said), Message("assistant", "", (READ,)), Message("tool", "21", call_id="x"))
    assembler = openai.AnswerAssembler(KNOWN, get_user_text(request))
    assert text_of([*assembler.feed(chunk(content=text)), *assembler.end()]) == shown


def test_what_was_asked_for_a_hundred_times_is_said_so_often() -> None:
    text = "I shall label my wires.\n" * 100
    assembler = openai.AnswerAssembler(KNOWN, "Write 'I shall label my wires.' 100 times")
    assert text_of([*assembler.feed(chunk(content=text)), *assembler.end()]) == text


def test_a_last_word_shows_the_tools_and_asks_for_no_call() -> None:
    tools = ({"name": "measure", "description": "Measure.", "parameters": {"type": "object", "properties": {}}},)
    asked = (Message("user", "hello"),)
    more = (*asked, Message("assistant", "hi"), Message("user", "end"))
    first = http.encode_body(openai.build_body(Request("Be brief.", asked, tools, 100, 0.0), "m", stream=True))
    last = openai.build_body(Request("Be brief.", more, tools, 100, 0.0, calls=False), "m", stream=True)
    assert http.encode_body(last).startswith(first.removesuffix(b"]}"))
    assert last["tool_choice"] == "none"
    assert "tool_choice" not in openai.build_body(Request("", asked, (), 100, 0.0, calls=False), "m", stream=True)


def test_a_result_that_is_not_there_is_told_in_the_words_of_the_request() -> None:
    call = ToolCall("a", "measure", {})
    broken = (Message("user", "go"), Message("assistant", "", (call,)), Message("user", "and?"))
    body = openai.build_body(Request("", broken, (), 100, 0.0, lost="gone"), "m", stream=False)
    assert [m["content"] for m in body["messages"] if m["role"] == "tool"] == ["gone"]


# Thoughts in fields of their own, and pictures


@each_row("name", ["reasoning_content", "reasoning"])
def test_a_thought_is_put_aside_in_the_field_that_it_came_in(name: str) -> None:
    parts = [chunk(**{name: part}) for part in ("Hm, ", "the \ud83d", "\ude00 sensor.")]
    for found in (heard(*parts, *chunks("21")), heard(whole_body("21", **{name: "Hm, the \U0001f600 sensor."}))):
        assert text_of(found) == "21"
        end = found[-1]
        assert isinstance(end, End)
        assert end.thought == Thought("", ({name: "Hm, the \U0001f600 sensor."},))


def test_a_thought_that_comes_twice_is_kept_once() -> None:
    found = heard(chunk(reasoning="Hm", reasoning_content="Hm"), chunk(reasoning=".", reasoning_content="."))
    assert found == [End("stop", Usage(), Thought("", ({"reasoning_content": "Hm."},)))]


@each_row("odd", [None, "", 7, ["Hm"], {"text": "Hm"}])
def test_a_thought_that_is_no_text_is_none(odd: Any) -> None:
    assert heard(chunk(reasoning_content=odd), chunk(content="21"))[-1] == End("stop", Usage())


def test_a_thought_that_is_too_long_to_be_sent_back_is_dropped() -> None:
    assert heard(chunk(reasoning="x" * 300_000), chunk(content="21"))[-1] == End("stop", Usage())


MINE = Message("assistant", "", (READ,), thought=Thought("m", ({"reasoning": "Hm <|x|>"},)))


@each_row(
    ("by", "wants", "fields"),
    [
        ("m", (), {"reasoning": "Hm < |x|>"}),
        ("another", (), {}),
        ("m", (REASONED,), {"reasoning": "Hm < |x|>", "reasoning_content": ""}),
        ("another", (REASONED,), {"reasoning_content": ""}),
        ("m", (REASONED, NO_THOUGHTS), {}),
    ],
)
def test_a_thought_goes_back_as_far_as_the_server_takes_it(by: str, wants: Any, fields: dict[str, str]) -> None:
    message = MINE._replace(thought=MINE.thought._replace(by=by))
    request = request_of(ASKED, message, Message("tool", "21.4", call_id="x"))
    (sent,) = (
        m for m in openai.build_body(request, "m", stream=False, wants=wants)["messages"] if m["role"] == "assistant"
    )
    assert {name: sent[name] for name in sent if "reasoning" in name} == fields


@each_row("images", [True, False])
def test_pictures_go_to_models_that_take_them(images: bool) -> None:
    told = ASKED._replace(images=(Image("image/png", b"\x89PNG"),))
    content = openai.build_body(request_of(told), "m", stream=False, images=images)["messages"][-1]["content"]
    shown = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}}
    assert content == ([shown, {"type": "text", "text": ASKED.text}] if images else ASKED.text)


def test_two_questions_that_become_one_keep_their_pictures() -> None:
    one, other = (ASKED._replace(images=(Image("image/png", data),)) for data in (b"1", b"2"))
    content = openai.build_body(request_of(one, other), "m", stream=False, images=True)["messages"][-1]["content"]
    assert [part["type"] for part in content] == ["image_url", "image_url", "text"]


CALL = '<tool_call>{"name": "exec", "arguments": {}}</tool_call>'


@each_row(
    ("thought", "text", "finish", "made"),
    [
        (f"I run it.\n{CALL}", "", "stop", 1),
        (f"Both.\n{CALL}\n{CALL}\n", "", "stop", 2),
        ("<tool_call>exec\n</tool_call>", "", "stop", 1),
        (f"{CALL} would be wrong.", "", "stop", 0),
        (f"I run it.\n{CALL}", "It is 21.", "stop", 0),
        (f"I run it.\n{CALL}", "", "length", 0),
        ('<tool_call>{"name": "unknown"}</tool_call>', "", "stop", 0),
    ],
)
def test_a_call_at_the_end_of_a_thought_is_made_when_nothing_follows(
    thought: str, text: str, finish: str, made: int
) -> None:
    for parts in (chunks(text, finish=finish, reasoning=thought), [whole_body(text, finish=finish, reasoning=thought)]):
        found = heard(*parts)
        assert [c.name for c in calls_of(found)] == ["exec"] * made
        assert text_of(found) == text
