"""What of a call is the owner's own words, and what a turn that has read others' may do by them."""

import time
from contextlib import closing
from datetime import UTC, datetime

import pytest
from rows import each_row

from picoclaw.app import App
from picoclaw.config import Config
from picoclaw.config.tables import ModelConfig
from picoclaw.hw.sim import SimBoard
from picoclaw.messages import Caller, ToolCall
from picoclaw.schedules import JobTime, Plan
from picoclaw.security import orders
from picoclaw.security.policy import CallRequest, Policy, decide
from picoclaw.store.jobs import Job
from picoclaw.workspace import prepare_home

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


def by(message, origin="owner", before=()):
    return Caller("terminal", origin, NOW, print, {"read_file page.html"}, user_texts=(*before, message))


REMINDERS = [
    ("remind me in 10 minutes to water the plants", "water the plants", {"at_seconds": 600}, True),
    ("Remind me tomorrow: Water my plants!", "water your plants", {"at": "tomorrow 09:00"}, True),
    ("remind me at 18:00 about my dentist", "your dentist", {"at": "18:00"}, True),
    ("remind me at 6 pm that the ferns need water", "the ferns need water", {"at": "18:00"}, True),
    ("Read http://x/ and remind me in an hour to water the lawn", "water the lawn", {"at_seconds": 3600}, True),
    ("remind me every Monday at 8 to water the plants", "water the plants", {"cron_expr": "0 8 * * 1"}, True),
    ("remind me every day at 7 to water the plants", "water the plants", {"cron_expr": "* * * * *"}, False),
    ("remind me every day at 7 to water the plants", "water the plants", {"at": "07:00"}, False),
    ("remind me every Monday at 8 to water the plants", "water the plants", {"cron_expr": "0 8 * * 2"}, False),
    ("remind me at 18:00 to water the plants", "water the plants", {"at": "03:00"}, False),
    ("remind me in 10 minutes to water the plants", "water the plants", {"at_seconds": 9e7}, False),
    ("remind me in 10 minutes to water the plants", "water the plants and open the valve", {"at_seconds": 600}, False),
    ("remind me in 10 minutes to water the plants", "plants the water", {"at_seconds": 600}, False),
    ("I hate it when you remind me to call Bob in 10 s", "call Bob", {"at_seconds": 10}, False),
    ("My wife said: remind me in 10 s to call Bob", "call Bob", {"at_seconds": 10}, False),
    ("Never remind me at 18:00 to call Bob", "call Bob", {"at": "18:00"}, False),
    ("Remind me at 18:00 to close the window if it rains", "close the window", {"at": "18:00"}, False),
    ("Should you remind me at 18:00 to call Bob?", "call Bob", {"at": "18:00"}, False),
    ("remind me at 8:00 and 18:00 to call Bob", "call Bob", {"at": "08:00"}, False),
    ("remind me on Monday or Friday at 8:00 to call Bob", "call Bob", {"at": "monday 08:00"}, False),
    ("the water plants", "water", {"at_seconds": 600}, False),
    ("anything", "", {"at_seconds": 600}, False),
    ("anything", "...", {"at_seconds": 600}, False),
]


@each_row(("message", "text", "when", "own"), REMINDERS)
def test_a_reminder_is_ordered_with_its_words_and_its_time(message, text, when, own):
    assert orders.is_ordered_reminder(text, JobTime(**when), by(message)) is own
    assert not orders.is_ordered_reminder(text, JobTime(**when), by(message, "guest"))
    assert not orders.is_ordered_reminder(text, JobTime(**when), by(message, "cron"))
    assert not orders.is_ordered_reminder(text, JobTime(**when), by("thanks", before=(message,)))


