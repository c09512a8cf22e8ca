"""What acts without a model needs an order that is the whole of the sentence: talk about it changes nothing."""

import re

import pytest
import sweep
from grammars import load_shipped, refusals
from rows import each_row

from picoclaw.app import App
from picoclaw.config import Config
from picoclaw.config.tables import MemoryConfig
from picoclaw.hw.sim import SimBoard
from picoclaw.intents.provider import IntentProvider
from picoclaw.messages import Message, Request, ToolCall
from picoclaw.workspace import prepare_home

SHIPPED = load_shipped()
NAMES = dict.fromkeys(("fan", "pump", "light"), "output") | dict.fromkeys(("greenhouse", "outside"), "sensor")
INTENTS = IntentProvider([SHIPPED], declared=NAMES.copy)
TOOLS = {intent["tool"] for intent in SHIPPED["intents"].values() if "tool" in intent} - {"first_run"}
READS = {
    ("cron", "list"), ("cron", "get"), ("output", "list"), ("rule", "list"),
    ("i2c", "scan"), ("i2c", "detect"), ("i2c", "read"),
    *((name, "") for name in ("sensor_read", "sensor_list", "sensor_history", "board_status", "output_history")),
    *((name, "") for name in ("list_dir", "read_file", "memory_search", "sensor_excursions")),
}  # fmt: skip


REMINDERS = "3: 18:30 (in 9 h) feed the cat\n4: 19:00 (in 9 h) feed the fish"


def called(text, offered=TOOLS):
    """The call that a text makes by itself, none when something is asked or said instead."""
    messages = [Message("user", text)]
    while True:
        request = Request("", tuple(messages), tuple({"name": name} for name in sorted(offered)), 100, 0.0)
        first = next(INTENTS.events(request))
        if not isinstance(first, ToolCall):
            return messages[-2].calls[0] if len(messages) > 1 else None
        if len(messages) > 1 or first.arguments != {"action": "list"}:
            return first
        messages += [Message("assistant", "", (first,)), Message("tool", REMINDERS, call_id=first.id)]


def acts(text):
    """The call, if it does more than read."""
    call = called(text)
    return call if call and (call.name, call.arguments.get("action", "")) not in READS else None


# --- every order of the data, turned into talk about it ---


def orders():
    """A few sentences of each template of the intents that act or add, made of the template itself."""
    for name, intent in SHIPPED["intents"].items():
        if (intent.get("acts") or intent.get("adds")) and "after" not in intent:
            yield name, intent["exact"]
            for line in intent.get("templates", "").splitlines():
                if line.strip():
                    yield from ((name, said) for said in dict.fromkeys(spoken(line)))
            for line in intent.get("frames", "").splitlines():
                yield from ((name, said) for said in dict.fromkeys(spoken_frame(line)))


def spoken_frame(line):
    """A sentence of the parts that a frame needs, and one of all its parts, backwards behind the first."""
    parts = [part for part in line.split() if part[0] != "~"]
    needed = [part for part in parts if "?" not in part]
    for chosen in (needed, parts[:1] + parts[:0:-1]):
        yield " ".join(said_as(part.translate(str.maketrans("", "", "?^+")).split("|")[0]) for part in chosen)


def said_as(slot):
    if slot in VALUES:
        return VALUES[slot]
    if slot in SHIPPED["spans"]:
        return SHIPPED["spans"][slot].split()[0].replace("_", " ")
    return next(iter(SHIPPED["slots"][slot]["values"].values())).split()[0].replace("_", " ")


