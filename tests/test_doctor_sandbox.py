"""What the doctor says of commands: walls that are made for a try, programs and switches that are missing."""

import shutil

import pytest
from sandbox_kit import needs_walls

from picoclaw.config import Config
from picoclaw.config.tables import ToolsConfig
from picoclaw.files import find_shipped
from picoclaw.maintenance import doctor, systemd


@pytest.fixture
def config(tmp_path):
    (tmp_path / "workspace").mkdir()
    return Config(home=tmp_path)


@needs_walls
def test_walls_that_can_be_made(config):
    [row] = doctor.examine_sandbox(config)
    assert (row.status, row.name) == ("good", "commands")


def test_silence_where_commands_are_off(config):
    assert not list(doctor.examine_sandbox(Config(home=config.home, tools=ToolsConfig(exec="off"))))


def test_the_program_that_is_missing_is_named_with_what_installs_it(config, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    [row] = doctor.examine_sandbox(config, tmp_path)
    assert (row.status, row.fix) == ("bad", "sudo apt install bubblewrap")
    assert "bubblewrap is not installed" in row.detail


@needs_walls
def test_the_units_of_the_service_are_looked_at(config, monkeypatch, tmp_path):
    monkeypatch.setattr(systemd, "find_installed", lambda: systemd.Service(tmp_path, ("--user",)))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))

    def told():
        *rows, (mark, what, *_) = doctor.examine_sandbox(config)
        assert (mark, what) == ("good", "commands")
        return [(row.status, row.detail.removeprefix(f"{tmp_path}/"), row.fix) for row in rows]

    install = "picoclaw service install --user"
    door, commands = tmp_path / "picoclaw-exec.socket", tmp_path / "picoclaw-exec@.service"
    assert told() == [
        ("bad", "picoclaw-exec.socket is missing, and without it the service cannot run commands", install)
    ]
    shutil.copy(find_shipped("systemd") / "user-exec.socket", door)
    commands.write_text("[Service]\n")
    closed = ("bad", "picoclaw-exec.socket is not active, and without it the service cannot run commands")
    start = "systemctl --user start picoclaw-exec.socket"
    other = ("note", "picoclaw-exec@.service is from another picoclaw than this one", install)
    assert told() == [other, (*closed, start)]
    shutil.copy(find_shipped("systemd") / "user-exec@.service", commands)
    (tmp_path / "run/picoclaw").mkdir(parents=True)
    (tmp_path / "run/picoclaw/exec.sock").touch()
    assert told() == []


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("kernel/apparmor_restrict_unprivileged_userns", "1", "kernel.apparmor_restrict_unprivileged_userns=0"),
        ("kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone=1"),
        ("user/max_user_namespaces", "0", "user.max_user_namespaces=10000"),
        ("kernel/unprivileged_userns_clone", "1", "apt install bubblewrap"),
    ],
)
def test_a_switch_of_the_kernel_that_closes_name_spaces_is_named(tmp_path, path, value, said):
    file = tmp_path / "proc/sys" / path
    file.parent.mkdir(parents=True)
    file.write_text(f"{value}\n")
    assert said in doctor.suggest_sandbox_fix(tmp_path)
