"""`picoclaw memory`, run as its user runs it: with and without a home, a model, numpy, beside a chat, on bad files."""

import json
import os
import re
import shlex
import socket
import subprocess
import sys
from datetime import datetime

import pytest
import sweep
from model_server import ModelServer, raw, reply
from person import ROOT, Person, environment, picoclaw
from sandbox_kit import needs_walls

from picoclaw import cli
from picoclaw.config.tables import MemoryConfig
from picoclaw.records import asdict

NOTES = {
    "memory/MEMORY.md": "# Memory\n\n## Pump\n\n- the pump's fuse is 3 A\n- the filter came from Hagen\n",
    "memory/202603/20260301.md": "# 2026-03-01\n\n- 14:05 the boiler is at 1.2 bar\n- 14:09 the cat is called Minka\n",
    "memory/202603/20260302.md": "# 2026-03-02\n\n- 09:00 seeds of tomatoes ordered from the nursery\n",
}


class Home:
    """A home folder with notes."""

    def __init__(self, base):
        self.base = base
        self.folder = base / "picoclaw"
        self.workspace = self.folder / "workspace"
        self.index = self.folder / "memory.db"

    def put(self, path, text):
        path = self.workspace / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())

    def settings(self, text):
        (self.folder / "config.toml").write_text(text)

    def run(self, *words, **more):
        return picoclaw(self.base, *words, **more)

    def __call__(self, *words, code=0, verb="memory", **more):
        verbs = (verb,) if isinstance(verb, str) else verb
        done = self.run(*verbs, *words, **more)
        assert (done.returncode, "Traceback" in done.stderr) == (code, False), done.stdout + done.stderr
        return done.stdout + done.stderr

    def found(self, *words, **more):
        answer, *_ = self("search", "--json", *words, **more).splitlines()  # what is wrong with vectors follows
        return json.loads(answer)

    def stats(self, **more):
        return json.loads(self("stats", "--json", **more))

    def doctor(self, **more):
        told = json.loads(self.run("doctor", "--board", "sim", "--json", **more).stdout)
        return {row["name"]: row for row in told}


@pytest.fixture
def fresh(tmp_path):
    return Home(tmp_path)


@pytest.fixture
def home(fresh):
    for path, text in NOTES.items():
        fresh.put(path, text)
    fresh.folder.chmod(0o700)
    return fresh


@pytest.fixture
def without_numpy(tmp_path):
    """The variables of a machine whose numpy does not load, and says so in its own many lines."""
    return pretended(tmp_path, "raise ImportError('libopenblas.so.0: cannot open shared object file\\nSee the FAQ')")


ALL_GOOD = "good   memory: the index agrees with the notes\n"


def pretended(tmp_path, code):
    (tmp_path / "shim/numpy").mkdir(parents=True)
    (tmp_path / "shim/numpy/__init__.py").write_text(code)
    return {"PYTHONPATH": os.pathsep.join(filter(None, [str(tmp_path / "shim"), os.environ.get("PYTHONPATH")]))}


# --- search ---


def test_a_search_says_what_is_where_and_how_well_it_fits(home):
    first, second = home("search", "how", "strong", "is", "the", "pump's", "fuse?").splitlines()[:2]
    assert re.fullmatch(r"\[id:\d+\]  [01]\.\d\d  memory/MEMORY\.md:\d+-\d+  Memory > Pump", first)
    assert second.startswith("    ")
    assert "the pump's fuse is 3 A" in second
    dated = home("search", "boiler").splitlines()[0]
    assert re.search(r"memory/202603/20260301\.md:\d+-\d+  2026-03-01$", dated)


def test_a_search_as_json(home):
    [hit] = home.found("boiler", "-n", "1")
    assert hit | {"path": "memory/202603/20260301.md", "day": "2026-03-01"} == hit
    assert {"id", "start", "end", "heading", "score", "snippet"} <= hit.keys()


@pytest.mark.parametrize(("words", "count"), [(["-n", "1"], 1), (["-n", "2", "--least", "0"], 2)])
def test_a_search_gives_no_more_than_it_is_asked_for(home, words, count):
    assert len(home.found("the boiler, the pump and the tomatoes", *words)) == count


def test_below_the_least_score_hits_are_uncertain(home):
    asked = "the pump in the cellar of the grandmother's house"
    assert home.found("the pump", "--least", "0.1")[0]["is_certain"]
    assert [hit["is_certain"] for hit in home.found(asked, "--least", "1")][:1] == [False]
    first, second = home("search", asked, "--least", "1").splitlines()[:2]
    assert first == f"no note says anything about {asked!r} for certain; perhaps:"
    assert re.match(r"\[id:\d+\]  0\.\d\d uncertain  memory/", second)


