"""The rules of the guard, as data and one pure function: (effect, origin, taint, policy) to allow, ask or refuse.

A turn is tainted once it has read untrusted text: a page, a file, the output of a command, a sub-agent's report. What it
may do then is the stricter of two rules.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Literal, get_args

from picoclaw.messages import Origin, ToolCall
from picoclaw.records import NamedTuple, dataclass, field
from picoclaw.schema import find_nearest

Effect = Literal[
    "read",
    "private",
    "safe",
    "write",
    "remember",
    "share",
    "erase",
    "plan",
    "instruct",
    "exec",
    "exec_network",
    "exec_planned",
    "network",
    "actuate",
    "switch",
    "mcp_act",
]
"""What a call does to the world.

read: nothing is changed; private: the call shows what the owner keeps, such as notes, files, tasks and the output of
commands; safe: an output goes to its safe level; write: a file that nobody takes for the owner's word; remember: notes
and tasks, which are; share: a note that everybody of the household finds; erase: a note is deleted for good that the
call does not name by all its words; plan: what is done later, unasked; instruct: what tells later turns how to work; exec: a command that may change files; exec_network: a
command that may use the network; exec_planned: a command is planned, or is due (`unattended`); network: another host is
asked; actuate: a bus or line is written; switch: an output that its owner declared to need no yes leaves its safe
level; mcp_act: a tool of an MCP server is called that may change something, or does not say that it only reads.
"""

Verdict = Literal["allow", "ask", "refuse"]
Requester = Literal["owner", "member", "guest", "unattended", "mcp"]
EFFECTS: tuple[Effect, ...] = get_args(Effect)
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)

_WHO_BY_ORIGIN: Mapping[Origin, Requester] = {
    "owner": "owner",
    "web": "owner",
    "member": "member",
    "guest": "guest",
    "cron": "unattended",
    "heartbeat": "unattended",
    "rule": "unattended",
    "subagent": "unattended",
    "mqtt": "unattended",
    "remote": "guest",
    "hook": "guest",
    "mcp": "mcp",
}
_REMOTE_EFFECTS: frozenset[Effect] = frozenset({"read", "safe"})
"""All that a question over MQTT may come to, whatever the policy says of guests: nobody knows who asks."""


def get_requester(origin: Origin) -> Requester:
    """The column of the policy that whoever asks is judged by."""
    return _WHO_BY_ORIGIN[origin]


class VerdictRow(NamedTuple):
    """The verdicts on one effect, by who asks; `tainted` is the least strict one for a tainted turn.

    `mcp` is a program that asks over MCP, for whoever sits in front of it: nothing but looking is done without a yes.
    """

    owner: Verdict
    member: Verdict
    guest: Verdict
    unattended: Verdict
    mcp: Verdict
    tainted: Verdict


DEFAULTS: Mapping[Effect, VerdictRow] = {
    "read": VerdictRow("allow", "allow", "allow", "allow", "allow", "allow"),
    "private": VerdictRow("allow", "allow", "refuse", "allow", "allow", "allow"),
    "safe": VerdictRow("allow", "allow", "allow", "allow", "allow", "allow"),
    "write": VerdictRow("allow", "allow", "ask", "allow", "ask", "allow"),
    "remember": VerdictRow("allow", "allow", "ask", "allow", "ask", "ask"),
    "share": VerdictRow("allow", "allow", "ask", "ask", "ask", "ask"),
    "erase": VerdictRow("ask", "ask", "ask", "ask", "ask", "ask"),
    "plan": VerdictRow(
        "allow", "allow", "allow", "allow", "ask", "ask"
    ),  # the tool lets nobody but the owner plan more than reminders
    "instruct": VerdictRow("ask", "refuse", "ask", "ask", "ask", "ask"),
    "exec": VerdictRow("allow", "refuse", "ask", "allow", "ask", "ask"),
    "exec_network": VerdictRow("ask", "refuse", "ask", "ask", "ask", "ask"),
    "exec_planned": VerdictRow("ask", "refuse", "ask", "allow", "ask", "ask"),
    "network": VerdictRow("allow", "ask", "ask", "allow", "ask", "ask"),
    "actuate": VerdictRow("ask", "ask", "ask", "ask", "ask", "ask"),
    "switch": VerdictRow("allow", "allow", "ask", "allow", "ask", "ask"),
    "mcp_act": VerdictRow("ask", "ask", "ask", "ask", "ask", "ask"),
}


class CallRequest(NamedTuple):
    """A call that wants to be made, with all its checked arguments.

    `means` says in plain words what it does. `bound` is what else an approval holds for: the folder, the environment, the
    checksum of a script. `is_requested`: the owner's own words ask for it, so that a tainted turn need not ask, unless the
    policy demands that of this very tool. `other_effects` are judged as well. `foreign_files` are files written by tainted
    turns that the command can see, and may run.
    """

    effect: Effect
    call: ToolCall
    means: str = ""
    bound: Mapping[str, str] = {}
    is_requested: bool = False
    other_effects: tuple[Effect, ...] = ()
    foreign_files: tuple[str, ...] = ()


class Decision(NamedTuple):
    verdict: Verdict
    rule: str
    why: str


@dataclass(frozen=True)
class Policy:
    """The rules in force: the defaults with the owner's changes.

    `effects` and `tools` give verdicts by column of VerdictRow; a tool's precede its effect's. `always` are the digests of
    calls that were allowed for good, with their numbers; behind "guest " and "mcp " those of calls which these asked for.
    """

    effects: Mapping[Effect, Mapping[str, Verdict]] = field(default_factory=dict)
    tools: Mapping[str, Mapping[str, Verdict]] = field(default_factory=dict)
    always: Mapping[str, int] = field(default_factory=dict)

    def verdict(self, effect: Effect, tool: str, column: str) -> tuple[Verdict, str]:
        if found := self.tools.get(tool, {}).get(column):
            return found, f"tools.{tool}.{column}"
        found = self.effects.get(effect, {}).get(column)
        return found or DEFAULTS[effect]._asdict()[column], f"{effect}.{column}"


def decide(
    policy: Policy, asked: CallRequest, origin: Origin, taint: Collection[str], *, planned: bool = False
) -> Decision:
    """Decide on a call by the strictest of its effects; `taint` names what the turn has read from outside.

    `planned`: a scheduled command that is due; its network access was asked for when it was planned.
    """
    effects = (asked.effect, *asked.other_effects, *(["exec_planned"] if planned else ()))
    if origin == "remote" and (beyond := next((one for one in effects if one not in _REMOTE_EFFECTS), "")):
        return Decision("refuse", f"{beyond}.remote = refuse", f"{beyond}, asked for by {_name_origin(origin)}")
    verdict, rule, why = max(
        (_apply_rules(policy, effect, asked, origin, taint, planned=planned) for effect in effects),
        key=lambda one: VERDICTS.index(one[0]),
    )
    whose = f"{who} " if (who := get_requester(origin)) in {"guest", "mcp"} else ""
    if verdict == "ask" and (number := policy.always.get(f"{whose}{compute_digest(asked)}")):
        return Decision("allow", f"always {number}", f"{why}; the owner has allowed exactly this for good")
    return Decision(verdict, f"{rule} = {verdict}", why)


def _apply_rules(
    policy: Policy, effect: Effect, asked: CallRequest, origin: Origin, taint: Collection[str], *, planned: bool
) -> Decision:
    tool = asked.call.name
    if tool == "write_file" and asked.call.arguments.get("mode") == "append" and "append_file" in policy.tools:
        tool = "append_file"  # its name when it was a tool of its own: such a rule holds for just that
    verdict, rule = policy.verdict(effect, tool, get_requester(origin))
    if planned and effect == "exec_network" and verdict == "ask" and not rule.startswith("tools."):
        verdict = "allow"
    why = f"{effect}, asked for by {_name_origin(origin)}"
    stricter, tainted_rule = policy.verdict(effect, tool, "tainted")
    lifted = asked.is_requested and stricter == "ask" and not tainted_rule.startswith("tools.")
    if VERDICTS.index(stricter) > VERDICTS.index(verdict) and ((taint and not lifted) or asked.foreign_files):
        verdict, rule = stricter, tainted_rule
        if taint and not lifted:
            why += f", in a turn that has read {_summarize_taint(taint)}"
    if asked.foreign_files:
        why += f", where it can see what others' words have led to: {_summarize_taint(asked.foreign_files, 200)}"
    return Decision(verdict, rule, why)


def compute_digest(asked: CallRequest) -> str:
    """Hash what an approval holds for: the tool, its arguments, what they mean now, what is bound."""
    import hashlib
    import json

    exact: Any = [asked.effect, asked.call.name, asked.call.arguments, asked.means, dict(asked.bound)]
    return hashlib.sha256(json.dumps(exact, sort_keys=True, ensure_ascii=True).encode()).hexdigest()


def join_questions(calls: Iterable[str]) -> str:
    """Show several calls that one answer is given to."""
    shown = list(calls)
    return "\n".join([f"{len(shown)} calls, one answer for all of them:", *shown])


def _name_origin(origin: Origin) -> str:
    names = {
        "owner": "the owner",
        "web": "the owner on the page",
        "member": "a member of the household",
        "guest": "another person who may chat",
    }
    names |= {"mqtt": "somebody at the MQTT broker", "remote": "somebody at the MQTT broker, who may only ask"}
    names |= {"hook": "a webhook", "mcp": "a program over MCP"}
    return names.get(origin, f"a {origin}" if origin != "cron" else "a job")


def _summarize_taint(taint: Collection[str], longest: int = 60) -> str:
    first = sorted(taint)
    return ", ".join(name[:longest] for name in first[:3]) + (f" and {len(first) - 3} more" if len(first) > 3 else "")


# What the owner writes in policy.toml, and what it comes to; a mistake in it never gives anybody more.

_TABLES = ("effects", "tools")
_EFFECTS_WITHOUT_QUESTION: frozenset[Effect] = frozenset({"read", "private", "safe"})


def parse_policy(tables: Mapping[str, Any]) -> tuple[Policy, tuple[str, ...]]:
    """Read policy.toml; returns the rules, and what is wrong, one sentence each.

    With a mistake in it, only rules stricter than the defaults count.
    """
    known = dict.fromkeys(_TABLES)
    problems = [f"unknown table [{name}]{find_nearest(name, known)}" for name in tables if name not in known]
    effects: dict[Effect, Mapping[str, Verdict]] = {}
    tools: dict[str, Mapping[str, Verdict]] = {}
    for name, given in _iter_rows(tables, "effects", problems):
        if name in DEFAULTS:
            effects |= {effect: _parse_row(given, f"effects.{name}", problems) for effect in EFFECTS if effect == name}
        else:
            problems.append(f"there is no effect {name!r}{find_nearest(name, dict.fromkeys(EFFECTS))}")
    for name, given in _iter_rows(tables, "tools", problems):
        tools[name] = _parse_row(given, f"tools.{name}", problems)
    policy = Policy(effects, tools)
    return tighten_policy(policy) if problems else policy, tuple(problems)


def tighten_policy(policy: Policy) -> Policy:
    """Ask about everything that would be allowed and changes something; stricter rules stay."""
    effects: dict[Effect, Mapping[str, Verdict]] = {
        effect: {column: pick_stricter(policy.verdict(effect, "", column)[0], "ask") for column in VerdictRow._fields}
        for effect in EFFECTS
        if effect not in _EFFECTS_WITHOUT_QUESTION
    }
    tools = {
        name: {column: verdict for column, verdict in row.items() if verdict != "allow"}
        for name, row in policy.tools.items()
    }
    kept = {name: policy.effects[name] for name in _EFFECTS_WITHOUT_QUESTION - {"private"} if name in policy.effects}
    return Policy(kept | effects, tools)


def pick_stricter(one: Verdict, other: Verdict) -> Verdict:
    return max(one, other, key=VERDICTS.index)


def _iter_rows(tables: Mapping[str, Any], name: str, problems: list[str]) -> Iterator[tuple[str, Any]]:
    table = tables.get(name, {})
    if isinstance(table, dict):
        yield from table.items()
    else:
        problems.append(f"{name} must be a table, such as [{name}.exec], not {table!r}")


def _parse_row(given: Any, where: str, problems: list[str]) -> Mapping[str, Verdict]:
    """Read one row: verdicts by who asks, or one for all."""
    if isinstance(given, str):
        given = dict.fromkeys(VerdictRow._fields, given)
    if not isinstance(given, dict):
        problems.append(f'{where} must be a table of verdicts, such as {{ guest = "refuse" }}, not {given!r}')
        return {}
    row: dict[str, Verdict] = {}
    for column, verdict in given.items():
        if column not in VerdictRow._fields:
            problems.append(f"{where}: there is no {column!r}{find_nearest(column, dict.fromkeys(VerdictRow._fields))}")
        elif known := [one for one in VERDICTS if one == verdict]:
            row[column] = known[0]
        else:
            problems.append(f"{where}.{column} must be allow, ask or refuse, not {verdict!r}")
    return row
