"""`picoclaw init`: makes the home folder and what belongs into it; a second time it changes nothing."""

import argparse

from picoclaw import workspace
from picoclaw.config import load


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""


def run(given: argparse.Namespace) -> int:  # noqa: ARG001
    """Make what is missing and say what was made."""
    config = load()
    made = workspace.prepare(config.home, seeds=True)
    for path in made:
        print(f"made {path}")
    if not made:
        print(f"{config.home} is complete; nothing was changed")
    print(f"Settings are in {config.home / 'config.toml'}; `picoclaw doctor` checks them.")
    return 0