def test_the_owner_sets_the_least_score(home):
    (home.folder / "config.toml").write_text("[memory]\nmin_score = 1.0\n")
    assert home("search", "the pump in the greenhouse").startswith("no note says anything about")


@pytest.mark.parametrize("query", ["", "  "])
def test_an_empty_question_is_told(home, query):
    assert home("search", query, code=1) == "picoclaw: the question is empty; say what to look for\n"


def test_a_search_says_why_there_are_no_vectors(home, without_numpy):
    done = picoclaw(home.base, "memory", "search", "--json", "boiler", **without_numpy)
    assert json.loads(done.stdout)[0]["day"] == "2026-03-01"
    assert done.stderr.startswith("picoclaw: numpy cannot be loaded: libopenblas.so.0")


def test_a_person_sees_how_far_a_new_index_is(home):
    with Person(home.base, "memory", "search", "boiler") as person:
        person.sees("100 %")
        person.sees("the boiler is at 1.2 bar")
        assert person.leaves() == 0


def test_nothing_found_is_said(home):
    assert home("search", "zeppelin") == "no note says anything about 'zeppelin'\n"
    assert home.found("zeppelin") == []


@pytest.mark.parametrize("query", ['"', "NEAR(", "* OR -", "🦊", "水泵", "x" * 10_000, "a AND (b", "\x1b[2J"])
def test_no_query_is_syntax(home, query):
    said = home("search", "--", query)
    assert "\x1b" not in said
    assert "error" not in said.lower()


@pytest.mark.parametrize(
    "words",
    [
        ["search"],
        ["search", "x", "-n", "0"],
        ["search", "x", "-n", "many"],
        ["search", "x", "--least", "2"],
        ["search", "x", "--least", "nan"],
        ["get"],
        ["forget"],
        [],
    ],
)
def test_wrong_usage_is_2(home, words):
    assert "(picoclaw memory --help)\n" in home(*words, code=2)


# --- get and notes ---


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("memory/MEMORY.md:5", "- the pump's fuse is 3 A\n"),
        ("workspace/memory/MEMORY.md:5-5", "- the pump's fuse is 3 A\n"),
        ("./memory/MEMORY.md:5-99", "- the pump's fuse is 3 A\n- the filter came from Hagen\n"),
        ("memory/202603/20260302.md", NOTES["memory/202603/20260302.md"]),
    ],
)
def test_a_note_is_printed_by_its_lines(home, place, said):
    assert home("get", place) == said


def test_what_was_found_is_printed_by_its_id(home):
    [hit] = home.found("boiler", "-n", "1")
    for form in (f"{hit['id']}", f"[id:{hit['id']}]", f"id:{hit['id']}"):
        assert "the boiler is at 1.2 bar" in home("get", form)


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("memory/MEMROY.md", "did you mean 'memory/MEMORY.md'?"),
        ("AGENTS.md", "'AGENTS.md' is no note"),
        ("../config.toml", "'../config.toml' is no note"),
        ("memory/MEMORY.md:99", "memory/MEMORY.md has 6 lines, no 99"),
        ("memory/MEMORY.md:0", "memory/MEMORY.md has 6 lines, no 0"),
        ("memory/MEMORY.md:4-2", "memory/MEMORY.md has 6 lines, no 4-2"),
        ("987654", "987654"),
        ("", "a path or an id is missing"),
        ("\x1b[2J", "is no note"),
    ],
)
def test_what_is_not_there_is_said_in_one_line(home, place, said):
    (home.workspace / "AGENTS.md").write_text("rules")
    words = home("get", place, code=1)
    assert said in words
    assert words.count("\n") == 1
    assert "\x1b" not in words


def test_the_notes_are_listed(home):
    lines = home("notes").splitlines()
    assert [line.split()[-1] for line in lines[:-1]] == sorted(NOTES)
    assert lines[-1].startswith("3 files, ")


def test_no_link_leads_out(home, tmp_path):
    (tmp_path / "secret.md").write_text("the password is hunter22\n")
    (home.workspace / "memory/link.md").symlink_to(tmp_path / "secret.md")
    assert "a link that leads out of the workspace" in home("notes")
    assert "hunter22" not in home("get", "memory/link.md", code=1) + home("search", "password")


