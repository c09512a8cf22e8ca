"""Text: regular expressions compiled on first use, chat markup, ranking of words, what can be printed and seen."""

import json
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, AnyStr, cast


class _Pattern:
    """Stands in for a compiled expression; what has been asked of it once is there without detour."""

    def __init__(self, text: str | bytes, flags: int) -> None:
        self._text, self._flags = text, flags

    def __getattr__(self, name: str) -> Any:
        made = getattr(re.compile(self._text, self._flags), name)  # which re keeps
        if not name.startswith("__"):
            setattr(self, name, made)
        return made


def pattern(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Write a regular expression as for re.compile; one that is none raises re.error where it is first used."""
    return cast("re.Pattern[AnyStr]", _Pattern(text, flags))


# Takes the force out of chat templates' control tokens in a text, and leaves the text readable.
#
# A server that puts messages into a model's template may read `<|im_start|>system` in a file, a web page or a sensor's
# name as the beginning of a system message. The tokens are those of the public templates of Llama 2 to 4, ChatML, Qwen,
# Mistral, Gemma, DeepSeek, Phi, GPT-OSS, Command-R, GLM, Granite, EXAONE, Nemotron and Seed.

_ANGLE_TOKENS = (
    "(?:start|end)_of_turn>",
    "(?:bos|eos|unk|pad)(?:_token)?>",
    "tool_(?:call|response|result)s?>",
    "(?:think|sop|eop|arg_key|arg_value)>",
    "(?:function|parameter)=",
    r"(?:special|extra_id)_\d{1,4}>",
    r"seed:\w{1,20}>",
    r"[a-z]{1,20}:tool_calls?>",
    "(?:start|end)_function_call>",
    "(?:toolcall|function_calls)>",
    'invoke name="',
    r"[a-z_]{1,40}\|>",  # <turn|>
)
_SQUARE_TOKENS = "inst|tool_calls|available_tools|tool_results|tool_content|system_prompt|think|gmask"
_ROLES = ("system", "user", "assistant", "tool", "endofturn")

# `<|` before anything that can be a name, `<｜` before everything. `<S>` is a type's parameter in code and no token.
_CONTROL_TOKEN_START = pattern(
    rf'<(?=/?(?:\|["/\w]|｜|(?=[a-zA-Z_])(?:s>|(?i:{"|".join(_ANGLE_TOKENS)})))|(?i:</?sys>>))'
    rf"|\[(?=/?(?=[a-zA-Z])(?i:{_SQUARE_TOKENS})\]|(?i:\|(?:{'|'.join(_ROLES)})\|\]))"
)


def escape_control_tokens(text: str) -> str:
    """Put a blank behind the bracket that opens a control token: `< |im_start|>`. Doing it twice changes nothing."""
    return _CONTROL_TOKEN_START.sub(lambda bracket: f"{bracket[0]} ", text)


# Which of some texts fits a question best, by their words alone. Pure.

# Scripts in which no blank tells where a word ends: kana, Chinese characters, Hangul with its endings.
_UNSPACED_SCRIPTS = (
    "\u3005\u3007\u3041-\u3096\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3"
    "\U00020000-\U0003ffff"
)
_WORD = pattern(rf"[{_UNSPACED_SCRIPTS}]+|[^\W_{_UNSPACED_SCRIPTS}]+")
_PLAIN_WORD = pattern(r"[^\W_]+")
_MAYBE_UNSPACED = pattern("[^\x00-\u3004]")
"""Before these there is no unspaced script, and the tables of them take 6 ms to make."""
_UNSPACED_CHAR = pattern(f"[{_UNSPACED_SCRIPTS}]")
_STOP_WORD_TEXT = (
    "a about am an and any are at be been can did do does for from had has have how i if in is it its me my of on or so"
    " that the there this to use used using was we were what when where which who will with you your"
)
STOP_WORDS = frozenset(_STOP_WORD_TEXT.split())
_ENDINGS = ("ing", "ed", "ie", "e", "y")
_FOLDED_CHARS = str.maketrans(dict.fromkeys("‘’ʼ′", "'") | dict.fromkeys("‐‑‒–—−", "-"))


def fold_case(text: str) -> str:
    """Write a text as it can be compared: small letters, one form of each character, of apostrophes and of hyphens."""
    return unicodedata.normalize("NFKC", text).casefold().translate(_FOLDED_CHARS)


def fold_accents(text: str) -> str:
    """Write a text in small letters, without accents."""
    if text.isascii():
        return text.lower()
    apart = unicodedata.normalize("NFKD", text.casefold())
    return unicodedata.normalize("NFC", "".join(c for c in apart if not unicodedata.combining(c)))


def list_terms(text: str) -> list[str]:
    """List what a text is found by: stems of its words; of Chinese and the like, characters and pairs of neighbours."""
    return _list_forms(fold_case(text), single=True)


def list_query_terms(query: str) -> list[str]:
    """List what a question looks for: its words; of Chinese and the like a single character only where it is alone."""
    return _list_forms(fold_case(query), single=False)


def reduce_to_vocabulary(text: str) -> str:
    """Shorten a text to each of its words once, in their order and without stop words: `list_terms` finds the same."""
    return " ".join(dict.fromkeys(word for word in _split_words(fold_case(text)) if word not in STOP_WORDS))


def _split_words(text: str) -> list[str]:
    return (_WORD if _MAYBE_UNSPACED.search(text) else _PLAIN_WORD).findall(text)


def _list_forms(text: str, *, single: bool) -> list[str]:
    if not _MAYBE_UNSPACED.search(text):
        return [stem_word(word) for word in _PLAIN_WORD.findall(text) if word not in STOP_WORDS]
    return [form for word in _WORD.findall(text) for form in _make_forms(word, single=single)]


def _make_forms(word: str, *, single: bool) -> Iterator[str]:
    if not _MAYBE_UNSPACED.match(word) or not _UNSPACED_CHAR.match(word):
        yield from () if word in STOP_WORDS else (stem_word(word),)
        return
    if single or len(word) == 1:
        yield from word
    yield from (word[i : i + 2] for i in range(len(word) - 1))


def stem_word(word: str) -> str:
    """Take off what a word's form adds, as far as it helps to find: batteries, wiring and wire, watered and water."""
    if len(word) > 3 and word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    if word.endswith(_ENDINGS):
        for ending in _ENDINGS:
            if word.endswith(ending) and len(word) >= len(ending) + 3:
                return word.removesuffix(ending)
    return word


def bm25(query: str, texts: Sequence[str], k1: float = 1.2, b: float = 0.75) -> list[float]:
    """Score each text for the query by Okapi BM25: rare words count more, repetition and length less and less.

    `k1` says how soon a repeated word stops counting, `b` how much a long text is marked down. Never negative.
    """
    counted = [Counter(list_terms(text)) for text in texts]
    lengths = [counts.total() for counts in counted]
    usual = sum(lengths) / len(lengths) if any(lengths) else 1.0
    scores = [0.0] * len(texts)
    for word in dict.fromkeys(list_query_terms(query)):
        having = [i for i, counts in enumerate(counted) if word in counts]
        rarity = math.log(1 + (len(texts) - len(having) + 0.5) / (len(having) + 0.5))
        for i in having:
            count = counted[i][word]
            scores[i] += rarity * count * (k1 + 1) / (count + k1 * (1 - b + b * lengths[i] / usual))
    return scores


def truncate(text: str, limit: int) -> str:
    """Cut a text to at most `limit` characters; the last of them is … then."""
    return text if len(text) <= limit else f"{text[: limit - 1].rstrip()}…"


_UNPRINTABLE = pattern(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb"
    r"\U000e0000-\U000e0fff]"
)


def format_json(value: object, *, indent: int | None = None) -> str:
    """Write JSON for a terminal or a file, with an escape for whatever `escape_unprintable` makes visible."""
    text = json.dumps(value, ensure_ascii=False, indent=indent, default=str)
    return _UNPRINTABLE.sub(lambda found: json.dumps(found[0])[1:-1], text)


def parse_json_object(text: str | bytes) -> dict[str, Any]:
    """Read an object; what is none is an empty one."""
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return given if isinstance(given, dict) else {}


def escape_unprintable(text: str) -> str:
    """Make control characters and what nobody sees visible, so that a text can neither drive a terminal nor hide."""
    return _UNPRINTABLE.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


# What nobody sees.

_SELECTOR_BASES = "\xa9\xae\u0300-\u1fff\u203c-\u2fff\u3003-\ud7ff\uf900-\ufdff\U0001f000-\U0001faff"
_JOINING_SCRIPTS = "\u0300-\u1fff\u2070-\u2fff\u3001-\ufdff\ufe10-\U0010ffff"

# Controls, direction marks, fillers, tags, and the selectors of looks that fonts do not have.
_INVISIBLE = pattern(
    "[\x00-\x08\x0b-\x1f\x7f-\x84\x86-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f"
    "\u202a-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_INVISIBLE_LATIN = pattern("[\x00-\x08\x0b-\x1f\x7f-\x84\x86-\x9f\xad]")
_NON_LATIN = pattern("[^\x00-\u02ff\u2010-\u2027\u2030-\u205e\u20a0-\u20bf\u2190-\u22ff]")
"""What is written in Western Europe needs none of the rest, whose tables take 9 ms to make."""

# A joiner belongs between letters of a script that joins them, or emoji; a selector behind what has two looks.
_STRAY_JOINER = pattern(
    f"(?<![{_JOINING_SCRIPTS}])(?<![{_SELECTOR_BASES}][\ufe0e\ufe0f])[\u200c\u200d]|[\u200c\u200d](?![{_JOINING_SCRIPTS}])"
    f"|(?<![{_SELECTOR_BASES}])[\ufe0e\ufe0f](?!\u20e3)"
)


def remove_invisible(text: str) -> str:
    """Leave out the characters that nobody sees, wherever they are."""
    return (
        _STRAY_JOINER.sub("", _INVISIBLE.sub("", text)) if _NON_LATIN.search(text) else _INVISIBLE_LATIN.sub("", text)
    )


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates, which a model may write as escapes and which no database, server or terminal takes."""
    return text.encode("utf-8", "replace").decode()


def diff_texts(old: str, new: str, before: str, after: str) -> str:
    """Show how a text changes, in the form that `patch -p0` takes, and takes back with -R, under these two names."""
    import difflib

    # split at line feeds alone, as patch does
    one, other = (re.findall(r"[^\n]*\n|[^\n]+", text) for text in (old, new))
    lines = difflib.unified_diff(one, other, before, after)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
