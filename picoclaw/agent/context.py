"""What a model is told at the beginning of a turn: gathers the facts, and leaves the wording to prompts.py and the templates."""

from __future__ import annotations

import json
import os
import sys
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, tzinfo
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from picoclaw import prompts
from picoclaw.errors import SkillError, StoreError
from picoclaw.messages import DEFAULT_SESSION, Inbound, Message, Origin, TurnContext, is_outsider, is_owner, is_resident
from picoclaw.prompts import FULL_MODES, Page, PromptFacts, PromptMode, WindowBudget, count_tool_bytes, split_window
from picoclaw.records import NamedTuple, dataclass, replace
from picoclaw.security import untrusted
from picoclaw.text import pattern, truncate
from picoclaw.times import find_zone, parse_zone
from picoclaw.tools.registry import ON_REQUEST, ON_REQUEST_IN_HOUSEHOLD
from picoclaw.workspace import ONBOARDING_PAGE, PAGES, Pages, Prompts, read_fields

if TYPE_CHECKING:
    from picoclaw.agent.loop import Agent
    from picoclaw.automation.checklist import Checklist
    from picoclaw.config import Config
    from picoclaw.hw.board import Board
    from picoclaw.providers.model import ModelLink
    from picoclaw.security.guard import ApprovalManager, PolicyLoader
    from picoclaw.skills import Skill, SkillContext, SkillLibrary
    from picoclaw.store.subagent_tasks import Task, Tasks
    from picoclaw.stores import Stores
    from picoclaw.tools.registry import Toolset
    from picoclaw.wiring import Wiring

_GUEST_PAGES = ("AGENTS.md", "SOUL.md", "IDENTITY.md")
TOOLS_FOR_SUBAGENTS = ("exec", "i2c", "spi", "serial")
"""Tools whose results are long."""


class BuiltContext(NamedTuple):
    """A brief, the sections that its system text is made of, what could not be told, and the untrusted sources in it.

    `prefix` is to be kept with the conversation, where it is new.
    """

    brief: TurnContext
    sections: list[Page]
    problems: list[str]
    taints: tuple[str, ...] = ()
    prefix: str = ""


class PromptPrefix(NamedTuple):
    """What all requests of a conversation begin with, for a day at most: the system text and the names of the tools.

    A server keeps what it has read of a prompt; one changed byte has it read all of the conversation again. So what
    changes meanwhile is told in the newest message. It holds for one `base`: who asks, how, and which model.
    """

    base: str
    day: str
    sections: list[Page]
    tools: list[str]

    @classmethod
    def load(cls, text: str) -> PromptPrefix | None:
        if not text:
            return None
        base, day, sections, tools = json.loads(text)
        return cls(base, day, [Page(*section) for section in sections], tools)

    def describe_changes(self, sections: Sequence[Page]) -> str:
        """List the lines that were removed from sections or added since; '' when there are none."""
        before, after = dict(self.sections), dict(sections)
        changes = []
        for name in {**after, **before}:
            old, new = before.get(name, "").split("\n"), after.get(name, "").split("\n")
            lines = [f"+ {line}" for line in new if line.strip() and line not in old]
            if name in after:
                lines = [*(f"- {line}" for line in old if line.strip() and line not in new), *lines]
                changes += [f"{name}:", *lines] if lines else []
            else:
                changes.append(f"{name}: no longer holds")
        return "\n".join(changes)


_LONGEST_ACT, _LONGEST_SESSION = 500, 200
_MAX_REPORTS = 8
_SKILL_LISTING_SHARE = 4  # bytes of what a turn begins with for one of the skills' listing
_NAME = pattern(r"[^\W_](?:[^\W_]|[ '’-](?=[^\W_])){0,39}")


