"""What a skill is, whether this machine has what it needs, and which skills a turn is shown."""

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from shutil import which

from picoclaw.errors import SkillError
from picoclaw.markdown import describe_hidden, remove_hidden
from picoclaw.prompts import count_bytes, estimate_tokens
from picoclaw.records import NamedTuple
from picoclaw.text import bm25, fold_case, pattern


class SkillNeeds(NamedTuple):
    """What has to be there, all of it. In a name, `a|b` is one of these; so is an inner tuple of programs."""

    tools: tuple[str, ...] = ()
    programs: tuple[tuple[str, ...], ...] = ()
    devices: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    systems: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    """What nobody can check here, in words: a setting of another program, a kind of need that has no meaning."""


class Skill(NamedTuple):
    """A skill that can be read.

    `name` is its handle and unique among those in use, `tier` where it was found. A turn that one of its `triggers`
    brought it into is offered only its `tools`, and goes to its `model`. `notes` are remarks for people. `keywords` are
    the words that its text begins with, for the search alone. One that is not `listed` comes by its triggers only.
    """

    name: str
    description: str
    folder: Path
    tier: str
    triggers: tuple[str, ...] = ()
    needs: SkillNeeds = SkillNeeds()
    tools: tuple[str, ...] = ()
    model: str = ""
    notes: tuple[str, ...] = ()
    keywords: str = ""
    listed: bool = True


class BrokenSkill(NamedTuple):
    """A folder with a SKILL.md that cannot be used, and why."""

    folder: Path
    tier: str
    problem: str


class SkillContext(NamedTuple):
    """What this machine has: tools, names of the configured sensors' drivers, the environment that `exec` gives on."""

    tools: frozenset[str]
    parts: frozenset[str]
    environment: Mapping[str, str]
    root: str = "/"


def describe_unmet_needs(skill: Skill, here: SkillContext) -> str:
    """Say what the skill needs and this machine lacks; '' when it can be used."""
    needs, path, root = skill.needs, here.environment.get("PATH", os.defpath), Path(here.root)
    programs = tuple("|".join(names) for names in needs.programs)
    kinds: tuple[tuple[str, tuple[str, ...], Callable[[str], object]], ...] = (
        ("the tool", needs.tools, here.tools.__contains__),
        ("the program", programs, lambda name: which(name, path=path)),
        ("the device", needs.devices, lambda name: any(root.glob(name.lstrip("/")))),
        ("a sensor", needs.parts, here.parts.__contains__),
        ("the environment variable", needs.environment, here.environment.get),
        ("the system", ("|".join(needs.systems),) if needs.systems else (), "linux".__eq__),
    )
    lacking = [
        f"{kind} {name.replace('|', ' or ')}"
        for kind, names, there in kinds
        for name in names
        if not any(there(choice) for choice in name.split("|"))
    ]
    if needs.programs and "exec" not in here.tools and "exec" not in needs.tools:
        lacking.append("the tool exec to run programs with")
    lacking += needs.others
    return f"needs {', '.join(lacking)}" if lacking else ""


# A SKILL.md as text: where its front matter ends, and what of the rest a model reads.

_MAX_FRONT_CHARS = 16_384

_OPENING = pattern(r"---[ \t]*\n")
_CLOSING = pattern(r"^---[ \t]*$", re.MULTILINE)

_BASE_FOLDER = pattern(r"\{baseDir\}|\$\{CLAUDE_SKILL_DIR\}")


def split_skill(text: str) -> tuple[str, str]:
    """Split a SKILL.md into its front matter and its body. Raises SkillError."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    opening = _OPENING.match(text)
    if not opening:
        raise SkillError("it does not begin with front matter: a line ---, name and description, a line ---")
    closing = _CLOSING.search(text, opening.end())
    if not closing:
        raise SkillError("the front matter has no closing line ---")
    front = text[opening.end() : closing.start()]
    if len(front) > _MAX_FRONT_CHARS:
        raise SkillError(f"the front matter has {len(front)} characters; at most {_MAX_FRONT_CHARS} are read")
    return front, text[closing.end() :]


def extract_body(text: str, folder: Path) -> str:
    """Return what a model reads: no front matter, nothing that a person would not see, the folder's path put in."""
    return _BASE_FOLDER.sub(lambda _: str(folder), remove_hidden(split_skill(text)[1])).strip()


