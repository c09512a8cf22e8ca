"""Tells reminders when they are due, in a thread that sleeps until the next one."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from picoclaw.errors import StoreError
from picoclaw.reflex.bell import Bell
from picoclaw.schedule import duration
from picoclaw.store.database import Database
from picoclaw.store.jobs import Job, Jobs

_LATE_S = 60.0
_RETRY_S = 30.0
_LONGEST_SLEEP_S = 3600.0  # a clock that was set meanwhile is noticed after this at the latest


class ReminderThread:
    """Wakes when a reminder is due, and when the bell of its home rings because there may be an earlier one."""

    def __init__(self, database: Path, session: str, tell: Callable[[str], None]) -> None:
        """`database` is the path of `state.db`, opened anew for the thread; `tell` shows a text to the person.

        Reminders of another chat than `session` name it. Raises OSError when the home folder takes no bell.
        """
        self._path = database
        self._session = session
        self._tell = tell
        self._bell = Bell(database.parent)
        self._ending = False
        self._thread = threading.Thread(target=self._run, name="reflex", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, and wait until the thread has let go of the database."""
        self._ending = True
        self._bell.ring()
        self._thread.join(5)
        self._bell.close()

    def _run(self) -> None:
        try:
            database = Database(self._path)
        except StoreError as error:
            self._tell(f"reminders cannot be told: {error}")
            return
        try:
            while not self._ending:
                self._bell.wait(self._step(Jobs(database)))
        finally:
            database.close()

    def _step(self, jobs: Jobs) -> float | None:
        """Tell what is due; returns how long to sleep in seconds, None for until the bell."""
        try:
            for job in jobs.claim(datetime.now(UTC)):
                self._tell(worded(job, datetime.now(UTC), self._session))
                jobs.delivered(job)
            due = jobs.next_due()
        except StoreError as error:
            self._tell(f"reminders wait: {error}")
            return _RETRY_S
        return None if due is None else sleep_until(due, datetime.now(UTC))


def sleep_until(due: datetime, now: datetime) -> float:
    """Seconds to sleep, never past an hour, because the clock may be set meanwhile."""
    return min(max(0.0, (due - now).total_seconds()), _LONGEST_SLEEP_S)


def worded(job: Job, now: datetime, session: str) -> str:
    """Word a reminder for the chat `session`, with a note when it comes late or belongs to another chat."""
    late = (now - job.due).total_seconds()
    whose = "" if job.session == session else f" of chat {job.session!r}"
    return f"Reminder{whose}: {job.message}{f' (was due {duration(late)} ago)' if late > _LATE_S else ''}"
