"""The pulse in `state.db`: the open tasks, the most urgent first. What is completed stays for a month, unseen."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Literal

from picoclaw.errors import StoreError
from picoclaw.records import NamedTuple
from picoclaw.store.database import StoreConnection, Table, get_mark, set_mark
from picoclaw.text import fold_case, remove_invisible, replace_surrogates

COMPLETED_RETENTION = timedelta(days=30)
MAX_TEXT_CHARS, MAX_OPEN = 500, 200
DEFAULT_PRIORITY = 5

_REVISION_MARK = "pulse"
_MAX_LISTED_NUMBERS = 20


class PulseItem(NamedTuple):
    """An open task. `priority` 1 is the most urgent, 10 the least.

    `source` is what it is from when it is not the owner's word.
    """

    number: int
    text: str
    priority: int
    session: str
    source: str
    since: str


class PulseChange(NamedTuple):
    """What is to become of the list; 0 and '' leave a value as it is."""

    action: Literal["add", "complete", "remove", "update"]
    number: int = 0
    text: str = ""
    priority: int = 0


class PulseAuthor(NamedTuple):
    """Who changes the list, and when; `source` as of an Item."""

    session: str
    now: datetime
    source: str = ""


class Pulse(Table):
    def items(self) -> list[PulseItem]:
        """List what is open by urgency, then by age. Raises StoreError."""
        with self._database.reading() as connection:
            return _select_open_items(connection)

    def apply(
        self, changes: Sequence[PulseChange], by: PulseAuthor, marks: Mapping[str, str] | None = None
    ) -> list[PulseItem]:
        """Make all changes or none, durably; returns each task as it was left. Raises StoreError saying why not.

        A task that is open already is not added again; it is as urgent as the more urgent of both. Each of the `marks`
        is set to the revision that comes of it, and its own text behind that.
        """
        with self._database.transaction() as connection:
            items = [_apply_change(connection, change, by) for change in changes]
            if items:
                revision, _ = _read_revision(connection)
                stamp = f"{revision + 1} {by.now.isoformat(timespec='seconds')}"
                set_mark(connection, _REVISION_MARK, stamp)
            for name, text in (marks or {}).items():
                set_mark(connection, name, f"{_read_revision(connection)[0]} {text}")
            return items

    def add(self, text: str, priority: int, session: str, now: datetime) -> int:
        """Add a task of the owner's; returns its number. Raises StoreError."""
        return self.apply([PulseChange("add", 0, text, priority)], PulseAuthor(session, now))[0].number

    def revision(self) -> int:
        """Return a number that every change of the list makes larger. Raises StoreError."""
        with self._database.reading() as connection:
            return _read_revision(connection)[0]

    def changed(self) -> datetime | None:
        """Return when the list last changed, None when there never was a task. Raises StoreError."""
        with self._database.reading() as connection:
            return _read_revision(connection)[1]

    def shown(self, most: int = 5000) -> str:
        """List what is open in at most this many characters, in whole lines; says how many have no room."""
        lines = [format_item(item) for item in self.items()]
        for kept in range(len(lines), -1, -1):
            left = len(lines) - kept
            shown = "\n".join([*lines[:kept], *([f"{left} more: pulse list"] if left else [])])
            if len(shown) <= most:
                return shown
        return ""

    def forget(self, now: datetime) -> int:
        """Drop what was completed more than 30 days ago; returns how much it was. Raises StoreError."""
        before = (now - COMPLETED_RETENTION).timestamp()
        return self._database.write("DELETE FROM pulse WHERE done_at < ?", before)


def format_item(item: PulseItem) -> str:
    """Write a task as a model and a person are shown it; its own text cannot take the place of the mark before it."""
    doubt = f"; not from the owner: {item.source}" if item.source else ""
    return f"{item.number} [p{item.priority}{doubt}] {item.text} (since {item.since[:10]})"


def _read_revision(connection: StoreConnection) -> tuple[int, datetime | None]:
    revision, _, when = get_mark(connection, _REVISION_MARK).partition(" ")
    return (int(revision), datetime.fromisoformat(when)) if when else (0, None)


def _select_open_items(connection: StoreConnection) -> list[PulseItem]:
    rows = connection.execute(
        "SELECT id, text, priority, session, source, since FROM pulse WHERE done = '' ORDER BY priority, id"
    )
    return [PulseItem(*row) for row in rows]


def _apply_change(connection: StoreConnection, change: PulseChange, by: PulseAuthor) -> PulseItem:
    items = _select_open_items(connection)
    text = _clean_text(change.text)
    if change.action == "add":
        known = next((item for item in items if fold_case(item.text) == fold_case(text)), None)
        if known is None:
            return _insert_item(connection, text, change.priority or DEFAULT_PRIORITY, by, len(items))
        return _update_item(connection, known, "", min(known.priority, change.priority or known.priority), by)
    item = next((item for item in items if item.number == change.number), None)
    if item is None:
        raise StoreError(_explain_missing_item(connection, change.number, items))
    if change.action == "complete":
        done = by.now.isoformat(timespec="seconds"), by.now.timestamp()
        connection.execute("UPDATE pulse SET done = ?, done_at = ? WHERE id = ?", (*done, item.number))
        return item
    if change.action == "remove":
        connection.execute("DELETE FROM pulse WHERE id = ?", (item.number,))
        return item
    return _update_item(connection, item, text, change.priority or item.priority, by)


def _insert_item(connection: StoreConnection, text: str, priority: int, by: PulseAuthor, count: int) -> PulseItem:
    if not text:
        raise StoreError("text is missing: what is to be done")
    if count >= MAX_OPEN:
        raise StoreError(f"{MAX_OPEN} tasks are open already; complete some first")
    since = by.now.isoformat(timespec="seconds")
    values = (text, priority, replace_surrogates(by.session), _clean_text(by.source), since)
    connection.execute("INSERT INTO pulse (text, priority, session, source, since) VALUES (?, ?, ?, ?, ?)", values)
    return PulseItem(connection.last_insert_rowid(), *values)


def _update_item(connection: StoreConnection, item: PulseItem, text: str, priority: int, by: PulseAuthor) -> PulseItem:
    """New words are those of whoever says them; another priority changes nothing of whose they are."""
    source = _clean_text(by.source) if text else item.source
    item = item._replace(text=text or item.text, priority=priority, source=source)
    connection.execute(
        "UPDATE pulse SET text = ?, priority = ?, source = ? WHERE id = ?",
        (item.text, item.priority, item.source, item.number),
    )
    return item


def _clean_text(text: str) -> str:
    text = " ".join(remove_invisible(replace_surrogates(text)).split())
    if len(text) > MAX_TEXT_CHARS:
        raise StoreError(
            f"a task may have {MAX_TEXT_CHARS} characters, not {len(text)}; say it shorter, and note the rest"
        )
    return text


def _explain_missing_item(connection: StoreConnection, number: int, items: Sequence[PulseItem]) -> str:
    found = connection.execute("SELECT done FROM pulse WHERE id = ?", (number,)).fetchone()
    if found:
        return f"task {number} was completed on {str(found[0])[:10]}"
    known = ", ".join(str(item.number) for item in items[:_MAX_LISTED_NUMBERS])
    more = ", …" if len(items) > _MAX_LISTED_NUMBERS else ""
    return f"there is no task {number}; {f'open: {known}{more}' if items else 'none is open'}"
