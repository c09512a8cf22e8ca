"""What the doctor sees of the machine itself: each trouble by the files of a real one, else silence."""

import json
import os
import pwd
import socket
import sys
import threading

import pytest
from model_server import ModelServer, reply
from person import picoclaw
from rights import ordinary_user
from rows import each_row
from telegram_server import TOKEN, TelegramServer

from picoclaw.channels.dashboard.login import ProgramTokens
from picoclaw.config import Config
from picoclaw.config.tables import HookConfig, ModelConfig, PageConfig, TelegramConfig
from picoclaw.files import find_shipped
from picoclaw.hw.linux import LinuxBoard
from picoclaw.hw.sim import SimBoard
from picoclaw.maintenance import doctor, systemd
from picoclaw.maintenance.doctor import is_local_network, is_loopback, list_listeners

MOUNTS = "/dev/mmcblk0p2 / ext4 rw,noatime 0 0\nproc /proc proc rw 0 0\n"
UP = "/proc/uptime"
CONTROLLERS = "/sys/fs/cgroup/cgroup.controllers"
STAT = "/sys/block/mmcblk0/stat"
RTC = {"/sys/class/rtc/rtc0/name": "rtc-ds1307"}


def wrote(megabytes):
    return f"1 2 3 4 5 6 {megabytes * 1_000_000 // 512} 8 0 9 10"


@pytest.fixture
def look(tmp_path):
    """Examine a machine that is made of files."""

    def examined(files, place="/home/pi/.picoclaw"):
        for name, content in (RTC | files).items():
            path = tmp_path / "root" / name.lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        rows = doctor.examine_machine(LinuxBoard(tmp_path / "root"), tmp_path.__class__(place))
        return {row.name: row for row in rows if row.name != "disk space"}

    return examined


def test_a_machine_that_is_well_is_passed_over_in_silence(look):
    files = {
        "/proc/self/mounts": MOUNTS,
        CONTROLLERS: "cpuset cpu io memory pids",
        "/proc/meminfo": "MemTotal: 437500 kB\nMemAvailable: 262144 kB",
        "/proc/swaps": "Filename Type Size Used Priority\n/dev/zram0 partition 1 0 100\n",
        "/sys/class/watchdog/watchdog0/state": "active",
        "/var/log/journal/x": "",
        "/run/log/journal/x": "",
    }
    assert look(files) == {}


def test_the_simulated_board_has_no_troubles_of_a_machine(tmp_path):
    assert list(doctor.examine_machine(SimBoard(), tmp_path)) == []


DAY = 86_400
TROUBLES = {
    "a stock Raspberry Pi's memory limits": (
        {CONTROLLERS: "cpuset cpu io pids", "/boot/firmware/cmdline.txt": "quiet"},
        (
            "memory limits",
            "note",
            "does not enforce it",
            "cgroup_enable=memory to the line in /boot/firmware/cmdline.txt",
        ),
    ),
    "no memory left": ({"/proc/meminfo": "MemTotal: 437500 kB\nMemAvailable: 21000 kB"}, ("memory", "bad", "only 21 MB are left", "multi-user.target")),
    "a swap file": ({"/proc/swaps": "Filename Type Size Used Priority\n/var/swap file 102396 0 -2\n"}, ("swap", "note", "/var/swap is on the disk", "sudo swapoff /var/swap")),
    "compressed swap that is written to the card": ({"/sys/block/zram0/backing_dev": "/dev/loop0"}, ("swap", "note", "zram0 writes what it holds to /dev/loop0", "Mechanism=zram")),
    "read-only after an error": ({"/proc/self/mounts": MOUNTS.replace("rw,noatime", "ro,noatime")}, ("file system", "bad", "/ is read-only", "mount -o remount,rw /")),
    "an overlay": ({"/proc/self/mounts": "overlay / overlay rw,lowerdir=/a 0 0\n"}, ("file system", "bad", "gone after a restart", "disable_overlayfs")),
    "a home in memory": ({"/proc/self/mounts": MOUNTS + "tmpfs /home/pi tmpfs rw 0 0\n"}, ("file system", "bad", "in memory", "PICOCLAW_HOME")),
    "a home on a share": ({"/proc/self/mounts": MOUNTS + "nas:/pi /home nfs4 rw 0 0\n"}, ("file system", "bad", "is on nfs4", "ext4")),
    "a card that is worn": ({STAT: wrote(2000), UP: f"{DAY}.5 1"}, ("disk wear", "bad", "2000 MB a day", "iotop")),
    "a card that is used": ({STAT: wrote(600), UP: f"{2 * DAY} 1"}, ("disk wear", "note", "300 MB a day", "iotop")),
    "a card that is spared": ({STAT: wrote(20), UP: f"{DAY} 1"}, ("disk wear", "good", "20 MB a day", "")),
    "an eMMC at its end": ({"/sys/block/mmcblk0/device/life_time": "0x01 0x0A"}, ("disk wear", "bad", "90 to 100 % of its life", "picoclaw backup")),
    "a watchdog that sleeps": ({"/sys/class/watchdog/watchdog0/state": "inactive"}, ("hardware watchdog", "note", "not in use", "RuntimeWatchdogSec")),
    "a log in memory": ({"/run/log/journal/x": ""}, ("system log", "note", "lost in a power cut", "/var/log/journal")),
}  # fmt: skip


