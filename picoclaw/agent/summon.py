"""A new character from one answer of a model: what is asked, what of the answer can be used, what it would change.

Decides nothing: the caller shows the changes, and writes those that the owner agrees to.
"""

import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path

from picoclaw.config.tables import ModelConfig
from picoclaw.errors import ConfigError
from picoclaw.files import create_file, explain_os_error, write_atomic
from picoclaw.markdown import find_hidden
from picoclaw.messages import Message, Purpose, Request
from picoclaw.prompts import Page, Templates, count_bytes, estimate_tokens, fill_block, fill_template, limit_pages
from picoclaw.providers import WholeAnswer
from picoclaw.records import NamedTuple
from picoclaw.text import diff_texts, escape_control_tokens, list_terms, pattern
from picoclaw.workspace import read_bytes

SUMMON_FILES = ("SOUL.md", "IDENTITY.md", "AGENTS.md", "TOOLS.md", "HEARTBEAT.md")
MAX_FILE_BYTES = 8192
"""Bytes of one file that a model may write."""

_MAX_OWN_BYTES = 200_000
_ANSWER_TOKENS, _LEAST_ANSWER = 3072, 768  # 2 KB are 700 tokens; the rest is for a model that thinks first
_MIN_BYTES_A_TOKEN = 3.0  # so that the answer fits the window with a vocabulary that is not made for English
_TAG = pattern(r"<(/?)[ \t]*file\b([^<>\n]{0,200})>", re.IGNORECASE)
_NAME = pattern(r"""(?<![\w-])name\s*=\s*(?:["'“]([^"'“”]*)["'”]|([^\s"'“”]+))""", re.IGNORECASE)
_INVISIBLE_CATEGORIES = {"Cc", "Cf", "Cs", "Co"}  # categories of Unicode
_ALLOWED_INVISIBLE = "\n\t\u200c\u200d"  # those of them that ordinary text and emoji are made with


class FileChange(NamedTuple):
    """What would become of a file: its bytes when it was read (None: there is none), as text, and the new text."""

    name: str
    found: bytes | None
    old: str
    new: str


