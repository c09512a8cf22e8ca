"""`rules.toml` in picoclaw's home: read so that one bad rule costs that rule only, and written a rule at a time."""

import contextlib
import fcntl
import io
import json
import os
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from picoclaw.config.files import read
from picoclaw.disk import explain, write_atomic
from picoclaw.errors import ConfigError, explain_syntax
from picoclaw.rules.rule import Rule, made

FILE = "rules.toml"
_HEAD = """\
# Rules that run by themselves: without a model, without a network, while picoclaw runs.
# `picoclaw rules` explains them in plain words, `picoclaw rules check` looks for mistakes.
"""
_HEADER = re.compile(r"""\s*\[\s*rules\s*\.\s*(?:"([^"]*)"|'([^']*)'|([\w-]+))\s*\]\s*(?:#.*)?""")
_AT_LINE = re.compile(r"\(at line (\d+), column (\d+)\)")


class Book(NamedTuple):
    """What rules.toml says: the rules that can be followed, and what is wrong with the others, by name."""

    path: Path
    rules: Mapping[str, Rule]
    problems: Mapping[str, str]


class _Part(NamedTuple):
    """The lines of one rule; the first is counted from 1."""

    name: str
    first: int
    lines: list[str]

    def line(self, key: str) -> int:
        """Find the line of a key, or else that of the header."""
        if not key:
            return self.first
        found = (n for n, line in enumerate(self.lines) if re.match(rf"(?:.*[.\s])?{re.escape(key)}\s*=", line))
        return self.first + next(found, 0)


def load(home: Path, now: datetime, zone: str = "") -> Book:
    """Read the rules; raises nothing: what is wrong is a problem with its line and what to write."""
    path = home / FILE
    try:
        text = _text(path)
    except ConfigError as error:
        return Book(path, {}, {"": str(error)})
    return parsed(path, text, now, zone)


def parsed(path: Path, text: str, now: datetime, zone: str) -> Book:
    """Understand the text of a rules.toml; one that is not valid TOML as a whole is read rule by rule."""
    rules: dict[str, Rule] = {}
    problems: dict[str, str] = {}
    if (tables := _whole(text)) is not None:
        for part, table in _named(text, tables):
            try:
                rules |= _rule(path, part, table, now, zone)
            except ConfigError as error:
                problems[part.name] = str(error)
        return Book(path, rules, problems)
    for part in _parts(text):
        try:
            if part.name in rules or part.name in problems:
                raise _wrong(path, part.first, f"there is a rule {part.name!r} already: choose another name")
            rules |= _understood(path, part, now, zone)
        except ConfigError as error:
            problems[part.name] = str(error)
            rules.pop(part.name, None)
    return Book(path, rules, problems)


def _understood(path: Path, part: _Part, now: datetime, zone: str) -> dict[str, Rule]:
    tables = _tables(path, part)
    if part.name:
        return _rule(path, part, tables["rules"][part.name], now, zone)
    if tables:
        raise _wrong(path, part.line(next(iter(tables))), _stray(next(iter(tables))))
    return {}


def _stray(key: str) -> str:
    return f"{key!r} belongs below a [rules.NAME]"


def _whole(text: str) -> dict[str, Any] | None:
    """Read a file as TOML, None where it is none."""
    import tomllib

    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError):
        return None


def _named(text: str, tables: Mapping[str, Any]) -> Iterator[tuple[_Part, Any]]:
    """Pair each rule of a valid file with its lines, also one that is written as dotted keys or in braces.

    What is none has the name ''.
    """
    rules = tables.get("rules", {})
    stray = next((key for key in tables if key != "rules" or not isinstance(rules, dict)), "")
    if stray:
        yield _Part("", 1, text.splitlines(keepends=True)), stray
    written = {part.name: part for part in reversed(list(_parts(text)))}
    for name, table in rules.items() if isinstance(rules, dict) else ():
        yield written.get(name) or _dotted(text, name), table


def _dotted(text: str, name: str) -> _Part:
    """Return the lines of a rule without a header, from the first that begins with its name on."""
    lines = text.splitlines(keepends=True)
    begins = re.compile(rf"\s*(?:rules\s*\.\s*)?[\"']?{re.escape(name)}\b|\s*\[?\s*rules\b.*\b{re.escape(name)}\b")
    first = next((n for n, line in enumerate(lines) if begins.match(line)), 0)
    return _Part(name, first + 1, lines[first:])


def _rule(path: Path, part: _Part, table: Any, now: datetime, zone: str) -> dict[str, Rule]:
    if not part.name:
        raise _wrong(path, part.line(str(table)), _stray(str(table)))
    try:
        return {part.name: made(part.name, table, now, zone)}
    except ConfigError as error:
        said = str(error)
        named = re.match(r"it: (?:unknown )?'(\w+)'|(\w+):", said)
        key = (named[1] or named[2]) if named else ""
        raise _wrong(path, part.line(key), f"[rules.{part.name}]: {said.removeprefix('it: ')}") from None


