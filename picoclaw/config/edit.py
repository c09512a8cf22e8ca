"""Sets single keys in an owner's config.toml and leaves every other byte, comments too, as it is."""

import json
import re
import tomllib

from picoclaw.errors import ConfigError, explain_syntax

_HEADER = re.compile(r"^[ \t]*\[\s*([A-Za-z0-9_.-]+)\s*\]", re.MULTILINE)


def put(text: str, table: str, key: str, value: str | float | list[int]) -> str:
    """Set a key of a table ("" for those above the first), in its line or that of its commented default.

    Where there is none it goes below the header, or with the table to the end. A remark behind the value stays.
    Raises ConfigError when the result would not say what it should.
    """
    line = f"{key} = {_shown(value)}"
    start, end = _span(text, table)
    if start < 0:
        gap = "" if not text or text.endswith("\n") else "\n"
        changed = f"{text}{gap}\n[{table}]\n{line}\n"
    else:
        gap = "" if not start or text[start - 1] == "\n" else "\n"
        changed = text[:start] + gap + _within(text[start:end], key, line) + text[end:]
    _prove(changed, table, key, value)
    return changed


def _span(text: str, table: str) -> tuple[int, int]:
    """Where a table's lines are: behind its header, up to the next; -1 when it is not there."""
    found = list(_HEADER.finditer(text))
    if not table:
        return 0, found[0].start() if found else len(text)
    ends = [*(header.start() for header in found[1:]), len(text)]
    for header, end in zip(found, ends, strict=False):
        if header[1] == table:
            return text.find("\n", header.end()) + 1 or len(text), end
    return -1, -1


def _within(body: str, key: str, line: str) -> str:
    for prefix in ("", r"#[ \t]*"):
        pattern = re.compile(
            rf"^[ \t]*{prefix}{re.escape(key)}[ \t]*=[ \t]*(?:\"(?:[^\"\\\n]|\\.)*\"|'[^'\n]*'|\[[^\]\n]*\]|[^#\s]*)",
            re.MULTILINE,
        )
        if found := pattern.search(body):
            return body[: found.start()] + line + body[found.end() :]
    return f"{line}\n{body}"


def _shown(value: str | float | list[int]) -> str:
    return json.dumps(value, ensure_ascii=False)


def _prove(text: str, table: str, key: str, value: object) -> None:
    try:
        found = tomllib.loads(text)
        for name in table.split(".") if table else ():
            found = found[name]
        good = found[key] == value
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ConfigError(f"[{table}] {key} cannot be set ({explain_syntax(error)}): write it by hand") from None
    if not good:
        raise ConfigError(f"[{table}] {key} cannot be set: it is written in a way that only a person should change")
