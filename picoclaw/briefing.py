"""What a model is told at the beginning of a turn: gathers the facts, and leaves the wording to the templates."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import NamedTuple

from picoclaw import prompt
from picoclaw.config import Config
from picoclaw.errors import SkillError
from picoclaw.messages import DEFAULT_SESSION, Brief, Inbound, Message
from picoclaw.prompt import Facts, Mode, Page, Section
from picoclaw.schedule import zone_of
from picoclaw.skills import choose
from picoclaw.skills.library import Library
from picoclaw.skills.skill import Here, Skill, unmet
from picoclaw.workspace.pages import PAGES, Pages, fields
from picoclaw.workspace.prompts import Prompts
from picoclaw.workspace.seeds import first_meeting

LEFT_TO_HELPERS = ("exec", "i2c", "spi", "serial")
"""Tools whose results are long."""

_WHOLE = {"full", "coordinator"}


class Told(NamedTuple):
    """A brief, the sections that its system text is made of, and what could not be told."""

    brief: Brief
    sections: list[Section]
    problems: list[str]


@dataclass(frozen=True)
class Briefing:
    """All that the words of a turn depend on.

    `here` is what this machine has, its tools among it; `board` is the board's name; `tidy` deletes what has ended the
    first meeting.
    """

    config: Config
    prompts: Prompts
    pages: Pages
    library: Library
    here: Here
    board: str
    simulated: bool
    tidy: bool = True

    def zone(self) -> tzinfo | None:
        """The owner's time zone, None for the board's own."""
        return zone_of(self._fields("USER.md"))[0]

    def told(
        self, inbound: Inbound, earlier: Sequence[tuple[Message, ...]], acts: Sequence[str], now: datetime
    ) -> Told:
        """Make a turn's brief from the files as they are now. `acts` are calls whose outcome is unknown."""
        self.library.look()
        mode = self._mode(inbound)
        meeting = (
            first_meeting(self.config.home, tidy=self.tidy) if mode in _WHOLE and inbound.origin == "owner" else ""
        )
        usable = [skill for skill in self.library.skills.values() if not unmet(skill, self.here)]
        shown = usable if not meeting else []  # one thing at a time
        # by the usual ratio: a measured one moves, and a listing that comes and goes would change the system text
        listed = choose.fits(shown, prompt.BYTES_A_TOKEN)
        facts = self._facts(inbound, meeting, shown if listed else [], 0 if listed else len(shown))
        sections = prompt.sections(mode, facts, self.prompts)
        brought = choose.triggered(usable, inbound.text) if mode in _WHOLE else []
        blocks, problems = self._blocks(brought, earlier)
        brief = Brief(
            prompt.joined(sections),
            prompt.headed(self._head(now, acts, blocks), inbound.text),
            self._offered(brought, meeting=bool(meeting), search=not listed),
            next((skill.model for skill in brought if skill.model), ""),
        )
        problems += filter(None, [zone_of(self._fields("USER.md"))[1]])
        if mode == "coordinator" and "spawn" not in self.here.tools:
            problems.append("mode coordinator: there is no tool to call helpers with, so it is as full")
        return Told(brief, sections, [*self.pages.problems, *problems])

    def _mode(self, inbound: Inbound) -> Mode:
        mode = self.config.prompt.mode
        return "minimal" if inbound.origin == "cron" and mode in _WHOLE else mode

    def _facts(self, inbound: Inbound, meeting: str, skills: Sequence[Skill], many: int) -> Facts:
        config, tools, asked = self.config, self.here.tools, inbound.origin == "owner"
        zone, _ = zone_of(self._fields("USER.md"))
        return Facts(
            name=self._fields("IDENTITY.md").get("Name") or "picoclaw",
            first_run=meeting,
            tools=bool(tools),
            skills=choose.listing(skills) if "read_file" in tools else "",
            many_skills=many,
            memory="memory_search" in tools,
            citations=config.prompt.citations == "on" or (config.prompt.citations == "auto" and asked),
            workspace=str(config.workspace),
            owner=self._fields("USER.md").get("Name", ""),
            zone=str(zone or "the board's own zone"),
            session="" if inbound.session == DEFAULT_SESSION else inbound.session,
            extra=config.prompt.extra,
            pages=self._pages(PAGES),
            silent=not asked,
            heartbeat=self._heartbeat() if inbound.origin == "heartbeat" else "",
            leave_to_helpers=[name for name in LEFT_TO_HELPERS if name in tools] if "spawn" in tools else (),
            runtime={
                "board": self.board,
                "os": os.uname().sysname,
                "arch": os.uname().machine,
                "python": ".".join(map(str, sys.version_info[:3])),
                "model": config.model.name or "none",
            },
        )

    def _pages(self, names: Sequence[str]) -> list[Page]:
        limits = self.config.prompt
        pages = self.pages.pages(names)
        return prompt.within(pages, self.prompts["truncated"], limits.file_chars, limits.total_chars)

    def _heartbeat(self) -> str:
        return "\n".join(page.text for page in self._pages(["HEARTBEAT.md"]))

    def _fields(self, name: str) -> dict[str, str]:
        return fields("\n".join(page.text for page in self.pages.pages([name])))

    def _head(self, now: datetime, acts: Sequence[str], blocks: Sequence[str]) -> str:
        """The moment's facts, and the skills that the message calls for, within the same tag."""
        notes = [self.prompts["simulated"]] if self.simulated else []
        notes += [prompt.fill(self.prompts["cut_off"], {"act": act}, "act") for act in acts]
        return prompt.moment(self.prompts["moment"], now, notes, blocks)

    def _blocks(self, brought: Sequence[Skill], earlier: Sequence[tuple[Message, ...]]) -> tuple[list[str], list[str]]:
        """The skills' texts, but for those that the model has before it already, and why some cannot be read."""
        blocks, problems = [], []
        for skill in brought:
            try:
                text = self.library.text(skill.name)
            except SkillError as error:
                problems.append(str(error))
                continue
            path, most = f"skills/{skill.name}/SKILL.md", self.config.prompt.file_chars
            text = prompt.shortened(self.prompts["truncated"], path, text, most)
            block = prompt.block(self.prompts["skill"], skill.name, text)
            if not any(block in message.text for turn in earlier for message in turn if message.role == "user"):
                blocks.append(block)
        return blocks, problems

    def _offered(self, brought: Sequence[Skill], *, meeting: bool, search: bool) -> frozenset[str]:
        """The tools that make sense now; skills that name theirs bring no others."""
        away = {"skill_create", "skill_update"} if meeting else {"first_run"}
        offered = self.here.tools - away - (set() if search else {"skill_search"})
        theirs = frozenset(name for skill in brought for name in skill.tools) & offered
        if theirs and all(skill.tools for skill in brought):
            offered = theirs | offered & {"read_file", "first_run"}
        return offered
