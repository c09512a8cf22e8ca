"""Reads the data of the intents (words, slots, concepts, templates and frames), checks it, and makes of it what a
grammar is loaded from: plain values for JSON.
"""

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from sys import intern
from typing import Any

from picoclaw.errors import ConfigError
from picoclaw.intents.arguments import STEPS
from picoclaw.intents.grammar import Branches, GrammarData, GrammarTables, Intent
from picoclaw.intents.sentence import SLOT_KINDS, UNWEIGHTED_KINDS, SentenceSlot, fold_name
from picoclaw.text import stem_word

_TEMPLATE_TOKEN = re.compile(r"\{\w+\}|<\w+>|[\[\]()|{}]|[^\[\](){}|\s<]+")
_NO_MARKS = str.maketrans("", "", "?^+")
_TEMPLATE_MARKS = frozenset("()[]{}<|")
_TOP_KEYS = ("language", "say", "words", "phrases", "slots", "spans", "concepts", "tools", "topics", "intents")
_INTENT_KEY_TEXT = "tool arguments defaults ask answer acts adds last exact asks polite only make after keeps each parts otherwise proposes steps templates frames"
_INTENT_KEYS = _INTENT_KEY_TEXT.split()
_INTENT_TEXTS = ("tool", "answer", "exact", "asks", "after", "keeps", "parts", "otherwise")
_INTENT_FLAGS = ("acts", "adds", "last", "polite", "only")
_SLOT_KEYS = "kind as like values never after before drop part whole joins without numbered".split()  # noqa: SIM905
_SAY_KEY_TEXT = """
    no_model unknown undone unreachable resting no_tool failed waiting near later name time_zone preferences wired which what stays_on partly nearest meant difference mean_difference end_difference unnamed several measures switches more_help typed unsaid reminder yes no more less
    is_day between_dates week_number days waits none_planned stays_set bounded only_now one_or_more
"""
_SAY_KEYS = _SAY_KEY_TEXT.split()
_NUMBER_TABLES = (
    "ordinals",
    "numbers",
    "units",
    "offsets",
    "quarters",
    "hours",
    "round_days",
    "before_day",
    "behind_day",
)
_OTHER_TABLE_TEXT = "names accents expand days months parts measures repeats usual sums factors dates clitics"
_OTHER_TABLES = _OTHER_TABLE_TEXT.split()
_LIST_TEXT = """
    ignore lead wonder tail negations filenames mend ordinary
    polite text_words unended questions acts ends tells verbs past general requests
    before calendar at on on_date no_hours joins within to halves from_now oclock
    every bounds until begins onwards recent since same_hour ago it splits binds agrees elisions negates_last
    undo preferences wired skips nods later opens introduces wants fetches whether halts
    plain apart counting narrows packs alternates more filler decimals declines waits places compounds hosts back sum_filler reported span_begins span_ends excepts times capitals lasting
"""
_LISTS = _LIST_TEXT.split()
_WORD_TABLES = (*_LISTS, *_NUMBER_TABLES, *_OTHER_TABLES)


def compile_grammar(data: Sequence[GrammarData], sources: Sequence[str] = ()) -> GrammarTables:
    """Compile tables of data, a later one added to those before; `sources` names their files. Raises ConfigError."""
    compiler = GrammarCompiler()
    for number, table in enumerate(data):
        compiler.add(table, sources[number] if number < len(sources) else f"intents file {number + 1}")
    return compiler.tables()


_SHARED_INTENT_KEY_TEXT = (
    "tool arguments defaults make acts adds last polite only after keeps parts otherwise steps frames"
)
_SHARED_INTENT_KEYS = _SHARED_INTENT_KEY_TEXT.split()
_SHARED_SLOT_KEYS = "kind as like part whole joins".split()  # noqa: SIM905


