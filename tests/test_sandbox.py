"""The walls, tried from inside: what a command sees, what it cannot change, and who else can make them."""

import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from sandbox_kit import Bench, gone, needs_walls, running

from picoclaw.security import sandbox, sandbox_launcher
from picoclaw.security.sandbox import SandboxCommand, SandboxLayout, Visibility, build_bwrap_arguments, find_visibility
from picoclaw.workspace import find_onboarding

pytestmark = needs_walls
HIDDEN = pytest.mark.skipif(os.geteuid() != 0, reason="puts files where only root can")


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path / "home")


def test_the_home_is_not_there_but_the_workspace(bench):
    (bench.workspace / "a.txt").write_text("mine")
    assert bench.run("cat", "a.txt") == "mine\n[exit code 0]"
    assert bench.run("ls", "-A", str(bench.home)) == "workspace\n[exit code 0]"
    for name in ("../secrets.toml", str(bench.home / "secrets.toml"), f"/proc/self/root{bench.home}/secrets.toml"):
        assert "No such file" in bench.run("cat", name, write=True, network=True)


@pytest.mark.parametrize("rights", [{}, {"network": True}])
def test_nothing_can_be_changed(bench, rights):
    (bench.workspace / "a.txt").write_text("mine")
    for words in (
        ("touch", "b.txt"),
        ("rm", "a.txt"),
        ("ln", "a.txt", "b.txt"),
        ("chmod", "777", "a.txt"),
        ("touch", "a.txt"),
        ("mv", "a.txt", "b.txt"),
        ("truncate", "-s0", "a.txt"),
        ("mkdir", f"{bench.home}/x"),
        ("touch", "/etc/x"),
        ("touch", "/usr/x"),
        ("touch", "/home/x"),
        ("touch", "/root/x"),
        ("touch", "/run/x"),
        ("touch", "/sys/x"),
        ("python3", "-c", "open('/proc/sys/kernel/hostname', 'w').write('x')"),
        ("python3", "-c", "open('/proc/sys/kernel/core_pattern', 'a')"),
        ("python3", "-c", "open('/proc/sysrq-trigger', 'a')"),
        ("mount", "-o", "remount,rw", "/"),
        ("umount", str(bench.home)),
        ("unshare", "-rm", "true"),
        ("mknod", "/tmp/x", "b", "8", "0"),
        ("chroot", "/", "true"),
    ):
        assert "[exit code 0" not in bench.run(*words, **rights), words
    assert [path.name for path in bench.workspace.iterdir()] == ["a.txt"]
    assert (bench.workspace / "a.txt").read_text() == "mine"
    assert (bench.workspace / "a.txt").stat().st_mode & 0o777 == 0o644


def test_write_changes_the_workspace_and_nothing_else(tmp_path):
    page, folder = tmp_path / "home/workspace/AGENTS.md", tmp_path / "folder"
    folder.mkdir()
    bench = Bench(tmp_path / "home", kept=lambda: (page,), folders=[str(folder), str(tmp_path / "home")])
    page.write_text("be good")
    assert bench.run("touch", "b.txt", f"{folder}/c.txt", write=True) == "[exit code 0]"
    assert (bench.workspace / "b.txt").exists()
    assert (folder / "c.txt").exists()
    for words in (
        ("tee", "AGENTS.md"),
        ("rm", "-f", "AGENTS.md"),
        ("mv", "AGENTS.md", "x"),
        ("mv", "b.txt", "AGENTS.md"),
        ("touch", "/etc/x"),
        ("touch", "../x"),
        ("cat", "../secrets.toml"),
    ):
        assert "[exit code 0" not in bench.run(*words, write=True), words
    assert page.read_text() == "be good"


INSTRUCTS = ("AGENTS.md", "BOOTSTRAP.md", "prompts", ".agents/skills", "memory/MEMORY.md")
MAKES = """
import os
from pathlib import Path
for name in ("AGENTS.md", "BOOTSTRAP.md", "prompts", ".agents", "memory"):
    path = Path(name)
    for do in (
        lambda: path.write_text("obey"),
        lambda: path.unlink(),
        lambda: path.rmdir(),
        lambda: path.rename("moved"),
        lambda: os.replace(path, "moved"),
        lambda: os.replace("mine.txt", path),
        lambda: os.link("mine.txt", path),
        lambda: path.symlink_to("mine.txt"),
        lambda: path.chmod(0o777),
        lambda: (path / "x.md").write_text("obey"),
        lambda: (path / "skills").mkdir(),
        lambda: os.link(path, "linked"),
    ):
        try:
            do()
        except OSError:
            continue
        print("could be done with", name)
"""


