"""A template of sentences as a graph: what a sentence may begin with, and what may follow each place."""

import contextlib
import json
from binascii import crc32
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeGuard, cast

from picoclaw import __version__
from picoclaw.files import read_file, write_atomic
from picoclaw.intents.sentence import SentenceSlot, SlotValues, fold_name, list_first_words
from picoclaw.intents.times import WordTables
from picoclaw.records import NamedTuple
from picoclaw.text import pattern

Branches = Sequence[Sequence[Any]]
"""Alternatives, each of words, nested alternatives, and names of "{slots}" and "<phrases>"."""

GrammarData = Mapping[str, Any]
GrammarTables = list[bytes]
"""A compiled grammar, as picoclaw.intents.compiler makes it: a head and parts that are read when they are needed."""


_NO_PHRASES: Mapping[str, str] = {}


class TemplateEdges:
    """What may follow a place in a template: a word, an "@concept", a slot, or "" where the sentence may end.

    Found when a sentence comes so far; most of a template is never reached.
    """

    def __init__(self, grammar: "Grammar", branches: Branches, then: "TemplateEdges") -> None:
        self._grammar, self._branches, self._then = grammar, branches, then

    @cached_property
    def sorted(self) -> tuple[dict[str, list["TemplateEdges"]], list[tuple[SentenceSlot, "TemplateEdges"]]]:
        words: dict[str, list[TemplateEdges]] = {}
        slots: list[tuple[SentenceSlot, TemplateEdges]] = []
        for branch in self._branches:
            then = self._then if len(branch) < 2 else TemplateEdges(self._grammar, (branch[1:],), self._then)
            node = branch[0] if branch else ()
            if isinstance(node, str) and node[0] == "<":
                node = self._grammar.branches(node)
            if not isinstance(node, str):
                inner = TemplateEdges(self._grammar, node, then) if node else then
                for word, places in inner.sorted[0].items():
                    words.setdefault(word, []).extend(places)
                slots += inner.sorted[1]
            elif node[0] == "{":
                slots.append((self._grammar.slot(node[1:-1]), then))
            else:
                words.setdefault(node, []).append(then)
        return words, slots


class Template:
    """One line of templates."""

    def __init__(self, intent: str, row: int, grammar: "Grammar") -> None:
        self.intent, self._row, self._grammar = intent, row, grammar

    @cached_property
    def _branches(self) -> Branches:
        return cast("Branches", json.loads(self._grammar.rows[self._row]))

    @cached_property
    def edges(self) -> TemplateEdges:
        return TemplateEdges(self._grammar, self._branches, self._grammar.end)

    @cached_property
    def needs(self) -> Sequence[frozenset[str]]:
        """Sets of words and "@concepts": a sentence that it fits has one of each."""
        return self._grammar.list_needs(self._branches)


class Intent(NamedTuple):
    """One thing a sentence can mean. Without a tool its answer is said as it stands.

    `acts`: it switches, changes or removes something, so only a whole sentence that is an order means it; `adds`: it
    adds something, so no question means it; `exact` is a sentence that does mean it, `asks` the question
    where a yes is needed; not `polite`: "could you ...?" does not mean it. `last`: counts where no other template fits;
    `only`: where its tool is offered; `after`: where one of these tools ("cron", or "cron:add" for one action of it) was called in the last turn, whose arguments in
    `keeps` hold on, a "=name" only of the last call itself, a "it.name" only where the sentence says "it" and no place, a "-.name" only of a measurement where no sensor is named
    (without a tool, it is the same again); `parts` are intents that are done instead, in order, `otherwise` the one that is meant where nothing of its list is called so; `each` words the rows of
    a result, by the figure that was asked for; `make`: arguments that are made of slots, each by the first of its patterns whose
    slots are all there; `steps`: those of picoclaw.intents.arguments that it needs besides those of its slots; `proposes`: sentences that mean it, with slots, to ask with where its topic is plain and its words are not.
    """

    name: str
    tool: str
    arguments: SlotValues
    defaults: SlotValues
    ask: SlotValues
    answer: str
    slots: Collection[str]
    acts: bool = False
    adds: bool = False
    last: bool = False
    exact: str = ""
    asks: str = ""
    polite: bool = True
    only: bool = False
    make: Mapping[str, Sequence[str]] = MappingProxyType({})
    after: str = ""
    keeps: str = ""
    each: Mapping[str, str] = MappingProxyType({})
    parts: str = ""
    otherwise: str = ""
    proposes: Sequence[str] = ()
    steps: Sequence[str] = ()

    @property
    def kind(self) -> str:
        """Which of these it is, '' for one that reads or talks."""
        return "acts" if self.acts else "adds" if self.adds else "last" if self.last else ""


