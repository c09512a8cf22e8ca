"""The accounts: entered before a request and corrected after it, caps in their order, and what a person is told."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import apsw
import pytest
from model_server import ModelServer, call, refusal, reply, status
from rows import each_row
from scripted import Clock, Scripted, says
from test_heartbeat import World

from picoclaw.agent.subagents import run_task
from picoclaw.app import App
from picoclaw.automation.checklist import SampleHistory, check_items, parse_checklist
from picoclaw.automation.heartbeat import Situation, decide_heartbeat
from picoclaw.cli import run as cli
from picoclaw.config import Config, load_config
from picoclaw.config.tables import (
    AgentConfig,
    CostsConfig,
    MemoryConfig,
    ModelConfig,
    PersonConfig,
    Price,
    SessionsConfig,
)
from picoclaw.daemon.background import build_heartbeat, make_clock_watch, read_heartbeat_time, run_job
from picoclaw.daemon.status import DaemonStatus, ModelHealth, collect_offline_status
from picoclaw.daemon.status_text import format_status
from picoclaw.errors import ConfigError, ContextOverflow, OverBudget, Refused, StoreError, TurnStopped, Unavailable
from picoclaw.hw.sim import SimBoard
from picoclaw.memory import notes
from picoclaw.messages import DEFAULT_SESSION, End, Inbound, Message, Purpose, Request, Stop, Text, ToolCall, Usage
from picoclaw.prompts import count_request_bytes, estimate_tokens
from picoclaw.providers import spending
from picoclaw.providers.spending import DailyUse, UsageLedger
from picoclaw.records import replace
from picoclaw.schedules import Plan
from picoclaw.store.database import LAST_CHAT_MARK, Database, Marks
from picoclaw.store.inbox_outbox import Outbox
from picoclaw.store.jobs import Job
from picoclaw.store.ledger import (
    CAP_LEVEL_MARK,
    RETENTION_DAYS,
    Ledger,
    LedgerKey,
    LedgerTotals,
    add_usage,
    get_day_spending,
)
from picoclaw.store.subagent_tasks import Task, TaskUsage
from picoclaw.stores import Stores
from picoclaw.workspace import prepare_home

NOON = datetime(2026, 7, 1, 12, 0, tzinfo=ZoneInfo("Europe/Berlin"))
TODAY = "2026-07-01"
CHAT = Purpose("chat", "telegram:7")
PRICES = {"big": [2.0, 8.0], "small": [0.5, 1.0], "openai:local": [0, 0]}
COSTS = CostsConfig(day_tokens=1000)
PRICED = CostsConfig(day_money=1.0, currency="EUR", prices=PRICES)


# --- caps: pure tables ---


@each_row(
    ("cause", "stops_at"),
    [
        ("heartbeat", 80),
        ("dream", 80),
        ("review", 80),
        ("cron 3", 90),
        ("rule frost", 90),
        ("subagent", 90),
        ("chat", 100),
        ("summary", 100),
        ("summon", 100),
    ],
)
def test_what_nobody_waits_for_stops_first(cause, stops_at):
    refused = [
        percent
        for percent in (79, 80, 89, 90, 99, 100, 130)
        if spending.explain_cap(DailyUse(percent * 10), COSTS, cause)
    ]
    assert refused == [percent for percent in (79, 80, 89, 90, 99, 100, 130) if percent >= stops_at]
    assert not spending.explain_cap(DailyUse(10**9, 10**9), CostsConfig(prices=PRICES), cause)


@each_row(
    ("used", "costs", "said"),
    [
        (DailyUse(12_000), CostsConfig(), "12,000 tokens"),
        (DailyUse(12_000), CostsConfig(day_tokens=50_000), "12,000 of 50,000 tokens (24 %)"),
        (DailyUse(49_999), CostsConfig(day_tokens=50_000), "49,999 of 50,000 tokens (99 %)"),
        (DailyUse(10, 0.126), CostsConfig(prices=PRICES, currency="EUR"), "10 tokens, 0.13 EUR"),
        (DailyUse(10, 0.5), PRICED, "10 tokens, 0.50 of 1.00 EUR (50 %)"),
        (DailyUse(10, 0.5), CostsConfig(day_money=0.4, prices=PRICES), "10 tokens, 0.50 of 0.40 in money (125 %)"),
    ],
)
def test_how_far_the_caps_are_used_is_said(used, costs, said):
    assert spending.format_use(used, costs) == said


@each_row(
    ("model", "price", "known"),
    [
        ("big", Price(2, 8), True),
        ("openai:big", Price(2, 8), True),
        ("anthropic:small", Price(0.5, 1), True),
        ("openai:local", Price(0, 0), True),
        ("anthropic:local", Price(2, 8), False),  # a cap on money that counted nothing would be none
        ("openai:unheard", Price(2, 8), False),
    ],
)
def test_the_price_of_a_model(model, price, known):
    prices = PRICED.by_model
    assert (spending.get_price(prices, model), spending.is_priced(prices, model)) == (price, known)
    assert spending.get_price({}, model) == Price(0, 0)
    assert not spending.is_free({}, model)


def test_the_nearer_cap_counts_and_a_model_that_is_free_counts_for_none():
    costs = CostsConfig(day_tokens=1000, day_money=1.0, prices=PRICES)
    rows = {
        LedgerKey(TODAY, "openai:local", "chat", "terminal"): LedgerTotals(1, 10_000, 500, 0, 0.0),
        LedgerKey(TODAY, "openai:big", "chat", "terminal"): LedgerTotals(1, 90, 10, 0, 0.95),
    }
    used = spending.count_use(rows, costs.by_model)
    assert (used, used.percent(costs)) == (DailyUse(100, 0.95), 95)


@each_row(
    ("now", "left"),
    [
        (NOON, 12 * 3600),
        (NOON.replace(hour=23, minute=59, second=59), 1),
        (datetime(2026, 10, 25, 1, 0, tzinfo=ZoneInfo("Europe/Berlin")), 24 * 3600),  # 25 hours long
        (datetime(2026, 3, 29, 0, 0, tzinfo=ZoneInfo("Europe/Berlin")), 23 * 3600),
    ],
    ids=["noon", "the last second", "the long day", "the short day"],
)
def test_a_day_ends_by_the_owners_calendar(now, left):
    assert spending.get_seconds_left(now) == left


@pytest.mark.parametrize(
    ("written", "wrong"),
    [
        ('[costs.prices]\n"gpt" = 3', '[costs.prices]: "gpt" must be [in, out]'),
        ('[costs.prices]\n"gpt" = [1]', '"gpt" must be [in, out]'),
        ('[costs.prices]\n"gpt" = [1, -2]', '"gpt" must be [in, out]'),
        ('[costs.prices]\n"gpt" = [1, "2"]', '"gpt" must be [in, out]'),
        ('[costs.prices]\n"gpt" = [true, false]', '"gpt" must be [in, out]'),
        ('[costs.prices]\n"gpt" = [nan, 1]', '"gpt" must be [in, out]'),
        ("[costs]\nday_money = 2", "[costs]: day_money takes prices"),
        ("[costs]\nday_tokens = -1", "day_tokens"),
        ("[costs]\ntokens = 5", "tokens"),
    ],
)
def test_settings_that_cannot_be_meant(tmp_path, written, wrong):
    (tmp_path / "config.toml").write_text(written)
    with pytest.raises(ConfigError) as error:
        load_config({"PICOCLAW_HOME": str(tmp_path)})
    assert wrong in str(error.value)


def test_settings_that_are_meant(tmp_path):
    text = '[costs]\nday_tokens = 50000\nday_money = 1\ncurrency = "EUR"\n[costs.prices]\n"gpt" = [0.15, 1]\n'
    (tmp_path / "config.toml").write_text(text)
    costs = load_config({"PICOCLAW_HOME": str(tmp_path)}).costs
    assert (costs.day_tokens, costs.day_money, costs.by_model) == (50_000, 1.0, {"gpt": Price(0.15, 1.0)})


# --- the book, on a real database ---


class Books:
    """A home's accounts, with a second connection that sees what another process would."""

    def __init__(self, home, costs=COSTS):
        self.path, self.now, self.rang, self.costs = home / "state.db", NOON, 0, costs
        self.database = Database(self.path)
        self.book = self.opened()

    def opened(self, clock=time.monotonic):
        """Another part of a process, with a ledger of its own."""
        return UsageLedger(Ledger(lambda: self.database), self.costs, lambda: self.now, self.ring, clock)

    def ring(self):
        self.rang += 1

    def seen(self):
        with closing(apsw.Connection(str(self.path))) as other:
            columns = "day, model, cause, channel, requests, prompt_tokens, completion_tokens, estimated, money"
            return other.execute(f"SELECT {columns} FROM ledger").fetchall()

    def take(self, tokens, purpose=CHAT, model="openai:big"):
        """A request that takes so many tokens, and is corrected at once."""
        self.book.end(self.book.begin(purpose, model, tokens, 0), tokens, 0, known=True)
        self.book.settle()

    def letters(self):
        return [(letter.session, letter.text) for letter in Outbox(self.database).waiting()]


