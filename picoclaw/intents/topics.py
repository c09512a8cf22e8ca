"""Tells what a sentence is about by a linear classifier, trained on sentences of many voices (tests/data/sentences).

A sentence becomes features: names, times, lengths, numbers and quantities each become one mark, so that what was learnt of
one sensor or day holds for all. The weights are data, a file per language, made by `python tests/bench/topics.py`. What is
understood by templates and frames is named as a topic too, so that both can be held against each other.
"""

import json
import math
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice, pairwise
from pathlib import Path

from picoclaw.files import read_file
from picoclaw.intents.grammar import NEEDS_CLOCK, Grammar, IntentMatch
from picoclaw.intents.sentence import Sentence, SlotReader
from picoclaw.text import pattern, stem_word

MARKS = (
    ("#past", ("past",)),
    ("#time", ("when",)),
    ("#often", ("often",)),
    ("#long", ("seconds",)),
    ("#limit", ("value",)),
    ("#what", ("quantity", "noun")),
    ("#place", ("spot",)),
)
_MAX_WEIGHTS = 4_000_000  # bytes
_PREFIX, _PIECE = 4, 4
"""Letters of a longer word, which stand for all of its forms; and of a piece of one, which outlives a slip."""
_LISTED = pattern(r"[\w -]*(?:list|liste|lista)[\w -]*: ")
_SIDES = ("above", "below", "at least", "at most")


class Features:
    """Turns sentences of one language into what the classifier counts."""

    def __init__(self, book: Grammar, reader: SlotReader) -> None:
        self._reader = reader
        self._marks = [(mark, [book.slot(name) for name in names if name in book.slot_names]) for mark, names in MARKS]

    def read(self, s: Sentence) -> set[str]:
        """The marks and stems, neighbours, pairs over one word, how it begins and ends, and pieces of the words."""
        tokens, i, features = list[str](), 0, {"??"} if s.asks else set[str]()
        while i < len(s.words):
            mark, stop = self._read_mark(s, i, len(s.words))
            stop = max(stop, i + 1)
            stems = [stem_word(word) for word in s.words[i:stop]]
            features.update(f"={stem}" for stem in stems if mark)
            tokens += [mark] if mark else stems
            i = stop
        for word in s.words:
            features.update(f"~{f'<{word}>'[n : n + _PIECE]}" for n in range(max(1, len(word) + 3 - _PIECE)))
        ends = ["^", *tokens, "$"]
        features.update(tokens)
        features.update(f"{a} {b}" for a, b in pairwise(ends))
        features.update(f"{a} _ {b}" for a, b in zip(ends, ends[2:], strict=False))
        features.update(f"{word[:_PREFIX]}*" for word in tokens if len(word) > _PREFIX and word[0] != "#")
        if s.asks:
            features.add(f"?? {tokens[0]}")
        return features

    def _read_mark(self, s: Sentence, i: int, end: int) -> tuple[str, int]:
        """The mark for the longest part that begins at word `i`, and where it ends; '' where none does."""
        if hit := s.longest(s.names, i):
            return ("#place" if hit[0][0] == "sensor" else "#output"), min(hit[1], end)
        best, stop = "", i
        for mark, slots in self._marks:
            for slot in slots:
                for _, last in islice(self._reader.read(slot, s, i), 4):
                    if stop < last <= end:
                        best, stop = mark, last
        if not best and s.words[i][0].isdigit():
            return "#number", i + 1
        return best, stop


class TopicClassifier:
    """The weights of one language."""

    def __init__(self, lines: Iterable[bytes]) -> None:
        """The first line has the topics, each further one a feature and a byte for each topic's weight."""
        rows: Iterator[bytes] = iter(lines)
        self.topics: list[str] = json.loads(next(rows))
        self._weights = dict(row.split(b"\t", 1) for row in rows)

    def score(self, features: Collection[str]) -> list[tuple[float, str]]:
        """Each topic's share of what a sentence may be about, the likeliest first."""
        rows = [self._weights[one] for one in (b"", *map(str.encode, features)) if one in self._weights]
        return _share([sum(weights) / SCALE for weights in zip(*rows, strict=True)], self.topics)

    def known(self, token: str) -> bool:
        return token.encode() in self._weights


SCALE, ZERO = 10.0, ord("P")
"""Steps of a weight of 1.0; the byte of a weight of 0."""


def _share(sums: Sequence[float], topics: Sequence[str]) -> list[tuple[float, str]]:
    most = max(sums)
    shares = [math.exp(one - most) for one in sums]
    total = sum(shares)
    return sorted(((share / total, topic) for share, topic in zip(shares, topics, strict=True)), reverse=True)


