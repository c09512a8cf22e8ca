"""Makes the pages of the guide that are made of the program: `python tests/bench/guide.py [--write]`.

Without --write it names the pages that are out of date. docs/what-you-can-say.md is of the intents and the skills, and
docs/reference/ of the parsers, the tables of config.toml and the registry of tools.
"""

import html
import re
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, get_args, get_origin

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests/bench")]

import frontmatter  # noqa: E402
from talk import OUTPUTS, TALKS, have  # noqa: E402 - a checkout need not be installed

from picoclaw import cli  # noqa: E402
from picoclaw.app import App  # noqa: E402
from picoclaw.cli.arguments import Parser  # noqa: E402
from picoclaw.config import Config  # noqa: E402
from picoclaw.config.tables import (  # noqa: E402
    AgentConfig,
    HookConfig,
    McpConfig,
    MemoryConfig,
    ModelConfig,
    MqttConfig,
    NotifyConfig,
    PersonConfig,
    SensorConfig,
    TeamConfig,
    WebConfig,
)
from picoclaw.files import find_shipped  # noqa: E402
from picoclaw.hw.sim import SimBoard, script  # noqa: E402
from picoclaw.records import MISSING, fields  # noqa: E402
from picoclaw.schema import read_parameter  # noqa: E402
from picoclaw.tools.registry import ON_REQUEST  # noqa: E402
from picoclaw.workspace import prepare_home  # noqa: E402

DOCS = ROOT / "docs"
MADE = "<!-- Made by `python tests/bench/guide.py --write`; changes go into the program. -->"

# --- what you can say ---

SAID = {
    "en": {
        "Sensors": (
            "sensor compare_sensors",
            """how warm is it in the greenhouse?
what is the humidity?
read all sensors
what sensors do you have?
how much warmer is the greenhouse than outside?""",
        ),
        "What was measured": (
            "history",
            """how warm was the greenhouse last night?
what was the lowest humidity today?
how hot did it get yesterday?
show me a chart of the temperature today
is it getting warmer?
compare today with yesterday""",
        ),
        "Outputs": (
            "output",
            """is the pump on?
what outputs are there?
turn the fan on for ten minutes
turn everything off
why is the pump off?""",
        ),
        "Reminders and timers": (
            "cron",
            """remind me in 10 minutes to water the plants
remind me every day at 7 to open the window
remind me on weekdays at 18:00 to take my pills
what reminders do I have?""",
        ),
        "Rules": (
            "rule",
            """tell me when the greenhouse is above 35 for 10 minutes
what rules do I have?""",
        ),
        "Notes and lists": (
            "memory list file",
            """what did I note about the boiler?
when was the filter changed?
what is on the shopping list?""",
        ),
        "The board, its buses and files": (
            "board sensor_add i2c list_dir read_file clock",
            """board status
is everything all right?
how long have you been up?
what is your address?
scan the i2c bus
what time is it?
show me notes.md""",
        ),
    },
    "de": {
        "Sensoren": (
            "sensor compare_sensors",
            """Wie warm ist es im Gewächshaus?
wie hoch ist die Luftfeuchtigkeit?
welche Sensoren gibt es?""",
        ),
        "Was gemessen wurde": (
            "history",
            """wie warm war es gestern im Gewächshaus?
wie kalt war es letzte Nacht?
zeig mir die Temperatur von heute als Diagramm
wird es wärmer?""",
        ),
        "Ausgänge": (
            "output",
            """läuft die Pumpe noch?
schalte den Lüfter für zehn Minuten ein""",
        ),
        "Erinnerungen": (
            "cron",
            """erinnere mich jeden Tag um 8 ans Gießen
welche Erinnerungen gibt es?""",
        ),
        "Regeln": ("rule", "welche Regeln gibt es?"),
        "Notizen und Listen": (
            "memory list file",
            """was habe ich über den Filter notiert?
was steht auf der Einkaufsliste?""",
        ),
        "Das Board": (
            "board clock",
            """ist alles in Ordnung?
wie spät ist es?""",
        ),
    },
    "es": {
        "Sensores": (
            "sensor compare_sensors",
            """¿Qué temperatura hace en el invernadero?
¿qué humedad hay?
¿qué sensores hay?""",
        ),
        "Lo que se midió": (
            "history",
            """la temperatura de ayer
enséñame una gráfica de la temperatura de hoy""",
        ),
        "Salidas": (
            "output",
            """¿está encendida la bomba?
enciende el ventilador durante diez minutos""",
        ),
        "Recordatorios": (
            "cron",
            """recuérdame todos los días a las 8 regar
qué recordatorios hay""",
        ),
        "Reglas": ("rule", "qué reglas hay"),
        "Notas y listas": (
            "memory list file",
            "qué he anotado sobre el filtro",
        ),
        "La placa": (
            "board clock",
            """¿está todo bien?
¿qué hora es?""",
        ),
    },
    "fr": {
        "Capteurs": (
            "sensor compare_sensors",
            """Quelle est la température dans la serre ?
quelle est l'humidité ?
quels capteurs y a-t-il ?""",
        ),
        "Ce qui a été mesuré": (
            "history",
            """quelle était la température hier ?
montre-moi un graphique de la température d'aujourd'hui""",
        ),
        "Sorties": (
            "output",
            """la pompe est allumée ?
allume le ventilateur pendant dix minutes""",
        ),
        "Rappels": (
            "cron",
            """rappelle-moi tous les jours à 8h d'arroser
quels rappels y a-t-il ?""",
        ),
        "Règles": ("rule", "quelles règles y a-t-il ?"),
        "Notes et listes": (
            "memory list file",
            "notes sur le filtre",
        ),
        "La carte": (
            "board clock",
            """est-ce que tout va bien ?
quelle heure est-il ?""",
        ),
    },
}
"""By language and subject: how the names of its intents begin, and sentences besides those that their data gives as "exact"."""

