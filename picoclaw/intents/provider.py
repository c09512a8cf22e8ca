"""The provider that needs no model: it matches a sentence to a tool call and says the tool's result."""

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from types import MappingProxyType
from typing import Any

from picoclaw.errors import ConfigError
from picoclaw.intents import onboarding
from picoclaw.intents.arguments import READS
from picoclaw.intents.changes import TIMES, keep_job
from picoclaw.intents.conversation import (
    LOOK_UP,
    Calls,
    Talk,
    clean_text,
    count_seconds_passed,
    count_up_to_user,
    find_likest,
    find_referents,
    is_recent,
    keep_days,
    keep_named,
    list_calls,
    list_user_texts,
)
from picoclaw.intents.grammar import (
    FIELD,
    LETTERS,
    NEEDS_CLOCK,
    NEEDS_LOOK_UP,
    Grammar,
    IntentMatch,
    Offered,
    Wish,
    fill_fields,
    find_language,
    is_complete,
    is_whole,
    make_match,
)
from picoclaw.intents.lookups import NAME_WORD, WHICH_SENSOR, Lookup, merge_calls
from picoclaw.intents.results import ResultWording
from picoclaw.intents.sentence import NO_CALL, LastTurn, Referents, fold_name, pick_place
from picoclaw.intents.shown import ShownRules, find_mark, list_waits
from picoclaw.intents.times import OCLOCK
from picoclaw.intents.wishes import ENDS, WishMatcher
from picoclaw.messages import (
    ERROR_PREFIX,
    ONBOARDING_TOOL,
    End,
    Event,
    Message,
    Notice,
    Request,
    Text,
    ToolCall,
    Usage,
    split_turns,
)
from picoclaw.prompts import remove_hints
from picoclaw.providers import BUILT_IN_PROVIDER
from picoclaw.text import pattern
from picoclaw.times import WEEKDAYS

_WAITS = pattern(r"/yes (\d+) ")
_NUMBERED = pattern(r"^(\d+)[:.] (.*)$", re.MULTILINE)
_AMOUNT = pattern(r"(?<!\d)\d{1,6} ?[a-z]{1,3}\b")  # "30s", "5 min"
_MAX_HEARD = 5
_MAX_EARLIER = 4  # messages before the newest that are read again
_MAX_SUM_CHARS = 200
_MAX_CHOICE_WORDS = 5
_MAX_NAME_WORDS = 3
_TAKES_BACK = {"add": "cron_remove", "skip": "cron_resume"}
_MAX_DECLINE_WORDS = 2  # "actually don't"; "not on wednesday" leaves something out
_DECLINED = frozenset({"no_thanks", "not_done", "let_be"})
"""Intents that say that nothing more is wanted."""
_SETS = frozenset({"set", "add", "move", "snooze", "update", "change"})
_NAMED = {"sensor", "name", "output", "when", "_other", "_name"}
_MOMENT = pattern(r"(?P<weekday>\w+) (?P<date>\d{4}-\d\d-\d\d) (?P<time>\d\d:\d\d)")
_WEEKDAY = pattern("|".join(day.capitalize() for day in WEEKDAYS))
_CLOCK = pattern(r"(\d\d):(\d\d)( o'clock)?$")
_UNKNOWN_OUTPUT = f"{ERROR_PREFIX}output was refused: rule 'unknown output':"
_NO_RULE = f"{ERROR_PREFIX}there is no rule "
_MAX_TURNS = 3  # that "it" may go back to


