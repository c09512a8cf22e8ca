"""Who uses the house while it is soaked: the owner and guests on Telegram, somebody at the page, somebody who watches.

Each of them says one thing, and the next when that was answered, so that an answer that is missing is missed, and one
that comes twice is one too many.
"""

import contextlib
import itertools
import json
import re
import threading
import time
import urllib.request

from furnished import OWNER
from telegram_server import TelegramServer

PATIENCE_S = 25.0
NEAR = 6
"""So many texts later, the same sentence is another answer."""

PEACE_EVERY_S, PEACE_S = 600.0, 90.0
TOLD_AGAIN = re.compile(
    r"\(Perhaps sent before: the connection broke off\.\)\n|\s*\(perhaps a repeat[^)]*\)|\s*\(was due [^)]*\)"
)
LETTERS = (
    *(
        "Reminder: ",
        "Sub-agent ",
        "soak: it is hot",
        "soak: on it goes",
        "soak ticks",
        "Number ",
        "number ",
        "Job ",
        "Rule ",
    ),
    *("what rules do ", "measurements are not being kept", "The last ", "/yes was not done", "Nothing was done"),
)
"""How what comes unasked begins, and what answers the thumb."""

BUNDLES = re.compile(r"\d+ (messages from while this chat|sub-agents have ended)")
OWNER_SAYS = ("ask", "file", "note", "remind", "help", "pump", "read", "long")
GUEST_SAYS = ("ask", "read", "long")
PLANS = ("drip", "clock", "job")


class Telegram(TelegramServer):
    """The Bot API, whose long polls are as short as the clock is quick."""

    def __init__(self, pace):
        super().__init__()
        self._pace = pace

    def rest_of_peace(self):
        """How many seconds of the machine's everybody is silent for now, because a heartbeat waits for that."""
        into = self._pace.now() % PEACE_EVERY_S
        return max(0.0, (PEACE_S - into) / self._pace.pace) if self._pace.pace > 1 else 0.0

    def _do_getUpdates(self, exchange):  # noqa: N802
        exchange.fields["timeout"] = float(exchange.fields.get("timeout", 0)) / self._pace.pace
        return super()._do_getUpdates(exchange)


def plain(text):
    """A text without what says that it may have come before, or late."""
    return TOLD_AGAIN.sub("", text)


def once(sent):
    """The texts of a chat: one that says that it may have come before, and has a moment ago, is left out."""
    kept = []
    for text in sent:
        if plain(text) == text or plain(text) not in kept[-NEAR:]:
            kept.append(plain(text))
    return kept


def said(text):
    """Whether it is an answer, and no letter that comes unasked."""
    return not text.startswith(LETTERS) and not BUNDLES.match(text)


class Chatter(threading.Thread):
    """Somebody on Telegram. `lost` are the numbers that nobody has answered."""

    def __init__(self, telegram, who, kinds, gap_s, numbers):
        super().__init__(name=f"person {who}", daemon=True)
        self._telegram, self.who, self._kinds, self._gap_s, self._numbers = telegram, who, kinds, gap_s, numbers
        self.ending = threading.Event()
        self.asked, self.lost, self.slowest = {}, [], 0.0

    def run(self):
        for kind in self._kinds:
            self.ending.wait(self._telegram.rest_of_peace())
            if self.ending.is_set():
                return
            self.ask(kind)
            self.ending.wait(self._gap_s)

    def answers(self):
        sent = [one.text for one in list(self._telegram.sent) if one.chat == self.who and not one.keys]
        return [text for text in once(sent) if said(text)]

    def numbers(self):
        """The messages that were answered by the model, as often as they were."""
        found = (re.match(r"answer (\d+)", text) for text in self.answers())
        return [int(one[1]) for one in found if one]

    def list_repeats(self):
        """All that was sent from the first to the last answer with a number that was answered twice, word for word."""
        found = self.numbers()
        sent = [one.text for one in list(self._telegram.sent) if one.chat == self.who]
        for number in sorted({one for one in found if found.count(one) > 1}):
            places = [place for place, text in enumerate(sent) if f"answer {number}" in text]
            yield [text[:120] for text in sent[places[0] : places[-1] + 1]]

    def ask(self, kind):
        number = next(self._numbers)
        before = len(self.answers())
        self.asked[number] = kind
        more = {"note": f": the soak number is {number}", "remind": f": tea {number}"}.get(kind, "")
        self._telegram.says(self.who, f"soak {kind} {number}{more}")
        begun = time.monotonic()
        while len(self.answers()) <= before:
            if time.monotonic() - begun > PATIENCE_S:
                self.lost.append(number)
                return
            time.sleep(0.05)
        self.slowest = max(self.slowest, time.monotonic() - begun)


