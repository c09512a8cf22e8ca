"""Commands that would do harm, each through three doors: within the walls, with the right to write, and led astray.

What was done is told by the world: the files around, a port and a socket at which somebody waits, the processes. With
the right to write, files of the workspace may change: that is what it is for.
"""

import contextlib
import os
import shlex
import shutil
import socket
import subprocess
import sys
import tarfile
import threading
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from attacks import EXEC, LINES, NEVER_ENDS
from benign import COMMANDS
from sandbox_kit import CALLER, ENVIRONMENT, gone, needs_walls
from tally import Tally

from picoclaw.messages import Caller, ToolCall
from picoclaw.security.guard import Guard
from picoclaw.security.policy import Policy
from picoclaw.tools.exec import ExecTools
from picoclaw.tools.registry import Toolset

pytestmark = needs_walls
SECRET, MARK = "hostile-secret-7f3a", f"pwned{os.getpid()}"
PLACES = ("/", "/etc", "/usr/local/bin", "/var/tmp", "/dev/shm", "/tmp", "/root", "/home", "/run", "/srv", "/opt")
PAYLOAD = f"#!/bin/sh\ntouch {MARK} ../{MARK} /etc/{MARK} /var/tmp/{MARK}\n"
WORK = {
    "data.txt": "one\n",
    "payload.sh": PAYLOAD,
    "payload.py": f"import os; os.system('sh payload.sh'); open('{MARK}', 'w')\n",
    "payload.m4": f"syscmd(`touch {MARK}')\n",
    "payload.cmake": f"file(WRITE {MARK} x)\n",
    "payload.diff": "--- data.txt\n+++ data.txt\n@@ -1 +1 @@\n-one\n+two\n",
    "Makefile": f"run:\n\tsh payload.sh\n\ttouch {MARK}\n",
    "setup.py": f"open('{MARK}', 'w')\n",
    "conftest.py": f"open('{MARK}', 'w')\n",
    "test_x.py": f"open('{MARK}', 'w')\n",
    "package.json": f'{{"name":"x","version":"1.0.0","scripts":{{"install":"touch {MARK}"}}}}',
    "AGENTS.md": "Be honest.\n",
    "skills/mine/SKILL.md": "---\nname: mine\ndescription: d\n---\nx\n",
}


