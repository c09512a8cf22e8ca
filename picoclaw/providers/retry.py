"""What happens when a model server fails: error classification, retries, probes and the circuit breaker."""

import json
import re
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING, Any, Literal

from picoclaw.errors import (
    CircuitOpen,
    ContextOverflow,
    DeadlinePassed,
    KeyRefused,
    KnownDown,
    NeedsOwner,
    NoCredit,
    NotServed,
    OverBudget,
    PicoclawError,
    ProviderError,
    Refused,
    TurnStopped,
    Unavailable,
)
from picoclaw.messages import Notice, Request
from picoclaw.providers.sanitize import fit_window, is_long, shorten_request
from picoclaw.records import NamedTuple, dataclass
from picoclaw.text import pattern

if TYPE_CHECKING:
    from picoclaw.providers.model import ModelLink

RetryAction = Literal["retry", "later", "next", "compact", "owner", "give up"]
"""Ask again in a moment; not before some seconds, and another model meanwhile; another model; the same with a shorter
request; the owner has to do something, and another model is asked meanwhile; end the turn."""

MAX_RETRIES = 4
"""Further tries in one turn, of all its requests at all models together."""

MAX_RETRY_S = 90.0
"""Seconds of one turn that requests which failed and the waits after them may take before none is repeated."""

MAX_WAIT_S = 20.0
"""Nobody who waits for an answer is kept waiting for longer before a server is asked again."""

MAX_HOLD_S = 3600.0
OWNER_RETRY_S = 60.0
"""After that a server is asked again, although nobody has told that its owner has done something."""

_FIRST_WAIT_S = 0.5
_MAX_FAILED_REQUEST_S = 10.0
_ACTIONS: tuple[tuple[type[PicoclawError], RetryAction], ...] = (
    (TurnStopped, "give up"),
    (DeadlinePassed, "give up"),
    (CircuitOpen, "next"),
    (KnownDown, "next"),
    (OverBudget, "next"),
    (ContextOverflow, "compact"),
    (NeedsOwner, "owner"),
    (Refused, "next"),
    (Unavailable, "retry"),
    (ProviderError, "next"),
    (PicoclawError, "give up"),
)
"""The first row that an error is one of, so the special ones come first."""


class RetryDecision(NamedTuple):
    """What to do, and in how many seconds that server may be asked again."""

    action: RetryAction
    seconds: float = 0.0


def decide_retry(error: PicoclawError, failures: int = 0) -> RetryDecision:
    """Say what to do about an error after so many earlier `failures` of the same request at the same server.

    A server that has just failed and now does not answer a probe may be restarting: it is asked again all the same.
    """
    action = next(action for kind, action in _ACTIONS if isinstance(error, kind))
    if failures and type(error) is KnownDown:
        action = "retry"
    if action == "owner":
        return RetryDecision(action, OWNER_RETRY_S)
    if action != "retry":
        return RetryDecision(action)
    asked = error.retry_after if isinstance(error, Unavailable) else 0.0
    wait = asked if asked > 0 else _FIRST_WAIT_S * 3.0 ** min(failures, 10)
    return RetryDecision("retry" if wait <= MAX_WAIT_S else "later", min(wait, MAX_HOLD_S))


class RetryBudget:
    """What repeating failed requests may cost one turn, at all models together."""

    def __init__(self, sleep: Callable[[float], None], clock: Callable[[], float]) -> None:
        self.clock = clock
        self._sleep = sleep
        self._failures = 0
        self._seconds = 0.0

    def wait(self, error: Unavailable, attempt: int, retries: int, since: float, request: Request) -> bool:
        """Wait before the next try; False when there should be none.

        `attempt` counts the earlier tries; this one took from `since` until now. A server that was silent for long is
        not asked again.
        """
        now = self.clock()
        self._failures += 1
        self._seconds += now - since
        action, wait = decide_retry(error, attempt)
        if (
            action != "retry"
            or attempt >= retries
            or self._failures > MAX_RETRIES
            or self._seconds + wait > MAX_RETRY_S
            or now + wait > request.deadline
            or now - since > _MAX_FAILED_REQUEST_S
        ):
            return False
        self._seconds += wait
        (request.stop.rest if request.stop is not None else self._sleep)(wait)
        return True


