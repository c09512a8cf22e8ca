"""A rule as the owner writes it in `rules.toml`, and what is meant by it. Pure."""

import contextlib
import io
import json
import os
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from picoclaw import times
from picoclaw.automation.conditions import (
    Calendar,
    Condition,
    Gate,
    Threshold,
    format_amount,
    format_condition,
    format_gate,
    parse_condition,
    parse_gate,
)
from picoclaw.config import make_dataclass
from picoclaw.config.files import read_regular
from picoclaw.errors import ConfigError, explain_syntax
from picoclaw.files import explain_os_error, lock_folder, write_atomic
from picoclaw.records import NamedTuple, dataclass, replace
from picoclaw.schedules import Pauses
from picoclaw.schema import Span
from picoclaw.store.samples import Series
from picoclaw.text import pattern

RULE_NAME = pattern(r"[a-z][a-z0-9_-]{0,30}")
_COOLDOWN_S = 600.0
_LEVEL = pattern(r"on|off|\d{1,2}(?:\.\d+)? ?%?|100 ?%?")
_INSTEAD = pattern(r"(.+?) if (.+)")


@dataclass(frozen=True)
class RuleConfig:
    """[rules.NAME]: when it fires, and what it does then."""

    when: Annotated[str, "such as 'greenhouse.temperature > 35 for 10 minutes' or 'every day at 6:00'"]
    only_if: Annotated[str, "such as 'greenhouse.temperature max yesterday > 30'"] = ""
    notify: Annotated[str, "message to the owner"] = ""
    output: Annotated[str, "the output to switch"] = ""
    level: Annotated[str, "on, off or percent"] = "on"
    lasts: Annotated[str, "how long, such as '5 minutes'"] = ""
    instead: Annotated[str, "such as '10 minutes if greenhouse.temperature max yesterday > 37'"] = ""
    ask: Annotated[str, "what the model is asked to do"] = ""
    margin: Annotated[float, Span(0, 1e9), "how far the value has to come back before the rule fires again"] = 0.0
    cooldown: Annotated[str, "shortest time between two firings"] = ""
    again: Annotated[str, "fires again after this time while the condition stays true"] = ""
    enabled: bool = True
    paused: Annotated[str, "times to leave out, such as '2026-12-24 00:00 to 2026-12-27 00:00'"] = ""


class Rule(NamedTuple):
    """A rule that can be followed; `lasts_s` None is as long as the output may, `again_s` 0 not at all."""

    name: str
    written: RuleConfig
    condition: Condition
    only_if: Gate | None = None
    lasts_s: float | None = None
    instead: tuple[float, Gate] | None = None
    cooldown_s: float = 0.0
    again_s: float = 0.0
    paused: Pauses = ()

    @property
    def series(self) -> list[Series]:
        """The series that it needs: first the one of its condition, then those of its gates."""
        gates = [gate for gate in (self.only_if, self.instead[1] if self.instead else None) if gate]
        followed = [] if isinstance(self.condition, Calendar) else [self.condition.series]
        return list(dict.fromkeys([*followed, *(gate.series for gate in gates)]))

    @property
    def late_ok(self) -> bool:
        """Whether it may fire late: messages may, outputs never."""
        return not self.written.output


def parse_rule(name: str, table: Any, now: datetime, zone: str = "") -> Rule:
    """Make a rule of a table; raises ConfigError naming the key, what is wrong and what to write."""
    if not RULE_NAME.fullmatch(name):
        raise ConfigError("the name must be lower-case letters, digits, - and _, at most 31")
    written: RuleConfig = make_dataclass(RuleConfig, table, "it")
    key = "when"
    try:
        found = parse_condition(written.when, zone)
        key = "only_if"
        only_if = parse_gate(written.only_if, now) if written.only_if else None
        key = "lasts"
        lasts_s = times.parse_duration(written.lasts) if written.lasts else None
        key = "instead"
        instead = _parse_instead(written.instead, now) if written.instead else None
        key = "cooldown"
        usual = 0.0 if isinstance(found, Calendar) else _COOLDOWN_S
        cooldown_s = times.parse_duration(written.cooldown) if written.cooldown else usual
        key = "again"
        again_s = times.parse_duration(written.again) if written.again else 0.0
        key = "paused"
        local = now.astimezone(times.parse_zone(zone)) if zone else now
        paused = _parse_pauses(written.paused, local)
        left = tuple(one for one in paused if one[1] > now.timestamp())
        written = replace(written, paused=format_pauses(left, local))  # what is over is not told any more
    except ValueError as error:
        raise ConfigError(f"{key}: {error}") from None
    rule = Rule(name, written, found, only_if, lasts_s, instead, cooldown_s, again_s, paused)
    if problem := next(_find_faults(rule), ""):
        raise ConfigError(problem)
    return rule


