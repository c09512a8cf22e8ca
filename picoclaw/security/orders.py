"""What of a call the newest message of the owner orders: a turn that has read text of others may still do that.

A sentence orders something only if it is understood as a whole: it begins with a verb of command, and so does every
part of it behind an "and" or a comma. Part of a sentence, a question, a condition and a quotation order nothing.
"""

import shlex
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from picoclaw import times
from picoclaw.messages import Caller, is_resident
from picoclaw.records import NamedTuple
from picoclaw.text import pattern

if TYPE_CHECKING:
    from picoclaw.schedules import JobTime

_MAX_MESSAGE = 2000
"""Characters of a message; in a longer one there is more of others' text than of the person's orders."""

_WORD = pattern(r"[^\W_]+(?:[.,:'’-][^\W_]+)*")
_PRONOUNS = dict.fromkeys(("i", "me", "my", "mine", "you", "your", "yours", "we", "us", "our", "ours"), "@")
"""Who speaks changes when a wish is noted: water my plants, water your plants."""


def _split_word_set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_NEGATIONS = frozenset(
    {"not", "never", "no", "nor", "without", "cannot", "nicht", "nie", "niemals", "kein", "keine", "ohne"}
)
_SENTENCE = pattern(r"[^.!?;\n]*(?:[.!?;](?!\s|$)[^.!?;\n]*)*[.!?;\n]?")
_CONDITION_WORDS = _NEGATIONS | _split_word_set(
    "if whether unless except but instead when whenever once until till after before while because though although"
    " wenn falls ob außer sondern aber statt sobald bis bevor nachdem während weil"
)
"""Words of conditions and denials."""
_SUBORDINATE_WORDS = _split_word_set(
    "to that who whom whose which what where how why whoever whomever whatever"
    " zu dass wer wen wem wessen welche welchen welcher welches was wo wohin woher wie warum"
)
"""Words behind which an "and" may go on with what somebody else does."""
_LEADING_FILLERS = (
    *(("go", "ahead", "and"), ("i'd", "like", "you", "to"), ("i", "would", "like", "you", "to")),
    *(("i", "want", "you", "to"), ("i", "need", "you", "to"), ("you", "can"), ("you", "may"), ("thank", "you")),
    *((word,) for word in ("please", "kindly", "now", "then", "and", "also", "just", "ok", "okay", "thanks", "hi")),
    *((word,) for word in ("hello", "hey", "next", "first", "finally", "afterwards", "so", "well")),
    *((word,) for word in ("bitte", "danke", "jetzt", "dann", "und", "auch")),
)
_CAN_YOU = (("can", "you"), ("could", "you"), ("kannst", "du"), ("könntest", "du"))
_TRAILING_FILLERS = _split_word_set("please thanks thank you now again too then for me right away bitte danke jetzt")
_READ_VERBS = _split_word_set(
    "read open look check fetch visit list measure see summarise summarize show view lies zeige prüfe öffne"
)
_TELL_VERBS = _split_word_set("tell say remind note remember write save report search find count print work sum")
_JOINING_WORDS = frozenset({"and", "then", "und", "dann"})
_MAX_LEADING_FILLERS = 12
_QUOTES = '"“”«»„'


class _SentencePart(NamedTuple):
    """A part of a sentence that may be an order, and the words from there to the sentence's end."""

    tokens: Sequence[str]
    rest: Sequence[str]

    @property
    def verb(self) -> str:
        return _strip_quotes(self.tokens[0]).casefold() if self.tokens else ""

    @property
    def words(self) -> list[str]:
        return _split_words(" ".join(self.tokens))


def _list_statements(caller: Caller) -> Iterator[str]:
    return (sentence for sentence in _list_unquoted(caller) if not sentence.endswith("?"))


def _list_unquoted(caller: Caller) -> Iterator[str]:
    text, quoted = _get_newest_message(caller), False
    several = "\n" in text.strip()  # a line of its own may be pasted: "Explain this", and below it a command
    for sentence in _SENTENCE.findall(text) if len(text) <= _MAX_MESSAGE and not several else ():
        bare = sentence.strip()
        was, quoted = quoted, quoted ^ bool(sum(map(sentence.count, _QUOTES)) % 2)
        if not (was or bare.startswith((">", "'", "‘", *_QUOTES))):
            yield bare


