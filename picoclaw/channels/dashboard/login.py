"""Who may use the page: a code that is printed on the board makes a browser known, by a cookie, for months; programs have tokens.

Of both only the digests are kept. A code has 40 bits and ten minutes, so guessing it is hopeless even without the
limit on tries, and nobody who guesses can lock the owner out.
"""

import hashlib
import hmac
import json
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from picoclaw.automation.clock import boottime, read_boot_id
from picoclaw.config.tables import PersonConfig, PersonRole
from picoclaw.errors import ChannelError, ConfigError
from picoclaw.files import explain_os_errors, read_file, remove_file, write_atomic
from picoclaw.messages import LOGIN_WAY
from picoclaw.records import NamedTuple
from picoclaw.security.audit import AuditLog
from picoclaw.text import parse_json_object, pattern

CODE_FILE, LOGINS_FILE = "page_code.json", "page_logins.json"
CODE_LIFETIME_S = 600.0
LOGIN_LIFETIME_S = 90 * 86_400
MAX_LOGINS = 20
_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_CODE_CHARS = 8
_LOOKALIKES = str.maketrans("OIL", "011", "- \t\r\n")
_DAY_S = 86_400.0
_MAX_AGENT_CHARS = 120
_SavedLogins = dict[str, dict[str, Any]]


def make_code(home: Path, person: str = "") -> str:
    """Make a code that lets one browser in within ten minutes, in place of the last one. Raises ChannelError.

    Whoever enters it is that `person` of the household, '' the owner.
    """
    code = "".join(secrets.choice(_ALPHABET) for _ in range(_CODE_CHARS))
    kept = {"code": hash_secret(code), "boot": read_boot_id(), "at": boottime()}
    save_object(home / CODE_FILE, kept | ({"person": person} if person else {}))
    return f"{code[:4]}-{code[4:]}"


class Visitor(NamedTuple):
    """Who has logged in: the `person` of the household, '' for the owner without a name; `who` is a name for others."""

    person: str
    role: PersonRole
    who: str


class Logins:
    def __init__(
        self, home: Path, wall: Callable[[], float] = time.time, people: Mapping[str, PersonConfig] | None = None
    ) -> None:
        """`wall()` gives seconds since 1970; the `people` are those who may log in besides the owner."""
        self._home, self._path, self._wall, self._people = home, home / LOGINS_FILE, wall, people or {}
        self._lock = threading.Lock()
        self._known: _SavedLogins = {}
        self._mark = (-1, -1)

    def enter(self, code: str, agent: str, address: str) -> str:
        """Give a browser that knows the code its secret, '' to one that does not. Raises ChannelError."""
        with self._lock:
            if (person := self._find_person(code)) is None:
                return ""
            if person and person not in self._people:
                raise ChannelError(f"picoclaw does not know {person} yet: restart it, and enter the code again")
            remove_file(self._home / CODE_FILE)
            secret, now = secrets.token_urlsafe(32), self._wall()
            shown = agent.encode("ascii", "replace").decode()[:_MAX_AGENT_CHARS]
            login = {"at": now, "seen": now, "agent": shown, "from": address} | ({"person": person} if person else {})
            known = self._read() | {hash_secret(secret): login}
            newest = sorted(known, key=lambda digest: float(known[digest]["seen"]))[-MAX_LOGINS:]
            save_object(self._path, {digest: known[digest] for digest in newest})
            AuditLog(self._home).mention("login", on="page", who=_name(secret, person), by=address, agent=shown)
            return secret

    def find(self, secret: str) -> Visitor | None:
        """Tell whose secret this is; None for nobody's, and for a person who is not of the household any more."""
        if not secret:
            return None
        with self._lock:
            known, digest, now = self._read(), hash_secret(secret), self._wall()
            login = known.get(digest)
            if login is None or now - float(login["seen"]) > LOGIN_LIFETIME_S:
                return None
            person = str(login.get("person", ""))
            if person and person not in self._people:
                return None
            if now - float(login["seen"]) > _DAY_S:
                try:
                    save_object(self._path, known | {digest: login | {"seen": now}})
                except ChannelError:
                    login["seen"] = now  # a full disk keeps nobody out
            return Visitor(person, self._people[person].role if person else "owner", _name(secret, person))

    def forget(self, secret: str = "", person: str = "") -> int:
        """Forget one browser, those of a person, or all; returns how many. Raises ChannelError.

        With a person's browsers, or with all, goes the code that would let in another.
        """
        with self._lock:
            known = self._read()
            if not secret and person in {"", load_object(self._home / CODE_FILE).get("person", "")}:
                remove_file(self._home / CODE_FILE)
            left = known
            if secret or person:
                digest = hash_secret(secret)
                left = {
                    one: login
                    for one, login in known.items()
                    if one != digest and not (person and login.get("person") == person)
                }
            else:
                left = {}
            if left != known:
                save_object(self._path, left)
                AuditLog(self._home).mention("logout", on="page", browsers=len(known) - len(left))
            return len(known) - len(left)

    def is_owners(self) -> bool:
        """Whether a browser was let in whose user is the owner."""
        owners = {"", *(name for name, person in self._people.items() if person.role == "owner")}
        return any(login.get("person", "") in owners for login in self.listed())

    def listed(self) -> list[dict[str, Any]]:
        """Give when and where each was let in, and when it came last."""
        with self._lock:
            return list(self._read().values())

    def _find_person(self, code: str) -> str | None:
        """Whom a code lets in, None for nobody."""
        kept = load_object(self._home / CODE_FILE)
        try:
            alive = kept["boot"] == read_boot_id() and 0 <= boottime() - float(kept["at"]) <= CODE_LIFETIME_S
            fits = hmac.compare_digest(str(kept["code"]), hash_secret(code.upper().translate(_LOOKALIKES)))
            return str(kept.get("person", "")) if fits and alive else None
        except (KeyError, TypeError, ValueError):
            return None

    def _read(self) -> _SavedLogins:
        """Read the file again when somebody has changed it."""
        try:
            found = self._path.stat()
        except OSError:
            self._known, self._mark = {}, (-1, -1)
            return self._known
        if (mark := (found.st_mtime_ns, found.st_ino)) != self._mark:
            logins = {digest: login for digest, login in load_object(self._path).items() if isinstance(login, dict)}
            self._known = {digest: one for digest, one in logins.items() if isinstance(one.get("seen"), int | float)}
            self._mark = mark
        return self._known


