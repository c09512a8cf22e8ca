"""A network that fails in every way it can, between the real inbox and outbox and a server that behaves otherwise.

In this process and in a second; test_network_faults.py plays with real processes, TLS and name servers.
"""

import random
import threading
import time
from collections import Counter
from contextlib import closing

import telegram_server as tg
from telegram_server import OWNER, TOKEN, TelegramServer
from timing import until

from picoclaw.channels.polled import Timing
from picoclaw.channels.telegram import MAYBE_REPEATED, TelegramChannel
from picoclaw.config import Config
from picoclaw.config.tables import TelegramConfig
from picoclaw.daemon import delivery
from picoclaw.store.database import Database
from picoclaw.store.inbox_outbox import Inbox, Outbox
from picoclaw.workspace import prepare_home

TIMING = Timing(hold=0.2, grace=0.15, first=0.005, longest=0.03, wait=0.15, between=0.0, in_groups=0.0)
FAULTS = [
    *(tg.reset, tg.reset_after, tg.half, tg.black_hole, tg.drip, tg.portal, tg.redirect, tg.BAD_GATEWAY),
    *(tg.error(500, "Internal Server Error"), tg.body(200, b""), tg.body(200, b'{"ok": 1}'), tg.busy(0)),
]


def play(home, faults, seed):
    """Have so many calls go wrong while messages are written and answered; returns what became of it all."""
    prepare_home(home)
    dice = random.Random(seed)
    with TelegramServer() as server, closing(Database(home / "state.db")) as database:
        boxes = delivery.MessageBoxes(Inbox(database), Outbox(database), threading.RLock())
        config = Config(home, telegram=TelegramConfig([OWNER], server.url), telegram_token=TOKEN)
        channel = TelegramChannel(config, {"arrived": "{content}"}, timing=TIMING)
        postman = delivery.DeliveryWorker(channel, boxes, lambda _: True, lambda _: None)
        answered = []

        def post(arrived):
            with boxes.lock:
                if kept := boxes.inbox.put(arrived):
                    boxes.inbox.done(kept, f"answer to {arrived.text}.")
                    answered.append(arrived.text)
            postman.wake()

        def left():
            with boxes.lock:
                return database.connection.execute("SELECT count(*) FROM outbox").get

        channel.start(post)
        postman.start()
        written, recoveries = 0, []
        for _ in range(faults):
            server.fail(dice.choice(["getUpdates", "sendMessage"]), dice.choice(FAULTS))
            written += 1
            server.says(OWNER, f"question {written}")
            if dice.random() < 0.3:
                begun = time.monotonic()
                until(lambda due=written: len(answered) >= due and not left(), 30)
                recoveries.append(time.monotonic() - begun)
        until(lambda: len(answered) >= written and not left() and not server.pending, 30)
        postman.stop()
        channel.stop()
        return written, answered, server.texts(), recoveries


def judged(written, answered, texts):
    """Count what was lost, and what came twice without saying that it may have."""
    questions = [f"question {number}" for number in range(1, written + 1)]
    told = Counter(q for text in texts for q in questions if f"answer to {q}." in text)
    sure = Counter(
        q for text in texts if not text.startswith(MAYBE_REPEATED) for q in questions if f"answer to {q}." in text
    )
    lost = [q for q in questions if not told[q]]
    return lost, Counter(answered) - Counter(questions), {q: n for q, n in sure.items() if n > 1}


def test_nothing_is_lost_and_nothing_is_doubled_without_saying_so(tmp_path, monkeypatch):
    monkeypatch.setattr(delivery, "_FIRST_RETRY_S", 0.01)
    monkeypatch.setattr(delivery, "_MAX_RETRY_S", 0.05)
    written, answered, texts, _ = play(tmp_path, 16, 5)
    assert judged(written, answered, texts) == ([], Counter(), {})
    assert answered == [f"question {number}" for number in range(1, written + 1)]
