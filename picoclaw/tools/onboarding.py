"""The `first_run` tool: notes what the owner tells of themself at the first meeting, and ends it.

A result ends with the next open question, in the form `Label: what is asked?`, so that a small model, or none, can
simply say it; the label is that of the field, here and in USER.md. Where nothing is open, in a meeting that was brought
back, it says what is known; such a meeting ends when it is done.
"""

import os
import re
import stat
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from picoclaw import files
from picoclaw.errors import ToolError
from picoclaw.files import RootedPath, explain_os_error, remove_file, write_atomic
from picoclaw.markdown import find_hidden
from picoclaw.messages import Caller
from picoclaw.security.policy import Effect
from picoclaw.store.jobs import Jobs
from picoclaw.text import pattern, remove_invisible
from picoclaw.times import find_zone, parse_zone
from picoclaw.tools.cron import move_jobs_to_zone
from picoclaw.tools.registry import tool
from picoclaw.workspace import ONBOARDING_PAGE, find_onboarding

if TYPE_CHECKING:
    from picoclaw.agents import PersonalPages

QUESTIONS = {
    "Name": "what should I call you?",
    "Time zone": "which city are you near, such as Berlin or New York?",
    "Preferences": "is there anything I should keep to, such as celsius or short answers?",
    "Wired": "which parts are connected to this board?",
}
_BEGIN = 'A few questions; "skip" leaves one out, "undo" takes an answer back, "done" ends them.'
_CHANGED = 'Is any of that different now? Say so, as in "call me Ada" or "I live in Berlin"; "done" ends this.'
_OVER = "That is all, thank you. What you have answered stands in USER.md; `picoclaw init --first-meeting` asks again."

_MAX_ANSWER_CHARS = 200
_MAX_PAGE_BYTES = 1_000_000
_SKIPPED = {"skip", "skipped", "-"}
_UNDO = "undo"
"""In the place of a value: what is noted is taken out again."""
_NOT_SAID = {"", "none", "null", "n/a", "unknown"}
"""What small models put where they know nothing."""

_WORD = pattern(r"[^\W_]+")
_JOINERS = "\u200c\u200d"  # parts of words in Persian, and of emoji


