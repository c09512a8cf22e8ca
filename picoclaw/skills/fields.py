"""From front matter to a skill: what its keys mean, in our form and in that of other projects.

Imports yaml through `front`; import this module late.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from picoclaw.errors import SkillError
from picoclaw.skills import document
from picoclaw.skills.front import from_json, read
from picoclaw.skills.skill import Needs, Skill

LONGEST_NAME = 64
LONGEST_DESCRIPTION = 1024
MOST_TRIGGERS = 20
LONGEST_TRIGGER = 60
LONGEST_NOTE = 300

# Keys that mean nothing are common and harmless, but for those by which somebody meant one of ours.
_MEANT = {
    "trigger": "triggers",
    "require": "requires",
    "requirements": "requires",
    "needs": "requires",
    "tool": "tools",
}

# The keys of `requires`, ours and then those of OpenClaw, nanobot and their kin, by the field of Needs.
_NEEDS = {
    "tools": "tools",
    "programs": "programs",
    "bins": "programs",
    "devices": "devices",
    "parts": "parts",
    "environment": "environment",
    "env": "environment",
    "os": "systems",
}


def skill(text: str, folder: Path) -> Skill:
    """Make a skill of the text of the SKILL.md in a folder; its tier is not known here. Raises SkillError."""
    front, notes = read(text)
    name = _name(front, folder, notes)
    description = _description(front, notes)
    needs = _needs(front, notes)
    triggers = tuple(_triggers(front, notes))
    notes += [f"its key {key!r} means nothing; did you mean {_MEANT[key]}?" for key in front if key in _MEANT]
    notes += document.remarks(text)
    return Skill(
        name=name,
        description=description,
        folder=folder,
        tier="",
        triggers=triggers,
        needs=needs,
        tools=tuple(_names(front.get("tools"), "tools")),
        model=_one_text(front, "model"),
        notes=tuple(note[:LONGEST_NOTE] for note in notes),
    )


def _name(front: dict[str, Any], folder: Path, notes: list[str]) -> str:
    given = _one_text(front, "name") or folder.name
    strange = next((char for char in given if not (char.isascii() and char.isprintable())), "")
    if strange:
        raise SkillError(f"the name {given[:80]!a} holds U+{ord(strange):04X}; use letters of a to z, digits, - and _")
    if ".." in given or "/" in given or "\\" in given:
        raise SkillError(f"the name {given[:80]!r} is a path; use letters, digits, - and _")
    handle = re.sub(r"[^a-z0-9_-]+", "-", given.lower()).strip("-_")
    if not handle or len(handle) > LONGEST_NAME:
        raise SkillError(f"the name {given[:80]!r} has {len(handle)} letters and digits; it takes 1 to {LONGEST_NAME}")
    if handle != given:
        notes.append(f"its name {given!r} is written {handle}")
    return handle


def _description(front: dict[str, Any], notes: list[str]) -> str:
    given = " ".join(_one_text(front, "description").split())
    clean = document.HIDDEN.sub("", given)
    if not clean:
        why = "; ".join(["it has no description: say in a line what it is for and when to read it", *notes])
        raise SkillError(why)
    if clean != given:
        notes.append(f"{len(given) - len(clean)} invisible characters in its description are left out")
    if len(clean) > LONGEST_DESCRIPTION:
        notes.append(f"its description of {len(clean)} characters is cut after {LONGEST_DESCRIPTION}")
    return clean[:LONGEST_DESCRIPTION].rstrip()


def _triggers(front: dict[str, Any], notes: list[str]) -> Iterator[str]:
    given = _names(front.get("triggers"), "triggers")
    if len(given) > MOST_TRIGGERS:
        notes.append(f"of its {len(given)} triggers the first {MOST_TRIGGERS} are used")
    for trigger in given[:MOST_TRIGGERS]:
        if len(trigger) <= LONGEST_TRIGGER and any(char.isalnum() for char in trigger):
            yield " ".join(trigger.split())
        else:
            notes.append(f"its trigger {trigger[:80]!r} is left out: it takes words, at most {LONGEST_TRIGGER} letters")


def _needs(front: dict[str, Any], notes: list[str]) -> Needs:
    """Gather every need; an unknown one is kept in words, since to list a skill that lacks something would be wrong."""
    found: dict[str, list[str]] = {field: [] for field in Needs._fields}
    for block in _blocks(front, notes):
        requires = block.get("requires") or {}
        if not isinstance(requires, dict):
            names = ", ".join(_names(requires, "requires"))
            raise SkillError(f"requires: say what {names} is: tools, programs, devices, parts or environment")
        for key, value in [*requires.items(), ("os", block.get("os"))]:
            _gather(found, key, value)
    for device in found["devices"]:
        if any(not way.startswith("/dev/") or ".." in way or "**" in way for way in device.split("|")):
            raise SkillError(f"requires: the device {device!r} is not a path below /dev, such as /dev/i2c-*")
    unique = {field: tuple(dict.fromkeys(names)) for field, names in found.items()}
    programs = tuple(tuple(names.split("|")) for names in unique.pop("programs"))
    return Needs(programs=programs, **unique)


def _blocks(front: dict[str, Any], notes: list[str]) -> Iterator[dict[str, Any]]:
    """Find where needs may stand: at the top, in `metadata`, and there under the name of any project."""
    yield front
    metadata = front.get("metadata")
    if isinstance(metadata, str) and metadata:
        try:
            metadata = from_json(metadata)
        except ValueError:
            notes.append("its metadata is neither a mapping nor JSON, and was not read")
    if isinstance(metadata, dict):
        yield metadata
        yield from (block for name, block in metadata.items() if name != "requires" and isinstance(block, dict))


def _gather(found: dict[str, list[str]], key: str, value: object) -> None:
    names = _names(value, f"requires: {key}")
    if key in _NEEDS:
        found[_NEEDS[key]] += names
    elif key == "anyBins" and names:
        found["programs"].append("|".join(names))
    elif names:
        found["others"] += [f"{key} {name}, which means nothing here" for name in names]


def _names(value: Any, where: str) -> list[str]:
    """Read names from a text with commas, or from a list; a list in it is one of these."""
    names = []
    for row in value.split(",") if isinstance(value, str) else value or []:
        choices = row.split("|") if isinstance(row, str) else row
        if isinstance(value, dict) or not isinstance(choices, list) or not all(isinstance(c, str) for c in choices):
            raise SkillError(f"{where} has to be a name or a list of names")
        names.append("|".join(choice.strip() for choice in choices if choice.strip()))
    if hidden := next((name for name in names if document.HIDDEN.search(name) or "\n" in name), ""):
        raise SkillError(f"{where}: {hidden[:80]!a} holds characters that cannot be seen")
    return [name for name in names if name]


def _one_text(front: dict[str, Any], key: str) -> str:
    value = front.get(key) or ""
    if not isinstance(value, str):
        raise SkillError(f"{key} has to be one text")
    return value.strip()