def _parse_instead(text: str, now: datetime) -> tuple[float, Gate]:
    match = _INSTEAD.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text[:60]!r} is not like '10 minutes if greenhouse.temperature max yesterday > 37'")
    return times.parse_duration(match[1]), parse_gate(match[2], now)


def _parse_pauses(text: str, now: datetime) -> Pauses:
    """The times to leave out, as `format_pauses` writes them, in the zone of `now`."""
    try:
        ends = [
            [times.parse_moment(end, now).timestamp() for end in one.split(" to ")]
            for one in text.split(";")
            if one.strip()
        ]
        return tuple((first, last) for first, last in ends)
    except ValueError:
        raise ValueError(f"{text[:60]!r} is not like '2026-12-24 00:00 to 2026-12-27 00:00'") from None


def format_pauses(pauses: Pauses, now: datetime) -> str:
    """Write times to leave out as a rule has them; their ends are whole minutes, and never earlier."""
    ends = ((first, last + 59) for first, last in pauses)
    return "; ".join(
        " to ".join(f"{datetime.fromtimestamp(end, now.tzinfo):%Y-%m-%d %H:%M}" for end in one) for one in ends
    )


def _find_faults(rule: Rule) -> Iterator[str]:
    """Combinations that cannot be meant; the first is told."""
    written = rule.written
    if not (written.notify or written.output or written.ask):
        yield "it does nothing: give notify, output or ask"
    if not _LEVEL.fullmatch(written.level):
        yield f"level: {written.level[:40]!r} is not a level: use on, off, or a duty from 0 to 100 percent"
    if not written.output and (written.lasts or written.instead or written.level != "on"):
        yield f"{'lasts' if written.lasts else 'instead' if written.instead else 'level'} is only for an output"
    if written.margin and not isinstance(rule.condition, Threshold):
        yield "margin: only a value that is above or below a limit has one"
    if written.again and isinstance(rule.condition, Calendar):
        yield "again: a time of day comes again by itself"


def explain_rule(rule: Rule) -> str:
    when = format_condition(rule.condition)
    said = when if isinstance(rule.condition, Calendar) else f"when {when}"
    gates = [f", if {format_gate(rule.only_if)}"] if rule.only_if else []
    limits = "; ".join(_describe_limits(rule))
    off = "" if rule.written.enabled else " It is switched off (enabled = false)."
    off += f" It is paused from {rule.written.paused.replace('; ', ', and from ')}." if rule.written.paused else ""
    return f"{rule.name}: {said}{''.join(gates)}: {' and '.join(describe_actions(rule))}.{f' {limits}.' if limits else ''}{off}"


def format_switch(written: RuleConfig) -> str:
    """What a rule does to its output: "switch fan on", or "set lamp to 70 %"."""
    number = written.level.rstrip("% ")
    is_percent = number.replace(".", "", 1).isdecimal()
    return f"set {written.output} to {number} %" if is_percent else f"switch {written.output} {written.level}"


def describe_actions(rule: Rule) -> Iterator[str]:
    written = rule.written
    if written.output:
        lasts = f"for {times.format_duration(rule.lasts_s, exact=True)}" if rule.lasts_s else "for as long as it may be"
        other = (
            f" ({times.format_duration(rule.instead[0], exact=True)} if {format_gate(rule.instead[1])})"
            if rule.instead
            else ""
        )
        yield f"{format_switch(written)} {lasts}{other}"
    if written.notify:
        yield f"tell you {written.notify!r}"
    if written.ask:
        yield f"ask the model {written.ask!r}, which costs tokens and needs it to be reachable"


