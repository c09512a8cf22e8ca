"""The small profile: what the matcher understands needs no model, and a small one chooses among flat verbs.

One constant prompt, so that a server reads it once; words in the message say which verbs the answer may hold, through a
JSON schema where the server has one. Each verb becomes a call of a real tool, made and guarded as any other. What asks
for words alone is asked behind a few turns of talk, without verbs. Which words say what is data: templates/small.toml.
"""

import json
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import datetime, timedelta
from functools import cached_property
from itertools import count, product, zip_longest
from typing import TYPE_CHECKING, Any

from picoclaw.agent.small_answers import find_rows, is_about_lines, list_content, mentions, tell_result
from picoclaw.agent.verbs import (
    ACTS_ON_ROW,
    FINDS_NOTE,
    LOOKS_UP,
    PATTERNS,
    PLACES,
    PLAN_TOPICS,
    SWITCH_NOW,
    SWITCH_TOPICS,
    TALK_TOPICS,
    TIMED,
    VERBS,
    build_schema,
    count_cues,
    find_help,
    is_looked_up,
    is_question,
    make_arguments,
    make_change,
    parse_answer,
    phrase_call,
    read_form,
    read_said,
    says,
    select_verbs,
    widen_verbs,
)
from picoclaw.answers import find_promise, find_unfounded_claims, find_unfounded_numbers, list_number_words
from picoclaw.errors import OverBudget, Refused, Unavailable
from picoclaw.intents.conversation import list_calls
from picoclaw.intents.provider import read_clock
from picoclaw.intents.sums import name_day
from picoclaw.messages import (
    ERROR_PREFIX,
    End,
    Event,
    Message,
    Notice,
    Purpose,
    Request,
    Stop,
    Text,
    ToolCall,
    Usage,
    split_turns,
    strip_context,
)
from picoclaw.prompts import Templates, fill_template, remove_hints
from picoclaw.providers import Provider
from picoclaw.text import list_query_terms, list_terms, pattern, truncate
from picoclaw.times import format_duration
from picoclaw.workspace import remove_empty

if TYPE_CHECKING:
    from pathlib import Path

    from picoclaw.intents.grammar import IntentMatch
    from picoclaw.intents.provider import IntentProvider

MIN_SCORE, MIN_TOPIC_SCORE = 0.79, 0.7
"""From which on what the matcher makes of a sentence is believed without a model."""
_MIN_SHARE, _MIN_ASKED = 0.25, 0.5
"""From which on a topic admits the verbs of an order, and of a question."""

_SMALL_TALK = {"clock", "thanks", "goodbye", "no_thanks"}
_ANSWER_TOKENS = 300
_WARM_S = 600.0
_MAX_KNOWN = 700  # characters of an earlier result, or answer, that a message is read with
_MAX_BACK = 6  # words
_MAX_BESIDE = 2  # words of a line that is taken out, beside those that name it
_MAX_FILES = 3
_MIN_ALIKE = 0.9  # of the name of a file and what it is called
_MIN_ECHO = 3  # words
_DAYS = 31

_FILE_CHANGES = ("take_off", "in_file_change", "change", "says_wrong", "says_not")
_WORKED_OUT = (*_FILE_CHANGES, "monthly", "forget_about", "forget_it", "corrects", "all_notes")
_OF_FILES = frozenset(["", "read_file", "write_file", "edit_file", "list_dir", "exec", "cron", "memory_forget"])
_READS = frozenset(["sensor_read", "sensor_history", "read_file", "list_dir", "memory_search"])

_NAMED_THING = pattern(
    r"(?<=^[Dd]o )\w+|(?<=^[Dd]oes )\w+|(?<=^[Cc]an )\w+|(?<=^[Aa]re )\w+|(?<=\bthe )[a-z]\w+|(?<=\bthat )[a-z]\w+|\b[a-z]+(?=s b(?:irth|-?)day\b)|(?<=\bmy )\w+|(?<=\bour )\w+|(?<=[a-z,] )(?!I\b)[A-Z]\w+|\b(?!(?:who|what|where|when|how|it|that|there|here)\b)\w+(?='s (?!the\b|a\b|it\b|up\b|in\b|my\b|on\b))"
)
"""What a question names as known: "the ferns", "my boiler", "Anna"."""
_LIST_OF = pattern(r"(?P<name>[\w-]+) list", re.IGNORECASE)
_WHAT_OF = pattern(r"\b(?:of|about|to) (?!be\b).*", re.IGNORECASE)
_SWITCHES_OFF = pattern(r'\\?"(?:action|level)\\?": \\?"(?:off|0)\\?"')
_SINCE = pattern(r" \(since [^)]*\)$")
_DOTTED = pattern(r"(?<=\b\d)\.(?=\d\d\b)|(?<=\b\d\d)\.(?=\d\d\b)")
_TOLD_WHERE = pattern(r" \(told in an open [^)]*\)")
_NOON = 12
_CLOCK_TIME = pattern(
    r"\b(?:at )?(?:half (?:past )?)?\d\d?(?:[:.]\d\d)? ?(?:am|pm)?$|\b(?:at )?\d\d?[:.]\d\d\b", re.IGNORECASE
)
_SECONDS = pattern(r"\b(\d{2,}) s(?:econds)?\b")
_NO_TIME = "is not a time picoclaw knows", "is yet to come"
_NOTED = pattern(r"- (?:\d\d:\d\d )?(?:\([^)\n]*\) )?(\S.*?)(?= - \d\d:\d\d |$)", re.MULTILINE)
_DATED = pattern(r"\d{4}-\d\d-\d\d")
_AT = pattern(r"\d{4}-\d\d-\d\d \d\d:\d\d")
_ORDINAL = pattern(r"(?<=\d)(?:st|nd|rd|th)$")
_ONLY_CLOCK = pattern(r"\d\d:\d\d")
_LINE_NUMBER = pattern(r"^\d+\| ", re.MULTILINE)
_LETTERS = pattern(r"[a-z]+")
_WORD = pattern(r"(?!and\b)[^\W\d_]{3,}", re.IGNORECASE)
_PROMISE_BEGINS = frozenset(["i", "ok", "okay", "sure", "yes", "of", "certainly"])


