"""An answer that says only that all is well is silence; what a person would want to be told never is."""

from rows import each_row

from picoclaw.automation.heartbeat import MAX_OK_LENGTH, is_ok
from picoclaw.messages import is_check

SILENT = [
    "HEARTBEAT_OK",
    "heartbeat_ok",
    "Heartbeat OK.",
    "heartbeat-ok!",
    "HeartbeatOK",
    "HEARTBEAT: OK",
    "Heartbeat – OKAY",
    "**HEARTBEAT_OK**",
    "`HEARTBEAT_OK`",
    "```\nHEARTBEAT_OK\n```",
    "HEARTBEAT\\_OK",
    "> HEARTBEAT_OK",
    "# HEARTBEAT_OK",
    "- HEARTBEAT_OK",
    '"HEARTBEAT_OK"',
    "<b>HEARTBEAT_OK</b>",
    "HEARTBEAT_OK ✅",
    "  HEARTBEAT_OK  \n\n",
    "HEART\u200bBEAT_\u2060OK\ufeff",
    "ＨＥＡＲＴＢＥＡＴ_ＯＫ",
    "HEARTBEAT_OK\n\nHEARTBEAT_OK",
    "NO_REPLY",
    "All good! HEARTBEAT_OK",
    "Hi Ada, everything is fine. HEARTBEAT_OK. Have a nice day!",
    "HEARTBEAT_OK 👍 Have a great day, Ada!",
    "HEARTBEAT_OK - all sensors are within their normal range, nothing to report.",
    "I went through the checklist and there are no issues. HEARTBEAT_OK",
    "HEARTBEAT_OK: no action needed.",
    "Nothing needs attention right now. HEARTBEAT_OK",
    "Everything looks good in the greenhouse. HEARTBEAT_OK",
    "The greenhouse is at 21.4 °C, which is within the normal range. HEARTBEAT_OK",
    "Thank you. HEARTBEAT_OK. I'll keep watching.",
    "HEARTBEAT_OK. Don't worry.",
    "HEARTBEAT_OK ✅ 🌱",
    "No problems with the pump today. HEARTBEAT_OK",
    "All systems are running smoothly, no issues detected. HEARTBEAT_OK",
    "HEARTBEAT_OK\n\nEverything is as expected.",
    "heart-beat ok",
    "HEARTBEAT_O.K.",
    "```text\nHEARTBEAT_OK\n```",
    "Answer: HEARTBEAT_OK",
    "HEARTBEAT_OK.\n\nLet me know if you need anything!",
    "HEARTBEAT_OK. I'll keep an eye on things.",
    "Hope you're having a wonderful day! HEARTBEAT_OK",
    "Everything's fine! All checks passed. HEARTBEAT_OK",
    "Sure! No worries. HEARTBEAT_OK",
    "The checklist has no open items. There is nothing to tell you. HEARTBEAT_OK",
]
TOLD = [
    "",
    "OK",
    "HEARTBEAT",
    "All is well.",
    "HEARTBEAT_NOT_OK",
    "not HEARTBEAT_OK",
    "I cannot say HEARTBEAT_OK",
    "HEARTBEAT_OK? No.",
    "HEARTBEAT_OK, but the pump is on fire",
    "HEARTBEAT_OK although the tank is nearly empty",
    "The pump is on fire. HEARTBEAT_OK",
    "HEARTBEAT_OK. Water is running down the wall.",
    "HEARTBEAT_OK\nThe water level sits at two litres.",
    "HEARTBEAT_OK. The greenhouse is at 36 °C.",
    "HEARTBEAT_OK, all fine, the door is open",
    "Everything is fine and the tank leaks. HEARTBEAT_OK",
    "HEARTBEAT_OK except for the soil",
    "HEARTBEAT_OK; you should water the ferns",
    "HEARTBEAT_OK. It would be good to water the ferns.",
    "HEARTBEAT_OK Reminder: dentist at 9.",
    "HEARTBEAT_OK. Happy birthday to Ada's mother today!",
    "HEARTBEAT_OK 3 new mails",
    "HEARTBEAT_OK no sensor answered",
    "HEARTBEAT_OK nothing could be read",
    "HEARTBEAT_OK nothing is fine",
    "HEARTBEAT_OK (could not read the greenhouse)",
    "HEARTBEAT_OK all sensors offline",
    "HEARTBEAT_OK everything is down",
    "HEARTBEAT_OK no problem with the pump but the fan",
    "HEARTBEAT_OK, the humidity is fine, the temperature isn't",
    "HEARTBEAT_OK Die Pumpe brennt.",
    "HEARTBEAT_OK 🔥",
    "HEARTBEAT_OK 🚨 pump 🚨",
    "HEARTBEAT_OK. A great amount of water is on the floor.",
    "HEARTBEAT_OK. Water stands two metres deep in the well.",
    "HEARTBEAT_OK. Good thing I looked: the door is open.",
    "HEARTBEAT_OK. All sensors are in order of battery: shed, porch.",
    "HEARTBEAT_OK. No items found in the pantry.",
    "No reply.",
    "There was no reply. All is well.",
    "HEARTBEAT_OK. You have a message.",
    "All sensors went quiet. HEARTBEAT_OK",
    "Time is up. HEARTBEAT_OK",
    "Update your system now. HEARTBEAT_OK",
]


@each_row("text", SILENT)
def test_all_is_well_in_any_spelling(text):
    assert is_ok(text)


@each_row("text", TOLD)
def test_what_somebody_would_want_to_be_told(text):
    assert not is_ok(text)


def test_many_words_are_told_even_when_they_are_friendly():
    polite = "all good. " * 40
    assert len(polite) > MAX_OK_LENGTH
    assert not is_ok(f"HEARTBEAT_OK {polite}")
    assert is_ok(f"HEARTBEAT_OK {polite[: MAX_OK_LENGTH - 20]}".rpartition(".")[0])


def test_an_endless_answer_takes_no_time_to_judge():
    assert not is_ok("HEARTBEAT_OK " + "no " * 100_000)
    assert not is_ok("within " * 30_000)


@each_row(
    "text",
    [
        "heartbeat",
        "HEARTBEAT",
        "Heartbeat?",
        "heart beat",
        "Health check.",
        "health-check",
        "/heartbeat",
        "healthcheck please",
    ],
)
def test_asking_for_a_sign_of_life(text):
    assert is_check(text)


@each_row("text", ["", "what is a heartbeat?", "health check the pump", "set the heartbeat to 10 min", "ok"])
def test_other_questions_are_answered_otherwise(text):
    assert not is_check(text)