def _parse_polite_request(caller: Caller) -> Iterator[_SentencePart]:
    """Find the order in a message whose only question, at its end, is "can you" and the order."""
    sentences = [sentence for sentence in _list_unquoted(caller) if sentence]
    if not sentences or not sentences[-1].endswith("?") or "".join(sentences).count("?") > 1:
        return
    words = _strip_leads(sentences[-1].rstrip("? ").split())
    if any(_starts_with(words, form) for form in _CAN_YOU) and not _has_condition(_split_words(sentences[-1])):
        parts = _split_parts(" ".join(words[2:]))
        yield from parts if len(parts) == 1 and _get_newest_message(caller).rstrip().endswith("?") else ()


def _parse_orders(caller: Caller, *, politely: bool = False) -> Iterator[_SentencePart]:
    """Find the parts that order something; none where a condition or negation belongs to them.

    `politely`: also orders in the form of a question.
    """
    sentences = [sentence for sentence in _list_statements(caller) if _split_words(sentence)]
    if any(_has_condition(_split_words(sentence)[:2]) for sentence in sentences):
        return  # such as: "Only if it is empty."
    if politely:
        yield from _parse_polite_request(caller)
    for parts in (_split_parts(sentence) for sentence in sentences if not _has_condition(_split_words(sentence))):
        for at, part in enumerate(parts):
            before, after = parts[:at], parts[at + 1 :]
            if (
                part.tokens
                and all(map(_can_precede_order, before))
                and all(one.verb in _ORDER_VERBS | {""} for one in after)
            ):
                yield part


def _can_precede_order(part: _SentencePart) -> bool:
    """Whether the next part begins a new order: "read how to dance and sing" is one order."""
    embed = _SUBORDINATE_WORDS - {"to"} if part.verb in _TRANSFER_VERBS else _SUBORDINATE_WORDS
    return part.verb in _READ_VERBS | _CHANGE_VERBS | {""} and embed.isdisjoint(part.words)


def _find_dictated(caller: Caller, verbs: Collection[str]) -> Iterator[list[str]]:
    """The words that follow an order to note or remind, up to the end of the sentence."""
    for sentence in _list_statements(caller):
        parts = _split_parts(sentence)
        for at, part in enumerate(parts):
            if not all(one.verb in _ORDER_VERBS | {""} and not _has_condition(one.words) for one in parts[:at]):
                break
            if part.verb in verbs:
                yield _split_words(" ".join(part.rest))[1:]


def _has_condition(words: Sequence[str]) -> bool:
    return not _CONDITION_WORDS.isdisjoint(_drop_number_sign(words)) or any(w.endswith(("n't", "n’t")) for w in words)


def _split_parts(sentence: str) -> list[_SentencePart]:
    """Split a sentence before each verb of command that follows a comma or an "and"."""
    tokens = sentence.replace("’", "'").rstrip(".!;: ").split()
    parts: list[_SentencePart] = []
    begin = 0
    for at in range(1, len(tokens) + 1):
        joined = at < len(tokens) and (tokens[at - 1].endswith(",") or tokens[at].casefold() in _JOINING_WORDS)
        if at < len(tokens) and not joined:
            continue
        polite = not _strip_tails(_strip_leads(tokens[begin:at]))
        behind = _strip_leads(tokens[at : at + _MAX_LEADING_FILLERS])
        if at == len(tokens) or polite or (behind and _strip_quotes(behind[0]).casefold() in _ORDER_VERBS):
            part = _strip_tails(_strip_leads(tokens[begin:at]))
            parts.append(_SentencePart(part, _strip_tails(_strip_leads(tokens[begin:])) if part else ()))
            begin = at
    return parts


def _strip_leads(tokens: Sequence[str]) -> Sequence[str]:
    begin = 0
    while lead := next(
        (one for one in _LEADING_FILLERS if _starts_with(tokens[begin : begin + _MAX_LEADING_FILLERS], one)), None
    ):
        begin += len(lead)
    return tokens[begin:]


def _strip_tails(tokens: Sequence[str]) -> Sequence[str]:
    end = len(tokens)
    while end and _strip_quotes(tokens[end - 1]).casefold() in _TRAILING_FILLERS:
        end -= 1
    return tokens[:end]


def _starts_with(tokens: Sequence[str], words: Sequence[str]) -> bool:
    return [_strip_quotes(token).casefold() for token in tokens[: len(words)]] == [*words]


def _strip_quotes(token: str) -> str:
    return token.strip("\"'“”‘’„«»`,:")