NAMES = {"en": "English", "de": "Deutsch", "es": "Español", "fr": "Français"}


def make_sentences(language: str, matcher: Any, tools: frozenset[str]) -> Iterator[str]:
    """The sentences of a language by subject, each held against the matcher."""
    data = tomllib.loads((find_shipped("templates") / f"intents/{language}.toml").read_text("utf-8").split("\n", 1)[1])
    beginnings = {begin: title for title, (names, _) in SAID[language].items() for begin in names.split()}

    def find_subject(intent: str) -> str:
        return beginnings[max((one for one in beginnings if intent.startswith(one)), key=len, default="")]

    def understand(sentence: str) -> str:
        match = matcher.match(sentence, tools)
        return match.intent if match else "nothing"

    exact = {name: intent["exact"] for name, intent in data["intents"].items() if intent.get("exact")}
    for title, (_, given) in SAID[language].items():
        own = [(name, sentence) for name, sentence in exact.items() if find_subject(name) == title]
        for sentence in given.splitlines():
            if find_subject(meant := understand(sentence)) != title:
                raise ValueError(f"{language}: {sentence!r} is understood as {meant}")
        alone = [sentence for name, sentence in own if understand(sentence) == name]
        yield from ("", f"## {title}", "", *(f"- {sentence}" for sentence in (*given.splitlines(), *alone)))
        yield from (f"- … {sentence}" for _, sentence in own if sentence not in alone)


def make_talk(language: str) -> Iterator[str]:
    """Ten minutes of talk, as it is had with the agent."""
    yield "```text"
    with tempfile.TemporaryDirectory() as folder:
        for line, reply in have(Path(folder) / "home", TALKS[NAMES[language]].splitlines()):
            yield f"> {line}\n{reply.replace('```', '').strip()}\n"
    yield "```"


