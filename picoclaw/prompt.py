"""The words sent to a model, put together from templates and values. Pure: no file, no clock, no network."""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")


class Templates(Protocol):
    """The wording by name; a dict will do."""

    def __getitem__(self, name: str, /) -> str:
        """Return a template's text."""
        ...


def fill(template: str, values: Mapping[str, str]) -> str:
    """Put values in place of `{name}`; a brace that names no value stays as it is. Trailing space goes."""
    return _PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), template).rstrip()


def moment(template: str, now: datetime, notes: Sequence[str] = ()) -> str:
    """The tagged head of a user message: local time with its zone, and what is special just now."""
    facts = [now.strftime("%A %Y-%m-%d %H:%M %Z (UTC%z)"), *notes]
    return fill(template, {"facts": "; ".join(facts)})


def headed(head: str, text: str) -> str:
    """Put the head before the user's words."""
    return f"{head}\n{text}"


def size(value: Any) -> int:
    """Bytes of a value as it travels: UTF-8 text, or compact JSON."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return len(text.encode("utf-8", "replace"))


def estimated_tokens(size_bytes: int) -> int:
    """Guess the tokens of a text from its bytes, for servers that do not count: four bytes a token in English."""
    return -(-size_bytes // 4)