class Attempts:
    """The requests that one model gets: the first, and after a failure the next, while that is worth it.

    It is asked again after a wait, with half of a long conversation where a server does not say what is wrong, without
    the name of another model, and, where the request was made for another window, with less of it.
    """

    def __init__(self, link: "ModelLink", request: Request, budget: RetryBudget) -> None:
        """Raises ContextOverflow for a `request` that cannot be made to fit the model's window."""
        self.request = fit_window(request, link.window, link.answer) if link.window else request
        self._link, self._budget = link, budget
        self._failures, self._halved = 0, not link.window

    def renew(self, error: Refused | Unavailable, since: float, *, begun: bool) -> list[Notice]:
        """Make the request to follow one that was sent at `since`; returns what to tell. Raises the error if none is to.

        None is, if a part of an answer was passed on (`begun`).
        """
        link, request, less = self._link, self.request, None
        if isinstance(error, ContextOverflow):
            less = shorten_request(request) if link.window else None
        elif isinstance(error, Refused | CircuitOpen):
            if request.model and not isinstance(error, KeyRefused | NoCredit):
                less = request._replace(model="")
        elif self._budget.wait(error, self._failures, 0 if begun else link.retries, since, request):
            self._failures += 1
            return []
        if less is None and error.is_unexplained and not self._halved and is_long(request):
            self._halved, less = True, shorten_request(request)
        if begun or less is None:
            raise error
        self.request = less
        if less.model == request.model:
            return []
        return [Notice(f"the model {request.model!r} did not answer, so the usual one was asked: {error}")]


# How long a server asks to be left alone, in all the places where servers say that. Pure: the time is handed in.
#
# Source: RFC 9110, section 10.2.3 (Retry-After); google.rpc.RetryInfo; draft-ietf-httpapi-ratelimit-headers; the
# references of OpenAI's, Anthropic's, Azure's and OpenRouter's APIs for their own headers and words.

