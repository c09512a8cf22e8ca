"""Which addresses somebody's word leads to: what a person wrote, what a search found, what a page links to."""

import re
from collections import OrderedDict
from collections.abc import Iterable

from picoclaw.errors import ToolError
from picoclaw.web.address import target

_MOST_SESSIONS, _MOST_EACH = 32, 1000
_WRITTEN = re.compile(r"(?:https?://)?[^\s<>\"'`|]{1,2048}", re.IGNORECASE)
_HOST_LIKE = re.compile(r"(?:[\w-]+\.)+[^\W\d_]{2,}(?::\d+)?(?:[/?].*)?", re.IGNORECASE)
_AROUND = "([{<.,;:!?)]}>*_"


def spelt(url: str) -> str:
    """Spell an address in the one way, https where it does not say; raises ToolError for none."""
    return target(url if "://" in url else f"https://{url.strip()}").url


def written(texts: Iterable[str]) -> set[str]:
    """Find the addresses that stand in texts, to the letter; one without http:// counts as both kinds."""
    found: set[str] = set()
    for text in texts:
        for match in _WRITTEN.finditer(text):
            found.update(*(_spellings(one) for one in {match[0].strip(_AROUND), match[0]}))
    return found


class Known:
    """The addresses that each conversation was shown; the newest ones, and nothing after a restart."""

    def __init__(self) -> None:
        """Know none."""
        self._of: OrderedDict[str, OrderedDict[str, None]] = OrderedDict()

    def add(self, session: str, urls: Iterable[str]) -> None:
        """Take addresses in."""
        mine = self._of.setdefault(session, OrderedDict())
        self._of.move_to_end(session)
        mine.update(dict.fromkeys(urls))
        while len(mine) > _MOST_EACH:
            mine.popitem(last=False)
        while len(self._of) > _MOST_SESSIONS:
            self._of.popitem(last=False)

    def has(self, session: str, url: str) -> bool:
        """Tell whether a conversation was shown an address."""
        return url in self._of.get(session, ())


def _spellings(word: str) -> set[str]:
    whole = word.lower().startswith(("http://", "https://"))
    if not whole and not _HOST_LIKE.fullmatch(word):
        return set()
    found = set()
    for url in (word,) if whole else (f"https://{word}", f"http://{word}"):
        try:
            found.add(target(url).url)
        except ToolError:
            continue
    return found
