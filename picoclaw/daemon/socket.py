"""The channel of this machine's terminals: `picoclaw chat`, `status` and the rest, over a Unix socket in the home."""

import os
import pwd
import select
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from picoclaw.channels.channel import (
    ChannelStatus,
    PostMessage,
    approval_to_json,
    describe_outcome,
    event_to_json,
    turn_to_json,
)
from picoclaw.channels.ipc import SOCKET_NAME, IpcConnection, get_peer_user, is_same_user, listen_for_people
from picoclaw.config.tables import PersonConfig
from picoclaw.errors import ChannelDown, ChannelError, StoreError
from picoclaw.files import explain_os_error, explain_os_errors, listen_unix
from picoclaw.messages import (
    DEFAULT_SESSION,
    TERMINAL_SESSIONS,
    Event,
    Origin,
    ToolRun,
    Turn,
    TurnHooks,
    is_urgent_text,
)
from picoclaw.store.approvals import Approval
from picoclaw.store.inbox_outbox import InboxMessage, OutboxMessage

if TYPE_CHECKING:
    from picoclaw.daemon.service import DaemonService

_MAX_CLIENTS, _MAX_CHATS, _NO_FILE_MS = 32, 16, 500
"""Connections, and those of them that have a chat; the others are questions of a moment, or forgotten."""
_MAX_CHATS_EACH, _MAX_WAITING_EACH, _MAX_CHARS, _MAX_NAME_CHARS = 4, 20, 16_000, 100
"""Of another user of the machine: chats at once, messages that wait, characters of a message, and of a chat's name."""


class SocketClient:
    def __init__(self, who: str, connection: socket.socket, origin: Origin = "owner") -> None:
        """It has opened no chat yet; `who` is a name that no other has, also after the next start.

        For another user of the machine than the owner it is terminal:LOGIN, also at a second terminal.
        """
        self.line = IpcConnection(connection)
        self.who, self.origin = who, origin
        self.session = self.said_in = ""
        self.has_chat = False
        self.once = False
        self.last_heard = time.monotonic()
        self.asked: set[int] = set()

    @property
    def base(self) -> str:
        """What the sessions of this client begin with; '' for the owner, whose are all the others."""
        return "" if self.origin == "owner" else self.who

    def has_session(self, session: str) -> bool:
        """Whether what is told in a session may be shown here."""
        if self.base:
            return session == self.base or session.startswith(f"{self.base}/")
        return not session.startswith(TERMINAL_SESSIONS) or session == self.session


