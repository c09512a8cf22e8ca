"""What has arrived, as a turn is given it: with what the text does not say itself, and what of it is not theirs apart."""

import time
from calendar import timegm
from collections.abc import Sequence

from picoclaw.messages import Origin, is_other_person
from picoclaw.prompts import Templates, fill_template
from picoclaw.records import NamedTuple
from picoclaw.security import untrusted
from picoclaw.times import format_duration

QUOTED_CHARS = 300
_LATE_S = 600


class QuotedMessage(NamedTuple):
    """A message that another answers: whose it is, and whether that is the same person's own word."""

    whose: str
    text: str
    own: bool


def format_arrival(
    wording: Templates,
    text: str,
    *,
    notes: Sequence[str],
    late: float,
    strange: str,
    quotes: Sequence[QuotedMessage],
) -> tuple[str, tuple[str, ...]]:
    """Put beside a text what it does not say itself, and name what of it is not the person's word.

    That stands in a block which it cannot close. `late` is how long ago it was sent, in seconds; `strange` says why all
    of it is not their word, '' when it is. `wording` has the templates `arrived` and `untrusted`.
    """
    notes = [*notes, *([f"sent {format_duration(late)} ago"] if late > _LATE_S else ())]
    foreign: tuple[str, ...] = ()
    if quotes or strange:
        template = wording["untrusted"]
        blocks = [untrusted.wrap_untrusted(template, f"in reply to {one.whose}", one.text) for one in quotes]
        if strange and text:
            blocks.append(untrusted.wrap_untrusted(template, strange, text))
        text = "\n".join(filter(None, ["" if strange else text, *blocks]))
        theirs = [f"a message of {one.whose} that was answered" for one in quotes if not one.own]
        foreign = tuple(filter(None, [strange, *theirs]))
    if notes:
        text = fill_template(wording["arrived"], {"notes": "; ".join(notes), "content": text}, "content")
    return text, foreign


def describe_sender(origin: Origin, who: str) -> list[str]:
    """Name whoever is not the owner."""
    return [f"from {who}"] if is_other_person(origin) else []


def count_seconds_since(sent: int, told: str) -> float:
    """Seconds since a message was sent, by the service's own clock: the board's may be wrong. 0 when it does not say."""
    try:
        now = timegm(time.strptime(told, "%a, %d %b %Y %H:%M:%S GMT"))
    except ValueError:
        return 0.0
    return max(0.0, now - sent) if sent else 0.0
