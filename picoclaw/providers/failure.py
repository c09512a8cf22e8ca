"""What a server's error means: what it said, and what the owner can do about it. Pure; the same for every format.

Source: the references of OpenAI's and Anthropic's APIs, and what servers and gateways were seen to send.
"""

import json
import re
from typing import Any

from picoclaw.errors import ContextOverflow, KeyRefused, NoCredit, NotServed, ProviderError, Refused, Unavailable

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
_UNPAID = ("insufficient_quota", "enforced_spend_limit", "credit balance is too low", "insufficient balance")
"""Words of a limit that no waiting moves, whatever the status: many say 429 for it."""

_FOR_NOW = {0, 408, 409, 421, 423, 424, 425, 429, 499}
"""What may pass by itself; 0 for an answer that names no status."""

_UNEXPLAINED = {0, 400, 422, 500}
"""What servers answer to a request that is too long, in words of their own, and to much else."""

_STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""Anthropic's types of errors, which come without their status in the middle of a stream."""


def failure(status: int, answer: Any, retry_after: float = 0.0) -> ProviderError:
    """Turn an error answer into the error to raise: what the server said, and what the owner can do about it."""
    error = _failure(status, answer, retry_after)
    error.is_unexplained = status in _UNEXPLAINED and type(error) in {Refused, Unavailable}
    return error


def _failure(status: int, answer: Any, retry_after: float) -> ProviderError:
    said = said_by(answer)
    told, low = f": {said}" if said else "", said.lower()
    if status == 402 or any(word in low for word in _UNPAID):
        return NoCredit(f"the model server wants to be paid ({status}){told}; check the account's credit and limits")
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
    if status in _FOR_NOW or status >= 500:
        number = f" ({status})" if status else ""
        wait = retry_after or _wait(said)
        return Unavailable(f"the model server cannot answer now{number}{told}", retry_after=wait)
    return Refused(f"the model server refused the request ({status}){told}; check [model] in config.toml")


def _wait(said: str) -> float:
    """Seconds that the server's words ask to wait."""
    if not any(character.isdigit() for character in said):
        return 0.0
    from picoclaw.providers.patience import told

    return told(said)


def status_within(error: Any) -> int:
    """The status that an error within an answer names; 0 when it does not."""
    code = str(error.get("code")) if isinstance(error, dict) else ""
    return int(code) if re.fullmatch(r"[45]\d\d", code) else 0


def status_of_type(error: Any) -> int:
    """The status that belongs to the type of one of Anthropic's errors; 0 for one that is not known."""
    kind = error.get("type") if isinstance(error, dict) else None
    return _STATUSES.get(kind, 0) if isinstance(kind, str) else 0


def said_by(answer: Any) -> str:
    """What the server itself says, as one line that is not too long."""
    if isinstance(answer, list) and answer:
        answer = answer[0]
    error = answer.get("error", answer) if isinstance(answer, dict) else answer
    if isinstance(error, dict):
        parts = (error.get("type"), error.get("code"), error.get("message") or error.get("detail") or error.get("msg"))
        error = " ".join(p if isinstance(p, str) else json.dumps(p) for p in parts if isinstance(p, str | list | dict))
    return " ".join(mended(error).split())[:300] if isinstance(error, str) else ""


def mended(text: str) -> str:
    """Join the halves of a character that were sent apart; one without its other half is replaced."""
    return text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
