"""What programs have at the page's port instead of a browser's cookie: a secret, limits, figures, webhooks, OpenAI's API.

A request that waits for an answer takes a thread of the server. Few may wait at a time, so that the page keeps the others.
POST /hooks/NAME by whoever knows the hook's secret becomes a message, durable before it is answered. Sources:
https://github.com/standard-webhooks/standard-webhooks (spec/standard-webhooks.md),
https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries, and RFC 7240 for `Prefer: wait`.

GET /v1/models and POST /v1/chat/completions show the board as a model, to programs with a token. What is taken of a request
is the newest message of the user; the board has its own record of the conversation. Source:
https://platform.openai.com/docs/api-reference/chat, and for the stream https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

import base64
import hashlib
import hmac
import json
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NoReturn

import bottle

from picoclaw.channels.channel import PostMessage
from picoclaw.channels.dashboard.channel import MAX_CHAT_CHARS, read_header, read_json_body, refuse
from picoclaw.channels.dashboard.live import DashboardBackend, Figure, SensorValue
from picoclaw.channels.dashboard.login import ProgramToken, ProgramTokens
from picoclaw.channels.dashboard.server import MAX_PENDING, RateLimiter
from picoclaw.config import Config
from picoclaw.config.tables import HookConfig
from picoclaw.errors import PicoclawError
from picoclaw.messages import HEARTBEAT_OK, HOOK_SESSIONS, REQUEST_SESSIONS, Event, Text, ToolRun, Turn, TurnHooks
from picoclaw.schema import NoField, find_field
from picoclaw.security.untrusted import sanitize_name, strip_invisible, wrap_untrusted
from picoclaw.store.approvals import Approval
from picoclaw.store.inbox_outbox import InboxMessage
from picoclaw.text import pattern, truncate

_SAY_AGAIN_S = 3600.0


class ProgramRequest:
    """A request that waits for the end of its turn; any thread may tell it what happens."""

    def __init__(self, key: str, external: str) -> None:
        self.key, self.external = key, external
        self.questions: list[Approval] = []
        self.turn: Turn | None = None
        self.reply, self.is_fine, self.is_over = "", False, False
        self._changed = threading.Condition()
        self._texts: list[str] = []
        self._last, self._said = "", False

    def listen(self, event: Event | ToolRun) -> None:
        """Hear what a turn says; between two steps begins a paragraph."""
        if isinstance(event, Text):
            self._add(event.text)
        elif isinstance(event, ToolRun):
            with self._changed:
                self._last = ""

    def say(self, text: str) -> None:
        """Add what comes ahead of the answer."""
        with self._changed:
            self._last = ""
        self._add(text)
        with self._changed:
            self._last = ""

    def _add(self, text: str) -> None:
        with self._changed:
            if self._said and not self._last:
                self._texts.append("\n\n")
            self._texts.append(text)
            self._last, self._said = self._last + text, True
            self._changed.notify_all()

    def end(self, turn: Turn | None, reply: str, *, is_fine: bool) -> None:
        """Tell the end; without a turn, picoclaw itself ends. What of the reply was not said yet is said now."""
        with self._changed:
            if self.is_over:
                return
            told, reply = self._last.strip(), reply.strip()
            rest = reply.removeprefix(told)
            if rest and self._said and not (told and reply.startswith(told)):
                rest = f"\n\n{rest}"
            self._texts.append(rest)
            self.turn, self.reply, self.is_fine, self.is_over = turn, reply, is_fine, True
            self._changed.notify_all()

    def take(self, seconds: float) -> str:
        """Wait until something more is said or it is over, for so long at most; returns what was said since."""
        with self._changed:
            self._changed.wait_for(lambda: self.is_over or bool(self._texts), seconds)
            found = "".join(self._texts)
            self._texts.clear()
            return found

    def wait_end(self, seconds: float) -> bool:
        """Wait for the end, for so long at most; tells whether it is there."""
        with self._changed:
            return self._changed.wait_for(lambda: self.is_over, seconds)


class Programs:
    """The hooks, whether the board is an OpenAI model, and who waits."""

    def __init__(
        self,
        config: Config,
        untrusted: str,
        note: Callable[[str], None],
        withdraw: Callable[[str, str], None],
        count_waiting: Callable[[str], int],
    ) -> None:
        """`untrusted` is the template around what others have sent, `note` writes a line of the log.

        `withdraw` takes back a message by session and number when nobody waits for its answer any more, and
        `count_waiting` tells how many of somebody's are not answered yet.
        """
        self.hooks, self.secrets, self.openai = config.hooks, config.hook_secrets, config.page.openai
        self.home, self.untrusted, self.withdraw, self.count_waiting = config.home, untrusted, withdraw, count_waiting
        self._note, self._lock = note, threading.Lock()
        self._open: list[ProgramRequest] = []
        self._complained: dict[str, tuple[float, int]] = {}

    @property
    def paths(self) -> tuple[str, ...]:
        """What the addresses begin with that programs may ask."""
        return (*(["/hooks/"] if self.hooks else []), *(["/v1/"] if self.openai else []))

    def open(self, key: str, external: str) -> ProgramRequest | None:
        """Begin to wait for the answer to a message, before it is posted; None where too many wait."""
        with self._lock:
            if len(self._open) >= MAX_PENDING:
                return None
            self._open.append(made := ProgramRequest(key, external))
            return made

    def close(self, pending: ProgramRequest) -> None:
        """Wait no more; may be called twice."""
        with self._lock:
            self._open = [one for one in self._open if one is not pending]

    def around(self, arrived: InboxMessage) -> TurnHooks:
        pending = self._find(arrived)
        return TurnHooks(pending.say, pending.listen, once=True) if pending else TurnHooks(once=True)

    def answered(self, arrived: InboxMessage, turn: Turn, reply: str, *, is_fine: bool) -> bool:
        """See Channel; the answer to a request that nobody waits for any more is told nobody."""
        if pending := self._find(arrived):
            pending.end(turn, reply, is_fine=is_fine)
        return arrived.key.startswith(REQUEST_SESSIONS)

    def changed(self, approval: Approval) -> None:
        """Show a question to the request whose turn asks it."""
        if approval.is_new:
            with self._lock:
                for pending in self._open:
                    if pending.key == approval.session:
                        pending.questions.append(approval)

    def end(self) -> None:
        """Send everybody away who waits."""
        with self._lock:
            waiting, self._open = self._open, []
        for pending in waiting:
            pending.end(None, "", is_fine=False)

    def complain(self, what: str, text: str) -> None:
        """Log a line about what programs do wrong, at most one an hour of each kind."""
        now = time.monotonic()
        with self._lock:
            until, more = self._complained.get(what, (0.0, 0))
            is_due = now >= until
            self._complained[what] = (now + _SAY_AGAIN_S, 0) if is_due else (until, more + 1)
        if is_due:
            self._note(f"{text}{f' ({more} more since that was last said)' if more else ''}")

    def _find(self, arrived: InboxMessage) -> ProgramRequest | None:
        with self._lock:
            return next((p for p in self._open if (p.key, p.external) == (arrived.key, arrived.external)), None)


# The figures of the board as OpenMetrics text: https://prometheus.io/docs/specs/om/open_metrics_spec/

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"


def format_metrics(readings: Iterable[SensorValue], figures: Iterable[Figure], now: float) -> str:
    """Write what the sensors say, and the figures; a sensor without a value has none here."""
    found = list(figures)
    for one in readings:
        labels = {"sensor": one.sensor, "quantity": one.quantity, "unit": one.unit}
        is_good = one.value is not None and not one.problem
        found.append(Figure("reading_valid", "1 while the sensor can be read", labels, float(is_good)))
        if one.value is not None:
            found.append(Figure("reading", "what the sensor says, in its unit", labels, one.value))
            if one.at:
                age = max(0.0, now - one.at)
                found.append(Figure("reading_age_seconds", "how old that is", labels, age))
    lines, last = [], ""
    for figure in sorted(found, key=lambda one: one.name):
        if figure.name != last:
            last = figure.name
            lines += [f"# TYPE picoclaw_{last} gauge", f"# HELP picoclaw_{last} {_escape(figure.purpose)}"]
        shown = ",".join(f'{name}="{_escape(text)}"' for name, text in figure.labels.items())
        lines.append(f"picoclaw_{figure.name}{f'{{{shown}}}' if shown else ''} {figure.value:.10g}")
    return "\n".join([*lines, "# EOF", ""])


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


WINDOW_S = 300
"""Seconds that a time stamp may be away from the board's date; Standard Webhooks proposes five minutes."""
MAX_VALUE_CHARS = 500
_MAX_WAITING = 20
_MAX_WAIT_S = 60
_PLACE = pattern(r"\{([^{}\n]{1,200})\}")
_ID = pattern(r"[!-~]{1,128}")
_PREFER_WAIT = pattern(r"(?:^|[,;\s])wait=(\d{1,4})(?:$|[,;\s])")


