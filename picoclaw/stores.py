"""What outlasts the process: the database, the memory, and what they hold. Opened when it is first used."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from functools import cached_property, partial
from typing import TYPE_CHECKING

from picoclaw.automation.clock import wake_all
from picoclaw.config import Config
from picoclaw.config.files import list_stored_secrets as credentials_list_secrets
from picoclaw.errors import ConfigError, StoreDamaged, StoreError, StoreNewer
from picoclaw.messages import Caller, Inbound, Message, Origin, ToolCall, Turn, has_reader, is_other_person, is_owner
from picoclaw.prompts import BYTES_A_TOKEN, split_window
from picoclaw.records import NamedTuple, dataclass, field, replace
from picoclaw.security.redaction import Redactor
from picoclaw.security.untrusted import GUEST_PREFIX, limit_taints, strip_invisible
from picoclaw.security.untrusted import sanitize_name as plain_name
from picoclaw.store.conversations import UNREAD_TAINT, History, Results, TurnWriteBehind, find_summary
from picoclaw.store.database import LAST_CHAT_MARK, Database, Marks
from picoclaw.store.ledger import Ledger, TokenCalibration

if TYPE_CHECKING:
    from picoclaw.memory import notes
    from picoclaw.memory.embedding import Embedder
    from picoclaw.memory.memory import MemoryIndex
    from picoclaw.providers.spending import UsageLedger
    from picoclaw.skills import Skill
    from picoclaw.store.approvals import Approvals
    from picoclaw.store.inbox_outbox import ForeignFiles
    from picoclaw.store.jobs import Jobs
    from picoclaw.store.people import ContextFiles
    from picoclaw.store.pulse import Pulse
    from picoclaw.store.samples import Samples
    from picoclaw.store.sessions import Sessions


def list_secrets(config: Config, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Collect the secrets of a home: what no result, log or answer may show."""
    used = (
        *(config.api_key, config.embedding_key, config.telegram_token, config.matrix_token, config.brave_key),
        *(config.mqtt_password, config.metrics_token, config.mcp_token),
        *(config.store_password, *re.findall(r"://[^:/@]*:([^@]*)@", config.store.url)),
        *config.model_keys.values(),
        *config.notify_tokens.values(),
        *config.mcp_tokens.values(),
        *config.hook_secrets.values(),
        *(one.url.partition("://")[2].partition("/")[2] for one in config.notify.values()),
        *(environment.get(name, "") for name in config.tools.environment),
    )
    if config.mcp:
        from picoclaw.mcp.pins import list_login_secrets

        used += list_login_secrets(config.home)
    try:
        return *used, *credentials_list_secrets(config.home, environment)
    except ConfigError:  # a file that was changed since it was read; those in use are known all the same
        return used


class PastTurns(NamedTuple):
    """What came before a turn: the turns that a model still sees, what of a chat was cut off, what was said before.

    `numbers` are those of the turns.
    """

    turns: list[tuple[Message, ...]]
    acts: list[tuple[int, str]]
    summary: str = ""
    numbers: tuple[int, ...] = ()


