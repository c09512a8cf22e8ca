"""SKILL.md files of every kind in real folders, through the library: what is bad is named, what is odd loads."""

import contextlib
import sys
import time
from functools import partial
from pathlib import Path

import pytest
from rows import each_row
from timing import is_in_proportion

from picoclaw.errors import SkillError
from picoclaw.skills import SkillLibrary, SkillNeeds, frontmatter


def looked_at(tmp_path, data, folder="thing"):
    """Put a SKILL.md into a folder, and return the library that has looked at it."""
    (tmp_path / "skills" / folder).mkdir(parents=True)
    (tmp_path / "skills" / folder / "SKILL.md").write_bytes(data if isinstance(data, bytes) else data.encode())
    library = SkillLibrary([("workspace", tmp_path / "skills")])
    library.refresh()
    return library


def written(given, body="text"):
    return f"---\n{given}\n---\n{body}\n"


def only(library):
    assert library.broken == []
    (skill,) = library.skills.values()
    return skill


BOMB = "\n".join(["a: &a [x, x]", *(f"{b}: &{b} [*{a}, *{a}]" for a, b in zip("abcdefgh", "bcdefghi", strict=True))])

BAD = {
    "empty file": ("", "does not begin with front matter"),
    "no front matter": ("# Weather\n\nAsk the sky.\n", "does not begin with front matter"),
    "text before it": ("Hello\n---\nname: x\ndescription: y\n---\n", "does not begin with front matter"),
    "no closing line": ("---\nname: x\ndescription: y\n", "no closing line ---"),
    "closing line too long": ("---\nname: x\ndescription: y\n----\n", "no closing line ---"),
    "long front matter": (written("name: x\ndescription: y\n" + "# z\n" * 5000), "characters; at most 16384"),
    "10 MB": (written("name: x\ndescription: y", "z" * 10_000_000), "bytes; at most 262144"),
    "10 MB of front matter": ("---\n" + "a: b\n" * 2_000_000, "bytes; at most 262144"),
    "NUL": (b"---\nname: x\ndescription: y\n---\na\0b", "NUL"),
    "UTF-16": ("---\nname: x\n---\n".encode("utf-16"), "NUL"),
    "Latin-1": ("---\nname: x\ndescription: grün\n---\n".encode("latin-1"), "not UTF-8: byte 0xfc at 27"),
    "a picture": (b"\x89PNG\r\n\x1a\n", "not UTF-8"),
    "control character": (written("name: x\ndescription: a\x1b[2Jb"), "character U+001B"),
    "no mapping but a list": (written("- name\n- description"), "not a list of `key: value` lines"),
    "no mapping but a text": (written("hello"), "not a list of `key: value` lines"),
    "nothing in it": (written(""), "not a list of `key: value` lines"),
    "billion laughs": (written(BOMB), "line 2 of the front matter has a YAML anchor or alias"),
    "alias alone": (written("name: x\ndescription: *y"), "line 3 of the front matter has a YAML anchor or alias"),
    "merge key": (written("name: x\ndescription: y\n<<: *z"), "line 4 of the front matter has a YAML anchor or alias"),
    "python object": (
        written("name: x\ndescription: !!python/object/apply:os.system ['touch /tmp/x']"),
        "line 3 of the front matter has the YAML tag !!python/object/apply:os.system",
    ),
    "tag of its own": (written("name: !mine x\ndescription: y"), "the YAML tag !mine"),
    "harmless tag": (written("name: !!str x\ndescription: y"), "the YAML tag !!str"),
    "open brackets": (written("name: x\ndescription: " + "[" * 10_000), "nested 20 deep"),
    "closed brackets": (written("name: x\ndescription: " + "[" * 5000 + "]" * 5000), "nested 20 deep"),
    "braces": (written("name: " + "{a: " * 3000 + "}" * 3000), "nested 20 deep"),
    "dashes": (written("name:\n " + "- " * 5000), "nested 20 deep"),
    "question marks": (written("? " * 5000), "nested 20 deep"),
    "brackets in JSON": (written('{"name": ' + "[" * 5000 + "]" * 5000 + "}"), "nested 20 deep"),
    "unclosed brackets in JSON": (written('{"name": ' + "[" * 10_000), "nested 20 deep"),
    "double key": (written("name: x\nname: y\ndescription: z"), "the key 'name' twice"),
    "double key far down": (written("name: x\ndescription: z\nmetadata: {a: {b: 1, b: 2}}"), "the key 'b' twice"),
    "double key in JSON": (written('{"name": "x", "description": "y", "name": "z"}'), "the key 'name' twice"),
    "list as a key": (written("? [a, b]\n: c\nname: x"), "a key that is not a word"),
    "two documents": (written("name: x\n...\nname: y"), "not YAML: line 4"),
    "impossible escape": (written('name: x\ndescription: "\\UFFFFFFFF"'), "escaped character that does not exist"),
    "unclosed quote": (written('name: x\ndescription: y\nrequires: "a'), "not YAML: line"),
    "tabs in the middle": (written("name: x\n\tdescription: y"), "not YAML (line 3"),
    "no description": (written("name: x"), "it has no description"),
    "empty description": (written("name: x\ndescription: ''"), "it has no description"),
    "null description": (written("name: x\ndescription: ~"), "it has no description"),
    "invisible description": (written("name: x\ndescription: \u200b\u202e"), "it has no description"),
    "description of many": (written("name: x\ndescription: [a, b]"), "description has to be one text"),
    "name of many": (written("name: {a: b}\ndescription: y"), "name has to be one text"),
    "path": (written("name: ../../x\ndescription: y"), "the name '../../x' is a path"),
    "dots": (written("name: a..b\ndescription: y"), "the name 'a..b' is a path"),
    "slash": (written("name: a/b\ndescription: y"), "the name 'a/b' is a path"),
    "backslash": (written("name: a\\b\ndescription: y"), "the name 'a\\\\b' is a path"),
    "Cyrillic letter": (written("name: w\u0435ather\ndescription: y"), "the name 'w\\u0435ather' holds U+0435"),
    "escaped newline": (written('name: "a\\nb"\ndescription: y'), "holds U+000A"),
    "direction override": (written('name: "a\\u202eb"\ndescription: y'), "holds U+202E"),
    "long name": (written(f"name: {'n' * 65}\ndescription: y"), "takes 1 to 64"),
    "name of marks": (written("name: '!?'\ndescription: y"), "takes 1 to 64"),
    "needs that hide": (written('name: x\ndescription: y\nrequires: {programs: "cu\\u200brl"}'), "requires: programs: 'cu\\u200brl' holds characters that cannot be seen"),
    "device elsewhere": (written("name: x\ndescription: y\nrequires: {devices: /etc/*}"), "'/etc/*' is not a path"),
    "device by dots": (written("name: x\ndescription: y\nrequires: {devices: /dev/../etc}"), "not a path below /dev"),
    "device everywhere": (written("name: x\ndescription: y\nrequires: {devices: /dev/**}"), "not a path below /dev"),
}  # fmt: skip