LETTERS = pattern(r"[^\W\d_]+(?:'[^\W\d_]+)?")


def load_grammar(
    files: Sequence[Path],
    cache: Path,
    read: Callable[[Sequence[Path]], Sequence[GrammarData]],
    *,
    translated: bool = False,
) -> "Grammar":
    """Load what was compiled from the files before, else `read` and compile them, and keep that in `cache`.

    `translated`: the first file is the English one, and the second another language. Raises ConfigError.
    """
    head = json.dumps([__version__, *map(_stamp_file, (*files, Path(__file__).with_name("compiler.py")))]).encode()
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
        stamp, crc, *rows = read_file(cache).split(b"\n")
        if stamp == head and int(crc) == crc32(b"\n".join(rows)):
            return Grammar(rows)
    from picoclaw.intents.compiler import compile_grammar, translate_table

    tables = list(read(files))
    names = list(map(str, files))
    if translated:
        tables[:2], names[:2] = [translate_table(*tables[:2])], names[1:2]
    rows = compile_grammar(tables, names)
    with contextlib.suppress(OSError):
        write_atomic(cache, b"\n".join([head, b"%d" % crc32(b"\n".join(rows)), *rows]))
    return Grammar(rows)


_MAX_MARKS = 12_000  # bytes of the first line
_UNIT_LETTER = pattern(r"(?<=\d)[a-z]\b")
"""A letter that is of no language: "2l" has no French "l'"."""
_MIN_LETTERS = 4  # in the words that tell a language


def read_marks(file: Path) -> frozenset[str]:
    """The words by which a language is told: the first line of its file, behind a colon. Raises OSError."""
    line = read_file(file, _MAX_MARKS).decode("utf-8", "replace").partition("\n")[0]
    marks = line.partition(":")[2]
    return frozenset(f"{marks} {fold_name(marks)}".split())  # "température" counts twice, "temperature" is English, too


def find_language(texts: Sequence[str], languages: Mapping[str, frozenset[str]], likely: str = "") -> str:
    """The language of the first text that has a language, of the newest and those before it; '' where none has.

    It is the one that has most of the words among those it is told by, of several the one with the longer words, and of
    two alike none. A text with a word of few letters alone ("ne 29"), or with one word of several, is in it only where no other
    text has one. `likely` is the language of texts without any such word, and of two alike.
    """
    weak, is_bare = "", True
    for text in texts:
        plain = _UNIT_LETTER.sub(" ", text.lower())
        words = {*LETTERS.findall(plain), *LETTERS.findall(fold_name(plain))}
        hits = {language: words & marks for language, marks in languages.items()}
        counts = {language: (len(found), sum(map(len, found))) for language, found in hits.items()}
        first = max(counts.values(), default=(0, 0))
        best = [language for language, count in counts.items() if count == first]
        # "okay aus" has one word of each of two
        is_told = first[0] > 1 or sum(count[0] for count in counts.values()) == 1
        if len(best) == 1 and first[1] >= _MIN_LETTERS and is_told:
            return best[0]
        named = likely if likely in best else best[0] if len(best) == 1 else ""
        weak, is_bare = weak or (named if first[0] else ""), is_bare and not first[0]
    return weak or (likely if is_bare else "")


