"""The guide in docs/: its pages are short and linked, those of the hardware work as printed, those made are up to date."""

import re
import shlex
import sys
import tomllib
from types import SimpleNamespace

import pytest
from person import ROOT, picoclaw
from recording import Clock
from rows import each_row
from test_prompt import ORDER

from picoclaw import cli
from picoclaw.agent.dispatcher import CHAT_COMMANDS
from picoclaw.config import load_config as config_of
from picoclaw.files import find_shipped
from picoclaw.hw import board as lines
from picoclaw.hw import loader
from picoclaw.hw.loader import list_drivers, load_driver
from picoclaw.hw.sim import SimBoard, script
from picoclaw.outputs import config
from picoclaw.security.policy import DEFAULTS, VerdictRow, parse_policy
from picoclaw.workspace import ONBOARDING_PAGE, TEMPLATE_PAGES

HW = [find_shipped("tools/hw")]
TEXT = "".join(
    (ROOT / f"docs/{name}.md").read_text()
    for name in ("howto/sensors", "howto/outputs", "howto/rehearse", "reference/parts")
)
BLOCKS = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)


def block(beginning):
    (found,) = [text for text in BLOCKS if text.startswith(beginning)]
    return found


def written(folder, name, beginning):
    path = folder / name
    path.write_text(block(beginning))
    return path


@pytest.fixture
def rehearsed(tmp_path):
    """The board of the rehearsal's example."""
    clock = Clock(1.78e9)
    scripted = script.load_script(written(tmp_path, "sim.toml", "[parts.greenhouse]"), HW)
    return SimBoard(clock, scripted, sleep=clock.sleep)


def drivers_of(board):
    return loader.Drivers(
        board, lambda part: load_driver(part, HW), board.wiring.clock, board._sleep, board.wiring.clock
    )


@pytest.fixture
def outputs(tmp_path):
    """The declarations of the outputs' example."""
    return config.load_outputs(written(tmp_path, "outputs.toml", "[outputs.pump]"))


def test_every_example_is_loaded_by_a_test_here():
    assert [text.splitlines()[0].strip() for text in BLOCKS] == [
        "[sensors.greenhouse]",
        "[outputs.lamp]",
        "[outputs.pump]",
        "[parts.greenhouse]",
    ]


def test_the_sensor_of_the_first_five_minutes(tmp_path):
    written(tmp_path, "config.toml", "[sensors.greenhouse]")
    found = loader.resolve_parts(config_of({"PICOCLAW_HOME": str(tmp_path)}), SimBoard())
    assert loader.describe_part(found["greenhouse"]) == "bme280 on i2c-1 at 0x76"


def test_the_rehearsal_has_what_is_read_in_it(rehearsed):
    assert sorted(rehearsed.wired()) == ["air", "greenhouse", "tank"]
    drivers = drivers_of(rehearsed)
    for name, part in rehearsed.wired().items():
        assert all(r.value is not None for r in drivers.measure(name, part)), name


def test_the_rehearsed_plug_is_loose_for_ten_seconds_after_a_minute(rehearsed):
    part, drivers, began = rehearsed.wired()["greenhouse"], drivers_of(rehearsed), rehearsed.wiring.clock()
    answers = []
    for seconds in (30, 59, 61, 69, 71, 90):
        rehearsed.wiring.clock.now = began + seconds
        answers.append(drivers.measure("greenhouse", part)[0].value is not None)
    assert answers == [True, True, False, False, True, True]


def test_the_shortest_declaration_has_no_problem(tmp_path):
    found = config.load_outputs(written(tmp_path, "outputs.toml", "[outputs.lamp]"))
    assert (found.problems, sorted(found.outputs)) == ((), ["lamp"])


def test_the_outputs_have_no_problem(outputs):
    assert outputs.problems == ()
    assert sorted(outputs.outputs) == ["heater", "pump"]
    assert outputs.stop is not None


def test_the_outputs_can_be_rehearsed_on_the_simulated_board(outputs, rehearsed):
    named = [(output.line, output.chip) for output in outputs.outputs.values()] + [
        (outputs.stop.line, outputs.stop.chip)
    ]
    places = [lines.find_line(rehearsed, line, on) for line, on in named]
    assert [place.line.offset for place in places] == [17, 27, 5]


