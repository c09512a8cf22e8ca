"""The model of the soak: does what the newest message says, `soak KIND NUMBER`, with tools where that takes one."""

import json
import re
import threading
from collections import Counter, deque

from model_server import (
    call,
    chunk,
    drop,
    page,
    raw,
    refusal,
    reply,
    silence,
    status,
    truncated_body,
    truncated_stream,
)

WISH = re.compile(r"soak (\w+) (\d+)")
CALLS = {
    "read": lambda n: call("sensor_read", {}),
    "file": lambda n: call("write_file", {"path": "soak.txt", "content": f"line {n}", "mode": "append"}),
    "note": lambda n: call("memory_store", {"text": f"the soak number is {n}"}),
    "help": lambda n: call("spawn", {"task": f"soak work {n}"}),
    "pump": lambda n: call("output", {"action": "set", "name": "pump", "seconds": 60}),
    "work": lambda n: call("sensor_read", {}),
    "drip": lambda n: call("cron", {"action": "add", "message": "soak drips", "every_seconds": 900}),
    "clock": lambda n: call("cron", {"action": "add", "message": "soak strikes", "cron_expr": "*/20 * * * *"}),
    "job": lambda n: call("cron", {"action": "add", "kind": "turn", "message": "soak tick 0", "every_seconds": 1200}),
}
TAKE_A_TOOL = {*CALLS, "remind"} - {"pump"}
"""What is done at once; the pump waits for a yes."""

SAYS = {"work": "soak report {}", "tick": "soak ticks"}
LONG = " ".join(f"On day {n} of the soak the gardener counts {n * n} drops, and {n + 7} beans." for n in range(1, 40))

BAD = {
    "error 500": status(500, "Internal Server Error", "text/plain"),
    "busy 429": refusal(429, "slow down", retry_after="2"),
    "cut stream": truncated_stream(),
    "cut body": truncated_body(),
    "half JSON": raw(b'{"choices": [{"message": {"role": "assistant", "content": "It i'),
    "no answer": drop(),
    "a login page": page(),
    "broken arguments": reply("", call("sensor_read", '{"sensor": "gree')),
    "an unknown tool": reply("", call("make_coffee", {"cups": 3})),
    "silence": silence(chunk(content="")),
    "nothing said": reply(""),
}


class Script:
    """Answers; `bad(name)` has the next request answered badly, `is_down` has all of them. `done` is what the tools said,
    by wish; reminders are for `remind_s` seconds later."""

    def __init__(self, remind_s):
        self._calls = CALLS | {
            "remind": lambda n: call("cron", {"action": "add", "message": f"tea {n}", "at_seconds": remind_s})
        }
        self.asked = Counter()
        self.done = {}
        self._bad = deque()
        self.is_down = False
        self._lock = threading.Lock()

    def bad(self, name):
        self._bad.append(name)

    def __call__(self, body):
        if self.is_down:
            return BAD["error 500"]
        with self._lock:
            kind = self._kind(body)
            self.asked[kind] += 1
            self._note(body)
            bad = self._bad.popleft() if self._bad and kind not in {"chore", "on"} else ""
        return BAD[bad] if bad else self._good(body)

    def _note(self, body):
        """Keep what a tool has said: with that, it was promised."""
        newest = body["messages"][-1]
        if newest["role"] == "tool" and (found := WISH.findall(_said(body))):
            self.done.setdefault(found[-1], str(newest["content"]))

    def promised(self, kind):
        """The numbers of what a tool has done, and said so."""
        return [int(n) for (what, n), said in list(self.done.items()) if what == kind and "error" not in said[:40]]

    def _kind(self, body):
        if "This is a heartbeat" in str(body["messages"][0]["content"]):
            return "heartbeat"
        found = WISH.findall(_said(body))
        if body.get("tools"):
            return found[-1][0] if found else "on"
        return "chore"

    def _good(self, body):
        kind = self._kind(body)
        if kind in {"heartbeat", "chore"}:
            return reply("HEARTBEAT_OK" if kind == "heartbeat" else _summed(body))
        if kind == "on":
            return reply("soak: on it goes")
        number = WISH.findall(_said(body))[-1][1]
        if body["messages"][-1]["role"] != "tool" and kind in self._calls:
            return reply("", self._calls[kind](number))
        if kind == "long":
            return reply(f"answer {number}. {LONG}")
        return reply(SAYS.get(kind, "answer {}").format(number))


def _summed(body):
    """Sum up what was asked for last, so that it is taken for a summary."""
    found = WISH.findall(_said(body))[-12:]
    return "The user has soaked: " + ", ".join(f"{kind} {number}" for kind, number in found)


def _said(body):
    """What the newest message of a person says."""
    said = [message["content"] for message in body["messages"] if message["role"] == "user"]
    return said[-1] if said and isinstance(said[-1], str) else json.dumps(said[-1:])
