"""What the owner writes in policy.toml, and what it comes to; a mistake in it never gives anybody more."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, TypeGuard

from picoclaw.schema import nearest
from picoclaw.trust.policy import DEFAULTS, EFFECTS, VERDICTS, Effect, Policy, Row, Verdict

_TABLES = ("effects", "tools")
_NEVER_ASKED: frozenset[Effect] = frozenset({"read", "private", "safe"})


class Written(NamedTuple):
    """The rules that a file holds, and what is wrong with it: one sentence each."""

    policy: Policy
    problems: tuple[str, ...]


def understood(tables: Mapping[str, Any]) -> Written:
    """Take policy.toml for rules; where something is wrong, those of them that are stricter than the usual ones."""
    known = dict.fromkeys(_TABLES)
    problems = [f"unknown table [{name}]{nearest(name, known)}" for name in tables if name not in known]
    effects: dict[Effect, Mapping[str, Verdict]] = {}
    tools: dict[str, Mapping[str, Verdict]] = {}
    for name, given in _rows(tables, "effects", problems):
        if name in DEFAULTS:
            effects |= {effect: _row(given, f"effects.{name}", problems) for effect in EFFECTS if effect == name}
        else:
            problems.append(f"there is no effect {name!r}{nearest(name, dict.fromkeys(EFFECTS))}")
    for name, given in _rows(tables, "tools", problems):
        tools[name] = _row(given, f"tools.{name}", problems)
    policy = Policy(effects, tools)
    return Written(careful(policy) if problems else policy, tuple(problems))


def careful(policy: Policy) -> Policy:
    """Have asked whatever would be allowed and changes something, whoever wants it; what is stricter stays."""
    effects: dict[Effect, Mapping[str, Verdict]] = {
        effect: {column: stricter(policy.verdict(effect, "", column)[0], "ask") for column in Row._fields}
        for effect in EFFECTS
        if effect not in _NEVER_ASKED
    }
    tools = {
        name: {column: verdict for column, verdict in row.items() if verdict != "allow"}
        for name, row in policy.tools.items()
    }
    kept = {name: policy.effects[name] for name in _NEVER_ASKED - {"private"} if name in policy.effects}
    return Policy(kept | effects, tools)


def stricter(one: Verdict, other: Verdict) -> Verdict:
    """Return the stricter of two verdicts."""
    return max(one, other, key=VERDICTS.index)


def _rows(tables: Mapping[str, Any], name: str, problems: list[str]) -> Iterator[tuple[str, Any]]:
    table = tables.get(name, {})
    if isinstance(table, dict):
        yield from table.items()
    else:
        problems.append(f"{name} must be a table, such as [{name}.exec], not {table!r}")


def _row(given: Any, where: str, problems: list[str]) -> Mapping[str, Verdict]:
    """Read one row: a verdict by who asks, or one for all."""
    if isinstance(given, str):
        given = dict.fromkeys(Row._fields, given)
    if not isinstance(given, dict):
        problems.append(f'{where} must be a table of verdicts, such as {{ guest = "refuse" }}, not {given!r}')
        return {}
    row: dict[str, Verdict] = {}
    for column, verdict in given.items():
        if column not in Row._fields:
            problems.append(f"{where}: there is no {column!r}{nearest(column, dict.fromkeys(Row._fields))}")
        elif _is_verdict(verdict):
            row[column] = verdict
        else:
            problems.append(f"{where}.{column} must be allow, ask or refuse, not {verdict!r}")
    return row


def _is_verdict(given: Any) -> TypeGuard[Verdict]:
    return isinstance(given, str) and given in VERDICTS
