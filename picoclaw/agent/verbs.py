"""The verbs that a small model may choose among: which a message admits, their schema, and the calls they become.

Which words of a message say what is data: templates/small.toml.
"""

import json
import re
import tomllib
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from picoclaw.answers import list_figures, list_number_words
from picoclaw.files import find_shipped
from picoclaw.intents.sums import calculate
from picoclaw.messages import ToolCall
from picoclaw.text import pattern
from picoclaw.times import WEEKDAYS

_NOON = 12
_QUANTITIES = ("temperature", "humidity", "pressure", "light", "co2")
_FIGURES = ("lowest", "highest", "average")
_BOARD = {
    "asks_disk": "how much disk space is free",
    "asks_memory": "how much memory is free",
    "processor": "how hot is the processor",
    "asks_uptime": "what is your uptime",
    "asks_address": "what is your ip address",
}
_SAID = pattern(r'\s*\{\s*"do"\s*:\s*"say"\s*,\s*"text"\s*:\s*"')
_LETTERS_SO_FAR = pattern(r'(?:[^"\\]|\\(?:u[0-9a-fA-F]{4}|[^u]))*')
_CLOCK = pattern(r"(\d\d?)(?:[:.](\d\d))?\s*(am|pm)?", re.IGNORECASE)
_WORDING = tomllib.loads((find_shipped("templates") / "small.toml").read_text("utf-8"))
_PART = re.compile(r"(?<!\?P)<(\w+)>")


def _compile(alternatives: Iterable[str]) -> re.Pattern[str]:
    text = "|".join(alternatives)
    while _PART.search(text):
        text = _PART.sub(lambda part: str(_WORDING["parts"][part[1]]), text)
    return pattern(text, re.IGNORECASE)


def _compile_cues(words: str) -> re.Pattern[str]:
    bounds = ((one.removesuffix("*"), "" if one.endswith("*") else r"\b") for one in re.split(r",\s", words.strip()))
    return _compile(rf"\b(?:{one}){end}" for one, end in bounds)


VERBS: Mapping[str, tuple[str, str]] = {
    verb: (tool.strip("-"), arguments)
    for verb, told in _WORDING["verbs"].items()
    for tool, _, arguments in [told.partition(" ")]
}
"""The tool of each verb, '' for what needs none, and its arguments."""

_ONLY = {verb: _compile(alternatives) for verb, alternatives in _WORDING["only"].items()}
_CUES = {names: _compile_cues(words) for names, words in _WORDING["cues"].items()}
_TOPICS = [(set(names.split()), set(verbs.split())) for verbs, names in _WORDING["topics"].items()]
_HELPS = [(_compile_cues(words), told) for words, told in _WORDING["helps"].items()]
SWITCH_TOPICS = frozenset(_WORDING["topics"]["switch"].split())
SWITCH_NOW = tuple(frozenset(_WORDING["talk"][way].split()) for way in ("on", "off"))
"""The topics of a switching at once, on and off."""
PLAN_TOPICS = frozenset(_WORDING["talk"]["plans"].split())
TALK_TOPICS = frozenset(_WORDING["talk"]["topics"].split())
_FORMS = {name: _compile(alternatives) for name, alternatives in _WORDING["forms"].items()}
PATTERNS = {name: _compile(alternatives) for name, alternatives in _WORDING["patterns"].items()}

TIMED = frozenset(verb for verb in VERBS if verb.startswith("remind_"))
LOOKS_UP = frozenset(
    ["measure", "past", "sensors", "board", "reminders", "find_note", "files", "read_file", "tasks", "now", "sum"]
)
"""Verbs that change nothing: all that a question about the owner's own things admits."""
ACTS_ON_ROW = {
    "cancel_reminder": "remove",
    "move_reminder": "update",
    "reword_reminder": "update",
    "done_task": "complete",
    "drop_task": "remove",
    "change_note": "",
}
"""Verbs for one row of what is listed first, and the action of their tool."""
PLACES = ("reminders", "tasks", "find_note", "read_file")
"""Verbs of all places where something of the owner's may stand."""
FINDS_NOTE = frozenset(["find_note", "measure", "past", "sensors", "now"])
"""Verbs that may be admitted by chance where a question is about a note: "which plant likes light"."""


