"""Reads JSON5, as the settings of other agents are written: comments, trailing commas, bare keys, 'single quotes'.

Source: https://spec.json5.org. Numbers that JSON has no way to write (Infinity, NaN) become null.
"""

import json
import re
from typing import Any

from picoclaw.text import pattern

_TOKEN = pattern(
    r"""(?P<space>[\s\ufeff]+|//[^\n\r\u2028\u2029]*|/\*.*?\*/)"""
    r"""|(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')"""
    r"""|(?P<number>[+-]?(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|Infinity|NaN)(?![\w$]))"""
    r"""|(?P<word>[A-Za-z_$][\w$]*)|(?P<mark>[{}\[\]:,])""",
    re.DOTALL,
)
_ESCAPE = pattern(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(\r\n|.))", re.DOTALL)
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "0": "\0"}
_LITERALS = {"true", "false", "null"}


def parse_json5(text: str) -> Any:
    """Read a document. Raises ValueError saying in which line it goes wrong."""
    parts: list[str] = []
    at, comma, before = 0, -1, "["
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise ValueError(f"line {text.count(chr(10), 0, at) + 1}: {text[at : at + 20]!r} is not expected there")
        at = found.end()
        if found["space"]:
            parts.append("\n" * found[0].count("\n") or " ")  # so that an error names the right line
            continue
        if found[0] in {"}", "]"} and comma >= 0:
            parts[comma] = " "
        comma = len(parts) if found[0] == "," and before not in {"[", "{", ","} else -1
        before = found[0]
        if found["number"]:
            parts.append(_format_number(found[0]))
        elif found["word"] and found[0] not in _LITERALS:
            parts.append(json.dumps(found[0]))
        else:
            parts.append(json.dumps(_unescape(found[0][1:-1])) if found["text"] else found[0])
    try:
        return json.loads("".join(parts))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _format_number(text: str) -> str:
    sign, digits = ("-" if text[0] == "-" else ""), text.lstrip("+-")
    if digits in {"Infinity", "NaN"}:
        return "null"
    if digits[:2] in {"0x", "0X"}:
        return f"{sign}{int(digits, 16)}"
    return sign + (repr(float(digits)) if not digits.isdecimal() else str(int(digits[:400])))


def _unescape(text: str) -> str:
    def replace(found: re.Match[str]) -> str:
        if code := found[1] or found[2]:
            return chr(int(code, 16))
        return "" if found[3] in {"\n", "\r\n", "\r"} else _ESCAPED.get(found[3], found[3])

    joined = _ESCAPE.sub(replace, text)
    return joined.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # pairs of \u escapes
