"""Alarms, and reminders of a terminal, reach the owner where they are; the log says when they have."""

import time
from contextlib import closing

import pytest
import telegram_server as tg
from daemon_kit import SOON, Daemon, furnished, until
from mqtt_broker import free_port
from page_house import Client
from person import Person, picoclaw, picoclaw_process
from telegram_server import OWNER, TOKEN, TelegramServer

from picoclaw.daemon.background import MAX_WAITING_ALARMS
from picoclaw.store.database import Database
from picoclaw.store.inbox_outbox import Outbox, put_message

RULES = """
[rules.warm]
when = "greenhouse.temperature > -50"
cooldown = "12 hours"
notify = "It is warm"
"""


@pytest.fixture
def server():
    with TelegramServer() as running:
        yield running


def house(tmp_path, server, more="", rules=RULES):
    settings = f'[telegram]\nowner = {OWNER}\napi_url = "{server.url}"\n[history]\nevery_seconds = 1\n{more}'
    folder = furnished(tmp_path, settings)
    (folder / "rules.toml").write_text(rules)
    (folder / "secrets.toml").write_text(f'telegram_token = "{TOKEN}"\n')
    (folder / "secrets.toml").chmod(0o600)
    return folder


def log(tmp_path):
    return picoclaw(tmp_path, "rules", "log").stdout


def waiting(folder):
    with closing(Database(folder / "state.db")) as database:
        return Outbox(database).waiting()


def untold(folder):
    """Also those that are on their way."""
    with closing(Database(folder / "state.db")) as database:
        return Outbox(database).numbers()


def test_an_alarm_reaches_an_owner_who_has_only_used_terminals(tmp_path, server):
    folder = house(tmp_path, server)
    server.fail("sendMessage", *[tg.BAD_GATEWAY] * 99)
    picoclaw_process(tmp_path, "chat", "-m", "hello")
    with Daemon(tmp_path, constants=SOON) as daemon:
        daemon.ready()
        until(lambda: "waiting: not delivered yet" in log(tmp_path))
        server.mend("sendMessage")
        server.wait(lambda: any("It is warm (greenhouse temperature " in text for text in server.texts()), 20)
        until(lambda: log(tmp_path).rstrip().endswith("; tell: told"))
        until(lambda: waiting(folder) == [])  # struck out a moment later


def test_an_alarm_that_telegram_refuses_waits_for_a_terminal_and_the_log_says_so(tmp_path, server):
    house(tmp_path, server)
    server.fail("sendMessage", *[tg.error(403, "Forbidden: bot was blocked by the user")] * 9)
    with Daemon(tmp_path, constants=SOON) as daemon:
        daemon.ready()
        daemon.says("it waits for a terminal: Telegram refused")
        assert log(tmp_path).rstrip().endswith("; tell: waiting: not delivered yet")
        with Person(tmp_path, "chat") as person:
            person.sees("It is warm (greenhouse temperature ")
            until(lambda: log(tmp_path).rstrip().endswith("; tell: told"))


def test_an_alarm_waits_for_a_terminal_too_while_telegram_cannot_be_reached(tmp_path, server):
    folder = house(tmp_path, server, rules=RULES.replace('-50"', '-50 for 3 seconds"'))
    config = folder / "config.toml"
    config.write_text(config.read_text().replace(server.url, f"http://127.0.0.1:{free_port()}"))
    with Daemon(tmp_path, constants=SOON) as daemon:
        daemon.ready()
        until(lambda: "not delivered yet" in log(tmp_path))
        with Person(tmp_path, "chat") as person:
            person.sees("It is warm (greenhouse temperature ")
        assert [message.session for message in waiting(folder)] == [f"telegram:{OWNER}"]


def test_an_alarm_goes_to_the_page_and_to_telegram(tmp_path, server):
    port = free_port()
    folder = house(tmp_path, server, f"[page]\nenabled = true\nport = {port}\n", rules="")
    with Daemon(tmp_path, constants=SOON) as daemon:
        daemon.ready()
        browser = Client(Place(port), folder, None, [])
        browser.login()
        (folder / "rules.toml").write_text(RULES)
        server.wait(lambda: any("It is warm" in text for text in server.texts()), 20)
        until(lambda: any("It is warm" in one["text"] for one in browser.told("/api/state")["said"]))


