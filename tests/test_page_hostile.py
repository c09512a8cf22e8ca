"""The page under hostile hands: foreign pages, foreign names, guessed codes, and requests that are none."""

import json
import socket
import time
from contextlib import suppress

import pytest
from page_house import later, parted, rest, served

from picoclaw.channels.dashboard import server
from picoclaw.channels.dashboard.login import make_code
from picoclaw.errors import ChannelError


@pytest.fixture
def client(tmp_path):
    with served(tmp_path, names=["greenhouse.example"]) as one:
        one.login()
        yield one


@pytest.fixture
def stranger(tmp_path):
    with served(tmp_path) as one:
        yield one


READS = [
    "/api/state",
    "/api/board",
    "/api/notes",
    "/api/note",
    "/api/household",
    "/api/plans",
    "/api/day",
    "/api/history",
    "/api/csv",
    "/api/events",
]
WRITES = ["/api/say", "/api/answer", "/api/stop", "/api/off", "/api/resume", "/api/logout", "/api/change_household"]


@pytest.mark.parametrize("cookie", ["", "x", "a" * 4000, "picoclaw", '"', "é"])
def test_nothing_is_told_or_done_without_a_login(stranger, cookie):
    stranger.cookie = cookie
    for path in READS + WRITES:
        status, _, body = stranger.ask(
            path, {"text": "hi", "id": "1", "name": "pump", "yes": True} if path in WRITES else None
        )
        assert (status, json.loads(body)) == (401, {"error": "log in first"}), path
    assert (stranger.posted, stranger.house.stopped, stranger.house.away) == ([], "", {"pump": 90.0})


def test_every_address_is_known_to_these_tests(stranger):
    site = stranger.page._server._server.application
    while not hasattr(site, "_app"):
        site = next(cell.cell_contents for cell in site.__closure__ if callable(cell.cell_contents))
    rules = {route.rule for route in site._app.routes if route.rule.startswith("/api/")}
    assert rules == {*READS, *WRITES, "/api/login"}


def test_a_secret_in_the_address_counts_for_nothing(client):
    cookie, client.cookie = client.cookie, ""
    for path in (f"/api/state?picoclaw={cookie}", f"/api/state?token={cookie}", f"/{cookie}"):
        assert client.ask(path)[0] in {401, 404}
    assert client.ask("/api/state", headers=[("Authorization", f"Bearer {cookie}")])[0] == 401


@pytest.mark.parametrize("path", ["/", "/health", "/api/login", "/api/events"])
def test_headers_that_are_no_text_end_nothing(client, path, capfd):
    for name in ("Cookie", "User-Agent", "If-None-Match", "Last-Event-ID", "Accept", "Range", "Authorization"):
        asked = "POST" if path == "/api/login" else "GET"
        own = f"Host: {client.host}\r\nOrigin: http://{client.host}\r\nConnection: close\r\n"
        body = f"Content-Type: application/json\r\nContent-Length: 12\r\n{name}: \xff\xe9\r\n\r\n"
        answer = client.raw(f'{asked} {path} HTTP/1.1\r\n{own}{body}{{"code":"x"}}'.encode("latin-1"))
        assert answer[9:12] in {b"200", b"401", b"403", b"429"}
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize(
    "other", ["a/b=c", "a@b=c", 'ui={"a":1}', "x=a b c", "[x]=1", "é=1", "path=/foo", "x", "", '"']
)
def test_a_cookie_of_another_service_on_this_host_keeps_nobody_out(client, other, capfd):
    for cookies in (f"{other}; picoclaw={client.cookie}", f"picoclaw={client.cookie}; {other}"):
        asked = f"GET /api/board HTTP/1.1\r\nHost: {client.host}\r\nConnection: close\r\nCookie: {cookies}\r\n\r\n"
        assert client.raw(asked.encode("latin-1")).startswith(b"HTTP/1.1 200")
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": None}, 403),
        ({"Origin": ""}, 403),
        ({"Origin": "http://127.0.0.1"}, 403),
        ({"Origin": "http://127.0.0.1.evil.example"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content-Type": "multipart/form-data; boundary=application/json"}, 415),
        ({"Content-Type": None}, 415),
        ({"X-Forwarded-For": "10.0.0.1", "X-Forwarded-Host": "evil.example", "Forwarded": "host=evil.example"}, 200),
        ({"X-HTTP-Method-Override": "GET"}, 200),
    ],
)
def test_another_page_can_do_nothing(client, headers, status):
    assert client.ask("/api/say", {"text": "hi", "id": "1"}, headers=headers.items())[0] == status
    assert len(client.posted) == (status == 200)