class UnknownSender(Exception):
    """A request does not show that its sender knows the secret; the text says what is wrong."""


def check_sender(kind: str, secret: str, body: bytes, now: float) -> list[str]:
    """Hold the request against the hook's secret; returns by what it is known when it comes again. Raises UnknownSender.

    `now` is in seconds since 1970, 0 where the date is not known: then time stamps are not looked at.
    """
    if kind == "signed":
        return _check_signed(secret, body, now)
    if kind == "github":
        given = read_header("X-Hub-Signature-256")
        wanted = f"sha256={hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()}"
        if not hmac.compare_digest(given.encode("latin-1", "replace"), wanted.encode()):
            raise UnknownSender("X-Hub-Signature-256 is missing or wrong")
        delivery = read_header("X-GitHub-Delivery")
        # its number is not signed, so a body that comes again counts as the same, too
        known = [f"id:{delivery}"] if _ID.fullmatch(delivery) else []
        return [*known, f"body:{hashlib.sha256(body).hexdigest()}"]
    given = read_header("Authorization")
    given = given[7:] if given[:7].lower() == "bearer " else read_header("X-Hook-Token")
    if not hmac.compare_digest(given.encode("latin-1", "replace"), secret.encode()):
        raise UnknownSender("the token is missing or wrong")
    key = read_header("Idempotency-Key")
    return [f"id:{key}" if _ID.fullmatch(key) else f"once:{secrets.token_hex(8)}"]


