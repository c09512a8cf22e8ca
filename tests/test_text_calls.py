"""Calls in the tokens of each family of models, as they come through servers that do not read them."""

import time
from typing import Any

import pytest
from rows import each_row

from picoclaw.providers.text_calls import TextCallParser

KNOWN = frozenset({"exec", "measure", "write_file"})
LS = ("exec", {"command": "ls"})
BOTH = [LS, ("measure", {})]

WRITTEN: dict[str, tuple[str, str, list[Any]]] = {
    "Hermes, Qwen": ('<tool_call>\n{"name": "exec", "arguments": {"command": "ls"}}\n</tool_call><|im_end|>', "", [LS]),
    "Hermes, single quotes": ("<tool_call>{'name': 'exec', 'arguments': {'command': 'ls'}}</tool_call>", "", [LS]),
    "Qwen Coder": ("I look.\n<tool_call>\n<function=exec>\n<parameter=command>\nls\n</parameter>\n</function>\n</tool_call>", "I look.\n", [LS]),
    "Qwen Coder, without the tag around it": ("<function=exec><parameter=command>ls</parameter></function>", "", [LS]),
    "Qwen Coder, two": ("<function=exec>\n<parameter=command>ls</parameter>\n</function>\n<function=measure>\n</function>", "", BOTH),
    "Qwen Coder, a text of several lines": (
        "<function=write_file>\n<parameter=path>a</parameter>\n<parameter=text>\n\n1 < 2\n\n</parameter>\n</function>",
        "",
        [("write_file", {"path": "a", "text": "\n1 < 2\n"})],
    ),
    "Llama, a function": ('<function=exec>{"command": "ls"}</function><|eom_id|>', "", [LS]),
    "Llama, a function without its end": ('<function=exec>{"command": "ls"}', "", [LS]),
    "Llama, python": ('<|python_tag|>{"name": "exec", "parameters": {"command": "ls"}}<|eom_id|>', "", [LS]),
    "Llama, several": ('<|python_tag|>{"name": "exec", "parameters": {"command": "ls"}}; {"name": "measure", "parameters": {}}', "", BOTH),
    "Llama, a call of a call": ('<|python_tag|>exec.call(command="ls")<|eom_id|>', "", [LS]),
    "Llama, bare": ('{"type": "function", "name": "exec", "parameters": {"command": "ls"}}<|eot_id|>', "", [LS]),
    "Llama, pythonic": ('[exec(command="ls"), measure()]', "", BOTH),
    "Llama 4": ('<|python_start|>[exec(command="ls")]<|python_end|>', "", [LS]),
    "LFM": ('One moment.\n<|tool_call_start|>[exec(command="ls")]<|tool_call_end|>', "One moment.\n", [LS]),
    "Gemma, code": ('```tool_code\nprint(exec(command="ls"))\n```', "", [LS]),
    "Gemma, functions": ("<start_function_call>call:exec{command:<escape>ls<escape>}<end_function_call>", "", [LS]),
    "Gemma, newer": ('<|tool_call>call:exec{command:<|"|>ls<|"|>,n:3}<tool_call|>', "", [("exec", LS[1] | {"n": "3"})]),
    "Mistral": ('[TOOL_CALLS] [{"name": "exec", "arguments": {"command": "ls"}}]</s>', "", [LS]),
    "Mistral, newer": ('Both.[TOOL_CALLS]exec[ARGS]{"command": "ls"}[TOOL_CALLS]measure[ARGS]{}', "Both.", BOTH),
    "Mistral, without a mark": ('[TOOL_CALLS]exec{"command": "ls"}', "", [LS]),
    "Mistral, numbered": ('[TOOL_CALLS]exec[CALL_ID]abcdefghi[ARGS]{"command": "ls"}', "", [LS]),
    "GLM": ("<tool_call>exec\n<arg_key>command</arg_key>\n<arg_value>ls</arg_value>\n</tool_call>\n<tool_call>measure</tool_call>", "", BOTH),
    "DeepSeek": (('<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>exec\n```json\n{"command": "ls"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>'), "", [LS]),
    "DeepSeek, newer": (
        (
            '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>exec<｜tool▁sep｜>{"command": "ls"}<｜tool▁call▁end｜>'
            "<｜tool▁call▁begin｜>measure<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
        ),
        "",
        BOTH,
    ),
    "DeepSeek, newest": (
        (
            '<｜DSML｜function_calls>\n<｜DSML｜invoke name="exec">\n<｜DSML｜parameter name="command" string="true">ls'
            "</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>"
        ),
        "",
        [LS],
    ),
    "Kimi": (
        (
            "<|tool_calls_section_begin|><|tool_call_begin|>functions.exec:0<|tool_call_argument_begin|>"
            '{"command": "ls"}<|tool_call_end|><|tool_calls_section_end|>'
        ),
        "",
        [LS],
    ),
    "MiniMax": (
        (
            '<minimax:tool_call>\n<invoke name="exec">\n<parameter name="command">ls</parameter>\n</invoke>\n'
            '<invoke name="measure">\n</invoke>\n</minimax:tool_call>'
        ),
        "",
        BOTH,
    ),
    "Claude": ('I look.\n<function_calls>\n<invoke name="exec"><parameter name="command">ls</parameter></invoke>', "I look.\n", [LS]),
    "Seed": ("<seed:tool_call>\n<function=exec>\n<parameter=command>ls</parameter>\n</function>\n</seed:tool_call>", "", [LS]),
    "GPT-OSS": (
        (
            "<|channel|>analysis<|message|>I run ls.<|end|><|start|>assistant<|channel|>commentary to=functions.exec"
            ' <|constrain|>json<|message|>{"command": "ls"}<|call|>'
        ),
        "",
        [LS],
    ),
    "GPT-OSS, the other order": ('<|start|>assistant to=functions.exec<|channel|>commentary json<|message|>{"command": "ls"}<|call|>', "", [LS]),
    "Granite, Phi": ('<|tool_call|>[{"name": "exec", "arguments": {"command": "ls"}}]<|/tool_call|>', "", [LS]),
    "Phi, older": ('functools[{"name": "exec", "arguments": {"command": "ls"}}]', "", [LS]),
    "InternLM": ('<|action_start|><|plugin|>\n{"name": "exec", "parameters": {"command": "ls"}}<|action_end|>', "", [LS]),
    "Nemotron": ('<TOOLCALL>[{"name": "exec", "arguments": {"command": "ls"}}]</TOOLCALL>', "", [LS]),
    "Command R": ('<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "exec", "parameters": {"command": "ls"}}]<|END_ACTION|>', "", [LS]),
    "by other names": ('```json\n{"tool": "exec", "arguments": {"command": "ls"}}\n```', "", [LS]),
    "the name as the function": ('{"function": "exec", "arguments": {"command": "ls"}}', "", [LS]),
    "as a whole answer": ('{"tool_calls": [{"name": "exec", "arguments": {"command": "ls"}}]}', "", [LS]),
    "arguments between the tags": ('<tool name="exec">{"command": "ls"}</tool>', "", [LS]),
}  # fmt: skip


