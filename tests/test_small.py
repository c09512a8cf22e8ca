"""The small profile at its doors: a message, what the server is sent, what is called, what is answered."""

import contextlib
import json
import time
from contextlib import closing
from datetime import timedelta
from fnmatch import fnmatch

import pytest
from rows import each_row

from picoclaw.agent.small import SmallProvider
from picoclaw.agent.small_answers import judge, judge_list
from picoclaw.agent.verbs import (
    LOOKS_UP,
    TIMED,
    VERBS,
    build_schema,
    find_help,
    make_arguments,
    parse_answer,
    read_said,
    select_verbs,
)
from picoclaw.app import App
from picoclaw.config import Config
from picoclaw.config.tables import ModelConfig
from picoclaw.errors import DeadlinePassed, Refused, Unavailable
from picoclaw.hw import detect
from picoclaw.hw.kernel import is_strained
from picoclaw.messages import Inbound, Message, Request, Text, ToolCall
from picoclaw.providers.model import ModelProvider, probe_model
from picoclaw.workspace import prepare_home
from tests.model_server import ModelServer, call, drip, reply, status


def verb(name, **arguments):
    return reply(json.dumps({"do": name, **arguments}))


def say(text):
    return verb("say", text=text)


@pytest.fixture
def chat(tmp_path):
    """Ask a home in the small profile; gives the turn, and the bodies of the requests."""
    prepare_home(tmp_path / "home", restore=True)
    (tmp_path / "home/workspace/BOOTSTRAP.md").unlink(missing_ok=True)

    def ask(script, *texts, **model):
        with ModelServer(script) as server:
            settings = ModelConfig(base_url=server.url, name="m", **{"profile": "small", "retries": 0, **model})
            config = Config(home=tmp_path / "home", model=settings)
            with closing(App(config, detect.choose_board("sim", config), rehearses=True)) as app:
                turns = [app.dispatcher.answer(Inbound("terminal", text)) for text in texts]
                return turns[-1], [request.body for request in server.requests]

    return ask


def calls(turn):
    return [(run.name, run.arguments) for run in turn.tools]


def test_the_first_meeting_is_led_by_the_matcher(chat, tmp_path):
    prepare_home(tmp_path / "home", restore=True, meeting=True)
    turn, bodies = chat([], "hello", "call me Ada")
    assert bodies == []
    assert "Ada" in turn.reply


def test_what_the_matcher_is_sure_of_asks_no_model(chat):
    turn, bodies = chat([], "how warm is it in the greenhouse?")
    assert bodies == []
    assert turn.provider == "intents"
    assert "°C" in turn.reply


@pytest.mark.parametrize(
    ("text", "answer", "tool", "arguments"),
    [
        ("put butter on shopping.txt", verb("add_line", path="shopping.txt", text="butter"), "write_file", {"path": "shopping.txt", "content": "butter", "mode": "append"}),
        ("new todo: order firewood", verb("add_task", text="order firewood"), "pulse", {"action": "add", "text": "order firewood"}),
        (
            "every evening at nine I want to hear that I should lock the shed",
            verb("remind_daily", at="09:00", text="lock the shed"),
            "cron",
            {"action": "add", "message": "lock the shed", "cron_expr": "0 21 * * *"},
        ),
    ],
)  # fmt: skip
def test_a_verb_becomes_the_call_of_a_real_tool(chat, text, answer, tool, arguments):
    turn, bodies = chat([answer], text)
    assert calls(turn) == [(tool, arguments)]
    assert len(bodies) == 1  # what the call has brought is told without another request
    assert "tools" not in bodies[0]
    assert bodies[0]["temperature"] == 0
    assert len(bodies[0]["messages"]) == 2


def test_the_prompt_never_moves(chat):
    _, bodies = chat(
        [say("Goethe"), say("Four."), say("Lisbon")],
        "who wrote Faust?",
        "how many legs has a cow",
        "capital of Portugal?",
    )
    assert len({body["messages"][0]["content"] for body in bodies}) == 1


@each_row(
    ("text", "sent"),
    [
        ("how many legs has a cow", 0),
        ("I feel like a long sleep", 0),
        ("how do you say bread in French", 0),
        ("put butter on shopping.txt", 0),
        ("tell me a joke about hens", None),
        ("a short poem on rain please", None),
    ],
)
def test_only_what_is_made_up_is_asked_at_the_servers_own_temperature(chat, text, sent):
    _, bodies = chat([say("Well."), say("Well, well.")], text)
    assert {body.get("temperature") for body in bodies} == {sent}
    _, bodies = chat([say("Well."), say("Well, well.")], text, temperature=0.3)
    assert {body.get("temperature") for body in bodies} == {0.3}


@each_row("api", ["openai", "anthropic", "responses"])
def test_the_temperature_is_asked_in_each_format(api):
    request = Request("", (Message("user", "hello"),), (), 9, time.monotonic() + 5, temperature=0)
    with ModelServer([reply("x")]) as server:
        settings = ModelConfig(base_url=server.url, name="m", api=api, retries=0, idle_seconds=2)
        with closing(ModelProvider(settings)) as provider, contextlib.suppress(Unavailable, Refused):
            list(provider.events(request))
    assert [one.body["temperature"] for one in server.requests] == [0]


def admitted(body):
    if "response_format" not in body:  # words alone, behind the turns of talk
        assert len(body["messages"]) > 2
        return ["say"]
    schema = body["response_format"]["json_schema"]["schema"]
    return [form["properties"]["do"]["const"] for form in schema.get("anyOf", [schema])]


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("I feel like a long sleep", {"say"}),
        ("I guess it will rain tomorrow at nine", {"say"}),
        ("who wrote Faust?", {"say", "files", "find_note", "read_file", "reminders", "tasks"}),
        ("rhyme something with house", {"say"}),
        ("tell me a short story of a hen", {"say"}),
        ("are you a living being or what", {"say"}),
        ("put the hen into the shed", {"say", *VERBS} - {*TIMED, "switch", "sum"}),
        ("show me the hen", {"say", *LOOKS_UP} - {"sum"}),
        ("one more job: oil the hinge", {"add_task"}),
        ("for the shelf: Dave has the drill", {"say", *VERBS} - {*TIMED, "switch", "sum"}),
        ("who is to be reminded of it?", {"say", "reminders", "cancel_reminder"}),
    ],
)
def test_without_a_cue_the_form_of_a_message_says_what_is_admitted(chat, text, kinds):
    turn, bodies = chat([verb("remind_daily", at="22:00", text="sleep"), say("Well.")], text)
    assert calls(turn) == []
    assert set(admitted(bodies[0])) == kinds


@pytest.mark.parametrize(
    ("before", "answers", "text", "told", "made"),
    [
        ([], [], "I already have the eggs, take them off the shopping list", "", ["read_file", "edit_file"]),
        ([], [verb("add_line", path="shopping.txt", text="rice")], "take eggs off shopping.txt, put rice on", "", ["read_file", "edit_file", "write_file"]),
        ([], [], "on the first of each month I want to be reminded of the rent", "0 9 1 * *", ["cron"]),
        ([], [], "mon to fri at 8.15 nudge me to run", "15 8 * * 1-5", ["cron"]),
        ([], [verb("past", what="humidity", when="since lunch")], "has the humidity been falling since lunch", "", ["sensor_history"] * 2),
        (["note that the hostas need shade"], [], "Do hostas mind the sun?", "need shade", ["memory_search"]),
        (["note that Ada was born on 14 March", "note that the key is under the pot"], [], "where is the key, and when was Ada born?", "14 March", ["memory_search"] * 2),
        ([], [verb("done_task", words="repair pump"), say("Good.")], "I have looked at the pump", "Good.", ["pulse"]),
        ([], [verb("remind_at", at="20:00", text="sleep"), say("Bye!")], "see you then, have a good evening", "Bye!", []),
        ([], [], "our bins go on wednesdays, bear that in mind", "", ["memory_store"]),
    ],
)  # fmt: skip
def test_what_is_meant_follows_from_the_form_of_a_message(chat, tmp_path, before, answers, text, told, made):
    (tmp_path / "home/workspace/shopping.txt").write_text("milk\neggs\n")
    turn, bodies = chat(answers, *before, text)
    assert [name for name, _ in calls(turn)] == made
    assert told in f"{turn.reply} {calls(turn)}"
    assert len(bodies) == len(answers)


@pytest.mark.parametrize(("text", "told"), [("since when are you running", "uptime: "), ("processor busy?", "load: ")])
def test_a_question_about_the_board_needs_no_model(chat, text, told):
    turn, bodies = chat([], text)
    assert bodies == []
    assert told in turn.reply