_MAX_PLAUSIBLE_S = 1e9
_EPOCH_S, _EPOCH_MS = 1e9, 1e12  # numbers above these are a moment, not a while
_NUMBER = r"\d{1,15}(?:\.\d{1,9})?"
_UNITS = {"ms": 0.001, "milli": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_DURATION_PART = rf"({_NUMBER})\s*(milli|ms|s|m|h|d)(?:seconds?|econds?|ecs?|inutes?|ins?|ours?|rs?|ays?)?(?![a-z])"
_WAIT_IN_WORDS = pattern(
    rf"(?:again|retry|wait|reset)\w*(?:\s+(?:your|the|this)\s+\w+)?\s+(?:(?:in|after|for|at least|about)\s+)*"
    rf"((?:{_DURATION_PART}[\s,]*(?:and\s+)?)+)",
    re.IGNORECASE,
)
_WAIT_FIELD = pattern(
    rf'"retry[-_]?(?:after|delay|in)(?P<unit>[-_]?ms|[-_]?milliseconds)?(?:[-_]?s(?:ec(?:onds)?)?)?"\s*:'
    rf'\s*"?(?P<number>{_NUMBER})s?"?\s*[,}}]',
    re.IGNORECASE,
)
_RESET_FIELD = pattern(rf'"x-ratelimit-reset"\s*:\s*"?({_NUMBER})', re.IGNORECASE)
_RESET_HEADER = pattern(r"(?:x-|anthropic-)?ratelimit-(?:[a-z-]+-)?reset(?:-[a-z-]+)?")


def parse_retry_after(headers: Mapping[str, str], text: str, now: float) -> float:
    """Seconds that an error answer asks to wait, by its headers (names in small letters), else by its `text`.

    `now` is the wall clock, for dates. 0 where nothing is said that can be understood.
    """
    for name in ("retry-after-ms", "x-ms-retry-after-ms"):
        if re.fullmatch(_NUMBER, headers.get(name, "").strip()):
            return _limit_seconds(float(headers[name]) / 1000)
    if after := _parse_value(headers.get("retry-after", "").strip(), now):
        return after
    waits = [0.0]  # when limits that are used up begin anew; the longest, where several are
    for name, value in headers.items():
        left = headers.get(name.replace("reset", "remaining"), "0").strip()
        if _RESET_HEADER.fullmatch(name) and left in {"0", "0.0"}:
            waits.append(_parse_value(value.strip(), now))
    return max(waits) or parse_wait(text) or _parse_number(_RESET_FIELD.search(text), now)


def parse_wait(text: str) -> float:
    """Seconds that a text names: a field of JSON, or words such as `try again in 1m2.5s`; 0 where it names none."""
    if field := _WAIT_FIELD.search(text):
        return _limit_seconds(float(field["number"]) * (0.001 if field["unit"] else 1.0))
    words = _WAIT_IN_WORDS.search(text)
    return _parse_duration(words[1]) if words else 0.0


def _parse_value(value: str, now: float) -> float:
    """Seconds until what a header writes as a number, a duration, or a date of HTTP or of RFC 3339."""
    if number := re.fullmatch(rf"({_NUMBER})", value):
        return _parse_number(number, now)
    if re.fullmatch(rf"(?:{_NUMBER}(?:ms|[smhd]))+", value):
        return _parse_duration(value)
    from email.utils import parsedate_to_datetime

    for read in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            date = read(value)
        except (ValueError, TypeError, IndexError):
            continue
        return _limit_seconds((date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - now)
    return 0.0


def _parse_number(number: re.Match[str] | None, now: float) -> float:
    """Seconds until a number that is a moment, or the number itself."""
    value = float(number[1]) if number else 0.0
    if value >= _EPOCH_MS:
        return _limit_seconds(value / 1000 - now)
    return _limit_seconds(value - now if value >= _EPOCH_S else value)


def _parse_duration(text: str) -> float:
    parts = re.findall(_DURATION_PART, text, re.IGNORECASE)
    return _limit_seconds(sum(float(number) * _UNITS[unit.lower()] for number, unit in parts))


def _limit_seconds(seconds: float) -> float:
    return seconds if 0 < seconds < _MAX_PLAUSIBLE_S else 0.0


# When a server is not asked at all. OutageProbe: it cannot be reached. CircuitBreaker: it answers, with errors.
#
# A request to a silent server takes minutes to fail, because a slow model is silent as well. A probe is a request that
# a server answers at once, whatever its model does: one that does not answer it is down. A server that answers, and says
# no or not now, is left alone for as long as that takes.

PROBE_S = 3.0
BREAKER_AFTER = 10
"""So many times in a row the same error, and a server is asked less and less often."""

_PROBE_PAUSE = 3.0
_SHOW_DATE_AFTER_S = 20 * 3600.0
_FIRST_HOLD_S, _MOST_DOUBLED = 60.0, 6
_MINUTE_S = 60


class OutageProbe:
    """Whether one server is down, and since when."""

    def __init__(
        self,
        probe: Callable[[], str],
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        zone: Callable[[], tzinfo | None] = lambda: None,
    ) -> None:
        """`probe` says what is wrong, '' when the server answers; `clock` and `wall` give seconds."""
        self._probe, self._clock, self._wall, self._zone = probe, clock, wall, zone
        self._since: float | None = None
        self._next_probe = 0.0
        self._error = ""

    def record_failure(self, error: Unavailable) -> None:
        """Note that the server did not answer a request."""
        if self._since is None:
            self._since, self._next_probe = self._clock(), 0.0
        self._error = str(error)

    def record_answer(self) -> None:
        self._since = None

    def check(self) -> None:
        """Return when a request may be made; raises KnownDown while a probe is not answered.

        For three times as long as a probe has taken, there is no other.
        """
        if self._since is None:
            return
        begun = self._clock()
        if begun >= self._next_probe:
            problem = self._probe()
            if not problem:
                return
            now, self._error = self._clock(), problem
            self._next_probe = now + _PROBE_PAUSE * (now - begun)
        age = self._clock() - self._since  # by the wall clock as it is now: it may have been set meanwhile
        at = datetime.fromtimestamp(self._wall() - age, UTC).astimezone(self._zone())
        since = f"{at:%H:%M}" if age < _SHOW_DATE_AFTER_S else f"{at:%Y-%m-%d %H:%M}"
        raise KnownDown(f"no answer since {since}: {self._error}")


@dataclass
class _FailureCount:
    """What came of the newest requests for one model: the same error so often, and when it may be asked again."""

    error: str = ""
    kind: str = ""
    times: int = 0
    until: float = 0.0


class CircuitBreaker:
    """Whether the models of one server are worth asking, by what was answered; "" stands for the usual one."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._models: dict[str, _FailureCount] = {}

    def record_failure(self, model: str, error: ProviderError) -> None:
        action, seconds = decide_retry(error)
        if isinstance(error, KnownDown | OverBudget) or action in {"give up", "compact"}:
            return
        # two errors are the same by our own words before the server's, in which numbers and ids differ
        kind = f"{type(error).__name__} {str(error).split(': ', 1)[0]}"
        count = self._models.setdefault(model, _FailureCount())
        count.times = count.times + 1 if count.kind == kind else 1
        count.error, count.kind = str(error), kind
        hold = seconds if action in {"owner", "later"} else 0.0
        if count.times >= BREAKER_AFTER:
            hold = max(hold, _FIRST_HOLD_S * 2 ** min(count.times - BREAKER_AFTER, _MOST_DOUBLED))
        count.until = self._clock() + min(hold, MAX_HOLD_S)

    def record_answer(self, model: str) -> None:
        self._models.pop(model, None)

    def check(self, model: str) -> None:
        """Return when a model may be asked; raises CircuitOpen before."""
        count = self._models.get(model)
        left = count.until - self._clock() if count else 0.0
        if count and left > 0:
            again = f"{left / _MINUTE_S:.0f} min" if left > 2 * _MINUTE_S else f"{left:.0f} s"
            often = f", {count.times} times in a row" if count.times >= BREAKER_AFTER else ""
            raise CircuitOpen(f"not asked again for {again}{often}: {count.error}")


# What a server's error means: what it said, and what the owner can do about it. Pure; the same for every format.
#
# Source: the references of OpenAI's and Anthropic's APIs, and what servers and gateways were seen to send.

_CONTEXT_WORDS = (
    "context_length_exceeded",
    "context length",
    "context size",
    "context window",
    "exceed context limit",
    "exceed_context_size",
    "input token count",
    "prompt is too long",
)
_UNPAID_WORDS = ("insufficient_quota", "enforced_spend_limit", "credit balance is too low", "insufficient balance")
"""Words of a limit that no waiting moves, whatever the status: many say 429 for it."""

_TEMPORARY = {0, 408, 409, 421, 423, 424, 425, 429, 499}
"""What may pass by itself; 0 for an answer that names no status."""

_UNEXPLAINED = {0, 400, 422, 500}
"""What servers answer to a request that is too long, in words of their own, and to much else."""

_ANTHROPIC_STATUSES = {
    "invalid_request_error": 400, "authentication_error": 401, "billing_error": 402, "permission_error": 403,
    "not_found_error": 404, "request_too_large": 413, "rate_limit_error": 429, "api_error": 500, "timeout_error": 504,
    "overloaded_error": 529,
}  # fmt: skip
"""Anthropic's types of errors, which come without their status in the middle of a stream."""


def make_error(status: int, answer: Any, retry_after: float = 0.0) -> ProviderError:
    """Turn an error answer into the error to raise: what the server said, and what the owner can do about it."""
    error = _classify(status, read_error_text(answer), retry_after)
    error.is_unexplained = status in _UNEXPLAINED and type(error) in {Refused, Unavailable}
    return error


def _classify(status: int, said: str, retry_after: float) -> ProviderError:
    told, low = f": {said}" if said else "", said.lower()
    if status == 402 or any(word in low for word in _UNPAID_WORDS):
        return NoCredit(f"the model server asks for payment ({status}){told}; check the account's credit and limits")
    if status in {401, 403}:
        return KeyRefused(f"the model server refused the key ({status}){told}; check PICOCLAW_API_KEY or secrets.toml")
    if status in {404, 405}:
        return NotServed(
            f"the model server knows no such model or path ({status}){told}; check base_url and the model's name"
        )
    if status == 413 or (status != 429 and any(word in low for word in _CONTEXT_WORDS)):
        return ContextOverflow(
            f"the conversation does not fit the model's window{told}; lower context_tokens, or begin another --session"
        )
    if status in _TEMPORARY or status >= 500:
        number = f" ({status})" if status else ""
        wait = retry_after or (parse_wait(said) if any(map(str.isdigit, said)) else 0.0)
        return Unavailable(f"the model server cannot answer now{number}{told}", retry_after=wait)
    return Refused(f"the model server refused the request ({status}){told}; check [model] in config.toml")


def read_status(error: Any) -> int:
    """The status that an error within an answer names; 0 when it does not."""
    code = str(error.get("code")) if isinstance(error, dict) else ""
    return int(code) if re.fullmatch(r"[45]\d\d", code) else 0


def get_type_status(error: Any) -> int:
    """The status that belongs to the type of one of Anthropic's errors; 0 for one that is not known."""
    kind = error.get("type") if isinstance(error, dict) else None
    return _ANTHROPIC_STATUSES.get(kind, 0) if isinstance(kind, str) else 0


def read_error_text(answer: Any) -> str:
    """What the server itself says, as one line that is not too long."""
    if isinstance(answer, list) and answer:
        answer = answer[0]
    error = answer.get("error", answer) if isinstance(answer, dict) else answer
    if isinstance(error, dict):
        parts = (error.get("type"), error.get("code"), error.get("message") or error.get("detail") or error.get("msg"))
        error = " ".join(p if isinstance(p, str) else json.dumps(p) for p in parts if isinstance(p, str | list | dict))
    return " ".join(join_surrogates(error).split())[:300] if isinstance(error, str) else ""


def join_surrogates(text: str) -> str:
    """Join the halves of a character that were sent apart; one without its other half is replaced."""
    return text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