def _whole(folder):
    return {path.relative_to(folder): path.is_dir() or path.read_text() for path in folder.rglob("*")}


def test_what_instructs_later_turns_cannot_be_made_either(tmp_path):
    bench = Bench(tmp_path / "home", kept=lambda: [tmp_path / "home/workspace" / name for name in INSTRUCTS])
    (bench.workspace / "memory").mkdir()
    (bench.workspace / "memory/MEMORY.md").write_text("- known")
    (bench.workspace / "mine.txt").write_text("mine")
    before = _whole(bench.workspace)
    assert bench.run("python3", "-c", MAKES, write=True) == "[exit code 0]"
    assert bench.run("touch", "AGENTS.md").startswith("touch: cannot touch")
    assert _whole(bench.workspace) == before
    bench.run("sleep", "20", background=True, write=True)
    during = {path.name for path in bench.workspace.iterdir()}
    assert during == {"AGENTS.md", "BOOTSTRAP.md", "prompts", ".agents", "memory", "mine.txt"}
    assert not find_onboarding(bench.home)
    assert bench.run("python3", "-c", MAKES, write=True) == "[exit code 0]"
    assert {path.name for path in bench.workspace.iterdir()} == during, "the other command still needs them"
    (bench.workspace / "prompts/own.md").write_text("the owner's")
    bench.tool("process", action="kill", number=1)
    assert _whole(bench.workspace) == before | {Path("prompts"): True, Path("prompts/own.md"): "the owner's"}


def test_a_link_in_the_place_of_a_page_is_refused_and_nothing_is_left_behind(tmp_path):
    bench = Bench(tmp_path / "home", kept=lambda: [tmp_path / "home/workspace" / name for name in INSTRUCTS])
    (tmp_path / "elsewhere").mkdir()
    (bench.workspace / "prompts").symlink_to(tmp_path / "elsewhere")
    assert bench.run("true") == "[exit code 0]"
    assert bench.run("true", write=True).startswith(f"error: {bench.workspace}/prompts is a link")
    assert [path.name for path in bench.workspace.iterdir()] == ["prompts"]


def test_what_temporary_files_hold_is_gone_with_the_command(bench, tmp_path):
    assert bench.run("touch", "/tmp/x", "/var/tmp/x", "/dev/shm/x") == "[exit code 0]"
    assert bench.run("ls", "/tmp/x", "/var/tmp/x", "/dev/shm/x").endswith("[exit code 2]")
    assert not Path("/dev/shm/x").exists()


@HIDDEN
def test_homes_and_sockets_are_hidden():
    for folder in ("/root", "/run", "/srv", "/mnt", "/media"):
        inside = Path(folder) / f"picoclaw-{os.getpid()}"
        inside.touch()
        try:
            assert "No such file" in Bench(Path("/tmp") / f"b{os.getpid()}/home").run("cat", str(inside))
        finally:
            inside.unlink()
            shutil.rmtree(Path("/tmp") / f"b{os.getpid()}", ignore_errors=True)


def test_a_device_that_is_not_shown_is_not_called_absent(bench):
    assert "no device is shown to commands, whether it is there or not" in bench.run("ls", "-l", "/dev/ttyUSB0")
    assert "no device" not in bench.run("ls", "nowhere")


def test_a_device_is_not_made_up(bench):
    assert "Read-only file system" in bench.run("dd", "if=/dev/zero", "of=/dev/mmcblk0", "count=1")
    assert bench.run("dd", "if=/dev/zero", "of=/dev/null", "count=1").endswith("[exit code 0]")


NODES = """
import os, stat
for folder, _, names in os.walk("/dev"):
    for path in (os.path.join(folder, name) for name in names):
        if stat.S_ISCHR(os.lstat(path).st_mode) or stat.S_ISBLK(os.lstat(path).st_mode):
            print(path)
"""
"""What `find -type` takes for plain files, because each of them is mounted upon one."""


