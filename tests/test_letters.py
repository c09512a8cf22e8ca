"""Letters while the disk is full: each is told once, and none is forgotten, as soon as it takes something again."""

import threading
import time
from contextlib import closing
from zoneinfo import ZoneInfo

import pytest

from picoclaw.channels.channel import ChannelStatus
from picoclaw.daemon.delivery import DeliveryWorker, MessageBoxes, merge_messages
from picoclaw.errors import ChannelDown, StoreError
from picoclaw.store.database import Database
from picoclaw.store.inbox import Inbox
from picoclaw.store.outbox import Outbox, OutboxMessage


class Full(Outbox):
    """An outbox whose disk takes nothing while it is `full`."""

    full, room = False, 1000

    def begin(self, letter):
        self.room -= 1
        self.full = self.full or self.room < 0
        self._room()
        return super().begin(letter)

    def put_back(self, letter):
        self._room()
        super().put_back(letter)

    def strike(self, letter):
        self._room()
        super().strike(letter)

    def _room(self):
        if self.full:
            raise StoreError("the disk is full: free some space")


class Wire:
    """A channel that fills the disk up while it sends, and fails as long as it is `down`."""

    name = "wire"

    def __init__(self, outbox):
        self._outbox, self.down, self.told = outbox, False, []

    def send(self, letter):
        self._outbox.full = True
        if self.down:
            raise ChannelDown("the wire is cut")
        self.told.append(letter.text)

    def status(self):
        return ChannelStatus(up=True, since=0.0)


@pytest.mark.parametrize(("down", "before"), [(True, []), (False, ["the tank is empty"])], ids=["not told", "told"])
def test_a_letter_on_the_way_while_the_disk_fills_up_is_told_once(tmp_path, down, before):
    with closing(Database(tmp_path / "state.db")) as database:
        outbox = Full(database)
        wire = Wire(outbox)
        postman = DeliveryWorker(
            wire, MessageBoxes(Inbox(database), outbox, threading.RLock()), lambda _: True, lambda _: None
        )
        outbox.put("wire:1", "the tank is empty", time.time())
        wire.down = down
        assert postman.deliver(), "it is to be tried again"
        assert postman.deliver(), "the disk is still full, so that nothing is sent"
        assert wire.told == before
        wire.down = outbox.full = False
        postman.deliver()
        outbox.full = False  # the wire has filled it once more
        assert postman.deliver() is None
        assert wire.told == ["the tank is empty"]
        assert not database.connection.execute("SELECT count(*) FROM outbox").get


def test_letters_of_which_only_the_first_could_be_begun_are_told_together_later(tmp_path):
    with closing(Database(tmp_path / "state.db")) as database:
        outbox = Full(database)
        wire = Wire(outbox)
        postman = DeliveryWorker(
            wire, MessageBoxes(Inbox(database), outbox, threading.RLock()), lambda _: True, lambda _: None
        )
        for n in range(5):
            outbox.put("wire:1", f"drop {n}", time.time())
        outbox.room = 2
        with pytest.raises(StoreError):
            postman.deliver()
        assert not wire.told
        outbox.full, outbox.room = False, 1000
        postman.deliver()
        assert [f"drop {n}" in wire.told[0] for n in range(5)] == [True] * 5
        assert "perhaps" not in wire.told[0]


def test_many_letters_at_once_name_the_owners_time():
    waiting = [OutboxMessage(number, "garden", f"{number}", 1_800_000_000.0) for number in (1, 2)]
    said = [
        merge_messages(waiting, 1_800_000_100.0, ZoneInfo(zone)).text for zone in ("Asia/Tokyo", "America/New_York")
    ]
    assert [text.splitlines()[1] for text in said] == ["2027-01-15 17:00: 1", "2027-01-15 03:00: 1"]
