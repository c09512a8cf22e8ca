"""The tokens by which programs use the board as an OpenAI model: one for each person, of which only the digest is kept."""

import secrets
import time
from pathlib import Path

from picoclaw.channels.dashboard.login import hash_secret, load_object, save_object
from picoclaw.errors import ConfigError
from picoclaw.records import NamedTuple
from picoclaw.security.audit import AuditLog
from picoclaw.text import pattern

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

    def is_valid(self, token: ProgramToken) -> bool:
        """Whether this very token still counts; another of the same name is another."""
        return token in self.listed()

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