@pytest.mark.parametrize(("data", "problem"), BAD.values(), ids=BAD)
def test_what_is_bad_is_named_in_a_line(tmp_path, data, problem):
    began = time.process_time()
    library = looked_at(tmp_path, data)
    assert time.process_time() - began < 5
    assert library.skills == {}
    ((folder, tier, said),) = library.broken
    assert (folder, tier) == (tmp_path / "skills/thing", "workspace")
    assert problem in said
    assert "\n" not in said
    assert len(said) < 400


@each_row("mark", ["[", "{", "- ", "? ", "[{a: "])
def test_a_deep_nest_is_left_at_its_beginning(mark):
    """Counted in calls, which are the same on every machine."""
    calls = 0

    def count(*_):
        nonlocal calls
        calls += 1

    sys.setprofile(count)
    try:
        frontmatter.parse_front_matter(written("name:\n " + mark * 3000))
    except SkillError:
        pass
    finally:
        sys.setprofile(None)
    assert 100 < calls < 20_000


NAMES = {
    "weather": ("weather", ""),
    "soil_1": ("soil_1", ""),
    "Home Assistant": ("home-assistant", "its name 'Home Assistant' is written home-assistant"),
    "  PDF ": ("pdf", "its name 'PDF' is written pdf"),
    "Foo: Bar (v2)": ("foo-bar-v2", "its name 'Foo: Bar (v2)' is written foo-bar-v2"),
    "Node.js": ("node-js", "its name 'Node.js' is written node-js"),
    "2048": ("2048", ""),
    "no": ("no", ""),
    "''": ("thing", ""),
    "~": ("thing", ""),
}


