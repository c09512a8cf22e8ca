"""docs/internal/prompt.md names every template and every page, with what can be put into it and when it is sent."""

import re

from person import ROOT
from test_prompt import ORDER

from picoclaw.resources import find_shipped
from picoclaw.workspace.templates import ONBOARDING_PAGE, TEMPLATE_PAGES

PROMPT = (ROOT / "docs/internal/prompt.md").read_text()
PROMPTS = {path.name: path.read_text() for path in (find_shipped("templates") / "prompts").glob("*.md")}
ROWS = [line for line in PROMPT.splitlines() if line.startswith("| `")]


def test_each_template_is_described_with_its_placeholders():
    for name, text in PROMPTS.items():
        (row,) = [row for row in ROWS if f"`{name}`" in row.split("|")[1]]
        for place in set(re.findall(r"\{([a-z_]+)\}", text)):
            assert f"{{{place}}}" in row, (name, place)


def test_no_other_template_is_described():
    named = {name for row in ROWS for name in re.findall(r"`([a-z_]+\.md)`", row.split("|")[1])}
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
