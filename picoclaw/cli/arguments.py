"""Reads the words of a command line, and prints the help for them.

argparse costs every start 8 ms, wants each option behind its own word, and breaks its help in the middle of a word.
"""

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, TextIO

from picoclaw.errors import PicoclawError, explain_syntax

_MAX_NAME_WIDTH = 24
_OFFERED = 4


class Options(SimpleNamespace):
    """What was given, an attribute for each argument; `board` and `json` are always there.

    `word` and `act` are what was chosen of the words of a command, and the function that does it.
    """

    word: str
    act: Callable[..., int]

    def select(self, *names: str) -> dict[str, Any]:
        """Those of the arguments that were given."""
        return {name: value for name in names if (value := getattr(self, name)) is not None}


class UsageError(PicoclawError):
    """What was typed is no command; the exit code is 2."""


class HelpRequested(Exception):
    """Somebody wants the help of a command: these lines."""

    def __init__(self, lines: Iterator[str]) -> None:
        self.lines = lines


Words = Mapping[str, tuple[str, Callable[..., int]]]
"""The words that may follow a command: what each does, and the function that does it."""


class Argument:
    """One option, or one word that is known by its place."""

    def __init__(
        self,
        label: str,
        help: str = "",  # noqa: A002 - as everybody calls it
        *,
        dest: str = "",
        type: Callable[[str], Any] = str,  # noqa: A002
        choices: Sequence[str] = (),
        default: Any = None,
        nargs: str = "",
        repeats: bool = False,
    ) -> None:
        """The label is what the help shows: "-n, --requests N" for an option, "--json" for a flag, "query WORD" for a word."""
        *short, last = label.split(", ")
        name, _, value = last.partition(" ")
        self.names = [*short, name] if name.startswith("-") else []
        self.dest = dest or name.lstrip("-").replace("-", "_")
        self.metavar = value or ("|".join(choices) if choices else self.dest.upper())
        self.help, self.type, self.choices, self.nargs = help, type, choices, nargs
        self.is_flag, self.repeats = bool(self.names) and not value and not choices, repeats
        is_list = repeats or nargs in {"*", "+"}
        self.default = False if self.is_flag else [] if default is None and is_list else default

    @property
    def label(self) -> str:
        if self.names:
            return f"{', '.join(self.names)}{'' if self.is_flag else f' {self.metavar}'}"
        shown = {"?": f"[{self.metavar}]", "*": f"[{self.metavar} …]", "+": f"{self.metavar} …"}
        return shown.get(self.nargs, self.metavar)

    def convert(self, text: str) -> Any:
        """Take one value; raises UsageError."""
        called = self.names[-1] if self.names else self.metavar
        if self.choices and text not in self.choices:
            raise UsageError(f"{called}: {text!r} is not one of {', '.join(self.choices)}{suggest(text, self.choices)}")
        try:
            return self.type(text)
        except UsageError as error:
            raise UsageError(f"{called}: {error}") from None
        except ValueError:
            wanted = "a whole number" if self.type is int else "a number" if self.type is float else self.metavar
            raise UsageError(f"{called}: {text!r} is not {wanted}") from None