class FirstRunTool:
    def __init__(
        self,
        home: Path,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        jobs: Callable[[], Jobs] | None = None,
        *,
        is_member: bool = False,
        pages: "PersonalPages | None" = None,
    ) -> None:
        """`clock` is compared with the owner's zone; `jobs` are moved to it. A member is not asked about the board.

        `pages` are a person's own, which are no files.
        """
        self._home, self._clock, self._jobs = home, clock, jobs
        self._workspace = home / "workspace"
        self._questions = {name: text for name, text in QUESTIONS.items() if not (is_member and name == "Wired")}
        self._is_member, self._pages = is_member, pages

    def _effect(self, arguments: Mapping[str, Any]) -> Effect:
        return "remember" if any(arguments.values()) else "read"

    @tool(effect=_effect, private=True)
    def first_run(
        self,
        caller: Caller,
        name: str = "",
        time_zone: Annotated[str, "Europe/Berlin, or a city"] = "",
        preferences: str = "",
        wired: str = "",
        agent_name: str = "",
        *,
        done: bool = False,
    ) -> str:
        """Note what the owner answered, or "skip". Returns the next question."""
        if not self._has_begun():
            raise ToolError("the first meeting is over; edit_file changes USER.md and IDENTITY.md at any time")
        if self._is_member and wired:
            raise ToolError("only the owner says what is wired; nothing was noted")
        if agent_name and self._pages and "IDENTITY.md" not in self._pages.names:
            raise ToolError("only the owner says how the agent is called, in its IDENTITY.md; nothing was noted")
        _require_said(caller.user_texts, name, time_zone, preferences, wired, agent_name)
        given = {"Name": name, "Time zone": time_zone, "Preferences": preferences, "Wired": wired}
        try:
            return self._save_answers(given, agent_name, done=done)
        except OSError as error:
            raise ToolError(f"{self._workspace} cannot be read or written: {explain_os_error(error)}") from None

    def _save_answers(self, given: Mapping[str, str], agent_name: str, *, done: bool) -> str:
        """Save new answers, and return what was noted, with the next question."""
        page = self._read_page("USER.md")
        values = {label: _clean_answer(label, text) for label, text in given.items()}
        undone = {label: _get_field(page, label) for label, text in values.items() if text == _UNDO}
        new = {label: text for label, text in values.items() if text and label not in undone}
        new = {label: text for label, text in new.items() if not (text == "-" and _get_field(page, label))}
        remarks = []
        if new.get("Time zone", "-") != "-":
            try:
                zone = parse_zone(new["Time zone"])
            except ValueError as error:
                raise ToolError(f"time_zone: {error}; nothing was noted") from None
            new["Time zone"] = str(zone)
            remarks = _compare_zones(zone, self._clock())
        agent = {"Name": text} if (text := _clean_answer("agent_name", agent_name)) not in {"", "-"} else {}
        agent = {"Name": ""} if text == _UNDO else agent
        own_page = self._read_page("IDENTITY.md") if agent else b""
        self._write_page("USER.md", page, dict.fromkeys(undone, "") | new)
        self._write_page("IDENTITY.md", own_page, agent)
        old_zone, new_zone = read_zone(page), read_zone(self._read_page("USER.md"))
        if (
            self._jobs and old_zone != new_zone and (old_zone is None or new_zone is None)
        ):  # a later change of zone is a journey
            remarks += move_jobs_to_zone(self._jobs(), old_zone, new_zone, self._clock())
        noted = [f"{label} {'left out' if text == '-' else text}" for label, text in new.items()]
        noted += [f"my name is {text}" if text else "my name is picoclaw again" for text in agent.values()]
        lines = [f"Noted: {'; '.join(noted)}."] if noted else []
        back = [f"{label} {'left out' if text == '-' else text}" for label, text in undone.items() if text]
        lines += [f"Taken back: {'; '.join(back)}."] if back else []
        known = {label: "" if label in undone else _get_field(page, label) for label in self._questions}
        now_known = {**known, **new}
        if done or ("" in known.values() and all(now_known.values())):
            self._end()
            return "\n".join([*lines, *remarks, _OVER])
        return "\n".join([*lines, *remarks, *_format_next_question(now_known, begun=bool(lines))])

    def _has_begun(self) -> bool:
        if self._pages:
            return bool((self._pages.read(ONBOARDING_PAGE) or "").strip())
        return bool(find_onboarding(self._home))

    def _end(self) -> None:
        if self._pages:
            self._pages.write(ONBOARDING_PAGE, "")
        else:
            remove_file(self._workspace / ONBOARDING_PAGE)

    def _read_page(self, name: str) -> bytes:
        if self._pages:
            return (self._pages.read_merged(name) or "").encode()
        place = self._find_page(name)
        about = files.stat_rooted(place)
        if about is None:
            return b""
        if stat.S_ISDIR(about.st_mode):
            raise ToolError(f"{name} is not a regular file; move it away")
        with os.fdopen(files.open_rooted(place), "rb") as file:
            page = file.read(_MAX_PAGE_BYTES + 1)
        if len(page) > _MAX_PAGE_BYTES:
            raise ToolError(
                f"{name} is larger than {_MAX_PAGE_BYTES} bytes; shorten it, or write the facts there by hand"
            )
        return page

    def _write_page(self, name: str, before: bytes, values: Mapping[str, str]) -> None:
        after = before
        for label, text in values.items():
            after = set_field(after, label, text)
        if after != before and self._pages:
            self._pages.write(name, after.decode(errors="replace"))
        elif after != before:
            place = self._find_page(name)
            with files.open_folder(place.above) as way:
                write_atomic(Path(place.parts[-1]), after, folder=way)

    def _find_page(self, name: str) -> RootedPath:
        """Find a page; a link to another file of the workspace stays a link."""
        root = os.path.realpath(self._workspace)
        place = files.resolve_below(root, f"{root}/{name}")
        if place is None:
            raise ToolError(f"{name} is a link that leads out of the workspace; put a file in its place")
        return place


