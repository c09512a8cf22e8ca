"""The tools `web_fetch` and `web_search`: the public web as untrusted text."""

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any

from picoclaw.errors import ToolError
from picoclaw.messages import Caller
from picoclaw.security import orders
from picoclaw.security.untrusted import GUEST_PREFIX
from picoclaw.tools.registry import tool

if TYPE_CHECKING:
    from picoclaw.web.address import KnownUrls
    from picoclaw.web.fetch import WebClient, WebPage

_MAX_QUERY_CHARS = 400
_PUBLIC_SOURCES = ("web_fetch ", "web_search ")


class WebFetchTool:
    """Fetches pages and remembers their links."""

    def __init__(self, environment: Mapping[str, str], seconds: float, web: "WebClient | None" = None) -> None:
        """`environment` may name proxies; `seconds` limits one page. `web` is made unless given."""
        self._environment, self._seconds = environment, seconds
        self._web = web

    def _is_requested(self, arguments: Mapping[str, Any], caller: Caller) -> bool:
        """Whether the user's words, a search or a page's link lead to this address.

        Notes and reports at the head of a message are not the user's words. Links do not count once the conversation has read
        private data: choosing one of ten links tells the page's owner a digit.
        """
        from picoclaw.web.address import find_urls, normalize_url

        url = normalize_url(arguments["url"])
        chats = (caller.session, caller.reply_to)
        only_web = not caller.private and all(name.startswith(_PUBLIC_SOURCES) for name in caller.taints)
        linked = only_web and any(self.linked.has(chat, url) for chat in chats)
        if linked or any(self.known.has(chat, url) for chat in chats):
            return True
        mixed = any(name.startswith(GUEST_PREFIX) for name in caller.taints)  # who said what before is not kept
        said = caller.user_texts[-1:] if mixed else caller.user_texts
        is_requested = False
        for text in said if caller.origin != "subagent" else ():
            words = text.rpartition("</moment>")[2]  # a report stands before the header: its words are no person's
            for sentence, may in orders.classify_sentences(words):
                is_requested = may if url in find_urls([sentence]) else is_requested
        return is_requested

    def _explain(self, arguments: Mapping[str, Any]) -> str:
        from picoclaw.web.address import normalize_url, parse_url

        place = parse_url(normalize_url(arguments["url"]))
        return f"ask the host {place.host} for the page {place.url}; the host learns all of that address"

    @tool(effect="network", brings=True, means=_explain, is_requested=_is_requested)
    def web_fetch(self, url: str, caller: Caller, links: Annotated[bool, "show them"] = False) -> str:
        """Read a web page as text."""
        from picoclaw.web.address import normalize_url, parse_url

        page = self.web.get(normalize_url(url), caller.stop)
        text, found = _extract_text(page, links=links)
        own = [one for one in found if parse_url(one).host == page.place.host]
        self.linked.add(caller.session, [page.place.url, *own])
        more = " The page is longer; the rest was not read." if page.cut else ""
        return f"{page.place.url}{more}\n\n{text}"

    @cached_property
    def web(self) -> "WebClient":
        from picoclaw.web.fetch import WebClient

        return self._web or WebClient(self._environment, self._seconds)

    @cached_property
    def linked(self) -> "KnownUrls":
        """Where pages that were read link to."""
        from picoclaw.web.address import KnownUrls

        return KnownUrls()

    @cached_property
    def known(self) -> "KnownUrls":
        """What searches found."""
        from picoclaw.web.address import KnownUrls

        return KnownUrls()


class WebSearchTool:
    """Queries the configured search engine."""

    def __init__(self, pages: WebFetchTool, name: str, searxng_url: str = "", key: str = "") -> None:
        """`pages` learns the results; `name` is the engine's."""
        self._pages, self._engine, self._searxng_url, self._key = pages, name, searxng_url, key

    @tool(effect="network", brings=True, is_requested=lambda *_: True)  # the engine is the owner's choice
    def web_search(self, query: str, caller: Caller) -> str:
        """Search the web. Returns titles, addresses and snippets; web_fetch reads a page."""
        from picoclaw.web.fetch import search_web

        query = " ".join(query.split())
        if not 0 < len(query) <= _MAX_QUERY_CHARS:
            raise ToolError(f"query must have 1 to {_MAX_QUERY_CHARS} characters, not {len(query)}")
        settings = {"searxng_url": self._searxng_url, "key": self._key}
        found = search_web(self._pages.web, self._engine, query, caller.stop, **settings)
        self._pages.known.add(caller.session, [one.url for one in found])
        lines = [f"{number}. {one.title}\n{one.url}\n{one.snippet}" for number, one in enumerate(found, 1)]
        return "\n\n".join(lines) or "nothing was found; try other words"


def _extract_text(page: "WebPage", *, links: bool) -> tuple[str, tuple[str, ...]]:
    begun = page.text[:500].lstrip().lower()
    if page.kind not in {"text/html", "application/xhtml+xml"} and (
        page.kind or not begun.startswith(("<!doctype html", "<html"))
    ):
        return page.text, ()
    from picoclaw.web.readable import extract_text

    title, text, found = extract_text(page.text, page.place.url, links=links)
    return (f"{title}\n\n{text}" if title and not text.startswith(f"# {title}") else text), found