def read(text: str, size: int, *, cut: bool = False) -> tuple[str, list[Any]]:
    inline = TextCallParser(KNOWN)
    shown = "".join(inline.feed(text[i : i + size]) for i in range(0, len(text), size))
    rest, found = inline.end(cut=cut)
    return shown + rest, found


@each_row("name", WRITTEN)
def test_a_call_in_the_tokens_of_its_family_is_made_whole_or_not(name: str) -> None:
    text, shown, found = WRITTEN[name]
    for size in (1, 3, 1000):
        assert read(text, size) == (shown, found), size
    assert read(text, 7, cut=True)[1] == []
    for length in range(len(text)):
        assert all(call in found for call in read(text[:length], 1000)[1]), text[:length]


ONLY_SHOWN = [
    '<function=unknown>{"command": "ls"}</function>',
    "<function=exec>not an object</function>",
    "<function=exec>[1]</function>",
    "<function=exec>\n<parameter=command>ls",
    "<function=exec>\n<parameter=command>ls</parameter>\nand more\n</function>",
    '<function=exec>{"command": NaN}</function>',
    '[TOOL_CALLS] [{"name": "unknown", "arguments": {}}]',
    '[TOOL_CALLS]exec[ARGS]{"command": "l',
    "[TOOL_CALLS] is how Mistral begins one.",
    "<|python_tag|>import os; os.remove('x')",
    "<|python_tag|>exec(*names)",
    "<|python_tag|>exec(command=open('x').read())",
    "<|python_tag|>os.exec(command='ls')",
    "[exec(command=ls)]",
    "[exec('ls')]",
    'Write [exec(command="ls")] into it.',
    'This is a list:\n[exec(command="ls")]',
    '```\n<function=exec>{"command": "ls"}</function>\n```\nThat is how it looks.',
    'Write `<function=exec>{"command": "ls"}</function>` for that.',
    'Llama says `<|python_tag|>{"name": "exec", "parameters": {}}` then.',
    '<invoke name="exec">\n<parameter name="command">l',
    '<invoke name="exec">\n<option>ls</option>\n</invoke>',
    "<tool_call>exec\n<arg_key>command</arg_key>\n</tool_call>",
    "<start_function_call>call:exec{command:{a:1}}<end_function_call>",
    "a <| b and c |> d",
    "x = [1, 2]\n[T] is a type.",
    '{"tool": "exec", "version": 3}',
    '{"function": "exec"}',
    "{'name': 'Ann', 'age': 7}",
    "[",
    "<",
    "◁",
    "functools",
    "<|",
]


