"""The real supervisor, in processes of its own: whatever is killed, frozen or garbled, the output goes off."""

import contextlib
import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import sweep
from outputs_kit import HARMS, LAMP, PUMP, alive, client, close_clients, ended, harm, leave_on, make_home, pin, until

from picoclaw.automation import clock
from picoclaw.errors import ConfigError, HardwareError, PicoclawError
from picoclaw.hw.reading import Reading
from picoclaw.hw.sim import SimBoard
from picoclaw.outputs import audit, config, supervisor
from picoclaw.outputs.client import OutputRefused, OutputsClient
from picoclaw.outputs.stop import stop_outputs
from picoclaw.outputs.supervisor.sensing import RequiredSensorSampler, make_measure_function
from picoclaw.outputs.supervisor.worker import SupervisorWorker
from picoclaw.records import asdict

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def home(tmp_path):
    """A home with an armed pump and lamp; whatever supervisor is left at the end is ended, and has left nothing on."""
    home = make_home(tmp_path / "home", PUMP + LAMP)
    yield home
    close_clients()
    for pid in supervisor.read_holder(home)[:2]:
        if pid and alive(pid):
            os.kill(pid, signal.SIGCONT)
            os.kill(pid, signal.SIGTERM)
    ended(home)
    assert pin(home) in {None, 0}
    assert not (home / "outputs.live").exists()
    assert audit.verify(home)[1] == ""
    assert (home / "outputs.log").read_text() == "" if (home / "outputs.log").exists() else True


def acts(home, *keys):
    return [tuple(said.get(key) for key in ("act", *keys)) for _, said in audit.read_records(home / audit.AUDIT_FILE)]


def raw(home):
    """A connection for saying what no client of ours says."""
    connection = supervisor.connect(home, 5)
    connection.settimeout(5)
    return connection


def test_a_keeper_is_started_serves_and_ends_when_nobody_needs_it(home):
    one = client(home)
    assert one.set("pump", "on", 60, "owner") == "pump is on for 60 s"
    assert pin(home) == 1
    assert one.off("pump", "owner") == "pump is at its safe level, off"
    holder = supervisor.read_holder(home)
    one.close()
    until(lambda: not alive(holder.watchdog) and not alive(holder.worker))
    assert not (home / supervisor.SOCKET_FILE).exists()


def test_one_whose_home_was_removed_after_a_stop_ends(tmp_path):
    gone = make_home(tmp_path / "gone")
    one = client(gone)
    one.set("pump", "on", 60, "owner")
    one.stop("owner")
    holder = supervisor.read_holder(gone)
    assert alive(holder.worker)
    shutil.rmtree(gone)
    one.close()
    until(lambda: not alive(holder.watchdog) and not alive(holder.worker))


def test_a_lease_ends_by_itself_after_its_client_has_left(home):
    one = client(home)
    one.set("pump", "on", 0.3, "owner")
    one.leave()
    assert pin(home) == 1
    until(lambda: pin(home) == 0)
    ended(home)


def test_a_client_that_is_killed_takes_its_output_with_it(home):
    pid = os.fork()
    if pid == 0:
        kept = client(home)
        kept.set("pump", "on", 60, "owner")
        signal.pause()
    until(lambda: pin(home) == 1)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    until(lambda: pin(home) == 0, 1)


def test_a_client_that_is_frozen_keeps_nothing_on_for_longer(home):
    pid = os.fork()
    if pid == 0:
        kept = client(home)
        kept.set("pump", "on", 0.4, "owner")
        signal.pause()
    until(lambda: pin(home) == 1)
    os.kill(pid, signal.SIGSTOP)
    until(lambda: pin(home) == 0, 1.4)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


@pytest.mark.parametrize("victim", ["watchdog", "worker"])
def test_one_of_the_two_is_killed(home, victim):
    one = client(home)
    one.set("pump", "on", 60, "owner")
    os.kill(getattr(supervisor.read_holder(home), victim), signal.SIGKILL)
    until(lambda: pin(home) == 0, 1)
    ended(home)
    assert (
        acts(home, "why")[-1]
        == {
            "watchdog": ("safe", "the watchdog is gone"),
            "worker": ("rescue", "the supervisor ended with -9"),
        }[victim]
    )
    assert one.set("pump", "on", 60, "owner"), "a new one is started"
    one.close()


