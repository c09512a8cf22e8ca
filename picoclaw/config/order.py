"""The order in which models are asked, as the owner wrote it down: every name has its table."""

import re
from collections.abc import Mapping
from pathlib import Path

from picoclaw.config.tables import ModelConfig
from picoclaw.errors import ConfigError
from picoclaw.schema import nearest

_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")
_TAKEN = {"default", "intents", "model"}
"""What is said to go back to [model], the built-in matcher, and [model] itself."""


def check_order(first: ModelConfig, models: Mapping[str, ModelConfig], path: Path) -> None:
    """Hold `then` of the first model against the tables of the further ones; raises ConfigError."""
    for name, model in models.items():
        if not _NAME.fullmatch(name) or name in _TAKEN:
            raise ConfigError(f"{path}: [models.{name}]: a name is small letters, digits and _, and none of {_taken()}")
        if name == first.name:
            raise ConfigError(f"{path}: [models.{name}]: [model] asks for a model of that name; take another name")
        if model.then:
            raise ConfigError(f"{path}: [models.{name}]: 'then' belongs under [model], which names the whole order")
    for name in first.then:
        if name == "intents":
            raise ConfigError(f"{path}: [model]: 'then' without 'intents': the built-in matcher is always the last")
        if name not in models:
            known = nearest(name, models) if models else "; there is no [models.NAME] at all"
            raise ConfigError(f"{path}: [model]: 'then' names {name!r}, and there is no [models.{name}]{known}")


def _taken() -> str:
    return ", ".join(sorted(_TAKEN))
