"""Compaction: when the older part of a conversation is summarised, by which model, and what is kept of it."""

import json
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import accumulate
from typing import Literal

from picoclaw.agent.context import AgentApp
from picoclaw.errors import ContextOverflow, PicoclawError, ProviderError, Refused, StoreError, TurnStopped, Unavailable
from picoclaw.memory.dream import DreamModel
from picoclaw.memory.versions import FactSource, gather_source, is_supported, list_entries, list_lost
from picoclaw.messages import (
    Caller,
    Inbound,
    Message,
    Purpose,
    Stop,
    ToolCall,
    TurnContext,
    TurnHooks,
    Usage,
    split_context,
)
from picoclaw.prompts import (
    Templates,
    count_bytes,
    count_request_bytes,
    cut_bytes,
    escape_closing,
    estimate_tokens,
    fill_template,
    get_summary_bytes,
)
from picoclaw.providers.sanitize import LONG_RESULT
from picoclaw.records import NamedTuple, dataclass, field, replace
from picoclaw.security.untrusted import GUEST_PREFIX, remove_untrusted
from picoclaw.store.database import Marks
from picoclaw.text import list_terms, pattern

KEPT_MESSAGES = 4
"""The newest messages stay as they are, with the rest of their turn."""

_RESERVE, _LARGE = 24_000, 48_000
_SOFT_SHARE, _LEAST_SHARE = 0.5, 0.25
_MAX_PAUSE_TURNS = 16  # turns

CompactionReason = Literal["", "messages", "window"]
NumberedTurns = Sequence[tuple[int, tuple[Message, ...]]]


class OpenConversation(NamedTuple):
    """An open conversation: the turns that no summary holds, and the summary of those before, up to the turn `upto`.

    Of the turns, the newest `shown` are those that a model still sees.
    """

    turns: NumberedTurns
    shown: int
    summary: str = ""
    upto: int = 0

    @property
    def numbered(self) -> NumberedTurns:
        return self.turns[len(self.turns) - self.shown :]

    @property
    def visible(self) -> list[tuple[Message, ...]]:
        return [messages for _, messages in self.numbered]

    @property
    def left_out(self) -> int:
        return len(self.turns) - self.shown

    @property
    def older(self) -> NumberedTurns:
        """The turns to summarise: those left out, and all but the newest messages."""
        kept, first = 0, len(self.turns)
        while first > self.left_out and kept < KEPT_MESSAGES:
            first -= 1
            kept += len(self.turns[first][1])
        return self.turns[:first]


class WindowLoad(NamedTuple):
    """What the next request takes of a window, in tokens: the turns in `talk`, and what is `fixed` beside them."""

    talk: int
    fixed: int
    window: int

    def passes(self, threshold: float) -> bool:
        """Tell whether a request is longer than so many tokens, and the turns have a part in that.

        Where system text, tools and summary fill a small window, another summary after each turn would not help.
        """
        return self.talk > max(threshold - self.fixed, self.window * _LEAST_SHARE)


def can_be_long(load: WindowLoad) -> bool:
    """Tell whether a conversation can be due because of the window, whatever is beside it."""
    return load._replace(fixed=load.window).passes(load.window)


def get_compaction_reason(
    held: OpenConversation, load: WindowLoad, most_messages: int, share: float
) -> CompactionReason:
    """Say why the older part is to be summarised, '' when it is not; `share` is that of the window."""
    if not held.older:
        return ""
    if held.left_out or load.passes(load.window * share):
        return "window"
    messages = sum(len(turn) for turn in held.visible)
    return "messages" if 0 < most_messages < messages else ""


def is_near_limit(load: WindowLoad) -> bool:
    """Tell whether there is little room left, so that what must outlast the conversation is written down."""
    return load.passes(load.window - _RESERVE if load.window >= _LARGE else load.window * _SOFT_SHARE)


# The turn before a summary, in which a model may write down what must outlast the conversation. It is asked as in the
# chat, with the same words and tools before it, so that a server knows most of the request already. It may call few
# tools, and nothing of the turn is kept.

FLUSH_TOOLS = frozenset(
    {
        *("memory_store", "memory_search", "memory_get", "memory_update"),
        *("read_file", "write_file", "edit_file", "list_dir"),
    }
)
FLUSH_STEPS, FLUSH_SECONDS = 5, 90.0
_ELLIPSIS = "[…]"


