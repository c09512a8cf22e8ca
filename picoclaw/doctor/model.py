"""The model: whether its server can be found, and answers; what is wrong with the way there is told apart from it."""

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from urllib.parse import urlsplit

from picoclaw.config import Config, ModelConfig
from picoclaw.errors import ProviderError
from picoclaw.hw.health import Row
from picoclaw.messages import Message, Request
from picoclaw.providers import made
from picoclaw.workspace import Prompts

_NAME_SECONDS = 5.0
_SPARE = "it is asked only where it is chosen ('then' under [model] does not name it)"
_SETTINGS = "check [model] in config.toml, PICOCLAW_BASE_URL, PICOCLAW_API_KEY"


def examine(config: Config) -> Iterator[Row]:
    """Ask each server for a word: nothing less shows that address, key and model's name are right."""
    if not config.model.base_url:
        yield Row("note", "model", "none is configured; the built-in matcher answers", _hint())
        return
    text = Prompts(config.workspace)["doctor"]
    yield _asked("model", config.model, config.api_key, text, _SETTINGS)
    for name, model in config.models.items():
        mend = f"check [models.{name}] in config.toml, and its key: PICOCLAW_API_KEY_{name.upper()} or [keys] {name}"
        found = _asked(f"model {name}", model, config.model_keys.get(name, ""), text, mend)
        yield found if name in config.model.then else found._replace(how=f"{found.how}; {_SPARE}")


def _asked(what: str, model: ModelConfig, key: str, text: str, mend: str) -> Row:
    if problem := _unresolved(urlsplit(model.base_url).hostname or "", _NAME_SECONDS):
        return Row("bad", what, f"{model.shown_url}: {problem}", "ip route; resolvectl status; or check base_url")
    began = time.monotonic()
    request = Request("", (Message("user", text),), (), 16, began + 30)
    try:
        with closing(made(replace(model, idle_seconds=30), key)) as provider:
            for _ in provider.events(request):
                pass
    except ProviderError as error:
        clock = "certificate" in str(error) and "valid" in str(error)
        return Row("bad", what, str(error), "set the clock: sudo timedatectl set-ntp true" if clock else mend)
    took = time.monotonic() - began
    return Row("good", what, f"{model.name or 'default'} at {model.shown_url} answers in {took:.1f} s")


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