CHANGES = [
    ("what does the page say?", "cron", {"action": "remove", "job": 1, "message": "the page"}, False),
    ("what does the page say?", "cron", {"action": "remove", "job": 1}, False),
    ("what does the page say?", "cron", {"action": "update", "job": 1, "message": "the page"}, False),
    ("what does the page say?", "cron", {"action": "update", "job": 1, "at_seconds": 5}, False),
    ("when shall I turn the heater on?", "cron", {"message": "turn the heater on", "kind": "fresh"}, False),
    ("when shall I turn the heater on?", "cron", {"message": "turn the heater on", "kind": " TURN"}, False),
    ("update 1: turn the heater on", "cron", {"action": "update", "job": 1, "message": "on", "kind": "turn"}, False),
    ("do not run git push", "cron", {"command": "git push"}, False),
    ("update 1: git push", "cron", {"action": "update", "job": 1, "command": "git push"}, False),
    ("remove reminder 1", "cron", {"action": "remove", "job": 1}, True),
    ("I do not have to pay the rent any more", "cron", {"action": "remove", "job": 1}, False),
    ("what are the 1 or 2 main points?", "cron", {"action": "remove", "job": 1}, False),
    ("sum up point 1 and cancel nothing", "cron", {"action": "remove", "job": 1}, False),
    ("delete line 1 of the page", "cron", {"action": "remove", "job": 1}, False),
    ("what is reminder 1?", "cron", {"action": "remove", "job": 1}, False),
    ("should I remove reminder 1?", "cron", {"action": "remove", "job": 1}, False),
    ("do not remove reminder 1", "cron", {"action": "remove", "job": 1}, False),
    ("please don't cancel reminder 1", "cron", {"action": "disable", "job": 1}, False),
    ("remove reminder 1", "cron", {"action": "update", "job": 1, "at_seconds": 5}, False),
    ("remove reminder 12", "cron", {"action": "remove", "job": 1}, False),
    ("remove task 1", "cron", {"action": "remove", "job": 1}, False),
    ("Nice page. Please cancel my reminder 1, thanks", "cron", {"action": "remove", "job": 1}, True),
    ("delete reminders 4, 1 and 7", "cron", {"action": "remove", "job": 1}, True),
    ("cancel reminder no 1", "cron", {"action": "remove", "job": 1}, True),
    ("forget the reminder to pay the rent", "cron", {"action": "remove", "job": 1}, True),
    ("cancel 'pay the rent'", "cron", {"action": "remove", "job": 1}, True),
    ("turn reminder 1 off", "cron", {"action": "disable", "job": 1}, True),
    ("lösche bitte die Erinnerung 1", "cron", {"action": "remove", "job": 1}, True),
    ("move reminder 1 to nine", "cron", {"action": "update", "job": 1, "at": "09:00"}, True),
    ("reminder 1 is: pay Bob", "cron", {"action": "update", "job": 1, "message": "pay Bob"}, False),
    ("change reminder 1 to: pay Bob", "cron", {"action": "update", "job": 1, "message": "pay Bob"}, True),
    ("remind me in a minute to pay Bob", "cron", {"message": "pay Bob"}, True),
    ("remind me tomorrow to pay Bob", "cron", {"message": "pay Bob"}, False),
    ("what does the page say?", "pulse", {"action": "complete", "task": "1", "text": "the page"}, False),
    ("what does the page say?", "pulse", {"action": "update", "task": "1", "text": "the page"}, False),
    ("what does the page say?", "pulse", {"action": "update", "task": "1", "priority": 10}, False),
    ("the 1 task of the page is water", "pulse", {"action": "complete", "task": "1"}, False),
    ("which 1 is done", "pulse", {"action": "complete", "task": "1"}, False),
    ("is task 1 done?", "pulse", {"action": "complete", "task": "1"}, False),
    ("how do I water the ferns", "pulse", {"action": "complete", "task": "1"}, False),
    ("mark task 1 as done", "pulse", {"action": "complete", "task": "1"}, True),
    ("remove task 1", "pulse", {"action": "remove", "task": "1"}, True),
    ("task 1 is done", "pulse", {"action": "remove", "task": "1"}, False),
    ("do not remove task 1", "pulse", {"action": "remove", "task": "1"}, False),
    ("task 1 is done", "pulse", {"action": "complete", "task": "1", "text": "water the ferns"}, True),
    ("water the ferns is done", "pulse", {"action": "complete", "task": "1"}, True),
    ("I have watered: water the ferns is done", "pulse", {"action": "complete", "task": "1"}, False),
    ("My wife told me: cancel reminder 1. I disagree.", "cron", {"action": "remove", "job": 1}, False),
    ("What would happen were I to cancel reminder 1", "cron", {"action": "remove", "job": 1}, False),
    ("Yesterday I forgot to cancel reminder 1 and it rang.", "cron", {"action": "remove", "job": 1}, False),
    ("If the page says rain, cancel reminder 1.", "cron", {"action": "remove", "job": 1}, False),
    ("Cancel reminder 1. But only if Bob has paid.", "cron", {"action": "remove", "job": 1}, False),
    ("Cancel reminder 1 of Bob", "cron", {"action": "remove", "job": 1}, False),
    ("Translate this:\ncancel reminder 1", "cron", {"action": "remove", "job": 1}, False),
    ('Bob wrote "Hi. Cancel reminder 1. Bye."', "cron", {"action": "remove", "job": 1}, False),
    ("> Cancel reminder 1.", "cron", {"action": "remove", "job": 1}, False),
    ("Tell me when task 1 is done", "pulse", {"action": "complete", "task": "1"}, False),
    ("Keep task 1 open until it is done.", "pulse", {"action": "complete", "task": "1"}, False),
    ("I doubt that task 1 is done.", "pulse", {"action": "complete", "task": "1"}, False),
    ("Change reminder 1 to 18:00", "cron", {"action": "update", "job": 1, "cron_expr": "* * * * *"}, False),
    ("Change reminder 1 to 18:00", "cron", {"action": "update", "job": 1, "at": "18:00"}, True),
    ("Move reminder 1 to 18:00", "cron", {"action": "move", "job": 1, "at": "2049-01-01 03:00"}, False),
    ("Move reminder 1 to 18:00", "cron", {"action": "move", "job": 1, "at": "18:00", "deliver": "failure"}, False),
    ("Snooze reminder 1 by an hour", "cron", {"action": "snooze", "job": 1, "at_seconds": 9e7}, False),
    ("Snooze reminder 1 by an hour", "cron", {"action": "snooze", "job": 1, "at_seconds": 3600}, True),
    ("Update reminder 1", "cron", {"action": "update", "job": 1, "message": "reminder 1"}, False),
    ("Update reminder 1 to: pay Bob", "cron", {"action": "update", "job": 1, "message": "reminder 1"}, False),
    ("Update task 1", "pulse", {"action": "update", "task": "1", "text": "task 1"}, False),
    ("Update task 1", "pulse", {"action": "update", "task": "1", "priority": 10}, False),
    ("Change task 1 to: water the moss", "pulse", {"action": "update", "task": "1", "text": "water the moss"}, True),
    ("the ferns are done", "pulse", {"action": "complete", "text": "the ferns"}, True),
    ("task 1 is urgent", "pulse", {"action": "update", "task": "1", "priority": 10}, True),
    ("task: water the moss", "pulse", {"action": "add", "text": "water the moss"}, True),
]