@pytest.fixture
def books(tmp_path):
    made = Books(tmp_path)
    yield made
    made.database.close()


def test_a_request_is_entered_before_it_is_made_and_corrected_with_what_is_kept_next(books):
    line = books.book.begin(CHAT, "openai:big", 600, 100)
    assert books.seen() == [(TODAY, "openai:big", "chat", "telegram", 1, 600, 100, 700, 0.0)]
    books.book.end(line, 500, 20, known=True)
    assert books.seen()[0][4:8] == (1, 600, 100, 700)  # not yet: that would be a second transaction
    assert books.book.today() == DailyUse(520)  # but known here
    with books.book.along(books.database.transaction()):
        pass
    assert books.seen() == [(TODAY, "openai:big", "chat", "telegram", 1, 500, 20, 0, 0.0)]
    assert not books.book.accounts.unwritten


def test_the_next_request_keeps_the_correction_of_the_one_before(books):
    books.book.end(books.book.begin(CHAT, "openai:big", 100, 50), 90, 5, known=True)
    books.book.begin(CHAT, "openai:big", 100, 50)
    assert books.seen()[0][4:8] == (2, 190, 55, 150)


def test_a_correction_that_is_lost_to_a_cut_leaves_the_estimate_which_says_so(books):
    books.book.end(books.book.begin(CHAT, "openai:big", 100, 50), 90, 5, known=True)
    books.book = books.opened()  # the process is gone, and what it had in mind
    assert books.book.today() == DailyUse(150)
    assert list(spending.format_today(books.book.accounts.rows(TODAY, TODAY), COSTS)) == [
        "today 150 of 1,000 tokens (15 %): chat 150",
        "150 of these tokens were counted by no server, and are estimated",
    ]