def test_hands_that_hang_are_ended_at_the_end_of_the_lease(home):
    one = client(home)
    one.set("pump", "on", 0.3, "owner")
    os.kill(supervisor.read_holder(home).worker, signal.SIGSTOP)
    until(lambda: pin(home) == 0, 1.3)
    ended(home)
    assert acts(home, "why")[-1] == ("rescue", "the supervisor hung")


def test_both_are_killed_while_the_client_lives(home):
    one = client(home)
    one.set("pump", "on", 60, "owner")
    for pid in supervisor.read_holder(home)[:2]:
        os.kill(pid, signal.SIGSTOP)
    for pid in supervisor.read_holder(home)[:2]:
        os.kill(pid, signal.SIGKILL)
    until(lambda: pin(home) == 0, 1)
    until(lambda: not (home / supervisor.LIVE_FILE).exists())
    ended(home)
    assert acts(home, "why")[-1] == ("rescue", "its supervisor was killed"), "its client noticed"
    assert acts(home, "left")[-1] == ("rescue", ["pump", "lamp"]), "those that may have been driven"


def test_both_and_the_client_are_killed_and_the_next_one_makes_it_safe(home):
    leave_on(home)
    assert (home / supervisor.LIVE_FILE).exists()
    client(home).recover()
    assert pin(home) == 0


@pytest.mark.parametrize("how", ["close", "leave"])
@pytest.mark.parametrize("after_ms", [0, 2, 5, 10, 20, 50])
def test_both_are_killed_and_the_client_ends_in_an_orderly_way(home, how, after_ms):
    pid = os.fork()
    if pid == 0:
        one = OutputsClient(home, lambda: "sim")
        one.set("pump", "on", 60, "owner")
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for each in supervisor.read_holder(home)[:2]:
                os.kill(each, number)
        time.sleep(after_ms / 1000)
        getattr(one, how)()
        os._exit(pin(home))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, "off when its client ends"


@pytest.mark.parametrize("numbers", HARMS.values(), ids=HARMS)
def test_a_client_notices_that_nobody_ends_its_lease(home, numbers):
    one = client(home)
    one.set("lamp", "on", 0.05, "owner")
    one.set("pump", "on", 0.5, "owner")  # the same connection, and another end
    harm(home, numbers)
    until(lambda: pin(home) == 0, 6)
    until(lambda: not (home / supervisor.LIVE_FILE).exists())
    ended(home)


@pytest.mark.parametrize("numbers", HARMS.values(), ids=HARMS)
def test_off_works_also_when_the_keeper_does_not(home, numbers):
    one = client(home)
    one.set("pump", "on", 60, "owner")
    one.leave()
    harm(home, numbers)
    assert client(home).off("pump", "owner") == "pump is at its safe level, off"
    assert pin(home) == 0


@pytest.mark.parametrize("numbers", HARMS.values(), ids=HARMS)
@pytest.mark.parametrize("last", ["", "one.close()", "one.leave()"])
def test_a_program_that_ends_leaves_nothing_on(home, numbers, last):
    """Also where it does not say that it ends."""
    words = f"""
import os, sys
from pathlib import Path
from picoclaw.outputs.supervisor import read_holder
from picoclaw.outputs import client, stop
one = client.OutputsClient(Path(sys.argv[1]), lambda: "sim")
one.set("pump", "on", 30, "owner")
client._ANSWER_TIMEOUT_S = client._RELEASE_TIMEOUT_S = stop._RECOVER_S = 0.3  # who is frozen answers after no time
holder = read_holder(Path(sys.argv[1]))
for name, number in {[(name, int(number)) for name, number in numbers.items()]}:
    os.kill(getattr(holder, name), number)
{last}
"""
    subprocess.run([sys.executable, "-c", words, home], check=True, timeout=20, cwd=ROOT)
    until(lambda: pin(home) == 0, 1)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize("whom", ["watchdog", "worker"])
def test_a_signal_ends_it_cleanly(home, whom, number):
    one = client(home)
    one.set("pump", "on", 60, "owner")
    os.kill(getattr(supervisor.read_holder(home), whom), number)
    until(lambda: pin(home) == 0, 1)
    ended(home)
    assert acts(home, "why")[-1] == ("safe", "a signal asked for it")
    one.close()


def test_a_signal_stops_everything(home):
    one = client(home)
    one.set("pump", "on", 60, "owner")
    os.kill(supervisor.read_holder(home).worker, signal.SIGUSR1)
    until(lambda: pin(home) == 0, 1)
    with pytest.raises(OutputRefused, match="rule 'stop'"):
        one.set("pump", "on", 60, "owner")
    one.close()


