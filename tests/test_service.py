"""`picoclaw service`: what is put where, what systemd is asked, and what is refused before anything is touched."""

import json
import os
import pwd
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from person import picoclaw_process
from rows import each_row

from picoclaw import maintenance
from picoclaw.cli import service
from picoclaw.cli.arguments import Parser
from picoclaw.errors import ConfigError
from picoclaw.files import find_shipped
from picoclaw.hw.linux import LinuxBoard
from picoclaw.maintenance import systemd as maintenance_service
from picoclaw.security import sandbox_launcher

SHIPPED = find_shipped("systemd")
SYSTEM = (SHIPPED / "picoclaw.service").read_text()
SESSION = (SHIPPED / "user.service").read_text()
BUSES = ("i2c-dev", "spidev", "gpio", "pwm")

# The programs of systemd, as far as they are asked: they write down what was asked, and remember what is on.
FAKE = """#!/bin/sh
name=$(basename "$0")
echo "$name $*" >> "$MACHINE/calls"
if [ -e "$MACHINE/fails" ] && echo "$*" | grep -q "$(cat "$MACHINE/fails")"; then
  echo "Job for picoclaw.service failed." >&2
  echo "See the journal." >&2
  exit 1
fi
case "$name $*" in
  *" restart picoclaw") touch "$MACHINE/active" ;;
  *" disable --now picoclaw") rm -f "$MACHINE/active" ;;
  *" show picoclaw "*)
    echo LoadState=loaded
    if [ -e "$MACHINE/active" ]; then echo ActiveState=active; else echo ActiveState=inactive; fi
    echo 'StatusText=idle; telegram up'
    echo NRestarts=2
    echo MemoryCurrent=31457280
    echo MainPID=0 ;;
  journalctl*) echo "the journal of $*" ;;
esac
"""


