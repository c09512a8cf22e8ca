"""A table that one test tries: each row is tried, and what failed is named."""

import inspect

import pytest
from rows import each_row


def failures_of(test, **fixtures):
    """What a test says that fails: of its rows, and of each."""
    with pytest.raises(BaseExceptionGroup) as found:
        test(**fixtures)
    return found.value.message, [(str(failure), failure.__notes__) for failure in found.value.exceptions]


def test_every_row_is_tried_and_each_that_fails_is_named():
    tried = []

    @each_row(("number", "root"), [(4, 2), (9, 4), pytest.param(16, 4, id="sixteen"), pytest.param(25, 6, id="wrong")])
    def test(folder, number, root):
        tried.append((folder, number))
        if root * root != number:
            raise ValueError(number)

    said = "2 of 4 rows failed: row 1 (9, 4); row 3 (wrong)"
    assert failures_of(test, folder="f") == (said, [("9", ["row 1 (9, 4)"]), ("25", ["row 3 (wrong)"])])
    assert tried == [("f", 4), ("f", 9), ("f", 16), ("f", 25)]
    assert list(inspect.signature(test).parameters) == ["folder"]


@each_row("how", [pytest.fail, pytest.skip], ids=["fails", "skips"])
def test_what_pytest_calls_a_failure_and_a_skipped_row_are_failures(how):
    @each_row("number", [1, 2, 3])
    def test(number):
        if number < 3:
            how("for a reason")

    message, failures = failures_of(test)
    assert message.startswith("2 of 3 rows failed")
    assert [text for text, _ in failures] == ["for a reason"] * 2


def test_of_two_tables_each_pair_is_tried():
    tried = []

    @each_row("first", "ab")
    @each_row("second", [1, 2])
    def test(first, second):
        tried.append((first, second))

    test()
    assert tried == [("a", 1), ("a", 2), ("b", 1), ("b", 2)]


def test_a_row_of_another_length_and_an_empty_table_are_mistakes():
    for rows in ([(1, 2), (1,)], []):
        with pytest.raises(AssertionError):
            each_row(("first", "second"), rows)
    with pytest.raises(AssertionError, match="parametrize"):
        each_row("first", [pytest.param(1, marks=pytest.mark.skip)])