def test_money_is_counted_at_the_price_of_the_moment(tmp_path):
    books = Books(tmp_path, PRICED)
    books.take(100_000)
    books.book.end(books.book.begin(CHAT, "openai:small", 0, 0), 100_000, 100_000, known=True)
    books.costs = CostsConfig(day_money=1.0, prices={"big": [1000, 1000]})
    books.book.settle()
    assert [row[8] for row in books.seen()] == [pytest.approx(0.2), pytest.approx(0.15)]
    assert books.opened().today().money == pytest.approx(0.35)


def test_the_owner_is_warned_once_a_day_in_the_chat_they_use(books):
    Marks(books.database).set(LAST_CHAT_MARK, "telegram:7")
    books.take(799)
    assert (books.letters(), books.rang) == ([], 0)
    books.take(1)
    ((session, text),) = books.letters()
    assert session == "telegram:7"
    assert text.startswith(
        "The model has used 800 of 1,000 tokens (80 %) today. Heartbeats are paused until tomorrow; "
    )
    for _ in range(3):
        books.take(60)
        books.book = books.opened()
    assert Marks(books.database).get(CAP_LEVEL_MARK) == f"{TODAY} 90 90"
    assert (len(books.letters()), books.rang) == (1, 1)
    books.now += timedelta(days=1)
    books.take(950)
    assert (len(books.letters()), books.rang) == (2, 2)


def test_a_cap_that_was_raised_is_reached_no_more_and_the_owner_is_warned_once_for_all_that(books):
    books.take(950)
    books.book.settle()
    assert get_day_spending(books.database, TODAY).reached == 90
    books.costs = CostsConfig(day_tokens=5000)
    books.book = books.opened()
    books.take(1)
    assert get_day_spending(books.database, TODAY).reached == 0
    books.take(3500)
    books.book.settle()
    assert (get_day_spending(books.database, TODAY).reached, len(books.letters())) == (80, 1)


def test_above_a_cap_nothing_is_asked_and_nothing_entered(books):
    books.take(850)
    before = books.seen()
    with pytest.raises(OverBudget) as refused:
        books.book.begin(Purpose("heartbeat"), "openai:big", 10, 10)
    assert str(refused.value) == (
        "850 of 1,000 tokens (85 %) of the day are used, so no model is asked for a heartbeat before tomorrow ([costs])"
    )
    assert (books.seen(), refused.value.retry_after) == (before, 12 * 3600)
    books.take(100, Purpose("cron 3"))
    assert books.book.explain_cap("cron 3")
    books.take(60)  # the one that crosses it is answered
    with pytest.raises(OverBudget):
        books.book.begin(CHAT, "openai:big", 10, 10)
    books.now += timedelta(hours=12)
    books.take(10, Purpose("heartbeat"))
    assert not books.book.explain_cap("heartbeat")


def test_a_model_that_costs_nothing_is_asked_above_every_cap(tmp_path):
    books = Books(tmp_path, CostsConfig(day_tokens=100, prices=PRICES))
    books.take(100)
    for _ in range(2):
        books.take(5000, model="openai:local")
    assert books.book.today() == DailyUse(100, pytest.approx(0.0002))
    with pytest.raises(OverBudget):
        books.book.begin(CHAT, "openai:big", 1, 1)


def test_what_others_are_about_to_take_counts_already(books):
    other = books.opened()
    other.begin(CHAT, "openai:big", 900, 100)
    with pytest.raises(OverBudget):
        books.book.begin(CHAT, "openai:big", 1, 1)


class FullDisk(Database):
    """A database that takes nothing for a while."""

    full = False

    def transaction(self, **_):
        if self.full:
            raise StoreError("the disk is full")
        return super().transaction()


def test_a_full_disk_stops_no_answer_and_what_was_taken_meanwhile_is_written_later(tmp_path):
    books = Books(tmp_path)
    books.database.close()
    books.database = FullDisk(books.path)
    books.take(300)
    books.database.full = True
    books.take(300)
    books.take(350)
    assert books.seen()[0][5] == 300
    assert books.book.today() == DailyUse(950)
    assert books.book.explain_cap("cron 1")
    books.database.full = False
    books.take(10)
    assert books.seen()[0][4:8] == (4, 960, 0, 0)


def test_a_full_disk_is_no_way_round_a_cap(tmp_path):
    books = Books(tmp_path)
    books.database.close()
    books.database = FullDisk(books.path)
    books.take(10)
    books.database.full = True
    books.take(600)
    books.take(600)
    with pytest.raises(OverBudget):
        books.book.begin(CHAT, "openai:big", 1, 1)


