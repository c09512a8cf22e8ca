"""The `serial` tool: list the serial ports, send and receive on one.

Sources: termios(3), ioctl_tty(2).
Run `python3 tools/hw/serial.py read_until --port /dev/ttyUSB0` on the bench.
"""

import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, Literal, NamedTuple

from picoclaw.errors import DeviceMissing, ToolError
from picoclaw.hw.board import Board, SerialPort, SerialPortInfo, SerialSettings
from picoclaw.hw.reading import QUANTITIES, UNITS
from picoclaw.messages import Caller
from picoclaw.schema import Span
from picoclaw.security.policy import Effect
from picoclaw.security.untrusted import is_known_text
from picoclaw.tools.registry import tool

MAX_BYTES, MAX_MARK, MAX_OPEN = 4096, 64, 4
_FRAME = re.compile(r"([5-8])([NEO])([12])")
_PARITY: Mapping[str, Literal["none", "even", "odd"]] = {"N": "none", "E": "even", "O": "odd"}
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|.?)", re.DOTALL)
_ESCAPES = {"r": "\r", "n": "\n", "t": "\t", "0": "\0", "\\": "\\"}
_ESCAPED = {ord(char): f"\\{letter}" for letter, char in _ESCAPES.items() if letter != "0"} | {ord('"'): '\\"'}
Action = Literal["list", "read", "write", "read_until", "ask", "open", "close"]
BENCH_ACTIONS = ("list", "read", "write", "read_until", "ask")
_NOTHING = "nothing was received"


class OpenPort(NamedTuple):
    """A port that stays open between calls."""

    port: SerialPort
    settings: SerialSettings


class ReceiveRequest(NamedTuple):
    """What to receive: until the mark (nothing for any), how many bytes at most, and for how long."""

    mark: bytes
    most: int
    seconds: float


class Serial:
    """The serial ports of a board."""

    def __init__(self, board: Board, known: Collection[str] = (), clock: Callable[[], float] = time.monotonic) -> None:
        """Remember the board; opens nothing. `known` ports belong to named parts, and may be unlisted."""
        self._board = board
        self._known = known
        self._clock = clock
        self._kept: dict[str, OpenPort] = {}

    def _effect(self, arguments: Mapping[str, Any]) -> Effect:
        """Whatever is sent may move something, and naming a part does not change that."""
        return "actuate" if arguments["action"] in {"write", "ask"} else "read"

    def _brings(self, arguments: Mapping[str, Any], result: str, caller: Caller, good: bool) -> bool:  # noqa: FBT001
        """Tell whether what was received may be somebody's text; readings, numbers with their names, are none."""
        if arguments["action"] in {"open", "close"}:
            return not good
        if good and arguments["action"] != "list" and result.partition(": ")[2].startswith(_NOTHING):
            return False
        lines = result.replace(r"\r", "").replace(r"\n", "\n")
        ours = (f"{arguments['port']}: received", "bytes", "nothing received")
        return not is_known_text(lines, ours, caller.model_texts, QUANTITIES.__contains__, units=UNITS)

    @tool(effect=_effect, brings=_brings)
    def serial(
        self,
        action: Action,
        port: str = "",
        data: Annotated[str, r"ASCII; escapes \r \n \t \0 \\ \xHH"] = "",
        until: Annotated[str, "what ends an answer; default \\n"] = "\\n",
        length: Annotated[int, Span(1, MAX_BYTES), "at most so many bytes, default 256"] = 256,
        seconds: Annotated[float, Span(0, 60)] = 2,
        baud: Annotated[int | None, Span(50, 4_000_000), "default 9600"] = None,
        frame: Annotated[str, "default 8N1"] = "",
    ) -> str:
        """Use a serial port. ask writes data, then reads up to `until`; open keeps the port open until close."""
        if action == "list":
            return self._list()
        port = self._path(port)
        if action == "close":
            return self._close(port)
        sent, wanted = _check_arguments(action, data, until), ReceiveRequest(unescape("until", until), length, seconds)
        settings = self._settings(port, baud, frame)
        if action == "open":
            return self._open(port, settings)
        with self._opened(port, settings) as opened:
            return _perform(action, opened, sent, wanted, self._clock)

    def _list(self) -> str:
        rows = []
        for port in self._board.ports():
            names = f" ({', '.join(port.names)})" if port.names else ""
            use = f"in use by {port.used_by}" if port.used_by else "open" if port.path in self._kept else ""
            notes = ", ".join(filter(None, [port.description, use]))
            rows.append(f"{port.path}{names}: {notes or 'no description'}")
        return "\n".join(rows) or (
            "no serial port: plug an adapter in, or turn on the board's with `sudo raspi-config nonint do_serial_hw 0`"
        )

    def _path(self, name: str) -> str:
        """Only what is a serial port may be opened: opening some device files, as a watchdog's, is an act."""
        listed = self._board.ports()
        for port in listed:
            if name in _list_names(port):
                return port.path
        if name in self._known or name in self._kept:
            return name
        there = ", ".join(port.path for port in listed) or "none"
        raise ToolError(
            f"there is no serial port {name[:60]!r}; there are: {there}"
            if name
            else f"port is missing; there are: {there}"
        )

    def _settings(self, path: str, baud: int | None, frame: str) -> SerialSettings:
        kept = self._kept.get(path)
        found = _FRAME.fullmatch((frame or "8N1").strip().upper())
        if not found:
            raise ToolError(f"frame {frame[:20]!r} must be data bits, parity and stop bits, such as 8N1 or 7E1")
        wanted = SerialSettings(baud or 9600, int(found[1]), _PARITY[found[2]], int(found[3]))
        if kept is None:
            return wanted
        if (baud and baud != kept.settings.baud) or (frame and wanted[1:] != kept.settings[1:]):
            raise ToolError(f"{path} is open with {format_settings(kept.settings)}; close it before changing that")
        return kept.settings

    def _open(self, path: str, settings: SerialSettings) -> str:
        if path in self._kept:
            return f"{path} is open already, with {format_settings(settings)}"
        if len(self._kept) >= MAX_OPEN:
            raise ToolError(f"{MAX_OPEN} ports are open already; close one of {', '.join(self._kept)}")
        self._kept[path] = OpenPort(self._board.serial(path, settings), settings)
        return f"{path} is open with {format_settings(settings)}, until close"

    def _close(self, path: str) -> str:
        kept = self._kept.pop(path, None)
        if kept is None:
            return f"{path} was not open"
        kept.port.close()
        return f"{path} is closed"

    @contextmanager
    def _opened(self, path: str, settings: SerialSettings) -> Iterator[SerialPort]:
        kept = self._kept.get(path)
        port = kept.port if kept else self._board.serial(path, settings)
        try:
            yield port
        except DeviceMissing:
            self._kept.pop(path, None)
            raise
        finally:
            if path not in self._kept:
                port.close()