_NOTE_VERBS = _split_word_set("note remember memorise memorize save write store keep record merke notiere")
_REMIND_VERBS = _split_word_set("remind wake nudge ping alert set add make create erinnere weck")
_TASK_WORDS = _split_word_set("add put note write make create task tasks todo todos remember remind")
_EVERYBODY = _split_word_set("everyone everybody household family alle familie haushalt")
_SHARE_FILLERS = _EVERYBODY | _split_word_set("for to the whole down that this dass für die den ganze a as note")
_FACT_FILLERS = _split_word_set("that @ down in mind this the fact to memory for later dass a as note")


def is_stated_fact(text: str, caller: Caller) -> bool:
    """Whether the owner's newest message states this: as a whole sentence, or behind an order to note it."""
    wanted = _split_words(text)
    for words in _find_dictated(caller, _NOTE_VERBS) if wanted else ():
        begin = len(words) - len(wanted)
        if begin >= 0 and words[begin:] == wanted and _FACT_FILLERS.issuperset(words[:begin]):
            return True
    stated = (
        [words for part in _split_parts(sentence)[:1] for words in [_split_words(" ".join(part.rest))]]
        for sentence in _list_statements(caller)
    )
    return bool(wanted) and [wanted] in stated


def is_shared_fact(text: str, caller: Caller) -> bool:
    """Whether the newest message of whoever asks orders to note this for everybody."""
    wanted = _split_words(text)
    for words in _find_dictated(caller, _NOTE_VERBS) if wanted else ():
        lead = words[: len(words) - len(wanted)]
        if words[len(lead) :] == wanted and not _EVERYBODY.isdisjoint(lead) and _SHARE_FILLERS.issuperset(lead):
            return True
    return False


def is_ordered_task(text: str, caller: Caller) -> bool:
    """Whether the owner's newest message orders to note this as a task."""
    found = _remove_words(_split_words(text), _find_dictated(caller, _TASK_WORDS))
    return any(not _has_condition(words) for words in found)


def is_ordered_reminder(text: str, when: "JobTime", caller: Caller) -> bool:
    """Whether the owner's newest message orders a reminder of this at this time."""
    found = _remove_words(_split_words(text), _find_dictated(caller, _REMIND_VERBS))
    return any(not _has_condition(words) and is_same_time(words, when, caller.now) for words in found)


def _remove_words(wanted: list[str], sentences: Iterable[list[str]]) -> Iterator[list[str]]:
    """Give sentences without the wanted words, where these stand in a row."""
    for words in sentences:
        for begin in range(len(words) - len(wanted) + 1) if wanted else ():
            if words[begin : begin + len(wanted)] == wanted:
                yield words[:begin] + words[begin + len(wanted) :]


_NUMBERS = {word: str(number) for number, word in enumerate(times.NUMBERS)}
_DAY_WORDS = frozenset({"today", "tonight", "tomorrow", *times.CRON_WEEKDAYS})
_DATE = pattern(r"\d{4}-\d\d-\d\d")
_CLOCK = pattern(r"(?:\b(at|to|until|till) )?(?<![\w.:-])(\d{1,2})(?:[:.](\d\d))?(?: ?(am|pm|uhr))?(?![\w:-])")
_DURATION = pattern(
    r"(?:(?<![\w.,])(\d+(?:[.,]\d+)?|half) ?)?(?<![a-z])"
    r"(?:an? )?(s|sec|second|m|min|minute|h|hr|hour|d|day|week)s?(?!\w)"
)
_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_REPEAT_WORDS = frozenset({"every", "each", "daily", "weekly"})
_DAILY_CRON = pattern(r"(\d{1,2}) (\d{1,2}) \* \* (\*|[0-7])")