def load_topics(file: Path) -> TopicClassifier:
    """Load what was trained. Raises OSError, ValueError."""
    try:
        return TopicClassifier(zlib.decompressobj().decompress(read_file(file), _MAX_WEIGHTS).splitlines())
    except zlib.error as error:
        raise ValueError(f"{file.name} is no file of weights: {error}; make it with tests/bench/topics.py") from error


MEANT = {
    "board_disk": "board_part _part=disk",
    "board_memory": "board_part _part=memory",
    "board_load": "board_part _part=load",
    "board_cpu_temperature": "sensor_read sensor=cpu quantity=temperature",
    "board_version": "version",
    "not_wanted": "not_done",
    "file_list": "list_dir",
    "file_read": "read_file",
    "memory_what": "memory_search",
    "output_planned": "cron_list",
}
"""What topics mean that are no intents by their names, with slots that are given."""
PROPOSED = {
    "output_on": "output_on",
    "output_off": "output_off",
    "output_level": "output_on",
    "outputs_off": "outputs_off",
    "output_later": "output_later output_later_off output_later_water",
    "output_daily": "rule_daily rule_daily_off rule_water",
    "output_water": "output_water",
    "cron_add": "cron_add",
    "cron_repeat": "cron_add",
    "cron_timer": "cron_timer cron_wake",
    "cron_remove": "cron_remove",
    "cron_remove_all": "cron_remove_all",
    "cron_move": "cron_move",
    "cron_pause": "cron_pause",
    "cron_resume": "cron_resume",
    "cron_report": "cron_tell",
    "rule_tell": "rule_tell rule_frost",
    "rule_switch": "rule_switch rule_switch_off rule_water_if",
    "rule_remove": "rule_remove",
    "rule_pause": "rule_pause",
    "rule_change": "rule_change",
    "memory_store": "memory_store",
    "memory_forget": "memory_forget",
    "memory_correct": "memory_update",
    "list_add": "list_add",
    "list_remove": "list_remove",
}
"""The intents that are proposed for topics of orders and of what is kept."""
TALK = (
    dict.fromkeys(("remark", "reported", "not_wanted", "advice"), 0.3)
    | dict.fromkeys(("praise", "goodbye", "hello", "thanks", "help", "who"), 0.4)
    | dict.fromkeys(("unmeasured", "forecast", "cannot_reach"), 0.5)
)
"""The least share of a topic of talk that is answered where nothing was understood."""
CHAT = frozenset(("remark", "reported", "praise", "nothing", "hello", "goodbye"))
_AS_NAMED = frozenset([
    "unmeasured", "forecast", "sensor_list", "sensors_ok", "board_ok", "board_status", "board_uptime", "board_address", "clock", "doing", "output_list",
    "output_why", "output_longest", "output_can", "cron_list", "rule_list", "hello", "thanks", "goodbye", "who", "help", "heard_asked", "heard_told",
    "cannot_reach", "list_clear", "output_past", "praise", "remark", "not_wanted", "reported", "advice", "calendar"
])  # fmt: skip
"""Intents that are their own topics."""
_ANSWERS = {
    "version": "board_version", "howto": "help", "cannot": "nothing", "not_done": "not_wanted",
    "no_thanks": "not_wanted", "sorry": "praise", "sensor_verdict": "advice", "soil_verdict": "advice", "output_since":
    "output_past", "list_dir": "file_list", "read_file": "file_read", "sum": "sum", "cpu_hot": "board_cpu_temperature",
    "undo": "", "can_you": "help", "output_all": "",
}  # fmt: skip
"""What other intents are an answer to; '' for those that only say how a thing is to be said."""
_FITS = {
    "board_disk": "board_status",
    "board_memory": "board_status",
    "board_load": "board_status",
    "board_uptime": "board_status",
    "board_cpu_temperature": "board_status",
    "?now": "?all ?limit advice", "?all": "?now", "?low": "?past ?when", "?high": "?past ?when", "?past": "",
    "?mean": "?past", "?limit": "?low ?high ?often ?now", "?often": "?limit", "?when": "?low ?high ?limit ?past ?often",
    "?comparetime": "", "?trend": "?chart ?comparetime", "advice": "?now", "board_ok": "board_status sensors_ok", "board_status": "board_ok",
    "doing": "output_state output_list", "output_list": "output_state doing", "output_state": "output_list output_why doing",
    "output_why": "output_state output_list output_past", "output_longest": "", "output_planned": "cron_list rule_list",
    "output_off": "outputs_off", "output_water": "output_later output_daily", "outputs_off": "output_off", "output_later": "output_daily", "output_daily": "output_later rule", "cron_add": "cron_timer",
    "cron_timer": "cron_add", "cron_pause": "", "cron_report": "cron_repeat", "rule_tell": "", "rule_change": "rule_tell rule_switch",
    "memory_search": "memory_what list_show", "memory_what": "memory_search", "list_show": "memory_search", "memory_correct": "memory_store",
    "cannot_reach": "nothing", "nothing": "cannot_reach unmeasured", "remark": "nothing praise", "praise": "nothing remark thanks hello who", "reported": "nothing remark not_wanted",
    "not_wanted": "nothing remark reported", "list_remove": "memory_forget", "memory_forget": "list_remove", "thanks": "praise", "who": "help praise", "help": "who output_can howto", "forecast": "nothing",
    "unmeasured": "nothing cannot_reach", "output_can": "output_list help", "file_write": "", "list_clear": "", "sensors_ok": "?all", "sensor_list": "?all", "calendar": "sum", "sum": "calendar", "output_past": "",
}  # fmt: skip
"""What else is an answer to a topic."""