def test_what_is_no_call_is_shown_as_it_is() -> None:
    for text in ONLY_SHOWN:
        for size in (1, 3, 1000):
            assert read(text, size) == (text, [])


@each_row("size", [1, 3, 1000])
@each_row(
    ("text", "shown"),
    [
        ("<thinking>Hm.\n</thinking>\nIt is 21.", "It is 21."),
        ("<thought>Hm.</thought>It is 21.", "It is 21."),
        ("<reasoning>Hm. </think></reasoning>\n\nIt is 21.", "It is 21."),
        ("<seed:think>Hm.</seed:think>It is 21.", "It is 21."),
        ("[THINK]Hm.[/THINK]It is 21.", "It is 21."),
        ("◁think▷Hm.◁/think▷It is 21.", "It is 21."),
        ("<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>It is 21.", "It is 21."),
        ("<|channel|>final<|message|>It is 21.<|return|>", "It is 21."),
        ("It is 21.<|eot_id|>", "It is 21."),
        ("It is 21.</s>\n", "It is 21."),
        ("It is 21.<|im_end|>\n<|endoftext|>", "It is 21."),
        ("The token <|im_end|> ends it.", "The token <|im_end|> ends it."),
        ("[THINK] never ends", ""),
    ],
)
def test_thoughts_and_the_tokens_around_an_answer_are_not_shown(text: str, shown: str, size: int) -> None:
    assert read(text, size) == (shown, [])


@pytest.mark.parametrize(
    "piece",
    [
        "<function=exec>",
        "<function=exec><parameter=a>",
        "<tool_call>exec<arg_key>a</arg_key><arg_value>",
        "<tool_call>exec<arg_key>",
        "<|channel|>commentary to=",
        "<|start|>assistant<|channel|>",
        "[TOOL_CALLS]exec[ARGS]",
        "<start_function_call>call:exec{a:<escape>",
        "<|python_tag|>[exec(",
        "</s>\n",
        "<tool_call>\n",
        '<invoke name="exec">',
        '<a b="\n',
        '<a b="c"\n',
        """<a b='\n"<a b="\n""",
        '<a b="x" c="\n',
        "<answer>\n \n",
        "</answer>\n ",
    ],
)
def test_tokens_without_end_cost_no_time(piece: str) -> None:
    began = time.process_time()
    read(piece * (60_000 // len(piece)), 1000)
    assert time.process_time() - began < 2