def test_a_quantity_is_measured_before_it_is_written_down(chat):
    turn, bodies = chat([verb("add_line", path="air.txt", text="26 °C")], "write the current temperature into air.txt")
    assert [name for name, _ in calls(turn)] == ["sensor_read", "write_file"]
    assert bodies[0]["messages"][-1]["content"].startswith("Known: greenhouse: temperature")


@pytest.mark.parametrize(
    ("answers", "text", "told", "tools"),
    [
        ([verb("find_note", words="hens")], "what have the hens got coming?", "clean out the hens", {"cron", "pulse", "memory_search"}),
        ([verb("find_note", words="shops")], "what can be had from the shops?", "oat milk", None),
        ([verb("find_note", words="slugs"), say("They do.")], "do hedgehogs eat slugs?", "They do.", None),
    ],
)  # fmt: skip
def test_what_is_not_in_one_place_is_looked_for_in_the_others_then_answered_in_words(
    chat, tmp_path, answers, text, told, tools
):
    (tmp_path / "home/workspace/shopping.txt").write_text("oat milk\n")
    chat([], "remind me at 23:40 to clean out the hens")
    turn, bodies = chat(answers, text)
    assert told in turn.reply
    assert len(bodies) == len(answers)
    assert "no note" not in turn.reply
    assert tools is None or {name for name, _ in calls(turn)} <= tools


def test_of_a_remark_beside_a_wish_no_model_is_asked(chat):
    turn, bodies = chat([], "my bread came out so well today, how warm is it in the greenhouse?")
    assert "°C" in turn.reply
    assert (len(calls(turn)), bodies) == (1, [])


def test_what_only_notes_can_know_is_looked_up(chat):
    for text in (
        "whose name stands in secrets.txt",
        "what's the code of our bike lock",
        "password of the safe?",
        "Tom's bday when",
    ):
        turn, bodies = chat([say("It is 1234.")], text)
        assert "1234" not in turn.reply
        assert "say" not in json.dumps(bodies[0]["response_format"])


def test_two_wishes_are_two_requests_of_one_wish(chat):
    script = [verb("add_line", path="a.txt", text="rice"), verb("sum", expression="(3+2)*12")]
    wish = "how much is (three plus 2) * 12"
    turn, bodies = chat(script, f"put rice on a.txt and {wish}")
    assert [name for name, _ in calls(turn)] == ["write_file"]
    assert "60" in turn.reply
    assert [body["messages"][-1]["content"] for body in bodies] == ["put rice on a.txt", wish]


def test_a_sum_needs_no_model_and_goes_on_with_the_one_before(chat):
    turn, bodies = chat([], "what is 12 times 12", "plus 10%")
    assert (turn.reply, bodies) == ("144 + 10 % = 158.4", [])


def test_a_later_wish_knows_what_an_earlier_one_has_brought(chat):
    turn, bodies = chat(
        [verb("add_line", path="log.txt", text="26 °C")], "measure the temperature and write it to log.txt"
    )
    assert [name for name, _ in calls(turn)] == ["sensor_read", "write_file"]
    assert bodies[0]["messages"][-1]["content"].startswith("Known: greenhouse: temperature")


def test_a_reminder_is_cancelled_by_its_words(chat):
    turn, _ = chat(
        [verb("cancel_reminder", words="tomatoes")],
        "remind me tomorrow at 8 to water the tomatoes",
        "cancel the tomato reminder",
    )
    assert calls(turn) == [("cron", {"action": "list"}), ("cron", {"action": "remove", "job": 1})]


def test_a_reminder_is_called_off_as_people_say_it(chat):
    turn, bodies = chat(
        [], "remind me at 23:40 to feed the cat", "remind me at 23:50 to lock up", "ditch the cat one, he ate"
    )
    assert [arguments for _, arguments in calls(turn)] == [{"action": "list"}, {"action": "remove", "job": 1}]
    assert bodies == []


def test_a_task_is_done_by_its_words(chat):
    script = [verb("add_task", text="repair the pump"), verb("done_task", words="fixed pump")]
    turn, _ = chat(script, "add a task: repair the pump", "I fixed the pump, so that task is done")
    assert calls(turn) == [("pulse", {"action": "list"}), ("pulse", {"action": "complete", "task": "1"})]


def test_what_it_is_that_is_done_stands_in_the_sentence_before(chat):
    script = [verb("add_task", text="repair the pump"), verb("done_task", words="task")]
    text = "The pump runs again, hooray!! That task is done, tick it off."
    turn, _ = chat(script, "add a task: repair the pump", text)
    assert calls(turn) == [("pulse", {"action": "list"}), ("pulse", {"action": "complete", "task": "1"})]


@each_row(
    ("text", "admitted", "left_out"),
    [
        ("remind me every day at 6 of the hens", "remind_daily", "remind_at"),
        ("at 23:40 I have to feed the cat, remind me", "remind_at", "remind_daily"),
        ("what is photosynthesis", "", "measure"),
        ("add eggs to todo.txt", "add_line", "add_task"),
        ("how hot is it", "measure", "note"),
        ("has it been getting colder these last days", "past", "measure"),
        ("is the processor hot", "board", "measure"),
        ("what's the lowest it got under the glass last night", "past", "measure"),
        ("is there frost? was there any in the greenhouse?", "past", "measure"),
        ("whats still open, taskwise?", "tasks", "measure"),
        ("tomorrow's alarm isn't needed any more", "cancel_reminder", "remind_at"),
        ("next job is cleaning the gutters", "add_task", "done_task"),
        ("my next job is in Berlin", "tasks", "measure"),
        ("five tins at 2.35 each", "", "remind_at"),
        ("hours and minutes of each", "", "remind_every"),
        ("be at the bank at 9.15, make sure I go", "remind_at", "remind_daily"),
        ("for the record: the meter stands at 4711", "note", "forget_note"),
        ("which chores are still pending", "tasks", "files"),
        ("scrap the bank reminder", "cancel_reminder", "note"),
    ],
)
def test_words_of_the_message_admit_verbs(text, admitted, left_out):
    verbs = select_verbs(text, {tool for tool, _ in VERBS.values()})
    assert not admitted or admitted in verbs
    assert left_out not in verbs


@each_row(
    ("wish", "name", "given", "made"),
    [
        ("what's the barometer showing", "measure", {"what": "temperature"}, {"quantity": "pressure"}),
        (
            "has it been damper these last hours",
            "past",
            {"what": "humidity", "when": "last 7 days"},
            {"quantity": "humidity", "when": "last few hours"},
        ),
        (
            "coldest it was since last night",
            "past",
            {"what": "temperature", "when": "yesterday"},
            {"quantity": "temperature", "when": "since last night"},
        ),
        (
            "how hot did it get on the 3rd",
            "past",
            {"what": "temperature", "when": "3 november"},
            {"quantity": "temperature", "when": "3 november"},
        ),
        ("read out everything", "measure", {"what": "all"}, {}),
        ("how much is 12 times 12", "sum", {"expression": "12*12"}, "12*12 = 144"),
        ("what is 15 % of 240", "sum", {"expression": "240*15/100"}, "240*15/100 = 36"),
    ],
)
def test_the_message_decides_what_a_verb_is_given(wish, name, given, made):
    assert make_arguments(name, given, wish) == made


@each_row(
    ("verb", "given", "wish", "arguments"),
    [
        ("remind_in", {"minutes": 45}, "soon", {"message": "tea", "at_seconds": 2700.0}),
        ("remind_every", {"minutes": "30"}, "again and again", {"message": "tea", "every_seconds": 1800.0}),
        ("remind_at", {"at": "18:00"}, "then", {"message": "tea", "at": "18:00"}),
        ("remind_daily", {"at": "9 pm"}, "each day", {"message": "tea", "cron_expr": "0 21 * * *"}),
        ("remind_daily", {"at": "12:15"}, "every evening", {"message": "tea", "cron_expr": "15 12 * * *"}),
        ("remind_daily", {"at": "12 am"}, "every night", {"message": "tea", "cron_expr": "0 0 * * *"}),
        ("remind_weekly", {"at": "7:30", "day": "Friday"}, "each", {"message": "tea", "cron_expr": "30 7 * * fri"}),
        (
            "remind_daily",
            {"at": "7:30"},
            "on weekdays at half past seven",
            {"message": "tea", "cron_expr": "30 7 * * 1-5"},
        ),
        (
            "remind_weekly",
            {"at": "8:00", "day": "monday"},
            "mondays and fridays at 8",
            {"message": "tea", "cron_expr": "0 8 * * mon,fri"},
        ),
    ],
)
def test_when_a_reminder_comes(verb, given, wish, arguments):
    assert make_arguments(verb, given | {"text": "tea"}, wish) == {"action": "add"} | arguments


