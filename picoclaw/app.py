"""The table of contents: joins every part once, answers what comes in, takes everything apart again."""

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from picoclaw import prompt
from picoclaw.agent import Agent, Listener
from picoclaw.config import Config
from picoclaw.errors import ConfigError, StoreDamaged, StoreError, StoreNewer
from picoclaw.hw import health, kernel, loader, parts
from picoclaw.hw.board import Board, Wired
from picoclaw.hw.linux import LinuxBoard
from picoclaw.messages import Caller, Inbound, Message, Notice, ToolCall, Turn
from picoclaw.providers import Fallback, Provider
from picoclaw.reflex.bell import ring
from picoclaw.store.database import Database
from picoclaw.store.history import History
from picoclaw.store.jobs import Jobs
from picoclaw.tools.files import Files
from picoclaw.tools.guard import Guard
from picoclaw.tools.jobs import Reminders
from picoclaw.tools.message import Messages
from picoclaw.tools.recall import Recall
from picoclaw.tools.sensors import Sensors
from picoclaw.tools.shell import Shell
from picoclaw.tools.toolset import Toolset
from picoclaw.workspace import Prompts, intent_tables

SIMULATED = "[simulated board, not real values]"


@dataclass
class App:
    """One running picoclaw. Parts that a verb does not use are not made."""

    config: Config
    board: Board
    ask: Callable[[str], bool] | None = None

    @cached_property
    def prompts(self) -> Prompts:
        """The templates of what is said to a model."""
        return Prompts(self.config.home)

    @cached_property
    def database(self) -> Database:
        """The open `state.db`."""
        return Database(self.config.home / "state.db")

    @cached_property
    def history(self) -> History:
        """The conversations."""
        return History(self.database)

    @cached_property
    def jobs(self) -> Jobs:
        """The reminders."""
        return Jobs(self.database)

    @cached_property
    def toolset(self) -> Toolset:
        """The tools of this board and configuration; those of absent hardware are left out."""
        config, home = self.config, self.config.home
        wired = self._wired()
        groups: list[object] = [
            Sensors(self.board, wired, lambda part: loader.chip(part, loader.folders(home)).read, str(home)),
            Files(config.workspace, config.tools.extra_folders),
            Recall(config.workspace),
            Reminders(lambda: self.jobs),
            Messages(),
        ]
        if config.tools.exec != "off":
            groups.append(Shell(config.workspace, os.environ))
        if self.board.adapters():
            known = {(part.bus, part.address) for part in wired.values()}
            groups.append(loader.load("i2c", loader.folders(home)).I2C(self.board, known))
        return Toolset(
            groups,
            guard=Guard({"exec": "ask"} if config.tools.exec == "ask" else {}, self.ask),
            journal=self._journal,
            longest_result=config.limits.result_chars,
            secrets=(config.api_key, *(value for name, value in os.environ.items() if name.endswith("_API_KEY"))),
        )

    @cached_property
    def provider(self) -> Provider:
        """The configured model with the built-in matcher behind it, or the matcher alone."""
        model = self.config.model
        if not model.base_url:
            return self._matcher()
        from picoclaw.providers.chain import Chain
        from picoclaw.providers.openai import OpenAI

        return Chain(OpenAI(model, self.config.api_key), self._matcher, model.retries)

    def _matcher(self) -> Fallback:
        from picoclaw.providers.intents import Intents

        tables = intent_tables(self.config.home)
        known = self.config.model.name or self.config.model.shown_url
        return Intents(list(tables.values()), configured_model=known, sources=list(tables))

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
        )

    @cached_property
    def system(self) -> str:
        """The system text: the same bytes every turn, until a file changes."""
        return prompt.fill(self.prompts["system"], {"board": health.model(self.board)})

    def composed(self, text: str, now: datetime, acts: list[str]) -> str:
        """Put the head with the moment's facts before the user's words."""
        notes = [self.prompts["simulated"]] if self.board.simulated else []
        notes += [prompt.fill(self.prompts["cut_off"], {"act": act}) for act in acts]
        return prompt.headed(prompt.moment(self.prompts["moment"], now, notes), text)

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
        now = datetime.now().astimezone()
        caller = Caller(inbound.session, inbound.origin, now, say)
        earlier, acts = self._earlier(inbound.session)
        text = self.composed(clean(inbound.text), now, [act for _, act in acts])
        turn = self.agent.turn(self.system, earlier, text, caller, listen)
        try:
            with shield():
                self.history.keep(inbound.session, turn, now, [number for number, _ in acts])
        except StoreError as error:
            turn = _noted(turn, f"this turn could not be kept: {error}", failed=True)
        self._ring()
        for _, act in acts:
            turn = _noted(turn, f"a call of an earlier turn was cut off, its outcome is unknown: {act}")
        return turn

    def settle(self, session: str) -> None:
        """Cross off the acts of this process that were not part of a turn, as far as the disk lets us."""
        if "history" in self.__dict__:
            with suppress(StoreError):
                self.history.settle(session)
        self._ring()

    def _ring(self) -> None:
        """Wake the clockwork of this home, if reminders may have changed."""
        if "jobs" in self.__dict__:
            ring(self.config.home)

    def _earlier(self, session: str) -> tuple[list[tuple[Message, ...]], list[tuple[int, str]]]:
        """What came before; nothing when the disk fails, because an answer is worth more than its history."""
        try:
            return self.history.turns(session), self.history.unknown_acts(session)
        except (StoreDamaged, StoreNewer):
            raise
        except StoreError:
            return [], []

    def close(self) -> None:
        """Take apart what was made, in the reverse order; may be called twice."""
        made = self.__dict__
        for name in ("provider", "board", "database"):
            if name in made:
                made[name].close()

    def _journal(self, call: ToolCall, caller: Caller) -> None:
        self.history.begin_act(caller.session, call, caller.now)

    def _wired(self) -> Mapping[str, Wired]:
        """The parts that the board knows of and those that the owner names, which win."""
        where = loader.folders(self.config.home)
        wired = dict(self.board.wired())
        for name, sensor in self.config.sensors.items():
            try:
                wired[name] = parts.wire(sensor, where)
            except ConfigError as error:
                raise ConfigError(f"{self.config.home / 'config.toml'}: [sensors.{name}]: {error}") from None
        return wired


