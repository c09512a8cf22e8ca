"""The nightly tidying: MEMORY.md written anew from itself and the notes, the tasks gone through, skills compared.

Each step stands alone: one that fails is tried again the next night, and what it did not take in is taken in then.
"""

import json
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import NamedTuple

from picoclaw import rooted
from picoclaw.disk import explain, read_file, write_atomic
from picoclaw.errors import ConfigError, StoreError
from picoclaw.markdown import visible
from picoclaw.memory.dream import loss, overlong, page, versions
from picoclaw.memory.dream.direct import CAUTIOUS, Answer, Model
from picoclaw.memory.dream.overlap import overlaps
from picoclaw.memory.dream.review import Review, Step
from picoclaw.memory.notes import changes, notes
from picoclaw.pattern import pattern
from picoclaw.prompt import Page, Templates, estimated_tokens, fill, size
from picoclaw.skills.skill import Skill
from picoclaw.store.marks import Marks
from picoclaw.store.pulse import Pulse
from picoclaw.workspace.pages import without_empty

DAYS, LATELY = 31, 3
"""How many days of notes a dream, and a review, looks at."""

_TAKEN, _WRITING = "dream.memory", "dream.writing"
_TAG = pattern(r"</?file\b[^>\n]*>")


class _Taken(NamedTuple):
    """What went into a page: the stamp of what came of it, and those of the notes by their paths."""

    memory: str
    notes: dict[str, str]


def _taken(mark: str) -> _Taken:
    try:
        return _Taken(*json.loads(mark)) if mark else _Taken("", {})
    except (ValueError, TypeError, RecursionError):  # a damaged mark is none: the notes are looked at once more
        return _Taken("", {})


@dataclass(frozen=True, slots=True)
class Dream:
    """What a night needs. `skills` lists those in use."""

    home: Path
    workspace: Path
    prompts: Templates
    pulse: Pulse
    marks: Marks
    skills: Callable[[], Iterable[Skill]]

    def memory(self, model: Model, now: datetime) -> Step:
        """Have MEMORY.md written anew, when it or a note has changed since. Raises ProviderError and StoreError."""
        try:
            found = page.read(self.workspace)
        except ConfigError as error:
            return Step(f"MEMORY.md stays as it is: {error}")
        taken = self._taken(found.shown)
        recent = [note._replace(text=page.trusted(note.text)) for note in self._notes(now.date(), DAYS)]
        new = [note for note in recent if note.text and taken.notes.get(note.name) != stamp(note.text)]
        if not new and (not found.shown or taken.memory in {stamp(found.shown), ""}):
            return Step()
        if estimated_tokens(size(found.shown), CAUTIOUS) > model.answer_tokens:
            return Step("MEMORY.md stays as it is: it is too long for the model to write anew; condense it")
        template = self.prompts["dream"]
        shown = _fitting(new[::-1], model.room(template) - size(found.shown))
        answer = model.ask(_asked(template, found.shown, shown))
        later = {note.name for note in new} - {note.name for note in shown}
        known = {note.name: stamp(note.text) for note in recent if note.name not in later}
        text, back, problem = judged(found.shown, shown, answer)
        said = problem and f"MEMORY.md stays as it is: {problem}"
        if not problem:
            said = self._written(found, text, known, now)
            said += f"; put back: {loss.named(back)}" if said and back else ""
        return Step(said, answer.usage)

    def tasks(self, model: Model, now: datetime) -> Step:
        """Have the open tasks put in order, when they or the notes changed since. Raises ProviderError, StoreError."""
        step = self._gone_through("tidy", ("tidy", "review"), model, now)
        return step._replace(said=step.said and f"tasks: {step.said}")

    def review(self, model: Model, now: datetime) -> Step:
        """Have the open tasks compared with what was noted since. Raises ProviderError and StoreError."""
        return self._gone_through("review", ("review",), model, now)

    def unreviewed(self, today: date, mark: str = "review") -> bool:
        """Tell whether there are tasks, and they or the notes changed since they were gone through."""
        asked = any(not item.source for item in self.pulse.items())
        return asked and self.marks.get(mark) != f"{self.pulse.revision()} {_stamps(self._notes(today, LATELY))}"

    def housekeeping(self, now: datetime) -> Step:
        """Do what takes no model: forget what was completed long ago, old versions; compare the skills."""
        self.pulse.forget(now)
        try:
            versions.prune(self.home)
        except OSError as error:
            raise StoreError(f"{self.home / versions.FOLDER}: {explain(error)}") from None
        found = overlaps(self.skills())
        told = self.marks.get("dream.overlaps").split("\n")
        self.marks.set("dream.overlaps", "\n".join(found))
        news = [pair for pair in found if pair not in told]
        return Step(f"skills that overlap: {'; '.join(news)}" if news else "")

    def _gone_through(self, template: str, marks: Sequence[str], model: Model, now: datetime) -> Step:
        if not self.unreviewed(now.date(), template):
            return Step()
        lately = self._notes(now.date(), LATELY)
        done = dict.fromkeys(marks, _stamps(lately))
        return Review(self.pulse, self.prompts, template, done)(lately, model, now)

    def _notes(self, today: date, days: int) -> list[Page]:
        return notes.recent(self.workspace, today, days)

    def _taken(self, shown: str) -> "_Taken":
        """What the page is made of, also when the power went after it was written and before that was marked."""
        written = _taken(self.marks.get(_WRITING))
        return written if written.memory == stamp(shown) else _taken(self.marks.get(_TAKEN))

    def _written(self, found: page.Memory, text: str, known: dict[str, str], now: datetime) -> str:
        """Put the new text in its place, and remember what it is made of; returns what to say of it."""
        whole = page.rewritten(found.text, text) if text != found.shown else found.text
        after = json.dumps(_Taken(stamp(page.told(whole)), known))
        if text == found.shown:
            self.marks.set(_TAKEN, after)
            return ""
        self.marks.set(_WRITING, after)
        name = str(found.path.relative_to(self.workspace))
        if not replace(self.home, self.workspace, found, whole.encode("utf-8", "replace"), now):
            return f"{name} was changed meanwhile and is left alone"
        self.marks.set(_TAKEN, after)
        return f"{name} written anew, {len(found.shown)} characters became {len(text)}"