def says(name: str, text: str) -> re.Match[str] | None:
    """What in a message says this, as templates/small.toml has it."""
    return PATTERNS[name].search(text)


def read_form(wish: str) -> str:
    """What a message is: "talk" that asks for words alone, a "question", a "remark", or else an "order"."""
    return next((form for form, words in _FORMS.items() if words.search(wish)), "order")


def find_help(wish: str) -> str:
    """The sentences to say for what a question asks how to do; '' for other questions."""
    return next((told for words, told in _HELPS if words.search(wish)), "") if says("how_to", wish) else ""


def is_question(wish: str) -> bool:
    return read_form(wish) == "question"


def _plan_weekly(day: str, wish: str) -> str:
    """The days of a cron expression: as the message names them, else as the model does."""
    if says("weekdays", wish):
        return "1-5"
    if re.search(r"\bweekends?\b", wish, re.IGNORECASE):
        return "6,0"
    named = re.findall(rf"\b({'|'.join(WEEKDAYS)})s?\b", wish, re.IGNORECASE)
    return ",".join(one[:3].lower() for one in named) or day.lower()[:3]


def _name_weekday(found: re.Match[str]) -> str:
    return next(day for day in WEEKDAYS if day.lower().startswith(found[0])).lower()


def count_cues(text: str) -> int:
    return sum(bool(cue.search(text)) for cue in _CUES.values())


def _select_offered(verbs: Collection[str], offered: Collection[str]) -> tuple[str, ...]:
    return tuple(verb for verb, (tool, _) in VERBS.items() if verb in verbs and (not tool or tool in offered))


def _leave_out(text: str) -> Collection[str]:
    """The verbs that a message cannot mean: without a time, or told as a remark, any reminder, of what repeats once only, of what was a reading of now."""
    once = {"remind_in", "remind_at"}
    if says("every_span", text):
        return TIMED - {"remind_every"}
    is_remark = read_form(text) == "remark" and not says("wants_reminder", text)
    left_out = (
        TIMED | {"reminders", "cancel_reminder"}
        if is_remark
        else TIMED
        if not says("time", text)
        else once
        if says("repeats", text)
        else TIMED - once
    )
    left_out |= {"note"} if says("removes", text) else set()
    if says("processor", text):
        return left_out | {"measure", "past", "sensors"}
    is_past = says("trend", text) or (says("past", text) and not re.search(r"\bnow\b", text, re.IGNORECASE))
    return left_out | {"measure"} if is_past else left_out


def select_verbs(text: str, offered: Collection[str], topics: Collection[str] = ()) -> tuple[str, ...]:
    """The verbs that the words of a message, or its topics, admit, of those whose tool is there; a cue with "?" says nothing of a remark."""
    form = read_form(text)
    if form == "talk":
        return ()
    if only := [verb for verb, words in _ONLY.items() if words.search(text)]:
        return _select_offered(only[:1], offered)
    told = (
        names.rstrip("?") for names, cue in _CUES.items() if cue.search(text) and (form != "remark" or "?" not in names)
    )
    by_topic = (verbs for names, verbs in _TOPICS if not names.isdisjoint(topics))
    found = {verb for names in told for verb in names.split()}.union(*by_topic)
    return _select_offered(found - {*_leave_out(text)}, offered)


def widen_verbs(wish: str, verbs: Collection[str], offered: Collection[str]) -> tuple[str, ...]:
    """What a model may choose among: the verbs that are named, else of an order all, whatever words it has; a question may look anything up."""
    form = read_form(wish)
    if form == "talk" or set(verbs) - LOOKS_UP or (form == "question" and select_verbs(wish, offered)):
        more: Collection[str] = ()
    elif form == "remark":
        more = {"done_task"} if says("have_done", wish) else TIMED if says("to_me", wish) else ()
    elif form == "question" and not says("asks_politely", wish):
        more = {*PLACES, "files"} | ({"board"} if says("yours", wish) else set())  # a model measures for anything
    else:
        more = (LOOKS_UP if says("shows", wish) else {*VERBS}) - {"sum"}
    return _select_offered(({*more} | {*verbs}) - {*_leave_out(wish)}, offered)