def _name(secret: str, person: str) -> str:
    """Name a browser for others, as the audit log does; the same until it is forgotten."""
    return f"{LOGIN_WAY}{person}" if person else f"page:{hash_secret(secret)[:8]}"


def hash_secret(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def load_object(path: Path) -> dict[str, Any]:
    """Read a file of ours; one that is torn or strange says nothing."""
    try:
        return parse_json_object(read_file(path))
    except OSError:
        return {}


def save_object(path: Path, data: Any) -> None:
    with explain_os_errors(ChannelError, f"{path} cannot be written"):
        write_atomic(path, json.dumps(data).encode())


# The tokens by which programs use the board as an OpenAI model: one for each person, of which only the digest is kept.

TOKENS_FILE = "page_tokens.json"
MAX_TOKENS = 50
_NAME = pattern(r"[a-z][a-z0-9_-]{0,31}")


class ProgramToken(NamedTuple):
    """Whose token it is, and since when, in seconds since 1970; `owner`: who has it counts as the owner in person."""

    name: str
    owner: bool
    at: float


class ProgramTokens:
    """The file is read each time: a token that was revoked counts no more from that moment on."""

    def __init__(self, home: Path) -> None:
        self._home, self._path = home, home / TOKENS_FILE

    def add(self, name: str, *, owner: bool) -> str:
        """Make a token; gives it, which is not known to anybody later. Raises ConfigError, ChannelError."""
        kept = load_object(self._path)
        if not _NAME.fullmatch(name):
            raise ConfigError(f"{name!r} is not a name for a token: small letters, digits, - and _, at most 32")
        if name in kept:
            raise ConfigError(f"there is a token {name!r} already: `picoclaw page token revoke {name}` ends it")
        if len(kept) >= MAX_TOKENS:
            raise ConfigError(f"there are {MAX_TOKENS} tokens, which is the most: revoke one")
        secret = f"sk-{secrets.token_hex(24)}"
        save_object(self._path, kept | {name: {"digest": hash_secret(secret), "owner": owner, "at": time.time()}})
        AuditLog(self._home).mention("token", on="page", who=f"token:{name}", owner=owner)
        return secret

    def revoke(self, name: str) -> bool:
        """End a token; tells whether there was one. Raises ChannelError."""
        kept = load_object(self._path)
        if name not in kept:
            return False
        save_object(self._path, {other: one for other, one in kept.items() if other != name})
        AuditLog(self._home).mention("token revoked", on="page", who=f"token:{name}")
        return True

    def listed(self) -> list[ProgramToken]:
        return [token for token, _ in self._all()]

    def find(self, secret: str) -> ProgramToken | None:
        """Return whose secret this is, None for nobody's."""
        digest = hash_secret(secret)
        return next((token for token, known in self._all() if secrets.compare_digest(known, digest)), None)

    def _all(self) -> list[tuple[ProgramToken, str]]:
        found = []
        for name, one in load_object(self._path).items():
            if isinstance(one, dict) and isinstance(one.get("digest"), str) and isinstance(one.get("at"), int | float):
                token = ProgramToken(name, one.get("owner") is True, float(one["at"]))
                found.append((token, one["digest"].encode("ascii", "replace").decode()))
        return found