def test_there_are_no_devices(bench):
    listed = bench.run("python3", "-c", NODES).splitlines()[:-1]
    names = {name.removeprefix("/dev/") for name in listed if not name.startswith("/dev/pts/")}
    assert {"null", "urandom"} <= names <= {"null", "zero", "full", "random", "urandom", "tty", "console", "ptmx"}


@pytest.mark.alone  # another's sandbox would look for the folder that this one takes away again
@HIDDEN
def test_what_only_root_may_read_is_empty_for_a_picoclaw_that_is_root(bench):
    if Path("/etc/shadow").exists():
        assert "Permission denied" in bench.run("cat", "/etc/shadow", write=True, network=True)
    assert bench.run("test", "-s", "/etc/passwd") == "[exit code 0]"
    inside = Path("/etc/picoclaw/environment")
    inside.parent.mkdir(exist_ok=True)
    had = inside.exists()
    inside.touch()
    try:
        assert "No such file" in bench.run("cat", str(inside))
    finally:
        if not had:
            inside.unlink()
            inside.parent.rmdir()


def test_there_is_no_network_unless_it_is_given(bench):
    seen = []

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self):
            seen.append(self.path)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/x"
    ask = f"import urllib.request; print(urllib.request.urlopen({address!r}, timeout=3).status)"
    assert "200" not in bench.run("python3", "-c", ask)
    assert seen == []
    assert bench.run("python3", "-c", ask, network=True) == "200\n[exit code 0]"
    assert seen == ["/x"]
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("family", ["AF_UNIX", "AF_PACKET", "AF_VSOCK", "AF_ALG", "AF_CAN", "AF_BLUETOOTH"])
def test_sockets_that_no_name_space_holds_are_refused(bench, family):
    code = f"import socket; socket.socket(socket.{family}, socket.SOCK_RAW if '{family}' != 'AF_UNIX' else 1)"
    assert bench.run("python3", "-c", code).endswith("[exit code 1]")


CALLS = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
for number, given in {calls}:
    done = libc.syscall(number, *given)
    print(number, done, ctypes.get_errno())
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers are those of x86_64")
def test_calls_that_nobody_needs_are_refused(bench):
    calls = [(272, (0x10000000,)), (56, (0x10000011, 0, 0, 0, 0)), (321, (0, 0, 0)), (425, (1, 0)), (250, (0, 0, 0))]
    answer = bench.run("/usr/bin/python3", "-c", CALLS.format(calls=calls))
    assert answer == "272 -1 1\n56 -1 1\n321 -1 1\n425 -1 1\n250 -1 1\n[exit code 0]"
    assert "435 -1 38" in bench.run("/usr/bin/python3", "-c", CALLS.format(calls=[(435, (0, 0))]))


@pytest.mark.parametrize("machine", ["x86_64", "aarch64", "armv7l", "riscv64"])
def test_a_filter_is_well_formed(machine):
    """Every jump stays inside, and nothing runs past the end (what the kernel itself checks)."""
    program = sandbox.build_seccomp_filter((1, 2, 10, 16), machine)
    steps = [program[at : at + 8] for at in range(0, len(program), 8)]
    assert bool(steps) == (machine != "riscv64")
    for at, step in enumerate(steps):
        code, if_so, if_not = int.from_bytes(step[:2], "little"), step[2], step[3]
        assert code == 6 or at + 1 + max(if_so, if_not) < len(steps)
    assert not steps or steps[-1][0] == 6


def test_limits_hold(bench):
    limits = bench.run("cat", "/proc/self/limits")
    for name, most in (("core file size", 0), ("file size", 1 << 30), ("processes", 128), ("open files", 1024)):
        assert int(re.search(rf"Max {name} +(\d+)", limits)[1]) == most
    assert bench.run("cat", "/proc/self/oom_score_adj") == "1000\n[exit code 0]"
    half = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    assert int(re.search(r"Max data size +(\d+)", limits)[1]) == max(half, 256 << 20)
    assert "MemoryError" in bench.run("python3", "-c", f"x = bytearray({half + (64 << 20)})")
    assert bench.run("grep", "NoNewPrivs", "/proc/self/status").split()[1] == "1"
    assert bench.run("grep", "CapBnd", "/proc/self/status").split()[1] == "0" * 16