def is_looked_up(wish: str, verbs: Collection[str]) -> bool:
    """Whether words cannot be the answer, since they would be made up."""
    if not is_question(wish):
        return False
    is_measured = ("past" in verbs and bool(says("past", wish))) or ("measure" in verbs and bool(says("co2", wish)))
    is_own = not {"find_note", "reminders", "tasks", "board"}.isdisjoint(verbs) and bool(says("looked_up", wish))
    return is_own or is_measured or ("read_file" in verbs and bool(says("file", wish)))


def build_schema(verbs: Collection[str], *, with_words: bool = True) -> dict[str, Any]:
    """The JSON schema of an answer: one of the verbs with its arguments, or words."""

    def describe(verb: str, arguments: str) -> dict[str, Any]:
        kinds: dict[str, Any] = {
            name: {"type": "number" if name == "minutes" else "string"} for name in arguments.split()
        }
        if "to" in kinds:
            kinds["to"] = {"enum": ["on", "off"]}
        return {
            "type": "object",
            "properties": {"do": {"const": verb}, **kinds},
            "required": ["do", *kinds],
            "additionalProperties": False,
        }

    forms = [*(describe(verb, VERBS[verb][1]) for verb in verbs), *([describe("say", "text")] if with_words else [])]
    return forms[0] if len(forms) == 1 else {"anyOf": forms}


def parse_answer(text: str) -> dict[str, Any]:
    """Read the JSON object of an answer; a text without one is words."""
    begin = text.find("{")
    if begin >= 0:
        try:
            given, _ = json.JSONDecoder(strict=False).raw_decode(text[begin:])
        except (ValueError, RecursionError):
            given = None
        if isinstance(given, dict) and "do" in given:
            return given
    return {"do": "say", "text": read_said(text) or text.strip()}


def read_said(text: str, *, is_plain: bool = False) -> str:
    """The words of an answer that is still coming in, as far as they can be shown; '' for a verb. `is_plain` as no JSON."""
    begin = _SAID.match(text)
    found = begin and _LETTERS_SO_FAR.match(text, begin.end())
    said = str(json.loads(f'"{found[0]}"', strict=False)).lstrip() if found else ""
    if is_plain and not text.lstrip().startswith("{"):
        said = text.lstrip()
    # half of a pair, and what may be a blank that was not filled in, wait for what follows
    return said.rstrip("".join(map(chr, range(0xD800, 0xDC00)))).partition("[")[0]


def _read_hour(at: str, wish: str) -> tuple[int, int]:
    """The hour and minute of a model's time, in the half of the day that the message says. Raises ValueError."""
    found = _CLOCK.search(at)
    if not found:
        raise ValueError(at)
    hour, minute, half = int(found[1]), int(found[2] or 0), (found[3] or "").lower()
    hour = hour % 12 + 12 * (half == "pm") if half else hour
    return hour + 12 * (0 < hour < _NOON and not half and bool(says("late", wish))), minute


def phrase_call(call: ToolCall, wish: str) -> str:
    """The words that the matcher knows a reading, or a switching, by, so that its result is told as they ask; '' for others."""
    given = {name: str(value) for name, value in call.arguments.items()}
    quantity = given.get("quantity", "")
    match call.name:
        case "output" if given.get("action") == "set" and "seconds" in given:
            return f"turn {given.get('level', 'on')} the {given.get('name', '')} for {given['seconds']} seconds"
        case "sensor_read" if quantity:
            return f"what is the {quantity} now{' in fahrenheit' if 'fahrenheit' in wish.lower() else ''}"
        case "sensor_history" if quantity and "when" in given:
            figures = [name for name in _FIGURES if says(name, wish)]
            asked = f"what was the {figures[0]} {quantity}" if len(figures) == 1 else f"how was the {quantity}"
            return f"{asked} {given['when']}"
        case "rule":
            return "tell me when the temperature is above 30"
        case "memory_forget":
            return "forget the note about the fuse"
        case "board_status":
            return next((asked for name, asked in _BOARD.items() if says(name, wish)), "")
    return ""


