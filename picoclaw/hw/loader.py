"""Loads a driver file of tools/hw by name, when it is wanted and not before.

The owner's own files win over the shipped ones; they lie where the agent's file tools cannot write.
"""

import importlib.util
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from picoclaw.errors import ConfigError
from picoclaw.resources import shipped

_NAME = re.compile(r"[a-z][a-z0-9_]{0,40}")
_BROKEN = (
    *(ImportError, SyntaxError, AttributeError, NameError, TypeError, ValueError),
    *(ArithmeticError, LookupError, RuntimeError, OSError),
)


def folders(home: Path) -> list[Path]:
    """Return where driver files are looked for, the strongest first."""
    return [home / "hw", Path("/etc/picoclaw/hw"), shipped("tools/hw")]


def load(name: str, where: Sequence[Path]) -> ModuleType:
    """Import `NAME.py` from the first folder that has it.

    Raises ConfigError when there is none, or when it cannot be imported.
    """
    if not _NAME.fullmatch(name):
        raise ConfigError(f"driver name {name!r} must be lower-case letters, digits and underscores")
    path = next((folder / f"{name}.py" for folder in where if (folder / f"{name}.py").is_file()), None)
    if path is None:
        raise ConfigError(f"there is no driver {name!r}; known: {', '.join(names(where))}")
    return _import(name, path)


def names(where: Sequence[Path]) -> list[str]:
    """List the names that `load` would find."""
    return sorted({path.stem for folder in where for path in folder.glob("[a-z]*.py")})


def _import(name: str, path: Path) -> ModuleType:
    full = f"picoclaw_hw_{name}"
    loaded = sys.modules.get(full)
    if loaded is not None and loaded.__file__ == str(path):
        return loaded
    spec = importlib.util.spec_from_file_location(full, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{path} cannot be imported as a driver")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except _BROKEN as error:
        raise ConfigError(f"driver {path} cannot be loaded: {error}") from error
    sys.modules[full] = module
    return module
