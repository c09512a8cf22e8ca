"""docs/greenhouse.md, followed to the letter by somebody with a new home and a simulated board."""

import re
import shlex
import socket
import time
from contextlib import ExitStack
from types import SimpleNamespace

import pytest
from daemon_kit import until
from page_house import Client
from person import ROOT, Person, picoclaw

PAGE = (ROOT / "docs/greenhouse.md").read_text()
BLOCKS = re.findall(r"(?:<!-- (\S+) -->\n)?```(\w+)\n(.*?)```", PAGE, re.DOTALL)


def fold(text):
    """Leave out what differs each time."""
    return " ".join(re.sub(r"\d+(?:\.\d+)?", "0", text).split())


def change(settings, wanted):
    """Give lines that are commented out another value, as the page tells to do."""
    for table, lines in re.findall(r"^\[(\w+)\]\n((?:\w.*\n)+)", wanted, re.MULTILINE):
        head, name, rest = settings.partition(f"\n[{table}]")
        for line in lines.splitlines():
            rest, count = re.subn(rf"^# {line.split()[0]} = .*$", line, rest, count=1, flags=re.MULTILINE)
            assert count, line
        settings = head + name + rest
    return settings


class Reader:
    """Types what the page shows, one block after the other."""

    def __init__(self, home, stack):
        self.home, self.stack, self.folder = home, stack, home / "picoclaw"
        self.shown = ""
        self.browser = None
        with socket.create_server(("127.0.0.1", 0)) as taken:
            self.port = taken.getsockname()[1]

    def type(self, line):
        words = shlex.split(line)
        if words[0] == "sudo":
            return
        if words[1:] == ["rules", "log"]:
            until(lambda: "temperature above 35" in "".join(self.read_chat()), 60)
        person = self.stack.enter_context(Person(self.home, *words[1:], columns=200))
        if words[1] == "run":
            self.shown += person.sees("channels: terminals, page")
            return
        if words[1:3] == ["outputs", "arm"]:
            person.sees("to arm it:")
            person.types(f"{words[3]}\n")
        code = person.leaves()
        said = person.seen
        assert code == 0 or "It waits for your approval" in said, (line, said)
        if words[1:] == ["page", "code"]:
            self.browser = Client(SimpleNamespace(port=self.port), self.folder, None, [])
            typed = {"code": re.search(r"\w{4}-\w{4}", said)[0]}
            status, headers, _ = self.browser.ask("/api/login", typed)
            assert status == 200
            self.browser.cookie = headers["set-cookie"].partition("=")[2].partition(";")[0]
        self.shown += said

    def read_chat(self):
        """What the page says in its chat; it answers ten requests a second."""
        time.sleep(0.3)
        return [entry["text"] for entry in self.browser.told("/api/state")["said"] if entry["role"] == "assistant"]

    def write(self, name, text):
        file = self.folder / name
        if name == "config.toml":
            text = change(change(file.read_text(), text), f"[page]\nport = {self.port}\n")
        file.write_text(text)


@pytest.mark.long
def test_every_command_does_what_the_page_says(tmp_path):
    with ExitStack() as stack:
        reader = Reader(tmp_path, stack)
        for name, kind, text in BLOCKS:
            if kind == "sh":
                reader.shown = ""
                for line in text.splitlines():
                    reader.type(line)
            elif kind == "toml":
                reader.write(name, text)
            else:
                missing = [line for line in text.splitlines() if fold(line) not in fold(reader.shown)]
                assert not missing, reader.shown
        audit = picoclaw(tmp_path, "outputs", "audit").stdout
        assert re.search(r"on fan: on, for .* by owner", audit)