def select_owner_turns(turns: Iterable[tuple[Sequence[Message], Sequence[str]]]) -> list[tuple[Message, ...]]:
    """Leave in turns what may be noted without asking the owner: of those that have read untrusted text, theirs.

    Each turn comes with what it has read. After a guest has spoken it is not known who said what, so the rest is left
    out.
    """
    found: list[tuple[Message, ...]] = []
    for messages, heard in turns:
        if any(name.startswith(GUEST_PREFIX) for name in heard):
            break
        if heard:
            said = "\n".join(
                remove_untrusted(split_context(message.text)[1]) for message in messages if message.role == "user"
            ).strip()
            found.append((Message("user", said or _ELLIPSIS), Message("assistant", _ELLIPSIS)))
        else:
            found.append(tuple(messages))
    return found


# What a summary consists of: lines, in order of time. Those that are there stay as they are, and a model only adds to them.
# What it adds is held against what was said, and what it leaves out is added in the user's words. Pure.

_SENTENCE = pattern(r"(?<=[.!?;])\s+|\s*\n\s*")
_LONGEST_EXCUSE, _SHARED = 300, 0.1
_MIN_KNOWN_SHARE, _MIN_WORDS, _LONGEST_STATEMENT = 0.34, 3, 240
_LEAD = pattern(r"\A(?:(?:no|yes|ok(?:ay)?|well|by the way)\b[,:]?\s+)+", re.IGNORECASE)
_NOTHING_NEW = pattern(r"\W*(?:there is )?nothing new\b", re.IGNORECASE)
_NO_FACT = pattern(
    r"\W*(?:(?:please|ok(?:ay)?|yes|no|and|so|now|then|well|could you|can you|would you) )*(?:tell|show|give|turn|switch|set|open|read"
    r"|list|print|explain|write|remind|wake|stop|start|try|check|measure|search|find|look|thanks?|thank you|good|hello|hi"
    r"|what|where|when|who|why|which|how|is|are|do|does|did|can|could|would|will|should|i see|i think so)\b",
    re.IGNORECASE,
)
"""How a sentence begins that asks or orders, and says nothing that has to be known later."""


def list_statements(turns: Iterable[Sequence[Message]]) -> list[str]:
    """The sentences in which the user has told something."""
    said = [split_context(m.text)[1] for turn in turns for m in turn if m.role == "user"]
    sentences = [_LEAD.sub("", one.strip()) for text in said for one in _SENTENCE.split(remove_untrusted(text))]
    return [
        one
        for one in dict.fromkeys(sentences)
        if not one.endswith("?")
        and len(one) <= _LONGEST_STATEMENT
        and len(list_terms(one)) >= _MIN_WORDS
        and not _NO_FACT.match(one)
    ]


def select_lines(text: str, known: FactSource) -> list[str]:
    """The lines of a model's answer that say what was said: no other number, and hardly any other word.

    An answer in another language than the conversation is held against its numbers alone.
    """
    lines = [line for line in list_entries(text) if not _NOTHING_NEW.match(line)]
    is_same_language = is_supported(" ".join(lines), known, _MIN_KNOWN_SHARE, numbers=False)
    return [line for line in lines if is_supported(line, known, _MIN_KNOWN_SHARE if is_same_language else 0.0)]


def list_new(lines: Sequence[str], earlier: Sequence[str]) -> list[str]:
    """Those of the lines that the earlier ones do not say."""
    missing = set(list_lost("\n".join(lines), "\n".join(earlier)))
    return [line for line in dict.fromkeys(lines) if line in missing]


def is_unrelated(text: str, sources: Iterable[str]) -> bool:
    """Tell whether a short text speaks of nothing that its sources say, as a model's excuse does."""
    used = set(list_terms(text))
    known = {word for source in sources for word in list_terms(source)}
    return len(text) < _LONGEST_EXCUSE and len(used & known) < _SHARED * len(used)


# A conversation as it is shown to a model that is to summarise it. Pure.

_HEADER_TIME = pattern(r"\d{4}-\d\d-\d\d \d\d:\d\d")
_REPORT = pattern(r"<report\b.*?</report>", re.DOTALL)
_LONGEST_RESULT, _LONGEST_ARGUMENTS = 400, 200