class IntentProvider:
    """Answers with templates, frames and topics instead of a model."""

    name = BUILT_IN_PROVIDER

    def __init__(
        self,
        data: Sequence[Mapping[str, Any]] | Grammar,
        *,
        configured_model: str = "",
        sources: Sequence[str] = (),
        unlisted: Collection[str] = (),
        languages: Mapping[str, frozenset[str]] = MappingProxyType({}),
        load: Callable[[str], Grammar] | None = None,
        declared: Callable[[], Mapping[str, str]] = dict,
        usual: Callable[[], str] = str,
        confirmed: Callable[[], Collection[str]] = tuple,
        waiting: Callable[[], Mapping[int, str]] = dict,
    ) -> None:
        """`data`: what is shipped, then the owner's; `sources` names the files in messages.

        `unlisted` names tools that a model is not told of: a sentence may mean them all the same. `languages` has the words by
        which each is told; `load` gives the grammar of another one than English when a sentence is in it; `declared`
        has the names of sensors and outputs, each with which of both it is. `usual()` is the language of whoever asks,
        where no words tell it, '' for English. `confirmed()` names the tools whose changes are shown and wait for a yes
        anyway: what is only proposed is not asked about twice. `waiting()` has what each rule means that waits for a yes.
        """
        self.rests = False
        self.unlisted, self._declared = frozenset(unlisted), declared
        self._matcher = WishMatcher(data, sources)
        self._matchers, self._languages, self._load = {"en": self._matcher}, languages, load
        self._problem, self._usual, self._confirmed, self._list_waiting = "", usual, confirmed, waiting
        self._heard = dict.fromkeys(("asked", "told"), "")
        self._latest: tuple[Message, list[Wish]] = (Message("user", ""), [])
        self._model, self._spoken = configured_model, set[str]()
        self._earlier: dict[int, list[Wish]] = {}  # wishes by the number of messages up to theirs
        self._meeting = onboarding.Onboarding(self._matcher.words, self._matcher.intents, self._matcher.say)

    def answers(self, text: str) -> bool:
        """Whether the text asks for a tool that this provider knows; small talk does not count."""
        match = self.match(text, ())
        return match is not None and bool(match.tool)

    def meets(self, messages: Sequence[Message]) -> bool:
        """Whether the last of the messages, a user's, belongs to the first meeting: a greeting, a name, an answer."""
        match = self.match(messages[-1].text, {ONBOARDING_TOOL})
        found = self._meeting.match(messages[:-1], clean_text(messages[-1].text), match, None)
        return found is not None and (found.tool == ONBOARDING_TOOL or found.route == "meeting")

    def match(self, text: str, offered: Offered = None) -> IntentMatch | None:
        """What a user's message means, without the block that tells a model the time; `offered` as in IntentMatcher.match."""
        match = self._listen(text).match(clean_text(text), offered)
        return _hold(self._name(match) if match else None)

    def list_names(self, text: str, kind: str) -> list[str]:
        """The declared sensors, or outputs, that stand in the text by their names."""
        words = set(LETTERS.findall(text.lower()))
        names = (name for name, what in self._declared().items() if what == kind)
        return [name for name in names if words.issuperset(LETTERS.findall(name))]

    def list_topics(self, text: str, least: float) -> set[str]:
        return self._listen(text).list_topics(clean_text(text), least)

    def _listen(self, *texts: str) -> WishMatcher:
        """Take the language of a text, else that of the texts before it, else the usual, else the only one heard so far.

        A text that is only names of the owner's, and amounts, is in the language of the others.
        """
        said = [clean_text(text) for text in texts]
        usual, names = self._usual(), set(LETTERS.findall(" ".join(self._declared())))
        worded = [text for text in said if not names.issuperset(LETTERS.findall(_AMOUNT.sub(" ", text.lower())))]
        likely = usual or "".join(self._spoken if len(self._spoken) == 1 else ())
        found = find_language(worded, self._languages, likely) or find_language(said, self._languages, likely)
        self._spoken |= {found} - {""}
        return self._listen_in(found or usual or "en")

    def _listen_in(self, language: str) -> WishMatcher:
        if language not in self._matchers and self._load:
            try:
                self._matchers[language] = WishMatcher(self._load(language))
            except ConfigError as error:
                self._matchers[language], self._problem = self._matchers["en"], str(error)
        self._matcher = self._matchers[language]
        self._matcher.learn_names(self._declared())
        return self._matcher

    def _understand(self, messages: Sequence[Message], offered: Collection[Any]) -> list[Wish]:
        """The wishes in the last of the messages, a user's, as the conversation before it has them understood."""
        self._earlier = {}
        return self._read_wishes(messages, offered)

    def _understand_earlier(self, messages: Sequence[Message], offered: Collection[Any]) -> list[Wish]:
        """The wishes in an earlier message. Reading it may need the one before it: results are kept, and _MAX_EARLIER are read at most."""
        if (place := len(messages)) not in self._earlier and place and len(self._earlier) < _MAX_EARLIER:
            matcher, before = self._matcher, self._matcher.said_before
            self._earlier[place] = []
            self._earlier[place] = self._read_wishes(messages, offered)
            self._matcher, matcher.said_before = matcher, before
        return self._earlier.get(place, [])

    def _read_wishes(self, messages: Sequence[Message], offered: Collection[Any]) -> list[Wish]:
        """The wishes in the last of some messages: what it answers, else what it says, with what was done before it."""
        self._listen(*list_user_texts(messages)[:-_MAX_HEARD:-1])
        turns = [turn for turn in split_turns(messages[:-1]) if is_recent(turn, messages[-1])]
        talk = Talk(messages, turns, offered, self._find_last_turn(turns, messages[-1]))
        self._matcher.said_before = partial(self._said_before, messages, offered) if turns else dict
        meeting = self._open_meeting() if ONBOARDING_TOOL in offered else None
        wishes = [] if meeting and ONBOARDING_TOOL in talk.called else self._understand_answer(talk)
        if meeting and not wishes:
            own = self._matcher.complete_hour(self._matcher.match(talk.text, offered), talk.text, offered)
            if (met := meeting.match(messages[:-1], talk.text, own, None)) is not own:
                return [(talk.text, met)]
        wishes = wishes or self._matcher.match_in_talk(talk.text, offered, talk.last)
        wishes = self._put_sum_first(talk, self._join_last(talk, wishes))
        if meeting and not any(match and (match.tool or match.answer) for _, match in wishes):
            refusal = self._word_match(None, ())
            wishes = [(talk.text, meeting.match(messages[:-1], talk.text, wishes[0][1], refusal))]
        wishes = self._answer_no(talk, self._keep_both(talk, wishes))
        told = list[Wish]()
        for said, match in wishes:
            told.append((said, match and self._fit(match, told, messages)))
        return told

    def _join_last(self, talk: Talk, wishes: list[Wish]) -> list[Wish]:
        """Return the wishes, or what "put it on the list" or "write that down" means behind a message that was not understood."""
        if not talk.turns or talk.called or "?" in talk.asked or any(is_complete(match) for _, match in wishes):
            return wishes
        order = self._matcher.drop_lead(talk.text)
        if not self._matcher.put_for_it(order, talk.asked):
            return wishes
        told = self._matcher.match_wishes(f"{talk.asked.rstrip(' .!')}, {order}", talk.offered)
        kept = {"list_add", "memory_store"} if self._matcher.tells(talk.asked) else {"list_add"}
        return told if all(is_whole(match) and match.intent in kept for _, match in told) else wishes

    def _put_sum_first(self, talk: Talk, wishes: list[Wish]) -> list[Wish]:
        """Return the wishes, or the answer to a sum or to a question about days, where a text may be one."""
        is_sum = self._matcher.find_topic(talk.text) in {"sum", "calendar"}
        is_of_output = self._matcher.list_outputs(talk.text) or self._matcher.begins_with_driven(talk.text)
        if is_of_output and not is_sum:  # "how long has the fan been on the day"
            return wishes
        asking = self._matcher.words["questions"]
        gives_way = all(_gives_way(match, asking, is_sum=is_sum) for _, match in wishes)
        may_count = gives_way and not self._matcher.asks_when_measured(talk.text)
        return self._match_sum(talk.messages) or wishes if may_count else wishes

    def _keep_both(self, talk: Talk, wishes: list[Wish]) -> list[Wish]:
        """Return the wishes; of "both", one of which is a rule that waits for its yes, none is changed."""
        if talk.last.call.name != "cron":
            return wishes
        if self._matcher.begins_with_no(talk.text):  # "no, the lamp", of a reminder: nobody asks how the lamp is
            wishes = [(said, None if match and _only_looks(match) else match) for said, match in wishes]
        number = next(filter(None, map(self._find_waiting, talk.turns[-2:])), 0)
        match = wishes[0][1]
        is_one = len(wishes) == 1 and is_complete(match) and match.tool == "cron" and "_more" not in match.said
        if (
            not number
            or not match
            or not is_one
            or not self._matcher.moves(match)
            or not self._matcher.says_both(talk.text)
        ):
            return wishes
        means = self._wording.tell(match._replace(tool="rule"), self._list_waiting()[number])
        told = fill_fields(self._matcher.say["waits"], {"number": number, "means": means})
        return [(talk.text, _say("waits", f"{self._matcher.say['undone']} {told}"))]

    def _answer_no(self, talk: Talk, wishes: list[Wish]) -> list[Wish]:
        """Return the wishes; a "never mind" takes back what was just planned or noted, and is told what stays of the rest."""
        made = [call for call, result in talk.calls if not result.startswith(ERROR_PREFIX)]
        answered = list[Wish]()
        for said, found in wishes:
            match = found if found and (found.tool or found.answer) else None
            declined = match.intent if match else self._matcher.choose_refusal(said)
            if taken := self._list_taken_back(said, match, declined, talk.last, made):
                answered += [(said, one) for one in taken]
            else:
                answered.append((said, self._tell_what_stays(said, match, declined, talk.last.call, made)))
        return answered

    def _list_taken_back(
        self, said: str, match: IntentMatch | None, declined: str, before: LastTurn, made: Sequence[ToolCall]
    ) -> list[IntentMatch]:
        """What takes back the calls that were `made` last, behind a "never mind": reminders, plans, a note; nothing for another text."""
        undoes, last = self._matcher.is_all_of(said, "undo"), before.call
        is_bare = undoes or declined == "let_be" or (declined == "not_done" and len(said.split()) <= _MAX_DECLINE_WORDS)
        if [call.name for call in made] == ["memory_store"]:
            is_of_note = declined == "let_be" or (declined == "list_not" and (undoes or not (match and match.said)))
            forget = self._matcher.intents["memory_forget_it"]
            return [make_match(forget, {"old_note": last.arguments["text"]}, 1.0, "template")] if is_of_note else []
        undo = _TAKES_BACK.get(str(last.arguments.get("action"))) if last.name == "cron" else None
        jobs = before.referents.get("job", ())
        count = sum(call.name == "cron" for call in made) or int(undoes)  # not behind what was not understood
        if not undo or not jobs or not is_bare or len(jobs) != count:
            return []
        removes = [make_match(self._matcher.intents[undo], {"job": job}, 1.0, "template") for job in jobs]
        ends = ({"action": "off", "name": one["name"]} for one in _list_switched(made))
        return [*removes, *(removes[0]._replace(tool="output", arguments=one) for one in ends)]

    def _tell_what_stays(
        self, said: str, match: IntentMatch | None, declined: str, last: ToolCall, made: Sequence[ToolCall]
    ) -> IntentMatch | None:
        """Return `match`; a "never mind" is told what stays on, a "not on wednesday" that nothing was changed."""
        switched = _list_switched(made)
        last = ToolCall("", "output", switched[-1]) if last.name in READS and switched else last
        action, say = last.arguments.get("action"), self._matcher.say
        is_kept = action in _SETS and last.name in {"cron", "rule"}  # "all right" would sound as if it was changed
        is_no = declined in {"not_done", "let_be"} or (
            declined == "no_thanks" and self._matcher.is_all_of(said, "declines")
        )
        if is_no and (is_kept or self._matcher.says_time(said)):
            stays, end, how = say["stays_set"].partition(".")  # `how` it is changed, where something was set
            return _say(declined, f"{stays}{end}{how * is_kept}")
        outputs = _list_once(str(one.get("name", "")) for one in [*switched, last.arguments])
        named = self._matcher.list_outputs(said)
        is_off = action == "off" or (self._matcher.is_exception(said) and not {*named} & {*outputs})
        if is_off and len(named) == 1 and (match is None or declined in _DECLINED):  # "but not the fan", which is off
            return make_match(self._matcher.intents["output_kept"], {"_name": named[0]}, 1.0, "template")
        if declined not in _DECLINED or last.name != "output" or action != "set":
            return match
        if str(last.arguments.get("level", "on")) in {"off", "0"}:
            return match
        told = fill_fields(say["stays_on"], {"name": ", ".join(outputs)})  # and not that nothing was done
        return _say(declined, f"{self._matcher.intents['no_thanks'].answer} {told}")

    def _fit(self, match: IntentMatch, told: Sequence[Wish], messages: Sequence[Message]) -> IntentMatch:
        """A match with the owner's names, and with its times by the moment in the head of the last message."""
        head = messages[-1].text
        match = _keep_end(self._put_past_noon(self._name(match), head), told, messages)
        return _add_seconds(match, head)

    def _put_past_noon(self, match: IntentMatch, head: str) -> IntentMatch:
        """Return a match; of what was measured "at 3", in the half of the day that is over last."""
        when, now, text = str(match.arguments.get("when", "")), _read_moment(head).get("time", ""), clean_text(head)
        clock = when.removeprefix("at ")
        if match.tool != "sensor_history" or not _CLOCK.match(clock) or not now or not self._matcher.says_time(text):
            return match
        late = self._matcher.times.put_past_noon(clock, text.lower())
        return match if clock <= now < late else match._replace(arguments=match.arguments | {"when": f"at {late}"})

    def _open_meeting(self) -> onboarding.Onboarding | None:
        """The first meeting in the language of the text; None in one that it is not held in."""
        matcher = self._matcher
        if matcher is self._matchers["en"]:
            return self._meeting
        if matcher is self._matchers.get(self._usual()):
            return onboarding.Onboarding(matcher.words, matcher.intents, matcher.say)
        return None

    def _match_sum(self, messages: Sequence[Message]) -> list[Wish]:
        """The answer to a sum, which goes on with the one before; nothing where the text is none."""
        *before, text = [clean_text(text) for text in list_user_texts(messages)[-_MAX_HEARD:]]
        told = self.tell_sum(text, read_clock(messages), before)
        rest = text.rpartition("?")[2].strip(" \n.!") if "?" in text else ""
        if told and (self._matcher.says_time(rest) or self._matcher.has_number(rest)):
            told += f"\n{fill_fields(self._matcher.say['nearest'], {'undone': rest})}"  # "is that a saturday? Nine will do."
        return [(text, IntentMatch("sum", "", {}, told, 1.0, "template"))] if told else []

    def tell_sum(self, wish: str, now: datetime | None, before: Sequence[str] = ()) -> str:
        """The answer to a sum, or to a question about days; '' for others."""
        if len(wish) > _MAX_SUM_CHARS:
            return ""
        from picoclaw.intents.sums import SumBook, answer_sum

        matcher = self._matcher
        found = answer_sum(wish, before, SumBook(matcher.words, matcher.say, matcher.times, matcher.find_topic), now)
        return _WEEKDAY.sub(lambda day: self._name_weekday(day[0]), found.text) if found else ""

    def _said_before(self, messages: Sequence[Message], offered: Collection[Any]) -> Mapping[str, Any]:
        """What the last turn that made a call was understood as, besides the call's arguments."""
        called = next((count for count in range(len(messages), 0, -1) if messages[count - 1].calls), 0)
        found = self._understand_earlier(messages[: count_up_to_user(messages[:called])], offered)
        said = next((match.said for _, match in found if match), {})
        return {**said, **_find_levels_before(messages)}

    def _name(self, match: IntentMatch) -> IntentMatch:
        """Use the owner's names: what the data calls "lamp" is the declared "light" where nothing is called lamp."""
        arguments, said = self._name_values(match.arguments, match.tool), self._name_values(match.said, match.tool)
        if match.arguments.get("kind") == "tool" and "message" in arguments:  # a plan that asks what it is of has none
            tool, _, call = arguments["message"].partition(" ")
            arguments["message"] = (
                f"{tool} {json.dumps(self._name_values(json.loads(call), match.tool))}" if call else tool
            )
        if "notify" in arguments:  # made of the names that the tools have for quantities
            before, named = (str(one.get("when", "")).partition(".")[0] for one in (match.arguments, arguments))
            told = re.sub(rf"^{re.escape(before)}(?=: )", named, arguments["notify"])
            arguments["notify"] = self._wording.tell(match, told)
        return match._replace(arguments=arguments, said=said)

    def _name_values(self, table: Mapping[str, Any], tool: str) -> dict[str, Any]:
        texts = {name for name, value in table.items() if name in _NAMED and isinstance(value, str)}
        return {name: self._name_value(name, value, tool) if name in texts else value for name, value in table.items()}

    def _name_value(self, name: str, value: str, tool: str) -> str:
        """What the owner calls the value of an argument: as a whole, else each of its words."""
        names, declared = self._matcher.words["names"], self._declared()

        def translate(word: str) -> str:
            meant = str(names.get(fold_name(word), "")).split()
            return next((one for one in meant if one in declared and fold_name(word) not in declared), word)

        def translate_words(text: str) -> str:
            return NAME_WORD.sub(lambda found: translate(found[0]), text)

        if fold_name(value) in declared:
            return value
        if name == "when":  # of a rule: what is measured has no name of the owner's
            sensor, dot, rest = value.partition(".")
            return translate_words(sensor) + dot + rest if dot else value
        if (whole := translate(value.replace("_", " "))) in declared:
            return whole
        said = translate_words(value)
        if tool == "rule" and name == "name":
            return said  # "pump_2" is no "pump"
        parts = {*NAME_WORD.findall(said)}  # "grow lamp" is the grow_light, where a lamp is that
        return next((one for one in declared if one in said and {*NAME_WORD.findall(one)} == parts), said)

    def _find_last_turn(self, turns: Sequence[Sequence[Message]], newest: Message) -> LastTurn:
        """What the last turn with a call was about; a turn that was not understood may come between."""
        recent = turns[-_MAX_TURNS:]
        done = [(turn, told) for turn in reversed(recent) if (told := list_calls(turn))]
        referents, last = self._follow_calls(done, newest)
        if turns and all(call.arguments == LOOK_UP for call, _ in list_calls(turns[-1])):
            named = self._matcher.list_outputs(turns[-1][0].text)
            # "is the lamp on?", "my neighbour says I should run the pump" - "when did it last run?"
            referents |= {"name": named} if len(named) == 1 else {}
        calls = [call for _, told in reversed(done) for call, _ in told]
        moved = [call.arguments for call in calls if call.name == "output" and call.arguments.get("action") in _SETS]
        if last.name in READS | {"output_history"} and moved:  # "lamp on" - "how warm is it?" - "turn it off"
            referents.setdefault("name", _list_once(str(given.get("name")) for given in moved))
        outputs = _list_once(name for turn in recent for name in self._matcher.list_outputs(turn[0].text))
        referents["_both"] = outputs if len(outputs) == 2 else []
        referents["_whens"] = _list_once(call.arguments.get("when") for call in calls)
        referents["_sensors"] = _list_once(call.arguments.get("sensor") for call in calls)
        referents["_result"] = [done[0][1][-1][1] if done else ""]
        return LastTurn(referents, last)

    def _follow_calls(
        self, done: Sequence[tuple[Sequence[Message], Calls]], newest: Message
    ) -> tuple[Referents, ToolCall]:
        """The last call of the newest of some turns, and what it and the earlier ones were about that go on with the same."""
        gives = {name: wording.get("gives", {}) for name, wording in self._matcher.tools.items()}
        since: Sequence[Message] = ()
        referents, last = Referents(), NO_CALL
        spoken = {"job": list[Any](), "rule": list[Any]()}
        for turn, told in done:
            calls = [call for call, _ in told]
            switched = [call.arguments.get("name") for call in calls if call.name == "output"]
            is_asked = last.name == "output_history" and last.arguments.get("name") in switched
            if last != NO_CALL and not is_asked and all(call.name != last.name for call in calls):
                continue
            found = find_referents(turn, gives)
            lists = {f"{name}s": values for name, values in found.items() if len(values) > 1}
            referents = lists | found | referents  # "is it on?" is about what was switched before
            spoken = {one: [*dict.fromkeys([*found.get(one, ()), *named])] for one, named in spoken.items()}
            if last == NO_CALL or self._is_looked_at(last, since, turn, found):
                last, since = calls[-1], turn
            elif last.name == "cron" and last.arguments.get("job") in found.get("job", ()):
                changed = list_calls(since)[-1][1]
                last = ToolCall(last.id, last.name, keep_job(last.arguments, calls[-1].arguments, changed))
        is_new = last.name == "rule" and last.arguments.get("action") in {"add", "change"}
        if is_new and (waits := self._find_waiting(since)):
            referents["waits"] = [waits]
        several = {f"{one}s": named for one, named in spoken.items() if len(named) > 1}
        passed = {"_passed": [count_seconds_passed(since, newest)]} if since else {}
        return several | referents | passed, last  # "the first one", of two that were set one after the other

    def _find_waiting(self, turn: Sequence[Message]) -> int:
        """The number of the rule that a turn has shown and that waits for its yes yet; 0 for none."""
        waits = [int(number) for number, _, _ in list_waits(turn)]
        return waits[0] if len(waits) == 1 and waits[0] in self._list_waiting() else 0

    def _is_looked_at(
        self, last: ToolCall, asked: Sequence[Message], turn: Sequence[Message], found: Referents
    ) -> bool:
        """Whether the last call only looked at what an earlier turn has set: "fan on for 5 minutes" - "how long left?"."""
        call, _ = list_calls(turn)[-1]
        if last.arguments.get("action") not in {"list", "get"} or call.arguments.get("action") not in _SETS:
            return False
        if last.name == "rule":
            return bool(self._find_waiting(turn))  # what waits is not in the list yet
        if last.name == "cron":
            return last.arguments.get("job") in found.get("job", ())
        return last.name == "output" and {*self._matcher.list_outputs(asked[0].text)} <= {call.arguments.get("name")}

    def _understand_answer(self, talk: Talk) -> list[Wish]:
        """What a message means as the answer to what was asked in the last turn; nothing where it is no answer."""
        steps = (
            self._understand_chosen,
            self._understand_proposed,
            self._understand_rest,
            self._understand_yes,
            self._understand_one_of,
            self._understand_end,
            self._understand_named,
            self._understand_sensor,
            self._understand_slot,
        )
        return next(filter(None, (step(talk) for step in steps)), []) if talk.turns else []

    def _understand_chosen(self, talk: Talk) -> list[Wish]:
        """ "Which of these?": the wish that a list was shown for, with the number of the row that is chosen."""
        is_listed = len([call for message in talk.turns[-1] for call in message.calls]) == 1
        if not is_listed or not (self._is_nod(talk.text) or len(talk.text.split()) <= _MAX_CHOICE_WORDS):
            return []
        asked = self._understand_earlier(talk.until_asked, talk.offered)
        match = asked[0][1] if len(asked) == 1 else None
        number = self._find_chosen(talk.text, talk.reply) if match and "_called" in match.said else ""
        if not match or not number:
            return []
        one = {"name": number} if match.tool == "rule" else {"job": int(number)}
        return [(asked[0][0], match._replace(arguments=match.arguments | one, said={}, missing=""))]

    def _understand_proposed(self, talk: Talk) -> list[Wish]:
        """ "Did you mean ...?", or a plan that was refused: what was meant, at a nod; else that with what the answer changes of it."""
        before, _, after = self._matcher.say["meant"].partition("{done}")
        is_meant = talk.reply.startswith(before) and talk.reply.endswith(after)
        if not is_meant and not any(call.name == "cron" and told.startswith(ERROR_PREFIX) for call, told in talk.calls):
            return []
        said = talk.reply.removeprefix(before).removesuffix(after) if is_meant else talk.asked
        done = self._matcher.match_wishes(said, talk.offered)
        if not all(is_complete(match) for _, match in done):
            return []
        return done if is_meant and self._is_nod(talk.text) else self._correct(done, talk.text, talk.offered)

    def _understand_rest(self, talk: Talk) -> list[Wish]:
        """ "I understood only a part of it. Shall I do that?"."""
        if not talk.reply.startswith(self._matcher.say["partly"].partition("{")[0]) or not self._is_nod(talk.text):
            return []
        last = self._find_last_turn(talk.turns[:-1], talk.messages[-1])
        told = self._matcher.match_wishes(talk.asked, talk.offered, last)
        return [part for part in told if is_complete(part[1])]

    def _understand_yes(self, talk: Talk) -> list[Wish]:
        """A yes to what waits for the command: that is said once more."""
        waits = re.search(rf"(?m){_WAITS.pattern}|^(\d+){re.escape(find_mark(self._matcher.say))}", talk.reply)
        if not waits or not self._matcher.is_all_of(talk.text, "agrees"):
            return []
        number = {"number": waits[1] or waits[2]}
        return [(talk.text, _say("yes", self._matcher.say["typed"])._replace(arguments=number))]

    def _understand_one_of(self, talk: Talk) -> list[Wish]:
        """ "Which one: ...?": what was asked, of the one that a text chooses of those that were named."""
        if not talk.reply.startswith(self._matcher.say["which"].partition("{")[0]):
            return []
        referents, last = self._find_last_turn(talk.turns[:-1], talk.messages[-1])
        named = talk.text.strip(" .!\n").lower()
        if place := self._matcher.read_place(talk.text):  # "the second one", of those that were named
            listed = [found for found in referents.values() if f" {', '.join(map(str, found))}?" in talk.reply]
            named = next((str(one).lower() for one in pick_place(listed[0] if listed else [], place)), named)
        outputs = self._matcher.list_outputs(talk.text)
        rules = [str(one) for one in referents.get("rules", ()) if str(one).rstrip("_0123456789") in outputs]
        named = rules[0] if len(rules) == 1 else named  # "the pump", of pump_2
        meant = {name: [one for one in found if str(one).lower() == named] for name, found in referents.items()}
        if not any(meant.values()):
            return []
        spoken = LastTurn(referents | {name: found for name, found in meant.items() if found}, last)
        told = self._matcher.match_wishes(f"{talk.asked} {named}", talk.offered, spoken)  # "cancel the reminder 2"
        if not all(is_complete(match) for _, match in told):
            told = self._matcher.match_wishes(talk.asked, talk.offered, spoken)
        return [part for part in told if is_complete(part[1])]

    def _understand_end(self, talk: Talk) -> list[Wish]:
        """ "All night: until when?" - "until 7", which is of the morning."""
        all_night = self._matcher.intents.get("output_all_night")
        said = self._matcher.put_until(talk.asked, talk.text) if all_night and talk.reply == all_night.answer else ""
        told = self._matcher.match_wishes(said, talk.offered) if said else []
        whole = all(is_complete(match) for _, match in told)
        return [(part, match and _keep_until_morning(match)) for part, match in told] if whole else []

    def _understand_named(self, talk: Talk) -> list[Wish]:
        """ "What do you mean?", of "turn it on" - "the light"."""
        if talk.reply != self._matcher.say["what"] or self._is_nod(talk.text):
            return []
        own = self._matcher.match(talk.text, talk.offered)
        is_talk = own is not None and not own.tool and bool(own.answer)  # "thanks"
        said = "" if is_talk or self._is_wish(own) else self._matcher.put_for_it(talk.asked, talk.text)
        parts = self._matcher.match_wishes(said, talk.offered) if said else []
        return parts if all(is_complete(match) for _, match in parts) else []

    def _understand_sensor(self, talk: Talk) -> list[Wish]:
        """ "Which sensor?": the rules of a limit and its "until", of the sensor that is named."""
        failed = [told for call, told in talk.calls if call.name == "rule" and told.startswith(WHICH_SENSOR)]
        named = self._matcher.list_named(talk.text, "sensor") if len(talk.text.split()) <= _MAX_NAME_WORDS else []
        if len(named) != 1 or len(failed) < 2:
            return []
        asked = self._understand_earlier(talk.until_asked, talk.offered)
        rules = [match for _, match in asked if match and match.tool == "rule" and "when" in match.arguments]
        places = ({"when": f"{named[0]}.{match.arguments['when']}"} for match in rules)
        told = [match._replace(arguments=match.arguments | one) for match, one in zip(rules, places, strict=True)]
        return [(talk.text, match) for match in told] if len(told) == len(asked) == len(failed) else []

    def _understand_slot(self, talk: Talk) -> list[Wish]:
        """What was asked last, with a text for what it lacked; nothing where that is another wish."""
        failed = any(result.startswith(ERROR_PREFIX) and "?" in result for _, result in talk.calls)
        questions = (question for intent in self._matcher.intents.values() for question in intent.ask.values())
        if (not failed and talk.reply not in questions) or self._is_nod(talk.text):
            return []  # a yes names nothing
        own = self._matcher.match(talk.text, talk.offered)
        is_lost = own is not None and own.route == "unknown"  # "cancel that", of what is not there yet
        is_end = is_lost and own and self._matcher.intents[own.intent].arguments.get("action") in ENDS
        if is_end or self._matcher.is_all_of(talk.text, "declines"):
            own = make_match(self._matcher.intents["let_be"], {}, 1.0, "template")
        if own and own.route == "template" and own.intent in _DECLINED | {"thanks", "goodbye"}:
            return [(talk.text, own)]
        if self._is_wish(own) or (is_whole(own) and len(talk.text.split()) > _MAX_NAME_WORDS):
            return []
        earlier = [clean_text(turn[0].text) for turn in talk.turns[-2:]]
        binds = ("", *self._matcher.words["binds"])
        for said in (earlier[-1], *(f" {bind} ".join(earlier) for bind in binds)):
            if match := self._fill_slot(said, (f"{bind} {talk.text}" for bind in binds), talk.offered, failed=failed):
                return [(talk.text, one) for one in self._matcher.list_parts(match) or [match]]
        return []

    def _fill_slot(
        self, said: str, tails: Iterable[str], offered: Collection[Any], *, failed: bool
    ) -> IntentMatch | None:
        """What was asked last, with the first of some texts that tells what it lacked; None where each makes another wish of it."""
        wanted = self._matcher.match(said, offered)
        wanted = wanted and self._name(wanted)
        for tail in tails if wanted else ():
            match = self._matcher.match(f"{said} {tail}", offered)
            if not match or not wanted or match.intent != wanted.intent:
                continue
            match = self._name(match)
            given = match.arguments
            named = str(given.get("sensor") or given.get("when", "")).partition(".")[0]
            is_no_sensor = failed and named and named not in (self._declared() or {named})  # "make it 90"
            is_no_text = str(given.get("message")) in self._matcher.words["within"]  # "remind me in" - "20"
            # no other wish is swallowed; a sensor's name may come before what is measured
            ends = all(str(given.get(name, "")).endswith(str(one)) for name, one in wanted.arguments.items())
            if (failed or ends) and given != wanted.arguments and not is_no_sensor and not is_no_text:
                return match
        return None

    def _is_wish(self, match: IntentMatch | None) -> bool:
        """Whether a text is a wish of its own, and no answer: "and delete sunday's"."""
        intent = self._matcher.intents[match.intent] if is_whole(match) else None
        return intent is not None and (intent.acts or intent.adds)

    def _find_chosen(self, text: str, listed: str) -> str:
        """The number of the one that a text chooses of numbered lines: by it, as "the second", or by what stands there; else ''."""
        rows = dict(_NUMBERED.findall(listed))
        numbers, said = [*rows], self._matcher.list_like(text)
        if place := self._matcher.read_place(text):
            return next(iter(pick_place(numbers, place)), "")
        if named := next((one for one in numbers if one == text.strip(" .!#\n")), ""):
            return named
        likest = find_likest(said, [*rows.values()]) if said else []
        return numbers[likest[0]] if len(likest) == 1 else ""

    def _correct(self, done: Sequence[Wish], text: str, offered: Collection[Any]) -> list[Wish]:
        """What was proposed, with what a text changes of it as of an order that was done: "rather 6"; nothing where it is no such."""
        match = done[0][1] if len(done) == 1 else None
        if not match or match.arguments.get("action") not in {"set", "add"}:
            return []
        call, referents = ToolCall("", match.tool, match.arguments), Referents(job=[0])
        referents |= {name: [value] for name, value in match.arguments.items()}
        changes = [one for _, one in self._matcher.match_wishes(text, offered, LastTurn(referents, call))]
        if len(changes) != 1 or not is_complete(change := changes[0]) or change.tool != match.tool:
            return []
        if change.intent in {"rule_relimit", "rule_also"}:
            return [*done[: change.intent == "rule_also"], (text, change)]
        if not self._matcher.intents[change.intent].after or change.arguments.get("action") not in _SETS - {"add"}:
            return []
        given = {name: value for name, value in change.arguments.items() if name not in {"action", "job"}}
        is_alike = given.keys() & TIMES <= match.arguments.keys()  # no time of day for "every sunday"
        changed = match.arguments | given
        return [(text, match._replace(arguments=changed))] if is_alike and changed != match.arguments else []

    def read_answer(
        self, turns: Sequence[Sequence[Message]], text: str, is_waiting: Callable[[int], bool] = bool
    ) -> list[str]:
        """The commands that a plain "yes" or "no" stands for, or a "delete the lamp one" of what `is_waiting` for one yet."""
        matcher = self._listen(text, *(turn[0].text for turn in turns[:-_MAX_HEARD:-1]))
        return ShownRules(matcher, self._list_waiting).read_answer(turns, text, is_waiting)

    def translate(self, turns: Sequence[Sequence[Message]], text: str, said: str) -> str:
        """Word what a command has said in the language of a text, or of what was said before it."""
        last = self._matcher  # a "basta" alone is of no language, and an order to stop comes without its turns
        matcher = self._listen(text, *(turn[0].text for turn in turns[:-4:-1]))
        is_told = turns or last is self._matchers["en"] or find_language([clean_text(text)], self._languages)
        tools = (matcher if is_told else last).tools
        for tool in sorted(tools, key="all".__eq__):
            for expression, told in tools[tool].get("told", {}).items():
                said = re.sub(expression, told, said)
        return said

    def _is_nod(self, text: str) -> bool:
        return fold_name(text.strip(" .!\n").lower()) in self._matcher.words["agrees"]

    def understand(self, request: Request) -> list[Wish]:
        """The wishes in the newest message of a request, a user's, each with its words."""
        offered = {tool["name"] for tool in request.tools if request.calls}
        wishes = self._understand(request.messages, offered | (self.unlisted if offered else set()))
        return [(said, _hold(match)) for said, match in wishes]

    def read_moment(self, messages: Sequence[Message]) -> str:
        """Say the time, by the head of the newest message of a user's."""
        moment = _read_moment("".join(list_user_texts(messages)[-1:]))
        return fill_fields(self._matchers["en"].intents["clock"].answer, moment)

    def word_answer(self, match: IntentMatch, text: str) -> str:
        """What is said to a message that needs no tool."""
        return fill_fields(match.answer, {**self._name_moment(text), **match.arguments})

    @property
    def _wording(self) -> ResultWording:
        """How results are told in the language of the text."""
        return ResultWording(self._matcher.say, self._matcher.tools, self._matcher.intents)

    @property
    def _lookup(self) -> Lookup:
        return Lookup(self._matcher, self._wording, self._list_waiting, self._confirmed())

    def _name_moment(self, text: str) -> dict[str, str]:
        """The weekday, the date and the time in the head of a message, in the words of the language."""
        moment = _read_moment(text)
        return moment | ({"weekday": self._name_weekday(moment["weekday"])} if moment else {})

    def _name_weekday(self, day: str) -> str:
        words = self._matcher.tools.get("all", {}).get("told", {})
        return next((told for expression, told in words.items() if re.fullmatch(expression, day.lower())), day)

    def word_result(self, wish: str, call: ToolCall, result: str) -> str:
        """Tell what a call has brought, as the words of the wish ask for it."""
        match = self.match(wish, {call.name}) if wish else None
        return self._wording.tell_result(match if match and match.tool == call.name else None, result)

    def events(self, request: Request) -> Iterator[Event]:
        last = request.messages[-1] if request.messages else Message("user", "")
        offered = {tool.get("name") for tool in request.tools if request.calls}
        offered |= self.unlisted if offered else set()
        wishes = list[Wish]()
        if last.role == "tool":
            wishes = self._use_looked_up(request.messages, offered)
            if again := self._find_retry(request.messages, offered):
                yield from _call(request, [again])
                return
            if not wishes:
                yield from self._tell(request.messages)
                return
        elif request.messages and last.role == "user":
            wishes = self._understand(request.messages, offered)
        self._latest = last, wishes
        if named := self._lookup.find_call(wishes, offered):
            yield from _call(request, [(named.name, named.arguments)])
            return
        self._heard = _list_heard(request.messages)
        if self._problem:
            yield Notice(self._problem, failed=True)
            self._problem = ""
        ready = [
            match
            for _, match in wishes
            if match and match.tool in offered and (not match.missing or self.is_shown_first(match))
        ]
        if ready and (len(ready) == len(wishes) or not any(map(self._matcher.moves, ready))):
            yield from _call(request, [(match.tool, match.arguments) for match in ready])
            return
        if ready:
            undone = next((text for text, match in wishes if match not in ready), "")
            done = next((text for text, match in wishes if match in ready), "")
            yield Text(fill_fields(self._matcher.say["partly"], {"undone": undone, "done": done}))
        else:
            yield Text(self._word_match(wishes[0][1] if wishes else None, offered, last.text))
        yield End("stop", Usage())

    def _tell(self, messages: Sequence[Message]) -> Iterator[Event]:
        told = self._word_last_turn(messages)
        if messages[-1].text.startswith(ERROR_PREFIX):
            yield Notice(told.rpartition("\n")[2], failed=True)  # in the answer's words, to be shown once
        yield Text(told)
        yield End("stop", Usage())

    def is_shown_first(self, match: IntentMatch) -> bool:
        """Whether a proposal is shown by its tool, which asks for a yes."""
        return match.route == "proposal" and bool(match.arguments) and match.tool in self._confirmed()

    def _find_retry(self, messages: Sequence[Message], offered: Collection[Any]) -> tuple[str, dict[str, Any]] | None:
        """What is called instead of the only call of the last turn, which has failed; None where nothing is."""
        turn = split_turns(messages)[-1:]
        calls = list_calls(turn[0]) if turn else []
        if len(calls) != 1:
            return None
        self._listen(*list_user_texts(messages)[:-_MAX_HEARD:-1])
        return self._lookup.find_retry(clean_text(turn[0][0].text), *calls[0], self._declared(), offered)

    def _use_looked_up(self, messages: Sequence[Message], offered: Collection[Any]) -> list[Wish]:
        """The wishes of the newest message with the numbers of what they name, where a list of these is all that was called."""
        asked = count_up_to_user(messages)
        calls = [call for message in messages[asked:] for call in message.calls]
        results = [message.text for message in messages[asked:] if message.role == "tool"]
        if not asked or not calls or any(call.arguments != LOOK_UP and call.name != "sensor_read" for call in calls):
            return []
        wishes = self._understand(messages[:asked], offered)
        now, texts = read_clock(messages), [*map(clean_text, list_user_texts(messages[:asked]))]
        spoken = [name for text in texts[:-_MAX_HEARD:-1] for name in self._matcher.list_outputs(text)]
        for call, result in zip(calls, results, strict=False):
            named = self._lookup.find_call(wishes, offered)
            is_it = named is not None and (named.name, named.arguments) == (call.name, call.arguments)
            if not is_it or result.startswith(ERROR_PREFIX):
                return []
            rows = remove_hints(result)
            wishes = [(said, one) for said, match in wishes for one in self._lookup.use(match, rows, now, spoken)]
        return wishes

    def close(self) -> None:
        """Nothing is held open."""

    def _word_match(self, match: IntentMatch | None, offered: Collection[Any], text: str = "") -> str:
        """What is said to a text of which no call is made."""
        say, words = self._matcher.say, clean_text(text)
        if match is None or not (match.tool or match.answer) or match.missing == NEEDS_CLOCK:
            return self._refuse(words)
        if not match.tool:
            if "" in (self._heard.get(name) for name in FIELD.findall(match.answer)):
                return say["unsaid"]
            return fill_fields(match.answer, {**self._name_moment(text), **self._heard, **match.arguments})
        if match.tool not in offered:
            wording = self._matcher.tools.get(match.tool, {})
            return fill_fields(say["no_tool"], {"does": f"use {match.tool}", "lacks": "it is not there", **wording})
        is_bare = match.tool == "output" and not match.arguments  # an order that was not read further
        if is_bare and (device := self._matcher.find_undeclared_device(words)):
            return self._tell_no_output(device)
        exact = self._matcher.intents[match.intent].exact
        is_of_other = not {*self._matcher.list_outputs(exact)} <= {*self._matcher.list_outputs(text)}
        is_hint = match.missing == self._matcher.word_exact(match.intent)  # no example that switches what was not named
        return f"{match.missing.partition('. ')[0]}." if is_hint and is_of_other else match.missing

    def _refuse(self, text: str) -> str:
        """What is said where nothing was understood: to talk something that fits it, else what works here."""
        say, refusal = self._matcher.say, self._matcher.choose_refusal(text)
        if refusal not in say:
            return self._matcher.intents[refusal].answer
        if device := self._matcher.find_undeclared_device(text):
            return self._tell_no_output(device)
        why = say["resting" if self.rests else "unreachable"] if self._model else ""
        names, hint = self._declared(), ""
        for key, kind in (("measures", "sensor"), ("switches", "output"), ("more_help", "")) if names else ():
            listed = ", ".join(sorted(one for one in names if names[one] == kind and refusal != "unknown"))
            hint += fill_fields(say[key], {"names": listed}) if listed or not kind else ""
        return f"{say[refusal]}{fill_fields(why, {'model': self._model})}{hint}"

    def _tell_no_output(self, device: str) -> str:
        """Say that nothing is called so, as the tool says it of an output."""
        declared = ", ".join(sorted(name for name, kind in self._declared().items() if kind == "output")) or "none"
        match = make_match(self._matcher.intents["output_on"], {"name": device}, 1.0, "template")
        return self._wording.tell_result(match, f"{_UNKNOWN_OUTPUT} there is no '{device}'; declared: {declared}")

    def _word_last_turn(self, messages: Sequence[Message]) -> str:
        """What the calls of the last turn have brought, one after the other."""
        turn = split_turns(messages)[-1:]
        calls = merge_calls(list_calls(turn[0]) if turn else [])
        if not calls:
            return self._wording.tell_result(None, remove_hints(messages[-1].text))
        wishes = self._find_wishes_of(messages)
        matches = [match for _, match in wishes if match is not None]
        if [call.name for call, _ in calls] == ["sensor_read", "rule"] and len(matches) == 1:
            del calls[0]  # the value was only looked up
        output = next(
            (one.said.get("_name", "") for one in matches if one.tool == "rule"), ""
        )  # whose plans are asked for
        told = list[str]()
        for match, call, result in self._pair_calls(calls, matches):
            said = self._word_call(match, call, result, output, read_clock(messages))
            told += [said] * (said not in told or not result.startswith(ERROR_PREFIX))
        if len(matches) == 2 and "_other" in matches[0].said:
            told.append(self._wording.compare([result for _, result in calls], matches))
        if any(call.name == "rule" and call.arguments == LOOK_UP for call, _ in calls):
            told += self._lookup.tell_waiting(matches[-1] if matches else None, output)
        if output and not any(told):
            told = [fill_fields(self._matcher.say["none_planned"], {"name": output})]
        undone = [text for text, match in wishes if match is None][:1]
        told += [fill_fields(self._matcher.say["nearest"], {"undone": text}) for text in undone]
        return "\n".join(filter(None, told))

    def _find_wishes_of(self, messages: Sequence[Message]) -> list[Wish]:
        """The wishes that the calls of the last turn were made for; read once more where another process has asked."""
        asked = count_up_to_user(messages)
        message, wishes = self._latest
        called = {call.name for one in messages[asked:] for call in one.calls}
        return wishes if message is messages[asked - 1] else self._understand(messages[:asked], called)

    def _pair_calls(
        self, calls: Calls, matches: Sequence[IntentMatch]
    ) -> Iterator[tuple[IntentMatch | None, ToolCall, str]]:
        """The calls, each with its match; of two alike, such as two parts of the board's report, each has its own."""
        left = [*matches]
        for call, result in calls:
            match = next((one for one in left if (one.tool, one.arguments) == (call.name, call.arguments)), None)
            match = match or next(filter(None, (self._match_call(one, call) for one in matches)), None)
            left = [one for one in left if one is not match]
            yield match, call, result

    def _match_call(self, match: IntentMatch, call: ToolCall) -> IntentMatch | None:
        """The match, or what it means where nothing of its list is called so; None where neither has made the call."""
        if match.tool == call.name:
            return match
        other = self._matcher.intents.get(self._matcher.intents[match.intent].otherwise)
        is_made = other is not None and other.tool == call.name
        return make_match(other, call.arguments, match.score, match.route) if other and is_made else None

    def _word_call(
        self, match: IntentMatch | None, call: ToolCall, result: str, output: str, now: datetime | None
    ) -> str:
        """What a call has brought; of a list the rows of the day or of the `output` that was asked for."""
        if match and call.name == "rule" and result.startswith(_NO_RULE):
            waits = self._lookup.name_waiting(match, str(call.arguments["name"]))
            told = [self._wording.tell_result(match, result), *self._lookup.tell_waiting(match)]
            return waits.answer if waits else "\n".join(told)
        if match and now and "_day" in match.said and call.name == "cron" and call.arguments == LOOK_UP:
            result = keep_days(result, match.said["_day"], now.date())
        return self._wording.tell_result(match, keep_named(result, output) if output else result)


