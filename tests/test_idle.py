"""What a chat does between turns makes way for its person at once, also while a model is silent."""

import time
from contextlib import closing, contextmanager

import pytest
from model_server import ModelServer, reply, silence

from picoclaw.app import App
from picoclaw.config import Config
from picoclaw.config.tables import MemoryConfig, ModelConfig
from picoclaw.daemon.background import IdleThread
from picoclaw.hw.sim.board import SimBoard
from picoclaw.messages import Inbound
from picoclaw.store.database import Marks


@contextmanager
def idle_at(home, server):
    """A chat whose model is asked for a review of the tasks."""
    (home / "workspace/memory").mkdir(parents=True)
    model = ModelConfig(base_url=server.url, name="m", retries=0)
    with closing(App(Config(home, model, memory=MemoryConfig(dream_hour=-1)), SimBoard())) as app:
        app.stores.pulse.add("order filters", 5, "terminal", app.now())
        idle = IdleThread(app, lambda _: None)
        idle.start()
        try:
            _wait_for(lambda: server.requests)
            yield app, idle
        finally:
            idle.stop()


def _wait_for(happening, seconds=5.0):
    until = time.monotonic() + seconds
    while not happening():
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.mark.parametrize("ends", ["a turn", "the chat"])
def test_a_review_that_a_server_is_silent_about_is_put_down_at_once(tmp_path, ends):
    with ModelServer([silence(), reply("Good morning.")]) as server, idle_at(tmp_path, server) as (app, idle):
        begun = time.monotonic()
        if ends == "a turn":
            with idle.turn():
                assert app.dispatcher.answer(Inbound("terminal", "hello")).reply == "Good morning."
        else:
            idle.stop()
            assert not idle._thread.is_alive()
        assert time.monotonic() - begun < 1.5
        assert server.hung_up.wait(1)
        _wait_for(lambda: Marks(app.stores.database).get("review.at") == "", 1)  # it was not reviewed
