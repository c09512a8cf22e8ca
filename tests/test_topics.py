"""What a question is about, as the classifier tells it: the weights that ship, and what is answered by them."""

import random
import sys

import pytest
import sweep
from bench import strangers
from bench.topics import OFFERED, list_features, list_lines, make_matcher, spell_out
from bench.topics import make_provider as make_greenhouse
from rows import each_row
from test_intents_languages import answer, home, make_provider  # noqa: F401 - a fixture

from picoclaw.messages import Message, Request, Text, ToolCall

LANGUAGES = ("en", "de", "es", "fr")
NAMES = dict.fromkeys(("fan", "pump"), "output") | dict.fromkeys(("greenhouse", "outdoor", "soil"), "sensor")


@pytest.fixture(scope="module")
def provider(home):  # noqa: F811
    return make_provider(home, declared=NAMES)


@each_row("language", LANGUAGES)
def test_the_weights_are_those_of_the_sentences(language):
    """Sentences that were trained on are told, so that nobody edits them without training; each topic can be answered."""
    matcher, chance, right = make_matcher(language), random.Random(1), []
    rows = [(topic, line) for _, topic, line in list_lines(language)]
    for topic, line in rows[:: 1 + len(rows) // 150]:
        text = spell_out(line, chance)[0]
        right.append(matcher._classifier.score(list_features(matcher, text))[0][1] == topic)
    assert sum(right) > 0.85 * len(right)


TALK_TOPICS = frozenset({"remark", "not_wanted", "reported", "advice"})


@pytest.mark.sweep
@pytest.mark.parametrize("language", LANGUAGES)
def test_talk_about_orders_does_nothing(language):
    """Nothing acts or is kept; what is proposed to it confuses, so that there is little of it."""
    board, told, proposed = make_greenhouse(), [], 0
    board._usual = lambda: language
    lines = [(source, text) for source, topic, text in list_lines(language) if topic in TALK_TOPICS]
    for source, text in sweep.sample(lines, 8):
        if source[-1:].isdigit():
            message = Message("user", f"<moment>Thursday 2026-05-14 12:00</moment>\n{text}")
            for _, match in board.understand(Request("", (message,), OFFERED, 100, 0.0)):
                moves = match and match.tool and board._matcher.intents[match.intent].kind
                proposed += bool(moves and match.route == "proposal" and match.arguments)
                told += [text] if moves and not match.missing else []
    assert told == []
    assert proposed < 5


NODS = {"en": ("yes", "no"), "de": ("ja", "nein"), "es": ("sí", "no"), "fr": ("oui", "non")}
ASKED = [
    ("en", "The pump must stop immediately, there's water all over the floor", [("output", {"action": "off", "name": "pump"})]),
    ("en", "tomorrow morning first thing, 6:45, tell me to feed the chooks", [("cron", {"action": "add", "at": "tomorrow 06:45", "message": "feed the chooks"})]),
    ("fr", "Le 15 juin à midi, il y a les oliviers à traiter, préviens-moi", [("cron", {"action": "add", "at": "15 june 12:00", "message": "oliviers à traiter"})]),
    ("en", "That fan is driving me nuts make it stop", [("output", {"action": "off", "name": "fan"})]),
    ("en", "For half an hour give them a bit of heat, the heater I mean", [("output", {"action": "set", "level": "on", "name": "heater", "seconds": 1800})]),
]  # fmt: skip


@each_row(("language", "text", "calls"), ASKED, ids=[text for _, text, _ in ASKED])
def test_an_order_in_other_words_is_proposed_and_done_after_a_yes(language, text, calls):
    """A "no", or anything else, drops it."""

    def ask(*texts):
        board, messages = make_greenhouse(), []
        board._usual = lambda: language
        for one in texts:
            messages.append(Message("user", f"<moment>Thursday 2026-05-14 12:00</moment>\n{one}"))
            events = list(board.events(Request("", tuple(messages), OFFERED, 100, 0.0)))
            found = [(event.name, event.arguments) for event in events if isinstance(event, ToolCall)]
            said = "".join(event.text for event in events if isinstance(event, Text))
            messages.append(Message("assistant", said))
        return found, said

    found, said = ask(text)
    yes, no = NODS[language]
    assert not found
    assert said.startswith(make_matcher(language).say["meant"].partition("{")[0])
    assert ask(text, yes)[0] == calls
    assert not ask(text, no)[0]
    assert not ask(text, "what is 3 times 4", yes)[0]


PROPOSED_RULE = "every evening around 8 let the lamp burn for two hours, mate"


@each_row("nod", ["yes", "no"])
def test_what_is_shown_and_waits_for_a_yes_is_not_proposed_before(tmp_path, nod):
    """One yes does it. Where the policy lets a rule be made without one, it is proposed first."""
    board, is_kept = tmp_path / nod, nod == "yes"
    strangers.make_home(board)
    rows = [{"say": text, "talk": "1"} for text in (PROPOSED_RULE, nod, "what rules are there")]
    shown, done, rules = (reply for _, reply in strangers.hold(board, rows))
    assert shown.startswith("Shall I keep this rule? lamp: every day at 20:00: switch lamp on for 2 h.")
    assert ("the rule is kept" in done, "every day at 20:00" in rules) == (is_kept, is_kept)
    (board / "policy.toml").write_text('[effects]\ninstruct = { owner = "allow" }\n', "utf-8")
    assert [reply.partition(":")[0] for _, reply in strangers.hold(board, rows[:1])] == [
        "I have done nothing yet. Do you mean"
    ]


def test_a_rule_that_waits_for_its_yes_is_listed_as_it_was_shown_last(tmp_path):
    """What it was shown as before is left out; another rule is not."""
    said = ("fan on if humidity in the greenhouse goes over 85", "make that 80", "is it on?", "what rules have I got")
    strangers.make_home(tmp_path / "board")
    rows = [{"say": text, "talk": "1"} for text in ("lamp on every day at 20:00 for 2 hours", *said)]
    *_, state, listed = (reply for _, reply in strangers.hold(tmp_path / "board", rows))
    assert "/yes 3 keeps it as it was shown" in state
    assert [row.partition(" waits for your yes")[0] for row in listed.splitlines()] == ["no rules", "1", "3"]
    assert "is above 80 %" in listed


def test_a_quantity_that_the_place_before_has_not_is_told_of_another(tmp_path):
    """Where the place is named, it is said that it has none."""
    strangers.make_home(tmp_path)
    said = ("how humid is it outside", "and is the pressure rising or falling", "what is the pressure outside")
    _, told, named = (reply for _, reply in strangers.hold(tmp_path, [{"say": text, "talk": "1"} for text in said]))
    assert told.startswith("greenhouse pressure in the last 3 hours: ")  # rising or falling is a matter of the hour
    assert named.startswith("No sensor here measures the pressure of 'outside'")


def test_of_two_outputs_what_failed_is_told_beside_what_was_done(tmp_path):
    strangers.make_home(tmp_path)
    said = ("fan on for 10 minutes", "switch the fan and the lamp on for an hour")
    *_, told = (reply for _, reply in strangers.hold(tmp_path, [{"say": text, "talk": "1"} for text in said]))
    assert "fan may be on for 1 h" in told
    assert told.endswith("lamp is on for 1 h")


SAID = [
    (
        "how chilly did it get in the greenhouse overnight would you say",
        ("low", "greenhouse", "temperature", "last night"),
    ),
    ("so what is the wettest the soil has been since monday", ("high", "soil", "humidity", "since monday")),
    ("was war der tiefste wert im gewächshaus letzte nacht", ("low", "greenhouse", "temperature", "last night")),
    (
        "durchschnittliche luftfeuchtigkeit im gewächshaus am wochenende",
        ("mean", "greenhouse", "humidity", "saturday to sunday"),
    ),
    ("qué temperatura más baja tuvimos anoche en el invernadero", ("low", "greenhouse", "temperature", "last night")),
]


BESIDE = [  # what a topic adds, the parts in any order, and the times that belong to them
    ("en", "coldest soil since the start of the month?", "sensor_history", {"sensor": "soil", "quantity": "temperature", "when": "this month"}),
    ("en", "Need the outdoor peak for my lab report, span is 1 May to 7 May", "sensor_history", {"sensor": "outdoor", "quantity": "temperature", "when": "1 may to 7 may"}),
    ("en", "The readings for outdoor humidity from 9 to 11 last night please", "sensor_history", {"sensor": "outdoor", "quantity": "humidity", "when": "last night from 21:00 to 23:00"}),
    ("en", "Between 1 and 3 pm did the outdoor temp exceed thirty", "sensor_history", {"sensor": "outdoor", "quantity": "temperature", "when": "from 13:00 to 15:00"}),
    ("en", "how warm was it outside at four on Thursday", "sensor_history", {"sensor": "outdoor", "quantity": "temperature", "when": "thursday at 16:00"}),
    ("en", "How often has the soil been below 30 percent since the first?", "sensor_excursions", {"sensor": "soil", "quantity": "humidity", "when": "this month", "side": "below", "limit": "30"}),
    ("en", "At what hour was the outdoor temperature the highest yesterday?", "sensor_history", {"sensor": "outdoor", "quantity": "temperature", "when": "yesterday"}),
    ("en", "Tell me if the glasshouse has been warming since sunrise", "sensor_history", {"sensor": "greenhouse", "quantity": "temperature", "when": "since 06:00"}),
    ("en", "Averaged over the weekend, how warm was it outdoors?", "sensor_history", {"sensor": "outdoor", "quantity": "temperature", "when": "saturday to sunday"}),
    ("en", "how warm was it outside on Thursday at four", "sensor_history", {"sensor": "outdoor", "quantity": "temperature", "when": "thursday at 16:00"}),
    ("de", "wie warm war es draußen am Freitag um vier", "sensor_history", {"sensor": "outdoor", "quantity": "temperature", "when": "friday at 16:00"}),
]  # fmt: skip


@each_row(("language", "text", "tool", "given"), BESIDE, ids=[text for _, text, *_ in BESIDE])
def test_a_question_in_any_words_is_answered_by_its_parts(language, text, tool, given):
    board = make_greenhouse()
    board._usual = lambda: language
    message = Message("user", f"<moment>Thursday 2026-05-14 12:00</moment>\n{text}")
    ((_, match),) = board.understand(Request("", (message,), OFFERED, 100, 0.0))
    assert (match.tool, {name: one for name, one in match.arguments.items() if name != "chart"}) == (tool, given)


@each_row(("text", "wanted"), SAID, ids=[text for text, _ in SAID])
def test_a_question_is_read_by_what_it_is_about(provider, text, wanted):
    figure, sensor, quantity, when = wanted
    match = provider.match(text, {"sensor_history"})
    assert (match.tool, match.arguments) == ("sensor_history", {"sensor": sensor, "quantity": quantity, "when": when})
    assert match.said["_figure"] == figure


@each_row(
    "text",
    [
        "what was the greenhouse like between 2 and 5 on the 3rd",  # of which nothing was read
        "how warm is it in timbuktu",
        "my neighbour says it is warm in his greenhouse",
        "the pump was loud last night",
    ],
)
def test_what_was_not_read_whole_is_no_question(provider, text):
    match = provider.match(text, {"sensor_read", "sensor_history", "output", "output_history"})
    assert match is None or not match.tool


TALK = [
    (["fan on", "and off at nine tonight"], "cron", {"action": "add", "kind": "tool", "at": "21:00"}),
    (["fan on", "that will do"], "output", {"action": "off", "name": "fan"}),
    (["fan on", "for 20 minutes only"], "output", {"action": "set", "name": "fan", "seconds": 1200}),
    (["Lüfter an", "doch wieder aus"], "output", {"action": "off", "name": "fan"}),
    (["allume le ventilateur", "ça suffit"], "output", {"action": "off", "name": "fan"}),
    (["remind me at 20:45 to feed the cat", "every tuesday please"], "cron", {"action": "move", "cron_expr": "45 20 * * 2"}),
    (["erinnere mich um 7 ans Lüften", "und das bitte an jedem Werktag"], "cron", {"cron_expr": "0 19 * * 1-5"}),
    (["todo: seal the window"], "memory_store", {"text": "todo list: seal the window"}),
    (["schalte den Lüfter um 18 Uhr ein"], "cron", {"action": "add", "at": "18:00"}),
    (
        ["when the soil humidity is below 30 run the pump for 2 minutes", "make it 35"],
        "rule",
        {"when": "soil.humidity below 35", "options": {"lasts": "2 minutes"}},
    ),
]  # fmt: skip


@each_row(("lines", "tool", "arguments"), TALK, ids=[lines[-1] for lines, _, _ in TALK])
def test_what_was_spoken_of_is_gone_on_with(provider, lines, tool, arguments):
    (name, given), *more = answer(provider, *lines)
    assert not more
    assert (name, {key: given.get(key) for key in arguments}) == (tool, arguments)
    assert "notify" not in given


def test_a_long_talk_costs_no_more_with_each_message(tmp_path):
    """An answer depends on how the messages before it were understood; each of them is read again once. Counted in calls."""
    strangers.make_home(tmp_path)
    texts = ["lamp at 60%", *["dim the lamp", "turn the lamp down a bit"] * 4]
    counts, calls = [], 0

    def count(_frame, event, _arg):
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        for _ in strangers.hold(tmp_path, [{"say": text, "talk": "1"} for text in texts]):
            counts.append(calls)
            calls = 0
    finally:
        sys.setprofile(None)
    assert max(counts[7:]) < 1.5 * max(counts[3:7]), counts
