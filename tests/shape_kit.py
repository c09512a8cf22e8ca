"""Plays the shapes of `broken_server.py` through the real door, and puts into words what a person sees of each."""

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Self

import anthropic_server
from broken_messages import MESSAGES
from broken_server import (
    BODIES,
    CALLS,
    CONNECTION,
    FAILS,
    FILE,
    KEY,
    LIMITS,
    NO_MODEL_SERVER,
    STREAMS,
    WORDS,
    WRAPPINGS,
    Shape,
)
from grammars import refusals
from model_server import Answer, ModelServer, reply
from validity import check_body, check_conversation

from picoclaw.app import App
from picoclaw.config import Config
from picoclaw.config.tables import LimitsConfig, ModelConfig
from picoclaw.hw.linux import LinuxBoard
from picoclaw.messages import Inbound, Message, Stop, Text, Turn, TurnHooks
from picoclaw.records import dataclass, replace

SHAPES = {
    "The connection": CONNECTION,
    "Not a model server": NO_MODEL_SERVER,
    "Wrappings": WRAPPINGS,
    "Bodies": BODIES,
    "Streams": STREAMS,
    "Calls": CALLS,
    "Limits and errors": LIMITS,
    "Anthropic's Messages": MESSAGES,
}
SHARED = ("stores", "library", "toolset", "wiring", "prompts", "matcher")
QUESTION = "Why is the sky blue?"
MATCHER = refusals()
TAIL = " - answered without a model"
LONGEST = 160
MOST_ASKED = 4


class Swift(Stop):
    """Rests no time, and remembers how long it should have."""

    def __init__(self) -> None:
        super().__init__()
        self.rests: list[float] = []

    def rest(self, seconds: float) -> None:
        self.rests.append(seconds)


@dataclass
class Seen:
    """What came of one turn."""

    turn: Turn
    shown: str
    rests: list[float]
    requests: list[Any]
    wrote: bool
    kept: list[tuple[Message, ...]]

    @property
    def answered(self) -> bool:
        """Whether the model answered, with nothing to be told beside."""
        return self.turn.provider != "intents" and not self.turn.stopped and not self.turn.notice.text

    def told(self) -> str:
        """What the person sees, as one line of a table."""
        said, notice = self.turn.reply, self.turn.notice.text
        if said.startswith(MATCHER):
            return f"**{_line(notice.removesuffix(TAIL))}**"
        results = " ".join(dict.fromkeys(f"({_line(run.result, LONGEST // 2)})" for run in self.turn.tools[:3]))
        line = " ".join(filter(None, [results, _line(said)]))
        return line if not notice or notice in said else f"{line} **{_line(notice)}**"


class House:
    """A home without any hardware, whose model is a server that does as it is told."""

    def __init__(self, home: Path) -> None:
        home.mkdir()
        self.home = home
        self.phase: Answer = reply(WORDS)
        self.always = self._first = True
        self.stubborn, self.api = False, "openai"
        self.session = "terminal"
        self.server = ModelServer(self._next)
        self.server._http.handle_error = lambda *_: None  # a reset connection is what is wanted here

    def _next(self, body: Any) -> Answer:
        first, self._first = self._first, False
        if not self.always and not first:
            return self._good(WORDS)
        newest = body["messages"][-1]
        after_a_result = newest["role"] == "tool" or "tool_result" in str(newest["content"])
        return self._good("Done.") if after_a_result and not self.stubborn else self.phase

    def _good(self, words: str) -> Answer:
        return anthropic_server.said(words) if self.api == "anthropic" else reply(words)

    def __enter__(self) -> Self:
        self.server.__enter__()
        board = LinuxBoard(self.home)
        Config(self.home).workspace.mkdir()
        self._base = App(Config(self.home, ModelConfig(base_url=self.server.url)), board)
        self._shared = {name: getattr(self._base, name) for name in SHARED}
        return self

    def __exit__(self, *_: object) -> None:
        self._base.close()
        self.server.__exit__()

    @contextmanager
    def app(self, shape: Shape, *, stream: bool, then: str = "") -> Iterator[App]:
        """The application before that server; what does not meet it is made once. `then` is another server's URL."""
        url = shape.at(self.server) if shape.at else self.server.url
        model = ModelConfig(base_url=url, name="m", api=shape.api, stream=stream, idle_seconds=shape.patience)
        config = Config(self.home, model, LimitsConfig(seconds=shape.seconds), api_key=KEY)
        if then:
            model, more = replace(model, then=["lan"], base_url=url), {"lan": ModelConfig(base_url=then, name="n")}
            config = replace(config, model=model, models=more)
        app = App(config, self._base.board)
        app.__dict__ |= self._shared
        with closing(app.provider):
            yield app

    def turn(self, app: App, answer: Answer, *, always: bool = True, stubborn: bool = False) -> Seen:
        """Ask, and be answered so: `always`, or the first time only; `stubborn` after a tool's result as well."""
        self.phase, self.always, self.stubborn, self._first = answer, always, stubborn, True
        before, stop, shown = len(self.server.requests), Swift(), list[str]()
        around = TurnHooks(stop=stop, listen=lambda e: shown.append(e.text) if isinstance(e, Text) else None)
        turn = app.dispatcher.answer(Inbound(self.session, QUESTION), around)
        requests = [request.body for request in self.server.requests[before:]]
        wrote = [path.unlink() for path in self.home.rglob(FILE)]
        return Seen(turn, "".join(shown), stop.rests, requests, bool(wrote), app.stores.load_history(self.session)[0])