def is_same_time(words: Iterable[str], when: "JobTime", now: datetime) -> bool:
    """Whether words name the time of a call, and no other one."""
    told = [_NUMBERS.get(word, "12:00" if word == "noon" else word) for word in words]
    text, repeats = " ".join(told), not _REPEAT_WORDS.isdisjoint(told)
    if when.tz or repeats != bool(when.every_seconds or when.cron_expr):
        return False
    weekdays = times.CRON_WEEKDAYS
    days = [word for word in told if word in _DAY_WORDS or _DATE.fullmatch(word) or word.removesuffix("s") in weekdays]
    clocks = [found for found in _CLOCK.finditer(text) if found[3] or found[1] or found[4]]
    if len(days) > 1 or len(clocks) > 1:
        return False
    if when.at_seconds or when.every_seconds:
        one_only = not (when.at or when.cron_expr or (when.at_seconds and when.every_seconds))
        return one_only and not days and not clocks and _sum_durations(text) == (when.at_seconds or when.every_seconds)
    half = clocks[0][4] if clocks and clocks[0][4] != "uhr" else ""
    clock = f"{clocks[0][2]}:{clocks[0][3] or '00'}{half or ''}" if clocks else ""
    day = days[0] if days else ""
    try:
        if when.cron_expr:
            at = _DAILY_CRON.fullmatch(when.cron_expr)
            due = at and times.parse_moment(f"{int(at[2])}:{int(at[1]):02}", now)
            on = weekdays[int(at[3]) % 7] if at and at[3] != "*" else ""
            same = due and (not clock or times.parse_moment(clock, now) == due)
            return bool(same and day.removesuffix("s") == on)
        due = times.parse_moment(when.at, now)
        return bool(day or clock) and times.parse_moment(f"{day} {clock or due.strftime('%H:%M')}".strip(), now) == due
    except ValueError:
        return False


def _sum_durations(text: str) -> float:
    return sum(
        (0.5 if found[1] == "half" else float((found[1] or "1").replace(",", "."))) * _UNIT_SECONDS[found[2][0]]
        for found in _DURATION.finditer(text)
    )


_REMOVE_ORDERS = tuple(
    f"{verb} _" for verb in ("remove", "delete", "cancel", "drop", "forget", "clear", "lösche", "entferne", "streiche")
)
_MOVE_ORDERS = tuple(
    f"{verb} _" for verb in ("change", "move", "set", "update", "edit", "postpone", "delay", "snooze", "reschedule")
)
_ORDERS = {
    "remove": _REMOVE_ORDERS,
    "disable": ("disable _", "pause _", "turn off _", "turn _ off", "switch off _", "switch _ off"),
    "skip": ("skip _", "leave out _", "leave _ out", "pause _", "suspend _"),
    "enable": ("enable _", "resume _", "turn on _", "turn _ on", "switch on _", "switch _ on"),
    "run": ("run _", "start _", "do _"),
    "update": (*_MOVE_ORDERS, "rename _", "let _ say", "ändere _", "verschiebe _"),
    "weigh": ("_ is urgent", "_ is important", "raise _", "lower _"),
    "move": _MOVE_ORDERS,
    "snooze": _MOVE_ORDERS,
    "complete": (
        *("complete _", "finish _", "close _", "tick _ off", "tick off _", "check _ off", "check off _"),
        *("mark _ as done", "mark _ done", "_ is done", "_ are done", "_ is finished", "_ ist erledigt"),
    ),
}
"""How a person orders that something is done to an item, `_`."""
_KIND_WORDS = {
    "job": frozenset({"reminder", "reminders", "job", "jobs", "erinnerung", "erinnerungen"}),
    "task": frozenset({"task", "tasks", "todo", "todos", "aufgabe", "aufgaben"}),
}
_LIST_WORDS = frozenset({"and", "und", "number", "numbers", "no", "nr", "nummer"})
_FILLER_WORDS = frozenset({"the", "a", "an", "@", "please", "bitte", "also", "now", "die", "das", "den"})


_UPDATE_ORDERS = [order.split() for order in _ORDERS["update"]]


def find_order(action: str, kind: str, number: int, texts: Iterable[str], caller: Caller) -> list[str] | None:
    """What the owner's newest message says after an order to do this to an item; None if there is no order.

    The order is a verb and the item, named by kind and number (reminder 3) or by one of the `texts`; only what it is
    changed to may follow.
    """
    named = [words for text in texts if (words := _drop_fillers(_split_words(text)))]
    orders = [order.split() for order in _ORDERS.get(action, ())]
    for part in _parse_orders(caller):
        words = _drop_fillers(part.words)
        for begin, end in (
            *_find_numbered_items(words, _KIND_WORDS[kind], str(number)),
            *_find_named_items(words, named),
        ):
            for order in orders:
                hole = order.index("_")
                behind = end + len(order) - hole - 1
                if begin == hole and [*words[:begin], "_", *words[end:behind]] == order:
                    left = words[behind:]
                    if not left or order in _UPDATE_ORDERS:
                        return left
    return None


def is_new_text(text: str, words: Sequence[str]) -> bool:
    """Whether the words behind an order to change something are this text."""
    new = list(words)
    for preposition in ("to", "say"):
        new = new[new[:1] == [preposition] :]
    return bool(new) and new == _drop_fillers(_split_words(text))


