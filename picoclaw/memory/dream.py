"""The nightly tidying: MEMORY.md rewritten by a model, the open tasks reviewed, skills compared."""

import json
import re
import zlib
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, Literal

from picoclaw import files
from picoclaw.errors import ConfigError, Refused, StoreError
from picoclaw.files import read_file, write_atomic
from picoclaw.markdown import find_hidden, remove_hidden
from picoclaw.memory import notes, versions
from picoclaw.memory.files import FOREIGN, explain_failure
from picoclaw.memory.notes import MAX_MEMORY_CHARS, get_lasting_file
from picoclaw.messages import Message, Purpose, Request, Stop, Usage
from picoclaw.prompts import Page, Templates, count_bytes, estimate_tokens, fill_template
from picoclaw.providers import Provider, WholeAnswer, ask_whole
from picoclaw.records import NamedTuple, dataclass
from picoclaw.schema import InvalidArgument, Parameter, Span, check_arguments, read_parameter
from picoclaw.skills import BUILT_IN, Skill
from picoclaw.store.database import Marks
from picoclaw.store.pulse import Pulse, PulseAuthor, PulseChange, PulseItem, format_item
from picoclaw.text import fold_case, list_terms, pattern
from picoclaw.workspace import read_bytes, read_text, remove_empty

# MEMORY.md taken apart into what a dream may write anew and what stays as it is, and put together again.
#
# What stays: front matter, comments, headings and fields with nothing behind them, and the entries that are not the
# owner's word. They are not shown to the model that dreams, so no text from outside can speak to it.

_FOREIGN_MARK = f"({FOREIGN}"
_MAX_PAGE_BYTES = 200_000
_FRONT_MATTER = pattern(r"\A---[ \t]*\n.*?\n---[ \t]*\n", re.DOTALL)
_HEADING = pattern(r" {0,3}#{1,6}\s")
_ITEM = pattern(r"(?:[-*+]|\d{1,9}[.)])\s")


class PagePart(NamedTuple):
    """An entry, or another line, with the lines that go on with it, and the heading it stands under."""

    heading: str
    text: str


class MemoryPage(NamedTuple):
    """A page: `found` are its bytes, None when there is none; `shown` is what may be written anew."""

    path: Path
    found: bytes | None
    text: str
    shown: str


def _read_page(workspace: Path) -> MemoryPage:
    """Read the page; raises ConfigError saying why it cannot be written anew."""
    path = workspace / get_lasting_file(workspace)
    if path.is_symlink():
        raise ConfigError(f"{path} is a symbolic link and is left alone")
    found = read_bytes(path, _MAX_PAGE_BYTES, workspace)
    text = read_text(path, _MAX_PAGE_BYTES, workspace) or ""
    return MemoryPage(path, found, text, extract_rewritable(text))


def extract_rewritable(text: str) -> str:
    """Make of a page's text what may be written anew."""
    return _remove_foreign(remove_hidden(_FRONT_MATTER.sub("", text), trusting=True))


def _split_parts(text: str) -> list[PagePart]:
    """Take a text apart into its entries and other lines; blank lines are left out."""
    found: list[PagePart] = []
    heading, is_item = "", False
    for line in text.split("\n"):
        if _HEADING.match(line):
            heading, is_item = line.rstrip(), False
            found.append(PagePart("", heading))
        elif is_item and line[:1].isspace() and line.strip():
            found[-1] = PagePart(heading, f"{found[-1].text}\n{line}")
        elif line.strip():
            is_item = bool(_ITEM.match(line))
            found.append(PagePart(heading, line))
    return found


def _remove_foreign(text: str) -> str:
    """Leave out the entries that are not the owner's word, and the headings that then have nothing under them."""
    if _FOREIGN_MARK in text.casefold():
        text = "\n".join(part.text for part in _split_parts(text) if _FOREIGN_MARK not in part.text.casefold())
    return remove_empty(text)


