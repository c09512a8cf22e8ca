"""A real daemon on a board without a network, then with one whose name server is dead, then with a good one.

    network.apart(__file__)     prints what was seen, as JSON

It begins before there is any interface, as after a power cut that the router takes longer over than the board.
"""

import json
import random
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import ExitStack, closing, suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import network
from bench.network_faults import CONFIG, Daemon
from model_server import ModelServer, reply
from person import Person, picoclaw
from telegram_server import OWNER, TOKEN, TelegramServer

from picoclaw.store.database import Database
from picoclaw.store.inbox_outbox import Outbox

HOURS = 72
MORE = """
[page]
enabled = true
port = 8737
[history]
every_seconds = 1
"""
OUTPUTS = '[outputs.pump]\nline = "GPIO17"\nkind = "pump"\nlongest_on_s = 60\n'
RULES = """
[rules.dew]
when = "greenhouse.temperature > 5 for 3 seconds"
notify = "it is above the dew point"
"""


def timed(do):
    begun = time.monotonic()
    found = do()
    return found, time.monotonic() - begun


def asked(folder, text):
    done, took = timed(lambda: picoclaw(folder, "chat", "-m", text))
    return {"said": done.stdout + done.stderr, "took": took, "code": done.returncode}


def page():
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open("http://127.0.0.1:8737/", timeout=60) as answer:
        return answer.status


def days_of_letters(folder):
    """What reminders of days would have left behind."""
    database = Database(folder / "picoclaw/state.db")
    now = time.time()
    for hour in range(HOURS):
        Outbox(database).put(f"telegram:{OWNER}", f"reading {hour}", now - (HOURS - hour) * 3600)
        Outbox(database).put(f"telegram:{OWNER}", "Reminder: water the beans", now - (HOURS - hour) * 3600)
    database.close()


def alone(folder, *, rule):
    """What a person at the board is told while nothing outside can be reached."""
    seen = {"start": timed(lambda: picoclaw(folder, "tools"))[1]}
    seen |= {"first": asked(folder, "who wrote Faust?"), "second": asked(folder, "how warm is it?")}
    with Person(folder, "chat") as person:
        before = person.sees("> ")  # the alarm may have waited for this chat, or come at any time in it
        person.types("remind me in 1 second to stir\r")
        before += person.sees("comes at") + person.sees("Reminder: stir")
        if rule and "it is above the dew point" not in before:
            person.sees("it is above the dew point")
    seen["stop"] = asked(folder, "stop")
    seen["status"] = picoclaw(folder, "status").stdout
    return seen


def run(folder, stack):
    papers = network.papers(folder, "telegram.test", "model.test")
    conf = folder / "resolv.conf"
    conf.touch()
    subprocess.run(["mount", "--bind", str(conf), str(network.RESOLV.resolve())], check=True)
    home = folder / "picoclaw"
    home.mkdir()
    (home / "secrets.toml").write_text(f'telegram_token = "{TOKEN}"\n')
    (home / "secrets.toml").chmod(0o600)
    urls = {"telegram": "https://telegram.test:8443", "model": "https://model.test:8444"}
    (home / "config.toml").write_text(CONFIG.format(**urls, idle=10, allow=[OWNER]) + MORE)
    (home / "rules.toml").write_text(RULES)
    (home / "outputs.toml").write_text(OUTPUTS)
    daemon = Daemon(folder, SSL_CERT_FILE=str(papers.authority))
    stack.callback(daemon.ended)
    end = time.monotonic() + 120
    while "ready" not in daemon.log.read_text():
        assert time.monotonic() < end
        time.sleep(0.05)
    seen = {"no network": alone(folder, rule=True)}
    network.bring_up()
    names = stack.enter_context(network.Names(folder))
    names.use("127.0.0.2")
    days_of_letters(folder)
    seen["no names"] = alone(folder, rule=False)
    seen["page"], seen["page took"] = timed(page)
    telegram, model = (
        stack.enter_context(TelegramServer()),
        stack.enter_context(ModelServer(lambda _: reply("Goethe."))),
    )
    dice = random.Random(1)
    for name, port, behind in (("telegram", 8443, telegram.url.rpartition(":")[2]), ("model", 8444, model.port)):
        stack.enter_context(network.Door(int(behind), papers, f"{name}.test", dice, port))
    telegram.says(OWNER, "who wrote Faust?")
    names.use("127.0.0.1")
    begun = time.monotonic()

    def is_answered():
        return any("Goethe." in text for text in telegram.texts())

    while not is_answered():
        assert time.monotonic() < begun + 120
        with suppress(AssertionError):
            telegram.wait(is_answered, 20)
        if not is_answered():  # a busy machine takes a slow model for a silent one, and answers without it
            telegram.says(OWNER, "who wrote Faust?")
    seen["answered after"] = time.monotonic() - begun
    telegram.wait(lambda: any(f"reading {HOURS - 1}" in text for text in telegram.texts()), 120)
    seen["letters after"] = time.monotonic() - begun
    telegram.wait(lambda: not waiting(folder), 120)
    seen["texts"] = telegram.texts()
    seen["modelled"] = asked(folder, "who wrote Faust?")
    seen["status"] = picoclaw(folder, "status").stdout
    seen["code"] = daemon.ended()
    seen["log"] = daemon.log.read_text().splitlines()
    return seen


def waiting(folder):
    with closing(Database(folder / "picoclaw/state.db")) as database:
        return [letter for letter in Outbox(database).waiting() if letter.session.startswith("telegram")]


def main():
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        print(json.dumps(run(folder, stack)))


if __name__ == "__main__":
    main()
