"""What a server offers, as its owner has agreed to it: kept in `mcp/NAME.json`, so that a start needs no server.

What is kept is what the server said; the digest over the tools that are used is what the owner's yes holds for. A set
that differs in anything is not used until there is a yes for it.
"""

import hashlib
import json
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from picoclaw.config.tables import McpConfig
from picoclaw.errors import ConfigError, explain_syntax
from picoclaw.files import make_folder, read_file, write_atomic
from picoclaw.mcp import clean_line, encode_header, get_list, get_object
from picoclaw.records import NamedTuple
from picoclaw.schema import Parameter, Span
from picoclaw.security.untrusted import sanitize_name, strip_invisible
from picoclaw.text import escape_control_tokens, format_json, pattern, truncate

_TOOL_NAME = pattern(r"[A-Za-z0-9][A-Za-z0-9_./-]{0,127}")
_PARAMETER_NAME = pattern(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_HEADER = pattern(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}")
_MAX_SCHEMA_BYTES, _MAX_PARAMETERS = 40_000, 40
_MAX_WORDS, _MAX_PARAMETER_WORDS = 1000, 200
"""Characters of a description that a model is shown, and of a parameter's."""
_MAX_DEPTH, _MAX_FIELDS, _MAX_CHOICES, _MAX_CHOICE_CHARS = 6, 12, 50, 64
_PLAIN_KINDS: Mapping[str, Any] = {"string": str, "integer": int, "number": float, "boolean": bool, "object": dict}
_KIND_NAMES = {str: "text", int: "whole number", float: "number", bool: "true or false", dict: "object"}


class ServerOffer(NamedTuple):
    """What a server said of itself: each tool as it was sent, the kinds of things that can be read, its own words."""

    identity: str = ""
    version: str = ""
    tools: tuple[dict[str, Any], ...] = ()
    capabilities: tuple[str, ...] = ()
    instructions: str = ""


class Pin(NamedTuple):
    """An offer, and the digest of the set that the owner has agreed to, '' for none."""

    offer: ServerOffer
    agreed: str = ""


class PinnedTool(NamedTuple):
    """A tool as it is called: its name at the server, what a model is told, what is checked.

    `says_it_reads` is the server's own word, which decides nothing alone. `problem` is why it cannot be used. `headers`
    are arguments that go along in headers as well, over HTTP, and their names there.
    """

    name: str
    description: str
    parameters: tuple[Parameter, ...]
    says_it_reads: bool = False
    problem: str = ""
    headers: tuple[tuple[str, str], ...] = ()


def get_pin_path(home: Path, name: str) -> Path:
    return home / "mcp" / f"{name}.json"


def load_pin(home: Path, name: str) -> Pin | None:
    """Read what is known of a server; None where nothing is. Raises ConfigError."""
    path = get_pin_path(home, name)
    try:
        kept = json.loads(read_file(path))
        offer = ServerOffer(
            str(kept["identity"]),
            str(kept["version"]),
            tuple(one for one in kept["tools"] if isinstance(one, dict)),
            tuple(map(str, kept["capabilities"])),
            str(kept["instructions"]),
        )
        return Pin(offer, str(kept["agreed"]))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError, KeyError, TypeError) as error:
        why = explain_syntax(error) if isinstance(error, ValueError | RecursionError) else "something is missing"
        raise ConfigError(f"{path} is damaged ({why}): picoclaw mcp agree {name}") from None


def save_pin(home: Path, name: str, pin: Pin) -> None:
    """Keep it durably. Raises OSError."""
    make_folder(home / "mcp")
    write_atomic(get_pin_path(home, name), format_json(pin.offer._asdict() | {"agreed": pin.agreed}, indent=1).encode())


def list_login_secrets(home: Path) -> tuple[str, ...]:
    """What the logins at servers have given: what no result, log or answer may show."""
    found: list[str] = []
    for path in (home / "mcp").glob("*.token"):
        try:
            kept = get_object(json.loads(read_file(path)))
        except (OSError, ValueError, RecursionError):
            continue
        found += [str(kept[key]) for key in ("access", "refresh", "client_secret") if kept.get(key)]
    return tuple(found)


def compute_offer_digest(offer: ServerOffer, wanted: Sequence[str]) -> str:
    """Hash everything that is said of the tools that are used, whatever their order."""
    exact = sorted(json.dumps(tool, sort_keys=True, ensure_ascii=True) for tool in select_tools(offer, wanted))
    return hashlib.sha256(json.dumps(exact).encode()).hexdigest()


def select_tools(offer: ServerOffer, wanted: Sequence[str]) -> list[dict[str, Any]]:
    """The tools that the owner's table names, all where it names none; of several by one name the first."""
    by_name: dict[str, dict[str, Any]] = {}
    for tool in offer.tools:
        by_name.setdefault(str(tool.get("name")), tool)
    return [tool for name, tool in by_name.items() if not wanted or name in wanted]


