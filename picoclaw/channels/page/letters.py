"""What was told on the page without being asked: reminders, warnings, answers that nobody was there to see."""

import json
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from picoclaw.channels.page.house import Said
from picoclaw.disk import explain, read_file, write_atomic
from picoclaw.errors import ChannelDown
from picoclaw.store.outbox import Letter

NAME = "page_letters.json"
_KEPT = 60


class Letters:
    """The last letters, in a file of their own: a browser that comes later has to see them."""

    def __init__(self, home: Path) -> None:
        """Read nothing yet."""
        self._path = home / NAME
        self._lock = threading.Lock()
        self._rows: list[dict[str, Any]] | None = None

    def keep(self, letter: Letter) -> bool:
        """Keep a letter durably; False for one that was kept before. Raises ChannelDown."""
        with self._lock:
            rows = self._read()
            if any(row["number"] == letter.number and row["text"] == letter.text for row in rows):
                return False
            self._write([*rows, {"number": letter.number, "text": letter.text, "at": letter.at}])
            return True

    def note(self, *said: Said) -> None:
        """Keep what is no part of the conversation in `state.db`: commands, and answers that say what went wrong."""
        rows = [{"number": 0, "role": one.role, "text": one.text, "at": one.at} for one in said if one.text]
        with self._lock, suppress(ChannelDown):
            self._write([*self._read(), *rows])

    def _write(self, rows: list[dict[str, Any]]) -> None:
        rows = rows[-_KEPT:]
        try:
            write_atomic(self._path, json.dumps(rows, ensure_ascii=False).encode("utf-8", "replace"))
        except OSError as error:
            raise ChannelDown(f"{self._path} cannot be written: {explain(error)}") from None
        self._rows = rows

    def all(self) -> list[Said]:
        """Give them, the oldest first."""
        with self._lock:
            return [Said(str(row.get("role", "assistant")), str(row["text"]), float(row["at"])) for row in self._read()]

    def _read(self) -> list[dict[str, Any]]:
        if self._rows is None:
            try:
                rows = json.loads(read_file(self._path))
                self._rows = [row for row in rows if {"number", "text", "at"} <= row.keys()]
            except (OSError, ValueError, AttributeError, TypeError, RecursionError):
                self._rows = []
        return self._rows


def merged(said: list[Said], letters: list[Said], mark: str, most: int) -> list[Said]:
    """Put letters where they belong by time, but for those that the conversation has as an answer, without the mark.

    Of a conversation with more than `most` lines only the end is `said`, and letters from before that are left out.
    """
    answers = {line.text.strip() for line in said if line.role == "assistant"}
    news = [letter for letter in letters if letter.text.strip().removesuffix(mark).strip() not in answers]
    begin = said[0].at if len(said) >= most else 0.0
    return sorted([*said, *(letter for letter in news if letter.at >= begin)], key=lambda line: line.at)