def test_the_sensor_that_the_pump_needs_is_there(outputs, rehearsed):
    needed = outputs.outputs["pump"].needed
    part = rehearsed.wired()[needed.sensor]
    drivers = drivers_of(rehearsed)
    assert needed.quantity in drivers.quantities(part)
    (value,) = [r.value for r in drivers.measure(needed.sensor, part) if r.quantity == needed.quantity]
    assert needed.low <= value <= needed.high


# --- what an owner adds ---

YOURS = (ROOT / "docs/howto/yours.md").read_text()


def test_the_skill_and_the_sentence_of_an_owner_count(tmp_path):
    (skill,) = re.findall(r"```markdown\n(.*?)```", YOURS, re.DOTALL)
    (sentences,) = re.findall(r"```toml\n(.*?)```", YOURS, re.DOTALL)
    home = tmp_path / "picoclaw"
    (home / "workspace/skills/tomatoes").mkdir(parents=True)
    home.chmod(0o700)
    (home / "workspace/skills/tomatoes/SKILL.md").write_text(skill)
    (home / "intents").mkdir()
    (home / "intents/mine.toml").write_text(sentences)
    assert "all good" in picoclaw(tmp_path, "skills", "check").stdout
    assert "tomatoes: When to water" in picoclaw(tmp_path, "skills", "search", "tomato").stdout
    assert "°C" in picoclaw(tmp_path, "chat", "--board", "sim", "-m", "how are my babies?").stdout


# --- the table of the parts ---

ROWS = {
    row[0].strip("`"): SimpleNamespace(where=row[1], measures=row[2], options=row[3])
    for row in (
        [cell.strip() for cell in line.split("|")[1:-1]] for line in TEXT.splitlines() if line.startswith("| `")
    )
    if len(row) == 5
}


def test_the_table_lists_every_driver_and_no_other():
    assert list(ROWS) == list_drivers(HW)


def addresses(words):
    """The addresses of `0x48-0x4b, 0x23`."""
    found = set()
    for first, last in re.findall(r"0x([0-9a-f]{2})(?:-0x([0-9a-f]{2}))?", words):
        found |= set(range(int(first, 16), int(last or first, 16) + 1))
    return found


KINDS = {"i2c": "I2C", "spi": "SPI", "serial": "serial", "onewire": "1-Wire"}
ALL_CALL = 0x70  # the footnote of the table takes it out of the PCA9685's


@each_row("name", ROWS)
def test_a_part_is_where_its_row_says(name):
    module = load_driver(name, HW)
    row = ROWS[name]
    assert row.where.startswith(KINDS[loader.get_bus_kind(module)])
    if loader.get_bus_kind(module) == "i2c":
        listed = addresses(row.where) & set(range(0x08, 0x78))
        assert listed - ({ALL_CALL} if name == "pca9685" else set()) == set(module.ADDRESSES)
    if loader.get_bus_kind(module) == "serial":
        assert str(module.SERIAL.get("baud", 9600)) in row.where


@each_row("name", ROWS)
def test_a_row_has_the_drivers_options(name):
    assert set(re.findall(r"`(\w+)`", ROWS[name].options)) == set(getattr(load_driver(name, HW), "OPTIONS", {}))


@each_row("name", ROWS)
def test_a_row_names_what_the_driver_measures(name):
    quantities = {key.partition(" ")[0] for key in load_driver(name, HW).QUANTITIES}
    assert not {quantity for quantity in quantities if quantity not in ROWS[name].measures}


@each_row(("file", "said"), [("README.md", r"(\d+) drivers for parts"), ("CHANGELOG.md", r"drivers for (\d+) parts")])
def test_the_number_of_drivers_is_right(file, said):
    assert re.findall(said, (ROOT / file).read_text()) == [str(len(list_drivers(HW)))]


# --- all pages ---

PAGES = {str(path.relative_to(ROOT)): path.read_text("utf-8") for path in sorted((ROOT / "docs").rglob("*.md"))}
INTERNAL = ("docs/internal/", "docs/log.md", "docs/servers.md", "docs/figures.md")
GUIDE = [name for name in PAGES if not name.startswith(INTERNAL)]
MADE = [name for name in GUIDE if "<!-- Made by" in PAGES[name]]
OUTSIDE = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "systemd/README.md")


