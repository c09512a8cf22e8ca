"""`picoclaw tools` and `picoclaw tool NAME JSON`: what the agent can call on this board, and one call by hand."""

from typing import TYPE_CHECKING, Any

from picoclaw.cli.arguments import Options, Parser, parse_object
from picoclaw.cli.common import DEFAULT_SESSION, add_board_option, call_tool, open_app, print_wrapped
from picoclaw.text import format_json

if TYPE_CHECKING:
    from picoclaw.app import App


def add_tools_options(parser: Parser) -> None:
    parser.add_argument("--json", "print the definitions as they are sent")
    add_board_option(parser)


def run_tools(given: Options) -> int:
    from picoclaw.prompts import count_bytes
    from picoclaw.tools.registry import ON_REQUEST

    with open_app(given, make=False) as app:
        toolset = app.toolset
        definitions = toolset.definitions()
    if given.json:
        print(format_json(definitions, indent=1))
        return 0
    for definition in definitions:
        name, schema = definition["name"], definition["parameters"]
        required = schema.get("required", [])
        parameters = ", ".join(one if one in required else f"[{one}]" for one in schema["properties"])
        later = (
            "" if name not in ON_REQUEST else " (sent to a model only where `offer` under [tools] or a skill names it)"
        )
        print_wrapped(f"{name}({parameters}){later}", indent=" " * 8)
        print_wrapped(*(f"    {line}" for line in definition["description"].split("\n")), indent="    ")
    print(f"{len(definitions)} tools, {count_bytes(list(definitions))} bytes")
    return 0


def add_sensors_options(parser: Parser) -> None:
    parser.add_argument("sensor", "such as greenhouse; default: all", nargs="?", default="")
    parser.add_argument("--json", "print each value with its unit, source and time")
    add_board_option(parser)


def run_sensors(given: Options) -> int:
    """Read the sensors; exit code 1 when none has a value."""
    with open_app(given) as app:
        if not given.json:
            return _call(app, "sensor_read", {"sensor": given.sensor})
        from picoclaw.hw.reading import QUANTITIES

        rows = [
            {
                "sensor": reading.sensor,
                "quantity": reading.label,
                "value": reading.value,
                "unit": QUANTITIES[reading.quantity].unit,
                "source": reading.source,
                "at": reading.at,
                "problem": reading.problem or reading.doubt,
                "simulated": app.board.simulated,
            }
            for reading in app.wiring.sensors().read(given.sensor)
        ]
        print(format_json(rows))
        return 0 if any(row["value"] is not None for row in rows) else 1


def add_tool_options(parser: Parser) -> None:
    parser.add_argument("name")
    parser.add_argument(
        "arguments JSON",
        'the arguments as a JSON object, such as \'{"action": "scan"}\'',
        nargs="?",
        type=parse_object,
        default={},
    )
    add_board_option(parser)


def run_tool(given: Options) -> int:
    """Call the tool and print its result; exit code 1 when it is an error."""
    from picoclaw.daemon.process import handle_signals

    with open_app(given) as app:
        handle_signals()
        return _call(app, given.name, given.arguments)


def _call(app: "App", name: str, arguments: dict[str, Any]) -> int:
    from picoclaw.app import SIMULATED_MARK

    app.rehearses = app.board.simulated
    good = call_tool(app, DEFAULT_SESSION, name, arguments)
    if app.board.simulated and good:
        print(SIMULATED_MARK)
    return 0 if good else 1
