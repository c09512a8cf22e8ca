"""The model: whether its server can be found, and answers; what is wrong with the way there is told apart from it."""

import os
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import urlsplit

from picoclaw.config import Config
from picoclaw.errors import ProviderError
from picoclaw.hw.health import Row
from picoclaw.messages import Message, Request
from picoclaw.providers.openai import OpenAI
from picoclaw.workspace import Prompts

_NAME_SECONDS = 5.0
_SETTINGS = "check [model] in config.toml, PICOCLAW_BASE_URL, PICOCLAW_API_KEY"


def examine(config: Config) -> Iterator[Row]:
    """Ask the server for a word: nothing less shows that address, key and model's name are right."""
    model = config.model
    if not model.base_url:
        yield Row("note", "model", "none is configured; the built-in matcher answers", _hint())
        return
    if problem := _unresolved(urlsplit(model.base_url).hostname or "", _NAME_SECONDS):
        yield Row("bad", "model", f"{model.shown_url}: {problem}", "ip route; resolvectl status; or check base_url")
        return
    began = time.monotonic()
    asked = Message("user", Prompts(config.workspace)["doctor"])
    request = Request("", (asked,), (), 16, began + 30)
    try:
        provider = OpenAI(replace(model, idle_seconds=30), config.api_key)
        for _ in provider.events(request):
            pass
        provider.close()
    except ProviderError as error:
        clock = "certificate" in str(error) and "valid" in str(error)
        yield Row("bad", "model", str(error), "set the clock: sudo timedatectl set-ntp true" if clock else _SETTINGS)
        return
    took = time.monotonic() - began
    yield Row("good", "model", f"{model.name or 'default'} at {model.shown_url} answers in {took:.1f} s")


def _hint() -> str:
    named = [name for name in ("OPENAI_API_KEY", "OPENROUTER_API_KEY") if os.environ.get(name)]
    if named:
        return f"{named[0]} is set: set PICOCLAW_MODEL as well to use it"
    return "set base_url and name under [model] in config.toml, or PICOCLAW_BASE_URL and PICOCLAW_MODEL"


def _unresolved(host: str, seconds: float) -> str:
    """Say why a name stands for no address, empty when it does; a resolver that hangs is not waited for longer."""
    said = [f"no answer from the name server in {seconds:.0f} s"]

    def ask() -> None:
        try:
            socket.getaddrinfo(host, None)
            said.append("")
        except (OSError, UnicodeError) as error:
            said.append(f"the name {host} is not known here ({error})")

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(seconds)
    return said[-1]
