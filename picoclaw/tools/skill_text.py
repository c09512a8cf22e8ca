"""How a SKILL.md is put together from what a model gives and what its owner has in it. Pure; raises ToolError."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

from picoclaw.errors import SkillError, ToolError
from picoclaw.markdown import seen
from picoclaw.markdown.comments import gone
from picoclaw.skills import document
from picoclaw.skills.library import FILE, LARGEST_FILE
from picoclaw.skills.skill import Skill

Values = Mapping[str, str | list[str]]
"""Front matter by its keys."""

_LONGEST_DESCRIPTION = 1024
_BASE_FOLDER = "{baseDir}"
_FENCE = "---"
_FRONT = re.compile(r"(\ufeff?---[ \t]*\r?\n.*?^---[ \t]*)(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)


def values(description: str, triggers: str) -> Values:
    """Take the arguments that stand in the front matter; those that are empty are left out."""
    # a small model writes a list even where a text with commas is asked for
    listed = [" ".join(trigger.split()).strip("[]\"' ") for trigger in triggers.split(",")]
    said: Values = {"description": _line(description)} if description else {}
    return {**said, "triggers": [trigger for trigger in listed if trigger]} if any(listed) else said


def _line(description: str) -> str:
    """The description as one line that a person sees whole."""
    line = " ".join(description.split())
    if not 1 <= len(line) <= _LONGEST_DESCRIPTION:
        raise ToolError(f"description has {len(line)} characters; say in 1 to {_LONGEST_DESCRIPTION} when to read it")
    if seen(line) != line:
        raise ToolError("description holds invisible characters; leave them out")
    return line


def created(given: Values, text: str, folder: Path) -> bytes:
    """Make a new file."""
    front = "".join([f"{_FENCE}\n", *(_row(key, value, "\n") for key, value in given.items()), _FENCE])
    data = _joined(front, _body(text, folder), "\n")
    _checked(data, folder, given)
    return data


def updated(found: bytes, given: Values, text: str, folder: Path) -> bytes:
    """Put another text, and what is given of the front matter, into a file; all else of its owner's stays."""
    old, before = found.decode(), _facts(_read(found, folder))
    front, newline = _front(old, folder)
    for key, value in given.items():
        front = _with(front, key, _row(key, value, newline), folder, known=bool(before[key]))
    body = _body(text, folder)
    data = _joined(front, _with_comments(old, body), newline)
    if document.body(data.decode(), folder) != document.body(f"{_FENCE}\n{_FENCE}\n{body}", folder):
        raise ToolError(f"the comments of {folder.name} cannot be kept with this text; {_by_hand(folder)}")
    if data == found:
        raise ToolError(f"the skill {folder.name} says just that already; nothing was changed")
    if _checked(data, folder, given) != {**before, **given}:
        raise ToolError(f"the front matter of {folder.name} cannot be kept; {_by_hand(folder)}")
    return data


def _checked(data: bytes, folder: Path, given: Values) -> Mapping[str, object]:
    """Read a skill that is not yet written; returns what its front matter says."""
    skill = _read(data, folder)
    facts = _facts(skill)
    for key in given:
        if facts[key] != given[key]:
            raise ToolError(f"{key} cannot be used as it is: {'; '.join(skill.notes)}")
    return facts


def _facts(skill: Skill) -> Mapping[str, object]:
    """What the front matter says."""
    return skill._replace(notes=(), keywords="")._asdict() | {"triggers": list(skill.triggers)}


def _by_hand(folder: Path) -> str:
    return f"the owner can change {folder / FILE} in an editor"


def _row(key: str, value: str | list[str], newline: str) -> str:
    return f"{key}: {json.dumps(value, ensure_ascii=False)}{newline}"


def _front(text: str, folder: Path) -> tuple[str, str]:
    """The front matter with its fences, and how it ends its lines."""
    found = _FRONT.match(text)
    if found is None or "\r" in found[1].replace("\r\n", ""):
        raise ToolError(f"the front matter of {folder.name} cannot be kept; {_by_hand(folder)}")
    return found[1], "\r\n" if "\r\n" in found[1] else "\n"


def _with(front: str, key: str, row: str, folder: Path, *, known: bool) -> str:
    """Put a row in the place of those of its key, or at the end when it has none; touch nothing else."""
    there = re.compile(rf"^{key}[ \t]*:.*\n(?:(?:[ \t]*\r?\n)*(?:[ \t]+\S|-[ \t]).*\n)*", re.MULTILINE)
    if there.search(front):
        return there.sub(lambda _: row, front, count=1)
    if known:
        raise ToolError(f"the {key} of {folder.name} cannot be replaced; {_by_hand(folder)}")
    before, newline, fence = front.rpartition("\n")
    return f"{before}{newline}{row}{fence}"


def _body(text: str, folder: Path) -> str:
    """The instructions as they are written: a model reads the folder's path where its placeholder stands."""
    if not text.strip() or "\0" in text:
        raise ToolError("text is empty or holds a NUL character; a skill is its instructions")
    if text.lstrip().partition("\n")[0].rstrip() == _FENCE:
        raise ToolError("text begins with front matter (---); leave it out, name and description are arguments")
    return re.sub(rf"{re.escape(str(folder))}(?![\w-])", _BASE_FOLDER, text.strip())


def _with_comments(old: str, body: str) -> str:
    """Keep the owner's comments, which no model is shown, at the head."""
    before = document.parts(old)[1]
    comments = (before[start:end] for start, end, _ in gone(before, trusting=False))
    return "\n".join([*(comment for comment in comments if comment not in body), body])


def _joined(front: str, body: str, newline: str) -> bytes:
    """The whole file, as long as a skill may be."""
    data = f"{front}{newline}{newline}{body}\n".encode("utf-8", "replace")
    if len(data) > LARGEST_FILE:
        raise ToolError(f"the skill would have {len(data)} bytes, at most {LARGEST_FILE}: put a part into other files")
    return data


def _read(data: bytes, folder: Path) -> Skill:
    """Read a skill that is not yet written, as it will be read then."""
    from picoclaw.skills import fields

    try:
        return fields.skill(data.decode(), folder)
    except SkillError as error:
        raise ToolError(f"the skill would be of no use: {error}") from None
