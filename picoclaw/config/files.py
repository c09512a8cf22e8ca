"""Reads the owner's files of settings, and the keys that are sent out: from the environment, a credential or secrets.toml."""

import json
import os
import re
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from picoclaw.errors import ConfigError, explain_syntax
from picoclaw.files import explain_os_error, open_file
from picoclaw.schema import InvalidArgument, check_arguments, read_parameter
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


OPENAI_URL = "https://api.openai.com/v1"
OPENROUTER_URL = "https://openrouter.ai/api/v1"
ANTHROPIC_URL = "https://api.anthropic.com/v1"
_MIN_TOKEN_CHARS = 16
_VENDOR_VARIABLES = {
    "openai": {"OPENROUTER_API_KEY": OPENROUTER_URL, "OPENAI_API_KEY": OPENAI_URL},
    "responses": {"OPENAI_API_KEY": OPENAI_URL},
    "anthropic": {"ANTHROPIC_API_KEY": ANTHROPIC_URL},
}
"""The variable of each vendor's key and its server, by what is spoken there."""

_SECRET_VARIABLES = {
    "telegram_token": "PICOCLAW_TELEGRAM_TOKEN",
    "matrix_token": "PICOCLAW_MATRIX_TOKEN",
    "brave_key": "BRAVE_API_KEY",
    "mqtt_password": "PICOCLAW_MQTT_PASSWORD",
    "store_password": "PICOCLAW_STORE_PASSWORD",
    "metrics_token": "",
    "mcp_token": "",
}
"""The secrets that are taken as they are given, and the variable of each, if it has one."""
_SECRET_KEYS = ("api_key", "embedding_key", *_SECRET_VARIABLES)
_NAMED_SECRETS = {"notify": "notify_token", "hook": "hook_secret", "mcp": "mcp_token"}
"""The credential of each [notify.NAME], [hooks.NAME] and [mcp.NAME], by what its key below [keys] begins with."""


def find_vendor(name: str, api: str, environment: Mapping[str, str], how: str) -> str:
    """Find whose model it is by whose key there is: nobody's question goes to a vendor that was not chosen.

    Raises ConfigError, which says `how` a server is set.
    """
    for variable, base_url in _VENDOR_VARIABLES[api].items():
        if environment.get(variable):
            return base_url
    raise ConfigError(f"there is no server for the model {name!r}: {how}")


def read_api_key(home: Path, base_url: str, environment: Mapping[str, str]) -> str:
    """The key of the model's server. A vendor's own variable is only ever sent to that vendor."""
    key = environment.get("PICOCLAW_API_KEY") or _get_vendor_key(base_url, environment)
    return _check_characters(key or _read_secret(home, "api_key", environment))


