"""MCP, the Model Context Protocol, both ways: other servers' tools for the agent, and this board for other programs.

Imported only where `[mcp.NAME]` is configured, or `picoclaw mcp` is run, or secrets.toml has `mcp_token`. What both ways
use is here: JSON-RPC's versions, messages and errors; the rest is in `client.py`, `http.py` and `server.py`.

Sources: JSON-RPC 2.0; the revisions 2024-11-05 to 2026-07-28 of https://modelcontextprotocol.io/specification.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

from picoclaw import __version__
from picoclaw.errors import ToolError
from picoclaw.security.untrusted import strip_invisible
from picoclaw.text import truncate

Wire = dict[str, Any]
"""A JSON-RPC message."""

HANDSHAKE_VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Revisions that begin with `initialize`, the newest first."""
STATELESS_VERSION = "2026-07-28"
"""The revision in which each request says for itself what the handshake said before."""
VERSIONS = (STATELESS_VERSION, *HANDSHAKE_VERSIONS)

META = "io.modelcontextprotocol/"
IDENTITY = {"name": "picoclaw", "version": __version__}
MAX_MESSAGE_BYTES = 4 << 20
"""Of one message. A tool's result is cut to some kilobytes anyway; what is larger is not worth a board's memory."""

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602
HEADER_MISMATCH, UNSUPPORTED_VERSION = -32020, -32022
RESOURCE_NOT_FOUND = -32002
"""Until 2025-11-25; later it is a wrong argument."""
_MAX_ERROR_CHARS = 500


class McpError(ToolError):
    """A server did not do what it was asked."""


class ServerGone(McpError):
    """A server could not be started or reached, or ended, or does not keep to the protocol."""


class RpcError(McpError):
    """A server's own error; its text is foreign."""

    def __init__(self, who: str, code: int, text: str) -> None:
        super().__init__(f"{who} says: {clean_line(text) or 'nothing'} (error {code})")
        self.code = code


def encode(message: Mapping[str, Any]) -> bytes:
    """Write a message in one line; half characters become question marks."""
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def decode(data: bytes | str) -> Wire | None:
    """Read a message; None for what is not a JSON-RPC object."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and found.get("jsonrpc") == "2.0" else None


def make_request(number: int, method: str, params: Mapping[str, Any] | None) -> Wire:
    message: Wire = {"jsonrpc": "2.0", "id": number, "method": method}
    return message | ({"params": dict(params)} if params is not None else {})


def make_notification(method: str, params: Mapping[str, Any] | None = None) -> Wire:
    message: Wire = {"jsonrpc": "2.0", "method": method}
    return message | ({"params": dict(params)} if params is not None else {})


def make_result(number: Any, result: Mapping[str, Any]) -> Wire:
    return {"jsonrpc": "2.0", "id": number, "result": dict(result)}


def make_error(number: Any, code: int, text: str, data: Any = None) -> Wire:
    """`number` is None where the request's could not be read."""
    error = {"code": code, "message": text} | ({"data": data} if data is not None else {})
    return {"jsonrpc": "2.0", "id": number, "error": error}


def clean_line(text: Any, most: int = _MAX_ERROR_CHARS) -> str:
    """Make one short line of what a server says, without what nobody sees."""
    return truncate(" ".join(strip_invisible(str(text)).split()), most)


def get_object(value: Any) -> dict[str, Any]:
    """A JSON object, empty where something else is in its place."""
    return value if isinstance(value, dict) else {}


def get_list(value: Any) -> Sequence[Any]:
    """A JSON array, empty where something else is in its place."""
    return value if isinstance(value, list) else ()


def encode_header(value: str) -> str:
    """Write a value so that a header can hold it (revision 2026-07-28, Value Encoding)."""
    if value.isascii() and value.isprintable() and value == value.strip() and not value.startswith("=?base64?"):
        return value
    return f"=?base64?{base64.b64encode(value.encode('utf-8', 'replace')).decode()}?="