def _format_next_question(known: Mapping[str, str], *, begun: bool) -> list[str]:
    """The next open question; before the first one, or if none is left, also what is known."""
    said = "; ".join(f"{label} {text}" for label, text in known.items() if text not in {"", "-"})
    facts = f"Known: {said or 'nothing, as you wished'}."
    asked = next((label for label, text in known.items() if not text), "")
    if not asked:
        return [facts, _CHANGED]
    return [*([] if begun else [*([facts] if said else []), _BEGIN]), f"{asked}: {QUESTIONS[asked]}"]


def set_field(page: bytes, label: str, text: str) -> bytes:
    """Set the line `- Label: text` of a page, or add it at the end; every other byte stays."""
    if found := _find_field(page, label):
        rest = page[found.end() :]
        gap = b" " if rest.startswith(b"<!--") else b""
        return page[: found.end(1)] + (f" {text}" if text else "").encode() + gap + rest
    newline = b"\r\n" if b"\r\n" in page else b"\n"
    gap = newline if page and not page.endswith(b"\n") else b""
    return page + gap + f"- {label}: {text}".encode() + newline


def read_zone(page: bytes) -> tzinfo | None:
    """The owner's zone by USER.md, None for the board's own."""
    return find_zone({"Time zone": _get_field(page, "Time zone")})[0]


def _get_field(page: bytes, label: str) -> str:
    found = _find_field(page, label)
    return found[2].strip().decode(errors="replace") if found else ""


def _find_field(page: bytes, label: str) -> re.Match[bytes] | None:
    """Find a field's first line outside comments, up to a comment behind it."""
    head = rb"[ \t]*[-*+][ \t]+(?:\*\*)?%s(?:\*\*)?[ \t]*:(?:\*\*)?" % re.escape(label.encode())
    lines = re.finditer(rb"^(%s)((?:(?!<!--)[^\r\n])*)" % head, page, re.IGNORECASE | re.MULTILINE)
    plain = page.replace(b"\r\n", b" \n").decode("latin-1")  # a character a byte
    hidden = find_hidden(plain, trusting=True)
    starts = [comment.start for comment in hidden]
    for line in lines:
        before = bisect_left(starts, line.start()) - 1
        if before < 0 or hidden[before].end <= line.start():
            return line
    return None


def _require_said(said: Sequence[str], *values: str) -> None:
    """Refuse a value of which no word is the owner's; small models invent some."""
    words = {word for text in said for word in _WORD.findall(text.casefold())}
    for value in values if said else ():
        told = _WORD.findall(value.casefold())
        if told and words.isdisjoint(told) and value.lower().strip(".") not in _SKIPPED | _NOT_SAID | {_UNDO}:
            raise ToolError(f"{value!r} is not what was said; nothing was noted")


def _clean_answer(label: str, text: str) -> str:
    """An answer in one line: "-" for what is not wanted, "" for nothing."""
    text = "".join(c if c.isprintable() or c in _JOINERS else " " for c in text)
    text = " ".join(re.sub("<!--|-->", " ", remove_invisible(text)).split())
    if len(text) > _MAX_ANSWER_CHARS:
        raise ToolError(f"{label} has {len(text)} characters; say it in {_MAX_ANSWER_CHARS}; nothing was noted")
    if text.lower().strip(".") in _NOT_SAID:
        return ""
    return "-" if text.lower().strip(".") in _SKIPPED else text


def _compare_zones(zone: tzinfo, now: datetime) -> list[str]:
    """Say if the board's clock is in another zone, now or half a year later."""
    moments = (now.astimezone(), (now + timedelta(days=182)).astimezone())
    if all(moment.utcoffset() == moment.astimezone(zone).utcoffset() for moment in moments):
        return []
    return [f"The board's own clock is on {moments[0].tzname()} (UTC{moments[0]:%z}); I tell times in {zone}."]
