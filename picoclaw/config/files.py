"""Reads the owner's files of settings: regular, readable, TOML."""

import json
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from picoclaw.errors import ConfigError, explain_syntax
from picoclaw.files import explain_os_error, open_file
from picoclaw.text import pattern


def read_toml(path: Path, *, private: bool = False) -> dict[str, Any]:
    """Read a file of the owner's, nothing if there is none; raises ConfigError."""
    text = read_regular(path, private=private)
    if not text:
        return {}
    import tomllib

    try:
        return tomllib.loads(text.decode())
    except (ValueError, RecursionError) as error:  # also for a number of more digits than Python reads
        raise ConfigError(f"{path} is not valid TOML: {_explain_line(text, explain_syntax(error))}") from None


_AT_LINE = pattern(r" \(at line (\d+), column \d+\)$")
_HINTS = {
    "Invalid value": 'put a text in quotes, such as name = "greenhouse"; true and false are written small',
    "Expected newline": "one setting on each line, a text in quotes, a fraction with a point",
    "Expected '='": "write it as NAME = VALUE",
    "Unterminated string": "a quote is not closed",
    "Unescaped '\\'": "put a text with \\ in it in 'single quotes'",
    "Invalid hex": "put a text with \\ in it in 'single quotes'",
    "Cannot overwrite": "a setting is there twice",
    "Cannot declare": "a table is there twice",
}
"""What is mostly meant by the beginning of a message of tomllib's."""


def _explain_line(text: bytes, message: str) -> str:
    """Name the line and its setting, never its value, which may be a key; and what is mostly meant."""
    hint = next((f"; {words}" for start, words in _HINTS.items() if message.startswith(start)), "")
    if not (at := _AT_LINE.search(message)):
        return message + hint
    line = text.decode(errors="replace").split("\n")[int(at[1]) - 1]
    setting = line.partition("=")[0].strip() if "=" in line else ""
    named = f", {setting}" if 0 < len(setting) <= 40 and setting.isprintable() else ""
    return f"line {at[1]}{named}: {message[: at.start()]}{hint}"


def read_regular(path: Path, *, private: bool = False) -> bytes:
    """Read a regular file whole, nothing if there is none; a pipe in its place would keep us waiting for ever."""
    try:
        with open_file(path) as file:
            mode = os.fstat(file.fileno()).st_mode
            if private and mode & 0o077:
                raise ConfigError(f"{path} can be read by others (mode {stat.S_IMODE(mode):04o}): chmod 600 {path}")
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return b""
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {explain_os_error(error)}") from None


# Sets single keys in an owner's config.toml and leaves every other byte, comments too, as it is.

_HEADER = pattern(r"^[ \t]*\[\s*([A-Za-z0-9_.-]+)\s*\]", re.MULTILINE)
_COMMENTED_HEADER = pattern(r"^#[ \t]*\[", re.MULTILINE)  # what follows it belongs to another table


def set_value(text: str, table: str, key: str, value: str | float | list[int] | list[str] | dict[str, str]) -> str:
    """Set a key of a table ("" for those above the first), in its line or that of its commented default.

    Where there is none it goes below the header, or with the table to the end. A remark behind the value stays.
    Raises ConfigError when the result would not say what it should.
    """
    line = f"{key} = {_format_value(value)}"
    start, end = _find_span(text, table)
    if start < 0:
        gap = "" if not text or text.endswith("\n") else "\n"
        changed = f"{text}{gap}\n[{table}]\n{line}\n"
    else:
        gap = "" if not start or text[start - 1] == "\n" else "\n"
        changed = text[:start] + gap + _replace_line(text[start:end], key, line) + text[end:]
    import tomllib

    try:
        found = tomllib.loads(changed)
        for name in table.split(".") if table else ():
            found = found[name]
        is_set = found[key] == value
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ConfigError(f"[{table}] {key} cannot be set ({explain_syntax(error)}): write it by hand") from None
    if not is_set:
        raise ConfigError(f"[{table}] {key} cannot be set: it is written in a way that only a person should change")
    return changed