def _check_signed(secret: str, body: bytes, now: float) -> list[str]:
    number, stamp = read_header("webhook-id"), read_header("webhook-timestamp")
    try:
        key = base64.b64decode(secret[6:], validate=True) if secret.startswith("whsec_") else secret.encode()
    except ValueError:
        raise UnknownSender("the hook's secret is no base64 behind whsec_") from None
    if not _ID.fullmatch(number) or not (stamp.isascii() and stamp.isdecimal() and len(stamp) < 13):
        raise UnknownSender("webhook-id or webhook-timestamp is missing")
    wanted = base64.b64encode(hmac.new(key, f"{number}.{stamp}.".encode() + body, hashlib.sha256).digest())
    given = [one for one in read_header("webhook-signature").split(" ")[:10] if one.startswith("v1,")]
    if not any(hmac.compare_digest(one[3:].encode("latin-1", "replace"), wanted) for one in given):
        raise UnknownSender("webhook-signature is missing or wrong")
    if now and abs(now - int(stamp)) > WINDOW_S:
        raise UnknownSender(f"webhook-timestamp is more than {WINDOW_S // 60} minutes away from the board's date")
    return [f"id:{number}"]


def make_message(name: str, hook: HookConfig, body: Any, event: str, ids: Sequence[str], template: str) -> InboxMessage:
    """Word what a hook was sent, by its owner's words; for a model each value is marked as somebody else's."""

    def fill(found: re.Match[str]) -> str:
        path = found[1].strip()
        try:
            value = event if path == "event" and event else find_field(body, path)
        except NoField:
            value = "?"
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        text = truncate(strip_invisible(text[: 4 * MAX_VALUE_CHARS]), MAX_VALUE_CHARS)
        return wrap_untrusted(template, f"the webhook {name}: {path}", text) if hook.answer else text

    sender = f"{HOOK_SESSIONS}{name}"
    text = _PLACE.sub(fill, hook.words)
    return InboxMessage(sender, text, sender, "hook", " ".join(ids), foreign=(f"the webhook {name}",))