def _stamp_file(path: Path) -> tuple[str, int, int, int]:
    try:
        found = path.stat()
    except OSError:
        return str(path), 0, 0, 0
    return str(path), found.st_mtime_ns, found.st_size, found.st_ino


class Grammar:
    """What has been compiled from the data, ready to be matched."""

    def __init__(self, tables: GrammarTables) -> None:
        self.rows = tables
        head = json.loads(tables[0])
        self.language: str = head["language"]
        self.say: dict[str, str] = head["say"]
        self.tools: dict[str, GrammarData] = head["tools"]
        self.words = WordTables(head["words"])
        self.concepts: dict[str, str] = head["concepts"]
        self.topics: GrammarData = head["topics"]
        self.keys = frozenset(head["keys"]).union(self.concepts, *self.words.values())
        self.intents = {one[0]: Intent(*one) for one in head["intents"]}
        self._slots: dict[str, SentenceSlot | int] = {name: row for row, name in enumerate(head["slots"], 1)}
        self.slot_names = frozenset(head["slots"])
        first = 1 + len(head["slots"])
        self._phrases: dict[str, Branches | int] = {name: row for row, name in enumerate(head["phrases"], first)}
        self._first = first + len(head["phrases"])
        self._templates: list[Template | str] = head["templates"]
        self._starts = head["starts"]
        self._starting: dict[tuple[str, str], list[Template]] = {}
        self._needs: dict[str, Sequence[frozenset[str]]] = {}
        self.frames: list[Any] = head["frames"]
        """Rows of what picoclaw.intents.frames reads, where no template fits a sentence."""
        self.end = TemplateEdges(self, (), None)  # type: ignore[arg-type]  # nothing follows
        self.end.sorted = {"": []}, []

    def slot(self, name: str) -> SentenceSlot:
        slot = self._slots[name]
        if not isinstance(slot, SentenceSlot):
            fields: list[Any] = json.loads(self.rows[slot])
            values: list[Any] = [frozenset(field) if isinstance(field, list) else field for field in fields]
            slot = SentenceSlot(*values)
            self._slots[name] = slot
        return slot

    def values(self, name: str) -> Mapping[str, str]:
        """What the phrases of a slot mean; none where a grammar has no such slot."""
        return self.slot(name).values if name in self._slots else _NO_PHRASES

    def slots(self, intent: Intent) -> Iterator[SentenceSlot]:
        return map(self.slot, intent.slots)

    def starting(self, label: str, kind: str) -> Sequence[Template]:
        """The templates that may begin with a word or an "@concept", or with a slot for "", of intents of a kind."""
        key = (label, kind)
        if key not in self._starting:
            found = self._starting[key] = []
            for number in self._starts.get(label, ()):
                template = self._templates[number]
                if not isinstance(template, Template):
                    template = self._templates[number] = Template(template, self._first + number, self)
                if self.intents[template.intent].kind == kind:
                    found.append(template)
        return self._starting[key]

    def list_needs(self, branches: Branches) -> Sequence[frozenset[str]]:
        """One of each set stands in whatever the branches say."""
        if len(branches) == 1:
            return tuple({need: None for node in branches[0] for need in self._list_node_needs(node)})
        either = set[str]()
        for branch in branches:
            needs = [need for node in branch for need in self._list_node_needs(node)]
            if not needs:
                return ()
            either |= min(needs, key=len)
        return (frozenset(either),)

    def _list_node_needs(self, node: Branches | str) -> Sequence[frozenset[str]]:
        if not isinstance(node, str):
            return self.list_needs(node)
        needs = self._needs.get(node)
        if needs is None:
            if node[0] == "<":
                needs = self.list_needs(self.branches(node))
            else:
                words = list_first_words(self.slot(node[1:-1])) if node[0] == "{" else frozenset((node,))
                needs = (words,) if words else ()
            self._needs[node] = needs
        return needs

    def branches(self, phrase: str) -> Branches:
        branches = self._phrases[phrase[1:-1]]
        if isinstance(branches, int):
            branches = self._phrases[phrase[1:-1]] = json.loads(self.rows[branches])
        return branches


