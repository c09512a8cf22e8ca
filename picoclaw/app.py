"""The table of contents: joins every part once, answers what comes in, takes everything apart again."""

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from picoclaw.agent import Agent, Listener
from picoclaw.briefing import Briefing
from picoclaw.chores import Chores
from picoclaw.config import HEARTBEAT_LIMITS, Config
from picoclaw.errors import StoreError
from picoclaw.heartbeat.check import OK, is_check
from picoclaw.hw import health
from picoclaw.hw.board import Board
from picoclaw.memory.dream.direct import Model
from picoclaw.memory.notes import notes
from picoclaw.messages import Caller, Inbound, Message, Notice, Stop, Turn, Usage
from picoclaw.providers import Provider
from picoclaw.skills.library import Library, tiers_of
from picoclaw.skills.skill import Here
from picoclaw.stores import Stores
from picoclaw.tools.files import Files
from picoclaw.tools.first_run import FirstRun
from picoclaw.tools.guard import Guard, Verdict
from picoclaw.tools.jobs import Reminders
from picoclaw.tools.message import Messages
from picoclaw.tools.pulse import PulseTool
from picoclaw.tools.recall import Recall
from picoclaw.tools.rules import Rules
from picoclaw.tools.sensor_history import SensorHistory
from picoclaw.tools.shell import Shell, passed_on
from picoclaw.tools.skills import SkillTools
from picoclaw.tools.toolset import Effect, Toolset
from picoclaw.wiring import Wiring
from picoclaw.workspace import Prompts, intent_tables
from picoclaw.workspace.pages import Pages
from picoclaw.workspace.seeds import MEETING, first_meeting, usual_meeting

if TYPE_CHECKING:
    from picoclaw.providers.intents import Intents

SIMULATED = "[simulated board, not real values]"