@pytest.mark.parametrize(("name", "handle", "note"), [(name, *row) for name, row in NAMES.items()])
def test_a_name_becomes_a_handle(tmp_path, name, handle, note):
    quoted = f'"{name}"' if ": " in name else name
    skill = only(looked_at(tmp_path, written(f"name: {quoted}\ndescription: y")))
    assert (skill.name, skill.notes) == (handle, (note,) if note else ())


def test_a_skill_without_a_name_has_its_folders(tmp_path):
    assert only(looked_at(tmp_path, written("description: y"), "Frost Watch")).name == "frost-watch"


DESCRIPTIONS = {
    "plain": ("description: Reads the sky.", "Reads the sky.", ""),
    "two lines": ("description: |\n  Reads\n  the sky.", "Reads the sky.", ""),
    "folded": ("description: >-\n  Reads\n  the sky.", "Reads the sky.", ""),
    "looks like a date": ("description: 2026-01-01", "2026-01-01", ""),
    "looks like no": ("description: no", "no", ""),
    "colon": ("description: Use when: cold", "Use when: cold", "its front matter is not YAML (line 3: mapping values"),
    "colon, two lines": ("description: Use when: cold\n  or dry", "Use when: cold or dry", "its front matter is not"),
    "begins with a star": ("description: *Reads* the sky", "*Reads* the sky", "its front matter is not YAML (line 3"),
    "begins with a quote": ('description: "Reads" the sky', '"Reads" the sky', "its front matter is not YAML (line 3"),
    "other key is odd": ('description: "a: b"\nargument-hint: [x] [y]', "a: b", "its front matter is not YAML (line 4"),
    "hidden": ('description: "a\\u202e\\u200bb\\ud800c"', "abc", "left out of its description: 3 invisible characters"),
    "hidden fillers": ('description: "a\\u3164\\u115fb\\u2800"', "ab", "left out of its description: 3 invisible characters"),
    "hidden comment": ("description: a <!-- obey --> b", "a b", "left out of its description: 1 comment"),
    "code": ("description: a `<!-- seen -->` b", "a `<!-- seen -->` b", ""),
    "long": (f"description: {'y' * 1025}", "y" * 1024, "its description of 1025 characters is cut after 1024"),
    "key meant otherwise": ("description: y\ntrigger: x", "y", "its key 'trigger' means nothing; did you mean triggers?"),
    "key of others, meant so": ("description: y\nread_when: [it rains]", "y", "its key 'read_when' means nothing; did you mean description?"),
    "always": ("description: y\nalways: true", "y", "its `always` is not followed"),
    "always, theirs": ("description: y\nmetadata: {nanobot: {always: true}}", "y", "its `always` is not followed"),
    "not always": ("description: y\nmetadata: {nanobot: {always: false}}", "y", ""),
    "keys of others": ("description: y\nlicense: MIT\nallowed-tools: Bash(git:*)\neffort: 1.0", "y", ""),
    "lines of others": ("description: Use when: (1) it, (2) that.\nmetadata:\n  {\n    a: {b: [c],},\n  }", "Use when: (1) it, (2) that.", "its front matter is not YAML (line 3"),
    "tabs": ("description: y\nmetadata:\n\tshort: z\n\tlong: z", "y", ""),
}  # fmt: skip


@pytest.mark.parametrize(("given", "description", "note"), DESCRIPTIONS.values(), ids=DESCRIPTIONS)
def test_a_description_is_a_line(tmp_path, given, description, note):
    skill = only(looked_at(tmp_path, written(f"name: x\n{given}")))
    assert skill.description == description
    assert [note in said for said in skill.notes] == ([True] if note else [])


@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbf---\r\nname: x\r\ndescription: y\r\ntriggers: frost\r\n---\r\ntext\r\n",
        b"---  \nname: x\ndescription: y\ntriggers: [frost]\n--- \t\ntext",
        b"---\rname: x\rdescription: y\rtriggers: frost\r---\rtext",
        b'---\n{"name": "x", "description": "y", "triggers": ["frost"]}\n---\ntext',
        b'---\n{\n\t"name": "x",\n\t"description": "y",\n\t"triggers": "frost"\n}\n---\ntext',
        b"---\n{name: x, description: y, triggers: frost}\n---\ntext",
    ],
)
def test_byte_order_mark_line_ends_and_json(tmp_path, data):
    library = looked_at(tmp_path, data)
    skill = only(library)
    assert (skill.name, skill.description, skill.triggers, skill.notes) == ("x", "y", ("frost",), ())
    assert library.read_body("x") == "text"


