"""What the page has to be told and may do: the door to everything that is not a browser."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from picoclaw.channels.channel import describe_outcome
from picoclaw.records import NamedTuple
from picoclaw.store.approvals import Approval

Point = tuple[float, float, float, float]
"""A moment in seconds since 1970; the lowest value, the mean and the highest around it."""


class SensorValue(NamedTuple):
    """What a sensor says now: `text` is the value with its unit, '' when there is none and `problem` says why.

    `at` is when it was measured, in seconds since 1970, 0 for unknown; `doubt` says why it may be wrong.
    """

    sensor: str
    quantity: str
    unit: str
    value: float | None
    text: str
    problem: str = ""
    doubt: str = ""
    at: float = 0.0


class OutputState(NamedTuple):
    """An output: `left` are the seconds until it goes to its safe level by itself, None when it is there.

    It may be away from that for `longest` seconds; a `graded` one takes percents, and one
    `for_rules` may be switched by rules.
    """

    name: str
    kind: str
    place: str
    level: str
    away: bool
    left: float | None
    armed: bool
    trouble: str = ""
    longest: float = 0.0
    graded: bool = False
    for_rules: bool = False


class OutputStates(NamedTuple):
    """The outputs; `stopped` says who has stopped them all, '' when nobody has."""

    rows: tuple[OutputState, ...] = ()
    stopped: str = ""
    problems: tuple[str, ...] = ()


class ListRow(NamedTuple):
    """A line of a list: a job, a rule, something that went wrong, a figure of the board.

    `command` is what is said in the chat to change it, behind "pause", "resume" or "remove", '' for nothing.
    """

    name: str
    text: str
    good: bool = True
    at: float = 0.0
    command: str = ""
    paused: bool = False


class Figure(NamedTuple):
    """A number for /metrics, with what it is."""

    name: str
    purpose: str
    labels: dict[str, str]
    value: float


class ChatEntry(NamedTuple):
    """Something of the conversation: `role` is "user", "assistant" or "outcome", `at` seconds since 1970."""

    role: str
    text: str
    at: float


class PageQuestion(NamedTuple):
    """A call that needs a yes: `id` is the sign of exactly this one, `call` the whole text, `chat` where it was asked.

    `means` says in plain words what it would do, '' where only the call does, and `summary` in a line of either. It
    ends unanswered at `until`, in seconds since 1970; `outcome` says how it has ended, '' while it is open.
    """

    number: int
    id: str
    call: str
    chat: str
    until: float
    means: str
    summary: str
    outcome: str = ""


def make_question(approval: Approval) -> PageQuestion:
    each = approval.each
    return PageQuestion(
        *(approval.number, approval.nonce, approval.shown, approval.chat, approval.expires),
        means="\n".join(one.plainly for one in each) if all(one.means for one in each) else "",
        summary="\n".join(one.shortly for one in each),
        outcome=describe_outcome(approval),
    )


class DashboardBackend(Protocol):
    """A running picoclaw, as the page needs it. Every method may be called from any thread; raises PicoclawError."""

    @property
    def name(self) -> str:
        """The board's name."""

    @property
    def mark(self) -> str:
        """What is said with the values of a simulated board, '' for a real one."""

    @property
    def zone(self) -> str:
        """The owner's time zone, such as "Europe/Berlin", '' when it is not known."""

    def view(self, person: str) -> "DashboardBackend":
        """The page as a member or guest of the household has it: the board, and of plans and notes their own alone."""

    def readings(self) -> list[SensorValue]:
        """Give what the sensors say; measures anew when the last time was more than a few seconds ago."""

    def history(self, sensor: str, quantity: str, begin: float, end: float, most: int) -> list[Point]:
        """Give what was measured between two moments, in no more points than `most`."""

    def outputs(self) -> OutputStates: ...

    def stop(self) -> str:
        """Bring every output to its safe level; without a model, the network or the database."""

    def off(self, name: str) -> str: ...

    def resume(self) -> str: ...

    def jobs(self) -> list[ListRow]: ...

    def rules(self) -> list[ListRow]: ...

    def agents(self, session: str) -> list[ListRow]:
        """Give the agents; `command` chooses one for a conversation, and is '' for the one that answers there."""

    def errors(self) -> list[ListRow]:
        """Give what has gone wrong lately, the newest first."""

    def facts(self) -> list[ListRow]: ...

    def said(self, session: str, most: int) -> list[ChatEntry]:
        """Give the end of a conversation, with what waits for its answer."""

    def outcomes(self, most: int) -> list[ChatEntry]:
        """Give how the last calls have ended that needed a yes, in whatever chat."""

    def questions(self) -> list[PageQuestion]:
        """Give the calls that wait for a yes, in whatever chat, behind those that have ended lately."""

    def notes(self, words: str) -> list[ListRow]:
        """Find notes, the best first: `name` is the file, `text` the lines that match."""

    def note(self, path: str) -> str: ...

    def list_household(self) -> Sequence[tuple[Any, ...]]:
        """Give the people, agents, links, teams and grants, and what their forms have: a TableForm for each of these."""

    def change_household(self, kind: str, act: str, key: str, values: Mapping[str, str], who: str) -> list[str]:
        """Add, edit or remove one of them, for a browser called `who`; returns what was done."""

    def figures(self) -> list[Figure]: ...

    def knows_date(self) -> bool: ...

    def find_message(self, key: str, externals: list[str]) -> int: ...

    def begin_conversation(self, key: str) -> None:
        """End the open conversation of a session, which is kept."""

    def troubles(self) -> list[str]:
        """Name what does not work, in a word or two each and without a secret; [] while everything does."""