def rewrite_text(text: str, new: str) -> str:
    """Put a new text in the place of what of the old one was shown; everything else of it stays."""
    front = _FRONT_MATTER.match(text)
    body = text[front.end() :] if front else text
    visible = remove_hidden(body, trusting=True)
    lines = new.strip("\n").split("\n")
    parts = _split_parts(visible)
    for part in reversed([part for part in parts if _FOREIGN_MARK in part.text.casefold()]):
        at = _find_below(lines, part.heading)
        lines[at:at] = part.text.split("\n")
    known = {line.strip() for line in [*remove_empty(visible).split("\n"), *lines]}
    for part in parts:  # fields with nothing behind them
        if not _HEADING.match(part.text) and part.text.strip() not in known and "\n" not in part.text:
            at = _find_below(lines, part.heading)
            end = next((end for end, line in enumerate(lines[at:], at) if _HEADING.match(line)), len(lines))
            while end > at and not lines[end - 1].strip():
                end -= 1
            lines.insert(end, part.text)
    lines = versions.keep_headings(visible, "\n".join(lines)).split("\n")
    comments = [comment for comment in _find_comments(body) if comment.text not in new]
    comments.sort(key=lambda comment: not comment.line)
    for comment in reversed(comments):  # those under a heading first, which beside it would not be found
        _insert_comment(lines, comment)
    return "\n".join([f"{front[0] if front else ''}{lines[0]}", *lines[1:], ""])


class _PageComment(NamedTuple):
    """A comment, what stands beside it in its line, and the heading that it is under."""

    text: str
    line: str
    heading: str


def _find_comments(body: str) -> list[_PageComment]:
    found = []
    for start, end, _ in find_hidden(body, trusting=True):
        before, after = remove_hidden(body[:start], trusting=True), body[end:].partition("\n")[0]
        line = remove_hidden(before.rpartition("\n")[2] + after, trusting=True).strip()
        heading = next((part.heading or part.text for part in reversed(_split_parts(before))), "")
        found.append(_PageComment(body[start:end].strip("\n"), line, heading if _HEADING.match(heading) else ""))
    return found


def _insert_comment(lines: list[str], comment: _PageComment) -> None:
    """Put a comment beside the line that says most of what it stood beside; else under its heading."""
    meant = set(list_terms(comment.line))
    shares = [(line.strip() == comment.line, len(meant & set(list_terms(line)))) for line in lines]
    same, shared = max(shares, default=(False, 0))
    if comment.line and (same or shared > len(meant) / 2):
        at = shares.index((same, shared))
        lines[at] = f"{lines[at].rstrip()} {comment.text}"
    else:
        lines.insert(_find_below(lines, comment.heading), comment.text)


def _find_below(lines: list[str], heading: str) -> int:
    """Where in the lines that come under a heading something can be added; the heading is made if it is not there."""
    if not heading:
        return 0
    if heading not in map(str.rstrip, lines):
        lines += ["", heading]
    return [line.rstrip() for line in lines].index(heading) + 1


# One question to a model and its whole answer: no conversation, no tools, and never the built-in matcher's words.

_BYTES_PER_TOKEN = 3.0  # so that a question fits the window with a vocabulary that is not made for English
_MODEL_TIMEOUT_S = 600.0
_MIN_ANSWER_TOKENS, _MAX_ANSWER_TOKENS = 256, 4000
_FENCED = pattern(r"\A\s*```[\w-]*[ \t]*\n(.*?)\n?[ \t]*```\s*\Z", re.DOTALL)
_THOUGHT = pattern(r"\A\s*<think>.*?</think>", re.DOTALL)


