"""The thread that keeps this home and a store that boards share the same: after a turn, when others write, and at times.

Nobody waits for it: what a turn reads and writes is the home's own, also while the store does not answer.
"""

import contextlib
import os
import random
import select
import threading
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

from picoclaw.config import Config
from picoclaw.errors import PicoclawError
from picoclaw.files import explain_os_error
from picoclaw.shared.home import SharedHome
from picoclaw.shared.store import SharedStore, open_shared_store
from picoclaw.shared.sync import StoreSync, SyncReport
from picoclaw.times import format_duration

_INTERVAL_S, _POLL_S = 300.0, 60.0
"""Seconds between two synchronisations without news: while the store tells of them, and while it cannot."""
_SETTLE_S = 2.0
"""Seconds after a change in which more may follow."""
_FIRST_WAIT_S, _LONGEST_WAIT_S = 5.0, 120.0
_STOP_S = 5.0


class StoreWorker:
    """Synchronises in a thread of its own."""

    def __init__(
        self,
        config: Config,
        now: Callable[[], datetime],
        note: Callable[..., None],
        waits: tuple[float, float, float, float] = (_SETTLE_S, _FIRST_WAIT_S, _LONGEST_WAIT_S, _POLL_S),
    ) -> None:
        """`waits`: seconds after a change, after a first failure, the longest after many, and until asking without news."""
        self._config, self._now, self._note, self._waits = config, now, note, waits
        self._read, self._write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._ended = threading.Event()
        self._since = time.time()
        self._synced_at = self._failed_at = 0.0
        self._error = ""
        self._problems: tuple[str, ...] = ()
        self._news: tuple[str, ...] = ()
        self._thread = threading.Thread(target=self._run, name="store", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Something may have changed here; from any thread."""
        with contextlib.suppress(BlockingIOError, OSError):
            os.write(self._write, b"\0")

    def stop(self) -> None:
        """End it within seconds; what it was about to push is pushed after the next start."""
        self._ended.set()
        self.wake()
        self._thread.join(_STOP_S)
        if not self._thread.is_alive():
            os.close(self._read)
            os.close(self._write)

    def status(self) -> dict[str, Any]:
        """How it is; from any thread."""
        return {
            "address": self._config.store.shown_url,
            "board": self._config.store.board_name,
            "synced": self._synced_at,
            "failed": self._failed_at,
            "error": self._error,
            "problems": list(self._problems),
            "news": list(self._news),
        }

    def _run(self) -> None:
        wait = 0.0
        home: SharedHome | None = None
        store: SharedStore | None = None
        sync: StoreSync | None = None
        try:
            while not self._ended.is_set():
                try:
                    if sync is None:
                        home = home or SharedHome(self._config, self._config.store.board_name)
                        store = open_shared_store(self._config.store.url, self._config.store_password)
                        sync = StoreSync(home, store, self._now)
                    if home and store:
                        report = sync.run()
                        self._report(report)
                        wait = 0.0
                        if store.can_wait():
                            store.wait(home.agents, self._waits[3] if report.is_early else _INTERVAL_S, self._read)
                        else:
                            store.close()
                            select.select([self._read], [], [], _spread(self._waits[3]))
                        self._pause(_spread(self._waits[0]))
                        self._drain()
                except (PicoclawError, OSError) as error:
                    self._fail(explain_os_error(error) if isinstance(error, OSError) else str(error))
                    wait = min(wait * 2 or self._waits[1], self._waits[2])
                    self._pause(_spread(wait))
        finally:
            for one in (store, home):
                if one:
                    with contextlib.suppress(PicoclawError):
                        one.close()

    def _pause(self, seconds: float) -> None:
        self._ended.wait(seconds)

    def _drain(self) -> None:
        while select.select([self._read], [], [], 0)[0] and not self._ended.is_set():
            os.read(self._read, 1024)

    def _report(self, report: SyncReport) -> None:
        self._synced_at = time.time()
        if self._error:
            away = format_duration(max(0.0, self._synced_at - self._failed_at))
            self._note(
                f"store: it answers again after {away}; {report.pushed} written there, {report.pulled} taken over",
                trouble=False,
            )
        self._error, self._failed_at = "", 0.0
        for problem in set(report.problems) - set(self._problems):
            self._note(f"store: {problem}")
        for news in set(report.news) - set(self._news):
            self._note(f"store: {news}", trouble=False)
        self._problems, self._news = report.problems, report.news

    def _fail(self, error: str) -> None:
        if not self._error:
            self._failed_at = time.time()
            self._note(f"store: {error}; this board goes on with what it has")
        elif error != self._error:
            self._note(f"store: {error}")
        self._error = error


def _spread(seconds: float) -> float:
    """About as long: many boards that have lost a store, or heard of the same note, are not to ask all at once."""
    return seconds * random.uniform(0.5, 1.5)  # noqa: S311 - no secret
