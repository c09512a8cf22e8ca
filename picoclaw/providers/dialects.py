"""How families of models write a call where their server did not read it: tokens and shapes of their own. Pure.

Sources: the chat templates of the models, and the parsers of llama.cpp and vLLM. Llama 3 and 4, Qwen 3 Coder, Mistral,
GLM 4.5, DeepSeek V3, Kimi K2, MiniMax M2, Granite, Phi 4, LFM 2, Gemma 3 and 4, Nemotron, Command R, InternLM, Seed,
and GPT-OSS. A call counts only when all of it was read: arguments that are not whole are none.
"""

import ast
import json
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from picoclaw.pattern import pattern

Written = tuple[str, dict[str, Any]]
Understood = Callable[[Any], Written | None]
"""Reads an object that names a tool and its arguments; None for one that does not."""

_LONGEST = 20_000
_TOOL = r"(?:functions\.)?(?P<name>[a-zA-Z_][\w.-]*)"

OPENINGS = r"<\||<｜|\[TOOL_CALLS\]|<TOOLCALL>|<start_function_call>|<[a-z]{1,12}:tool_call>"
"""What begins such a call wherever it stands: tokens that are in no sentence."""

LINE_OPENINGS = r"<function=|functools\["
"""The same, at the beginning of a line."""

_JSON = pattern(
    r"(?:\[TOOL_CALLS\]|<\|python_tag\|>|<\|tool_call\|>|<\|tool_call_begin\|>|<\|START_ACTION\|>|<TOOLCALL>"
    r"|<｜tool▁call▁begin｜>(?:function<｜tool▁sep｜>)?|<\|action_start\|>\s*<\|plugin\|>|^functools(?=\[))\s*"
    rf"(?:{_TOOL}(?::\d+)?\s*(?:\[CALL_ID\]\s*\w+\s*)?(?:\[ARGS\]|<\|tool_call_argument_begin\|>|<｜tool▁sep｜>)?\s*"
    r"(?:```json\s*)?)?(?=[\[{])",
    re.MULTILINE,
)
_HARMONY = pattern(
    r"(?:<\|start\|>assistant|<\|channel\|>)[^{}]{0,200}?\bto=" + _TOOL + r"[^{}]{0,100}?<\|message\|>\s*"
)
_ELEMENT = pattern(
    r"(?:^|(?<=>))[ \t]*<(?:｜DSML｜)?(?:function=|invoke name=\")" + _TOOL + r"\"?>(?P<inside>.*?)"
    r"(?P<end></(?:｜DSML｜)?(?:function|invoke)>|<function>|\Z)",
    re.DOTALL | re.MULTILINE,
)
_PARAMETER = pattern(
    r"<(?:｜DSML｜)?parameter(?:=|\s+name=\")(?P<key>[\w.-]+)\"?(?:\s[^<>]*)?>(?P<value>.*?)</(?:｜DSML｜)?parameter>\s*",
    re.DOTALL,
)
_GLM = pattern(
    rf"<tool_call>\s*{_TOOL}\s*(?P<inside>(?:<arg_key>(?:(?!</?arg_).)*</arg_key>\s*<arg_value>.*?</arg_value>\s*)*)"
    r"</tool_call>",
    re.DOTALL,
)
_GLM_PAIR = pattern(r"<arg_key>\s*(?P<key>.*?)\s*</arg_key>\s*<arg_value>(?P<value>.*?)</arg_value>\s*", re.DOTALL)
_GEMMA = pattern(
    rf"(?:<start_function_call>|<\|tool_call>)\s*call:{_TOOL}\{{(?P<inside>.*?)\}}(?:<end_function_call>|<tool_call\|>|\Z)",
    re.DOTALL,
)
_GEMMA_PAIR = pattern(
    r"(?P<key>\w+):(?:(?P<mark><escape>|<\|\"\|>)(?P<value>.*?)(?P=mark)|(?P<bare>[^\s,{}\[\]<>]+))(?:,\s*|\Z)",
    re.DOTALL,
)
_PYTHON = pattern(
    r"(?:<\|python_start\|>|<\|tool_call_start\|>|<\|python_tag\|>|^```tool_code\s)\s*(?P<code>[\[a-zA-Z_].*?)\s*"
    r"(?:<\|\w+\|>|```|\Z)",
    re.DOTALL | re.MULTILINE,
)
_PYTHON_ALONE = pattern(r"\A\s*(?P<code>\[\s*[a-zA-Z_]\w*\(.*\)\s*\])\s*\Z", re.DOTALL)
_WRAPPERS = pattern(
    r"(?:<(?:\w+:)?tool_calls?>|<(?:｜DSML｜)?function_calls>|<\|tool_calls_section_begin\|>|<｜tool▁calls▁begin｜>)\s*\Z"
)
_FENCED = pattern(r"^[ \t]*```", re.MULTILINE)
_HARMONY_THOUGHT = pattern(r"(?:<\|start\|>assistant)?<\|channel\|>analysis<\|message\|>.*?(?:<\|end\|>|\Z)", re.DOTALL)
_HARMONY_HEAD = pattern(
    r"(?:<\|start\|>assistant)?<\|channel\|>(?:final|commentary)(?:<\|constrain\|>\w+)?<\|message\|>"
)
_LAST_TOKEN = pattern(
    r"(?<!\s)(?:\s*(?:<\|(?:eot_id|eom_id|im_end|end|end_of_text|endoftext|return)\|>|</s>|<end_of_turn>))+\s*\Z"
)


