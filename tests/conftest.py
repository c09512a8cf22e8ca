"""What every test takes for granted of its process, and a second run for one that failed."""

import gc
import os
import shutil
import signal
import subprocess
import time

import pytest
from _pytest.runner import runtestprotocol
from databases import share_databases
from grammars import share_grammars, share_skills

pytest_plugins = ["workers"]

share_databases()
share_grammars()
share_skills()
gc.disable()  # until all tests are collected: there is little garbage in that, and looking for it takes a quarter
for proxy in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
    os.environ.pop(proxy, None)
    os.environ.pop(proxy.lower(), None)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell that runs the suite in the background ignores it


def pytest_collection_finish(session):
    """Leave what was collected, a million objects, out of every later look for garbage."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)
    gc.enable()


@pytest.fixture
def board_clock(monkeypatch):
    """Set the board's own time zone."""

    def choose(zone):
        monkeypatch.setenv("TZ", zone)
        time.tzset()

    yield choose
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def mount_disk():
    """Mount a small disk in memory at a folder, until the test ends."""
    mounted = []

    def mount(folder, size):
        folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
        if not shutil.which("mount") or subprocess.run(command, capture_output=True, check=False).returncode:
            pytest.skip("only root may mount a disk")
        mounted.append(folder)
        return folder

    yield mount
    for folder in mounted:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture(scope="session")
def postgres_class():
    """What starts a PostgreSQL server, where one is installed."""
    import postgres_server

    if not postgres_server.is_installed():
        pytest.skip("no PostgreSQL here: make postgres installs one")
    return postgres_server.PostgresServer


@pytest.fixture(scope="session")
def postgres(postgres_class):
    """The PostgreSQL server that tests share."""
    with postgres_class() as running:
        yield running


@pytest.fixture(params=["sqlite", "postgres"])
def place(request, tmp_path):
    """The address of an empty store that boards share."""
    from shared_kit import StorePlace

    kind = request.param
    url = f"sqlite:{tmp_path}/shared.db" if kind == "sqlite" else request.getfixturevalue("postgres").empty_database()
    found = StorePlace(kind, url)
    with found.stack:
        yield found


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    """Run a test that failed once more: one that is against the clock may lose beside others. Those are listed."""
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, log=False, nextitem=nextitem)
    if any(report.failed for report in reports):
        first = next(report.longreprtext for report in reports if report.failed)
        item._initrequest()  # its fixtures are made anew
        item.user_properties.append(("first", first))
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
    option = item.config.option
    if all(report.passed for report in reports) and option.verbose < 0 and not option.durations:
        reports = reports[1:2]  # nobody is shown that set-up and tear-down passed, and each is a message of a worker
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def pytest_terminal_summary(terminalreporter):
    """List what passed only the second time, and how it had failed."""
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties if report.when == "call" else ():
            if name == "first":
                terminalreporter.write_line(f"{report.nodeid} passed when it was run again; the first time:\n{value}")


@pytest.fixture
def clock():
    """The time of all boards of a test."""
    from shared_kit import Clock

    return Clock()


@pytest.fixture
def boards(place, tmp_path, clock):
    """Makes homes on one store, and lets go of them at the end."""
    from shared_kit import Board

    made = []

    def make(name, url="", folder="", **who):
        made.append(Board(tmp_path / (folder or name), url or place.url, clock, name, **who))
        return made[-1]

    yield make
    for one in made:
        one.stack.close()
