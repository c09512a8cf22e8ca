"""Tells reminders when they are due, in a thread that sleeps until the next one."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime

from picoclaw.errors import StoreError
from picoclaw.schedule import duration
from picoclaw.store.database import Database
from picoclaw.store.jobs import Job, Jobs

_LATE_S = 60.0
_LONGEST_SLEEP_S = 3600.0  # a clock that was set meanwhile is noticed after this at the latest


class ReminderThread:
    """Wakes when a reminder is due, or when `changed()` says that there may be an earlier one."""

    def __init__(self, open_database: Callable[[], Database], tell: Callable[[str], None]) -> None:
        """`open_database` makes the thread's own connection; `tell` shows a text to the person."""
        self._open = open_database
        self._tell = tell
        self._wake = threading.Event()
        self._ending = False
        self._thread = threading.Thread(target=self._run, name="reflex", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def changed(self) -> None:
        """Look again at what is due next."""
        self._wake.set()

    def stop(self) -> None:
        """End, and wait until the thread has let go of the database."""
        self._ending = True
        self._wake.set()
        self._thread.join(5)

    def _run(self) -> None:
        try:
            database = self._open()
        except StoreError as error:
            self._tell(f"reminders cannot be told: {error}")
            return
        try:
            while not self._ending:
                self._wake.wait(self._step(Jobs(database)))
                self._wake.clear()
        finally:
            database.close()

    def _step(self, jobs: Jobs) -> float | None:
        """Tell what is due; returns how long to sleep, None for until woken."""
        try:
            for job in jobs.claim(datetime.now(UTC)):
                self._tell(worded(job, datetime.now(UTC)))
                jobs.delivered(job)
            due = jobs.next_due()
        except StoreError as error:
            self._tell(f"reminders: {error}")
            return _LONGEST_SLEEP_S
        if due is None:
            return None
        return min(max(0.0, (due - datetime.now(UTC)).total_seconds()), _LONGEST_SLEEP_S)


def worded(job: Job, now: datetime) -> str:
    """Word a reminder, with a note when it comes late."""
    late = (now - job.due).total_seconds()
    note = f" (due {duration(late)} ago; picoclaw was not running)" if late > _LATE_S else ""
    return f"Reminder: {job.message}{note}"
