"""[notify.NAME]: alarms reach ntfy and webhooks from the outbox, through servers that fail; no log says the address."""

import json
import threading
import time
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from daemon_kit import SOON, Daemon, furnished, until
from mqtt_broker import free_port
from person import picoclaw
from rows import each_row

from picoclaw.channels.notify import NotifyChannel
from picoclaw.config import load_config
from picoclaw.config.files import list_stored_secrets
from picoclaw.config.tables import NotifyConfig
from picoclaw.errors import ChannelDown, ChannelError, ConfigError
from picoclaw.store.inbox_outbox import OutboxMessage
from picoclaw.stores import list_secrets

RULES = '[rules.warm]\nwhen = "greenhouse.temperature > -50"\ncooldown = "12 hours"\nnotify = "It is warm"\n'
SECRET = "a-topic-that-nobody-guesses"


class Server:
    """A web server that keeps what it was sent, and answers with the next of some statuses, at last with 200."""

    def __init__(self, *statuses):
        self.statuses, self.got = list(statuses), []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.got.append((self.path, dict(self.headers), json.loads(body)))
                status = outer.statuses.pop(0) if outer.statuses else 200
                if status == 0:
                    self.close_connection = True
                    return
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()


def channel(url, kind="ntfy", hour=12, token="", **settings):
    config = NotifyConfig(kind, url, **settings)
    return NotifyChannel("phone", config, token, "shed", lambda: datetime(2026, 11, 24, hour, tzinfo=UTC))


def message(text="It is 31 °C"):
    return OutboxMessage(7, "notify-phone:owner", text, 1000.0)


def test_ntfy_is_sent_what_it_takes():
    with Server() as server:
        channel(f"{server.url}/{SECRET}", token="tk_1").send(message())
        path, headers, body = server.got[0]
    assert (path, headers["Authorization"]) == ("/", "Bearer tk_1")
    assert body == {"topic": SECRET, "title": "shed", "message": "It is 31 °C", "priority": 4}


def test_a_webhook_is_sent_json():
    with Server() as server:
        channel(f"{server.url}/hook/x", "webhook", urgency="urgent").send(message("x" * 9000))
        path, headers, body = server.got[0]
    assert (path, "Authorization" in headers) == ("/hook/x", False)
    assert (len(body.pop("text")), body.pop("at")) == (3001, 1000.0)
    assert body == {"board": "shed", "number": 7, "quiet": False, "urgency": "urgent"}


@each_row(("hour", "priority"), [(21, 4), (22, 1), (3, 1), (6, 1), (7, 4)])
def test_in_quiet_hours_it_comes_without_a_sound(hour, priority):
    with Server() as server:
        channel(f"{server.url}/t", hour=hour, quiet="22:00-07:00").send(message())
        assert server.got[0][2]["priority"] == priority


@each_row(
    ("status", "error", "unsure"),
    [(500, ChannelDown, True), (503, ChannelDown, True), (429, ChannelDown, False), (0, ChannelDown, True)],
)
def test_what_fails_for_now_is_tried_again(status, error, unsure):
    with Server(status) as server:
        way = channel(f"{server.url}/{SECRET}")
        with pytest.raises(error) as caught:
            way.send(message())
        assert caught.value.unsure == unsure
        assert SECRET not in str(caught.value)
        assert (way.status().up, SECRET in way.status().error) == (False, False)
        way.send(message())
        assert way.status().up


@each_row("status", [302, 400, 401, 403, 404, 413])
def test_what_is_refused_for_good_is_not(status):
    with Server(status) as server:
        with pytest.raises(ChannelError) as caught:
            channel(f"{server.url}/{SECRET}").send(message())
        assert not isinstance(caught.value, ChannelDown)
        assert SECRET not in str(caught.value)
        assert len(server.got) == 1


@each_row("url", ["http://127.0.0.1:{port}/%s", "http://nowhere.invalid/%s", "http://127.0.0.1:{port}/a/%s"])
def test_nobody_there(url):
    way = channel((url % SECRET).replace("{port}", str(free_port())))
    with pytest.raises(ChannelDown) as caught:
        way.send(message())
    assert SECRET not in str(caught.value) + way.status().error


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[notify.phone]\nkind = 'ntfy'", "url"),
        ("[notify.phone]\nkind = 'sms'\nurl = 'https://a/b'", "kind"),
        (f"[notify.phone]\nkind = 'ntfy'\nurl = 'https://me:{SECRET}@a/b'", "without a user"),
        (f"[notify.phone]\nkind = 'ntfy'\nurl = 'ftp://a/{SECRET}'", "must be like"),
        ("[notify.phone]\nkind = 'ntfy'\nurl = 'https://ntfy.sh'", "must be like"),
        ("[notify.Phone]\nkind = 'ntfy'\nurl = 'https://a/b'", "small letters"),
        ("[notify.phone]\nkind = 'ntfy'\nurl = 'https://a/b'\nquiet = 'night'", "quiet"),
        ("notify = 5", "must hold one table"),
    ],
)
def test_settings_that_are_wrong_are_refused_without_the_address(tmp_path, text, words):
    (tmp_path / "config.toml").write_text(text)
    with pytest.raises(ConfigError, match=words) as caught:
        load_config({"PICOCLAW_HOME": str(tmp_path)})
    assert SECRET not in str(caught.value)


def test_token_and_address_are_secrets(tmp_path):
    (tmp_path / "config.toml").write_text(f"[notify.phone]\nkind = 'ntfy'\nurl = 'https://ntfy.sh/{SECRET}'\n")
    (tmp_path / "secrets.toml").write_text("[keys]\nnotify_phone = 'tk_of_the_file'\n")
    (tmp_path / "secrets.toml").chmod(0o600)
    environment = {"PICOCLAW_HOME": str(tmp_path)}
    config = load_config(environment)
    assert config.notify_tokens == {"phone": "tk_of_the_file"}
    assert SECRET not in repr(config)
    assert {SECRET, "tk_of_the_file"} <= set(list_secrets(config, environment))
    environment["PICOCLAW_NOTIFY_TOKEN_PHONE"] = "tk_of_the_environment"
    assert load_config(environment).notify_tokens == {"phone": "tk_of_the_environment"}
    assert "tk_of_the_environment" in list_stored_secrets(tmp_path, environment)


def test_an_alarm_reaches_both_ways_once_and_waits_for_a_server_that_fails(tmp_path):
    with Server(503) as first, Server() as second:
        ways = f"[notify.phone]\nkind = 'ntfy'\nurl = '{first.url}/{SECRET}'\n"
        ways += f"[notify.hook]\nkind = 'webhook'\nurl = '{second.url}/{SECRET}'\n[history]\nevery_seconds = 1\n"
        folder = furnished(tmp_path, ways)
        (folder / "rules.toml").write_text(RULES)
        with Daemon(tmp_path, constants={**SOON, "channels.notify._DOWN_S": 0.2}).ready() as daemon:
            until(lambda: second.got)
            assert "It is warm" in second.got[0][2]["text"]
            until(lambda: any("HTTP 503" in line["text"] for line in daemon.asked("status")["log"]))
            assert SECRET not in json.dumps(daemon.asked("status"))
            began = time.monotonic()
            until(lambda: len(first.got) == 2, 60)
            assert time.monotonic() - began < 60
            assert "It is warm" in first.got[1][2]["message"]
            until(lambda: not daemon.asked("status")["outbox"])
            until(lambda: picoclaw(tmp_path, "rules", "log").stdout.rstrip().endswith("tell: told"))
        assert len(second.got) == 1
