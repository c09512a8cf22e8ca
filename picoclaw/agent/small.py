"""The small profile: what the matcher understands needs no model, and a small one chooses among flat verbs.

One constant prompt, so that a server reads it once; words in the message say which verbs the answer may hold, through a
JSON schema where the server has one. Each verb becomes a call of a real tool, made and guarded as any other.
"""

import json
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any

from picoclaw.agent.verdicts import (
    asks_count,
    count_lines,
    find_rows,
    judge,
    judge_list,
    list_content,
    list_sought,
    mentions,
)
from picoclaw.claims import (
    find_promise,
    find_unfounded_claims,
)
from picoclaw.errors import OverBudget, Refused, Unavailable
from picoclaw.intents.conversation import list_calls, split_turns
from picoclaw.intents.provider import read_clock
from picoclaw.intents.sums import calculate, name_day
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
    strip_context,
)
from picoclaw.prompts import Templates, fill_template
from picoclaw.providers import Provider
from picoclaw.text import list_query_terms, list_terms, pattern, truncate
from picoclaw.times import MONTHS, NUMBERS, WEEKDAYS
from picoclaw.window import remove_hints
from picoclaw.workspace.pages import remove_empty

if TYPE_CHECKING:
    from pathlib import Path

    from picoclaw.intents.grammar import IntentMatch
    from picoclaw.intents.provider import IntentProvider

MIN_SCORE = 0.79
"""From which on the nearest example of the matcher is believed without a model."""

_SMALL_TALK = {"clock", "thanks", "goodbye", "no_thanks"}
_ANSWER_TOKENS = 300
_WARM_S = 600.0
_MAX_KNOWN = 700  # characters of an earlier result, or answer, that a message is read with

_CUES = {
    name: pattern(expression, re.IGNORECASE)
    for name, expression in {
        "measure past sensors": r"\b(?:warm|hot|cold|cool|chill|fr(?:ee|o)z|frost|temp|degrees|humid|damp|moist|dry\b|wet\b|pressure"
        r"|barometer|air\b|sensor|measur|reading|climate|bright|dark\b|light\b|jacket|coat|sticky|stuffy|thermometer|heating"
        r"|yesterday|last (?:night|week)|highest|lowest|average|trend|rising|falling)|°",
        "board": r"\bboard\b|processor|cpu|\bchip\b|memory|\bram\b|disk|card|space|storage|running|uptime|overheat|throttl|computer"
        r"|\b(?:re-?)?boot(?:ed)?\b|\byou (?:been )?up\b",
        "remind_in remind_at remind_daily remind_weekly remind_every reminders cancel_reminder": r"remind|\bping\b|nudge|\bwake\b"
        r"|alarm|timer|alert|let me (?:know|forget)|forget to|tell me (?:in|at|when|to)\b|\bin (?:\w+ ){0,4}(?:minutes?|hours?|days?)\b"
        r"|\bevery\b|\beach (?:\w+ )?(?:minute|hour|day|night|morning|evening|afternoon|noon|week|month|year|\w+day)\b|tomorrow|tonight|planned|schedule|appointment|cancel|\d:\d\d\b|\b(?:at|by|till|until|around) \d\d?\.\d\d\b(?! each)|o'clock|\bnoon\b|supposed to"
        r"|\b(?:see|make sure)(?: to it)?(?: that)? i (?:do|don't|get|take|go)\b",
        "note": r"\bnote\b|\bactually\b|\bnumber (?:for|of)\b|remember|\bkeep\b|write (?:it |this |that )?down|\bjot\b|in mind|memori[sz]e|for later|don't forget that|\bfor (?:the record|(?:future )?ref(?:erence)?)\b|\bfyi\b",
        "find_note": r"\b(?:my|our|we|did i|have i|had i|i said|told you|know about|notes?|remember|where|password|code|key|again)\b"
        r"|\w'?s (?:birthday|b-?day|number|address|name)\b",
        "forget_note": r"forget|delete|remove|erase|\b(?:drop|scrap|bin) (?:all |everything )?(?:the|what|that|my) (?:\w+ )*(?:notes?|you know|i (?:said|told))",
        "files read_file add_line write_file": r"\b[\w-]+\.(?:txt|md|csv|json|log|toml|py)\b|\bfiles?\b|folder|\blists?\b|document",
        "tasks add_task done_task": r"\btasks?\b|to-?dos?\b(?!\.\w)|\btick\b|\bdone\b|finished|still open|left to do|\b(?:do|must) (?:i|we) (?:still )?(?:have|need) to\b"
        r"|\b(?:jobs?|chores?)\b.*\b(?:open|outstanding|left|pending|waiting|to do)\b|\bcross(?:ed)? (?:\w+ ){0,4}?off\b",
        "now": r"\bdate\b|\btime\b|\btoday\b|weekday|what day",
        "sum": r"\d.*(?:[-+*/x×÷%]|times|plus|minus|divided|percent|per cent).*\d|\bhalf of\b"
        r"|\d.*\d.*\bhow many\b|\bhow many\b.*\d.*\d|\d.*\bsquared\b|\bsquare root\b|\b(?:add up|sum of|average of|total of)\b.*\d"
        r"|\d.*\b(?:split|shared?|divided|each|altogether|in total|minus|less|off|left|by)\b.*\d|\b(?:split|share|divide)\b.*\d|\d.*\d.*\beach\b",
    }.items()
}
"""Which words of a message admit which verbs; where none stands in it, the answer is words."""

_VERBS: Mapping[str, tuple[str, str]] = {
    "measure": ("sensor_read", "what"),
    "past": ("sensor_history", "what when"),
    "sensors": ("sensor_list", ""),
    "board": ("board_status", ""),
    "remind_in": ("cron", "minutes text"),
    "remind_at": ("cron", "at text"),
    "remind_daily": ("cron", "at text"),
    "remind_weekly": ("cron", "day at text"),
    "remind_every": ("cron", "minutes text"),
    "reminders": ("cron", ""),
    "cancel_reminder": ("cron", "words"),
    "note": ("memory_store", "text"),
    "find_note": ("memory_search", "words"),
    "forget_note": ("memory_forget", "words"),
    "files": ("list_dir", ""),
    "read_file": ("read_file", "path"),
    "add_line": ("write_file", "path text"),
    "write_file": ("write_file", "path text"),
    "tasks": ("pulse", ""),
    "add_task": ("pulse", "text"),
    "done_task": ("pulse", "words"),
    "now": ("", ""),
    "sum": ("", "expression"),
}
"""The tool of each verb, '' for what needs none, and its arguments."""

