"""Masks secrets in what is shown, sent and stored: the configured ones, and what looks like one. Pure.

A secret is recognised by a vendor's prefix, by its place in a header or URL, or by a name such as `api_key=`; hashes,
UUIDs and register dumps are not masked. The daemon's log is masked in daemon/status.py, audit.log in audit.py. A text without a hint of a format is not searched for it.
"""

import re
from binascii import b2a_base64
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from picoclaw.messages import Event, Text
from picoclaw.text import pattern

MASK = "[secret]"
MIN_SECRET_CHARS = 8
"""Characters; what a server without keys is given, such as "none", is no secret and a common word."""


# Beginnings that vendors have chosen so that their keys can be found.
_SECRET_PATTERNS = (
    r"sk-(?:proj|svcacct|admin|ant|or|lf|live|test)-[\w-]{20,}",
    r"sk-[A-Za-z0-9]{20,}[\w-]*",
    r"[srp]k_(?:live|test)_[A-Za-z0-9]{16,}",
    r"gh[pousr]_[A-Za-z0-9]{30,}",
    r"github_pat_\w{40,}",
    r"glpat-[\w-]{20,}",
    r"hf_[A-Za-z0-9]{30,}",
    r"npm_[A-Za-z0-9]{36,}",
    r"pypi-[\w-]{50,}",
    r"AIza[\w-]{35}",
    r"ya29\.[\w-]{20,}",
    r"xox[abeoprs]-[\w-]{10,}",
    r"xapp-\d-[\w-]{10,}",
    r"(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Z0-9])",
    r"(?:gsk|dop_v1|tskey|nvapi|pplx|tvly|xai|r8)[_-](?=\w*\d)[\w-]{20,}",
    r"SG\.[\w-]{16,}\.[\w-]{16,}",
    r"eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}",
)
_SECRET_PREFIXES = (
    *("sk-", "k_live_", "k_test_", "gh", "github_pat_", "glpat-", "hf_", "npm_", "pypi-", "aiza", "ya29.", "xox"),
    *("xapp-", "akia", "asia", "gsk_", "dop_v1", "tskey", "nvapi", "pplx", "tvly", "xai", "r8_", "sg.", "eyj"),
)

_LABEL_PATTERN = (
    r"api[_-]?key|access[_-]?key(?:[_-]id)?|secret[_-]?key|client[_-]?secret|secret|auth[_-]?token|token|password|passwd"
    r"|passphrase|passwort|kennwort|psk|pwd|private[_-]?key|(?<![A-Za-z])pass|(?<![A-Za-z])pw"
)
_VALUE = r"""(?:"(?P<quoted>[^"\n]{4,200})"|'(?P<single>[^'\n]{4,200})'|(?P<bare>[^\s"'`,;&<>(){}\[\]|]{4,200}))"""

_SECRET_FORMATS: Mapping[tuple[str, ...], re.Pattern[str]] = {
    _SECRET_PREFIXES: pattern(rf"(?<![A-Za-z0-9_-])(?:{'|'.join(_SECRET_PATTERNS)})"),
    (":aa",): pattern(r"(?<![0-9])\d{6,12}:AA[\w-]{30,}"),
    ("private key",): pattern(
        r"(?P<kept>-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----)"
        # In a lookahead, because what it has found is not gone through again in every other way.
        r"(?=(?P<headers>(?:\\[nr]|\s|[A-Za-z-]{1,20}: (?:(?!-----BEGIN)[^\n\\]){1,80})*))(?P=headers)"
        r"(?:[A-Za-z0-9+/=]{16,}(?:\\[nr]|\s)*)+"
        r"(?:(?:[A-Za-z0-9+/=]{1,15}(?:\\[nr]|\s)*)?-----END [A-Z0-9 ]{0,40}-----)?"
    ),
    ("bearer",): pattern(r"(?i:(?P<kept>\bbearer\s{1,3}))(?P<value>(?=[\w.~+/-]*\d)[\w.~+/-]{12,}=*)"),
    ("basic ",): pattern(r"(?i:(?P<kept>authorization[\"']?\s?[:=]\s?[\"']?basic ))(?P<value>[A-Za-z0-9+/]{8,}={0,2})"),
    ("token ",): pattern(r"(?i:(?P<kept>authorization[\"']?\s?[:=]\s?[\"']?token ))(?P<value>[\w.~+/=-]{8,})"),
    ("--pass",): pattern(r"(?P<kept>--pass(?:word|wd)?[ =])(?P<value>[^\s\"'$<-][^\s\"'<>]{3,})"),
    ("curl ",): pattern(
        r"(?P<kept>\bcurl\b[^\n|;]{0,200}? (?:-u|--user)[ =][^\s:\"']{1,64}:)(?P<value>[^\s\"'$<]{4,})"
    ),
    ("://",): pattern(r"(?P<kept>://[^\s/:@\"'<>]{0,64}:)(?P<value>[^\s/@\"'<>]{1,200})(?=@)"),
    ("key", "token", "secret", "pass", "kennwort", "psk", "pwd", "pw"): pattern(
        rf"(?P<kept>(?i:(?P<name>{_LABEL_PATTERN}))\\?[\"']?[ \t]{{0,4}}[:=][ \t]{{0,4}}\\?){_VALUE}"
    ),
}
"""Formats of secrets by their hints: every text that has one contains one of these, in lower case.

The group `kept` is not masked; a group `value` that is a placeholder is no secret.
"""