# What a sentence was understood as, and how its slots become the arguments of a tool.

EXACT_SCORE = 0.79  # of what hardly leaves anything out
FIELD = pattern(r"\{(\w+)\}")


class IntentMatch(NamedTuple):
    """What a text was understood as. `tool` is empty for small talk; `missing` asks for what was left out.

    `route`: how: by a "template" (word for word), a "frame" (all its parts), a "topic" (the classifier alone), a "proposal"
    (to be asked about), "meeting" (an answer of the first meeting); "unclear" and "unknown" say what is not clear or not here.
    `said` has what only the answer needs: the slots and arguments whose name begins with "_".
    """

    intent: str
    tool: str
    arguments: dict[str, Any]
    answer: str
    score: float
    route: str
    missing: str = ""
    said: SlotValues = MappingProxyType({})  # type: ignore[assignment]

    @property
    def question(self) -> str:
        """What asks a person for what is missing; '' where nothing is, or no person has to be asked."""
        return "" if self.missing in {NEEDS_CLOCK, NEEDS_LOOK_UP} else self.missing


Wish = tuple[str, IntentMatch | None]
"""A part of a text, and what it was understood as."""
Offered = Collection[Any] | None
"""The names of the tools that there are; without it, nothing that acts is understood."""
WHOLE_ROUTES = frozenset({"template", "frame"})
"""Ways of understanding a sentence by all that is in it, and not by its topic."""

NEEDS_CLOCK = "?"
"""What is missing of a match that ends at a time of day, for who knows what time it is."""
NEEDS_LOOK_UP = "#"
"""What is missing of a match that names something of a list."""


def is_complete(match: IntentMatch | None) -> TypeGuard[IntentMatch]:
    """Whether a call can be made of it, where the time is known."""
    if match is None or not match.tool:
        return False
    return not match.missing or (match.missing == NEEDS_CLOCK and "_until" in match.said)


def is_whole(match: IntentMatch | None) -> TypeGuard[IntentMatch]:
    """Whether a call can be made of it, by all that the sentence says."""
    return is_complete(match) and match.route in WHOLE_ROUTES


def make_match(intent: Intent, found: SlotValues, score: float, route: str) -> IntentMatch:
    given = dict(intent.defaults)
    for value in found.values():
        given |= value if isinstance(value, dict) else {}
    given |= {name: value for name, value in found.items() if not isinstance(value, dict)}
    given = {name: value for name, value in given.items() if name and value != ""}
    said = set(found).union(*(value for value in found.values() if isinstance(value, dict)))
    missing = next((question for names, question in intent.ask.items() if said.isdisjoint(names.split("|"))), "")
    arguments = _make_arguments(intent.make, given) if intent.make else given
    arguments = intent.arguments | arguments
    only_said = {name: arguments.pop(name) for name in [*arguments] if name[0] == "_"}
    if "_until" in only_said:  # nothing is switched on before somebody who has a clock has made seconds of it
        missing = missing or NEEDS_CLOCK
    return IntentMatch(intent.name, intent.tool, arguments, intent.answer, round(score, 9), route, missing, only_said)


def _make_arguments(make: Mapping[str, Any], given: SlotValues) -> SlotValues:
    """The arguments with those that are made of others in place of these; "options.level" is one within another."""
    used = {field for patterns in make.values() for pattern in patterns for field in FIELD.findall(pattern)}
    arguments = {name: value for name, value in given.items() if name not in used}
    for name, patterns in make.items():
        fits = (pattern for pattern in patterns if given.keys() >= set(FIELD.findall(pattern)))
        if pattern := next(fits, ""):
            outer, _, inner = name.rpartition(".")
            place = arguments.setdefault(outer, {}) if outer else arguments
            place[inner] = fill_fields(pattern, given)
    return arguments


def fill_fields(template: str, values: Mapping[str, Any]) -> str:
    """Put values in place of their names in braces; a name without a value stays."""
    return FIELD.sub(lambda field: str(values.get(field[1], field[0])), template)
