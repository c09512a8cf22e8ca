"""The outputs that the owner declared: `outputs.toml`, how a level is written, and which declarations are armed."""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

from picoclaw.config import make_dataclass
from picoclaw.config.files import read_toml
from picoclaw.errors import ConfigError
from picoclaw.files import explain_os_errors, read_file, write_atomic
from picoclaw.hw.reading import QUANTITIES
from picoclaw.records import NamedTuple, asdict, dataclass, field, replace
from picoclaw.schema import Span, find_nearest
from picoclaw.text import parse_json_object, pattern

ON, OFF = 100.0, 0.0
_LONGEST_S = 24 * 3600
_CUTOFF_HINT = (
    "needs independent_cutoff = true, to say that a thermostat, thermal fuse or emergency release that does not depend"
    " on this board ends the danger by itself"
)
_NAME = pattern(r"[a-z][a-z0-9_-]{0,30}")
_HOURS = pattern(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)")
_PWM = pattern(r"pwmchip\d+/\d+")

Who = Literal["owner", "member", "user", "cron", "heartbeat", "rule", "subagent", "mqtt", "mcp"]


@dataclass(frozen=True)
class RequiredSensor:
    """`needs` of an output: a sensor whose reading has to be fresh and in range while the output is on."""

    sensor: Annotated[str, "the sensor's name"]
    quantity: Annotated[str, "such as temperature"]
    fresh_s: Annotated[float, Span(1, 3600), "oldest reading, in seconds"]
    low: Annotated[float | None, Span(-1e9, 1e9), "smallest value, in the quantity's unit"] = None
    high: Annotated[float | None, Span(-1e9, 1e9), "largest value, in the quantity's unit"] = None


@dataclass(frozen=True)
class OutputConfig:
    """[outputs.NAME]: where it is wired, its safe level, and its limits. Levels are duties, 0 to 100 percent."""

    kind: Annotated[Literal["light", "valve", "motor", "fan", "pump", "heater", "lock", "other"], "what hangs on it"]
    longest_on_s: Annotated[float, Span(0.1, _LONGEST_S), "longest time away from the safe level, in seconds"]
    name: str = ""
    line: Annotated[str, "GPIO line, by name or by number"] = ""
    chip: Annotated[str, "GPIO chip, by label or path"] = ""
    pwm: Annotated[str, "kernel PWM, such as pwmchip0/0"] = ""
    period_us: Annotated[int, Span(1, 1_000_000), "period of the PWM, in microseconds"] = 20_000
    part: Annotated[str, "driver of an expander, such as pcf8574"] = ""
    bus: Annotated[int, Span(0, 255), "the N of /dev/i2c-N"] = 1
    address: Annotated[int, Span(0x08, 0x77), "7-bit address of the expander"] = 0
    channel: Annotated[int, Span(0, 63), "channel of the expander"] = 0
    options: Annotated[dict[str, Any], "options of the expander's driver"] = field(default_factory=dict)
    active: Literal["high", "low"] = "high"
    safe: Annotated[str, "off, on or a duty in percent"] = "off"
    shortest_off_s: Annotated[float, Span(0, _LONGEST_S), "shortest rest, in seconds"] = 0.0
    duty_s_per_hour: Annotated[float | None, Span(0, 3600), "most seconds on in any hour"] = None
    toggles_per_hour: Annotated[int | None, Span(0, 3600), "most times it is switched on in any hour"] = None
    excludes: Annotated[list[str], "outputs that must not be on at the same time"] = field(default_factory=list)
    hours: Annotated[str, "when it may be on, such as 06:00-22:00"] = ""
    needs: Annotated[dict[str, Any], "a sensor that must have a good reading"] = field(default_factory=dict)
    who: Annotated[list[Who], "who may switch it on"] = field(default_factory=lambda: ["owner"])
    confirm: bool = True
    independent_cutoff: bool = False

    @property
    def graded(self) -> bool:
        """Whether it takes duties between off and on."""
        return bool(self.pwm or self.part)

    @property
    def safe_level(self) -> float:
        """The safe level as a duty in percent."""
        return parse_level(self.safe)

    @property
    def needed(self) -> RequiredSensor | None:
        """The sensor that has to be well, if any."""
        return RequiredSensor(**self.needs) if self.needs else None

    @property
    def place(self) -> str:
        """Where it is wired; two outputs must not share one."""
        if self.pwm:
            return self.pwm
        if self.part:
            return f"{self.part} on i2c-{self.bus} at 0x{self.address:02x} channel {self.channel}"
        return f"{self.chip or 'gpio'} {self.line}"

    @property
    def digest(self) -> str:
        """Fingerprint of the whole declaration; arming is for exactly this one."""
        import hashlib

        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class StopButton:
    """[stop]: an input line that stops everything while it is at its active level."""

    line: Annotated[str, "GPIO line, by name or by number"]
    chip: Annotated[str, "GPIO chip, by label or path"] = ""
    active: Literal["high", "low"] = "low"