class AgentApp(Protocol):
    """The parts of the app that a turn is made with. They are made when they are first used."""

    config: Config
    board: Board
    language: str

    @property
    def prompts(self) -> Prompts: ...
    @property
    def stores(self) -> Stores: ...
    @property
    def wiring(self) -> Wiring: ...
    @property
    def library(self) -> SkillLibrary: ...
    @property
    def toolset(self) -> Toolset: ...
    @property
    def rights(self) -> PolicyLoader: ...
    @property
    def approving(self) -> ApprovalManager: ...
    @property
    def subagent_tasks(self) -> Tasks: ...
    @property
    def links(self) -> tuple[ModelLink, ...]: ...
    @property
    def context_builder(self) -> ContextBuilder: ...
    @property
    def agent(self) -> Agent: ...
    @property
    def light_agent(self) -> Agent: ...
    def skill_context(self) -> SkillContext: ...
    def find_agent(self, session: str) -> str: ...
    def find_view(self, who: str, agent: str = "") -> AgentApp: ...
    def find_person(self, who: str) -> str: ...
    def explain_role_change(self, who: str, origin: Origin) -> str: ...
    def is_onboarding_led(self, turns: Sequence[Sequence[Message]]) -> bool: ...
    def now(self) -> datetime: ...
    def close_own(self) -> None: ...