VALUES = {
    "only_timer": "timer",
    "pause": "until wednesday",
    "chore": "watering",
    "no_chore": "no watering",
    "except_days": "sundays",
    "bounded": "tonight",
    "file": "plan.txt",
    "content": "water the roses",
    "amended": "the fuse is 3 A",
    "time_window": "from 6 to 8",
    "but_output": "light",
    "every_output": "everything",
    "buying": "shopping",
    "shift_by": "10 minutes",
    "shift_later": "10 minutes later",
    "job": "3",
    "rule": "2",
    "called": "pump",
    "like_rule": "frost",
    "like_text": "warns me of frost",
    "like_noun": "humidity",
    **dict.fromkeys(("minutes", "minutes_more", "minutes_later", "snooze_minutes"), "10"),
    "alarm_noun": "alarm",
    "telling_word": "telling",
    "named_list": "garden centre",
    "new_list": "garden centre:",
    "rule_noun": "rule",
    "alert_noun": "warning",
    "called_job": "cat",
    "later": "10 minutes",
    "moved": "18:30",
    "repeated": "every day at 7",
    "when": "in 10 minutes",
    "when_told": "in 10 minutes",
    "often": "every day at 7",
    "wake": "at 6:30",
    "mornings": "every day at 6",
    "seconds": "10 seconds",
    "output": "pump",
    "device": "fan",
    "valve": "garden valve",
    "level": "40 percent",
    "part": "bme280",
    "title": "porch",
    "address": "0x76",
    "bus": "1",
    "driven": "pump",
    "machine": "fan",
    "shutter": "valve",
    "calendar": "every day at 6",
    "calendar_span": "weekdays 9 to 11",
    "often_span": "every day from 7 to 9 until friday",
    "timer_when": "10 minutes",
    "timer_minutes": "10",
    "lasts": "5 minutes",
    "hold": "5 minutes",
    "until": "9 pm",
    "beyond": "above",
    "value": "30",
    "place": "greenhouse",
    "sensor": "orangery",
    "noun": "temperature",
    "text": "the fuse is 3 A",
    "told_fact": "the fuse is 3 A",
    "message": "feed the cat",
    "old": "fuse",
    "new": "the fuse is 5 A",
    "any": "then",
    "fact": "the fuse",
    "request": "the temperature",
    "reading": "the temperature",
    "owner": "Sam",
    "it_output": "it",
    "it_job": "it",
    "it_rule": "it",
    "this_rule": "the rule",
    "item": "milk",
    "bare_item": "milk",
    "list": "shopping",
    "todo": "to do",
    "at_time": "at 18:30",
    "own_output": "fan",
    "own_called": "fan",
    "own_driven": "fan",
    "asked_place": "greenhouse",
    "day_before": "yesterday",
    "too_step": "too dim",
    "need": "bird seed",
    "spot": "greenhouse",
    "elsewhere": "in the shed",
    "there": "in there",
    "until_only": "until 9 pm",
    "more_seconds": "10 minutes",
    "part_only": "in the evening",
    "later_on": "at 18:30",
    "bare_level": "40",
    "amount": "8",
    "old_value": "30",
}


def spoken(line):
    """The shortest sentence of a template, and the one with the last of each choice and all that may be left out."""
    for pick, full in ((0, False), (-1, True)):
        text = line
        while "<" in text:
            text = re.sub(r"<(\w+)>", lambda found: f"({SHIPPED['phrases'][found[1]]})", text)
        while found := re.search(r"\[([^][()]*)\]|\(([^][()]*)\)", text):
            optional = found[1] is not None
            choices = (found[1] if optional else found[2]).split("|")
            chosen = "" if optional and not full else choices[pick]
            text = f"{text[: found.start()]} {chosen} {text[found.end() :]}"
        words = " ".join(text.split())
        yield " ".join(re.sub(r"@(\w+)", r"\1", re.sub(r"\{(\w+)\}", lambda slot: VALUES[slot[1]], words)).split())


TEXTS = (VALUES["message"], VALUES["text"])
ORDERS = sorted(set(orders()))
EACH = sweep.take(288, 1)
"""Each way of talking is tried with every 288th order, the next way with those behind them; `make sweep` tries all."""


def past(text):
    first, _, rest = text.partition(" ")
    return f"I {first}ed {rest}".replace("eed ", "ed ") + " yesterday"