def test_the_sums_of_days_long_ago_go_but_a_date_that_was_wrong_takes_none_along(books):
    days = [(NOON - timedelta(days=n)).date().isoformat() for n in range(RETENTION_DAYS + 3)]
    with books.database.transaction() as connection:
        for day in [*days[:RETENTION_DAYS], *days[RETENTION_DAYS + 1 :]]:
            add_usage(connection, LedgerKey(day, "openai:big", "chat", "terminal"), LedgerTotals(1, 10, 1))
        add_usage(connection, LedgerKey("2099-01-01", "openai:big", "chat", "terminal"), LedgerTotals(1, 10, 1))
    books.book.accounts.prune()
    kept = sorted({row[0] for row in books.seen()})
    assert (len(kept), kept[-1], kept[-2]) == (RETENTION_DAYS, "2099-01-01", TODAY)


# --- the meter around a server ---


class Metered:
    def __init__(self, model, book):
        self.model, self.book = model, book

    def events(self, request):
        name = f"openai:{request.model}" if request.model else self.model.name
        with self.book.record(request, name) as answer:
            for event in self.model.events(request):
                answer.count(event)
                yield event


ASKED = Request("Be brief.", (Message("user", "x" * 4000),), (), 100, 0.0)
SENT = estimate_tokens(count_request_bytes(ASKED.system, ASKED.messages, ()))


def ask(provider, **more):
    """What came, up to an error or a hang-up."""
    return list(provider.events(ASKED._replace(**more)))


LONG = says("y" * 400, usage=Usage(0, 0))[:-1]
COUNTED = Usage(1100, 90, ((4000, 1100),))
ENDS = {
    "counted by the server": ([*LONG, End("stop", COUNTED)], 1, (1100, 90), 0),
    "not counted": ([*LONG, End("stop", Usage(SENT))], 1, (SENT, 100), SENT + 100),
    "a call, not counted": ([ToolCall("1", "exec", {"a": "z" * 388}), End("stop", Usage())], 1, (SENT, 100), SENT + 100),
    "broken off": ([LONG[0], Unavailable("it broke off")], 1, (SENT, 50), SENT + 50),
    "refused": ([Refused("no such model")], 1, (0, 0), 0),
    "too long": ([ContextOverflow("too long")], 1, (0, 0), 0),
    "not there": ([Unavailable("refused the connection")], 1, (0, 0), 0),
    "silent": ([Unavailable("stayed silent for 120 s")], 120, (SENT, 0), SENT),
    "stopped by a person": ([LONG[0], TurnStopped()], 1, (SENT, 50), SENT + 50),
}  # fmt: skip


@pytest.mark.parametrize(("script", "seconds", "took", "estimated"), ENDS.values(), ids=ENDS)
def test_what_is_entered_for_how_a_request_ends(books, script, seconds, took, estimated):
    clock = Clock()
    model = Scripted([lambda: clock.turn(seconds), *script])
    model.name = "openai:big"
    books.book = books.opened(clock)
    meter = Metered(model, books.book)
    with suppress(Unavailable, Refused, TurnStopped):
        ask(meter, purpose=CHAT)
    books.book.settle()
    ((*_, requests, prompt, completion, guessed, _),) = books.seen()
    assert (requests, (prompt, completion), guessed) == (int(any(took)), took, estimated)


def test_hanging_up_in_the_middle_leaves_an_estimate(books):
    model = Scripted(LONG)
    meter = Metered(model, books.book)
    events = meter.events(ASKED._replace(purpose=CHAT))
    assert isinstance(next(events), Text)
    events.close()
    books.book.settle()
    assert (model.hung_up, books.seen()[0][5:8]) == (1, (SENT, 50, SENT + 50))


def test_another_model_at_the_same_server_has_a_line_of_its_own(tmp_path):
    books = Books(tmp_path, CostsConfig())
    model = Scripted([End("stop", COUNTED)], [End("stop", COUNTED)])
    model.name = "openai:big"
    meter = Metered(model, books.book)
    for name in ("", "small"):
        ask(meter, model=name, purpose=Purpose("summary", "page"))
    assert [row[1:4] for row in books.seen()] == [
        ("openai:big", "summary", "page"),
        ("openai:small", "summary", "page"),
    ]
    assert sum(row[7] for row in books.seen()) == 0  # no turn is kept with it, so it is corrected at once


def test_above_a_cap_the_server_is_not_asked(books):
    model = Scripted()
    books.take(1000)
    with pytest.raises(OverBudget):
        ask(Metered(model, books.book), purpose=CHAT)
    assert model.requests == []


def test_a_server_of_vectors_is_in_the_accounts_as_well(books):
    with books.book.record_vectors(["a" * 400, "b" * 400], "nomic"):
        pass
    with pytest.raises(Unavailable), books.book.record_vectors(["c" * 400], "nomic"):
        raise Unavailable("not there")
    books.book.settle()
    assert books.seen() == [(TODAY, "vectors:nomic", "memory", "terminal", 1, 200, 0, 200, 0.0)]
    books.take(800)
    asked = []
    with pytest.raises(OverBudget), books.book.record_vectors(["d"], "nomic"):
        asked.append("d")
    assert asked == []