def read_anchors(text):
    """What a link may name in a page, as code hosts and mkdocs call its headings."""
    titles = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@each_row("name", [*PAGES, *OUTSIDE])
def test_a_link_leads_somewhere(name):
    text = re.sub(r"```.*?```|`[^`\n]*`", "", (ROOT / name).read_text("utf-8"), flags=re.DOTALL)
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)]*))?\)", text):
        path = ((ROOT / name).parent / target if target else ROOT / name).resolve()
        assert path.exists(), target
        assert name in OUTSIDE or path.is_relative_to(ROOT / "docs"), f"{target} would be missing on the site"
        assert not anchor or anchor in read_anchors(path.read_text("utf-8")), f"{target}#{anchor}"


@each_row("name", GUIDE)
def test_a_page_is_short(name):
    assert len(re.findall(r"[A-Za-z0-9][^ |\n]*", PAGES[name])) <= 1500


def test_no_sentence_stands_twice():
    seen = {}
    for name in {*GUIDE} - {*MADE}:
        text = re.sub(r"```.*?```", "\n\n", PAGES[name], flags=re.DOTALL)
        text = re.sub(r"(?m)^(\||#|\s*[-*\d]+\.? )", "\n\n", text)
        for sentence in re.split(r"(?<=[.:;?!])\s|\n\n|\|", text):
            words = " ".join(sentence.split())
            if len(words.split()) >= 6:
                assert words not in seen, f"{name} and {seen[words]}: {words}"
                seen[words] = name


def test_the_site_has_every_page():
    nav = (ROOT / "tools/mkdocs.yml").read_text("utf-8").partition("nav:")[2]
    assert sorted(re.findall(r"- (\S+\.md)", nav)) == sorted(name.removeprefix("docs/") for name in PAGES)


def test_nothing_names_a_page_that_is_not_there():
    places = [path for folder in ("picoclaw", "templates", "systemd", "tests") for path in (ROOT / folder).rglob("*")]
    texts = [path for path in places if path.suffix in {".py", ".md", ".toml", ".example"}]
    for path in [*texts, *(ROOT / name for name in ("CHANGELOG.md", *OUTSIDE, "Makefile", "pyproject.toml"))]:
        for named in re.findall(r"\bdocs/[\w/-]+\.md", path.read_text("utf-8")):
            assert (ROOT / named).exists(), f"{path.relative_to(ROOT)}: {named}"


# --- commands and settings ---

TYPED = {
    name: (ROOT / name).read_text("utf-8")
    for name in (
        *("README.md", "SECURITY.md", "docs/reference/files.md", "docs/reference/parts.md", "docs/reference/policy.md"),
        *(name for name in GUIDE if re.match(r"docs/(howto/|[^/]*$)", name) and name not in MADE),
    )
}
POLICY = TYPED["docs/reference/policy.md"] + TYPED["docs/howto/approvals.md"] + TYPED["docs/howto/audit.md"]


def list_commands():
    """What a person types for each command: without sudo, comments and the other end of a pipe."""
    for text in TYPED.values():
        blocks = "\n".join(re.findall(r"```sh\n(.*?)```", text, re.DOTALL))
        typed = re.findall(r"^.*\bpicoclaw .*$", blocks, re.MULTILINE)
        for command in [*typed, *re.findall(r"`((?:sudo )?(?:-u picoclaw )?picoclaw [^`]+)`", text)]:
            words = shlex.split(re.split(r" [|#>] ?", command.removeprefix("sudo ").removeprefix("-u picoclaw "))[0])
            if words[0] == "picoclaw" and words[1] in cli.VERBS:
                yield tuple({"N": "120", "JSON": "{}"}.get(word, word) for word in words[1:])


COMMANDS = sorted(set(list_commands()))


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_command_is_understood(words, monkeypatch, capsys):
    ran, typed = [], cli.run
    monkeypatch.setattr(cli, "run", typed)  # puts it back, once a verb of the same name has taken its place
    add_options, _ = cli.load_verb(words[0])
    monkeypatch.setattr(cli, "load_verb", lambda _: (add_options, lambda given: ran.append(given) or 0))
    done = typed([*words, *["{}"] * (words == ("policy", "explain"))])
    said = capsys.readouterr().err
    is_only_named = re.search("is missing|needs a value", said)
    assert (done, len(ran)) == (0, 1) or is_only_named, said