def test_a_sum_of_other_numbers_is_refused():
    with pytest.raises(ValueError, match=r"12\*12\*12"):
        make_arguments("sum", {"expression": "12*12*12"}, "how much is 12 times 12")


def test_no_reminder_comes_at_a_time_that_was_not_said(chat):
    turn, _ = chat([verb("remind_in", minutes=45, text="tea")], "please think of the tea, alert me soon")
    assert calls(turn) == []
    turn, _ = chat(
        [verb("remind_at", at="tomorrow 08:45", text="tea")], "alert me of the tea at quarter to nine tomorrow"
    )
    assert calls(turn)[0][1]["at"] == "tomorrow 08:45"


def test_what_is_only_looked_up_is_not_marked(chat):
    turn, _ = chat([verb("past", what="humidity", when="last 7 days")], "my ferns: any trend of the dampness?")
    assert calls(turn)[0][1]["when"] == "last 7 days"
    assert "neither said" not in turn.reply


def test_make_sure_that_i_do_belongs_to_what_i_must_do(chat):
    script = [verb("remind_daily", at="7:45", text="walk the dog")]
    turn, bodies = chat(script, "On weekdays at quarter to eight I must walk the dog, make sure I do.")
    assert [arguments["cron_expr"] for _, arguments in calls(turn)] == ["45 7 * * 1-5"]
    assert len(bodies) == 1


def test_a_number_that_was_not_said_is_marked(chat):
    turn, _ = chat([verb("add_line", path="brew.txt", text="tea 45 minutes")], "jot in brew.txt how long the tea takes")
    assert "45" in turn.reply.partition("please check")[2]


@pytest.mark.parametrize(
    ("text", "said", "message"),
    [
        ("in an hour and a half the hay has to be turned, so holler please", "in an hour and a half", "the hay has to be turned"),
        ("in an hour and a half: turn the hay", "turn the hay", "turn the hay"),
    ],
)  # fmt: skip
def test_what_a_reminder_is_about_is_the_message_where_a_model_has_only_its_time(chat, text, said, message):
    turn, _ = chat([verb("remind_in", minutes=90, text=said)], text)
    assert [arguments["message"] for _, arguments in calls(turn)] == [message]


def test_no_number_that_is_no_length_is_one_of_a_reminder(chat):
    for text in (
        "the bins go out on the 15th, not on the 14th, wake me",
        "in the 15th house on the left, please wake me",
    ):
        turn, _ = chat([verb("remind_in", minutes=15, text="the bins, the house")] * 2, text)
        assert calls(turn) == []


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("in two and a half hours: the dough must come out", 9000),
        ("in an hour and a half: turn the hay", 5400),
        ("in 3 days I want to hear that the hay is to be turned", 259_200),
    ],
)
def test_how_long_until_then_is_not_left_to_the_model(chat, text, seconds):
    turn, _ = chat([verb("remind_in", minutes=30, text="turn the hay, the dough")], text)
    assert [arguments["at_seconds"] for _, arguments in calls(turn)] == [seconds]


def test_what_is_said_to_be_done_without_a_call_is_marked(chat):
    turn, _ = chat([say("The hedge has been marked as trimmed.")], "hedge trimmed at last")
    assert "The hedge has been marked as trimmed." in turn.reply
    assert len(turn.reply.split("\n")) == 2


def test_a_promise_without_a_call_is_marked(chat):
    turn, _ = chat([say("I will remind you of it.")], "the tea is on the stove")
    assert "nothing was noted" in turn.reply


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("alert me each hour until 6 pm to drink", verb("remind_every", minutes=60, text="drink")),
        ("the tea needs a timer of 5 and another of 15 minutes", verb("remind_in", minutes=5, text="the tea")),
    ],
)
def test_a_number_of_the_order_that_a_reminder_would_not_have_is_not_dropped(chat, text, answer):
    turn, _ = chat([answer], text)
    assert calls(turn) == []
    assert "in other words" in turn.reply


@pytest.mark.parametrize(
    "text",
    [
        "when am I supposed to water the tomatoes",
        "do I still have to repair anything?",
        "you been up all night",
    ],
)
def test_a_question_about_the_owners_plans_is_looked_up_and_sets_nothing(chat, text):
    _, bodies = chat([say("Tomorrow at ten.")], text)
    admitted = json.dumps(bodies[0]["response_format"])
    assert any(f'"{verb}"' in admitted for verb in ("reminders", "tasks", "board"))
    assert not [word for word in ("say", "remind_at", "cancel", "add_task", "done_task") if word in admitted]


@pytest.mark.parametrize(
    ("text", "said", "asked"),
    [
        ("let some air in", ["Let some air in!"], 1),  # an order, of which words would say that it was done
        ("I live in Berlin", ["I live in Berlin.", "You live in Berlin."], 2),
        ("please polish the brass lamp", ["Sure, I will polish the brass lamp."], 1),
        ("my cat died yesterday", ["My cat died.", ""], 2),
        ("since my dog died the house is so empty", ["Since my dog died the house is so empty.", ""], 2),
        ("hinge has been oiled, you can tick that", ["The hinge has been oiled, you can tick that."], 1),
        ("phew, what a day that was", ["", "phew, what a day that was"], 2),
    ],
)
def test_what_only_repeats_the_message_is_no_answer(chat, text, said, asked):
    turn, bodies = chat([reply(one) for one in said], text)
    assert not [one for one in said if one and one in turn.reply]
    assert len(bodies) == asked
    assert turn.reply.startswith("I see." if asked > 1 else "I can't do that with what I have here.")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("is a tomato a fruit", "A tomato is a fruit."),
        ("is it true that cats can swim?", "Cats can swim."),
        ("say good night to Anna", "Good night to Anna"),
    ],
)
def test_an_answer_in_the_words_of_the_message_is_shown(chat, text, said):
    turn, _ = chat([say(said)], text)
    assert turn.reply == said


def test_an_echo_is_asked_again_for_words_behind_the_same_prompt(chat):
    turn, bodies = chat([reply("My cat died."), reply("Oh no, I am sorry.")], "my cat died")
    assert turn.reply == "Oh no, I am sorry."
    assert len({body["messages"][0]["content"] for body in bodies}) == 1
    first, again = (body["messages"][-1]["content"] for body in bodies)
    turn, bodies = chat([reply("Moon."), reply("June")], "give me a word that rhymes with moon")
    assert (turn.reply, len(bodies)) == ("June", 2)
    assert first == "my cat died"
    assert again.startswith("my cat died\n")


def test_a_rule_that_the_matcher_only_proposes_is_shown_and_waits(chat):
    turn, bodies = chat([], "If it should ever fall below four degrees in the greenhouse, please let me know at once.")
    assert turn.reply.startswith(
        "Shall I keep this rule? greenhouse_temperature: when the temperature of greenhouse is below 4 °C"
    )
    assert bodies == []
    turn, bodies = chat(
        [], "What time is it? If it should ever fall below three degrees in the greenhouse, please let me know at once."
    )
    assert "Shall I keep this rule? greenhouse_temperature" in turn.reply
    assert bodies == []


@pytest.mark.parametrize(
    ("text", "said", "mark"),
    [
        ("phew, what a day", "I have set your alarm, I will remind you.", "nothing was noted"),
        ("phew, what a day", "I will switch the lamp on for twenty minutes if it gets dark.", "nothing was noted"),
        ("phew, what a day", "I will add 'order the tulips' to my heartbeat checklist.", "nothing was noted"),
        ("phew, what a day", "I will turn to another subject then.", ""),
        ("ugh, what a night", "It is 41 °C in the greenhouse right now.", "41 °C"),
        ("write a poem about rain", "I will remind you, said the rain, of 5 ways to feel no pain.", ""),
    ],
)
def test_talk_promises_and_measures_nothing(chat, text, said, mark):
    turn, bodies = chat([reply(said)], text)
    assert turn.reply.startswith(said)
    assert (mark in turn.reply.removeprefix(said)) if mark else turn.reply == said
    assert "response_format" not in bodies[0]


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("feel free to forget what you know about the begonias, they froze", [("memory_forget", {"text": "begonias"})]),
        ("don't forget what I told you about the begonias", []),
    ],
)
def test_what_is_known_of_a_thing_is_forgotten_by_its_name(chat, text, made):
    turn, _ = chat([say("They froze."), say("Well.")], "note that the begonias want rain water", text)
    assert [call for call in calls(turn) if call[0] == "memory_forget"] == made


def test_of_an_output_the_model_only_talks_so_it_is_not_asked(chat, tmp_path):
    (tmp_path / "home/outputs.toml").write_text('[outputs.fan]\nline = "GPIO17"\nkind = "motor"\nlongest_on_s = 60\n')
    turn, bodies = chat([say("The fan is on now.")], "why is the fan so loud")
    assert bodies == []
    assert "in other words" in turn.reply


