"""The power is cut while the daemon writes: always the last test of a boot. What was so by then is told to the lab."""

import json
import os
import signal
import threading
import time

import lab
import lab_pins
from lab_service import HOME, ON, PUMP, UNITS, done, process, rows, said

from picoclaw.channels import ipc

DARK_S = 7200
MESSAGES, TOLD, PAUSE_S = 1000, 3, 0.1
LAST_WORDS_S = 0.2  # for what is already in the terminal's socket


def test_the_power_is_cut(service, pins):
    """The witness is what another process saw in the database, and what its terminal was told."""
    (UNITS / "lab-pins.service").write_text(lab_pins.UNIT)
    done("systemctl", "enable", "lab-pins.service")
    os.sync()  # nobody has promised that the unit of the board's pins outlasts the cut
    said("remind me in 30 minutes to look at the pump")
    said("turn the pump on for 9 minutes")
    assert (pins / f"sim_gpio{PUMP}/value").read_text().strip() == ON
    told: list[str] = []
    terminal = ipc.connect(HOME, 60.0)
    threading.Thread(target=_heard, args=(terminal, told), daemon=True).start()
    writing = threading.Thread(target=_write, args=(terminal,), daemon=True)
    writing.start()
    lab.wait_for(lambda: len(told) >= TOLD and _accepted()[TOLD:], "some are answered, and others wait", 120.0)
    assert writing.is_alive()
    os.kill(int(process()), signal.SIGSTOP)  # what it tells between this list and the cut could not be told apart
    time.sleep(LAST_WORDS_S)
    print("@CUT " + json.dumps({"dark_s": DARK_S, "accepted": _accepted(), "told": list(told)}), flush=True)
    time.sleep(120)
    raise AssertionError("the power was not cut")


def _accepted() -> list[str]:
    return [key for (key,) in rows("SELECT key FROM inbox WHERE key LIKE 'cut-%' ORDER BY id")]


def _write(terminal: ipc.IpcConnection) -> None:
    """Send faster than anybody answers."""
    for number in range(MESSAGES):
        terminal.say({"do": "chat", "session": f"cut-{number}", "text": f"hello, this is message {number}"})
        time.sleep(PAUSE_S)


def _heard(terminal: ipc.IpcConnection, told: list[str]) -> None:
    """Note whose turn has begun, in the order in which they are answered, and whose answer was told."""
    begun: list[str] = []
    while (words := terminal.next()) is not None:
        if "begin" in words:
            begun.append(f"cut-{words['begin'].rpartition(' ')[2]}")
        elif "end" in words:
            told.append(begun[-1])