class SocketChannel:
    """Serves the terminals in one thread; answers are told from the agent's."""

    name = "socket"

    def __init__(self, home: Path, daemon: "DaemonService", people: Mapping[str, PersonConfig] | None = None) -> None:
        """Of the `people` those are let in whom config.toml gives a login name of this machine."""
        self._home, self._daemon = home, daemon
        self._roles: dict[str, Origin] = {one.terminal: one.role for one in (people or {}).values() if one.terminal}
        self._people_listener: socket.socket | None = None
        self._clients: dict[int, SocketClient] = {}
        self._life, self._numbers = os.urandom(4).hex(), 0
        self._since, self._contact, self._up = time.time(), 0.0, False
        self._thread = threading.Thread(target=self._serve, name="socket", daemon=True)
        self._post: PostMessage = lambda _: None

    def start(self, post: PostMessage) -> None:
        self._post = post
        with explain_os_errors(ChannelError, f"{self._home / SOCKET_NAME} cannot be opened"):
            self._listener = listen_unix(self._home / SOCKET_NAME)
        if self._roles:
            try:
                self._people_listener = listen_for_people()
            except OSError as error:  # the owner's terminals work all the same
                self._daemon.note(f"other users of this machine cannot chat: {explain_os_error(error)}")
        self._end, self._ending = os.pipe2(os.O_CLOEXEC)
        self._up, self._since = True, time.time()
        self._thread.start()

    def stop(self) -> None:
        """End, and hang up on every terminal; may be called twice."""
        if not self._up:
            return
        self._up, self._since = False, time.time()
        os.close(self._ending)
        self._thread.join(2)
        for client in list(self._clients.values()):
            client.line.hang_up()
        with suppress(OSError):
            (self._home / SOCKET_NAME).unlink(missing_ok=True)

    def status(self) -> ChannelStatus:
        return ChannelStatus(self._up, self._since, "" if self._up else "closed", self._contact)

    def owner_chat(self) -> str:
        """See Channel: whoever sits at a terminal comes and goes."""
        return ""

    def is_used(self) -> bool:
        """Tell whether a terminal of the owner's has a chat open, or waits for an answer or a sub-agent."""
        return any(client.has_chat and not client.base for client in list(self._clients.values()))

    def attached(self, session: str) -> bool:
        """Tell whether what is told in a session can be shown at a terminal, be it another chat's."""
        return any(client.session and client.has_session(session) for client in list(self._clients.values()))

    def send(self, message: OutboxMessage) -> None:
        """Deliver a message to its chat, or in any that is open when that one is not."""
        clients = [one for one in list(self._clients.values()) if one.session and one.has_session(message.session)]
        own = [client for client in clients if client.session == message.session]
        whose = "" if own else f"For chat {message.session!r}: "
        asks = self._daemon.find_approval(message.approval) if message.approval else None
        if asks and asks.state == "waiting":
            told = [self._ask(client, asks, whose) for client in own or clients]
        else:
            told = [self._tell(client, {"message": f"{whose}{message.text}"}) for client in own or clients]
        if not any(told):
            raise ChannelDown("no chat is open")

    def around(self, arrived: InboxMessage) -> TurnHooks:
        if not (client := self._client(arrived)):
            return TurnHooks()
        self._tell(client, {"begin": arrived.text})

        def say(text: str) -> None:
            if not self._tell(client, {"say": text}):
                raise ChannelDown("the terminal is gone")

        def listen(event: Event | ToolRun) -> None:
            if words := event_to_json(event):
                self._tell(client, words)

        return TurnHooks(say, listen, once=client.once)

    def changed(self, approval: Approval) -> None:
        """See Channel: the terminals of the chat are asked, and those that were asked hear of another's answer."""
        told = describe_outcome(approval)
        for client in list(self._clients.values()):
            if approval.is_new and not client.base and approval.chat in {client.session, client.said_in}:
                self._ask(client, approval)
            elif told and approval.number in client.asked and approval.answered_by not in {"", client.who}:
                self._tell(client, {"message": told})

    def _ask(self, client: SocketClient, approval: Approval, whose: str = "") -> bool:
        if approval.number in client.asked:
            return True
        client.asked.add(approval.number)
        return self._tell(client, {"question": approval_to_json(approval, whose)})

    def answered(self, arrived: InboxMessage, turn: Turn, reply: str) -> bool:
        if not (client := self._client(arrived)):
            return False
        end = turn_to_json(turn, turn.reply, simulated=self._daemon.simulated) | {
            "mark": self._daemon.mark(turn),
            "notice": turn.notice.text,
            "failed": turn.notice.failed,
            "spoken": reply,
            "waiting": self._daemon.count_waiting(arrived.who),
            "subagents": self._daemon.has_tasks(arrived.key),
        }
        return self._tell(client, {"end": end})

    def heard(self, arrived: InboxMessage) -> None:
        """Tell the terminal that the turn has heard what was typed meanwhile."""
        if client := self._client(arrived):
            self._tell(client, {"heard": arrived.text})

    def _client(self, arrived: InboxMessage) -> SocketClient | None:
        mine = (client for client in list(self._clients.values()) if client.who == arrived.who)
        return max(mine, key=lambda client: client.last_heard, default=None)

    def _tell(self, client: SocketClient, words: dict[str, Any]) -> bool:
        with suppress(OSError):
            client.line.say(words)
            return True
        return False

    def _serve(self) -> None:
        poller = select.poll()
        poller.register(self._end, select.POLLIN)
        listeners = {one.fileno(): one for one in (self._listener, self._people_listener) if one}
        for file in listeners:
            poller.register(file, select.POLLIN)
        try:
            while self._up:
                ready = [file for file, _ in poller.poll()]
                for file in sorted(ready, key=listeners.__contains__):  # who leaves makes room
                    if file in listeners:
                        self._accept(listeners[file], poller)
                    elif client := self._clients.get(file):
                        self._hear(client, poller)
        finally:
            for listener in listeners.values():
                listener.close()

    def _accept(self, listener: socket.socket, poller: select.poll) -> None:
        try:
            connection, _ = listener.accept()
        except OSError:  # no file can be opened any more: whoever knocks is let in as soon as one can
            rest = select.poll()
            rest.register(self._end, select.POLLIN)
            rest.poll(_NO_FILE_MS)
            return
        who, origin = self._find_user(connection)
        if not who:
            connection.close()
            return
        if len(self._clients) >= _MAX_CLIENTS:  # there are fewer chats, so one of them is idle
            idle = [client for client in self._clients.values() if not client.has_chat]
            self._drop(min(idle, key=lambda client: client.last_heard), poller)
        self._clients[connection.fileno()] = SocketClient(who, connection, origin)
        poller.register(connection, select.POLLIN)

    def _find_user(self, connection: socket.socket) -> tuple[str, Origin]:
        """Name who has connected, and as whom they ask; '' for nobody of ours. The kernel says whose process it is."""
        if is_same_user(connection):
            self._numbers += 1
            return f"terminal {self._life}.{self._numbers}", "owner"
        with suppress(KeyError):
            login = pwd.getpwuid(get_peer_user(connection)).pw_name
            return f"{TERMINAL_SESSIONS}{login}", self._roles[login]
        return "", "guest"

    def _hear(self, client: SocketClient, poller: select.poll) -> None:
        heard = client.line.hear()
        for words in heard or ():
            self._contact, client.last_heard = time.time(), time.monotonic()
            self._do(client, words)
        if heard is None:
            self._drop(client, poller)

    def _drop(self, client: SocketClient, poller: select.poll) -> None:
        poller.unregister(client.line.connection)
        del self._clients[client.line.connection.fileno()]
        client.line.close()
        if client.has_chat:
            self._daemon.wake_delivery()

    def _may_chat(self, client: SocketClient) -> bool:
        """Give a client one of the places for chats; it is told why, and sent away, when there is none."""
        if not client.has_chat and sum(one.has_chat for one in self._clients.values()) >= _MAX_CHATS:
            self._tell(client, {"error": f"{_MAX_CHATS} terminals have a chat open, which is the most: close one"})
            client.line.hang_up()
            return False
        same = [one for one in self._clients.values() if one.base and one.base == client.base and one.has_chat]
        if not client.has_chat and len(same) >= _MAX_CHATS_EACH:
            self._tell(client, {"error": f"you have {_MAX_CHATS_EACH} chats open, which is the most: close one"})
            client.line.hang_up()
            return False
        client.has_chat = True
        return True

    def _do(self, client: SocketClient, words: dict[str, Any]) -> None:
        """Do what a terminal asks for; what nobody understands is said so."""
        word = words.get("do")
        session = str(words.get("session") or client.session or DEFAULT_SESSION)
        if client.base and not client.has_session(session):
            session = client.base if session == DEFAULT_SESSION else f"{client.base}/{session}"
        if client.base and word not in ("chat", "end", "attach"):
            self._tell(client, {"error": "that is the owner's; other users of this machine may chat"})
            return
        if client.base and (why := self._find_excess(client, words, session)):
            self._tell(client, {"error": why})
            return
        if word in ("chat", "end", "attach") and not self._may_chat(client):
            return
        if word == "chat":
            number = str(words.get("id") or "")
            client.once, client.said_in = words.get("once") is True, session
            self._chat(client, InboxMessage(session, str(words.get("text", "")), client.who, client.origin, number))
        elif word == "end":
            self._chat(client, InboxMessage(session, "/stop", client.who, client.origin))
        elif word == "attach":
            client.session = session
            greeting = self._daemon.greeting  # what follows in it, on setting the board up, is for the owner
            self._tell(client, {"attached": greeting.partition("\n")[0] if client.base else greeting})
            self._daemon.wake_delivery()
        elif word == "fleet":  # others may answer late, and nobody here is to wait for that
            work = threading.Thread(target=lambda: self._tell(client, self._daemon.run_fleet(words)), daemon=True)
            work.start()
        elif isinstance(word, str) and (reply := self._daemon.do_command(word)) is not None:
            self._tell(client, reply)
        else:
            self._tell(client, {"error": f"{word!r} is not understood; it may be another version's"})

    def _find_excess(self, client: SocketClient, words: dict[str, Any], session: str) -> str:
        """Say what is too much of what another user of the machine asks for, '' for nothing."""
        if len(str(words.get("text", ""))) > _MAX_CHARS:
            return f"a message may have {_MAX_CHARS:,} characters at most"
        if max(len(session), len(str(words.get("id") or ""))) > _MAX_NAME_CHARS:
            return f"the name of a chat, or the number of a message, may have {_MAX_NAME_CHARS} characters at most"
        is_urgent = words.get("do") != "chat" or is_urgent_text(str(words.get("text", "")).strip())
        if not is_urgent and self._daemon.count_waiting(client.who) >= _MAX_WAITING_EACH:
            return f"{_MAX_WAITING_EACH} of your messages wait to be answered, which is the most: wait for them"
        return ""

    def _chat(self, client: SocketClient, arrived: InboxMessage) -> None:
        """Post it and say so: what a terminal was not told to be kept, it sends again, by the same number."""
        try:
            self._post(arrived)
        except StoreError:  # a full disk keeps nobody from being answered, who is here to hear it
            self._post(arrived._replace(external=""))
        if arrived.external:
            running = self._daemon.running
            behind = running if running != arrived.key else ""
            self._tell(client, {"kept": arrived.external, "behind": behind})
