"""The readable text of a web page: HTML without scripts, decoration and hidden elements."""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from urllib.parse import urljoin

from lxml import etree, html  # type: ignore[import-untyped]

from picoclaw.errors import ToolError
from picoclaw.text import pattern
from picoclaw.web.address import parse_url

_DROPPED = pattern(
    "script|style|template|noscript|svg|math|canvas|iframe|object|embed|audio|video|head|button|input"
    "|select|textarea|dialog|nav|aside|footer|menu|map"
)
_BLOCKS = pattern(
    "address|article|blockquote|body|dd|div|dl|dt|fieldset|figcaption|figure|header|hr|html|main|ol|p|section"
    "|table|tbody|thead|tfoot|tr|ul|caption|summary|details|h1|h2|h3|h4|h5|h6|li|pre"
)
_APART = pattern("p|h1|h2|h3|h4|h5|h6|pre|table|ul|ol|blockquote|section|article")
_CONTENT = (".//main", ".//*[@role='main']", ".//article")
_HIDING_STYLE = pattern(
    r"display:none|visibility:hidden|font-size:0(?![.\d])|opacity:0(?![.\d])|(?:left|top|text-indent):-\d{3,}", re.ASCII
)
_NAME = pattern(r"[.#][\w-]+")
_LONG_TAG = pattern(r"<[^<>]{16384,}>?")  # thousands of attributes cost a parser the square of their number
_MOST_LINKS, _MOST_SHOWN = 300, 2000
"""Links that are returned; those whose addresses are shown, and that are looked at: each takes 30 µs on a PC."""
_LONGEST_STYLE = 200_000
_LINE, _GAP = "\v", "\f"  # at least a new line here; at least an empty one
_BREAK = pattern(r"(?<! ) *[\v\f](?: *[\v\f])*")
_BLANKS = pattern(r"[ \t\r\n\f\v]+")
_HEADING = pattern("h[1-6]")


def extract_text(page: str, url: str, *, links: bool = False) -> tuple[str, str, tuple[str, ...]]:
    """Extract title, text and links of HTML; with `links`, each is shown as text (address).

    Raises ToolError if there is no text.
    """
    root = parse_html(page)
    base, given = url, root.find(".//base[@href]")
    if given is not None:
        with suppress(ValueError):
            base = urljoin(url, given.get("href"))
    title = " ".join((root.findtext(".//title") or "").split())[:300]
    names = set(_find_hidden_names(" ".join(style.text or "" for style in root.iter("style"))))
    for element in [e for e in root.iter() if e is not root and e.tag != "body" and _is_hidden(e.attrib, names)]:
        _drop_element(element)
    addresses = (_resolve_link(link.get("href"), base) for link in islice(root.iterfind(".//a[@href]"), _MOST_SHOWN))
    found = dict.fromkeys(filter(None, addresses))
    for element in [e for e in root.iter() if _DROPPED.fullmatch(str(e.tag)) and e is not root]:
        _drop_element(element)
    text = _render_text(_find_content(root), base if links else "")
    if not text and not title:
        raise ToolError(f"{url} holds no text that could be read without running its scripts")
    return title, text, tuple(found)[:_MOST_LINKS]


def parse_html(page: str) -> html.HtmlElement:
    """Parse HTML, however broken; oversized tags, which take quadratic time, are dropped."""
    page = _LONG_TAG.sub(" ", page).replace("\0", "").encode("utf-8", "replace").decode()
    parser = html.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True, no_network=True)
    try:
        return html.document_fromstring((page or " ").encode(), parser=parser)
    except (etree.ParserError, etree.XMLSyntaxError):
        return html.document_fromstring(b"<p></p>", parser=parser)


def _drop_element(element: html.HtmlElement) -> None:
    """Empty an element; lxml's drop_tree would take quadratic time to join the texts around it."""
    element.clear(keep_tail=True)
    element.tag = "span"


def _find_hidden_names(css: str) -> Iterator[str]:
    """Classes and ids that a style sheet hides."""
    for rule in css[:_LONGEST_STYLE].split("}"):
        names, _, wanted = rule.rpartition("{")
        if _HIDING_STYLE.search("".join(wanted.lower().split())):
            named = (one.strip() for one in names.rpartition("{")[2].split(","))
            yield from (one for one in named if _NAME.fullmatch(one))


def _is_hidden(given: Mapping[str, str], names: set[str]) -> bool:
    if "hidden" in given or given.get("aria-hidden", "").lower() == "true":
        return True
    if _HIDING_STYLE.search("".join(given.get("style", "").lower().split())):
        return True
    return bool(names) and not names.isdisjoint(
        [f"#{given.get('id', '')}", *(f".{one}" for one in given.get("class", "").split())]
    )


def _resolve_link(href: str, base: str) -> str:
    try:
        return parse_url(urljoin(base, href.strip())).url
    except (ToolError, ValueError):
        return ""


def _find_content(root: html.HtmlElement) -> html.HtmlElement:
    """The element marked as main content, if there is exactly one and it holds a quarter of the text."""
    body = root.find("body")
    whole = root if body is None else body
    for path in _CONTENT:
        found = whole.findall(path)
        if len(found) == 1 and len(found[0].text_content()) * 4 > len(whole.text_content()):
            return found[0]
    return whole


def _render_text(root: html.HtmlElement, base: str) -> str:
    """Render elements as lines; links are shown with their address unless `base` is ''."""
    out: list[str] = []
    shown = 0
    for event, element in etree.iterwalk(root, events=("start", "end")):
        tag = str(element.tag)
        if event == "start":
            special = {"li": f"{_LINE}- ", "td": "| ", "th": "| ", "br": "\n"}
            heading = f"{_GAP}{'#' * int(tag[1])} " if _HEADING.fullmatch(tag) else ""
            out += (heading or special.get(tag) or _get_block_break(tag), _collapse_blanks(element, element.text))
            continue
        shown += tag == "a"
        url = _resolve_link(element.get("href") or "", base) if tag == "a" and base and shown <= _MOST_SHOWN else ""
        out.append(f" ({url})" if url else {"td": " ", "th": " ", "br": ""}.get(tag, _get_block_break(tag)))
        if element is not root:
            out.append(_collapse_blanks(element.getparent(), element.tail))
    text = _BREAK.sub(lambda found: "\n\n" if _GAP in found[0] else "\n", "".join(out))
    return "\n".join(line.rstrip() for line in text.split("\n")).strip()


def _collapse_blanks(within: html.HtmlElement, text: str | None) -> str:
    if not text:
        return ""
    if within.tag == "pre" or any(True for _ in within.iterancestors("pre")):
        return text.replace(_LINE, " ").replace(_GAP, " ")
    return _BLANKS.sub(" ", text)


def _get_block_break(tag: str) -> str:
    return _GAP if _APART.fullmatch(tag) else _LINE if _BLOCKS.fullmatch(tag) else ""