TALK = {
    "should": "should I {}?",
    "why": "why would I {}",
    "did": "did you {}?",
    "what if": "what happens if I {}",
    "when did": "when did I {}",
    "can I": "can I {}?",
    "must": "must I {}",
    "question": "{}?",
    "do not": "do not {}",
    "don't": "please don't {}",
    "never": "never {}",
    "you need not": "you need not {}",
    "no need": "no need to {}",
    "would rather not": "I would rather not {}",
    "did not": "I did not {}",
    "said": "she said I should {}",
    "told": "I was told to {} last week",
    "thanks": "thanks, but do not {}",
    "almost": "I almost had to {}",
    "was going": "I was going to {}",
    "had": "I had to {} yesterday",
    "forgot": "I forgot to {}",
    "past": past,
    "refused politely": "no thank you, please do not {}",
    "no need, thanks": "thanks, no need to {}",
    "someone said": "someone said: {}",
    "my wife wants": "my wife wants you to {}",
    "they say": "they say {}",
    "did she say": "did she say {}?",
    "already": "I have already asked to {}",
}
STATEMENTS = {"said", "told", "almost", "was going", "had", "forgot", "past", "would rather not", "thanks"}
STATEMENTS |= {"refused politely", "someone said", "my wife wants", "they say", "already"}
"""What may well be the text of a note, before "remember that": it adds something then, and changes nothing ever."""


def test_every_intent_that_does_more_than_read_is_declared_so(tmp_path):
    prepare_home(tmp_path)
    app = App(Config(tmp_path, memory=MemoryConfig(embeddings="off")), SimBoard())
    try:
        for name, intent in SHIPPED["intents"].items():
            if intent.get("tool", "first_run") == "first_run":
                continue
            tool, action = intent["tool"], intent.get("arguments", {}).get("action", "")
            declared = bool(intent.get("acts") or intent.get("adds"))
            assert declared == ((tool, action) not in READS), name
            if not declared and tool in app.toolset.names:
                required = {"sensor_history": {}, "read_file": {"path": "x"}, "memory_search": {"query": "x"}}
                given = {k: v for k, v in intent.get("arguments", {}).items() if k[0] != "_"} | required.get(tool, {})
                given |= {"address": 0x76, "register": 1} if action == "read" else {}
                given |= {"side": "above", "limit": 1.0} if tool == "sensor_excursions" else {}
                assert app.toolset.effect(ToolCall("1", tool, given)) == "read", name
    finally:
        app.close()


EXACT_OF = {"cron_skip_called": "cron_pause_until", "cron_pause_called": "cron_pause", "cron_pause_one": "cron_pause"}
"""Of what names its job by a word, an exact sentence has the number."""


def test_every_order_names_a_sentence_that_works():
    for name, intent in SHIPPED["intents"].items():
        looked_up = intent.get("defaults", {}) | dict(intent.get("make") or {})
        if "after" in intent or "_called" in looked_up:
            continue  # test_intents_talk.py; the other needs the list first
        if intent.get("acts") or intent.get("adds"):
            match = INTENTS.match(intent["exact"], TOOLS)
            assert (match.intent, match.missing) == (EXACT_OF.get(name, name), ""), name
        else:
            assert "exact" not in intent


@pytest.mark.sweep
def test_most_templates_make_an_order():
    doing = set()
    for name, text in ORDERS:
        if name not in doing and acts(text):
            doing.add(name)
    looks_first, asks = {"cron_remove_only", "rule_pause_output"}, {"output_all_night"}
    assert doing | looks_first | asks == {name for name, _ in ORDERS}
    tried = sweep.sample(ORDERS, 12)
    assert sum(bool(acts(text)) for _, text in tried) > len(tried) * 0.7


COULD_HAVE = ("could i have", "could we have")
REQUESTS = ("can you", "could you", "will you", "would you", *COULD_HAVE)
"""Words that ask for something to be done, with a question mark, too."""