_OF_FILES = frozenset({"", "read_file", "write_file", "edit_file", "list_dir", "exec", "cron", "memory_forget"})
_READS = frozenset({"sensor_read", "sensor_history", "read_file", "list_dir", "memory_search"})
_SHOWS = frozenset({"sensor_list", "board_status", "list_dir", "memory_search"})
"""Tools whose call by the matcher does no harm where it was not quite meant."""
_MAX_ORDER = 4  # words
_NOON = 12
_MAX_BESIDE = 2  # words of a line that is taken out, beside those that name it
_WHEN_IS = pattern(r"^\W*(?:when(?:'s| is| are)|what(?:'s| is) the date of)\s+", re.IGNORECASE)
_QUANTITIES = pattern(r"temperature|humidity|pressure|light|moisture|voltage|current|power|distance|co2", re.IGNORECASE)
_QUANTITY_WORDS = {
    "temperature": pattern(r"temperature|\b(?:warm|hot|cold|freez|degrees)|thermometer", re.IGNORECASE),
    "humidity": pattern(r"humid|\b(?:damp|moist|stick|stuff)", re.IGNORECASE),
    "pressure": pattern(r"pressure|baromet", re.IGNORECASE),
    "light": pattern(r"bright|\bdark|\blight\b|\blux\b", re.IGNORECASE),
}
"""By which a message itself says what is to be measured, whatever the model makes of it."""
_SPLIT = pattern(
    r"\s*(?:[,;.!?]\s+(?:and\s+)?(?:then\s+|also\s+)?|,?\s+(?:and|n|plus)\s+(?:then\s+|also\s+)?|,?\s+then\s+)",
    re.IGNORECASE,
)
_LOOKED_UP = pattern(
    r"^(?=\W*(?:what|where|when|since|who|which|how|do|did|have|has|is|are)\b|.*\b(?:when|where|who)\W*$|.*\?\W*$).*"
    r"\b(?:my|our|did i|did we|have i|i said|i told|told you|know about|password|code of|pin of"
    r"|(?:am|are) (?:i|we) supposed|(?:are|have) you (?:been )?(?:running|up)|you (?:were |been )?(?:last )?(?:re-?)?(?:booted|started)"
    r"|(?:processor|cpu|chip) (?:running|hot|busy|warm|cool|load)|(?:your|the) (?:processor|cpu|chip|memory|ram|disk|sd card|storage)|are you (?:running on|using)|(?:do|must) (?:i|we) (?:still )?(?:have|need) to|\w+'?s b(?:irth|-?)day)\b"
    r"|\byou been up\b",
    re.IGNORECASE | re.DOTALL,
)
"""A question about what only the owner's notes, or a tool, can know: no words are admitted before they were looked at."""
_LOOKS_UP = frozenset(
    ["measure", "past", "sensors", "board", "reminders", "find_note", "files", "read_file", "tasks", "now", "sum"]
)
"""Verbs that change nothing: all that such a question admits."""
_PLACES = ("reminders", "tasks", "find_note", "read_file")
"""Verbs of all places where something of the owner's may stand."""
_HAVE_DONE = pattern(
    r"\W*(?:i|we)(?:['’]ve| have) (?!an? |the |to |got |no |my )(?:just |now |finally |already )?\w+ ", re.IGNORECASE
)
_YOURS = pattern(r"\byou(?:r|rs|'re)?\b", re.IGNORECASE)
_JOB = pattern(r"\b(?:jobs?|chores?|tasks?|to-?do)\b", re.IGNORECASE)
_MAX_FILES = 3
_TIME = pattern(
    r"\d[:.]\d\d\b|\b\d+ ?[ap]m\b|o'clock|\b(?:seconds?|minutes?|mins?|hours?|hrs?|days?|weeks?|months?|tomorrow|tonight|noon|midnight|every|each|daily"
    r"|weekly|hourly|morning|afternoon|evening|quarter|half)\b|\b(?:mon|tues|wednes|thurs|fri|satur|sun)days?\b|\d(?:st|nd|rd|th)\b"
    rf"|\b(?:at|by|till|until|around|before|after) (?:\d|{'|'.join(NUMBERS)})|\b(?:{'|'.join(MONTHS)})\b",
    re.IGNORECASE,
)
"""A time, without which nothing is a reminder."""
_TO_ME = pattern(r"(?:[,.;:!-]\s*|\b(?:and|then)\s+)(?:please |just )?\w+ me\b", re.IGNORECASE)
_WANTS_REMINDER = pattern(
    rf"{_TO_ME.pattern}|remind|\bw[ao]ken?\b|alarm|timer|forget|make sure|see to it"
    r"|\b(?:i|we)(?:['’]ve| have)? (?:got to|to|need|must|should|ought|want|wish)\b|\b(?:i|we)(?:['’]d| would) like\b",
    re.IGNORECASE,
)
"""What makes of "it starts at nine tomorrow" more than a remark."""
_WORKING_DAYS = pattern(
    r"\b(?:weekdays?|working days?|mon(?:day)?s? (?:to|till|through|-) fri(?:day)?s?)\b", re.IGNORECASE
)
_REPEATS = pattern(
    rf"{_WORKING_DAYS.pattern}|"
    r"\b(?:every|each|daily|weekly|hourly|again and again|once an? (?:hour|day|week)|(?:mon|tues|wednes|thurs|fri|satur|sun|week)days"
    r"|weekends|mornings|evenings|nights)\b",
    re.IGNORECASE,
)
_PAST = pattern(
    r"\b(?:has|have|had|did|was|were|(?<=it)['’]?s)\b.*\b(?:been|since|last|past|yesterday|earlier|these|lately|overnight|so far)\b"
    r"|\b(?:over|in|during|for) the (?:last|past)\b",
    re.IGNORECASE,
)
"""What was, of which a reading of now is no answer."""
_TREND = pattern(r"\b(?:warming|cooling|rising|falling|dropping|climbing|trend|going (?:up|down))\b", re.IGNORECASE)
_WHEN = pattern(
    r"\bsince (?:yesterday|last|this)(?: (?:morning|noon|afternoon|evening|night|week))?\b|\bsince (?:mon|tues|wednes|thurs|fri|satur|sun)day\b"
    r"|\b(?:these )?(?:last|past) (?:(?:few|\d+|two|three|four|five|six|seven) )?(?:hours?|days?|weeks?)\b"
    r"|\blast night\b|\byesterday(?: (?:morning|afternoon|evening))?\b|\bthis (?:morning|afternoon|evening|week)\b",
    re.IGNORECASE,
)
"""The time of a question about the past, in its own words."""
_PROCESSOR = pattern(r"\b(?:processor|chip)\b", re.IGNORECASE)
_ORDERS = pattern(
    r"(?:please |also |then )?(?:add|put|write|note|remind|set|tell|show|read|save|remember|tick|mark|cancel|delete|remove|take|cross"
    r"|list|give|say|check|measure|wake|make|create|append|jot)\b(?:\W+\w+){2}",
    re.IGNORECASE,
)
_TO_IT = pattern(r"\b(?P<how>to|on|onto|in|into|from|off) (?:it|there|that (?:list|file))\b", re.IGNORECASE)
_WRITES = pattern(r"\W*(?:please )?(?:write|save|log|put|note|record|store|append|add|enter|jot)\b", re.IGNORECASE)
_LEFT = pattern(
    r"^(?:show|tell|list|read|give|what|which|and)\b.*\b(?:left|remain\w*|the rest|still open)\W*$", re.IGNORECASE
)
_ANOTHER = pattern(r"\b(?:set|make|add|put|create) (?P<one>one|another|a new one)\b", re.IGNORECASE)
_PLANNED = pattern(r"\b(?P<what>reminder|alarm|timer|task|note)s?\b", re.IGNORECASE)
_BACK_TO_HEAD = pattern(r"\b(?:it|that|this|them|those)\b", re.IGNORECASE)
_MAX_BACK = 6  # words
_PUT_ON = pattern(r"(?:please )?(?:put|add|stick|pop) .+ (?:on|in)\W*$", re.IGNORECASE)
_THE_SAME = pattern(r"\bthe same(?: thing)?\b", re.IGNORECASE)
_READ_BACK = pattern(
    r"^(?:please )?(?:read|show|give|tell)(?: me)? (?:it|them|that|the (?:whole |full |new )?(?:thing|lot|list|file))(?: all)?(?: back| out)?(?: to me| again)*\W*$",
    re.IGNORECASE,
)
_TO_MY_TASKS = pattern(
    r"^(?:please )?(?:add|put|pop|stick) (?:a task(?: to)?:? )?(?P<text>.+?)(?: (?:to|on|onto) (?:my|the|our) (?:tasks?|to-?dos?|task list|to-?do list|list of tasks))$",
    re.IGNORECASE,
)
_MONTHLY = pattern(
    r"\b(?:on )?(?:the )?(?:(?P<day>\d{1,2})(?:st|nd|rd|th)?|first)(?: day)? (?:of|in) (?:each|every|the) month\b"
    r"|\b(?:each|every) month on the (?:(?P<other>\d{1,2})(?:st|nd|rd|th)?|first)\b",
    re.IGNORECASE,
)
_WHAT_OF = pattern(r"\b(?:of|about|to) (?!be\b).*", re.IGNORECASE)
_DAYS = 31
_FORGET_ABOUT = pattern(
    r"\b(?<!n't )(?<!not )(?<!never )(?:forget|drop|scrap|delete|erase) (?:all |everything )?(?:that |what )?(?:you (?:know|have|noted|remember)|i (?:said|told you)) "
    r"(?:about|on|of) (?:the |my |our )?(?P<what>\w+(?: \w+)?)(?=\W*$|[,.;!])",
    re.IGNORECASE,
)
_WOULD_YOU_MIND = pattern(r"^\W*(?:would|do|could) you mind (?P<verb>[a-z]+?)(?P<last>[a-z])ing\b", re.IGNORECASE)
_BY_THE_WAY = pattern(r"(?:[,\s]+(?:for me|please|pls|thanks|ta|love|dear|mate|darling|pal|buddy))+\W*$", re.IGNORECASE)
_SILENT_E = frozenset(["giv", "mak", "clos", "writ", "not", "remov", "chang", "measur", "tak", "sav", "delet"])
_IN_FILE = pattern(r"\b(?:the|that|this) (?:file|list)\b", re.IGNORECASE)
_NAMED_LIST = pattern(r"\b(?:the|my|our) (?P<name>[\w-]+) (?P<kind>list|file)\b", re.IGNORECASE)
_LIST_OF = pattern(r"(?P<name>[\w-]+) list", re.IGNORECASE)
_TIMED = frozenset(["remind_in", "remind_at", "remind_daily", "remind_weekly", "remind_every"])
_MIN_ECHO = 3  # words
_FILLERS = pattern(
    r"^(?:(?:the|that|my|note|notes|about|of)\b\s*)+|\s+(?:things?|stuff|notes?|bit|one)$", re.IGNORECASE
)
"""What "forget the ferns thing" has beside what a note says."""
_SPAN = pattern(
    r"\bin (?:about )?(?:an?|half|\d+(?:[.,]\d+)?|one|two|three|four|five|six|ten|fifteen|twenty|thirty|forty|sixty|ninety)\b"
    r"(?: (?:and|an?|half|quarters?|of|\d+|five|ten|fifteen|twenty|thirty))*(?: (?:minutes?|mins?|hours?|hrs?|h|days?)\b)+"
    r"(?: and (?:an? )?(?:half|quarter|\d+ (?:minutes?|mins?)))?",
    re.IGNORECASE,
)
_IS_DONE = pattern(
    r"\b(?:has|have) (?:now )?been (?:successfully )?(?:crossed|ticked|added|removed|deleted|noted|saved|set|scheduled|cancell?ed|marked|switched"
    r"|turned|updated|written|stored)\b",
    re.IGNORECASE,
)
"""How words say that an order was carried out, for which no call was made."""
_I_WILL = pattern(
    r"^\W*(?:(?:ok|okay|sure|yes|of course|certainly)\W+)?i(?:['’]ll| will| am going to|['’]ve| have) (?:now )?",
    re.IGNORECASE,
)
_PROMISE_BEGINS = frozenset(["i", "ok", "okay", "sure", "yes", "of", "certainly"])
_YES_OR_NO = pattern(
    r"\W*(?:(?:and|so|but) )?(?:is|are|was|were|do|does|did|has|have|can)\b(?! (?:you|i|we)\b)", re.IGNORECASE
)
"""A question whose answer may well be in its own words: "bees can see colours"."""
_REMARK = pattern(
    r"\W*(?:i|i['’]?m|i['’]ve|my|me|our|we|we['’]re|it|it['’]s|that|that['’]s|this|these|those|you|you['’]re|your|he|she|they|there|the|a|an|oh|ah|phew|ugh|wow"
    r"|well|haha|lol|hm+|sorry|thanks?|ta|what an?|such|so|no|yes|ok|okay|talking|good)\b",
    re.IGNORECASE,
)
"""How a sentence begins that orders nothing."""
_SAY_IT = pattern(r"\b(?:say|repeat|spell|write|translate)\b", re.IGNORECASE)
_IS_LATE = pattern(r"\b(?:evening|afternoon|tonight|night|pm)\b", re.IGNORECASE)
_QUESTION = pattern(r"(?:who|what|why|how|when|where|which)(?:\W+\w+){2}", re.IGNORECASE)
_SAID = pattern(r'\s*\{\s*"do"\s*:\s*"say"\s*,\s*"text"\s*:\s*"')
_LETTERS_SO_FAR = pattern(r'(?:[^"\\]|\\(?:u[0-9a-fA-F]{4}|[^u]))*')
_BLANK = pattern(r"\[(?:insert|your|current)\b[^\]]*\]", re.IGNORECASE)
"""What a model writes where it knows nothing: [insert the date here]."""
_FILE_NAME = r"\b[\w-]+\.(?:txt|md|csv|json|log|toml|py)\b"
_FILE = pattern(_FILE_NAME, re.IGNORECASE)
_THING = r"(?:the |my |our |a |an |some |any )?['\"]?(?P<what>[^'\",;]+?)['\"]?"
_IN_NAMED_FILE = rf"(?:the |my |our )?(?P<file>{_FILE_NAME})"
_TAKE_OFF = pattern(
    rf"\b(?:take|remove|cross|strike|scratch|delete|drop|erase|clear|get)\s+(?:off |out )?{_THING}\s+"
    rf"(?:off|out|from|on|in)\s+(?:of |from |in |on )?{_IN_NAMED_FILE}",
    re.IGNORECASE,
)
_NEW_FILE = pattern(r"\b(?:new|create|make|start|begin|overwrite|replace|instead)\b", re.IGNORECASE)
_PUT_INTO = pattern(
    rf"^\W*(?:(?:please|can you|could you|also|then) )*(?:[a-z]+) {_THING}\s+(?:on|onto|to|in|into|at the (?:end|bottom|top) of)\s+"
    rf"(?:my |the |our )?(?:file |list )?{_FILE_NAME}",
    re.IGNORECASE,
)
_CHANGE = pattern(
    rf"\b(?:change|replace|swap|correct|turn)\s+{_THING}\s+(?:to|with|by|into|for)\s+['\"]?(?P<new>[^'\",;]+?)['\"]?\s+"
    rf"(?:in|on)\s+{_IN_NAMED_FILE}",
    re.IGNORECASE,
)
_READS_OUT = pattern(r"\b(?:read|show|open|print|display|what's in|what is in)\b", re.IGNORECASE)
_ALL_NOTES = pattern(
    r"^\W*(?:(?:please|can you|could you|read|show|tell|give|list|me|out|us) )*(?:all|every|everything|each)\b(?: (?:of|the|my|our|your))*"
    r" (?:notes?\b|(?:that )?(?:you(?:'ve| have)? (?:noted|remember(?:ed)?|kept|know about me)|i(?:'ve| have)? (?:told you|asked you)))"
    r"|^\W*(?:(?:please|can you|read|show|list|me) )*(?:my|our|your) notes\W*$"
    r"|^\W*what (?:have i|did i) (?:asked?|tell|told) you(?: to (?:remember|keep|note))?(?: so far)?\W*$"
    r"|^\W*what (?:have you|did you|do you) (?:noted?|remember|kept|know about me)(?: so far)?\W*$",
    re.IGNORECASE,
)
_ASKS = pattern(
    r"(?:.*[,.;:] )?\W*(?:(?:and|so|hey|please) )*(?:on |in |at |to |for |since )?(?:what|where|when|who|whose|which|why|how|do|does|did|is|are|was|has|have)\b"
    r"|.*\b(?:when|where|who)\W*$",
    re.IGNORECASE,
)
_NAMED_THING = pattern(
    r"(?<=^[Dd]o )\w+|(?<=^[Dd]oes )\w+|(?<=^[Cc]an )\w+|(?<=^[Aa]re )\w+|(?<=\bthe )[a-z]\w+|(?<=\bthat )[a-z]\w+|\b[a-z]+(?=s b(?:irth|-?)day\b)|(?<=\bmy )\w+|(?<=\bour )\w+|(?<=[a-z,] )(?!I\b)[A-Z]\w+|\b(?!(?:who|what|where|when|how|it|that|there|here)\b)\w+(?='s (?!the\b|a\b|it\b|up\b|in\b|my\b|on\b))"
)
"""What a question names as known: "the ferns", "my boiler", "Anna"."""
_FINDS_NOTE = frozenset({"find_note", "measure", "past", "sensors", "now"})
"""Verbs that may be admitted by chance where a question is about a note: "which plant likes light"."""
_TASKS = pattern(r"\b(?:tasks?|to-?dos?)\b(?!\.\w)", re.IGNORECASE)
_BARE = frozenset(
    re.findall(
        r"\w+",
        "remind me it that this keep please note down write off also too for later know let in mind to you can could tell wake correct fix change",
    )
)
"""Words of which a part of a sentence says nothing by itself: "..., remind me"."""
_REMIND_ME = pattern(
    r"^(?P<head>(?:please )?remind me)\b(?P<day> (?:tomorrow|today|on (?:mon|tues|wednes|thurs|fri|satur|sun)day))?",
    re.IGNORECASE,
)
_GOES_ON_AT = pattern(r"^(?:in|at) \S+ (?:\w+ )?(?:to|of|about|that)\b|^(?:in|at) \d", re.IGNORECASE)
_GOES_ON = pattern(
    r"(?:it|that|this|they|those)(?:'s| is| are)\b|(?:see|make sure)(?: to it)?(?: that)? i\b", re.IGNORECASE
)
_BACK = pattern(
    r"\b(?:it|its|that|this|them|there|again|same|then|he|she|his|her|one|total|result|sum)\b|^(?:and|or|no|yes)\b",
    re.IGNORECASE,
)
_SINCE = pattern(r" \(since [^)]*\)$")
_DOTTED = pattern(r"(?<=\b\d)\.(?=\d\d\b)|(?<=\b\d\d)\.(?=\d\d\b)")
_NO_TIME = "is not a time picoclaw knows"
_LINE_NUMBER = pattern(r"^\d+\| ", re.MULTILINE)
_CLOCK = pattern(r"(\d\d?)(?:[:.](\d\d))?\s*(am|pm)?", re.IGNORECASE)
_NUMBER = pattern(r"-?\d+(?:[.,]\d+)?")
_DIGITS = pattern(r"[:-](?=\d)")
_LETTERS = pattern(r"[a-z]+")
_WORD = pattern(r"(?!and\b)[^\W\d_]{3,}", re.IGNORECASE)
_WORDS: dict[str, float] = {word: float(at) for at, word in enumerate(NUMBERS) if at} | {
    "a": 1,
    "half": 30,
    "quarter": 15,
    "quarters": 15,
    "fifteen": 15,
    "twenty": 20,
    "thirty": 30,
    "forty": 40,
    "fifty": 50,
    "sixty": 60,
    "ninety": 90,
    "hour": 60,
    "hours": 60,
    "noon": 12,
    "midnight": 0,
    "dozen": 12,
}


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
        self._is_noted = is_noted
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
        self._then: list[ToolCall] = []
        self._unsure: ToolCall | None = None
        self._places: list[ToolCall] | None = None
        self._only_words = self._is_guess = self._asked_model = False

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
            text = _NAMED_LIST.sub(self._name_file, order_plainly(said))
            is_own = self._is_worked_out(text, request)
            if text == said and not is_own and (calls := self._match_whole(request)):
                yield from calls
                yield End("tool_calls", Usage())
                return
            if text == said and not is_own and self._is_left_to_matcher(said, request):
                yield from self._matcher.events(request)
                return
            self._todo = self._split(text, request)
        elif newest.role == "tool":
            if newest.call_id != self._open:  # the matcher's, or one that the owner has said yes to meanwhile
                self._begin()
            if not self._wish and not self._is_handed_over(request):
                yield from self._tell_matched(request)
                return
            call = self._take_result(request) if self._wish else None
            if call:
                self._open = call.id
                yield call
                yield End("tool_calls", Usage())
                return
        while self._todo:
            wish, now = _IN_FILE.sub(self._path or r"\g<0>", self._todo.pop(0)), read_clock(request.messages)
            if self._path and not _FILE.search(wish):
                wish = _READ_BACK.sub(f"read {self._path}", wish)
                wish = f"{wish.rstrip(' .!')} it" if _PUT_ON.match(wish) else wish
                wish = _TO_IT.sub(rf"\g<how> {self._path}", wish)
            if self._left and _LEFT.search(wish):
                wish = self._left
            if self._written:
                wish = _THE_SAME.sub(lambda _: f"'{self._written}'", wish)
            if now and self._known and (named := name_day(wish, self._known[-1], now)):
                wish = (
                    named
                    if re.search(r"\b(?:to|of|about|that)\b", named)
                    else f"{named.rstrip(' .!?')} of {_WHEN_IS.sub('', self._wish).rstrip(' .!?')}"
                )
            if wish != self._wish:
                self._places, self._only_words = None, False
            self._wish, self._unsure, call = wish, None, None
            match found := None if self._only_words else self._work_out(wish, request) or self._match(wish, request):
                case ToolCall():
                    self._verb, call = self._verb if found.id.startswith("own-") else "", found
                case str():
                    self._told.append(found)
            if found is None and not self._admit(self._wish, request):
                found = call = self._match_looking(self._wish, request)
            if (
                found is None
                and self._matcher.list_names(self._wish, "output")
                and not self._admit(self._wish, request)
            ):
                self._told.append(self._prompts["small_cannot"])  # no verb switches, and talk would seem to
            elif found is None:
                try:
                    for event in self._ask(request):
                        if isinstance(event, Text):
                            shown += event.text
                            yield event
                        elif isinstance(event, End):
                            usage += event.usage
                        elif isinstance(event, ToolCall):
                            call = event
                        else:
                            yield event
                except (Unavailable, Refused) as error:
                    if self._told:
                        self._told.append(str(error))
                        continue
                    yield from self._fall_back(request, error)
                    return
            if call:
                self._open = call.id
                yield call
                yield End("tool_calls", usage)
                return
        told = "\n".join(dict.fromkeys(self._told)) or self._prompts["empty"]
        yield Text(told.removeprefix(shown.strip()))
        yield End("stop", usage)

    def build_request(self, request: Request, wish: str = "") -> Request:
        """What a model is sent for one wish: the constant prompt, and the message with what it goes back to."""
        wish = wish or strip_context(request.messages[-1].text)
        verbs, with_words = self._choose_form(wish, request)
        return request._replace(
            system=self._prompts["small"],
            messages=(Message("user", "\n".join([*self._recall(request, wish), wish])),),
            tools=(),
            answer_tokens=min(request.answer_tokens, _ANSWER_TOKENS),
            calls=True,
            schema=build_schema(verbs, with_words=with_words),
        )

    def _admit(self, wish: str, request: Request) -> tuple[str, ...]:
        """The verbs that the words of a wish name: of a question about the owner's own things, those that look up."""
        verbs = select_verbs(wish, self._offered(request))
        if self._unsure:  # of a sensor, or of a note
            verbs = tuple(verb for verb in verbs if verb in _FINDS_NOTE)
        return tuple(verb for verb in verbs if verb in _LOOKS_UP) if is_looked_up(wish, verbs) else verbs

    def _choose_form(self, wish: str, request: Request) -> tuple[tuple[str, ...], bool]:
        """The verbs that a model may choose among for a wish, and whether it may answer in words."""
        verbs = self._admit(wish, request)
        if self._only_words:
            return (), True
        with_words = not (is_looked_up(wish, verbs) or (self._known and _PAST.search(wish)))
        return widen_verbs(wish, verbs, self._offered(request)), with_words

    def _name_file(self, named: re.Match[str]) -> str:
        """The file of a list that is called by its name, else the words as they are."""
        if self._workspace and (named.groupdict().get("kind") == "file" or not _TASKS.search(named[0])):
            for file in (f"{named['name'].lower()}{suffix}" for suffix in (".txt", ".md")):
                if (self._workspace / file).is_file():
                    return file
        return named[0]

    def _offered(self, request: Request) -> Collection[str]:
        offered = {tool["name"] for tool in request.tools if request.calls}
        return offered | self._matcher.unlisted

    def _recall(self, request: Request, wish: str) -> list[str]:
        """What "it" may mean: the results of this turn, else what was said before."""
        if not (_BACK.search(wish) or (self._known and _FILE.search(wish))):
            return []
        known = self._known[-1:]
        turns = split_turns(request.messages)[-2:-1] if not known else []
        known += [
            truncate(text, _MAX_KNOWN)
            for turn in turns
            for text in [result for _, result in list_calls(turn)][-1:] or [turn[-1].text]
        ]
        return [f"Known: {text}" for text in known if not text.startswith(ERROR_PREFIX)]

    # What needs neither matcher nor model.

    def _work_out(self, wish: str, request: Request) -> ToolCall | str | None:
        """The answer of a wish that arithmetic answers, or the call of one that is about a file's lines, or all notes."""
        now, offered = read_clock(request.messages), self._offered(request)
        if told := self._matcher.work_out(wish, now):
            self._known.append(told)
            return told
        change = _TAKE_OFF.search(wish) or _CHANGE.search(wish)
        file = _FILE.search(wish)
        if file and {"read_file", "edit_file"}.issubset(offered) and (change or is_about_lines(wish)):
            self._change, self._verb = change, "read_file"
            return self._make_call("read_file", {"path": file[0]}, request)
        if "memory_forget" in offered and (dropped := _FORGET_ABOUT.search(wish)):
            self._verb = "forget_note"
            return self._make_call("memory_forget", {"text": dropped["what"]}, request)
        if "cron" in offered and (arguments := self._plan_monthly(wish)):
            self._verb = ""
            return self._make_call("cron", arguments, request)
        if now and "memory_get" in offered and _ALL_NOTES.search(wish):
            self._verb = "notes"
            self._then = [self._make_call("memory_get", {"path": f"memory/{now:%Y%m/%Y%m%d}.md"}, request)]
            return self._make_call("memory_get", {"path": "memory/MEMORY.md"}, request)
        return None

    def _is_worked_out(self, wish: str, request: Request) -> bool:
        """Whether a message is answered without the matcher's templates and the model."""
        expressions = (_TAKE_OFF, _CHANGE, _MONTHLY, _FORGET_ABOUT, _ALL_NOTES)
        return bool(
            any(expression.search(wish) for expression in expressions)
            or is_about_lines(wish)
            or self._matcher.work_out(wish, read_clock(request.messages))
        )

    def _make_call(self, tool: str, arguments: dict[str, Any], request: Request) -> ToolCall:
        return ToolCall(f"own-{len(request.messages)}-{len(self._then)}", tool, arguments)

    def _plan_monthly(self, wish: str) -> dict[str, Any]:
        """The job of "remind me on the 1st of every month to …", at nine where no hour is told; {} for other wishes."""
        found = _MONTHLY.search(wish)
        if not found or not 1 <= (day := int(found["day"] or found["other"] or 1)) <= _DAYS:
            return {}
        rest = f"{wish[: found.start()]}{{}}{wish[found.end() :]}"
        what = _WHAT_OF.search(rest)
        forms = [rest, f"remind me {{}} {what[0]}"] if what else [rest]
        for form, daily in product(forms, ("every day", "every day at 9:00")):
            match = self._matcher.match(form.replace("{}", daily), {"cron"})
            clock = str(match.arguments.get("cron_expr", "")) if match and not match.missing else ""
            if match and clock.endswith(" * * *"):
                return {**match.arguments, "cron_expr": f"{clock.removesuffix(' * * *')} {day} * *"}
        return {}

    def _look_up(self, wish: str, request: Request) -> ToolCall | None:
        """Search the notes for what a question is about, where they say something about it."""
        if (
            "memory_search" in self._offered(request)
            and _ASKS.match(wish)
            and _FINDS_NOTE.issuperset(self._admit(wish, request))
            and (named := _NAMED_THING.findall(wish))
        ):
            # "the sun" of "do the ferns like the sun" need not stand in the note
            one_by_one = () if self._admit(wish, request) else tuple(filter(self._is_noted, named))
            query = " ".join(named) if self._is_noted(" ".join(named)) else " ".join(one_by_one)
            if query:
                self._verb = "find_note"
                return self._make_call("memory_search", {"query": query}, request)
        return None

    def _look_on(self, call: ToolCall, text: str, request: Request) -> ToolCall | None:
        """The next place where what a question names may stand, after one that did not have it."""
        if self._places is None:
            files = sorted(self._workspace.glob("*.*")) if self._workspace else []
            own = [file.name for file in files if file.suffix in {".txt", ".md"} and not file.stem.isupper()]
            content = list_content(self._wish)
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
                ToolCall(f"own-{len(request.messages)}-{number}", tool, arguments)
                for number, (tool, arguments) in enumerate(places)
                if tool in self._offered(request)
                and (tool != call.name or (tool == "read_file" and arguments["path"] != call.arguments.get("path")))
            ]
        if self._places:
            further = self._places.pop(0)
            self._verb = next(verb for verb in _PLACES if _VERBS[verb][0] == further.name)
            return further
        if not self._told and self._choose_form(self._wish, request)[1]:
            self._use_words()
        elif not self._told:
            self._told.append(self._unfound)
        return None

    def _use_words(self) -> None:
        """Have the model answer the wish once more, in words."""
        self._only_words = True
        self._todo.insert(0, self._wish)

    def _edit_line(self, path: str, text: str, request: Request) -> ToolCall | None:
        """The edit that takes a line out of a file, or changes it; None where it is not plain which is meant."""
        change, self._change = self._change, None
        if not change:
            return None
        lines, wanted = text.rstrip("\n").split("\n"), set(list_terms(change["what"]))
        if _BACK_TO_HEAD.fullmatch(change["what"]):  # "I have got the milk, take it off shopping.txt"
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
        return self._make_call("edit_file", {"path": path, "old_text": old, "new_text": new}, request)

    # The matcher first.

    def _match_whole(self, request: Request) -> list[ToolCall]:
        """The calls of a message that the matcher understands for certain, all of it."""
        wishes = self._matcher.understand(request)
        if not wishes or not all(
            match and match.tool in self._offered(request) and _is_near(text, match) and self._is_sure(text, match)
            for text, match in wishes
        ):
            return []
        if len(wishes) == 1 and len(self._split(wishes[0][0].strip(), request)) > 1:
            return []
        matches = [match for _, match in wishes if match]
        once = [
            match
            for at, match in enumerate(matches)
            if match.tool not in _READS
            or all((match.tool, match.arguments) != (m.tool, m.arguments) for m in matches[:at])
        ]
        return [
            ToolCall(f"intent-{len(request.messages)}-{number}", match.tool, match.arguments)
            for number, match in enumerate(once)
        ]

    def _is_left_to_matcher(self, text: str, request: Request) -> bool:
        """Whether the matcher answers all of it: a sum that goes on, a plan it has to look up, or one word that it lacks."""
        offered, wishes = self._offered(request), self._matcher.understand(request)
        matches = [match for _, match in wishes if match]
        if len(matches) != len(wishes) or any(match.score < MIN_SCORE for match in matches):
            return False
        if len(matches) == 1 and (
            matches[0].intent == "sum" or (matches[0].missing and not self._admit(text, request))
        ):
            return True
        return (
            any("_called" in match.said for match in matches)
            and all(match.tool in offered for match in matches)
            and all(not match.missing or "_called" in match.said for match in matches)
        )

    def _is_handed_over(self, request: Request) -> bool:
        """Whether all that the matcher had called has failed to read, so that the model may find another way."""
        turn = split_turns(request.messages)[-1]
        calls, wish = list_calls(turn), strip_context(turn[0].text)
        failed = [
            call.name in _READS and call.id.startswith("intent-") and result.startswith(ERROR_PREFIX)
            for call, result in calls
        ]
        if not failed or not all(failed) or not select_verbs(wish, self._offered(request)):
            return False
        self._todo, self._distrusted = [wish], wish
        return True

    def _match(self, wish: str, request: Request) -> ToolCall | str | None:
        """One wish's call, or its answer, where the matcher is sure of it."""
        match, offered = self._matcher.match(wish, self._offered(request)), self._offered(request)
        if match and "read_file" in offered and (file := self._find_list(match)):
            self._verb = "read_file"
            return self._make_call("read_file", {"path": file}, request)
        if not match or not _is_near(wish, match) or wish == self._distrusted:
            return self._look_up(wish, request)
        if not self._is_sure(wish, match):
            self._unsure = ToolCall(f"small-{len(request.messages)}", match.tool, match.arguments)
            return self._look_up(wish, request)
        if match.intent in _SMALL_TALK:
            asked = next((m.text for m in reversed(request.messages) if m.role == "user"), "")
            return self._matcher.word_answer(match, asked)
        if match.tool in offered:
            return ToolCall(f"small-{len(request.messages)}", match.tool, match.arguments)
        return self._look_up(wish, request)

    def _match_looking(self, wish: str, request: Request) -> ToolCall | None:
        """What the matcher alone would do for a wish that no verb fits: look something up, or switch what a part orders."""
        match, offered = self._matcher.match(wish, self._offered(request)), self._offered(request)
        outputs = self._matcher.list_names(wish, "output")
        is_list = match and match.tool in {"cron", "pulse"} and match.arguments.get("action") == "list"
        if outputs and not (match and match.tool):
            parts = [
                part for part in re.split(r"\s*[,;.!?]\s+|\s+-\s+", wish) if self._matcher.list_names(part, "output")
            ]
            match = self._matcher.match(parts[0], offered) if len(parts) == 1 else None
            if not match or match.tool != "output" or match.score < 1 or len(parts[0].split()) > _MAX_ORDER:
                match = None
        elif not (match and not outputs and wish != self._distrusted and (is_list or match.tool in _SHOWS)):
            match = None
        if not match or match.missing or match.tool not in offered:
            return None
        self._verb = ""
        return ToolCall(f"small-{len(request.messages)}", match.tool, match.arguments)

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
        asked = next((m.text for m in reversed(request.messages) if m.role == "user"), "")
        results = [result for _, result in list_calls(split_turns(request.messages)[-1])]
        calls = [call for call, _ in list_calls(split_turns(request.messages)[-1])]
        yield Text(tell_result(strip_context(asked), calls[-1], text, "\n".join(results)))
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
        put = _PUT_INTO.match(text) if _WRITES.match(text) else None
        if put and _QUANTITIES.search(put["what"]) and not any(char.isdigit() for char in put["what"]):
            return [f"measure {put['what']}", f"{text[: put.start('what')]}it{text[put.end('what') :]}"]
        for gap in _SPLIT.finditer(text):
            head, tail = text[begin : gap.start()].strip(), text[gap.end() :].strip()
            ordered = bool(_ORDERS.match(tail)) and (
                bool(_count_cues(tail))
                or bool(_FILE.search(head) and (_TO_IT.search(tail) or _READ_BACK.match(tail) or _PUT_ON.match(tail)))
            )
            ordered = ordered and not _GOES_ON.match(tail)
            if self._goes_back(head, tail):
                continue
            ordered = ordered or bool(_LEFT.match(tail))
            if (one := _ANOTHER.search(tail)) and (named := _PLANNED.search(head)) and _TIME.search(tail):
                text = f"{text[: gap.end()]}{tail[: one.start('one')]}a {named['what'].lower()}{tail[one.end('one') :]}"
                tail, ordered = text[gap.end() :], True
            goes_on = (
                ordered or (_REMIND_ME.match(text) and _GOES_ON_AT.match(tail)) or self._stands_alone(tail, request)
            )
            if goes_on and (
                self._stands_alone(head, request)
                or (_QUESTION.match(head) and (ordered or self._match(tail, request)))
                or (ordered and _ORDERS.match(head))
            ):
                parts.append(f"{head}?" if "?" in gap[0] else head)
                begin = gap.end()
        parts.append(text[begin:].strip())
        if len(parts) > 1 and (found := _REMIND_ME.match(parts[0])):
            day = found["day"] or ""
            parts[1:] = [f"{found['head']}{day} {part}" if _GOES_ON_AT.match(part) else part for part in parts[1:]]
        return [part for part in parts if part] or [text]

    def _goes_back(self, head: str, tail: str) -> bool:
        """Whether it is one wish: "our cat is called Tom, keep that in mind"."""
        is_told = bool(_REMARK.match(head)) and not is_question(head) and not is_question(tail)
        return is_told and bool(_BACK_TO_HEAD.search(tail)) and len(tail.split()) <= _MAX_BACK

    def _stands_alone(self, text: str, request: Request) -> bool:
        if _GOES_ON.match(text) or not _WORD.search(text) or _BARE.issuperset(re.findall(r"\w+", text.lower())):
            return False
        match = self._matcher.match(text, self._offered(request))
        is_about_note = bool(_QUESTION.match(text)) and any(map(self._is_noted, _NAMED_THING.findall(text)))
        is_known = bool(match and match.score >= MIN_SCORE and (match.tool or match.answer))
        return is_known or is_about_note or bool(_count_cues(text))

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
                said = read_said(text) if streams else ""
                if len(said) > len(shown) and not is_part(said, self._wish):
                    yield Text(said[len(shown) :])
                    shown = said
            elif isinstance(event, End | Notice):
                is_cut = isinstance(event, End) and event.finish == "length"
                yield event
        given = parse_answer(text)
        verb = str(given.pop("do", "say"))
        self._is_guess = verb != "say" and with_words and verb not in self._admit(self._wish, request)
        if verb == "files" and (file := _FILE.search(self._wish)) and "read_file" in admitted:
            verb, given = "read_file", {"path": file[0]}
        seconds = self._read_span(self._wish) if verb == "remind_in" else 0.0
        if seconds:
            given["minutes"] = seconds / 60  # no small model is left to add up an hour and a half
        path = str(given.get("path", ""))
        is_there = bool(verb == "write_file" and self._workspace and path and (self._workspace / path).is_file())
        if is_there and "add_line" in admitted and not _NEW_FILE.search(self._wish):
            verb = "add_line"
        begins = [words.split() for words in (str(given.get("text", "")).lower(), self._wish.lower())]
        if verb == "add_line" and begins[0][:2] == begins[1][:2]:  # the order, not what it orders
            given["text"] = found["what"] if (found := _PUT_INTO.match(self._wish)) else ""
        if verb not in admitted:
            said = str(given.get("text", "")).strip() if verb == "say" and with_words else ""
            if said and is_cut:
                said += f"\n{fill_template(self._prompts['cut'], {'tokens': str(asked.answer_tokens)})}"
            if said and not _BLANK.search(said) and not is_echo(said, self._wish):
                self._told.append(self._check_words(said, asked))
            elif said and _REMARK.match(self._wish) and not self._unsure and not self._wish.endswith("?"):
                self._told.append(self._prompts["small_heard"])
            else:
                yield from self._give_up()
            return
        try:
            moment = self._matcher.read_moment(request.messages) if verb == "now" else ""
            made = moment or make_arguments(verb, given, self._wish)
            if verb in {"measure", "past"} and len(named := self._matcher.list_names(self._wish, "sensor")) == 1:
                made = {"sensor": named[0], **made} if isinstance(made, dict) else made
        except (KeyError, TypeError, ValueError, ZeroDivisionError, SyntaxError):
            yield from self._give_up()
            return
        if isinstance(made, str):
            self._known.append(made)
            self._told.append(made)
            return
        sources = asked.messages[-1].text
        # a number of the order that no argument has, as in "until 6 pm", is not dropped silently
        if _is_made_up(given, sources) or (
            verb in _TIMED and find_unfounded_numbers(_DOTTED.sub(":", self._wish), [json.dumps([given, made])])
        ):
            yield from self._give_up()
            return
        values = find_unfounded_numbers(
            " ".join(str(v) for v in given.values()), [sources, _DOTTED.sub(":", sources), f"{seconds / 60:g}"]
        )
        if values and verb in _TIMED and self._is_guess:
            yield from self._give_up()
            return
        if values and verb in _TIMED:  # at a time that nobody said
            match = self._matcher.match(self._wish, self._offered(request))
            self._told.append((match and match.missing) or self._prompts["small_cannot"])
            return
        if values and verb not in _LOOKS_UP:
            self._told.append(fill_template(self._prompts["unfounded"], {"values": ", ".join(values)}, "values"))
        self._verb = verb
        self._named = str(given["words"]) if verb in {"cancel_reminder", "done_task"} else ""
        yield ToolCall(f"small-{len(request.messages)}", _VERBS[verb][0], made)

    def _read_span(self, wish: str) -> float:
        """The seconds of "in an hour and a half", as the matcher reads them; 0 where no span is told."""
        found = _SPAN.search(wish)
        match = self._matcher.match(f"remind me {found[0]} to drink water", {"cron"}) if found else None
        return float(match.arguments.get("at_seconds") or 0) if match and not match.missing else 0.0

    def _give_up(self) -> Iterator[Event]:
        """Do what the matcher was not sure of, where the model has nothing, else say that it cannot be done."""
        if self._unsure:
            self._verb = ""
            yield self._unsure
        elif self._is_guess:  # "bye then, have a nice evening" is no reminder
            self._use_words()
        else:
            self._told.append(self._prompts["small_cannot"])

    def _check_words(self, said: str, asked: Request) -> str:
        values = find_unfounded_claims(said, asked.messages[-1].text, asked.messages)
        mark = fill_template(self._prompts["unmeasured"], {"values": ", ".join(values)}, "values") if values else ""
        is_done = _IS_DONE.search(said) and not _ASKS.match(self._wish)
        promise = self._prompts["promised"] if is_done or find_promise(said, asked.messages[-1].text) else ""
        return "\n".join(filter(None, [said, mark, promise]))

    def _take_result(self, request: Request) -> ToolCall | None:
        """Tell what the newest call has brought; gives the call that follows from it, if any."""
        call, result = list_calls(split_turns(request.messages)[-1])[-1]
        result = remove_hints(result)
        good = not result.startswith(ERROR_PREFIX)
        if self._named and good:
            words, self._named = set(list_query_terms(self._named)), ""
            rows = [number for number, text in find_rows(result) if words & set(list_terms(text))]
            if _HAVE_DONE.match(self._wish) and "done_task" not in self._admit(self._wish, request):
                told = set(list_terms(self._wish))  # "I have looked at the pump" is not that it was repaired
                rows = [
                    number for number, text in find_rows(result) if told.issuperset(list_terms(_SINCE.sub("", text)))
                ]
            if len(rows) == 1:
                does = (
                    {"action": "remove", "job": rows[0]}
                    if call.name == "cron"
                    else {"action": "complete", "task": str(rows[0])}
                )
                return ToolCall(f"small-{len(request.messages)}", call.name, does)
            if self._verb not in self._admit(self._wish, request):  # what was meant is no reminder and no task
                self._use_words()
                return None
        if self._then:
            call_next = self._then.pop(0)
            self._told.extend([remove_empty(_LINE_NUMBER.sub("", result))] if good else [])
            return call_next
        if self._verb == "notes":
            self._told.extend([remove_empty(_LINE_NUMBER.sub("", result))] if good else [])
            self._told = list(filter(None, self._told)) or [result]
            return None
        if good and self._verb:
            result = text = _LINE_NUMBER.sub("", result) if call.name == "read_file" else result
        else:
            text = self._matcher.word_result("" if self._verb else self._wish, call, result)
        if call.name in {"cron", "pulse"}:
            self._left = "what reminders do I have" if call.name == "cron" else "which tasks are open"
        if good:
            self._path = str(call.arguments.get("path", ""))
            self._written = str(call.arguments.get("content") or call.arguments.get("message") or "").strip()
            self._known.append(truncate(result, _MAX_KNOWN))
        if not good and self._verb == "past" and _NO_TIME in result and call.arguments.get("when") != "today":
            return self._make_call(call.name, call.arguments | {"when": "today"}, request)  # "since breakfast"
        content = (
            list_content(self._wish) if self._verb in _PLACES and not self._change and is_question(self._wish) else ()
        )
        is_found = good and not result.startswith("no ")  # "no note says anything about 'hens'" has them
        place = str(call.arguments.get("path", "")).replace(".", " ") if call.name == "read_file" else ""
        if content and not (is_found and mentions(f"{place} {result}", content)):
            is_named = is_found and not self._places and self._verb in self._admit(self._wish, request)
            self._told.extend([tell_result(self._wish, call, text, result)] if is_named else [])
            return self._look_on(call, text, request)
        if good and call.name == "read_file" and self._change:
            if edit := self._edit_line(self._path, result, request):
                self._verb = ""
                return edit
            text = f"{self._prompts['small_cannot']}\n{result}"
        self._told.append(tell_result(self._wish, call, text, result if good else ""))
        return None


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


