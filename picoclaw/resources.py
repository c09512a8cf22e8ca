"""Finds the files that ship beside the code: inside the installed package, or in the checkout."""

from functools import cache
from pathlib import Path


@cache
def shipped(name: str) -> Path:
    """Return the folder `templates`, `tools/hw` or the like, wherever this picoclaw was installed from."""
    package = Path(__file__).parent
    installed = package / "shipped" / name
    return installed if installed.is_dir() else package.parent / name