@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_trouble_is_marked_and_mended(look, trouble):
    files, (what, mark, how, fix) = TROUBLES[trouble]
    found = look(files)
    assert list(found) == [what]
    assert found[what].status == mark
    assert how in found[what].detail
    assert fix in found[what].fix


@pytest.mark.parametrize(
    "files",
    [
        {STAT: wrote(900), UP: "600 1"},  # ten minutes after the start
        {STAT: "garbled", UP: f"{DAY} 1"},
        {STAT: "1 2 3", UP: "x"},
        {"/proc/self/mounts": "garbled\n\n / \n"},
        {"/proc/swaps": "\n\n"},
        {"/proc/self/mounts": MOUNTS + "tmpfs /home/pirate tmpfs rw 0 0\n"},  # another folder's
        {"/proc/self/mounts": "tmpfs / tmpfs ro 0 0\n" + MOUNTS},  # mounted over
        {CONTROLLERS: ""},
    ],
)
def test_what_is_no_trouble_or_garbled_is_no_finding(look, files):
    assert look(files) == {}


def test_a_machine_without_a_clock_says_so(tmp_path):
    board = LinuxBoard(tmp_path)
    board.clock_synchronised = lambda: False
    (row,) = doctor._examine_clock(board)
    assert "no clock with a battery" in row.detail
    board.clock_synchronised = lambda: True
    assert not list(doctor._examine_clock(board))


def test_a_group_that_was_given_after_the_login_is_named(look):
    user, mine = pwd.getpwuid(os.geteuid()).pw_name, os.getegid()
    found = look(
        {"/etc/group": f"i2c:x:64001:pi,{user}\nspi:x:{mine}:{user}\nwheel:x:64002:{user}\nodd\ngpio:x:64003:pi\n"}
    )
    assert found["groups"].detail == f"{user} is in i2c, but not yet in this login session"


# --- who can reach what ---


@each_row(
    ("host", "here", "at_home"),
    [
        ("127.0.0.1", True, True),
        ("localhost", True, True),
        ("[::1]", True, True),
        ("192.168.1.20", False, True),
        ("10.0.0.1", False, True),
        ("server", False, True),
        ("server.local", False, True),
        ("fd00::1", False, True),
        ("api.example.com", False, False),
        ("8.8.8.8", False, False),
        ("localhost.example.com", False, False),
        ("0.0.0.0", False, True),
    ],
)
def test_how_far_away_a_server_is(host, here, at_home):
    assert (is_loopback(host), is_local_network(host)) == (here, at_home)


TCP = """  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:2CAA 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000
   1: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000
   2: 0100007F:1F90 0100007F:9999 01 00000000:00000000 00:00000000 00000000  1000
   3: garbled
"""
TCP6 = TCP.splitlines()[0] + "\n   0: 00000000000000000000000000000000:2CAA 0:0 0A 0\n"


@pytest.mark.skipif(sys.byteorder != "little", reason="the table is that of a little-endian machine")
def test_what_listens_is_read_from_the_kernels_table(tmp_path):
    (tmp_path / "proc/net").mkdir(parents=True)
    (tmp_path / "proc/net/tcp").write_text(TCP)
    (tmp_path / "proc/net/tcp6").write_text(TCP6)
    found = [(str(address), port) for address, port in list_listeners(LinuxBoard(tmp_path))]
    assert found == [("127.0.0.1", 11434), ("0.0.0.0", 8080), ("::", 11434)]