def make_change(verb: str, given: Mapping[str, Any], wish: str) -> dict[str, Any]:
    """What is to be changed of the row that a verb names."""
    match verb:
        case "move_reminder":
            at = str(given["at"]).strip()
            hour, minute = _read_hour(at, wish) if _CLOCK.fullmatch(at) else (0, 0)
            return {"at": f"{hour:02}:{minute:02}" if _CLOCK.fullmatch(at) else at}
        case "reword_reminder":
            return {"message": str(given["text"]).strip()}
        case "change_note":
            return {"new": PATTERNS["corrects_too"].sub("", str(given["text"]).strip())}
    return {}


def make_arguments(verb: str, given: Mapping[str, Any], wish: str) -> dict[str, Any] | str:
    """A tool's arguments, or the answer of a verb that needs no tool. Raises ValueError and the like."""
    text = str(given.get("text", "")).strip()
    match verb:
        case "measure" | "past":
            named = [name for name in _QUANTITIES if says(name, wish)]
            if says("every_quantity", wish):
                return {} if verb == "measure" else {"when": str(given["when"])}
            named = ["moisture"] if says("moisture", wish) else named
            quantity = named if len(named) == 1 else PATTERNS["quantity"].findall(str(given["what"]).lower())
            found: dict[str, Any] = {"quantity": quantity[0]} if len(quantity) == 1 else {}
            named_when = says("when", wish)
            when = re.sub(r"^(?:these )?last (?=hours|days)", "last few ", named_when[0].lower()) if named_when else ""
            return found | ({"when": when or str(given["when"])} if verb == "past" else {})
        case "remind_in" | "remind_every":
            seconds = float(given["minutes"]) * 60
            if seconds <= 0:
                raise ValueError(given["minutes"])
            return {
                "action": "add",
                "message": text or wish,
                "at_seconds" if verb == "remind_in" else "every_seconds": seconds,
            }
        case "remind_at":
            at = re.sub(r"^(?:mon|tue|wed|thu|fri|sat|sun)\b", _name_weekday, str(given["at"]).strip().lower())
            return {"action": "add", "message": text or wish, "at": at}
        case "remind_daily" | "remind_weekly":
            hour, minute = _read_hour(str(given["at"]), wish)
            day = _plan_weekly(str(given.get("day", "")), wish) or "*"
            return {"action": "add", "message": text or wish, "cron_expr": f"{minute} {hour} * * {day}"}
        case (
            "reminders" | "cancel_reminder" | "move_reminder" | "reword_reminder" | "tasks" | "done_task" | "drop_task"
        ):
            return {"action": "list"}
        case "note":
            return {"text": text}
        case "find_note" | "forget_note" | "change_note":
            words = str(given["words"])
            return (
                {"query": words}
                if verb != "forget_note"
                else {"text": PATTERNS["filler"].sub("", words).strip() or words}
            )
        case "read_file":
            return {"path": str(given["path"])}
        case "add_line":
            return {"path": str(given["path"]), "content": text, "mode": "append"}
        case "write_file":
            mode = {"mode": given["mode"]} if "mode" in given else {}
            return {"path": str(given["path"]), "content": text, **mode}
        case "add_task":
            return {
                "action": "add",
                "text": (found_task["text"] or found_task["other"]).strip("'\"")
                if (found_task := says("put_on_tasks", wish) or says("put_on_tasks", text))
                else text,
            }
        case "sum":
            _check_operands(str(given["expression"]), wish)
            expression = str(given["expression"]).replace("×", "*").replace("x", "*").replace("÷", "/")
            return f"{expression} = {calculate(expression):.10g}"
    return {}


def _check_operands(expression: str, wish: str) -> None:
    """Raise ValueError for a sum that has a number more often than the message, if that has figures at all."""
    if any(char.isdigit() for char in wish) and not list_number_words(wish):
        told, wanted = list_figures(wish), [one.strip("-") for one in list_figures(expression)]
        for one in set(wanted) - {"100", "0", "1"}:
            if wanted.count(one) > max(1 + ("squared" in wish.lower()), told.count(one)):
                raise ValueError(expression)
