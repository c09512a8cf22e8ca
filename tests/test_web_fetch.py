"""Pages over real sockets: what is read, where it ends, where it does not go."""

import base64
import gzip
import ssl
import subprocess
import threading
import time

import pytest
from rows import each_row
from web_server import PUBLIC, WebServer, html, leads, said

from picoclaw.errors import ToolError, TurnStopped
from picoclaw.messages import Stop
from picoclaw.web.fetch import MAX_BYTES

HERE = "http://example.com"


def got(answers, url=f"{HERE}/", names=None, **named):
    with WebServer(answers) as server:
        return server.web(names, **named).get(url), server


def failed(answers, url=f"{HERE}/", names=None, **named):
    with WebServer(answers) as server, pytest.raises(ToolError) as caught:
        server.web(names, **named).get(url)
    return str(caught.value), server


def test_a_page_is_read_from_the_address_that_was_checked():
    page, server = got({"/a": html("<p>grün")}, f"{HERE}/a?b=c#d")
    assert (page.kind, page.text, page.cut) == ("text/html", "<p>grün", False)
    assert server.dialled == [(PUBLIC, 80)]
    host, path, headers = server.seen[0]
    assert (host, path) == ("example.com", "/a?b=c")
    assert headers["user-agent"].startswith("picoclaw/")
    assert not {"cookie", "authorization", "referer"} & set(headers)


@each_row("place", ["[2606:4700::1111]", "example.com:8080", "example.com"])
def test_the_host_is_named_as_it_was_asked_for(place):
    assert got({"/": html("hi")}, f"http://{place}/")[1].seen[0][0] == place


def test_a_name_is_looked_up_once_so_that_it_cannot_change_its_mind():
    answers = iter([[PUBLIC], ["127.0.0.1"]])
    page, server = got({"/": html("hi")}, names={"example.com": lambda: next(answers)})
    assert page.text == "hi"
    assert server.resolved == ["example.com"]
    assert server.dialled == [(PUBLIC, 80)]


def test_each_hop_is_looked_up_and_checked_anew():
    answers = iter([[PUBLIC], ["127.0.0.1"]])
    words, server = failed({"/": leads("/again")}, names={"example.com": lambda: next(answers)})
    assert "127.0.0.1" in words
    assert "not public" in words
    assert len(server.seen) == 1


@each_row("others", [[PUBLIC, "10.0.0.1"], ["10.0.0.1", PUBLIC], [PUBLIC, "::1"], ["fe80::1%eth0"]])
def test_one_private_address_refuses_the_name(others):
    words, server = failed({}, names={"example.com": others})
    assert "not public" in words
    assert server.dialled == []


def test_another_address_is_tried_when_one_is_dead():
    with WebServer({"/": html("hi")}) as server:
        server.dead = {"2606:4700::1111"}
        assert server.web({"example.com": ["2606:4700::1111", PUBLIC]}).get(HERE).text == "hi"
    assert [number for number, _ in server.dialled] == ["2606:4700::1111", PUBLIC]


def test_this_boards_own_network_is_not_read():
    from ipaddress import ip_network

    words, server = failed({}, near=lambda: [ip_network("93.184.215.0/24")])
    assert "own network" in words
    assert server.dialled == []