def _format_value(value: Any) -> str:
    if isinstance(value, dict):
        rows = ", ".join(f"{name} = {_format_value(one)}" for name, one in value.items())
        return f"{{ {rows} }}"
    return json.dumps(value, ensure_ascii=False)


def add_table(text: str, table: str, values: Mapping[str, Any]) -> str:
    """Add a table that is not there yet to the end. Raises ConfigError."""
    lines = (f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in values.items())
    gap = "" if not text or text.endswith("\n") else "\n"
    changed = f"{text}{gap}\n[{table}]\n{''.join(lines)}"
    if _get_table(changed, table) != values or _get_table(text, table) is not None:
        raise ConfigError(f"[{table}] cannot be added, or is there already: write it by hand")
    return changed


def remove_table(text: str, table: str) -> str:
    """Take a table out, with what is written below its header. Raises ConfigError."""
    start, end = _find_span(text, table)
    header = text.rfind("[", 0, max(start, 0))
    changed = text[: text.rfind("\n", 0, header) + 1] + text[end:] if start >= 0 else text
    if _get_table(text, table) is None or _get_table(changed, table) is not None:
        raise ConfigError(f"there is no [{table}], or it is written in a way that only a person should change")
    return changed


def _get_table(text: str, table: str) -> Any:
    import tomllib

    try:
        found: Any = tomllib.loads(text)
        for name in table.split("."):
            found = found.get(name) if isinstance(found, dict) else None
    except (ValueError, RecursionError):
        return None
    return found


def rename_table(text: str, old: str, new: str) -> str:
    """Rename a table in its header; raises ConfigError when that is not all that would change."""
    import tomllib

    changed = re.sub(rf"(?m)^([ \t]*\[\s*){re.escape(old)}(\s*\])", rf"\g<1>{new}\g<2>", text, count=1)
    try:
        tables, found = tomllib.loads(text), tomllib.loads(changed)
        is_renamed = found == {new if name == old else name: table for name, table in tables.items()}
    except (ValueError, RecursionError):
        is_renamed = False
    if not is_renamed:
        raise ConfigError(f"[{old}] is called [{new}] now: rename it by hand")
    return changed


def _find_span(text: str, table: str) -> tuple[int, int]:
    """The span of a table's lines, without its header; -1 if it is not there."""
    found = list(_HEADER.finditer(text))
    if not table:
        return 0, found[0].start() if found else len(text)
    ends = [*(header.start() for header in found[1:]), len(text)]
    for header, end in zip(found, ends, strict=False):
        if header[1] == table:
            return text.find("\n", header.end()) + 1 or len(text), end
    return -1, -1


def _replace_line(body: str, key: str, line: str) -> str:
    other = _COMMENTED_HEADER.search(body)
    for prefix, end in (("", len(body)), (r"#[ \t]*", other.start() if other else len(body))):
        assigned = re.compile(
            rf"^[ \t]*{prefix}{re.escape(key)}[ \t]*=[ \t]*(?:\"(?:[^\"\\\n]|\\.)*\"|'[^'\n]*'|\[[^\]\n]*\]|\{{[^}}\n]*\}}|[^#\s]*)",
            re.MULTILINE,
        )
        if found := assigned.search(body, 0, end):
            return body[: found.start()] + line + body[found.end() :]
    return f"{line}\n{body}"


# Notices that the owner has written a file of settings anew, by its time and size.

_STAMPED_FILES = ("config.toml", "secrets.toml")
FilesStamp = tuple[tuple[int, int, int] | None, ...]


def read_stamp(home: Path) -> FilesStamp:
    """A stamp of the settings files that changes when one of them does."""
    found: list[tuple[int, int, int] | None] = []
    for name in _STAMPED_FILES:
        try:
            about = (home / name).stat()
            found.append((about.st_mtime_ns, about.st_size, about.st_ino))
        except OSError:
            found.append(None)
    return tuple(found)