class DreamModel(NamedTuple):
    """A model without a fallback: its window in tokens, a clock in seconds, what stops it, and what it is asked for."""

    provider: Provider
    window: int
    clock: Callable[[], float]
    stop: Stop | None = None
    purpose: Purpose = Purpose()

    @property
    def answer_tokens(self) -> int:
        """The most tokens of an answer; the larger part of a small window is for the question."""
        return max(_MIN_ANSWER_TOKENS, min(_MAX_ANSWER_TOKENS, self.window // 3))

    def room(self, template: str) -> int:
        """The bytes that a question may have beside its template."""
        return int((self.window - self.answer_tokens) * _BYTES_PER_TOKEN) - count_bytes(template)

    def ask(self, text: str) -> WholeAnswer:
        """Ask and wait for the whole answer, without thoughts and a fence around it; raises ProviderError."""
        if estimate_tokens(count_bytes(text), _BYTES_PER_TOKEN) > self.window - self.answer_tokens:
            raise Refused(f"what there is to read does not fit the model's window of {self.window} tokens")
        asked_for = (Message("user", text),), (), self.answer_tokens, self.clock() + _MODEL_TIMEOUT_S
        request = Request("", *asked_for, stop=self.stop, purpose=self.purpose, temperature=0)
        answer = ask_whole(self.provider, request)
        said = _THOUGHT.sub("", answer.text.replace("\r\n", "\n").replace("\r", "\n"))
        fenced = _FENCED.match(said)
        said = fenced[1] if fenced and "\n```" not in fenced[1] else said
        return answer._replace(text=said.strip())


# Skills that say they are for the same: by their triggers and by the words of their descriptions. No model. Pure.

_MIN_OVERLAP, _MIN_WORDS = 0.5, 3


def find_overlaps(skills: Iterable[Skill]) -> list[str]:
    """Name the pairs that overlap, and in what; two that picoclaw brings along are its own matter."""
    ordered = sorted(skills, key=lambda skill: skill.name)
    words = {skill.name: set(list_terms(f"{skill.description} {' '.join(skill.triggers)}")) for skill in ordered}
    found = []
    for one, other in combinations(ordered, 2):
        if one.tier == other.tier == BUILT_IN:
            continue
        theirs = set(map(fold_case, other.triggers))
        both = [trigger for trigger in one.triggers if fold_case(trigger) in theirs]
        mine, others = words[one.name], words[other.name]
        alike = len(mine & others) / len(mine | others) if min(len(mine), len(others)) >= _MIN_WORDS else 0.0
        if both:
            found.append(f"{one.name} and {other.name} have the trigger {both[0]!r}")
        elif alike >= _MIN_OVERLAP:
            found.append(f"{one.name} and {other.name} are described alike ({alike:.0%} of their words)")
    return found


# The nightly tidying: MEMORY.md written anew from itself and the notes, the tasks gone through, skills compared.
#
# Each step stands alone: one that fails is tried again the next night, and what it did not take in is taken in then.
# Nothing that is not the owner's word is shown to the model, so that no text from outside can change what is to be done.

_NOTE_DAYS, _REVIEW_DAYS = 31, 3
_MAX_CHANGES = 20
_TAKEN_MARK, _WRITING_MARK = "dream.memory", "dream.writing"
_FILE_TAG = pattern(r"</?file\b[^>\n]*>")
_CHANGE_PARAMETERS: tuple[Parameter, ...] = (
    read_parameter("action", Literal["complete", "update", "add"]),
    read_parameter("task", int, 0),
    read_parameter("text", str, ""),
    read_parameter("priority", Annotated[int, Span(0, 10)], 0),
)
_ACTION_LABELS = {"complete": "completed", "update": "changed", "add": "added"}


class DreamStep(NamedTuple):
    """What a step has done, in words for the owner ('' for nothing), what it took, and whether the model answered."""

    said: str = ""
    usage: Usage = Usage()
    answered: bool = True


@dataclass(frozen=True)
class Dream:
    """What a night needs. `skills` lists those in use."""

    home: Path
    workspace: Path
    prompts: Templates
    pulse: Pulse
    marks: Marks
    skills: Callable[[], Iterable[Skill]]

    def memory(self, model: DreamModel, now: datetime) -> DreamStep:
        """Have MEMORY.md written anew, when it or a note has changed since. Raises ProviderError and StoreError."""
        try:
            found = _read_page(self.workspace)
        except ConfigError as error:
            return DreamStep(f"MEMORY.md stays as it is: {error}")
        stamp = _compute_stamp(found.shown)
        taken = _read_mark(self.marks.get(_WRITING_MARK))
        if taken[0] != stamp:  # or the power went after it was written and before that was marked
            taken = _read_mark(self.marks.get(_TAKEN_MARK))
        recent = [note._replace(text=_remove_foreign(note.text)) for note in self._notes(now.date(), _NOTE_DAYS)]
        new = [note for note in recent if note.text and taken[1].get(note.name) != _compute_stamp(note.text)]
        if not new and (not found.shown or taken[0] in {stamp, ""}):
            return DreamStep()
        if estimate_tokens(count_bytes(found.shown), _BYTES_PER_TOKEN) > model.answer_tokens:
            return DreamStep("MEMORY.md stays as it is: it is too long for the model to write anew; condense it")
        template = self.prompts["dream"]
        room = model.room(template) - count_bytes(found.shown)
        shown = _take_fitting(new[::-1], room)
        if new and not shown:  # one that is too long gives its beginning
            shown = [new[-1]._replace(text=new[-1].text.encode()[: max(0, room - 2)].decode("utf-8", "ignore"))]
        content = "\n\n".join(note.text for note in shown) or "-"
        answer = model.ask(_fill(template, {"memory": found.shown or "-", "content": content}))
        later = {note.name for note in new} - {note.name for note in shown}
        known = {note.name: _compute_stamp(note.text) for note in recent if note.name not in later}
        text, back, problem = _check_answer(found.shown, shown, answer)
        if problem:
            return DreamStep(f"MEMORY.md stays as it is: {problem}", answer.usage)
        said = self._write(found, text, known, now)
        said += f"; put back: {versions.quote_lines(back)}" if said and back else ""
        if left := versions.list_left("\n".join(note.text for note in shown), text):
            said = f"{said or 'MEMORY.md stays as it is'}; left in the notes: {versions.quote_lines(left)}"
        return DreamStep(said, answer.usage)

    def _write(self, found: MemoryPage, text: str, known: dict[str, str], now: datetime) -> str:
        """Put the new text in its place, and remember what it is made of; returns what to say of it."""
        whole = rewrite_text(found.text, text) if text != found.shown else found.text
        after = json.dumps((_compute_stamp(extract_rewritable(whole)), known))
        if text != found.shown:
            self.marks.set(_WRITING_MARK, after)
            name = str(found.path.relative_to(self.workspace))
            if not _replace_page(self.home, self.workspace, found, whole.encode("utf-8", "replace"), now):
                return f"{name} was changed meanwhile and is left alone"
        self.marks.set(_TAKEN_MARK, after)
        return f"{name} written anew, {len(found.shown)} characters became {len(text)}" if text != found.shown else ""

    def tasks(self, model: DreamModel, now: datetime) -> DreamStep:
        """Have the open tasks put in order, when they or the notes changed since. Raises ProviderError, StoreError."""
        step = self._review("tidy", ("tidy", "review"), model, now)
        return step._replace(said=step.said and f"tasks: {step.said}")

    def review(self, model: DreamModel, now: datetime) -> DreamStep:
        """Have the open tasks compared with what was noted since. Raises ProviderError and StoreError."""
        return self._review("review", ("review",), model, now)

    def unreviewed(self, today: date, mark: str = "review") -> bool:
        """Tell whether there are tasks, and they or the notes changed since they were gone through."""
        if all(item.source for item in self.pulse.items()):
            return False
        return self.marks.get(mark) != f"{self.pulse.revision()} {_stamp_notes(self._notes(today, _REVIEW_DAYS))}"

    def _review(self, template: str, marks: Sequence[str], model: DreamModel, now: datetime) -> DreamStep:
        """Ask, and change what may be changed; an answer that is none changes nothing. Sets the marks when done."""
        if not self.unreviewed(now.date(), template):
            return DreamStep()
        lately = self._notes(now.date(), _REVIEW_DAYS)
        done = dict.fromkeys(marks, _stamp_notes(lately))
        items = [item for item in self.pulse.items() if not item.source]
        prompt, listed = self.prompts[template], "\n".join(map(format_item, items))
        own = [note._replace(text=_remove_foreign(note.text)) for note in lately]
        shown = [note.text for note in _take_fitting(own, model.room(prompt) - count_bytes(listed))]
        values = {"tasks": listed, "content": "\n\n".join(reversed(shown))}
        answer = model.ask(_fill(prompt, values, now=f"{now:%F %R}"))
        found = None if answer.cut else _parse_list(answer.text)
        changes, problem = _check_changes(found, items, versions.gather_source([listed, *shown]))
        by = PulseAuthor(template, now)
        try:
            self.pulse.apply(changes, by, done)
        except StoreError as error:
            changes, problem = [], str(error)
            self.pulse.apply([], by, done)
        return DreamStep("; ".join(filter(None, [_describe_changes(changes, items), problem])), answer.usage)

    def housekeeping(self, now: datetime) -> DreamStep:
        """Do what takes no model: forget what was completed long ago, old versions; compare the skills."""
        self.pulse.forget(now)
        with explain_failure(str(self.home / versions.HISTORY_FOLDER)):
            versions.prune_versions(self.home)
        found = find_overlaps(self.skills())
        told = self.marks.get("dream.overlaps").split("\n")
        self.marks.set("dream.overlaps", "\n".join(found))
        news = [pair for pair in found if pair not in told]
        return DreamStep(f"skills that overlap: {'; '.join(news)}" if news else "")

    def _notes(self, today: date, days: int) -> list[Page]:
        return notes.read_recent_notes(self.workspace, today, days)


def _read_mark(mark: str) -> tuple[str, dict[str, str]]:
    """What went into a page: the stamp of what came of it, and those of the notes by their paths."""
    try:
        memory, taken = json.loads(mark)
    except (ValueError, TypeError, RecursionError):  # a damaged mark is none: the notes are looked at once more
        return "", {}
    return memory, taken


def _take_fitting(pages: Iterable[Page], room: int) -> list[Page]:
    """The first of the pages that there is room for, in bytes."""
    fitting = []
    for page in pages:
        room -= count_bytes(page.text) + 2
        if room < 0:
            break
        fitting.append(page)
    return fitting


def _fill(template: str, values: dict[str, str], **more: str) -> str:
    """Fill a template; what it has no place for comes at its end."""
    template += "".join(f"\n{{{name}}}" for name in values if f"{{{name}}}" not in template)
    return fill_template(template, values | more)


def _parse_list(text: str) -> list[Any] | None:
    """Find the JSON list in an answer, also in words around it; None when there is none."""
    for start, end in (("[", "]"), ("{", "}")):
        try:
            found = json.loads(text[text.index(start) : text.rindex(end) + 1])
        except (ValueError, RecursionError):
            continue
        return found if isinstance(found, list) else [found]
    return None


def _check_changes(
    found: list[Any] | None, items: Sequence[PulseItem], known: versions.FactSource
) -> tuple[list[PulseChange], str]:
    """The changes that can be made, and what was wrong with others, or with all of them."""
    if found is None:
        return [], "the model's answer was no list of changes, so nothing was changed"
    if len(found) > _MAX_CHANGES:
        return [], f"the model wanted {len(found)} changes, more than {_MAX_CHANGES}, so nothing was changed"
    changes, problems = [], []
    for given in found:
        try:
            changes.append(_check_change(given, items, known))
        except InvalidArgument as error:
            problems.append(str(error))
    done = {change.number for change in changes if change.action == "complete"}
    if len(done) > max(1, len(items) // 2):
        return [], f"the model wanted {len(done)} of {len(items)} tasks completed, so nothing was changed"
    left_out = f"left out of the model's changes: {versions.quote_lines(problems)}" if problems else ""
    return list(dict.fromkeys(changes)), left_out


def _check_change(given: Any, items: Sequence[PulseItem], known: versions.FactSource) -> PulseChange:
    if not isinstance(given, dict):
        raise InvalidArgument("a change must be an object")
    values = check_arguments(
        _CHANGE_PARAMETERS, {"task" if name == "id" else str(name): value for name, value in given.items()}
    )
    change = PulseChange(values["action"], values["task"], values["text"].strip(), values["priority"])
    if change.action == "add":
        change = change._replace(number=0)
    elif change.number not in {item.number for item in items}:
        raise InvalidArgument(f"there is no task {change.number}")
    if change.action == "complete":
        return change._replace(text="", priority=0)
    if change.text and not versions.is_supported(change.text, known):
        raise InvalidArgument(f"nobody said {change.text!r}")
    if not change.text and (change.action == "add" or not change.priority):
        raise InvalidArgument(f"'text' is missing to {change.action}")
    return change


def _describe_changes(changes: Sequence[PulseChange], items: Sequence[PulseItem]) -> str:
    words = {item.number: item.text for item in items}
    made = {
        done: [change.text or words[change.number] for change in changes if change.action == action]
        for action, done in _ACTION_LABELS.items()
    }
    return ", ".join(f"{len(texts)} {done} ({versions.quote_lines(texts)})" for done, texts in made.items() if texts)


def _check_answer(old: str, shown: Sequence[Page], answer: WholeAnswer) -> tuple[str, list[str], str]:
    """Make of an answer the text that may take the place of the old one, with what it lacked; or say why there is none.

    Returns the text, the entries that were put back, and what is wrong, '' for nothing.
    """
    if answer.cut:
        return "", [], "the model's answer was cut off"
    new = remove_empty(remove_hidden(_FILE_TAG.sub("", answer.text)))
    known = versions.gather_source([old, *(note.text for note in shown), *map(_get_day, shown)])
    strange = versions.list_invented(new, known)
    new = remove_empty("\n".join(line for line in new.split("\n") if line not in strange))
    if strange and not versions.list_entries(new):
        return "", [], f"the model wrote what nobody said: {versions.quote_lines(strange)}"
    if new == old:
        return new, [], ""
    back, longest = list[str](), max(MAX_MEMORY_CHARS, len(old))
    problem = versions.find_fault(old, new, longest)
    if not problem:
        new, back = versions.restore_lost(old, new, "\n".join(note.text for note in shown))
        new = versions.keep_headings(old, *_date_notes(new, shown))
        if left := versions.list_lost(old, new):
            every = len(versions.list_entries(old))
            problem = f"{len(left)} of {every} entries would be lost: {versions.quote_lines(left)}"
        elif len(new) > longest:
            problem = f"with what it left out it has {len(new)} characters of at most {longest}"
    return ("", [], f"the model's text is not used: {problem}") if problem else (new, back, "")


def _get_day(note: Page) -> str:
    stem = Path(note.name).stem
    return f"{stem[:4]}-{stem[4:6]}-{stem[6:]}"


def _date_notes(new: str, shown: Sequence[Page]) -> tuple[str, frozenset[str]]:
    """Give the day to notes that were only copied, whose hour alone says nothing later; returns what they are then."""
    dated = {
        entry: versions.HOUR.sub(f"{_get_day(note)}: ", entry, count=1)
        for note in shown
        for entry in versions.list_entries(note.text)
    }
    headings = {f"# {_get_day(note)}" for note in shown}  # of the day's notes, copied with them
    lines = [line for line in new.split("\n") if line.strip() not in headings]
    for at, line in enumerate(lines):
        for entry in versions.list_entries(line):
            lines[at] = line.replace(entry, dated.get(entry, entry), 1)
    return "\n".join(lines), frozenset(dated.values())


def _replace_page(home: Path, workspace: Path, found: MemoryPage, data: bytes, now: datetime) -> bool:
    """Put other bytes into the page, those there kept; False when they are not what was read. Raises StoreError."""
    name = str(found.path.relative_to(workspace))
    with notes.lock_notes(workspace), explain_failure(f"{name} cannot be written"):
        try:
            versions.keep_version(home, name, found.found or b"", data, now)
            now_there = read_bytes(found.path, _MAX_PAGE_BYTES, workspace)
            if found.path.is_symlink() or now_there != found.found:
                return False
            with files.open_folder(notes.resolve_place(workspace, name).above, make=True) as way:
                write_atomic(Path(found.path.name), data, folder=way)
        except ConfigError as error:
            raise StoreError(str(error)) from None
    return True


def restore_version(home: Path, workspace: Path, marks: Marks, number: int, now: datetime) -> Path:
    """Take the newest change back, or an earlier one by its number; returns where it was kept. Raises StoreError.

    What is there now is kept. No dream comes of an earlier MEMORY.md: the notes that went into what was not wanted are
    not taken in again.
    """
    path = versions.find_version(home, number)
    if path.suffix == ".json":
        notes.restore_correction(home, workspace, versions.read_correction(path), now)
        return path
    with explain_failure(f"{path} cannot be read"):
        data = read_file(path)
    try:
        found = _read_page(workspace)
    except ConfigError as error:
        raise StoreError(str(error)) from None
    shown = extract_rewritable(data.decode("utf-8", "replace"))
    marks.set(_WRITING_MARK, json.dumps((_compute_stamp(shown), _read_mark(marks.get(_TAKEN_MARK))[1])))
    if not _replace_page(home, workspace, found, data, now):
        raise StoreError("MEMORY.md was changed meanwhile; try again")
    return path


def _compute_stamp(text: str) -> str:
    """Tell a text from another that it may have become."""
    return f"{zlib.crc32(text.encode('utf-8', 'replace')):08x}.{len(text)}"


def _stamp_notes(pages: Iterable[Page]) -> str:
    return _compute_stamp("\n".join(note.text for note in pages))
