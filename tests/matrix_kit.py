"""A board on Matrix: the channel with a real inbox, outbox and delivery, whose agent is a function."""

import sys
import threading
import time
from pathlib import Path
from typing import Any, Self

from picoclaw.channels.matrix import MatrixChannel
from picoclaw.channels.polled import Timing
from picoclaw.config import Config
from picoclaw.config.tables import MatrixConfig
from picoclaw.daemon import delivery
from picoclaw.errors import StoreError
from picoclaw.messages import Notice, Turn, Usage
from picoclaw.store.database import Database
from picoclaw.store.inbox_outbox import Inbox, InboxMessage, Outbox
from picoclaw.workspace import prepare_home

WORDING = {"arrived": "[{notes}]\n{content}", "untrusted": '<untrusted from="{name}">\n{content}\n</untrusted>'}
TURN = Turn("", (), 0, (), Usage(), "", "scripted", Notice(""))
QUICK = Timing(hold=0.3, grace=0.4, first=0.02, longest=0.1, wait=0.5, between=0.0, in_groups=0.0)


class Board:
    """What comes is in `posted`, once each, and answered by `reply`; `refusing` is how often the disk takes nothing."""

    def __init__(
        self,
        home: Any,
        url: str,
        token: str,
        allow: Any = (),
        owner: str = "",
        timing: Timing = QUICK,
        kept: Any = None,
    ) -> None:
        prepare_home(home)
        self.home, self.posted, self.notes, self.refusing = home, [], [], 0
        self.database = Database(home / "state.db")
        self.boxes = delivery.MessageBoxes(Inbox(self.database), Outbox(self.database), threading.RLock())
        config = Config(home, matrix=MatrixConfig(url, list(allow), owner), matrix_token=token)
        self.channel = MatrixChannel(config, WORDING, timing, self.notes.append, kept or (lambda _: None))
        self.worker = delivery.DeliveryWorker(
            self.channel, self.boxes, lambda _: True, self.notes.append, is_exact=True
        )
        self.reply = lambda _: ""

    def post(self, arrived: InboxMessage) -> None:
        if self.refusing:
            self.refusing -= 1
            raise StoreError("the disk is full")
        with self.boxes.lock:
            if kept := self.boxes.inbox.put(arrived):
                self.posted.append(kept)
                if reply := self.reply(arrived.text):
                    self.answer(kept, reply)
        self.worker.wake()

    def answer(self, arrived: InboxMessage, reply: str) -> None:
        with self.boxes.lock:
            self.boxes.inbox.done(arrived, reply)
            self.channel.answered(arrived, TURN._replace(reply=reply), reply)
        self.worker.wake()

    def __enter__(self) -> Self:
        self.channel.start(self.post)
        self.worker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.worker.leave()
        self.channel.stop()
        self.worker.stop()
        self.database.close()

    def put(self, session: str, text: str) -> int:
        with self.boxes.lock:
            number = self.boxes.outbox.put(session, text, time.time())
        self.worker.wake()
        return number

    def ask(self, session: str, text: str, approval: int) -> None:
        with self.boxes.lock, self.database.transaction() as connection:
            sql = "INSERT INTO outbox (session, text, at, approval) VALUES (?, ?, ?, ?)"
            connection.execute(sql, (session, text, time.time(), approval))
        self.worker.wake()

    def left(self) -> int:
        with self.boxes.lock:
            return int(self.database.select_value("SELECT count(*) FROM outbox"))

    @property
    def texts(self) -> list[str]:
        return [arrived.text for arrived in list(self.posted)]


def answer_all(home: str, url: str, token: str, owner: str) -> None:
    """Be a board that answers every question, until it is killed; what a former one has left unanswered first."""
    delivery._FIRST_RETRY_S, delivery._MAX_RETRY_S, delivery._CHECK_INTERVAL_S = 0.02, 0.1, 0.05
    timing = QUICK._replace(hold=0.2, first=0.005, longest=0.05, wait=0.4)
    with Board(Path(home), url, token, owner=owner, timing=timing) as board:
        board.reply = "answer to {}.".format
        with board.boxes.lock:
            for arrived in board.boxes.inbox.waiting():
                board.boxes.inbox.done(arrived, board.reply(arrived.text.removeprefix("[edited]\n")))
        board.worker.wake()
        threading.Event().wait()


if __name__ == "__main__":
    answer_all(*sys.argv[1:])
