"""Hours of the day as an owner writes them: "22:00-07:00"."""

from datetime import time

from picoclaw.errors import ConfigError
from picoclaw.pattern import pattern

_HOURS = pattern(r"(\d{1,2}):(\d\d)\s*[-–—]\s*(\d{1,2}):(\d\d)")


def hours(text: str, where: str) -> tuple[time, time] | None:
    """Read a span of hours, which may go over midnight; None for an empty one. Raises ConfigError naming `where`."""
    if not text.strip():
        return None
    found = _HOURS.fullmatch(text.strip())
    try:
        start, end = (time(int(found[i]), int(found[i + 1])) for i in (1, 3)) if found else (time(), time())
    except ValueError:
        start = end = time()
    if start == end:
        raise ConfigError(f'{where} is {text!r}; write it like "22:00-07:00", or "" for none')
    return start, end