def list_pinned(home: Path, name: str, config: McpConfig) -> list[PinnedTool]:
    """The tools of a server that can be called, as agreed; none where there is no agreement. Raises ConfigError."""
    pin = load_pin(home, name)
    if pin is None or not pin.agreed or compute_offer_digest(pin.offer, config.tools) != pin.agreed:
        return []
    read = (read_tool(tool, config.descriptions) for tool in select_tools(pin.offer, config.tools))
    return [one for one in read if not one.problem]


def describe_changes(old: ServerOffer | None, new: ServerOffer, wanted: Sequence[str]) -> Iterator[str]:
    """Say what is other than it was, a line each."""
    before = {str(one.get("name")): one for one in (select_tools(old, wanted) if old else ())}
    after = {str(one.get("name")): one for one in select_tools(new, wanted)}
    yield from (f"new: {clean_line(name, 100)}" for name in after.keys() - before.keys())
    yield from (f"gone: {clean_line(name, 100)}" for name in before.keys() - after.keys())
    for name in after.keys() & before.keys():
        if parts := [key for key in after[name] | before[name] if after[name].get(key) != before[name].get(key)]:
            yield f"changed: {clean_line(name, 100)} ({', '.join(clean_line(part, 40) for part in sorted(parts))})"


# A tool's schema, reduced to what picoclaw checks and what small models can fill in.


def read_tool(tool: Mapping[str, Any], descriptions: Literal["names", "shown", "trusted"] = "shown") -> PinnedTool:
    """Read a tool's definition; whatever cannot be used in it is a problem, never an error."""
    name, schema = str(tool.get("name")), get_object(tool.get("inputSchema"))
    says_it_reads = get_object(tool.get("annotations")).get("readOnlyHint") is True
    shows = descriptions != "names"
    words = _clean_words(tool.get("description"), _MAX_WORDS) if shows else ""
    problem, parameters, headers = "", tuple[Parameter, ...](), tuple[tuple[str, str], ...]()
    if not _TOOL_NAME.fullmatch(name):
        problem = "its name has characters or a length that no tool's name has"
    elif len(json.dumps(schema)) > _MAX_SCHEMA_BYTES:
        problem = f"its schema is larger than {_MAX_SCHEMA_BYTES} bytes"
    else:
        try:
            parameters, headers = tuple(_read_parameters(schema, shows=shows)), tuple(_read_headers(schema))
        except (ValueError, RecursionError) as error:
            problem = f"its schema cannot be used: {'it is nested too deeply' if isinstance(error, RecursionError) else error}"
    return PinnedTool(name, words, parameters, says_it_reads, problem, headers)


def _clean_words(text: Any, most: int) -> str:
    """Foreign words in one line, with nothing that is invisible and no mark of a model's template."""
    if not isinstance(text, str):
        return ""
    return truncate(" ".join(escape_control_tokens(strip_invisible(text)).split()), most)


def _read_parameters(schema: dict[str, Any], *, shows: bool) -> Iterator[Parameter]:
    given, required = get_object(schema.get("properties")), set(map(str, get_list(schema.get("required"))))
    if schema.get("type", "object") != "object":
        raise ValueError("it does not describe an object")
    if len(given) > _MAX_PARAMETERS:
        raise ValueError(f"it has more than {_MAX_PARAMETERS} arguments")
    if missing := required - given.keys():
        raise ValueError(f"it requires {clean_line(min(missing), 40)!r} and does not describe it")
    for name, part in given.items():
        if not _PARAMETER_NAME.fullmatch(name):
            raise ValueError(f"an argument is called {clean_line(name, 40)!r}")
        one = _resolve(part, schema, 0)
        kind, shape = _read_kind(one, schema, 0, shows=shows)
        words = _clean_words(one.get("description"), _MAX_PARAMETER_WORDS) if shows else ""
        described = "; ".join(filter(None, [shape, words]))
        yield Parameter(name, kind, described, _read_span(one, kind), name in required)