def _plan_weekly(day: str, wish: str) -> str:
    """The days of a cron expression: as the message names them, else as the model does."""
    if _WORKING_DAYS.search(wish):
        return "1-5"
    if re.search(r"\bweekends?\b", wish, re.IGNORECASE):
        return "6,0"
    named = re.findall(rf"\b({'|'.join(WEEKDAYS)})s?\b", wish, re.IGNORECASE)
    return ",".join(one[:3].lower() for one in named) or day.lower()[:3]


def _is_made_up(given: Mapping[str, Any], source: str) -> bool:
    """Whether what is to be kept has no word of the message, or of the result that it goes back to."""
    wanted = set(list_query_terms(str(given.get("text", ""))))
    return bool(wanted) and wanted.isdisjoint(list_terms(source))


def _is_near(wish: str, match: "IntentMatch") -> bool:
    """Whether the matcher may be believed without a model; it knows reminders and notes, and no list of tasks."""
    return (
        match.score >= MIN_SCORE
        and not match.missing
        and not (
            (match.tool in {"cron", "memory_store", "memory_search", "output"} and _TASKS.search(wish))
            or (match.tool not in _OF_FILES and _FILE.search(wish))
        )
    )


def tell_result(wish: str, call: ToolCall, text: str, result: str) -> str:
    """What a call has brought, with what of it answers the wish."""
    if call.name == "read_file" and result:
        path = str(call.arguments.get("path", ""))
        verdict = count_lines(path, result) if asks_count(wish) else judge_list(wish, result, path)
        return "\n".join([text, verdict] if verdict and _READS_OUT.search(wish) else [verdict or text])
    count = len(list(find_rows(result)))
    told = f"{count} in all" if count and asks_count(wish) and call.name in {"cron", "pulse"} else ""
    told = told or (judge_list(wish, result) if call.name == "pulse" and _TASKS.search(wish) else "")
    return "\n".join(filter(None, [told, text, judge(wish, result)]))