def test_what_notes_hold_cannot_drive_the_terminal(home):
    home.put("memory/ev\x1bil.md", "# \x1b]0;title\x07\n\nthe walrus \x1b[2J sings\n")
    said = home("notes") + home("search", "walrus") + home("get", "memory/ev\x1bil.md")
    assert "walrus" in said
    assert "\x1b" not in said


# --- the index ---


def test_the_index_is_told_in_one_line_where_nobody_watches(home):
    for path in NOTES:  # what was written within two seconds is read once more
        os.utime(home.workspace / path, (1.7e9, 1.7e9))
    assert re.fullmatch(r"3 files, 3 read again, \d+ parts written, \d+ vectors made\n", home("index"))
    assert home("index") == "3 files, 0 read again, 0 parts written, 0 vectors made\n"
    assert re.fullmatch(r"3 files, 3 read again, \d+ parts written, \d+ vectors made\n", home("index", "--rebuild"))


def test_a_person_sees_how_far_it_is(home):
    with Person(home.base, "memory", "index") as person:
        seen = person.sees("vectors made")
        assert person.leaves() == 0
    assert re.search(r"\r\[#+ *\] +\d+ %", seen)
    assert "\n" not in seen.rpartition("\x1b[K")[0]


def test_the_index_can_be_deleted_and_built_again(home):
    before = [(hit["path"], hit["start"], hit["score"]) for hit in home.found("boiler")]
    for file in home.folder.glob("memory.db*"):
        file.unlink()
    assert [(hit["path"], hit["start"], hit["score"]) for hit in home.found("boiler")] == before
    home("index", "--rebuild")
    assert [(hit["path"], hit["start"], hit["score"]) for hit in home.found("boiler")] == before


def test_the_stats(home):
    home("index")
    stats = home.stats()
    assert stats["files"] == 3
    assert stats["chunks"] == stats["vectors"] > 0
    assert stats["embeddings"] == "local"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", stats["changed"])
    said = home("stats")
    assert f"files: {stats['files']}\n" in said
    assert "problem" not in said


def test_the_stats_name_what_was_wrong(home):
    (home.workspace / "memory/link.md").symlink_to("/etc/hostname")
    assert "problem: memory/link.md: it is a link that leads out of the workspace" in home("stats")


def test_a_good_index_is_all_good(home):
    assert home("check") == ALL_GOOD


def test_a_damaged_index_is_mended_and_that_is_said(home):
    home("index")
    home.index.write_bytes(os.urandom(8192))
    said = home("check")
    assert home.index.read_bytes().startswith(b"SQLite format 3\0")
    assert home("check") == ALL_GOOD, said
    assert home.found("boiler")


def test_what_stays_wrong_is_named_and_ends_with_1(home):
    home.put("memory/picture.md", b"\x89PNG\0\0")
    said = home("check", code=1)
    assert said.startswith("bad    memory: memory/picture.md: it holds NUL bytes")
    assert said.count("\n") == 1


# --- with less than usual ---


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["search", "x"], 0),
        (["notes"], 0),
        (["index"], 0),
        (["stats"], 0),
        (["check"], 0),
        (["dream"], 0),
        (["dreams"], 0),
        (["get", "1"], 1),
        (["review"], 1),
        (["restore"], 1),
    ],
)
def test_without_a_home_that_is_said_and_nothing_is_made(fresh, words, code):
    said = fresh(*words, code=code)
    assert said.removeprefix("picoclaw: ").startswith("nothing is remembered yet: ")
    assert "picoclaw init" in said
    assert list(fresh.base.iterdir()) == []


def test_without_a_home_json_is_empty(fresh):
    assert (fresh.found("x"), fresh.stats()) == ([], {})


def test_a_home_without_notes(fresh):
    fresh.folder.mkdir(mode=0o700)
    assert fresh.found("anything") == []
    assert fresh("notes").startswith("0 files")
    assert fresh("index").startswith("0 files")
    assert fresh("check") == ALL_GOOD
    assert "is no note: there is none yet" in fresh("get", "memory/MEMORY.md", code=1)


def test_without_numpy_words_find_everything(home, without_numpy):
    [hit] = home.found("what fuse has the pump?", "-n", "1", **without_numpy)
    assert "3 A" in hit["snippet"]
    assert "numpy cannot be loaded: libopenblas.so.0" in home("index", **without_numpy)
    stats = home.stats(**without_numpy)
    assert stats["chunks"] > 0
    assert stats["vectors"] == 0
    assert home("check", **without_numpy) == ALL_GOOD
    said = home("--board", "sim", "-m", "what did I note about the boiler?", verb="chat", **without_numpy)
    assert "1.2 bar" in said


