"""The table of contents: joins every part once, answers what comes in, takes everything apart again."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, partial
from types import ModuleType
from typing import TYPE_CHECKING

from picoclaw import prompt
from picoclaw.agent import Agent, Listener
from picoclaw.config import Config
from picoclaw.errors import PicoclawError, StoreDamaged, StoreError, StoreNewer
from picoclaw.hw import added, health, loader, parts
from picoclaw.hw.board import Board
from picoclaw.hw.reading import Wired
from picoclaw.messages import Caller, Inbound, Message, Notice, ToolCall, Turn, Usage
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
from picoclaw.tools.sensor_add import SensorAdd
from picoclaw.tools.sensors import Sensors
from picoclaw.tools.shell import Shell
from picoclaw.tools.toolset import Toolset
from picoclaw.workspace import Prompts, intent_tables, outputs_file

if TYPE_CHECKING:
    from picoclaw.reflex.outputs import Outputs
    from picoclaw.tools.switch import Switch

SIMULATED = "[simulated board, not real values]"
STOP_WORDS = {
    "stop",
    "please stop",
    "stop it",
    "stop now",
    "emergency stop",
    "stop everything",
    "stop all",
    "all off",
    "everything off",
}


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
    def drivers(self) -> parts.Drivers:
        """The drivers of tools/hw, and of the owner's own folders."""
        return parts.Drivers(self.board, self._chip)

    def _chip(self, part: str) -> ModuleType:
        return loader.chip(part, loader.folders(self.config.home))

    def _owned(self) -> dict[tuple[int, int], str]:
        """The declared outputs that are channels of a part on I2C, by bus and address."""
        return self.outputs.parts() if self.outputs else {}

    @cached_property
    def outputs(self) -> "Outputs | None":
        """The way to the keeper of the declared outputs, if there are any."""
        if not outputs_file(self.config.home).exists():
            return None
        from picoclaw.reflex.outputs import Outputs

        return Outputs(self.config.home, lambda: "sim" if self.board.simulated else "linux")

    @cached_property
    def toolset(self) -> Toolset:
        """The tools of this board and configuration; those of absent hardware are left out."""
        config, home = self.config, self.config.home
        wired = parts.wired(config, self.board)
        groups: list[object] = [
            Sensors(self.board, wired, self.drivers, str(home)),
            Files(config.workspace, config.tools.extra_folders),
            Recall(config.workspace),
            Reminders(lambda: self.jobs),
            Messages(),
        ]
        if config.tools.exec != "off":
            groups.append(Shell(config.workspace, os.environ))
        groups += self._buses(wired)
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
        if said := self.stop(inbound.text, inbound.origin):
            return _stopped(inbound, *said)
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

    def stop(self, text: str, who: str) -> tuple[bool, str] | None:
        """Stop the outputs if that is all that a text says: without a model, the network or the database.

        Every channel may ask this before anything else. Returns whether it went well and what to say.
        """
        if self.outputs is None or " ".join(text.lower().strip(" \t\r\n!.").split()) not in STOP_WORDS:
            return None
        try:
            return True, self.outputs.stop(who)
        except PicoclawError as error:
            return False, str(error)

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

    def leave(self) -> None:
        """End well: what was switched on may run to the end of its time. Without this it goes off with `close`."""
        if outputs := self.__dict__.get("outputs"):
            outputs.leave()

    def abandon(self) -> None:
        """End in a hurry: what was switched on goes off now."""
        if outputs := self.__dict__.get("outputs"):
            outputs.close()

    def close(self) -> None:
        """Take apart what was made, in the reverse order; may be called twice."""
        made = self.__dict__
        for name in ("provider", "outputs", "board", "database"):
            if made.get(name):
                made[name].close()

    def _buses(self, wired: dict[str, Wired]) -> Iterator[object]:
        """The tools of the buses that this board has; what is not there costs no memory and no word of the prompt."""
        where = loader.folders(self.config.home)
        board = self.board
        ports = [port for port in board.ports() if not port.used_by]
        if board.adapters() or board.spi_nodes() or ports:
            yield SensorAdd(board, wired, self.drivers, where, partial(added.keep, self.config.home), self._owned())
        if board.adapters():
            yield loader.load("i2c", where).I2C(board, parts.Addresses(wired, self._chip), owned=self._owned())
        if board.spi_nodes():
            yield loader.load("spi", where).Spi(board)
        if ports:
            yield loader.load("serial", where).Serial(board, {p.port for p in wired.values() if p.route == "serial"})
        if board.gpio_chips():
            yield loader.load("gpio", where).Gpio(board, self._switch())
        if self.outputs:
            from picoclaw.tools.outputs import Outputs as OutputTool

            yield OutputTool(self.outputs)

    def _switch(self) -> "Switch | None":
        if self.outputs is None:
            return None
        from picoclaw.tools.switch import Switch

        return Switch(self.outputs, self.board, self.config.home)

    def _journal(self, call: ToolCall, caller: Caller) -> None:
        self.history.begin_act(caller.session, call, caller.now)


def _stopped(inbound: Inbound, good: bool, said: str) -> Turn:  # noqa: FBT001
    messages = (Message("user", inbound.text), Message("assistant", said))
    notice = Notice("" if good else said, failed=not good)
    return Turn(said, messages, 0, (), Usage(), "" if good else "error", "stop", notice)


def _noted(turn: Turn, text: str, *, failed: bool = False) -> Turn:
    before = turn.notice
    joined = f"{before.text}; {text}" if before.text else text
    return turn._replace(notice=Notice(joined, before.failed or failed))


def clean(text: str) -> str:
    """Replace lone surrogates, which undecodable input leaves behind and no database or server takes."""
    return text.encode("utf-8", "replace").decode()