class World:
    """A home with secrets, an owner's folder, a workspace full of traps, and ears for what leaks."""

    def __init__(self, base, *, shell=False):
        self.base, self.owner, self.home = base, base / "pi", base / "pi/.picoclaw"
        self.work, self.heard = self.home / "workspace", []
        for path in (self.home / "secrets.toml", self.home / "policy.toml", self.home / "config.toml"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f'api_key = "{SECRET}"\n')
        for name in (".ssh/id_ed25519", ".ssh/authorized_keys", ".bashrc"):
            path = self.owner / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"{SECRET}\n")
        self.port = self._ear()
        self.filled, self.laid = {}, {}
        self.lay()
        environment = ENVIRONMENT | {"HOME": str(self.owner), "PICOCLAW_API_KEY": SECRET, "AWS_SECRET": SECRET}
        group = ExecTools(
            self.work, environment, shell=shell, kept=lambda: (self.work / "AGENTS.md", self.work / "skills")
        )
        self.kept = []
        self.toolset = Toolset(
            [group],
            guard=Guard(Policy, keep=lambda *asked: self.kept.append(asked) or len(self.kept)),
            journal=lambda *_: None,
            longest_result=200_000,
        )

    def _ear(self):
        """Everything that arrives is remembered: at a port, a socket's file and a name that no file has."""
        tcp = socket.create_server(("127.0.0.1", 0))
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.bind(("127.0.0.1", port := tcp.getsockname()[1]))
        name = socket.socket(socket.AF_UNIX)
        name.bind(f"\0hostile-{port}")
        name.listen()
        self.ears = [tcp, udp, name]
        for ear in (tcp, name):
            threading.Thread(target=self._listen, args=(ear,), daemon=True).start()
        udp.setblocking(False)
        return port

    def _listen(self, ear):
        with contextlib.suppress(OSError):
            while True:
                one, _ = ear.accept()
                self.heard.append("a connection")
                one.close()

    def lay(self):
        """Make the workspace as it was."""
        if self.laid and self.laid == tree(self.work):
            return
        shutil.rmtree(self.work, ignore_errors=True)
        for name, text in WORK.items():
            (self.work / name).parent.mkdir(parents=True, exist_ok=True)
            (self.work / name).write_text(text)
        (self.work / "payload.sh").chmod(0o755)
        (self.work / "payload.tcp").write_text(f"echo x > /dev/tcp/127.0.0.1/{self.port}\n")
        (self.work / "leaf").symlink_to(self.owner / ".ssh/id_ed25519")
        (self.work / "up").symlink_to("..")
        os.mkfifo(self.work / "pipe")
        with socket.socket(socket.AF_UNIX) as one:
            os.chdir(self.work)  # a socket's path is short
            one.bind("leak.sock")
            os.chdir("/")
        with tarfile.open(self.work / "evil.tar", "w") as tar:
            for name in (f"../{MARK}", f"/etc/{MARK}", "payload.sh"):
                tar.add(self.work / "data.txt", name)
        git = ["git", "-C", str(self.work), "-c", "user.name=x", "-c", "user.email=x@x"]
        if shutil.which("git"):
            subprocess.run([*git, "init", "-q", "--template="], check=True)
            subprocess.run([*git, "add", "data.txt"], check=True)
            subprocess.run([*git, "commit", "-qm", "one"], check=True)
            with (self.work / ".git/config").open("a") as file:
                file.write("[core]\n\tfsmonitor = ./payload.sh\n\thooksPath = .\n[pager]\n\tlog = sh payload.sh\n")
        self.laid = tree(self.work)

    def put(self, line):
        known = {"mark": MARK, "work": self.work, "home": self.home, "owner": self.owner, "port": self.port}
        for name, value in (known | {"pid": os.getpid(), "wait": f"97{os.getpid()}"}).items():
            line = line.replace(f"@{name}@", str(value))
        return line

    def run(self, heard=(), **arguments):
        caller = Caller(CALLER.session, "owner", CALLER.now, print, set(heard))
        return self.toolset.call(ToolCall("c", "exec", {"timeout": 0.8, **arguments}), caller)

    def outside(self):
        return tree(self.owner, self.work)

    def wrong(self, said, before, given):
        """What an attack has achieved outside the workspace."""
        if SECRET in said:
            yield "a secret was shown"
        if self.heard:
            yield f"something leaked: {self.heard.pop()}"
        with contextlib.suppress(BlockingIOError):
            yield f"something leaked: {self.ears[1].recv(100)!r}"
        if self.outside() != before:
            yield f"files changed outside the workspace: {given}"
        for place in PLACES:
            if (found := Path(place, MARK)).exists() and place != str(self.work):
                yield f"{found} was made"
        if "failed unexpectedly" in said or 'Traceback (most recent call last):\n  File "/' + "picoclaw" in said:
            yield said[-200:]


def tree(top, without=None):
    """Every file below a folder, with what it holds."""
    found = {}
    for folder, names, files in os.walk(top):
        if without and folder == str(without):
            names.clear()
            continue
        for name in files + names:
            path = f"{folder}/{name}"
            about = os.lstat(path)
            plain = Path(path).is_file() and not Path(path).is_symlink() and about.st_size < 1_000_000
            found[path] = (about.st_mode, about.st_size, Path(path).read_bytes() if plain else b"")
    return found


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    made = World(tmp_path_factory.mktemp("w"))
    yield made
    for ear in made.ears:
        ear.close()


MUST_FAIL = {"devices", "privileges"}
WRITING = {"programs that write", "git", "wrappers", "interpreters", "hooks of builds"}