@dataclass
class Played:
    """One shape in one mode: while it `lasts`, when it `passes` (None where nothing needs to), and the turn after."""

    lasts: Seen
    passes: Seen | None
    after: Seen


def play(house: House, shape: Shape, *, stream: bool) -> Played:
    """Play a shape, in a conversation of its own."""
    house.session, house.api = f"{shape.does} {stream}", shape.api
    good = house._good(WORDS)
    with house.app(shape, stream=stream) as app:
        lasts = house.turn(app, shape.answer, stubborn=shape.always)
        if shape.ends not in FAILS | {"late"}:
            return Played(lasts, None, house.turn(app, good))
    with house.app(replace(shape, at=None), stream=stream) as app:
        passes = house.turn(app, shape.answer, always=False) if shape.ends in FAILS and not shape.at else None
        if passes is None or passes.answered:
            return Played(lasts, passes, house.turn(app, good))
    with house.app(shape, stream=stream) as app:  # as after the owner has mended it
        return Played(lasts, passes, house.turn(app, good))


def check(shape: Shape, played: Played) -> None:
    """Fail unless it ended as the table says, and what is left of it is valid."""
    _check_ending(shape, played)
    _check_kept(shape, played)


def _check_ending(shape: Shape, played: Played) -> None:
    """Fail unless the turn ended as the table says."""
    lasts, passes, asked = played.lasts, played.passes, len(played.lasts.requests)
    assert asked <= MOST_ASKED + shape.always
    assert lasts.wrote == (shape.ends == "runs")
    match shape.ends:
        case "answer" | "adapts":
            assert lasts.answered
            assert asked == (1 if shape.ends == "answer" else 2)
        case "runs" | "told":
            assert lasts.turn.reply.startswith("Done.") or (shape.always and lasts.turn.stopped == "repeated")
            assert asked == 2 or shape.always
        case "again":
            assert asked > 1 or shape.at
            assert passes is None or (passes.answered and passes.turn.reply == WORDS)
        case "once":
            assert asked == 1
        case "begun":
            assert asked == 1
            assert lasts.turn.stopped == "error"
            assert lasts.turn.reply.startswith("It is")
            assert passes is not None
            assert len(passes.requests) == 1  # nobody says again what was read already
        case "late":
            assert lasts.turn.stopped == "seconds"
    if shape.ends in FAILS:
        assert not lasts.answered
        assert lasts.turn.notice.failed
        assert not lasts.turn.tools


def _check_kept(shape: Shape, played: Played) -> None:
    """Fail unless what is left of it is valid, tells no secret, and the next turn works."""
    for seen in filter(None, (played.lasts, played.passes, played.after)):
        for turn in seen.kept:
            check_conversation(turn)
        for body in seen.requests:
            if shape.api == "openai":
                check_body(body)
            else:
                assert not anthropic_server.complaints(body)
        words = f"{seen.turn.reply}{seen.shown}{seen.turn.notice.text}"
        assert KEY not in words
        assert len(seen.turn.notice.text.splitlines()) <= 1
    assert played.after.answered
    assert played.after.turn.reply == WORDS


def row(shape: Shape, played: Played, mode: str) -> str:
    """A row of the table: what the server does, how often it is asked, and what is seen."""
    passing = "" if played.passes is None else "answers" if played.passes.answered else "the same"
    asked = len(played.lasts.requests)
    return f"| {_cell(shape.does)} | {mode} | {asked or '-'} | {passing} | {_cell(played.lasts.told())} |"


def rows_of(shape: Shape, made: dict[bool, Played]) -> list[str]:
    """The rows of a shape: one where it makes no difference whether the answer is streamed."""
    texts = {stream: row(shape, played, "") for stream, played in made.items()}
    if len(set(texts.values())) == 1:
        mode = "both" if len(made) > 1 else "streamed" if shape.modes[0] else "whole"
        return [row(shape, made[shape.modes[0]], mode)]
    return [row(shape, played, "streamed" if stream else "whole") for stream, played in made.items()]


def every() -> list[Shape]:
    return [shape for shapes in SHAPES.values() for shape in shapes]


def _line(text: str, most: int = LONGEST) -> str:
    """One line that is not too long, without what differs from run to run and from machine to machine."""
    text = " ".join(text.split())
    text = re.sub(r"127\.0\.0\.1:\d+", "pi:8080", text)
    text = re.sub(r"x{4,}", "xxx…", text)
    text = re.sub(r"since \d\d:\d\d", "since 09:00", text)
    text = re.sub(r"\[SSL[^\]]*\][^()]*\(_ssl\.c:\d+\)", "TLS was not spoken", text)
    text = text if text.isprintable() else "".join(c if c.isprintable() else "�" for c in text)
    return text if len(text) <= most else f"{text[:most]}…"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;") if "`" not in text else text.replace("|", "\\|")
