"""What a dead daemon has left in the inbox: answered again where that repeats nothing, and the rest told as it is."""

from picoclaw.store.inbox import Inbox, Left

_CUT_OFF = "picoclaw was cut off while it answered this: {text!r}. {why}; say it again if it is still wanted."
_LONGEST = 200


def settle(inbox: Inbox) -> None:
    """Decide on all that was begun. Raises StoreError."""
    for found in inbox.left_behind():
        if found.reply is not None:
            inbox.done(found.arrived, "" if found.within else found.reply)
        elif why := _doubtful(found):
            text = found.arrived.text[:_LONGEST]
            inbox.done(found.arrived, _CUT_OFF.format(text=text, why=why))
        else:
            inbox.put_back([found.arrived.number])


def _doubtful(found: Left) -> str:
    """Say why it must not be answered a second time, '' when it may."""
    if found.within:
        return ""
    if found.arrived.text.lstrip().startswith("/"):
        return "It may have been done or not"
    return "Something that it was doing may have been done or not" if found.acts else ""