def make_said(app: App) -> Iterator[tuple[str, Iterator[str]]]:
    """The pages of sentences: English with the skills, and a page with a talk for each language."""
    matcher, tools = app.matcher, app.toolset.names

    def english() -> Iterator[str]:
        yield """# What you can say

Without a model, picoclaw understands these sentences and many like them; with a model you can say anything. Names such
as *greenhouse*, *fan* and *pump* stand for your own sensors and outputs. A whole conversation in
[English](talk/en.md), [Deutsch](talk/de.md), [Español](talk/es.md) or [Français](talk/fr.md) shows the answers too.

"stop" and "all off" switch every output to its safe level at once. After "stop", nothing can be switched on until you type /resume.
"and yesterday?", "turn it off again" and "no, at 8:15" refer to your last request, as do the lines below that begin with "…". If something is missing, picoclaw asks for it; if it is not sure, it does nothing and
says what it understood. You can add [your own sentences](howto/yours.md#your-own-sentences)."""
        yield from make_sentences("en", matcher, tools)
        yield """
## With a model

A skill is a page that tells the model how to do something. These are included; the model gets one when it fits
your message. To add your own, put a folder with a `SKILL.md` into `workspace/skills/`, `~/.agents/skills/` or
`~/.picoclaw/skills/`; those made for OpenClaw, nanobot, sipeed/picoclaw and Claude work unchanged. `picoclaw skills` lists them all.

| skill | what for | for example when you say |
|---|---|---|"""
        for path in sorted(find_shipped("templates").glob("skills/*/SKILL.md")):
            skill = frontmatter.loads(path.read_text("utf-8"))
            words = ", ".join(f"*{word}*" for word in skill["triggers"][:3])
            yield f"| {skill['name']} | {skill['description']} | {words} |"

    def talk(language: str) -> Iterator[str]:
        yield f"# {NAMES[language]}"
        if language == "en":
            yield """
This is a conversation of ten minutes without a model, as the program had it when this page was generated. The board is simulated. Its two outputs are
declared but not armed, so switching is only rehearsed. A line that begins with `>` is the person's.
"""
        else:
            yield "\n[What you can say](../what-you-can-say.md) has the same in English."
            yield from (*make_sentences(language, matcher, tools), "")
        yield from make_talk(language)

    yield "what-you-can-say.md", english()
    for language in SAID:
        yield f"talk/{language}.md", talk(language)


# --- reference ---


def escape(text: str) -> str:
    """Keep a bar from ending a table's cell, in code too, on code hosts and on the site."""
    code = re.sub(r"`([^`]*\|[^`]*)`", lambda found: f"<code>{html.escape(found[1])}</code>", text)
    return code.replace("|", "&#124;")


def make_commands() -> Iterator[tuple[str, Iterator[str]]]:
    """A page for each group of commands, from what their parsers know."""

    def arguments(parser: Parser) -> Iterator[str]:
        shown = [one for one in parser.arguments if one.names not in (["--json"], ["--board"]) and one.help]
        if shown:
            yield from ("", "| | |", "|---|---|")
            yield from (f"| {escape(f'`{one.label}`')} | {escape(one.help)} |" for one in shown)

    def group(title: str, verbs: dict[str, tuple[str, str]]) -> Iterator[str]:
        yield f"# Commands: {title[0].lower()}{title[1:]}"
        yield """
With `--board sim`, a command uses the simulated board; commands that list something take `--json`. The exit
code is 0 for success, 1 for an error or a problem that was found, 2 for wrong usage; `status` exits with
3 if picoclaw is not running."""
        for name, (purpose, example) in verbs.items():
            parser = Parser(name, purpose, example)
            cli.load_verb(name)[0](parser)
            yield from ("", f"## picoclaw {name}", "", f"{purpose[0].upper()}{purpose[1:]}.")
            yield from ("", "```sh", example, "```", *arguments(parser))
            if parser.words:
                yield from ("", "| | |", "|---|---|")
                said: dict[tuple[str, str], str] = {}  # an option that several words have is explained once
                for word, one in parser.words.items():
                    places = "".join(f" {each.label}" for each in one.arguments if not each.names)
                    yield f"| {escape(f'`picoclaw {name} {word}{places}`')} | {escape(one.purpose)} |"
                    again: dict[str, list[str]] = {}
                    for each in one.arguments:
                        if not each.help or each.names in (["--json"], ["--board"]):
                            continue
                        if (first := said.setdefault((each.label, each.help), word)) == word:
                            yield f"| … {escape(f'`{each.label}`')} | {escape(each.help)} |"
                        elif each.names:
                            again.setdefault(first, []).append(f"`{each.names[0]}`")
                    for first, names in again.items():
                        yield f"| … {', '.join(names)} | as for `{first}` |"

    for title, verbs in cli.GROUPS.items():
        yield f"reference/commands-{title.split()[0].lower()}.md", group(title, verbs)


TYPES = {str: "text", int: "whole number", float: "number", bool: "true or false"}


def format_number(number: float) -> str:
    return f"{number:,}".removesuffix(".0") if number >= 10_000 else f"{number:g}"


