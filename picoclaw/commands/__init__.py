"""What a person can ask for by a word that begins with /: answered in every chat, without a model and the network."""

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from picoclaw.commands.approvals import always, approvals, no, yes
from picoclaw.commands.chat import Answer, Chat
from picoclaw.commands.costs import context, model, usage
from picoclaw.commands.helpers import tasks
from picoclaw.commands.past import clear, new, retry, sessions, undo
from picoclaw.errors import StoreError
from picoclaw.schema import nearest

_COMMAND = re.compile(r"/([\w-]*)(?:@\w+)?(?:\s+(.*))?", re.DOTALL)


class Given(NamedTuple):
    """A command as it was typed: its word in small letters, without the slash, and what follows."""

    word: str
    rest: str


class _Command(NamedTuple):
    """What a word does. `takes` names what may follow it, '' for nothing."""

    takes: str
    does: str
    run: Callable[[Chat, str], Answer]


def _help(_chat: Chat, _rest: str) -> Answer:
    return Answer(listed())


def _stop(_chat: Chat, _rest: str) -> Answer:
    return Answer("Nothing is running. STOP, without the slash, brings the outputs to safety.")


COMMANDS = {
    "new": _Command("", "begin a new conversation; this one is kept", new),
    "clear": _Command("[yes]", "delete this conversation for good; asks before", clear),
    "undo": _Command("", "take back the last question and its answer", undo),
    "retry": _Command("", "take the last answer back and ask again", retry),
    "sessions": _Command("[N]", "the conversations of this chat; go on with number N", sessions),
    "context": _Command("", "what the model's window is filled with", context),
    "usage": _Command("", "the tokens that were used", usage),
    "model": _Command("[NAME]", "the model of this conversation; choose another", model),
    "tasks": _Command("[cancel N]", "what helpers were given to do; cancel one", tasks),
    "approvals": _Command("[N]", "what waits for your yes; show number N whole", approvals),
    "yes": _Command("[N]", "have done what was asked about, all of it or number N", yes),
    "no": _Command("[N]", "leave it", no),
    "always": _Command("N", "have it done, also whenever exactly the same is wanted again", always),
    "stop": _Command("", "end the turn that is running", _stop),
    "help": _Command("", "this list", _help),
}


def understood(text: str) -> Given | None:
    """Take a text apart that is a command, known or not; None for another one, such as a path."""
    found = _COMMAND.fullmatch(text.strip())
    return Given(found[1].lower(), (found[2] or "").strip()) if found else None


def answer(given: Given, chat: Chat) -> Answer:
    """Do what a command says. Raises nothing: what goes wrong is said."""
    known = COMMANDS.get(given.word)
    if known is None:
        near = nearest(f"/{given.word}", {f"/{word}": row for word, row in COMMANDS.items()})
        more = " To have it answered, begin with a word without a slash." if given.rest else ""
        return Answer(f"/{given.word} is no command{near}.{more}".replace("?.", "?"), good=False)
    if given.rest and not known.takes:
        return Answer(f"Nothing was done: /{given.word} stands alone.", good=False)
    try:
        return known.run(chat, given.rest)
    except StoreError as error:
        return Answer(f"/{given.word} was not done: {error}", good=False)


def listed(more: Iterable[tuple[str, str]] = ()) -> str:
    """List the commands, and `more` that a channel has itself: words and what they do."""
    rows = [(f"/{word} {row.takes}".rstrip(), row.does) for word, row in COMMANDS.items()]
    rows += [(f"/{word}", does) for word, does in more]
    wide = max(len(words) for words, _ in rows)
    return "\n".join(f"{words:<{wide}}  {does}" for words, does in rows)
