"""What the person should know about how an answer came about, when there is more than one thing of that kind."""

from picoclaw.messages import Event, Notice


def joined(earlier: Notice, event: Event) -> Notice:
    """Add what an event tells, if it is a notice, to the `earlier` ones of the turn; nothing is said twice."""
    if not isinstance(event, Notice):
        return earlier
    new = event.text not in earlier.text
    return Notice("; ".join(filter(None, [earlier.text, event.text if new else ""])), earlier.failed or event.failed)