def is_about_lines(wish: str) -> bool:
    """Whether a question about a file is how many lines it has, or whether something is in it."""
    file = _FILE.search(wish)
    return bool(file and (asks_count(wish) or list_sought(wish, file[0])))


def order_plainly(text: str) -> str:
    """Make "would you mind putting the lamp on for me, love?" the order that it is."""
    found = _WOULD_YOU_MIND.match(text)
    if not found:
        return text
    stem = found["verb"] + found["last"]
    verb = (
        f"{stem}e"
        if stem in _SILENT_E
        else found["verb"]
        if found["last"] in "tnpgm" and found["verb"].endswith(found["last"])
        else stem
    )
    return _BY_THE_WAY.sub("", f"{verb}{text[found.end() :]}").rstrip(" ?")


def _count_cues(text: str) -> int:
    return sum(bool(expression.search(text)) for expression in _CUES.values())


def _leave_out(text: str) -> set[str]:
    """The verbs that a message cannot mean: without a time, or told as a remark, any reminder, of what repeats once only, of what was a reading of now."""
    once = {"remind_in", "remind_at"}
    is_told = not _TIME.search(text) or bool(_REMARK.match(text) and not _WANTS_REMINDER.search(text))
    left_out: set[str] = {*_TIMED} if is_told else once if _REPEATS.search(text) else {*_TIMED} - once
    if _PROCESSOR.search(text):
        left_out |= {"measure", "past", "sensors"}
    elif _TREND.search(text) or (_PAST.search(text) and not re.search(r"\bnow\b", text, re.IGNORECASE)):
        left_out |= {"measure"}
    return left_out