class HookReceiver:
    """What is behind /hooks/NAME."""

    def __init__(
        self, programs: Programs, backend: DashboardBackend, post: PostMessage, find_address: Callable[[], str]
    ) -> None:
        """`find_address()` gives the address of whoever asks."""
        self._programs, self._backend, self._post, self._find_address = programs, backend, post, find_address
        self._tries = RateLimiter(20, 0.2)
        self._rates = {
            name: RateLimiter(hook.per_minute, hook.per_minute / 60) for name, hook in programs.hooks.items()
        }
        self._taking = threading.Lock()
        backend.knows_date()  # which is watched from now on

    def receive(self, name: str) -> dict[str, Any]:
        """Take what is posted; answers with its number."""
        bottle.response.set_header("Cache-Control", "no-store")
        hook = self._programs.hooks.get(name)
        if hook is None:
            refuse(404, "there is no hook of this name")
        secret = self._programs.secrets.get(name, "")
        if not secret:
            self._complain(name, "secret", f"has no secret: hook_{name} below [keys] in secrets.toml")
            refuse(503, "this hook has no secret yet")
        data = bottle.request.body.read()
        ids = self._check(name, hook, secret, data)
        if wait := self._rates[name].take(name, time.monotonic()):
            self._complain(name, "rate", f"is asked more than {hook.per_minute} times a minute; the others are refused")
            _refuse_for_now(429, "too many requests", wait)
        body = _parse_json(data)
        event = sanitize_name(read_header("X-GitHub-Event")) if hook.kind == "github" else ""
        if event == "ping":
            return {"pong": True}
        message = make_message(name, hook, body, event, ids, self._programs.untrusted)
        try:
            return self._take(name, message, ids)
        except PicoclawError as error:
            refuse(503, str(error))

    def _check(self, name: str, hook: HookConfig, secret: str, data: bytes) -> list[str]:
        has_date = hook.kind != "signed" or self._backend.knows_date()
        try:
            ids = check_sender(hook.kind, secret, data, time.time() if has_date else 0.0)
        except UnknownSender as error:
            address = self._find_address()
            self._complain(name, "sender", f"refuses a request from {address}: {error}")
            if wait := self._tries.take(address, time.monotonic()):
                _refuse_for_now(429, "too many tries", wait)
            refuse(401, str(error))
        if not has_date:
            self._complain(name, "date", "waits for the board's date, without which no time stamp can be checked")
            _refuse_for_now(503, "the board does not know the date yet", 60)
        return ids

    def _take(self, name: str, message: InboxMessage, ids: list[str]) -> dict[str, Any]:
        """Have the message kept, unless it came before, and wait for its answer where that is asked for."""
        asked = _PREFER_WAIT.search(read_header("Prefer"))
        with self._taking:
            if number := self._backend.find_message(message.key, ids):
                bottle.response.status = 202
                return {"number": number, "repeated": True}
            if self._programs.count_waiting(message.who) >= _MAX_WAITING:
                self._complain(
                    name, "queue", f"has {_MAX_WAITING} messages that are not answered yet; more are refused"
                )
                _refuse_for_now(503, "too many messages wait for their answer", 60)
            pending = self._programs.open(message.key, message.external) if asked else None
            try:
                self._post(message)
                number = self._backend.find_message(message.key, ids)
            except PicoclawError:
                if pending:
                    self._programs.close(pending)
                raise
        try:
            if not number:
                refuse(503, "it could not be kept; send it again")
            if asked and pending and pending.wait_end(min(int(asked[1]), _MAX_WAIT_S)) and pending.turn:
                return {"number": number, "ok": pending.is_fine, "answer": HEARTBEAT_OK if pending.is_fine else ""}
        finally:
            if pending:
                self._programs.close(pending)
        bottle.response.status = 202
        return {"number": number}

    def _complain(self, name: str, kind: str, text: str) -> None:
        self._programs.complain(f"{name} {kind}", f"hook {name} {text}")


