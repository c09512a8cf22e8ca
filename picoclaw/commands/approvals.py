"""/approvals, /yes, /no and /always: what waits for the owner's yes, and their answer to it."""

import re
import time

from picoclaw.commands.chat import Answer, Chat, number_in
from picoclaw.store.approvals import Approval
from picoclaw.tools.approving import Said

_ANSWER = re.compile(r"([0-9]{1,15})(?:\s+([0-9a-f]{8,64}))?")


def approvals(chat: Chat, rest: str) -> Answer:
    """List what waits, or show one of them whole."""
    if rest:
        found = chat.approving.approvals.get(number_in(rest))
        return Answer(whole(found)) if found else Answer(f"There is no question number {rest}.", good=False)
    waiting = chat.approving.approvals.waiting()
    return Answer("\n".join(row(one, chat.key) for one in waiting) or "Nothing waits for your yes.")


def yes(chat: Chat, rest: str) -> Answer:
    """Have a call made that waits, or all of the one question that does."""
    return _answered(chat, rest, yes=True)


def no(chat: Chat, rest: str) -> Answer:
    """Have it left."""
    return _answered(chat, rest, yes=False)


def always(chat: Chat, rest: str) -> Answer:
    """Have it made, now and whenever exactly the same is wanted again."""
    if not rest:
        return Answer("Nothing was done: /always takes the number of the question.", good=False)
    return _answered(chat, rest, yes=True, always=True)


def _answered(chat: Chat, rest: str, *, yes: bool, always: bool = False) -> Answer:
    given = _ANSWER.fullmatch(rest)
    if rest and not given:
        return Answer(f"Nothing was done: {rest!r} is no number of a question; /approvals lists them.", good=False)
    number = int(given[1]) if given else 0
    if not number:
        here = [one for one in chat.approving.approvals.waiting() if one.chat == chat.key]
        asked = {one.listed for one in here}
        if len(asked) != 1 or 0 in asked:
            why = "several questions wait, so it takes a number" if here else "nothing waits for your yes in this chat"
            return Answer("\n".join([f"Nothing was done: {why}.", *(row(one, chat.key) for one in here)]), good=False)
        number = here[0].listed
    said = Said(number, yes, chat.who, chat.origin, given[2] if given else None, always, whole=not given)
    outcome = chat.approving.say(said, chat.stop)
    return Answer(outcome.text, outcome.good, made=outcome.made)


def row(one: Approval, key: str = "") -> str:
    """Describe one in a line; `key` is the chat that it is shown in."""
    minutes = max(1, round((one.expires - time.time()) / 60))
    where = "" if one.chat == key else f", asked in {one.chat}"
    return f"{one.number}  {one.shortly} ({minutes} min left{where})"


def whole(one: Approval) -> str:
    """Show one whole, with what became of it."""
    by = f" by {one.answered_by}" if one.answered_by else ""
    lines = [f"number {one.number}: {one.state}{by}", one.question, f"({one.rule}: {one.why})", one.outcome]
    return "\n".join(filter(None, lines))