def select_verbs(text: str, offered: Collection[str]) -> tuple[str, ...]:
    """The verbs that the words of a message admit, of those whose tool is there."""
    verbs = {verb for names, cue in _CUES.items() if cue.search(text) for verb in names.split()} - _leave_out(text)
    return tuple(verb for verb in _VERBS if verb in verbs and (not (tool := _VERBS[verb][0]) or tool in offered))


def is_question(wish: str) -> bool:
    return bool(_ASKS.match(wish)) or wish.rstrip().endswith("?")


def widen_verbs(wish: str, verbs: Collection[str], offered: Collection[str]) -> tuple[str, ...]:
    """The verbs that are named; where none is, a question may look anything up, and of an order its form says what it is."""
    more: Collection[str] = ()
    if set(verbs) - _LOOKS_UP or (verbs and is_question(wish)):
        pass
    elif is_question(wish):
        more = {*_PLACES, "files"} | ({"board"} if _YOURS.search(wish) else set())  # a model measures for anything
    elif _HAVE_DONE.match(wish):
        more = {"done_task"}
    elif _REMARK.match(wish):
        more = _TIMED if _TO_ME.search(wish) else ()
    else:
        head, colon, _ = wish.partition(": ")
        kept = {"add_task" if _JOB.search(head) else "note"} if colon and not _SAY_IT.search(head) else set[str]()
        more = {"cancel_reminder", "done_task"} | _TIMED | kept
    more = ({*more} | {*verbs}) - _leave_out(wish)
    return tuple(verb for verb in _VERBS if verb in more and (not (tool := _VERBS[verb][0]) or tool in offered))


