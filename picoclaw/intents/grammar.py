"""A template of sentences as a graph: what a sentence may begin with, and what may follow each place."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from sys import intern
from types import MappingProxyType
from typing import Any

from picoclaw.errors import ConfigError
from picoclaw.intents.sentence import SLOT_KINDS, UNWEIGHTED_KINDS, SentenceSlot, SlotValues
from picoclaw.records import NamedTuple
from picoclaw.text import stem_word

Branches = tuple[tuple[Any, ...], ...]
"""Alternatives, each of words, slots and nested alternatives."""


class TemplateEdges(list[tuple[str | SentenceSlot, Any]]):
    """What may follow a place in a template: a word, an "@concept", a slot, or "" where the sentence may end."""

    @cached_property
    def sorted(self) -> tuple[dict[str, list["TemplateEdges"]], list[tuple[SentenceSlot, "TemplateEdges"]]]:
        words: dict[str, list[TemplateEdges]] = {}
        slots: list[tuple[SentenceSlot, TemplateEdges]] = []
        for label, then in self:
            if isinstance(label, SentenceSlot):
                slots.append((label, then))
            else:
                words.setdefault(label, []).append(then)
        return words, slots


class Template:
    """One line of templates; most are never walked, so it is linked when it is."""

    def __init__(self, intent: str, branches: Branches) -> None:
        self.intent, self.branches = intent, branches

    @cached_property
    def edges(self) -> TemplateEdges:
        return _link_branches(self.branches, TemplateEdges([("", None)]))


def _link_branches(branches: Branches, then: TemplateEdges) -> TemplateEdges:
    edges = TemplateEdges()
    for branch in branches:
        after = then
        for node in reversed(branch):
            after = _link_branches(node, after) if type(node) is tuple else TemplateEdges([(node, after)])
        edges += after
    return edges


def find_first_words(branches: Branches) -> tuple[set[str], bool]:
    """Return the words that may come first, "" for a slot; and whether there may be none."""
    labels, empty = set[str](), False
    for branch in branches:
        for node in branch:
            more, none = (
                find_first_words(node) if type(node) is tuple else ({node if isinstance(node, str) else ""}, False)
            )
            labels |= more
            if not none:
                break
        else:
            empty = True
    return labels, empty


# Reads the data of the intents: words, slots, concepts, templates and examples, checked as they are read.

GrammarData = Mapping[str, Any]

_TEMPLATE_TOKEN = re.compile(r"\{\w+\}|<\w+>|[\[\]()|{}]|[^\[\](){}|\s<]+")
_TEMPLATE_MARKS = frozenset("()[]{}<|")
_TOP_KEYS = ("say", "words", "phrases", "slots", "concepts", "tools", "intents")
_INTENT_KEY_TEXT = (
    "tool arguments defaults ask answer hints acts adds last exact asks polite only make templates examples"
)
_INTENT_KEYS = _INTENT_KEY_TEXT.split()
_SLOT_KEYS = "kind as like values never after before drop part whole joins without numbered".split()  # noqa: SIM905
_SAY_KEY_TEXT = "no_model unreachable resting no_tool failed waiting near later name time_zone preferences wired"
_SAY_KEYS = _SAY_KEY_TEXT.split()
_NUMBER_TABLES = ("numbers", "units", "offsets", "hours")
_OTHER_TABLES = ("expand", "days", "parts", "measures", "repeats")
_LIST_TEXT = """
    ignore lead wonder tail negations filenames mend ordinary
    polite questions acts ends tells verbs past here general requests
    calendar at on joins within to halves from_now oclock
    every bounds recent since ago
    undo preferences wired skips nods later opens introduces wants fetches whether halts