class Parser:
    """The arguments of a command, and the words that may follow it, each with arguments of its own.

    `too_much` is added to what is said where words are given and none is taken.
    """

    def __init__(self, name: str = "", purpose: str = "", example: str = "") -> None:
        self.name, self.purpose, self.example = name, purpose, example
        self.arguments: list[Argument] = []
        self.words: dict[str, Parser] = {}
        self.default_word = ""
        self.act: Callable[..., int] | None = None
        self.too_much = ""
        self.exclusive: list[Sequence[str]] = []

    def add_argument(self, label: str, help: str = "", **how: Any) -> None:  # noqa: A002
        """Declare an option, whose label begins with -, or a word; see Argument."""
        self.arguments.append(Argument(label, help, **how))

    def add_words(self, words: Words, default: str = "") -> "dict[str, Parser]":
        """Declare the words that may follow; gives the parser of each. Without a `default` one has to be given.

        What is parsed has the word as `word`, and its function as `act`. The command's own options go with each word.
        """
        self.default_word = default
        for name, (purpose, act) in words.items():
            self.words[name] = word = Parser(f"{self.name} {name}".strip(), purpose)
            word.act = act
        return self.words

    def exclude(self, *names: str) -> None:
        """Allow one of these options at a time."""
        self.exclusive.append(names)

    def list_arguments(self, word: str = "") -> list[Argument]:
        """What can be given with a word, '' for none."""
        found = self.words.get(word or self.default_word)
        return [*self.arguments, *(found.arguments if found else [])]

    def parse(self, given: Sequence[str]) -> Options:
        """Read the words, options in any position. Raises UsageError, HelpRequested."""
        word = self._find_word(given)
        parser = self.words.get(word or self.default_word, self)
        arguments = self.list_arguments(word)
        options = {name: argument for argument in arguments for name in argument.names}
        if "--board" not in options:  # a script may name the board everywhere
            options["--board"] = Argument("--board", choices=("auto", "linux", "sim"))
        values: dict[str, Any] = {"board": None, "json": False} | {one.dest: one.default for one in arguments}
        values |= {"word": word or self.default_word, "act": parser.act} if self.words else {}
        places: list[str] = []
        left = list(given)
        while left:
            part = left.pop(0)
            if part == "--":
                places += left
                break
            if part in {"-h", "--help"}:
                raise HelpRequested((parser if word else self).format_help(arguments))
            if not _is_option(part):
                places.append(part)
                continue
            argument, name, value = _find_option(part, options, left)
            if argument.is_flag:
                values[argument.dest] = True
                continue
            if value is None and (not left or left[0] in options):
                raise UsageError(f"{name} needs a value: {name} {argument.metavar}")
            new = argument.convert(left.pop(0) if value is None else value)
            values[argument.dest] = [*values[argument.dest], new] if argument.repeats else new
        if word:
            places.remove(word)
        values |= _place([one for one in arguments if not one.names], places, self.too_much)
        for names in {*self.exclusive, *parser.exclusive}:
            chosen = [one for one in names if values[options[one].dest] not in {False, None}]
            if len(chosen) > 1:
                raise UsageError(f"{' and '.join(chosen)} cannot be used together")
        return Options(**values)

    def _find_word(self, given: Sequence[str]) -> str:
        """The first word that is no option and no option's value."""
        if not self.words:
            return ""
        known = [self, *self.words.values()]
        takers = {name for one in known for each in one.arguments if not each.is_flag for name in each.names}
        takers.add("--board")
        before = ""
        for token in given:
            if before not in takers and not _is_option(token):
                if token not in self.words:
                    raise UsageError(f"{token!r} is not one of {', '.join(self.words)}{suggest(token, self.words)}")
                return token
            before = token
        if not self.default_word and not {"-h", "--help"} & set(given):
            raise UsageError(f"a command is missing: {' or '.join(self.words)}")
        return ""

    def format_help(self, arguments: Sequence[Argument]) -> Iterator[str]:
        """Say what can be given, by the width of the terminal."""
        places = [one for one in arguments if not one.names]
        named = [one for one in arguments if one.names]
        usage = ["picoclaw", self.name, "[COMMAND]" if self.default_word else "COMMAND" if self.words else ""]
        usage += [*(one.label for one in places), "[options]" if named else ""]
        yield from wrap(" ".join(filter(None, usage)), "  ")
        yield ""
        yield from wrap(f"{self.purpose[:1].upper()}{self.purpose[1:]}.")
        if self.words:
            yield from ("", bold("commands"))
            yield from format_table({name: one.purpose for name, one in self.words.items()})
        if described := {one.label: one.help for one in places if one.help}:
            yield ""
            yield from format_table(described)
        if named:
            yield from ("", bold("options"))
            yield from format_table({one.label: one.help for one in named})
        if self.example:
            yield from ("", bold("for example"), *(f"  {line}" for line in self.example.split("\n")))
        if self.words:
            yield from ("", *wrap(f"`picoclaw {self.name} COMMAND --help` shows its options."))


def _find_option(part: str, options: Mapping[str, Argument], left: list[str]) -> tuple[Argument, str, str | None]:
    """The option that a part begins with, its name, and the value that is part of the part."""
    name, equals, value = part.partition("=")
    if name in options:
        if equals and options[name].is_flag:
            raise UsageError(f"{name} takes no value")
        return options[name], name, value if equals else None
    if short := options.get(part[:2]) if not part.startswith("--") else None:
        if not short.is_flag:
            return short, part[:2], part[2:]
        left.insert(0, f"-{part[2:]}")  # several letters behind one hyphen
        return short, part[:2], None
    meant = next((f"{key} {name[2:]}" for key, one in options.items() if name[2:] in one.choices), "")
    hint = f"; did you mean {meant}?" if meant and name[:2] == "--" else suggest(name, options)
    raise UsageError(f"there is no option {name}{hint}")


