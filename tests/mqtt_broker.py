"""A real mosquitto on a port of its own, and a client that has a memory; tests that need it are skipped where it is absent."""

import getpass
import shutil
import socket
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from daemon_kit import until

pytest.importorskip("paho.mqtt")

from paho.mqtt import client as paho

MOSQUITTO = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin")
needs_mosquitto = pytest.mark.skipif(not MOSQUITTO, reason="mosquitto is not installed")


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


class Broker:
    """Started, stopped and started again; it keeps sessions and retained messages in its folder."""

    def __init__(self, folder, settings="allow_anonymous true", port=0):
        self.folder, self.port = folder, port or free_port()
        folder.mkdir(exist_ok=True)
        text = f"listener {self.port} 127.0.0.1\n{settings}\nuser {getpass.getuser()}\npersistence true\npersistence_location {folder}/\n"
        (folder / "mosquitto.conf").write_text(text)
        self.process = None

    def start(self):
        words = [MOSQUITTO, "-c", str(self.folder / "mosquitto.conf")]
        self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(self._answers)
        return self

    def _answers(self):
        assert self.process.poll() is None, "mosquitto has ended"
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return False
        return True

    def stop(self, *, hard=False):
        if self.process:
            (self.process.kill if hard else self.process.terminate)()
            self.process.wait(10)
            self.process = None

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()


class Other:
    """Somebody else at the broker: publishes, and remembers what it hears."""

    def __init__(self, port, *topics, user="", password=""):
        self.heard = []
        self._ready = threading.Event()
        self._topics = topics
        self._client = paho.Client(paho.CallbackAPIVersion.VERSION2)
        if user:
            self._client.username_pw_set(user, password)
        self._client.on_connect = self._begin
        self._client.on_subscribe = lambda *_: self._ready.set()
        self._client.on_message = lambda _c, _d, message: self.heard.append(
            (message.topic, message.payload.decode(), message.retain)
        )
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()
        assert self._ready.wait(10)

    def _begin(self, *_):
        self._client.subscribe([(topic, 1) for topic in self._topics or ("nothing",)])

    def say(self, topic, payload, *, retain=False, qos=1):
        self._client.publish(topic, payload, qos, retain).wait_for_publish(10)

    def last(self, topic):
        return next((payload for heard, payload, _ in reversed(self.heard) if heard == topic), None)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._client.disconnect()
        self._client.loop_stop()


class FalseBroker:
    """What listens at a port and answers whatever arrives with the bytes it was given, then hangs up or stays silent."""

    def __init__(self, answer, *, stays=False):
        self._answer, self._stays, self.met = answer, stays, 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._held = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.met += 1
            connection.settimeout(2)
            try:
                connection.recv(4096)
                connection.sendall(self._answer)
            except OSError:
                pass
            if self._stays:
                self._held.append(connection)
            else:
                connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._held:
            connection.close()


class ScriptedBroker:
    """Speaks MQTT 5 as a script has it: `play(nth, kind, body)` gives the answer to a packet, None hangs up.

    `nth` counts connections from 1, `kind` is the packet's type (MQTT 5, 2.1.2), `heard` are all (nth, kind, body). What
    `more` gives is sent behind each answer to a CONNECT, until it gives nothing.
    """

    def __init__(self, play, more=bytes):
        self._play, self._more, self.heard = play, more, []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        nth = 0
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            nth += 1
            with connection, suppress(OSError, IndexError), connection.makefile("rb") as stream:
                while kind := stream.read(1)[0] >> 4:
                    body = stream.read(self._length(stream))
                    self.heard.append((nth, kind, body))
                    if (answer := self._play(nth, kind, body)) is None:
                        break
                    connection.sendall(answer)
                    while kind == 1 and answer[3] == 0 and (piece := self._more()):
                        connection.sendall(piece)

    @staticmethod
    def _length(stream):
        length = shift = 0
        while True:
            byte = stream.read(1)[0]
            length |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return length

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


def seconds_of_cpu():
    return time.process_time()


_AUTHORITY = """
[ca]
default_ca = own
[own]
database = {folder}/index
new_certs_dir = {folder}
rand_serial = yes
default_md = sha256
policy = any
x509_extensions = here
[any]
commonName = supplied
[here]
subjectAltName = IP:127.0.0.1
"""


def certificate(folder: Path, begins="20200101000000Z", ends="20990101000000Z"):
    """Make a self-signed certificate for 127.0.0.1 with openssl; returns its file and that of its key."""
    folder.mkdir(exist_ok=True)
    cert, key, request, settings = (str(folder / name) for name in ("cert", "key", "request", "ca.conf"))
    Path(settings).write_text(_AUTHORITY.format(folder=folder))
    (folder / "index").touch()
    words = ["req", "-new", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=127.0.0.1", "-keyout", key, "-out", request]
    subprocess.run(["openssl", *words], check=True, capture_output=True)
    words = ["ca", "-batch", "-selfsign", "-notext", "-config", settings, "-keyfile", key, "-in", request, "-out", cert]
    words += ["-startdate", begins, "-enddate", ends]
    subprocess.run(["openssl", *words], check=True, capture_output=True)
    return folder / "cert", folder / "key"
