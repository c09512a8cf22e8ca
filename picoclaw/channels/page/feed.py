"""What happens, for every browser that listens: numbered, kept for a while, so that nothing is missed in between."""

import json
import secrets
import threading
from collections import deque
from typing import Any, NamedTuple

MOST_FOLLOWERS = 5
_KEPT = 400


class Happened(NamedTuple):
    """An event as server-sent events have it: `data` is JSON; '' as `mark` is not counted."""

    mark: str
    kind: str
    data: str


class Feed:
    """Takes events from any thread and gives each to every follower."""

    def __init__(self, kept: int = _KEPT) -> None:
        """`kept` events are remembered for those who were away."""
        self._kept: deque[Happened] = deque(maxlen=kept)
        self._era = secrets.token_hex(4)
        self._count = 0
        self._turn = threading.Condition()
        self._followers: list[Follower] = []

    def publish(self, kind: str, data: Any) -> int:
        """Tell everybody; returns how many that were."""
        with self._turn:
            self._count += 1
            self._kept.append(Happened(f"{self._era}-{self._count}", kind, json.dumps(data)))
            self._turn.notify_all()
            return len(self._followers)

    def follow(self, after: str = "") -> "Follower":
        """Begin to listen, behind an event that was seen; the one who has listened longest makes room."""
        with self._turn:
            follower = Follower(self, self._behind(after))
            self._followers.append(follower)
            for old in self._followers[:-MOST_FOLLOWERS]:
                old.ended = old.displaced = True
            del self._followers[:-MOST_FOLLOWERS]
            self._turn.notify_all()
            return follower

    def end(self) -> None:
        """Send everybody away; whoever may come again will."""
        with self._turn:
            for follower in self._followers:
                follower.ended = True
            self._followers.clear()
            self._turn.notify_all()

    def leave(self, follower: "Follower") -> None:
        """Listen no more; may be called twice."""
        with self._turn:
            follower.ended = True
            if follower in self._followers:
                self._followers.remove(follower)

    def wait(self, follower: "Follower", seconds: float) -> list[Happened] | None:
        """Wait until something happens; nothing when the time is over, None when it is all over."""
        with self._turn:
            self._turn.wait_for(lambda: follower.ended or follower.seen != self._count, seconds)
            if follower.ended:
                return None
            missed = self._count - follower.seen if follower.seen >= 0 else len(self._kept) + 1
            follower.seen = self._count
            if missed > len(self._kept):
                return [Happened(self._mark(), "anew", "{}")]
            return list(self._kept)[len(self._kept) - missed :] if missed else []

    @property
    def mark(self) -> str:
        """Where it stands now; see `follow`."""
        with self._turn:
            return self._mark()

    def _mark(self) -> str:
        return f"{self._era}-{self._count}"

    def _behind(self, after: str) -> int:
        """The number of an event that was seen; that of the newest for who has seen none, -1 for a strange one."""
        if not after:
            return self._count
        era, _, number = after.partition("-")
        known = era == self._era and number.isascii() and number.isdecimal() and len(number) < 12
        return int(number) if known and int(number) <= self._count else -1


class Follower:
    """One browser that listens; `displaced` when another has taken its place."""

    def __init__(self, feed: Feed, seen: int) -> None:
        """`seen` is the number of the last event it knows, -1 when that is not known."""
        self.feed, self.seen, self.ended, self.displaced = feed, seen, False, False

    def wait(self, seconds: float) -> list[Happened] | None:
        """See Feed.wait."""
        return self.feed.wait(self, seconds)

    def leave(self) -> None:
        """See Feed.leave."""
        self.feed.leave(self)
