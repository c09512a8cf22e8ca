"""What a sentence was understood as, and how its slots become the arguments of a tool."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from picoclaw.providers.phrasebook import Intent
from picoclaw.providers.sentence import Found

SURE = 0.79  # as good as an example's own words
_FIELD = re.compile(r"\{(\w+)\}")


class Match(NamedTuple):
    """What a text was understood as. `tool` is empty for small talk; `missing` asks for what was left out."""

    intent: str
    tool: str
    arguments: dict[str, Any]
    answer: str
    score: float
    route: str
    missing: str = ""


def finished(intent: Intent, found: Found, score: float, route: str) -> Match:
    """Turn the slots of a sentence into the arguments of its intent's tool."""
    given = dict(intent.defaults)
    for value in found.values():
        given |= value if isinstance(value, dict) else {}
    given |= {name: value for name, value in found.items() if not isinstance(value, dict)}
    given = {name: value for name, value in given.items() if name and value != ""}
    said = set(found).union(*(value for value in found.values() if isinstance(value, dict)))
    missing = next((question for names, question in intent.ask.items() if said.isdisjoint(names.split("|"))), "")
    arguments = _made(intent.make, given) if intent.make else given
    return Match(intent.name, intent.tool, intent.arguments | arguments, intent.answer, round(score, 9), route, missing)


def _made(make: Mapping[str, Any], given: Found) -> Found:
    """The arguments with those that are made of others in place of these; "options.level" is one within another."""
    used = {field for patterns in make.values() for pattern in patterns for field in _FIELD.findall(pattern)}
    arguments = {name: value for name, value in given.items() if name not in used}
    for name, patterns in make.items():
        fits = (pattern for pattern in patterns if given.keys() >= set(_FIELD.findall(pattern)))
        if pattern := next(fits, ""):
            outer, _, inner = name.rpartition(".")
            place = arguments.setdefault(outer, {}) if outer else arguments
            place[inner] = fill(pattern, given)
    return arguments


def fill(template: str, values: Mapping[str, Any]) -> str:
    """Put values in place of their names in braces; a name without a value stays."""
    return _FIELD.sub(lambda field: str(values.get(field[1], field[0])), template)