def _list_names(port: SerialPortInfo) -> set[str]:
    return {port.path, *port.names}


def format_settings(settings: SerialSettings) -> str:
    """Format settings as people do: `9600 baud, 8N1`."""
    return f"{settings.baud} baud, {settings.bits}{settings.parity[0].upper()}{settings.stop_bits}"


def unescape(name: str, text: str) -> bytes:
    """Turn ASCII text with escapes into bytes; raises ToolError naming the argument."""

    def byte(found: re.Match[str]) -> str:
        code = found[1]
        if len(code) == 3:
            return chr(int(code[1:], 16))
        if code not in _ESCAPES:
            raise ToolError(rf"{name} holds {found[0]!r}; the escapes are \r \n \t \0 \\ \xHH")
        return _ESCAPES[code]

    if not text.isascii():
        raise ToolError(rf"{name} must be ASCII; write every other byte as \xHH")
    return _ESCAPE.sub(byte, text).encode("latin-1")


def escape(data: bytes) -> str:
    """Show bytes as quoted ASCII with the same escapes, on one line."""
    return '"' + "".join(_ESCAPED.get(b, chr(b) if 0x20 <= b <= 0x7E else f"\\x{b:02x}") for b in data) + '"'


def _check_arguments(action: Action, data: str, until: str) -> bytes:
    """Return what is to be sent; raises ToolError when the arguments do not go with the action."""
    sent, mark = unescape("data", data), unescape("until", until)
    sends = action in {"write", "ask"}
    if sends and not 1 <= len(sent) <= MAX_BYTES:
        raise ToolError(f"data holds {len(sent)} bytes; {action} sends 1 to {MAX_BYTES}")
    if sent and not sends:
        raise ToolError(f"{action} sends nothing: leave data out, or use write or ask")
    if not 1 <= len(mark) <= MAX_MARK:
        raise ToolError(f"until holds {len(mark)} bytes; an answer's end has 1 to {MAX_MARK}")
    return sent


def _perform(action: Action, port: SerialPort, sent: bytes, wanted: ReceiveRequest, clock: Callable[[], float]) -> str:
    if action == "read":
        return _format_received(port.path, port.read(wanted.most, wanted.seconds), wanted._replace(mark=b""))
    if action == "ask":
        port.flush()
    if sent:
        port.write(sent)
    if action == "write":
        return f"sent {len(sent)} bytes to {port.path}: {escape(sent)}"
    return _format_received(port.path, _read_until(port, wanted, clock), wanted)


def _read_until(port: SerialPort, wanted: ReceiveRequest, clock: Callable[[], float]) -> bytes:
    """Read byte by byte, so that what follows the mark is left for the next call."""
    ends = clock() + wanted.seconds
    received = bytearray()
    while len(received) < wanted.most and not received.endswith(wanted.mark):
        more = port.read(1, max(0.0, ends - clock()))
        if not more:
            break
        received += more
    return bytes(received)


def _format_received(path: str, data: bytes, wanted: ReceiveRequest) -> str:
    if not data:
        return f"{path}: {_NOTHING} in {wanted.seconds:g} s: check the baud rate, TX and RX crossed, and a common GND"
    plain = all(0x20 <= b <= 0x7E or b in b"\r\n\t" for b in data)
    shown = escape(data) + ("" if plain else f", hex {data.hex(' ')}")
    missing = "" if data.endswith(wanted.mark) else f"; without {escape(wanted.mark)} at its end"
    return f"{path}: received {len(data)} bytes{missing}: {shown}"


if __name__ == "__main__":
    from picoclaw.hw.bench import run_tool

    raise SystemExit(run_tool(Serial, "serial", BENCH_ACTIONS))
