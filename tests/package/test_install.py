"""install.sh as its owner runs it: no compiler, a clean environment, an update, the way back, and away again."""

import os
import subprocess
import zipfile

import pytest
from test_package import ROOT, built  # noqa: F401 - a fixture


@pytest.fixture(scope="module")
def owner(tmp_path_factory):
    """Somebody with a home of their own, on a machine whose compiler fails."""
    folder = tmp_path_factory.mktemp("owner")
    (folder / "tools").mkdir()
    for name in ("cc", "gcc", "c++", "g++", "rustc", "cargo"):
        (folder / "tools" / name).write_text("#!/bin/sh\nexit 1\n")
        (folder / "tools" / name).chmod(0o755)
    return folder


def run(owner, *command):
    path = f"{owner / 'bin'}:{owner / 'tools'}:{os.environ['PATH']}"
    return subprocess.run(
        [str(word) for word in command],
        env={"PATH": path, "HOME": str(owner), "LANG": "C.UTF-8"},
        capture_output=True,
        text=True,
        timeout=600,
        cwd="/",
    )


def install(owner, *words):
    return run(owner, ROOT / "install.sh", "--prefix", owner / "root", "--bin", owner / "bin", *words)


def versions(owner):
    return sorted(path.name for path in (owner / "root/versions").iterdir())


def test_installed_updated_taken_back_and_removed(built, owner):  # noqa: F811
    wheel = built[1]
    done = install(owner, "--from", wheel)
    assert done.returncode == 0, done.stderr
    assert f"is installed: {owner}/bin/picoclaw" in done.stdout
    assert "greenhouse" in run(owner, "picoclaw", "chat", "--board", "sim", "-m", "how warm is it?").stdout
    (first,) = versions(owner)
    unit = run(owner, "picoclaw", "service", "print", "--user").stdout
    assert f"ExecStart={owner}/root/current/bin/picoclaw run\n" in unit

    broken = run(owner, "picoclaw", "update", "--watch", "0", "/nonexistent-1.0-py3-none-any.whl")
    assert (broken.returncode, broken.stdout) == (1, "")
    assert "pip failed; nothing was changed" in broken.stderr
    assert versions(owner) == [first]

    done = run(owner, "picoclaw", "update", "--watch", "0")
    assert (done.returncode, done.stdout) == (0, f"{wheel} holds what is in use already; nothing was changed\n")
    assert (versions(owner), (owner / "root/previous").is_symlink()) == ([first], False)
    assert install(owner, "--from", wheel).returncode == 0
    assert not (owner / "root/previous").is_symlink()
    assert run(owner, "picoclaw", "update", "--back").returncode == 1
    first = (owner / "root/current").readlink().name
    newer = owner / wheel.name
    newer.write_bytes(wheel.read_bytes())
    with zipfile.ZipFile(newer, "a") as archive:
        archive.writestr("picoclaw/newer.txt", "newer")
    done = run(owner, "picoclaw", "update", "--watch", "0", newer)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in (owner / "root").glob("versions/*")} >= {first}
    assert (owner / "root/current").readlink().name != first
    assert run(owner, "picoclaw", "service", "print", "--user").stdout == unit
    assert not list((owner / ".picoclaw").glob(".backup-*"))
    assert run(owner, "picoclaw", "update", "--back").stdout == f"back to {first}\n"
    assert (owner / "root/current").readlink().name == first

    done = run(owner, "picoclaw", "uninstall", "--yes")
    assert done.returncode == 0, done.stderr
    assert not (owner / "root").exists()
    assert not (owner / "bin/picoclaw").is_symlink()
    assert (owner / ".picoclaw/state.db").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--from", "/nonexistent.whl"], "pip could not install it; nothing was changed"),
        (["--colour", "blue"], "unknown option --colour"),
        (["--from"], "--from needs a value"),
    ],
)
def test_an_installation_that_fails_leaves_nothing(owner, words, said):
    done = install(owner, *words)
    assert done.returncode == 1
    assert said in done.stderr
    assert not (owner / "root/current").is_symlink()
    assert not (owner / "root").exists() or not versions(owner)
    assert not (owner / "bin/picoclaw").is_symlink()


def test_a_command_of_somebody_elses_is_not_overwritten(owner):
    (owner / "other").mkdir()
    (owner / "other/picoclaw").write_text("#!/bin/sh\n")
    done = run(owner, ROOT / "install.sh", "--prefix", owner / "root3", "--bin", owner / "other")
    assert (done.returncode, done.stdout) == (1, "")
    assert "is there already" in done.stderr
    assert (owner / "other/picoclaw").read_text() == "#!/bin/sh\n"


def test_an_old_python_is_refused(owner):
    (owner / "tools/python-old").write_text("#!/bin/sh\nexit 1\n")
    (owner / "tools/python-old").chmod(0o755)
    done = run(
        owner, "env", "PYTHON=python-old", ROOT / "install.sh", "--prefix", owner / "root2", "--bin", owner / "bin"
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "Python 3.11 or newer" in done.stderr
    assert not (owner / "root2").exists()