def name_topic(match: IntentMatch) -> str:
    """The topic that a match answers; '' where it only says how to say it, or asks back."""
    given, said, intent = match.arguments, match.said, match.intent
    if match.missing not in {"", NEEDS_CLOCK} or match.route in {"unclear", "unknown"}:
        return ""
    action = str(given.get("action", ""))
    match match.tool:
        case "sensor_read":
            if given.get("sensor") == "cpu":
                return "board_cpu_temperature"
            if "_health" in said:
                return "sensors_ok"
            if intent in {"sensor_verdict", "soil_verdict"}:
                return "advice"
            return (
                "?compare" if "_other" in said else "?limit" if "_beyond" in said else "?all" if not given else "?now"
            )
        case "sensor_history":
            signs = {"chart": "?chart", "compare": "?comparetime", "_other": "?compare", "_beyond": "?limit"}
            found = (topic for sign, topic in signs.items() if sign in given or sign in said)
            return next(found, "?trend" if "trend" in intent else f"?{said.get('_figure') or 'past'}")
        case "sensor_excursions":
            return "?often"
        case "board_status":
            part = {"cpu_load": "load"}.get(str(said.get("_part", "")), said.get("_part", ""))
            return "board_ok" if "_status" in said else f"board_{part}" if part else "board_status"
        case "output":
            if action == "list":
                return intent if intent in _AS_NAMED else "output_state"
            if action == "off":
                return "output_off" if "name" in given and intent != "outputs_off" else "outputs_off"
            is_water = intent == "output_water"
            return "output_water" if is_water else "output_on" if given.get("level", "on") == "on" else "output_level"
        case "output_history":
            return "output_past"
        case "rule":
            if action == "add":
                when = str(given.get("when", ""))
                if not any(word in when for word in _SIDES):
                    return "output_daily"
                return "rule_switch" if "output" in given else "rule_tell"
            return f"rule_{action}"
        case "cron":
            if action == "add":
                repeats = "cron_expr" in given or "every_seconds" in given
                if given.get("kind") != "tool":
                    timed = intent in {"cron_timer", "cron_wake"}
                    return "cron_timer" if timed else "cron_repeat" if repeats else "cron_add"
                if not str(given.get("message", "")).startswith("output"):
                    return "cron_report"
                return "output_daily" if repeats else "output_later"
            if action == "remove":
                return "cron_remove_all" if said.get("_called") == "**" else "cron_remove"
            names = {"disable": "pause", "enable": "resume", "snooze": "move", "get": "list"}
            return f"cron_{names.get(action, action)}"
        case "memory_store" | "memory_share":
            listed = "_list" in said or _LISTED.match(str(given.get("text", "")))
            return "list_add" if listed else "memory_store"
        case "memory_search":
            return "list_show" if "_list" in said else "memory_search"
        case "memory_forget":
            return "list_remove" if "_list" in said or intent.startswith("list") else "memory_forget"
        case "memory_update":
            return "memory_correct"
    return _ANSWERS.get(match.tool, _ANSWERS.get(intent, intent if intent in _AS_NAMED else ""))


def is_answer(topic: str, names: Sequence[str]) -> bool:
    if topic == "several":
        return len(names) > 1
    if topic == "output_two":
        return len(names) > 1 and {*names} <= {"output_on", "output_off", "output_level", "output_water"}
    close = {topic, *_FITS.get(topic, "").split()}
    return all(name in close for name in names)