OTHERS = '{"emoji":"x","requires":{"bins":["curl","jq"],"anyBins":["vi","ed"],"env":["KEY"]},"os":["darwin","linux"]}'
MERGED = SkillNeeds(programs=(("curl",), ("jq",), ("vi", "ed")), environment=("KEY",), systems=("darwin", "linux"))
NEEDS = {
    "nothing": ("version: 1", SkillNeeds()),
    "null": ("requires:", SkillNeeds()),
    "ours": (
        """requires:
  tools: exec
  programs: [curl, [vi, ed], a|b]
  devices: /dev/i2c-*
  parts: bme280|sht31
  environment: A, B
  os: linux""",
        SkillNeeds(
            ("exec",),
            (("curl",), ("vi", "ed"), ("a", "b")),
            ("/dev/i2c-*",),
            ("bme280|sht31",),
            ("A", "B"),
            ("linux",),
        ),
    ),
    "openclaw": (f'metadata: {{"openclaw":{OTHERS}}}', MERGED),
    "clawdbot": (f'metadata: {{"clawdbot":{OTHERS}}}', MERGED),
    "nanobot": (f'metadata: {{"nanobot":{OTHERS}}}', MERGED),
    "as a text of JSON": (f"metadata: '{{\"nanobot\":{OTHERS}}}'", MERGED),
    "a tool of an earlier version": ("requires:\n  tools: append_file|exec", SkillNeeds(("write_file|exec",))),
    "twice the same": (f'metadata: {{"nanobot":{OTHERS},"openclaw":{OTHERS}}}', MERGED),
    "without a project": (f"metadata: {OTHERS}", MERGED),
    "at the top": ("requires: {bins: [curl], anyBins: [vi, ed]}", SkillNeeds(programs=(("curl",), ("vi", "ed")))),
    "setting of another program": ("metadata: {openclaw: {requires: {config: [channels.slack]}}}", SkillNeeds(others=("config channels.slack, which means nothing here",))),
    "misspelt": ("requires: {program: curl}", SkillNeeds(others=("program curl, which means nothing here",))),
    "a text": ("requires: Python 3.8+", SkillNeeds(others=("Python 3.8+ (say what it is: tools, programs, devices, parts or environment)",))),
    "names without a kind": ("requires: [curl, jq]", SkillNeeds(others=('["curl", "jq"] (say what it is: tools, programs, devices, parts or environment)',))),
    "a mapping of remarks": ("requires: {env: {KEY: of the server}, bins: {jq: '>= 1.6'}}", SkillNeeds(programs=(("jq",),), environment=("KEY",))),
    "too deep": ("requires: {tools: [[[a]]], bins: jq}", SkillNeeds(programs=(("jq",),), others=('tools [[["a"]]], which means nothing here',))),
    "system in capitals": ("os: [Linux, macOS]", SkillNeeds(systems=("linux", "macos"))),
    "metadata of people": ("metadata: {author: me, version: 1, tags: [a, b]}", SkillNeeds()),
}  # fmt: skip


@pytest.mark.parametrize(("given", "needs"), NEEDS.values(), ids=NEEDS)
def test_needs_are_read_in_every_form(tmp_path, given, needs):
    skill = only(looked_at(tmp_path, written(f"name: x\ndescription: y\n{given}")))
    assert (skill.needs, skill.notes) == (needs, ())


def test_needs_are_kept_where_a_description_had_to_be_mended(tmp_path):
    given = "name: x\ndescription: Use when: cold\nrequires:\n  programs: [curl]"
    assert only(looked_at(tmp_path, written(given))).needs == SkillNeeds(programs=(("curl",),))


def test_metadata_that_is_no_json_is_said(tmp_path):
    skill = only(looked_at(tmp_path, written("name: x\ndescription: y\nmetadata: see the wiki")))
    assert skill.notes == ("its metadata is neither a mapping nor JSON, and was not read",)


def test_triggers_tools_and_model(tmp_path):
    given = "name: x\ndescription: y\ntriggers: too  cold, frost\ntools: [sensor_read, output]\nmodel: small"
    skill = only(looked_at(tmp_path, written(given)))
    assert (skill.triggers, skill.tools, skill.model) == (("too cold", "frost"), ("sensor_read", "output"), "small")


@pytest.mark.parametrize("key", ["triggers", "tools"])
@pytest.mark.parametrize("value", ["{Bash: true}", "[[[a]]]", "[{a: b}]"])
def test_what_is_no_list_of_names_is_not_used(tmp_path, key, value):
    skill = only(looked_at(tmp_path, written(f"name: x\ndescription: y\n{key}: {value}")))
    assert (skill.triggers, skill.tools) == ((), ())
    assert skill.notes == (f"its {key} are not a list of names, and are not used",)


