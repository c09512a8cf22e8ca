"""A SKILL.md as text: where its front matter ends, and what of the rest a model reads. Pure, and without YAML."""

import re
from pathlib import Path

from picoclaw.errors import SkillError
from picoclaw.markdown import hidden, visible

LONGEST_FRONT = 16_384

_OPENING = re.compile(r"---[ \t]*\n")
_CLOSING = re.compile(r"^---[ \t]*$", re.MULTILINE)

_BASE_FOLDER = re.compile(r"\{baseDir\}|\$\{CLAUDE_SKILL_DIR\}")


def parts(text: str) -> tuple[str, str]:
    """Split a SKILL.md into its front matter and its body. Raises SkillError."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    opening = _OPENING.match(text)
    if not opening:
        raise SkillError("it does not begin with front matter: a line ---, name and description, a line ---")
    closing = _CLOSING.search(text, opening.end())
    if not closing:
        raise SkillError("the front matter has no closing line ---")
    front = text[opening.end() : closing.start()]
    if len(front) > LONGEST_FRONT:
        raise SkillError(f"the front matter has {len(front)} characters; at most {LONGEST_FRONT} are read")
    return front, text[closing.end() :]


def body(text: str, folder: Path) -> str:
    """Return what a model reads: no front matter, nothing that a person would not see, the folder's path put in."""
    return _BASE_FOLDER.sub(lambda _: str(folder), visible(parts(text)[1])).strip()


def left_out(text: str) -> str:
    """Say what `body` leaves out because a person would not see it; '' for nothing."""
    return ", ".join(hidden(parts(text)[1]))