@each_row("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_followed(status):
    page, server = got({"/": leads("/b/../c?d", status), "/c": html("there")})
    assert (page.text, page.place.url) == ("there", f"{HERE}/c?d")
    assert len(server.dialled) == 2


@each_row(
    ("to", "words"),
    [
        ("http://127.0.0.1/", "not a public address"),
        ("http://localhost/", "private network"),
        ("//169.254.169.254/latest/meta-data/", "not a public address"),
        ("http://[::1]/", "not a public address"),
        ("http://inside.example.net/", "not public"),
        ("http://user:pass@example.com/", "user's name"),
        ("file:///etc/passwd", "must begin with"),
        ("javascript:alert(1)", "must begin with"),
        ("http://example.com:6379/", "port 6379"),
        ("http://example.com\\@127.0.0.1/", "backslash"),
        ("http://unknown.example.net/", "not known"),
    ],
)
def test_no_redirect_leads_inside(to, words):
    said_, server = failed({"/": leads(to)}, names={"inside.example.net": ["192.168.1.1"]})
    assert words in said_
    assert len(server.dialled) == 1


def test_redirects_have_an_end():
    words, server = failed({"/": leads("/")})
    assert "more than 5 times" in words
    assert len(server.seen) == 6


def test_a_services_key_never_follows_a_redirect():
    with WebServer({"/": leads("http://evil.example.net/"), "/x": said("{}")}) as server:
        web = server.web({"evil.example.net": [PUBLIC]})
        with pytest.raises(ToolError, match="redirects"):
            web.ask(f"{HERE}/", {"X-Subscription-Token": "hush"})
        web.ask(f"{HERE}/x", {"X-Subscription-Token": "hush"})
    assert [(host, headers["x-subscription-token"]) for host, _, headers in server.seen] == [
        ("example.com", "hush")
    ] * 2


def test_an_owners_own_service_may_be_inside():
    with WebServer({"/search": said("{}")}) as server:
        web = server.web({"searx.lan": ["192.168.1.5"]})
        assert web.ask("http://searx.lan:8888/search", {}, own=True).text == "{}"
        with pytest.raises(ToolError, match="private network"):
            web.ask("http://searx.lan:8888/search", {})
    assert server.dialled == [("192.168.1.5", 8888)]


def chunks(handler, pieces):
    handler.send_response(200)
    handler.send_header("Content-Type", "text/plain")
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    for piece in pieces:
        handler.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))


def endless(handler):
    chunks(handler, iter(lambda: b"a" * 65_536, None))


def test_an_endless_page_is_cut():
    page, _ = got({"/": endless})
    assert page.cut
    assert len(page.text) == MAX_BYTES


def test_a_length_that_is_a_lie_costs_nothing():
    page, _ = got({"/": said("a" * (MAX_BYTES + 10), content_type="text/plain", content_length="10000000000")})
    assert page.cut
    assert len(page.text) == MAX_BYTES


def test_a_bomb_is_cut_where_it_would_grow():
    import tracemalloc

    packed = gzip.compress(b"a" * 50_000_000)
    tracemalloc.start()
    try:
        page, _ = got({"/": said(packed, content_type="text/plain", content_encoding="gzip")})
        assert tracemalloc.get_traced_memory()[1] < 12_000_000
    finally:
        tracemalloc.stop()
    assert page.cut
    assert len(page.text) == MAX_BYTES


@each_row(
    ("answer", "words"),
    [
        (said("x", content_type="image/png"), "image/png, not text"),
        (said("x", content_type="application/zip"), "not text"),
        (said(b"\x7fELF\0\0", content_type=""), "not text"),
        (said(b"ab\0", content_type="text/plain"), "not text"),
        (said("x", 404), "status 404"),
        (said("x", 500), "status 500"),
        (said("x", content_type="text/plain", content_encoding="br"), "'br'"),
        (said("xxxx", content_type="text/plain", content_encoding="gzip"), "packed wrongly"),
        (lambda handler: handler.wfile.write(b"SSH-2.0-x\r\n"), "could not be read"),
        (lambda handler: None, "could not be read"),
        (said("x", content_type="text/plain", content_length="50"), "could not be read"),
    ],
)
def test_what_is_no_page_is_said(answer, words):
    assert words in failed({"/": answer})[0]


@each_row(
    ("body", "kind", "text"),
    [
        ("grün".encode("latin-1"), "text/plain; charset=iso-8859-1", "grün"),
        ("grün".encode(), "text/plain; charset=nonsense", "grün"),
        ("grün".encode(), "text/plain; charset=punycode", "grün"),
        ("grün".encode(), "text/plain; charset=rot13", "grün"),
        (b'<meta charset="windows-1252">gr\xfcn', "text/html", '<meta charset="windows-1252">grün'),
        ("grün".encode("utf-16"), "text/plain", "grün"),
        ("grün".encode("utf-8-sig"), "text/plain; charset=latin-1", "grün"),
        (b"gr\xff", "text/plain", "gr\ufffd"),
        (b'{"a": 1}', "application/json", '{"a": 1}'),
        (b"<rss/>", "application/rss+xml", "<rss/>"),
        (b"plain", "", "plain"),
    ],
)
def test_texts_of_many_kinds_are_read(body, kind, text):
    assert got({"/": said(body, content_type=kind)})[0].text == text


