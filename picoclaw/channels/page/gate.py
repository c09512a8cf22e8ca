"""What a request has to be before anybody looks at what it wants: for this host, from this page, not too often. Pure.

Sources: https://fetch.spec.whatwg.org/#origin-header, https://www.w3.org/TR/fetch-metadata/, and on DNS rebinding,
where a name of the attacker's comes to mean our address: the Host header then still has the attacker's name.
"""

import ipaddress
import re
import threading
from collections.abc import Collection, Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

_HOST = re.compile(r"(\[[0-9a-f:.]{2,45}\]|[a-z0-9._-]{1,253})(:\d{1,5})?", re.IGNORECASE)
_OWN_WORDS = {"", "same-origin", "none"}

_CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = (
    ("Content-Security-Policy", _CSP),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Permissions-Policy", "camera=(), microphone=(), geolocation=()"),
)


def names_of(hostname: str, more: Collection[str], origins: Collection[str] = ()) -> frozenset[str]:
    """The names that the page may be reached by, beside any address: its own, `more`, and the hosts of `origins`."""
    own = hostname.lower().partition(".")[0]
    public = {urlsplit(origin).hostname or "" for origin in origins}
    names = {"localhost", own, f"{own}.local", f"{own}.lan", hostname.lower(), *map(str.lower, more), *public}
    return frozenset(names - {""})


def meant(host: str, names: Collection[str]) -> bool:
    """Whether a Host header means us: an address, which no foreign page can have for its name, or a name of ours."""
    match = _HOST.fullmatch(host)
    if not match:
        return False
    name = match[1].lower().strip("[]").rstrip(".")
    if name in names:
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def foreign(environ: Mapping[str, str], origins: Collection[str] = ()) -> str:
    """Say why a request does not come from our own page, '' when it does.

    What only reads may come without an Origin, as browsers send it; what changes something may not. `origins` are the
    page's own beside the host that was asked for: a proxy may ask us by another name than the browser asked it.
    """
    host, origin = environ.get("HTTP_HOST", "").lower(), environ.get("HTTP_ORIGIN", "").lower()
    if environ.get("HTTP_SEC_FETCH_SITE", "") not in _OWN_WORDS and environ.get("PATH_INFO") != "/":
        return "another page has sent this"
    if origin and origin not in {f"http://{host}", f"https://{host}", *origins}:
        return "another page has sent this; behind a proxy, name the page's address in origins in [page] of config.toml"
    if not origin and environ.get("REQUEST_METHOD") not in {"GET", "HEAD"}:
        return "a request that changes something needs its Origin"
    return ""


def client_of(environ: Mapping[str, str], proxies: Collection[str]) -> str:
    """The address of whoever asks: the one that the nearest of our own `proxies` has added, where one passed it on.

    Only the end of X-Forwarded-For is a proxy's word; what stands before it may have been sent by anybody.
    """
    address = environ.get("REMOTE_ADDR", "")
    forwarded = [one.strip() for one in environ.get("HTTP_X_FORWARDED_FOR", "").split(",")]
    while address in proxies and forwarded and forwarded[-1]:
        address = forwarded.pop()
    return address


class _Bucket(NamedTuple):
    """What is left of an allowance, and when that was."""

    left: float
    at: float


class Allowance:
    """So many at once, and then so many a second, for each who asks; any thread may ask, time is handed in."""

    def __init__(self, burst: float, a_second: float, most: int = 500) -> None:
        """`most` askers are remembered; who has asked for nothing for the longest is forgotten."""
        self._burst, self._a_second, self._most = burst, a_second, most
        self._buckets: dict[str, _Bucket] = {}
        self._lock = threading.Lock()

    def take(self, who: str, now: float) -> float:
        """Take one; returns 0, or for how many seconds there is none."""
        with self._lock:
            before = self._buckets.pop(who, _Bucket(self._burst, now))
            left = min(self._burst, before.left + max(0.0, now - before.at) * self._a_second)
            granted = left >= 1
            self._buckets[who] = _Bucket(left - granted, now)
            if len(self._buckets) > self._most:
                del self._buckets[next(iter(self._buckets))]
        return 0.0 if granted else (1 - left) / self._a_second