class Machine:
    """A folder that stands for the machine, and its systemd."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.units = root / "etc/systemd/system"
        self.units.mkdir(parents=True)
        self.drop_in = self.units / "picoclaw.service.d/10-machine.conf"

    def do(self, *words: str) -> int:
        parser = Parser()
        service.options(parser)
        return service.run(parser.parse(words), self.root)

    @property
    def calls(self):
        path = self.root / "calls"
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def machine(tmp_path, monkeypatch):
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("systemctl", "systemd-sysusers", "udevadm", "journalctl"):
        (programs / name).write_text(FAKE)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setenv("MACHINE", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("SUDO_USER", raising=False)
    monkeypatch.setattr(
        maintenance_service,
        "find_program",
        lambda: maintenance_service.Program(("/opt/picoclaw/bin/picoclaw",), (Path("/usr"),)),
    )
    return Machine(tmp_path)


def settings(text):
    """The lines that say something, in order."""
    return [line for line in text.splitlines() if line and line[0] not in "#["]


# --- install ---


def test_install_puts_the_shipped_files_and_what_is_so_here(machine, capsys):
    assert machine.do("install") == 0
    assert (machine.units / "picoclaw.service").read_text() == SYSTEM
    assert settings(machine.drop_in.read_text()) == [
        "ExecStart=",
        "ExecStart=/opt/picoclaw/bin/picoclaw run",
        "ExecStopPost=",
        "ExecStopPost=/opt/picoclaw/bin/picoclaw outputs safe",
    ]
    for path, name in (
        ("udev/rules.d/60-picoclaw.rules", "udev.rules"),
        ("sysusers.d/picoclaw.conf", "sysusers.conf"),
    ):
        assert (machine.root / "etc" / path).read_text() == (SHIPPED / name).read_text()
    assert machine.calls == [
        f"systemd-sysusers {machine.root}/etc/sysusers.d/picoclaw.conf",
        "udevadm control --reload",
        f"udevadm trigger --action=change {' '.join(f'--subsystem-match={bus}' for bus in BUSES)}",
        "systemctl daemon-reload",
        "systemctl enable picoclaw picoclaw-exec.socket",
        "systemctl restart picoclaw-exec.socket",
        "systemctl restart picoclaw",
    ]
    assert "sudo -u picoclaw picoclaw chat" in capsys.readouterr().out


def test_variables_are_for_root_alone_and_never_overwritten(machine):
    machine.do("install")
    path = machine.root / "etc/picoclaw/environment"
    assert path.stat().st_mode & 0o777 == 0o600
    assert settings(path.read_text()) == []
    path.write_text("TZ=Asia/Tokyo\n")
    machine.do("install")
    assert path.read_text() == "TZ=Asia/Tokyo\n"


def test_a_second_time_mends_what_was_changed_and_names_it(machine, capsys):
    machine.do("install")
    (machine.units / "picoclaw.service").write_text("[Service]\nUser=root\n")
    capsys.readouterr()
    machine.do("install")
    said = capsys.readouterr().out
    assert f"replaced {machine.units}/picoclaw.service\n" in said
    assert f"{machine.drop_in} is as it should be" in said
    assert (machine.units / "picoclaw.service").read_text() == SYSTEM


def test_no_start(machine):
    machine.do("install", "--no-start")
    assert machine.calls[-1] == "systemctl enable picoclaw picoclaw-exec.socket"


def test_print_prints_what_install_writes(machine, capsys):
    machine.do("print")
    printed = capsys.readouterr().out
    assert not machine.calls
    machine.do("install")
    for path in (machine.units / "picoclaw.service", machine.drop_in):
        assert f"# {path}\n{path.read_text()}" in printed


def test_a_home_that_was_used_before_is_pointed_at(machine, monkeypatch, capsys):
    monkeypatch.setenv("SUDO_USER", "ada")
    (machine.root / "home/ada/.picoclaw").mkdir(parents=True)
    machine.do("install")
    assert "sudo picoclaw service install --as ada" in capsys.readouterr().out


def test_in_the_users_own_session(machine, capsys):
    machine.do("install", "--user")
    folder = machine.root / "config/systemd/user"
    assert (folder / "picoclaw.service").read_text() == SESSION
    assert "ExecStart=/opt/picoclaw/bin/picoclaw run" in (folder / "picoclaw.service.d/10-machine.conf").read_text()
    assert [call.split()[:2] for call in machine.calls] == [["systemctl", "--user"]] * 4
    assert (folder / "picoclaw-exec.socket").read_text() == (SHIPPED / "user-exec.socket").read_text()
    assert (folder / "picoclaw-exec@.service").read_text() == (SHIPPED / "user-exec@.service").read_text()
    assert "loginctl enable-linger" in capsys.readouterr().out
    assert machine.do("status") == 0
    assert machine.calls[-1].startswith("systemctl --user show")


# --- as a person ---


@pytest.fixture
def person(machine, monkeypatch):
    """Ada, with a home on the machine."""
    ada = pwd.struct_passwd(("ada", "x", 1000, 1000, "", "/home/ada", "/bin/sh"))
    known = {"ada": ada, "root": pwd.getpwnam("root")}
    monkeypatch.setattr(pwd, "getpwnam", lambda name: known[name])
    (machine.root / "home/ada/.picoclaw").mkdir(parents=True)
    return known


def test_as_a_person_it_sees_that_home_and_its_own_program_only(machine, person, monkeypatch, capsys):
    folders = (Path("/home/ada/venv"), Path("/usr"))
    monkeypatch.setattr(
        maintenance_service,
        "find_program",
        lambda: maintenance_service.Program(("/home/ada/venv/bin/picoclaw",), folders),
    )
    machine.do("install", "--as", "ada")
    assert settings(machine.drop_in.read_text())[:6] == [
        "User=ada",
        "StateDirectory=",
        "Environment=PICOCLAW_HOME=/home/ada/.picoclaw",
        "ProtectHome=tmpfs",
        "BindPaths=/home/ada/.picoclaw",
        "BindReadOnlyPaths=/home/ada/venv",
    ]
    assert not any("sysusers" in call for call in machine.calls)
    assert not (machine.root / "etc/sysusers.d").exists()
    capsys.readouterr()
    machine.do("uninstall")
    assert "still in /home/ada/.picoclaw, its variables" in capsys.readouterr().out


REFUSED = [
    (["--as", "root"], "does not run as root"),
    (["--as", "eve"], "no user eve"),
    (["--as", "bob"], "as bob, run `picoclaw init` first"),
]


@pytest.mark.parametrize(("words", "why"), REFUSED, ids=lambda w: str(w[-1]))
def test_refused_before_anything_is_written(machine, person, words, why):
    person["bob"] = pwd.struct_passwd(("bob", "x", 1001, 1001, "", "/home/bob", "/bin/sh"))
    with pytest.raises(ConfigError, match=re.escape(why)):
        machine.do("install", *words)
    assert not machine.calls
    assert not list(machine.units.iterdir())


def test_a_person_who_is_called_picoclaw_is_not_taken_for_the_services_user(machine, person):
    person["picoclaw"] = pwd.struct_passwd(("picoclaw", "x", 1000, 1000, "", "/home/picoclaw", "/bin/sh"))
    with pytest.raises(ConfigError, match="--as picoclaw"):
        machine.do("install")
    assert not machine.calls


# --- the commands' own unit ---


def test_commands_are_started_by_a_unit_of_their_own(machine, monkeypatch):
    monkeypatch.setattr(
        maintenance_service,
        "get_launcher_command",
        lambda: ("/opt/picoclaw/current/bin/python", "-I", "-S", "/opt/launcher.py"),
    )
    machine.do("install")
    for name in ("picoclaw-exec.socket", "picoclaw-exec@.service"):
        assert (machine.units / name).read_text() == (SHIPPED / name).read_text()
    drop_in = machine.units / "picoclaw-exec@.service.d/10-machine.conf"
    assert settings(drop_in.read_text()) == [
        "ExecStart=",
        "ExecStart=/opt/picoclaw/current/bin/python -I -S /opt/launcher.py",
    ]
    machine.do("uninstall")
    assert list(machine.units.iterdir()) == []
    assert "systemctl disable --now picoclaw-exec.socket" in machine.calls


def test_a_persons_commands_run_as_that_person(machine, person):
    machine.do("install", "--as", "ada")
    assert settings((machine.units / "picoclaw-exec@.service.d/10-machine.conf").read_text())[:4] == [
        "User=ada",
        "StateDirectory=",
        "ProtectHome=tmpfs",
        "BindPaths=/home/ada/.picoclaw",
    ]
    assert settings((machine.units / "picoclaw-exec.socket.d/10-machine.conf").read_text()) == ["SocketUser=ada"]
    machine.do("uninstall")
    assert list(machine.units.iterdir()) == []


def test_the_launcher_is_named_by_the_folder_that_an_update_moves(tmp_path, monkeypatch):
    version = tmp_path / "versions/1"
    file = version / "lib/python3/site-packages/picoclaw/security/sandbox_launcher.py"
    for path in (file, version / "bin/python", version / "bin/picoclaw"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o755)
    (tmp_path / "current").symlink_to(version)
    monkeypatch.setattr("sys.prefix", str(version))
    monkeypatch.setattr(sandbox_launcher, "__file__", str(file))
    moved = tmp_path / "current/lib/python3/site-packages/picoclaw/security/sandbox_launcher.py"
    assert maintenance_service.get_launcher_command() == (str(tmp_path / "current/bin/python"), "-I", "-S", str(moved))
    (tmp_path / "current").unlink()
    monkeypatch.setattr("sys.executable", str(version / "bin/python"))
    assert maintenance_service.get_launcher_command() == (str(version / "bin/python"), "-I", "-S", str(file))


def test_the_commands_unit_has_what_walls_need_and_no_more():
    said = settings((SHIPPED / "picoclaw-exec@.service").read_text())
    for needed in ("NoNewPrivileges=yes", "CapabilityBoundingSet=", "DevicePolicy=closed", "StandardInput=socket"):
        assert needed in said
    for hides_proc in ("ProtectProc=", "ProtectKernelTunables=", "ProtectKernelLogs=", "ProtectHostname="):
        assert not any(line.startswith(hides_proc) for line in said)
    assert not any(line.startswith(("LoadCredential=", "EnvironmentFile=", "DeviceAllow=char")) for line in said)
    assert "RestrictNamespaces=yes" in settings(SYSTEM)  # the daemon's own unit stays closed


# --- where picoclaw lies ---


@pytest.mark.parametrize("folder", ["/home/ada/venv", "/root/picoclaw", "/tmp/w/.venv", "/run/user/1000/x"])
def test_a_program_that_the_service_cannot_see_is_refused(machine, monkeypatch, folder):
    monkeypatch.setattr(
        maintenance_service,
        "find_program",
        lambda: maintenance_service.Program((f"{folder}/bin/picoclaw",), (Path(folder),)),
    )
    with pytest.raises(ConfigError, match=f"lies in {folder}.*--as NAME"):
        machine.do("install")
    assert not machine.calls


def test_a_folder_that_others_may_not_enter_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(maintenance_service, "_HIDDEN_FOLDERS", ())
    closed = tmp_path / "opt"
    closed.mkdir(mode=0o700)
    with pytest.raises(ConfigError, match="cannot see"):
        maintenance_service.render_own_user_drop_in(maintenance_service.Program(("x",), (closed,)), tmp_path)


def test_the_link_that_an_update_moves_is_what_is_started(tmp_path, monkeypatch):
    """Where install.sh has put it; the folder of all versions is what the service has to see."""
    own = tmp_path / "versions/1/bin/picoclaw"
    own.parent.mkdir(parents=True)
    own.touch()
    monkeypatch.setattr("sys.prefix", str(own.parents[1]))
    monkeypatch.setattr(
        maintenance_service, "find_installation", lambda: maintenance.find_installation(str(own.parents[1]))
    )
    assert maintenance_service.find_program().command == (str(own),)
    (tmp_path / "current").symlink_to("versions/1")
    assert maintenance_service.find_program().command == (str(tmp_path / "current/bin/picoclaw"),)
    assert tmp_path in maintenance_service.find_program().folders
    assert own.parents[1] not in maintenance_service.find_program().folders
    own.unlink()
    assert maintenance_service.find_program().command[1:] == ("-m", "picoclaw")


@each_row(
    ("word", "written"),
    [
        ("/opt/picoclaw/bin/picoclaw", "/opt/picoclaw/bin/picoclaw"),
        ("/opt/my picoclaw/x", '"/opt/my picoclaw/x"'),
        ("/opt/100%/x", "/opt/100%%/x"),
        ('/opt/a"b\\c', '"/opt/a\\"b\\\\c"'),
        ("/opt/semi;colon", '"/opt/semi;colon"'),
    ],
)
def test_words_are_written_as_systemd_reads_them(word, written):
    assert maintenance_service._quote(word) == written


def test_a_line_break_cannot_smuggle_a_setting(machine, person, monkeypatch):
    odd = maintenance_service.Program(("/opt/x\nUser=root",), (Path("/usr"),))
    monkeypatch.setattr(maintenance_service, "find_program", lambda: odd)
    with pytest.raises(ConfigError, match="line break"):
        machine.do("install")


# --- what the board has ---

DEVICES = """Character devices:
  1 mem
  4 tty
  4 ttyS
  5 ttyprintk
  5 /dev/tty
