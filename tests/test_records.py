"""picoclaw.records behaves as typing.NamedTuple and dataclasses do: each row is run on both."""

import copy
import dataclasses
import pickle
import typing

from rows import each_row

from picoclaw import records


def make(library, tuples):
    class Point(tuples.NamedTuple):
        x: int
        y: int = 2

        @property
        def total(self):
            return self.x + self.y

    class Named(Point):
        def double(self):
            return self.total * 2

    @library.dataclass(frozen=True)
    class Limits:
        steps: int = 20
        names: list = library.field(default_factory=list)
        key: str = library.field(default="", repr=False, compare=False)

    @library.dataclass
    class Run:
        limits: Limits
        used: int = library.field(default=0, init=False)

    return Point, Named, Limits, Run


CASES = {
    "fields by place": lambda point, *_: tuple(point(1, 5)),
    "fields by name": lambda point, *_: tuple(point(y=1, x=5)),
    "a default": lambda point, *_: point(1),
    "too few": lambda point, *_: point(),
    "too many": lambda point, *_: point(1, 2, 3),
    "twice": lambda point, *_: point(1, x=2),
    "unknown": lambda point, *_: point(1, z=2),
    "replaced": lambda point, *_: point(1)._replace(y=7),
    "replaced unknown": lambda point, *_: point(1)._replace(z=7),
    "as a dict": lambda point, *_: point(1)._asdict(),
    "made of a row": lambda point, *_: point._make([3, 4]),
    "made of a short row": lambda point, *_: tuple(point._make([3, 4])),
    "names": lambda point, *_: (point._fields, point._field_defaults, point.__match_args__),
    "a method": lambda point, named, *_: (named(1).double(), point(1).total),
    "equal, hash, order": lambda point, *_: (point(1) == (1, 2), hash(point(1)) == hash((1, 2)), point(1) < point(2)),
    "copied": lambda point, *_: copy.copy(point(1)),
    "no other attributes": lambda point, *_: setattr(point(1), "z", 1),
    "unpacked": lambda point, *_: [*point(1)],
    "dataclass": lambda _, __, limits, ___: limits(3),
    "dataclass, own list": lambda _, __, limits, ___: limits().names is limits().names,
    "dataclass, shown": lambda _, __, limits, run: repr(run(limits(key="secret"))),
    "dataclass, equal": lambda _, __, limits, ___: (limits(1) == limits(1, key="a"), limits(1) == limits(2), limits(1) == 1),
    "dataclass, no hash with a list": lambda _, __, limits, ___: hash(limits()),
    "dataclass, frozen": lambda _, __, limits, ___: setattr(limits(), "steps", 1),
    "dataclass, needs one": lambda _, __, ___, run: run(),
    "dataclass, unknown": lambda _, __, limits, ___: limits(wrong=1),
    "dataclass, too many": lambda _, __, limits, ___: limits(1, [], "", 4),
    "dataclass, twice": lambda _, __, limits, ___: limits(1, steps=4),
    "dataclass, not to be given": lambda _, __, limits, run: run(limits(), used=3),
    "dataclass, changed": lambda _, __, limits, run: [r := run(limits()), setattr(r, "used", 4), r.used][2],
    "dataclass, its default": lambda _, __, limits, ___: limits.steps,
}  # fmt: skip
ON_FIELDS = {
    "replace": lambda library, limits, _: library.replace(limits(3, ["a"], "k"), steps=4),
    "replace unknown": lambda library, limits, _: library.replace(limits(), wrong=4),
    "asdict": lambda library, limits, run: library.asdict(run(limits(3, ["a"], "k"))),
    "fields": lambda library, limits, _: [(f.name, f.type, f.repr) for f in library.fields(limits)],
    "is one": lambda library, limits, _: (library.is_dataclass(limits), library.is_dataclass(int)),
}


def outcome(act, *given):
    try:
        return repr(act(*given)).replace("make.<locals>.", "")
    except (TypeError, AttributeError, ValueError) as error:
        return "refused" if not isinstance(error, AttributeError) else "no such attribute"


@each_row("case", CASES)
def test_as_the_standard_library(case):
    ours, theirs = make(records, records), make(dataclasses, typing)
    expected = outcome(CASES[case], *theirs)
    assert outcome(CASES[case], *ours) == expected


@each_row("case", ON_FIELDS)
def test_functions_as_the_standard_library(case):
    ours, theirs = make(records, records)[2:], make(dataclasses, typing)[2:]
    assert outcome(ON_FIELDS[case], records, *ours) == outcome(ON_FIELDS[case], dataclasses, *theirs)


def test_pickled():
    from picoclaw.schema import Span

    assert pickle.loads(pickle.dumps(Span(1, 2))) == Span(1, 2)
