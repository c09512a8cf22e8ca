"""What a model is told at the beginning of a turn: gathers the facts, and leaves the wording to the templates."""

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, tzinfo
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from picoclaw import prompts, window
from picoclaw.agent import workflow
from picoclaw.config import Config
from picoclaw.errors import SkillError
from picoclaw.memory import notes as memory_notes
from picoclaw.memory.entries import is_tainted, remove_tainted
from picoclaw.messages import DEFAULT_SESSION, Brief, Inbound, Message, is_owner
from picoclaw.prompts import Facts, Mode, Page, Section
from picoclaw.security import untrusted
from picoclaw.skills import selection
from picoclaw.skills.library import BUILT_IN, SkillLibrary
from picoclaw.skills.skill import Skill, SkillContext, find_unmet
from picoclaw.store.tasks import Task
from picoclaw.text import pattern
from picoclaw.times import find_zone
from picoclaw.window import tool_bytes
from picoclaw.workspace.pages import PAGES, Pages, read_fields
from picoclaw.workspace.prompts import Prompts
from picoclaw.workspace.templates import ONBOARDING_PAGE

if TYPE_CHECKING:
    from picoclaw.automation.checklist import Checklist

_FOR_GUESTS = ("AGENTS.md", "SOUL.md", "IDENTITY.md")
TOOLS_FOR_SUBAGENTS = ("exec", "i2c", "spi", "serial")
"""Tools whose results are long."""

_FULL_MODES = {"full", "coordinator"}


class BuiltContext(NamedTuple):
    """A brief, the sections that its system text is made of, what could not be told, and whose words are nobody's."""

    brief: Brief
    sections: list[Section]
    problems: list[str]
    heard: tuple[str, ...] = ()


class _HeadTexts(NamedTuple):
    """Texts for the head of a message: those to be said now, and those that an earlier message has."""

    new: list[str]
    held: list[str]


_LONGEST_ACT, _LONGEST_SESSION = 500, 200
_SHARE_OF_LISTING = 4  # bytes of what a turn begins with for one of the skills' listing
_NAME = pattern(r"[^\W_](?:[^\W_]|[ '’-](?=[^\W_])){0,39}")


