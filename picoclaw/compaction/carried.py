"""What of an earlier summary a newer one does not speak of any more, and whether a text is a summary at all. Pure.

A small model forgets what it was told to carry over. What it leaves out entirely is added again; what it has worded in
another way, or has corrected, shares its words and is not.
"""

import re
from collections.abc import Iterable

from picoclaw.prompt import size
from picoclaw.ranking import words

_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\s*\n\s*")
_SPOKEN_OF = 0.5
_LONGEST_EXCUSE, _SHARED = 300, 0.1


def carried(earlier: str, text: str, most: int) -> str:
    """Put before a text the sentences of an earlier one whose words it has not, as far as both have `most` bytes."""
    said, left, lost = set(words(text)), most - size(text), []
    for sentence in filter(None, _SENTENCE.split(earlier)):
        used = set(words(sentence))
        if len(used & said) < _SPOKEN_OF * len(used) and size(sentence) < left:
            left -= size(sentence) + 1
            lost.append(sentence)
    return "\n".join([*lost, text])


def newness(text: str, earlier: str) -> float:
    """Return which share of a text's words an earlier one does not have."""
    used = set(words(text))
    return len(used - set(words(earlier))) / max(1, len(used))


def strange(text: str, sources: Iterable[str]) -> bool:
    """Tell whether a short text speaks of nothing that its sources say, as a model's excuse does."""
    used = set(words(text))
    known = {word for source in sources for word in words(source)}
    return len(text) < _LONGEST_EXCUSE and len(used & known) < _SHARED * len(used)
