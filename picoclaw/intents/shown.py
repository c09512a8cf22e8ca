"""The rules that were shown and wait for a yes: which of them a text keeps, or ends."""

import re
from collections.abc import Callable, Mapping, Sequence

from picoclaw.errors import MEANING_PREFIX, WAITING_FOR_APPROVAL
from picoclaw.intents.conversation import LOOK_UP, list_calls
from picoclaw.intents.grammar import is_complete
from picoclaw.intents.results import APPROVAL_NUMBER
from picoclaw.intents.sentence import LastTurn, Referents, fold_name
from picoclaw.intents.wishes import ENDS, WishMatcher
from picoclaw.messages import ERROR_PREFIX, Message, ToolCall

_MAX_HEAD_CHARS = 200  # of a result, where the tool registry itself says that a call waits
_Shown = tuple[str, ToolCall, str]
"""The number of a call that waits, the call, and the name of its rule or what it means."""


class ShownRules:
    """The rules shown in a conversation, in its language; `list_waiting` has what each means that waits for a yes."""

    def __init__(self, matcher: WishMatcher, list_waiting: Callable[[], Mapping[int, str]]) -> None:
        self._matcher, self._list_waiting = matcher, list_waiting

    def read_answer(
        self, turns: Sequence[Sequence[Message]], text: str, is_waiting: Callable[[int], bool]
    ) -> list[str]:
        """The commands that a plain "yes" or "no" stands for, or a "delete the lamp one" of what `is_waiting` for one yet."""
        matcher, mark, plain = self._matcher, find_mark(self._matcher.say), fold_name(text.strip(" .!\n").lower())
        waits = list_waits(turns[-1]) if turns else []
        is_open = "?" not in text and any(is_waiting(int(number)) for number, _, _ in waits)
        shown = self._list_shown(turns, is_waiting)
        row = turns[-1][-1].text.rpartition("\n")[2] if len(shown) == len(self._list_waiting()) == 1 else ""
        if waits or any(row.startswith(f"{number}{mark}") for number, _, _ in shown):  # of a list, all that waits
            is_both = not matcher.words["declines"].keys().isdisjoint(re.findall(r"\w+", plain))  # "oui non"
            is_sure = is_open and not is_both and len(shown) == 1 and matcher.is_all_of(text, "agrees")
            is_yes = is_sure or plain in matcher.words["agrees"]
            is_no = plain in matcher.words["declines"] or (is_open and matcher.is_all_of(text, "undo", "declines"))
            if is_yes or is_no:
                return [f"/{'yes' if is_yes else 'no'} {number}" for number, _, _ in waits or shown]
        return self._answer_named(text, shown) if shown else []

    def _list_shown(self, turns: Sequence[Sequence[Message]], is_waiting: Callable[[int], bool]) -> list[_Shown]:
        """The number, call and name of each rule that still waits of those shown last; what only changes a kept one is none."""
        shown, gives = list[_Shown](), self._matcher.tools["rule"]["gives"]["rule"]
        for turn in turns[:-4:-1]:
            waits, calls = list_waits(turn), list_calls(turn)
            for number, call, means in reversed(waits):
                names = [*re.findall(gives, means), call.arguments.get("name"), call.arguments.get("output")]
                shown.append((number, call, next(filter(None, names), "")))
            if any(call.arguments != LOOK_UP for call, _ in calls) and not waits:
                break
        new = {name for _, call, name in shown if call.arguments.get("action") == "add"}
        return [one for one in reversed(shown) if one[2] in new and is_waiting(int(one[0]))]

    def _answer_named(self, text: str, shown: Sequence[_Shown]) -> list[str]:
        """The commands for those of the rules shown that a text keeps, or ends: "delete it again", "yes to the lamp one"."""
        names, last = [*dict.fromkeys(name for _, _, name in shown)], shown[-1]
        if len(shown) == 1 and self._matcher.says_both(text):
            return []  # the other one is something else
        referents = Referents(rule=[last[2]], job=[last[2]], rules=names, jobs=names, waits=[int(last[0])])
        found = self._matcher.match_wishes(text, {"rule", "cron"}, LastTurn(referents, last[1]))
        commands = list[str]()
        for _, match in found:
            is_end = is_complete(match) and match.arguments.get("action") in ENDS - {"disable"}
            ends = is_end or (match is not None and match.intent in {"let_be", "no_named"})
            if not match or not (ends or match.intent == "yes_named"):
                return []
            given = {**match.said, **match.arguments}
            name = next((given[one] for one in ("name", "job", "rule", "_name", "_called") if one in given), last[2])
            numbers = [number for number, _, one in shown if one == self._find_shown(str(name), names)]
            commands += [f"/no {number}" for number in numbers] if ends else [f"/yes {n}" for n in numbers[-1:]]
        return commands

    def _find_shown(self, said: str, names: Sequence[str]) -> str:
        """The one of some rules' names that is said so, or by the output that it is of; '' for none or several."""
        outputs = self._matcher.list_outputs(said)
        alike = [said] if said in names else [name for name in names if name.rstrip("_0123456789") in outputs]
        return alike[0] if len(alike) == 1 and alike[0] in (said, *outputs) else ""


def list_waits(turn: Sequence[Message]) -> list[_Shown]:
    """The calls of a turn that were shown and asked about: the number of each, and what it means."""
    calls = [(call, told) for call, told in list_calls(turn) if told.startswith(ERROR_PREFIX)]
    asked = [(call, told) for call, told in calls if WAITING_FOR_APPROVAL in told[:_MAX_HEAD_CHARS]]
    found = [(APPROVAL_NUMBER.search(told), call, told.rpartition(MEANING_PREFIX)[2]) for call, told in asked]
    return [(number[1], call, means) for number, call, means in found if number]


def find_mark(say: Mapping[str, str]) -> str:
    """What stands behind the number of a rule that waits for its yes."""
    return say["waits"].partition("{number}")[2].partition("{")[0]
