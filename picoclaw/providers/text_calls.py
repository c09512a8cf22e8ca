"""How families of models write a call where their server did not read it: tokens and shapes of their own. Pure.

Sources: the chat templates of the models, and the parsers of llama.cpp and vLLM. Llama 3 and 4, Qwen 3 Coder, Mistral,
GLM 4.5, DeepSeek V3, Kimi K2, MiniMax M2, Granite, Phi 4, LFM 2, Gemma 3 and 4, Nemotron, Command R, InternLM, Seed,
and GPT-OSS. A call counts only when all of it was read: arguments that are not whole are none.
"""

import ast
import json
import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from picoclaw.messages import Request, strip_context
from picoclaw.text import pattern

ParsedCall = tuple[str, dict[str, Any]]
ReadCall = Callable[[Any], ParsedCall | None]
"""Reads an object that names a tool and its arguments; None for one that does not."""

_MAX_BLOCK = 20_000
_MAX_WITHOUT_CALL = 100  # reading a block may search the rest of the text
_TOOL = r"(?:functions\.)?(?P<name>[a-zA-Z_][\w.-]*)"

CALL_OPENINGS = r"<\||<｜|\[TOOL_CALLS\]|<TOOLCALL>|<start_function_call>|<[a-z]{1,12}:tool_call>"
"""What begins such a call wherever it stands: tokens that are in no sentence."""

