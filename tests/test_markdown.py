"""What a reader sees of a text: comments and invisible characters go, code and all that is shown stays."""

import itertools

import pytest
import sweep
from rows import each_row
from timing import is_in_proportion

from picoclaw.markdown import describe_hidden, remove_hidden
from picoclaw.text import remove_invisible

ONE = "1 comment"

# What is shown of a text, and what is left out, for a text of a stranger's.
TEXTS = [
    ("a <!-- x --> b", "a  b", [ONE]),
    ("a\n<!-- x -->\nb", "a\nb", [ONE]),
    ("a\n  <!-- x\n\ny --> \t\nb", "a\nb", [ONE]),
    ("<!-- x --><!-- y -->\nb", "b", ["2 comments"]),
    ("<!--> a <!---> b", " a  b", ["2 comments"]),
    ("<!-- x --> `<!-- y -->`", " ``", ["2 comments"]),
    ("<!-- x\r\ny -->\r\nb\rc", "b\nc", [ONE]),
    ("a <!-- never closed", "a <!-- never closed", []),
    ("a <!-- \n\n- b -->", "a <!-- \n\n- b -->", []),
    ("a\n<!-- never closed\nb", "a\n", [ONE]),
    ("a <? x ?> b <!A x> c <![CDATA[ x ]]> d", "a  b  c  d", ["3 comments"]),
    ("<?php x\n\ny ?>\nb", "b", [ONE]),
    ("[//]: # (x)\nb", "b", [ONE]),
    ("[note]: # 'x'\n[more]: <> \"y\"\nb", "b", ["2 comments"]),
    ("a\n\n[//]: # (x\ny)\nb", "a\n\nb", [ONE]),
    ("- [//]:\n  <>\n  (x)\n", "- \n", [ONE]),
    ("> [//]: #\n> (x)\n> b", "> \n> b", [ONE]),
    ("a\n[//]: # (in a paragraph, and shown)", "a\n[//]: # (in a paragraph, and shown)", []),
    ("[//]: # no definition", "[//]: # no definition", []),
    ("[//]: # (x\n\ny)", "[//]: # (x\n\ny)", []),
    ("[^1]: # (x)", "[^1]: # (x)", []),
    ("see [Docs] now\n\n[docs]: http://a/ (b)", "see [Docs] now\n\n[docs]: http://a/ (b)", []),
    ("a\n\n[docs]: http://a/ (x)\n[x]: <y z>", "a\n\n", ["2 unused links"]),
    ("```sh\nls <!-- a -->\n[//]: # (a)\n```\n", "```sh\nls <!-- a -->\n[//]: # (a)\n```\n", []),
    ("```sh x y\nls\n```\n", "```sh\nls\n```\n", [ONE]),
    ("~~~\n<!-- a -->\n```\n<!-- b -->", "~~~\n<!-- a -->\n```\n<!-- b -->", []),
    ("```\n<!-- a -->\n````\n<!-- x -->\nb", "```\n<!-- a -->\n````\nb", [ONE]),
    ("``` a`b\n<!-- x -->\nc", "``` a`b\nc", [ONE]),
    ("1. a\n\n   1. b\n\n      ```\n      <!-- a -->\n      ```", None, []),
    ("1. a\n\n       <!-- code -->", None, []),
    ("1. a\n\n    <!-- x -->\n    b", "1. a\n\n    b", [ONE]),
    ("    <!-- code -->\n\n\t<!-- code -->", None, []),
    ("a\n    <!-- x -->\nb", "a\nb", [ONE]),
    ("- a\nb\n\n      <!-- code -->\n", None, []),
    ("1. a\nb\n\n    <!-- x -->\n", "1. a\nb\n\n", [ONE]),
    ("    ```\n<!-- x -->\nb", "    ```\nb", [ONE]),
    ("> ```\n<!-- x -->\nb", "> ```\nb", [ONE]),
    ("> ```\n\n<!-- x -->\nb", "> ```\n\nb", [ONE]),
    ("- ```\n<!-- x -->\nb", "- ```\nb", [ONE]),
    ("- ```\n\n  <!-- a -->", None, []),
    ("a `<!--` b `-->` c", None, []),
    ("a ``<!-- ` -->`` c", None, []),
    ("a `b\nc <!-- ` d -->", None, []),
    ("a `b\n\nc <!-- x -->` d", "a `b\n\nc ` d", [ONE]),
    ("# a `b\nc <!-- x -->` d", "# a `b\nc ` d", [ONE]),
    ("- a `b\n- c <!-- x -->` d", "- a `b\n- c ` d", [ONE]),
    ("a `b\n---\nc <!-- x -->` d", "a `b\n---\nc ` d", [ONE]),
    ("\\`a <!-- x -->` b", "\\`a ` b", [ONE]),
    ("\\<!-- a -->", None, []),
    ("<a title='`'> <!-- x --> `", "<a title='`'>  `", [ONE]),
    ("a < b && c > d <!ok", None, []),
    ("", "", []),
]


@each_row(("text", "shown", "left_out"), TEXTS, ids=[repr(case[0]) for case in TEXTS])
def test_what_is_shown_and_what_is_not(text, shown, left_out):
    assert remove_hidden(text) == (text if shown is None else shown)
    assert describe_hidden(text) == left_out


