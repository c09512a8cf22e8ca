"""Who may talk to us on a channel: those of config.toml, and those who have sent the code that this board has printed.

A code is eight letters for ten minutes of one boot and five wrong tries; only its digest is kept.
"""

import hashlib
import hmac
import json
import os
import re
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from picoclaw.automation.clock import boottime, read_boot_id
from picoclaw.config import Config
from picoclaw.config.tables import AgentConfig, PersonConfig
from picoclaw.errors import StoreError
from picoclaw.messages import LOGIN_WAY, Origin
from picoclaw.security.audit import AuditLog
from picoclaw.store.conversations import find_agent
from picoclaw.store.database import Database, Marks
from picoclaw.store.people import People
from picoclaw.text import pattern

CODE_MINUTES = 10
_MAX_TRIES = 5
_ALPHABET = "ABCDEFGHJKMNPQRSTUVWXYZ23456789"  # none that is easily taken for another
_CODE = pattern(r"(?:/start\s+)?([A-HJKMNP-Z2-9]{4})[\s-]?([A-HJKMNP-Z2-9]{4})", re.IGNORECASE)
_NOBODY = "0"


class Pairing:
    """The people of one home; the database is opened when it is first needed, and may be used from any thread."""

    def __init__(
        self,
        channel: str,
        home: Path,
        allow: Sequence[str] = (),
        owner: str = "",
        household: Mapping[str, PersonConfig] | None = None,
        agents: Mapping[str, AgentConfig] | None = None,
    ) -> None:
        """`allow` are the people of config.toml, `owner` is the owner there, '' for none. Opens nothing yet.

        Those of the `household` whom config.toml gives a name on this channel are allowed as well. `agents` are those of
        config.toml, whose workspaces are their own.
        """
        self._agents = agents or {}
        self.channel, self._path = channel, home / "state.db"
        self._named, self._household = owner, household or {}
        ways = [(way, person.role) for person in self._household.values() for way in person.ways]
        known = {way.removeprefix(f"{channel}:"): role for way, role in ways if way.startswith(f"{channel}:")}
        owners = [user for user, role in known.items() if role == "owner"]
        self._others = {user for user, role in known.items() if role != "owner"}
        self._first = next((user for user in (owner, *owners, *allow) if user and user not in self._others), "")
        self._allow = tuple(dict.fromkeys(filter(None, (owner, *allow, *known))))
        self._offer, self._pairs, self._owns = f"{channel}.code", f"{channel}.paired", f"{channel}.owner"
        self._guard = threading.Lock()
        self._database: Database | None = None

    def people(self) -> dict[str, str]:
        """Name everybody who may talk to us, by the service's name for them; those of config.toml without a name.

        Raises StoreError.
        """
        with self._guard:
            return dict.fromkeys(self._allow, "") | self._paired()

    def allows(self, user: str) -> bool:
        return user in self._allow or user in self.people()

    def origin(self, user: str) -> Origin:
        """As whom somebody asks who may talk to us. Raises StoreError."""
        if user == self.owner():
            return "owner"
        if not (name := self._find_person(user)):
            return "guest"
        return self._household[name].role

    def _find_person(self, user: str) -> str:
        """Name whom of the household this is, '' for nobody. Raises StoreError."""
        if not self._household:
            return ""
        with self._guard:
            return People(self._household, self._open()).find(f"{self.channel}:{user}")

    def find_workspace(self, users: Collection[str], session: str) -> Path | None:
        """The folder of the files that may be sent where these read: the owners', or one member's; None for others.

        It is that with the agent which the chat is held with.
        """
        with suppress(StoreError):
            origins = {self.origin(user) for user in users}
            person = self._find_person(next(iter(users))) if origins == {"member"} and len(users) == 1 else ""
            agent = self._find_agent(session)
            if (person or origins == {"owner"}) and (not agent or agent in self._agents):
                return Config(self._path.parent, agents=self._agents, agent=agent, person=person).workspace
        return None

    def _find_agent(self, session: str) -> str:
        if not self._agents:
            return ""
        with self._guard:
            return find_agent(self._open(), session)

    def owner(self) -> str:
        """Give the one who is the owner, '' when nobody is: all others are guests. Raises StoreError.

        It is the one whom config.toml names, else the first who was paired while there was none, else the first of
        config.toml's list.
        """
        if self._named:
            return self._named
        with self._guard:
            return self._owner()

    def _owner(self) -> str:
        first = self._first
        if self._named or (self._database is None and not self._path.exists()):
            return self._named or first
        marked = self._marks().get(self._owns)
        if marked and marked != _NOBODY and marked not in self._others:  # what config.toml says counts
            return marked
        # a version that did not mark the owner has paired them first
        return first or ("" if marked else next((user for user in self._paired() if user not in self._others), ""))

    @contextmanager
    def marks(self) -> Iterator[Marks]:
        """Lend what the channel remembers. Raises StoreError."""
        with self._guard:
            yield self._marks()

    def offer(self, person: str = "") -> str:
        """Make a code, which takes the place of an earlier one. Raises StoreError.

        Whoever redeems it is that `person` of the household.
        """
        code = "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in os.urandom(64) if byte < 248)[:8]
        with self._guard:
            self._marks().set(
                self._offer,
                json.dumps([self._hash(code), read_boot_id(), boottime() + CODE_MINUTES * 60, _MAX_TRIES, person]),
            )
        return code

    def is_offered(self) -> bool:
        """Whether a code was given out that still counts. Raises StoreError."""
        with self._guard:
            if self._database is None and not self._path.exists():
                return False
            return _is_valid_offer(self._parse(self._marks().get(self._offer)))

    def redeem(self, text: str, user: str, who: str) -> bool:
        """Pair a person whose message is the code; a wrong one costs a try. Raises StoreError."""
        found = _CODE.fullmatch(text.strip())
        if not found or not user:
            return False
        with self._guard:
            marks = self._marks()
            offer = self._parse(marks.get(self._offer))
            if not _is_valid_offer(offer):
                return False
            digest, boot, until, tries, *person = offer
            if not hmac.compare_digest(digest, self._hash(f"{found[1]}{found[2]}".upper())):
                marks.set(self._offer, json.dumps([digest, boot, until, tries - 1, *person]) if tries > 1 else "")
                return False
            name = str(person[0]) if person else ""
            if name:
                People(self._household, self._open()).pair(f"{self.channel}:{user}", name)
            # the first is the owner, but no member or guest of the household, nor who was added since we started
            if not self._owner():
                person = self._household.get(name)
                is_owner = not name or (person is not None and person.role == "owner")
                marks.set(self._owns, user if is_owner and user not in self._others else _NOBODY)
            marks.set(self._pairs, json.dumps(self._paired() | {user: who}))
            marks.set(self._offer, "")
            AuditLog(self._path.parent).mention("paired", who=f"{self.channel}:{user}", name=who)
            return True

    def forget(self, user: str) -> bool:
        """Take back that a person was paired; tells whether one was. Raises StoreError."""
        with self._guard:
            paired = self._paired()
            if user not in paired:
                return False
            if self._owner() == user and user not in self._allow:
                self._marks().set(self._owns, _NOBODY)  # no guest becomes the owner by that
            del paired[user]
            self._marks().set(self._pairs, json.dumps(paired))
            People(self._household, self._open()).forget(f"{self.channel}:{user}")  # who they were paired as
            AuditLog(self._path.parent).mention("unpaired", who=f"{self.channel}:{user}")
            return True

    def close(self) -> None:
        """Let go of the database; may be called twice."""
        with self._guard:
            if self._database is not None:
                self._database.close()
                self._database = None

    def _open(self) -> Database:
        if self._database is None:
            self._database = Database(self._path)
        return self._database

    def _marks(self) -> Marks:
        return Marks(self._open())

    def _paired(self) -> dict[str, str]:
        """Those who were paired; nobody where nothing was ever kept."""
        if self._database is None and not self._path.exists():
            return {}
        found = self._parse(self._marks().get(self._pairs))
        pairs = found.items() if isinstance(found, dict) else ()
        return {str(user): str(who) for user, who in pairs}

    def _parse(self, text: str) -> Any:
        try:
            return json.loads(text) if text else None
        except (ValueError, RecursionError):
            raise StoreError(f"who was paired on {self.channel} cannot be read; pair again") from None

    def _hash(self, code: str) -> str:
        return hashlib.sha256(f"picoclaw {self.channel} {code}".encode()).hexdigest()


