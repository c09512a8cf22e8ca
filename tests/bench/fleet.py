"""Boards at one mosquitto: real connections and real messages of a fleet, simulated sensors.

    python tests/bench/fleet.py [BOARDS] [SECONDS]

Each board is paired with ten others, publishes a value every 10 s, and 20 questions a second are asked. Then the broker is
killed and started again. BOARDS are a thousand, in processes of 200 each, because paho waits with select(2).
"""

import json
import multiprocessing as mp
import random
import resource
import shutil
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

from mqtt_broker import Broker  # noqa: E402
from nacl.signing import SigningKey  # noqa: E402

from picoclaw.config.tables import MqttConfig  # noqa: E402
from picoclaw.fleet import Fleet, FleetKeys  # noqa: E402
from picoclaw.mqtt.connection import MqttConnection  # noqa: E402

PER_PROCESS, FRIENDS, VALUE_S, QUESTIONS_A_SECOND = 200, 10, 10.0, 20


def say_nothing(*_, **__):
    """The log is not looked at."""


class Board:
    def __init__(self, home, name, port):
        config = MqttConfig(host="127.0.0.1", port=port, name=name)
        self.link = MqttConnection(config, "", self.hear, say_nothing, self.list_topics, connected=self.greet)
        self.fleet = Fleet(FleetKeys(home), config, self.link, self, say_nothing)
        self.topic = f"{config.base}/sensor/porch/temperature"
        self.link.start()

    def hear(self, heard):
        self.fleet.hear(heard)

    def list_topics(self):
        return self.fleet.topics

    def greet(self):
        self.fleet.say_presence()

    def describe_board(self):
        return {"version": "bench", "sensors": ["porch: temperature"], "outputs": ["pump"], "health": []}

    def stop_outputs(self, who):
        return "stopped"

    def read_for(self, who, sensor):
        return "porch: temperature 21.4 °C (simulated, read just now)"

    def put(self, task):
        task()
        return True


def resident_mb(pid="self"):
    rows = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(row.split()[1]) for row in rows if row.startswith("VmRSS")) / 1024


def live(homes, port, share, pipe):
    before = resident_mb()
    boards = [Board(home, home.name, port) for home in homes]
    asks, ended, times, lost = threading.Event(), threading.Event(), [], [0]

    def publish():
        while not ended.is_set():
            for board in boards:
                board.link.publish(board.topic, '{"value": 21.4}')
                ended.wait(VALUE_S / len(boards))

    def ask_one():
        board = random.choice(boards)
        peer = random.choice(list(board.fleet._keys.peers.values()))
        (one,) = board.fleet.ask([peer], "read", "porch", 5.0)
        if one.good:
            times.append(one.seconds)
        else:
            lost[0] += 1

    def ask():
        while not ended.is_set():
            asks.wait()
            threading.Thread(target=ask_one, daemon=True).start()
            ended.wait(random.expovariate(QUESTIONS_A_SECOND * share))

    for work in (publish, ask):
        threading.Thread(target=work, daemon=True).start()
    while (word := pipe.recv()) != "end":
        if word == "up":
            pipe.send(sum(board.link.status().up for board in boards))
        elif word == "known":
            pipe.send(sum(len(board.fleet._presences) for board in boards))
        elif word == "ask":
            times.clear()
            lost[0] = 0
            asks.set()
        elif word == "told":
            asks.clear()
            time.sleep(1)
            pipe.send((list(times), lost[0], (resident_mb() - before) / len(boards), time.process_time()))
    ended.set()


def make_homes(folder, count):
    seeds = [bytes(SigningKey.generate()) for _ in range(count)]
    keys = [bytes(SigningKey(seed).verify_key).hex() for seed in seeds]
    steps = [step for each in range(1, FRIENDS // 2 + 1) for step in (each * 37, -each * 37)]  # both know each other
    for at, seed in enumerate(seeds):
        friends = {(at + step) % count for step in steps} - {at}
        boards = [{"name": f"b{other}", "key": keys[other]} for other in friends]
        home = folder / f"b{at}"
        home.mkdir()
        (home / "fleet.json").write_text(json.dumps({"key": seed.hex(), "starts": 0, "boards": boards}))
        yield home


def wait_for(pipes, word, wanted, seconds):
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        for pipe in pipes:
            pipe.send(word)
        if (found := sum(pipe.recv() for pipe in pipes)) >= wanted:
            return time.monotonic() - began
        time.sleep(0.2)
    return f"only {found} of {wanted} after {seconds}"


def ask_for(pipes, seconds):
    for pipe in pipes:
        pipe.send("ask")
    time.sleep(seconds)
    for pipe in pipes:
        pipe.send("told")
    told = [pipe.recv() for pipe in pipes]
    times = sorted(one for each in told for one in each[0])
    cuts = statistics.quantiles(times, n=100)
    print(
        f"questions: {len(times)} answered, {sum(each[1] for each in told)} not; "
        f"p50 {cuts[49] * 1000:.1f} ms, p99 {cuts[98] * 1000:.1f} ms, longest {times[-1] * 1000:.0f} ms"
    )
    print(f"memory of a board's connection and fleet: {statistics.mean(each[2] for each in told):.2f} MB")


def show_broker(broker):
    ticks = Path(f"/proc/{broker.process.pid}/stat").read_text().split()
    print(f"broker: {resident_mb(broker.process.pid):.1f} MB, {(int(ticks[13]) + int(ticks[14])) / 100:.1f} s of CPU")


def main(count, seconds):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65_536), hard))
    folder = Path(tempfile.mkdtemp(dir="/dev/shm"))
    broker, pipes = Broker(folder / "broker").start(), []
    try:
        homes = list(make_homes(folder, count))
        groups = [homes[at : at + PER_PROCESS] for at in range(0, count, PER_PROCESS)]
        for group in groups:
            own, theirs = mp.Pipe()
            mp.Process(target=live, args=(group, broker.port, len(group) / count, theirs), daemon=True).start()
            pipes.append(own)
        print(f"{count} boards, {FRIENDS} others known to each")
        print("all connected after s:", wait_for(pipes, "up", count, 120))
        print("all presences known after s:", wait_for(pipes, "known", count * min(FRIENDS, count - 1), 60))
        ask_for(pipes, seconds)
        show_broker(broker)
        broker.stop(hard=True)
        time.sleep(3)
        broker.start()
        print("after a kill and 3 s: all connected after s:", wait_for(pipes, "up", count, 180))
        ask_for(pipes, min(seconds, 15))
        show_broker(broker)
        for pipe in pipes:
            pipe.send("end")
    finally:
        broker.stop()
        shutil.rmtree(folder)


if __name__ == "__main__":
    main(*(int(word) for word in [*sys.argv[1:], *["1000", "30"][len(sys.argv) - 1 :]]))