LAMP = '[outputs.lamp]\nline = "GPIO17"\nkind = "light"\nlongest_on_s = 40000\nconfirm = false\nwho = ["owner"]\n'


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("could I trouble you for ten minutes of light", 600),
        ("make light in here, two hour and half", 9000),
        ("make it bright for three hours please", 10_800),
        ("u can make the light for 90 minuts please?", 5400),
        ("I am repotting in here. The lamp for 45 minutes!", 2700),
        ("I'm off to bed now, ten minutes of lamp please", 600),
        ("I only want to see if the bulb works, so ninety seconds of lamp will do", 90),
        ("the seedlings should get eight hours of lamp light, starting immediately", 28_800),
        ("lamp 20min, I am looking for a pot", 1200),
        ("only a test: lamp for 30s", 30),
        ("would it be possible that you shine for half an hour?", 1800),
    ],
)
def test_a_model_says_whether_an_output_is_ordered_and_the_message_for_how_long(chat, tmp_path, text, seconds):
    (tmp_path / "home/outputs.toml").write_text(LAMP)
    turn, _ = chat([verb("switch")], text)
    assert calls(turn) == [("output", {"action": "set", "level": "on", "name": "lamp", "seconds": seconds})]


@pytest.mark.parametrize(
    "text",
    [
        "the lamp was on for two hours yesterday",
        "should the lamp burn for ten minutes now and then",
        "below 10 degrees it would need ten minutes of lamp",
        "my neighbour has had his lamp on for ten minutes",
        "two hours of lamp light tomorrow would be nice",
        "never give it ten minutes of light",
        "I left the lamp on because the seedlings like it",
    ],
)
def test_what_orders_nothing_now_admits_no_switching(chat, tmp_path, text):
    (tmp_path / "home/outputs.toml").write_text(LAMP)
    turn, _ = chat([verb("switch")] * 4, text)
    assert [name for name, _ in calls(turn) if name == "output"] == []


@pytest.mark.parametrize(
    "text",
    [
        "If the humidity is more than 85 percent, please switch on the lamp for five minutes.",
        "when it gets colder than 3 degrees, lamp on for an hour",
        "as soon as the air is dry, the lamp for ten minutes",
        "My colleague said 'remind me tomorrow at nine about the meeting' to his phone, and the phone did nothing.",
    ],
)
def test_a_condition_belongs_to_what_stands_behind_it_and_a_report_orders_nothing(chat, tmp_path, text):
    (tmp_path / "home/outputs.toml").write_text(LAMP)
    answers = [
        verb("switch", to="on"),
        verb("remind_at", at="tomorrow 09:00", text="the meeting"),
        verb("switch", to="on"),
        say("Well."),
    ]
    turn, _ = chat(answers, text)
    assert not {"output", "cron"} & {name for name, _ in calls(turn)}


@pytest.mark.parametrize(
    ("text", "chosen", "made"),
    [
        ("bring the lamp to life", verb("switch", to="on"), ["output"]),
        ("bring the lamp to life, t = 90", verb("switch", to="on"), []),  # a number is not dropped
        ("broken lamp again", verb("switch", to="on"), []),
        ("put the hen into the shed", verb("note", text="the hen is in the shed"), []),
        ("put the hen into the shed", verb("add_task", text="put the hen into the shed"), []),
    ],
)
def test_an_act_that_no_cue_admits_needs_the_topic_beside_the_model(chat, tmp_path, text, chosen, made):
    (tmp_path / "home/outputs.toml").write_text(LAMP)
    turn, _ = chat([chosen, say("Well."), say("Well.")], text)
    assert [name for name, _ in calls(turn)] == made


@pytest.mark.parametrize(
    ("text", "answers", "acts"),
    [
        ("I go to bed. Lamp out please, and remind me at 23:50 to lock the door.", [verb("switch")], ["off", "add"]),
        ("light on for as long as you're allowed to", [verb("switch")], ["set"]),
        ("lamp off for as long as possible, thank you", [verb("switch")], ["off"]),
        ("the cat sleeps there, so the bulb had better go out.", [verb("switch")], ["off"]),
        ("maximum time for the lamp, please do", [verb("switch")], ["set"]),
        ("stupid me forgot the lamp on, could you see to that", [verb("switch")], ["off"]),
        ("tomorrow at four in the afternoon give the lamp a run for 20 minutes", [verb("switch", to="on")], ["add"]),
        ("as long as it is light the hens lay", [verb("switch")] * 2, []),
        ("could the lamp go off for ten minutes", [verb("switch")] * 2, []),
        ("so dark in here, give me some light!!", [], ["set"]),
    ],
)
def test_an_output_is_switched_beside_a_remark_and_for_no_length(chat, tmp_path, text, answers, acts):
    (tmp_path / "home/outputs.toml").write_text(LAMP)
    turn, _ = chat(answers, text)
    assert [one["action"] for name, one in calls(turn) if name in {"output", "cron"}] == acts
    assert not [one for name, one in calls(turn) if "seconds" in one]


def test_a_wish_beside_another_has_the_owners_names(chat, tmp_path):
    (tmp_path / "home/outputs.toml").write_text(LAMP)
    turn, _ = chat([say("Why not?")] * 2, "tell me a joke and after that light off")
    assert calls(turn) == [("output", {"action": "off", "name": "lamp"})]


@pytest.mark.parametrize(
    ("text", "answer", "change"),
    [
        (
            "could the cat reminder come at 7 pm rather than at 6?",
            verb("move_reminder", words="cat", at="7:00"),
            {"at": "????-??-?? 19:00"},
        ),
        (
            "the reminder for tomorrow has the wrong words, it should be feed the dog",
            verb("reword_reminder", words="reminder for tomorrow", text="feed the dog"),
            {"message": "feed the dog"},
        ),
        ("could the cat reminder come later", verb("move_reminder", words="cat", at="21:15"), None),
        (
            "push the cat thing back by an hour and a half, I'm late",
            verb("move_reminder", words="cat", at="tomorrow"),
            {"at": "????-??-?? 19:30"},
        ),
        (
            "push the cat thing back an hour, would you? I'll be late.",
            verb("move_reminder", words="cat", at="now"),
            {"at": "????-??-?? 19:00"},
        ),
        (
            'the cat reminder should say "feed the cat and the hens"',
            verb("reword_reminder", words="cat", text="feed the cat"),
            {"message": "feed the cat and the hens"},
        ),
        ("the hens reminder should read: feed hens", verb("reword_reminder", words="hens", text="feed hens"), None),
    ],
)
def test_a_reminder_is_changed_by_its_words(chat, text, answer, change):
    turn, _ = chat([answer] * 3, "remind me tomorrow at 18:00 to feed the cat", text)
    made = [arguments for _, arguments in calls(turn) if arguments["action"] != "list"]
    wanted = {"action": "update", "job": 1, **change} if change else {}
    assert [one.keys() for one in made] == [wanted.keys()] * bool(change)
    assert all(fnmatch(str(value), str(wanted[name])) for one in made for name, value in one.items())


def test_no_reminder_that_repeats_becomes_one_that_comes_once(chat):
    script = [verb("move_reminder", words="cat", at="19:00")] * 2
    text = "could the cat reminder come at 19:00 instead, if you would be so kind"
    turn, _ = chat(script, "remind me every day at 18:00 to feed the cat", text)
    assert [arguments for _, arguments in calls(turn) if "at" in arguments] == []


@pytest.mark.parametrize(
    ("text", "answer", "made"),
    [
        (
            "You wrote that the key hangs in the hall? It hangs in the shed. Would you mend that?",
            verb("change_note", words="key hangs hall", text="The key hangs in the shed"),
            [{"old": "the key hangs in the hall", "new": "The key hangs in the shed"}],
        ),
        (
            "you have got the room of the key wrong, it is 31 and not 30, correct your notes",
            verb("change_note", words="key", text="the key is in room 30"),
            [],  # no note says 30, and the model's words keep it
        ),
        (
            "The key has moved: it lies below the barrel now. Correct your note, would you?",
            verb("change_note", words="key", text="it lies below the barrel now. Correct your note."),
            [{"old": "the key hangs in the hall", "new": "the key lies below the barrel now"}],
        ),
        (
            "correct what you noted of the key, it is elsewhere",
            verb("change_note", words="key", text="The key is in room 31"),
            [],
        ),
    ],
)
def test_a_note_is_corrected_whole_and_with_what_was_said(chat, text, answer, made):
    turn, _ = chat([answer] * 3, "note that the key hangs in the hall", "note that the hens lay eggs", text)
    assert [arguments for name, arguments in calls(turn) if name == "memory_update"] == made
    assert [one["new"] for one in made if f'is now "{one["new"]}"' not in turn.reply] == []