@pytest.mark.parametrize("path", READS)
def test_another_page_can_read_nothing(client, path):
    assert client.ask(path, headers=[("Sec-Fetch-Site", "cross-site")])[0] == 403
    assert client.ask(path, headers=[("Origin", "http://evil.example")])[0] == 403


def test_a_link_from_elsewhere_opens_the_page_and_no_answer_lets_a_page_in(client):
    status, headers, _ = client.ask("/", headers=[("Sec-Fetch-Site", "cross-site")])
    assert status == 200
    assert not [name for name in headers if name.startswith("access-control")]
    csp = headers["content-security-policy"]
    assert "unsafe" not in csp
    assert {"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'"} <= set(csp.split("; "))
    assert (headers["x-content-type-options"], headers["referrer-policy"]) == ("nosniff", "no-referrer")
    assert "server" not in headers


def test_a_get_changes_nothing(client):
    for path in (*WRITES, "/api/login"):
        for method in ("GET", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE"):
            assert client.ask(path, method=method, headers=[("Origin", f"http://{client.host}")])[0] == 405
    assert client.told("/api/board")["stopped"] == ""


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:{port}", 200),
        ("127.0.0.1", 200),
        ("192.168.1.9:{port}", 200),
        ("[::1]:{port}", 200),
        ("localhost:{port}", 200),
        ("LOCALHOST", 200),
        ("greenhouse.example", 200),
        ("evil.example:{port}", 421),
        ("localhost.evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("127.0.0.1:{port}, evil.example", 421),
        ("127.0.0.1@evil.example", 421),
        ("evil.example/127.0.0.1", 421),
        ("0x7f.1", 421),
        ("2130706433", 421),
        ("[::1", 421),
        ("[fe80::1%25eth0]", 421),
        ("127.0.0.1:99999999", 421),
        ("", 421),
        ("x" * 300, 421),
        ("é.local", 421),
        (None, 421),
    ],
)
def test_a_name_that_is_not_ours_is_not_answered(client, host, status):
    given = host and host.format(port=client.port)
    assert client.ask("/api/state", headers=[("Host", given)])[0] == status


@pytest.mark.parametrize(
    "path",
    [
        "/../index.html", "/..%2f..%2fconfig.toml", "/%2e%2e/secrets.toml", "//etc/passwd", "/etc/passwd",
        "/index.html", "/page.js/../../secrets.toml", "/page.js%00.html", "/page.js\\..\\x", "/api/../api/state%00",
        "/.git/config", "/page_logins.json", "/templates/page/page.js", "/API/state", "/api/state/", "/page.js;x",
        "/%ff%fe",
    ],
)  # fmt: skip
def test_only_the_pages_own_files_are_given(stranger, path):
    status, _, body = stranger.ask(path)
    assert status == 404
    assert len(body) < 40


def test_guessing_is_slowed_down_and_locks_nobody_out_of_a_login(client):
    codes = [client.ask("/api/login", {"code": f"{n:08}"})[0] for n in range(9)]
    assert codes == [403] * 5 + [429] * 4  # one was used to log in
    assert client.told("/api/state")


def test_what_many_askers_leave_behind_is_bounded():
    allowance = server.RateLimiter(2, 0.5, most=10)
    assert [allowance.take("a", 0.0) for _ in range(3)] == [0, 0, 2]
    assert allowance.take("a", 2.1) == 0
    for n in range(1000):
        allowance.take(str(n), 3.0)
    assert len(allowance._buckets) == 10
    assert allowance.take("b", -1e9) == 0


