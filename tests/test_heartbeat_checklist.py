"""HEARTBEAT.md as people write it: what counts as a line, which times and conditions are understood, what is named."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from rows import each_row

from picoclaw.automation import checklist
from picoclaw.automation.conditions import FileCondition, Missing, Threshold, parse_check
from picoclaw.files import find_shipped
from picoclaw.store.samples import Series

BERLIN = ZoneInfo("Europe/Berlin")


def texts(text):
    return [item.text for item in checklist.parse_checklist(text).items]


@each_row(
    ("text", "items"),
    [
        ("", []),
        ("\n \n\t\n", []),
        ("# Only a heading\n\n## And another\n---\n***\n", []),
        ("<!--\n- a comment\n-->\n", []),
        ("look at the tank", ["look at the tank"]),
        ("look at the tank\nlook at the pump", ["look at the tank", "look at the pump"]),
        ("- [ ] open\n- [x] done\n- [X] done\n* [✓] done\n- []open too", ["open", "[]open too"]),
        ("- one\n* two\n+ three\n1. four\n2) five\n• six", ["one", "two", "three", "four", "five", "six"]),
        ("- a line\n  that goes on\n\n  and on\n- another", ["a line that goes on and on", "another"]),
        ("- check these:\n  - tank\n  - pump", ["check these: - tank - pump".replace("- ", "")]),
        ("- [x] done:\n  - with this\n  - [ ] but not this", ["but not this"]),
        ("- see\n```\n# no heading\n- no item\n```\n- next", ["see # no heading no item", "next"]),
        ("- a <!-- hidden --> b", ["a b"]),
        ("- a\u200b b\r\n- c\r\n", ["a b", "c"]),
        ("- [ ]\n- [x]\n-", []),
        ("Garden\n======\n- a\n\nShed\n----\n- b\nc\nd\n---\n", ["a", "b c d"]),
        ("---\ntitle: Mine\ntags:\n  - x\n---\n- a", ["a"]),
        ("---\n- a\n---\n- b", ["a", "b"]),
        ("| what | when |\n|---|---|\n| water | daily |\n- a | b", ["a | b"]),
        ("☑ done\n- ☑ done\n✅ done\n- ✔ done\n☐ open\n- ☐ open too", ["open", "open too"]),
        ("- [x]Done\n- [X]Done\n- [x](http://a) link\n- [x]: b", ["[x](http://a) link", "[x]: b"]),
    ],
)
def test_what_counts_as_a_line(text, items):
    assert texts(text) == items


ORDINARY = """# Heartbeat Check List

This file contains tasks for the heartbeat service to check periodically.

## Examples

- Check for unread messages
- Review upcoming calendar events

## Instructions

- Execute ALL tasks listed below. Do NOT skip any task.
- For simple tasks, respond directly.
- Only respond with HEARTBEAT_OK when nothing needs attention.

---

Add your heartbeat tasks below this line:

