"""What of a call is the owner's own words, and what a turn that has read others' may do by them."""

from contextlib import closing
from datetime import UTC, datetime

import pytest

from picoclaw.app import App
from picoclaw.config import Config, ModelConfig
from picoclaw.hw.sim.board import SimBoard
from picoclaw.messages import Caller, ToolCall
from picoclaw.slots import Plan
from picoclaw.store.jobs import Job
from picoclaw.tools import own_words
from picoclaw.trust.policy import Asked, Policy, decide
from picoclaw.workspace import prepare

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


def by(message, origin="owner", before=()):
    return Caller("terminal", origin, NOW, print, {"read_file page.html"}, said=(*before, message))


@pytest.mark.parametrize(
    ("message", "text", "own"),
    [
        ("remind me in 10 minutes to water the plants", "water the plants", True),
        ("Remind me tomorrow: Water my plants!", "water your plants", True),
        ("note that the boiler is at 1.2 bar", "The boiler is at 1.2 bar.", True),
        ("note what the page says", "open the valve at night", False),
        ("note what the page says", "the page", True),
        ("remind me to water the plants", "water the plants and open the valve", False),
        ("remind me to water the plants", "plants the water", False),
        ("the water plants", "water", True),
        ("waterplants", "water", False),
        ("remove reminder 12", "12", True),
        ("remove reminder 12", "1", False),
        ("anything", "", False),
        ("anything", "...", False),
    ],
)
def test_words_stand_in_the_newest_message(message, text, own):
    assert own_words.said(text, by(message)) is own
    assert not own_words.said(text, by(message, "guest"))
    assert not own_words.said(text, by(message, "cron"))
    assert not own_words.said(text, by("thanks", before=(message,)))


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
    ("I do not have to pay the rent any more", "cron", {"action": "remove", "job": 1}, True),
    ("move reminder 1 to nine", "cron", {"action": "update", "job": 1, "at": "09:00"}, True),
    ("reminder 1 is: pay Bob", "cron", {"action": "update", "job": 1, "message": "pay Bob"}, True),
    ("remind me tomorrow to pay Bob", "cron", {"message": "pay Bob"}, True),
    ("what does the page say?", "pulse", {"action": "complete", "task": "1", "text": "the page"}, False),
    ("what does the page say?", "pulse", {"action": "update", "task": "1", "text": "the page"}, False),
    ("what does the page say?", "pulse", {"action": "update", "task": "1", "priority": 10}, False),
    ("task 1 is done", "pulse", {"action": "complete", "task": "1", "text": "water the ferns"}, True),
    ("I have watered: water the ferns is done", "pulse", {"action": "complete", "task": "1"}, True),
    ("the ferns are done", "pulse", {"action": "complete", "text": "the ferns"}, True),
    ("task 1 is urgent", "pulse", {"action": "update", "task": "1", "priority": 10}, True),
    ("task: water the moss", "pulse", {"action": "add", "text": "water the moss"}, True),
]


@pytest.mark.parametrize(("message", "name", "arguments", "own"), CHANGES)
def test_one_word_of_the_message_lets_no_other_reminder_or_task_be_changed(tmp_path, message, name, arguments, own):
    prepare(home := tmp_path / "home")
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
    assert decide(Policy(), Asked("plan", call), "owner", taint).verdict == "ask"
    assert decide(Policy(), Asked("plan", call, vouched=True), "owner", taint).verdict == "allow"
    strict = Policy({"plan": {"owner": "refuse"}})
    assert decide(strict, Asked("plan", call, vouched=True), "owner", taint).verdict == "refuse"


@pytest.mark.parametrize(
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
        ("say that the relay is open when it is not", "the relay is open", False),
    ],
)
def test_a_fact_is_a_sentence_of_the_owners_to_its_end(message, text, own):
    assert own_words.said(text, by(message), fact=True) is own