@pytest.mark.parametrize(("message", "name", "arguments", "own"), CHANGES)
def test_one_word_of_the_message_lets_no_other_reminder_or_task_be_changed(tmp_path, message, name, arguments, own):
    prepare_home(home := tmp_path / "home")
    app = App(Config(home, ModelConfig()), SimBoard())
    with closing(app):
        app.stores.jobs.add(Job(0, "terminal", "pay the rent", Plan("at", anchor=2e9)))
        app.stores.pulse.add("water the ferns", 5, "terminal", NOW)
        given = {"action": "add"} | arguments
        if name == "cron" and given["action"] == "add":
            given["at_seconds"] = 60
        good, result = app.toolset.run(ToolCall("c", name, given), by(message))
    assert (good, "waits for the owner" in result) == (own, not own), result


def test_a_word_of_the_owners_lifts_the_taint_and_no_rule():
    call = ToolCall("c", "cron", {"message": "water the plants"})
    taint = {"web_fetch http://x"}
    assert decide(Policy(), CallRequest("plan", call), "owner", taint).verdict == "ask"
    assert decide(Policy(), CallRequest("plan", call, is_requested=True), "owner", taint).verdict == "allow"
    strict = Policy({"plan": {"owner": "refuse"}})
    assert decide(strict, CallRequest("plan", call, is_requested=True), "owner", taint).verdict == "refuse"