LOOKING = [
    ["ls", "-la", "/"],
    ["cat", "/proc/cpuinfo"],
    ["cat", "/proc/meminfo"],
    ["cat", "/proc/loadavg"],
    ["cat", "/etc/os-release"],
    ["find", "/sys/class", "-maxdepth", "1"],
    ["df", "-h"],
    ["free", "-m"],
    ["uptime"],
    ["uname", "-a"],
    ["date"],
    ["id"],
    ["ps", "aux"],
    ["ps", "-eo", "pid,comm", "--sort=-rss"],
    ["pgrep", "-f", "python"],
    ["top", "-b", "-n", "1"],
    ["hostname"],
    ["mount"],
    ["env"],
    ["python3", "-c", "print(1 + 1)"],
    ["awk", "BEGIN { print 1 }"],
    ["du", "-sh", "."],
    ["stat", "."],
    ["wc", "-l", "/etc/passwd"],
    ["sort", "/etc/passwd"],
    ["sha256sum", "/etc/passwd"],
    ["dpkg", "-l", "dash"],
    ["getconf", "PAGE_SIZE"],
    ["nproc"],
    ["timeout", "2", "echo", "x"],
    ["git", "status"],
    ["ip", "a"],
    ["ip", "-br", "addr", "show"],
    ["ss", "-tln"],
    ["hostname", "-I"],
]


@pytest.mark.parametrize("words", LOOKING, ids=" ".join)
def test_looking_simply_works_and_asks_nobody(bench, words):
    if not shutil.which(words[0], path="/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"):
        pytest.skip(f"{words[0]} is not installed")
    if words[0] == "git":
        subprocess.run(["git", "init", "-q", str(bench.workspace)], check=True)
    assert bench.run(*words).endswith("\n[exit code 0]")
    assert [asked.effect for asked in bench.asked] == ["read"]


def test_the_networks_interfaces_and_the_processes_are_the_machines(bench):
    if shutil.which("ip"):
        assert bench.run("ip", "-br", "link") != bench.run("ip", "-br", "link", "show", "group", "default")
    assert "sleep 4242" not in bench.run("ps", "ax")
    with subprocess.Popen(["sleep", "4242"]) as process:
        assert "sleep 4242" in bench.run("ps", "ax")
        assert bench.run("cat", f"/proc/{process.pid}/cmdline").endswith("[exit code 1]")
        process.kill()


def test_the_environment_of_our_own_processes_is_not_shown_with_them(bench):
    with subprocess.Popen(["sleep", "4243"], env={"TOKEN": "sk-secret"}) as process:
        shown = bench.run("ps", "axe")
        assert "sleep 4243" in shown
        assert "sk-secret" not in shown
        process.kill()


NOT_IN_THE_TABLE = [
    ["ip", "netns", "exec", "x", "sh"],
    ["ip", "-batch", "f"],
    ["ip", "link", "set", "eth0", "down"],
    ["ip", "route", "add", "default"],
    ["./ip", "a"],
    ["/tmp/ip", "a"],
    ["ss", "-K"],
    ["ss", "-tr"],
    ["ss", "-D", "f"],
    ["hostname", "new"],
    ["hostname", "-F", "f"],
    ["vcgencmd", "set_backlight", "1"],
    ["vcgencmd", "display_power", "0"],
    ["vcgencmd", "measure_temp", "; x"],
    ["vcgencmd"],
    ["iw", "dev", "wlan0", "scan"],
    ["ifconfig", "eth0", "down"],
    ["iwconfig", "wlan0", "essid", "x"],
    ["i2cset", "-y", "1", "0x20", "0", "1"],
    ["sh", "-c", "ip a"],
    ["ps", "a\nb"],
    ["netstat", "-t"],
    ["route", "add", "-n"],
    ["arp", "-dn"],
    ["cat", "/proc/net/../1/environ"],
    ["pgrep", "a\nb"],
]


@pytest.mark.parametrize("words", NOT_IN_THE_TABLE, ids=" ".join)
def test_nothing_else_sees_more(words):
    assert find_visibility(words) == Visibility()


@pytest.mark.parametrize("program", ["ps", "pstree", "top", "pgrep", "netstat"])
def test_no_words_keep_the_table_busy(program):
    began = time.process_time()
    find_visibility([program, "-" + "a" * 60 + "\n"])
    assert time.process_time() - began < 0.1


