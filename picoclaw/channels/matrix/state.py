"""What the Matrix channel remembers in `state.db`: how far it has read, rooms to be joined, drafts, the owner's room."""

import json
import time
from contextlib import closing
from typing import Any

from picoclaw.channels.http_api import as_dict, as_list, as_text
from picoclaw.channels.matrix.api import as_event, is_room, is_user, make_pairing
from picoclaw.channels.pairing import Pairing
from picoclaw.config import Config

_MARK = "matrix.sync"
_OLD_S = 86_400.0


class SyncState:
    """One account's; used by one thread at a time. What is read is written after what it brought was kept."""

    def __init__(self, pairing: Pairing) -> None:
        """`user` is whose account it is, `since` the server's name of the moment up to which all was read.

        `last` has the newest event of each room that was handled, `invites` whose invitations are still to be followed,
        `drafts` the event of an unfinished answer by its session, and `orders` the last events that ordered to stop.
        """
        self._pairing, self._saved_at = pairing, 0.0
        self.user = self.since = self.owner_room = ""
        self.last: dict[str, str] = {}
        self.invites: dict[str, str] = {}
        self.drafts: dict[str, str] = {}
        self.orders: list[str] = []

    def load(self) -> None:
        """Read what a former process has left. Raises StoreError."""
        with self._pairing.marks() as marks:
            text = marks.get(_MARK)
        try:
            found = as_dict(json.loads(text or "{}"))
        except (ValueError, RecursionError):
            found = {}
        self.user, self.since = as_text(found.get("user")), as_text(found.get("since"))
        self.owner_room = room if is_room(room := as_text(found.get("owner_room"))) else ""
        pairs = _read_pairs(found.get("last"))
        self.last = {room: as_event(event) for room, event in pairs if is_room(room)}
        self.invites = {
            room: user for room, user in _read_pairs(found.get("invites")) if is_room(room) and is_user(user)
        }
        self.orders = list(filter(None, map(as_event, as_list(found.get("orders")))))
        self.drafts = {key: event for key, event in _read_pairs(found.get("drafts")) if as_event(event)}

    def begin(self, user: str) -> None:
        """Be told whose account it is: of another nothing is known yet."""
        if self.user != user:
            self.user, self.since, self.owner_room = user, "", ""
            self.last, self.invites, self.drafts = {}, {}, {}

    def save(self) -> None:
        """Keep it durably. Raises StoreError."""
        names = ("user", "since", "owner_room", "last", "invites", "drafts", "orders")
        with self._pairing.marks() as marks:
            marks.set(_MARK, json.dumps({name: getattr(self, name) for name in names}))
        self._saved_at = time.monotonic()

    def is_old(self) -> bool:
        """Whether it was written long ago, so that the server would have to count up much after a restart."""
        return time.monotonic() - self._saved_at > _OLD_S


def list_rooms(config: Config) -> list[str]:
    """Name the rooms that are joined, the owner's first. Raises StoreError."""
    with closing(make_pairing(config)) as pairing:
        state = SyncState(pairing)
        state.load()
    return list(dict.fromkeys([*filter(None, [state.owner_room]), *state.last]))


def _read_pairs(found: Any) -> list[tuple[str, str]]:
    return [(key, value) for key, value in as_dict(found).items() if isinstance(value, str)]