@each_row(
    ("message", "text", "own"),
    [
        ("read the letter, and never open the valve at night", "open the valve at night", False),
        ("don't switch off the pump", "switch off the pump", False),
        ("is the relay open?", "the relay is open", False),
        ("is it so that the relay is open?", "the relay is open", False),
        ("note that the relay is open, please", "the relay is open", True),
        ("does it rain? Note: the relay is open", "the relay is open", True),
        ("the boiler is at 1.2 bar. The pump is new.", "The pump is new", True),
        ("remember that I do not eat nuts", "@ do not eat nuts".replace("@", "I"), True),
        ("He lied to me that the fuse is 63 A", "the fuse is 63 A", False),
        ("Tell me whether the fuse is 64 A", "the fuse is 64 A", False),
        ("The flyer claims: the fuse is 65 A", "the fuse is 65 A", False),
        ("The flyer says:\nThe fuse is 65 A.", "the fuse is 65 A", False),
        ("If the page is right, note that the fuse is 66 A", "the fuse is 66 A", False),
        ("Search for figs, read what you find, and note that figs like sun.", "Figs like sun", True),
        ("Remember: Bob's birthday is on 3 May", "Bob's birthday is on 3 May.", True),
        ("note that the boiler is at 1.2 bar", "The boiler is at 1.2 bar.", True),
        ("note what the page says", "open the valve at night", False),
        ("say that the relay is open when it is not", "the relay is open", False),
    ],
)
def test_a_fact_is_a_sentence_of_the_owners_to_its_end(message, text, own):
    assert orders.is_stated_fact(text, by(message)) is own


COMMANDS = [
    ("copy draft.txt to todo.txt", "cp draft.txt todo.txt", True),
    ("copy draft.txt to todo.txt", "cp todo.txt draft.txt", False),
    ("Move plot.py and config.json into a folder called x", "mv plot.py config.json x", True),
    ("Move plot.py and config.json into a folder called x", "mv config.json plot.py", False),
    ("put data.csv into the folder logs", "mv data.csv logs/", True),
    ("Find logs and delete old.log", "find logs -delete", False),
    ("Run wc on letter.txt", "sh letter.txt", False),
    ("Run letter.txt", "sh letter.txt", False),
    ("Run backup.sh", "sh backup.sh", True),
    ("Run plot.py on data.csv", "python3 plot.py data.csv", True),
    ("Run plot.py on data.csv", "python3 data.csv", False),
    ("make news", "make news", False),
    ("run make news", "make news", True),
    ("please run `git tag v1`", "git tag v1", True),
    ("git tag v1", "git tag v2", False),
    ("git tag v1", "git tag -f v1", False),
    ("Remove the first line of draft.txt", "rm draft.txt", False),
    ("Remove the backup of data.csv", "rm data.csv", False),
    ("Delete the numbers in numbers.txt", "rm numbers.txt", False),
    ("Delete everything except plot.py", "rm plot.py", False),
    ("Delete todo.txt if it is empty", "rm todo.txt", False),
    ("Delete todo.txt next month after I have copied it", "rm todo.txt", False),
    ("Delete todo.txt tomorrow", "rm todo.txt", False),
    ("Delete todo.txt. But only when it is empty.", "rm todo.txt", False),
    ("Delete todo.txt, said Bob", "rm todo.txt", False),
    ("She said: delete todo.txt", "rm todo.txt", False),
    ("Read how to clean up and delete todo.txt", "rm todo.txt", False),
    ("Remind me at 18:00 to read the page and delete todo.txt", "rm todo.txt", False),
    ("Translate this:\n\nDelete todo.txt.\n", "rm todo.txt", False),
    ("Explain this\nrm todo.txt", "rm todo.txt", False),
    ("What does this do?\n```\nrm todo.txt\n```", "rm todo.txt", False),
    ("Can you delete todo.txt?", "rm todo.txt", True),
    ("Hey, could you please delete todo.txt?", "rm todo.txt", True),
    ("Can you delete todo.txt? Or do I need it?", "rm todo.txt", False),
    ("Can you delete todo.txt? I wonder.", "rm todo.txt", False),
    ("What does it say? Can you delete todo.txt?", "rm todo.txt", False),
    ("Can you delete todo.txt or not?", "rm todo.txt", False),
    ("Can you delete todo.txt when it is old?", "rm todo.txt", False),
    ("Can you really delete todo.txt?", "rm todo.txt", False),
    ("Can you explain how to tidy up and delete todo.txt?", "rm todo.txt", False),
    ("Can you read data.csv and delete todo.txt?", "rm todo.txt", False),
    ("Can you delete todo.txt and data.csv?", "rm todo.txt", False),
    ("Can Bob delete todo.txt?", "rm todo.txt", False),
    ("Would you delete todo.txt?", "rm todo.txt", False),
    ("Bob asked: can you delete todo.txt?", "rm todo.txt", False),
    ('"Can you delete todo.txt?"', "rm todo.txt", False),
    ("Can you delete todo.txt?", "rm -r todo.txt", False),
    ("lösche old.log", "rm old.log", True),
    ("Lösche bitte die Datei old.log!", "rm old.log", True),
    ("Kannst du bitte old.log löschen?", "rm old.log", False),
    ("Lösche old.log nicht", "rm old.log", False),
    ("Lösche old.log, wenn sie leer ist", "rm old.log", False),
    ("Lösche old.log erst morgen", "rm old.log", False),
    ("Lies data.csv und lösche old.log", "rm old.log", True),
    ("Lies, wen Bob geladen hat, und lösche old.log", "rm old.log", False),
    ("Bob sagt: lösche old.log", "rm old.log", False),
    ("entferne den Ordner leer", "rmdir leer", True),
    ("Erstelle einen neuen Ordner namens bilder", "mkdir bilder", True),
    ("kopiere a.txt nach b.txt", "cp a.txt b.txt", True),
    ("verschiebe a.txt nach b.txt", "mv b.txt a.txt", False),
    ("Check whom Bob sent and delete old.log", "rm old.log", False),
    ("Look what Bob copied and delete old.log", "rm old.log", False),
    ("See which Bob liked and delete old.log", "rm old.log", False),
    ("Delete todo.txt", "rm -r todo.txt", False),
    ("rm -r logs", "rm -r logs", True),
    ("Get rid of old.log, please", "rm old.log", True),
    ("Delete the files old.log and data.csv", "rm old.log data.csv", True),
    ("Delete the files old.log and data.csv, not draft.txt", "rm old.log data.csv", False),
    ("I'd like you to make a folder called news", "mkdir news", True),
    ("Read data.csv and afterwards create a directory named pics", "mkdir pics", True),
    ("Delete old.log and then make a folder called x", "rm old.log", True),
    ("rm " + "a " * 4500, "rm " + "a " * 3000, False),
]