@pytest.mark.parametrize(
    ("line", "seen"),
    [
        ("netstat -tulpn", Visibility(network=True)),
        ("netstat -i", Visibility(network=True)),
        ("route -n", Visibility(network=True)),
        ("arp -an", Visibility(network=True)),
        ("cat /proc/net/dev", Visibility(network=True)),
        ("ip route get 1.1.1.1", Visibility(network=True)),
        ("pgrep -af /opt/app/main.py", Visibility(processes=True)),
        ("pgrep -f ^gunicorn.*wsgi$", Visibility(processes=True)),
        ("pidof /usr/sbin/sshd", Visibility(processes=True)),
        ("top -n 1 -b", Visibility(processes=True)),
        ("top -o %MEM -bcn1", Visibility(processes=True)),
    ],
)
def test_what_would_else_tell_of_an_empty_machine_sees_this_one(line, seen):
    assert find_visibility(line.split()) == seen


FLOOD = """
import os
for fd in os.listdir("/proc/self/fd"):
    if int(fd) > 2:
        try:
            os.write(os.open("/proc/self/fd/" + fd, os.O_WRONLY | os.O_NONBLOCK), b"\\n" * 1000)
        except OSError:
            pass
"""


def test_a_command_cannot_end_the_ones_after_it(bench):
    bench.run("python3", "-c", FLOOD)
    for _ in range(5):
        assert bench.run("sleep", "0.2") == "[exit code 0]"


@pytest.mark.parametrize("folder", ["/home", "/root"])
def test_a_hidden_folder_can_be_worked_in_where_the_owner_says_so(tmp_path, folder):
    ground = SandboxLayout(tmp_path, tmp_path / "workspace", Path("/nonexistent"), (Path(folder),))
    words = build_bwrap_arguments(SandboxCommand(("true",), tmp_path, 1, write=True), ground, {})
    closed = [words[at + 1] for at, word in enumerate(words) if word == "--remount-ro"]
    assert {str(tmp_path), folder} & set(closed) == {str(tmp_path)}


def test_the_firmware_is_asked_by_its_reading_words_alone():
    assert find_visibility(["vcgencmd", "measure_temp"]).devices == ("/dev/vcio",)
    assert find_visibility(["vcgencmd", "get_throttled"]).devices == ("/dev/vcio",)
    assert find_visibility(["vcgencmd", "measure_volts", "core"]).devices == ("/dev/vcio",)


@pytest.mark.parametrize("missing", ["bwrap", "prlimit"])
def test_without_the_program_that_makes_walls_nothing_is_run(bench, missing, monkeypatch, tmp_path):
    there = tmp_path / "bin"
    there.mkdir()
    for name in {"bwrap", "prlimit", "choom"} - {missing}:
        (there / name).symlink_to(f"/usr/bin/{name}")
    monkeypatch.setenv("PATH", str(there))
    said = bench.run("touch", "/tmp/never")
    assert said.startswith("error: ")
    assert "is not installed, and no command is run outside of a sandbox: sudo apt install" in said


