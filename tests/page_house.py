"""A house for the page that needs no board, and a client that speaks HTTP byte by byte."""

import json
import socket
import threading
from contextlib import contextmanager

from picoclaw.channels.dashboard.channel import DashboardChannel
from picoclaw.channels.dashboard.live import ChatEntry, Figure, ListRow, OutputState, OutputStates, SensorValue
from picoclaw.channels.dashboard.login import make_code
from picoclaw.errors import ConfigError, HardwareError, StoreError


class PaperHouse:
    """Has a memory of its own: what is switched off stays off."""

    name = "shed"
    mark = ""
    zone = "Europe/Berlin"

    def __init__(self):
        self.away = {"pump": 90.0}
        self.stopped = ""
        self.lines = []
        self.value = 21.4
        self.well = True
        self.torn = False
        self.asked = []
        self.dated, self.posted, self.begun = True, [], []
        self.followed = [ListRow("hot", "when it is hot: tell you", command="/rule", paused=True)]

    def view(self, person):
        return PersonsView(self, person)

    def readings(self):
        return [SensorValue("porch", "temperature", "°C", self.value, f"{self.value} °C", at=1.0)]

    def history(self, sensor, quantity, begin, end, most):
        if sensor != "porch":
            return []
        return [(begin + n * (end - begin) / most, n - 1.0, float(n), n + 1.0) for n in range(most)]

    def outputs(self):
        left = self.away.get("pump")
        level = "on" if left else "off"
        return OutputStates(
            (OutputState("pump", "pump", "GPIO17", level, left is not None, left, armed=True),), self.stopped
        )

    def stop(self):
        self.away.clear()
        self.stopped = "by owner"
        return "stopped: everything is at its safe level"

    def off(self, name):
        if name != "pump":
            raise HardwareError(f"there is no output {name!r}")
        self.away.pop(name, None)
        return f"{name} is off"

    def resume(self):
        self.stopped = ""
        return "resumed"

    def jobs(self):
        return [ListRow("1.", "10:22 water the tomatoes", command="/job")]

    def rules(self):
        return self.followed

    def agents(self, session):
        assert session == "page:home"
        return [ListRow("default", "this board's own agent"), ListRow("garden", "Flora", command="/agent garden")]

    def errors(self):
        return []

    def facts(self):
        return [ListRow("disk", "24 GB free")]

    def said(self, session, most):
        if self.torn:
            raise StoreError("state.db is damaged")
        assert session == "page:home"
        return self.lines[-most:]

    def outcomes(self, most):
        return [ChatEntry("outcome", one.outcome, 2.0) for one in self.asked if one.outcome][-most:]

    def questions(self):
        return self.asked

    def notes(self, words):
        return [ListRow("memory/2026-11-20.md", "the pump's fuse is 5 A")] if "fuse" in words else []

    def note(self, path):
        if path != "memory/2026-11-20.md":
            raise StoreError(f"there is no note {path!r} any more")
        return "# 2026-11-20\n- the pump's fuse is 5 A"

    def list_household(self):
        return [("people", "People", "person", [], [("bob", "member", None)])]

    def change_household(self, kind, act, key, values, who):
        raise ConfigError(f"nobody is called {key!r}")

    def figures(self):
        return [Figure("ok", "1 while all is well", {}, float(self.well))]

    def knows_date(self):
        return self.dated

    def find_message(self, key, externals):
        for number, one in enumerate(self.posted, 1):
            if one.key == key and set(externals) & set(one.external.split()):
                return number
        return 0

    def begin_conversation(self, key):
        self.begun.append(key)

    def troubles(self):
        return [] if self.well else ["telegram is down", "clock"]

    def hears(self, text, at=1.0):
        """Have said something, and been answered."""
        self.lines += [ChatEntry("user", text, at), ChatEntry("assistant", f"heard: {text}", at)]