LAST = {"the chat with the bot": OWNER, "a group": -100500, "none": 0}


@pytest.mark.parametrize("chat", LAST.values(), ids=LAST)
def test_an_alarm_comes_once_to_each_chat(tmp_path, server, chat):
    """The owner's with the bot, the page, and the one that they spoke in last; once where two of them are the same."""
    port = free_port()
    folder = house(tmp_path, server, f"[page]\nenabled = true\nport = {port}\n", rules="")
    with Daemon(tmp_path, constants=SOON) as daemon:
        daemon.ready()
        browser = Client(Place(port), folder, None, [])
        browser.login()
        server.people.add(chat)
        if chat:
            server.says(OWNER, "@pico_bot what time is it?", chat)
            server.wait(lambda: server.texts(chat), 20)
        (folder / "rules.toml").write_text(RULES)
        until(lambda: any("It is warm" in one["text"] for one in browser.told("/api/state")["said"]), 20)
        until(lambda: log(tmp_path).rstrip().endswith("; tell: told") and not untold(folder))
        chats = [one.chat for one in server.sent if "It is warm" in one.text]
        assert sorted(chats) == sorted({OWNER, chat or OWNER})
        assert sum("It is warm" in one["text"] for one in browser.told("/api/state")["said"]) == 1


def test_a_reminder_from_the_command_line_reaches_telegram_when_no_terminal_is_open(tmp_path, server):
    house(tmp_path, server, rules="")
    with Daemon(tmp_path, constants=SOON) as daemon:
        daemon.ready()
        assert picoclaw_process(tmp_path, "cron", "add", "water the figs", "--in", "1").returncode == 0
        server.wait(server.texts, 15)
        assert server.texts() == ["For chat 'terminal': Reminder: water the figs"]
        with Person(tmp_path, "chat") as person:
            person.sees("> ")
            picoclaw_process(tmp_path, "cron", "add", "look at the tank", "--in", "1")
            person.sees("Reminder: look at the tank", seconds=10)
        time.sleep(0.5)
        assert len(server.texts()) == 1


def test_a_rule_that_fails_tells_the_owner_so_in_words(tmp_path, server):
    pump = 'output = "pump"\nlasts = "1 minute"\n'
    folder = house(tmp_path, server, rules=RULES + pump)
    (folder / "outputs.toml").write_text('[outputs.pump]\nline = "GPIO17"\nkind = "pump"\nlongest_on_s = 600\n')
    with Daemon(tmp_path, constants=SOON) as daemon:
        daemon.ready()
        (failed,) = server.wait(lambda: [text for text in server.texts() if text.startswith("Rule warm (")], 20)
        assert "failed: " in failed
        assert "letter" not in failed
        server.wait(
            lambda: [text for text in server.texts() if text.startswith("It is warm (greenhouse temperature ")], 20
        )


class Place:
    """What a client has to know of a page."""

    def __init__(self, port):
        self.port = port


def test_no_more_than_so_many_alarms_wait_for_a_way_that_is_gone(tmp_path):
    """The oldest go, and only those of that way; that is said once."""
    settings = '[history]\nevery_seconds = 1\n[mqtt]\nhost = "127.0.0.1"\nport = 9\n'
    folder = furnished(tmp_path, settings)
    (folder / "rules.toml").write_text(RULES)
    with closing(Database(folder / "state.db")) as database:
        outbox = Outbox(database)
        kept = outbox.put("page:1", "another's", 0.0)
        with database.transaction() as connection:
            numbers = [put_message(connection, "mqtt:alarms", str(n), 0.0) for n in range(MAX_WAITING_ALARMS + 20)]
    with Daemon(tmp_path, constants=SOON) as daemon:
        daemon.says("messages wait for mqtt:alarms")
        until(lambda: numbers[0] not in untold(folder))
        assert sum("messages wait" in line["text"] for line in daemon.asked("status")["log"]) == 1
    left = untold(folder)
    assert kept in left
    with closing(Database(folder / "state.db")) as database:
        mine = [one for one in Outbox(database).waiting() if one.session == "mqtt:alarms"]
    assert len(mine) == MAX_WAITING_ALARMS
    assert "It is warm" in mine[-1].text