@pytest.mark.parametrize("freeze", [(), ("worker",), ("watchdog",), ("watchdog", "worker")])
def test_stop_works_also_when_the_keeper_does_not(home, freeze):
    """Nothing waits for a second: what is frozen is killed after 150 ms."""
    one = client(home)
    one.set("pump", "on", 60, "owner")
    for name in freeze:
        os.kill(getattr(supervisor.read_holder(home), name), signal.SIGSTOP)
    began = time.monotonic()
    assert "safe level" in stop_outputs(home, lambda: "sim", "owner")
    assert time.monotonic() - began < 0.8
    assert pin(home) == 0
    assert (home / supervisor.STOP_FILE).exists()
    one.close()


@pytest.mark.parametrize("after_ms", [0, 20, 40, 60, 80, 100, 120, 150])
def test_stop_while_a_keeper_begins(home, after_ms):
    """Whatever comes first, the stop wins, and the pump is not on when it is answered."""
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(PicoclawError):
            one = OutputsClient(home, lambda: "sim")
            one.set("pump", "on", 60, "owner")
            one.leave()
        os._exit(0)
    time.sleep(after_ms / 1000)
    stop_outputs(home, lambda: "sim", "owner")
    assert pin(home) in {None, 0}
    os.waitpid(pid, 0)
    ended(home)
    assert pin(home) in {None, 0}


def test_stop_with_a_configuration_that_is_wrong(home):
    """No supervisor has ever said which board it drives; the stop is kept, and the real board is what is tried."""

    def board():
        raise ConfigError("config.toml is wrong")

    assert "safe level" in stop_outputs(home, board, "owner")
    assert (home / supervisor.STOP_FILE).exists()


def test_ctrl_c_during_a_wish_ends_the_wish(home, monkeypatch):
    one = client(home)
    one.list()
    exchange = supervisor.exchange

    def interrupt(connection, request, seconds):
        connection.sendall(json.dumps(request).encode() + b"\n")
        monkeypatch.setattr("picoclaw.outputs.client.exchange", exchange)
        raise KeyboardInterrupt

    monkeypatch.setattr("picoclaw.outputs.client.exchange", interrupt)
    with pytest.raises(KeyboardInterrupt):
        one.set("pump", "on", 60, "owner")
    assert one.off("lamp", "owner") == "lamp is at its safe level, off", "not the answer to what was interrupted"
    until(lambda: pin(home) == 0, 1)


def test_a_wish_of_a_client_that_has_hung_up_is_not_done(bench):
    one = bench()
    other = raw(one.home)
    one.turn()
    other.sendall(
        json.dumps({"do": "set", "name": "pump", "level": "on", "seconds": 60, "who": "owner"}).encode() + b"\n"
    )
    other.close()
    one.turn()
    assert "on" not in [act for (act,) in acts(one.home)]


def test_a_wish_that_meets_a_keeper_that_is_ending_is_made_again(home, monkeypatch):
    one = client(home)
    one.list()
    left = iter([ConnectionResetError(), ConnectionResetError()])
    exchange = supervisor.exchange

    def flaky(*given):
        if error := next(left, None):
            raise error
        return exchange(*given)

    monkeypatch.setattr("picoclaw.outputs.client.exchange", flaky)
    assert one.set("pump", "on", 60, "owner") == "pump is on for 60 s"


def test_a_marker_of_another_board_is_not_erased(home):
    """What was left on by a supervisor of the real board, which is not there, is not made safe by a rehearsal."""
    text = json.dumps(
        {"board": "linux", "outputs": [asdict(config.load_outputs(home / "outputs.toml").outputs["pump"])]}
    )
    (home / supervisor.LIVE_FILE).write_text(text)
    with pytest.raises(HardwareError, match="left on by a supervisor of the linux board is not safe"):
        client(home).set("pump", "on", 60, "owner")
    assert (home / supervisor.LIVE_FILE).read_text() == text
    (home / supervisor.LIVE_FILE).unlink()


def test_a_keeper_of_another_board_is_left_alone(home):
    one = client(home)
    one.list()
    other = OutputsClient(home, lambda: "linux")
    with pytest.raises(OutputRefused, match="a supervisor of the sim board is at work"):
        other.set("pump", "on", 60, "owner")
    other.close()
    assert pin(home) in {None, 0}


