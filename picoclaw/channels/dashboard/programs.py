"""What programs have at the page's port instead of a browser's cookie: a secret of their own, limits, and figures to draw.

A request that waits for an answer takes a thread of the server. Few may wait at a time, so that the page keeps the others.
"""

import threading
import time
from collections.abc import Callable, Iterable

from picoclaw.channels.dashboard.backend import Figure, SensorValue
from picoclaw.channels.dashboard.server import MAX_PENDING
from picoclaw.config import Config
from picoclaw.messages import REQUEST_SESSIONS, Event, Text, ToolRun, Turn, TurnHooks
from picoclaw.store.approvals import Approval
from picoclaw.store.inbox import InboxMessage

_SAY_AGAIN_S = 3600.0


class ProgramRequest:
    """A request that waits for the end of its turn; any thread may tell it what happens."""

    def __init__(self, key: str, external: str) -> None:
        self.key, self.external = key, external
        self.questions: list[Approval] = []
        self.turn: Turn | None = None
        self.reply, self.is_fine, self.is_over = "", False, False
        self._changed = threading.Condition()
        self._texts: list[str] = []
        self._last, self._said = "", False

    def listen(self, event: Event | ToolRun) -> None:
        """Hear what a turn says; between two steps begins a paragraph."""
        if isinstance(event, Text):
            self._add(event.text)
        elif isinstance(event, ToolRun):
            with self._changed:
                self._last = ""

    def say(self, text: str) -> None:
        """Add what comes ahead of the answer."""
        with self._changed:
            self._last = ""
        self._add(text)
        with self._changed:
            self._last = ""

    def _add(self, text: str) -> None:
        with self._changed:
            if self._said and not self._last:
                self._texts.append("\n\n")
            self._texts.append(text)
            self._last, self._said = self._last + text, True
            self._changed.notify_all()

    def end(self, turn: Turn | None, reply: str, *, is_fine: bool) -> None:
        """Tell the end; without a turn, picoclaw itself ends. What of the reply was not said yet is said now."""
        with self._changed:
            if self.is_over:
                return
            told, reply = self._last.strip(), reply.strip()
            rest = reply.removeprefix(told)
            if rest and self._said and not (told and reply.startswith(told)):
                rest = f"\n\n{rest}"
            self._texts.append(rest)
            self.turn, self.reply, self.is_fine, self.is_over = turn, reply, is_fine, True
            self._changed.notify_all()

    def take(self, seconds: float) -> str:
        """Wait until something more is said or it is over, for so long at most; returns what was said since."""
        with self._changed:
            self._changed.wait_for(lambda: self.is_over or bool(self._texts), seconds)
            found = "".join(self._texts)
            self._texts.clear()
            return found

    def wait_end(self, seconds: float) -> bool:
        """Wait for the end, for so long at most; tells whether it is there."""
        with self._changed:
            return self._changed.wait_for(lambda: self.is_over, seconds)


class Programs:
    """The hooks, whether the board is an OpenAI model, and who waits."""

    def __init__(
        self,
        config: Config,
        untrusted: str,
        note: Callable[[str], None],
        withdraw: Callable[[str, str], None],
        count_waiting: Callable[[str], int],
    ) -> None:
        """`untrusted` is the template around what others have sent, `note` writes a line of the log.

        `withdraw` takes back a message by session and number when nobody waits for its answer any more, and
        `count_waiting` tells how many of somebody's are not answered yet.
        """
        self.hooks, self.secrets, self.openai = config.hooks, config.hook_secrets, config.page.openai
        self.home, self.untrusted, self.withdraw, self.count_waiting = config.home, untrusted, withdraw, count_waiting
        self._note, self._lock = note, threading.Lock()
        self._open: list[ProgramRequest] = []
        self._complained: dict[str, tuple[float, int]] = {}

    @property
    def paths(self) -> tuple[str, ...]:
        """What the addresses begin with that programs may ask."""
        return (*(["/hooks/"] if self.hooks else []), *(["/v1/"] if self.openai else []))

    def open(self, key: str, external: str) -> ProgramRequest | None:
        """Begin to wait for the answer to a message, before it is posted; None where too many wait."""
        with self._lock:
            if len(self._open) >= MAX_PENDING:
                return None
            self._open.append(made := ProgramRequest(key, external))
            return made

    def close(self, pending: ProgramRequest) -> None:
        """Wait no more; may be called twice."""
        with self._lock:
            self._open = [one for one in self._open if one is not pending]

    def around(self, arrived: InboxMessage) -> TurnHooks:
        pending = self._find(arrived)
        return TurnHooks(pending.say, pending.listen, once=True) if pending else TurnHooks(once=True)

    def answered(self, arrived: InboxMessage, turn: Turn, reply: str, *, is_fine: bool) -> bool:
        """See Channel; the answer to a request that nobody waits for any more is told nobody."""
        if pending := self._find(arrived):
            pending.end(turn, reply, is_fine=is_fine)
        return arrived.key.startswith(REQUEST_SESSIONS)

    def changed(self, approval: Approval) -> None:
        """Show a question to the request whose turn asks it."""
        if approval.is_new:
            with self._lock:
                for pending in self._open:
                    if pending.key == approval.session:
                        pending.questions.append(approval)

    def end(self) -> None:
        """Send everybody away who waits."""
        with self._lock:
            waiting, self._open = self._open, []
        for pending in waiting:
            pending.end(None, "", is_fine=False)

    def complain(self, what: str, text: str) -> None:
        """Log a line about what programs do wrong, at most one an hour of each kind."""
        now = time.monotonic()
        with self._lock:
            until, more = self._complained.get(what, (0.0, 0))
            is_due = now >= until
            self._complained[what] = (now + _SAY_AGAIN_S, 0) if is_due else (until, more + 1)
        if is_due:
            self._note(f"{text}{f' ({more} more since that was last said)' if more else ''}")

    def _find(self, arrived: InboxMessage) -> ProgramRequest | None:
        with self._lock:
            return next((p for p in self._open if (p.key, p.external) == (arrived.key, arrived.external)), None)


# The figures of the board as OpenMetrics text: https://prometheus.io/docs/specs/om/open_metrics_spec/

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"


def format_metrics(readings: Iterable[SensorValue], figures: Iterable[Figure], now: float) -> str:
    """Write what the sensors say, and the figures; a sensor without a value has none here."""
    found = list(figures)
    for one in readings:
        labels = {"sensor": one.sensor, "quantity": one.quantity, "unit": one.unit}
        is_good = one.value is not None and not one.problem
        found.append(Figure("reading_valid", "1 while the sensor can be read", labels, float(is_good)))
        if one.value is not None:
            found.append(Figure("reading", "what the sensor says, in its unit", labels, one.value))
            if one.at:
                age = max(0.0, now - one.at)
                found.append(Figure("reading_age_seconds", "how old that is", labels, age))
    lines, last = [], ""
    for figure in sorted(found, key=lambda one: one.name):
        if figure.name != last:
            last = figure.name
            lines += [f"# TYPE picoclaw_{last} gauge", f"# HELP picoclaw_{last} {_escape(figure.purpose)}"]
        shown = ",".join(f'{name}="{_escape(text)}"' for name, text in figure.labels.items())
        lines.append(f"picoclaw_{figure.name}{f'{{{shown}}}' if shown else ''} {figure.value:.10g}")
    return "\n".join([*lines, "# EOF", ""])


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