def is_looked_up(wish: str, verbs: Collection[str]) -> bool:
    """Whether words cannot be the answer, since they would be made up."""
    if "read_file" in verbs and _FILE.search(wish) and _ASKS.match(wish):
        return True
    return not {"find_note", "reminders", "tasks", "board"}.isdisjoint(verbs) and bool(_LOOKED_UP.search(wish))


def is_part(said: str, wish: str) -> bool:
    """Whether all that has come in but for the last word stands in the message, so that it may become an echo."""
    heard, words = (re.findall(r"\w+", text.lower()) for text in (wish, _I_WILL.sub("", said)))
    begun = words[:-1]
    if len(words) <= _MIN_ECHO and words[:1] and words[0] in _PROMISE_BEGINS:
        return True
    return any(heard[at : at + len(begun)] == begun for at in range(len(heard)))


def is_echo(said: str, wish: str) -> bool:
    """Whether words only say again what was said to the model, which is no answer."""
    heard, words = (re.findall(r"\w+", text.lower()) for text in (wish, _I_WILL.sub("", said)))
    is_end = len(words) >= max(_MIN_ECHO, len(heard) / 2) and heard[-len(words) :] == words
    clauses = (re.findall(r"\w+", part.lower()) for part in re.split(r"[,;.:]\s", wish))
    return (
        (is_end or (len(words) >= _MIN_ECHO and words in clauses))
        and not _SAY_IT.search(wish)
        and not _YES_OR_NO.match(wish)
    )


