"""What a dead daemon has left in the inbox: answered again where that repeats nothing, and the rest told as it is."""

from collections.abc import Callable

from picoclaw.store.inbox import AGAIN, Inbox, Left

_CUT_OFF = "picoclaw was cut off while it answered this: {text!r}. {why}; say it again if it is still wanted."
_PERHAPS = "\n(perhaps told before: picoclaw ended while it told this)"
_LONGEST = 200


def settle(inbox: Inbox, told_live: Callable[[str], bool]) -> None:
    """Decide on all that was begun; `told_live(key)`: an answer of that chat may have been seen. Raises StoreError."""
    for found in inbox.left_behind():
        if found.reply is not None:
            perhaps = _PERHAPS if told_live(found.arrived.key) else ""
            inbox.done(found.arrived, "" if found.within > 0 else f"{found.reply}{perhaps}")
        elif why := _doubtful(found):
            text = found.arrived.text[:_LONGEST]
            inbox.done(found.arrived, _CUT_OFF.format(text=text, why=why))
        elif found.within:
            inbox.put_back([found.arrived.number])
        else:
            inbox.try_again(found.arrived.number)


def _doubtful(found: Left) -> str:
    """Say why it must not be answered a second time, '' when it may."""
    if found.within > 0:
        return ""
    if found.within == AGAIN:
        return "That has happened twice, so that it is not tried again by itself"
    if found.arrived.text.lstrip().startswith("/"):
        return "It may have been done or not"
    return "Something that it was doing may have been done or not" if found.acts else ""
