"""What a call has brought, in the words of a language: rows, comparisons, failures, and what waits for a yes."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from picoclaw.errors import MEANING_PREFIX, WAITING_FOR_APPROVAL
from picoclaw.intents.grammar import FIELD, GrammarData, Intent, IntentMatch, fill_fields
from picoclaw.messages import ERROR_PREFIX
from picoclaw.text import pattern
from picoclaw.times import format_duration

APPROVAL_NUMBER = pattern(r" as number (\d+) ")
_SECONDS = pattern(r"\b(\d{2,}(?:\.\d+)?) s\b")
_VALUE = pattern(r"-?\d+(?:\.\d+)?")
_MOMENT_OF_DAY = pattern(r"\bat \d\d?:\d\d$|(?:minute|hour)s? ago$|^this time ")
_NOTE_PLACE = pattern(
    r"^(?:\[id:-?\d+\] )?(?:\S+:[\d-]+ \((\d{4}-\d\d-\d\d)\)|memory/\d{6}/(\d{4})(\d\d)(\d\d)\.md:[\d-]*|(\S+\.md):[\d-]*)"
    r"(?: [01]\.\d\d\b)?(?: -(?= ))?",
    re.MULTILINE,
)
"""What a model names a note by: an id, the file and lines, the day, how sure it is."""
_NOTE_CHAT = pattern(r"(\d\d:\d\d )(?:\(chat [^();\n]+\) |(\()chat [^();\n]+; )")


class ResultWording:
    """The wording of one language."""

    def __init__(self, say: Mapping[str, str], tools: Mapping[str, GrammarData], intents: Mapping[str, Intent]) -> None:
        self._say, self._tools, self._intents = say, tools, intents

    def compare(self, results: Sequence[str], matches: Sequence[IntentMatch]) -> str:
        """Say which of two sensors reads more, and by how much; '' unless each has one such value."""
        row = self._tools[matches[0].tool]["row"]
        rows = [[one.groupdict() for one in re.finditer(row, result)] for result in results]
        if len(rows) != len(matches) or any(len(found) != 1 for found in rows):
            return ""
        end = {"low": "min", "high": "max"}.get(str(matches[0].said.get("_figure")), "")
        told = [found[0].get(end or "mean") or f"{found[0].get('value')} {found[0].get('unit')}" for found in rows]
        (first, unit), (second, other) = (one.partition(" ")[::2] for one in told)
        if unit != other or not (_VALUE.fullmatch(first) and _VALUE.fullmatch(second)):
            return ""
        sensors = (str(match.arguments["sensor"]) for match in matches)
        values = zip(map(float, (first, second)), sensors, strict=True)
        (low, lower), (high, higher) = sorted(values)
        fields = {"lower": lower, "higher": higher, "difference": f"{high - low:.1f}", "unit": unit}
        told_of = "end_difference" if end else "mean_difference" if "mean" in rows[0][0] else "difference"
        sense = matches[0].said.get("_sense")
        is_so = (matches[0].arguments["sensor"] == higher) == (sense == "more")
        answer = f"{self._say['yes' if is_so and high > low else 'no']} " if sense else ""
        return answer + fill_fields(self._say[told_of] or self._say["difference"], fields)

    def tell_result(self, match: IntentMatch | None, result: str) -> str:
        """What a call has brought, as its intent tells it; a failure and what waits for a yes in the words of the language."""
        if result.startswith(ERROR_PREFIX) and WAITING_FOR_APPROVAL in result:
            return self._ask_approval(match, result)
        if result.startswith(ERROR_PREFIX):
            told = self.tell(match, result)  # a whole sentence about a failure stands by itself
            failed = self._say["failed"] if told.startswith(ERROR_PREFIX) else "{result}"
            return fill_fields(failed, {"result": told.removeprefix(ERROR_PREFIX)})
        if match is None:
            return _name_notes(result)
        if "_bounded" in match.said:
            result += f"\n{self._say['bounded']}"
        told = fill_fields(match.answer, {**match.arguments, "result": self._word_rows(match, result)})
        return f"{told}\n{self._say['only_now']}" if "_past" in match.said and match.intent == "sensors_ok" else told

    def _word_rows(self, match: IntentMatch, result: str) -> str:
        """A tool's result as the data words it: of its rows those that were asked for."""
        tool, own = self._tools.get(match.tool, {}), self._intents[match.intent].each
        each = {**tool.get("each", {}), **own}
        if match.arguments.get("chart") or own.get("", " ") == "":
            return self.tell(match, result)
        found = [one.groupdict() for one in re.finditer(tool["row"], result)] if "row" in tool else []
        rows = [self._add_wording(match, row) for row in found]
        keys = [state if (state := str(row.get("state"))) in own else _choose_wording(match, row) for row in rows]
        wording = [own[key] if key in own else own.get("") or each.get(key) or each.get("", "") for key in keys]
        if any(not row.keys() >= set(FIELD.findall(text)) for row, text in zip(rows, wording, strict=True)):
            return self.tell(match, result)
        is_worded = any(wording) or not own.keys().isdisjoint(keys)  # what is on, where nothing is
        none = fill_fields(each.get("none", ""), match.said) if is_worded else ""
        told = [
            fill_fields(self._turn_answer(text) if "_stays" in match.said else text, row)
            for row, text in zip(rows, wording, strict=True)
            if all(row.get(name[1:], value) == value for name, value in match.said.items() if isinstance(value, str))
        ]
        notes = re.findall(tool["note"], result) if "note" in tool else []
        return self.tell(match, "\n".join([*filter(None, told), *notes]) or none or result)

    def _turn_answer(self, text: str) -> str:
        """A yes for a no: what did not fall below a limit has stayed above it."""
        yes, no = self._say["yes"], self._say["no"]
        return yes + text.removeprefix(no) if text.startswith(no) else no + text.removeprefix(yes)

    def _add_wording(self, match: IntentMatch, row: dict[str, Any]) -> dict[str, Any]:
        """A row with what is computed of it: degrees Fahrenheit, and times and differences in words."""
        say = self._say
        more = str(row.get("more") or "")
        windows = {
            "when": self._name_window(str(match.arguments.get("when") or "last 24 hours")),
            "compare": self._name_window(str(match.arguments.get("compare", ""))),
        }
        difference = f"{more[1:]} {say['less' if more[:1] == '-' else 'more']}" if more else ""
        if row.get("unit") == "°C" and row.get("value"):
            row = {**row, "fahrenheit": f"{float(row['value']) * 1.8 + 32:.1f}"}
        return {**row, **_count_left(row, match.said), **windows, "difference": difference}

    def _name_window(self, when: str) -> str:
        """A time that is past, in words of the language."""
        for expression, told in self._tools.get("window", {}).get("told", {}).items():
            when = re.sub(expression, told, when)
        return when

    def tell(self, match: IntentMatch | None, text: str) -> str:
        """What a tool says, in the words of the language, with lengths of time as people say them."""
        if match is None:
            return text
        if match.tool.startswith("memory_"):
            text = _name_notes(text)
        said = {name: str(value).replace("\\", r"\\") for name, value in match.arguments.items()}
        for tool in (match.tool, "all"):
            for expression, told in self._tools.get(tool, {}).get("told", {}).items():
                text = re.sub(expression, fill_fields(told, said), text)
        if match.tool in {"output", "cron"}:
            text = _SECONDS.sub(lambda found: format_duration(round(float(found[1])), exact=True), text)
        return text

    def _ask_approval(self, match: IntentMatch | None, newest: str) -> str:
        """Ask the owner for the yes that a call waits for, with what it would do."""
        number = APPROVAL_NUMBER.search(newest)
        if match is None or number is None:
            return newest.removeprefix(ERROR_PREFIX).partition(MEANING_PREFIX)[0]
        does = self._tools.get(match.tool, {}).get("does", "do this")
        asks = self._intents[match.intent].asks or f"Shall I {does}?"
        means = self.tell(match, newest.partition(MEANING_PREFIX)[2])
        bounded = self._say["bounded"] if "_bounded" in match.said else ""
        question = f"{bounded} {fill_fields(asks, match.arguments)} {means}".strip()
        return fill_fields(self._say["waiting"], {"asks": question, "number": number[1]})


