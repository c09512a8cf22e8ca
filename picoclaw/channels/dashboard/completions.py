"""The board as a model of OpenAI's API: GET /v1/models and POST /v1/chat/completions, for programs with a token.

What is taken of a request is the newest message of the user; the board has its own record of the conversation.
Source: https://platform.openai.com/docs/api-reference/chat, and for the stream https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

import hashlib
import json
import secrets
import time
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import bottle

from picoclaw.channels.channel import PostMessage
from picoclaw.channels.dashboard.backend import DashboardBackend
from picoclaw.channels.dashboard.login import ProgramToken, ProgramTokens
from picoclaw.channels.dashboard.programs import ProgramRequest, Programs
from picoclaw.channels.dashboard.server import MAX_PENDING, RateLimiter
from picoclaw.channels.dashboard.site import MAX_CHAT_CHARS, read_header, read_json_body
from picoclaw.errors import PicoclawError
from picoclaw.messages import REQUEST_SESSIONS
from picoclaw.store.queues import InboxMessage

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
