"""Whose model it is, and the keys that are sent out: from the environment, a credential or secrets.toml."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from picoclaw.config.files import read_regular, read_toml
from picoclaw.errors import ConfigError
from picoclaw.schema import InvalidArgument, check_arguments, read_parameter

OPENAI_URL = "https://api.openai.com/v1"
OPENROUTER_URL = "https://openrouter.ai/api/v1"
ANTHROPIC_URL = "https://api.anthropic.com/v1"
_SECRET_KEYS = (
    "api_key",
    "embedding_key",
    "telegram_token",
    "matrix_token",
    "brave_key",
    "mqtt_password",
    "store_password",
    "metrics_token",
    "mcp_token",
)
_MIN_TOKEN_CHARS = 16
_VENDOR_VARIABLES = {
    "openai": {"OPENROUTER_API_KEY": OPENROUTER_URL, "OPENAI_API_KEY": OPENAI_URL},
    "responses": {"OPENAI_API_KEY": OPENAI_URL},
    "anthropic": {"ANTHROPIC_API_KEY": ANTHROPIC_URL},
}
"""The variable of each vendor's key and its server, by what is spoken there."""


def find_vendor(name: str, api: str, environment: Mapping[str, str], how: str) -> str:
    """Find whose model it is by whose key there is: nobody's question goes to a vendor that was not chosen.

    Raises ConfigError, which says `how` a server is set.
    """
    for variable, base_url in _VENDOR_VARIABLES[api].items():
        if environment.get(variable):
            return base_url
    raise ConfigError(f"there is no server for the model {name!r}: {how}")


def read_api_key(home: Path, base_url: str, environment: Mapping[str, str]) -> str:
    """The key of the model's server. A vendor's own variable is only ever sent to that vendor."""
    key = environment.get("PICOCLAW_API_KEY") or _get_vendor_key(base_url, environment)
    return _check_characters(key or _read_secret(home, "api_key", environment))