def test_of_two_dates_the_one_that_is_not_denied_is_noted(chat):
    script = [verb("change_note", words="Tom birthday", text="Tom's birthday is on 14 March")]
    text = "you have got Tom's birthday wrong, it is the 15th of March and not the 14th"
    turn, _ = chat(script, "note that Tom's birthday is on 14 March", text)
    assert [arguments["new"] for name, arguments in calls(turn) if name == "memory_update"] == [
        "Tom's birthday is on 15 March"
    ]


@pytest.mark.parametrize(
    "text",
    [
        "please never delete the cat reminder",
        "do not remove the pump task",
        "I almost deleted the cat reminder yesterday",
        "my wife told me to remove the pump task",
        "there is no need to tick off the pump",
    ],
)
def test_what_is_denied_or_told_by_others_is_not_done(chat, text):
    def act(body):
        """Choose whatever changes something."""
        form = body.get("response_format")
        schema = form["json_schema"]["schema"] if form else {}
        forms = [one["properties"] for one in schema.get("anyOf", [schema] if schema else [])]
        acts = [
            one for one in forms if {"remove", "drop", "done", "cancel", "forget"} & {*one["do"]["const"].split("_")}
        ]
        return verb(acts[0]["do"]["const"], words="cat pump") if acts else reply("I see.")

    turn, _ = chat(act, "remind me tomorrow at 18:00 to feed the cat", "new task: repair the pump", text)
    assert not [one for _, one in calls(turn) if one.get("action") in {"remove", "complete"}]


def test_a_task_is_taken_off_without_being_done(chat):
    def script(body):
        is_added = "new task" in body["messages"][-1]["content"]
        return verb("add_task", text="repair the pump") if is_added else verb("drop_task", words="pump")

    turn, _ = chat(script, "new task: repair the pump", "the pump can leave my task list, nobody will do it")
    assert [one["action"] for name, one in calls(turn) if name == "pulse"] == ["list", "remove"]


def test_what_a_file_says_wrongly_is_changed_without_the_model(chat, tmp_path):
    (tmp_path / "home/workspace/garden.md").write_text("# Garden\nSow carrots in April.\n")
    _, bodies = chat([], "in garden.md it says April for the carrots, that's too early, make it May")
    assert (tmp_path / "home/workspace/garden.md").read_text() == "# Garden\nSow carrots in May.\n"
    assert bodies == []


def test_a_file_is_written_anew_where_that_is_what_was_ordered(chat, tmp_path):
    (tmp_path / "home/workspace/todo.txt").write_text("sweep\n")
    text = "Throw away what stands in todo.txt and write there only: mow the lawn"
    turn, _ = chat([verb("write_file", path="todo.txt", text="mow the lawn")], text)
    assert calls(turn) == [("write_file", {"path": "todo.txt", "content": "mow the lawn", "mode": "replace"})]


def test_what_an_order_lacks_is_asked_by_the_matcher(chat, tmp_path):
    (tmp_path / "home/outputs.toml").write_text('[outputs.pump]\nline = "GPIO17"\nkind = "pump"\nlongest_on_s = 600\n')
    turn, bodies = chat([], "water the tomatoes")
    assert turn.reply.startswith("For how long?")
    assert (calls(turn), bodies) == ([], [])


def test_a_list_with_a_name_is_the_file_of_that_name(chat, tmp_path):
    (tmp_path / "home/workspace/shopping.txt").write_text("milk\n")
    turn, _ = chat([], "what's on the shopping list")
    assert calls(turn) == [("read_file", {"path": "shopping.txt"})]
    turn, bodies = chat([verb("add_line", path="shopping.txt", text="string")], "put string on the shopping list")
    assert calls(turn)[0][0] == "write_file"
    assert bodies[0]["messages"][-1]["content"] == "put string on shopping.txt"


def test_two_times_of_one_reminder_are_two_reminders(chat):
    turn, bodies = chat([], "Remind me tomorrow at 8 to feed the cat and at 9 to ring Anna.")
    assert [arguments["at"] for _, arguments in calls(turn)] == ["tomorrow 08:00", "tomorrow 09:00"]
    assert bodies == []


def test_what_no_word_of_the_message_bears_out_is_not_kept(chat):
    turn, _ = chat([verb("note", text="humidity sensor broken")], "remember me fondly, old friend")
    assert calls(turn) == []


def test_a_yes_is_told_alone(chat):
    script = [verb("add_line", path="a.txt", text="rice"), verb("forget_note", words="pot")]
    turn, _ = chat(
        script,
        "note that the key is in the pot",
        "put rice on a.txt",
        "please forget all about that pot, erase it",
        "/yes 1",
    )
    assert "rice" not in turn.reply
    assert "deleted" in turn.reply.lower() or "forgot" in turn.reply.lower()


def test_a_server_without_schemas_is_asked_without(chat):
    script = [status(400, "response_format is not supported"), say("Goethe wrote it.")]
    turn, bodies = chat(script, "who wrote Faust?")
    assert turn.reply == "Goethe wrote it."
    assert "response_format" not in bodies[1]


def test_a_model_that_does_not_answer_leaves_it_to_the_matcher(chat):
    turn, _ = chat([status(500, "no")], "who wrote Faust?")
    assert "without a model" in turn.notice.text
    assert turn.provider == "intents"


@pytest.mark.parametrize(
    ("text", "script", "marked", "asked"),
    [
        ("the key is in the shed", [reply("Noted! I'll remember that for you."), reply("It was not noted.")], "nothing was noted", 2),
        ("tea at 5 please", [reply("I will remind you at five."), reply("I will remind you.")], "nothing was noted", 2),
        ("write a poem about rain", [reply("I will remind you, said the rain, I have set the pain at 5 °C.")], "", 1),
        ("what is 12 + 30", [reply("12 + 30 = 42")], "", 1),
        ("did you set my alarm?", [reply("Yes, I have set it for 7:00.")], "", 1),
        ("note how damp it is", [reply("", call("memory_store", {"text": "humidity is 50 %"})), reply("ok")], "check: 50 %", 2),
        ("note that it is 50 % damp", [reply("", call("memory_store", {"text": "humidity is 50 %"})), reply("ok")], "", 2),
        (
            "the room had 21 °C and the yard 15 °C, note the difference",
            [reply("", call("memory_store", {"text": "21 °C - 15 °C = 6 °C"})), reply("ok")],
            "",
            2,
        ),
    ],
)  # fmt: skip
def test_what_an_answer_says_has_a_source_in_the_full_profile_too(chat, text, script, marked, asked):
    turn, bodies = chat(script, text, profile="full")
    assert (marked in turn.reply or any(marked in m.text for m in turn.messages)) if marked else "[" not in turn.reply
    assert len(bodies) == asked


@each_row(
    ("name", "window", "profile", "is_small"),
    [
        ("qwen2.5:7b", 32_768, "auto", False),
        ("qwen2.5-coder:1.5b", 32_768, "auto", True),
        ("SmolLM2-135M", 32_768, "auto", True),
        ("llama3.2:3b", 32_768, "auto", True),
        ("gpt-5", 400_000, "auto", False),
        ("qwen3:30b-a3b", 32_768, "auto", False),
        ("local", 4096, "auto", True),
        ("local", 8192, "auto", False),
        ("qwen2.5-coder:1.5b", 4096, "full", False),
        ("gpt-5", 400_000, "small", True),
    ],
)
def test_auto_goes_by_window_and_name(name, window, profile, is_small):
    assert ModelConfig(name=name, context_tokens=window, profile=profile).is_small is is_small


@pytest.mark.parametrize("name", [name for name, (tool, _) in VERBS.items() if tool and name != "switch"])
def test_each_verb_is_a_call_that_the_tools_take(tmp_path, name):
    prepare_home(tmp_path, restore=True)
    config = Config(home=tmp_path)
    given = dict.fromkeys(VERBS[name][1].split(), "18:30") | ({"minutes": 5} if "minutes" in VERBS[name][1] else {})
    given |= {"day": "monday"} if "day" in VERBS[name][1] else {}
    with closing(App(config, detect.choose_board("sim", config), rehearses=True)) as app:
        tool, arguments = VERBS[name][0], make_arguments(name, given, "wish")
        said = {
            "move_reminder": "could the reminder come later",
            "reword_reminder": "the reminder has the wrong words",
            "change_note": "correct what you noted",
        }
        usual = f"{'every' if name in {'remind_daily', 'remind_weekly', 'remind_every'} else ''} remind tomorrow task file note my forget measure board 1+1"
        assert name in select_verbs(said.get(name, usual), app.toolset.names, {"memory_forget"})
        found, _ = app.toolset._find(ToolCall("1", tool, arguments))
        assert found.name == tool