def _describe_limits(rule: Rule) -> Iterator[str]:
    found = rule.condition
    if isinstance(found, Threshold) and rule.written.margin:
        back = found.limit + (-rule.written.margin if found.op[0] == ">" else rule.written.margin)
        yield f"Fires again once it has come back to {format_amount(back, found.series)}"
    if rule.again_s:
        yield f"While it stays so, again every {times.format_duration(max(rule.again_s, rule.cooldown_s), exact=True)}"
    if rule.cooldown_s:
        yield f"Never twice within {times.format_duration(rule.cooldown_s, exact=True)}"
    if isinstance(found, Calendar) and not rule.late_ok:
        yield "Not done late when the board was off"


# `rules.toml` in picoclaw's home: read so that one bad rule costs that rule only, and written a rule at a time.

RULES_FILE = "rules.toml"
_FILE_HEADER = """\
# Rules that run by themselves: without a model, without a network, while picoclaw runs.
# `picoclaw rules` explains them in plain words, `picoclaw rules check` looks for mistakes.
"""
_HEADER = pattern(r"""\s*\[\s*rules\s*\.\s*(?:"([^"]*)"|'([^']*)'|([\w-]+))\s*\]\s*(?:#.*)?""")
_AT_LINE = pattern(r"\(at line (\d+), column (\d+)\)")


PAUSE_CHANGES: dict[str, dict[str, Any]] = {"pause": {"enabled": False}, "resume": {"enabled": None, "paused": None}}
"""What is written of a rule that is paused until it is resumed, and of one that is resumed."""


class RuleSet(NamedTuple):
    """The content of rules.toml: the valid rules, and the problems of the others, by name."""

    path: Path
    rules: Mapping[str, Rule]
    problems: Mapping[str, str]


class _RuleLines(NamedTuple):
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


def load_rules(home: Path, now: datetime, zone: str = "") -> RuleSet:
    """Read the rules; raises nothing: what is wrong is a problem with its line and what to write."""
    path = home / RULES_FILE
    try:
        text = _read_text(path)
    except ConfigError as error:
        return RuleSet(path, {}, {"": str(error)})
    return parse_rules(path, text, now, zone)


def parse_rules(path: Path, text: str, now: datetime, zone: str) -> RuleSet:
    """Understand the text of a rules.toml; one that is not valid TOML as a whole is read rule by rule."""
    rules: dict[str, Rule] = {}
    problems: dict[str, str] = {}
    tables = _load_toml(text)
    parts = _pair_tables(text, tables) if tables is not None else ((part, None) for part in _split_rules(text))
    for part, table in parts:
        try:
            if part.name in rules or part.name in problems:
                raise _make_error(path, part.first, f"there is a rule {part.name!r} already: choose another name")
            parse = _parse_part if tables is None else partial(_parse_table, table=table)
            rules |= parse(path, part, now=now, zone=zone)
        except ConfigError as error:
            problems[part.name] = str(error)
            rules.pop(part.name, None)
    return RuleSet(path, rules, problems)


def _parse_part(path: Path, part: _RuleLines, now: datetime, zone: str) -> dict[str, Rule]:
    """Read one rule of a file that is not valid as a whole."""
    import tomllib

    try:
        tables = tomllib.loads("".join(part.lines))
    except (ValueError, RecursionError) as error:
        at = _AT_LINE.search(str(error))
        line = part.first + int(at[1]) - 1 if at else part.first
        what = _AT_LINE.sub("", explain_syntax(error)).strip()
        raise _make_error(path, line, f'not valid TOML: {what}; a text stands in quotes, such as when = "…"') from None
    if part.name:
        return _parse_table(path, part, tables["rules"][part.name], now, zone)
    if tables:
        raise _make_error(path, part.line(next(iter(tables))), _describe_stray(next(iter(tables))))
    return {}


def _describe_stray(key: str) -> str:
    return f"{key!r} belongs below a [rules.NAME]"


