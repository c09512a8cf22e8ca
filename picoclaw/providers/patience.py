"""How long a server asks to be left alone, in all the places where servers say that. Pure: the time is handed in.

Source: RFC 9110, section 10.2.3 (Retry-After); google.rpc.RetryInfo; draft-ietf-httpapi-ratelimit-headers; the
references of OpenAI's, Anthropic's, Azure's and OpenRouter's APIs for their own headers and words.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime

_LONGEST_S = 1e9
_EPOCH_S, _EPOCH_MS = 1e9, 1e12  # numbers above these are a moment, not a while
_NUMBER = r"\d{1,15}(?:\.\d{1,9})?"
_UNITS = {"ms": 0.001, "milli": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_PART = rf"({_NUMBER})\s*(milli|ms|s|m|h|d)(?:seconds?|econds?|ecs?|inutes?|ins?|ours?|rs?|ays?)?(?![a-z])"
_WHILE = re.compile(rf"{_PART}")
_SAID = re.compile(
    rf"(?:again|retry|wait|reset)\w*(?:\s+(?:your|the|this)\s+\w+)?\s+(?:(?:in|after|for|at least|about)\s+)*"
    rf"((?:{_PART}[\s,]*(?:and\s+)?)+)",
    re.IGNORECASE,
)
_NAMED = re.compile(
    rf'"retry[-_]?(?:after|delay|in)(?P<unit>[-_]?ms|[-_]?milliseconds)?(?:[-_]?s(?:ec(?:onds)?)?)?"\s*:'
    rf'\s*"?(?P<number>{_NUMBER})s?"?\s*[,}}]',
    re.IGNORECASE,
)
_RESET_NAMED = re.compile(rf'"x-ratelimit-reset"\s*:\s*"?({_NUMBER})', re.IGNORECASE)
_RESETS = re.compile(r"(?:x-|anthropic-)?ratelimit-(?:[a-z-]+-)?reset(?:-[a-z-]+)?")


def asked_for(headers: Mapping[str, str], text: str, now: float) -> float:
    """Seconds that an error answer asks to wait, by its headers (names in small letters), else by its `text`.

    `now` is the wall clock, for dates. 0 where nothing is said that can be understood.
    """
    for name in ("retry-after-ms", "x-ms-retry-after-ms"):
        if re.fullmatch(_NUMBER, headers.get(name, "").strip()):
            return _sane(float(headers[name]) / 1000)
    after = headers.get("retry-after", "").strip()
    return _value(after, now) or _reset(headers, now) or told(text) or _moment(_RESET_NAMED.search(text), now)


def told(text: str) -> float:
    """Seconds that a text names: a field of JSON, or words such as `try again in 1m2.5s`; 0 where it names none."""
    if field := _NAMED.search(text):
        return _sane(float(field["number"]) * (0.001 if field["unit"] else 1.0))
    said = _SAID.search(text)
    return _while(said[1]) if said else 0.0


def _reset(headers: Mapping[str, str], now: float) -> float:
    """When a limit that is used up begins anew; the longest, where several are."""
    waits = [0.0]
    for name, value in headers.items():
        if _RESETS.fullmatch(name) and headers.get(name.replace("reset", "remaining"), "0").strip() in {"0", "0.0"}:
            waits.append(_value(value.strip(), now))
    return max(waits)


def _value(value: str, now: float) -> float:
    """A while or a moment, as headers write them."""
    if number := re.fullmatch(rf"({_NUMBER})", value):
        return _moment(number, now)
    if re.fullmatch(rf"(?:{_NUMBER}(?:ms|[smhd]))+", value):
        return _while(value)
    return _date(value, now)


def _moment(number: re.Match[str] | None, now: float) -> float:
    """Seconds until a number that is a moment, or the number itself."""
    value = float(number[1]) if number else 0.0
    if value >= _EPOCH_MS:
        return _sane(value / 1000 - now)
    return _sane(value - now if value >= _EPOCH_S else value)


def _while(text: str) -> float:
    return _sane(sum(float(number) * _UNITS[unit.lower()] for number, unit in re.findall(_PART, text, re.IGNORECASE)))


def _date(value: str, now: float) -> float:
    """Seconds until a date, of HTTP or of RFC 3339."""
    from email.utils import parsedate_to_datetime

    for read in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            date = read(value)
        except (ValueError, TypeError, IndexError):
            continue
        return _sane((date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - now)
    return 0.0


def _sane(seconds: float) -> float:
    return seconds if 0 < seconds < _LONGEST_S else 0.0
