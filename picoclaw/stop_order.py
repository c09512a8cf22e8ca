"""The order to stop all outputs, known by its words alone, before a model or the matcher sees the message.

In a hurry nobody remembers the right words, and stopping does no harm; so many are taken, in four languages.
"""

from collections.abc import Sequence

from picoclaw.text import fold_accents

_MAX_STOP_LENGTH = 60
_STOP_WORDS = """
stop stopp stoppe stoppen halt haltet anhalten notaus para parad pare paralo alto basta corta cortalo detente
arrete arretez arreter stoppez emergency
"""
_OFF_WORDS = """
off aus ausschalten ausmachen abschalten apaga apagad apagalo apagar eteins eteignez coupe coupez
"""
_ALL_WORDS = "all everything alles alle todo todos tout tous"
_POLITE_WORDS = """
it that now please right away immediately the outputs turn switch shut down jetzt sofort bitte mach mache schalt
schalte stell das ausgange ya ahora mismo por favor las salidas maintenant stp svp vite immediatement s il te
vous plait les sorties ca ok
"""
_IT_WORDS = "it that paralo cortalo apagalo ca ok"
_STOP, _OFF, _ALL, _BESIDE, _IT = (
    frozenset(words.split()) for words in (_STOP_WORDS, _OFF_WORDS, _ALL_WORDS, _POLITE_WORDS, _IT_WORDS)
)


def is_stop_order(text: str) -> bool:
    """Tell whether a message is nothing but the order that all outputs stop, in English, German, Spanish or French.

    Behind a comma may stand more where all is named: "everything off, I am going to bed".
    """
    words = _split_plain(text)
    if len(text) <= _MAX_STOP_LENGTH and _orders_stop(words):
        return True
    first = _split_plain(text.partition(",")[0][:_MAX_STOP_LENGTH])
    return len(first) > 1 and "," in text and "?" not in text and not _ALL.isdisjoint(first) and _orders_stop(first)


def is_stop_of_one(text: str) -> bool:
    """Whether an order to stop speaks of one thing: "stop it now". It may mean all, where it is not known of what."""
    words = frozenset(_split_plain(text))
    return is_stop_order(text) and not words.isdisjoint(_IT) and words.isdisjoint(_ALL)


def is_urgent_text(text: str) -> bool:
    """Whether a message ends something: the turn, or what the outputs do. Nothing keeps it waiting."""
    return is_stop_order(text) or text.lower() == "/stop"


def _orders_stop(words: Sequence[str]) -> bool:
    found = frozenset(words)
    ends = not found.isdisjoint(_STOP) or not (found.isdisjoint(_OFF) or found.isdisjoint(_ALL))
    return ends and found <= _STOP | _OFF | _ALL | _BESIDE


def _split_plain(text: str) -> list[str]:
    """Split a text into words of small letters without accents; none where something else than words ends it."""
    if text.lstrip().startswith("/") or "?" in text:
        return []
    return "".join(char if char.isalnum() else " " for char in fold_accents(text)).split()