def _load_toml(text: str) -> dict[str, Any] | None:
    """Read a file as TOML, None where it is none."""
    import tomllib

    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError):
        return None


def _pair_tables(text: str, tables: Mapping[str, Any]) -> Iterator[tuple[_RuleLines, Any]]:
    """Pair each rule of a valid file with its lines, also one that is written as dotted keys or in braces.

    What is none has the name ''.
    """
    rules = tables.get("rules", {})
    stray = next((key for key in tables if key != "rules" or not isinstance(rules, dict)), "")
    if stray:
        yield _RuleLines("", 1, text.splitlines(keepends=True)), stray
    written = {part.name: part for part in reversed(list(_split_rules(text)))}
    for name, table in rules.items() if isinstance(rules, dict) else ():
        yield written.get(name) or _find_dotted(text, name), table


def _find_dotted(text: str, name: str) -> _RuleLines:
    """Return the lines of a rule without a header, from the first that begins with its name on."""
    lines = text.splitlines(keepends=True)
    begins = re.compile(rf"\s*(?:rules\s*\.\s*)?[\"']?{re.escape(name)}\b|\s*\[?\s*rules\b.*\b{re.escape(name)}\b")
    first = next((n for n, line in enumerate(lines) if begins.match(line)), 0)
    return _RuleLines(name, first + 1, lines[first:])


def _parse_table(path: Path, part: _RuleLines, table: Any, now: datetime, zone: str) -> dict[str, Rule]:
    if not part.name:
        raise _make_error(path, part.line(str(table)), _describe_stray(str(table)))
    try:
        return {part.name: parse_rule(part.name, table, now, zone)}
    except ConfigError as error:
        said = str(error)
        named = re.match(r"it: (?:unknown )?'(\w+)'|(\w+):", said)
        key = (named[1] or named[2]) if named else ""
        raise _make_error(path, part.line(key), f"[rules.{part.name}]: {said.removeprefix('it: ')}") from None


def _make_error(path: Path, line: int, text: str) -> ConfigError:
    return ConfigError(f"{path}, line {line}: {text}")


def _split_rules(text: str) -> Iterator[_RuleLines]:
    """Cut a file at the headers of its rules, so that each is read by itself; no header is within a text of lines."""
    part, quotes = _RuleLines("", 1, []), ""
    has_texts = any(mark in text for mark in _TEXT_ENDS) and _load_toml(text) is not None  # else they may have no end
    for number, line in enumerate(io.StringIO(text, newline="\n"), 1):  # other ends of lines are none in TOML
        header = _HEADER.fullmatch(line.rstrip("\r\n"))
        if header and not (quotes and has_texts):
            yield part
            part, quotes = _RuleLines(next(name for name in header.groups() if name is not None), number, []), ""
        part.lines.append(line)
        quotes = _find_open_quotes(line, quotes)
    yield part


_QUOTED = pattern(r"""\"{3}|'{3}|"(?:[^"\\]|\\.)*"|'[^']*'|#""")
_TEXT_ENDS = {'"""': pattern(r'(?:[^"\\]|\\.|"(?!""))*"{3}"?"?'), "'''": pattern(r"(?:[^']|'(?!''))*'{3}'?'?")}


def _find_open_quotes(line: str, quotes: str) -> str:
    """Return the three quotes of the text that goes on behind a line, '' for none; `quotes` is that before it."""
    at = 0
    while True:
        if quotes:
            end = _TEXT_ENDS[quotes].match(line.rstrip("\n"), at)
            if end is None:
                return quotes
            at, quotes = end.end(), ""
        found = _QUOTED.search(line, at)
        if found is None or found[0] == "#":
            return ""
        at, quotes = found.end(), found[0] if found[0] in _TEXT_ENDS else ""


