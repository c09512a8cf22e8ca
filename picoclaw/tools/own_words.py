"""What of a call is the person's own words: a turn that has read others' may still do what its message says itself."""

from picoclaw.messages import Caller, is_owner
from picoclaw.pattern import pattern

_WORD = pattern(r"[^\W_]+(?:[.,:'’-][^\W_]+)*")
_PERSONS = dict.fromkeys(("i", "me", "my", "mine", "you", "your", "yours", "we", "us", "our", "ours"), "@")
"""Who speaks changes when a wish is noted: water my plants, water your plants."""


_NOT = frozenset({"not", "never", "no", "nor", "without", "cannot", "nicht", "nie", "niemals", "kein", "keine", "ohne"})
_POLITE = frozenset({"please", "thanks", "thank", "@", "ok", "okay", "bitte", "danke", "now", "again", "too"})
_SENTENCE = pattern(r"[^.!?;\n]*(?:[.!?;](?!\s|$)[^.!?;\n]*)*[.!?;\n]?")


def said(text: str, caller: Caller, *, fact: bool = False) -> bool:
    """Tell whether these words, all of them and in this order, stand in the newest message of the owner.

    What comes after a no in the same sentence does not, nor does a `fact` in a question or in the middle of a sentence.
    """
    wanted = _words(text)
    newest = [(word, at) for at, line in enumerate(_SENTENCE.findall(_newest(caller))) for word in _marked(line)]
    words = [word for word, _ in newest]
    for begin in range(len(words) - len(wanted) + 1) if wanted else ():
        end = begin + len(wanted)
        if words[begin:end] == wanted:
            before = {word for word, at in newest[:begin] if at == newest[begin][1]}
            after = [word for word, at in newest[end:] if at == newest[end - 1][1]]
            denied = before & _NOT or any(word.endswith(("n't", "n’t")) for word in before)
            if not denied and not (fact and set(after) - _POLITE):
                return True
    return False


def named(text: str, caller: Caller) -> bool:
    """Tell whether the newest message of the owner names something by these words, whatever it says of it."""
    wanted, newest = _words(text), _words(_newest(caller))
    return bool(wanted) and any(newest[i : i + len(wanted)] == wanted for i in range(len(newest) - len(wanted) + 1))


def _marked(sentence: str) -> list[str]:
    """Give the words of a sentence, and a mark at the end of a question."""
    return [*_words(sentence), *(["?"] if sentence.rstrip().endswith("?") else [])]


def _newest(caller: Caller) -> str:
    return caller.said[-1].replace("`", " ") if caller.said and is_owner(caller.origin) else ""


def _words(text: str) -> list[str]:
    return [_PERSONS.get(word, word) for word in _WORD.findall(text.casefold())]