def _drop_fillers(words: Iterable[str]) -> list[str]:
    return [word for word in words if word not in _FILLER_WORDS]


def _drop_number_sign(words: Sequence[str]) -> list[str]:
    """Leave out a `no` before a number, which is no negation: reminder no 3."""
    following = [word.isdecimal() for word in words[1:]]
    return [word for word, numbers in zip(words, [*following, False], strict=False) if not (word == "no" and numbers)]


def _find_numbered_items(words: Sequence[str], kinds: Collection[str], number: str) -> Iterator[tuple[int, int]]:
    """Find items named by kind and number, alone or in a list: reminders 3, 4 and 5."""
    for begin, word in enumerate(words):
        end = begin + 1
        while end < len(words) and (words[end].isdecimal() or words[end] in _LIST_WORDS):
            end += 1
        while end > begin + 1 and not words[end - 1].isdecimal():
            end -= 1
        if word in kinds and number in words[begin + 1 : end]:
            yield begin, end


def _find_named_items(words: Sequence[str], named: Iterable[Sequence[str]]) -> Iterator[tuple[int, int]]:
    """Find items named by their words, with or without their kind before them."""
    kinds = frozenset().union(*_KIND_WORDS.values())
    for wanted in named:
        for begin in range(len(words) - len(wanted) + 1):
            if list(words[begin : begin + len(wanted)]) == list(wanted):
                yield begin, begin + len(wanted)
                before = begin - (words[begin - 1 : begin] == ["to"])
                if before and words[before - 1] in kinds:
                    yield before - 1, begin + len(wanted)


_FILE_KIND_WORDS = _split_word_set(
    "file files folder folders directory directories called named script program"
    " Datei Dateien Ordner Verzeichnis namens Skript"
)
_ARTICLES = _split_word_set(
    "the a an my new empty and bitte und die der das den dem ein eine einen meine meinen neuen leeren"
)
_FOLDER = _split_word_set("folder folders directory directories ordner verzeichnis")
_FILE = _split_word_set("file files datei")
_INTO_WORDS = _split_word_set("to into in as nach")


class _CommandWording(NamedTuple):
    """How people order a program: verbs, nouns, and options that need not be named."""

    verbs: tuple[str, ...]
    options: frozenset[str] = frozenset()
    nouns: frozenset[str] = frozenset()
    endings: tuple[str, ...] = ()


_REMOVE_VERBS = ("delete", "remove", "erase", "get rid of", "throw away", "lösche", "entferne")
_COMMAND_WORDINGS = {
    "mkdir": _CommandWording(("make", "create", "add", "set up", "erstelle"), frozenset({"-p"}), _FOLDER),
    "touch": _CommandWording(("create", "make", "add", "erstelle"), frozenset(), _FILE),
    "rm": _CommandWording(_REMOVE_VERBS, frozenset({"-f"})),
    "rmdir": _CommandWording(_REMOVE_VERBS),
    "mv": _CommandWording(("move", "rename", "put", "verschiebe"), frozenset({"-n", "-v"})),
    "cp": _CommandWording(("copy", "duplicate", "kopiere"), frozenset({"-a", "-r", "-n", "-p", "-v"})),
    **dict.fromkeys(("python3", "python"), _CommandWording(("run", "start", "execute"), endings=(".py",))),
    **dict.fromkeys(("sh", "bash"), _CommandWording(("run", "start", "execute"), endings=(".sh",))),
}
_RUN_VERBS = frozenset({"run", "execute"})
_TRANSFER_VERBS = frozenset({"mv", "cp", *_COMMAND_WORDINGS["mv"].verbs, *_COMMAND_WORDINGS["cp"].verbs})
_CHANGE_VERBS = {*_COMMAND_WORDINGS, *_RUN_VERBS} | {
    order.split()[0]
    for orders in (*_ORDERS.values(), *(one.verbs for one in _COMMAND_WORDINGS.values()))
    for order in orders
} - {"_"}
_ORDER_VERBS = _READ_VERBS | _TELL_VERBS | _CHANGE_VERBS | _NOTE_VERBS | _REMIND_VERBS | _TASK_WORDS
_MAX_COMMAND_WORDS = 64