TRUSTED = [
    ("a\n\n<!-- never closed\n", "a\n\n<!-- never closed\n"),
    ("<!-- x --> b <!-- c", " b <!-- c"),
    ("<!-- draft\n- Never send mail.\n\n<!-- ours -->\nb", "<!-- draft\n- Never send mail.\n\nb"),
    ("<!-- draft\n- Never send mail.\n\nb <!-- c -->\nd", "<!-- draft\n- Never send mail.\n\nb \nd"),
    ("a <!-- draft\nNever send mail. <!-- c --> d", "a <!-- draft\nNever send mail.  d"),
    ("<?draft\nNever send mail.\n<?ours?>\nb", "<?draft\nNever send mail.\nb"),
    ("<!-- a --><!-- b\nc --> d", " d"),
    ("<!--" * 99_999 + "\n" + "<!--\n" * 99_999 + "-->", "<!--" * 99_999 + "\n" + "<!--\n" * 99_998),
    ("[pump]: GPIO17", "[pump]: GPIO17"),
    ("[//]: # (x)\nb", "b"),
    ("```sh a b\n```", "```sh a b\n```"),
]


@each_row(("text", "shown"), TRUSTED, ids=[repr(case[0]) for case in TRUSTED])
def test_of_the_owners_own_text_nothing_is_lost_that_they_may_miss(text, shown):
    assert remove_hidden(text, trusting=True) == shown


SEEN = [
    "Zoë’s naïve café — 23.5 °C ±1 µg/m³",
    "می‌خواهم",
    "नी\u200dल ක්\u200dරි",
    "👩\u200d🌾 👩🏽\u200d🚀 ❤️\u200d🔥 🏳️\u200d🌈 1️⃣ ☀︎ ©️",
    "日本語 한국어 ไทย עברית",
    "tab\tnew\nline",
]


@each_row("text", SEEN)
def test_what_every_script_needs_stays(text):
    assert remove_invisible(text) == text


UNSEEN = [
    *"\0\x08\x1b\x7f\x9b\xad\u034f\u061c\u115f\u1160\u17b4\u180b\u180e\u200b\u200c\u200d\u200e\u202e\u2060\u2064\u2066",
    *"\u2069\u206f\u2800\u3164\ufe00\ufe0f\ufeff\uffa0\ufff9\ud800\U0001d173\U000e0001\U000e0041\U000e0100",
    "\u200c\u200d",
    "\ufe0e\ufe0f" * 9,
    "\u200d\ufe0f",
    "\u200b\u200d\U000e0041\ufe0e",
]


@each_row("odd", UNSEEN, ids=[ascii(odd)[1:20] for odd in UNSEEN])
def test_what_nobody_sees_is_left_out(odd):
    assert remove_hidden(f"a{odd}b`{odd}`") == "ab``"
    assert describe_hidden(f"a{odd}b") == [f"{len(odd)} invisible character{'s' if len(odd) > 1 else ''}"]
    assert remove_invisible(f"{odd}👩{odd}") in {"👩", "👩\ufe0e", "👩\ufe0f"}
    assert remove_invisible(remove_invisible(f"{odd}ب{odd}ب")) == remove_invisible(f"{odd}ب{odd}ب")


PIECES = [
    *("<!--", "`", "`<!--", "<!", "<!A", "<?", "<a", "<![CDATA[", "[", "[a", "[a](", "[a]: ", "[a\\", "\\", "\\`", "- - "),
    *("[a]: b\n", "[a]: #\n", "[a]: <a\n", "[a]: x (\n", '[a]: x "\n', "[a]:\n", "[a]:\n\n", "> ", "> \n", "- ", "- \n"),
    *("1. ", "* ", "# \n", "\n", " ", "<!-->", "<!--\n", "a <!--\n", "a <!--\n\n", "    <!--\n", "```\n", "~~~ \n"),
    *("- ```\n", "a\n=\n", "<!-- a --> `", "\u200d", "\ufe0f", "`` ` ``` ", "[a]: x '\n[a]: x (\n[a]: x \"\n"),
]  # fmt: skip
MOULDS = {
    "runs": lambda n: "`" * (n // 2) + "<!--" + "a" * (n // 2) + "`",
    "all runs": lambda n: "<!" + " ".join("`" * i for i in range(1, int((2 * n) ** 0.5))),
    "deep": lambda n: "- " * 100 + "<!--\n" + "\n" * n,
    "deep lines": lambda n: "> " * 100 + "\n" + "a <!--\n" * (n // 7),
    "late": lambda n: '[a]: x "' + "a\n" * (n // 2),
    "names": lambda n: "".join(f"[{i}]: b\n" for i in range(n // 10)),
    "one line": lambda n: "<!-- -->" * (n // 8),
}
MOULDS |= {piece: lambda n, piece=piece: piece * (n // len(piece)) for piece in PIECES}


@pytest.mark.sweep
@pytest.mark.parametrize(("mould", "trusting"), sweep.sample(itertools.product(MOULDS, [False, True]), 3), ids=ascii)
def test_it_takes_time_in_proportion(mould, trusting):
    """Four times the text takes about four times as long; sixteen times would be its square."""

    def work(size):
        text = MOULDS[mould](size)
        return lambda: describe_hidden(text, trusting=trusting)

    assert is_in_proportion(work, 16_000, 64_000, 10, 0.1)