166 ttyACM
188 ttyUSB
204 ttyAMA
207 ttymxc
237 ttySAC
254 gpiochip

Block devices:
  8 sd
"""


def test_further_serial_ports_and_the_folders_of_pwm_are_opened(machine):
    (machine.root / "proc").mkdir()
    (machine.root / "proc/devices").write_text(DEVICES)
    chip = machine.root / "sys/devices/platform/soc/fe20c000.pwm/pwm/pwmchip0"
    chip.mkdir(parents=True)
    (machine.root / "sys/class/pwm").mkdir(parents=True)
    (machine.root / "sys/class/pwm/pwmchip0").symlink_to(chip)
    machine.do("install")
    assert settings(machine.drop_in.read_text())[4:] == [
        "DeviceAllow=char-ttySAC rw",
        "DeviceAllow=char-ttymxc rw",
        "ReadWritePaths=/sys/devices/platform/soc/fe20c000.pwm/pwm/pwmchip0",
    ]


def test_a_group_of_the_boards_own_is_joined(machine, monkeypatch):
    (machine.root / "dev").mkdir()
    for name in ("i2c-1", "spidev0.0", "null"):
        (machine.root / "dev" / name).touch()
    names = {(machine.root / "dev/i2c-1").stat().st_gid: "plugdev"}
    monkeypatch.setattr(maintenance_service, "_get_group_name", lambda gid: names.get(gid, ""))
    if 0 in names:
        shutil.chown(machine.root / "dev/i2c-1", group=46)
        names[46] = names.pop(0)
    machine.do("install")
    assert machine.calls[1] == "systemd-sysusers --inline m picoclaw plugdev"


# --- status, logs, uninstall ---


def test_status(machine, capsys):
    machine.do("install")
    capsys.readouterr()
    assert machine.do("status") == 0
    said = capsys.readouterr().out
    assert "state     active\n" in said
    assert "says      idle; telegram up\n" in said
    assert "restarts  2\n" in said
    assert "memory    31 MB\n" in said
    assert "process" not in said
    assert "note:" not in said
    (machine.root / "active").unlink()
    assert machine.do("status") == 1


def test_status_says_when_a_unit_is_not_ours(machine, capsys):
    machine.do("install")
    (machine.units / "picoclaw.service").write_text(SYSTEM.replace("NoNewPrivileges=yes\n", ""))
    capsys.readouterr()
    machine.do("status", "--json")
    told = json.loads(capsys.readouterr().out)
    assert told["ActiveState"] == "active"
    assert told["stale"] == [str(machine.units / "picoclaw.service")]


@pytest.mark.parametrize(("act", "said"), [("start", "runs"), ("stop", "has stopped"), ("restart", "runs")])
def test_it_is_started_and_stopped(machine, capsys, act, said):
    machine.do("install", "--no-start")
    capsys.readouterr()
    assert machine.do(act) == 0
    assert machine.calls[-1] == f"systemctl {act} picoclaw"
    assert capsys.readouterr().out == f"picoclaw {said}\n"
    (machine.root / "fails").write_text(act)
    with pytest.raises(ConfigError, match=f"`systemctl {act} picoclaw` failed"):
        machine.do(act)


@pytest.mark.parametrize("act", ["status", "logs", "start", "stop", "restart", "uninstall"])
def test_what_is_not_installed(machine, act):
    with pytest.raises(ConfigError, match="picoclaw service install"):
        machine.do(act)
    assert not machine.calls


def test_uninstall_leaves_what_is_the_owners(machine, capsys):
    machine.do("install")
    (machine.drop_in.parent / "override.conf").write_text("[Service]\nMemoryMax=1G\n")
    assert machine.do("uninstall") == 0
    assert machine.calls[-2:] == ["systemctl disable --now picoclaw", "systemctl daemon-reload"]
    left = {str(p.relative_to(machine.root)) for p in (machine.root / "etc").rglob("*") if p.is_file()}
    assert left == {"etc/picoclaw/environment", "etc/systemd/system/picoclaw.service.d/override.conf"}
    assert "/var/lib/picoclaw" in capsys.readouterr().out


def test_uninstall_takes_its_empty_folder_away(machine):
    machine.do("install")
    machine.do("uninstall")
    assert list(machine.units.iterdir()) == []


@pytest.mark.parametrize(
    ("fails", "why"),
    [
        (
            "restart picoclaw$",
            "restart picoclaw` failed: Job for picoclaw.service failed; `journalctl --unit picoclaw` shows more",
        ),
        ("sysusers.d", "systemd-sysusers"),
    ],
)
def test_what_systemd_refuses_is_said_in_its_words(machine, fails, why):
    (machine.root / "fails").write_text(fails)
    with pytest.raises(ConfigError, match=re.escape(why)):
        machine.do("install")


@pytest.mark.parametrize("fails", ["sysusers.d", "daemon-reload", "enable picoclaw", "restart picoclaw$"])
def test_an_install_that_fails_leaves_no_file(machine, fails, capsys):
    def files():
        found = machine.root.rglob("etc/**/*")
        return {path: path.read_bytes() if path.is_file() else b"" for path in found}

    before = files()
    (machine.root / "fails").write_text(fails)
    with pytest.raises(ConfigError, match=r"; what was written has been taken back$"):
        machine.do("install")
    assert files() == before
    assert not list(machine.units.iterdir())
    assert f"removed {machine.units / 'picoclaw.service'}" in capsys.readouterr().out
    (machine.root / "fails").unlink()
    machine.do("install")
    machine.drop_in.write_text("# older\n")
    before = files()
    (machine.root / "fails").write_text(fails)
    with pytest.raises(ConfigError):
        machine.do("install")
    assert files() == before


def test_a_service_that_does_not_start_names_its_logs(machine):
    machine.do("install")
    (machine.root / "fails").write_text("restart picoclaw$")
    with pytest.raises(ConfigError, match=r"; `picoclaw service logs` shows more$"):
        machine.do("restart")


def test_without_systemd(machine, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ConfigError, match="is not here: where another program starts the services"):
        machine.do("install")


def test_logs_become_journalctl(machine, tmp_path):
    """In a process of its own, because it is replaced; the user's unit, because a test has no machine of its own."""
    folder = tmp_path / "config/systemd/user"
    folder.mkdir(parents=True)
    (folder / "picoclaw.service").write_text(SESSION)
    path = f"{tmp_path}/bin:{os.environ['PATH']}"
    done = picoclaw_process(
        tmp_path,
        "service",
        "logs",
        "-n",
        "7",
        PATH=path,
        MACHINE=str(tmp_path),
        XDG_CONFIG_HOME=str(tmp_path / "config"),
    )
    assert done.stdout == "the journal of --user-unit picoclaw --lines 7\n", done.stderr