@pytest.mark.sweep
@pytest.mark.parametrize("kind", TALK)
def test_talk_about_an_order_does_nothing(kind):
    """Each order of the data as a question, with a "not", in the past and as what somebody has said."""
    make = TALK[kind] if callable(TALK[kind]) else TALK[kind].format
    for name, text in ORDERS[list(TALK).index(kind) % EACH :: EACH]:
        if kind in STATEMENTS and SHIPPED["intents"][name].get("adds") and text.startswith(TEXTS):
            continue
        if any(words in text for words in {"question": REQUESTS, "can I": COULD_HAVE}.get(kind, ())):
            continue
        done = acts(make(text))
        forgets = name == "memory_forget" or text.startswith("forget ")
        if forgets and kind in {"do not", "don't", "never"} and done and done.name == "memory_store":
            continue  # "never forget the key is under the mat" asks for a note
        assert done is None or not acts(text), (name, make(text), done)


# --- sentences of our own: what is said, the call that it makes, or how the answer begins ---


def told(quantity, **when):
    """A job that tells a reading."""
    return {"action": "add", "kind": "tool", "message": f'sensor_read {{"quantity": "{quantity}"}}', **when}


def rule(when):
    """A rule that tells, on a quantity alone: its sensor is found by the tool."""
    return {"action": "add", "when": when, "notify": when}


