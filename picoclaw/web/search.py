"""Web search by SearXNG, Brave or DuckDuckGo.

Sources: https://docs.searxng.org/dev/search_api.html, https://api-dashboard.search.brave.com/app/documentation.
DuckDuckGo has no API; its page without scripts is read, which it may refuse at any time.
"""

import html
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qs, urlencode, urljoin, urlsplit

from picoclaw.errors import ToolError
from picoclaw.messages import Stop
from picoclaw.records import NamedTuple
from picoclaw.text import truncate
from picoclaw.web.address import parse_url
from picoclaw.web.fetch import WebClient, WebPage

_MAX_RESULTS = 10
_BRAVE = "https://api.search.brave.com/res/v1/web/search"
_DUCKDUCKGO = "https://html.duckduckgo.com/html/"
_TITLE, _SNIPPET = 150, 300  # characters


class SearchResult(NamedTuple):
    title: str
    url: str
    snippet: str


def search_web(
    web: WebClient, engine: str, query: str, stop: Stop | None = None, *, searxng_url: str = "", key: str = ""
) -> list[SearchResult]:
    """Query an engine, named as in [web]: search; `key` is Brave's. Raises ToolError."""
    if engine == "searxng":
        raw = _search_searxng(web, searxng_url, query, stop)
    elif engine == "brave":
        raw = _search_brave(web, key, query, stop)
    else:
        raw = _search_duckduckgo(web, query, stop)
    found: dict[SearchResult, None] = {}
    for one in raw:
        with suppress(ToolError):
            url = parse_url(one.url).url
            found[SearchResult(_clean_text(one.title, _TITLE), url, _clean_text(one.snippet, _SNIPPET))] = None
    return list(found)[:_MAX_RESULTS]


def _search_searxng(web: WebClient, searxng_url: str, query: str, stop: Stop | None) -> Iterator[SearchResult]:
    if not searxng_url:
        raise ToolError("there is no SearXNG to ask: searxng_url is missing under [web] in config.toml")
    asked = f"{searxng_url.rstrip('/')}/search?{urlencode({'q': query, 'format': 'json'})}"
    page = web.ask(asked, {}, stop, own=True)
    answer = _parse_json(page, "SearXNG", "allow `json` under search: formats in its settings")
    return _parse_results(answer.get("results"), "content")


def _search_brave(web: WebClient, key: str, query: str, stop: Stop | None) -> Iterator[SearchResult]:
    if not key:
        raise ToolError('Brave wants a key: put brave_key = "..." into secrets.toml')
    url = f"{_BRAVE}?{urlencode({'q': query, 'count': _MAX_RESULTS, 'text_decorations': 'false'})}"
    answer = _parse_json(web.ask(url, {"X-Subscription-Token": key}, stop), "Brave", "try again later")
    pages = answer.get("web")
    return _parse_results(pages.get("results") if isinstance(pages, dict) else None, "description")


def _search_duckduckgo(web: WebClient, query: str, stop: Stop | None) -> Iterator[SearchResult]:
    from picoclaw.web.readable import parse_html

    page = web.ask(f"{_DUCKDUCKGO}?{urlencode({'q': query})}", {"Accept-Language": "en"}, stop)
    root = parse_html(page.text)
    links = root.findall(".//a[@class='result__a']")
    if not links and "no-results" not in page.text:
        raise ToolError(
            "DuckDuckGo wants to know whether a person asks, and gives programs nothing now; try later, or have"
            " searxng or brave under [web] in config.toml"
        )
    for link in links:
        around = next(link.iterancestors("div"), None)
        snippets = [] if around is None else around.getparent().findall(".//*[@class='result__snippet']")
        said = snippets[0].text_content() if snippets else ""
        try:
            address = urlsplit(urljoin(_DUCKDUCKGO, link.get("href") or ""))
        except ValueError:
            continue
        url = parse_qs(address.query).get("uddg", [address.geturl()])[0]  # what its redirector leads to
        yield SearchResult(link.text_content(), url, said)


def _parse_json(page: WebPage, name: str, remedy: str) -> dict[str, Any]:
    try:
        answer = json.loads(page.text)
    except (ValueError, RecursionError):
        raise ToolError(f"{name} did not answer with JSON; {remedy}") from None
    if not isinstance(answer, dict):
        raise ToolError(f"{name} answered with something else than results; {remedy}")
    return answer


def _parse_results(results: Any, snippet: str) -> Iterator[SearchResult]:
    for one in results if isinstance(results, list) else ():
        if isinstance(one, dict):
            yield SearchResult(str(one.get("title") or ""), str(one.get("url") or ""), str(one.get(snippet) or ""))


def _clean_text(text: str, most: int) -> str:
    text = " ".join(html.unescape(re.sub(r"<[^<>]{0,200}>", "", text)).split())
    return truncate(text, most)