@dataclass(frozen=True)
class ContextBuilder:
    """Builds what a model is told at the beginning of a turn.

    The last three are for a sub-agent.
    """

    app: AgentApp
    config: Config
    pages: Pages
    tidy: bool = True
    """Mark reports as delivered, and delete BOOTSTRAP.md when the first meeting has ended."""
    foreign: bool = True
    """Without it, what is not from the owner is left out of pages, notes and tasks, and so are reports."""
    limits: str = ""
    """What it is told of its limits."""
    may: frozenset[str] | None = None
    """The tools that it may call."""
    needed: Sequence[Task] | None = None
    """The reports that its task rests on; None for those of the conversation."""

    @property
    def prompts(self) -> Prompts:
        return self.app.prompts

    def guest_tools(self, origin: Origin) -> frozenset[str] | None:
        """The tools that a turn of this origin may be offered; None for all.

        Where they are limited, a guest's turn is told no notes, tasks, reports and skills of the owner's, and of the
        pages only those that say how to behave.
        """
        toolset = self.app.toolset
        if origin == "remote":
            return toolset.names - toolset.select_private(toolset.names)
        return toolset.shown_to_guests(self.app.rights.policy()) if is_outsider(origin) else None

    @cached_property
    def _window_budget(self) -> WindowBudget:
        return split_window(self.config.model.context_tokens, self.config.model.answer_tokens)

    def zone(self) -> tzinfo | None:
        """The time zone of whoever has this view, None for the board's own; a member may leave it to the owner."""
        person = self.config.people.get(self.config.person)
        if person and person.time_zone:
            return parse_zone(person.time_zone)
        zone = find_zone(self._fields("USER.md"))[0]
        if zone is None and (self.config.person or self.config.agent):
            zone = find_zone(read_fields(self._home_pages.read("USER.md")))[0]
        return zone

    @cached_property
    def _home_pages(self) -> Pages:
        return Pages(self.config.home)

    def build(
        self,
        inbound: Inbound,
        earlier: Sequence[tuple[Message, ...]],
        acts: Sequence[str],
        now: datetime,
        *,
        once: bool = False,
    ) -> BuiltContext:
        """Build a turn's context from the files as they are now.

        `acts` are calls whose outcome is unknown. With `once` (`chat -m`) and without a model there is no first meeting.
        """
        from picoclaw.memory.files import is_tainted
        from picoclaw.skills import BUILT_IN, describe_unmet_needs, find_triggered

        app, mode, origin = self.app, self.config.prompt.mode, inbound.origin
        app.library.refresh()
        here = app.skill_context()
        if origin == "cron" and mode in FULL_MODES:
            mode = "minimal"
        is_full, is_heartbeat = mode in FULL_MODES, origin == "heartbeat"
        allowed = self.guest_tools(origin)
        reserved = allowed is not None
        meeting = ""
        if is_full and is_resident(origin) and not self.limits:  # a delegated task is no first meeting
            meeting = self.pages.read_onboarding(tidy=self.tidy)
            if once and not self.config.model.base_url:
                meeting = ""
        usable = [
            skill
            for skill in app.library.skills.values()
            if not describe_unmet_needs(skill, here) and (not reserved or skill.tier == BUILT_IN)
        ]
        shown_meeting = meeting and not app.is_onboarding_led(earlier)  # what the matcher leads, no model need know
        listed = [skill for skill in usable if skill.listed and not (shown_meeting or reserved)]  # one thing at a time
        offered = self._select_offered_tools(
            origin, here.tools, listed, self._list_skill_tools(usable), allowed, meeting=bool(meeting), is_full=is_full
        )
        describe = app.toolset.definitions
        described = describe(offered, self._window_budget.tools)  # those that the window has room for
        offered -= {tool["name"] for tool in describe(offered)} - {tool["name"] for tool in described}
        in_teams = not reserved and (is_full or "delegate" in offered) and mode not in {"base", "none"}
        virtual = () if meeting else self._build_virtual_pages(delegates="delegate" in offered, in_teams=in_teams)
        facts = self._facts(inbound, offered, listed, virtual)
        bare = prompts.build_sections(mode, facts, self.prompts)
        room = self._window_budget.told - sum(map(count_tool_bytes, described))
        room -= prompts.count_bytes(prompts.join_sections(bare))
        pages, problems = self._pages(
            mode, meeting if shown_meeting else "", room, heartbeat=is_heartbeat, reserved=reserved
        )
        sections = prompts.build_sections(mode, _add_pages(facts, pages), self.prompts)
        base = [
            mode,
            origin,
            bool(meeting),
            bool(shown_meeting),
            reserved,
            self.foreign,
            self.limits,
            self.config.model.name,
            *sorted(here.tools),
        ]
        fresh = PromptPrefix(f"{zlib.crc32(repr(base).encode()):08x}", str(now.date()), sections, sorted(offered))
        prefix = self._find_prefix(inbound.session, fresh) if earlier else fresh
        brought = find_triggered(usable, inbound.text) if is_full or is_heartbeat else []
        skills, unread = self._build_skill_blocks(brought)
        # texts for the header of the message: those to be said now, and those that an earlier message has
        new, held = ([], []) if meeting or reserved or not is_full else self._remembered(earlier, now)
        reports = self._reports(inbound.session, earlier) if self.foreign and not reserved else []
        new += [block for _, block in reports]
        for block in [
            *self._changes(prefix, sections),
            *([] if reserved or self.config.person else self._open_tasks(mode, earlier)),
            *skills,
        ]:
            (held if _is_in_history(block, earlier) else new).append(block)
        # the tools that may be called when every skill of a turn names its own; they stay offered all
        only = frozenset(name for skill in brought for name in skill.tools) & here.tools
        called = only | (here.tools & {"read_file", "first_run"}) if only and all(s.tools for s in brought) else None
        header = prompts.format_header(
            self.prompts["moment"], now, self._build_turn_notes(mode, inbound, acts, called), new
        )
        model = self.config.heartbeat.model if is_heartbeat else ""
        brief = TurnContext(
            prompts.join_sections(prefix.sections),
            prompts.add_header(header, inbound.text),
            frozenset(prefix.tools),
            called,
            model or next((skill.model for skill in brought if skill.model), ""),
            relied_on=tuple(held),
        )
        told = [*pages.values(), *prefix.sections, *(Page("what was noted earlier", text) for text in new)]
        heard = (task.title for task, _ in reports if task.taint or not task.asker)
        taints = (*heard, *dict.fromkeys(page.name for page in told if is_tainted(page.text)))
        taints += self.app.toolset.list_foreign(sorted(prefix.tools))
        problems += unread
        if problem := find_zone(self._fields("USER.md"))[1]:
            problems.append(problem)
        if mode == "coordinator" and "spawn" not in here.tools:
            problems.append("mode coordinator: there is no tool to call sub-agents with, so it is as full")
        kept = json.dumps(prefix, ensure_ascii=False) if prefix is fresh else ""
        return BuiltContext(brief, prefix.sections, [*problems, *self.prompts.problems], taints, kept)

    def _find_prefix(self, session: str, fresh: PromptPrefix) -> PromptPrefix:
        """The prefix that the conversation has, while it holds; else the fresh one."""
        with suppress(StoreError):
            kept = PromptPrefix.load(self.app.stores.history.prefix(session))
            if kept and kept[:2] == fresh[:2]:
                return kept
        return fresh

    def _changes(self, prefix: PromptPrefix, sections: Sequence[Page]) -> list[str]:
        """What has changed in the system text since the conversation began, as a block of the newest message."""
        if prefix.sections is sections or not (changes := prefix.describe_changes(sections)):
            return []
        text = prompts.shorten_page(self.prompts["truncated"], "them", changes, self._window_budget.head)
        return [prompts.fill_template(self.prompts["changed"], {"content": text}, "content")]

    def build_for_matcher(self, inbound: Inbound, now: datetime, *, once: bool = False) -> BuiltContext:
        """Build what the built-in matcher needs, which reads no prompt: the message, and the tools that it may call."""
        names = self.app.toolset.names
        allowed = self.guest_tools(inbound.origin)
        meeting = self.pages.read_onboarding(tidy=self.tidy) if is_resident(inbound.origin) and not once else ""
        offered = names - {"skill_create", "skill_update", "pulse"} if meeting else names - {"first_run"}
        header = prompts.format_header(self.prompts["moment"], now, (), ())
        text = prompts.add_header(header, inbound.text)
        problem = find_zone(self._fields("USER.md"))[1]
        context = TurnContext("", text, offered if allowed is None else offered & allowed, None, "")
        return BuiltContext(context, [], [problem] if problem else [], ())

    def _select_offered_tools(
        self,
        origin: Origin,
        tools: frozenset[str],
        listed: Sequence[Skill],
        of_skills: Iterable[str],
        allowed: frozenset[str] | None,
        *,
        meeting: bool,
        is_full: bool,
    ) -> frozenset[str]:
        """Name the tools that a model is told of: of those that work here, what makes sense in this turn."""
        left_out = {"delegate", "delegate_search", "pulse"} if meeting else {"first_run"}
        if not is_full:
            left_out.add("pulse")
        if is_full and is_resident(origin):
            left_out.add("message")  # the answer itself is told there
        if not self.limits:  # what a sub-agent may use was decided when it was given its task
            on_request = ON_REQUEST_IN_HOUSEHOLD if self.config.people else ON_REQUEST
            left_out |= on_request - {*self.config.tools.offer, *of_skills}
        if self._is_short(listed):
            left_out.add("skill_search")
        offered = tools - left_out
        for those in (self.may, allowed):
            offered = offered if those is None else offered & those
        return offered

    @staticmethod
    def _list_skill_tools(usable: Sequence[Skill]) -> Iterator[str]:
        """The tools that the owner's own skills need or use."""
        from picoclaw.skills import BUILT_IN

        for skill in usable:
            if skill.tier != BUILT_IN:
                yield from (*skill.tools, *skill.needs.tools)

    def _build_virtual_pages(self, *, delegates: bool, in_teams: bool) -> Sequence[Page]:
        """What an agent is told of those that it may delegate to, and of its teams."""
        if not (self.config.links or self.config.teams):
            return ()
        from picoclaw.tools.delegate import build_delegation_page, build_team_page

        pages = [build_delegation_page(self.config, self.prompts)] if delegates else []
        pages += [build_team_page(self.config, self.prompts)] if in_teams else []
        return [page for page in pages if page.text]

    def _facts(
        self, inbound: Inbound, tools: frozenset[str], skills: Sequence[Skill], virtual: Sequence[Page]
    ) -> PromptFacts:
        """The facts without the pages."""
        from picoclaw.skills import format_listing

        config, asked = self.config, is_owner(inbound.origin)
        short = self._is_short(skills)
        return PromptFacts(
            name=_clean_name(self._fields("IDENTITY.md").get("Name", "")) or self._agent_name,
            tools=bool(tools),
            skills=format_listing(skills) if short and "read_file" in tools else "",
            many_skills=0 if short else len(skills),
            memory="memory_search" in tools,
            citations=config.prompt.citations == "on" or (config.prompt.citations == "auto" and asked),
            workspace=str(config.workspace),
            owner="" if is_outsider(inbound.origin) else _clean_name(self._fields("USER.md").get("Name", "")),
            zone=str(self.zone() or time.tzname[0]),
            extra=config.prompt.extra,
            virtual=virtual,
            silent=inbound.origin == "cron",
            heartbeat=inbound.origin == "heartbeat",
            subagent=self.limits,
            leave_to_subagents=[name for name in TOOLS_FOR_SUBAGENTS if name in tools] if "spawn" in tools else (),
            runtime={
                "board": self._board_name,
                "os": os.uname().sysname,
                "arch": os.uname().machine,
                "python": ".".join(map(str, sys.version_info[:3])),
                "model": config.model.name or "none",
            },
        )

    @cached_property
    def _board_name(self) -> str:
        from picoclaw.hw import kernel

        return untrusted.sanitize_name(kernel.read_model(self.app.board))

    @property
    def _agent_name(self) -> str:
        key = self.config.agent
        return (key and (_clean_name(self.config.agents[key].name) or key)) or "picoclaw"

    def _is_short(self, skills: Sequence[Skill]) -> bool:
        """Whether the skills may be listed; by the fixed ratio: with a measured one, the cached prompt would change."""
        from picoclaw.skills import fits_prompt, format_listing

        listing = prompts.count_bytes(format_listing(skills))
        return fits_prompt(skills, prompts.BYTES_A_TOKEN) and listing * _SKILL_LISTING_SHARE <= self._window_budget.told

    def checklist(self) -> Checklist:
        """Read HEARTBEAT.md as it is now; one that cannot be read says nothing."""
        from picoclaw.automation.checklist import parse_checklist

        return parse_checklist("\n".join(page.text for page in self.pages.pages([prompts.CHECKLIST_PAGE])))

    def left_out(self, inbound: Inbound) -> list[str]:
        """Say what of the owner's files is not shown to a model: their comments, and fields that are not filled in."""
        mode = self.config.prompt.mode
        return self.pages.describe_left_out(
            self._select_page_names("minimal" if inbound.origin == "cron" and mode in FULL_MODES else mode)
        )

    @staticmethod
    def _select_page_names(mode: PromptMode, *, reserved: bool = False) -> Sequence[str]:
        names: Sequence[str] = PAGES if mode in FULL_MODES else prompts.MINIMAL_PAGES if mode == "minimal" else ()
        return [name for name in names if name in _GUEST_PAGES or not reserved]

    def _pages(
        self, mode: PromptMode, meeting: str, room: int, *, heartbeat: bool, reserved: bool
    ) -> tuple[dict[str, Page], list[str]]:
        """The files that fit one budget and that many bytes, and what is to be said of those that do not."""
        first = [Page(ONBOARDING_PAGE, meeting)] if meeting else []
        limits, template = self.config.prompt, self.prompts["truncated"]
        found = [*first, *self.pages.pages(self._select_page_names(mode, reserved=reserved), for_all=reserved)]
        if heartbeat and (instructions := self.checklist().instructions):
            found.append(Page(prompts.CHECKLIST_PAGE, instructions))
        if not self.foreign:
            found = [page for page in map(_strip_tainted, found) if page.text]
        text = "".join(page.text for page in found)
        around = prompts.count_bytes(self.prompts["context"]) + len(found) * prompts.count_bytes(self.prompts["file"])
        fitting = max(0, room - around) * len(text) // max(1, prompts.count_bytes(text))
        shown, away = prompts.limit_pages(found, template, limits.file_chars, min(limits.total_chars, fitting))
        why = f"total_chars = {limits.total_chars} under [prompt] is used up"
        if fitting < limits.total_chars:
            why = f"a window of {self.config.model.context_tokens} tokens has no room for more"
        left_out = [f"{', '.join(away)} not shown: {why}"] if away else []
        return {page.name: page for page in shown}, [*self.pages.problems, *left_out]

    def _fields(self, name: str) -> dict[str, str]:
        return read_fields("\n".join(page.text for page in self.pages.pages([name])))

    def _build_turn_notes(
        self, mode: PromptMode, inbound: Inbound, acts: Sequence[str], only: frozenset[str] | None
    ) -> list[str]:
        notes = [self.prompts["simulated"]] if self.app.board.simulated else []
        if inbound.session != DEFAULT_SESSION and mode not in {"base", "none"}:
            name = untrusted.sanitize_name(inbound.session, _LONGEST_SESSION)
            notes.append(prompts.fill_template(self.prompts["session"], {"content": name}, "content"))
        if self.tidy and mode in FULL_MODES and is_owner(inbound.origin):
            parts = prompts.escape_closing(", ".join(self.app.stores.overlong(self.app.library.skills.values())))
            if parts:
                notes.append(prompts.fill_template(self.prompts["condense"], {"parts": parts}, "parts"))
        if self.limits and mode != "minimal":
            notes.append(prompts.fill_template(self.prompts["subagent"], {"content": self.limits}, "content"))
        cut = (prompts.escape_closing(truncate(act, _LONGEST_ACT)) for act in acts)
        notes += [prompts.fill_template(self.prompts["cut_off"], {"act": act}, "act") for act in cut]
        if only is not None:
            notes.append(
                prompts.fill_template(self.prompts["skill_tools"], {"tools": ", ".join(sorted(only))}, "tools")
            )
        return notes

    def _remembered(self, earlier: Sequence[tuple[Message, ...]], now: datetime) -> tuple[list[str], list[str]]:
        """What was noted lately: one text of the lines that this conversation was not told, and those that it was."""
        from picoclaw.memory import notes as memory_notes

        most = min(self.config.memory.notes_chars, self._window_budget.head)
        notes = memory_notes.read_recent_notes(self.config.workspace, now.date())
        lines = memory_notes.format_note_lines(notes if self.foreign else map(_strip_tainted, notes), most)
        new, held = memory_notes.split_told(lines, earlier)
        block = prompts.fill_template(self.prompts["noted"], {"content": "\n".join(new)}, "content") if new else ""
        return [block] if block else [], held

    def _reports(self, session: str, earlier: Sequence[tuple[Message, ...]]) -> list[tuple[Task, str]]:
        """What sub-agents and agents have reported since, and the conversation does not hold yet.

        None when the disk fails.
        """
        from picoclaw.agent import workflow

        tasks: Sequence[Task] = self.needed or ()
        if self.needed is None and (self.config.home / "state.db").exists():
            with suppress(StoreError):
                tasks = self.app.subagent_tasks.reports(session, _MAX_REPORTS)
        most = min(workflow.MAX_REPORT_CHARS, self._window_budget.head)
        found = [(task, workflow.render_report(task, self.prompts["report"], most)) for task in tasks]
        known = [task.number for task, block in found if _is_in_history(block, earlier)]
        if known and self.tidy:
            with suppress(StoreError):
                self.app.subagent_tasks.set_heard(known)
        return [(task, block) for task, block in found if task.number not in known]

    def _open_tasks(self, mode: PromptMode, earlier: Sequence[tuple[Message, ...]]) -> list[str]:
        """The list of tasks with the moment of its last change, so that the newest of several is known."""
        from picoclaw.memory.files import is_tainted

        tasks, changed = self.app.stores.tasks() if mode in FULL_MODES else ("", None)
        if changed is None:
            return []
        if not self.foreign:
            tasks = "\n".join(line for line in tasks.split("\n") if not is_tainted(line))
        known = {"changed": f"{changed:%Y-%m-%d %H:%M:%S}", "content": prompts.escape_closing(tasks) or "-"}
        block = prompts.fill_template(self.prompts["pulse"], known, "content")
        shown_before = _is_in_history(self.prompts["pulse"].partition("{")[0].strip() or block, earlier)
        return [block] if block and (tasks or shown_before) else []

    def _build_skill_blocks(self, brought: Sequence[Skill]) -> tuple[list[str], list[str]]:
        blocks, problems = [], []
        for skill in brought:
            try:
                text = self.app.library.read_body(skill.name)
            except SkillError as error:
                problems.append(str(error))
                continue
            path = f"skills/{skill.name}/SKILL.md"
            most = min(self.config.prompt.file_chars, 2 * self._window_budget.head // len(brought))
            text = prompts.shorten_page(self.prompts["truncated"], path, text, most)
            blocks.append(prompts.fill_block(self.prompts["skill"], skill.name, text))
        return blocks, problems


def _add_pages(facts: PromptFacts, pages: Mapping[str, Page]) -> PromptFacts:
    shown = [page for name, page in pages.items() if name != ONBOARDING_PAGE]
    return replace(
        facts,
        first_run=pages[ONBOARDING_PAGE].text if ONBOARDING_PAGE in pages else "",
        owner="" if "USER.md" in pages else facts.owner,
        pages=[page for page in shown if page.name != "IDENTITY.md" or not _has_name_only(page.text)],
    )


def _clean_name(name: str) -> str:
    """A name that can stand in a sentence of ours; one that goes on to say something is cut before that."""
    found = _NAME.match(name)
    return found[0].strip() if found else ""


def _strip_tainted(page: Page) -> Page:
    from picoclaw.memory.files import remove_tainted

    return page._replace(text=remove_tainted(page.text))


def _has_name_only(text: str) -> bool:
    name = read_fields(text).get("Name", "")
    return "\n" not in text.strip() and bool(name) and _clean_name(name) == name


def _is_in_history(block: str, earlier: Sequence[tuple[Message, ...]]) -> bool:
    return any(block in message.text for turn in earlier for message in turn if message.role == "user")