class OutputsFile(NamedTuple):
    """What outputs.toml says. With any problem nothing may be switched on; `outputs` are those that can be read."""

    path: Path
    outputs: Mapping[str, OutputConfig]
    stop: StopButton | None = None
    problems: tuple[str, ...] = ()


def match_name(name: str, outputs: Mapping[str, OutputConfig]) -> str:
    """Return the declared name that was meant: case, spaces, `-` and `_` do not count if only one fits."""
    plain = re.sub(r"[\s_-]+", "", name.lower())
    fits = [known for known in outputs if re.sub(r"[_-]+", "", known) == plain]
    return fits[0] if name not in outputs and len(fits) == 1 else name


def parse_level(text: str) -> float:
    """Read a level, `on`, `off` or percent; raises ValueError."""
    word = text.strip().lower().removesuffix("%").strip()
    duty = {"on": ON, "off": OFF}.get(word)
    try:
        duty = float(word) if duty is None else duty
    except ValueError:
        duty = -1.0
    if not OFF <= duty <= ON:
        raise ValueError(f"{text[:40]!r} is not a level: use on, off, or a duty from 0 to 100 percent")
    return duty


def format_level(duty: float) -> str:
    return {ON: "on", OFF: "off"}.get(duty, f"{duty:g} %")


def load_outputs(path: Path) -> OutputsFile:
    """Read the declarations; what is wrong becomes a problem of one line, with file, table and key."""
    try:
        tables = read_toml(path)
    except ConfigError as error:
        return OutputsFile(path, {}, None, (str(error),))
    unknown = tables.keys() - {"outputs", "stop"}
    problems = [f"{path}: unknown table [{table}]{find_nearest(table, {'outputs': 0, 'stop': 0})}" for table in unknown]
    declared = tables.get("outputs", {})
    if not isinstance(declared, dict):
        problems.append(f"{path}: [outputs] must hold one table for each output, such as [outputs.pump]")
        declared = {}
    outputs: dict[str, OutputConfig] = {}
    button = None
    for name, table in declared.items():
        with _collect_problems(problems):
            outputs[name] = _parse_output(name, table, f"{path}: [outputs.{name}]")
    if "stop" in tables:
        with _collect_problems(problems):
            button = make_dataclass(StopButton, tables["stop"], f"{path}: [stop]")
    problems += _find_conflicts(outputs, declared, path)
    return OutputsFile(path, outputs, button, tuple(problems))


@contextmanager
def _collect_problems(problems: list[str]) -> Iterator[None]:
    try:
        yield
    except ConfigError as error:
        problems.append(str(error))


def _parse_output(name: str, table: Any, where: str) -> OutputConfig:
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{where}: the name must be lower-case letters, digits, - and _, at most 31")
    if isinstance(table, dict) and "name" in table:
        raise ConfigError(f"{where}: unknown 'name'; the table's own name is the output's")
    if isinstance(table, dict) and isinstance(who := table.get("who"), list):
        table = {**table, "who": ["subagent" if one == "helper" else one for one in who]}  # its name until 0.2
    if isinstance(table, dict) and isinstance(by_mqtt := table.get("mqtt"), bool):  # so that no older digest changes
        table = {key: value for key, value in table.items() if key != "mqtt"}
        table |= {"who": [*table.get("who", ["owner"]), "mqtt"]} if by_mqtt else {}
    output: OutputConfig = make_dataclass(OutputConfig, table, where)
    problem = next(_find_faults(output, table), "" if output.who else "who is empty: nobody could switch it on")
    if problem:
        raise ConfigError(f"{where}: {problem}")
    if output.needs:
        needs = make_dataclass(RequiredSensor, output.needs, f"{where}: needs")
        where = f"{where}: needs"
        if needs.quantity not in QUANTITIES:
            raise ConfigError(
                f"{where}: there is no quantity {needs.quantity!r}{find_nearest(needs.quantity, QUANTITIES)}"
            )
        if needs.low is not None and needs.high is not None and needs.low > needs.high:
            raise ConfigError(f"{where}: low is {needs.low:g}, more than high, {needs.high:g}: no reading could fit")
    return replace(output, name=name)