"""
_LISTS = _LIST_TEXT.split()
_WORD_TABLES = (*_LISTS, *_NUMBER_TABLES, *_OTHER_TABLES)


class Intent(NamedTuple):
    """One thing a sentence can mean. Without a tool its answer is said as it stands.

    `acts`: it switches, changes or removes something, so only a whole sentence that is an order means it; `adds`: it
    adds something, so no example and no question means it; `exact` is a sentence that does mean it, `asks` the question
    where a yes is needed; not `polite`: "could you ...?" does not mean it. `last`: counts where no other template fits;
    `only`: where its tool is offered; `make`: arguments that are made of slots, each by the first of its patterns whose
    slots are all there.
    """

    name: str
    tool: str
    arguments: SlotValues
    defaults: SlotValues
    ask: SlotValues
    answer: str
    hints: bool
    slots: dict[str, SentenceSlot]
    examples: list[str]
    acts: bool = False
    adds: bool = False
    last: bool = False
    exact: str = ""
    asks: str = ""
    polite: bool = True
    only: bool = False
    make: Mapping[str, Sequence[str]] = MappingProxyType({})

    @property
    def kind(self) -> str:
        """Which of these it is, '' for one that reads or talks."""
        return "acts" if self.acts else "adds" if self.adds else "last" if self.last else ""


class Grammar:
    """All data read so far. A later table adds to an earlier one; its wording replaces."""

    def __init__(self) -> None:
        self.say: dict[str, str] = dict.fromkeys(_SAY_KEYS, "")
        self.tools: dict[str, GrammarData] = {}
        self.words: dict[str, dict[str, Any]] = {name: {} for name in _WORD_TABLES}
        self.phrases: dict[str, str] = {}
        self.concepts: dict[str, str] = {}
        self.intents: dict[str, Intent] = {}
        self.keys: set[str] = set()
        self.starts: dict[str, list[Template]] = {}
        self._parsed: dict[str, tuple[Branches, dict[str, SentenceSlot]]] = {}
        self._slots: dict[str, SentenceSlot] = {}
        self._source = ""

    def add(self, data: GrammarData, source: str) -> None:
        """Read one file's table; `source` names it in messages."""
        self._source = source
        self._keys("the file", data, _TOP_KEYS)
        self.say |= self._texts("say", data.get("say", {}), _SAY_KEYS)
        for tool, wording in self._table("tools", data).items():
            self.tools[tool] = self._texts(f"tools.{tool}", wording, ("does", "lacks"))
        for name, value in self._table("words", data, _WORD_TABLES).items():
            self.words[name] |= self._word_table(f"words.{name}", name, value)
        self.phrases |= self._texts("phrases", data.get("phrases", {}), ())
        for name, value in self._table("slots", data).items():
            self._add_slot(f"slots.{name}", name, value)
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
        return [word.replace("_", " ") for word in " ".join(self._lines(key, value)).lower().split()]

    def _word_table(self, key: str, name: str, value: Any) -> GrammarData:
        if name in _LISTS:
            return dict.fromkeys(self._split(key, value), True)
        self._keys(key, value)
        if name == "repeats":
            return {spoken: days for days, text in value.items() for spoken in self._split(f"{key}.{days}", text)}
        for phrase, meaning in value.items():
            good = isinstance(meaning, int | float) if name in _NUMBER_TABLES else isinstance(meaning, str)
            if name == "parts":
                good = isinstance(meaning, list) and len(meaning) == 2 and meaning[0] in {"am", "pm", "night"}
            if not good:
                raise self._wrong(key, f"'{phrase}' has a wrong value", "compare it with the shipped file")
        return dict(value)

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
            part=value.get("part", old.part),
            whole=value.get("whole", old.whole) is True,
            joins=value.get("joins", old.joins or like.joins) is True,
            without=old.without | lists["without"],
            numbered=old.numbered | lists["numbered"],
        )

    def _add_intent(self, key: str, name: str, value: Any) -> None:
        self._keys(key, value, _INTENT_KEYS)
        old = self.intents.get(name) or Intent(name, "", {}, {}, {}, "{result}", False, {}, [])
        tables = {part: self._table(part, value, within=f"{key}.") for part in ("arguments", "defaults", "ask")}
        makes = self._table("make", value, within=f"{key}.")
        intent = Intent(
            name=name,
            tool=value.get("tool", old.tool),
            arguments=old.arguments | tables["arguments"],
            defaults=old.defaults | tables["defaults"],
            ask=old.ask | self._texts(f"{key}.ask", tables["ask"], ()),
            answer=value.get("answer", old.answer),
            hints=value.get("hints", old.hints) is True,
            slots=old.slots,
            examples=old.examples
            + [line.lower() for line in self._lines(f"{key}.examples", value.get("examples", ""))],
            acts=value.get("acts", old.acts) is True,
            adds=value.get("adds", old.adds) is True,
            last=value.get("last", old.last) is True,
            exact=value.get("exact", old.exact),
            asks=value.get("asks", old.asks),
            polite=value.get("polite", old.polite) is True,
            only=value.get("only", old.only) is True,
            make={**old.make, **{part: self._lines(f"{key}.make.{part}", text) for part, text in makes.items()}},
        )
        self._expect(f"{key}.tool", intent.tool, str)
        self._expect(f"{key}.answer", intent.answer, str)
        self._expect(f"{key}.exact", intent.exact, str)
        self._expect(f"{key}.asks", intent.asks, str)
        if intent.tool and "{result}" not in intent.answer:
            raise self._wrong(key, "the answer leaves out the tool's result", "put {result} into it")
        self.intents[name] = intent
        for line in self._lines(f"{key}.templates", value.get("templates", "")):
            self._add_template(f"{key}.templates: '{line}'", intent, line)

    def _add_template(self, where: str, intent: Intent, line: str) -> None:
        template = Template(intent.name, self._parse(where, intent, line))
        labels, empty = find_first_words(template.branches)
        if empty:
            raise self._wrong(where, "every word may be left out", "require at least one")
        for label in labels:
            self.starts.setdefault(label, []).append(template)

    def _parse(self, where: str, intent: Intent, line: str) -> Branches:
        """The alternatives of a template; a bracket within is a tuple of alternatives itself."""
        branches: list[list[Any]] = [[]]
        outer: list[tuple[str, list[list[Any]]]] = []
        pieces = _TEMPLATE_TOKEN.findall(line.lower())
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
                read = self._phrase if piece[0] == "<" else self._slot
                branches[-1].append(read(where, intent, piece[1:-1]))
        if outer:
            raise self._wrong(where, f"'{outer[-1][0]}' is not closed", "close it")
        return _freeze(branches)

    def _phrase(self, where: str, intent: Intent, name: str) -> Branches:
        """A phrase's alternatives, parsed once and shared."""
        text = self.phrases.get(name)
        if text is None:
            raise self._wrong(
                where, f"unknown phrase '{name}'", f"define it in [phrases], or use {', '.join(self.phrases)}"
            )
        if text not in self._parsed:
            inner = intent._replace(slots={})
            self.phrases[name] = ""  # a phrase within itself is nothing
            self._parsed[text] = (self._parse(where, inner, text.lower()), inner.slots)
            self.phrases[name] = text
        branches, slots = self._parsed[text]
        intent.slots.update({slot: kind for slot, kind in slots.items() if slot not in intent.slots})
        return branches

    def _slot(self, where: str, intent: Intent, name: str) -> SentenceSlot:
        slot = self._slots.get(name)
        if slot is None:
            raise self._wrong(
                where, f"unknown slot '{name}'", f"define [slots.{name}], or use {', '.join(self._slots)}"
            )
        return intent.slots.setdefault(name, slot)


