"""The conversion of loose values to a signature's types, and the JSON schema made from the same signature."""

import json
import math
from typing import Annotated, Any, Literal

import pytest
from rows import each_row

from picoclaw.schema import (
    InvalidArgument,
    Span,
    build_json_schema,
    check_arguments,
    convert_value,
    read_parameter,
    read_parameters,
)

REFUSED = object()
LONG = "1" * 10_000
HUGE = 10**400

Mode = Literal["", "read", "write"]


def converted(kind, value):
    try:
        return convert_value(value, read_parameter("value", kind))
    except InvalidArgument:
        return REFUSED


@each_row(
    ("value", "expected"),
    [
        (118, 118),
        ("118", 118),
        (" 118 ", 118),
        ("0x76", 118),
        ("0X76", 118),
        ("0b101", 5),
        ("007", 7),
        ("-5", -5),
        (21.0, 21),
        (10**30, 10**30),
        (21.5, REFUSED),
        (True, REFUSED),
        (False, REFUSED),
        ("", REFUSED),
        ("0x", REFUSED),
        ("21.5", REFUSED),
        ("1e3", REFUSED),
        ("twelve", REFUSED),
        (math.nan, REFUSED),
        (math.inf, REFUSED),
        pytest.param(LONG, REFUSED, id="10 kB"),
        (None, REFUSED),
        ([1], REFUSED),
        ({}, REFUSED),
    ],
)
def test_whole_numbers(value, expected):
    assert converted(int, value) == expected
    assert converted(int, value) is REFUSED or type(converted(int, value)) is int


@each_row(
    ("value", "expected"),
    [
        (21, 21.0),
        (21.5, 21.5),
        ("21.5", 21.5),
        (" -1e3 ", -1000.0),
        (True, REFUSED),
        ("warm", REFUSED),
        ("", REFUSED),
        (math.nan, REFUSED),
        (math.inf, REFUSED),
        ("nan", REFUSED),
        ("-inf", REFUSED),
        ("1e999", REFUSED),
        pytest.param(HUGE, REFUSED, id="huge"),
        pytest.param(LONG, REFUSED, id="10 kB"),
        (None, REFUSED),
        ([], REFUSED),
    ],
)
def test_numbers(value, expected):
    assert converted(float, value) == expected
    assert converted(float, value) is REFUSED or type(converted(float, value)) is float


@each_row(
    ("kind", "value", "expected"),
    [
        (bool, True, True),
        (bool, "true", True),
        (bool, " Off ", False),
        (bool, "no", False),
        (bool, "maybe", REFUSED),
        (bool, 1, REFUSED),
        (bool, [], REFUSED),
        (str, "21", "21"),
        (str, 21, "21"),
        (str, 2.5, "2.5"),
        (str, "", ""),
        (str, True, REFUSED),
        (str, ["a"], REFUSED),
        (str, {"a": 1}, REFUSED),
        (Mode, "read", "read"),
        (Mode, " READ", "read"),
        (Mode, "", ""),
        (Mode, "erase", REFUSED),
        (Mode, 1, REFUSED),
        (Mode, ["read"], REFUSED),
        (int | None, "0x10", 16),
        (list[int], [1, "0x02", 3.0], [1, 2, 3]),
        (list[int], (1, 2), [1, 2]),
        (list[int], "[1, 2]", [1, 2]),
        (list[int], '  ["0x0a"]', [10]),
        (list[int], [], []),
        (list[int], "[1, 2", REFUSED),
        (list[int], "1, 2", REFUSED),
        pytest.param(list[int], "[" * 100_000, REFUSED, id="nested"),
        (list[int], {"0": 1}, REFUSED),
        (list[int], [1, None], REFUSED),
        (list[int], [1, True], REFUSED),
        (list[int], 7, REFUSED),
        (list[str], ["a", 1], ["a", "1"]),
        (list[str], "ls -l", ["ls -l"]),
        (list[str], '["ls", "-l"]', ["ls", "-l"]),
        (list[str], " ", []),
        (list[str], "[ls", REFUSED),
        (list[str], 7, REFUSED),
        (list[int] | None, "[7]", [7]),
    ],
)
def test_other_kinds(kind, value, expected):
    assert converted(kind, value) == expected


@each_row(
    ("value", "fits"), [(8, True), (119, True), ("0x77", True), (7, False), (120, False), (-1, False), (10**30, False)]
)
def test_a_span_includes_both_ends(value, fits):
    p = read_parameter("address", Annotated[int, Span(0x08, 0x77), "0x08-0x77"])
    if fits:
        assert 8 <= convert_value(value, p) <= 119
    else:
        with pytest.raises(InvalidArgument, match=r"'address' is .* outside 8 to 119; 0x08-0x77"):
            convert_value(value, p)