def build_request(
    templates: Templates, persona: str, pages: Sequence[Page], tools: Sequence[str], model: ModelConfig, deadline: float
) -> tuple[Request, list[str]]:
    """Make the one request, and name the files that the model cannot write anew, because it cannot be shown them whole.

    The owner's files are shortened to what the model's window holds beside the answer.
    """
    room = max(0, model.context_tokens - _LEAST_ANSWER * 2) * 2
    shown, _ = limit_pages(pages, templates["truncated"], MAX_FILE_BYTES, room)
    too_long = [page.name for page in pages if page not in shown or count_bytes(page.text) > MAX_FILE_BYTES]
    files = "\n".join(fill_block(templates["file"], page.name, page.text) for page in shown if page.text)
    template = templates["summon"]
    template += "".join(f"\n{{{name}}}" for name in ("persona", "files") if f"{{{name}}}" not in template)
    text = fill_template(template, {"persona": persona, "tools": ", ".join(tools), "files": files})
    left = model.context_tokens - estimate_tokens(count_bytes(text), _MIN_BYTES_A_TOKEN)
    tokens = max(_LEAST_ANSWER // 2, min(max(model.answer_tokens, _ANSWER_TOKENS), left))
    return Request("", (Message("user", text),), (), tokens, deadline, purpose=Purpose("summon")), too_long


def parse_files(text: str, *, cut: bool = False) -> dict[str, str]:
    """Find the tagged blocks, by the names that they give themselves; of blocks of one name the last counts.

    A block without its closing tag ends where the next begins, and gives way to a whole one. The last block of an
    answer that was `cut` is half a file, and none.
    """
    tags = list(_TAG.finditer(text.replace("\r\n", "\n").replace("\r", "\n")))
    found: dict[str, str] = {}
    whole = set()
    for tag, following in zip_longest(tags, tags[1:]):
        name = _NAME.search(tag[2])
        if tag[1] or not name or (following is None and cut):
            continue
        key = (name[1] or name[2] or "").strip()
        closed = following is not None and bool(following[1])
        if closed or key not in whole:
            found[key] = _strip_fence(tag.string[tag.end() : following.start() if following else None])
        whole |= {key} if closed else set()
    return found


def _strip_fence(text: str) -> str:
    """Take off blanks, and a fence around the whole or left open by a lost tag."""
    lines = text.strip("\ufeff \t\n").split("\n")
    fences = [number for number, line in enumerate(lines) if line.lstrip().startswith("```")]
    if fences == [0, len(lines) - 1]:
        lines = lines[1:-1]
    elif len(fences) % 2 and fences[-1] == len(lines) - 1:
        lines = lines[:-1]
    return "\n".join(line.rstrip() for line in lines).strip("\n")


def check_files(
    answer: WholeAnswer, too_long: Collection[str] = (), persona: str = ""
) -> tuple[dict[str, str], list[str]]:
    """Sort an answer's blocks into the files that can be used, each ending in a line feed, and what was wrong.

    What the answer makes of a file that is `too_long` for it would lose what stands in it. Where few words of the
    `persona`, if that is given, are in any file, it stands in SOUL.md as it was said.
    """
    known = {name.casefold(): name for name in SUMMON_FILES}
    blocks = parse_files(answer.text, cut=answer.cut)
    blocks = {name: text for name, text in blocks.items() if known.get(name.casefold()) not in too_long}
    strange = [name for name in blocks if name.casefold() not in known]
    tokens = answer.usage.completion_tokens
    problems = [f"the answer was cut off {f'at {tokens} tokens' if tokens else 'where it repeated itself'}"]
    problems = problems if answer.cut else []
    problems += [
        f"{name} is too long for the model to be shown whole or to write anew, so it stays as it is"
        for name in too_long
    ]
    if strange:
        shown = ", ".join(ascii(name[:60]) for name in strange[:5])
        problems.append(f"ignored in the answer, because it is not one of the five files: {shown}")
    good = {}
    for name, text in ((known[name.casefold()], text) for name, text in blocks.items() if name not in strange):
        if fault := _find_fault(text):
            problems.append(f"the answer's {name} {fault}")
        else:
            good[name] = f"{text}\n"
    wanted, told = set(list_terms(persona)), set(list_terms(" ".join(good.values())))
    if "SOUL.md" in good and len(wanted & told) * 2 < len(wanted):
        good["SOUL.md"] = f"You are {persona.strip()}.\n{good['SOUL.md']}"
    brought = {name.casefold() for name in blocks}
    missing = [name for name in SUMMON_FILES if name not in too_long and name.casefold() not in brought]
    if missing:
        problems.append(f"not in the answer: {', '.join(missing)}")
    return good, problems


def _find_fault(text: str) -> str:
    """Say why a text may not become a file of the workspace, '' when it may."""
    if not text.strip():
        return "is empty"
    if len(text) > MAX_FILE_BYTES or count_bytes(text) > MAX_FILE_BYTES:
        return f"is longer than {MAX_FILE_BYTES} bytes"
    if unseen := _find_invisible(text):
        return f"holds {unseen}"
    return "holds control words of a chat template" if escape_control_tokens(text) != text else ""


def _find_invisible(text: str) -> str:
    """Name a character that no reader of the diff would see, '' when there is none."""
    for char in text:
        if unicodedata.category(char) in _INVISIBLE_CATEGORIES and char not in _ALLOWED_INVISIBLE:
            return f"the invisible character U+{ord(char):04X}"
    return ""


def list_changes(workspace: Path, templates: Path, good: Mapping[str, str]) -> tuple[list[FileChange], list[str]]:
    """Compare the usable files with the workspace; returns the changes in the order of FILES, and what stays and why.

    A file that the answer did not bring stays as it is, and comes from the `templates` where there is none. An
    answer without any usable file leaves the templates alone.
    """
    changes, problems = [], []
    for name in SUMMON_FILES:
        try:
            found = _read_own_file(workspace / name)
            old = _decode_own_file(workspace / name, found or b"")
        except ConfigError as error:
            problems.append(f"{error}; it stays as it is")
            continue
        if name in good:  # with the owner's comments, which no model is shown, at its head
            new = good[name]
            comments = [old[comment.start : comment.end].strip("\n") for comment in find_hidden(old, trusting=True)]
            new = "\n".join([*(comment for comment in comments if comment not in new), new])
        elif found is None or not good:
            try:
                new = (templates / name).read_text(encoding="utf-8")
            except OSError as error:
                why = f"cannot be read: {explain_os_error(error)}; reinstall picoclaw"
                raise ConfigError(f"the template {templates / name} {why}") from None
        else:
            continue
        if new != old or found is None:
            changes.append(FileChange(name, found, old, new))
    return changes, problems


def _read_own_file(path: Path) -> bytes | None:
    """Read a regular file whole, None if there is none; a link in its place is left alone, so that it stays one."""
    if path.is_symlink():
        raise ConfigError(f"{path} is a symbolic link")
    return read_bytes(path, _MAX_OWN_BYTES)


def _decode_own_file(path: Path, data: bytes) -> str:
    """Read an owner's file as text; one that a diff could not show whole, and so not bring back, is refused."""
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not UTF-8 text") from None
    if unseen := _find_invisible(text):
        raise ConfigError(f"{path} holds {unseen}")
    return text


def format_diff(change: FileChange) -> str:
    """Show a change as a patch."""
    return diff_texts(change.old, change.new, change.name if change.found is not None else "/dev/null", change.name)


def write_change(workspace: Path, change: FileChange) -> bool:
    """Write a file whole and durably; False, and nothing written, when it is not what it was. Raises ConfigError."""
    path, data = workspace / change.name, change.new.encode()
    try:
        if change.found is None:
            return create_file(path, data)
        if _read_own_file(path) != change.found:
            return False
        write_atomic(path, data)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {explain_os_error(error)}") from None
    return True
