"""What every address of the page does alike: read a request, give a file, refuse in words."""

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, cast

import bottle  # type: ignore[import-untyped]

from picoclaw.resources import shipped

_LONGEST_HOURS = 24 * 366 * 3
FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/board.js": ("board.js", "text/javascript; charset=utf-8"),
    "/chat.js": ("chat.js", "text/javascript; charset=utf-8"),
    "/chart.js": ("chart.js", "text/javascript; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}


def hours(text: str) -> float:
    """Read a length of time in hours."""
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not found > 0:
        refuse(400, "hours is no number above 0")
    return min(found, _LONGEST_HOURS)


def file() -> Any:
    """Give a file that ships with the page; a browser asks again each time, and is told when nothing has changed."""
    name, kind = FILES[bottle.request.path]
    data = (shipped("templates") / "page" / name).read_bytes()
    mark = f'"{sha256(data).hexdigest()[:16]}"'
    bottle.response.content_type = kind
    bottle.response.set_header("Cache-Control", "no-cache")
    bottle.response.set_header("ETag", mark)
    if header("If-None-Match") == mark:
        bottle.response.status = 304
        return b""
    return data


def header(name: str) -> str:
    """Read a header's bytes as Latin-1; bottle would end the request over one that is not UTF-8."""
    return str(bottle.request.environ.get(f"HTTP_{name.upper().replace('-', '_')}", ""))


def cookie(name: str) -> str:
    """Read a cookie; those of other services on this host come along (RFC 6265, 8.5), and may be written in any way."""
    for part in header("Cookie").split(";"):
        key, _, value = part.strip().partition("=")
        if key == name:
            return str(value)
    return ""


def query_of() -> Any:
    """Read the words behind an address's question mark."""
    try:
        return bottle.request.query.decode("utf-8")
    except UnicodeError:
        return refuse(400, "this is no UTF-8")


def body_of() -> dict[str, Any]:
    """Read a JSON object; another page's form can send none, for which the browser would ask us first."""
    if bottle.request.content_type.partition(";")[0].strip().lower() != "application/json":
        refuse(415, "send JSON")
    try:
        body = json.loads(bottle.request.body.read())
    except (ValueError, RecursionError):
        body = None
    return body if isinstance(body, dict) else cast("dict[str, Any]", refuse(400, "this is no JSON object"))


def word(body: Mapping[str, Any], name: str, longest: int) -> str:
    """Read a text of a body, of so many characters at most."""
    text = body.get(name)
    if not isinstance(text, str):
        refuse(400, f"{name} has to be a text")
    if len(str(text)) > longest:
        refuse(413, f"{name} may have {longest:,} characters at most")
    return str(text).encode("utf-8", "replace").decode()


def refuse(code: int, text: str) -> Any:
    """End the request with an answer that says why."""
    headers = {"Cache-Control": "no-store"}
    raise bottle.HTTPResponse(json.dumps({"error": text}), code, {"Content-Type": "application/json", **headers})


def worded(error: Any) -> str:
    """Word what bottle itself refuses; it quotes nothing of the request."""
    bottle.response.content_type = "application/json"
    return json.dumps({"error": str(error.status_line)})