@dataclass
class App:
    """One running picoclaw. Parts that a verb does not use are not made.

    `ask` shows a person a call and returns their answer; in a rehearsal nobody is asked about the hardware.
    """

    config: Config
    board: Board
    ask: Callable[[str], bool] | None = None
    rehearses: bool = False
    complaints: set[str] = field(default_factory=set)

    @cached_property
    def prompts(self) -> Prompts:
        """The templates of what is said to a model."""
        return Prompts(self.config.workspace)

    @cached_property
    def stores(self) -> Stores:
        """What outlasts this process."""
        return Stores(self.config)

    @cached_property
    def wiring(self) -> Wiring:
        """The board and what hangs on it."""
        return Wiring(self.config, self.board)

    @cached_property
    def toolset(self) -> Toolset:
        """The tools of this board and configuration; those of absent hardware are left out."""
        config, home = self.config, self.config.home
        tiers = [folder for _, folder in tiers_of(home)]
        groups: list[object] = [
            self.wiring.sensors(),
            Files(
                config.workspace,
                config.tools.extra_folders,
                library=self.library,
                instructions=lambda: (config.workspace / "prompts", *tiers, *self._pages_of_rules()),
            ),
            Recall(config.workspace, self.stores.memory, past=config.memory.messages),
            Reminders(lambda: self.stores.jobs, lambda: self.toolset.effect, commands=config.tools.exec != "off"),
            PulseTool(lambda: self.stores.pulse),
            Messages(),
            SensorHistory(lambda: self.stores.samples),
            Rules(home, self.wiring.measured, lambda: str(self.briefing.zone() or "")),
            SkillTools(self.library, self.here, config.workspace),
            FirstRun(home),
        ]
        if config.tools.exec != "off":
            groups.append(Shell(config.workspace, os.environ))
        groups += self.wiring.buses()
        return Toolset(
            groups,
            guard=Guard(self._policy(), self.ask),
            journal=self.stores.begin_act,
            longest_result=config.limits.result_chars,
            secrets=(config.api_key, config.embedding_key, *_keys(os.environ)),
            wording=lambda name: self.prompts.get(f"tool_{name}"),
        )

    def _policy(self) -> dict[Effect, Verdict]:
        policy: dict[Effect, Verdict] = {"exec": "ask"} if self.config.tools.exec == "ask" else {}
        return policy | ({"actuate": "allow"} if self.rehearses else {})

    @cached_property
    def provider(self) -> Provider:
        """The configured model with the built-in matcher behind it, or the matcher alone."""
        if not self.config.model.base_url:
            return self._matcher()
        from picoclaw.providers.chain import Chain
        from picoclaw.providers.led import Led

        chain = Chain(self._model_server, self._matcher, self.config.model.retries)
        return Led(chain, self._matcher, self.led, lambda: self.prompts["invitation"])

    @cached_property
    def _model_server(self) -> Provider:
        from picoclaw.providers.openai import OpenAI

        return OpenAI(self.config.model, self.config.api_key)

    def led(self, turns: Sequence[Sequence[Message]]) -> bool:
        """Whether the matcher holds the first meeting, which the model has dropped; only the shipped ritual's."""
        from picoclaw.providers.led import dropped

        return bool(self.config.model.base_url) and dropped(turns) and usual_meeting(self.config.home)

    def _matcher(self) -> "Intents":
        from picoclaw.providers.intents import Intents

        tables = intent_tables(self.config.home)
        known = self.config.model.name or self.config.model.shown_url
        opened = self.toolset.opened
        return Intents(list(tables.values()), configured_model=known, sources=list(tables), opened=opened)

    @cached_property
    def agent(self) -> Agent:
        """The loop with everything it needs."""
        model = self.config.model
        return Agent(
            self.provider,
            self.toolset,
            self.prompts,
            self.config.limits,
            model.context_tokens,
            model.answer_tokens,
            writes=self.toolset.writes,
        )

    @cached_property
    def light_agent(self) -> Agent:
        """The loop for a heartbeat: tight limits, and no matcher, which would take a line of the list for a wish."""
        limits = replace(HEARTBEAT_LIMITS, result_chars=self.config.limits.result_chars)
        return replace(self.agent, provider=self._model_server, limits=limits)

    def _pages_of_rules(self) -> list[Path]:
        """The pages that say what the agent is and does; while the first meeting is open it may write them itself."""
        names = ("AGENTS.md", "SOUL.md", "TOOLS.md", "IDENTITY.md") if not first_meeting(self.config.home) else ()
        return [self.config.workspace / name for name in (*names, MEETING)]

    @cached_property
    def library(self) -> Library:
        """The skills; their front matter is kept in a file, so that a start reads none that has not changed."""
        home = self.config.home
        library = Library(tiers_of(home), home / "skills.cache" if home.is_dir() else None)
        library.look()
        return library

    def here(self) -> Here:
        """What skills may need of this machine, as it is now; its parts are only looked for where a skill asks."""
        asked = any(skill.needs.parts for skill in self.library.skills.values())
        parts = self.wiring.parts() if asked else frozenset[str]()
        return Here(self.toolset.names, parts, passed_on(os.environ))

    @cached_property
    def briefing(self) -> Briefing:
        """What a model is told at the beginning of a turn."""
        return Briefing(
            self.config,
            self.prompts,
            Pages(self.config.home),
            self.library,
            self.here,
            health.model(self.board),
            self.board.simulated,
            partial(notes.recent, self.config.workspace),
            self.stores.tasks,
            lambda: self.stores.overlong(self.library.skills.values()),
            led=self.led,
        )

    def now(self) -> datetime:
        """The time, in the owner's zone where it is known, else in the board's."""
        return datetime.now().astimezone(self.briefing.zone())

    def answer(
        self,
        inbound: Inbound,
        say: Callable[[str], None],
        listen: Listener = lambda _: None,
        shield: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> Turn:
        """Answer one message and keep the turn; what is returned is durable, or its notice says that it is not.

        `say` delivers messages that come ahead of the answer, `listen` hears what happens, `shield` holds off
        interruptions while the turn is being kept.
        """
        well = (True, OK) if inbound.origin == "owner" and is_check(inbound.text) else None
        if said := self.wiring.stop(inbound.text, inbound.origin) or well:
            return _stopped(inbound, *said)
        now = self.now()
        earlier, acts = self.stores.earlier(inbound.session)
        agent = self.agent
        if inbound.origin == "heartbeat":
            earlier, agent = [], self.light_agent
        words = (message.text for turn in earlier for message in turn if message.role == "user")
        caller = Caller(inbound.session, inbound.origin, now, say, said=(*words, inbound.text))
        told = self.briefing.told(inbound._replace(text=clean(inbound.text)), earlier, [act for _, act in acts], now)
        model = self._model(told.brief.model)
        brief = told.brief._replace(bytes_a_token=self.stores.bytes_a_token(model))
        turn = agent.turn(brief, earlier, caller, listen)
        if turn.usage.total:  # the matcher counts nothing
            self.stores.heard()
        try:
            with shield():
                numbers = [number for number, _ in acts]
                doubt = self.stores.history.keep(inbound.session, turn, now, numbers, model)
        except StoreError as error:
            turn = _noted(turn, f"this turn could not be kept: {error}", failed=True)
        else:
            turn = _noted(turn, *self._news([doubt, *told.problems]))
        self.stores.answered(inbound)
        for _, act in acts:
            turn = _noted(turn, f"a call of an earlier turn was cut off, its outcome is unknown: {act}")
        return turn

    def _model(self, name: str) -> str:
        return name or self.config.model.name or "default"

    def _news(self, notes: Iterable[str]) -> list[str]:
        """What has not been said by this process; a chat that repeats a complaint every turn is no help."""
        news = [note for note in dict.fromkeys(notes) if note and note not in self.complaints]
        self.complaints.update(news)
        return news

    def chores(self, stop: Stop | None = None) -> Chores:
        """What is done unasked in this home, until `stop` says that somebody waits for the model."""
        window, stores = self.config.model.context_tokens, self.stores
        return Chores(
            self.config,
            self.prompts,
            lambda: stores.database,
            lambda: stores.memory,
            self.library.skills.values,
            (lambda: Model(self.provider, window, time.monotonic, stop)) if self.config.model.base_url else None,
        )

    def close(self) -> None:
        """Take apart what was made, in the reverse order; may be called twice."""
        self.wiring.close()
        self.let_go()

    def let_go(self) -> None:
        """Close what is this app's own, and leave the board to the one who shares it."""
        for part in (self.__dict__.get("provider"), self.__dict__.get("stores")):
            if part:
                part.close()


def _keys(environment: Mapping[str, str]) -> list[str]:
    return [value for name, value in environment.items() if name.endswith("_API_KEY")]


def _stopped(inbound: Inbound, good: bool, said: str) -> Turn:  # noqa: FBT001
    messages = (Message("user", inbound.text), Message("assistant", said))
    notice = Notice("" if good else said, failed=not good)
    return Turn(said, messages, 0, (), Usage(), "" if good else "error", "stop", notice)


def _noted(turn: Turn, *texts: str, failed: bool = False) -> Turn:
    before = turn.notice
    return turn._replace(notice=Notice("; ".join(filter(None, [before.text, *texts])), before.failed or failed))


def clean(text: str) -> str:
    """Replace lone surrogates, which undecodable input leaves behind and no database or server takes."""
    return text.encode("utf-8", "replace").decode()