def _read_headers(schema: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Which arguments are to be repeated in headers (revision 2026-07-28, x-mcp-header). Raises ValueError."""
    seen: set[str] = set()
    count = json.dumps(schema).count('"x-mcp-header"')
    for name, part in get_object(schema.get("properties")).items():
        if "x-mcp-header" not in get_object(part):
            continue
        header, count = part["x-mcp-header"], count - 1
        is_plain = part.get("type") in {"string", "integer", "boolean"}
        if not (isinstance(header, str) and _HEADER.fullmatch(header) and is_plain) or header.lower() in seen:
            raise ValueError(f"{clean_line(name, 40)!r} cannot go into a header")
        seen.add(header.lower())
        yield name, f"Mcp-Param-{header}"
    if count:
        raise ValueError("only an argument itself can go into a header")


def _resolve(part: Any, root: dict[str, Any], depth: int) -> dict[str, Any]:
    """Follow references within the schema, and take what may be null for what it is else. Raises ValueError."""
    if depth > _MAX_DEPTH:
        raise ValueError("it refers to itself, or is nested too deeply")
    found = get_object(part)
    if isinstance(target := found.get("$ref"), str):
        if not target.startswith("#/"):
            raise ValueError("it refers to something outside of it")
        place: Any = root
        for word in target[2:].split("/"):
            place = get_object(place).get(word.replace("~1", "/").replace("~0", "~"))
        return _resolve({**get_object(place), **{k: v for k, v in found.items() if k != "$ref"}}, root, depth + 1)
    arms = [one for key in ("anyOf", "oneOf", "allOf") for one in get_list(found.get(key))]
    arms = [one for one in arms if get_object(one).get("type") != "null"]
    if arms and "type" not in found:
        own = {key: found[key] for key in ("description",) if key in found}
        if len(arms) == 1:
            return _resolve(arms[0], root, depth + 1) | own
        found_types = [get_object(one).get("type") for one in arms]
        return own | ({"type": found_types[0]} if all(one == found_types[0] for one in found_types) else {})
    if isinstance(kinds := found.get("type"), list):
        plain = [one for one in kinds if one != "null"]
        return found | {"type": plain[0] if len(plain) == 1 else None}
    return found


def _read_kind(one: dict[str, Any], root: dict[str, Any], depth: int, *, shows: bool) -> tuple[Any, str]:
    """The type by which an argument is checked, and what of its shape the type does not say."""
    choices = [one["const"]] if "const" in one else list(get_list(one.get("enum")))
    if choices and all(isinstance(choice, str) for choice in choices):
        # a choice may be a sentence as well; only words are shown where the server's words are not
        is_plain = all(
            len(c) <= _MAX_CHOICE_CHARS and sanitize_name(c) == c and (shows or " " not in c) for c in choices
        )
        if len(choices) <= _MAX_CHOICES and is_plain:
            return Literal[tuple(dict.fromkeys(choices))], ""
        return str, ""
    if choices and all(isinstance(choice, int | float) for choice in choices):
        return (int if all(isinstance(c, int) for c in choices) else float), f"one of {choices[:_MAX_CHOICES]}"
    kind = one.get("type")
    if kind == "array":
        items = _resolve(one.get("items"), root, depth + 1)
        inner, shape = _read_kind(items, root, depth + 1, shows=shows)
        return types.GenericAlias(list, (inner,)), f"each {shape}" if shape else ""
    found = _PLAIN_KINDS.get(str(kind), dict if "properties" in one else str)
    return found, _describe_fields(one, root, depth, shows=shows) if found is dict else ""


def _describe_fields(one: dict[str, Any], root: dict[str, Any], depth: int, *, shows: bool) -> str:
    """Name the fields of an object: a model is told in words what is checked by the server alone."""
    fields = get_object(one.get("properties"))
    required, told = set(map(str, get_list(one.get("required")))), []
    for name, part in list(fields.items())[:_MAX_FIELDS]:
        if _PARAMETER_NAME.fullmatch(name):
            kind, shape = _read_kind(_resolve(part, root, depth + 1), root, depth + 1, shows=shows)
            words = _KIND_NAMES.get(kind, "list" if getattr(kind, "__origin__", None) is list else "text")
            told.append(f"{name}: {shape or words}{'' if name in required else ', may be left out'}")
    return f"object of {'; '.join(told)}" if told else ""


def _read_span(one: dict[str, Any], kind: Any) -> Span | None:
    low, high = one.get("minimum"), one.get("maximum")
    if kind not in {int, float} or not (isinstance(low, int | float) or isinstance(high, int | float)):
        return None
    return Span(
        low if isinstance(low, int | float) else float("-inf"), high if isinstance(high, int | float) else float("inf")
    )


def fill_headers(names: Iterable[tuple[str, str]], given: Mapping[str, Any]) -> dict[str, str]:
    """The headers that repeat arguments, as far as those are given."""
    found = ((header, given[name]) for name, header in names if given.get(name) is not None)
    return {header: encode_header(str(v).lower() if isinstance(v, bool) else str(v)) for header, v in found}


def format_offer(name: str, offer: ServerOffer, config: McpConfig, joint: str = ".") -> Iterator[str]:
    """Show an offer, line by line; nothing in it can hide. The `joint` stands between the server's name and a tool's."""
    yield f"{name}: {clean_line(offer.identity, 80) or 'a server without a name'}, MCP {clean_line(offer.version, 20)}"
    for tool in select_tools(offer, config.tools):
        one = read_tool(tool)
        shown = ", ".join(p.name if p.required else f"[{p.name}]" for p in one.parameters)
        hint = "; says that it only reads" if one.says_it_reads else ""
        yield f"  {name}{joint}{clean_line(one.name, 130)}({shown}){hint}"
        if one.problem:
            yield f"    NOT USED: {one.problem}"
        if words := clean_line(tool.get("description") or "", 2000):
            yield f"    {words}"
        yield from (f"    {p.name}: {p.description}" for p in one.parameters if p.description)