def test_a_span_holds_for_each_item_of_a_list():
    p = read_parameter("data", Annotated[list[int], Span(0, 255)])
    assert convert_value([0, 255], p) == [0, 255]
    with pytest.raises(InvalidArgument, match=r"'data' is 256, outside 0 to 255"):
        convert_value([0, 256], p)


@each_row(
    "value",
    [LONG, [LONG], {"a": LONG}, HUGE, 16**9000],
    ids=["text", "list", "object", "number", "more digits than Python prints"],
)
def test_a_complaint_stays_short_whatever_was_given(value):
    for kind in (bool, Mode, Annotated[int, Span(0, 1)], list[int]):
        with pytest.raises(InvalidArgument) as caught:
            convert_value(value, read_parameter("value", kind))
        assert len(str(caught.value)) < 200


def sample(
    self: Any,
    path: Annotated[str, "path in the workspace"],
    lines: Annotated[int, Span(1, 200)] = 20,
    mode: Mode = "",
    data: Annotated[list[int] | None, Span(0, 255), "bytes"] = None,
    caller: Any = None,
) -> str:
    """Do nothing."""
    return ""


WANTED = read_parameters(sample, ("self", "caller"))


def test_names_and_defaults_are_filled_in():
    assert check_arguments(WANTED, {"path": "a"}) == {"path": "a", "lines": 20, "mode": "", "data": None}


def test_null_for_an_optional_value_is_its_default():
    given = {"path": "a", "lines": None, "mode": None, "data": None}
    assert check_arguments(WANTED, given) == {"path": "a", "lines": 20, "mode": "", "data": None}


@each_row(
    ("given", "said"),
    [
        ({}, "'path' is missing: path in the workspace"),
        ({"path": None}, "'path' is missing: path in the workspace"),
        ({"path": "a", "line": 3}, "unknown 'line'; did you mean 'lines'?"),
        ({"path": "a", "lin": 3}, "unknown 'lin'; did you mean 'lines'?"),
        ({"path": "a", "limits": 3}, "unknown 'limits'; known: path, lines, mode, data"),
        ({"path": "a", "colour": 3}, "unknown 'colour'; known: path, lines, mode, data"),
        ({"path": "a", "caller": 3}, "unknown 'caller'; known: path, lines, mode, data"),
        ({"path": "a", "lines": "many"}, "'lines' must be a whole number, not \"many\""),
        ({"path": "a", "mode": "erase"}, "'mode' must be one of 'read', 'write', not \"erase\""),
        ({"path": "a", "data": [1, "x"]}, "'data[1]' must be a whole number, not \"x\""),
    ],
)
def test_what_does_not_fit_is_named_with_the_fix(given, said: str):
    with pytest.raises(InvalidArgument) as caught:
        check_arguments(WANTED, given)
    assert str(caught.value) == said


def test_json_schema_of_a_signature():
    assert build_json_schema(WANTED) == {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "path in the workspace"},
            "lines": {"type": "integer"},
            "mode": {"type": "string", "enum": ["read", "write"]},
            "data": {"type": "array", "items": {"type": "integer"}, "description": "bytes"},
        },
        "required": ["path"],
    }


def test_json_schema_of_nothing_is_an_empty_object():
    assert build_json_schema(()) == {"type": "object", "properties": {}}


@each_row(
    ("kind", "default", "schema"),
    [
        (bool, False, {"type": "boolean"}),
        (float, 2.5, {"type": "number"}),
        (list[str], [], {"type": "array", "items": {"type": "string"}}),
        (list[int], [1], {"type": "array", "items": {"type": "integer"}}),
    ],
)
def test_json_schema_of_a_default(kind, default, schema):
    described = build_json_schema((read_parameter("value", kind, default),))["properties"]["value"]
    assert described == schema
    assert json.loads(json.dumps(described)) == schema


@each_row(
    ("given", "taken"),
    [("a\ud800b", "a?b"), ("\ud83d\ude00", "??"), ("grün ☕ 𝄞 \0", "grün ☕ 𝄞 \0"), ("", ""), (7, "7")],
)
def test_halves_of_characters_are_replaced_in_every_text(given, taken):
    wanted = (
        read_parameter("text", str),
        read_parameter("texts", list[str]),
        read_parameter("maybe", str | None, None),
    )
    assert check_arguments(wanted, {"text": given, "texts": [given], "maybe": given}) == {
        "text": taken,
        "texts": [taken],
        "maybe": taken,
    }
