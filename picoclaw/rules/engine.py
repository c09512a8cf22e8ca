"""Follows the rules: hands each what was measured, writes down what fires, and has it done. No model, no network."""

import re
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from picoclaw import ranges
from picoclaw.errors import PicoclawError, StoreError
from picoclaw.hw.reading import Reading
from picoclaw.pattern import pattern
from picoclaw.rules.book import Book
from picoclaw.rules.conditions import Calendar, Gate, amount, beyond
from picoclaw.rules.evaluate import Firing, Sample, State, due_in, loaded, step
from picoclaw.rules.rule import Rule
from picoclaw.store.firings import Firings
from picoclaw.store.points import Moment, Series, Span

_UNTRUSTED_LOOK_S = 60.0
TOLD = "told"
_TOLD_BY = pattern(r"\btold by letter ([0-9]{1,18}(?:, [0-9]{1,18})*)")


class Hands(NamedTuple):
    """What a rule can do. Each raises PicoclawError saying why it could not be done.

    `tell(text)` reaches the owner and may return how, see `told_by`,
    `switch(output, level, seconds)` asks the arbiter, `ask(text, rule)` the model.
    """

    tell: Callable[[str], str | None]
    switch: Callable[[str, str, float | None], str]
    ask: Callable[[str, str], str]


Past = Callable[[Series, ranges.Range], Span | None]


