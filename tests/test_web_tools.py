"""web_fetch and web_search as a model calls them: what they give, and where a tainted turn may go unasked."""

import json
from datetime import UTC, datetime

import pytest
from recording import toolset as make_toolset
from rows import each_row
from web_server import PUBLIC, WebServer, html, leads, said

from picoclaw.app import App
from picoclaw.config import load_config
from picoclaw.errors import ConfigError, Pending
from picoclaw.hw.sim import SimBoard
from picoclaw.messages import Caller, ToolCall
from picoclaw.prompts import count_tool_bytes
from picoclaw.security.guard import Guard
from picoclaw.security.policy import CallRequest, Policy, decide
from picoclaw.stores import list_secrets
from picoclaw.tools.registry import Toolset
from picoclaw.tools.web import WebFetchTool, WebSearchTool

HERE = "http://example.com"


class Hands:
    """The tools behind a real guard, on a web of one page after another."""

    def __init__(self, server, names=None, engine="off", **named):
        pages = WebFetchTool({}, 5.0, server.web(names))
        groups = [pages] if engine == "off" else [pages, WebSearchTool(pages, engine, **named)]
        self.asked = []
        self.tools = Toolset(
            groups, guard=Guard(Policy, keep=self._keep), journal=lambda *_: None, longest_result=16_000
        )

    def _keep(self, asked, _caller, _decision):
        self.asked.append(asked)
        return len(self.asked)

    def fetch(self, url, caller, **more):
        return self.tools.call(ToolCall("1", "web_fetch", {"url": url} | more), caller)

    def search(self, query, caller):
        return self.tools.call(ToolCall("1", "web_search", {"query": query}), caller)


def caller(*said_, origin="owner", session="s", heard=(), **more):
    return Caller(
        session, origin, datetime(2026, 7, 1, tzinfo=UTC), lambda _: None, set(heard), user_texts=said_, **more
    )


PAGE = html("<title>News</title><p>Hi <a href='/next'>next</a> <a href='http://other.example.net/'>other</a>")


def test_a_page_is_read():
    with WebServer({"/": PAGE, "/data.json": said('{"a": 1}', content_type="application/json")}) as server:
        hands, me = Hands(server), caller()
        assert hands.fetch(HERE, me) == f"{HERE}/\n\nNews\n\nHi next other"
        assert "Hi next (http://example.com/next) other (http://other" in hands.fetch(HERE, me, links=True)
        assert hands.fetch(f"{HERE}/data.json", caller()) == f'{HERE}/data.json\n\n{{"a": 1}}'
        assert hands.fetch("http://127.0.0.1/", caller()).startswith("error: 127.0.0.1 is not a public address")
    assert any(heard.startswith("web_fetch http://example.com") for heard in me.taints)


TAINTED = {"web_fetch https://elsewhere.example.org/"}


@each_row(
    ("words", "url", "origin", "goes"),
    [
        (f"read {HERE}/a", f"{HERE}/a", "owner", True),
        ("what does example.com/a say", f"{HERE}/a", "web", True),
        (f"read {HERE}/a", f"{HERE}/a", "cron", True),
        (f"read {HERE}/a", f"{HERE}/a?secret=hunter2", "owner", False),
        (f"read {HERE}/a", f"{HERE}/b", "owner", False),
        (f"read {HERE}/a", "http://example.com.evil.example.net/a", "owner", False),
        ("read something", f"{HERE}/a", "owner", False),
        (f"<report name='x'>{HERE}/a</report>\n<moment>now</moment>\nwhat did it say?", f"{HERE}/a", "owner", False),
        (f"<report name='x'>-</report>\n<moment>now</moment>\nread {HERE}/a", f"{HERE}/a", "owner", True),
        (f"read {HERE}/a", f"{HERE}/a", "subagent", False),  # its words are a model's
        (f"read {HERE}/a", f"{HERE}/a", "guest", False),  # asks in any case
    ],
)
def test_a_tainted_turn_goes_unasked_where_a_persons_word_leads(words, url, origin, goes):
    with WebServer({"/a": html("hi"), "/b": html("hi")}) as server:
        hands = Hands(server)
        result = hands.fetch(url, caller(words, origin=origin, heard=TAINTED))
    assert bool(server.seen) is goes
    assert bool(hands.asked) is not goes
    assert ("waits for the owner's yes" in result) is not goes


def test_links_of_the_page_and_its_own_host_are_followed_unasked():
    answers = {"/": PAGE, "/next": html("more"), "/away": leads("http://other.example.net/deep")}
    with WebServer({**answers, "/deep": PAGE}) as server:
        hands, me = Hands(server, {"other.example.net": [PUBLIC]}), caller()
        hands.fetch(HERE, me)
        assert hands.fetch(f"{HERE}/next", me).endswith("more")
        assert hands.fetch(HERE, me).endswith("other")
        for elsewhere in ("http://other.example.net/", f"{HERE}/next?x=hunter2", f"{HERE}/away"):
            assert "waits for the owner's yes" in hands.fetch(elsewhere, me)
        assert "waits" in hands.fetch(f"{HERE}/next", caller(session="another", heard=TAINTED))
        assert hands.fetch(f"{HERE}/next", caller(session="subagent", reply_to="s", heard=TAINTED)).endswith("more")
    assert len(server.seen) == 4