def test_a_watch_that_does_not_listen_blocks_nobody(bench):
    one = bench()
    os.set_blocking(one.worker._ear, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(one.worker._ear, b"x" * 8)
    answer = one.on()
    assert (answer["rule"], pin(one.home)) == ("hardware", 0)
    assert one.worker.alone


def test_a_frozen_watch_does_not_keep_the_lock(home):
    one = client(home)
    one.list()
    os.kill(supervisor.read_holder(home).watchdog, signal.SIGSTOP)
    with contextlib.suppress(PicoclawError):
        for _ in range(400):
            one.set("pump", "on", 60, "owner")
            one.off("pump", "owner")
    until(lambda: pin(home) == 0, 1)
    assert one.set("pump", "on", 60, "owner"), "a new one is started"


def test_a_signal_to_the_watch_does_not_wait_for_frozen_hands(home):
    one = client(home)
    one.set("pump", "on", 60, "owner")
    os.kill(supervisor.read_holder(home).worker, signal.SIGSTOP)
    os.kill(supervisor.read_holder(home).watchdog, signal.SIGTERM)
    until(lambda: pin(home) == 0, 1.5)


def test_a_changed_outputs_toml_is_noticed_without_a_request(home):
    one = client(home)
    one.set("pump", "on", 60, "owner")
    (home / "outputs.toml").write_text(LAMP)
    until(lambda: pin(home) == 0, 2)


def test_a_stop_button_that_is_added_is_read_before_anything_goes_on(bench):
    one = bench()
    assert one.on()["ok"]
    one.board.pull(4, 0)
    (one.home / "outputs.toml").write_text(PUMP + '[stop]\nline = "GPIO4"\n')
    assert one.on()["rule"] == "stop"
    assert pin(one.home) == 0


def test_the_date_is_watched_before_anything_goes_on(bench, monkeypatch):
    one = bench()
    told, tell = os.pipe()
    seen = []
    monkeypatch.setattr(clock, "open_clock_watch", lambda: seen.append(pin(one.home)) or os.dup(told))
    assert one.on()["ok"]
    assert seen == [0]
    os.close(tell)


class Odd(BaseException):
    """No error that anybody expects."""


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_driver_that_raises_anything_ends_no_measuring():
    seen, wake = os.pipe()
    answers = iter([Odd(), SystemError()])

    def measure(sensor, quantity):
        if error := next(answers, None):
            raise error
        return Reading(sensor, quantity, 20.0, "")

    sampler = RequiredSensorSampler(measure, wake)
    needs = type("Needs", (), {"sensor": "porch", "quantity": "temperature"})
    for value in (None, None, 20.0):
        sampler.want(needs)
        os.read(seen, 1)
        if value is None:
            sampler._thread.join(1)
        assert sampler.latest(needs).value == value


def test_stop_works_without_a_keeper_and_without_a_lock(home):
    client(home).close()
    (home / "sim").mkdir()
    (home / "sim/line17").write_text("1\n")
    (home / supervisor.LOCK_FILE).mkdir()
    try:
        stop_outputs(home, lambda: "sim", "owner")
    finally:
        (home / supervisor.LOCK_FILE).rmdir()
    assert pin(home) == 0


def test_safe_is_no_stop(home):
    one = client(home)
    one.set("pump", "on", 60, "owner")
    stop_outputs(home, lambda: "sim", "owner", stop=False)
    assert pin(home) == 0
    assert one.set("pump", "on", 60, "owner")
    one.close()


def test_stop_says_what_it_could_not_do(home):
    """Somebody else holds the line, and no supervisor lives."""
    board = SimBoard(state=home / "sim")
    handle = board.line_out("/dev/gpiochip0", 17, 0)
    with pytest.raises(
        HardwareError, match=r"not everything could be brought to its safe level.*line 17.*cut the power"
    ):
        stop_outputs(home, lambda: "sim", "owner")
    handle.close()


def test_two_clients_have_one_keeper(home):
    one, other = client(home), client(home)
    one.set("pump", "on", 60, "owner")
    other.set("lamp", "on", 60, "owner")
    assert [row["level"] for row in one.list()["outputs"]] == [100, 100]
    one.close()
    until(lambda: pin(home) == 0, 1)
    assert pin(home, 27) == 1
    other.close()


def test_many_start_one_at_the_same_time(home):
    pids = []
    for _ in range(6):
        pid = os.fork()
        if pid == 0:
            kept = client(home)
            os._exit(len(kept.list()["outputs"]))
        pids.append(pid)
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids] == [2] * 6


