"""Which proxy the environment names for an address, by the rules that curl and Python share."""

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from picoclaw.errors import ToolError
from picoclaw.web.address import Target, target


class Proxy(NamedTuple):
    """Where a proxy is, and who we are to it."""

    place: Target
    login: tuple[str, str] | None


def proxy_for(wanted: Target, environment: Mapping[str, str]) -> Proxy | None:
    """Find the proxy for an address, None for the direct way; raises ToolError for one that cannot be used."""
    named = {name.lower(): value for name, value in sorted(environment.items()) if value}
    if _is_exempt(wanted.host, named.get("no_proxy", "")):
        return None
    url = named.get(f"{wanted.scheme}_proxy") or named.get("all_proxy") or ""
    if not url:
        return None
    url = url if "://" in url else f"http://{url}"
    try:
        parts = urlsplit(url)
        login = (unquote(parts.username), unquote(parts.password or "")) if parts.username else None
        port = f":{parts.port}" if parts.port else ""
        if parts.scheme not in {"http", "https"}:
            raise ToolError(f"the proxy of the environment is of kind {parts.scheme!r}; http and https are understood")
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        return Proxy(target(f"{parts.scheme}://{host}{port}/", own=True), login)
    except ValueError:
        raise ToolError(
            f"the variable {wanted.scheme}_proxy or all_proxy does not hold the address of a proxy"
        ) from None


def _is_exempt(host: str, no_proxy: str) -> bool:
    names = [name.strip().lower().removeprefix("*").removeprefix(".") for name in no_proxy.split(",") if name.strip()]
    return "*" in no_proxy.split(",") or any(host == name or host.endswith(f".{name}") for name in names if name)
