"""From a typed signature to a JSON schema, and from loose values to the types it names. Arithmetic only.

One mechanism serves the tools' arguments (from a model, so forgiving) and the owner's configuration: text that
is a number counts as one, decimal or hexadecimal, and whatever does not fit is named together with the fix.
"""

import json
import types
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from picoclaw.records import NamedTuple
from picoclaw.text import escape_unprintable, pattern, truncate

_JSON_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", dict: "object"}
_TYPE_NAMES = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    dict: "a table of names and values",
}
_BOOLEANS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_MAX_NUMBER_CHARS = 64
_MAX_NAMES = 25
_MIN_PREFIX = 3
_MIN_SIMILARITY = 0.75
"""How much of two names has to agree, 0 to 1; below it a suggestion would lead astray."""


class InvalidArgument(ValueError):
    """A value that does not fit its type; the text says which value, and what would fit."""


class Span(NamedTuple):
    """Inclusive bounds of a number, for `Annotated[int, Span(0, 255)]`."""

    low: float
    high: float


class Parameter(NamedTuple):
    """One named, typed value: a tool's argument or a configuration key."""

    name: str
    kind: Any
    description: str
    span: Span | None
    required: bool
    default: Any = None


_REQUIRED = object()


def read_parameter(name: str, annotation: Any, default: Any = _REQUIRED) -> Parameter:
    """Take `Annotated[...]` apart into type, description (the text) and bounds (the `Span`)."""
    kind, description, span = annotation, "", None
    if get_origin(annotation) is Annotated:
        kind, *notes = get_args(annotation)
        description = " ".join(note for note in notes if isinstance(note, str))
        span = next((note for note in notes if isinstance(note, Span)), None)
    required = default is _REQUIRED
    if kind is float and isinstance(default, int):
        default = float(default)  # what is filled in is what the same value would be, were it given
    return Parameter(name, kind, description, span, required, None if required else default)


def read_parameters(function: Callable[..., Any], hidden: tuple[str, ...] = ("self",)) -> tuple[Parameter, ...]:
    """Read a function's parameters in order, leaving out the hidden ones."""
    plain = getattr(function, "__func__", function)  # inspect.signature takes 7 ms to import
    count = plain.__code__.co_argcount
    names = plain.__code__.co_varnames[: count + plain.__code__.co_kwonlyargcount]
    given = plain.__defaults__ or ()
    defaults = dict(zip(names[count - len(given) : count], given, strict=True)) | (plain.__kwdefaults__ or {})
    shown = [name for name in names if name not in hidden]
    return tuple(read_parameter(name, plain.__annotations__[name], defaults.get(name, _REQUIRED)) for name in shown)


def build_json_schema(wanted: tuple[Parameter, ...]) -> dict[str, Any]:
    """Describe the parameters as a JSON schema object, in as few bytes as say it.

    Bounds are left out: a description says what matters of them, and whoever oversteps them is told. So are defaults,
    because small models fill in whatever they are shown, and whoever leaves a value out gets it anyway.
    """
    shown = {}
    for p in wanted:
        described = _build_type(p.kind)
        if p.description:
            described["description"] = p.description
        shown[p.name] = described
    schema: dict[str, Any] = {"type": "object", "properties": shown}
    required = [p.name for p in wanted if p.required]
    return schema | ({"required": required} if required else {})


def _build_type(kind: Any) -> dict[str, Any]:
    kind = _strip_optional(kind)
    if get_origin(kind) is dict:
        return {"type": "object"}
    if get_origin(kind) is Literal:
        return {"type": "string", "enum": [word for word in get_args(kind) if word != ""]}  # '' is for leaving it out
    if get_origin(kind) is list:
        return {"type": "array", "items": _build_type(get_args(kind)[0])}
    return {"type": _JSON_TYPES[kind]}


def _strip_optional(kind: Any) -> Any:
    if get_origin(kind) in {Union, types.UnionType}:
        return next(arm for arm in get_args(kind) if arm is not type(None))
    return kind