@dataclass(frozen=True)
class ContextBuilder:
    """All that the words of a turn depend on.

    `here` tells what this machine has, its tools among it; `board` is the board's name. `notes` gives those of the last
    days until one, the newest first, `tasks` the open tasks and when their list changed, `overlong` what has grown too
    long since a model heard of it. `tidy` deletes what has ended the first meeting. `helper` tells a helper its limits,
    `reports` gives those that a conversation has to know of, and `heard` takes the numbers of those that it does know.
    `describe` gives the tools of these names as a model is told them at first, in so many bytes. `guests` names the
    tools that are offered to guests; where it does, their turns are told no notes, tasks, reports and skills of the
    owner's, and of the pages those that say how it behaves. `foreign` includes what is marked as not from the owner in
    pages, notes and tasks, and reports.
    """

    config: Config
    prompts: Prompts
    pages: Pages
    library: SkillLibrary
    here: Callable[[], SkillContext]
    board: str
    simulated: bool
    notes: Callable[[date], Sequence[Page]] = lambda _: ()
    tasks: Callable[[], tuple[str, datetime | None]] = lambda: ("", None)
    overlong: Callable[[], Sequence[str]] = tuple
    tidy: bool = True
    foreign: bool = True
    led: Callable[[Sequence[Sequence[Message]]], bool] = lambda _: False
    helper: str = ""
    reports: Callable[[str], Sequence[Task]] = lambda _: ()
    heard: Callable[[Sequence[int]], None] = lambda _: None
    describe: Callable[..., Sequence[Mapping[str, Any]]] = lambda *_: ()
    guests: Callable[[], frozenset[str] | None] = lambda: None

    @cached_property
    def _room(self) -> window.Room:
        return window.room(self.config.model.context_tokens, self.config.model.answer_tokens)

    def zone(self) -> tzinfo | None:
        """The owner's time zone, None for the board's own."""
        return find_zone(self._fields("USER.md"))[0]

    def told(
        self,
        inbound: Inbound,
        earlier: Sequence[tuple[Message, ...]],
        acts: Sequence[str],
        now: datetime,
        *,
        once: bool = False,
    ) -> BuiltContext:
        """Make a turn's brief from the files as they are now.

        `acts` are calls whose outcome is unknown. Who asks `once` takes no part in the first meeting where no
        model holds it: what a model is told does not depend on that.
        """
        self.library.look()
        here, mode = self.here(), self._mode(inbound)
        allowed = self.guests() if inbound.origin == "guest" else None
        reserved = allowed is not None
        open_ = mode in _FULL_MODES and is_owner(inbound.origin) and self.pages.meeting(tidy=self.tidy)
        meeting = open_ if not once or self.config.model.base_url else ""
        known = self.library.skills.values()
        usable = [skill for skill in known if not find_unmet(skill, here) and (not reserved or skill.tier == BUILT_IN)]
        held = "" if not meeting or self.led(earlier) else meeting  # what the matcher leads, the model need not know
        listed = [skill for skill in usable if skill.listed and not (held or reserved)]  # one thing at a time
        offered = self._offered(here.tools, mode, meeting=bool(meeting), search=not self._is_short(listed))
        offered, room = self._fitting(offered if allowed is None else offered & allowed)
        bare = self._facts(inbound, offered, listed, {})
        room -= prompts.size(prompts.joined(prompts.sections(mode, bare, self.prompts)))
        heartbeat = inbound.origin == "heartbeat"
        pages, problems = self._pages(mode, held, room, heartbeat=heartbeat, reserved=reserved)
        sections = prompts.sections(mode, self._facts(inbound, offered, listed, pages), self.prompts)
        brought = selection.find_triggered(usable, inbound.text) if mode in _FULL_MODES or heartbeat else []
        skills, unread = self._blocks(brought)
        told = _HeadTexts([], []) if meeting or reserved or mode not in _FULL_MODES else self._remembered(earlier, now)
        reports = self._reports(inbound.session, earlier) if self.foreign and not reserved else {}
        told.new.extend(reports.values())
        for block in [*([] if reserved else self._open_tasks(mode, earlier)), *skills]:
            (told.held if _was_said(block, earlier) else told.new).append(block)
        only = self._only(brought, here.tools)
        brief = Brief(
            prompts.joined(sections),
            prompts.headed(self._head(self._moment(mode, inbound, acts, only), told.new, now), inbound.text),
            offered,
            only,
            self._other_model(inbound) or next((skill.model for skill in brought if skill.model), ""),
            relied_on=tuple(told.held),
        )
        heard = (
            *reports,
            *_list_tainted([*pages.values(), *(Page("what was noted earlier", new) for new in told.new)]),
        )
        return BuiltContext(brief, sections, [*problems, *unread, *self._doubts(mode, here.tools)], heard)

    def _mode(self, inbound: Inbound) -> Mode:
        mode = self.config.prompt.mode
        return "minimal" if inbound.origin == "cron" and mode in _FULL_MODES else mode

    def _other_model(self, inbound: Inbound) -> str:
        return self.config.heartbeat.model if inbound.origin == "heartbeat" else ""

    def _facts(
        self, inbound: Inbound, tools: frozenset[str], skills: Sequence[Skill], pages: Mapping[str, Page]
    ) -> Facts:
        config, asked = self.config, is_owner(inbound.origin)
        short = self._is_short(skills)
        shown = [page for name, page in pages.items() if name != ONBOARDING_PAGE]
        return Facts(
            name=_clean_name(self._fields("IDENTITY.md").get("Name", "")) or "picoclaw",
            first_run=_get_page_text(pages, ONBOARDING_PAGE),
            tools=bool(tools),
            skills=selection.list_skills(skills) if short and "read_file" in tools else "",
            many_skills=0 if short else len(skills),
            memory="memory_search" in tools,
            citations=config.prompt.citations == "on" or (config.prompt.citations == "auto" and asked),
            workspace=str(config.workspace),
            owner=""
            if "USER.md" in pages or inbound.origin == "guest"
            else _clean_name(self._fields("USER.md").get("Name", "")),
            zone=str(self.zone() or time.tzname[0]),
            extra=config.prompt.extra,
            pages=[page for page in shown if page.name != "IDENTITY.md" or not _has_name_only(page.text)],
            silent=inbound.origin == "cron",
            heartbeat=inbound.origin == "heartbeat",
            helper=self.helper,
            leave_to_helpers=[name for name in TOOLS_FOR_SUBAGENTS if name in tools] if "spawn" in tools else (),
            runtime={
                "board": untrusted.sanitize_name(self.board),
                "os": os.uname().sysname,
                "arch": os.uname().machine,
                "python": ".".join(map(str, sys.version_info[:3])),
                "model": config.model.name or "none",
            },
        )

    def _is_short(self, skills: Sequence[Skill]) -> bool:
        """Whether the skills may be listed; by the usual ratio: with one that moves, the system text would change."""
        listing = prompts.size(selection.list_skills(skills))
        return selection.fits_prompt(skills, prompts.BYTES_A_TOKEN) and listing * _SHARE_OF_LISTING <= self._room.told

    def _fitting(self, offered: frozenset[str]) -> tuple[frozenset[str], int]:
        """The tools that the window has room for, and the bytes that the system text then may have."""
        told = self.describe(offered, self._room.tools)
        away = {tool["name"] for tool in self.describe(offered)} - {tool["name"] for tool in told}
        return offered - away, self._room.told - sum(map(tool_bytes, told))

    def checklist(self) -> "Checklist":
        """Read HEARTBEAT.md as it is now; one that cannot be read says nothing."""
        from picoclaw.automation.checklist import parse_checklist

        return parse_checklist("\n".join(page.text for page in self.pages.pages([prompts.CHECKLIST])))

    def left_out(self, inbound: Inbound) -> list[str]:
        """Say what of the owner's files is not shown to a model: their comments, and fields that are not filled in."""
        return self.pages.left_out(self._names(self._mode(inbound)))

    @staticmethod
    def _names(mode: Mode, *, reserved: bool = False) -> Sequence[str]:
        names: Sequence[str] = PAGES if mode in _FULL_MODES else prompts.MINIMAL_PAGES if mode == "minimal" else ()
        return [name for name in names if name in _FOR_GUESTS or not reserved]

    def _pages(
        self, mode: Mode, meeting: str, room: int, *, heartbeat: bool, reserved: bool
    ) -> tuple[dict[str, Page], list[str]]:
        """The files that fit one budget and that many bytes, and what is to be said of those that do not."""
        first = [Page(ONBOARDING_PAGE, meeting)] if meeting else []
        limits, template = self.config.prompt, self.prompts["truncated"]
        found = [*first, *self.pages.pages(self._names(mode, reserved=reserved))]
        if heartbeat and (instructions := self.checklist().instructions):
            found.append(Page(prompts.CHECKLIST, instructions))
        if not self.foreign:
            found = [page for page in map(_strip_tainted, found) if page.text]
        text = "".join(page.text for page in found)
        around = prompts.size(self.prompts["context"]) + len(found) * prompts.size(self.prompts["file"])
        fitting = max(0, room - around) * len(text) // max(1, prompts.size(text))
        shown, away = prompts.within(found, template, limits.file_chars, min(limits.total_chars, fitting))
        why = f"total_chars = {limits.total_chars} under [prompt] is used up"
        if fitting < limits.total_chars:
            why = f"a window of {self.config.model.context_tokens} tokens has no room for more"
        left_out = [f"{', '.join(away)} not shown: {why}"] if away else []
        return {page.name: page for page in shown}, [*self.pages.problems, *left_out]

    def _fields(self, name: str) -> dict[str, str]:
        return read_fields("\n".join(page.text for page in self.pages.pages([name])))

    def _head(self, notes: Sequence[str], blocks: Sequence[str], now: datetime) -> str:
        """The moment's facts, and the texts that come with them, within one tag."""
        return prompts.moment(self.prompts["moment"], now, notes, blocks)

    def _moment(self, mode: Mode, inbound: Inbound, acts: Sequence[str], only: frozenset[str] | None) -> list[str]:
        """What is special about this message."""
        notes = [self.prompts["simulated"]] if self.simulated else []
        if inbound.session != DEFAULT_SESSION and mode not in {"base", "none"}:
            name = untrusted.sanitize_name(inbound.session, _LONGEST_SESSION)
            notes.append(prompts.fill(self.prompts["session"], {"content": name}, "content"))
        if self.tidy and mode in _FULL_MODES and is_owner(inbound.origin) and (parts := self.overlong()):
            notes.append(prompts.fill(self.prompts["condense"], {"parts": prompts.enclosed(", ".join(parts))}, "parts"))
        if self.helper and mode != "minimal":
            notes.append(prompts.fill(self.prompts["helper"], {"content": self.helper}, "content"))
        cut = (prompts.enclosed(act if len(act) <= _LONGEST_ACT else f"{act[:_LONGEST_ACT]}…") for act in acts)
        notes += [prompts.fill(self.prompts["cut_off"], {"act": act}, "act") for act in cut]
        if only is not None:
            notes.append(prompts.fill(self.prompts["skill_tools"], {"tools": ", ".join(sorted(only))}, "tools"))
        return notes

    def _remembered(self, earlier: Sequence[tuple[Message, ...]], now: datetime) -> "_HeadTexts":
        """What was noted lately: one text of the lines that this conversation was not told, and those that it was."""
        most = min(self.config.memory.notes_chars, self._room.head)
        notes = self.notes(now.date())
        new, held = memory_notes.split_told(
            memory_notes.note_lines(notes if self.foreign else map(_strip_tainted, notes), most), earlier
        )
        block = prompts.fill(self.prompts["noted"], {"content": "\n".join(new)}, "content") if new else ""
        return _HeadTexts([block] if block else [], held)

    def _reports(self, session: str, earlier: Sequence[tuple[Message, ...]]) -> dict[str, str]:
        """What helpers have reported since, and the conversation does not hold yet, each by whose report it is."""
        most = min(workflow.MAX_REPORT_CHARS, self._room.head)
        found = {
            task: workflow.render_report_block(self.prompts["report"], task, most) for task in self.reports(session)
        }
        known = [task.number for task, block in found.items() if _was_said(block, earlier)]
        if known and self.tidy:
            self.heard(known)
        return {f"helper {task.label}": block for task, block in found.items() if task.number not in known}

    def _open_tasks(self, mode: Mode, earlier: Sequence[tuple[Message, ...]]) -> list[str]:
        """The list of tasks with the moment of its last change, so that the newest of several is known."""
        tasks, changed = self.tasks() if mode in _FULL_MODES else ("", None)
        if changed is None:
            return []
        if not self.foreign:
            tasks = "\n".join(line for line in tasks.split("\n") if not is_tainted(line))
        known = {"changed": f"{changed:%Y-%m-%d %H:%M:%S}", "content": prompts.enclosed(tasks) or "-"}
        block = prompts.fill(self.prompts["pulse"], known, "content")
        shown_before = _was_said(self.prompts["pulse"].partition("{")[0].strip() or block, earlier)
        return [block] if block and (tasks or shown_before) else []

    def _blocks(self, brought: Sequence[Skill]) -> tuple[list[str], list[str]]:
        """The skills' texts, and why some cannot be read."""
        blocks, problems = [], []
        for skill in brought:
            try:
                text = self.library.text(skill.name)
            except SkillError as error:
                problems.append(str(error))
                continue
            path = f"skills/{skill.name}/SKILL.md"
            most = min(self.config.prompt.file_chars, 2 * self._room.head // len(brought))
            text = prompts.shortened(self.prompts["truncated"], path, text, most)
            blocks.append(prompts.block(self.prompts["skill"], skill.name, text))
        return blocks, problems

    def _doubts(self, mode: Mode, tools: frozenset[str]) -> Iterator[str]:
        if problem := find_zone(self._fields("USER.md"))[1]:
            yield problem
        if mode == "coordinator" and "spawn" not in tools:
            yield "mode coordinator: there is no tool to call helpers with, so it is as full"
        yield from self.prompts.problems

    @staticmethod
    def _only(brought: Sequence[Skill], tools: frozenset[str]) -> frozenset[str] | None:
        """The tools that may be called when every skill of a turn names its own; they stay offered all."""
        theirs = frozenset(name for skill in brought for name in skill.tools) & tools
        return theirs | (tools & {"read_file", "first_run"}) if theirs and all(s.tools for s in brought) else None

    @staticmethod
    def _offered(tools: frozenset[str], mode: Mode, *, meeting: bool, search: bool) -> frozenset[str]:
        """The tools that make sense now."""
        whole = {"skill_create", "skill_update", "pulse"}
        away = whole if meeting or mode not in _FULL_MODES else set[str]()
        return tools - away - (set() if meeting else {"first_run"}) - (set() if search else {"skill_search"})


def _get_page_text(pages: Mapping[str, Page], name: str) -> str:
    return pages[name].text if name in pages else ""


def _clean_name(name: str) -> str:
    """A name that can stand in a sentence of ours; one that goes on to say something is cut before that."""
    found = _NAME.match(name)
    return found[0].strip() if found else ""


def _list_tainted(told: Iterable[Page]) -> list[str]:
    """Name the texts of which something is marked as nobody's word."""
    return list(dict.fromkeys(page.name for page in told if is_tainted(page.text)))


def _strip_tainted(page: Page) -> Page:
    return page._replace(text=remove_tainted(page.text))


def _has_name_only(text: str) -> bool:
    name = read_fields(text).get("Name", "")
    return "\n" not in text.strip() and bool(name) and _clean_name(name) == name


def _was_said(block: str, earlier: Sequence[tuple[Message, ...]]) -> bool:
    return any(block in message.text for turn in earlier for message in turn if message.role == "user")