def test_when_numpy_is_back_what_has_no_vector_gets_one(home, without_numpy):
    home.found("pump", **without_numpy)
    assert home.stats()["vectors"] == 0
    home("index")
    assert home.stats()["vectors"] == home.stats()["chunks"]


@pytest.mark.parametrize("settings", ["[memory]\nembeddings = 'off'", "[memory]\nembeddings = 'server'"])
def test_without_embeddings_words_find_everything(home, settings):
    home.settings(settings)
    assert home.found("pump fuse")
    assert home.stats()["vectors"] == 0


def test_an_embedding_server_that_is_away_is_no_error(home):
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    home.settings(
        f"[memory]\nembeddings = 'server'\nembedding_model = 'm'\nembedding_url = 'http://127.0.0.1:{port}/v1'"
    )
    assert home.found("pump fuse")
    row = home.doctor()["embeddings"]
    assert row["status"] == "bad"
    assert "127.0.0.1" in row["detail"]


def embedding(body):
    """Answer as an embedding server does, with vectors that say how long a text is."""
    entries = [{"index": i, "embedding": [1.0, len(text) / 100, 0.5]} for i, text in enumerate(body["input"])]
    return raw(json.dumps({"data": entries}).encode())


def test_an_embedding_server_is_used_and_gets_the_key_that_is_meant_for_it(home):
    (home.folder / "secrets.toml").write_text("api_key = 'for-the-model'\nembedding_key = 'for-the-vectors'\n")
    (home.folder / "secrets.toml").chmod(0o600)
    with ModelServer(embedding) as server:
        home.settings(
            f"[memory]\nembeddings = 'server'\nembedding_model = 'long'\nembedding_url = '{server.url}/'"
            "\n[model]\nbase_url = 'http://127.0.0.1:9/v1'\n"
        )
        home("index")
        stats = home.stats()
        assert (stats["vectors"], stats["model"]) == (stats["chunks"], "long")
        assert home.found("pump fuse")
        assert home.doctor()["embeddings"]["detail"] == "long, 3 numbers per text"
    assert {request.path for request in server.requests} == {"/v1/embeddings"}
    assert {request.headers["authorization"] for request in server.requests} == {"Bearer for-the-vectors"}


def test_another_model_makes_all_vectors_anew(home):
    home("index")
    assert home.stats()["model"].startswith("minilm")
    with ModelServer(embedding) as server:
        home.settings(f"[memory]\nembeddings = 'server'\nembedding_model = 'long'\nembedding_url = '{server.url}'")
        home("index")
        stats = home.stats()
    assert (stats["vectors"], stats["model"]) == (stats["chunks"], "long")


def test_it_works_beside_a_chat(home):
    with Person(home.base, "chat", "--board", "sim") as owner:
        owner.sees("> ")
        owner.types("what did I note about the boiler?\n")
        owner.sees("1.2 bar")
        home("index", "--rebuild")
        assert home.found("boiler")
        owner.sees("> ")
        owner.types("note that the walrus sings\n")
        owner.sees("noted")
        assert home.found("walrus")
        owner.sees("> ")
        owner.types("what did I note about the walrus?\n")
        owner.sees("sings")


# --- dreams ---

BETTER = "# Memory\n\n## Pump\n\n- The pump's fuse is 3 A.\n- The filter came from Hagen.\n- The cat is called Minka.\n"


@pytest.fixture
def dreaming(home):
    """A home whose model answers with a better MEMORY.md, and what the files say before and after."""
    today = datetime.now().astimezone()
    home.put(f"memory/{today:%Y%m}/{today:%Y%m%d}.md", f"# {today:%Y-%m-%d}\n\n- 00:01 the cat is called Minka\n")
    with ModelServer(lambda _: reply(BETTER)) as server:
        home.model = {"PICOCLAW_BASE_URL": server.url, "PICOCLAW_MODEL": "scripted"}
        home.memory = home.workspace / "memory/MEMORY.md"
        yield home


def test_a_dream_is_kept_listed_and_taken_back(dreaming):
    home, before = dreaming, NOTES["memory/MEMORY.md"]
    assert home("dreams").startswith("no dreams and no corrections yet")
    assert "memory/MEMORY.md written anew" in home("dream", **home.model)
    dreamt = home.memory.read_text()
    assert "Minka" in dreamt
    record, version = home("dreams").splitlines()
    assert "written anew" in record
    assert version.startswith("  1  ")
    assert "`picoclaw memory restore 1` takes that back" in home("restore")
    assert home.memory.read_text() == before
    home("restore", "1")
    assert home.memory.read_text() == dreamt