def build_schema(verbs: Collection[str], *, with_words: bool = True) -> dict[str, Any]:
    """The JSON schema of an answer: one of the verbs with its arguments, or words."""

    def describe(verb: str, arguments: str) -> dict[str, Any]:
        kinds = {name: {"type": "number" if name == "minutes" else "string"} for name in arguments.split()}
        return {
            "type": "object",
            "properties": {"do": {"const": verb}, **kinds},
            "required": ["do", *kinds],
            "additionalProperties": False,
        }

    forms = [*(describe(verb, _VERBS[verb][1]) for verb in verbs), *([describe("say", "text")] if with_words else [])]
    return forms[0] if len(forms) == 1 else {"anyOf": forms}


def parse_answer(text: str) -> dict[str, Any]:
    """Read the JSON object of an answer; a text without one is words."""
    begin = text.find("{")
    if begin >= 0:
        try:
            given, _ = json.JSONDecoder(strict=False).raw_decode(text[begin:])
        except (ValueError, RecursionError):
            given = None
        if isinstance(given, dict) and "do" in given:
            return given
    return {"do": "say", "text": read_said(text) or text.strip()}


def read_said(text: str) -> str:
    """The words of an answer that is still coming in, as far as they can be shown; '' for a verb."""
    begin = _SAID.match(text)
    found = begin and _LETTERS_SO_FAR.match(text, begin.end())
    said = str(json.loads(f'"{found[0]}"', strict=False)).lstrip() if found else ""
    # half of a pair, and what may be a blank that was not filled in, wait for what follows
    return said.rstrip("".join(map(chr, range(0xD800, 0xDC00)))).partition("[")[0]