def choose_board(kind: str, config: Config) -> Board:
    """Open the real board, or the simulated one if asked for or if there is nothing real to read.

    `kind` is 'auto', 'linux' or 'sim'.
    """
    board = LinuxBoard()
    if kind != "sim" and (kind == "linux" or config.sensors or board.adapters() or kernel.sensors(board)):
        return board
    from picoclaw.hw.sim import SimBoard

    return SimBoard()


def _noted(turn: Turn, text: str, *, failed: bool = False) -> Turn:
    before = turn.notice
    joined = f"{before.text}; {text}" if before.text else text
    return turn._replace(notice=Notice(joined, before.failed or failed))


def clean(text: str) -> str:
    """Replace lone surrogates, which undecodable input leaves behind and no database or server takes."""
    return text.encode("utf-8", "replace").decode()


def as_json(app: App, turn: Turn, reply: str) -> dict[str, Any]:
    """Describe a turn for programs."""
    return {
        "reply": reply,
        "turn": {
            "steps": turn.steps,
            "tools": [
                {"name": r.name, "arguments": r.arguments, "result": r.result, "ms": round(r.ms, 3)} for r in turn.tools
            ],
            "usage": {
                "prompt_tokens": turn.usage.prompt_tokens,
                "completion_tokens": turn.usage.completion_tokens,
            },
            "stopped": turn.stopped,
        },
        "provider": turn.provider,
        "simulated": app.board.simulated,
    }