def test_a_dream_without_a_change_changes_nothing(dreaming):
    home = dreaming
    home("dream", **home.model)
    assert home("dream", **home.model) == "nothing has changed since the last dream\n"


def test_without_a_model_a_dream_says_so_and_leaves_the_memory(dreaming):
    said = dreaming("dream")
    assert "MEMORY.md and the tasks stay as they are: no model is set up: `picoclaw init` does that" in said
    assert dreaming.memory.read_text() == NOTES["memory/MEMORY.md"]


def test_a_review_takes_a_model(dreaming):
    assert "a review takes a model" in dreaming("review", code=1)
    assert dreaming("review", **dreaming.model) == "no task was changed\n"


def test_a_dream_whose_server_is_away_says_so(dreaming):
    said = dreaming("dream", code=1, **dreaming.model | {"PICOCLAW_BASE_URL": "http://127.0.0.1:9/v1"})
    assert "did not answer" in said
    assert dreaming.memory.read_text() == NOTES["memory/MEMORY.md"]


def test_what_a_dream_did_is_told_also_when_it_cannot_be_recorded(dreaming):
    log = dreaming.folder / "memory-history/dreams.log"
    log.mkdir(parents=True)
    said = dreaming("dream", code=1, **dreaming.model)
    assert "memory/MEMORY.md written anew" in said
    assert "memory-history cannot be written" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("restore", "abc"), "N: 'abc' is not a whole number from 1 to 100"),
        (("restore", "0"), "N: '0' is not a whole number from 1 to 100"),
        (("search", "pump", "-n", "9" * 5000), "is not a whole number from 1 to 100"),
    ],
)
def test_a_number_that_is_none_is_named(home, words, said):
    assert said in home(*words, code=2)


@pytest.mark.parametrize("number", ["1", "7"])
def test_a_version_that_is_not_there_is_named(home, number):
    assert f"there is no earlier version {number} of MEMORY.md; there is none" in home("restore", number, code=1)


def test_a_memory_md_of_another_project_is_used_and_folders_of_programs_are_not(home):
    home.put("memory.md", "- the gate code is 4711\n")
    home.put("memory/node_modules/left-pad/README.md", "- zebra padding\n")
    home.put("memory/mine/venv/lib/zebra.md", "- zebra\n")
    assert [hit["path"] for hit in home.found("gate", "code")] == ["memory.md"]
    assert home.found("zebra") == []
    assert "node_modules" not in home("notes")
    assert "- the gate code is 4711" in home("get", "memory.md:1")
    assert "- the gate code is 4711" in picoclaw(home.base, "prompt", "--board", "sim").stdout
    home('{"old": "code is 4711", "new": "code is 4712"}', verb=("tool", "memory_update"))
    assert "code is 4712 (changed" in (home.workspace / "memory.md").read_text()


def test_a_correction_is_listed_and_taken_back(home):
    before = (home.workspace / "memory/202603/20260301.md").read_text()
    home('{"old": "1.2 bar", "new": "1.5 bar"}', verb=("tool", "memory_update"))
    assert "1.5 bar (changed" in (home.workspace / "memory/202603/20260301.md").read_text()
    assert "  1  " in (listed := home("dreams"))
    assert (
        'memory/202603/20260301.md: "- 14:05 the boiler is at 1.2 bar" became "- 14:05 the boiler is at 1.5' in listed
    )
    said = home("restore")
    assert said == (
        'memory/202603/20260301.md says "- 14:05 the boiler is at 1.2 bar" again;'
        " `picoclaw memory restore 1` takes that back\n"
    )
    assert (home.workspace / "memory/202603/20260301.md").read_text() == before


def test_a_note_is_not_deleted_for_one_of_its_words(home):
    before = (home.workspace / "memory/202603/20260302.md").read_text()
    said = home('{"text": "nursery"}', code=1, verb=("tool", "memory_forget"))
    assert "waits for the owner's yes" in said
    assert (home.workspace / "memory/202603/20260302.md").read_text() == before
    assert "seeds of tomatoes ordered from the nursery" in home("show", "1", verb="approvals")


# --- doctor ---