def test_walls_that_cannot_be_made_are_an_error_and_nothing_is_run(bench, monkeypatch, tmp_path):
    there = tmp_path / "bin"
    there.mkdir()
    for name in ("prlimit", "choom"):
        (there / name).symlink_to(f"/usr/bin/{name}")
    (there / "bwrap").write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2; exit 1\n")
    (there / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", f"{there}:/bin")
    said = bench.run("true")
    assert said.startswith("error: the sandbox could not be made: bwrap: No permissions to create new namespace; ")


AS_ORDINARY = """
import os, sys
from pathlib import Path
sys.path[:0] = sys.argv[2].split(":")
from picoclaw.tools.exec import ExecTools
shell = ExecTools(Path(sys.argv[1]), {"HOME": "/home/x"})
print(shell.exec(["id", "-u"]))
print(shell.exec(["touch", "x"]))
print(shell.exec(["touch", "x"], write=True))
print(shell.exec(["python3", "-c", "import os\\nwhile True: os.fork()"], timeout=2)[-40:])
print(shell.exec(["true"]))
"""


@HIDDEN
def test_it_holds_for_an_ordinary_user_and_so_does_the_bound_of_processes(tmp_path):
    """The tree is copied to where that user may read it; its Python is the system's."""
    if not Path("/usr/bin/python3").exists():
        pytest.skip("there is no Python of the system's")
    place = Path(f"/tmp/picoclaw-ordinary-{os.getpid()}")
    shutil.copytree(Path(__file__).parents[1] / "picoclaw", place / "code/picoclaw")
    workspace = place / "home/workspace"
    workspace.mkdir(parents=True)
    for path in (place, place / "home", workspace):
        os.chown(path, 1000, 1000)
    ordinary = ["setpriv", "--reuid", "1000", "--regid", "1000", "--clear-groups"]
    try:
        done = subprocess.run(
            [*ordinary, "/usr/bin/python3", "-c", AS_ORDINARY, str(workspace), str(place / "code")],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        lines = done.stdout.splitlines()
        assert lines[0] == "1000"
        assert "Read-only file system" in lines[2]
        assert (workspace / "x").stat().st_uid == 1000
        assert lines[-1] == "[exit code 0]"
    finally:
        shutil.rmtree(place)


# ---- walls that are made by the service


@pytest.fixture
def door(tmp_path, monkeypatch):
    """A socket as systemd has it with Accept=yes: for each connection the launcher, with nothing else."""
    path = tmp_path / "exec.sock"
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(path))
    listening.listen()
    served = []

    def accept():
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            command = [sys.executable, "-I", "-S", sandbox_launcher.__file__]
            served.append(subprocess.Popen(command, stdin=connection, start_new_session=True))
            connection.close()

    thread = threading.Thread(target=accept)
    thread.start()
    monkeypatch.setenv("PICOCLAW_EXEC_SOCKET", str(path))
    yield served
    listening.shutdown(socket.SHUT_RDWR)
    listening.close()
    thread.join()
    assert [process.wait(5) for process in served] == [0] * len(served)


def test_the_service_makes_the_same_walls(bench, door):
    assert bench.run("cat", stdin="through") == "through\n[exit code 0]"
    assert bench.run("sh", "-x", "nothing").endswith("[exit code 2]")
    assert "Read-only file system" in bench.run("touch", "x")
    assert bench.run("touch", "x", write=True) == "[exit code 0]"
    assert bench.run("grep", "-c", "Seccomp:.2", "/proc/self/status") == "1\n[exit code 0]"
    assert len(bench.run("ls", "/proc/self/fd").split()) == 4 + 3
    assert len(door) == 6


def test_the_service_ends_what_it_began(bench, door):
    mark = f"71{os.getpid()}"
    began = time.monotonic()
    assert "[stopped after 0.5 s" in bench.run("setsid", "-w", "sleep", mark, timeout=0.5)
    assert time.monotonic() - began < 3
    assert gone(f"sleep {mark}")


DIES = """
import os, sys
from pathlib import Path
from picoclaw.tools.exec import ExecTools
ExecTools(Path(sys.argv[1]), os.environ).exec(["sleep", sys.argv[2]])
"""


def test_the_service_ends_what_nobody_waits_for_any_more(bench, door):
    mark = f"72{os.getpid()}"
    child = subprocess.Popen([sys.executable, "-c", DIES, str(bench.workspace), mark])
    while not any(pid != child.pid for pid in running(f"sleep {mark}")):
        time.sleep(0.01)
    child.kill()
    child.wait()
    assert gone(f"sleep {mark}")


@pytest.mark.parametrize("sent", [b"", b"garbage!", b"00000009touch\0/x\0", b"99999999", b"00000010bwrap"])
def test_the_service_starts_nothing_but_walls(tmp_path, sent):
    ours, theirs = socket.socketpair()
    process = subprocess.Popen([sys.executable, "-I", "-S", sandbox_launcher.__file__], stdin=theirs)
    theirs.close()
    with Path(os.devnull).open() as null:
        socket.send_fds(ours, [sent], [null.fileno()] * 3) if sent else None
    ours.close()
    assert process.wait(5) == 1


def test_a_service_that_is_not_there(bench, monkeypatch, tmp_path):
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(tmp_path / "dead.sock"))
    listening.close()
    monkeypatch.setenv("PICOCLAW_EXEC_SOCKET", str(tmp_path / "dead.sock"))
    assert "does not answer (Connection refused): systemctl status picoclaw-exec.socket" in bench.run("true")