def _list_once(values: Iterable[Any]) -> list[Any]:
    """Those of some values that are not empty, each once."""
    return [*dict.fromkeys(filter(None, values))]


def _say(intent: str, answer: str) -> IntentMatch:
    return IntentMatch(intent, "", {}, answer, 1.0, "unclear")


def _list_switched(made: Sequence[ToolCall]) -> list[dict[str, Any]]:
    return [call.arguments for call in made if call.name == "output" and call.arguments.get("action") == "set"]


def _call(request: Request, calls: Sequence[tuple[str, Mapping[str, Any]]]) -> Iterator[Event]:
    """Call tools, each with its arguments, and end."""
    for number, (tool, arguments) in enumerate(calls):
        part = f"-{number}" if number else ""
        yield ToolCall(f"intent-{len(request.messages)}{part}", tool, dict(arguments))
    yield End("tool_calls", Usage())


def _find_levels_before(messages: Sequence[Message]) -> dict[str, Any]:
    """What outputs were set to before, as "_before" and "_before NAME", '' where unknown, how long yet, as "_left NAME", and to what last, as "_level NAME"."""
    levels, now = dict[str, Any](_before=""), dict[str, str]()
    for turn in split_turns(messages):
        done = [
            call.arguments
            for call, told in list_calls(turn)
            if call.name == "output" and not told.startswith(ERROR_PREFIX)
        ]
        for one in (given for given in done if given.get("action") in {"set", "off"}):
            name, is_off = str(one.get("name", "")), one["action"] == "off"
            levels[f"_before {name}"] = levels["_before"] = now.get(name, "off" if one.get("level") == "on" else "")
            now[name] = "off" if is_off else "" if one.get("seconds") else str(one.get("level", ""))
            levels[f"_left {name}"] = one.get("seconds", 0) - count_seconds_passed(turn, messages[-1])
            levels[f"_level {name}"] = "off" if is_off else str(one.get("level", ""))
    return levels