def test_an_allowance_is_one_for_all_threads_that_take_from_it():
    class Slow(str):
        __slots__ = ()

        def __hash__(self):  # lets another thread in wherever the allowance looks something up
            time.sleep(0.002)
            return str.__hash__(self)

    allowance, granted = server.RateLimiter(6, 0.1), []
    asked = [later(lambda: granted.append(allowance.take(Slow("192.0.2.1"), 1.0) == 0)) for _ in range(30)]
    for thread in asked:
        thread.join()
    assert (len(granted), sum(granted)) == (30, 6)


def test_too_many_requests_are_refused_in_words(client):
    found = [client.ask("/api/board")[0] for _ in range(75)]
    assert 429 in found
    assert found[:50] == [200] * 50


HOST = b"Host: 127.0.0.1\r\n"


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET / HTTP/1.1\r\n" + HOST + b"X: " + b"a" * 1_000_000 + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\n" + HOST + b"".join(b"X%d: y\r\n" % n for n in range(10_000)) + b"\r\n", 431),
        (b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n", 431),
        (b"POST /api/login HTTP/1.1\r\n" + HOST + b"Content-Length: 10000000000\r\n\r\n", 413),
        (b"POST /api/login HTTP/1.1\r\n" + HOST + b"Content-Length: 70000\r\n\r\n" + b"a" * 70_000, 413),
        (b"POST /api/login HTTP/1.1\r\n" + HOST + b"Content-Length: -1\r\n\r\n", 400),
        (b"POST /api/login HTTP/1.1\r\n" + HOST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400),
        (b"POST /api/login HTTP/1.1\r\n" + HOST + b"Content-Length: +5\r\n\r\nabcde", 400),
        (b"POST /api/login HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (b"POST /api/login HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 501),
        (b"GET / HTTP/1.1\r\n" + HOST + b" folded: x\r\n\r\n", 421),
        (b"GET / HTTP/1.1\r\n" + HOST + b"Bad Header: x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n" + HOST + HOST + b"\r\n", 421),
        (b"GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421),
        (b"CONNECT evil.example:443 HTTP/1.1\r\n" + HOST + b"\r\n", 403),
        (b"get / HTTP/1.1\r\n" + HOST + b"\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 hello\r\n\r\n", 400),
        (b"\x00" * 100 + b"\r\n\r\n", 400),
        (b"\xff\xfe\xfd\r\n\r\n", 400),
        (b"GET / HTTP/9.9\r\n" + HOST + b"\r\n", 200),
        (b"GET /\r\n\r\n", 421),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 421),
    ],
)
def test_a_request_that_is_none_is_refused_and_the_page_lives(client, request_, status, capfd):
    with client.connection() as line:
        with suppress(ConnectionError):  # it may be refused before it has ended
            line.sendall(request_)
        answer = rest_soon(line)
    if answer:
        assert parted(answer)[0] == status
    assert client.told("/api/state")
    assert "Traceback" not in "".join(capfd.readouterr())


def rest_soon(line):
    line.settimeout(0.4)
    return rest(line).replace(b"<silence>", b"")


def test_a_smuggled_request_is_the_senders_own(client):
    inner = b"GET /api/state HTTP/1.1\r\n" + HOST + b"\r\n"
    head = b"POST /api/login HTTP/1.1\r\n" + HOST + b"Content-Type: application/json\r\n"
    both = head + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + inner
    with client.connection() as line:
        line.sendall(both)
        answers = rest_soon(line)
    assert b'"readings"' not in answers


def test_requests_that_drip_end_and_the_owner_gets_in_meanwhile(tmp_path, monkeypatch):
    monkeypatch.setattr(server, "REQUEST_S", 1)
    with served(tmp_path) as client:
        slow = [client.connection() for _ in range(200)]
        try:
            for line in slow:
                line.sendall(b"GET / HTTP/1.1\r\nHost: 127.0")
                line.setblocking(False)
            begun = time.monotonic()
            client.login()
            assert client.told("/api/state")
            assert time.monotonic() - begun < 2
            while alive(slow) and time.monotonic() - begun < 8:
                drip(slow)
                time.sleep(0.1)
            assert not alive(slow)
        finally:
            for line in slow:
                line.close()