def describe_left_out(text: str) -> str:
    """Say what `extract_body` leaves out because a person would not see it; '' for nothing."""
    return ", ".join(describe_hidden(split_skill(text)[1]))


# Which skills a turn is shown: a listing of all, those whose trigger was said, or the best of a search.

_MAX_LISTING_BYTES = 30_720
_MAX_LISTED = 20
_MAX_LISTING_TOKENS = 3_500
_MAX_TRIGGERED = 3
_TEXT_WEIGHT = 0.3

_FIRST_UNSPACED_CHAR = "\u2e80"  # from here on are scripts that do not put spaces between words


def format_listing(skills: Iterable[Skill]) -> str:
    """List the skills a line each, as many as go into 30 KB."""
    lines: list[str] = []
    room = _MAX_LISTING_BYTES
    for line in _list_lines(skills):
        room -= count_bytes(line) + 1
        if room < 0:
            break
        lines.append(line)
    return "\n".join(lines)


def _list_lines(skills: Iterable[Skill]) -> list[str]:
    return [f"- {skill.name}: {skill.description}" for skill in skills if skill.listed]


def fits_prompt(skills: Sequence[Skill], bytes_a_token: float) -> bool:
    """Tell whether the listing may stand in the prompt; otherwise skills are searched for."""
    lines = _list_lines(skills)
    whole = sum(count_bytes(line) + 1 for line in lines)
    few = len(lines) <= _MAX_LISTED and whole <= _MAX_LISTING_BYTES
    return few and estimate_tokens(whole, bytes_a_token) <= _MAX_LISTING_TOKENS


def find_triggered(skills: Iterable[Skill], text: str) -> list[Skill]:
    """Find the skills of which a trigger is in the text in whole words; the longest trigger first, at most 3."""
    said = _fold_text(text)
    found = {
        skill: length
        for skill in skills
        if (length := max((len(one) for one in skill.triggers if _has_phrase(_fold_text(one), said)), default=0))
    }
    return sorted(found, key=lambda skill: (-found[skill], skill.name))[:_MAX_TRIGGERED]


def _fold_text(text: str) -> str:
    return " ".join(fold_case(text).split())


def _has_phrase(trigger: str, text: str) -> bool:
    at = text.find(trigger) if trigger else -1
    while at >= 0:
        end = at + len(trigger)
        if not _is_one_word(text[at - 1 : at], trigger[0]) and not _is_one_word(trigger[-1], text[end : end + 1]):
            return True
        at = text.find(trigger, at + 1)
    return False


def _is_one_word(before: str, after: str) -> bool:
    """Tell whether two neighbouring characters belong to one word."""
    return all(char.isalnum() and char < _FIRST_UNSPACED_CHAR for char in (before, after))


def search_skills(
    skills: Iterable[Skill],
    query: str,
    most: int = 5,
    combine: Callable[[str, Mapping[str, float]], Mapping[str, float]] = lambda _, words: words,
) -> list[tuple[Skill, float]]:
    """Find the listed skills that fit a query, the best first, with their scores.

    The words of a skill's text count for 0.3 of those of its name, description and triggers. `combine` makes one score of
    those of the words, by name, and of what else it knows.
    """
    listed = [skill for skill in skills if skill.listed]
    heads = bm25(query, [f"{skill.name} {skill.description} {' '.join(skill.triggers)}" for skill in listed])
    texts = bm25(query, [skill.keywords for skill in listed])
    scores = (head + _TEXT_WEIGHT * text for head, text in zip(heads, texts, strict=True))
    words = {skill.name: score for skill, score in zip(listed, scores, strict=True) if score > 0}
    found = combine(query, words)
    ranked = sorted(listed, key=lambda skill: (-found.get(skill.name, 0.0), skill.name))
    return [(skill, found[skill.name]) for skill in ranked if found.get(skill.name, 0.0) > 0][:most]