COLD = {"action": "add", "when": "greenhouse.temperature below 5", "notify": "greenhouse: temperature below 5"}
CONDITION, UNMEASURED = "I have set nothing.", "I don't measure that."
LEFT, SEVERAL, NEAR, WITHOUT = "I have left ", "I have left the reminders", "I have done nothing", refusals()
OWN = [
    ("remind me every hour to feed the cat until 6 pm", "I have set nothing. A reminder that repeats ends on a day"),
    ("should I cancel reminder 16?", LEFT),
    ("is it time to cancel reminder 16", LEFT),
    ("is reminder 12 still on?", ("cron", {"action": "get", "job": 12})),
    ("do I have a reminder 4?", ("cron", {"action": "get", "job": 4})),
    ("when does reminder 5 go off", ("cron", {"action": "get", "job": 5})),
    ("please keep reminder 20", LEFT),
    ("keep reminder 20 but cancel 21", LEFT),
    ("thanks for reminder 22", "You're welcome."),
    ("thank you, reminder 22 was useful", LEFT),
    ("what is number 4", WITHOUT),
    ("cancel reminder 3 or 4", LEFT),
    ("cancel reminder 3, no wait", LEFT),
    ("cancel reminder 3 tomorrow", LEFT),
    ("cancel reminder 3 if it rains", LEFT),
    ("cancel reminder 3 unless anna comes", LEFT),
    ("cancel all reminders", ("cron", {"action": "list"})),
    ("cancel every reminder please", ("cron", {"action": "list"})),
    ("cancel the third reminder", SEVERAL),
    ("cancel my reminder", ("cron", {"action": "list"})),
    ("stop the timer", ("cron", {"action": "list"})),
    ("did you stop the timer", WITHOUT),
    (
        "remind me every monday to check the filter",
        ("cron", {"action": "add", "cron_expr": "0 9 * * 1", "message": "check the filter"}),
    ),
    (
        "remind me on weekdays to take my pills",
        ("cron", {"action": "add", "cron_expr": "0 9 * * 1-5", "message": "take my pills"}),
    ),
    ("remind me every monday to be at work at 6", NEAR),
    (
        "remind me every day to feed the cat",
        ("cron", {"action": "add", "cron_expr": "0 9 * * *", "message": "feed the cat"}),
    ),
    ("remind me on mondays and fridays to feed the cat", "When?"),
    ("remind me on mondays, wednesdays and fridays to feed the cat", "When?"),
    ("cancel my next reminder", "Which one?"),
    ("cancel the reminder about the soup", ("cron", {"action": "list"})),
    ("I cancelled reminder 3 yesterday", LEFT),
    ("reminder 3 was cancelled", LEFT),
    ("reminder 3 is done", LEFT),
    ("mark reminder 3 as done", LEFT),
    ("I no longer need reminder 3", LEFT),
    ("forget about reminder 3", LEFT),
    ("anna said to cancel reminder 3", LEFT),
    ("he told me to remove reminder 3", LEFT),
    ("don't cancel reminder 3", LEFT),
    ("please do not delete reminder 3", LEFT),
    ("did you delete reminder 3", LEFT),
    ("who deleted reminder 3?", LEFT),
    ("why is reminder 3 paused", LEFT),
    ("would you cancel reminder 3 if you were me?", LEFT),
    ("can reminder 3 be cancelled?", LEFT),
    ("cancel reminder 3?", LEFT),
    ("maybe cancel reminder 3", LEFT),
    ("let's cancel reminder 3", LEFT),
    ("cancel reminder 3", ("cron", {"action": "remove", "job": 3})),
    ("Cancel reminder number three, please.", ("cron", {"action": "remove", "job": 3})),
    ("could you delete reminder #3?", ("cron", {"action": "get", "job": 3})),
    ("remove alarm 7 thanks", ("cron", {"action": "remove", "job": 7})),
    ("take reminder 4 off the list", ("cron", {"action": "remove", "job": 4})),
    ("cancel task 3", WITHOUT),
    ("complete task 2", WITHOUT),
    ("delete skill greenhouse", WITHOUT),
    ("remove the greenhouse skill", WITHOUT),
    ("disable the reminders skill", WITHOUT),
    ("pause reminder 3", ("cron", {"action": "disable", "job": 3})),
    ("turn off reminder 3", ("cron", {"action": "disable", "job": 3})),
    ("stop reminder 3", ("cron", {"action": "disable", "job": 3})),
    ("pause reminder 3 until tomorrow", ("cron", {"action": "skip", "job": 3, "at": "until tomorrow"})),
    ("is reminder 3 paused?", ("cron", {"action": "get", "job": 3})),
    ("resume reminder 3", ("cron", {"action": "enable", "job": 3})),
    ("should I resume reminder 3", LEFT),
    ("snooze reminder 10", ("cron", {"action": "snooze", "job": 10, "at_seconds": 600})),
    ("Snooze reminder 10 for half an hour, please", ("cron", {"action": "snooze", "job": 10, "at_seconds": 1800})),
    ("postpone reminder 4 by two hours", ("cron", {"action": "snooze", "job": 4, "at_seconds": 7200})),
    ("put off reminder 4 for a day", ("cron", {"action": "snooze", "job": 4, "at_seconds": 86_400})),
    ("push reminder 4 back by 15 minutes", ("cron", {"action": "snooze", "job": 4, "at_seconds": 900})),
    ("postpone reminder 4", "For how long?"),
    ("snooze my reminder", "Which one, and for how long?"),
    ("snooze reminder 4 and not 5", LEFT),
    ("can I snooze reminder 10?", LEFT),
    ("did I snooze reminder 10", LEFT),
    ("change reminder 6 to 9:00", ("cron", {"action": "move", "job": 6, "at": "09:00"})),
    ("set reminder 13 to 10:00", ("cron", {"action": "move", "job": 13, "at": "10:00"})),
    ("move reminder 2 to tomorrow at 8", ("cron", {"action": "move", "job": 2, "at": "tomorrow 08:00"})),
    ("postpone reminder 2 to friday at 8", ("cron", {"action": "move", "job": 2, "at": "friday 08:00"})),
    ("reschedule reminder 2 for 18:30", ("cron", {"action": "move", "job": 2, "at": "18:30"})),
    ("move reminder 2 to every day at 8", ("cron", {"action": "move", "job": 2, "cron_expr": "0 8 * * *"})),
    ("change the time of reminder 2 to 7 pm", ("cron", {"action": "move", "job": 2, "at": "19:00"})),
    ("reschedule reminder 2", "To when?"),
    ("change reminder 6", LEFT),
    ("change reminder 6 to feed the cat", LEFT),
    ("move reminder 2 to 8 or 9", LEFT),
    ("should reminder 2 move to 8:00?", LEFT),
    ("delete rule 2", ("rule", {"action": "remove", "name": "2"})),
    ("should I delete rule 2?", LEFT),
    ("please keep rule 2", LEFT),
    ("thanks for rule 2", "You're welcome."),
    ("I deleted rule 2 yesterday", LEFT),
    ("delete rule 2 and 3", LEFT),
    ("don't delete rule 2", LEFT),
    ("delete all rules", "I have left the rules as they are."),
    ("forget the note about the fuse", ("memory_forget", {"text": "the fuse"})),
    ("should I forget the note about the fuse?", WITHOUT),
    ("forget the note about the fuse?", WITHOUT),
    ("I forgot the note about the fuse", ("memory_search", {"query": "fuse"})),
    ("please keep the note about the fuse", WITHOUT),
    ("thanks for the note about the fuse", "You're welcome."),
    ("forget it", "All right."),
    ("forget everything", WITHOUT),
    ("should I change the note about the fuse to: 5 A?", WITHOUT),
    ("I changed the note about the fuse to: 5 A", WITHOUT),
    ("should I set a reminder for 5 pm to feed the cat", WITHOUT),
    ("did I set a reminder for 5 pm", ("cron", {"action": "list"})),
    (
        "can you remind me at 5 pm to feed the cat?",
        ("cron", {"action": "add", "at": "17:00", "message": "feed the cat"}),
    ),
    ("you said you would remind me at 5 pm", "I have done nothing: that was no"),
    ("don't remind me at 5 pm to feed the cat", "I have changed nothing: what was set stays"),
    ("should I turn the pump off?", WITHOUT),
    ("thanks for turning the pump off", "You're welcome."),
    ("please keep the pump on", ("output", {"action": "list"})),
    ("the pump is off", WITHOUT),
    ("turn the pump off", ("output", {"action": "off", "name": "pump"})),
    (
        "alert me if it gets colder than 5°C tonight",
        ("rule", {"action": "add", "when": "temperature below 5", "notify": "temperature below 5"}),
    ),
    (
        "warn me if humidity is above 80 tomorrow",
        ("rule", {"action": "add", "when": "humidity above 80", "notify": "humidity above 80"}),
    ),
    ("tell me when it drops below 5 tonight", "Which sensor?"),
    ("let me know as soon as the door opens", CONDITION),
    ("remind me when I get home", CONDITION),
    ("notify me once the tank is full at 8", CONDITION),
    ("if it gets below 5 tonight tell me", "Which sensor?"),
    ("turn on the fan at 6 if it is hot", CONDITION),
    ("remind me at 6 if I forget", CONDITION),
    ("alert me if it gets colder than 5°C", ("rule", rule("temperature below 5"))),
    ("tell me if the humidity is above 80", ("rule", rule("humidity above 80"))),
    ("tell me when the pressure is below 990", ("rule", rule("pressure below 990"))),
    ("alert me when the temperature drops below 5 degrees", ("rule", rule("temperature below 5"))),
    ("warn me when the co2 gets above 1000 ppm", ("rule", rule("co2 above 1000"))),
    ("tell me when it gets above 35", "Which sensor?"),
    ("alert me if the greenhouse gets colder than 5°C", ("rule", COLD)),
    ("every morning at 7 tell me the temperature", ("cron", told("temperature", cron_expr="0 7 * * *"))),
    ("tell me the humidity every hour", ("cron", told("humidity", every_seconds=3600))),
    ("at 7 tell me how warm it is", ("cron", told("temperature", at="07:00 o'clock"))),
    ("give me the air pressure in 10 minutes", ("cron", told("pressure", at_seconds=600))),
    ("every day at 8 tell me a joke", WITHOUT),
    ("remind me at 8 or 9 to take pills", "When?"),
    ("remind me at 9 about 3 and 4", NEAR),
    ("soil moisture", ("sensor_read", {"sensor": "soil", "quantity": "humidity"})),
    ("is the soil dry?", ("sensor_read", {"sensor": "soil", "quantity": "humidity"})),
    ("water temperature", ("sensor_read", {"sensor": "water", "quantity": "temperature"})),
    ("what is the water temperature in the tank", ("sensor_read", {"sensor": "tank", "quantity": "temperature"})),
    ("is the door open?", UNMEASURED),
    ("is the window shut", UNMEASURED),
    ("what's your ip address", ("board_status", {})),
    ("wind speed", UNMEASURED),
    ("what is the uv index", UNMEASURED),
    ("how cold is it going to get tonight", "I don't forecast."),
    ("what do I need to buy", ("memory_search", {"query": "shopping list"})),
    ("pause the fan rule", ("rule", {"action": "pause", "name": "fan"})),
    ("resume rule frost", ("rule", {"action": "resume", "name": "frost"})),
    ("pause that rule", ("rule", {"action": "list"})),  # the only one, or which
    ("is the fan rule paused", WITHOUT),
    ("turn off rule 1", ("rule", {"action": "pause", "name": "1"})),
    ("what's the min max today", ("sensor_history", {"when": "today"})),
    ("add eggs to the list", ("memory_store", {"text": "shopping list: eggs"})),
    ("remove eggs from the list", ("memory_forget", {"text": "shopping list: eggs"})),
    ("how's your memory", ("board_status", {})),
    ("please never switch the light off at night", "I have changed nothing: what was set stays"),
    ("would you mind not turning the fan on tonight", "I have changed nothing: what was set stays"),
    ("how many times did the fan come on today", ("output_history", {"name": "fan", "when": "today"})),
    ("did you turn the light on?", ("output_history", {"name": "light"})),
    ("min and max in the greenhouse today pls", ("sensor_history", {"sensor": "greenhouse", "when": "today"})),
    ("does the fan use a lot of power", WITHOUT),
    ("water the tomatoes for 2 min", ("output", {"action": "set", "name": "pump", "level": "on", "seconds": 120})),
    ("could you give the plants some water, please", "For how long?"),
    ("water the plants", "For how long?"),
    ("whats on the list", ("memory_search", {"query": "shopping list"})),
    ("is there anything waiting for my ok", "/approvals shows what waits"),
    ("yes please", "A plain yes answers nothing"),
    ("call me Sam", ("memory_store", {"text": "the owner is called Sam"})),
    ("can the fan run at night", "Now, for a while, or by a rule that repeats:"),
    ("what approvals are waiting", "/approvals shows what waits"),
    (
        "do not forget to remind me at 9:15 to phone mum",
        (
            "cron",
            {"action": "add", "at": "09:15", "message": "phone mum"},
        ),
    ),
    ("how has it been in the greenhouse today", ("sensor_history", {"sensor": "greenhouse", "when": "today"})),
    ("will it be warm tomorrow?", "I don't forecast."),
    ("is it damper inside than outside", ("sensor_read", {"quantity": "humidity", "sensor": "greenhouse"})),
    ("when did it get coldest today", ("sensor_history", {"quantity": "temperature", "when": "today"})),
    ("who has the spare key?", ("memory_search", {"query": "spare key"})),
    ("when was the pump filter cleaned", ("memory_search", {"query": "pump filter"})),
    (
        "every weekday at 6:45 wake me up",
        ("cron", {"action": "add", "message": "Wake up!", "cron_expr": "45 6 * * 1-5"}),
    ),
    (
        "warn me when the humidity outside is over 90 for 10 minutes",
        (
            "rule",
            {
                "action": "add",
                "when": "outside.humidity above 90 for 10 minutes",
                "notify": "outside: humidity above 90 for 10 minutes",
            },
        ),
    ),
    ("how loud is it", UNMEASURED),
    ("how warm was it an hour ago?", ("sensor_history", {"quantity": "temperature", "when": "1 hour ago"})),
    ("every night at 2 tell me the temperature", ("cron", told("temperature", cron_expr="0 2 * * *"))),
    ("every day at 6 tell me the temperature", ("cron", told("temperature", cron_expr="0 6 * * *"))),
    ("remind me to get up at 6 tomorrow", ("cron", {"action": "add", "at": "tomorrow 06:00", "message": "get up"})),
    ("remind me at 6 to feed the cat", ("cron", {"action": "add", "at": "06:00 o'clock", "message": "feed the cat"})),
    ("remind me tonight at 2 to look", ("cron", {"action": "add", "at": "02:00", "message": "look"})),
    (
        "remind me every 30 minutes from 9 to 17 to drink",
        ("cron", {"action": "add", "cron_expr": "0 9,10,11,12,13,14,15,16,17 * * *", "message": "drink"}),
    ),
    (
        "remind me daily at 9am, 1pm and 6pm to stretch",
        ("cron", {"action": "add", "cron_expr": "0 9,13,18 * * *", "message": "stretch"}),
    ),
    ("remind me at 9 only if it is sunny to water", CONDITION),
    ("remind me at 9 to water provided it is dry", CONDITION),
    ("should it be cold, remind me at 9 to cover the plants", CONDITION),
    ("remind me at 9 to bring the umbrella in case it rains", CONDITION),
    ("remind me at 9 depending on the weather to water", CONDITION),
    ("remind me at 9 to mow the lawn, weather permitting", CONDITION),
    ("warn me tonight about temperatures below 3", CONDITION),
    ("notify me tonight about frost", CONDITION),
    (
        "remind me at 21:00 to check if the door is closed",
        ("cron", {"action": "add", "at": "21:00", "message": "check if the door is closed"}),
    ),
    ("put reminder 1 off by an hour", ("cron", {"action": "snooze", "job": 1, "at_seconds": 3600})),
    ("push reminder 6 to thursday", ("cron", {"action": "move", "job": 6, "at": "thursday"})),
    ("reminder 3 at 9", LEFT),
    ("reminder 3 tomorrow", LEFT),
    ("cancel reminder -1", SEVERAL),
    ("> cancel reminder 1", LEFT[:6]),
    ('"cancel reminder 1"', LEFT[:6]),
    ("'cancel reminder 1'", LEFT[:6]),
    ("can you remove reminder 1?", ("cron", {"action": "get", "job": 1})),
    ("could you please delete reminder 1", ("cron", {"action": "get", "job": 1})),
    ("could you please delete rule 1", ("rule", {"action": "remove", "name": "1"})),  # a yes is asked for
    ("could you delete rule 1?", LEFT),
    ("how humid is the soil in the greenhouse", ("sensor_read", {"sensor": "soil greenhouse", "quantity": "humidity"})),
    (
        "what's the temperature outside and in the greenhouse",
        ("sensor_read", {"sensor": "outside", "quantity": "temperature"}),
    ),
    ("is the greenhouse door open", UNMEASURED),
    ("how many plants are in the greenhouse", UNMEASURED),
    ("what is my temperature", UNMEASURED),
    ("how much water is in the tank", UNMEASURED),
    ("how much oil is left in the tank?", UNMEASURED),
    ("how much rain fell in the garden", UNMEASURED),
    ("is there water in the tank", UNMEASURED),
    ("how full is the tank", UNMEASURED),
    ("is the tank empty?", UNMEASURED),
    ("how is the tank", ("sensor_read", {"sensor": "tank"})),
    ("how much light is in the greenhouse", ("sensor_read", {"quantity": "light", "sensor": "greenhouse"})),
    ("how much heat is in the attic", ("sensor_read", {"quantity": "temperature", "sensor": "attic"})),
    ("is there frost in the greenhouse?", ("sensor_read", {"quantity": "temperature", "sensor": "greenhouse"})),
    ("humidity 20 minutes ago", ("sensor_history", {"quantity": "humidity", "when": "20 minutes ago"})),
]


@each_row(("text", "expected"), OWN, ids=[case[0] for case in OWN])
def test_a_sentence_acts_or_says_that_it_does_not(text, expected):
    request = Request("", (Message("user", text),), tuple({"name": name} for name in sorted(TOOLS)), 100, 0.0)
    first = next(INTENTS.events(request))
    if isinstance(first, ToolCall):
        assert (first.name, first.arguments) == expected
    else:
        assert expected is WITHOUT or isinstance(expected, str), first.text
        assert first.text.startswith(expected)
