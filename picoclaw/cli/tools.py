"""`picoclaw tools`: what the agent can call on this board."""

import argparse

from picoclaw.cli.common import add_board_option, open_app
from picoclaw.prompts import count_bytes
from picoclaw.text import format_json


def options(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's options."""
    parser.add_argument("--json", action="store_true", help="print the definitions as they are sent")
    add_board_option(parser)


def run(given: argparse.Namespace) -> int:
    """List the tools."""
    with open_app(given, make=False) as app:
        toolset = app.toolset
        definitions = toolset.definitions(called=toolset.names)
    if given.json:
        print(format_json(definitions, indent=1))
        return 0
    for definition in definitions:
        name = definition["name"]
        names = ", ".join(
            _format_parameter(definition["parameters"], p) for p in definition["parameters"]["properties"]
        )
        later = f" (offered after {', '.join(openers)})" if (openers := sorted(toolset.openers(name))) else ""
        print(f"{name}({names}){later}\n    {definition['description']}")
    print(f"{len(definitions)} tools, {count_bytes(list(definitions))} bytes")
    return 0


def _format_parameter(schema: dict[str, list[str]], name: str) -> str:
    return name if name in schema.get("required", []) else f"[{name}]"