def _freeze(branches: Iterable[Sequence[Any]]) -> Branches:
    """Tuples take a third of the memory of lists that have grown, and there are thousands."""
    return tuple(map(tuple, branches))


# What a sentence was understood as, and how its slots become the arguments of a tool.

EXACT_SCORE = 0.79  # as good as an example's own words
_FIELD = re.compile(r"\{(\w+)\}")


class IntentMatch(NamedTuple):
    """What a text was understood as. `tool` is empty for small talk; `missing` asks for what was left out."""

    intent: str
    tool: str
    arguments: dict[str, Any]
    answer: str
    score: float
    route: str
    missing: str = ""


def make_match(intent: Intent, found: SlotValues, score: float, route: str) -> IntentMatch:
    given = dict(intent.defaults)
    for value in found.values():
        given |= value if isinstance(value, dict) else {}
    given |= {name: value for name, value in found.items() if not isinstance(value, dict)}
    given = {name: value for name, value in given.items() if name and value != ""}
    said = set(found).union(*(value for value in found.values() if isinstance(value, dict)))
    missing = next((question for names, question in intent.ask.items() if said.isdisjoint(names.split("|"))), "")
    arguments = _make_arguments(intent.make, given) if intent.make else given
    return IntentMatch(
        intent.name, intent.tool, intent.arguments | arguments, intent.answer, round(score, 9), route, missing
    )


def _make_arguments(make: Mapping[str, Any], given: SlotValues) -> SlotValues:
    """The arguments with those that are made of others in place of these; "options.level" is one within another."""
    used = {field for patterns in make.values() for pattern in patterns for field in _FIELD.findall(pattern)}
    arguments = {name: value for name, value in given.items() if name not in used}
    for name, patterns in make.items():
        fits = (pattern for pattern in patterns if given.keys() >= set(_FIELD.findall(pattern)))
        if pattern := next(fits, ""):
            outer, _, inner = name.rpartition(".")
            place = arguments.setdefault(outer, {}) if outer else arguments
            place[inner] = fill_fields(pattern, given)
    return arguments


def fill_fields(template: str, values: Mapping[str, Any]) -> str:
    """Put values in place of their names in braces; a name without a value stays."""
    return _FIELD.sub(lambda field: str(values.get(field[1], field[0])), template)