def read_model_keys(home: Path, base_urls: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """The keys of the further models, by the names of their tables; none of them has another's. Raises ConfigError."""
    kept = _load_secrets(home)["keys"] if base_urls else {}
    return {
        name: _check_characters(
            environment.get(f"PICOCLAW_API_KEY_{name.upper()}")
            or _get_vendor_key(base_url, environment)
            or _read_credential(environment, f"api_key_{name}")
            or str(kept.get(name, ""))
        )
        for name, base_url in base_urls.items()
    }


def read_embedding_key(home: Path, url: str, base_url: str, environment: Mapping[str, str]) -> str:
    """The key of the embedding server: the model's own when both are one server, else one that is meant for it."""
    if url.split("/")[:3] == base_url.split("/")[:3]:
        return read_api_key(home, base_url, environment)
    return _check_characters(_load_secrets(home)["embedding_key"] or _get_vendor_key(url, environment))


def read_secrets(home: Path, environment: Mapping[str, str]) -> dict[str, Any]:
    """The secrets of which there is one each, '' for none, by name. Raises ConfigError for a token that can be guessed."""
    found = {
        name: environment.get(variable) or _read_secret(home, name, environment)
        for name, variable in _SECRET_VARIABLES.items()
    }
    for name in ("telegram_token", "matrix_token"):
        found[name] = found[name].strip()
    for name in ("brave_key", "metrics_token", "mcp_token"):
        found[name] = _check_characters(found[name])
    for name in ("metrics_token", "mcp_token"):
        _check_length(name, found[name])
    return found


def read_named_secrets(home: Path, kind: str, names: Iterable[str], environment: Mapping[str, str]) -> dict[str, str]:
    """The secrets of the tables of a kind, see _NAMED_SECRETS; '' for one that has none.

    Raises ConfigError, also for the secret of a hook that can be guessed.
    """
    kept, credential = _load_secrets(home)["keys"] if (wanted := list(names)) else {}, _NAMED_SECRETS[kind]
    found = {
        name: _check_characters(
            environment.get(f"PICOCLAW_{credential.upper()}_{name.upper()}")
            or _read_credential(environment, f"{credential}_{name}")
            or str(kept.get(f"{kind}_{name}", ""))
        )
        for name in wanted
    }
    for name in found if kind == "hook" else ():
        _check_length(f"hook_{name}", found[name])
    return found


def _check_length(name: str, token: str) -> None:
    if token and len(token) < _MIN_TOKEN_CHARS:
        raise ConfigError(f"{name} must have at least {_MIN_TOKEN_CHARS} characters: openssl rand -hex 16")


def list_stored_secrets(home: Path, environment: Mapping[str, str]) -> frozenset[str]:
    """Collect every secret that this home has been given, also one that another takes the place of. Raises ConfigError.

    Which of them is sent out is one question; that none of them is shown is another.
    """
    kept, folder = _load_secrets(home), environment.get("CREDENTIALS_DIRECTORY")
    try:
        there = [path.name for path in Path(folder).iterdir()] if folder else []
    except OSError:
        there = []
    prefixes = ("api_key_", *(f"{credential}_" for credential in _NAMED_SECRETS.values()))
    names = [name for name in there if name in _SECRET_KEYS or name.startswith(prefixes)]
    found = {*(str(kept[name]) for name in _SECRET_KEYS), *map(str, kept["keys"].values())}
    variables = (*filter(None, _SECRET_VARIABLES.values()), *(f"PICOCLAW_{prefix.upper()}" for prefix in prefixes))
    found |= {text for name, text in environment.items() if name.endswith("_API_KEY") or name.startswith(variables)}
    found |= {_read_credential(environment, name) for name in names}
    return frozenset(secret.strip() for secret in found) - {""}


def _get_vendor_key(base_url: str, environment: Mapping[str, str]) -> str:
    if base_url and base_url == environment.get("OPENAI_BASE_URL", "").rstrip("/"):
        return environment.get("OPENAI_API_KEY", "")
    theirs = (pair for vendors in _VENDOR_VARIABLES.values() for pair in vendors.items())
    return next((environment.get(variable, "") for variable, url in theirs if base_url.startswith(url)), "")


def _check_characters(key: str) -> str:
    key = key.strip()
    if not (key.isascii() and key.isprintable()):
        raise ConfigError("the API key holds a character that no key has; copy it again")
    return key


def _read_credential(environment: Mapping[str, str], name: str) -> str:
    folder = environment.get("CREDENTIALS_DIRECTORY")
    if not folder:
        return ""
    path = Path(folder) / name
    try:
        return read_regular(path).decode()
    except UnicodeDecodeError:
        raise ConfigError(f"{path} cannot be read: it is not text") from None


def _read_secret(home: Path, name: str, environment: Mapping[str, str]) -> str:
    return _read_credential(environment, name) or str(_load_secrets(home)[name])


def _load_secrets(home: Path) -> dict[str, Any]:
    path = home / "secrets.toml"
    table = read_toml(path, private=True)
    wanted = [read_parameter(known, str, "") for known in _SECRET_KEYS]
    try:
        found = check_arguments((*wanted, read_parameter("keys", dict, {})), table)
        if all(isinstance(key, str) for key in found["keys"].values()):
            return found
    except InvalidArgument:
        pass
    lines = ", ".join(f'{known} = "..."' for known in _SECRET_KEYS)
    raise ConfigError(
        f'{path} may hold {lines}, and below a line [keys] NAME = "..." for each [models.NAME], and nothing else'
    )
