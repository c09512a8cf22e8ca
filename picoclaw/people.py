"""The people of a household: who somebody is, by what a channel calls them, such as `telegram:12345`."""

import json
from collections.abc import Mapping
from contextlib import suppress

from picoclaw.config.tables import PersonConfig, PersonRole
from picoclaw.errors import StoreError
from picoclaw.messages import LOGIN_WAY
from picoclaw.store.database import Database, Marks

_PAIRED_MARK = "people.paired"


class People:
    """Those of config.toml, and how they were paired."""

    def __init__(self, people: Mapping[str, PersonConfig], database: Database) -> None:
        """Reads nothing yet; of `database` only what was paired."""
        self._people, self._database = people, database
        self._ways = {way: name for name, person in people.items() for way in person.ways}

    def find(self, who: str) -> str:
        """Name the person whom a channel calls `who`, '' for nobody of the household. Raises StoreError."""
        name = who.removeprefix(LOGIN_WAY)
        if name != who:
            return name if name in self._people else ""
        return self._ways.get(who) or self._find_paired(who)

    def role(self, who: str) -> PersonRole | None:
        """The role of that person, None for nobody of the household. Raises StoreError."""
        name = self.find(who)
        return self._people[name].role if name else None

    def language(self, who: str) -> str:
        """The language of that person, '' where none is set, and for nobody of the household. Raises StoreError."""
        name = self.find(who)
        return self._people[name].language if name else ""

    def list_ways(self, name: str) -> list[str]:
        """What channels call a person, those of config.toml first. Raises StoreError."""
        paired = [way for way, known in self._read_paired().items() if known == name]
        return list(dict.fromkeys([*self._people[name].ways, *paired]))

    def pair(self, who: str, name: str) -> None:
        """Remember durably that `who` is that person. Raises StoreError."""
        Marks(self._database).set(_PAIRED_MARK, json.dumps(self._read_paired() | {who: name}))

    def forget(self, who: str) -> None:
        """Forget as whom `who` was paired. Raises StoreError."""
        paired = self._read_paired()
        if paired.pop(who, None):
            Marks(self._database).set(_PAIRED_MARK, json.dumps(paired))

    def unpair(self, name: str) -> list[str]:
        """Forget how a person was paired, and a code for them; returns what channels called them. Raises StoreError."""
        marks = Marks(self._database)
        for channel in ("telegram", "matrix"):
            with suppress(ValueError, RecursionError):
                if json.loads(marks.get(f"{channel}.code") or "[]")[4:] == [name]:
                    marks.set(f"{channel}.code", "")
        paired = self._read_paired()
        gone = [who for who, known in paired.items() if known == name]
        if gone:
            left = {who: known for who, known in paired.items() if known != name}
            Marks(self._database).set(_PAIRED_MARK, json.dumps(left))
        return gone

    def _find_paired(self, who: str) -> str:
        name = self._read_paired().get(who, "") if self._people and who else ""
        return name if name in self._people else ""

    def _read_paired(self) -> dict[str, str]:
        text = Marks(self._database).get(_PAIRED_MARK)
        try:
            found = json.loads(text) if text else {}
        except (ValueError, RecursionError):
            raise StoreError("who was paired with the board cannot be read; pair them again") from None
        return {str(who): str(name) for who, name in found.items()} if isinstance(found, dict) else {}