@each_row(
    ("more", "goes"),
    [
        ({}, True),
        ({"heard": {"web_search figs"}}, True),
        ({"heard": {"read_file diary.md"}}, False),
        ({"heard": {"a picture"}}, False),
        ({"private": {"read_file"}}, False),  # the owner's own page, which brings no taint
        ({"private": {"memory_search"}}, False),
        ({"private": {"a summary"}}, False),
    ],
)
@each_row("where", ["/2", ""])
def test_after_something_private_was_read_no_page_has_a_link_chosen(more, goes, where):
    with WebServer(
        {"": html("9"), "/": html("".join(f"<a href='/{n}'>{n}</a>" for n in range(10))), "/2": html("2")}
    ) as server:
        hands = Hands(server)
        hands.fetch(HERE, caller(f"read {HERE}"))
        result = hands.fetch(f"{HERE}{where}", caller("what does it say?", **{"heard": TAINTED, **more}))
        assert ("waits for the owner's yes" not in result) is goes
        assert "waits" not in hands.fetch(f"{HERE}/2", caller(f"read {HERE}/2", **{"heard": TAINTED, **more}))


def test_what_waits_names_the_host_and_the_whole_address():
    with WebServer({}) as server:
        hands = Hands(server)
        hands.fetch(f"{HERE}/a?b=" + "c" * 300, caller(heard=TAINTED))
    assert "host example.com" in hands.asked[0].means
    assert "c" * 300 in hands.asked[0].means


def test_a_yes_given_is_a_page_read():
    with WebServer({"/a": html("hi")}) as server:
        hands, me = Hands(server), caller(heard=TAINTED)
        hands.fetch(f"{HERE}/a", me)
        good, result = hands.tools.run(hands.asked[0].call, me, hands.asked[0])
    assert good
    assert result.endswith("hi")


HITS = [
    {"title": "A <b>page</b> &amp; more", "url": f"{HERE}/hit", "content": "about", "description": "about"},
    {"title": "inside", "url": "http://192.168.1.1/admin", "content": "router", "description": "router"},
    {"title": "", "url": "nonsense"},
    "nonsense",
]
DUCK = """<div class="result"><div class="links_main"><h2 class="result__title"><a class="result__a"
href="//duckduckgo.com/l/?uddg=http%3A%2F%2Fexample.com%2Fhit&rut=1">A page &amp; more</a></h2>
<a class="result__snippet" href="x">about</a></div></div>"""
ENGINES = [
    ("searxng", {"searxng_url": "http://searx.lan:8888/"}, "/search", said(json.dumps({"results": HITS}))),
    ("brave", {"key": "hush"}, "/res/v1/web/search", said(json.dumps({"web": {"results": HITS}}))),
    ("duckduckgo", {}, "/html/", html(DUCK)),
]
NAMES = {"searx.lan": ["192.168.1.5"], "api.search.brave.com": [PUBLIC], "html.duckduckgo.com": [PUBLIC]}


@pytest.fixture
def plain(monkeypatch):
    """Services by http, since the server here has no certificate."""
    for name in ("_BRAVE", "_DUCKDUCKGO"):
        monkeypatch.setattr(f"picoclaw.web.fetch.{name}", ENGINE_URLS[name])


ENGINE_URLS = {
    "_BRAVE": "http://api.search.brave.com/res/v1/web/search",
    "_DUCKDUCKGO": "http://html.duckduckgo.com/html/",
}


@pytest.mark.parametrize(("engine", "settings", "path", "answer"), ENGINES, ids=[e[0] for e in ENGINES])
@pytest.mark.usefixtures("plain")
def test_a_search_gives_public_pages_that_may_be_read(engine, settings, path, answer):
    with WebServer({path: answer, "/hit": html("found")}) as server:
        hands, me = Hands(server, NAMES, engine, **settings), caller(heard=TAINTED)
        assert hands.search(" relay\nboard ", me) == f"1. A page & more\n{HERE}/hit\nabout"
        assert hands.fetch(f"{HERE}/hit", me).endswith("found")
        assert hands.asked == []
        assert hands.search("again", caller(origin="guest")).startswith("error: web_search was not done yet")
    assert "q=relay+board" in server.seen[0][1]
    assert server.seen[0][2].get("x-subscription-token", "") == settings.get("key", "")
    assert "x-subscription-token" not in server.seen[1][2]