def test_the_doctor_tells_of_the_memory_and_changes_nothing(home):
    found = home.doctor()
    assert (found["notes"]["status"], found["embeddings"]["status"]) == ("good", "good")
    assert "3 files" in found["notes"]["detail"]
    assert "not created yet" in found["notes"]["detail"]
    assert "minilm" in found["embeddings"]["detail"]
    assert not home.index.exists()
    home("index")
    before = home.index.stat().st_mtime_ns
    assert f"{home.stats()['chunks']} passages" in home.doctor()["notes"]["detail"]
    assert home.index.stat().st_mtime_ns == before


def test_the_doctor_names_a_numpy_that_does_not_load(home, without_numpy):
    row = home.doctor(**without_numpy)["embeddings"]
    assert row["status"] == "bad"
    assert row["detail"].startswith("numpy cannot be loaded: libopenblas.so.0")
    assert 'embeddings = "off"' in row["fix"]


def test_the_doctor_outlives_a_numpy_for_another_processor(home, tmp_path):
    shim = pretended(tmp_path, "import os, signal\nos.kill(os.getpid(), signal.SIGILL)")
    row = home.doctor(**shim)["embeddings"]
    assert (row["status"], row["detail"]) == ("bad", "loading numpy ended Python: Illegal instruction")


@pytest.mark.parametrize(
    ("settings", "mark", "said"),
    [
        ("embeddings = 'off'", "good", "off: notes are found by keywords only"),
        ("embeddings = 'server'", "bad", 'embeddings = "server" needs embedding_model'),
        ("embeddings = 'server'\nembedding_model = 'm'", "bad", "needs embedding_url"),
    ],
)
def test_the_doctor_names_what_the_settings_lack(home, settings, mark, said):
    home.settings(f"[memory]\n{settings}\n")
    row = home.doctor()["embeddings"]
    assert row["status"] == mark
    assert said in row["detail"]


def test_the_doctor_says_that_an_index_is_damaged(home):
    home.index.write_bytes(b"no database" * 1000)
    assert "memory.db cannot be read just now" in home.doctor()["notes"]["detail"]


# --- the documents ---

DOCS = (ROOT / "docs/howto/memory.md").read_text()
COMMANDS = sorted(
    {
        line
        for text in (DOCS, (ROOT / "README.md").read_text())
        for line in re.findall(r"^picoclaw memory .*", text, re.MULTILINE)
    }
    | set(re.findall(r"`(picoclaw memory \w[^`]*)`", DOCS))
)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_documents_is_understood(command, monkeypatch, capsys):
    ran = []
    monkeypatch.setattr("picoclaw.cli.memory.run", lambda given: ran.append(given) or 0)
    assert cli.run(shlex.split(command, comments=True)[1:]) == 0, capsys.readouterr().err
    assert len(ran) == 1


def test_the_documents_name_every_setting_with_its_usual_value():
    rows = dict(re.findall(r"^\| `(\w+)` \|([^|]*)\|", DOCS.partition("## Settings")[2], re.MULTILINE))
    usual = {name: value for name, value in asdict(MemoryConfig()).items() if not name.startswith("embedding_")}
    assert rows.keys() == asdict(MemoryConfig()).keys()
    assert {name: rows[name].strip("` ") for name in usual} == {
        name: json.dumps(value) for name, value in usual.items()
    }


# --- what is imported ---


def numpy_is_imported(home, verb, *words):
    code = (
        f"import sys; from picoclaw.cli import run; code = run({[verb, *words]!r}); print('numpy' in sys.modules, code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(home.base), capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout.splitlines()[-1]


SEARCHES_NOTHING = [
    ["chat", "--board", "sim", "-m", "note that the walrus sings"],
    ["tools", "--board", "sim"],
    ["memory", "notes"],
    pytest.param(["doctor", "--board", "sim"], marks=needs_walls),  # without them it has something to say
    ["chat", "--board", "sim", "-m", "hello"],
    ["memory", "stats"],
    ["memory", "get", "memory/MEMORY.md"],
    ["chat", "--board", "sim", "-m", "how warm is it?"],
    ["prompt", "--board", "sim"],
]


@pytest.mark.sweep
@pytest.mark.parametrize("words", sweep.sample(SEARCHES_NOTHING, 3), ids=" ".join)
def test_numpy_is_not_imported_unless_something_is_searched(home, words):
    home("index")
    assert numpy_is_imported(home, *words) == "False 0"


@pytest.mark.parametrize(
    "words", [["memory", "search", "pump"], ["chat", "--board", "sim", "-m", "what did I note about the pump?"]]
)
def test_numpy_is_imported_by_a_search(home, words):
    assert numpy_is_imported(home, *words) == "True 0"