def test_the_commands_are_found():
    verbs = "init doctor update backup restore uninstall service page tool chat outputs stop policy approvals audit"
    assert {words[0] for words in COMMANDS} >= set(verbs.split())


@pytest.mark.parametrize("name", TYPED)
def test_the_settings_fit(tmp_path, name):
    others = {"outputs", "parts", "rules", "keys", "intents"}  # here, in test_tutorial.py and test_chain.py
    for text in re.findall(r"```toml\n(.*?)```", TYPED[name], re.DOTALL):
        if name == "docs/reference/policy.md" or others & set(tomllib.loads(text)):
            continue
        (tmp_path / "config.toml").write_text(text)
        config_of({"PICOCLAW_HOME": str(tmp_path)})


def test_the_options_of_install_sh_exist():
    text = TYPED["docs/start.md"] + TYPED["docs/howto/updates.md"]
    for option in set(re.findall(r"(?:(?<=install\.sh )|(?<=`)(?=--wheels))--\w+", text)):
        assert f"    {option})" in (ROOT / "install.sh").read_text()


def test_the_table_of_the_policy_is_the_one_in_force():
    columns = r" (\w+) \|" * len(VerdictRow._fields)
    rows = re.findall(rf"^\| (\w+) \| [^|]+ \|{columns}$", POLICY, re.MULTILINE)
    assert {name: verdicts for name, *verdicts in rows[1:]} == {name: list(row) for name, row in DEFAULTS.items()}


def test_the_rules_of_the_policy_have_no_mistake():
    (text,) = re.findall(r"```toml\n(.*?)```", POLICY, re.DOTALL)
    policy, problems = parse_policy(tomllib.loads(text))
    assert problems == ()
    assert policy.verdict("exec", "", "guest")[0] == "refuse"


def test_the_commands_of_a_chat_exist():
    named = set(re.findall(r"`/(\w+)", POLICY))
    assert {"approvals", "yes", "no", "always"} <= named <= {name.lstrip("/") for name in CHAT_COMMANDS}


# --- the templates and pages of docs/internal/prompt.md ---

PROMPT = PAGES["docs/internal/prompt.md"]
PROMPTS = {path.name: path.read_text() for path in (find_shipped("templates") / "prompts").glob("*.md")}
PROMPT_ROWS = [line.split("|") for line in PROMPT.splitlines() if line.startswith("| `")]


def test_each_template_is_described_with_its_placeholders():
    for name, text in PROMPTS.items():
        (row,) = [row for row in PROMPT_ROWS if f"`{name}`" in row[1]]
        for place in set(re.findall(r"\{([a-z_]+)\}", text)):
            assert any(f"{{{place}}}" in cell for cell in row), (name, place)


def test_no_other_template_is_described():
    named = {name for row in PROMPT_ROWS for name in re.findall(r"`([a-z_]+\.md)`", row[1])}
    assert named == set(PROMPTS)


def test_the_modes_of_a_section():
    section = PROMPT.partition("## The system text")[2].partition("\n## ")[0]
    rows = [line.split("|") for line in section.splitlines() if line.startswith("| `")]
    for row in rows:
        name = row[1].strip().strip("`").removesuffix(".md")
        if name in {"file", "skills_search"}:
            continue
        for mode in ("full", "minimal", "base", "coordinator"):
            said = mode in row[4] or (mode == "coordinator" and "full" in row[4])
            assert said == (name in ORDER[mode].split()), (name, mode)
    order = [row[1].strip().strip("`").removesuffix(".md") for row in rows]
    shown = [name for name in order if name in ORDER["coordinator"].split()]
    assert shown == [name for name in ORDER["coordinator"].split() if name in order]


def test_the_owners_pages_are_described():
    section = PROMPT.partition("## Your files")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `([^`]+)`", section, re.MULTILINE)) == {*TEMPLATE_PAGES, ONBOARDING_PAGE}


# --- the pages that are made ---


@pytest.mark.long
def test_the_talks_are_had_as_they_are_shown():
    sys.path.append(str(ROOT / "tests/bench"))
    from guide import is_current, make_pages

    stale = [path for path, text in make_pages() if not is_current(path, text)]
    assert not stale, "run `python tests/bench/guide.py --write`"