def test_a_second_keeper_says_that_it_is_not_needed(home):
    one = client(home)
    one.list()
    done = subprocess.run(
        [sys.executable, "-m", "picoclaw.outputs.supervisor", str(home), "sim"],
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert (done.stdout, done.stderr) == ("busy\n", "")
    one.close()


@pytest.mark.parametrize("what", ["socket", "file", "link"])
def test_a_stale_socket_is_replaced(home, what):
    path = home / supervisor.SOCKET_FILE
    if what == "socket":
        with socket.socket(socket.AF_UNIX) as stale:
            stale.bind(str(path))
    elif what == "file":
        path.write_text("")
    else:
        path.symlink_to(home / "nowhere")
    one = client(home)
    assert one.list()["ok"]
    one.close()


LOCK_TEXTS = {"empty": "", "nonsense": "nonsense", "init": "1 1 sim", "self": f"{os.getpid()} {os.getpid()} sim"}


@pytest.mark.parametrize("text", [*LOCK_TEXTS.values(), "\0" * 100], ids=[*LOCK_TEXTS, "zeros"])
def test_a_stale_lock_file_misleads_nobody(home, text):
    (home / supervisor.LOCK_FILE).write_text(text)
    assert stop_outputs(home, lambda: "sim", "owner", stop=False)
    one = client(home)
    assert one.list()["ok"]
    one.close()


@pytest.mark.parametrize(
    "garbage",
    [
        b"\n",
        b"nonsense\n",
        b"[1, 2]\n",
        b"\xff\xfe\0\n",
        b'{"do": "set"}\n',
        b'{"do": ' + b"[" * 3000 + b"\n",
        b'{"do": "set", "name": "pump", "level": "on", "seconds": 1e999, "who": "owner"}\n',
        b'{"do": "set", "name": "\\ud800", "level": "on", "who": "owner"}\n',
    ],
)
def test_garbage_gets_one_line(home, garbage):
    kept = client(home)
    kept.set("pump", "on", 60, "owner")
    with raw(home) as connection:
        connection.sendall(garbage)
        answer = connection.recv(65_536)
        assert answer.count(b"\n") == 1
        assert json.loads(answer)["ok"] is False
    assert kept.list()["outputs"][0]["level"] == 100, "nobody else is hurt"
    kept.off("pump", "owner")
    kept.close()


def test_a_line_without_end_is_cut_off(home):
    kept = client(home)
    kept.list()
    with raw(home) as connection:
        connection.sendall(b"x" * 20_000)
        assert b"at most 4096 bytes" in connection.recv(65_536)
        with pytest.raises(ConnectionError):
            connection.recv(1) or (_ for _ in ()).throw(ConnectionError)
    kept.close()


def test_a_client_that_asks_and_never_reads_delays_nobody(home):
    kept = client(home)
    kept.set("pump", "on", 0.5, "owner")
    flood = raw(home)
    flood.setblocking(False)
    line = b'{"do": "list"}\n' * 200
    deadline = time.monotonic() + 0.8
    while time.monotonic() < deadline:
        try:
            flood.send(line)
        except BlockingIOError:
            time.sleep(0.01)
        except ConnectionError:
            flood.close()
            flood = raw(home)
            flood.setblocking(False)
    assert pin(home) == 0, "its lease ended in the middle of the flood"
    assert kept.list()["ok"]
    flood.close()
    kept.close()


def test_too_many_clients_are_turned_away(home):
    """Who has something on stays, who only listens goes and comes back, and off is for everybody."""
    kept = client(home)
    kept.set("pump", "on", 60, "owner")
    more = [raw(home) for _ in range(20)]
    until(lambda: sum(bool(select.select([each], [], [], 0)[0]) for each in more) == 5)
    assert kept.list()["outputs"][0]["level"] == 100
    other = client(home)
    assert other.off("pump", "owner") == "pump is at its safe level, off"
    for connection in more:
        connection.close()


def test_when_all_have_something_on_off_is_for_everybody(bench):
    one = bench()
    busy = [one.connection, *(raw(one.home) for _ in range(15))]
    one.turn(20)
    for client_of_it in one.worker._clients.values():
        client_of_it.heard = b"half a"
    visitor = raw(one.home)
    one.turn()
    one.connection = visitor
    assert one.on()["rule"] == "clients"
    assert one.ask(do="off")["ok"]
    assert one.ask(do="stop")["ok"]
    for connection in busy:
        connection.close()


def test_a_keeper_that_cannot_start_says_why(home):
    (home / supervisor.SOCKET_FILE).mkdir()
    try:
        with pytest.raises(HardwareError, match=r"could not be started: .*outputs\.sock: it is a folder"):
            client(home).list()
    finally:
        (home / supervisor.SOCKET_FILE).rmdir()


def test_a_deep_home(tmp_path):
    """The path of a Unix socket has 107 bytes; the home's may have more."""
    deep = tmp_path / ("x" * 100) / "home"
    deep.parent.mkdir()
    one = client(make_home(deep))
    assert one.set("pump", "on", 0.2, "owner")
    one.close()
    ended(deep)


class Bench:
    """Hands in this process, turned by the test."""

    def __init__(self, home, monkeypatch, toml):
        make_home(home, toml)
        self.home = home
        self.board = SimBoard(state=home / "sim")
        self.watchdog, self.alive = os.pipe()
        self.ear, mouth = os.pipe()
        self.worker = SupervisorWorker(home, self.board, supervisor.listen(home), self.watchdog, mouth)
        self.worker.handler.begin()
        self.connection = raw(home)

    def turn(self, times=6):
        for _ in range(times):
            self.worker.turn(0.01)

    def ask(self, **given):
        self.connection.sendall(json.dumps({"who": "owner", "name": "pump", **given}).encode() + b"\n")
        self.turn()
        end = time.monotonic() + 10
        while not select.select([self.connection], [], [], 0)[0] and time.monotonic() < end:
            self.turn(1)  # an `on` is on the disk first, which another thread sees to
        return json.loads(self.connection.recv(65_536))

    def on(self):
        return self.ask(do="set", level="on", seconds=60)


@pytest.fixture
def bench(tmp_path, monkeypatch):
    made = []

    def make(toml=PUMP):
        made.append(Bench(tmp_path / "home", monkeypatch, toml))
        return made[0]

    yield make
    for one in made:
        one.connection.close()
        one.worker.handler.all_safe("the end")
        for left in list(one.worker._clients.values()):
            one.worker._close(left)
        one.worker._selector.close()
        one.worker._listener.close()


def test_a_date_that_is_set_makes_everything_safe(bench, monkeypatch):
    one = bench()
    told, tell = os.pipe()
    monkeypatch.setattr(clock, "open_clock_watch", lambda: os.dup(told))
    assert one.on()["ok"]
    assert pin(one.home) == 1
    os.write(tell, b"12345678")
    one.turn()
    assert pin(one.home) == 0


def test_the_kernel_has_a_descriptor_for_the_date():
    descriptor = clock.open_clock_watch()
    assert descriptor >= 0
    assert not clock.has_clock_stepped(descriptor)
    os.close(descriptor)


@pytest.mark.parametrize(("active", "rest"), [("low", 1), ("high", 0)])
def test_the_stop_button(bench, active, rest):
    one = bench(PUMP + f'[stop]\nline = "GPIO4"\nactive = "{active}"\n')
    one.board.pull(4, rest)
    assert one.on()["ok"]
    one.board.pull(4, 1 - rest)
    one.turn()
    assert pin(one.home) == 0
    assert one.on()["rule"] == "stop"
    assert one.ask(do="resume")["ok"]
    one.turn()
    assert one.on()["rule"] == "stop", "it is still pressed"
    one.board.pull(4, rest)
    one.turn()
    assert one.ask(do="resume")["ok"]
    assert one.on()["ok"]


def test_a_short_press_counts(bench):
    one = bench(PUMP + '[stop]\nline = "GPIO4"\n')
    one.board.pull(4, 1)
    assert one.on()["ok"]
    one.board.pull(4, 0)
    one.board.pull(4, 1)
    one.turn()
    assert pin(one.home) == 0
    assert one.on()["rule"] == "stop"


def test_a_stop_button_that_is_not_there_switches_nothing_on(bench):
    answer = bench(PUMP + '[stop]\nline = "GPIO99"\n').on()
    assert answer["rule"] == "configuration"
    assert "the stop button cannot be read: there is no GPIO line 'GPIO99'" in answer["text"]


NEEDY = PUMP + 'needs = { sensor = "greenhouse", quantity = "temperature", fresh_s = 1, low = -50, high = 90 }\n'


def test_a_required_sensor_is_really_measured(tmp_path):
    home = make_home(tmp_path / "home", NEEDY)
    one = client(home)
    assert one.set("pump", "on", 60, "owner")
    assert pin(home) == 1
    one.close()
    ended(home)


ALWAYS_NOTED = {
    "scd4x": ('part = "scd4x"\naddress = 0x62\nvalues = { co2 = 800 }', "co2"),
    "aht10": ('part = "aht10"\naddress = 0x38\noptions = { crc = 0 }', "temperature"),
    "darkness": ('part = "bh1750"\naddress = 0x23\nvalues = { light = 0 }', "light"),
}


@pytest.mark.parametrize("name", ALWAYS_NOTED)
def test_a_required_sensor_whose_values_are_never_exact_counts(tmp_path, name):
    text, quantity = ALWAYS_NOTED[name]
    needs = f'needs = {{ sensor = "air", quantity = "{quantity}", fresh_s = 60 }}\n'
    home = make_home(tmp_path / "home", PUMP + needs)
    (home / "sim.toml").write_text("[parts.air]\n" + text.replace("aht10", "aht20") + "\n")
    one = client(home)
    deadline = time.monotonic() + 12
    while pin(home) != 1 and time.monotonic() < deadline:  # the first measurement of an SCD4x takes 6 s
        with contextlib.suppress(OutputRefused):
            one.set("pump", "on", 60, "owner")
    assert pin(home) == 1
    one.close()
    ended(home)


def test_a_required_sensor_that_hangs_ends_it(bench):
    one = bench(NEEDY)
    stuck, _ = os.pipe()
    answers = iter([Reading("greenhouse", "temperature", 20.0, "")])
    one.worker.handler._samples._measure = lambda *_: next(answers, None) or os.read(stuck, 1)
    one.ask(do="list")
    one.connection.sendall(
        json.dumps({"who": "owner", "name": "pump", "do": "set", "level": "on", "seconds": 60}).encode() + b"\n"
    )
    end = time.monotonic() + 2
    while time.monotonic() < end and pin(one.home) != 1:
        one.worker.turn(0.05)
    assert pin(one.home) == 1
    while time.monotonic() < end and pin(one.home) != 0:
        one.worker.turn(0.05)
    assert pin(one.home) == 0
    one.worker.handler.flush()
    assert "s old, it has to be younger than 1 s" in str(acts(one.home, "why")[-1])


def test_measuring_by_name(tmp_path):
    measure = make_measure_function(SimBoard(), tmp_path)
    assert measure("greenhouse", "temperature").value is not None
    assert measure("cpu", "temperature").value is not None
    assert "there is no sensor 'porch'" in measure("porch", "temperature").problem
    (tmp_path / "config.toml").write_text("nonsense")
    assert "is not valid TOML" in measure("greenhouse", "temperature").problem


def test_samples_are_asked_for_once_at_a_time(tmp_path):
    waiting, go = os.pipe()
    seen, wake = os.pipe()

    def slow(sensor, quantity):
        os.read(waiting, 1)
        return Reading(sensor, quantity, 20.0, "")

    sampler = RequiredSensorSampler(slow, wake)
    needs = type("Needs", (), {"sensor": "porch", "quantity": "temperature"})
    for _ in range(5):
        sampler.want(needs)
    assert sampler.latest(needs) is None
    os.write(go, b"1")
    os.read(seen, 1)
    assert sampler.latest(needs).value == 20.0
    assert sampler._wishes.empty()


@pytest.mark.sweep
def test_kills():
    """A part of what `python tests/bench/kills.py --runs 1000` does."""
    runs = sweep.take(12, 30)
    done = subprocess.run(
        [sys.executable, ROOT / "tests/bench/kills.py", "--runs", str(runs), "--seed", "1000"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "left on: 0" in done.stdout
    assert int(re.search(r"in (\d+) the pump was on", done.stdout)[1]) >= runs // 6, "it hit something"


SLOW_DISK = """
import os, sys, time
slow, sync = sys.argv.pop(1), os.fsync

def fsync(file):
    time.sleep(float(open(slow).read() or 0) if os.path.exists(slow) else 0)
    while os.path.exists(slow + ".stall"):
        time.sleep(0.01)
    sync(file)

os.fsync = fsync
from picoclaw.outputs.supervisor.__main__ import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def slow(home, tmp_path):
    """A supervisor on a disk that is as slow as the file says, and takes nothing while there is one named .stall."""
    path = tmp_path / "slow"
    words = [sys.executable, "-c", SLOW_DISK, str(path), str(home), "sim"]
    subprocess.run(words, stdout=subprocess.PIPE, check=True, timeout=20)
    yield path
    path.with_suffix(".stall").unlink(missing_ok=True)


class Stall:
    """The disk takes nothing for so long."""

    def __init__(self, path, home):
        self.file, self.home = path.with_suffix(".stall"), home

    def __enter__(self):
        self.file.touch()
        return self

    def __exit__(self, *_):
        self.file.unlink()


def begun(action):
    """Do something in a thread; returns it, and the list that the answer comes into."""
    said = []

    def run():
        try:
            said.append(action())
        except PicoclawError as error:
            said.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    return thread, said


@pytest.mark.alone
def test_a_lease_is_counted_from_when_it_is_driven(home, slow):
    slow.write_text("0.3")
    one = client(home)
    assert one.set("pump", "on", 0.5, "owner") == "pump is on for 0.5 s"
    on = (home / "sim/line17").stat().st_mtime
    until(lambda: pin(home) == 0)
    assert 0.45 < (home / "sim/line17").stat().st_mtime - on < 0.7


@pytest.mark.alone
def test_a_disk_that_takes_nothing_delays_no_end_of_a_lease(home, slow):
    one, other = client(home), client(home)
    one.set("lamp", "on", 60, "owner")
    one.set("pump", "on", 0.6, "owner")
    began = time.monotonic()
    with Stall(slow, home):
        with pytest.raises(OutputRefused, match="longest_on"):
            other.set("pump", "on", 9999, "owner")
        assert time.monotonic() - began < 0.5, "a refusal waits for nothing"
        until(lambda: pin(home) == 0, 2)
        assert 0.5 < time.monotonic() - began < 1.1
        assert pin(home, 27) == 1, "nobody was killed for it"
    one.off("lamp", "owner")
    until(lambda: ("safe", "its time is over") in acts(home, "why"))


@pytest.mark.alone
@pytest.mark.parametrize(
    ("end", "said"),
    [
        (lambda home, one: stop_outputs(home, lambda: "sim", "owner"), "stop"),
        (lambda home, one: client(home).off("pump", "owner"), "pump stays at its safe level; meanwhile: off"),
        (lambda home, one: one.off("pump", "owner"), "pump stays at its safe level; meanwhile: off"),
        (lambda home, one: (home / "outputs.toml").write_text(PUMP), "meanwhile: outputs.toml was changed"),
    ],
    ids=["stop", "off of another", "off of the same", "other declarations"],
)
def test_what_waits_for_the_disk_is_not_switched_on_when_it_is_ended_meanwhile(home, slow, end, said):
    one = client(home)
    one.list()
    with Stall(slow, home):
        thread, answers = begun(lambda: one.set("pump", "on", 60, "owner"))
        thread.join(0.3)
        assert (answers, pin(home)) == ([], 0), "it is written down first"
        began = time.monotonic()
        end(home, one)
        assert time.monotonic() - began < 0.3
        client(home).list()
    thread.join(5)
    assert said in answers[0]
    assert pin(home) == 0
    until(lambda: "cancelled" in [act for (act,) in acts(home)])
    assert [period.ended for period in audit.replay(home).get("pump", ())] == []


def test_what_a_client_that_has_gone_asked_for_is_not_done_when_the_disk_is_back(home, slow):
    one = client(home)
    one.list()
    with Stall(slow, home):
        asks = raw(home)
        asks.sendall(
            json.dumps({"do": "set", "name": "pump", "level": "on", "seconds": 60, "who": "owner"}).encode() + b"\n"
        )
        time.sleep(0.2)
        asks.close()
        time.sleep(0.1)
    until(lambda: "cancelled" in [act for (act,) in acts(home)])
    assert one.list()["outputs"][0]["level"] == 0
    assert pin(home) == 0


def test_nobody_elses_socket(home):
    """Outputs of another user's supervisor are not ours; the mode of the files says so."""
    one = OutputsClient(home, lambda: "sim")
    one.list()
    assert (home / supervisor.SOCKET_FILE).stat().st_mode & 0o777 == 0o600
    assert (home / supervisor.LOCK_FILE).stat().st_mode & 0o777 == 0o600
    one.close()