class Engine:
    """The rules of one home, each with its state."""

    def __init__(self, firings: Callable[[], Firings], hands: Hands, past: Past) -> None:
        """`firings()` opens the store when it is needed; `past(series, range)` tells what was measured."""
        self._firings = firings
        self._hands = hands
        self._past = past
        self._states: dict[str, State] = {}
        self._kept: dict[str, str] = {}
        self._said: set[str] = set()
        self._book: Mapping[str, Rule] = {}

    def begin(self) -> None:
        """Take up where the rules stood; without a store each begins anew."""
        try:
            self._kept = self._firings().states()
        except StoreError as error:
            self._say(f"rules begin anew, because where they stood cannot be read: {error}")
        self._states = {name: loaded(text) for name, text in self._kept.items()}
        self._tell_cut_off()

    def _tell_cut_off(self) -> None:
        """Tell what another process has begun and did not live to end; it is not done again."""
        try:
            found = self._firings().cut_off()
        except StoreError:
            return
        for number, rule, why, acts in found:
            text = f"Rule {rule} fired ({why}), and picoclaw was stopped in the middle of it: {acts}"
            outcome = self._try(partial(self._told, text))
            self._settle(number, f"unknown: picoclaw was stopped in the middle; {outcome}")

    def follow(self, book: Book) -> None:
        """Follow these rules from now on; what is wrong with others is told once."""
        self._book = {name: rule for name, rule in book.rules.items() if rule.written.enabled}
        for problem in book.problems.values():
            self._say(f"a rule is not followed: {problem}")
        if "" not in book.problems:  # what the owner has taken away, or switched off, has missed nothing meanwhile
            left = self._states.keys() - self._book.keys() - book.problems.keys()
            self._states |= {name: State(fired=self._states[name].fired) for name in left}

    @property
    def wanted(self) -> set[Series]:
        """What the rules need to be measured."""
        return {series for rule in self._book.values() for series in rule.series}

    def heard(self, readings: Iterable[Reading], now: Moment, every_s: float) -> None:
        """Look at every rule after sensors were read; they are read about every `every_s` seconds."""
        samples = {Series(r.sensor, r.what): _sample(r) for r in readings}
        failed = {series.sensor: sample for series, sample in samples.items() if sample.value is None}
        for rule in self._book.values():
            if not isinstance(rule.condition, Calendar):
                series = rule.condition.series
                self._step(rule, samples.get(series) or failed.get(series.sensor), now, 3 * every_s)

    def tick(self, now: Moment) -> float | None:
        """Look at the rules that have times; returns in how many seconds the next is due, None for never."""
        soonest: list[float] = []
        for rule in self._book.values():
            if isinstance(rule.condition, Calendar):
                self._step(rule, None, now, 0.0)
                found = due_in(rule, self._states[rule.name], now) if now.trusted else _UNTRUSTED_LOOK_S
                soonest += [] if found is None else [found]
        return min(soonest, default=None)

    def news(self) -> dict[str, str]:
        """Return the states that are other than what was written down."""
        dumped = {name: state.dumped() for name, state in self._states.items()}
        return {name: text for name, text in dumped.items() if self._kept.get(name) != text}

    def kept(self, states: Mapping[str, str]) -> None:
        """Note that states were written down."""
        self._kept |= states

    def _step(self, rule: Rule, sample: Sample | None, now: Moment, stale_s: float) -> None:
        before = self._states.get(rule.name, State())
        after, firing = step(rule, before, sample, now, stale_s)
        self._states[rule.name] = after
        if firing and not (firing.skipped or self._lets(rule.only_if, now)):
            again = not isinstance(rule.condition, Calendar)  # it may be so at the next sample
            self._states[rule.name] = replace(after, held=before.held if again else after.held, fired=before.fired)
            return
        if firing:
            self._fire(firing, now)

    def _lets(self, gate: Gate | None, now: Moment) -> bool:
        return gate is None or self._was(gate, now)[0]

    def _was(self, gate: Gate, now: Moment) -> tuple[bool, str]:
        """Tell whether something was so, and by which figure; what is not known was not so."""
        try:
            span = self._past(gate.series, ranges.meant(gate.when, now.wall)) if now.trusted else None
        except (StoreError, ValueError):
            span = None
        if span is None or not span.good:
            return False, f"no figures of {gate.series.sensor} {gate.series.quantity} {gate.when}"
        value = {"min": span.low, "max": span.high, "mean": span.total / span.good}[gate.figure]
        said = f"{gate.series.sensor} {gate.series.quantity} {gate.figure} {gate.when} {amount(value, gate.series)}"
        return beyond(gate.op, value, gate.limit), said

    def _fire(self, firing: Firing, now: Moment) -> None:
        rule, why, seconds = firing.rule, firing.why, firing.rule.lasts_s
        if rule.instead:
            so, figure = self._was(rule.instead[1], now)
            seconds, why = (rule.instead[0] if so else seconds), f"{why}; {figure}"
        number = self._begin(rule, why, _acts(rule, seconds), now)
        outcome = f"not done: {firing.skipped}" if firing.skipped else self._done(rule, why, seconds)
        if firing.skipped or outcome.startswith("failed"):
            told = self._try(lambda: self._told(f"Rule {rule.name} ({why}): {outcome}"))
            outcome = outcome if told == TOLD else f"{outcome}; {told}"
        self._settle(number, outcome)

    def _done(self, rule: Rule, why: str, seconds: float | None) -> str:
        """Do what a rule says, the output first; returns what became of it."""
        written, outcomes = rule.written, []
        if written.output:
            outcomes.append(self._try(lambda: self._hands.switch(written.output, written.level, seconds)))
        if written.notify:
            outcomes.append(self._try(lambda: self._told(f"{written.notify} ({rule.name}: {why})")))
        if written.ask:
            outcomes.append(self._try(lambda: self._hands.ask(f"{written.ask}\n({rule.name}: {why})", rule.name)))
        bad = [outcome for outcome in outcomes if outcome.startswith("failed")]
        return "; ".join([*bad, *(outcome for outcome in outcomes if outcome not in bad)])

    def _told(self, text: str) -> str:
        return self._hands.tell(text) or TOLD

    @staticmethod
    def _try(act: Callable[[], str]) -> str:
        try:
            return act()
        except PicoclawError as error:
            return f"failed: {error}"

    def _begin(self, rule: Rule, why: str, acts: str, now: Moment) -> int | None:
        """Write down that it fires; a store that fails keeps nobody from being warned."""
        news = self.news()
        try:
            number = self._firings().begin(rule.name, why, acts, now, news)
        except StoreError as error:
            self._say(f"what rules do cannot be written down: {error}")
            return None
        self.kept(news)
        return number

    def _settle(self, number: int | None, outcome: str) -> None:
        try:
            if number is not None:
                self._firings().settle(number, outcome)
        except StoreError as error:
            self._say(f"what rules do cannot be written down: {error}")

    def _say(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._try(lambda: self._told(text))


def told_by(letters: Iterable[int]) -> str:
    """Say in an outcome by which letters the owner is told; `outcome_now` reads it again."""
    return f"{TOLD} by letter {', '.join(map(str, letters))}"


def outcome_now(outcome: str, waiting: Container[int]) -> str:
    """Word an outcome for the log: told, or waiting as long as all the letters that tell it are `waiting`."""

    def worded(found: re.Match[str]) -> str:
        letters = map(int, found[1].split(", "))
        return "waiting: nobody could be told yet" if all(number in waiting for number in letters) else TOLD

    return _TOLD_BY.sub(worded, outcome)


def _sample(reading: Reading) -> Sample:
    """What rules believe: a doubtful value is none."""
    return Sample(None if reading.doubt else reading.value, reading.problem or reading.doubt)


def _acts(rule: Rule, seconds: float | None) -> str:
    written = rule.written
    lasts = f" for {ranges.shown(seconds)}" if seconds else ""
    switch = [f"switch {written.output} {written.level}{lasts}"] if written.output else []
    return ", ".join([*switch, *(["tell"] if written.notify else []), *(["ask the model"] if written.ask else [])])