_ROLE_NAMES = {"owner": "the owner", "member": "a member of the household", "guest": "a guest"}


def describe_role_change(config: Config, who: str, origin: Origin) -> str:
    """Say that somebody who once asked for something is not now what they were then, '' where they still are.

    `origin` is as whom they asked; what was asked for by no person, such as a sub-agent's call, was for the owner. What
    is to be done later is judged by this: their view and their rights may be others by then. Raises StoreError.
    """
    before = "owner" if origin not in _ROLE_NAMES else origin
    if (now := _find_role(config, who, before)) == before:
        return ""
    if now is None:
        return f"{who}, who asked for it, may not write to this board any more"
    return f"{who}, who asked for it, was {_ROLE_NAMES[before]} then and is {_ROLE_NAMES[now]} now"


def _find_role(config: Config, who: str, before: str) -> str | None:
    """The role of somebody now, None for nobody who may write to us."""
    channel, _, user = who.partition(":")
    if channel in {"terminal", "login"}:  # of a person; people at those are not paired
        people = config.people.items()
        return next((one.role for name, one in people if who in {f"{LOGIN_WAY}{name}", *one.ways}), None)
    if channel not in {"telegram", "matrix"}:  # the owner's own terminal, and page
        return before if before != "member" or config.people else "guest"
    if channel == "telegram":
        from picoclaw.channels.telegram_api import make_pairing
    else:
        from picoclaw.channels.matrix_api import make_pairing
    with closing(make_pairing(config)) as pairing:
        return pairing.origin(user) if pairing.allows(user) else None


def _is_valid_offer(offer: Any) -> bool:
    """Whether a code was given out and still counts: in this boot, because the date may be wrong."""
    if not (isinstance(offer, list) and len(offer) in {4, 5}):
        return False
    return offer[1] == read_boot_id() and isinstance(offer[2], float | int) and boottime() < offer[2]