def describe_type(kind: Any, span: Any = None) -> str:
    """Say what a value may be."""
    arms = [arm for arm in get_args(kind) if arm is not type(None)]
    if get_origin(kind) is list:
        return f"list of {TYPES.get(arms[0], '')}"
    if get_origin(kind) is dict:
        return "table"
    if isinstance(kind, type):
        bounds = f", {format_number(span.low)} to {format_number(span.high)}" if span else ""
        return f"{TYPES[kind]}{bounds}"
    if all(isinstance(arm, str) for arm in arms):
        return ", ".join(f"`{arm}`" for arm in arms if arm)
    return describe_type(arms[0], span)


MORE = {
    "model": ("models", "use a model"),
    "memory": ("memory", "notes"),
    "approvals": ("approvals", "approve or decline"),
    "web": ("web", "the web"),
    "heartbeat": ("heartbeat", "a checklist"),
    "costs": ("costs", "costs"),
    "history": ("rules", "the past, and rules"),
    "sessions": ("conversations", "conversations"),
    "subagents": ("subagents", "sub-agents"),
    "page": ("page", "the page"),
    "telegram": ("telegram", "Telegram"),
    "matrix": ("matrix", "Matrix"),
    "mqtt": ("mqtt", "your MQTT broker"),
    "store": ("store", "a store that boards share"),
    "mcp.NAME": ("mcp", "MCP servers"),
    "people.NAME": ("people", "your household"),
    "agents.KEY": ("agents", "several agents"),
    "teams.NAME": ("agents", "agents that work together"),
    "notify.NAME": ("notify", "alarms on your phone"),
    "hooks.NAME": ("hooks", "webhooks"),
    "sensors.NAME": ("sensors", "wire a sensor"),
}
"""The page about a table of settings, and what it is called."""


CONNECTIONS = {
    "page",
    "telegram",
    "matrix",
    "mqtt",
    "store",
    "mcp.NAME",
    "notify.NAME",
    "hooks.NAME",
    "sensors.NAME",
}
"""The tables about what picoclaw is connected to, which are a page of their own."""
HOUSEHOLD = {"people.NAME", "agents.KEY", "teams.NAME"}
"""Those about who it is for, and who answers: a page of their own as well."""


LINKS = """The links between agents: the key of an agent, and the list of agents to which it may give tasks, such as
`garden = ["cellar"]`. The lead of a team needs no links to its members. More:
[agents that work together](../howto/agents.md#let-agents-work-together)."""
"""The table of settings whose keys are the owner's."""


def find_part(name: str) -> set[str] | None:
    return next((part for part in (CONNECTIONS, HOUSEHOLD) if name in part), None)


def make_settings(part: set[str] | None = None) -> Iterator[str]:
    """The tables of config.toml: those of a part, None for those of none."""
    if part is CONNECTIONS:
        yield """# Settings of connections

These are the tables of `~/.picoclaw/config.toml` for sensors, channels and servers. [Settings](settings.md) has the general ones."""
    elif part is HOUSEHOLD:
        yield """# Settings of people and agents

These are the tables of `~/.picoclaw/config.toml` for people, agents and teams. [Settings](settings.md) has the general ones."""
    else:
        yield """# Settings

The settings are in `~/.picoclaw/config.toml`. All of them are optional; `picoclaw init` writes the usual ones, and
`picoclaw doctor` reports mistakes with their line. The environment variables `PICOCLAW_BASE_URL` and `PICOCLAW_MODEL` take
precedence over the file, and `PICOCLAW_HOME` chooses another folder. After a change, run `sudo picoclaw restart`. Other pages have
the settings of [connections](settings-connections.md), and of [people and agents](settings-household.md)."""
    tables = [(one.name, one.type) for one in fields(Config) if isinstance(one.type, type)]
    for name, table in [
        *tables,
        ("mcp.NAME", McpConfig),
        ("notify.NAME", NotifyConfig),
        ("hooks.NAME", HookConfig),
        ("people.NAME", PersonConfig),
        ("agents.KEY", AgentConfig),
        ("teams.NAME", TeamConfig),
        ("sensors.NAME", SensorConfig),
    ]:
        if not table.__module__.endswith("config.tables") or find_part(name) is not part:
            continue
        purpose = (table.__doc__ or "").split(": ", 1)[1]
        more = f" More: [{MORE[name][1]}](../howto/{MORE[name][0]}.md)." if name in MORE else ""
        yield from ("", f"## [{name}]", "", f"{purpose[0].upper()}{purpose[1:]}{more}")
        yield from ("", "| key | value | default | meaning |", "|---|---|---|---|")
        for one in fields(table):
            known = read_parameter(one.name, one.type)
            default = one.default_factory() if one.default_factory is not MISSING else one.default
            if isinstance(default, bool):
                shown = str(default).lower()
            elif isinstance(default, int | float):
                shown = format_number(default)
            else:
                shown = default if isinstance(default, str) else ""
            yield f"| `{one.name}` | {escape(describe_type(known.kind, known.span))} | {shown} | {escape(known.description)} |"
        if name == "teams.NAME":
            yield from ("", "## [links]", "", LINKS)