@pytest.mark.parametrize(
    ("error", "seconds", "left"),
    [(Unavailable("stayed silent"), 29, True), (Unavailable("refused"), 0, False), (Refused("no"), 29, False)],
    ids=["silent", "nobody there", "refused"],
)
def test_vectors_that_never_came_leave_an_estimate_only_where_the_server_has_the_request(books, error, seconds, left):
    clock = Clock()
    books.book = books.opened(clock)
    with suppress(type(error)), books.book.record_vectors(["a text of some length"], "nomic"):
        clock.now += seconds
        raise error
    books.book.settle()
    assert (books.book.today().tokens > 0) is left


@pytest.mark.parametrize("who", ["local", "server"])
def test_only_a_server_of_vectors_is_metered(tmp_path, who):
    with ModelServer(lambda _: status(200, {"data": [{"index": 0, "embedding": [1.0, 0.0]}]})) as server:
        memory = MemoryConfig(embeddings=who, embedding_url=server.url, embedding_model="nomic")
        with closing(Stores(Config(tmp_path, memory=memory))) as stores:
            embedder = stores._embedder()
            embedder.embed(["some words"])
            if who == "server":
                embedder.close()
            day = f"{stores.now():%Y-%m-%d}"
            assert bool(stores.accounts.rows(day, day)) == (who == "server")


# --- the house ---


class House:
    """A home with a model behind a real socket."""

    def __init__(self, home, server, **costs):
        prepare_home(home)
        (home / "workspace/BOOTSTRAP.md").unlink(missing_ok=True)
        model = ModelConfig(base_url=server.url, name="qwen", retries=0)
        sessions = SessionsConfig(summarise_messages=20)
        self.config = Config(home, model, costs=CostsConfig(**costs), sessions=sessions)
        self.server, self.path = server, home / "state.db"
        self.app = App(self.config, SimBoard())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.app.close()

    def say(self, text, origin="owner", session=DEFAULT_SESSION, **more):
        return self.app.dispatcher.answer(Inbound(session, text, origin, **more))

    def rows(self):
        with closing(apsw.Connection(str(self.path))) as other:
            sql = "SELECT cause, channel, requests, prompt_tokens + completion_tokens, estimated FROM ledger"
            return {tuple(row[:2]): tuple(row[2:]) for row in other.execute(sql)}

    def used(self, tokens):
        """Have the day begin with so many tokens."""
        day = self.app.now().date().isoformat()
        self.app.stores.accounts.note(LedgerKey(day, "openai:qwen", "chat", "terminal"), LedgerTotals(1, tokens))


def test_a_turn_costs_one_transaction_more_for_each_request(tmp_path):
    answers = [reply("", call("board_status")), reply("", call("sensor_list")), reply("all is well")]
    with ModelServer(answers) as server, House(tmp_path / "home", server) as house:
        commits = []
        house.app.stores.database.connection.set_wal_hook(lambda _, name, pages: commits.append(pages) or 0)
        turn = house.say("how is the board?")
        assert (turn.reply, turn.steps, len(server.requests)) == ("all is well", 3, 3)
        kept = ["the turn", "which chat was spoken in"]
        assert len(commits) == len(server.requests) + len(kept)
        assert house.rows() == {("chat", "terminal"): (3, 30, 0)}


def test_causes_and_channels(tmp_path):
    answers = [reply(word) for word in ("one", "two", "three", "four", "five")]
    with ModelServer(answers) as server, House(tmp_path / "home", server) as house:
        house.say("tell me a joke", session="telegram:7")
        house.say("tell me a joke", "guest", "page")
        house.app.dispatcher.answer(Inbound("heartbeat", "look around", "heartbeat", "telegram:7"))
        plan = Plan("at", "", anchor=0.0)
        assert run_job(house.app, Job(3, "telegram:7", "tell me a joke", plan, kind="fresh")).text.startswith("four")
        run_job(house.app, Job(4, DEFAULT_SESSION, "tell me a joke", plan._replace(text="rule frost"), kind="turn"))
        assert house.rows() == {
            ("chat", "telegram"): (1, 10, 0),
            ("chat", "page"): (1, 10, 0),
            ("heartbeat", "telegram"): (1, 10, 0),
            ("cron 3", "telegram"): (1, 10, 0),
            ("rule frost", "terminal"): (1, 10, 0),
        }


