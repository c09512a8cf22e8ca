"""The built package, without the checkout around it: sdist -> wheel -> clean environment -> run from `/`."""

import json
import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(*command, **options):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=600, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The sdist of this checkout, and the wheel that is built from the sdist."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--outdir", folder, ROOT)
    return next(folder.glob("*.tar.gz")), next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory):
    """A clean environment with the wheel and what it asks for, and nothing else."""
    folder = tmp_path_factory.mktemp("clean")
    venv.create(folder / "env", with_pip=True)
    run(folder / "env/bin/python", "-m", "pip", "--disable-pip-version-check", "install", "--quiet", built[1])
    return folder


def environment(folder):
    return {"PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8"}


def beside_the_code():
    """What ships and is no module of the package, by its path in the checkout."""
    patterns = ("templates/**/*", "systemd/*", "tools/hw/*.py")
    found = {pattern: [path for path in ROOT.glob(pattern) if path.is_file()] for pattern in patterns}
    names = {str(path.relative_to(ROOT)) for paths in found.values() for path in paths}
    assert all(found.values())
    assert {"systemd/picoclaw.service", "systemd/udev.rules", "systemd/sysusers.conf"} <= names
    assert any(name.startswith("templates/page/") for name in names)
    return names


def test_wheel_holds_what_ships_beside_the_code(built):
    with zipfile.ZipFile(built[1]) as wheel:
        names = set(wheel.namelist())
    assert {f"picoclaw/shipped/{path}" for path in beside_the_code()} <= names
    code = {str(p.relative_to(ROOT)) for p in ROOT.glob("picoclaw/**/*.py")}
    assert code <= names
    assert not [n for n in names if n.startswith(("tests/", "docs/"))]


def test_sdist_holds_all_of_it_the_tests_and_the_licence(built):
    with tarfile.open(built[0]) as sdist:
        names = {n.partition("/")[2] for n in sdist.getnames()}
        (installer,) = [member for member in sdist.getmembers() if member.name.endswith("/install.sh")]
    assert installer.mode & 0o111
    assert beside_the_code() <= names
    assert {"LICENSE", "README.md", "CHANGELOG.md", "Makefile", "tests/package/test_package.py"} <= names


def test_runs_from_anywhere(installed):
    picoclaw = installed / "env/bin/picoclaw"
    where = {"cwd": "/", "env": environment(installed)}
    assert run(picoclaw, "--version", **where).startswith("picoclaw ")
    told = json.loads(run(picoclaw, "chat", "--board", "sim", "-m", "how warm is it?", "--json", **where))
    assert told["simulated"]
    assert [t["name"] for t in told["turn"]["tools"]] == ["sensor_read"]
    assert "°C" in told["reply"]
    assert "0x76 answers" in run(picoclaw, "tool", "i2c", '{"action": "scan"}', "--board", "sim", **where)
    run(picoclaw, "prompt", "--json", **where)
    run(picoclaw, "doctor", "--board", "sim", **where)
    assert f"ExecStart={picoclaw} run\n" in run(picoclaw, "service", "print", "--user", **where)


def test_a_driver_runs_on_the_bench(installed):
    driver = next(installed.glob("env/lib/python*/site-packages/picoclaw/shipped/tools/hw/bme280.py"))
    said = run(installed / "env/bin/python", driver, "--sim", cwd="/", env=environment(installed))
    assert said.startswith("temperature ")


def test_asks_for_few_packages(installed):
    listed = json.loads(run(installed / "env/bin/python", "-m", "pip", "list", "--format", "json"))
    names = {p["name"].lower() for p in listed} - {"pip", "setuptools"}
    assert len(names) <= 18, names
    sizes = {"numpy": 0, "others": 0}
    installers = {"pip", "setuptools", "pkg_resources", "_distutils_hack"}  # and "pip-23.0.1.dist-info"
    for file in (installed / "env/lib").rglob("*"):
        if file.is_file() and not installers & {part.partition("-")[0] for part in file.parts}:
            sizes["numpy" if "/numpy" in str(file) else "others"] += file.stat().st_size
    assert sizes["others"] < 51_200_000, (
        sizes
    )  # ours 15.5 MB with its bytecode (word vectors 4, sentences 1.5), lxml 12, apsw 11, httpx and what it needs 4, PyYAML 3
    assert sizes["numpy"] < 90_000_000, sizes  # aarch64 56, x86-64 71