def _list_heard(messages: Sequence[Message]) -> dict[str, str]:
    """What was said in this conversation before the newest message, for a reply to "what did I ask?"."""
    asked = [clean_text(text).strip() for text in list_user_texts(messages[:-1])]
    told = [message.text for message in messages[:-1] if message.role == "assistant" and message.text]
    return {"asked": "\n".join(f"- {text}" for text in asked[-_MAX_HEARD:]), "told": told[-1] if told else ""}


def _gives_way(match: IntentMatch | None, asking: Collection[str], *, is_sum: bool) -> bool:
    """Whether the answer to a sum or to a question about days counts before what a text was understood as."""
    is_talk = match is not None and not match.tool and match.route == "topic"  # "until midnight" is no good night
    message = str(match.arguments.get("message", "")) if match else ""
    is_talk |= message.lower().partition(" ")[0] in asking  # "tell me what the date is next friday" sets nothing
    return (
        match is None
        or is_talk
        or match.intent in {"nothing", "clock", "what_if", "rule_condition", "unseen_condition", "memory_when"}
        or (is_sum and not is_complete(match))
    )


def _hold(match: IntentMatch | None) -> IntentMatch | None:
    """Return a match that lacks what it names in words, which has to be looked up first."""
    return match._replace(missing=match.missing or NEEDS_LOOK_UP) if match and "_called" in match.said else match


