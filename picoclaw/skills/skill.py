"""What a skill is, what it needs, and whether this machine has that."""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from shutil import which
from typing import NamedTuple

from picoclaw.errors import SkillError
from picoclaw.markdown import describe_hidden, remove_hidden


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
    lacking = list(_list_unmet_needs(skill.needs, here))
    return f"needs {', '.join(lacking)}" if lacking else ""


def _list_unmet_needs(needs: SkillNeeds, here: SkillContext) -> Iterator[str]:
    path, root = here.environment.get("PATH", os.defpath), Path(here.root)
    programs = tuple("|".join(names) for names in needs.programs)
    kinds: tuple[tuple[str, tuple[str, ...], Callable[[str], object]], ...] = (
        ("the tool", needs.tools, here.tools.__contains__),
        ("the program", programs, lambda name: which(name, path=path)),
        ("the device", needs.devices, lambda name: any(root.glob(name.lstrip("/")))),
        ("a sensor", needs.parts, here.parts.__contains__),
        ("the environment variable", needs.environment, here.environment.get),
        ("the system", ("|".join(needs.systems),) if needs.systems else (), "linux".__eq__),
    )
    for kind, names, there in kinds:
        for name in names:
            if not any(there(choice) for choice in name.split("|")):
                yield f"{kind} {name.replace('|', ' or ')}"
    if needs.programs and not {"exec"} & (here.tools | set(needs.tools)):
        yield "the tool exec to run programs with"
    yield from needs.others


# A SKILL.md as text: where its front matter ends, and what of the rest a model reads. Pure, and without YAML.

MAX_FRONT_CHARS = 16_384

_OPENING = re.compile(r"---[ \t]*\n")
_CLOSING = re.compile(r"^---[ \t]*$", re.MULTILINE)

_BASE_FOLDER = re.compile(r"\{baseDir\}|\$\{CLAUDE_SKILL_DIR\}")


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
    if len(front) > MAX_FRONT_CHARS:
        raise SkillError(f"the front matter has {len(front)} characters; at most {MAX_FRONT_CHARS} are read")
    return front, text[closing.end() :]


def extract_body(text: str, folder: Path) -> str:
    """Return what a model reads: no front matter, nothing that a person would not see, the folder's path put in."""
    return _BASE_FOLDER.sub(lambda _: str(folder), remove_hidden(split_skill(text)[1])).strip()


def describe_left_out(text: str) -> str:
    """Say what `body` leaves out because a person would not see it; '' for nothing."""
    return ", ".join(describe_hidden(split_skill(text)[1]))