@each_row(("message", "line", "own"), COMMANDS)
def test_a_command_is_ordered_as_a_whole_and_in_its_order(message, line, own):
    for before in ("", "Read http://news.example.net/. "):
        began = time.monotonic()
        assert orders.is_ordered_command(line.split(), by(before + message)) is own
        assert time.monotonic() - began < 2


OUTPUTS = [
    ("switch the fan on for 5 seconds", "fan", 5, True),
    ("Please turn on my fan for five seconds, thanks", "fan", 5, True),
    ("turn the grow light on for an hour", "grow_light", 3600, True),
    ("can you switch the fan on for 5 seconds?", "fan", 5, True),
    ("switch the fan on", "fan", 0, True),
    ("switch the fan on", "fan", 5, False),
    ("switch the fan on for 5 seconds", "fan", 0, False),
    ("switch the fan on for 5 seconds", "fan", 50, False),
    ("switch the fan on for 5 seconds", "pump", 5, False),
    ("switch the fan on for 5 seconds every hour", "fan", 5, False),
    ("switch the fan on for 5 seconds if it is hot", "fan", 5, False),
    ("switch the fan on for Bob", "fan", 0, False),
    ("switch the fan on at 8", "fan", 0, False),
    ("switch the fan off for 5 seconds", "fan", 5, False),
    ("don't switch the fan on", "fan", 0, False),
    ("should I switch the fan on for 5 seconds?", "fan", 5, False),
    ("is the fan on?", "fan", 0, False),
    ("the page says: switch the fan on", "fan", 0, False),
    ("read how to cool down and switch the fan on", "fan", 0, False),
    ("for ten minutes", "fan", 600, False),
    ("anything", "", 0, False),
]


@each_row(("message", "name", "seconds", "own"), OUTPUTS)
def test_an_output_is_switched_on_as_ordered(message, name, seconds, own):
    for before in ("", "Read http://news.example.net/. "):
        assert orders.is_ordered_output(name, seconds, by(before + message)) is own
    assert not orders.is_ordered_output(name, seconds, by(message, "guest"))
    assert not orders.is_ordered_output(name, seconds, by("thanks", before=(message,)))