def translate_table(shipped: GrammarData, data: GrammarData) -> GrammarData:
    """Put a language's words, templates and answers into what English has of slots, tools and intents besides words."""

    def share(name: str, keys: Collection[str]) -> dict[str, Any]:
        return {one: {key: table[key] for key in keys if key in table} for one, table in shipped[name].items()}

    base = {"tools": share("tools", ("row", "note", "gives")), "slots": share("slots", _SHARED_SLOT_KEYS)}
    base["topics"] = shipped.get("topics", {})
    base["spans"] = dict.fromkeys(shipped.get("spans", {}), "")  # a frame with a part that has no words never fits
    return _merge(base | {"intents": share("intents", _SHARED_INTENT_KEYS)}, data)


def _merge(table: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    both = {name: value for name, value in over.items() if not isinstance(value, Mapping)}
    for name, value in over.items():
        if isinstance(value, Mapping):
            both[name] = _merge(table.get(name, {}), value)
    return {**table, **both}


class GrammarCompiler:
    """All data read so far. A later table adds to an earlier one; its wording replaces."""

    def __init__(self) -> None:
        self.language = ""
        self.say: dict[str, str] = dict.fromkeys(_SAY_KEYS, "")
        self.tools: dict[str, GrammarData] = {}
        self.topics: dict[str, Any] = {}
        self.words: dict[str, dict[str, Any]] = {name: {} for name in _WORD_TABLES}
        self.phrases: dict[str, str] = {}
        self.concepts: dict[str, str] = {}
        self.intents: dict[str, Intent] = {}
        self.keys: set[str] = set()
        self._templates: list[tuple[str, str, Branches]] = []
        self._frames: list[tuple[str, list[tuple[list[str], str]], int]] = []
        self._parsed: dict[str, tuple[Branches, dict[str, None]]] = {}
        self._slots: dict[str, SentenceSlot] = {}
        self._used: dict[str, dict[str, None]] = {}  # the slots of each intent
        self._open: set[str] = set()
        self._source = ""

    def tables(self) -> GrammarTables:
        starts: dict[str, list[int]] = {}
        for number, (where, _, branches) in enumerate(self._templates):
            labels, empty = self._find_first_words(branches)
            if empty:
                raise ConfigError(f"{where}: every word may be left out; require at least one")
            for label in sorted(labels):
                starts.setdefault(label, []).append(number)
        for table in self.words.values():
            self.keys.update(word for phrase in table for word in phrase.split())
        slots = {
            name: [sorted(part) if isinstance(part, frozenset) else part for part in slot]
            for name, slot in self._slots.items()
        }
        phrases = {name: branches for name, (branches, _) in self._parsed.items()}
        rows = [*slots.values(), *phrases.values(), *(branches for _, _, branches in self._templates)]
        head = {
            "language": self.language,
            "say": self.say,
            "tools": self.tools,
            "words": self.words,
            "concepts": self.concepts,
            "topics": self.topics,
            "keys": sorted(self.keys.difference(self.concepts, *self.words.values())),
            "intents": [list(one._replace(slots=list(self._used[one.name]))) for one in self.intents.values()],
            "slots": list(slots),
            "phrases": list(phrases),
            "templates": [intent for _, intent, _ in self._templates],
            "starts": starts,
            "frames": self._frames,
        }
        return [json.dumps(row, separators=(",", ":")).encode() for row in (head, *rows)]

    def _find_first_words(self, branches: Branches) -> tuple[set[str], bool]:
        """Return the words that may come first, "" for a slot; and whether there may be none."""
        labels, empty = set[str](), False
        for branch in branches:
            for node in branch:
                inner = self._parsed[node[1:-1]][0] if node[:1] == "<" else node
                if isinstance(inner, tuple):
                    more, none = self._find_first_words(inner)
                else:
                    more, none = {"" if node[:1] == "{" else node}, False
                labels |= more
                if not none:
                    break
            else:
                empty = True
        return labels, empty

    def add(self, data: GrammarData, source: str) -> None:
        """Read one file's table; `source` names it in messages."""
        self._source = source
        self._keys("the file", data, _TOP_KEYS)
        self.language = str(data.get("language", self.language))
        self.say |= self._texts("say", data.get("say", {}), _SAY_KEYS)
        self.topics |= self._table("topics", data)
        for tool, wording in self._table("tools", data).items():
            self._keys(f"tools.{tool}", wording, ("does", "lacks", "row", "note", "gives", "told", "each"))
            tables = {
                part: self._texts(f"tools.{tool}.{part}", wording.get(part, {}), ())
                for part in ("gives", "told", "each")
            }
            plain = {name: text for name, text in wording.items() if name not in tables}
            old = self.tools.get(tool, {})
            both = {name: {**old.get(name, {}), **table} for name, table in tables.items()}
            self.tools[tool] = {**old, **self._texts(f"tools.{tool}", plain, ()), **both}
        for name, value in self._table("words", data, _WORD_TABLES).items():
            self.words[name] |= self._word_table(f"words.{name}", name, value)
        phrases = self._texts("phrases", data.get("phrases", {}), ())
        if phrases.keys() & self._parsed.keys():
            self._parsed.clear()
        self.phrases |= phrases
        for name, value in self._table("slots", data).items():
            self._add_slot(f"slots.{name}", name, value)
        for name, value in self._table("spans", data).items():
            self._add_slot(f"spans.{name}", name, {"kind": "term", "as": "", "values": {name: value}})
        for name, value in self._table("concepts", data).items():
            self._add_concept(name, self._split(f"concepts.{name}", value))
        for name, value in self._table("intents", data).items():
            self._add_intent(f"intents.{name}", name, value)

    def _wrong(self, key: str, what: str, advice: str) -> ConfigError:
        return ConfigError(f"{self._source}: {key}: {what}; {advice}")

    def _keys(self, key: str, value: Any, known: Collection[str] = ()) -> None:
        if not isinstance(value, Mapping):
            raise self._wrong(key, "this is not a table", "write it as the shipped file does")
        for name in value:
            if known and name not in known:
                raise self._wrong(key, f"unknown key '{name}'", f"known are {', '.join(known)}")

    def _table(self, name: str, data: GrammarData, known: Collection[str] = (), within: str = "") -> dict[str, Any]:
        value = data.get(name, {})
        self._keys(f"{within}{name}", value, known)
        return dict(value)

    def _texts(self, key: str, value: Any, known: Collection[str]) -> dict[str, str]:
        self._keys(key, value, known)
        for name, text in value.items():
            self._expect(f"{key}.{name}", text, str)
        return dict(value)

    def _expect(self, key: str, value: Any, kind: type) -> None:
        if not isinstance(value, kind):
            raise self._wrong(key, f"this is no {kind.__name__}", "write it as the shipped file does")

    def _lines(self, key: str, value: Any) -> list[str]:
        """Sentences: a list, or a text with one on each line."""
        lines = value.splitlines() if isinstance(value, str) else value
        if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
            raise self._wrong(key, "these are not sentences", "write one on each line of a text, or a list of texts")
        return [line.strip() for line in lines if line.strip()]

    def _split(self, key: str, value: Any) -> list[str]:
        """Words: parted by spaces, with "_" for a space within a phrase."""
        text = fold_name(" ".join(self._lines(key, value)).lower())
        return [word.replace("_", " ") for word in text.split()]

    def _word_table(self, key: str, name: str, value: Any) -> GrammarData:
        if name in _LISTS:
            return dict.fromkeys(self._split(key, value), True)
        self._keys(key, value)
        if name == "repeats":
            return {spoken: days for days, text in value.items() for spoken in self._split(f"{key}.{days}", text)}
        for phrase, meaning in value.items():
            good = isinstance(meaning, int | float) if name in _NUMBER_TABLES else isinstance(meaning, str)
            good |= name == "behind_day" and (meaning == "next" or re.fullmatch(r"\d\d:\d\d", str(meaning)) is not None)
            if name == "parts":
                good = isinstance(meaning, list) and len(meaning) == 2 and meaning[0] in {"am", "pm", "night"}
            if not good:
                raise self._wrong(key, f"'{phrase}' has a wrong value", "compare it with the shipped file")
        folded = {phrase: fold_name(one) for phrase, one in value.items()} if name in {"accents", "expand"} else value
        return folded if name == "accents" else {fold_name(phrase): one for phrase, one in folded.items()}

    def _add_concept(self, name: str, words: list[str]) -> None:
        for word in words:
            self.concepts[word] = name
            if " " not in word:
                self.concepts.setdefault(stem_word(word), name)

    def _add_slot(self, key: str, name: str, value: Any) -> None:
        self._keys(key, value, _SLOT_KEYS)
        old = self._slots.get(name) or SentenceSlot(name, "", {})
        kind = value.get("kind", old.kind)
        if kind not in SLOT_KINDS:
            raise self._wrong(key, f"unknown kind '{kind}'", f"use one of {', '.join(sorted(SLOT_KINDS))}")
        like = self._slots.get(value.get("like", ""), old)
        values = {**like.values, **old.values}
        for meaning, words in self._table("values", value, within=f"{key}.").items():
            spoken = self._split(f"{key}.values.{meaning}", words)
            values |= dict.fromkeys(spoken, "" if meaning == "any" else meaning)
            self.keys.update(word for phrase in spoken for word in phrase.split())
            if kind not in UNWEIGHTED_KINDS:
                self._add_concept(name, spoken)
        lists = {
            part: frozenset(self._split(f"{key}.{part}", value.get(part, "")))
            for part in ("never", "after", "before", "drop", "without", "numbered")
        }
        for other in [word for word in lists["never"] if word.startswith("@")]:  # all that another slot reads
            lists["never"] |= self._slots[other[1:]].values.keys() if other[1:] in self._slots else set()
        self._slots[name] = SentenceSlot(
            name=value.get("as", old.name),
            kind=kind,
            values=values,
            never=old.never | like.never | lists["never"],
            after=old.after | lists["after"],
            before=old.before | like.before | lists["before"],
            drop=old.drop | lists["drop"],
            part=fold_name(value.get("part", old.part)),
            whole=value.get("whole", old.whole) is True,
            joins=value.get("joins", old.joins or like.joins) is True,
            without=old.without | lists["without"],
            numbered=old.numbered | lists["numbered"],
        )

    def _add_intent(self, key: str, name: str, value: Any) -> None:
        self._keys(key, value, _INTENT_KEYS)
        old = self.intents.get(name) or Intent(name, "", {}, {}, {}, "{result}", ())
        tables = {part: self._table(part, value, within=f"{key}.") for part in ("arguments", "defaults", "ask")}
        makes = self._table("make", value, within=f"{key}.")
        texts = {part: value.get(part, getattr(old, part)) for part in _INTENT_TEXTS}
        for part, text in texts.items():
            self._expect(f"{key}.{part}", text, str)
        flags: dict[str, Any] = {part: value.get(part, getattr(old, part)) is True for part in _INTENT_FLAGS}
        intent = old._replace(
            **texts,
            **flags,
            arguments=old.arguments | tables["arguments"],
            defaults=old.defaults | tables["defaults"],
            ask=old.ask | self._texts(f"{key}.ask", tables["ask"], ()),
            each={**old.each, **self._texts(f"{key}.each", value.get("each", {}), ())},
            proposes=[*old.proposes, *self._lines(f"{key}.proposes", value.get("proposes", ""))],
            steps=[*old.steps, *self._list_steps(f"{key}.steps", value.get("steps", ""))],
            make={**old.make, **{part: self._lines(f"{key}.make.{part}", text) for part, text in makes.items()}},
        )
        if intent.tool and "{result}" not in intent.answer:
            raise self._wrong(key, "the answer leaves out the tool's result", "put {result} into it")
        self.intents[name] = intent
        self._used.setdefault(name, {})
        for line in self._lines(f"{key}.templates", value.get("templates", "")):
            where = f"{key}.templates: '{line}'"
            self._templates.append((f"{self._source}: {where}", name, self._parse(where, self._used[name], line)))
        for line in self._lines(f"{key}.frames", value.get("frames", "")):
            self._add_frame(f"{key}.frames: '{line}'", name, line)

    def _list_steps(self, key: str, value: Any) -> list[str]:
        self._expect(key, value, str)
        known = {name for names, _ in STEPS for name in names} | {"both_figures", "of_output"}
        for name in value.split():
            if name not in known:
                raise self._wrong(key, f"unknown step '{name}'", f"use one of {', '.join(sorted(known))}")
        return list(value.split())

    def _add_frame(self, where: str, intent: str, line: str) -> None:
        """Read a line such as "^switch output+ ?seconds|until ~1": parts, and how many words may remain."""
        pieces, left = list[tuple[list[str], str]](), 0
        for part in line.split():
            name, marks = part.translate(_NO_MARKS), "".join(mark for mark in "?^+" if mark in part)
            if part[0] == "~" and part[1:].isdecimal():
                left = int(part[1:])
                continue
            slots = name.split("|")
            for slot in slots:
                self._slot(where, slot)
            pieces.append((slots, marks))
        if all("?" in marks for _, marks in pieces):
            raise self._wrong(where, "every part may be left out", "require at least one")
        self._frames.append((intent, pieces, left))

    def _parse(self, where: str, slots: dict[str, None], line: str) -> Branches:
        """The alternatives of a template; a bracket within is a tuple of alternatives itself."""
        branches: list[list[Any]] = [[]]
        outer: list[tuple[str, list[list[Any]]]] = []
        pieces = _TEMPLATE_TOKEN.findall(fold_name(line.lower()))
        self.keys.update(pieces)
        for piece in pieces:
            if piece[0] not in _TEMPLATE_MARKS:
                branches[-1].append(intern(piece))
            elif piece == "|":
                branches.append([])
            elif piece in {"(", "["}:
                outer.append((piece, branches))
                branches = [[]]
            elif piece in {")", "]"}:
                opened, around = outer.pop() if outer else ("", [])
                if opened + piece not in {"()", "[]"}:
                    raise self._wrong(where, f"'{piece}' closes nothing", "open that bracket, or remove it")
                around[-1].append(_freeze([*branches, []] if piece == "]" else branches))
                branches = around
            else:
                name = piece[1:-1]
                slots |= self._phrase_slots(where, name) if piece[0] == "<" else self._slot(where, name)
                branches[-1].append(((),) if piece[0] == "<" and name in self._open else piece)
        if outer:
            raise self._wrong(where, f"'{outer[-1][0]}' is not closed", "close it")
        return _freeze(branches)

    def _phrase_slots(self, where: str, name: str) -> dict[str, None]:
        """Parse a phrase once, and return the slots in it."""
        text = self.phrases.get(name)
        if text is None:
            raise self._wrong(
                where, f"unknown phrase '{name}'", f"define it in [phrases], or use {', '.join(self.phrases)}"
            )
        if name in self._open:
            return {}
        if name not in self._parsed:
            slots: dict[str, None] = {}
            self._open.add(name)  # a phrase within itself is nothing
            self._parsed[name] = (self._parse(where, slots, text), slots)
            self._open.discard(name)
        return self._parsed[name][1]

    def _slot(self, where: str, name: str) -> dict[str, None]:
        if name not in self._slots:
            raise self._wrong(
                where, f"unknown slot '{name}'", f"define [slots.{name}], or use {', '.join(self._slots)}"
            )
        return {name: None}


def _freeze(branches: Iterable[Sequence[Any]]) -> Branches:
    return tuple(map(tuple, branches))