_PLACEHOLDER = pattern(
    r"[\W_]*|\[?secret\]?|[x*.•_-]+|.*(?:\$|%\w+%|\{|<|\.\.\.|…).*|(?i:.*\b(?:your|my|the|an?|example|changeme|dummy|"
    r"placeholder|redacted|todo)\b.*|(?:your|my|some|example|test|dummy|change|replace)[_-].*|"
    r"(?:your|example|changeme|pass(?:word|wd)?|secret|token|none|null|true|false|required|optional|string|empty|unset|"
    r"undefined|hidden|missing|invalid|wrong|expired|default|unknown|configured)\w{0,3})"
)
_CODE = pattern(r"[/~.].*|[a-z]+://.*|(?:os|self|config|settings|env|args|process|request)\..*")
_WORD = pattern(r"[A-Za-z]+")
_LETTERS_AND_DIGITS = pattern(r"(?=.*\d)(?=.*[A-Za-z])\S{8,}")
_PASSWORD_NAMES = ("passw", "passphrase", "kennwort", "psk")
_DUMMY_KEYS = {"not-needed", "not-required", "no-key-required", "sk-no-key-required", "lm-studio", "no-api-key"}
"""What is given to a server that wants any key; they are words."""
_CONTEXT_END = "</moment>"


class Redactor:
    """Masks secrets in texts; configured `secrets` shorter than 8 characters are ignored."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        known = {secret.strip() for secret in secrets if len(secret.strip()) >= MIN_SECRET_CHARS} - _DUMMY_KEYS
        self._known = sorted({form for secret in known for form in _list_encodings(secret)}, key=len, reverse=True)

    def __call__(self, text: str) -> str:
        """Replace each secret by `[secret]`; idempotent."""
        for secret in self._known:
            text = text.replace(secret, MASK)
        small = text.lower()
        for hints, form in _SECRET_FORMATS.items():
            if any(hint in small for hint in hints):
                text = form.sub(_mask_match, text)
        return text

    def redact_message(self, text: str) -> str:
        """Mask a person's message except its context header, which must stay as it was."""
        head, end, rest = text.partition(_CONTEXT_END) if text.startswith("<moment>") else ("", "", text)
        return head + end + self(rest)

    def values(self, value: Any) -> Any:
        """Mask every text in a call's arguments; an argument's name counts as in `api_key=`."""
        if isinstance(value, str):
            return self(value)
        if isinstance(value, Mapping):
            return {key: self._redact_argument(str(key), one) for key, one in value.items()}
        return [self.values(one) for one in value] if isinstance(value, list | tuple) else value

    def _redact_argument(self, name: str, value: Any) -> Any:
        before = f"{name}="
        if isinstance(value, str) and (whole := self(before + value)).startswith(before):
            return whole.removeprefix(before)
        return self.values(value)


def _list_encodings(secret: str) -> Iterable[str]:
    """A secret as plain text, URL-encoded, in hexadecimal and in base 64."""
    data = secret.encode("utf-8", "replace")
    yield from (secret, secret.replace(":", "%3A"), data.hex(), b2a_base64(data, newline=False).decode().rstrip("="))


def _mask_match(found: re.Match[str]) -> str:
    groups = found.groupdict()
    kept = groups.get("kept") or ""
    if "bare" in groups:
        return _mask_assignment(found)
    if _PLACEHOLDER.fullmatch(groups.get("value") or "-----") and "value" in groups:
        return found[0]
    return f"{kept}{MASK}"


def _mask_assignment(found: re.Match[str]) -> str:
    """Mask `name = value`, except for code, paths and words of a description."""
    name, quoted, single, bare = found["name"].lower(), found["quoted"], found["single"], found["bare"]
    value = (quoted or single or bare).rstrip("\\")
    password = name.startswith(_PASSWORD_NAMES)
    phrase = " " in value and not (password and "=" in found["kept"])  # `password: "at least 8 letters"`
    if phrase or _PLACEHOLDER.fullmatch(value) or _CODE.fullmatch(value):
        return found[0]
    if not _LETTERS_AND_DIGITS.fullmatch(value):
        if bare is None:
            secret = password or len(value) >= 2 * MIN_SECRET_CHARS
        else:  # a plain word only as the rest of its line, as in a settings file, not as a part of a sentence
            ends_line = found.string[found.end() : found.end() + 1] in {"", "\n", "\r"} and "=" in found["kept"]
            secret = password and ends_line and bool(_WORD.fullmatch(value))
        if not secret:
            return found[0]
    mark = '"' if quoted else "'" if single else ""
    return f"{found['kept']}{mark}{MASK}{mark}"


# Keeps the key out of everything that people see and that is kept, whatever a server sends back.


class StreamMask:
    """Masks one secret: `whole` in a complete text, `feed` and `flush` in one that arrives in pieces."""

    def __init__(self, secret: str) -> None:
        self._secret = secret if len(secret) >= MIN_SECRET_CHARS else ""
        self._held = ""

    def whole(self, text: str) -> str:
        return text.replace(self._secret, MASK) if self._secret else text

    def feed(self, event: Event) -> Iterator[Event]:
        """Pass an event on, holding back the end of a text that may be the beginning of the secret."""
        if not isinstance(event, Text):
            yield from self.flush()
            yield event
            return
        text = self.whole(self._held + event.text)
        lengths = range(min(len(self._secret) - 1, len(text)), 0, -1)
        self._held = next((text[-n:] for n in lengths if text.endswith(self._secret[:n])), "")
        if shown := text[: len(text) - len(self._held)]:
            yield Text(shown)

    def flush(self) -> Iterator[Event]:
        held, self._held = self._held, ""
        if held:
            yield Text(MASK if len(held) >= MIN_SECRET_CHARS else held)
