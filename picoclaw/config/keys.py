"""Whose model it is, and the keys that are sent out: from the environment, a credential or secrets.toml."""

from collections.abc import Mapping
from pathlib import Path

from picoclaw.config.files import read, read_toml
from picoclaw.errors import ConfigError
from picoclaw.schema import Unfit, check, parameter

OPENAI = "https://api.openai.com/v1"
OPENROUTER = "https://openrouter.ai/api/v1"
_SECRETS = ("api_key", "embedding_key", "telegram_token", "brave_key")


def vendor(name: str, environment: Mapping[str, str]) -> str:
    """Whose model it is, told by whose key there is: nobody's question goes to a vendor that was not chosen."""
    for variable, base_url in (("OPENROUTER_API_KEY", OPENROUTER), ("OPENAI_API_KEY", OPENAI)):
        if environment.get(variable):
            return base_url
    raise ConfigError(
        f"there is no server for the model {name!r}: set base_url under [model] in config.toml, or PICOCLAW_BASE_URL"
    )


def api_key(home: Path, base_url: str, environment: Mapping[str, str]) -> str:
    """The key of the model's server. A vendor's own variable is only ever sent to that vendor."""
    if key := environment.get("PICOCLAW_API_KEY"):
        return _checked(key)
    return _checked(
        _vendors_own(base_url, environment)
        or _credential(environment, "api_key")
        or _secret(home / "secrets.toml", "api_key")
    )


def embedding_key(home: Path, url: str, base_url: str, environment: Mapping[str, str]) -> str:
    """The key of the embedding server: the model's own when both are one server, else one that is meant for it."""
    if url.split("/")[:3] == base_url.split("/")[:3]:
        return api_key(home, base_url, environment)
    return _checked(_secret(home / "secrets.toml", "embedding_key") or _vendors_own(url, environment))


def telegram_token(home: Path, environment: Mapping[str, str]) -> str:
    """The token of the Telegram bot, '' when there is none."""
    return (
        environment.get("PICOCLAW_TELEGRAM_TOKEN")
        or _credential(environment, "telegram_token")
        or _secret(home / "secrets.toml", "telegram_token")
    ).strip()


def brave_key(home: Path, environment: Mapping[str, str]) -> str:
    """The key of Brave's search, '' when there is none."""
    return _checked(
        environment.get("BRAVE_API_KEY")
        or _credential(environment, "brave_key")
        or _secret(home / "secrets.toml", "brave_key")
    )


def _vendors_own(base_url: str, environment: Mapping[str, str]) -> str:
    vendor = "OPENROUTER_API_KEY" if base_url.startswith(OPENROUTER) else "OPENAI_API_KEY"
    theirs = base_url.startswith((OPENAI, OPENROUTER)) or base_url == environment.get("OPENAI_BASE_URL", "").rstrip("/")
    return environment.get(vendor, "") if theirs else ""


def _checked(key: str) -> str:
    key = key.strip()
    if not (key.isascii() and key.isprintable()):
        raise ConfigError("the API key holds a character that no key has; copy it again")
    return key


def _credential(environment: Mapping[str, str], name: str) -> str:
    folder = environment.get("CREDENTIALS_DIRECTORY")
    if not folder:
        return ""
    path = Path(folder) / name
    try:
        return read(path).decode()
    except UnicodeDecodeError:
        raise ConfigError(f"{path} cannot be read: it is not text") from None


def _secret(path: Path, name: str) -> str:
    table = read_toml(path, private=True)
    wanted = [parameter(known, str, "") for known in _SECRETS]
    try:
        return str(check(tuple(wanted), table)[name])
    except Unfit:
        lines = ", ".join(f'{known} = "..."' for known in _SECRETS)
        raise ConfigError(f"{path} may hold {lines}, and nothing else") from None
