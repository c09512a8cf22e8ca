"""Regular expressions: none that Python 3.11.2 matches wrongly, and none that takes a long text's square in time."""

import ast
import re
import tomllib
from pathlib import Path

import pytest
import sweep
from rows import each_row
from timing import is_in_proportion

from picoclaw.automation.checklist import list_item_files, parse_checklist
from picoclaw.automation.heartbeat import is_ok
from picoclaw.errors import ToolError
from picoclaw.markdown import remove_hidden
from picoclaw.memory.files import parse_entries
from picoclaw.providers.http import limit_stream
from picoclaw.providers.text_calls import TextCallParser
from picoclaw.security.redaction import Redactor
from picoclaw.security.untrusted import is_known_text, remove_untrusted, strip_invisible, wrap_untrusted
from picoclaw.skills import extract_body
from picoclaw.text import escape_control_tokens
from picoclaw.tools.exec import parse_command
from picoclaw.tools.onboarding import set_field
from picoclaw.web.readable import extract_text
from picoclaw.workspace import clean_page, read_fields

ROOT = Path(__file__).resolve().parents[1]
_ESCAPED = re.compile(r"\\.", re.DOTALL)
_NO_EXPRESSION = re.compile(r"\b[Ccg]\+\+|\(\)\*\+")  # a language, and characters in the order of ASCII
_CLASS = re.compile(r"\[\^?\]?[^]]*\]")
_POSSESSIVE = re.compile(r"[^(|^+](?:[*+?]|\{\d*,?\d*\})\+(?!\+)|\(\?>")


def has_possessive(text: str) -> bool:
    """Whether a text, read as a regular expression, has a possessive quantifier or an atomic group."""
    plain = _CLASS.sub("x", _ESCAPED.sub("x", _NO_EXPRESSION.sub("x", text)))
    return bool(_POSSESSIVE.search(plain))


_MAYBE_POSSESSIVE = re.compile(r"[*+?}]\+|\(\?>")
_BETWEEN_PARTS = re.compile(r"""["']\s*(?:#[^\n]*\s*)*[rbfRBF]{0,2}["']""")
"""What stands between the parts of a text that is written as several."""


def literals(source: str) -> list[tuple[int, str]]:
    """The texts in a module that may be possessive, with their lines; docstrings are prose."""
    if not _MAYBE_POSSESSIVE.search(_BETWEEN_PARTS.sub("", source)):
        return []
    tree = ast.parse(source)
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes) and id(node) not in prose:
            text = node.value if isinstance(node.value, str) else node.value.decode("latin-1")
            found.append((node.lineno, text))
        elif isinstance(node, ast.JoinedStr):
            found.append((node.lineno, "".join(str(getattr(part, "value", "x")) for part in node.values)))
    return found


def texts_within(value: object) -> list[str]:
    if isinstance(value, dict | list):
        return [text for one in (value.values() if isinstance(value, dict) else value) for text in texts_within(one)]
    return [value] if isinstance(value, str) else []


def test_no_expression_is_possessive_or_atomic():
    """Before Python 3.11.5 both are matched wrongly around groups (python/cpython#106052), and Debian 12 has 3.11.2."""
    modules = [path for folder in ("picoclaw", "tools", "tests") for path in (ROOT / folder).rglob("*.py")]
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text}"
        for path in modules
        if path != Path(__file__)
        for line, text in literals(path.read_text())
        if has_possessive(text)
    ]
    for path in (ROOT / "templates").rglob("*.toml"):
        found += [
            f"{path.name}: {text}" for text in texts_within(tomllib.loads(path.read_text())) if has_possessive(text)
        ]
    assert found == []
    assert len(modules) > 300


@each_row(
    ("text", "found"),
    [
        (r"a*+", True),
        (r"(?:ab)++c", True),
        (r"[^\]]?+", True),
        (r"x{3,}+", True),
        (r"x{,3}+", True),
        (r"\.{2}+", True),
        (r"(?>ab)", True),
        (r")*+", True),
        (r"[*+]+", False),
        (r"[]*+]", False),
        (r"\*+", False),
        (r"\++", False),
        (r"a+(?:\+b)", False),
        (r"(?:+)", False),
    ],
)
def test_what_is_possessive(text, found):
    assert has_possessive(text) is found


KEY = "-----BEGIN PRIVATE KEY-----"


def calls(text: str) -> None:
    parser = TextCallParser(frozenset({"exec"}))
    parser.feed(text)
    parser.end(cut=False)


def command(text: str) -> None:
    with pytest.raises(ToolError):
        parse_command((), f"ls {text} |", shell=False)