@dataclass
class Stores:
    """The stores of one home, or of a view of it: that has its own memory, and all else is the home's, its `root`'s."""

    config: Config
    now: Callable[[], datetime] = lambda: datetime.now().astimezone()
    root: Stores | None = None
    _long: list[notes.OverlongPart] | None = field(default=None, init=False)

    @cached_property
    def database(self) -> Database:
        return self.root.database if self.root else Database(self.config.home / "state.db")

    @cached_property
    def redact(self) -> Redactor:
        """What takes secrets out of texts: those of this home, and what looks like one."""
        return Redactor(list_secrets(self.config, os.environ))

    @cached_property
    def history(self) -> History:
        if self.root:
            return self.root.history
        history = History(self.database)
        history.along = lambda transaction: self.ledger.along(transaction) if "ledger" in self.__dict__ else transaction
        return history

    @cached_property
    def write_behind(self) -> TurnWriteBehind:
        """The turns that the disk did not take."""
        if self.root:
            return self.root.write_behind
        return TurnWriteBehind(self.config.home, lambda: self.history)

    @cached_property
    def sessions(self) -> Sessions:
        from picoclaw.store.sessions import Sessions

        return Sessions(self.database)

    @cached_property
    def accounts(self) -> Ledger:
        return Ledger(lambda: self.database)

    @cached_property
    def approvals(self) -> Approvals:
        from picoclaw.store.approvals import Approvals

        return Approvals(self.database)

    @cached_property
    def foreign_files(self) -> ForeignFiles:
        """The files that were written after others' words were read."""
        from picoclaw.store.inbox_outbox import ForeignFiles

        return ForeignFiles(self.database)

    @cached_property
    def context_files(self) -> ContextFiles:
        """The pages that are people's own."""
        from picoclaw.store.people import ContextFiles

        return ContextFiles(self.database)

    @cached_property
    def results(self) -> Results:
        return Results(self.database)

    @cached_property
    def jobs(self) -> Jobs:
        from picoclaw.store.jobs import Jobs

        return Jobs(self.database)

    @cached_property
    def pulse(self) -> Pulse:
        from picoclaw.store.pulse import Pulse

        return Pulse(self.database)

    @cached_property
    def history_database(self) -> Database:
        if self.root:
            return self.root.history_database
        from picoclaw.store import database

        return Database(self.config.home / database.HISTORY_FILE, database.HISTORY_MIGRATIONS)

    @cached_property
    def samples(self) -> Samples:
        from picoclaw.store.samples import Samples

        return Samples(self.history_database)

    @cached_property
    def memory(self) -> MemoryIndex:
        from picoclaw.memory.memory import MemoryIndex, list_past_turns

        past = (lambda: list_past_turns(self.history)) if self.config.memory.messages else tuple
        config = self.config
        place = config.folder, config.workspace
        return MemoryIndex(*place, self._embedder, past, config.memory.min_score, config.shared_folder)

    def _embedder(self) -> Embedder | None:
        """What gives texts their vectors, one for all views of a home; None leaves the words. Raises ProviderError."""
        if self.root:
            return self.root.memory.get_embedder()
        from picoclaw.memory.embedding import RemoteEmbedder, make_embedder

        embedder = make_embedder(self.config)
        if isinstance(embedder, RemoteEmbedder):
            embedder.record = self.ledger.record_vectors
        return embedder

    @cached_property
    def ledger(self) -> UsageLedger:
        """Where requests to models are entered; what is to be corrected is kept with a turn."""
        from picoclaw.providers.spending import UsageLedger

        config, accounts = self.config, self.accounts
        if self.root:
            accounts = self.root.ledger.accounts  # its turns keep the corrections of all
        ring = partial(wake_all, config.home)
        caps = {
            key: replace(config.costs, day_tokens=agent.day_tokens, day_money=agent.day_money)
            for key, agent in config.agents.items()
            if agent.day_tokens or agent.day_money
        }
        return UsageLedger(accounts, config.costs, self.now, ring, agent=config.agent, person=config.person, caps=caps)

    def load_history(self, session: str) -> PastTurns:
        """What came before; nothing when the disk fails, because an answer is worth more than its history.

        A summary that another process adds meanwhile says again what is in the turns, and leaves nothing out.
        """
        unsaved = self.write_behind.turns(session)
        try:
            turns, summary = self.history.numbered(session), find_summary(self.database, session)
            acts, said = self.history.unknown_acts(session), summary.text if summary else ""
        except (StoreDamaged, StoreNewer):
            raise
        except StoreError:
            return PastTurns(unsaved, [], numbers=(0,) * len(unsaved))
        numbers = (*turns, *[max(turns, default=0)] * len(unsaved))
        return PastTurns([*turns.values(), *unsaved], acts, said, numbers)

    def bytes_a_token(self, model: str) -> float:
        """The ratio that tokens are estimated by: what the server's counts say of the model, or the usual one."""
        try:
            return TokenCalibration(self.database).bytes_a_token(model)
        except StoreError:
            return BYTES_A_TOKEN

    def list_taints(self, session: str, origin: Origin) -> frozenset[str]:
        """Name the untrusted sources that a turn begins with: what its conversation has read, what others have said.

        A heartbeat has no conversation. What cannot be known counts as read.
        """
        if origin == "heartbeat":
            return frozenset()
        try:
            found = self.history.heard(session) | self.write_behind.heard(session)
        except (StoreError, ValueError):
            return frozenset({UNREAD_TAINT})
        return frozenset(name for name in found if not is_other_person(origin) or not name.startswith(GUEST_PREFIX))

    def find_shared_turns(self, session: str, who: str) -> frozenset[int] | None:
        """Number the turns of a conversation that others than `who` have asked for; None where it may be any of them."""
        try:
            if self.write_behind.has_turns_of_others(session, who):
                return None
            return frozenset(self.history.list_turns_of_others(session, who))
        except StoreError:
            return None

    def redact_turn(self, turn: Turn, taints: Iterable[str], inbound: Inbound) -> Turn:
        """Take the secrets out of a turn that is to be kept and told, and name what it rests on."""
        others = [f"{GUEST_PREFIX}{plain_name(inbound.who)}"] if is_other_person(inbound.origin) else []
        messages = []
        for message in turn.messages:  # thoughts and pictures belong to the turn alone
            text = self.redact.redact_message(message.text) if message.role == "user" else self.redact(message.text)
            calls = tuple(replace(call, arguments=self.redact.values(call.arguments)) for call in message.calls)
            messages.append(Message(message.role, text, calls, message.call_id))
        notice = turn.notice._replace(text=self.redact(strip_invisible(turn.notice.text)))
        reply, names = self.redact(turn.reply), limit_taints([*taints, *others])
        return turn._replace(reply=reply, messages=tuple(messages), notice=notice, taints=names)

    def begin_act(self, call: ToolCall, caller: Caller) -> None:
        """Write down a call that is about to change something; durable when this returns. Raises StoreError."""
        plain = replace(call, arguments=self.redact.values(call.arguments))
        self.history.begin_act(caller.session, plain, caller.now)

    def settle(self, session: str) -> None:
        """Cross off the acts of this process that were not part of a turn, as far as the disk lets us."""
        if "history" in self.__dict__:
            with suppress(StoreError):
                self.history.settle(session)
        self.ring()

    def record_answer(self, inbound: Inbound) -> None:
        """Note which chat the owner uses, as far as the disk lets us, and wake the scheduler if there is reason to."""
        if is_owner(inbound.origin) and has_reader(inbound.session):
            with suppress(StoreError):
                Marks(self.database).set(LAST_CHAT_MARK, inbound.session)
        self.ring()

    def ring(self) -> None:
        """Wake the scheduler of this home, if reminders may have changed."""
        if "jobs" in self.__dict__:
            wake_all(self.config.home)

    def tasks(self) -> tuple[str, datetime | None]:
        """The open tasks as the model is shown them, and when the list changed; nothing when the disk fails."""
        if not (self.config.home / "state.db").exists():
            return "", None
        try:
            most = min(self.config.memory.pulse_chars, split_window(self.config.model.context_tokens).head)
            return self.pulse.shown(most), self.pulse.changed()
        except StoreError:
            return "", None

    def overlong(self, skills: Iterable[Skill]) -> list[str]:
        """What has grown too long since a model heard of it; nothing when the disk fails."""
        from picoclaw.memory import notes

        try:
            self._long = notes.find_overlong(self.config.workspace, self.pulse, skills)
            return [str(part) for part in notes.find_new_overlong(self._long, Marks(self.database))]
        except StoreError:
            return []

    def record_overlong_told(self) -> None:
        """Remember that a model was told what is too long, if that was looked at, as far as the disk lets us."""
        from picoclaw.memory import notes

        if self._long is not None:
            with suppress(StoreError):
                notes.mark_overlong(self._long, Marks(self.database))
        self._long = None

    def close(self) -> None:
        """Close what was opened, once unsaved turns are kept if the disk takes them; may be called twice."""
        if self.root:
            if part := self.__dict__.get("memory"):
                part.close()
            return
        with suppress(StoreError):
            self.write_behind.settle()
        if "ledger" in self.__dict__:
            self.ledger.settle()
        for name in ("memory", "history_database", "database"):
            if part := self.__dict__.get(name):
                part.close()
