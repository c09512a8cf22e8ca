"""The service under the guest's own systemd: started, asked over its socket, looked round in, frozen, killed."""

import os
import re
import signal
import time

import lab
from conftest import WATCHDOG_S
from lab_service import HOME, ON, PICOCLAW, PUMP, SAFE, STATE, begun, done, journal, owner, process, said, shown, user

from picoclaw.hw.linux import LinuxBoard


def test_it_starts(service, record_property):
    record_property("systemctl start until ready, s", service)
    assert shown("ActiveState") == "active"
    assert "state     active" in done(*PICOCLAW, "service", "status")
    assert HOME.stat().st_uid == user()
    assert oct(STATE.stat().st_mode & 0o777) == "0o700"


def test_its_exposure_is_low(service, record_property):
    rated = done("systemd-analyze", "security", "--no-pager", "picoclaw")
    score = re.search(r"exposure level for \S+: ([0-9.]+)", rated)
    record_property("exposure", score[1])
    assert float(score[1]) <= 1.5


def test_a_command_of_its_own_reaches_the_bus_and_the_time_and_nothing_else(service):
    """What was tried as it started, in its cgroup and name space and with its rights; outside, the kernel is asked."""
    told = lab.wait_for(lambda: "tried;" in journal() and journal(), "the sandbox was tried")
    assert "refused" not in told
    assert "Traceback" not in told
    assert "tried; synchronised: True" in told
    assert not LinuxBoard().clock_synchronised()


def test_it_is_asked_over_its_socket(service, record_property):
    began = time.monotonic()
    status = owner("status")
    record_property("status, s", round(time.monotonic() - began, 2))
    assert f"process {process()}" in status


def test_a_sensor_of_the_kernel_and_the_bus_are_read_through_the_sandbox(service, bridge, record_property):
    lab.modprobe("bmp280-i2c")
    bridge.place("bme280", "i2c-1/0x76", temperature=25.0)
    assert "0x76 answers" in said("scan the i2c bus 1")
    lab.bind("bme280", 0x76)
    began = time.monotonic()
    answer = owner("chat", "-m", "how warm is it?")
    record_property("a question, s", round(time.monotonic() - began, 2))
    lab.unbind(0x76)
    bridge.remove("i2c-1/0x76")
    assert re.search(r"(24\.9|25\.0)\d? °C", answer), answer


def test_outputs_are_safe_after_everything_of_it_was_killed(service, pins, record_property):
    level = pins / f"sim_gpio{PUMP}/value"
    said("turn the pump on for 50 seconds")
    assert level.read_text().strip() == ON
    pid, before = process(), journal().count("at its safe level")
    began = time.monotonic()
    done("systemctl", "kill", "--signal=KILL", "picoclaw")
    lab.wait_for(lambda: level.read_text().strip() == SAFE, "the pump is off", 120.0)
    record_property("on afterwards, s", round(time.monotonic() - began, 2))
    process(pid)
    assert journal().count("at its safe level") > before


def test_a_frozen_one_is_ended_by_the_watchdog_and_comes_back(service, record_property):
    pid = process()
    assert said("hello")  # all its threads are there
    began = time.monotonic()
    os.kill(pid, signal.SIGSTOP)
    lab.wait_for(lambda: int(shown("MainPID")) != pid, "the frozen one is ended", 300.0)
    record_property(f"frozen until ended, with a watchdog of {WATCHDOG_S} s, s", round(time.monotonic() - began, 1))
    process(pid)
    record_property("frozen until ready again, s", round(time.monotonic() - began, 1))
    # Those that follow may be missing: systemd lets a frozen process go on as it ends it, its threads run while Python
    # reads their frames, and that may fail (seen once in ten times: a second error, "Segmentation fault", in the list).
    told = r'Fatal Python error: Aborted[^\0]*File ".*/picoclaw/\w+/\w+\.py", line \d+'
    try:
        lab.wait_for(lambda: re.search(told, journal()), "where its threads were is in the journal", 60.0)
    except AssertionError as error:
        raise AssertionError(f"{error}: {journal()[-6000:]}") from None


def test_it_never_gives_up(service, record_property):
    """Killed before it was ready again, and again; systemd would not count how often."""
    assert shown("StartLimitIntervalUSec") == "0"
    killed, began, times = {0}, time.monotonic(), 2
    for _ in range(times):
        (pid,) = lab.wait_for(lambda: {int(shown("MainPID"))} - killed, "a start", 300.0)
        killed.add(pid)
        os.kill(pid, signal.SIGKILL)
    process(pid)
    record_property(f"killed {times} times until ready again, s", round(time.monotonic() - began, 1))
    assert said("hello")


def test_it_ends_within_seconds_and_is_started_by_its_own_command(service, record_property):
    began = time.monotonic()
    done("systemctl", "stop", "picoclaw")
    record_property("stopped, s", round(time.monotonic() - began, 1))
    assert shown("Result") == "success"
    record_property("started, s", begun(*PICOCLAW, "service", "restart"))