def read_model_keys(home: Path, base_urls: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """The keys of the further models, by the names of their tables; none of them has another's. Raises ConfigError."""
    kept = _load_secrets(home)["keys"] if base_urls else {}
    return {
        name: _check_characters(
            environment.get(f"PICOCLAW_API_KEY_{name.upper()}")
            or _get_vendor_key(base_url, environment)
            or _read_credential(environment, f"api_key_{name}")
            or str(kept.get(name, ""))
        )
        for name, base_url in base_urls.items()
    }


def read_embedding_key(home: Path, url: str, base_url: str, environment: Mapping[str, str]) -> str:
    """The key of the embedding server: the model's own when both are one server, else one that is meant for it."""
    if url.split("/")[:3] == base_url.split("/")[:3]:
        return read_api_key(home, base_url, environment)
    return _check_characters(_load_secrets(home)["embedding_key"] or _get_vendor_key(url, environment))


def read_telegram_token(home: Path, environment: Mapping[str, str]) -> str:
    token = environment.get("PICOCLAW_TELEGRAM_TOKEN") or _read_secret(home, "telegram_token", environment)
    return token.strip()


def read_matrix_token(home: Path, environment: Mapping[str, str]) -> str:
    token = environment.get("PICOCLAW_MATRIX_TOKEN") or _read_secret(home, "matrix_token", environment)
    return token.strip()


def read_brave_key(home: Path, environment: Mapping[str, str]) -> str:
    return _check_characters(environment.get("BRAVE_API_KEY") or _read_secret(home, "brave_key", environment))


def read_mqtt_password(home: Path, environment: Mapping[str, str]) -> str:
    return environment.get("PICOCLAW_MQTT_PASSWORD") or _read_secret(home, "mqtt_password", environment)


def read_store_password(home: Path, environment: Mapping[str, str]) -> str:
    return environment.get("PICOCLAW_STORE_PASSWORD") or _read_secret(home, "store_password", environment)


def read_metrics_token(home: Path, environment: Mapping[str, str]) -> str:
    """The token of /metrics, '' for none. Raises ConfigError for one that can be guessed."""
    return _check_length("metrics_token", _read_secret(home, "metrics_token", environment))


def read_mcp_token(home: Path, environment: Mapping[str, str]) -> str:
    """The token of /mcp, '' for none. Raises ConfigError for one that can be guessed."""
    return _check_length("mcp_token", _read_secret(home, "mcp_token", environment))


def _check_length(name: str, given: str) -> str:
    token = _check_characters(given)
    if token and len(token) < _MIN_TOKEN_CHARS:
        raise ConfigError(f"{name} must have at least {_MIN_TOKEN_CHARS} characters: openssl rand -hex 16")
    return token


def read_notify_tokens(home: Path, names: Iterable[str], environment: Mapping[str, str]) -> dict[str, str]:
    """The tokens of [notify.NAME]; '' for one that has none. Raises ConfigError."""
    return _read_named_secrets(home, names, environment, "notify", "notify_token")


def read_mcp_tokens(home: Path, names: Iterable[str], environment: Mapping[str, str]) -> dict[str, str]:
    """The tokens of [mcp.NAME]; '' for one that has none. Raises ConfigError."""
    return _read_named_secrets(home, names, environment, "mcp", "mcp_token")


def read_hook_secrets(home: Path, names: Iterable[str], environment: Mapping[str, str]) -> dict[str, str]:
    """The secrets of [hooks.NAME]; '' for one that has none. Raises ConfigError for one that can be guessed."""
    found = _read_named_secrets(home, names, environment, "hook", "hook_secret")
    for name, secret in found.items():
        if secret and len(secret) < _MIN_TOKEN_CHARS:
            raise ConfigError(f"hook_{name} must have at least {_MIN_TOKEN_CHARS} characters: openssl rand -hex 16")
    return found


def _read_named_secrets(
    home: Path, names: Iterable[str], environment: Mapping[str, str], kind: str, credential: str
) -> dict[str, str]:
    kept = _load_secrets(home)["keys"] if (wanted := list(names)) else {}
    return {
        name: _check_characters(
            environment.get(f"PICOCLAW_{credential.upper()}_{name.upper()}")
            or _read_credential(environment, f"{credential}_{name}")
            or str(kept.get(f"{kind}_{name}", ""))
        )
        for name in wanted
    }


def list_stored_secrets(home: Path, environment: Mapping[str, str]) -> frozenset[str]:
    """Collect every secret that this home has been given, also one that another takes the place of. Raises ConfigError.

    Which of them is sent out is one question; that none of them is shown is another.
    """
    kept, folder = _load_secrets(home), environment.get("CREDENTIALS_DIRECTORY")
    try:
        there = [path.name for path in Path(folder).iterdir()] if folder else []
    except OSError:
        there = []
    names = [
        name
        for name in there
        if name in _SECRET_KEYS or name.startswith(("api_key_", "notify_token_", "hook_secret_", "mcp_token_"))
    ]
    found = {*(str(kept[name]) for name in _SECRET_KEYS), *map(str, kept["keys"].values())}
    names_of_tokens = (
        "TELEGRAM_TOKEN",
        "MATRIX_TOKEN",
        "MQTT_PASSWORD",
        "STORE_PASSWORD",
        "NOTIFY_TOKEN_",
        "HOOK_SECRET_",
        "API_KEY_",
    )
    variables = tuple(f"PICOCLAW_{name}" for name in (*names_of_tokens, "MCP_TOKEN_"))
    found |= {text for name, text in environment.items() if name.endswith("_API_KEY") or name.startswith(variables)}
    found |= {_read_credential(environment, name) for name in names}
    return frozenset(secret.strip() for secret in found) - {""}


def _get_vendor_key(base_url: str, environment: Mapping[str, str]) -> str:
    if base_url and base_url == environment.get("OPENAI_BASE_URL", "").rstrip("/"):
        return environment.get("OPENAI_API_KEY", "")
    theirs = (pair for vendors in _VENDOR_VARIABLES.values() for pair in vendors.items())
    return next((environment.get(variable, "") for variable, url in theirs if base_url.startswith(url)), "")


def _check_characters(key: str) -> str:
    key = key.strip()
    if not (key.isascii() and key.isprintable()):
        raise ConfigError("the API key holds a character that no key has; copy it again")
    return key


def _read_credential(environment: Mapping[str, str], name: str) -> str:
    folder = environment.get("CREDENTIALS_DIRECTORY")
    if not folder:
        return ""
    path = Path(folder) / name
    try:
        return read_regular(path).decode()
    except UnicodeDecodeError:
        raise ConfigError(f"{path} cannot be read: it is not text") from None


def _read_secret(home: Path, name: str, environment: Mapping[str, str]) -> str:
    return _read_credential(environment, name) or str(_load_secrets(home)[name])


def _load_secrets(home: Path) -> dict[str, Any]:
    path = home / "secrets.toml"
    table = read_toml(path, private=True)
    wanted = [read_parameter(known, str, "") for known in _SECRET_KEYS]
    try:
        found = check_arguments((*wanted, read_parameter("keys", dict, {})), table)
        if all(isinstance(key, str) for key in found["keys"].values()):
            return found
    except InvalidArgument:
        pass
    lines = ", ".join(f'{known} = "..."' for known in _SECRET_KEYS)
    raise ConfigError(
        f'{path} may hold {lines}, and below a line [keys] NAME = "..." for each [models.NAME], and nothing else'
    )
