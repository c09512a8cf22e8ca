"""Finds picoclaw's folders: what ships beside the code, in the installed package or in the checkout, and the home."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from picoclaw.errors import ConfigError


@cache
def find_shipped(name: str) -> Path:
    """Return the folder `templates`, `tools/hw` or the like, wherever this picoclaw was installed from."""
    package = Path(__file__).parent
    installed = package / "shipped" / name
    return installed if installed.is_dir() else package.parent / name


def get_home(environment: Mapping[str, str]) -> Path:
    """Return `$PICOCLAW_HOME`, or `~/.picoclaw`."""
    folder = environment.get("PICOCLAW_HOME") or "~/.picoclaw"
    try:
        home = Path(folder).expanduser().absolute()
        str(home).encode()
    except RuntimeError:
        raise ConfigError(f"the ~ in {folder} stands for no known user; set PICOCLAW_HOME to a whole path") from None
    except UnicodeError:
        raise ConfigError("the path of picoclaw's home is not UTF-8; set PICOCLAW_HOME to another folder") from None
    return home