def _place(arguments: Sequence[Argument], places: list[str], too_much: str) -> dict[str, Any]:
    values: dict[str, Any] = {}
    needed = [one for one in arguments if one.nargs in {"", "+"}]
    if missing := needed[len(places) :]:
        raise UsageError(f"{missing[0].metavar} is missing{f': {missing[0].help}' if missing[0].help else ''}")
    for number, argument in enumerate(arguments):
        later = sum(one.nargs in {"", "+"} for one in arguments[number + 1 :])
        if not places[: max(0, len(places) - later)]:
            continue
        if argument.nargs in {"*", "+"}:
            taken = places[: len(places) - later]
            values[argument.dest] = [argument.convert(text) for text in taken]
            places = places[len(taken) :]
        else:
            values[argument.dest] = argument.convert(places[0])
            places = places[1:]
    if places:
        raise UsageError(f"{' '.join(places)!r} is too much" + (": put a text into 'quotes'" if values else too_much))
    return values


def _is_option(token: str) -> bool:
    """Whether it is meant as an option: not -, not a number below zero, not a sentence."""
    return len(token) > 1 and token[0] == "-" and " " not in token and not token[1].isdecimal()


def suggest(word: str, known: "Sequence[str] | Mapping[str, Any]") -> str:
    """Say which of the known words was probably meant, if any."""
    import difflib

    begun = [one for one in known if len(word) > 2 and one.startswith(word)]
    close = begun if len(begun) == 1 else difflib.get_close_matches(word, known, n=1, cutoff=0.7)
    return f"; did you mean {close[0]}?" if close else ""


def parse_count(low: int, high: int) -> Callable[[str], int]:
    """Give what reads a whole number of an option."""

    def parse(text: str) -> int:
        if text.isdecimal() and text.isascii() and len(text) < 10 and low <= int(text) <= high:
            return int(text)
        raise UsageError(f"{text[:20]!r} is not a whole number from {low} to {high}")

    return parse


def parse_days(low: int, high: int) -> Callable[[str], int]:
    """Give what reads whole days of an option: 30, 30d or 4w."""
    count = parse_count(low, high)

    def parse(text: str) -> int:
        days = parse_length(text) / 86_400 if text[-1:].isalpha() else 0.0
        return int(days) if days == int(days) and low <= days <= high else count(text)

    return parse


def parse_length(text: str) -> float:
    """Read a length of time as people write it: 90, 90s, 10m, 2h, 1d; seconds where there is no letter."""
    from picoclaw.times import parse_duration

    try:
        return 0.0 if text == "0" else parse_duration(text)
    except ValueError:
        raise UsageError(f"{text[:20]!r} is not a length of time; write it like 90s, 10m, 2h or 1d") from None


def parse_object(text: str) -> dict[str, Any]:
    """Read a JSON object."""
    import json

    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"it is not valid: {explain_syntax(error)}") from None
    if not isinstance(found, dict):
        raise UsageError("it must be an object, such as '{}'")
    return found


# --- what fits the terminal ---


def get_width() -> int:
    """Columns of the terminal; 80 where there is none."""
    width = int(columns) if (columns := os.environ.get("COLUMNS", "")).isdecimal() else 0
    if not width and sys.__stdout__:
        with suppress(OSError, ValueError):
            width = os.get_terminal_size(sys.__stdout__.fileno()).columns
    return max(40, width or 80)


def wrap(text: str, indent: str = "", width: int = 0) -> list[str]:
    """Break a text between words; lines after the first begin with `indent`."""
    from textwrap import wrap as break_lines

    width = width or min(get_width(), 120)
    return break_lines(text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False) or [""]


def fit_to_terminal(text: str, stream: TextIO, indent: str = "  ") -> str:
    """Break each line of a text between words to the terminal's width, if `stream` is one."""
    if not stream.isatty():
        return text
    return "\n".join(part for line in text.split("\n") for part in wrap(line, indent, get_width()))


def format_table(rows: Mapping[str, str], margin: int = 2) -> Iterator[str]:
    """Two columns; what is long in the first has the second on the next line."""
    widest = min(_MAX_NAME_WIDTH, get_width() // 3)
    width = max((len(name) for name in rows if len(name) <= widest), default=0)
    indent = " " * (margin + width + 2)
    for name, text in rows.items():
        first = " " * margin + name
        if len(name) > width:
            yield first
            first = ""
        lines = wrap(text, width=max(20, min(get_width(), 120) - len(indent)))
        yield f"{first:{len(indent)}}{lines[0]}".rstrip()
        yield from (f"{indent}{line}" for line in lines[1:])


def bold(text: str) -> str:
    is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not sys.stdout.isatty()
    return text if is_plain else f"\x1b[1m{text}\x1b[0m"