def _name_notes(text: str) -> str:
    """Name notes by their day and time, as people do."""
    text = _NOTE_PLACE.sub(lambda found: found[1] or found[5] or "-".join(found.group(2, 3, 4)), text)
    return _NOTE_CHAT.sub(r"\1\2", text).replace(" … - ", " / ").replace(" / - ", " / ")


def _choose_wording(match: IntentMatch, row: Mapping[str, Any]) -> str:
    """Which of an intent's `each` says a row: of a limit, a comparison, one moment or a figure."""
    if "_beyond" in match.said:
        return _judge_row(row, match.said)
    if more := str(row.get("more") or ""):
        if not float(_VALUE.findall(more)[0]):
            return "same"
        sense = match.said.get("_sense")
        return ("yes" if (more[0] == "-") == (sense == "less") else "no") if sense else "compare"
    if row.get("mean") and match.arguments.get("compare"):
        return "alone"
    if row.get("mean") and _MOMENT_OF_DAY.search(str(match.arguments.get("when", ""))):
        return "moment"
    return str(match.said.get("_figure", "")) or next((name[1:] for name in match.said if name[1:] in row), "")


def _judge_row(row: Mapping[str, Any], said: Mapping[str, Any]) -> str:
    """Whether a row's value is beyond what was asked for, as a key of an intent's `each`: yes_above, no_below."""
    side = "above" if (said["_beyond"] in {"above", "at least"}) != ("_stays" in said) else "below"
    found = _VALUE.match(str(row.get("value") or row.get("max" if side == "above" else "min") or ""))
    if not found:
        return ""
    value, limit = float(found[0]), float(said["_limit"])
    beyond = value > limit if side == "above" else value < limit
    return f"{'yes' if beyond or (value == limit and said['_beyond'].startswith('at ')) else 'no'}_{side}"


def _count_left(row: Mapping[str, Any], said: Mapping[str, Any]) -> dict[str, str]:
    """The limit that was asked about, and how far a row's value is from it."""
    limit, value = str(said.get("_limit", "")), str(row.get("value") or "")
    is_number = _VALUE.fullmatch(limit) and _VALUE.fullmatch(value)
    return {"limit": limit, "left": f"{abs(float(value) - float(limit)):.1f}"} if is_number else {}