def drip(lines):
    for line in lines:
        with suppress(OSError):
            line.send(b"a", socket.MSG_NOSIGNAL)


def alive(lines):
    return [line for line in lines if not ended(line)]


def ended(line):
    try:
        return not line.recv(1)
    except BlockingIOError:
        return False
    except OSError:
        return True


def test_streams_that_nobody_reads_and_a_crowd_of_them_leave_room(client):
    streams = [client.connection() for _ in range(12)]
    try:
        for line in streams:
            line.sendall(
                f"GET /api/events HTTP/1.1\r\nHost: {client.host}\r\nCookie: picoclaw={client.cookie}\r\n\r\n".encode()
            )
        begun = time.monotonic()
        assert client.told("/api/stop", {})["stopped"] == "by owner"
        assert time.monotonic() - begun < 2
    finally:
        for line in streams:
            line.close()


def test_a_code_is_not_told_apart_by_what_is_answered(tmp_path):
    with served(tmp_path) as client:
        none = client.ask("/api/login", {"code": "AAAA-AAAA"})
        make_code(tmp_path)
        wrong = client.ask("/api/login", {"code": "AAAA-AAAA"})
    assert none[0] == wrong[0] == 403
    assert none[2] == wrong[2]


PROXIED = {"origins": ["https://Shed.example/"], "proxies": ["127.0.0.1"]}


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        (None, "https://shed.example", 200),  # nginx's own `proxy_set_header Host $proxy_host`
        ("shed.example", "https://shed.example", 200),  # `Host $host`
        ("127.0.0.1:8737", "https://shed.example", 200),
        (None, "http://shed.example", 403),
        (None, "https://shed.example:8443", 403),
        (None, "https://evil.example", 403),
        (None, "https://shed.example.evil.example", 403),
        (None, "null", 403),
        ("evil.example", "https://shed.example", 421),
    ],
)
def test_behind_a_proxy_the_page_has_the_origins_that_its_owner_has_named(tmp_path, host, origin, status):
    with served(tmp_path, **PROXIED) as client:
        client.login()
        headers = [("Origin", origin), *([("Host", host)] if host else [])]
        assert client.ask("/api/say", {"text": "hello", "id": "1"}, headers)[0] == status
        assert len(client.posted) == (status == 200)


def test_without_a_proxy_an_origin_that_is_not_the_host_is_refused_with_what_to_set(client):
    status, _, body = client.ask("/api/say", {"text": "x", "id": "1"}, [("Origin", "https://shed.example")])
    assert (status, b"origins in [page]" in body) == (403, True)


@pytest.mark.parametrize(("proxies", "kept_out"), [(["127.0.0.1"], False), ([], True), (["192.0.2.9"], True)])
def test_who_guesses_behind_a_proxy_uses_up_nobody_elses_tries(tmp_path, proxies, kept_out):
    with served(tmp_path, origins=["https://shed.example"], proxies=proxies) as client:

        def enter(code, address):
            headers = [("Origin", "https://shed.example"), ("X-Forwarded-For", f"10.1.1.1, {address}")]
            return client.ask("/api/login", {"code": code}, headers)

        assert [enter("wrong", "203.0.113.5")[0] for _ in range(8)] == [403] * 6 + [429] * 2
        status, headers, _ = enter(make_code(tmp_path), "203.0.113.6")
        assert status == (429 if kept_out else 200)
        if not kept_out:
            assert "Secure" in headers["set-cookie"].split("; ")


def test_a_proxy_is_asked_not_to_hold_the_stream_back(client):
    head = f"GET /api/events HTTP/1.0\r\nHost: {client.host}\r\nCookie: picoclaw={client.cookie}\r\n\r\n"
    with client.connection() as line:
        line.sendall(head.encode())
        assert b"x-accel-buffering: no" in line.recv(4096).lower()


@pytest.mark.parametrize("setting", [{"host": "shed"}, {"proxies": ["nginx"]}])
def test_a_name_where_an_address_belongs_is_refused_in_words(tmp_path, setting):
    with pytest.raises(ChannelError, match="is not an address"), served(tmp_path, **setting):
        pass