def render_turn(turn: Sequence[Message], most: int) -> str:
    """Write a turn down, in at most this many bytes: who said what when, what was called, and the begin of what came.

    The lines of a text are indented, so that none of them can pass for somebody else's word.
    """
    each = max(_LONGEST_RESULT, most // 2)
    return cut_bytes("\n".join(line for message in turn for line in _render_message(message, each)), most)


def _render_message(message: Message, most: int) -> Iterator[str]:
    if message.role == "tool":
        yield _format_line("Result", cut_bytes(message.text, _LONGEST_RESULT))
        return
    if message.role == "user":
        # the person's words, with the time and the sub-agents' reports that their header held; the rest is told anew
        header, words = split_context(message.text)
        for report in _REPORT.findall(header):
            yield _format_line("Report", cut_bytes(report, most))
        when = _HEADER_TIME.search(header)
        yield _format_line(f"User, {when[0]}" if when else "User", cut_bytes(words, most))
    elif message.text:
        yield _format_line("Assistant", cut_bytes(message.text, most))
    for call in message.calls:
        arguments = json.dumps(call.arguments, ensure_ascii=False)
        yield _format_line("Call", cut_bytes(f"{call.name} {arguments}", _LONGEST_ARGUMENTS))


def _format_line(who: str, text: str) -> str:
    return f"{who}: {escape_closing(text)}".strip().replace("\n", "\n  ")


# A summary of a conversation's older part, which goes on from the summary before it.

_NONE, _BETWEEN = "-", "\n\n"
_MIN_ROOM = 500
_OF_A_TURN, _OF_TWO = 0.25, 1.5
"""Shares of what one request can hold: with both, each of two halves fits."""


class ConversationSummary(NamedTuple):
    """The `text` of so many `turns`, a line for each thing; the oldest lines, for which there is no room, are `left`."""

    text: str
    turns: int
    left: tuple[str, ...] = ()


class Summariser:
    """Asks a `model` in the words of the `prompts`; `longest` are the bytes that a summary may have.

    `usage` adds up what the answers have cost, also those that were not used.
    """

    def __init__(self, prompts: Templates, model: DreamModel) -> None:
        self._prompts = prompts
        self._model = model
        self._halved = False
        self.usage = Usage()
        self.longest = get_summary_bytes(model.window)

    def summarise(self, earlier: str, turns: Sequence[Sequence[Message]]) -> ConversationSummary:
        """Add to `earlier`, the summary before, what turns have brought; of very many turns it is of the oldest.

        Raises ProviderError, also for an answer that is not to be used: one that says nothing, was cut, or is too long.
        """
        try:
            lines, count = self._summarise_oldest(earlier, turns)
        except Refused as error:
            half, unexplained = turns[: len(turns) // 2], error.is_unexplained and not self._halved
            long = unexplained and sum(count_bytes(message.text) for turn in turns for message in turn) >= LONG_RESULT
            if not half or not (long or isinstance(error, ContextOverflow)):
                raise
            self._halved = self._halved or unexplained
            return self.summarise(earlier, half)
        missed = list_new(list_statements(turns[:count]), [*earlier.split("\n"), *lines])
        lines = [*filter(None, earlier.split("\n")), *lines, *missed]
        if not lines:
            raise Refused("the model's summary says nothing that was said")
        first = 0
        while count_bytes("\n".join(lines[first:])) > self.longest:
            first += 1
        return ConversationSummary("\n".join(lines[first:]), count, tuple(lines[:first]))

    def _summarise_oldest(self, earlier: str, turns: Sequence[Sequence[Message]]) -> tuple[list[str], int]:
        """List what is new in as many turns as two requests hold; when one is not enough, in two halves."""
        known = cut_bytes(earlier, self.longest)
        room = self._model.room(self._prompts["summary"]) - count_bytes(known or _NONE)
        if room < _MIN_ROOM:
            raise Refused(f"a window of {self._model.window} tokens is too small for it")
        texts = [render_turn(turn, int(room * _OF_A_TURN)) for turn in turns]
        ends = list(accumulate(count_bytes(text) + count_bytes(_BETWEEN) for text in texts))
        if ends[-1] <= room:
            return self._list_new(known, [], texts), len(texts)
        count = sum(end <= room * _OF_TWO for end in ends)
        middle = 1 + sum(end < ends[count - 1] / 2 for end in ends)
        older = self._list_new(known, [], texts[:middle])
        return older + self._list_new(known, older, texts[middle:count]), count

    def _list_new(self, earlier: str, found: Sequence[str], texts: Sequence[str]) -> list[str]:
        """List what texts bring that neither the earlier summary nor what was `found` has."""
        history = _BETWEEN.join(texts)
        answer = self._ask("summary", {"summary": earlier or _NONE, "history": history})
        if count_bytes(answer) > self.longest + count_bytes(earlier):
            raise Refused(f"the model's summary is too long: {count_bytes(answer)} bytes of {self.longest}")
        lines = select_lines(answer, gather_source([earlier, history]))
        lines = [line for line in lines if not (line.endswith("?") and line in history)]  # only asked
        return list_new(lines, [*earlier.split("\n"), *found])

    def _ask(self, name: str, values: dict[str, str]) -> str:
        """Ask in the words of a template, in which no value may be missing; once more when the connection broke."""
        template = self._prompts[name]
        template += "".join(f"\n{{{value}}}" for value in values if f"{{{value}}}" not in template)
        question = fill_template(template, values)
        try:
            answer = self._model.ask(question)
        except Unavailable:  # a server may have closed a connection that was left open from before
            answer = self._model.ask(question)
        self.usage += answer.usage
        if answer.cut:
            raise Refused("the model's answer was cut off")
        if not list_terms(answer.text):
            raise Refused("the model's answer says nothing")
        if is_unrelated(answer.text, values.values()) and not _NOTHING_NEW.match(answer.text):
            raise Refused(f"the model did not do it: {cut_bytes(' '.join(answer.text.split()), 120)}")
        return answer.text


# What is done with a conversation between two turns, so that the next one fits: what must outlast it is noted, and its
# older part is summarised.
#
# Nothing that was said is deleted or changed: a summary stands beside the turns that it is of, and whatever fails leaves
# all as it was, to be tried again after the next turn, and then ever more rarely.

_PAUSE_MARK = "summary failed: "


@dataclass
class Compaction:
    """Notes and summarises what is due in one home's conversations.

    It asks the app's `light_agent`, whose provider is the model alone: no matcher is to sum up.
    """

    app: AgentApp
    _reported: set[str] = field(default_factory=set, init=False)

    def settle(self, session: str, stop: Stop | None = None) -> list[str]:
        """Note and sum up what is due in a chat; returns what went wrong and was not said before, for the owner.

        Whoever ends it, by `stop` or Ctrl-C, finds the conversation as it was.
        """
        try:
            self._settle(session, stop)
        except (TurnStopped, KeyboardInterrupt):
            return []
        except PicoclawError as error:
            problem = f"what was said earlier could not be summed up: {' '.join(str(error).split())}"
            if problem not in self._reported:
                self._reported.add(problem)
                return [problem]
        return []

    def _settle(self, session: str, stop: Stop | None) -> None:
        config, stores = self.app.config, self.app.stores
        before, turns = stores.sessions.summary(session), stores.sessions.unsummarised(session)
        shown = min(len(turns), len(stores.history.turns(session)))
        held = OpenConversation(turns, shown, *((before.text, before.upto) if before else ()))
        ratio = stores.bytes_a_token(stores.history.model(session) or config.model.name or "default")
        talk = estimate_tokens(count_request_bytes("", (m for turn in held.visible for m in turn), ()), ratio)
        load, told = WindowLoad(talk, 0, config.model.context_tokens), None
        if held.left_out or can_be_long(load):
            told = self._build_flush(session, held, ratio)
            tools = self.app.light_agent.tools(told.brief)
            fixed = count_request_bytes(told.brief.system, (), tools) + count_bytes(held.summary)
            load = load._replace(fixed=estimate_tokens(fixed, ratio))
        settings = config.sessions
        reason = get_compaction_reason(held, load, settings.summarise_messages, settings.summarise_share)
        if reason:
            oldest, count, awaited = self._last_failure(session)
            # whatever else has become of the conversation ends the pause as well
            if held.turns[0][0] == oldest and 0 <= len(held.turns) - count < awaited:
                return
        if told and (reason == "window" or is_near_limit(load)) and not self._flush(session, held, told, stop):
            return
        if reason:
            self._sum_up(session, held, stop)

    def _last_failure(self, session: str) -> tuple[int, int, int]:
        """The `oldest` turn of the last summary that failed, how many turns there were, how many are awaited.

        Kept with the home, because each `chat -m` is a new process.
        """
        numbers = Marks(self.app.stores.database).get(_PAUSE_MARK + session).split()
        oldest, turns, awaited = map(int, numbers) if numbers else (0, 0, 0)
        return oldest, turns, awaited

    def _build_flush(self, session: str, held: OpenConversation, ratio: float) -> "_Flush":
        """Build the context of a flush, without what is not the owner's; nothing is marked as told by it."""
        stores, now = self.app.stores, self.app.now()
        turns = select_owner_turns((messages, stores.history.heard_by(number)) for number, messages in held.numbered)
        builder = replace(self.app.context_builder, tidy=False, foreign=False)
        told = builder.build(Inbound(session, self.app.prompts["flush"]), turns, (), now)
        brief = told.brief._replace(
            model=told.brief.model or stores.history.model(session),
            bytes_a_token=ratio,
            summary="" if stores.list_taints(session, "owner") else held.summary,
        )
        return _Flush(brief, turns, now, told.taints)

    def _flush(self, session: str, held: OpenConversation, told: "_Flush", stop: Stop | None) -> bool:
        """Have it done once between two summaries, however it ends; False when somebody has stopped it."""
        sessions, light = self.app.stores.sessions, self.app.light_agent
        if sessions.flushed(session):
            return True
        sessions.set_flushed(session, held.turns[-1][0])
        if told.taints or not told.turns:
            return True  # what is noted then needs a yes, and nobody is asked for it here
        limits = replace(light.limits, steps=FLUSH_STEPS, seconds=FLUSH_SECONDS, tokens=FLUSH_STEPS * light.window)
        agent = replace(light, limits=limits, has_last_word=False)
        may = FLUSH_TOOLS & agent.toolset.names
        caller = Caller(session, "owner", told.now, lambda _: None, may=may, cause="summary")
        turn = agent.turn(told.brief, told.turns, caller, TurnHooks(stop=stop))
        sessions.spend(session, turn.provider, turn.usage, told.now)
        if turn.stopped == "stopped":
            sessions.set_flushed(session, 0)
            return False
        if not stop:  # else a turn has begun, whose acts these may be; they are settled with it
            self.app.stores.settle(session)
        return True

    def _sum_up(self, session: str, held: OpenConversation, stop: Stop | None) -> None:
        """Keep a summary, unless what it is of was taken back, erased or summed up by another meanwhile."""
        sessions, older = self.app.stores.sessions, held.older
        window, purpose = self.app.config.model.context_tokens, Purpose("summary", session)
        model = DreamModel(self.app.light_agent.provider, window, time.monotonic, stop, purpose)
        summariser = Summariser(self.app.prompts, model)
        try:
            made = summariser.summarise(held.summary, [said for _, said in older])
        except ProviderError:
            with suppress(StoreError):  # why it failed is worth more
                # the next try after one turn, then after twice as many each time
                oldest, _, awaited = self._last_failure(session)
                awaited = min(awaited * 2, _MAX_PAUSE_TURNS) if oldest == held.turns[0][0] else 1
                failure = f"{held.turns[0][0]} {len(held.turns)} {awaited}"
                Marks(self.app.stores.database).set(_PAUSE_MARK + session, failure)
            raise
        finally:
            sessions.spend(session, model.provider.name, summariser.usage, self.app.now())
        self._note(session, made.left)
        upto = older[made.turns - 1][0]
        if sessions.add_summary(session, made.text, upto, self.app.now(), held.upto) and sessions.flushed(session):
            sessions.set_flushed(session, 0)

    def _note(self, session: str, lines: Sequence[str]) -> None:
        """Note what a summary has no room for, where a search finds it; not what others may have said.

        The messages themselves are kept, and found by a search of past messages.
        """
        if self.app.stores.list_taints(session, "owner"):
            return
        caller = Caller(
            session, "owner", self.app.now(), lambda _: None, may=frozenset({"memory_store"}), cause="summary"
        )
        for text in list_entries("\n".join(lines)):
            self.app.light_agent.toolset.run(ToolCall("summary", "memory_store", {"text": text}), caller)


class _Flush(NamedTuple):
    """A flush of a chat, after the `turns` that it shows; `taints` names the untrusted sources of what it is told."""

    brief: TurnContext
    turns: list[tuple[Message, ...]]
    now: datetime
    taints: tuple[str, ...]