LINE_CALL_OPENINGS = r"<function=|functools\["
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
_DIALECT_ELEMENT = pattern(
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
_FENCE_LINE = pattern(r"^[ \t]*```", re.MULTILINE)
_HARMONY_THOUGHT = pattern(r"(?:<\|start\|>assistant)?<\|channel\|>analysis<\|message\|>.*?(?:<\|end\|>|\Z)", re.DOTALL)
_HARMONY_HEAD = pattern(
    r"(?:<\|start\|>assistant)?<\|channel\|>(?:final|commentary)(?:<\|constrain\|>\w+)?<\|message\|>"
)
_LAST_TOKENS = (
    *("<|eot_id|>", "<|eom_id|>", "<|im_end|>", "<|end|>", "<|end_of_text|>", "<|endoftext|>", "<|return|>"),
    *("</s>", "<end_of_turn>"),
)


def remove_tokens(text: str) -> str:
    """Leave out the tokens around an answer, and GPT-OSS's thoughts, which a server should have kept to itself."""
    if "<|channel|>" in text:
        text = _HARMONY_HEAD.sub("", _HARMONY_THOUGHT.sub("", text))
    end = len(text)
    while True:
        kept = _find_last(text, end)
        token = next((token for token in _LAST_TOKENS if text.endswith(token, 0, kept)), "")
        if not token:
            return text if end == len(text) else text[:kept]
        end = kept - len(token)


def _find_last(text: str, end: int) -> int:
    """The end of the last word before a place."""
    while end and text[end - 1].isspace():
        end -= 1
    return end


def find_dialect_calls(
    text: str, known: Collection[str], understood: ReadCall, *, alone: bool, after: str = ""
) -> tuple[str, list[ParsedCall]]:
    """Find the calls of tools by a known name; returns what was said before them, and the calls, none for none.

    One in a block of code, or just behind a backtick, is shown and not made. `alone` when nothing was said before the
    text, `after` is the character before it.
    """
    for shape, needles, read in _DIALECTS:
        if not all(needle in text for needle in needles) or (shape is _PYTHON_ALONE and not alone):
            continue

        def read_known(block: re.Match[str], read: _ReadBlock = read) -> list[ParsedCall]:
            calls = read(block, understood)
            return calls if all(name in known and _has_values(given) for name, given in calls) else []

        if not (found := _read_blocks(shape.finditer(text), read_known)):
            continue
        before = after + text[: (at := found[0][0].start())]
        if not before.endswith("`") and len(_FENCE_LINE.findall(before)) % 2 == 0:
            return _WRAPPERS.sub("", text[:at]).strip(), [call for _, calls in found for call in calls]
    return text, []


def _read_blocks(
    blocks: Iterable[re.Match[str]], read: Callable[[re.Match[str]], list[ParsedCall]]
) -> list[tuple[re.Match[str], list[ParsedCall]]]:
    """The blocks that hold calls, with these."""
    found, without = [], 0
    for block in blocks:
        if calls := read(block):
            found.append((block, calls))
        elif (without := without + 1) == _MAX_WITHOUT_CALL:
            break
    return found


def parse_literal(text: str) -> Any:
    """Read Python's way of writing what could be JSON; None when it is something else."""
    if len(text) > _MAX_BLOCK:
        return None
    try:
        return ast.literal_eval(text.strip())
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        return None


def _has_values(arguments: Mapping[str, Any]) -> bool:
    try:
        json.dumps(arguments, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, TypeError, RecursionError):
        return False
    return True


def _parse_json_calls(block: re.Match[str], understood: ReadCall) -> list[ParsedCall]:
    """JSON behind a token: the arguments where the token was followed by a name, else whole calls, one or several."""
    values = _parse_values(block.string, block.end(), several=not block["name"])
    if block["name"]:
        return [(block["name"], value) for value in values if isinstance(value, dict)]
    items = [item for value in values for item in (value if isinstance(value, list) else [value])]
    calls = [understood(item) for item in items]
    return [call for call in calls if call] if all(calls) else []


def _parse_values(text: str, at: int, *, several: bool) -> list[Any]:
    values: list[Any] = []
    try:
        while text[at : at + 1] in {"{", "["} and (several or not values):
            value, end = json.JSONDecoder().raw_decode(text, at)
            values.append(value)
            at = end
            while text[at : at + 1] in {";", " ", "\t", "\r", "\n"}:
                at += 1
    except (ValueError, RecursionError):
        return []
    return values


def _parse_element_calls(block: re.Match[str], _: ReadCall) -> list[ParsedCall]:
    """Parameters in elements of their own, or one object; nothing when there is anything else."""
    inside = block["inside"].strip()
    arguments: Any = None
    if inside.startswith("{"):
        arguments = next(iter(_parse_values(inside, 0, several=False)), None)
    elif block["end"] and inside.count("parameter>") == inside.count("parameter=") + inside.count("parameter "):
        arguments = _parse_pairs(_PARAMETER, inside)
    return [(block["name"], arguments)] if isinstance(arguments, dict) else []


def _parse_pairs(shape: re.Pattern[str], inside: str) -> dict[str, Any] | None:
    """Read a text that is nothing but pairs; the line feeds around a value are not its own."""
    if shape.sub("", inside).strip():
        return None
    found = shape.finditer(inside)
    return {pair["key"]: pair["value"].removeprefix("\n").removesuffix("\n") for pair in found}


def _parse_glm_calls(block: re.Match[str], _: ReadCall) -> list[ParsedCall]:
    arguments = _parse_pairs(_GLM_PAIR, block["inside"])
    return [] if arguments is None else [(block["name"], arguments)]


def _parse_gemma_calls(block: re.Match[str], _: ReadCall) -> list[ParsedCall]:
    inside = block["inside"]
    if _GEMMA_PAIR.sub("", inside).strip():
        return []
    pairs = {pair["key"]: pair["value"] if pair["mark"] else pair["bare"] for pair in _GEMMA_PAIR.finditer(inside)}
    return [(block["name"], pairs)]


def _parse_python_calls(block: re.Match[str], _: ReadCall) -> list[ParsedCall]:
    """Calls as Python writes them, with arguments by name that are plain values; nothing of it is run."""
    if len(code := block["code"]) > _MAX_BLOCK:
        return []
    try:
        tree = ast.parse(code, mode="eval").body
        nodes = tree.elts if isinstance(tree, ast.List | ast.Tuple) else [tree]
        return [_parse_python_call(node) for node in nodes]
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        return []


def _parse_python_call(node: Any) -> ParsedCall:
    """Raises TypeError or ValueError for anything but a call of a name."""
    if not isinstance(node, ast.Call):
        raise TypeError(node)
    if isinstance(node.func, ast.Name) and node.func.id == "print" and len(node.args) == 1:
        return _parse_python_call(node.args[0])
    function = node.func.value if isinstance(node.func, ast.Attribute) and node.func.attr == "call" else node.func
    if node.args or not isinstance(function, ast.Name):
        raise ValueError(node)
    return function.id, {word.arg or "": ast.literal_eval(word.value) for word in node.keywords}


_ReadBlock = Callable[[re.Match[str], ReadCall], list[ParsedCall]]
_Dialect = tuple[re.Pattern[str], tuple[str, ...], _ReadBlock]
_DIALECTS: tuple[_Dialect, ...] = (
    (_DIALECT_ELEMENT, ("function=",), _parse_element_calls),
    (_DIALECT_ELEMENT, ("invoke name=",), _parse_element_calls),
    (_GLM, ("<tool_call>", "</tool_call>"), _parse_glm_calls),
    (_GEMMA, ("call:", "}"), _parse_gemma_calls),
    (_HARMONY, ("to=", "<|message|>"), _parse_json_calls),
    (_JSON, (), _parse_json_calls),
    (_PYTHON, (), _parse_python_calls),
    (_PYTHON_ALONE, ("(",), _parse_python_calls),
)
"""A shape, what a text that has it holds for certain, and how it is read."""

# Tool calls that a model writes into its text, and thoughts that are not meant for people; a filter on a stream.
#
# Small local models answer with a fenced JSON block or a tag where the server knows no better. Text is
# passed on as soon as it cannot be the beginning of such a thing; the rest is held back until that is known.

_MAX_DEPTH = 50


def _build_prefix_pattern(word: str) -> str:
    """A pattern for what a word may begin with, without being whole."""
    return "|".join(re.escape(word[:n]) for n in range(len(word) - 1, 0, -1))


_THOUGHT_TAGS = ("<think>", "<thinking>", "<thought>", "<reasoning>", "<seed:think>", "[THINK]", "◁think▷")
_INDENT = r"[ \t]{0,80}"  # what is held back is looked at anew with each piece
_BLOCK_START = pattern(
    rf"(?<=\n){_INDENT}(?:({'|'.join(map(re.escape, _THOUGHT_TAGS))})|```|{{|\[(?!T?H?I?N?K?\Z)"
    rf"|<[a-z_]+(?:\s*/?>|\s+[a-z_]+=[\"'])|{LINE_CALL_OPENINGS})|<tool_call>|{CALL_OPENINGS}"
)
_PARTIAL_START = pattern(
    rf"(?:(?<=\n){_INDENT}(?:<[a-z_:]*|<[a-z_]+\s*/?|<[a-z_]+\s+[a-z_]+=?|`{{1,2}}|\[T?H?I?N?K?"
    rf"|{'|'.join(map(_build_prefix_pattern, ('◁think▷', 'functools[', '<function=')))})?"
    rf"|{'|'.join(map(_build_prefix_pattern, ('<tool_call>', '[TOOL_CALLS]', '<TOOLCALL>', '<start_function_call>')))}"
    r"|<[a-z]{0,12}(?::[a-z_]{0,9})?|</s?|(?:</s>|<end_of_turn>)\s{0,80}|<end[a-z_]*)\Z"
)
_FENCE = pattern(r"```[a-zA-Z_]*\s*\n?(?P<inside>.*?)(?:```|\Z)", re.DOTALL)
_TAG = pattern(r"<(?P<tag>[a-z_]+)>(?P<inside>.*?)(?:</(?P=tag)>|\Z)", re.DOTALL)
_CALL_ELEMENT = pattern(
    r"(?:^|(?<=>))[ \t]*(?:<[a-z_]+>\s*)?<(?P<element>[a-z_]+)"
    r"(?P<given>(?:\s+[a-z_]+=(?=(?P<value>(?P<quote>[\"']).*?(?P=quote)(?=\s+[a-z_]+=[\"']|\s*/?>)))(?P=value))*)\s*(?P<closed>/?)>",
    re.DOTALL | re.MULTILINE,
)
"""`<tool name="exec" arguments="{}"/>`, and `<exec command="ls"/>`; `_find_elements` finds them in linear time."""

_ELEMENT_HEAD = pattern(
    r"(?:^|(?<=>))[ \t]*(?:(?P<outer><[a-z_]+>)\s*)?<[a-z_]+(?=\s+[a-z_]+=[\"']|\s*/?>)", re.MULTILINE
)
_ATTRIBUTE_START = pattern(r"\s+[a-z_]+=([\"'])")
_VALUE_END = pattern(r"[\"'](?=\s+[a-z_]+=[\"']|\s*/?>)")
_ATTRIBUTE = pattern(r"(?P<key>[a-z_]+)=(?P<quote>[\"'])(?P<value>.*?)(?P=quote)(?=\s+[a-z_]+=[\"']|\s*\Z)", re.DOTALL)
_CALL_WORD = pattern(r"(?:tool|function|call|invoke|action)[a-z_]*")
_ENTITIES = (("&quot;", '"'), ("&apos;", "'"), ("&#39;", "'"), ("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&"))
_MADE_UP_RESULT = pattern(
    r"(?:^|(?<=>))[ \t]*<(?P<tag>(?:tool_(?:response|result|output)|function_(?:response|result))s?)>"
    r"(?=[ \t]*(?:$|[{\[])|[^\n]*</(?P=tag)>[ \t]*$)",
    re.MULTILINE,
)
"""Where a model goes on with the result that it expects; in a sentence about that tag it does not."""

_OPEN_FENCE = pattern(r"```\w*\s*\Z")
_LONE_END = pattern(r"(?P<before>[^`]*?[}\]])\s*(?:```\w*|</tool_call>)\s*\Z", re.DOTALL)
"""What ends a call whose beginning a server has swallowed, or a model never wrote."""
_MARKUP = pattern(r"```\w*|[\s}]|</[a-z_]+>")
_WRAPPED_ANSWER = pattern(r"\s*<(response|answer|reply|output)>(?P<inside>.*?)</\1>\s*", re.DOTALL)
_CALL_FIELDS = {"name", "arguments", "parameters", "id", "type", "call_id", "tool_call_id"}
_NAME_FIELDS = ("tool", "tool_name", "function")
_HEXADECIMAL = pattern(r"(?<=[:\[,\s])0[xX][0-9a-fA-F]{1,16}(?=\s*[,\]}])")
_TRAILING_COMMA = pattern(r",(?=\s*[}\]])")


def repair_json(text: str) -> str:
    """Make JSON of what small models take for it: hexadecimal numbers, a comma before a closing bracket."""
    return _TRAILING_COMMA.sub("", _HEXADECIMAL.sub(lambda number: str(int(number[0], 16)), text))


def _load_json(text: str) -> Any:
    """Read JSON strictly first: a repair could change what stands inside a text."""
    try:
        return json.loads(text)
    except ValueError:
        return json.loads(repair_json(text))


def get_user_text(request: Request) -> str:
    """Give the owner's newest words, without the head that tells the moment."""
    return strip_context(next((message.text for message in reversed(request.messages) if message.role == "user"), ""))


def _is_too_deep(value: Any, most: int = _MAX_DEPTH) -> bool:
    """Tell whether a value is nested so deep that one part of the program might read it, and another not write it."""
    within = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return not most or any(_is_too_deep(part, most - 1) for part in within)


def parse_arguments(text: str) -> tuple[dict[str, Any], str]:
    """Parse a call's arguments: an object, or an object encoded twice; else the text comes back as broken."""
    if not text.strip():
        return {}, ""
    try:
        value = _load_json(text)
        if isinstance(value, str):
            value = _load_json(value)
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()  # NaN and half characters cannot be kept
    except (ValueError, RecursionError):
        return {}, text
    return (value, "") if isinstance(value, dict) and not _is_too_deep(value) else ({}, text)


def _find_objects(text: str) -> list[Any]:
    """Read JSON values, one after the other; none where anything else is among them."""
    items: list[Any] = []
    rest = text.strip()
    if rest.startswith("{{"):  # a template's braces, copied with the rest
        rest = rest[1:]
    try:
        while rest:
            value, end = json.JSONDecoder().raw_decode(rest)
            items += value if isinstance(value, list) else [value]
            rest = rest[end:].strip().lstrip("}")
    except (ValueError, RecursionError):
        return []
    return [] if _is_too_deep(items) else items


def _unify_names(item: Any) -> Any:
    """Call a tool's name what most models call it; an object that has no arguments may be about something else."""
    if not isinstance(item, dict):
        return item
    if isinstance(item.get("function"), dict):
        return item["function"]
    other = next((name for name in _NAME_FIELDS if isinstance(item.get(name), str)), "")
    if not other or "name" in item or not item.keys() & {"arguments", "parameters"}:
        return item
    return {"name": item[other]} | {key: value for key, value in item.items() if key != other}


def _find_elements(text: str) -> Iterator[re.Match[str]]:
    """Yield the matches of _ELEMENT.

    That pattern alone would search the rest of the text for the end of each value that has none. Here the ends are
    found once, and attributes that lead to a value without an end are followed once.
    """
    ends: dict[str, list[int]] = {'"': [], "'": []}
    for quote in _VALUE_END.finditer(text):
        ends[quote[0]].append(quote.start())
    endless, position = set[int](), 0
    while head := _ELEMENT_HEAD.search(text, position):
        followed, at = list[int](), head.end()
        while at not in endless and (attribute := _ATTRIBUTE_START.match(text, at)):
            followed.append(at)
            mine = ends[attribute[1]]
            number = bisect_left(mine, attribute.end())
            if number == len(mine):
                endless.update(followed)
            else:
                at = mine[number] + 1
        if at not in endless:
            position = text.index(">", at) + 1
        else:
            endless.update(followed)
            position = head.end("outer") if head["outer"] else head.end()
        if found := _CALL_ELEMENT.match(text, head.start(), position):
            yield found


def _is_call_intended(text: str, blocks: Sequence[re.Match[str]]) -> bool:
    """Whether calls are to be made: what stands in a fence, or in any tag, and is talked about after it, is shown."""
    first = blocks[0]
    fenced = first.re.pattern == _FENCE.pattern or len(_FENCE_LINE.findall(text[: first.start()])) % 2
    if not fenced and (first.re.pattern == _CALL_ELEMENT.pattern or _CALL_WORD.fullmatch(first["tag"])):
        return True
    ends = [first.end(), *(block.end() for block in blocks[1:])]
    begins = [*(block.start() for block in blocks[1:]), len(text)]
    return not any(_MARKUP.sub("", text[end:begin]) for end, begin in zip(ends, begins, strict=True))


class TextCallParser:
    """Feed it text as it comes; at the end it knows which calls were in it."""

    def __init__(self, known: frozenset[str], asked: str = "") -> None:
        """Only a call of a tool by a `known` name counts as one; `asked` is what the owner wants."""
        self._known = known
        self._asked = asked.lower()
        self._before = "\n"  # the character before what is held; "" after a thought
        self._held = ""
        self._thinking = ""  # how the thought ends that it is in
        self._spoke = self._is_json = False
        self._pieces: list[str] = []  # from an opening on, everything

    def feed(self, text: str) -> str:
        """Take a piece of text; returns what can be shown now."""
        if self._pieces:
            self._pieces.append(text)
            return ""
        self._held += text
        if not (self._known or self._thinking) and (self._is_json or self._held.lstrip().startswith("{")):
            self._is_json = True  # where no tool is offered, it is no call, but the answer that was asked for
            return self._show(len(self._held))
        shown = ""
        while not self._in_thought():
            if not self._before:
                self._held = self._held.lstrip()
            seen = (self._before or "\n") + self._held
            opening = _BLOCK_START.search(seen)
            stop = opening or _PARTIAL_START.search(seen)
            shown += self._show(stop.start() - 1 if stop else len(self._held))
            if opening is None:
                break
            if not opening[1]:
                self._pieces, self._held = [self._held], ""
                break
            self._thinking = f"{opening[1][0]}/{opening[1][1:]}"
        return shown

    def _in_thought(self) -> bool:
        """Drop what is thought; tells whether the thought goes on."""
        if not self._thinking:
            return False
        _, ended, rest = self._held.partition(self._thinking)
        self._held = rest if ended else self._held[-len(self._thinking) :]
        if ended:
            self._before = self._thinking = ""
        return not ended

    def _show(self, length: int) -> str:
        shown, self._held = self._held[:length], self._held[length:]
        self._before = shown[-1:] or self._before
        self._spoke = self._spoke or bool(shown.strip())
        return shown

    def end(self, *, cut: bool) -> tuple[str, list[ParsedCall]]:
        """Return the text still to be shown and the calls found; nothing half written is a call when `cut`.

        What follows a call is not shown, because it cannot know the result.
        """
        text = "".join(self._pieces) or ("" if self._thinking else self._held)
        if forged := _MADE_UP_RESULT.search(text) if self._known else None:
            text = text[: forged.start()]
        if self._known and not cut:
            before, calls = find_dialect_calls(text, self._known, self._call, alone=not self._spoke, after=self._before)
            if calls and not _is_too_deep([arguments for _, arguments in calls]):
                return remove_tokens(before), calls
        text = remove_tokens(text)
        for shape in () if cut else (_CALL_ELEMENT, _TAG, _FENCE):
            blocks = list(_find_elements(text) if shape is _CALL_ELEMENT else shape.finditer(text))
            beside = text[: blocks[0].start()] + text[blocks[-1].end() :] if blocks else ""
            alone = not self._spoke and len(blocks) == 1 and not _MARKUP.sub("", beside)
            if shape is _CALL_ELEMENT:
                named = [(block, block["element"]) for block in blocks]
                blocks = [block for block, name in named if name in self._known or _CALL_WORD.fullmatch(name)]
            found = _read_blocks(blocks, partial(self._within, alone=alone))
            if found and _is_call_intended(text, [block for block, _ in found]):
                return _OPEN_FENCE.sub("", text[: found[0][0].start()]).strip(), [
                    call for _, calls in found for call in calls
                ]
        lone = _LONE_END.match(text)
        if not cut and (calls := self._calls(lone["before"] if lone else text)):
            return "", calls
        wrapped = _WRAPPED_ANSWER.fullmatch(text)
        # the tag is meant to be there where others are in it, or the owner spoke of such things
        if wrapped and not any(word in self._asked for word in ("xml", "html", f"<{wrapped[1]}")):
            text = text if "</" in wrapped["inside"] else wrapped["inside"].strip()
        return text, []

    def _within(self, block: re.Match[str], *, alone: bool) -> list[ParsedCall]:
        """The calls in a block that has one of the shapes; `alone` where the answer is nothing else."""
        if block.re.pattern != _CALL_ELEMENT.pattern:
            return self._calls(block["inside"].strip(), alone=alone)
        given = {}
        for attribute in _ATTRIBUTE.finditer(block["given"]):
            value = attribute["value"]
            for entity, character in _ENTITIES:
                value = value.replace(entity, character)
            given[attribute["key"]] = value
        if block["element"] in self._known:
            return [(block["element"], given)] if given or block["closed"] else []
        written = given.get("arguments") or given.get("parameters") or ""
        if not written:
            # between the element's tags; what a model makes up there as the result is none
            end = -1 if block["closed"] else block.string.find(f"</{block['element']}>", block.end())
            inside = block.string[block.end() : end].strip() if end >= 0 else ""
            if not (block["closed"] or end >= 0):
                return []  # where the end is missing, nobody knows
            written = inside if inside[:1] in {"{", "<"} else "{}"
        written = written if '"' in written else written.replace("'", '"')
        call = self._call({"name": given.get("name"), "arguments": written})
        return [call] if call else []

    def _calls(self, text: str, *, alone: bool = True) -> list[ParsedCall]:
        """Read a text that is nothing but calls: one object, several, or an array of them.

        `{"exec": {}}` is one only where the answer says nothing else: it is how settings are written, too.
        """
        items = _find_objects(text) or _find_objects(repair_json(text))
        if not items and re.match(r"\s*\[?\s*\{\s*'", text):  # the same in Python's way of writing
            value = parse_literal(text)
            items = value if isinstance(value, list) else [value] if isinstance(value, dict) else []
            items = [] if _is_too_deep(items) else items
        if len(items) == 1 and isinstance(items[0], dict) and isinstance(items[0].get("tool_calls"), list):
            items = items[0]["tool_calls"]
        calls = [self._call(item, short=alone) for item in items]
        return [call for call in calls if call] if all(calls) else []

    def _call(self, item: Any, *, short: bool = False) -> ParsedCall | None:
        item = _unify_names(item)
        if short and isinstance(item, dict) and len(item) == 1 and self._known.issuperset(item):
            if not isinstance(next(iter(item.values())), dict):
                return None
            item = {"name": next(iter(item)), "arguments": next(iter(item.values()))}
        if not isinstance(item, dict) or item.get("name") not in list(self._known):
            return None
        if item.keys() - _CALL_FIELDS:  # it is about something that has the same name
            return None
        given = item.get("arguments") or item.get("parameters") or {}
        arguments, broken = parse_arguments(given if isinstance(given, str) else json.dumps(given))
        return None if broken else (item["name"], arguments)