@pytest.mark.parametrize(
    ("url", "key", "marks"),
    [
        ("http://127.0.0.1:8080/v1", "", ["note"]),
        ("http://127.0.0.1:11434/v1", "", ["note"]),
        ("http://localhost:9999/v1", "", []),
        ("http://api.example.com/v1", "sk-1", ["bad"]),
        ("http://api.example.com/v1", "", []),
        ("https://api.example.com/v1", "sk-1", []),
        ("http://192.168.1.2:8080/v1", "sk-1", []),
        ("http://127.0.0.1:port/v1", "", []),
        ("", "", []),
    ],
)
def test_a_server_that_others_can_use_or_hear(tmp_path, url, key, marks):
    (tmp_path / "proc/net").mkdir(parents=True)
    (tmp_path / "proc/net/tcp").write_text(TCP)
    (tmp_path / "proc/net/tcp6").write_text(TCP6)
    config = Config(home=tmp_path, model=ModelConfig(base_url=url), api_key=key)
    assert [row.status for row in doctor.examine_exposure(LinuxBoard(tmp_path), config)] == marks


def test_the_real_kernels_table_is_understood():
    with ModelServer([]) as server:
        assert server.url.rpartition(":")[2].partition("/")[0] in {
            str(port) for _, port in list_listeners(LinuxBoard())
        }


@pytest.mark.parametrize(
    ("page", "marks"),
    [
        (PageConfig(), []),
        (PageConfig(enabled=True), ["good"]),
        (PageConfig(enabled=True, host="0.0.0.0"), ["note"]),
        (PageConfig(enabled=True, host="localhost"), ["bad"]),
        (PageConfig(enabled=True, host="192.0.2.1"), ["bad"]),
    ],
)
def test_a_page_that_the_network_sees_is_noted(tmp_path, page, marks):
    rows = list(doctor.examine_channels(Config(home=tmp_path, page=page), offline=True))
    assert [row.status for row in rows if row.name == "page"] == marks


HOOKS = {"shed": HookConfig("{text}")}


@pytest.mark.parametrize(
    ("config", "tokens", "rows"),
    [
        ({"hooks": HOOKS}, {}, [("bad", "hooks"), ("bad", "hooks")]),
        ({"hooks": HOOKS, "page": PageConfig(enabled=True), "hook_secrets": {"shed": "x" * 16}}, {}, []),
        ({"page": PageConfig(enabled=True, openai=True)}, {}, [("note", "openai")]),
        ({"page": PageConfig(enabled=True, openai=True)}, {"hall": False}, [("good", "openai")]),
        ({"page": PageConfig(enabled=True, openai=True)}, {"hall": False, "ada": True}, [("note", "openai")]),
    ],
)
def test_what_programs_may_ask_is_looked_at(tmp_path, config, tokens, rows):
    for name, owner in tokens.items():
        ProgramTokens(tmp_path).add(name, owner=owner)
    found = doctor.examine_channels(Config(home=tmp_path, **config), offline=True)
    assert [(row.status, row.name) for row in found if row.name in {"hooks", "openai"}] == rows


# --- secrets ---

KEY = "sk-0123456789abcdef"


def test_a_key_in_the_workspace_is_found(tmp_path):
    workspace = tmp_path / "workspace"
    (workspace / "memory").mkdir(parents=True)
    (workspace / "memory/MEMORY.md").write_text(f"the key is {KEY}\n")
    (workspace / "big.bin").write_bytes(b"x" * 2_000_000)
    (workspace / "loop").symlink_to(workspace)
    (row,) = doctor.find_leaked_secrets((KEY, "", "none"), workspace, ())
    assert (row.status, str(workspace / "memory/MEMORY.md") in row.detail, KEY in row.detail) == ("bad", True, False)
    assert not list(doctor.find_leaked_secrets(("none",), workspace, ()))


@pytest.mark.parametrize(
    ("text", "mode", "found"),
    [
        (f"PICOCLAW_API_KEY={KEY}\n", 0o644, True),
        (f"export OPENAI_API_KEY={KEY}\n", 0o640, True),
        (f"PICOCLAW_API_KEY={KEY}\n", 0o600, False),
        (f"#PICOCLAW_API_KEY={KEY}\nPICOCLAW_MODEL=x\n", 0o644, False),
        ("PICOCLAW_API_KEY=\n", 0o644, False),
    ],
)
def test_a_key_that_others_can_read_is_found(tmp_path, text, mode, found):
    path = tmp_path / "environment"
    path.write_text(text)
    path.chmod(mode)
    rows = list(doctor.find_leaked_secrets((), tmp_path / "none", (str(path),)))
    assert [(row.status, row.fix) for row in rows] == ([("bad", f"chmod 600 {path}")] if found else [])


def test_a_folder_that_cannot_be_listed_ends_nothing(tmp_path):
    (tmp_path / "closed").mkdir(mode=0o000)
    with ordinary_user():
        assert not list(doctor.find_leaked_secrets((KEY,), tmp_path / "closed", ()))