def _keep_end(match: IntentMatch, told: Sequence[Wish], messages: Sequence[Message]) -> IntentMatch:
    """Return a match; another brightness of what is on until a time that was said, before or in `told`, keeps that end."""
    given, name = match.arguments, str(match.arguments.get("name"))
    if match.tool != "output" or match.missing or "seconds" in given or str(given.get("level", "off")) == "off":
        return match
    ends = [one.arguments for _, one in told if one and one.arguments.get("name") == name]
    before = _find_levels_before(messages)
    left = ends[-1].get("seconds", 0) if ends else before.get(f"_left {name}", 0)
    is_dimmed = str(ends[-1].get("level") if ends else before.get(f"_level {name}")).isdecimal()
    if not str(given["level"]).isdecimal() and not is_dimmed:
        return match  # "on" again is no other brightness
    return match._replace(arguments=given | {"seconds": int(left)}) if left > 0 else match


def _add_seconds(match: IntentMatch, text: str) -> IntentMatch:
    """Say how long it is until the time of day that was said, as of the moment in the message."""
    now, end = (_CLOCK.match(said) for said in (_read_moment(text).get("time", ""), match.said.get("_until", "")))
    if not now or not end or match.missing != NEEDS_CLOCK:
        return match
    minutes = (int(end[1]) - int(now[1])) * 60 + int(end[2]) - int(now[2])
    if not (minutes := minutes % (720 if end[3] else 1440)):
        return match  # "until noon", at noon: a whole day is hardly meant
    name = "at_seconds" if match.tool == "cron" else "seconds"
    seconds = minutes * 60 + match.arguments.get(name, 0)  # and so long after it
    return match._replace(arguments=match.arguments | {name: seconds}, missing="")


def read_clock(messages: Sequence[Message]) -> datetime | None:
    """The time in the head of the newest message of a user's."""
    said = _read_moment("".join(list_user_texts(messages)[-1:]))
    return datetime.fromisoformat(f"{said['date']} {said['time']}+00:00") if said else None


def _read_moment(text: str) -> dict[str, str]:
    """The weekday, the date and the time in the head of a user's message."""
    found = _MOMENT.search(text.rpartition("</moment>")[0])
    return found.groupdict() if found else {}


def _only_looks(match: IntentMatch) -> bool:
    """Whether a match shows how the outputs are."""
    return match.tool == "output" and match.arguments == LOOK_UP


def _keep_until_morning(match: IntentMatch) -> IntentMatch:
    """Return a match whose "until 7" is of the morning: what was to stay on all night."""
    until = str(match.said.get("_until", ""))
    return match._replace(said={**match.said, "_until": until.removesuffix(OCLOCK)}) if until else match