def test_who_asked_whom_is_told_apart_and_a_conversation_says_whose_it_is(tmp_path, monkeypatch, capsys):
    answers = [reply(word) for word in ("one", "two", "three", "four", "five")]
    with ModelServer(answers) as server, House(tmp_path / "home", server) as house:
        config = replace(
            house.config,
            people={"anna": PersonConfig(telegram=2), "bob": PersonConfig(telegram=3)},
            agents={"garden": AgentConfig(type="open")},
        )
        house.app.close()
        house.app = App(config, SimBoard())
        house.say("tell me a joke")
        house.say("tell me a joke", "member", "telegram:2", who="telegram:2")
        house.app.stores.sessions.set_agent("telegram:3", "garden", house.app.now())
        for _ in range(2):
            house.say("tell me a joke", "member", "telegram:3", who="telegram:3")
        house.app.stores.sessions.set_agent("terminal:garden", "garden", house.app.now())
        house.say("tell me a joke", session="terminal:garden")
        rows = house.app.stores.accounts.rows("2000-01-01", "2999-12-31")
        wanted = {("", ""): 1, ("", "anna"): 1, ("garden", "bob"): 2, ("garden", ""): 1}
        assert {(place.agent, place.person): taken.requests for place, taken in rows.items()} == wanted
        sql = "SELECT key, agent, person FROM sessions WHERE key GLOB 'telegram:*' ORDER BY key"
        assert house.app.stores.database.select(sql) == [
            ("telegram:2", "", "anna"),
            ("telegram:3", "garden", "bob"),
        ]
    monkeypatch.setenv("PICOCLAW_HOME", str(tmp_path / "home"))
    for by, said in (("agent", {"garden": 3, "default": 2}), ("person", {"owner": 2, "bob": 2, "anna": 1})):
        assert cli(["usage", "--by", by, "--json"]) == 0
        assert {row[by]: row["requests"] for row in json.loads(capsys.readouterr().out)["rows"]} == said


def test_what_is_asked_unasked_has_causes_of_its_own(tmp_path):
    answers = ["[]"]
    with ModelServer(lambda _: reply(answers[0])) as server, House(tmp_path / "home", server) as house:
        app, now = house.app, house.app.now()
        notes.add_note(app.config.workspace, "the fuse of the pump is 3 A", now)
        app.stores.pulse.add("mend the pump", 5, DEFAULT_SESSION, now)
        app.maintenance_jobs().run_dream(now)
        dreams = len(server.requests)
        assert house.rows() == {("dream", "terminal"): (dreams, 10 * dreams, 0)}  # and corrected already
        app.subagent_tasks.add([Task(0, "telegram:7", "", "count the parts", TaskUsage(3, 60.0, 9000))], time.time())
        assert run_task(app, app.subagent_tasks.claim(time.time()), Stop())
        for word in "abcdefghijkl":
            house.say(word)
        answers[0], before = "a and b and c and d were said", len(server.requests)
        assert app.settle(DEFAULT_SESSION) == []
        summaries = len(server.requests) - before
        assert (dreams > 0, summaries) == (True, 1)
        app.stores.accounts.prune()
        assert house.rows() == {
            ("dream", "terminal"): (dreams, 10 * dreams, 0),
            ("subagent", "telegram"): (1, 10, 0),
            ("chat", "terminal"): (12, 120, 0),
            ("summary", "terminal"): (1, 10, 0),
        }


def test_at_the_cap_chats_are_answered_without_the_model(tmp_path):
    with ModelServer([reply("never")]) as server, House(tmp_path / "home", server, day_tokens=1000) as house:
        house.used(1000)
        turn = house.say("how warm is it?")
        assert "°C" in turn.reply
        assert "1,000 of 1,000 tokens (100 %) of the day are used" in turn.notice.text
        assert (turn.provider, turn.notice.failed, turn.stopped) == ("intents", False, "")
        assert house.say("remind me in 10 minutes to water the tomatoes").stopped == ""
        assert len(house.app.stores.jobs.all()) == 1
        poem = house.say("write me a poem")
        assert (poem.notice.failed, "is asked again tomorrow" in poem.reply) == (True, True)
        assert server.requests == []


def test_at_the_cap_a_daemon_is_well_and_says_that_the_model_rests(tmp_path):
    with ModelServer([refusal(400, "wrong key")]) as server, House(tmp_path / "home", server, day_tokens=1000) as house:
        notes, live = [], DaemonStatus(safe=False, limit=1 << 30, show=lambda _: None)
        models = ModelHealth("openai:big", house.app.links, lambda text, *, trouble: notes.append((text[:12], trouble)))

        def told():
            models.note_turn(house.say("write me a poem"))
            status = live.status({}, models.status(), ())
            still = collect_offline_status(house.app.board, house.app.config.home, None, datetime.now(UTC))
            lines = format_status(still | status | {"pid": 1}, time.time())
            shown = dict(line.partition(": ")[::2] for line in lines)
            return status["problems"], shown["model"]

        (problem,), failing = told()
        assert ("wrong key" in problem, "openai:big, not answering (" in failing) == (True, True)
        house.used(1000)
        problems, resting = told()
        assert problems == []
        assert resting.startswith("openai:big, resting: 1,000 of 1,000 tokens (100 %) of the day are used")
        assert notes == [("model: the m", True)]


def test_a_cap_that_is_reached_within_a_turn_leaves_a_whole_turn(tmp_path):
    answers = [reply("", call("board_status"), usage=(900, 100)), reply("never")]
    with ModelServer(answers) as server, House(tmp_path / "home", server, day_tokens=1000) as house:
        turn = house.say("how is the board?")
        assert (len(server.requests), turn.messages[-1].role) == (1, "assistant")
        assert [run.name for run in turn.tools] == ["board_status"]
        assert house.rows() == {("chat", "terminal"): (1, 1000, 0)}


