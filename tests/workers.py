"""`--workers N`: processes that are forked once all tests are collected run the tests.

Those marked `long` begin, and those marked `alone` run after all others, by themselves.

Workers that collect for themselves cost 16 s of a processor each, and two processes a message for each of three reports.
"""

import os
import sys
import time
import traceback
from multiprocessing import connection, get_context

import pytest
from _pytest.reports import TestReport


def pytest_addoption(parser):
    parser.addoption("--workers", type=int, default=0, help="run the tests in as many processes")


class Queue:
    """Which tests each worker has before it; who has none takes half of what another has."""

    def __init__(self, count, workers):
        ends = [count * number // workers for number in range(workers + 1)]
        self._places = get_context("fork").Array("i", [*ends[:-1], *ends[1:]])
        self.running = get_context("fork").RawArray("i", [-1] * workers)
        self._workers = workers

    def take(self, worker):
        """The number of the next test, or None."""
        workers, places = self._workers, self._places
        with places.get_lock():
            if places[worker] == places[workers + worker]:
                left, longest = max((places[workers + one] - places[one], one) for one in range(workers))
                if not left:
                    return None
                places[workers + worker] = places[workers + longest]
                places[worker] = places[workers + longest] = places[workers + longest] - (left + 1) // 2
            places[worker] += 1
            return places[worker] - 1

    def clear(self):
        with self._places.get_lock():
            self._places[:] = [0] * len(self._places)


class Sender:
    """What takes the terminal's place in a worker."""

    def __init__(self, config, pipe):
        self._config, self._pipe = config, pipe

    def pytest_runtest_logreport(self, report):
        self._pipe.send(self._config.hook.pytest_report_to_serializable(config=self._config, report=report))


def _work(session, items, queue, number, pipe):
    """Run what the queue gives, in a process of its own."""
    config, capture = session.config, session.config.pluginmanager.getplugin("capturemanager")
    os.environ["PYTEST_WORKER"] = str(number)
    config.pluginmanager.unregister(name="terminalreporter")
    config.pluginmanager.register(Sender(config, pipe))
    config._tmp_path_factory._basetemp /= f"worker{number}"
    config._tmp_path_factory._basetemp.mkdir(mode=0o700)
    capture.start_global_capturing()
    place = queue.take(number)
    while place is not None:
        after = queue.take(number)  # nobody else can have it: what it shares with this one is kept
        queue.running[number] = place
        item, nextitem = items[place], None if after is None else items[after]
        config.hook.pytest_runtest_protocol(item=item, nextitem=nextitem)
        place = after
    queue.running[number] = -1


def _run_forked(session, items, workers):
    config, capture = session.config, session.config.pluginmanager.getplugin("capturemanager")
    queue, pipes, processes = Queue(len(items), workers), {}, []
    config._tmp_path_factory.getbasetemp()
    capture.stop_global_capturing()
    sys.stdout.flush()
    try:
        for number in range(workers):
            reader, writer = connection.Pipe(duplex=False)
            if not (process := os.fork()):
                try:
                    _work(session, items, queue, number, writer)
                except KeyboardInterrupt:
                    os._exit(2)
                except BaseException:  # noqa: BLE001
                    traceback.print_exc(file=sys.__stderr__)
                    os._exit(1)
                os._exit(0)
            writer.close()
            processes.append(process)
            pipes[reader] = number
        while pipes:
            for reader in connection.wait(list(pipes)):
                try:
                    message = reader.recv()
                except EOFError:
                    number = pipes.pop(reader)
                    if (place := queue.running[number]) >= 0:
                        _report_end(config, items[place])
                    continue
                report = config.hook.pytest_report_from_serializable(config=config, data=message)
                config.hook.pytest_runtest_logreport(report=report)
            if session.shouldfail or session.shouldstop:
                queue.clear()
        codes = [os.waitstatus_to_exitcode(os.waitpid(processes.pop(0), 0)[1]) for _ in range(workers)]
        if any(codes) and not session.shouldfail:
            session.shouldfail = f"workers ended with {codes}"
    finally:
        for process in processes:
            os.kill(process, 15)
        capture.start_global_capturing()


def _report_end(config, item):
    """A failure of the test at which a worker ended."""
    report = TestReport(
        nodeid=item.nodeid, location=item.location, keywords={}, outcome="failed", longrepr="its process ended",
        when="call", start=time.time(), stop=time.time(),
    )  # fmt: skip
    config.hook.pytest_runtest_logreport(report=report)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session):
    workers = session.config.option.workers
    if not workers or session.config.option.collectonly or session.testsfailed:
        return None
    alone = [item for item in session.items if item.get_closest_marker("alone")]
    others = [item for item in session.items if not item.get_closest_marker("alone")]
    others.sort(key=lambda item: item.get_closest_marker("long") is None)
    if others:
        _run_forked(session, others, min(workers, len(others)))
    for item, nextitem in zip(alone, [*alone[1:], None], strict=False):
        _check_stop(session)
        session.config.hook.pytest_runtest_protocol(item=item, nextitem=nextitem)
    _check_stop(session)
    return True


def _check_stop(session):
    if session.shouldfail:
        raise session.Failed(session.shouldfail)
    if session.shouldstop:
        raise session.Interrupted(session.shouldstop)
