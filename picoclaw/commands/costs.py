"""The commands about the model: what its window is filled with, what it has cost, and which one is asked."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

from picoclaw.commands.chat import Answer, Chat, short
from picoclaw.ledger import report
from picoclaw.measure import request_bytes
from picoclaw.messages import Inbound, Usage
from picoclaw.prompt import estimated_tokens, size
from picoclaw.providers.reached import told
from picoclaw.schedule import duration
from picoclaw.store.archive import Spent
from picoclaw.window import room

_LONGEST_NAME = 200
_EVER = 1 << 30
DEFAULT = "default"
"""What is said instead of a model's name to go back to the configured one."""

_NO_MODEL = "No model is configured: base_url under [model] in config.toml, or PICOCLAW_BASE_URL."


class _Part(NamedTuple):
    tokens: int
    what: str


def context(chat: Chat, _rest: str) -> Answer:
    """Tell what the next request is made of, in tokens."""
    agent, ratio = chat.agent(), chat.stores.bytes_a_token(chat.model)
    parts = list(_parts(chat, ratio))
    used, window = sum(part.tokens for part in parts), agent.window
    rows = [*parts, _Part(max(0, window - used), "free")]
    wide = max(len(f"{row.tokens:,}") for row in rows)
    asked = chat.model if chat.stores.config.model.base_url else "no model, so nothing is sent"
    head = f"About {used:,} of {window:,} tokens ({used * 100 // window} %), at {ratio:.1f} bytes a token; {asked}:"
    return Answer("\n".join([head, *(f"{row.tokens:>{wide},}  {row.what}" for row in rows)]))


def _parts(chat: Chat, ratio: float) -> Iterator[_Part]:
    """What the next message would bring with it, as far as it is known before it is said; nothing is changed by it."""

    def part(count: int, what: str) -> _Part:
        return _Part(estimated_tokens(count, ratio), what)

    agent = chat.agent()
    earlier, acts, summary, _ = chat.stores.earlier(chat.key)
    inbound = Inbound(chat.key, "")
    told = replace(chat.briefing(), tidy=False).told(inbound, earlier, [act for _, act in acts], chat.now)
    brief = told.brief._replace(bytes_a_token=ratio, summary=summary)
    talk = agent.opened(brief, earlier)
    tools, said = agent.tools(talk, brief), list(chain.from_iterable(talk.history))
    sections = sorted((part(size(text), name) for name, text in told.sections), reverse=True)
    yield part(size(brief.system), f"system text: {', '.join(f'{tokens:,} {name}' for tokens, name in sections)}")
    yield part(size(list(tools)), f"{len(tools)} tools")
    if talk.summary:
        yield part(size(talk.summary), "summary of what was said before")
    left_out = f"; {talk.forgotten} older turns have no room" if talk.forgotten else ""
    yield part(request_bytes("", said, ()), f"{len(said)} messages of this conversation{left_out}")
    yield part(request_bytes("", talk.messages, ()), "what the next message is told with")
    yield _Part(agent.answer, "room for the answer")
    reserve = agent.window - agent.answer - room(agent.window, agent.answer).request
    yield _Part(reserve, "kept free, because all this is estimated")


def usage(chat: Chat, _rest: str) -> Answer:
    """Tell the tokens in and out of this chat and of all chats, by model."""
    ours, everyones = chat.stores.sessions.usage(chat.now, chat.key), chat.stores.sessions.usage(chat.now)
    helpers = sum(task.used.tokens for task in chat.tasks().newest(chat.key, _EVER))
    rows = [("this chat", *_summed(ours)), *((f"{spent.provider}, all chats", *spent[1:]) for spent in everyones)]
    if not everyones and not helpers:
        return Answer("No model was used yet.")
    lines = [
        f"{name}: today {_both(today)}, 30 days {_both(month)}, ever {_both(ever)}" for name, today, month, ever in rows
    ]
    lines += [f"helpers of this chat, lately: {helpers:,}"] if helpers else []
    day = chat.now.date().isoformat()
    lines += report.today(chat.stores.accounts.rows(day, day), chat.stores.config.costs)
    return Answer("\n".join(["Tokens in + out:", *lines]))


def _summed(found: Iterable[Spent]) -> tuple[Usage, Usage, Usage]:
    today = month = ever = Usage()
    for spent in found:
        today, month, ever = today + spent.today, month + spent.month, ever + spent.ever
    return today, month, ever


def _both(used: Usage) -> str:
    return f"{used.prompt_tokens:,} + {used.completion_tokens:,}"


def _order(chat: Chat) -> Iterator[str]:
    """Who is asked, one after another, and how it went when they were asked last; nothing where there is one alone."""
    rows, now = told(chat.links()), chat.now.timestamp()
    if len(rows) < 2:
        return
    yield "Asked in this order:"
    for row in sorted(rows, key=lambda row: not row["chosen"]):
        ago = f"{duration(max(0.0, now - row['at']))} ago" if row["at"] else ""
        how = f"no answer {ago}: {row['error']}" if row["error"] else f"answered {ago}" if ago else "not asked yet"
        only = "" if row["chosen"] else ", only where it is chosen"
        yield f"  {row['name'] or DEFAULT}: {row['model']} at {row['url']}{only}, {how}"
    yield "  and then the built-in matcher"


def model(chat: Chat, rest: str) -> Answer:
    """Tell which model this conversation is held with, or choose another: a configured one, or of [model]'s server."""
    if not chat.stores.config.model.base_url:
        return Answer(_NO_MODEL, good=False)
    if not rest:
        back = f" for this conversation; /model {DEFAULT} goes back to {chat.usual}" if chat.model != chat.usual else ""
        return Answer("\n".join([f"{chat.model}{back}.", *_order(chat)]))
    if len(rest) > _LONGEST_NAME or len(rest.split()) > 1 or not rest.isprintable():
        return Answer(f"{short(rest, 40)!r} is no name of a model: that is one word.", good=False)
    name = "" if rest in {DEFAULT, chat.usual} else rest
    if name or chat.model != chat.usual:
        chat.stores.sessions.set_model(chat.key, name)
    back = f" /model {DEFAULT} goes back to {chat.usual}." if name else ""
    return Answer(f"This conversation goes on with {name or chat.usual}.{back}")
