"""The channel "page": posts what browsers say, and shows them what happens."""

import ipaddress
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from picoclaw.channels.channel import ChannelStatus, PostMessage, waits_for_approval
from picoclaw.channels.dashboard.backend import ChatEntry, DashboardBackend, make_question
from picoclaw.channels.dashboard.live import OWNER_CHAT, PageChat, find_page_person
from picoclaw.channels.dashboard.login import Logins, Visitor
from picoclaw.channels.dashboard.server import PageServer, list_host_names
from picoclaw.channels.dashboard.site import Site
from picoclaw.config.tables import PersonConfig
from picoclaw.errors import ChannelError
from picoclaw.messages import Turn, TurnHooks
from picoclaw.store.approvals import Approval
from picoclaw.store.queues import InboxMessage, OutboxMessage

if TYPE_CHECKING:
    from picoclaw.channels.dashboard.programs import Programs


class McpAnswer(Protocol):
    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    @property
    def body(self) -> bytes: ...
    @property
    def stream(self) -> Iterator[bytes] | None: ...


class McpDoor(Protocol):
    """What is behind /mcp: the token that opens it, and what answers; names of headers are written small."""

    token: str

    def answer(self, method: str, headers: Mapping[str, str], body: bytes) -> McpAnswer: ...

    def close(self) -> None: ...


class DashboardChannel:
    """A chat and a dashboard for browsers on the local network; see Channel."""

    name = "page"

    def __init__(
        self,
        backend: DashboardBackend,
        home: Path,
        host: str,
        port: int,
        names: Sequence[str] = (),
        *,
        origins: Sequence[str] = (),
        proxies: Sequence[str] = (),
        clock: Callable[[], float] = time.monotonic,
        metrics_token: str = "",
        programs: "Programs | None" = None,
        mcp: "McpDoor | None" = None,
        people: Mapping[str, PersonConfig] | None = None,
    ) -> None:
        """Listen at `host`, an address, and `port`; `names` are further ones that the board has in the network.

        Behind a proxy, `origins` are the page's public addresses, and `proxies` the addresses of those whose word
        counts on whom they pass on. `clock()` gives seconds that never go back. Whoever knows `metrics_token` may read
        /metrics, nobody without one. `programs` are webhooks and the like, None for none,
        and `mcp` what is served over MCP. The `people` of the household may log in as themselves.
        """
        self.backend, self._host, self._port = backend, host, port
        self.origins = frozenset(origin.strip().rstrip("/").lower() for origin in origins)
        self.names, self.proxies = list_host_names(socket.gethostname(), names, self.origins), frozenset(proxies)
        self.clock, self.metrics_token, self.programs, self.mcp = clock, metrics_token, programs, mcp
        self._home, self._chats = home, {OWNER_CHAT: PageChat(home)}
        self.logins = Logins(home, people=people)
        self._post: PostMessage = lambda _: None
        self._server: PageServer | None = None
        self._thread: threading.Thread | None = None
        self._since, self._contact, self._error = time.time(), 0.0, ""

    @property
    def port(self) -> int:
        """The port that is listened at; only once it was begun."""
        return self._server.port if self._server else self._port

    def start(self, post: PostMessage) -> None:
        self._post = post
        try:
            self._check_addresses()
            self._server = PageServer(Site(self), self._host, self._port, self.programs)
        except ChannelError as error:
            self._error = str(error)
            raise
        self._error, self._since = "", time.time()
        self._thread = threading.Thread(target=self._server.run, name="page", daemon=True)
        self._thread.start()

    def find_chat(self, person: str = "") -> PageChat:
        """The chat of a person on the page, '' for the owner's."""
        if not person:
            return self._chats[OWNER_CHAT]
        chat = PageChat(self._home, person)
        return self._chats.setdefault(chat.session, chat)

    def list_chats(self) -> list[PageChat]:
        """The chats that somebody has looked at since the start, and the owner's."""
        return list(self._chats.values())

    def post(self, text: str, number: str, visitor: Visitor) -> None:
        """Have a text answered: the browser's own number of it, and who says it. Raises PicoclawError."""
        self._contact = time.time()
        is_owner = visitor.role == "owner"
        session = self.find_chat("" if is_owner else visitor.person).session
        self._post(InboxMessage(session, text, visitor.who, "web" if is_owner else visitor.role, number))

    def post_from_program(self, arrived: InboxMessage) -> None:
        """Have what a program has sent answered. Raises PicoclawError."""
        self._contact = time.time()
        self._post(arrived)

    def _check_addresses(self) -> None:
        """Raise ChannelError for a name where only an address will do."""
        wanted = [("host", self._host, "127.0.0.1, or 0.0.0.0 for the whole network")]
        wanted += [("proxies", proxy, "such as 127.0.0.1") for proxy in self.proxies]
        for key, value, example in wanted:
            try:
                ipaddress.ip_address(value)
            except ValueError:
                raise ChannelError(f"[page]: {key} {value!r} is not an address: write {example}") from None

    def send(self, message: OutboxMessage) -> None:
        """See Channel.send; what is told stays on the page, also when no browser is there. A question has its card."""
        if message.approval and any(one.number == message.approval for one in self.backend.questions()):
            return
        chat = self._get_chat(message.session)
        if chat.outbox.keep(message):
            chat.events.publish("said", {"role": "assistant", "text": message.text, "at": message.at})

    def _get_chat(self, session: str) -> PageChat:
        return self.find_chat(find_page_person(session))

    def around(self, arrived: InboxMessage) -> TurnHooks:
        live = self._get_chat(arrived.key).live_turn
        live.begin(arrived.text)
        return TurnHooks(say=live.say, listen=live.listen)

    def changed(self, approval: Approval) -> None:
        if self.programs:
            self.programs.changed(approval)
        if approval.state != "running":
            self.find_chat().events.publish("question", make_question(approval)._asdict())

    def answered(self, arrived: InboxMessage, turn: Turn, reply: str) -> bool:
        """See Channel.answered. What the conversation does not keep is kept here; a pressed button has its outcome."""
        failed = turn.notice.failed and not waits_for_approval(turn)  # which has its card
        chat = self._get_chat(arrived.key)
        seen = chat.live_turn.end(reply, turn.unsaid_notice if failed else "") > 0
        if seen and (not turn.steps or turn.stopped == "error") and not arrived.external.startswith("answer "):
            now = time.time()
            asked = [] if turn.steps else [ChatEntry("user", arrived.text, now)]
            chat.outbox.note(*asked, ChatEntry("assistant", reply or turn.notice.text, now))
        return seen

    def owner_chat(self) -> str:
        """See Channel.owner_chat; a page that nobody has ever come to reaches nobody."""
        return OWNER_CHAT if self.logins.is_owners() else ""

    def status(self) -> ChannelStatus:
        up = self._thread is not None and self._thread.is_alive()
        return ChannelStatus(up, self._since, self._error, self._contact)

    def stop(self) -> None:
        server, self._server = self._server, None
        for chat in self.list_chats():
            chat.events.end()
        if self.programs:
            self.programs.end()
        if server and self._thread:
            server.stop(self._thread)