# --- the model, the unit ---


def test_a_name_that_is_unknown_is_told_from_a_server_that_is_silent(tmp_path):
    config = Config(home=tmp_path, model=ModelConfig(base_url="http://no-such-name.invalid/v1"))
    (row,) = doctor.examine_models(config)
    assert row.status == "bad"
    assert "the name no-such-name.invalid is not known here" in row.detail
    assert "resolvectl" in row.fix


def test_a_name_server_that_hangs_is_not_waited_for(monkeypatch):
    monkeypatch.setattr("socket.getaddrinfo", lambda *_: __import__("time").sleep(5))
    assert doctor._explain_unresolved_host("server.example", 0.05) == "no answer from the name server in 0 s"


def test_offline_asks_no_server(tmp_path):
    with ModelServer([reply("ok")]) as server:
        done = picoclaw(tmp_path, "doctor", "--board", "sim", "--offline", PICOCLAW_BASE_URL=server.url)
        assert not server.requests
    assert "model:" not in done.stdout


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ((find_shipped("systemd") / "user.service").read_text(), []),
        ("[Unit]\nolder\n", ["is from another picoclaw"]),
        (None, ["cannot be compared"]),
    ],
)
def test_a_unit_from_another_version_is_noted(tmp_path, monkeypatch, text, said):
    unit = tmp_path / "picoclaw.service"
    monkeypatch.setattr(systemd, "find_installed", lambda: systemd.Service(tmp_path, ("--user",)))
    if text is not None:
        unit.write_text(text)
    found = [row for row in doctor.examine_installation() if row.status == "note"]
    assert [words in row.detail for words, row in zip(said, found, strict=True)] == [True] * len(said)


# --- the channels ---


def of_telegram(tmp_path, url, *, token=TOKEN, allow=(), offline=False):
    telegram = TelegramConfig(allow=list(allow), api_url=url)
    config = Config(home=tmp_path, telegram=telegram, telegram_token=token)
    return [row for row in doctor.examine_channels(config, offline=offline) if row.name == "telegram"]


def test_a_bot_is_asked_and_its_faults_told_apart(tmp_path):
    with TelegramServer() as server:
        (row,) = of_telegram(tmp_path, server.url, allow=[7])
        assert (row.status, row.detail[0], row.detail.endswith(" answers")) == ("good", "@", True)
        first, second = of_telegram(tmp_path, server.url, token=TOKEN[:-1] + "x")
        assert (first.status, first.fix) == ("note", "picoclaw telegram pair")
        assert (second.status, "@BotFather" in second.fix) == ("bad", True)
        assert [row.status for row in of_telegram(tmp_path, server.url, allow=[7], offline=True)] == []
    (row,) = of_telegram(tmp_path, server.url, allow=[7])
    assert (row.status, "network" in row.fix, TOKEN in row.detail) == ("bad", True, False)


@pytest.mark.parametrize(
    ("said", "found"),
    [
        (
            {"running": True, "pid": 12, "problems": []},
            [("good", "it runs as process 12, without problems")],
        ),
        ({"running": True, "problems": ["telegram is down", "x"]}, [("bad", "telegram is down"), ("bad", "x")]),
        (None, [("bad", "picoclaw runs on this home and gives no answer within 5 s")]),
    ],
)
def test_a_daemon_is_asked_how_it_is(tmp_path, said, found):
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(tmp_path / "run.sock"))
        door.listen()

        def answer():
            peer, _ = door.accept()
            with peer:
                peer.recv(1000)
                if said:
                    peer.sendall(json.dumps(said).encode() + b"\n")

        threading.Thread(target=answer, daemon=True).start()
        rows = doctor.examine_channels(Config(home=tmp_path), offline=True)
        assert [(row.status, row.detail) for row in rows if row.name == "daemon"] == found
    absent = doctor.examine_channels(Config(home=tmp_path), offline=True)
    assert [(row.status, row.detail) for row in absent] == [("note", "picoclaw is not running for this home")]


# --- the service ---


@pytest.mark.parametrize(
    ("user", "fix"),
    [
        ((), "sudo systemctl start picoclaw"),
        (("--user",), "; systemctl --user start picoclaw"),
    ],
)
def test_a_service_that_is_down_is_started_where_it_is(tmp_path, monkeypatch, user, fix):
    monkeypatch.setattr(systemd, "find_installed", lambda: systemd.Service(tmp_path, user))
    monkeypatch.setattr(systemd, "find_running_service", lambda: None)
    found = {row.status: row for row in doctor.examine_installation()}
    assert found["bad"].fix.endswith(fix)
