"""/metrics: figures as OpenMetrics, for whoever has its own token, and for nobody where there is none."""

import re

import pytest
from daemon_kit import Daemon, furnished, until
from mqtt_broker import free_port
from page_house import PaperHouse, served

from picoclaw.channels.dashboard.live import Figure, SensorValue
from picoclaw.channels.dashboard.programs import format_metrics
from picoclaw.config import load_config
from picoclaw.errors import ConfigError

TOKEN = "0123456789abcdef"
LINE = re.compile(r'(# (TYPE|HELP) picoclaw_\w+ .+|picoclaw_\w+(\{(\w+="([^"\\\n]|\\["\\n])*",?)+\})? -?[\d.e+-]+)')


def check(text):
    """Hold a text against the format; gives the values by name and labels."""
    *lines, last, nothing = text.split("\n")
    assert (last, nothing) == ("# EOF", "")
    assert [line for line in lines if not LINE.fullmatch(line)] == []
    names = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(names) == len(set(names))
    return dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))


def test_the_text_is_openmetrics():
    readings = [
        SensorValue("porch", "temperature", "°C", 21.5, "21.5 °C", at=90.0),
        SensorValue('a"b\\c\nd', "humidity", "%", None, "", "it does not answer"),
    ]
    found = check(format_metrics(readings, [Figure("ok", "well", {}, 1.0)], 100.0))
    labels = '{sensor="porch",quantity="temperature",unit="°C"}'
    assert found[f"picoclaw_reading{labels}"] == "21.5"
    assert found[f"picoclaw_reading_age_seconds{labels}"] == "10"
    assert found[r'picoclaw_reading_valid{sensor="a\"b\\c\nd",quantity="humidity",unit="%"}'] == "0"
    assert found["picoclaw_ok"] == "1"


def test_it_is_given_for_its_own_token_only(tmp_path):
    with served(tmp_path, metrics_token=TOKEN) as client:
        status, headers, body = client.ask("/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
        assert (status, headers["content-type"].split(";")[0]) == (200, "application/openmetrics-text")
        assert check(body.decode())["picoclaw_ok"] == "1"
        assert client.ask("/api/board", headers={"Authorization": f"Bearer {TOKEN}"})[0] == 401
        assert (
            client.ask("/metrics", headers={"Authorization": f"Bearer {TOKEN}", "Host": "stranger.example"})[0] == 421
        )
        client.login()
        for given in ("", TOKEN[:-1], TOKEN + "x", "Bearer ", f"Basic {TOKEN}"):
            assert client.ask("/metrics", headers={"Authorization": given})[0] == 401
        assert 429 in [client.ask("/metrics", headers={"Authorization": "x"})[0] for _ in range(8)]
        assert client.ask("/metrics", headers={"Authorization": f"Bearer {TOKEN}"})[0] == 200


def test_without_a_token_there_is_nothing(tmp_path):
    with served(tmp_path, PaperHouse()) as client:
        client.login()
        for given in ({}, {"Authorization": "Bearer "}):
            assert client.ask("/metrics", headers=given)[0] == 404


@pytest.mark.parametrize("token", ["short", "with a line\nin its middle", "é" * 20])
def test_a_token_that_can_be_guessed_is_refused(tmp_path, token):
    (tmp_path / "secrets.toml").write_text(f'metrics_token = """{token}"""\n')
    (tmp_path / "secrets.toml").chmod(0o600)
    with pytest.raises(ConfigError) as caught:
        load_config({"PICOCLAW_HOME": str(tmp_path)})
    assert token not in str(caught.value)


def test_the_daemon_serves_it(tmp_path):
    port = free_port()
    folder = furnished(tmp_path, f"[page]\nenabled = true\nport = {port}\n")
    (folder / "secrets.toml").write_text(f'metrics_token = "{TOKEN}"\n')
    (folder / "secrets.toml").chmod(0o600)
    from urllib.request import Request, urlopen

    with Daemon(tmp_path).ready() as daemon:
        until(lambda: daemon.asked("status")["channels"]["page"]["up"])
        asked = Request(f"http://127.0.0.1:{port}/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
        with urlopen(asked, timeout=10) as answer:
            found = check(answer.read().decode())
        assert found["picoclaw_ok"] == "1"
        assert float(found["picoclaw_memory_bytes"]) > 1e6
        assert found['picoclaw_channel_up{channel="page"}'] == "1"
        assert 'picoclaw_reading{sensor="greenhouse",quantity="temperature",unit="°C"}' in found