def _find_faults(output: OutputConfig, table: Mapping[str, Any]) -> Iterator[str]:
    """Combinations that cannot be meant; the first is told."""
    ways = [way for way in ("line", "pwm", "part") if getattr(output, way)]
    if len(ways) != 1:
        yield f"needs exactly one of line, pwm and part, not {' and '.join(ways) or 'none'}"
    yield from (
        f"{key} is only for an output with {way}" for key, way in _ONLY_FOR.items() if key in table and way != ways[0]
    )
    if output.pwm and not _PWM.fullmatch(output.pwm):
        yield f"pwm is {output.pwm!r}, not like pwmchip0/0"
    if output.part and not output.address:
        yield "part needs its address, such as address = 0x20"
    try:
        safe = output.safe_level
    except ValueError as error:
        yield f"safe: {error}"
        return
    if output.line and safe not in {ON, OFF}:
        yield f"safe is {output.safe}, but a GPIO line is only on or off"
    if output.hours and not _HOURS.fullmatch(output.hours):
        yield f"hours is {output.hours!r}, not like 06:00-22:00"
    if "mqtt" in output.who and output.confirm:
        yield "mqtt = true takes confirm = false: nobody at the broker can be asked for a yes"
    if output.kind in {"heater", "lock"} and not output.independent_cutoff:
        yield f"kind {output.kind} {_CUTOFF_HINT}"


_ONLY_FOR = {"chip": "line", "period_us": "pwm", "bus": "part", "address": "part", "channel": "part", "options": "part"}


def _find_conflicts(outputs: Mapping[str, OutputConfig], declared: Mapping[str, Any], path: Path) -> Iterator[str]:
    places: dict[str, str] = {}
    for name, output in outputs.items():
        if (first := places.setdefault(output.place, name)) != name:
            yield f"{path}: [outputs.{name}]: {output.place} is already that of {first!r}"
        for other in output.excludes:
            if other == name:
                yield f"{path}: [outputs.{name}]: excludes: it cannot exclude itself"
            elif other not in declared:
                yield f"{path}: [outputs.{name}]: excludes: {other!r} is not another output{find_nearest(other, declared)}"


def load_armed(home: Path) -> dict[str, str]:
    """Return the digests of the armed declarations by name; a file that cannot be read arms nothing."""
    try:
        kept = parse_json_object(read_file(home / "outputs.armed"))
    except OSError:
        return {}
    return {name: digest for name, digest in kept.items() if isinstance(digest, str)}


def describe_unarmed(home: Path, outputs: Mapping[str, OutputConfig]) -> str:
    """Say which outputs are left alone, because nobody has armed what is declared; empty when there are none."""
    digests = load_armed(home)
    dry = [name for name, output in outputs.items() if digests.get(name) != output.digest]
    return f"; not armed, so not driven: {', '.join(dry)}" if dry else ""


def save_armed(home: Path, digests: Mapping[str, str]) -> None:
    """Replace what is armed, durably; raises ConfigError when it cannot be kept."""
    path = home / "outputs.armed"
    with explain_os_errors(ConfigError, f"{path} cannot be written"):
        write_atomic(path, json.dumps(dict(digests), indent=1).encode())


def restore_outputs(kept: Any) -> list[OutputConfig]:
    """Make outputs of what `asdict` gave and a file kept; what does not fit is left out."""
    found = []
    for table in kept if isinstance(kept, list) else []:
        try:
            output = OutputConfig(**table)
            found += [output] if 0 <= output.safe_level <= ON else []
        except (TypeError, ValueError, AttributeError):
            continue
    return found