def test_at_the_cap_a_model_that_costs_nothing_answers_in_its_place(tmp_path):
    with ModelServer([reply("paid")]) as paid, ModelServer(lambda _: reply("from the attic")) as own:
        more = {"day_tokens": 1000, "prices": {"qwen": [1, 1], "small": [0, 0]}}
        with House(tmp_path / "home", paid, **more) as house:
            first = replace(house.config.model, then=["attic"])
            attic = ModelConfig(base_url=own.url, name="small", retries=0)
            house.app.config = replace(house.config, model=first, models={"attic": attic})
            house.used(1000)
            for _ in range(12):  # more often than a breaker lets the same error by
                turn = house.say("write me a poem")
                assert (turn.reply, turn.provider) == ("from the attic", "openai:small")
            assert (len(paid.requests), len(own.requests)) == (0, 12)
            house.app.stores.accounts.unwritten.clear()
            with house.app.stores.database.transaction() as connection:
                connection.execute("UPDATE ledger SET prompt_tokens = 0, completion_tokens = 0")
            assert house.say("write me a poem").reply == "paid"  # at once, when the day allows it again


def test_jobs_that_need_the_model_fail_with_the_reason_and_others_go_on(tmp_path):
    plan = Plan("at", "", anchor=0.0)
    with ModelServer([reply("never")]) as server, House(tmp_path / "home", server, day_tokens=1000) as house:
        house.used(900)
        house.app.stores.ledger.settle()
        outcome = run_job(house.app, Job(3, DEFAULT_SESSION, "write me a poem", plan, kind="fresh"))
        assert (outcome.good, "no model is asked for a cron" in outcome.text) == (False, True)
        reading = run_job(
            house.app, Job(4, DEFAULT_SESSION, '{"tool": "board_status", "arguments": {}}', plan, kind="tool")
        )
        assert "no model" not in reading.text
        assert server.requests == []


def test_heartbeats_rest_from_the_warning_on():
    situation = Situation(NOON, held="800 of 1,000 tokens (80 %) of the day are used")
    assert decide_heartbeat(situation).rule == "nothing to do"
    found = check_items(parse_checklist("- look around").items, {}, World(), NOON)
    assert decide_heartbeat(situation._replace(findings=found, held="")).rule == "due"
    for by_hand in (False, True):
        decision = decide_heartbeat(situation._replace(findings=found, by_hand=by_hand))
        assert (decision.beat, decision.rule, decision.why) == (False, "costs", situation.held)


def test_a_heart_beside_the_chat_rests_at_the_cap(tmp_path):
    with ModelServer([]) as server, House(tmp_path / "home", server, day_tokens=1000) as house:
        (house.app.config.workspace / "HEARTBEAT.md").write_text("- look around\n")
        house.used(800)
        with closing(SampleHistory(house.app.config.home)) as past:
            heart = build_heartbeat(house.app, past)
            looked = heart.look(read_heartbeat_time(house.app, make_clock_watch(house.app)), by_hand=True)
        assert (looked.decision.beat, looked.decision.rule) == (False, "costs")


def test_the_letter_goes_out_with_the_turn_that_comes_near_the_cap(tmp_path):
    answers = [reply("one", usage=(850, 1)), reply("two", usage=(20, 1))]
    with ModelServer(answers) as server, House(tmp_path / "home", server, day_tokens=1000) as house:
        for session in ("telegram:7", "telegram:7"):
            house.say("tell me a joke", session=session)
        letters = Outbox(house.app.stores.database).waiting()
        said = [(letter.session, letter.text[:45]) for letter in letters]
        assert said == [("telegram:7", "The model has used 851 of 1,000 tokens (85 %)")]


KILLED = """
import os, sys
from picoclaw.cli import run
sys.exit(run(["chat", "--board", "sim", "-m", "tell me a joke"]))
"""


def test_a_kill_in_the_middle_of_a_request_leaves_its_estimate(tmp_path):
    def silent(exchange):
        exchange.begin()
        exchange.rest()

    with ModelServer([silent, reply("one")]) as server:
        home = tmp_path / "home"
        prepare_home(home)
        (home / "workspace/BOOTSTRAP.md").unlink(missing_ok=True)
        given = os.environ | {"PICOCLAW_HOME": str(home), "PICOCLAW_BASE_URL": server.url, "PICOCLAW_MODEL": "qwen"}
        with subprocess.Popen([sys.executable, "-c", KILLED], env=given, stdout=subprocess.DEVNULL) as process:
            while not server.requests:
                time.sleep(0.01)
            process.send_signal(signal.SIGKILL)
        with House(home, server) as house:
            ((requests, tokens, estimated),) = house.rows().values()
            assert (requests, tokens) == (1, estimated)
            assert estimated > 1024
            house.say("tell me a joke")
            assert house.rows() == {("chat", "terminal"): (2, tokens + 10, estimated)}


# --- what a person is told ---