def tidied(text: str) -> str:
    """Leave out the tokens around an answer, and GPT-OSS's thoughts, which a server should have kept to itself."""
    if "<|channel|>" in text:
        text = _HARMONY_HEAD.sub("", _HARMONY_THOUGHT.sub("", text))
    return _LAST_TOKEN.sub("", text)


def spoken(
    text: str, known: Collection[str], understood: Understood, *, alone: bool, after: str = ""
) -> tuple[str, list[Written]]:
    """Find the calls of tools by a known name; returns what was said before them, and the calls, none for none.

    One in a block of code, or just behind a backtick, is shown and not made. `alone` when nothing was said before the
    text, `after` is the character before it.
    """
    for shape, needles, read in _DIALECTS:
        if not all(needle in text for needle in needles) or (shape is _PYTHON_ALONE and not alone):
            continue
        blocks = [(block.start(), read(block, understood)) for block in shape.finditer(text)]
        found = [(at, calls) for at, calls in blocks if calls and known_all(calls, known)]
        if found and not _is_shown(after + text[: found[0][0]]):
            return _WRAPPERS.sub("", text[: found[0][0]]).strip(), [call for _, calls in found for call in calls]
    return text, []


def known_all(calls: Collection[Written], known: Collection[str]) -> bool:
    """Whether each of the calls is of a known tool, with arguments that can be kept."""
    return all(name in known and _keeps(arguments) for name, arguments in calls)


def literal(text: str) -> Any:
    """Read Python's way of writing what could be JSON; None when it is something else."""
    if len(text) > _LONGEST:
        return None
    try:
        return ast.literal_eval(text.strip())
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        return None


def _keeps(arguments: Mapping[str, Any]) -> bool:
    try:
        json.dumps(arguments, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, TypeError, RecursionError):
        return False
    return True


def _is_shown(before: str) -> bool:
    return before.endswith("`") or len(_FENCED.findall(before)) % 2 == 1


def _json_calls(block: re.Match[str], understood: Understood) -> list[Written]:
    """JSON behind a token: the arguments where the token was followed by a name, else whole calls, one or several."""
    values = _values(block.string, block.end(), several=not block["name"])
    if block["name"]:
        return [(block["name"], value) for value in values if isinstance(value, dict)]
    items = [item for value in values for item in (value if isinstance(value, list) else [value])]
    calls = [understood(item) for item in items]
    return [call for call in calls if call] if all(calls) else []


