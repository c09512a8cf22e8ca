"""Loads a driver file of tools/hw by name, when it is wanted and not before.

The owner's own files win over the shipped ones; they lie where the agent's file tools cannot write.
"""

import importlib.util
import re
import struct
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from picoclaw.errors import ConfigError
from picoclaw.resources import shipped

_NAME = re.compile(r"[a-z][a-z0-9_]{0,40}")
_TOOLS = {"i2c", "spi", "serial", "gpio"}  # files of tools/hw that are no chip's driver
ROUTES = {"i2c": "ADDRESSES", "spi": "SPI", "serial": "SERIAL", "onewire": "FAMILIES"}
"""The kinds of bus, and the table in a driver file that says how its part is reached on one."""
_FIRST_ADDRESS, _LAST_ADDRESS = 0x08, 0x77
BROKEN = (
    *(ImportError, SyntaxError, AttributeError, NameError, TypeError, ValueError, AssertionError, struct.error),
    *(ArithmeticError, LookupError, RuntimeError, OSError, EOFError, BufferError, MemoryError, SystemExit),
)
"""What a faulty driver may raise, as it is imported or as it reads; no fault of a driver may end picoclaw."""


def folders(home: Path) -> list[Path]:
    """Return where driver files are looked for, the strongest first."""
    return [home / "hw", Path("/etc/picoclaw/hw"), shipped("tools/hw")]


def load(name: str, where: Sequence[Path]) -> ModuleType:
    """Import `NAME.py` from the first folder that has it; a folder that may not be read has nothing.

    Raises ConfigError when there is none, or when it cannot be imported.
    """
    if not _NAME.fullmatch(name):
        raise ConfigError(f"driver name {name!r} must be lower-case letters, digits and underscores")
    path = next((files[name] for files in map(_files, where) if name in files), None)
    if path is None:
        raise ConfigError(f"there is no driver {name!r}; known: {', '.join(chips(where))}{_closed(where)}")
    return _import(name, path)


def chip(name: str, where: Sequence[Path]) -> ModuleType:
    """Load the driver of a chip: a module with `read(part)` and the table of one of ROUTES.

    Raises ConfigError naming the file and what is missing in it.
    """
    module = load(name, where)
    if not callable(getattr(module, "read", None)):
        raise ConfigError(f"{module.__file__} is not the driver of a chip: it has no function read(part)")
    if not any(hasattr(module, attribute) for attribute in ROUTES.values()):
        tables = ", ".join(f"{table} ({bus})" for bus, table in ROUTES.items())
        raise ConfigError(f"{module.__file__} is not the driver of a chip: it needs one table of {tables}")
    addresses = getattr(module, "ADDRESSES", (_FIRST_ADDRESS,))
    if not (isinstance(addresses, tuple | list) and addresses and all(map(_is_address, addresses))):
        raise ConfigError(
            f"{module.__file__} is not the driver of a chip: it needs ADDRESSES, a tuple of the 7-bit addresses"
            " (0x08 to 0x77) that the part can have, the usual one first"
        )
    options = getattr(module, "OPTIONS", {})
    if not isinstance(options, dict) or not all(map(_is_option, options.values())):
        raise ConfigError(f"OPTIONS in {module.__file__} must be names with three numbers: (usual, lowest, highest)")
    return module


def _is_option(value: object) -> bool:
    return isinstance(value, tuple) and len(value) == 3 and all(isinstance(number, int | float) for number in value)


def names(where: Sequence[Path]) -> list[str]:
    """List the names that `load` would find."""
    return sorted({name for folder in where for name in _files(folder)})


def chips(where: Sequence[Path]) -> list[str]:
    """List the names that are meant for `chip`."""
    return [name for name in names(where) if name not in _TOOLS]


def _files(folder: Path) -> dict[str, Path]:
    try:
        return {path.stem: path for path in folder.iterdir() if path.suffix == ".py" and _NAME.fullmatch(path.stem)}
    except OSError:
        return {}


def _closed(where: Sequence[Path]) -> str:
    """Say which folders could not be looked into."""
    closed = []
    for folder in where:
        try:
            next(folder.iterdir(), None)
        except PermissionError:
            closed.append(f"; {folder} may not be read by this user")
        except OSError:
            continue
    return "".join(closed)


def _is_address(value: object) -> bool:
    return isinstance(value, int) and _FIRST_ADDRESS <= value <= _LAST_ADDRESS


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
    except BROKEN as error:
        raise ConfigError(f"driver {path} cannot be loaded: {type(error).__name__}: {error}") from error
    sys.modules[full] = module
    return module