def _parse_json(data: bytes) -> Any:
    """Read the JSON that was posted, {} where nothing was."""
    if not data.strip():
        return {}
    kind = bottle.request.content_type.partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        refuse(415, "send JSON (application/json)")
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        refuse(400, "this is no JSON")


def _refuse_for_now(code: int, text: str, seconds: float) -> NoReturn:
    headers = {"Content-Type": "application/json", "Cache-Control": "no-store", "Retry-After": f"{int(seconds) + 1}"}
    raise bottle.HTTPResponse(json.dumps({"error": text}), code, headers)


MODEL = "picoclaw"
_CONVERSATION_HEADERS = ("X-Conversation-Id", "X-OpenWebUI-Chat-Id")
_IGNORED = ("tools", "functions", "tool_choice", "response_format", "logprobs", "modalities", "audio")
_LOOK_S, _ALIVE_S = 1.0, 10.0
_LENGTHS = {"steps", "seconds", "tokens"}
_LONGEST_ID = 200


class ModelDoor:
    """What is behind /v1/."""

    def __init__(
        self, programs: Programs, backend: DashboardBackend, post: PostMessage, find_address: Callable[[], str]
    ) -> None:
        """`find_address()` gives the address of whoever asks."""
        self._programs, self._backend, self._post, self._find_address = programs, backend, post, find_address
        self._tokens, self._since = ProgramTokens(programs.home), int(time.time())
        self._tries, self._calls = RateLimiter(6, 0.1), RateLimiter(20, 1)

    def list_models(self) -> dict[str, Any]:
        self._let_in()
        return {"object": "list", "data": [self._describe_model()]}

    def show_model(self, name: str) -> dict[str, Any]:
        self._let_in()
        if name != MODEL:
            _refuse_model(name)
        return self._describe_model()

    def refuse_path(self, path: str) -> NoReturn:
        self._let_in()
        _refuse(404, f"there is no /v1/{path[:40]} here: only /v1/models and /v1/chat/completions", code="unknown_url")

    def complete(self) -> Any:
        """Answer the newest message, at the end or as a stream."""
        token = self._let_in()
        body = read_json_body(_refuse)
        if (name := body.get("model")) != MODEL:
            _refuse_model(name)
        if body.get("n") not in (None, 1):  # it may be a list
            _refuse(400, "n has to be 1", "n")
        text, first, has_earlier = read_messages(body.get("messages"))
        key, is_named = find_session(token, body, first)
        arrived = InboxMessage(
            key, text, f"token:{token.name}", "web" if token.owner else "guest", secrets.token_hex(8)
        )
        if text.strip().lower() == "/stop":
            _refuse(400, "to stop an answer, end its request", "messages")
        pending = self._programs.open(key, arrived.external)
        if pending is None:
            self._programs.complain("pending", f"more than {MAX_PENDING} requests wait for the model; more are refused")
            _refuse(429, "too many requests wait for an answer; try again", code="rate_limit_exceeded", wait=5)
        try:
            self._note_ignored(token, body)
            if not (has_earlier or is_named):
                self._backend.begin_conversation(key)
            self._post(arrived)
        except PicoclawError as error:
            self._programs.close(pending)
            _refuse(503, str(error), kind="server_error")
        except bottle.HTTPResponse:
            self._programs.close(pending)
            raise
        has_hung_up: Callable[[], bool] = bottle.request.environ["waitress.client_disconnected"]
        answer = _PendingCompletion(
            self._programs, token, pending, lambda: has_hung_up() or token not in self._tokens.listed()
        )
        if body.get("stream") is True:
            options = body.get("stream_options")
            bottle.response.content_type = "text/event-stream; charset=utf-8"
            bottle.response.set_header("X-Accel-Buffering", "no")  # nginx would hold back what is not over
            return answer.stream(with_usage=isinstance(options, dict) and options.get("include_usage") is True)
        return answer.wait()

    def _let_in(self) -> ProgramToken:
        bottle.response.set_header("Cache-Control", "no-store")
        given = read_header("Authorization")
        token = self._tokens.find(given[7:].strip()) if given[:7].lower() == "bearer " else None
        if token is None:
            address = self._find_address()
            self._programs.complain(
                "token", f"a program at {address} has no token that counts: picoclaw page token add"
            )
            wait = self._tries.take(address, time.monotonic())
            if wait:
                _refuse(429, "too many tries", code="rate_limit_exceeded", wait=wait)
            _refuse(401, "this takes a token of the board: picoclaw page token add NAME", code="invalid_api_key")
        if wait := self._calls.take(token.name, time.monotonic()):
            _refuse(429, "too many requests; try again", code="rate_limit_exceeded", wait=wait)
        return token

    def _describe_model(self) -> dict[str, Any]:
        return {"id": MODEL, "object": "model", "created": self._since, "owned_by": self._backend.name}

    def _note_ignored(self, token: ProgramToken, body: dict[str, Any]) -> None:
        """Say what of a request counts for nothing: in a header, and in the log."""
        ignored = [name for name in _IGNORED if body.get(name)]
        if ignored:
            bottle.response.set_header("X-Picoclaw-Ignored", ", ".join(ignored))
            self._programs.complain(
                f"{token.name} ignored",
                f"token {token.name}: {', '.join(ignored)} of its requests are ignored; the board has its own tools",
            )