def add_rule(home: Path, name: str, table: Mapping[str, Any], now: datetime, zone: str = "") -> Rule:
    """Write a rule durably at the end of the file; raises ConfigError when it, or the file, is not to be used."""
    rule = parse_rule(name, dict(table), now, zone)
    with _lock_file(home) as path:
        before = _read_text(path)
        known = _load_toml(before)
        if name in _list_names(before):
            raise ConfigError(f"{path} has a rule {name!r} already: remove it first, or choose another name")
        rows = "".join(f"{key} = {_format_value(value)}\n" for key, value in table.items())
        text = f"{before or _FILE_HEADER}{'' if not before or before.endswith(chr(10)) else chr(10)}\n[rules.{name}]\n{rows}"
        if known is not None and _load_toml(text) is None:
            raise ConfigError(f"{path} has its rules in braces: write each below a [rules.NAME], and try again")
        _write(path, text)
    return rule


def _list_names(text: str) -> list[str]:
    """Name the rules of a file, however they are written."""
    tables = _load_toml(text)
    if tables is not None and isinstance(tables.get("rules", {}), dict):
        return list(tables.get("rules", {}))
    return [part.name for part in _split_rules(text) if part.name]


def remove_rule(home: Path, name: str) -> None:
    """Remove a rule from the file, and leave the rest unchanged; raises ConfigError."""
    with _lock_file(home) as path:
        before = _read_text(path)
        if not name or name not in (names := _list_names(before)):
            raise ConfigError(f"{path} has no rule {name!r}; there are: {', '.join(names) or 'none'}")
        left = (
            _get_trailing_comments(part.lines) if part.name == name else part.lines for part in _split_rules(before)
        )
        text = "".join(line for lines in left for line in lines)
        if sorted([*_list_names(text), name]) != sorted(names) and _load_toml(before) is not None:
            raise ConfigError(f"{path} writes the rule {name!r} not below a [rules.{name}]: take it out by hand")
        _write(path, text)


def change_rule(home: Path, name: str, values: Mapping[str, Any]) -> None:
    """Give some keys of a rule other values, None for the default one, and leave the rest of the file unchanged.

    Raises ConfigError, also where the file is written in a way that cannot be changed safely.
    """
    with _lock_file(home) as path:
        before = _read_text(path)
        wanted, parts = _load_toml(before), list(_split_rules(before))
        if name not in (names := _list_names(before)):
            raise ConfigError(f"{path} has no rule {name!r}; there are: {', '.join(names) or 'none'}")
        rows = "".join(f"{key} = {_format_value(value)}\n" for key, value in values.items() if value is not None)
        for part in parts:
            if part.name == name:
                kept = [line for line in part.lines[1:] if line.partition("=")[0].strip() not in values]
                part.lines[:] = [part.lines[0].rstrip("\r\n") + "\n" + rows, *kept]
        text = "".join(line for part in parts for line in part.lines)
        if wanted is not None:
            table = {**wanted["rules"][name], **values}
            wanted["rules"][name] = {key: value for key, value in table.items() if value is not None}
        if wanted is None or _load_toml(text) != wanted:
            told = ", ".join(f"{key} = {_format_value(True if one is None else one)}" for key, one in values.items())
            raise ConfigError(f"{path} cannot be changed safely: write {told} there by hand")
        _write(path, text)


def _get_trailing_comments(lines: list[str]) -> list[str]:
    """The comments at the end of a rule, which stand above the next one."""
    used = max(n for n, line in enumerate(lines) if line.strip() and not line.lstrip().startswith("#"))
    return lines[used + 1 :]


@contextlib.contextmanager
def _lock_file(home: Path) -> Iterator[Path]:
    try:
        with lock_folder(home):
            yield home / RULES_FILE
    except OSError as error:
        raise ConfigError(f"{home}: {explain_os_error(error)}") from None


def _read_text(path: Path) -> str:
    try:
        return read_regular(path).decode("utf-8-sig")  # some editors mark UTF-8 at its beginning
    except UnicodeError:
        raise ConfigError(f"{path} is not UTF-8 text: save it with an editor that writes UTF-8") from None


def _write(path: Path, text: str) -> None:
    try:
        write_atomic(Path(os.path.realpath(path)), text.encode())  # a link stays one
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {explain_os_error(error)}") from None


def _format_value(value: Any) -> str:
    """Write a value as TOML, whose strings and numbers are those of JSON."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
