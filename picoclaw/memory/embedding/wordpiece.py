"""Cuts a text into the pieces of BERT's uncased vocabulary, as its reference implementation does."""

import unicodedata
from collections.abc import Iterator, Sequence
from itertools import chain

_LONGEST_WORD = 100  # characters; a longer one is unknown as a whole
_MOST_CHARACTERS = 10_000  # how many of Unicode's are remembered
_UNSEEN = frozenset(("Cc", "Cf", "Co", "Cs", "Mn"))  # control characters, private ones, accents
_IDEOGRAPHS = (
    range(0x3400, 0x4DC0),
    range(0x4E00, 0xA000),
    range(0xF900, 0xFB00),
    range(0x20000, 0x2A6E0),
    range(0x2A700, 0x2B820),
    range(0x2B920, 0x2CEB0),
    range(0x2F800, 0x2FA20),
)


class _Characters(dict[int, str]):
    """What becomes of each character, found out when it is first met."""

    def __missing__(self, code: int) -> str:
        made = _made_of(chr(code))
        if len(self) < _MOST_CHARACTERS:
            self[code] = made
        return made


def _made_of(character: str) -> str:
    """A blank, nothing, a word of its own, or a small letter."""
    category = unicodedata.category(character)
    if character in "\t\n\r" or category.startswith("Z"):
        return " "
    if character == "\ufffd" or category in _UNSEEN:
        return ""
    sign = category.startswith("P") or (character.isascii() and not character.isalnum())
    if sign or any(ord(character) in block for block in _IDEOGRAPHS):
        return f" {character} "
    return character.lower()


class WordPiece:
    """A vocabulary, ready to cut."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        """`vocabulary`: the pieces in the order of their numbers; `##` begins those that go on with a word."""
        self._numbers = dict(zip(vocabulary, range(len(vocabulary)), strict=True))
        self._characters = _Characters()

    def tokens(self, text: str) -> list[int]:
        """Number the pieces of a text; a word that cannot be made of pieces is left out."""
        return list(chain.from_iterable(pieces for _, pieces in self.words(text)))

    def words(self, text: str) -> Iterator[tuple[str, list[int]]]:
        """Give each word of a text, in small letters without accents, and the numbers of its pieces."""
        if not text.isascii():
            text = unicodedata.normalize("NFD", text)
        for word in text.translate(self._characters).split():
            number = self._numbers.get(word)
            yield word, self._pieces(word) if number is None else [number]

    def _pieces(self, word: str) -> list[int]:
        """Take the longest piece that fits, again and again; nothing when the word is not used up."""
        out: list[int] = []
        start = 0
        if len(word) > _LONGEST_WORD:
            return out
        while start < len(word):
            mark = "##" if start else ""
            ends = range(len(word), start, -1)
            end = next((end for end in ends if mark + word[start:end] in self._numbers), 0)
            if not end:
                return []
            out.append(self._numbers[mark + word[start:end]])
            start = end
        return out