def page(text: str) -> None:
    text = text[: len(text) // 4]
    for mould in ("{}", "-{}x", "- {}x", "- a{}x"):
        clean_page(mould.format(text))
        read_fields(mould.format(text))


def untrusted(text: str) -> None:
    remove_untrusted(
        wrap_untrusted("<untrusted source={source}>\n{content}\n</untrusted>", "x", strip_invisible(f"<{text}x"))
    )


def known(text: str) -> None:
    is_known_text(text, ["ok " * 30, "ok"], [text, "print('hello world')\nassert x, 'wrong sum'", "rm"], "ok".__eq__)


def checklist(text: str) -> None:
    for item in parse_checklist(text).items:
        list_item_files(item)


def server(text: str) -> None:
    list(limit_stream(iter([text.encode() + b"x"]), deadline=1e12, keepalive_limit=1e9, streamed=False))


LONG = [
    (remove_hidden, ["`", "```\n", "[a", "[a]:", "[a]:\n> ", '[a]: x "', "[a]: x\n", "- ", "<!--", "[a]: x (\n(", "``` ", "1. "]),
    (remove_hidden, ['[a]: x "y\n', "\t", "[a]: x" + " " * 40, "~~~ a b\n", "`a``b", "[\\]", '[a]: x "\\"', "[a]:\n> <", ">"]),
    (lambda s: extract_text(f"<body><pre>x{s}</pre>y", "http://a.example/"), [" ", "<br> ", "<p>x  </p>", "\v "]),
    (page, ["- ", "- a", "<!--", "# a\n", "- a:\n", "- a ", "- a: ", "- **a", "- **", "-  ", "```\n", "- a\n  - b:\n", "\n", " ", ":", "*"]),
    (lambda s: extract_body(f"---\nname: x\n---\n{s}\n", Path("x")), ["{baseDir", "`", "[a]: #\n\n", '[a]: # "', '<a b="', "~~~\n", "\u200d"]),
    (lambda s: extract_body(f"---\nname: x\n---\n---{s}x", Path("x")), [" "]),
    (calls, ['<invoke name="exec">', "[TOOL_CALLS]"]),
    (lambda s: calls(f"{s}x"), ["<end_of_turn>", "</s> ", '<tool_call>{"name": "exec"}\n']),
    (calls, ['<exec a="', '<exec a="b" ', ' a="b"', "<a\n", '<exec a="b"\n']),
    (escape_control_tokens, ["<|", "<", "[", "[/", "<" + "a" * 39, "</", "<tool_", "<|<", "<｜", "[|user|", "<seed:a"]),
    (untrusted, ["\x1b[", "\x1b]", "\x9b", "</untrusted", "<untrusted", "\r", "\u202e", "<", " "]),
    (known, ["to ", "1 ", "hello world ", "hello world\n", "ok ", "1,", "1:a ", "ok\n", "'", "a=", "\n1 hello "]),
    (command, ["{", "{a,", "{a", " {", "a="]),
    (server, ["\n", ": x\n", "\r", "data: ", "event: ping\n", " "]),
    (lambda s: set_field(b"-" + s.encode(), "Name", "Ada"), ["<!--", "<!-- -->", "- Name", "- Name ", "-  ", "\t", "- Name: <!-- -->\n", "`"]),
    (lambda s: set_field(s.encode(), "Name", "Ada"), [" ", "- ", "- **Name", "- Name: <", "- Name: <!-- x -->", "\n  - "]),
    (Redactor(), [KEY, f"{KEY}\n", f"a: {KEY}", f"{KEY}a: b\n", KEY + "A" * 20, f"{KEY}-----END ", "\\n", "a: "]),
    (lambda s: Redactor()(KEY + s), ["a: ", "a: b ", " ", "A", "\\n", "A" * 16 + " ", "A \n", "a: a: "]),
    (parse_entries, ["- a\n", "  - a\n", "- ```` x\n", "````` x\n```\n", "- a\n  - b\n", "~~~\n", "x\n```\n"]),
    (checklist, ["- see a.b\n", "-", "\n", "- [ ] ", "when: "]),
    (is_ok, ["\n", " \n", "```\n", "heartbeat ok\n"]),
    (Redactor(), ["token ", 'secret = "', "bearer a", "://a:", "eyJa.", "passpass=", "password: %a"]),
    (Redactor(), ["token=", "a: a: ", f"{KEY}a: b\n", "://", "Bearer 1 ", "eyJ", "sk-", "password='", "key" * 9, "A1" * 40, "eyJaaaaaaaaaaaa.", "123456789:AA"]),
]  # fmt: skip


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("read", "part"),
    sweep.sample(
        (
            pytest.param(read, part, id=f"{number} {part!r}")
            for number, (read, parts) in enumerate(LONG)
            for part in parts
        ),
        3,
    ),
)
def test_four_times_the_text_is_about_four_times_the_work(read, part):
    """The square of it would be sixteen times."""

    def work(length):
        text = part * (length // len(part))
        return lambda: read(text)

    assert is_in_proportion(work, 25_000, 100_000, 9, 0.027)