def _tables(path: Path, part: _Part) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads("".join(part.lines))
    except (ValueError, RecursionError) as error:
        at = _AT_LINE.search(str(error))
        line = part.first + int(at[1]) - 1 if at else part.first
        what = _AT_LINE.sub("", explain_syntax(error)).strip()
        raise _wrong(path, line, f'not valid TOML: {what}; a text stands in quotes, such as when = "…"') from None


def _wrong(path: Path, line: int, text: str) -> ConfigError:
    return ConfigError(f"{path}, line {line}: {text}")


def _parts(text: str) -> Iterator[_Part]:
    """Cut a file at the headers of its rules, so that each is read by itself; no header is within a text of lines."""
    part, quotes = _Part("", 1, []), ""
    has_texts = any(mark in text for mark in _ENDS) and _whole(text) is not None  # else they may have no end
    for number, line in enumerate(io.StringIO(text, newline="\n"), 1):  # other ends of lines are none in TOML
        header = _HEADER.fullmatch(line.rstrip("\r\n"))
        if header and not (quotes and has_texts):
            yield part
            part, quotes = _Part(next(name for name in header.groups() if name is not None), number, []), ""
        part.lines.append(line)
        quotes = _open_quotes(line, quotes)
    yield part


_QUOTED = re.compile(r"""\"{3}|'{3}|"(?:[^"\\]|\\.)*"|'[^']*'|#""")
_ENDS = {
    '"""': re.compile(r'(?:[^"\\]|\\.|"(?!""))*"{3}"?"?'),
    "'''": re.compile(r"(?:[^']|'(?!''))*'{3}'?'?"),
}


def _open_quotes(line: str, quotes: str) -> str:
    """Return the three quotes of the text that goes on behind a line, '' for none; `quotes` is that before it."""
    at = 0
    while True:
        if quotes:
            end = _ENDS[quotes].match(line.rstrip("\n"), at)
            if end is None:
                return quotes
            at, quotes = end.end(), ""
        found = _QUOTED.search(line, at)
        if found is None or found[0] == "#":
            return ""
        at, quotes = found.end(), found[0] if found[0] in _ENDS else ""


def add(home: Path, name: str, table: Mapping[str, Any], now: datetime, zone: str = "") -> Rule:
    """Write a rule durably at the end of the file; raises ConfigError when it, or the file, is not to be used."""
    rule = made(name, dict(table), now, zone)
    with _changing(home) as path:
        before = _text(path)
        known = _whole(before)
        if name in _names(before):
            raise ConfigError(f"{path} has a rule {name!r} already: remove it first, or choose another name")
        rows = "".join(f"{key} = {_value(value)}\n" for key, value in table.items())
        text = f"{before or _HEAD}{'' if not before or before.endswith(chr(10)) else chr(10)}\n[rules.{name}]\n{rows}"
        if known is not None and _whole(text) is None:
            raise ConfigError(f"{path} has its rules in braces: write each below a [rules.NAME], and try again")
        _write(path, text)
    return rule


def _names(text: str) -> list[str]:
    """Name the rules of a file, however they are written."""
    tables = _whole(text)
    if tables is not None and isinstance(tables.get("rules", {}), dict):
        return list(tables.get("rules", {}))
    return [part.name for part in _parts(text) if part.name]


def remove(home: Path, name: str) -> None:
    """Take a rule out of the file, and leave the rest as it is; raises ConfigError."""
    with _changing(home) as path:
        before = _text(path)
        if not name or name not in (names := _names(before)):
            raise ConfigError(f"{path} has no rule {name!r}; there are: {', '.join(names) or 'none'}")
        left = (_behind(part.lines) if part.name == name else part.lines for part in _parts(before))
        text = "".join(line for lines in left for line in lines)
        if sorted([*_names(text), name]) != sorted(names) and _whole(before) is not None:
            raise ConfigError(f"{path} writes the rule {name!r} not below a [rules.{name}]: take it out by hand")
        _write(path, text)


def _behind(lines: list[str]) -> list[str]:
    """The comments at the end of a rule, which stand above the next one."""
    used = max(n for n, line in enumerate(lines) if line.strip() and not line.lstrip().startswith("#"))
    return lines[used + 1 :]


@contextlib.contextmanager
def _changing(home: Path) -> Iterator[Path]:
    """Keep other processes from changing the file meanwhile."""
    path = home / FILE
    try:
        folder = os.open(home, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise ConfigError(f"{home}: {explain(error)}") from None
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield path
    finally:
        os.close(folder)


def _text(path: Path) -> str:
    try:
        return read(path).decode("utf-8-sig")  # some editors mark UTF-8 at its beginning
    except UnicodeError:
        raise ConfigError(f"{path} is not UTF-8 text: write it anew with an editor that saves UTF-8") from None


def _write(path: Path, text: str) -> None:
    try:
        write_atomic(Path(os.path.realpath(path)), text.encode())  # a link stays one
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {explain(error)}") from None


def _value(value: Any) -> str:
    """Write a value as TOML, whose strings and numbers are those of JSON."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