def test_a_drip_ends_in_time():
    def drip(handler):
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-A: ")
        while not handler.server.closing.wait(0.02):
            handler.wfile.write(b"a")
            handler.wfile.flush()

    began = time.monotonic()
    with WebServer({"/": drip}) as server:
        server._server.closing = server.closing
        with pytest.raises(ToolError, match="could not be read"):
            server.web(seconds=0.3).get(HERE)
    assert time.monotonic() - began < 1.5


def test_a_lookup_that_hangs_ends_in_time():
    waits = threading.Event()
    began = time.monotonic()
    words, _ = failed({}, names={"example.com": lambda: waits.wait(5)}, seconds=0.2)
    waits.set()
    assert "not resolved in time" in words
    assert time.monotonic() - began < 1.5


def test_the_word_to_stop_ends_a_wait():
    stop = Stop()

    def silent(handler):
        threading.Timer(0.05, stop.set).start()
        handler.server.closing.wait(5)

    began = time.monotonic()
    with WebServer({"/": silent}) as server:
        server._server.closing = server.closing
        with pytest.raises(TurnStopped):
            server.web().get(HERE, stop)
    assert time.monotonic() - began < 1.5


PROXY = {"http_proxy": "http://me:hush@proxy.lan:3128", "no_proxy": "direct.example.net, .internal.example.org"}
WHERE = {"proxy.lan": ["192.168.1.9"], "direct.example.net": [PUBLIC]}


def test_a_proxy_is_respected_and_looks_names_up_itself():
    with WebServer({"http://elsewhere.example.com/": html("by proxy"), "/": html("direct")}) as server:
        web = server.web(WHERE, environment=PROXY)
        assert web.get("http://elsewhere.example.com/").text == "by proxy"
        assert web.get("http://direct.example.net/").text == "direct"
    assert server.dialled == [("192.168.1.9", 3128), (PUBLIC, 80)]
    assert server.resolved == ["proxy.lan", "direct.example.net"]
    assert server.seen[0][2]["proxy-authorization"] == "Basic " + base64.b64encode(b"me:hush").decode()
    assert "proxy-authorization" not in server.seen[1][2]


@each_row("url", ["http://127.0.0.1/", "http://proxy.lan:8080/", "http://169.254.169.254/", "http://router/"])
def test_behind_a_proxy_what_is_inside_is_refused_by_name(url):
    words, server = failed({}, url, WHERE, environment=PROXY)
    assert "public" in words
    assert server.dialled == []


@each_row("value", ["socks5://127.0.0.1:1080", "http://[bad", "http://:99999999"])
def test_a_proxy_that_cannot_be_used_is_named(value):
    words, server = failed({}, environment={"ALL_PROXY": value})
    assert "prox" in words
    assert server.dialled == []


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate of example.com's, and its key."""
    paths = [tmp_path_factory.mktemp("tls") / name for name in ("cert.pem", "key.pem")]
    words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=example.com -addext"
    names = ["subjectAltName=DNS:example.com", "-out", paths[0], "-keyout", paths[1]]
    subprocess.run(["openssl", *words.split(), *names], check=True, capture_output=True)
    return paths


def test_a_certificate_is_checked_against_the_name_though_a_number_is_dialled(certificate, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*certificate)
    with WebServer({"/": html("hi")}) as server:
        server._server.socket = tls.wrap_socket(server._server.socket, server_side=True)
        web = server.web({"other.example.net": [PUBLIC]})
        assert web.get("https://example.com/").text == "hi"
        assert server.dialled == [(PUBLIC, 443)]
        with pytest.raises(ToolError, match="certificate"):
            web.get("https://other.example.net/")
        monkeypatch.delenv("SSL_CERT_FILE")
        with pytest.raises(ToolError, match="certificate"):
            web.get("https://example.com/")
    assert len(server.seen) == 1