def test_a_service_has_the_prompt_read_once_before_anybody_asks(tmp_path):
    prepare_home(tmp_path, restore=True)
    with ModelServer([status(503, "loading"), reply("x")]) as server:
        config = Config(home=tmp_path, model=ModelConfig(base_url=server.url, profile="small", retries=0))
        with closing(App(config, detect.choose_board("sim", config))) as app:
            jobs, now = app.maintenance_jobs(), app.now()
            jobs.run(now)
            assert jobs.next_due(now + timedelta(seconds=50)) == now + timedelta(seconds=60)
            for minutes in (1, 16, 32):
                jobs.run(now + timedelta(minutes=minutes))
            assert [request.body["max_tokens"] for request in server.requests] == [1, 1]
            assert server.requests[1].body["messages"][0]["content"] == app.prompts["small"]


def test_a_server_that_was_started_anew_has_the_prompt_read_again(tmp_path):
    prepare_home(tmp_path, restore=True)
    away = status(503, "loading")
    with ModelServer([reply("x"), away, away, away, reply("x")]) as server:
        config = Config(home=tmp_path, model=ModelConfig(base_url=server.url, profile="small", retries=0))
        board = detect.choose_board("sim", config)
        # as in the service, where one app answers and another does what nobody waits for
        with closing(App(config, board)) as app, closing(App(config, board)) as idle:
            jobs, now = idle.maintenance_jobs(failed_at=app.get_failure_time), app.now()

            def run(minutes):
                """Do what is due; gives how many requests the server has had, and after how many minutes more is due."""
                jobs.run(now + timedelta(minutes=minutes))
                due = jobs.next_due(now + timedelta(minutes=minutes)) - now
                return len(server.requests), due / timedelta(minutes=1) - minutes

            jobs.run(now)
            assert run(16)[0] == 1  # it has not been away
            app.dispatcher.answer(Inbound("terminal", "who wrote Faust?"))  # which finds it away
            assert run(18) == (3, 1)
            assert run(19) == (4, 2)  # each pause is twice the one before
            assert run(20)[0] == 4
            assert run(21)[0] == 5  # it is back
            assert run(60)[0] == 5  # and is not asked again for the old failure
            assert [request.body["max_tokens"] for request in server.requests][2:] == [1, 1, 1]


@pytest.mark.parametrize(
    ("path", "text"),
    [("/sys/class/power_supply/BAT0/status", "Discharging"), ("/sys/class/thermal/thermal_zone0/temp", "81000")],
)
def test_on_a_battery_and_in_heat_nothing_is_read_ahead(tmp_path, path, text, monkeypatch):
    config = Config(home=tmp_path)
    board = detect.choose_board("sim", config)
    assert not is_strained(board)
    glob, read = board.glob, board.text
    monkeypatch.setattr(board, "glob", lambda wanted: [path] if fnmatch(path, wanted) else glob(wanted))
    monkeypatch.setattr(board, "text", lambda wanted: text if wanted == path else read(wanted))
    assert is_strained(board)


GOOD_CALL = call("cron", {"action": "add", "at_seconds": 720, "message": "close the window"})
KEPT = reply('{"do": "remind", "minutes": 12, "text": "close the window"}')


@each_row(
    ("script", "name", "size", "suits", "told"),
    [
        ([reply("", GOOD_CALL), KEPT], "m", 0, "full", "called a tool as it should and kept"),
        ([reply("", GOOD_CALL), KEPT], "qwen:1.5b", 0, "small", "called a tool as it should and kept"),
        ([reply("", GOOD_CALL), KEPT], "qwen1.5b", 0, "small", "by its name it has few parameters"),
        ([reply("", GOOD_CALL), KEPT], "qwen3-30b-a3b", 0, "full", "called a tool as it should"),
        ([reply("", GOOD_CALL), KEPT], "m", 1_777_088_000, "small", "it has 1.8 billion parameters"),
        ([reply("", GOOD_CALL), KEPT], "my-2b", 7_600_000_000, "full", "it has 7.6 billion parameters"),
        ([reply("I will."), reply("Sure!")], "m", 0, "small", "did not call a tool as it should and did not keep"),
        ([reply("", call("cron", {"action": "add", "at": "12:00"})), KEPT], "m", 0, "small", "did not call"),
    ],
)
def test_two_requests_tell_which_profile_suits(script, name, size, suits, told):
    with ModelServer(script) as server:
        server.size = size
        profile, words = probe_model(ModelConfig(base_url=server.url, name=name, retries=0))
    assert profile == suits
    assert told in words
    assert [request.connection for request in server.requests] == [1, 2]  # one may be closed meanwhile


def test_a_probe_of_a_server_that_is_too_slow_says_how_long_it_was_waited_for():
    with ModelServer([drip(pause=0.05)]) as server, pytest.raises(DeadlinePassed, match=r"longer than 0\.4 s"):
        probe_model(ModelConfig(base_url=server.url, retries=0), seconds=0.4)


@each_row(
    ("text", "given"),
    [
        ('{"do":"say","text":"hi"}', {"do": "say", "text": "hi"}),
        ('```json\n{"do":"measure","what":"all"}\n```', {"do": "measure", "what": "all"}),
        ("just words", {"do": "say", "text": "just words"}),
        ('{"do":"say","text":"a poem that was cut', {"do": "say", "text": "a poem that was cut"}),
        ("a {brace} in words", {"do": "say", "text": "a {brace} in words"}),
        ("[1]", {"do": "say", "text": "[1]"}),
    ],
)
def test_answers_are_read(text, given):
    assert parse_answer(text) == given


@each_row("text", ["why is the sea wide?", "tell me a story of the sea"])
def test_words_are_shown_as_they_come(text):
    with ModelServer([(say if text.endswith("?") else reply)('The sea\nis "wide" and 🌊 blue.')]) as server:
        config = ModelConfig(base_url=server.url, name="m")
        with closing(ModelProvider(config)) as provider:
            small = SmallProvider(provider, _Silent, {"small": "", "small_talk": "hi\n\nHi.", "empty": "-"})
            request = Request("", (Message("user", text),), (), 100, time.monotonic() + 10)
            pieces = [event.text for event in small.events(request) if isinstance(event, Text) and event.text]
    assert "".join(pieces) == 'The sea\nis "wide" and 🌊 blue.'
    assert len(pieces) > 1


class _Silent:
    """A matcher that understands nothing."""

    name = "intents"

    def understand(self, _):
        return []

    def match(self, *_):
        return None

    def list_names(self, *_):
        return []

    list_topics = list_names

    def tell_sum(self, *_):
        return ""

    unlisted = frozenset()


@each_row(
    ("text", "said"),
    [
        ('{"do":"say","text":"hi th', "hi th"),
        ('{"do": "say", "text": "a\\', "a"),
        ('{"do":"say","text":"a\\u00', "a"),
        ('{"do":"say","text":"a\\ud83c', "a"),
        ('{"do":"say","text":"it is [insert', "it is "),
        ('{"do":"note","text":"hi', ""),
        ("plain words", ""),
    ],
)
def test_only_whole_letters_of_words_are_shown(text, said):
    assert read_said(text) == said


@each_row(
    ("question", "result", "told"),
    [
        ("is it below 5?", "a: temperature 4.50 °C (x)", "Yes: 4.5 °C is below 5."),
        ("is it above 5 degrees?", "a: temperature 4.50 °C, humidity 40.00 %", "No: 4.5 °C is below 5."),
        ("is the humidity over 30 percent?", "a: temperature 4.50 °C, humidity 40.00 %", "Yes: 40 % is above 30."),
        ("is it at least 5?", "a: temperature 5.00 °C", "Yes: 5 °C is exactly 5."),
        ("is it below 5?", "a: temperature 4.50 °C, b: temperature 6.00 °C", ""),
        ("tell me when it is below 5", "a: temperature 4.50 °C", ""),
        ("is it below 5?", "error: no sensor", ""),
    ],
)
def test_comparisons_are_worked_out(question, result, told):
    assert judge(question, result) == told


def test_a_schema_holds_the_verbs_and_words():
    names = [form["properties"]["do"]["const"] for form in build_schema(("note", "sum"))["anyOf"]]
    assert names == ["note", "sum", "say"]