def test_usage_in_the_chat(tmp_path):
    more = {"day_tokens": 100, "day_money": 1.0, "currency": "EUR", "prices": {"other": [10, 10]}}
    with ModelServer([reply("one", usage=(80, 5))]) as server, House(tmp_path / "home", server, **more) as house:
        house.say("tell me a joke")
        assert house.say("/usage").reply.splitlines()[3:] == [
            "today 85 of 100 tokens (85 %), 0.00 of 1.00 EUR (0 %): chat 85",
            "heartbeats and dreams are paused until tomorrow, because of the caps under [costs]",
            "without a price under [costs.prices], and so counted like the dearest: openai:qwen",
        ]


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home with three days of accounts."""
    folder = tmp_path / "home"
    prepare_home(folder)
    monkeypatch.setenv("PICOCLAW_HOME", str(folder))
    (folder / "config.toml").write_text('[costs]\ncurrency = "EUR"\n[costs.prices]\n"big" = [2, 8]\n')
    today = datetime.now(UTC).astimezone().date()
    with closing(Database(folder / "state.db")) as database, database.transaction() as connection:
        for ago, model, cause, channel, taken in (
            (0, "openai:big", "chat", "telegram", LedgerTotals(3, 1000, 200, 0, 0.0036)),
            (0, "openai:big", "cron 3", "telegram", LedgerTotals(1, 500, 100, 600, 0.0018)),
            (1, "openai:big", "heartbeat", "terminal", LedgerTotals(2, 4000, 0, 0, 0.008)),
            (40, "openai:big", "chat", "terminal", LedgerTotals(9, 9000, 0, 0, 0.018)),
        ):
            add_usage(connection, LedgerKey((today - timedelta(days=ago)).isoformat(), model, cause, channel), taken)
    return folder


@pytest.mark.parametrize(
    ("by", "names"),
    [
        ("model", {"openai:big": 5800}),
        ("cause", {"heartbeat": 4000, "chat": 1200, "cron 3": 600}),
        ("channel", {"terminal": 4000, "telegram": 1800}),
    ],
)
def test_usage_for_programs(home, capsys, by, names):
    assert cli(["usage", "--by", by, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {row[by]: row["prompt"] + row["completion"] for row in told["rows"]} == names
    assert told["all"] == {
        "requests": 6,
        "prompt": 5500,
        "completion": 300,
        "estimated": 600,
        "money": pytest.approx(0.0134),
        "cached": 0,
        "reasoning": 0,
    }
    assert (told["today"]["tokens"], told["today"]["percent"], told["currency"]) == (1800, 0, "EUR")


def test_usage_for_people(home, capsys):
    assert cli(["usage", "--by", "cause"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "cause      requests     in  out  estimated     EUR",
        "heartbeat         2  4,000    0          0  0.0080",
        "chat              3  1,000  200          0  0.0036",
        "cron 3            1    500  100        600  0.0018",
        "all               6  5,500  300        600  0.0134",
        "today 1,800 tokens, 0.01 EUR: chat 1,200, cron 3 600",
        "600 of these tokens were counted by no server, and are estimated",
    ]
    assert cli(["usage", "--days", "60"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 7  # a head, three days, their sum, two lines of today


def test_a_server_that_was_not_there_is_in_no_table(books):
    costs = CostsConfig(prices={"small": [1, 1]})
    books.book.end(books.book.begin(CHAT, "openai:away", 100, 9), 0, 0, known=True)
    books.take(10, model="openai:small")
    rows = books.book.accounts.rows(TODAY, TODAY)
    shown = "\n".join([*spending.format_table(rows, "model", costs), *spending.format_today(rows, costs)])
    assert ("openai:small" in shown, "away" in shown) == (True, False)


@pytest.mark.parametrize("days", ["0", "-3", "100000", "12h", "200w"])
def test_usage_of_impossible_days(home, capsys, days):
    assert cli(["usage", "--days", days]) == 2
    assert f"--days: {days!r} is not a whole number from 1 to 800" in capsys.readouterr().err


def test_usage_makes_nothing_where_nothing_is(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PICOCLAW_HOME", str(tmp_path / "none"))
    assert cli(["usage"]) == 0
    assert (capsys.readouterr().out, (tmp_path / "none").exists()) == ("No model was used in 7 days.\n", False)


# --- docs/howto/costs.md says what is so ---

DOCS = (Path(__file__).resolve().parents[1] / "docs/howto/costs.md").read_text()


def test_the_settings_in_the_docs_are_taken(tmp_path):
    (tmp_path / "config.toml").write_text(DOCS.split("```toml\n")[1].split("```")[0])
    costs = load_config({"PICOCLAW_HOME": str(tmp_path)}).costs
    assert (costs.day_tokens, costs.day_money, costs.by_model["qwen2.5:7b"]) == (50_000, 0.5, Price(0, 0))


def test_the_docs_name_each_cause_and_each_step():
    causes = {word for row in re.findall(r"^\| (`.*?) \|", DOCS, re.MULTILINE) for word in re.findall("`([a-z]+)", row)}
    assert causes == {
        *("chat", "cron", "rule", "heartbeat", "hook", "subagent"),
        *("summary", "dream", "review", "summon", "memory", "warm"),
    }
    steps = [int(step) for step in re.findall(r"^\| (\d+) % \|", DOCS, re.MULTILINE)]
    assert steps == sorted({spending.get_limit_percent(cause) for cause in causes})
    assert f"last {RETENTION_DAYS} days" in DOCS