def check_arguments(wanted: tuple[Parameter, ...], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values by name, converted, with defaults filled in.

    Raises InvalidArgument for an unknown name (with the nearest known one), a missing one, or a value that does not fit.
    """
    by_name = {p.name: p for p in wanted}
    for name in given:
        if name not in by_name:
            raise InvalidArgument(f"unknown {name!r}{find_nearest(name, by_name)}")
    values = {}
    for name, p in by_name.items():
        value = given.get(name)
        if value is None and p.required:
            raise InvalidArgument(f"{name!r} is missing" + (f": {p.description}" if p.description else ""))
        values[name] = p.default if value is None else convert_value(value, p)
    return values


def find_nearest(name: str, known: Mapping[str, Any]) -> str:
    """Say which known name was probably meant, or list them all."""
    import difflib

    begun = [other for other in known if len(name) >= _MIN_PREFIX and other.startswith(name)]
    close = begun if len(begun) == 1 else difflib.get_close_matches(name, known, n=1, cutoff=_MIN_SIMILARITY)
    if not known:
        return "; it takes none: send {}"
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; known: {', '.join(list(known)[:_MAX_NAMES])}{', …' if len(known) > _MAX_NAMES else ''}"


def convert_value(value: Any, p: Parameter) -> Any:
    """Convert one value to the parameter's type and hold it against its bounds; raises InvalidArgument."""
    result = _convert_type(value, _strip_optional(p.kind), p.name)
    if p.span:
        for number in result if isinstance(result, list) else [result]:
            if not p.span.low <= number <= p.span.high:
                bounds = f"outside {p.span.low} to {p.span.high}; {p.description}".rstrip("; ")
                raise InvalidArgument(f"{p.name!r} is {_format_value(number)}, {bounds}")
    return result


def _convert_type(value: Any, kind: Any, name: str) -> Any:
    origin = get_origin(kind)
    if origin is list:
        return _convert_items(value, get_args(kind)[0], name)
    if origin is Literal:
        allowed = get_args(kind)
        for word in (value, value.strip().lower() if isinstance(value, str) else value):
            if word in allowed:
                return word
        choices = ", ".join(repr(a) for a in allowed if a != "")
        raise InvalidArgument(f"{name!r} must be one of {choices}, not {_format_value(value)}")
    kind = origin or kind
    converted = _CONVERTERS[kind](value)
    if converted is None:
        raise InvalidArgument(f"{name!r} must be {_TYPE_NAMES[kind]}, not {_format_value(value)}")
    return converted


def _convert_items(value: Any, kind: Any, name: str) -> list[Any]:
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            raise InvalidArgument(f"{name!r} must be a list, not {_format_value(value)}") from None
    elif isinstance(value, str) and kind is str:
        value = [value] if value.strip() else []
    if not isinstance(value, list | tuple):
        raise InvalidArgument(f"{name!r} must be a list, not {_format_value(value)}")
    return [_convert_type(item, kind, f"{name}[{i}]") for i, item in enumerate(value)]


def _to_text(value: Any) -> str | None:
    if isinstance(value, str):  # a model's escapes may be halves of characters, which no file and no database takes
        return value.encode("utf-8", "replace").decode()
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _to_int(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    if not isinstance(value, str) or len(value) > _MAX_NUMBER_CHARS:
        return None
    try:
        return int(value.strip(), 0)
    except ValueError:
        return int(value) if value.strip().isdecimal() else None


def _to_float(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, str) and len(value) > _MAX_NUMBER_CHARS:
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if abs(number) < float("inf") else None


def _to_bool(value: Any) -> bool | None:
    if isinstance(value, str):
        return _BOOLEANS.get(value.strip().lower())
    return value if isinstance(value, bool) else None


def _to_dict(value: Any) -> dict[str, Any] | None:
    if isinstance(value, str) and value.lstrip().startswith("{"):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, dict) else None


_CONVERTERS: dict[Any, Callable[[Any], Any]] = {
    str: _to_text,
    int: _to_int,
    float: _to_float,
    bool: _to_bool,
    dict: _to_dict,
}


def _format_value(value: Any) -> str:
    try:
        text = json.dumps(value, default=str, ensure_ascii=False)
    except (ValueError, RecursionError):
        return "something too large to show"
    return truncate(text, 60)


# Fields of JSON that others have sent, by the paths that the owner writes down.

_STEP = pattern(r"([^.\[\]]+)|\[(\d{1,4})\]")
_MAX_SHOWN = 40


class NoField(ValueError):
    """What was sent has not the field that was asked for; what it has is named."""


def find_field(given: Any, path: str) -> Any:
    """Follow a path such as `SI7021.Temperature` or `values[0]`; '' is the whole. Raises NoField."""
    for name, index in _STEP.findall(path):
        try:
            given = given[int(index)] if index and isinstance(given, list) else given[name] if not index else None
        except (KeyError, IndexError, TypeError):
            there = ", ".join(map(show_value, list(given)[:12])) if isinstance(given, dict) else show_value(given)
            raise NoField(f"what it publishes has no field {name or index!r}; it has: {there}") from None
    return given


def show_value(given: Any, most: int = _MAX_SHOWN) -> str:
    """Show a bit of what somebody else has sent."""
    text = given if isinstance(given, str) else repr(given)
    return escape_unprintable(text if len(text) <= most else f"{text[:most]}…")