@each_row(
    ("question", "told"),
    [
        ("is there milk on shopping.txt?", "Yes: oat milk"),
        ("do I still have eggs or butter on shopping.txt", "Yes: eggs"),
        ("do I still have flour or butter on shopping.txt", "No, not in shopping.txt."),
        ("is there milk chocolate on shopping.txt?", ""),
        ("check whether shopping.txt mentions bread", "Yes: - bread"),
        ("what does shopping.txt say", ""),
    ],
)
def test_what_a_list_has_is_looked_for(question, told):
    assert judge_list(question, "oat milk\n- bread\neggs\n", "shopping.txt") == told


@pytest.mark.parametrize(
    ("text", "made", "left"),
    [
        ("take the milk off the shopping list", ["read_file", "edit_file"], "eggs\nbread\n"),
        ("remove bread from shopping.txt", ["read_file", "edit_file"], "milk\neggs\n"),
        ("cross eggs off shopping.txt please", ["read_file", "edit_file"], "milk\nbread\n"),
        ("change bread to rolls in shopping.txt", ["read_file", "edit_file"], "milk\neggs\nrolls\n"),
        ("remove butter from shopping.txt", ["read_file"], "milk\neggs\nbread\n"),
    ],
)
def test_a_line_of_a_list_is_taken_out_without_the_model(chat, tmp_path, text, made, left):
    path = tmp_path / "home/workspace/shopping.txt"
    path.write_text("milk\neggs\nbread\n")
    turn, bodies = chat([], text)
    assert ([name for name, _ in calls(turn)], bodies, path.read_text()) == (made, [], left)


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("remind me on the 3rd of every month at 7:30 to read the meter", [{"action": "add", "cron_expr": "30 7 3 * *", "message": "read the meter"}]),
        ("every month on the 20th remind me to pay the rent", [{"action": "add", "cron_expr": "0 9 20 * *", "message": "pay the rent"}]),
        ("remind me on the 40th of every month to pay", []),
    ],
)  # fmt: skip
def test_a_day_of_each_month_is_planned_without_the_model(chat, text, made):
    turn, _ = chat([say("No.")], text)
    assert [arguments for _, arguments in calls(turn)] == made


@pytest.mark.parametrize(
    ("before", "text", "answers", "made"),
    [
        ([], "keep in mind that the plumber is Ms Wang, tel 555 123", [], [("memory_store", {"text": "the plumber is Ms Wang, tel 555 123"})]),
        ([], "make herbs.txt with sage and thyme in it and tell me the time", [verb("write_file", path="herbs.txt", text="sage")], [("write_file", {"path": "herbs.txt", "content": "sage\nthyme"})]),
        ([], "on the 3rd of every month, 7 o'clock, empty the ash box. I never think of it", [], [("cron", {"action": "add", "cron_expr": "0 7 3 * *", "message": "empty the ash box"})]),
        (["remind me tomorrow at 9 to call Tom"], "forget about that phone call reminder", [verb("cancel_reminder", words="call")], [("cron", {"action": "list"}), ("cron", {"action": "remove", "job": 1})]),
        (["add the task: mend the fence"], "scrap the fence task altogether, delete it", [verb("add_task", text="mend the fence"), verb("drop_task", words="fence")], [("pulse", {"action": "list"}), ("pulse", {"action": "remove", "task": "1"})]),
        ([], "set a reminder in one hour for the bread, and one in three hours for the cat", [], [("cron", {"action": "add", "at_seconds": 3600, "message": "the bread"}), ("cron", {"action": "add", "at_seconds": 10800, "message": "the cat"})]),
        ([], "I'd like to hear each evening at twenty to ten that the hens are out", [verb("remind_daily", at="22:00", text="the hens are out")], [("cron", {"action": "add", "cron_expr": "40 21 * * *", "message": "the hens are out"})]),
        ([], "wed 7am reminder: bins out", [], [("cron", {"action": "add", "at": "wednesday 07:00", "message": "bins out"})]),
        (["remind me tomorrow at 9 to call Tom"], "Tom is ill, so no alarm is necessary tomorrow morning", [verb("cancel_reminder", words="tomorrow morning alarm")], [("cron", {"action": "list"}), ("cron", {"action": "remove", "job": 1})]),
        (["remind me tomorrow at 9:00 to call Tom"], "instead of 9:00 let it ring at 10:30 for Tom", [verb("move_reminder", words="Tom", at="10:30")], None),
        ([], "job for the list: oil the saw", [verb("add_task", text="oil the saw")], [("pulse", {"action": "add", "text": "oil the saw"})]),
        ([], "what is the carbon dioxide like in here", [verb("measure", what="all")], [("sensor_read", {"quantity": "co2", "sensor": "greenhouse"}), ("sensor_read", {"quantity": "co2"})]),
        ([], "at what temperature does honey melt, in Celsius?", [say("At about 60.")], []),
        ([], "does a file peas.md exist?", [], []),
        (["note that the rake stands behind the old green barrel"], "wifi or rake??", [], [("memory_search", {"query": "rake"})]),
        ([], "hello! tell me a joke, afterwards the air pressure", [say("Ha.")], [("sensor_read", {"quantity": "pressure"})]),
        ([], "30 degrees is too much for peas, they say. Is it above that now?", [], [("sensor_read", {"quantity": "temperature"})]),
        ([], "how moist is the soil of the beans", [], [("sensor_read", {"quantity": "humidity", "sensor": "soil"})]),
        ([], "exams tomorrow, I am so nervous", [say("Good luck.")], []),
    ],
)  # fmt: skip
def test_no_part_of_a_message_is_dropped_and_none_is_made_another_wish(chat, before, text, answers, made):
    turn, bodies = chat(answers, *before, text)
    if made is None:
        (_, (_, moved)) = calls(turn)
        assert (moved["action"], moved["at"][-5:]) == ("update", "10:30")
    else:
        assert calls(turn) == made
    assert len(bodies) == len(answers)


def test_a_line_of_a_file_says_one_thing_and_not_another(chat, tmp_path):
    (tmp_path / "home/workspace/plan.md").write_text("sow peas in May\nmow\n")
    turn, _ = chat([], "plan.md must say June not May, my mistake")
    assert calls(turn)[-1][1] == {"path": "plan.md", "old_text": "sow peas in May", "new_text": "sow peas in June"}


@pytest.mark.parametrize(
    ("text", "answer", "told", "untold"),
    [
        ("which ip do I ssh to", verb("board"), "My address", "load:"),
        ("might the sd card be filling up?", verb("board"), "disk: ", "load:"),
        ("I'd like to hear how damp it was these last hours", verb("past", what="humidity", when="last few hours"), "", "mean every"),
    ],
)  # fmt: skip
def test_what_a_model_looks_up_is_told_in_words(chat, text, answer, told, untold):
    turn, _ = chat([answer], text)
    assert told in turn.reply
    assert untold not in turn.reply


def test_a_note_that_is_corrected_by_less_keeps_what_was_so(chat):
    said = "the rake stands behind the old green barrel"
    answer = verb("change_note", words="rake", text="it hangs in the shed now")
    turn, _ = chat(
        [answer] * 2, f"note that {said}", "The rake has moved: it hangs in the shed now. Correct your note."
    )
    new = "the rake hangs in the shed now; it stands behind the old green barrel before"
    assert calls(turn)[-1][1] == {"old": said, "new": new}
    assert new in turn.reply


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("anything about tomatoes coming up", ["cron"]),  # the matcher is not sure, but that is better than talk
        ("who wrote Faust?", []),
    ],
)
def test_where_no_verb_fits_the_matcher_may_look_something_up(chat, text, made):
    turn, bodies = chat([say("Soon.")], text)
    assert [name for name, _ in calls(turn)] == made
    assert len(bodies) == (0 if made else 1)


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("lamp off, I am going to sleep", [{"action": "off", "name": "lamp"}]),
        ("would you mind turning the lamp off for me, dear?", [{"action": "off", "name": "lamp"}]),
        ("why is the lamp off, I wonder", []),
        ("I like it when the lamp is on, it is so cosy", []),
    ],
)
def test_an_order_beside_a_remark_switches_and_a_remark_does_not(chat, tmp_path, text, made):
    (tmp_path / "home/outputs.toml").write_text('[outputs.lamp]\nline = "GPIO17"\nkind = "light"\nlongest_on_s = 60\n')
    turn, _ = chat([say("Well.")], text)
    assert [arguments for name, arguments in calls(turn) if arguments.get("action", "list") != "list"] == made


def test_a_line_is_what_the_message_puts_into_the_file_not_all_of_the_message(chat):
    text = "chuck rye bread in larder.txt next to the flour"
    turn, _ = chat([verb("add_line", path="larder.txt", text=text)], text)
    assert calls(turn) == [("write_file", {"path": "larder.txt", "content": "rye bread", "mode": "append"})]


def test_what_is_read_twice_is_told_once(chat):
    turn, _ = chat([], "is it cold in the greenhouse, how many degrees")
    told = turn.reply.split("\n")
    assert len(told) == len(set(told))


