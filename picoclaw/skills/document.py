"""A SKILL.md as text: where its front matter ends, and what of the rest a model reads. Pure, and without YAML."""

import re
from collections.abc import Iterator
from pathlib import Path

from picoclaw.errors import SkillError

LONGEST_FRONT = 16_384

_OPENING = re.compile(r"---[ \t]*\n")
_CLOSING = re.compile(r"^---[ \t]*$", re.MULTILINE)

# Controls, direction marks, tags and selectors: a person does not see them, a model reads them.
HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x84\x86-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0d"
    "\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
)

# A comment, in HTML or as a link that nothing refers to. A fenced block shows what is in it, so that it is kept.
_COMMENT = re.compile(
    r"(?P<shown>^ {0,3}(?P<fence>`{3,}(?![^\n]*`)|~{3,}).*?(?:^ {0,3}(?P=fence)[`~]*[ \t]*$|\Z))"
    r"|<!--.*?(?:-->|\Z)"
    r"|^ {0,3}\[(?://|comment)\]:[^\n]*",
    re.MULTILINE | re.DOTALL,
)
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
    seen = _COMMENT.sub(lambda found: found["shown"] or "", HIDDEN.sub("", parts(text)[1]))
    return _BASE_FOLDER.sub(lambda _: str(folder), seen).strip()


def remarks(text: str) -> Iterator[str]:
    """Say what `body` takes away, and whether anything is left."""
    rest = parts(text)[1]
    if hidden := len(HIDDEN.findall(rest)):
        yield f"{hidden} invisible characters in its text are left out"
    if comments := sum(not found["shown"] for found in _COMMENT.finditer(HIDDEN.sub("", rest))):
        yield f"{comments} hidden comment{'s' if comments > 1 else ''} in its text {_are(comments)} left out"
    if not body(text, Path()):
        yield "it has no text"


def _are(count: int) -> str:
    return "are" if count > 1 else "is"
