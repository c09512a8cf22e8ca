"""`picoclaw tools`: what the agent can call on this board."""

import argparse
import json

from picoclaw.cli.common import board_option, opened
from picoclaw.prompt import size


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument("--json", action="store_true", help="print the definitions as they are sent")
    board_option(parser)


def run(given: argparse.Namespace) -> int:
    """List the tools."""
    with opened(given, make=False) as app:
        definitions = app.toolset.definitions()
    if given.json:
        print(json.dumps(definitions, ensure_ascii=False, indent=1))
        return 0
    for definition in definitions:
        names = ", ".join(_parameter(definition["parameters"], name) for name in definition["parameters"]["properties"])
        print(f"{definition['name']}({names})\n    {definition['description']}")
    print(f"{len(definitions)} tools, {size(list(definitions))} bytes")
    return 0


def _parameter(schema: dict[str, list[str]], name: str) -> str:
    return name if name in schema.get("required", []) else f"[{name}]"