@pytest.mark.parametrize(
    ("engine", "settings", "answer", "words"),
    [
        ("searxng", {}, said(""), "searxng_url is missing"),
        ("searxng", {"searxng_url": "http://searx.lan"}, html("<p>hi"), "allow `json`"),
        ("searxng", {"searxng_url": "http://searx.lan"}, said("[]"), "something else"),
        ("searxng", {"searxng_url": "http://searx.lan"}, said("{}"), "nothing was found"),
        ("searxng", {"searxng_url": "http://searx.lan"}, said("x", 403), "status 403"),
        ("brave", {}, said(""), "brave_key"),
        ("brave", {"key": "hush"}, said('{"web": 1}'), "nothing was found"),
        ("duckduckgo", {}, html("<p>are you a person?", status=202), "wants to know whether a person"),
        ("duckduckgo", {}, html("<div class='no-results'>none"), "nothing was found"),
    ],
)
@pytest.mark.usefixtures("plain")
def test_an_engine_that_does_not_answer_is_named(engine, settings, answer, words):
    with WebServer(dict.fromkeys(("/search", "/res/v1/web/search", "/html/"), answer)) as server:
        result = Hands(server, NAMES, engine, **settings).search("x", caller())
    assert words in result
    assert "hush" not in result


@each_row("query", ["", " \n ", "x" * 401])
def test_a_query_has_words(query):
    with WebServer({}) as server:
        hands = Hands(server, NAMES, "searxng", searxng_url="http://searx.lan")
        assert "1 to 400 characters" in hands.search(query, caller())


def test_the_tools_cost_few_bytes():
    with WebServer({}) as server:
        tools = Hands(server, NAMES, "searxng").tools
    sizes = {d["name"]: count_tool_bytes(d) for d in tools.definitions()}
    assert sizes["web_fetch"] < 300
    assert sizes["web_search"] < 290
    assert "links" in str(tools.definitions())


MEANT = [
    (("Read http://bob.example.net/x",), True),
    (("What does http://bob.example.net/x say?",), True),
    (("That is no good. See http://bob.example.net/x now",), True),
    (("Never go to http://bob.example.net/x",), False),
    (("Don't open http://bob.example.net/x, please",), False),
    (("Is http://bob.example.net/x a scam?",), False),
    (("http://bob.example.net/x, is it safe?",), False),
    (("Should I go to http://bob.example.net/x?",), False),
    (("Read http://bob.example.net/x", "Do not read http://bob.example.net/x again"), False),
    (("Do not read http://bob.example.net/x", "All right, read http://bob.example.net/x"), True),
]


@each_row(("messages", "own"), MEANT)
def test_an_address_in_a_denial_or_a_doubt_is_asked_about(messages, own):
    with WebServer({}) as server:
        tools = make_toolset(WebFetchTool({}, 5.0, server.web()))
        asked = tools.asked(ToolCall("1", "web_fetch", {"url": "http://bob.example.net/x"}), caller(*messages))
    assert asked.is_requested is own


def test_what_was_not_vouched_for_raises_pending_at_the_guard():
    guard = Guard(Policy, keep=lambda *_: 7)
    with WebServer({}) as server:
        pages = WebFetchTool({}, 5.0, server.web())
        tools = Toolset([pages], guard=guard, journal=lambda *_: None, longest_result=1000)
        asked = tools.asked(ToolCall("1", "web_fetch", {"url": HERE}))
    assert not asked.is_requested
    with pytest.raises(Pending, match="7"):
        guard(asked, caller(heard=TAINTED))
    guard(asked._replace(is_requested=True), caller(heard=TAINTED))


@each_row(
    ("policy", "verdict"),
    [
        (Policy(), "allow"),
        (Policy(tools={"web_fetch": {"tainted": "ask"}}), "ask"),
        (Policy(tools={"web_fetch": {"tainted": "refuse"}}), "refuse"),
        (Policy(effects={"network": {"tainted": "refuse"}}), "refuse"),
        (Policy(effects={"network": {"owner": "ask"}}), "ask"),
        (Policy(effects={"network": {"owner": "refuse"}}), "refuse"),
    ],
)
def test_a_vouched_call_heeds_the_owners_own_rules(policy, verdict):
    asked = CallRequest("network", ToolCall("1", "web_fetch", {"url": HERE}), is_requested=True)
    assert decide(policy, asked, "owner", TAINTED).verdict == verdict


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ("", {"web_fetch"}),
        ("[web]\nenabled = false\nsearch = 'duckduckgo'", set()),
        ("[web]\nsearch = 'brave'", {"web_fetch", "web_search"}),
    ],
)
def test_the_owner_says_which_tools_there_are(tmp_path, settings, names):
    (tmp_path / "config.toml").write_text(settings)
    app = App(load_config({"PICOCLAW_HOME": str(tmp_path)}), SimBoard())
    assert {name for name in app.toolset.names if name.startswith("web_")} == names


def test_braves_key_is_a_secret_and_a_searxng_has_an_address(tmp_path):
    secrets = tmp_path / "secrets.toml"
    secrets.write_text('brave_key = "BSAhush-0123456789"\n')
    secrets.chmod(0o600)
    config = load_config({"PICOCLAW_HOME": str(tmp_path)})
    assert config.brave_key == "BSAhush-0123456789"
    assert "hush" not in repr(config)
    assert config.brave_key in list_secrets(config, {})
    (tmp_path / "config.toml").write_text('[web]\nsearxng_url = "searx.lan"\n')
    with pytest.raises(ConfigError, match="searxng_url"):
        load_config({"PICOCLAW_HOME": str(tmp_path)})