def is_ordered_command(argv: Sequence[str], caller: Caller) -> bool:
    """Whether the owner's newest message orders this command: as a line to type, or in plain words.

    In plain words, only the command's names in order and a few fillers ("the file", "called") may follow the verb; options
    other than harmless ones have to be typed.
    """
    if len(argv) > _MAX_COMMAND_WORDS:
        return False
    return any(
        _is_typed_command(argv, part.tokens) or _is_described_command(argv, part.tokens)
        for part in _parse_orders(caller, politely=True)
    )


def is_ordered_output(name: str, seconds: float, caller: Caller) -> bool:
    """Whether the owner's newest message orders to switch this output on, for this time if it names one."""
    wanted = _drop_fillers(_split_words(name))
    for part in _parse_orders(caller, politely=True) if wanted else ():
        words = [_NUMBERS.get(word, word) for word in _drop_fillers(part.words)]
        verb, *rest = (words[: words.index("for")] if "for" in words else words) or [""]  # "for ten minutes"
        span = " ".join(words[words.index("for") + 1 :]) if "for" in words else ""
        named = verb in {"switch", "turn"} and rest in (["on", *wanted], [*wanted, "on"])
        if named and _sum_durations(span) == seconds and not _DURATION.sub("", span).strip():
            return True
    return False


def _is_typed_command(argv: Sequence[str], tokens: Sequence[str]) -> bool:
    try:
        typed = shlex.split(" ".join(tokens))
    except ValueError:
        return False
    run = len(typed) > 1 and typed[0].casefold() in _RUN_VERBS
    line = typed[1:] if run else [typed[0].casefold(), *typed[1:]] if typed else []
    return line == list(argv) and (run or argv[0] != "make")  # "make news" orders no target of a Makefile


def _is_described_command(argv: Sequence[str], tokens: Sequence[str]) -> bool:
    program, *rest = argv
    if program not in _COMMAND_WORDINGS:
        return False
    spoken = _COMMAND_WORDINGS[program]
    words = [_strip_quotes(token) for token in tokens]
    verb = next((verb.split() for verb in (*spoken.verbs, program) if _starts_with(words, verb.split())), None)
    if verb is None or not (verb == [program] or not spoken.nouns or spoken.nouns & set(map(str.casefold, words))):
        return False
    names = [word.removesuffix("/") for word in words[len(verb) :] if word not in _ARTICLES | _FILE_KIND_WORDS | {""}]
    typed = [word for word in names if word.startswith("-")]
    names = [word for word in names if word not in typed]
    options = [word for word in rest if word.startswith("-")]
    given = [word.removesuffix("/") for word in rest if word not in options]
    if not given or not spoken.options.issuperset(set(options) - set(typed)) or not set(typed) <= set(options):
        return False
    if spoken.endings:
        begin = next((at for at, word in enumerate(names) if word in {"on", "with"}), len(names))
        is_script = names[:begin] == given[:1] and given[0].endswith(spoken.endings)
        return is_script and names[begin + 1 :] == given[1:] and not options
    if program in {"mv", "cp"}:
        into = next((at for at, word in enumerate(names) if word in _INTO_WORDS), len(names))
        sources, target = names[:into], " ".join(names[into + 1 :])
        targets = {target} if target else set()
        if target and len(given) == len(["source", "target"]):
            targets.add(f"{target}/{given[0].rpartition('/')[2]}")
        return len(given) > 1 and " ".join(sources) == " ".join(given[:-1]) and given[-1] in targets
    return " ".join(names) == " ".join(given)


_QUESTION_VERBS = _split_word_set("is are was were does do did should shall has have may ist sind war hat soll darf")


def classify_sentences(text: str) -> Iterator[tuple[str, bool]]:
    """Give the sentences of a message, and whether what one names may be looked at.

    Not where the sentence is negated, or asks whether something is so or should be done.
    """
    for sentence in _SENTENCE.findall(text):
        words = _split_words(" ".join(_strip_leads([word for word in sentence.split() if "/" not in word])))
        denied = not _NEGATIONS.isdisjoint(words) or any(word.endswith(("n't", "n’t")) for word in words)
        asks = sentence.rstrip().endswith("?") and words[:1] and words[0] in _QUESTION_VERBS
        yield sentence, not (denied or asks)


def _get_newest_message(caller: Caller) -> str:
    return caller.user_texts[-1].replace("`", " ") if caller.user_texts and is_resident(caller.origin) else ""


def _split_words(text: str) -> list[str]:
    return [_PRONOUNS.get(word, word) for word in _WORD.findall(text.casefold())]