def _fitting(pages: Sequence[Page], room: int) -> list[Page]:
    """The oldest of the notes that there is room for; a first one that is too long gives its beginning."""
    fitting: list[Page] = []
    for note in pages:
        room -= size(note.text) + 2
        if room < 0:
            return fitting or [note._replace(text=note.text.encode()[: max(0, room)].decode("utf-8", "ignore"))]
        fitting.append(note)
    return fitting


def _asked(template: str, memory: str, shown: Sequence[Page]) -> str:
    values = {"memory": memory or "-", "content": "\n\n".join(note.text for note in shown) or "-"}
    template += "".join(f"\n{{{name}}}" for name in values if f"{{{name}}}" not in template)
    return fill(template, values)


def judged(old: str, shown: Sequence[Page], answer: Answer) -> tuple[str, list[str], str]:
    """Make of an answer the text that may take the place of the old one, with what it lacked; or say why there is none.

    Returns the text, the entries that were put back, and what is wrong, '' for nothing.
    """
    if answer.cut:
        return "", [], "the model's answer was cut off"
    new = without_empty(visible(_TAG.sub("", answer.text)))
    known = loss.source([old, *(note.text for note in shown), *(_day(note) for note in shown)])
    strange = loss.invented(new, known)
    new = without_empty("\n".join(line for line in new.split("\n") if line not in strange))
    if strange and not loss.entries(new):
        return "", [], f"the model wrote what nobody said: {loss.named(strange)}"
    if new == old:
        return new, [], ""
    problem = loss.fault(old, new, overlong.MEMORY)
    new, back = ("", []) if problem else loss.kept(old, new, "\n".join(note.text for note in shown))
    if not problem and (left := loss.lost(old, new)):
        problem = f"{len(left)} of {len(loss.entries(old))} entries would be lost: {loss.named(left)}"
    if not problem and len(new) > max(overlong.MEMORY, len(old)):
        problem = f"with what it left out it has {len(new)} characters of at most {max(overlong.MEMORY, len(old))}"
    return ("", [], f"the model's text is not used: {problem}") if problem else (new, back, "")


def _day(note: Page) -> str:
    stem = Path(note.name).stem
    return f"{stem[:4]}-{stem[4:6]}-{stem[6:]}"


def replace(home: Path, workspace: Path, found: page.Memory, data: bytes, now: datetime) -> bool:
    """Put other bytes into the page, those there kept; False when they are not what was read. Raises StoreError."""
    name = str(found.path.relative_to(workspace))
    with notes.held(workspace):
        try:
            versions.keep(home, name, found.found or b"", data, now)
            if not page.unchanged(found, workspace):
                return False
            with rooted.folder(notes.place(workspace, name).above, make=True) as way:
                write_atomic(Path(found.path.name), data, folder=way)
        except ConfigError as error:
            raise StoreError(str(error)) from None
        except OSError as error:
            raise StoreError(f"{name} cannot be written: {explain(error)}") from None
    return True


def restore(home: Path, workspace: Path, marks: Marks, number: int, now: datetime) -> Path:
    """Take the newest change back, or an earlier one by its number; returns where it was kept. Raises StoreError.

    What is there now is kept. No dream comes of an earlier MEMORY.md: the notes that went into what was not wanted are
    not taken in again.
    """
    path = versions.numbered(home, number)
    if path.suffix == ".json":
        changes.restore(home, workspace, versions.read_correction(path), now)
        return path
    try:
        data = read_file(path)
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {explain(error)}") from None
    try:
        found = page.read(workspace)
    except ConfigError as error:
        raise StoreError(str(error)) from None
    shown = page.told(data.decode("utf-8", "replace"))
    marks.set(_WRITING, json.dumps(_taken(marks.get(_TAKEN))._replace(memory=stamp(shown))))
    if not replace(home, workspace, found, data, now):
        raise StoreError("MEMORY.md was changed meanwhile; try again")
    return path


def stamp(text: str) -> str:
    """Tell a text from another that it may have become."""
    return f"{zlib.crc32(text.encode('utf-8', 'replace')):08x}.{len(text)}"


def _stamps(pages: Iterable[Page]) -> str:
    return stamp("\n".join(note.text for note in pages))