def test_what_is_noted_of_one_thing_in_a_question_is_looked_up(chat):
    texts = ["note that the begonias want rain water", "do the begonias get water from the tap or from the barrel"]
    turn, bodies = chat([say("From the tap.")], *texts)
    assert "rain water" in turn.reply
    assert bodies == []


def test_what_is_noted_is_looked_up_before_the_model_says_anything(chat):
    texts = ["note that Ada was born on 14 March", "on which day was Ada born", "who wrote Faust?"]
    turn, bodies = chat([say("Goethe")], *texts[:2])
    assert "14 March" in turn.reply
    assert bodies == []
    turn, bodies = chat([say("Goethe")], *texts)
    assert (turn.reply, calls(turn), len(bodies)) == ("Goethe", [], 1)


def test_all_notes_are_read_out(chat):
    turn, bodies = chat([], "note that the key is under the pot", "read me all my notes")
    assert "the key is under the pot" in turn.reply
    assert bodies == []


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("do cats like warm milk", say("Most of them do.")),  # the matcher has only a word in common with it
        ("what is the opposite of hot", say("Cold.")),
    ],
)
def test_where_the_matcher_has_passed_over_a_word_the_model_is_asked(chat, text, answer):
    turn, bodies = chat([answer], text)
    assert (calls(turn), len(bodies)) == ([], 1)


def test_what_the_matcher_does_after_looking_up_is_all_done(chat, tmp_path):
    (tmp_path / "home/outputs.toml").write_text('[outputs.lamp]\nline = "GPIO17"\nkind = "light"\nlongest_on_s = 60\n')
    turn, _ = chat([], "remind me at 23:40 to feed the cat", "drop the cat reminder, then turn the lamp off")
    assert [arguments["action"] for _, arguments in calls(turn)] == ["list", "remove", "off"]


def test_the_same_is_what_was_written_before(chat, tmp_path):
    script = [verb("write_file", path="jobs.txt", text="oil gate"), verb("add_task", text="put 'oil gate' on my tasks")]
    turn, bodies = chat(script, "make a file jobs.txt with oil gate in it and put the same on my tasks")
    assert bodies[1]["messages"][-1]["content"] == "put 'oil gate' on my tasks"
    assert calls(turn)[1] == ("pulse", {"action": "add", "text": "oil gate"})


def test_a_file_that_is_there_is_added_to_where_no_new_one_was_ordered(chat, tmp_path):
    (tmp_path / "home/workspace/a.txt").write_text("rice\n")
    turn, _ = chat([verb("write_file", path="a.txt", text="oats")], "write oats into a.txt")
    assert calls(turn) == [("write_file", {"path": "a.txt", "content": "oats", "mode": "append"})]


def test_a_list_that_was_added_to_is_read_back(chat, tmp_path):
    turn, bodies = chat([], "add rice to a.txt and read the whole thing back to me")
    assert [name for name, _ in calls(turn)] == ["write_file", "read_file"]
    assert (turn.reply.endswith("rice"), bodies) == (True, [])


@pytest.mark.parametrize(
    ("text", "answers", "made"),
    [
        (
            "tell me the capital of Italy and add pasta to shopping.txt",
            [say("Rome")],
            ["write_file"],
        ),
        (
            "take milk off shopping.txt and put oats on it",
            [verb("add_line", path="shopping.txt", text="oats")],
            ["read_file", "edit_file", "write_file"],
        ),
        ("tell me a story of a fox and a hen", [say("Once ...")], []),
    ],
)
def test_an_order_behind_another_wish_is_a_wish_of_its_own(chat, tmp_path, text, answers, made):
    (tmp_path / "home/workspace/shopping.txt").write_text("milk\neggs\n")
    turn, bodies = chat(answers, text)
    assert ([name for name, _ in calls(turn)], len(bodies)) == (made, len(answers))


@pytest.mark.parametrize(
    ("text", "answers", "made"),
    [
        ("would you be a dear and put the lamp on for ten minutes? The beans look so pale.", [], ["output"]),  # an aside is not read
        ("give the beans light for a bit, one hour I'd say, on sundays at nine", [], ["rule"]),
        ("Mondays and Fridays, lamp for 40 minutes at 06:30", [], ["rule"]),
        ("put the lamp on now and leave it on for 45 min.", [], ["output"]),
        ("an alarm for half four please, in case I doze off", [verb("remind_at", at="half 4", text="I doze off")], ["cron"]),
        ("my late aunt used to remind me to feed the hens every Sunday", [say("That is a fond memory.")], []),
        ("three nights ago we have left the lamp on, it burned until morning", [say("What a pity.")], []),
        ("my brother told me to mist a fern every day. Is he right?", [say("Ferns like that.")], []),
        ("tell me if it climbs over thirty in here, I don't want my seedlings cooked", [], ["rule"]),
        ("put the lamp off and holler if it goes over 29", [], ["output", "rule"]),
        ("if the humidity falls under 35 per cent please inform me; also, what is it at the moment?", [], ["rule", "sensor_read"]),
        ("what was the average humidity yesterday and can you draw me a chart of it", [], ["sensor_history"] * 2),
        ("my sister keeps saying put the lamp off, put the lamp off", [say("Ha.")], []),
        ("in a while and then for ten minutes lamp on", [verb("switch", to="on"), say("No.")], []),
        ("each time it climbs past 31 degrees in here, text me 'open the roof'", [], ["rule"]),
        ("lamp on for five minutes the moment it is colder than 3 degrees", [], ["rule"]),
        ("last spring the lamp ran for 20 minutes and blew a fuse", [say("What a pity.")], []),
        ("my brother said 'wake me at nine' to his watch, and it beeped", [say("Ha.")], []),
        ("I must have told you the spare key wrongly; it is under the 5th pot, not the 4th", [verb("change_note", words="spare key pot", text="5th")], ["memory_search"]),
        ("would you add to your checklist that the hinges want oiling?", [verb("add_task", text="the hinges want oiling")], ["pulse"]),
    ],
)  # fmt: skip
def test_a_message_does_what_all_its_words_say_and_nothing_else(chat, tmp_path, text, answers, made):
    (tmp_path / "home/outputs.toml").write_text(LAMP)
    turn, _ = chat(answers, text)
    assert [name for name, _ in calls(turn)] == made


FRAMED = [
    "Translate into German: turn the lamp on for 2 minutes.",
    "Translate into German, turn the lamp on for 2 minutes.",
    "The opening line of my play: switch the lamp on for ten minutes.",
    "My play goes: turn the lamp off, Gerald.",
    "True or false: turn the lamp on for five minutes warms a room.",
    "Title of my new song - turn the lamp on for an hour.",
    "Sing a song called turn the lamp on for an hour.",
    "Turn the lamp off, says the poem.",
    "Turn the lamp on for 5 minutes? Never!",
    "Hypothetically: turn the lamp on for 2 minutes.",
    "In my novel the butler whispers: remind me at nine to poison the count.",
    "Her diary reads: wake me at 6 tomorrow.",
    "The note on the fridge reads: note that the milk is off.",
    "Rewrite in caps: delete the tomato reminder.",
]


@pytest.mark.parametrize("text", FRAMED)
def test_an_order_in_what_is_quoted_or_to_be_translated_is_answered_in_words(chat, tmp_path, text):
    (tmp_path / "home/outputs.toml").write_text(LAMP)
    turn, bodies = chat([say("A fine line.")], text)
    assert calls(turn) == []
    assert all("response_format" not in body for body in bodies)  # no verb is offered


@pytest.mark.parametrize("text", ["Hi there: turn the lamp off.", "One more thing: turn the lamp off."])
def test_an_order_behind_an_opening_is_done(chat, tmp_path, text):
    (tmp_path / "home/outputs.toml").write_text(LAMP)
    turn, _ = chat([], text)
    assert [name for name, _ in calls(turn)] == ["output"]


def test_how_something_is_done_is_told_in_sentences_that_are_understood(chat, tmp_path):
    (tmp_path / "home/outputs.toml").write_text(LAMP)
    turn, bodies = chat([], "how do I set up a rule?")
    assert "turn on the fan when the greenhouse is above 30" in turn.reply
    assert (calls(turn), bodies) == ([], [])
    assert find_help("how do I make a cake?") == ""


@pytest.mark.parametrize("said", ["I'm sorry, but I can't assist with that.", "I cannot provide that."])
def test_a_refusal_to_talk_is_not_told_but_asked_again(chat, said):
    turn, bodies = chat([say(said), say("They love it there.")], "why do ferns like the shade?")
    assert turn.reply == "They love it there."
    assert len(bodies) == 2