class SmallProvider:
    """Answers a turn wish by wish: by the matcher where it is sure, else by a verb that a small model chooses.

    What a call has brought is told as it is, and a comparison is worked out here: no small model judges.
    """

    def __init__(
        self,
        models: Provider,
        matcher: "Callable[[], IntentProvider]",
        prompts: Templates,
        workspace: "Path | None" = None,
        is_noted: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """Take "the shopping list" for shopping.txt where the `workspace` has that file; `is_noted` searches the notes."""
        self._models, self._make_matcher, self._prompts, self._workspace = models, matcher, prompts, workspace
        self._is_noted, self._numbers = is_noted, count()
        self._begin()
        self._asked_model = True  # by which it is called before the first turn

    def _begin(self) -> None:
        """Know nothing of a turn: its wishes, what is told of those that are done, and the call that is open."""
        self._todo: list[str] = []
        self._told: list[str] = []
        self._known: list[str] = []
        self._wish = self._verb = self._named = self._path = self._unfound = self._left = self._written = (
            self._distrusted
        ) = self._open = ""
        self._change: re.Match[str] | None = None
        self._change_to: dict[str, Any] = {}
        self._then: list[ToolCall] = []
        self._unsure: ToolCall | None = None
        self._places: list[ToolCall] | None = None
        self._words = ""
        self._is_guess = self._asked_model = False

    @cached_property
    def _matcher(self) -> "IntentProvider":
        return self._make_matcher()

    @property
    def name(self) -> str:
        return self._models.name if self._asked_model else self._matcher.name

    def close(self) -> None:
        """See Provider.close."""
        self._models.close()

    def events(self, request: Request) -> Iterator[Event]:
        """See Provider.events."""
        newest, usage, shown = request.messages[-1], Usage(), ""
        if newest.role == "user":
            self._begin()
            said = strip_context(newest.text)
            text = PATTERNS["named_list"].sub(self._name_file, said)
            text = PATTERNS["if_so"].sub("?", PATTERNS["greets"].sub("", text))
            if (asked := says("asked_by", text)) and is_question(text[asked.end() :]):  # "my son asks why …"
                text = PATTERNS["asked_for"].sub("", text[asked.end() :])
            if text == said and not self._is_worked_out(text, request):
                if calls := self._match_whole(request):
                    yield from calls
                    yield End("tool_calls", Usage())
                    return
                if self._is_left_to_matcher(said, request):
                    yield from self._matcher.events(request)
                    return
            self._todo = self._split(text, request)
        elif newest.role == "tool":
            if newest.call_id != self._open:  # the matcher's, or one that the owner has said yes to meanwhile
                self._begin()
            if not self._wish and not self._is_handed_over(request):
                yield from self._tell_matched(request)
                return
            if call := self._take_result(request) if self._wish else None:
                yield from self._open_call(call, usage)
                return
        while self._todo:
            wish = self._refer(self._todo.pop(0), read_clock(request.messages))
            if wish != self._wish:
                self._places, self._words = None, ""
            self._wish, self._unsure = wish, None
            found = self._find_answer(wish, request)
            if isinstance(found, str):
                self._told.append(found)
                continue
            if found is None:
                try:
                    for event in self._ask(request):
                        if isinstance(event, ToolCall):
                            found = event
                        elif isinstance(event, End):
                            usage += event.usage
                        else:
                            shown += event.text if isinstance(event, Text) else ""
                            yield event
                except (Unavailable, Refused) as error:
                    if self._told:
                        self._told.append(str(error))
                        continue
                    yield from self._fall_back(request, error)
                    return
            if found:
                yield from self._open_call(found, usage)
                return
        told = "\n".join(dict.fromkeys(self._told)) or self._prompts["empty"]
        yield Text(told.removeprefix(shown.strip()))
        yield End("stop", usage)

    def _open_call(self, call: ToolCall, usage: Usage) -> Iterator[Event]:
        self._open = call.id
        yield call
        yield End("tool_calls", usage)

    def _make_call(self, tool: str, arguments: Mapping[str, Any], verb: str = "") -> ToolCall:
        self._verb = verb
        return ToolCall(f"small-{next(self._numbers)}", tool, dict(arguments))

    def build_request(self, request: Request, wish: str = "") -> Request:
        """What a model is sent for one wish: the constant prompt, for words alone some turns of talk, and the message with what it goes back to."""
        wish = wish or strip_context(request.messages[-1].text)
        verbs, with_words = self._choose_form(wish, request)
        newest = Message("user", "\n".join([*self._recall(request, wish), wish]))
        asked = request._replace(
            system=self._prompts["small"],
            messages=(newest,),
            tools=(),
            answer_tokens=min(request.answer_tokens, _ANSWER_TOKENS),
            calls=True,
            schema=build_schema(verbs, with_words=with_words),
            temperature=None if says("invents", wish) else 0,  # a joke that is always the same is none
        )
        if verbs or not with_words:
            return asked
        turns = self._prompts["small_talk"].strip().split("\n\n")  # behind the prompt, which so stays read
        shown = [Message("assistant" if at % 2 else "user", said) for at, said in enumerate(turns)]
        if self._words == "other":  # the same words would have the same answer
            newest = Message("user", f"{newest.text}\n{self._prompts['small_again']}")
        return asked._replace(messages=(*shown, newest), calls=False, schema=None)

    def _switch(self, wish: str, how: str = "", to: str = "") -> "IntentMatch | None":
        """What switches the output that a wish names, on for as long as the wish says, in the words of the matcher; None for no order. `to` is what a model made of it."""
        whole = wish
        # "I can't see a thing, ten minutes of light please"
        if not how and says("no_order", wish) and not says("condition", wish):
            clauses = PATTERNS["clause"].split(wish)
            wish = next((one for one in clauses if self._matcher.list_names(one, "output") or says("lamp", one)), wish)
        wish = PATTERNS["unit_behind"].sub(" ", wish)
        names, lasts = self._matcher.list_names(wish, "output"), says("lasts", whole if to else wish)
        known = (
            "turn off the light"
            if says("lamp", wish)
            else "water the plants for 1 second"
            if says("waters", wish)
            else ""
        )
        if known and not names and (match := self._matcher.match(known, {"output"})):
            names = self._matcher.list_names(str(match.arguments.get("name", "")), "output")
        named = names[0] if len(names) == 1 else ""
        is_off = bool(how or says("no_more", wish)) or (to == "off")
        lasts = None if is_off else lasts
        if says("off", wish) and lasts:
            return None  # "off for ten minutes" is no order to be on
        is_off = is_off or bool(says("off", wish))
        is_ordered = how or not says("no_order", PATTERNS["longest"].sub("", PATTERNS["no_more"].sub("", wish)))
        if to and not lasts and any(map(str.isdigit, whole)):
            return None  # a number is not dropped silently
        if not named or not is_ordered or not (is_off or lasts or to or says("longest", wish)):
            return None
        # "two hour and half", "90 minuts"
        length = lasts[0].lower().replace("minuts", "minutes").replace("and half", "and a half") if lasts else ""
        order = f"turn {'off' if is_off else 'on'} the {named}{f' for {length}' if length else ''}"
        match = self._matcher.match(order, {"output"})
        is_whole = match and match.tool == "output" and not match.missing and match.arguments.get("level", "on") == "on"
        return match if is_whole else None  # "two hour and half" is not 50 %

    def _is_talk(self, wish: str) -> bool:
        """Whether a message has topics of talk alone."""
        topics = self._matcher.list_topics(wish, _MIN_SHARE)
        return bool(topics) and topics <= TALK_TOPICS

    def _is_planned(self, wish: str) -> bool:
        """Whether it is a rule, or an output is to be switched then, which is no reminder."""
        topics = self._matcher.list_topics(wish, _MIN_SHARE)
        is_switched = self._matcher.list_names(wish, "output") and not says("plans_words", wish)
        return bool(topics) and topics <= PLAN_TOPICS and bool(is_switched or not topics & SWITCH_TOPICS)

    def _is_later(self, wish: str) -> bool:
        """Whether an output is to be switched at another time: by the topic of a wish that names one beside a length."""
        is_timed = says("time", PATTERNS["lasts"].sub("", wish))
        return bool(is_timed and self._matcher.list_topics(wish, _MIN_SHARE) & PLAN_TOPICS)

    def _admit(self, wish: str, request: Request) -> tuple[str, ...]:
        """The verbs that the words of a wish name: of a question about the owner's own things, those that look up."""
        is_denied, offered = says("no_act", wish), self._offered(request)
        if says("story", wish) or says("framed", wish):
            return ()
        wish = PATTERNS["quoted"].sub("", wish) if is_denied else wish
        if not is_denied and "output" in offered and self._switch(wish):
            return ("switch",)
        topics = self._matcher.list_topics(wish, _MIN_SHARE)
        is_wish = not is_denied and (not is_question(wish) or says("asks_politely", wish))
        if is_wish and topics and topics <= SWITCH_TOPICS and "output" in offered and not says("plans_words", wish):
            return ("switch",)
        least = _MIN_SHARE if read_form(wish) == "order" or says("asks_politely", wish) else _MIN_ASKED
        verbs = select_verbs(wish, offered, self._matcher.list_topics(wish, least))
        if is_denied or says("shows", wish) or (is_question(wish) and self._is_talk(wish)):
            verbs = tuple(verb for verb in verbs if verb in LOOKS_UP)
        if self._unsure:  # of a sensor, or of a note
            verbs = tuple(verb for verb in verbs if verb in FINDS_NOTE)
        return tuple(verb for verb in verbs if verb in LOOKS_UP) if is_looked_up(wish, verbs) else verbs

    def _choose_form(self, wish: str, request: Request) -> tuple[tuple[str, ...], bool]:
        """The verbs that a model may choose among for a wish, and whether it may answer in words."""
        if self._words:
            return (), True
        verbs = self._admit(wish, request)
        if len(verbs) == 1 and verbs[0] in {*ACTS_ON_ROW, "switch", "add_task"}:
            return verbs, verbs == ("switch",)
        with_words = not (is_looked_up(wish, verbs) or (self._known and says("past", wish)))
        if says("no_act", wish) or (not verbs and self._is_talk(wish) and not says("have_done", wish)):
            return verbs, with_words
        return widen_verbs(wish, verbs, self._offered(request)), with_words

    def _name_file(self, named: re.Match[str]) -> str:
        """The file of a list that is called by its name, else the words as they are."""
        from difflib import get_close_matches

        if self._workspace and (named.groupdict().get("kind") == "file" or not says("task", named[0])):
            name = named["name"].lower()
            own = [file.name for file in self._workspace.glob("*.*") if not file.stem.isupper()]
            for file in (f"{name}{suffix}" for suffix in (".txt", ".md")):
                if near := [file] if file in own else get_close_matches(file, own, 1, _MIN_ALIKE):  # "shoping list"
                    return near[0]
        return named[0]

    def _offered(self, request: Request) -> Collection[str]:
        offered = {tool["name"] for tool in request.tools if request.calls}
        return offered | self._matcher.unlisted

    def _recall(self, request: Request, wish: str) -> list[str]:
        """What "it" may mean: the results of this turn, else what was said before."""
        if not (says("back", wish) or (self._known and says("file", wish))):
            return []
        known = self._known[-1:]
        turns = split_turns(request.messages)[-2:-1] if not known else []
        known += [
            truncate(text, _MAX_KNOWN)
            for turn in turns
            for text in [result for _, result in list_calls(turn)][-1:] or [turn[-1].text]
        ]
        return [f"Known: {text}" for text in known if not text.startswith(ERROR_PREFIX)]

    def _refer(self, wish: str, now: Any) -> str:
        """A wish with what it goes back to in the wishes before: "it", "the rest", "the same", "the day before"."""
        wish = PATTERNS["this_file"].sub(self._path or r"\g<0>", wish)
        if self._path and not says("file", wish):
            wish = PATTERNS["read_back"].sub(f"read {self._path}", wish)
            wish = f"{wish.rstrip(' .!')} it" if says("put_on", wish) else wish
            wish = PATTERNS["to_it"].sub(rf"\g<how> {self._path}", wish)
        quantities = ("temperature", "humidity", "pressure", "light")
        measured = next((name for name in quantities if says(name, self._wish)), "")
        if measured and says("what_now", wish):
            return f"what is the {measured} now"
        if measured and says("chart_of_it", wish) and (when := says("when", self._wish)):
            return f"show me a chart of the {measured} {when[0]}"
        if says("left", wish):
            wish = self._left or (f"read {self._path}" if self._path else wish)
        if self._written:
            wish = PATTERNS["the_same"].sub(lambda _: f"'{self._written}'", wish)
        named = name_day(wish, self._known[-1], now) if now and self._known else ""
        if not named or re.search(r"\b(?:to|of|about|that)\b", named):
            return named or wish
        return f"{named.rstrip(' .!?')} of {PATTERNS['when_is'].sub('', self._wish).rstrip(' .!?')}"

    # What needs no model.

    def _find_answer(self, wish: str, request: Request) -> ToolCall | str | None:
        """The call, or the words, that a wish has without the model; None to ask that."""
        if self._words or says("corrects", wish):
            return None
        if found := self._work_out(wish, request) or self._match(wish, request):
            return found
        if self._admit(wish, request):
            return None
        # talk would seem to switch
        return self._prompts["small_cannot"] if is_question(wish) and self._matcher.list_names(wish, "output") else None

    def _work_out(self, wish: str, request: Request) -> ToolCall | str | None:
        """The answer of a wish that arithmetic answers, or the call of one that is about a file's lines, or all notes."""
        now, offered = read_clock(request.messages), self._offered(request)
        is_order = self._matcher.list_names(wish, "output") or self._switch(wish, "off") or _tells_later(wish)
        if told := "" if is_order else self._matcher.tell_sum(wish, now):
            self._known.append(told)
            return told
        if helped := find_help(wish):
            return fill_template(self._prompts["small_help"], {"sentences": helped})
        if "rule" in offered and (rule := self._plan_rule(wish)):
            return self._make_call("rule", rule)
        change = next(filter(None, (says(name, wish) for name in _FILE_CHANGES)), None)
        file = says("file", wish)
        if file and {"read_file", "edit_file"}.issubset(offered) and (change or is_about_lines(wish)):
            self._change = change
            return self._make_call("read_file", {"path": file[0]}, "read_file")
        if file and self._workspace and says("exists", wish):
            is_there = (self._workspace / file[0]).is_file()
            return f"Yes: {file[0]} is there." if is_there else f"No: there is no {file[0]}."
        if "memory_forget" in offered and (dropped := says("forget_about", wish) or says("forget_it", wish)):
            return self._make_call("memory_forget", {"text": dropped["what"]}, "forget_note")
        if "cron" in offered and (arguments := self._plan_monthly(wish)):
            return self._make_call("cron", arguments)
        if now and "memory_get" in offered and says("all_notes", wish):
            self._then = [self._make_call("memory_get", {"path": f"memory/{now:%Y%m/%Y%m%d}.md"})]
            return self._make_call("memory_get", {"path": "memory/MEMORY.md"}, "notes")
        return None

    def _is_worked_out(self, wish: str, request: Request) -> bool:
        """Whether a message is answered without the matcher's templates and the model, or asks for words alone."""
        return bool(
            any(says(name, wish) for name in _WORKED_OUT)
            or find_help(wish)
            or read_form(wish) == "talk"
            or is_about_lines(wish)
            or self._matcher.tell_sum(wish, read_clock(request.messages))
        )

    def _plan_monthly(self, wish: str) -> dict[str, Any]:
        """The job of "remind me on the 1st of every month to …", at nine where no hour is told; {} for other wishes."""
        found = says("monthly", wish)
        if not found or not 1 <= (day := int(found["day"] or found["other"] or 1)) <= _DAYS:
            return {}
        rest = f"{wish[: found.start()]}{{}}{wish[found.end() :]}"
        parts = [part.strip() for part in re.split(r"[,:;.]\s", rest)]
        clock = next((part for part in parts if says("only_time", part)), "")
        what = _WHAT_OF.search(rest)
        forms = [rest, f"remind me {{}} {what[0]}"] if what and not clock else [rest]
        if clock and (task := _name_task("", rest.replace("{}", "every day"))):
            forms = [f"remind me {{}} at {clock.removeprefix('at ')} to {task}", *forms]
        for form, daily in product(forms, ("every day", "every day at 9:00")):
            match = self._matcher.match(form.replace("{}", daily), {"cron"})
            clock = str(match.arguments.get("cron_expr", "")) if match and not match.missing else ""
            if match and clock.endswith(" * * *"):
                return {**match.arguments, "cron_expr": f"{clock.removesuffix(' * * *')} {day} * *"}
        return {}

    def _plan_rule(self, wish: str) -> dict[str, Any]:
        """The rule of "any time it drops under 5 in there, text me 'frost'", by its parts; {} where not all numbers have a part."""
        found = says("limit", wish)
        rest = f"{wish[: found.start()]} {wish[found.end() :]}" if found else ""
        named = [name for name in ("temperature", "humidity", "pressure", "light") if found and says(name, found[0])]
        outputs, lasts = self._matcher.list_names(rest, "output"), says("lasts", rest)
        if not found or len(named) > 1 or len(outputs) > 1 or (outputs and says("tells", rest)):
            return {}
        if (
            find_unfounded_numbers(rest, [lasts[0] if lasts else ""])
            or not (outputs or says("tells", rest))
            or is_question(wish)
        ):
            return {}
        for part in PATTERNS["clause"].split(rest):
            is_part = says("tells", part) or self._matcher.list_names(part, "output") or read_form(part) == "remark"
            if _WORD.search(PATTERNS["quoted"].sub("", part)) and not is_part and not says("lasts", part):
                return {}  # something else is wanted, too
        way = "off" if says("off", rest) else "on"
        does = f"turn {way} the {outputs[0]}{f' for {lasts[0]}' if lasts else ''}" if outputs else "tell me"
        has_digit = any(map(str.isdigit, found["limit"]))
        number = found["limit"] if has_digit else f"{sum(list_number_words(found['limit'])):g}"
        limit = f"{'below' if says('below', found['how']) else 'above'} {number}"
        match = self._matcher.match(f"when the {(named or ['temperature'])[0]} is {limit}, {does}", {"rule"})
        if not match or match.tool != "rule" or match.missing:
            return {}
        quoted = PATTERNS["quoted"].search(rest)
        return {**match.arguments, "notify": quoted[0][1:-1]} if quoted and not outputs else dict(match.arguments)

    def _look_up(self, wish: str, request: Request) -> ToolCall | None:
        """Search the notes for what a question is about, where they say something about it."""
        admitted = self._admit(wish, request)
        if (
            "memory_search" in self._offered(request)
            and is_question(wish)
            and FINDS_NOTE.issuperset(admitted)
            and (named := _NAMED_THING.findall(wish) or (_WORD.findall(wish) if len(wish.split()) <= _MAX_BACK else []))
        ):
            # "the sun" of "do the ferns like the sun" need not stand in the note
            one_by_one = () if admitted else tuple(filter(self._is_noted, named))
            query = " ".join(named) if self._is_noted(" ".join(named)) else " ".join(one_by_one)
            if query:
                return self._make_call("memory_search", {"query": query}, "find_note")
        return None

    def _look_on(self, call: ToolCall, text: str, request: Request) -> ToolCall | None:
        """The next place where what a question names may stand, after one that did not have it."""
        if self._places is None:
            files = sorted(self._workspace.glob("*.*")) if self._workspace else []
            own = [file.name for file in files if file.suffix in {".txt", ".md"} and not file.stem.isupper()]
            content = list_content(self._wish)
            content |= {"todo"} if says("task", self._wish) else set()
            named = [name for name in own if mentions(name.replace(".", " "), content)]
            own = named if self._told else named + [name for name in own if name not in named]
            places: list[tuple[str, dict[str, Any]]] = [
                ("cron", {"action": "list"}),
                ("pulse", {"action": "list"}),
                ("memory_search", {"query": " ".join(_LETTERS.findall(self._wish.lower()))}),
                *(("read_file", {"path": name}) for name in own[:_MAX_FILES]),  # which makes the turn untrusted
            ]
            self._unfound = text
            self._places = [
                self._make_call(tool, arguments)
                for tool, arguments in places
                if tool in self._offered(request)
                and (tool != call.name or (tool == "read_file" and arguments["path"] != call.arguments.get("path")))
            ]
        if self._places:
            further = self._places.pop(0)
            self._verb = next(verb for verb in PLACES if VERBS[verb][0] == further.name)
            return further
        if not self._told and self._choose_form(self._wish, request)[1]:
            self._use_words()
        elif not self._told:
            self._told.append(self._unfound)
        return None

    def _use_words(self) -> None:
        """Have the model answer the wish once more, in words, where that was asked for already, in other ones."""
        self._words = "other" if self._words else "any"
        self._todo.insert(0, self._wish)

    def _edit_line(self, path: str, text: str) -> ToolCall | None:
        """The edit that takes a line out of a file, or changes it; None where it is not plain which is meant."""
        change, self._change = self._change, None
        if not change:
            return None
        lines, wanted = text.rstrip("\n").split("\n"), set(list_terms(change["what"]))
        if PATTERNS["it"].fullmatch(change["what"]):  # "I have got the milk, take it off shopping.txt"
            heard = set(list_terms(self._wish))
            wanted = next((terms for line in lines if (terms := set(list_terms(line))) and terms <= heard), wanted)
        rows = [at for at, line in enumerate(lines) if wanted and wanted <= set(list_terms(line))]
        if len(rows) != 1:
            return None
        at, new = rows[0], str(change.groupdict().get("new") or "")
        if new:
            said = re.compile(re.escape(change["what"]), re.IGNORECASE)
            edited = said.sub(lambda _: new, lines[at], count=1)
            old, new = (lines[at], edited) if edited != lines[at] else ("", "")
        elif len(set(list_terms(lines[at])) - wanted) > _MAX_BESIDE:
            return None
        elif at:
            old, new = f"\n{lines[at]}", ""
        else:
            old, new = ("\n".join(lines[:2]), lines[1]) if len(lines) > 1 else (lines[0], "")
        if not old or text.count(old) != 1:
            return None
        return self._make_call("edit_file", {"path": path, "old_text": old, "new_text": new})

    # The matcher first.

    def _match_whole(self, request: Request) -> list[ToolCall]:
        """The calls of a message that the matcher understands for certain, all of it."""
        wishes = self._matcher.understand(request)
        if not wishes or not all(
            match and match.tool in self._offered(request) and _is_near(text, match) and self._is_sure(text, match)
            for text, match in wishes
        ):
            return []
        if len(wishes) == 1 and len(self._split(strip_context(request.messages[-1].text), request)) > 1:
            return []
        calls: list[ToolCall] = []
        for match in (match for _, match in wishes if match):
            made = match.tool, match.arguments
            if match.tool not in _READS or all((call.name, call.arguments) != made for call in calls):
                calls.append(ToolCall(f"intent-{len(request.messages)}-{len(calls)}", *made))
        return calls

    def _is_left_to_matcher(self, text: str, request: Request) -> bool:
        """Whether the matcher answers all of it: a sum that goes on, a plan it has to look up, or one word that it lacks."""
        offered, wishes = self._offered(request), self._matcher.understand(request)
        matches = [match for _, match in wishes if match]
        if len(matches) != len(wishes) or any(match.score < MIN_SCORE for match in matches):
            return False
        only = self._admit(text, request)
        if len(only) == 1 and only[0] in ACTS_ON_ROW and any(match.tool != VERBS[only[0]][0] for match in matches):
            return False  # "scrap the pump task" is no reminder
        is_lacking = len(matches) == 1 and matches[0].missing
        if len(matches) == 1 and (
            matches[0].intent == "sum"
            or (is_lacking and (not only or (only == ("switch",) and matches[0].route != "proposal")))
        ):
            return True
        if len(matches) == 1 and self._matcher.is_shown_first(matches[0]):
            return True  # a rule in other words, which waits for a yes
        return any("_called" in match.said for match in matches) and all(
            match.tool in offered and ("_called" in match.said or _is_near(text, match))
            for text, match in wishes
            if match
        )

    def _is_handed_over(self, request: Request) -> bool:
        """Whether all that the matcher had called has failed to read, so that the model may find another way."""
        turn = split_turns(request.messages)[-1]
        calls, wish = list_calls(turn), strip_context(turn[0].text)
        failed = [
            call.name in _READS and call.id.startswith("intent-") and result.startswith(ERROR_PREFIX)
            for call, result in calls
        ]
        is_known = says("moisture", wish)  # where a model would take the air's
        if not failed or not all(failed) or is_known or not select_verbs(wish, self._offered(request)):
            return False
        self._todo, self._distrusted = [wish], wish
        return True

    def _match(self, wish: str, request: Request) -> ToolCall | str | None:
        """One wish's call, or its answer, where the matcher is sure of it."""
        offered = self._offered(request)
        match = self._matcher.match(wish, offered) if read_form(wish) != "talk" else None
        if match and "read_file" in offered and (file := self._find_list(match)):
            return self._make_call("read_file", {"path": file}, "read_file")
        if match and self._matcher.is_shown_first(match) and match.tool in offered:
            return self._make_call(match.tool, match.arguments)
        if (
            "output" in offered
            and read_form(wish) != "talk"
            and (switched := self._switch(wish))
            and not (match and match.route == "template" and match.tool == "output")
        ):
            is_alike = match and match.route == "proposal" and match.arguments == switched.arguments
            topics = self._matcher.list_topics(wish, _MIN_SHARE)
            is_sure = is_alike or (not is_question(wish) and topics)
            if is_sure and not says("no_act", wish) and topics <= SWITCH_NOW[_is_off(switched)]:
                return self._make_call("output", switched.arguments)
        if match and _is_near(wish, match) and wish != self._distrusted:
            call = self._make_call(match.tool, match.arguments)
            if match.tool == "memory_forget" and (about := str(call.arguments.get("text", ""))):
                call.arguments["text"] = PATTERNS["filler"].sub("", about).strip() or about
            if not self._is_sure(wish, match):
                self._unsure = call
            elif (
                match.intent in _SMALL_TALK or (match.intent == "not_done" and says("no_act", wish))
            ) and not _tells_later(wish):
                asked = next((m.text for m in reversed(request.messages) if m.role == "user"), "")
                return self._matcher.word_answer(match, asked)
            elif match.tool in offered:
                return call
        return self._look_up(wish, request)

    def _find_list(self, match: "IntentMatch") -> str:
        """The file of a list that the matcher would look for in the notes, where there is one of its name."""
        query = _LIST_OF.fullmatch(str(match.arguments.get("query", ""))) if match.tool == "memory_search" else None
        file = self._name_file(query) if query else ""
        return file if query and file != query[0] else ""

    def _is_sure(self, wish: str, match: "IntentMatch") -> bool:
        """Whether a reading of which not all words tell is of a sensor that the wish names, and of nothing noted."""
        if match.route != "frame" or match.tool not in _READS or self._matcher.list_names(wish, "sensor"):
            return not self._find_list(match)
        if self._matcher.list_names(wish, "output"):
            return False  # "lamp on" is about no light sensor
        named = " ".join(_NAMED_THING.findall(wish))
        return match.score >= 1 and not (named and self._is_noted(named))

    def _tell_matched(self, request: Request) -> Iterator[Event]:
        text, is_calling = "", False
        for event in self._matcher.events(request):
            if isinstance(event, Text):
                text += event.text
            elif not isinstance(event, End):
                yield event
                is_calling = is_calling or isinstance(event, ToolCall)
        if is_calling:  # for what was looked up, and what else was ordered
            yield End("tool_calls", Usage())
            return
        turn = split_turns(request.messages)[-1]
        calls = list_calls(turn)
        results = "\n".join(result for _, result in calls)
        yield Text(tell_result(strip_context(turn[0].text), calls[-1][0], text, results))
        yield End("stop", Usage())

    def _fall_back(self, request: Request, error: Exception) -> Iterator[Event]:
        self._matcher.rests = isinstance(error, OverBudget)
        can = self._matcher.answers(request.messages[-1].text)
        yield Notice(f"{error} - answered without a model", failed=not can or isinstance(error, Refused))
        self._asked_model = False
        yield from self._matcher.events(request)

    # Several wishes in one message.

    def _split(self, text: str, request: Request) -> list[str]:
        """The wishes of a message: parted where what stands on both sides has cues, or is understood by itself."""
        parts: list[str] = []
        begin = 0
        if says("corrects", text) or says("framed", text):
            return [text]
        if limit := says("that_limit", text):  # "24 degrees is too much, she says. Are we above that?"
            return [f"{limit['asks'].strip()} {limit['limit']}{limit['rest']}"]
        put = says("put_into", text) if says("writes", text) else None
        if put and says("quantity", put["what"]) and not any(char.isdigit() for char in put["what"]):
            return [f"measure {put['what']}", f"{text[: put.start('what')]}it{text[put.end('what') :]}"]
        said = PATTERNS["sentence"].split(text)
        kept = [one for one in said if not self._is_beside(one, request)]
        text = " ".join(kept if kept and not says("back", " ".join(kept)) else said)
        quoted = [one.span() for one in PATTERNS["quoted"].finditer(text)]
        gaps = list(PATTERNS["split"].finditer(text))
        for gap, following in zip_longest(gaps, gaps[1:]):
            head, tail = text[begin : gap.start()].strip(), PATTERNS["leads"].sub("", text[gap.end() :].strip())
            # "with radish and dill in it and show me the files"
            if following and says("goes_on", text[gap.end() : following.start()].strip()):
                continue
            is_repeated = bool(says("removes", head) and says("removes_it", tail))  # "scrap the task, delete it"
            is_repeated = is_repeated or tail.rstrip(" .!") in head
            is_repeated = is_repeated or bool(says("opens_file", head) and says("writes", tail))
            if is_repeated or (says("monthly", head) and not says("order", tail)):
                continue
            if (
                says("only_if", head)
                or self._goes_back(head, tail)
                or any(first < gap.start() < last for first, last in quoted)
            ):
                continue
            is_ordered = bool(says("order", tail)) and not says("goes_on", tail)
            to_file = says("file", head) and any(says(name, tail) for name in ("to_it", "read_back", "put_on"))
            is_ordered = (is_ordered and bool(self._admit(tail, request) or to_file)) or bool(says("left", tail))
            if (one := says("another", tail)) and (named := says("planned", head)) and says("time", tail):
                order = "" if one.start("one") else "set "
                text = f"{text[: gap.end()]}{order}{tail[: one.start('one')]}a {named['what'].lower()}{tail[one.end('one') :]}"
                tail, is_ordered = text[gap.end() :], True
            goes_on = says("remind_me", text) and says("goes_on_at", tail)
            is_talk = read_form(tail) == "talk"
            is_told = says("no_act", head) and not is_question(tail)  # "he said 'remind me', and it did nothing"
            if (is_ordered or goes_on or is_talk or (not is_told and self._stands_alone(tail, request))) and (
                self._stands_alone(head, request)
                or (says("asks_thing", head) and (is_ordered or self._match(tail, request)))
                or (is_ordered and says("order", head))
                or (read_form(head) == "talk" and (is_ordered or self._switch(tail) or says("afterwards", gap[0])))
            ):
                parts.append(f"{head}?" if "?" in gap[0] else head)
                begin = gap.end()
        parts.append(text[begin:].strip())
        parts[1:] = [PATTERNS["leads"].sub("", part) for part in parts[1:]]
        if len(parts) > 1 and (found := says("remind_me", parts[0])):
            day = found["day"] or ""
            parts[1:] = [f"{found['head']}{day} {part}" if says("goes_on_at", part) else part for part in parts[1:]]
        parts = [part for part in parts if part] or [text]
        return [part for part in parts if not self._is_aside(part, request)] or parts

    def _is_aside(self, part: str, request: Request) -> bool:
        """Whether a part only remarks something, for which a model need not be asked where something is wanted beside it."""
        admitted = self._admit(part, request)
        return read_form(part) == "remark" and not widen_verbs(part, admitted, self._offered(request))

    def _is_beside(self, sentence: str, request: Request) -> bool:
        """Whether a sentence only remarks what no wish beside it needs: no number, no time, nothing quoted."""
        is_needed = any(map(str.isdigit, sentence)) or says("time", sentence) or PATTERNS["quoted"].search(sentence)
        return not is_needed and self._is_aside(sentence, request)

    def _goes_back(self, head: str, tail: str) -> bool:
        """Whether it is one wish: "our cat is called Tom, keep that in mind"."""
        is_told = read_form(head) == "remark" and not is_question(tail)
        return is_told and bool(says("it", tail)) and len(tail.split()) <= _MAX_BACK

    def _stands_alone(self, text: str, request: Request) -> bool:
        if says("goes_on", text) or says("only_time", text) or not _WORD.search(text) or says("says_nothing", text):
            return False
        match = self._matcher.match(text, self._offered(request))
        is_about_note = bool(says("asks_thing", text)) and any(map(self._is_noted, _NAMED_THING.findall(text)))
        is_known = bool(match and match.score >= MIN_SCORE and (match.tool or match.answer))
        if says("what_now", text) or self._plan_rule(text):
            return True
        return is_known or is_about_note or bool(count_cues(text) or self._admit(text, request))

    # A model's verb.

    def _ask(self, request: Request) -> Iterator[Event]:
        """Ask the model about the wish: gives a call, or adds to what is told; the End has what it took."""
        asked = self.build_request(request, self._wish)
        self._asked_model = True
        text, shown, is_cut = "", "", False
        admitted, with_words = self._choose_form(self._wish, request)
        streams = with_words and not (self._told or self._todo)
        for event in self._models.events(asked):
            if isinstance(event, Text):
                text += event.text
                said = read_said(text, is_plain=asked.schema is None) if streams else ""
                if len(said) > len(shown) and not (
                    is_part(said, self._wish) or says("may_refuse", said) or says("blank", said)
                ):
                    yield Text(said[len(shown) :])
                    shown = said
            elif isinstance(event, End | Notice):
                is_cut = isinstance(event, End) and event.finish == "length"
                yield event
        given = parse_answer(text)
        verb = str(given.pop("do", "say"))
        self._is_guess = verb != "say" and with_words and verb not in self._admit(self._wish, request)
        verb, given = self._mend(verb, given, admitted)
        if verb not in admitted:
            said = str(given.get("text", "")).strip() if verb == "say" and with_words else ""
            yield from self._say(said, asked, request, is_cut=is_cut)
            return
        try:
            if verb == "switch":
                to = "" if self._is_guess or read_form(self._wish) == "remark" else str(given.get("to", ""))
                match = self._switch(self._wish) or self._switch(self._wish, to=to)
                match = None if match and self._is_later(self._wish) else match
                match = match or self._find_proposed(request, str(given.get("to", "")))
                yield from [self._make_call(match.tool, match.arguments)] if match else self._give_up(request)
                return
            if verb in TIMED and self._is_planned(self._wish):
                yield from self._give_up(request)
                return
            if self._is_guess and verb not in {*LOOKS_UP, *TIMED, *ACTS_ON_ROW}:  # which have checks of their own
                yield from self._give_up(request)
                return
            moment = self._matcher.read_moment(request.messages) if verb == "now" else ""
            made = moment or make_arguments(verb, given, self._wish)
            if verb in {"measure", "past"} and len(named := self._matcher.list_names(self._wish, "sensor")) == 1:
                made = {"sensor": named[0], **made} if isinstance(made, dict) else made
        except (KeyError, TypeError, ValueError, ZeroDivisionError, SyntaxError):
            yield from self._give_up(request)
            return
        if isinstance(made, str):
            self._known.append(made)
            self._told.append(made)
        elif (fault := self._find_fault(verb, given, made, request)) is None:
            self._named = str(given["words"]) if verb in ACTS_ON_ROW else ""
            self._change_to = make_change(verb, given, self._wish)
            yield self._make_call(VERBS[verb][0], made, verb)
        elif fault:
            self._told.append(fault)
        else:
            yield from self._give_up(request)

    def _find_proposed(self, request: Request, to: str = "") -> "IntentMatch | None":
        """What the matcher only proposes of a wish: with `to`, a switching that a model has understood alike, at a time that is plain."""
        match = self._matcher.match(self._wish, self._offered(request))
        if not match or match.route != "proposal" or not match.arguments or "_called" in match.said:
            return None
        is_off = _is_off(match)
        is_level = str(match.arguments.get("level", "on")).isdecimal() and not says("percent", self._wish)
        is_plain = match.tool == "output" and not is_level and not says("no_order", self._wish)
        is_plain |= (
            match.tool == "cron"
            and bool(says("clock_of_day", self._wish))
            and '"output ' in json.dumps(match.arguments)
        )
        return match if not to or (is_plain and is_off == (to == "off")) else None

    def _mend(self, verb: str, given: dict[str, Any], admitted: Collection[str]) -> tuple[str, dict[str, Any]]:
        """A model's verb and what it was given, where the message says more plainly what is meant."""
        wish, path = self._wish, str(given.get("path", ""))
        if verb == "files" and (file := says("file", wish)) and "read_file" in admitted:
            return "read_file", {"path": file[0]}
        if verb in {"note", "write_file"}:
            given["text"] = _keep_whole(str(given.get("text", "")), says(f"kept_by_{verb}", wish))
        if verb in TIMED:
            given["text"] = _name_task(str(given.get("text", "")), wish)
        if verb in {"remind_in", "remind_every"} and (seconds := self._read_span(wish)):
            return verb, given | {"minutes": seconds / 60}  # no small model is left to add up an hour and a half
        if "at" in given and (clock := self._read_clock(wish)):  # "ten to nine"
            given["at"] = f"{_CLOCK_TIME.sub('', str(given['at'])).strip()} {clock}".strip()
        if verb == "move_reminder" and _is_shift(wish):
            return verb, given | {"at": ""}  # an hour later than what its row says
        if verb == "reword_reminder" and (reworded := says("reworded", wish)):
            return verb, given | {"text": (reworded["new"] or reworded["other"]).strip()}
        is_there = bool(verb == "write_file" and self._workspace and path and (self._workspace / path).is_file())
        if is_there and says("instead_of_all", wish):
            given["mode"] = "replace"
        elif is_there and "add_line" in admitted and not says("new_file", wish):
            verb = "add_line"
        said, heard = (words.lower().split() for words in (str(given.get("text", "")), wish))
        found = says("put_into", wish)
        is_quoted = found and wish[found.start("what") - 1] in "'\"“"
        if verb == "add_line" and (is_quoted or said[:2] == heard[:2]):  # the order, not what it orders
            given["text"] = found["what"] if found else ""
        return verb, given

    def _find_fault(self, verb: str, given: Mapping[str, Any], made: Mapping[str, Any], request: Request) -> str | None:
        """What to tell instead of carrying a verb out, '' for nothing; None where it is carried out, be it with a mark."""
        wish, heard = self._wish, "\n".join([*self._recall(request, self._wish), self._wish])
        seconds, lasts = self._read_span(wish), says("lasts", wish)
        if (
            verb == "remind_in"
            and not seconds
            and self._read_span(f"in {lasts[0]}" if lasts else "") != made["at_seconds"]
        ):
            return ""  # "the 15th" is no quarter of an hour
        if verb == "remind_in" and not seconds and says("lasts_so_long", wish) and not says("wants_reminder", wish):
            return ""  # "make it bright for two hours"
        if verb in TIMED and says("monthly", wish):
            return self._prompts["small_cannot"]
        rest = PATTERNS["span"].sub("", wish) if seconds else wish
        # a number of the order that no argument has, as in "until 6 pm", is not dropped silently
        if _is_made_up(given, heard) or (
            verb in TIMED and find_unfounded_numbers(_DOTTED.sub(":", rest), [json.dumps([given, made])])
        ):
            return ""
        sources = [heard, _DOTTED.sub(":", heard), f"{seconds / 60:g}", self._read_clock(wish)]
        values = find_unfounded_numbers(" ".join(map(str, given.values())), sources)
        if values and verb in TIMED:  # at a time that nobody said
            match = None if self._is_guess else self._matcher.match(wish, self._offered(request))
            return "" if self._is_guess else (match and match.question) or self._prompts["small_cannot"]
        if values and verb in ACTS_ON_ROW and not says("not_old", wish):
            return ""
        if values and verb not in LOOKS_UP:
            self._told.append(fill_template(self._prompts["unfounded"], {"values": ", ".join(values)}, "values"))
        return None

    def _read_span(self, wish: str) -> float:
        """The seconds of "in an hour and a half", or "every two hours", as the matcher reads them; 0 where no span is told."""
        found = says("every_span", wish) or says("span", wish)
        match = self._matcher.match(f"remind me {found[0]} to drink water", {"cron"}) if found else None
        given = match.arguments if match and not match.missing else {}
        return float(given.get("at_seconds") or given.get("every_seconds") or 0)

    def _read_clock(self, wish: str) -> str:
        """The time of day of "ten to nine in the evening", as the matcher reads it; '' where none is told so."""
        found = says("clock_words", wish)
        match = self._matcher.match(f"remind me every day at {found[0]} to drink water", {"cron"}) if found else None
        minute, hour = [*str(match.arguments.get("cron_expr", "") if match else "").split(), "", ""][:2]
        if not (minute.isdecimal() and hour.isdecimal()):
            return ""
        return f"{int(hour) + _NOON * (int(hour) < _NOON and bool(says('late', wish))):02}:{int(minute):02}"

    def _shift(self, row: str) -> str:
        """The new time of a reminder that is put off by a span, "an hour later"; '' where its row tells none."""
        found, at = says("shift", self._wish), _AT.search(row)
        if not found or not at:
            return ""
        seconds = self._read_span(f"in {found['span']}") * (-1 if "earlier" in (found["way"], found["behind"]) else 1)
        return f"{datetime.fromisoformat(at[0]) + timedelta(seconds=seconds):%Y-%m-%d %H:%M}" if seconds else ""

    def _give_up(self, request: Request) -> Iterator[Event]:
        """Do what the matcher was not sure of, where the model has nothing, else say that it cannot be done."""
        if self._unsure:
            self._verb = ""
            yield self._unsure
        elif self._is_guess:  # "bye then, have a nice evening" is no reminder
            self._use_words()
        else:
            match = self._find_proposed(request)
            self._told.append((match and match.question) or self._prompts["small_cannot"])

    def _say(self, said: str, asked: Request, request: Request, *, is_cut: bool) -> Iterator[Event]:
        """Tell a model's words; what only says the message again is asked for once more, but of an order."""
        form = read_form(self._wish)
        if said and is_cut:
            said += f"\n{fill_template(self._prompts['cut'], {'tokens': str(asked.answer_tokens)})}"
        if said and not says("blank", said) and not is_echo(said, self._wish):
            self._told.append(self._check_words(said, asked))
        elif (
            self._unsure
            or self._is_guess
            or (form == "order" and not self._is_talk(self._wish))
            or not self._choose_form(self._wish, asked)[1]
        ):
            yield from self._give_up(request)
        elif not self._words:
            self._words = "any" if asked.schema is None else ""
            self._use_words()
        else:
            self._told.append(self._prompts["small_cannot" if form == "question" else "small_heard"])

    def _check_words(self, said: str, asked: Request) -> str:
        values = find_unfounded_claims(said, asked.messages[-1].text, asked.messages)
        mark = fill_template(self._prompts["unmeasured"], {"values": ", ".join(values)}, "values") if values else ""
        is_done = says("is_done", said) and not is_question(self._wish)
        promise = self._prompts["promised"] if is_done or find_promise(said, asked.messages[-1].text) else ""
        return "\n".join(filter(None, [said, mark, promise]))

    def _take_result(self, request: Request) -> ToolCall | None:
        """Tell what the newest call has brought; gives the call that follows from it, if any."""
        call, result = list_calls(split_turns(request.messages)[-1])[-1]
        result = _TOLD_WHERE.sub("", remove_hints(result))
        good = not result.startswith(ERROR_PREFIX)
        if self._named and good:
            if act := self._act_on_row(call.name, result, request):
                return act
            if self._verb not in self._admit(self._wish, request):  # what was meant is no reminder and no task
                self._use_words()
                return None
        if self._then or self._verb == "notes":
            self._told.extend([remove_empty(_LINE_NUMBER.sub("", result))] if good else [])
            if self._then:
                return self._then.pop(0)
            self._told = list(filter(None, self._told)) or [result]
            return None
        if good and self._verb:
            result = text = _LINE_NUMBER.sub("", result) if call.name == "read_file" else result
        else:
            text = self._matcher.word_result("" if self._verb else self._wish, call, result)
        is_worded = call.name in {"rule", "memory_forget"} or (good and (self._verb or call.name == "output"))
        if is_worded and (phrase := phrase_call(call, self._wish)):
            text = self._matcher.word_result(phrase, call, result)
        if call.name == "output":
            text = _SECONDS.sub(lambda found: format_duration(float(found[1]), exact=True), text)
        if call.name in {"cron", "pulse"}:
            self._left = "what reminders do I have" if call.name == "cron" else "which tasks are open"
        if good:
            self._path = str(call.arguments.get("path", ""))
            self._written = str(call.arguments.get("content") or call.arguments.get("message") or "").strip()
            self._known.append(truncate(result, _MAX_KNOWN))
        if (
            not good
            and self._verb == "past"
            and any(said in result for said in _NO_TIME)
            and call.arguments.get("when") != "today"
        ):
            return self._make_call(call.name, call.arguments | {"when": "today"}, "past")  # "since breakfast"
        is_asked = self._verb in PLACES and not self._change and is_question(self._wish)
        content = list_content(self._wish) if is_asked else ()
        is_found = good and not result.startswith("no ")  # "no note says anything about 'hens'" has them
        place = str(call.arguments.get("path", "")).replace(".", " ") if call.name == "read_file" else ""
        if content and not (is_found and mentions(f"{place} {result}", content)):
            is_named = is_found and not self._places and self._verb in self._admit(self._wish, request)
            self._told.extend([tell_result(self._wish, call, text, result)] if is_named else [])
            return self._look_on(call, text, request)
        if good and call.name == "read_file" and self._change:
            if edit := self._edit_line(self._path, result):
                return edit
            text = f"{self._prompts['small_cannot']}\n{result}"
        self._told.append(tell_result(self._wish, call, text, result if good else ""))
        return None

    def _act_on_row(self, tool: str, result: str, request: Request) -> ToolCall | None:
        """The call for the one reminder, task or note that a model's words name; None where it is not one."""
        words, self._named = set(list_query_terms(self._named)), ""
        if tool == "memory_search":
            shared = {body: len(words & set(list_terms(body))) for body in _NOTED.findall(result)}
            best = [body for body, count in shared.items() if count == max(shared.values()) > 0]
            if len(best) != 1 or not (new := _correct(best[0], self._wish, self._change_to["new"])):
                return None
            return self._make_call("memory_update", {"old": best[0], "new": new}, self._verb)
        found = list(find_rows(result))
        is_any = words <= set(
            list_query_terms(
                "the reminder alarm for tomorrow's today isn't not needed necessary required any more morning evening"
            )
        )
        of_day, now = says("of_day", self._wish), read_clock(request.messages)
        if of_day and now:  # tomorrow's is none of Friday
            days = [f"{now + timedelta(days=count):%Y-%m-%d}" for count in (0, 1)]
            wanted = days["tomorrow" in of_day[0].lower()]
            found = [row for row in found if (_DATED.search(row[1]) or days)[0] == wanted]
        rows = [number for number, text in found if is_any or words & set(list_terms(text))]
        if (
            not rows and self._verb in {"done_task", "drop_task"} and says("it", self._wish)
        ):  # "the pump runs again. Tick it off"
            heard = set(list_terms(strip_context(split_turns(request.messages)[-1][0].text)))
            rows = [number for number, text in found if heard & set(list_terms(_SINCE.sub("", text)))]
        if (
            self._verb == "done_task"
            and says("have_done", self._wish)
            and "done_task" not in self._admit(self._wish, request)
        ):
            told = set(list_terms(self._wish))  # "I have looked at the pump" is not that it was repaired
            rows = [number for number, text in found if told.issuperset(list_terms(_SINCE.sub("", text)))]
        if len(rows) != 1:
            return None
        text, change = dict(found)[rows[0]], self._change_to
        if self._verb == "move_reminder" and _is_shift(self._wish):
            change = {"at": self._shift(text)}
            if not change["at"]:
                return None
        if at := change.get("at"):
            if says("repeats", text) or "cron" in text:
                return None  # it would come once from then on
            day = _DATED.search(text)
            change = {"at": f"{day[0]} {at}"} if day and _ONLY_CLOCK.fullmatch(at) else change
        row = {"job": rows[0]} if tool == "cron" else {"task": str(rows[0])}
        return self._make_call(tool, {"action": ACTS_ON_ROW[self._verb], **row, **change}, self._verb)


def warm_prompt(models: Provider, prompts: Templates, stop: Stop | None = None) -> bool:
    """Have the server read the prompt while nobody waits, so that the first answer is as quick as later ones."""
    ask = (Message("user", "ok"),)
    request = Request(prompts["small"], ask, (), 1, time.monotonic() + _WARM_S, stop=stop, purpose=Purpose("warm"))
    try:
        for _ in models.events(request):
            pass
    except (Unavailable, Refused):
        return False
    return True


def _is_off(match: "IntentMatch") -> bool:
    return bool(_SWITCHES_OFF.search(json.dumps(match.arguments)))


def _tells_later(wish: str) -> bool:
    return bool(says("tells", wish) and says("span", wish))


def _is_shift(wish: str) -> bool:
    found = says("shift", wish)
    return bool(found and (found["way"] or found["behind"]))


def _name_task(text: str, wish: str) -> str:
    """What a reminder is about: a model's words, or the part of the message that tells it where they only say when, or to remind."""
    if list_query_terms(PATTERNS["not_task"].sub(" ", PATTERNS["span"].sub(" ", text))):
        return text
    parts = re.split(r"[,:;.!?]\s+|\s[-–—]\s", PATTERNS["span"].sub("", wish).strip(" .!?"))
    counted = [(len(list_query_terms(PATTERNS["not_task"].sub(" ", part))), part.strip()) for part in parts]
    return max(counted, key=lambda one: one[0])[1] if any(count for count, _ in counted) else text


def _keep_whole(text: str, found: re.Match[str] | None) -> str:
    """What is to be kept: a model's words, or those of the message where they only leave a part of it out."""
    if not found or not text or not set(list_terms(text)) < set(list_terms(found["what"])):
        return text
    whole = found["what"].strip(" .'\"")
    return "\n".join(re.split(r",\s+|\s+and\s+", whole)) if found.groupdict().get("file") else whole


def _correct(note: str, wish: str, new: str) -> str:
    """The note as it is to be: with what a correction names put in the place of what it denies, else a model's words; '' where these keep that."""
    if not (found := says("not_old", wish)):
        subject, pronoun = says("subject", note), says("pronoun", new)  # of "it hangs in the shed now"
        if pronoun:
            new = f"{subject[0]}{new[pronoun.end() :]}" if subject else ""
        before, after = set(list_terms(note)), set(list_terms(new))
        is_less = subject and new.startswith(subject[0]) and len(before - after) > len(after - before)
        if subject and is_less:  # what is longer is kept
            was = re.sub(r"^is\b", "was", re.sub(r"^are\b", "were", note[subject.end() :].strip(" .")))
            return f"{new.rstrip(' .')}; it {was} before"
        return new
    told, denied = (_ORDINAL.sub("", found[name] or found[f"{name}2"]) for name in ("new", "old"))
    old = re.compile(rf"(?<![\w.,:]){re.escape(denied)}(?=(?:st|nd|rd|th)?\b)", re.IGNORECASE)
    if len(old.findall(note)) == 1:
        return old.sub(lambda _: told, note).rstrip(".")
    return "" if old.search(new) else new


def _is_made_up(given: Mapping[str, Any], source: str) -> bool:
    """Whether what is to be kept has no word of the message, or of the result that it goes back to."""
    wanted = set(list_query_terms(str(given.get("text", ""))))
    return bool(wanted) and wanted.isdisjoint(list_terms(source))


def _is_near(wish: str, match: "IntentMatch") -> bool:
    """Whether the matcher may be believed without a model; it knows reminders and notes, and no list of tasks."""
    return (
        match.score >= (MIN_TOPIC_SCORE if match.route == "topic" else MIN_SCORE)
        and not match.missing
        and not (
            (
                match.tool in {"cron", "memory_search", "output"}
                and match.route == "topic"
                and match.intent != "output_list"
            )
            or (match.tool in {"cron", "memory_store", "memory_search", "output"} and says("task", wish))
            or (match.tool not in _OF_FILES and says("file", wish))
            or (match.tool == "write_file" and says("lines", wish))
            or (match.tool == "memory_forget" and "," in str(match.arguments.get("text", "")))  # and a reason
            or (match.tool == "sensor_read" and says("past", wish))
            or (match.tool in {"sensor_read", "sensor_history"} and says("asks_day", wish))
        )
    )


def is_part(said: str, wish: str) -> bool:
    """Whether all that has come in but for the last word stands in the message, so that it may become an echo."""
    heard, words = _list_words(wish), _list_words(said)
    begun = words[:-1]
    if len(words) <= _MIN_ECHO and words[:1] and words[0] in _PROMISE_BEGINS:
        return True
    return any(heard[at : at + len(begun)] == begun for at in range(len(heard))) or _adds_nothing(" ".join(begun), wish)


def is_echo(said: str, wish: str) -> bool:
    """Whether words only say again what was said to the model, which is no answer."""
    if says("say_it", wish) or says("yes_or_no", wish):
        return False
    heard, words = _list_words(wish), _list_words(said)
    is_end = len(words) >= max(_MIN_ECHO, len(heard) / 2) and heard[-len(words) :] == words
    clauses = map(_list_words, re.split(r"[,;.:]\s", wish))
    if len(words) < _MIN_ECHO and read_form(wish) == "talk":  # a mouse rhymes with "mouse"
        return set(words) <= set(heard)
    return is_end or (len(words) >= _MIN_ECHO and (words in clauses or _adds_nothing(said, wish)))


def _list_words(text: str) -> list[str]:
    return re.findall(r"\w+", PATTERNS["i_will"].sub("", text).lower())


def _adds_nothing(said: str, wish: str) -> bool:
    """Whether what is said to a remark, or an order, has only words of it: "you live in Berlin"."""
    return read_form(wish) in {"remark", "order"} and set(list_terms(said)) <= set(list_terms(wish))