def make_tools(app: App) -> Iterator[str]:
    """The tools of a board with everything, by the registry."""
    yield """# Tools

The agent acts by calling tools. `picoclaw tools` lists the tools of your board, and `picoclaw tool NAME` calls
one by hand. The effect is the row of [the policy](policy.md) that decides about a call. A tool marked † is described to a
model only if `offer` under `[tools]` or a skill names it.
"""
    yield "| tool | effect | description for the model | arguments (optional in brackets) |"
    yield "|---|---|---|---|"
    for definition in app.toolset.definitions():
        tool = app.toolset.find(definition["name"])
        effect = tool.mark.effect if isinstance(tool.mark.effect, str) else "read" if tool.only_reads else "by the call"
        shown = ", ".join(f"`{one.name}`" if one.required else f"[`{one.name}`]" for one in tool.parameters)
        mark = " †" if tool.name in ON_REQUEST else ""
        yield f"| `{tool.name}`{mark} | {effect} | {escape(definition['description'])} | {shown} |"


SIMULATED = """[parts.greenhouse]
part = "bme280"
address = 0x76
[parts.air]
part = "pms5003"
port = "/dev/ttyS0"
[parts.heat]
part = "max31855"
"""


def make_pages(*, talks: bool = True) -> Iterator[tuple[str, str]]:
    """Each page by its path in docs/; those with a talk take the most time."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        prepare_home(home, restore=True)
        (home / "outputs.toml").write_text(OUTPUTS, "utf-8")
        (home / "sim.toml").write_text(SIMULATED, "utf-8")
        board = SimBoard(script=script.load_script(home / "sim.toml", [find_shipped("tools/hw")]))
        config = Config(
            home,
            ModelConfig("http://127.0.0.1:9/v1", "any"),
            memory=MemoryConfig(embeddings="off"),
            web=WebConfig(search="duckduckgo"),
            mqtt=MqttConfig(host="127.0.0.1", fleet=True),
            mcp={"files": McpConfig(command=["a-server"])},
            people={"ada": PersonConfig("member")},
        )
        with closing(App(config, board, rehearses=True)) as app:
            pages = [*make_said(app), *make_commands()]
            pages += [("reference/settings.md", make_settings())]
            pages += [("reference/settings-connections.md", make_settings(CONNECTIONS))]
            pages += [("reference/settings-household.md", make_settings(HOUSEHOLD))]
            pages += [("reference/tools.md", make_tools(app))]
            for path, lines in pages:
                if not talks and path.startswith("talk/"):
                    continue
                title, *rest = "\n".join(lines).split("\n", 1)
                yield path, f"{title}\n\n{MADE}\n{rest[0]}\n"


def main() -> int:
    """Write the pages, or name those that are out of date."""
    stale = [(DOCS / path, text) for path, text in make_pages() if not is_current(path, text)]
    for path, text in stale:
        print(path.relative_to(ROOT))
        if "--write" in sys.argv:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
    return 0 if "--write" in sys.argv else bool(stale)


def is_current(path: str, text: str) -> bool:
    """Whether a page is as it would be made now; the times and values of a talk differ each time."""
    page = DOCS / path
    fold = fold_talk if path.startswith("talk/") else str
    return page.exists() and fold(page.read_text("utf-8")) == fold(text)


def fold_talk(text: str) -> str:
    """Leave out what is measured."""
    return re.sub(r"[▁▂▃▄▅▆▇█\s]+", " ", re.sub(r"\d+(?:\.\d+)?", "0", text))


if __name__ == "__main__":
    sys.exit(main())