class PersonsView:
    """What a person sees of the house: the board, and what is theirs."""

    def __init__(self, house, person):
        self.house, self.person = house, person

    def __getattr__(self, name):
        return getattr(self.house, name)

    def said(self, session, most):
        assert session == f"page:person/{self.person}"
        return []

    def agents(self, session):
        assert session == f"page:person/{self.person}"
        return []

    def jobs(self):
        return [ListRow("2.", f"11:00 {self.person}'s tea")]

    def rules(self):
        return []

    outcomes = notes = lambda *_: []
    questions = errors = facts = rules


@contextmanager
def served(home, house=None, **named):
    """A page that listens, with what was posted to it."""
    house = house or PaperHouse()
    page = DashboardChannel(house, home, named.pop("host", "127.0.0.1"), 0, **named)
    posted = house.posted
    page.start(posted.append)
    try:
        yield Client(page, home, house, posted)
    finally:
        page.stop()


class Client:
    """A browser of few words; `cookie` is what it was given."""

    def __init__(self, page, home, house, posted):
        self.page, self.home, self.house, self.posted = page, home, house, posted
        self.port = page.port
        self.host = f"127.0.0.1:{self.port}"
        self.cookie = ""

    def raw(self, data, wait=5.0):
        """Send bytes on a new connection and return all that comes back until it ends or falls silent."""
        with self.connection(wait) as line:
            line.sendall(data)
            line.shutdown(socket.SHUT_WR)
            return rest(line)

    def connection(self, wait=5.0):
        return socket.create_connection(("127.0.0.1", self.port), timeout=wait)

    def ask(self, path, body=None, headers=(), method=""):
        """Ask as the page's own script does; returns the status, the headers and the body."""
        method = method or ("GET" if body is None else "POST")
        data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        given = {"Host": self.host, "Connection": "close"}
        if body is not None:
            given |= {
                "Origin": f"http://{self.host}",
                "Content-Type": "application/json",
                "Content-Length": str(len(data)),
            }
        if self.cookie:
            given["Cookie"] = f"picoclaw={self.cookie}"
        given |= dict(headers)
        head = "".join(f"{name}: {value}\r\n" for name, value in given.items() if value is not None)
        return parted(self.raw(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + data))

    def told(self, path, body=None, **named):
        """The JSON of an answer that has to be good."""
        status, _, answer = self.ask(path, body, **named)
        assert status == 200, answer
        return json.loads(answer)

    def login(self, person=""):
        status, headers, _ = self.ask("/api/login", {"code": make_code(self.home, person)})
        assert status == 200
        self.cookie = headers["set-cookie"].partition("=")[2].partition(";")[0]
        return headers["set-cookie"]

    @contextmanager
    def stream(self, after="", cookie=None):
        """Listen to what happens; gives a function that waits for the next event."""
        with self.connection() as line:
            given = f"Cookie: picoclaw={cookie or self.cookie}\r\n"
            line.sendall(f"GET /api/events?after={after} HTTP/1.0\r\nHost: {self.host}\r\n{given}\r\n".encode())
            file = line.makefile("r", encoding="utf-8", newline="\n")
            while file.readline().strip():
                pass
            yield lambda *kinds: _next(file, kinds)


def _next(file, kinds):
    event = {}
    for row in file:
        name, _, value = row.rstrip("\n").partition(": ")
        if not row.strip():
            if event.get("event") in kinds or (not kinds and "event" in event):
                return event["event"], json.loads(event["data"])
            event = {}
        else:
            event[name] = value
    return None


def rest(line):
    found = b""
    try:
        while more := line.recv(65536):
            found += more
    except TimeoutError:
        found += b"<silence>"
    except ConnectionError:
        pass
    return found


def parted(answer):
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *rows = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value for name, _, value in (row.partition(": ") for row in rows)}
    return int(first.split()[1]) if first else 0, headers, body


def later(act):
    """Do something in another thread."""
    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    return thread