- Look at the tank every morning
- [ ] Check whether the pump runs
"""


@each_row(
    ("text", "items", "instructions", "answer"),
    [
        (ORDINARY, ["Look at the tank", "Check whether the pump runs"], 6, ""),
        (ORDINARY.replace("- [ ]", "-"), ["Look at the tank", "Check whether the pump runs"], 6, ""),
        ("- a\n- b\nOnly tell me if something is wrong.", ["a", "b"], 1, ""),
        ("Be brief.\n\n- [ ] a\n\nWrite in German.", ["a"], 2, ""),
        ('- a\n- If everything is fine, answer "All good" only.', ["a"], 1, "All good"),
        ("- a\n\nAnswer: **Quiet here**", ["a"], 1, "Quiet here"),
        ("- a\n- When nothing needs attention, reply ALL QUIET.", ["a"], 1, "ALL QUIET"),
        ("look around\nIf all is well, reply with `fine`", ["look around"], 1, "fine"),
        ('- [ ] If the door is open, say "close it"', ['If the door is open, say "close it"'], 0, ""),
        ('- If the pump is off, reply "pump off"', ['If the pump is off, reply "pump off"'], 0, ""),
        ("## How to report\n- briefly\n- [ ] do this\n- this too (hourly)", ["do this", "this too"], 1, ""),
        ("look at the tank\nlook at the pump", ["look at the tank", "look at the pump"], 0, ""),
    ],
)
def test_instructions_are_no_items(text, items, instructions, answer):
    read = checklist.parse_checklist(text)
    said = [line for line in read.instructions.split("\n") if line and not line.endswith(":")]
    assert ([item.text for item in read.items], len(said), read.answer.replace("HEARTBEAT_OK", "")) == (
        items,
        instructions,
        answer,
    )


HOW = [
    "do not wake me at night",
    "never send more than one message",
    "Don't tell me about updates",
    "Please never write to me before noon",
    "Be brief",
    "Use Celsius",
    "No emails on sunday",
    "Not more than one message a day",
    "Only tell me about the tank if it is empty",
    "Keep answers short",
    "Answer in German",
    "Speak plainly",
    'Reply only "NOTHING" if all is well',
    "Remember: I am away in June",
    "I am away until monday",
    "Never disturb me between 22 and 7",
    "Never disturb me every night",
    "Do not wake me (weekends)",
]
WORK = [
    "Don't forget to feed the cat",
    "Remember to feed the cat",
    "note the level in log.md",
    "Answer the letters in inbox.txt",
    "Keep an eye on the freezer",
    "Tell me if no water is left",
    "Use up the milk (monday)",
]


@each_row("line", HOW)
def test_how_to_behave_is_an_instruction_and_no_item(line):
    read = checklist.parse_checklist(f"- {line}\n- look at the tank")
    assert ([item.text for item in read.items], read.instructions) == (["look at the tank"], f"- {line}")
    assert checklist.parse_checklist(line).instructions == line
    assert checklist.parse_checklist(f"## Shed\n- [ ] {line}\n").instructions == ""  # a box always makes an item


@each_row("line", WORK)
def test_work_that_begins_like_an_instruction_is_an_item(line):
    assert (len(checklist.parse_checklist(f"- {line}").items), checklist.parse_checklist(f"- {line}").instructions) == (
        1,
        "",
    )


@each_row(
    ("text", "items", "instructions"),
    [
        ("Keep it short:\n- pump\n- lamp", ["pump", "lamp"], "Keep it short:"),
        ("Never open:\n- the door\n- [ ] look", ["look"], "Never open:\n- the door"),
        ("# Do not touch\n- lamp\n\n# Shed\n- look", ["look"], "Do not touch:\n- lamp"),
        ("## Be polite\n\n## Shed\n- look", ["look"], "Be polite:"),
        ("- look\n\n| what | when |\n|---|---|\n| bins | monday |", ["look"], "| what | when |\n| bins | monday |"),
        ("| bins | monday |", [], "| bins | monday |"),
        ("- ~~old thing~~\n- look", ["look"], ""),
    ],
)
def test_no_line_is_lost(text, items, instructions):
    read = checklist.parse_checklist(text)
    assert ([item.text for item in read.items], read.instructions) == (items, instructions)


@each_row(
    ("line", "answer"),
    [
        ("Reply with ALL FINE when nothing is wrong.", "ALL FINE"),
        ("Answer NOTHING if nothing needs me.", "NOTHING"),
        ("If all is fine, say 'nothing today'.", "nothing today"),
        ("Respond with `NO NEWS` if there's nothing to report.", "NO NEWS"),
        ('- Reply only "NOTHING" if all is well', "NOTHING"),
        ("if everything is fine reply OK", "OK"),
        ("When there is nothing, respond “all good!”", "all good"),
        ("If the LED is on and all is well, say GREEN", "GREEN"),
        ("`QUIET` is the answer if there are no problems", "QUIET"),
        ("Should everything be in order, answer *fine*", "fine"),
        ("If nothing needs attention, reply with: all pumps fine", "all pumps fine"),
        ('Say "pump dry" if there is nothing in the tank', ""),
        ('If the door is open, say "nothing is wrong"', ""),
        ("Say nothing if all is well", ""),
        ("Reply in German", ""),
    ],
)
def test_the_answer_when_all_is_well_is_found_wherever_it_stands(line, answer):
    assert checklist.parse_checklist(f"- [ ] look\n{line}").answer == answer


@each_row(
    ("text", "plan"),
    [
        ("- Every morning look at it", ("cron", "0 8 * * *")),
        ("- look at it every 2 hours.", ("every", "7200")),
        ("- Hourly: look at it", ("every", "3600")),
        ("- look at it daily 7:30", ("cron", "30 7 * * *")),
        ("## Every morning\n- look at it", ("cron", "0 8 * * *")),
        ("## Shed (hourly)\n- look at it", ("every", "3600")),
        ("## Morning\n- [ ] look at it", ("cron", "0 8 * * *")),
        ("Do these every evening:\n\n- look at it", ("cron", "0 19 * * *")),
        ("## Shed (hourly)\n- look at it (weekly)", ("cron", "0 8 * * 1")),
        ("## Shed\n- look at it", None),
        ("## Every morning\n- x\n## Shed\n- look at it", None),
        ("## Daily\n- look at it when: greenhouse.temperature > 30", None),
    ],
)
def test_a_time_without_brackets_or_of_a_heading(text, plan):
    item = checklist.parse_checklist(text).items[-1]
    assert (item.text.lower(), item.timing and item.timing[:2]) == ("look at it", plan)


@each_row("text", ["Every pump must be off", "See that each lamp is on", "Tell me if it ran every day this week"])
def test_what_only_looks_like_a_time_is_words(text):
    assert checklist.parse_checklist(f"- {text}") == checklist.Checklist(
        (checklist.parse_checklist(f"- {text}").items[0],)
    )
    assert (texts(f"- {text}"), checklist.parse_checklist(f"- {text}").items[0].timing) == ([text], None)


@each_row("text", ["Every monday 7:00 to 9:00 look", "look every morning and evening at 7:00", "Daily 7 to 9 look"])
def test_two_times_without_brackets_are_named(text):
    read = checklist.parse_checklist(f"- {text}")
    assert "says more than one time or a span" in read.problems[0]
    assert read.items[0].text == text


def test_lines_keep_their_numbers_and_headings():
    read = checklist.parse_checklist("# Home\n<!--\n\n-->\n- a\n\n## Shed\n- [x] b\n- c\n#\n- d\n")
    assert [(item.line, item.heading) for item in read.items] == [(5, "Home"), (9, "Shed"), (11, "")]
    assert read.done == 1
    read = checklist.parse_checklist("---\na: b\n---\nGarden\n===\n| x |\n- c\n☑ d\n- [x]e\n")
    assert [(item.line, item.heading) for item in read.items] == [(7, "Garden")]
    assert read.done == 2


def test_a_line_stays_the_same_wherever_it_goes():
    one, two = checklist.parse_checklist("- a (hourly)\n- b").items
    moved = checklist.parse_checklist("# New\n- b\n\n- [ ] a (hourly)\n").items
    assert {one.key, two.key} == {item.key for item in moved}
    assert checklist.parse_checklist("- a (daily 7:00)").items[0].key != one.key


@each_row(
    ("words", "plan"),
    [
        ("hourly", ("every", "3600")),
        ("every hour", ("every", "3600")),
        ("every 2 hours", ("every", "7200")),
        ("every half hour", ("every", "1800")),
        ("every 5 min", ("every", "300")),
        ("every 3 days", ("every", "259200")),
        ("daily", ("cron", "0 8 * * *")),
        ("every day", ("cron", "0 8 * * *")),
        ("every morning", ("cron", "0 8 * * *")),
        ("mornings at 6:30", ("cron", "30 6 * * *")),
        ("every evening", ("cron", "0 19 * * *")),
        ("Daily 07:30", ("cron", "30 7 * * *")),
        ("every day at 7", ("cron", "0 7 * * *")),
        ("daily at 7pm", ("cron", "0 19 * * *")),
        ("at 12 am", ("cron", "0 0 * * *")),
        ("weekdays 8:00", ("cron", "0 8 * * 1-5")),
        ("weekends", ("cron", "0 8 * * 0,6")),
        ("weekly", ("cron", "0 8 * * 1")),
        ("mondays and fridays 18:30", ("cron", "30 18 * * 1,5")),
        ("every sunday", ("cron", "0 8 * * 0")),
        ("monday morning", ("cron", "0 8 * * 1")),
        ("every evening at 8", ("cron", "0 20 * * *")),
        ("every evening 8:30", ("cron", "30 20 * * *")),
        ("every night at 11", ("cron", "0 23 * * *")),
        ("nightly 1:00", ("cron", "0 1 * * *")),
        ("every afternoon at 3", ("cron", "0 15 * * *")),
        ("every evening 20:30", ("cron", "30 20 * * *")),
        ("every morning and evening", ("cron", "0 8,19 * * *")),
        ("daily 07:30, 19:30", ("cron", "30 7,19 * * *")),
        ("weekdays 8:00 and 18:00", ("cron", "0 8,18 * * 1-5")),
        ("at 7:30 on weekdays", ("cron", "30 7 * * 1-5")),
        ("every weekend at noon", ("cron", "0 12 * * 0,6")),
    ],
)
def test_times(words, plan):
    (item,) = checklist.parse_checklist(f"- do it ({words})").items
    assert (item.text, item.timing[:2]) == ("do it", plan)


@each_row("words", ["the big one", "see below", "2 l", "BME280", "mum's", "second shelf"])
def test_other_brackets_are_words(words):
    read = checklist.parse_checklist(f"- water it ({words})")
    assert (texts(f"- water it ({words})"), read.problems) == ([f"water it ({words})"], ())


@each_row(
    ("line", "problem"),
    [
        ("a (every minute)", "'every minute' is too often: every 5 minutes at most"),
        ("a (daily 25:00)", "'daily 25:00' is not a time of day, such as 6:00"),
        ("a (every now and then)", "'every now and then' is not a time picoclaw knows; write it like hourly"),
        ("a (7:30 sharp)", "'7:30 sharp' is not a time picoclaw knows"),
        ("a (every morning and evening at 7)", "says more than one time or a span; write one for each"),
        ("a (weekdays 8:00 and 18:30)", "need the same minute; write one for each"),
        ("a (daily 7.15)", "says more than one time or a span"),
        ("a (every day at 7 in the morning)", "says more than one time or a span"),
        ("a (every 2 mondays)", "says more than one time or a span"),
        ("a (monday - friday 8:00)", "says more than one time or a span"),
        ("a when: air.pressure > 1,013 hPa", "1,013 may be read in two ways"),
        ("a (hourly) when: t.light > 5 (daily)", "it has two times; leave one out"),
        ("a when: greenhouse > 35", "'greenhouse' names no sensor with a quantity, such as greenhouse.temperature"),
        ("a when: greenhouse.warmth > 35", "'greenhouse.warmth' names no sensor with a quantity, such as greenhouse.temperature; known: temperature,"),
        ("a when: greenhouse.temperature > 95 °F", "temperature is measured in °C, not in °F: write the number in it"),
        ("a when: file inbox.txt eaten", "is not a condition picoclaw knows"),
        ("a when:", "'' is not a condition picoclaw knows"),
    ],
)  # fmt: skip
def test_a_bad_line_is_named_and_counts_as_plain_text(line, problem):
    read = checklist.parse_checklist(f"# x\n- {line}\n- good (hourly)")
    (found,) = read.problems
    assert found.startswith("HEARTBEAT.md line 2: ")
    assert problem in found
    assert "until then it counts as plain text" in found
    assert (read.items[0].text, read.items[0].timing, read.items[0].when) == (line, None, None)
    assert read.items[1].timing


@each_row(
    ("words", "condition"),
    [
        ("greenhouse.temperature > 35", Threshold(Series("greenhouse", "temperature"), ">", 35)),
        ("greenhouse.temperature > 35 for 10 min", Threshold(Series("greenhouse", "temperature"), ">", 35, 600)),
        ("greenhouse.temperature is above 35 °C for 1.5 hours", Threshold(Series("greenhouse", "temperature"), ">", 35, 5400)),
        ("greenhouse.temperature rises above 30", Threshold(Series("greenhouse", "temperature"), ">", 30)),
        ("greenhouse.temperature drops below 3 °C", Threshold(Series("greenhouse", "temperature"), "<", 3)),
        ("air.dust pm2.5 > 25", Threshold(Series("air", "dust pm2.5"), ">", 25)),
        ("greenhouse.Temperature below -5,5C", Threshold(Series("greenhouse", "temperature"), "<", -5.5)),
        ("my tank.humidity <= 30 % for 2h", Threshold(Series("my tank", "humidity"), "<=", 30, 7200)),
        ("cell.voltage a0 ≥ 3.3 V", Threshold(Series("cell", "voltage a0"), ">=", 3.3)),
        ("air.co2 at least 1200 ppm", Threshold(Series("air", "co2"), ">=", 1200)),
        ("greenhouse.temperature missing for 30 minutes", Missing(Series("greenhouse", "temperature"), 1800)),
        ("file inbox.txt changed", FileCondition("inbox.txt", "changed")),
        ('file "my inbox.txt" is missing', FileCondition("my inbox.txt", "missing")),
        ("file `/var/log/x` exists.", FileCondition("/var/log/x", "exists")),
    ],
)  # fmt: skip
def test_conditions(words, condition):
    assert parse_check(words) == condition
    (item,) = checklist.parse_checklist(f"- tell me when: {words}").items
    assert (item.text, item.when) == ("tell me", condition)


def test_a_time_and_a_condition_and_no_words_besides():
    one, two = checklist.parse_checklist("- (hourly) x when: a.light > 5 (daily 7:00)\n- when: a.light > 5").items
    assert (one.text, one.timing.text, one.when.series.quantity) == ("(hourly) x", "0 7 * * *", "light")
    assert two.text == "a.light > 5"


def test_the_shipped_template_asks_for_nothing_and_its_examples_are_understood():
    text = (find_shipped("templates") / "workspace/HEARTBEAT.md").read_text()
    assert checklist.parse_checklist(text) == checklist.Checklist()
    examples = checklist.parse_checklist("\n".join(line for line in text.splitlines() if line.startswith("- [")))
    assert (len(examples.items), examples.done, examples.problems) == (4, 1, ())
    assert all(item.timing or item.when for item in examples.items)


@each_row(
    ("words", "after", "expected"),
    [
        ("daily 2:30", "2026-03-28T12:00", "2026-03-29T03:00+02:00"),  # what the clocks skip comes at its end
        ("daily 2:30", "2026-10-24T12:00", "2026-10-25T02:30+02:00"),  # what they repeat comes once
        ("daily 2:30", "2026-10-25T02:30", "2026-10-26T02:30+01:00"),
        ("mondays", "2026-07-06T08:00", "2026-07-13T08:00+02:00"),
        ("hourly", "2026-10-25T01:30", "2026-10-25T02:30+02:00"),
    ],
)
def test_times_when_clocks_are_put_forward_and_back(words, after, expected):
    plan = checklist.parse_timing(words)
    found = checklist.find_next_due(plan, datetime.fromisoformat(after).replace(tzinfo=BERLIN))
    assert found.isoformat(timespec="minutes") == expected


def test_an_arbitrary_file_is_read_in_time_and_raises_nothing():
    for text in ("(" * 50_000, "- [" * 20_000, "when: " * 20_000, "<!--" * 20_000, "- a (every " * 5000, "\0\ud800"):
        checklist.parse_checklist(text)
    assert len(checklist.parse_checklist("- a\n" * 20_000).items) == 20_000
    assert checklist.find_next_due(checklist.parse_timing("daily 7:00"), datetime(2026, 1, 1, tzinfo=UTC)).hour == 7