def _values(text: str, at: int, *, several: bool) -> list[Any]:
    values: list[Any] = []
    try:
        while text[at : at + 1] in {"{", "["} and (several or not values):
            value, end = json.JSONDecoder().raw_decode(text, at)
            values.append(value)
            at = end + len(text[end:]) - len(text[end:].lstrip("; \t\r\n"))
    except (ValueError, RecursionError):
        return []
    return values


def _named(block: re.Match[str], arguments: dict[str, Any] | None) -> list[Written]:
    return [] if arguments is None else [(block["name"], arguments)]


def _element_calls(block: re.Match[str], _: Understood) -> list[Written]:
    """Parameters in elements of their own, or one object; nothing when there is anything else."""
    inside = block["inside"].strip()
    if inside.startswith("{"):
        values = _values(inside, 0, several=False)
        return _named(block, values[0] if values and isinstance(values[0], dict) else None)
    whole = block["end"] and inside.count("parameter>") == inside.count("parameter=") + inside.count("parameter ")
    return _named(block, _pairs(_PARAMETER, inside) if whole else None)


def _pairs(shape: re.Pattern[str], inside: str) -> dict[str, Any] | None:
    """Read a text that is nothing but pairs; the line feeds around a value are not its own."""
    if shape.sub("", inside).strip():
        return None
    found = shape.finditer(inside)
    return {pair["key"]: pair["value"].removeprefix("\n").removesuffix("\n") for pair in found}


def _glm_calls(block: re.Match[str], _: Understood) -> list[Written]:
    return _named(block, _pairs(_GLM_PAIR, block["inside"]))


def _gemma_calls(block: re.Match[str], _: Understood) -> list[Written]:
    inside = block["inside"]
    if _GEMMA_PAIR.sub("", inside).strip():
        return []
    pairs = {pair["key"]: pair["value"] if pair["mark"] else pair["bare"] for pair in _GEMMA_PAIR.finditer(inside)}
    return _named(block, pairs)


def _python_calls(block: re.Match[str], _: Understood) -> list[Written]:
    """Calls as Python writes them, with arguments by name that are plain values; nothing of it is run."""
    if len(code := block["code"]) > _LONGEST:
        return []
    try:
        tree = ast.parse(code, mode="eval").body
        nodes = tree.elts if isinstance(tree, ast.List | ast.Tuple) else [tree]
        return [_python_call(node) for node in nodes]
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        return []


def _python_call(node: Any) -> Written:
    """Raises TypeError or ValueError for anything but a call of a name."""
    if not isinstance(node, ast.Call):
        raise TypeError(node)
    if isinstance(node.func, ast.Name) and node.func.id == "print" and len(node.args) == 1:
        return _python_call(node.args[0])
    function = node.func.value if isinstance(node.func, ast.Attribute) and node.func.attr == "call" else node.func
    if node.args or not isinstance(function, ast.Name):
        raise ValueError(node)
    return function.id, {word.arg or "": ast.literal_eval(word.value) for word in node.keywords}


_Dialect = tuple[re.Pattern[str], tuple[str, ...], Callable[[re.Match[str], Understood], list[Written]]]
_DIALECTS: tuple[_Dialect, ...] = (
    (_ELEMENT, ("function=",), _element_calls),
    (_ELEMENT, ("invoke name=",), _element_calls),
    (_GLM, ("<tool_call>", "</tool_call>"), _glm_calls),
    (_GEMMA, ("call:", "}"), _gemma_calls),
    (_HARMONY, ("to=", "<|message|>"), _json_calls),
    (_JSON, (), _json_calls),
    (_PYTHON, (), _python_calls),
    (_PYTHON_ALONE, ("(",), _python_calls),
)
"""A shape, what a text that has it holds for certain, and how it is read."""
