"""`NamedTuple` and `dataclass` as the standard library has them, for a tenth of what a class of theirs costs at start.

Theirs write source text and compile it for each class, 0.2 to 1 ms on a PC and eight times that on a Pi Zero 2 W, and
import inspect, ast and tokenize. picoclaw has 250 such classes. What the package uses of them behaves the same here; an
object takes about a microsecond longer to make. Type checkers see the standard ones.
"""

import sys
from typing import TYPE_CHECKING

__all__ = ["MISSING", "NamedTuple", "asdict", "dataclass", "field", "fields", "is_dataclass", "replace"]

if TYPE_CHECKING or sys.version_info >= (3, 14):  # where annotations are only made when somebody asks for them
    from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass, replace
    from typing import NamedTuple
else:
    from _collections import _tuplegetter

    MISSING = object()

    class _TupleFields(type):
        """Turns the annotations of a class body into fields."""

        def __new__(mcs, name, bases, body):
            names = tuple(body.get("__annotations__", ()))
            if bases and names:
                body["_fields"], body["__match_args__"] = names, names
                body["_field_defaults"] = {field: body[field] for field in names if field in body}
                body |= {field: _tuplegetter(place, "") for place, field in enumerate(names)}
            return super().__new__(mcs, name, bases, {"__slots__": ()} | body)

    class NamedTuple(tuple, metaclass=_TupleFields):
        __slots__ = ()
        _fields, _field_defaults = (), {}

        def __new__(cls, *values, **named):
            fields = cls._fields
            if named or len(values) != len(fields):
                given = cls._field_defaults | named
                missing = [name for name in fields[len(values) :] if name not in given]
                if missing or len(values) > len(fields) or not named.keys() <= set(fields[len(values) :]):
                    raise TypeError(f"{cls.__name__}() takes {', '.join(fields)}, not {values} and {named}")
                values += tuple([given[name] for name in fields[len(values) :]])
            return tuple.__new__(cls, values)

        @classmethod
        def _make(cls, values):
            return cls(*values)

        def _replace(self, /, **changes):
            made = tuple.__new__(type(self), map(changes.pop, self._fields, self))
            if changes:
                raise TypeError(f"{type(self).__name__} has no {', '.join(changes)}")
            return made

        def _asdict(self):
            return dict(zip(self._fields, self, strict=True))

        def __repr__(self):
            return f"{type(self).__name__}({', '.join([f'{k}={v!r}' for k, v in self._asdict().items()])})"

        def __getnewargs__(self):
            return tuple(self)

    class _Field:
        def __init__(self, default=MISSING, default_factory=MISSING, init=True, repr=True, compare=True):  # noqa: A002
            self.default, self.default_factory = default, default_factory
            self.init, self.repr, self.compare = init, repr, compare

    def fields(record):
        return tuple(record.__record_fields__.values())

    def is_dataclass(kind):
        return hasattr(kind, "__record_fields__")

    def field(**options):
        return _Field(**options)

    def replace(record, /, **changes):
        given = {f.name: getattr(record, f.name) for f in fields(record) if f.init}
        return type(record)(**(given | changes))

    def asdict(record):
        return {f.name: _as_plain(getattr(record, f.name)) for f in fields(record)}

    def _as_plain(value):
        if is_dataclass(value):
            return asdict(value)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*map(_as_plain, value))
        if isinstance(value, list | tuple):
            return type(value)(map(_as_plain, value))
        return {key: _as_plain(inner) for key, inner in value.items()} if isinstance(value, dict) else value

    def dataclass(cls=None, /, *, frozen=False, eq=True):
        if cls is None:
            return lambda cls: dataclass(cls, frozen=frozen, eq=eq)
        own = cls.__dict__
        found = dict(getattr(cls, "__record_fields__", {}))
        for name, annotation in own.get("__annotations__", {}).items():
            default = own.get(name, MISSING)
            made = default if isinstance(default, _Field) else _Field(default)
            made.name, made.type, found[name] = name, annotation, made
            if made.default is not MISSING:
                setattr(cls, name, made.default)
            elif default is made:
                delattr(cls, name)
        cls.__record_fields__ = found
        cls.__record_names__ = tuple([name for name, field in found.items() if field.init])
        cls.__record_defaults__ = {n: field.default for n, field in found.items() if field.default is not MISSING}
        cls.__init__ = _set_fields
        methods = {"__repr__": _show_fields}
        if eq:
            methods |= {"__eq__": _have_equal_fields, "__hash__": _hash_fields if frozen else None}
        if frozen:
            methods |= {"__setattr__": _refuse_change, "__delattr__": _refuse_change}
        for name, method in methods.items():
            if name not in own or own[name] is None:
                setattr(cls, name, method)
        return cls

    def _set_fields(self, /, *values, **named):
        cls = type(self)
        names = cls.__record_names__
        if len(values) > len(names) or not named.keys() <= set(names[len(values) :]):
            raise TypeError(f"{cls.__name__}() takes {', '.join(names)}, not {values} and {named}")
        given = self.__dict__
        given.update(cls.__record_defaults__)
        given.update(zip(names, values, strict=False))
        given.update(named)
        if len(given) < len(cls.__record_fields__):
            for name, field in cls.__record_fields__.items():
                if name not in given and field.default_factory is not MISSING:
                    given[name] = field.default_factory()
                elif name not in given and field.init:
                    raise TypeError(f"{cls.__name__}() needs {name}")

    def _show_fields(self):
        shown = [f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if f.repr]
        return f"{type(self).__name__}({', '.join(shown)})"

    def _compared(self):
        return tuple([getattr(self, f.name) for f in fields(self) if f.compare])

    def _have_equal_fields(self, other):
        return _compared(self) == _compared(other) if type(other) is type(self) else NotImplemented

    def _hash_fields(self):
        return hash(_compared(self))

    def _refuse_change(self, name, *_):
        raise AttributeError(f"{name} of {type(self).__name__} cannot be changed")