MODELS = [
    ("small", "small"),
    ("qwen3:0.6b", "qwen3:0.6b"),
    ("inherit", ""),
    ("~", ""),
    ("sonnet", "'sonnet'"),
    ("opus", "'opus'"),
    ('"sm\\u200ball"', "'small'"),
    ("{primary: a}", '\'{"primary": "a"}\''),
]


@pytest.mark.parametrize(("given", "expected"), MODELS)
def test_a_model_is_a_name_of_the_server(tmp_path, given, expected):
    skill = only(looked_at(tmp_path, written(f"name: x\ndescription: y\nmodel: {given}")))
    if expected.startswith("'"):
        assert (skill.model, skill.notes) == ("", (f"its model {expected} is no model's name here, and is not used",))
    else:
        assert (skill.model, skill.notes) == (expected, ())


@pytest.mark.parametrize(
    ("trigger", "everyday"),
    [
        ("issue", True),
        ("CI", True),
        ("on", True),
        ("if", True),
        ("issue tracker", False),
        ("mqtt", False),
        ("°C", False),
    ],
)
def test_an_everyday_word_is_a_poor_trigger(tmp_path, trigger, everyday):
    skill = only(looked_at(tmp_path, written(f"name: x\ndescription: y\ntriggers: [{trigger}]")))
    note = f"its trigger {trigger!r} is an everyday word, which brings it into turns about anything"
    assert (skill.triggers, skill.notes) == ((trigger,), (note,) if everyday else ())


@pytest.mark.parametrize(
    ("more", "way"),
    [
        ("triggers: deploy", "only its triggers bring it into a turn"),
        ("", "and without triggers nothing brings it in"),
    ],
)
def test_what_a_model_may_not_call_is_not_listed(tmp_path, more, way):
    skill = only(looked_at(tmp_path, written(f"name: x\ndescription: y\ndisable-model-invocation: true\n{more}")))
    assert not skill.listed
    assert skill.notes == (f"it is neither listed nor found, {way} (disable-model-invocation)",)


def test_the_words_of_its_text_are_kept(tmp_path):
    body = "# Heat\n<!-- secret -->\nThe fan and {baseDir}/fan.sh; heat.\n" + "long " * 500 + "behind\n"
    assert only(looked_at(tmp_path, written("name: x\ndescription: y", body))).keywords == "heat fan sh long"


SHAPES = {
    "quotes": lambda n: 'a: "' + ' "' * (n // 2) + "x",
    "blanks": lambda n: "d: *a\nb:" + " " * n,
    "lines of blanks": lambda n: "d: *a\n" + (" " * 100 + "\n") * (n // 101),
    "values that go on": lambda n: "d: *a\nb: c\n" + " d\n" * (n // 3),
    "a word": lambda n: "a" * n,
    "colons": lambda n: "a:" * (n // 2),
    "escapes": lambda n: 'a: "' + "\\n" * (n // 2) + '"',
    "folds": lambda n: "a: >\n" + " b\n\n" * (n // 4),
    "a list": lambda n: "a: [" + "b," * (n // 2) + "]",
    "empty lines": lambda n: "a: b\n" + "\n" * n + "c: d",
    "ticks": lambda n: "description: " + "`" * (n // 2) + "x",
    "names": lambda n: "description: y\ntriggers: " + "a," * (n // 2),
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_time_is_in_proportion_to_the_front_matter(shape):
    """8 times the text is 8 times the work, and 64 times where the work is in the square of it."""

    def read(text):
        with contextlib.suppress(SkillError):
            frontmatter.parse_skill(text, Path("x"))

    def work(length):
        return partial(read, written(f"name: x\n{shape(length)}"))

    assert is_in_proportion(work, 2000, 16_000, 24, 0.072)


def test_triggers_have_limits(tmp_path):
    rows = ["frost", "!!", "z" * 61, *(f"word{i}" for i in range(30))]
    skill = only(looked_at(tmp_path, written(f"name: x\ndescription: y\ntriggers: {rows!r}")))
    assert skill.triggers == ("frost", *(f"word{i}" for i in range(17)))
    assert [note[:30] for note in skill.notes] == [
        "of its 33 triggers the first 2",
        "its trigger '!!' is left out: ",
        f"its trigger '{'z' * 17}",
    ]