def make_arguments(verb: str, given: Mapping[str, Any], wish: str) -> dict[str, Any] | str:
    """A tool's arguments, or the answer of a verb that needs no tool. Raises ValueError and the like."""
    text = str(given.get("text", "")).strip()
    match verb:
        case "measure" | "past":
            named = [name for name, words in _QUANTITY_WORDS.items() if words.search(wish)]
            quantity = named if len(named) == 1 else _QUANTITIES.findall(str(given["what"]).lower())
            found: dict[str, Any] = {"quantity": quantity[0]} if len(quantity) == 1 else {}
            named_when = _WHEN.search(wish)
            when = re.sub(r"^(?:these )?last (?=hours|days)", "last few ", named_when[0].lower()) if named_when else ""
            return found | ({"when": when or str(given["when"])} if verb == "past" else {})
        case "remind_in" | "remind_every":
            seconds = float(given["minutes"]) * 60
            if seconds <= 0:
                raise ValueError(given["minutes"])
            return {
                "action": "add",
                "message": text or wish,
                "at_seconds" if verb == "remind_in" else "every_seconds": seconds,
            }
        case "remind_at":
            return {"action": "add", "message": text or wish, "at": str(given["at"])}
        case "remind_daily" | "remind_weekly":
            found_clock = _CLOCK.search(str(given["at"]))
            if not found_clock:
                raise ValueError(given["at"])
            hour, minute, half = int(found_clock[1]), int(found_clock[2] or 0), (found_clock[3] or "").lower()
            hour = hour % 12 + 12 * (half == "pm") if half else hour
            hour += 12 * (0 < hour < _NOON and not half and bool(_IS_LATE.search(wish)))
            day = _plan_weekly(str(given.get("day", "")), wish) or "*"
            return {"action": "add", "message": text or wish, "cron_expr": f"{minute} {hour} * * {day}"}
        case "reminders" | "cancel_reminder" | "tasks" | "done_task":
            return {"action": "list"}
        case "note":
            return {"text": text}
        case "find_note" | "forget_note":
            words = str(given["words"])
            return {"query": words} if verb == "find_note" else {"text": _FILLERS.sub("", words).strip() or words}
        case "read_file":
            return {"path": str(given["path"])}
        case "add_line":
            return {"path": str(given["path"]), "content": text, "mode": "append"}
        case "write_file":
            return {"path": str(given["path"]), "content": text}
        case "add_task":
            return {
                "action": "add",
                "text": found_task["text"].strip("'\"") if (found_task := _TO_MY_TASKS.match(text)) else text,
            }
        case "sum":
            _check_operands(str(given["expression"]), wish)
            expression = str(given["expression"]).replace("×", "*").replace("x", "*").replace("÷", "/")
            return f"{expression} = {calculate(expression):.10g}"
    return {}


def find_unfounded_numbers(text: str, sources: Iterable[str]) -> list[str]:
    """List the numbers of a text that stand in none of its sources, as figures, in words, or in another unit of time."""
    told = [
        float(number.replace(",", ".")) for source in sources for number in _NUMBER.findall(_DIGITS.sub(" ", source))
    ]
    told += [_WORDS[word] for source in sources for word in _LETTERS.findall(source.lower()) if word in _WORDS]
    sums = [a + b for a in told for b in told]
    known = {0.0, 1.0, *told, *sums} | {one * by for one in (*told, *sums) for by in (60, 1 / 60, 0.5, 0.01)}
    known |= {60 - one for one in told}
    known |= {one + by for one in told for by in (12, -12, -1)}
    found = _NUMBER.findall(_DIGITS.sub(" ", text))
    return [one for one in dict.fromkeys(found) if not any(abs(float(one.replace(",", ".")) - k) < 1e-6 for k in known)]


def _check_operands(expression: str, wish: str) -> None:
    """Raise ValueError for a sum that has a number more often than the message, if that has figures at all."""
    told = _NUMBER.findall(_DIGITS.sub(" ", wish))
    if any(char.isdigit() for char in wish) and not any(word in _WORDS for word in _LETTERS.findall(wish.lower())):
        wanted = [one.strip("-") for one in _NUMBER.findall(expression)]
        for one in set(wanted) - {"100", "0", "1"}:
            if wanted.count(one) > max(1 + ("squared" in wish.lower()), told.count(one)):
                raise ValueError(expression)