class _PendingCompletion:
    """One answer on its way to a program; one that hangs up, or whose token is revoked, takes its message back."""

    def __init__(
        self, programs: Programs, token: ProgramToken, pending: ProgramRequest, is_gone: Callable[[], bool]
    ) -> None:
        self._programs, self._token, self._pending, self._is_gone = programs, token, pending, is_gone
        self._about = {"id": f"chatcmpl-{pending.external}", "created": int(time.time()), "model": MODEL}

    def wait(self) -> dict[str, Any]:
        pending = self._pending
        try:
            while not pending.wait_end(_LOOK_S):
                if self._is_gone():
                    break
        finally:
            self._leave()
        if pending.turn is None:
            _refuse(503, "picoclaw ends, or the token was revoked; try again", kind="server_error", wait=10)
        message = {"role": "assistant", "content": f"{pending.reply}{self._word_questions()}", "refusal": None}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": self._finish()}
        return self._about | {"object": "chat.completion", "choices": [choice], "usage": self._count()}

    def stream(self, *, with_usage: bool) -> Iterator[str]:
        """Give the events, and now and then a comment, by which a line that is dead is noticed."""
        pending, spoke, looked = self._pending, time.monotonic(), 0.0
        try:
            yield self._make_event({"role": "assistant", "content": ""})
            while True:
                is_over = pending.is_over
                if time.monotonic() - looked >= _LOOK_S:
                    looked = time.monotonic()
                    if self._is_gone():
                        return
                if text := pending.take(_LOOK_S):
                    yield self._make_event({"content": text})
                    spoke = time.monotonic()
                elif is_over:
                    break
                elif time.monotonic() - spoke > _ALIVE_S:
                    yield ": still at it\n\n"
                    spoke = time.monotonic()
            if pending.turn is None:
                yield f"data: {json.dumps(_make_error('picoclaw ends; try again', 'server_error'))}\n\n"
                return
            if text := self._word_questions():
                yield self._make_event({"content": text})
            yield self._make_event({}, self._finish())
            if with_usage:
                yield self._wrap({"choices": [], "usage": self._count()})
            yield "data: [DONE]\n\n"
        finally:
            self._leave()

    def _leave(self) -> None:
        if not self._pending.is_over:
            self._programs.withdraw(self._pending.key, self._pending.external)
        self._programs.close(self._pending)

    def _make_event(self, delta: dict[str, str], finish: str | None = None) -> str:
        return self._wrap({"choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]})

    def _wrap(self, more: dict[str, Any]) -> str:
        return f"data: {json.dumps(self._about | {'object': 'chat.completion.chunk'} | more)}\n\n"

    def _finish(self) -> str:
        turn = self._pending.turn
        return "length" if turn and turn.stopped in _LENGTHS else "stop"

    def _count(self) -> dict[str, int]:
        """Give the tokens as the model's server has counted them: of all steps of the turn; 0 without a model."""
        usage = turn.usage if (turn := self._pending.turn) else None
        prompt, completion = (usage.prompt_tokens, usage.completion_tokens) if usage else (0, 0)
        return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}

    def _word_questions(self) -> str:
        """Show what waits for a yes: the owner how to give it, others that it is not theirs to give."""
        shown = []
        for one in self._pending.questions:
            if self._token.owner:
                shown.append(f"{one.numbered}\n{one.answers}")
            else:
                shown.append(f"Number {one.number} waits for the owner's yes.")
        return "".join(f"\n\n{text}" for text in shown)


def read_messages(given: Any) -> tuple[str, str, bool]:
    """Read the newest text of the user; returns also the first, as JSON, and whether anything was said before."""
    if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
        _refuse(400, "messages has to be a list of objects", "messages")
    said = [one for one in given if one.get("role") in ("user", "assistant")]
    mine = [one for one in said if one["role"] == "user"]
    if not mine:
        _refuse(400, "messages has none of the role user", "messages")
    text = _read_content(mine[-1].get("content"))
    if not text.strip():
        _refuse(400, "the newest message of the user is empty", "messages")
    if len(text) > MAX_CHAT_CHARS:
        _refuse(400, f"a message may have {MAX_CHAT_CHARS:,} characters", "messages", "context_length_exceeded")
    return text, json.dumps(mine[0].get("content"), sort_keys=True), len(said) > 1


def _read_content(content: Any) -> str:
    if isinstance(content, str):
        return content.encode("utf-8", "replace").decode()
    if not isinstance(content, list) or not all(isinstance(part, dict) for part in content):
        _refuse(400, "content has to be a text, or a list of parts", "messages")
    if other := next((part for part in content if part.get("type") != "text"), None):
        _refuse(400, f"only parts of the type text are taken, not {str(other.get('type'))[:40]!r}", "messages")
    return "\n".join(str(part.get("text", "")) for part in content).encode("utf-8", "replace").decode()


def find_session(token: ProgramToken, body: dict[str, Any], first: str) -> tuple[str, bool]:
    """Name the board's conversation; tells also whether the program has named it, so that it goes on in any case.

    A program names it by a header. Otherwise it is told by `user`, or else by its `first` message, which every later
    request sends again. Each token has conversations of its own.
    """
    named = next(filter(None, map(read_header, _CONVERSATION_HEADERS)), "")
    user = body.get("user")
    if named:
        mark = ["header", named[:_LONGEST_ID]]
    elif isinstance(user, str) and user:
        mark = ["user", user[:_LONGEST_ID]]
    else:
        mark = ["first", first]
    digest = hashlib.sha256(json.dumps(mark).encode()).hexdigest()
    return f"{REQUEST_SESSIONS}{token.name}:{digest[:16]}", bool(named)


def _make_error(text: str, kind: str, param: str | None = None, code: str | None = None) -> dict[str, Any]:
    return {"error": {"message": text, "type": kind, "param": param, "code": code}}


def _refuse_model(name: Any) -> NoReturn:
    _refuse(404, f"there is no model {str(name)[:60]!r} here, only {MODEL!r}", "model", "model_not_found")


def _refuse(
    status: int,
    text: str,
    param: str | None = None,
    code: str | None = None,
    *,
    kind: str = "invalid_request_error",
    wait: float = 0.0,
) -> NoReturn:
    headers = {"Content-Type": "application/json", "Cache-Control": "no-store"}
    if wait:
        headers["Retry-After"] = f"{int(wait) + 1}"
    raise bottle.HTTPResponse(json.dumps(_make_error(text, kind, param, code)), status, headers)
