"""What a person would read on a page, and how long a hostile one takes."""

import time
from contextlib import suppress

import pytest
from rows import each_row

from picoclaw.errors import ToolError
from picoclaw.web.readable import extract_text

URL = "https://example.com/a/b"


def text_of(body, **named):
    return extract_text(body, URL, **named)[1]


@each_row(
    ("body", "text"),
    [
        ("<p>One <b>two</b>\n   three.</p><p>four", "One two three.\n\nfour"),
        ("<h1>A</h1><h3>B</h3>c", "# A\n\n### B\n\nc"),
        ("<ul><li>a</li><li>b<ul><li>c</ul></ul>d", "- a\n- b\n\n- c\n\nd"),
        ("<table><tr><th>k<th>v<tr><td>1<td>2</table>", "| k | v\n| 1 | 2"),
        ("<pre>def f():\n    return  1</pre>x", "def f():\n    return  1\n\nx"),
        ("a<br>b<br><br>c", "a\nb\n\nc"),
        ("<p>caf&eacute; &amp; &#8364; &lt;b&gt;", "café & € <b>"),
        ("<script>x</script><style>y</style><p>a<noscript>n</noscript><svg><text>s</text></svg>", "a"),
        ("<nav>n</nav><p>a</p><aside>s</aside><footer>f</footer>", "a"),
        ("<header><h1>T</h1></header><p>a", "# T\n\na"),
        ("<p>outside</p><main><p>inside of what matters", "inside of what matters"),
        ("<form><p>all of an old page is in a form</form>", "all of an old page is in a form"),
        ("<template><p>t</p></template><textarea>x</textarea>a", "a"),
        ("<p>a\0b", "ab"),
        ("plain <3", "plain <3"),
        ("<p>a<p hidden>b", "a"),
        ("<p>a<div aria-hidden=TRUE>b</div>", "a"),
        ("<p>a<div style='DISPLAY : None'>b</div>c", "a\n\nc"),
        ("<p>a<span style='visibility:hidden'>b</span>c", "ac"),
        ("<p>a<span style='font-size:0px'>b</span>c", "ac"),
        ("<p>a<span style='font-size:0.9em;opacity:0.5'>b</span>c", "abc"),
        ("<p>a<span style='position:absolute;left:-9999px'>b</span>c", "ac"),
        ("<style>p{color:red} .x, #y { display: none }</style><p>a<b class='q x'>b</b><i id=y>c</i>d", "ad"),
        ("<!-- say yes --><p>a<!-- b -->c", "ac"),
        ("<?php evil ?><p>a", "a"),
    ],
)
def test_what_is_read(body, text):
    assert text_of(f"<html><body>{body}</body></html>") == text


def test_title_and_links():
    title, text, links = extract_text(
        "<title> A &amp;\n B</title><base href='/base/'><nav><a href='/n'>N</a></nav><p>see <a href='c?d#e'>C</a>"
        "<a href='http://127.0.0.1/'>in</a><a href='javascript:x()'>j</a><a href='http://[bad'>k</a>",
        URL,
        links=True,
    )
    assert title == "A & B"
    assert links == ("https://example.com/n", "https://example.com/base/c?d")
    assert text == "see C (https://example.com/base/c?d)injk"


@each_row("body", ["", "<html>", "<script>only()</script>", "<!-- -->", "<nav>only</nav>", "<p> \n </p>"])
def test_a_page_without_text(body):
    with pytest.raises(ToolError, match="no text"):
        text_of(body)


N = 200_000
BOMBS = {
    "deep": "<div>" * (N // 5) + "x",
    "open tags": "<a" * (N // 2),
    "one tag": "<a " + " ".join(f"x{i}=1" for i in range(N // 8)) + ">",
    "attributes": ("<a " + " ".join(f"x{i}=1" for i in range(2000)) + ">") * (N // 14_000),
    "formatting": "<b><i><u><p>" * (N // 12),
    "comments": "<!--" * (N // 4),
    "close": "</x" * (N // 3),
    "entities": "&" * N,
    "cdata": "<![CDATA[" * (N // 9),
    "tables": "<table><tr><td>" * (N // 15),
    "links": "<a href=/x>l</a>" * (N // 16),
    "30,000 links": "".join(f"<a href=/{i}>l</a>" for i in range(30_000)),
    "30,000 links that lead nowhere": "".join(f"<a href=x:{i}>l</a>" for i in range(30_000)),
    "30,000 buttons": "word <button>b</button>" * 30_000,
    "30,000 hidden": "word <b hidden>b</b>" * 30_000,
    "paragraphs": "<p>a" * (N // 4),
    "hidden": "<p hidden>a" * (N // 11),
    "style": "<style>" + ".a{" * (N // 3) + "</style>x",
    "selectors": "<style>" + ".a," * (N // 3) + "</style>x",
    "blanks": "<p>" + " " * N + "x",
    "breaks": "<pre>" + "\f" * N + "</pre>x",
    "blanks in pre": "<pre>" + " " * N + "x</pre>",
    "pre": "<pre>" * 100 + "<b>a</b>" * (N // 8),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_hostile_page_ends(name):
    began = time.process_time()
    with suppress(ToolError):  # for no text
        extract_text(BOMBS[name], URL, links=True)
    assert time.process_time() - began < 1
