"""Tables of which one test tries every row: a test of its own for each costs more than what most rows try."""

import functools
import inspect
from itertools import islice

import pytest


def each_row(names, rows, ids=None):
    """Try every row in one test, with the arguments of `pytest.mark.parametrize`; it fails with all rows that failed, by name.

    Rows share the fixtures of the test, and none can be skipped: what needs its own is parametrized.
    """
    is_single = isinstance(names, str) and "," not in names
    names = [name.strip() for name in names.split(",") if name.strip()] if isinstance(names, str) else list(names)
    rows = [
        row if isinstance(row, type(pytest.param())) else pytest.param(*((row,) if is_single else row)) for row in rows
    ]
    ids = ids if ids is None or callable(ids) else list(islice(ids, len(rows)))
    assert rows
    assert not any(row.marks for row in rows), "a row has no marks: parametrize"
    assert all(len(row.values) == len(names) for row in rows)

    def name_row(number):
        name = rows[number].id or (ids[number] if isinstance(ids, list) else None)
        values = (str(ids(value)) if callable(ids) else repr(value) for value in rows[number].values)
        return f"row {number} ({', '.join(values) if name is None else name})"[:200]

    def decorate(test):
        @functools.wraps(test)
        def try_rows(**fixtures):
            failures = {}
            for number in range(len(rows)):
                try:
                    test(**fixtures, **dict(zip(names, rows[number].values, strict=True)))
                except (Exception, pytest.fail.Exception, pytest.skip.Exception) as failure:  # noqa: BLE001
                    failures[name_row(number)] = failure
                    failure.add_note(name_row(number))
            if failures:
                message = f"{len(failures)} of {len(rows)} rows failed: {'; '.join(failures)}"
                raise BaseExceptionGroup(message, list(failures.values()))

        signature = inspect.signature(test)
        left = [parameter for name, parameter in signature.parameters.items() if name not in names]
        try_rows.__signature__ = signature.replace(parameters=left)
        return try_rows

    return decorate
