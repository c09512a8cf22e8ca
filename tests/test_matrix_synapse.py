"""The Matrix channel against a real homeserver; `make matrix` installs one, elsewhere these are skipped."""

import threading
import time
from contextlib import closing

import pytest
from synapse_server import NAME, PYTHON, SynapseServer

from picoclaw.channels.http_api import Timing
from picoclaw.channels.matrix.channel import MatrixChannel
from picoclaw.channels.pairing import Pairing
from picoclaw.config import Config
from picoclaw.config.tables import MatrixConfig
from picoclaw.daemon import delivery
from picoclaw.messages import Notice, Turn, Usage
from picoclaw.store.database import Database
from picoclaw.store.inbox import Inbox
from picoclaw.store.outbox import Outbox
from picoclaw.workspace import prepare_home

pytestmark = [
    pytest.mark.alone,
    pytest.mark.skipif(not PYTHON.exists(), reason="no Synapse here: make matrix installs one"),
]
TIMING = Timing(hold=1, grace=5, first=0.05, longest=0.3, wait=10, between=0, in_groups=0)
WORDING = {"arrived": "[{notes}]\n{content}", "untrusted": '<untrusted from="{name}">\n{content}\n</untrusted>'}
TURN = Turn("", (), 0, (), Usage(), "", "scripted", Notice(""))
ME = f"@pico:{NAME}"


class Board:
    """A channel with its inbox, outbox and delivery; each message is answered by `reply`."""

    def __init__(self, home, url, token, allow=(), owner=""):
        prepare_home(home)
        self.home, self.posted, self.notes = home, [], []
        self.database = Database(home / "state.db")
        self.boxes = delivery.MessageBoxes(Inbox(self.database), Outbox(self.database), threading.RLock())
        config = Config(home, matrix=MatrixConfig(url, list(allow), owner), matrix_token=token)
        self.channel = MatrixChannel(config, WORDING, frozenset({"stop", "all off"}), TIMING, self.notes.append)
        self.worker = delivery.DeliveryWorker(
            self.channel, self.boxes, lambda _: True, self.notes.append, merges=False, is_exact=True
        )
        self.reply = lambda text: f"answer to {text}."

    def post(self, arrived):
        with self.boxes.lock:
            kept = self.boxes.inbox.put(arrived)
            if kept:
                self.posted.append(arrived)
                reply = self.reply(arrived.text)
                self.boxes.inbox.done(kept, reply)
                self.channel.answered(kept, TURN._replace(reply=reply), reply)
        self.worker.wake()

    def __enter__(self):
        self.channel.start(self.post)
        self.worker.start()
        return self

    def __exit__(self, *_):
        self.worker.leave()
        self.channel.stop()
        self.worker.stop()
        self.database.close()

    def put(self, session, text):
        with self.boxes.lock:
            number = self.boxes.outbox.put(session, text, time.time())
        self.worker.wake()
        return number


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with SynapseServer(tmp_path_factory.mktemp("synapse")) as running:
        running.pico = running.register("pico")
        running.ann = running.register("ann")
        running.eve = running.register("eve")
        yield running


def is_text(text, sender=ME):
    return lambda event: event["sender"] == sender and event["content"].get("body") == text


def is_joined(event):
    return event["type"] == "m.room.member" and event["state_key"] == ME and event["content"]["membership"] == "join"


def test_text_both_ways_with_pairing(tmp_path, server):
    ann = server.ann
    with (
        Board(tmp_path / "home", server.url, server.pico.token) as board,
        closing(Pairing("matrix", board.home)) as people,
    ):
        code = people.offer()
        room = ann.create_room([ME], is_direct=True)
        ann.wait(room, is_joined)
        ann.say(room, code)
        ann.wait(room, is_text("Paired. What you write here goes to this board; /help lists the commands."))
        event = ann.say(room, "how warm is it?")
        ann.wait(room, is_text("answer to how warm is it?."))
        (came,) = board.posted
        assert (came.key, came.text, came.who, came.origin, came.external) == (
            f"matrix:{room}",
            "how warm is it?",
            f"matrix:{ann.user}",
            "owner",
            event,
        )
        assert board.channel.owner_chat() == f"matrix:{room}"
        assert people.people() == {ann.user: f"ann ({ann.user})"}
        board.put(f"matrix:{room}", "**bold** & `x<y`\n\n- [a](https://example.org)")
        found = ann.wait(room, lambda one: one["content"].get("format") == "org.matrix.custom.html")
        html = '<strong>bold</strong> &amp; <code>x&lt;y</code><br><br>• <a href="https://example.org">a</a>'
        assert found["content"]["formatted_body"] == html
