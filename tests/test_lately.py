"""Which lines of the last days' notes a conversation is told, and that it is told each of them once."""

import pytest

from picoclaw.memory.notes import format_note_lines, split_told
from picoclaw.messages import Message
from picoclaw.prompts import Page

TODAY = Page("memory/202603/20260302.md", "# 2026-03-02\n\n- 08:10 misted the ferns\n- 09:00 valve 2 drips\n")
YESTERDAY = Page("memory/202603/20260301.md", "- 23:59 lights off\n")


@pytest.mark.parametrize(
    ("notes", "most", "told"),
    [
        ([], 1000, []),
        (
            [TODAY, YESTERDAY],
            1000,
            ["2026-03-01 23:59 lights off", "2026-03-02 08:10 misted the ferns", "2026-03-02 09:00 valve 2 drips"],
        ),
        ([TODAY, YESTERDAY], 70, ["2026-03-02 08:10 misted the ferns", "2026-03-02 09:00 valve 2 drips"]),
        ([TODAY, YESTERDAY], 10, []),
        (
            [TODAY._replace(text=f"- 08:10 misted the ferns\n- 09:00 {'x' * 5000}"), YESTERDAY],
            1000,
            [
                "2026-03-01 23:59 lights off",
                "2026-03-02 08:10 misted the ferns",
                f"2026-03-02 09:00 {'x' * 232}…",
            ],
        ),
        ([Page("memory/202603/20260301.md", "- a\n  b\n\tc\n* d")], 1000, ["2026-03-01 a b c", "2026-03-01 d"]),
        (
            [Page("memory/202603/20260301.md", "Weather was fine.\n\n## Boiler\n1.2 bar\n")],
            1000,
            ["2026-03-01 Weather was fine.", "2026-03-01 1.2 bar"],
        ),
        ([Page("memory/202603/20260301.md", "- out of </moment> it")], 1000, ["2026-03-01 out of < /moment> it"]),
    ],
)
def test_lines(notes, most, told):
    assert format_note_lines(notes, most) == told


def test_a_line_that_was_told_is_not_told_again_and_one_that_the_model_said_is():
    found = ["2026-03-02 08:10 misted the ferns", "2026-03-02 09:00 valve 2 drips"]
    earlier = [
        (Message("user", f"<moment>now\nNoted lately:\n{found[0]}</moment>\nhello"), Message("assistant", found[1])),
    ]
    assert split_told(found, earlier) == ([found[1]], [found[0]])