def test_wrong_words(tmp_path):
    assert picoclaw_process(tmp_path, "service").returncode == 2
    assert picoclaw_process(tmp_path, "service", "install", "--user", "--as", "ada").returncode == 2


# --- what it cannot ask ---


class Asked:
    """A C library whose adjtimex answers this."""

    def __init__(self, answer):
        self.adjtimex = lambda _: answer


@pytest.mark.parametrize(
    ("answer", "left", "synchronised"),
    [(0, False, True), (5, False, False), (5, True, False), (-1, False, False), (-1, True, True)],
)
def test_the_clock_is_vouched_for_by_the_kernel_or_where_that_may_not_be_asked_by_timesyncd(
    tmp_path, monkeypatch, answer, left, synchronised
):
    monkeypatch.setattr("ctypes.CDLL", lambda *_, **__: Asked(answer))
    if left:
        (tmp_path / "run/systemd/timesync").mkdir(parents=True)
        (tmp_path / "run/systemd/timesync/synchronized").touch()
    assert LinuxBoard(str(tmp_path)).clock_synchronised() is synchronised


# --- the units themselves ---


def test_the_users_unit_says_nothing_that_the_systems_does_not():
    other = {"EnvironmentFile=-%h/.config/picoclaw/environment", "WantedBy=default.target"}
    assert set(settings(SESSION)) - set(settings(SYSTEM)) == other


analyze = pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd-analyze here")


@analyze
def test_the_exposure_is_low():
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=15", SHIPPED / "picoclaw.service"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    assert "exposure level" in done.stdout


@analyze
@pytest.mark.parametrize("scope", ["--system", "--user"])
def test_systemd_understands_every_line(tmp_path, scope):
    """With a drop-in as install writes it, for a program that is there; 252 does not know the steps of the back-off."""
    (tmp_path / "picoclaw.service").write_text(SYSTEM if scope == "--system" else SESSION)
    (tmp_path / "picoclaw.service.d").mkdir()
    drop_in = maintenance_service.render_session_drop_in(maintenance_service.Program(("/bin/true", "a b"), ()))
    (tmp_path / "picoclaw.service.d/10-machine.conf").write_text(drop_in)
    done = subprocess.run(
        ["systemd-analyze", "verify", scope, "--man=no", "picoclaw.service"],
        env={"PATH": os.environ["PATH"], "SYSTEMD_UNIT_PATH": f"{tmp_path}:", "XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    said = [line for line in done.stderr.splitlines() if "picoclaw" in line]
    assert [line for line in said if not re.search("Unknown key.*'Restart(Steps|MaxDelaySec)'", line)] == []