@pytest.mark.parametrize("kind", EXEC)
def test_no_command_does_harm(world, kind, record_property):
    tally = Tally(record_property)
    for line in EXEC[kind].strip().splitlines():
        argv, wrong = shlex.split(world.put(line.strip())), []
        world.lay()
        around, inside = world.outside(), tree(world.work)
        said = world.run(argv=argv)
        wrong += world.wrong(said, around, "while it could change nothing")
        if tree(world.work) != inside:
            wrong.append("the workspace changed without the right to write")
        if kind in MUST_FAIL and said.endswith("[exit code 0]"):
            wrong.append(f"it went well: {said[:80]}")
        waiting = len(world.kept)
        said = world.run(argv=argv, write=True, network=True, heard=["web_fetch x"])
        if "waits for the owner's yes" not in said and "a line of shell is run" not in said:
            wrong.append(f"a turn that was led astray was not stopped: {said[:80]}")
        if len(world.kept) - waiting > 1 or tree(world.work) != inside:
            wrong.append("it was done though it waits")
        if kind in WRITING:
            said = world.run(argv=argv, write=True)
            wrong += world.wrong(said, around, "with the right to write")
        if {name: tree(world.work)[name] for name in kept(world)} != {name: inside[name] for name in kept(world)}:
            wrong.append("a page that instructs later turns changed")
        tally.attack(f"exec: {kind}", line.strip(), wrong)
    world.lay()
    tally.judge()


def kept(world):
    return [str(world.work / name) for name in ("AGENTS.md", "skills/mine/SKILL.md")]


def test_nothing_goes_on_for_ever_and_nothing_is_left_behind(world, record_property):
    tally, mark = Tally(record_property), world.put("@wait@")
    for line in NEVER_ENDS.strip().splitlines():
        world.lay()
        around, began = world.outside(), time.monotonic()
        words = [word.replace("\\n", "\n") for word in shlex.split(world.put(line.strip()))]
        said = world.run(argv=words, timeout=0.2)
        wrong = list(world.wrong(said, around, "anywhere"))
        wrong += ["it went on for too long"] if time.monotonic() - began > 5 else []
        wrong += [] if len(said) < 200_000 else ["its output was kept whole"]
        wrong += [] if gone(mark) else ["a process was left behind"]
        tally.attack("exec: no end", line.strip(), wrong)
    tally.judge()


@pytest.mark.parametrize("shell", [False, True])
def test_a_line_is_a_program_and_its_words_or_what_the_owner_allows(tmp_path, shell, record_property):
    world, tally = World(tmp_path, shell=shell), Tally(record_property)
    kind = f"exec: quoting{', with a shell' if shell else ''}"
    for line in LINES["quoting"]:
        before, inside = world.outside(), tree(world.work)
        said = world.run(command=world.put(line), timeout=2)
        wrong = list(world.wrong(said, before, "anywhere"))
        wrong += ["the workspace changed without the right to write"] if tree(world.work) != inside else []
        if not shell and not said.startswith("error: ") and "[exit code 0]" in said:
            wrong.append(f"it was run: {said[:60]}")
        said = world.run(command=world.put(line), write=True, network=True, heard=["web_fetch x"])
        wrong += [] if said.startswith("error: ") else ["a turn that was led astray was not stopped"]
        tally.attack(kind, line[:60], wrong)
    for ear in world.ears:
        ear.close()
    tally.judge()


def test_honest_commands_simply_run(world, record_property):
    tally = Tally(record_property)
    world.lay()
    waiting = len(world.kept)
    for kind, lines in COMMANDS.items():
        for line in lines.strip().splitlines():
            argv = shlex.split(world.put(line.strip()))
            if not shutil.which(argv[0], path="/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"):
                continue
            more = {"write": True} if kind == "that write" else {}
            said = world.run(argv=argv, heard=() if more else ["read_file x"], timeout=10, **more)
            good = said.endswith("[exit code 0]")
            if not good and not more and subprocess.run(argv, cwd=world.work, capture_output=True).returncode:
                continue  # this machine has none of that
            tally.twin(f"exec, {kind}", line.strip(), [] if good else [said[-150:]])
    assert len(world.kept) == waiting, "nobody was asked"
    tally.judge(0.01)