class Presser(threading.Thread):
    """The owner's thumb: says yes to each question, once."""

    def __init__(self, telegram):
        super().__init__(name="presser", daemon=True)
        self._telegram, self.pressed = telegram, []
        self.ending = threading.Event()

    def run(self):
        while not self.ending.wait(0.3):
            for one in list(self._telegram.sent):
                if one.keys and (data := one.keys[0]["callback_data"]) not in self.pressed:
                    self.pressed.append(data)
                    self._telegram.presses(OWNER, data)


class Browser(threading.Thread):
    """Somebody at the page: listens to its events, says something now and then, and goes and comes again."""

    def __init__(self, port, code, gap_s, numbers, peace):
        super().__init__(name="browser", daemon=True)
        self._url, self._code, self._gap_s, self._numbers = f"http://127.0.0.1:{port}", code, gap_s, numbers
        self._peace = peace
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self._cookie = ""
        self.ending, self.away = threading.Event(), threading.Event()
        self.asked, self.lost, self.doubled, self.visits, self.troubles = 0, [], [], 0, []

    def run(self):
        while not self.ending.is_set():
            try:
                self._visit()
            except (OSError, ValueError) as error:
                if not self.away.is_set():
                    self.troubles.append(f"{type(error).__name__}: {error}")
                self.ending.wait(0.5)

    def call(self, path, body=None, seconds=20):
        headers = {"Cookie": self._cookie, "Origin": self._url, "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data, headers)
        return self._opener.open(request, timeout=seconds)

    def _visit(self):
        """Come, look at everything, say a few things and go."""
        if not self._cookie:
            with self.call("/api/login", {"code": self._code()}) as answer:
                self._cookie = answer.headers["Set-Cookie"].partition(";")[0]
        self.visits += 1
        with self.call("/api/events") as events:
            for path in ("/", "/api/state", "/api/day"):
                with self.call(path) as answer:
                    answer.read()
            for _ in range(5):
                self.ending.wait(self._peace())
                if self.ending.is_set():
                    return
                self._ask(events)
                self.ending.wait(self._gap_s)

    def _ask(self, events):
        number = next(self._numbers)
        with self.call("/api/say", {"text": f"soak ask {number}", "id": f"n{number}"}) as answer:
            answer.read()
        self.asked += 1
        with contextlib.suppress(OSError):
            if self._ended(events, number):
                return
        self._looked_up(number)

    def _ended(self, events, number):
        """Wait until the turn that answers it has ended; False when the stream is over before."""
        mine, begun = False, time.monotonic()
        kind = ""
        for row in events:
            name, _, value = row.decode().rstrip("\n").partition(": ")
            kind = value if name == "event" else kind
            if name == "data" and kind == "begun":
                mine = f"soak ask {number}" in value
            elif name == "data" and kind == "ended" and mine:
                return True
            if time.monotonic() - begun > PATIENCE_S:
                break
        return False

    def _looked_up(self, number):
        """After a death of the house: what it says of the conversation has to have it, answered."""
        begun = time.monotonic()
        while time.monotonic() - begun < PATIENCE_S:
            with contextlib.suppress(OSError, ValueError), self.call("/api/state") as answer:
                lines = json.load(answer)["said"]
                at = next((n for n, one in enumerate(lines) if f"soak ask {number}" in one["text"]), None)
                told = [one for one in lines if f"soak ask {number}" in one["text"] and one["role"] != "user"]
                if told or (at is not None and any(one["role"] != "user" for one in lines[at + 1 :])):
                    return
            time.sleep(0.3)
        self.lost.append(number)


def numbers():
    """Numbers for messages, none of them twice."""
    return itertools.count(1000)
