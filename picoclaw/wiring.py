"""What hangs on the board: parts, declared outputs and the tools for them. What a verb does not use is not made."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from functools import cache, cached_property, partial
from types import ModuleType
from typing import TYPE_CHECKING

from picoclaw.automation.clock import wake_all
from picoclaw.errors import ConfigError, PicoclawError
from picoclaw.hw import loader
from picoclaw.hw.reading import WiredPart
from picoclaw.messages import is_off_order, is_stop_of_one, is_stop_order
from picoclaw.mqtt import read_remote
from picoclaw.records import dataclass
from picoclaw.tools.registry import ToolGroup

if TYPE_CHECKING:
    from picoclaw.config import Config
    from picoclaw.hw.board import Board
    from picoclaw.outputs.client import OutputsClient
    from picoclaw.tools.outputs import OutputSwitch
    from picoclaw.tools.sensors import SensorTools


@dataclass
class Wiring:
    """The hardware of one running picoclaw."""

    config: Config
    board: Board

    @cached_property
    def wired(self) -> dict[str, WiredPart]:
        return loader.resolve_parts(self.config, self.board)

    @cached_property
    def drivers(self) -> loader.Drivers:
        return loader.Drivers(self.board, self._chip, remote=partial(read_remote, self.config.home))

    @cached_property
    def outputs(self) -> OutputsClient | None:
        """The client of the supervisor of the declared outputs, if there are any."""
        from picoclaw.workspace import find_outputs_file

        if not find_outputs_file(self.config.home).exists():
            return None
        from picoclaw.outputs.client import OutputsClient

        return OutputsClient(self.config.home, lambda: "sim" if self.board.simulated else "linux")

    def obey_stop_order(self, text: str, who: str) -> tuple[bool, str] | None:
        """Switch all outputs off if that is all that a text orders: without a model, the network or the database.

        Every channel may ask this before anything else. "Stop it" switches the one off that is on, where it is the only
        one, and "everything off" all of them; neither needs `resume`. Returns whether it went well and what to say.
        """
        if self.outputs is None or not is_stop_order(text):
            return None
        try:
            if is_stop_of_one(text) and (name := self._find_only_on(self.outputs)):
                return True, self.outputs.off(name, who)
            if is_off_order(text) and not self.outputs.is_stopped:
                return True, f"{self.outputs.make_safe(who)}; rules and plans go on, and STOP keeps everything off"
            return True, self.outputs.stop(who)
        except PicoclawError as error:
            return False, str(error)

    @staticmethod
    def _find_only_on(outputs: OutputsClient) -> str:
        """The one output that is on, '' for none or several, or where something is wrong."""
        with suppress(PicoclawError, OSError):
            found = outputs.list()
            is_on = [str(row["name"]) for row in found["outputs"] if row["left"] is not None]
            is_well = not found["problems"] and not any(row["unsafe"] or row["fault"] for row in found["outputs"])
            return is_on[0] if is_well and len(is_on) == 1 else ""
        return ""

    def list_names(self) -> dict[str, str]:
        """List what the owner has given names to: each with "sensor" or "output"."""
        from picoclaw.workspace import find_outputs_file

        outputs: Collection[str] = ()
        if (file := find_outputs_file(self.config.home)).exists():
            from picoclaw.outputs.config import load_outputs

            with suppress(ConfigError):
                outputs = load_outputs(file).outputs
        return dict.fromkeys(outputs, "output") | dict.fromkeys(self.wired, "sensor")

    def leave(self) -> None:
        """End well: what was switched on may run to the end of its time. Without this it goes off with `close`."""
        if outputs := self.__dict__.get("outputs"):
            outputs.leave()

    def abandon(self) -> None:
        """End in a hurry: what was switched on goes off now."""
        if outputs := self.__dict__.get("outputs"):
            outputs.close()

    def close(self) -> None:
        """Let go of the outputs and of the board; may be called twice."""
        self.abandon()
        self.board.close()

    def parts(self) -> frozenset[str]:
        """Name the drivers of the parts that can be read here, by ours or by the kernel's."""
        found = loader.list_sensors(self.board, self.wired)
        ours = {sensor.part.part for sensor in found if sensor.part}
        theirs = {sensor.name.partition(" ")[0].lower() for sensor in found if not sensor.part}
        family_28 = {"ds18b20" for sensor in found if "/28-" in sensor.source}
        return frozenset(ours | theirs | family_28)

    def sensors(self) -> SensorTools:
        from picoclaw.tools.sensors import SensorTools

        return SensorTools(self.board, self.wired, self.drivers, str(self.config.home))

    def measured(self) -> dict[str, list[str]]:
        """Name the sensors and what each measures, without reading any."""
        return loader.list_measured(self.board, self.wired, self.drivers)

    def buses(self) -> Iterator[ToolGroup]:
        """The tools of the buses that this board has; what is not there costs no memory and no word of the prompt."""
        board, wired, where = self.board, self.wired, loader.list_driver_folders(self.config.home)
        outputs = self.outputs
        owned = cache(lambda: outputs.parts() if outputs else {})

        def make_sensor_add() -> object:
            from picoclaw.tools.sensors import SensorAddTool

            keep, ring = partial(loader.add_sensor, self.config.home), partial(wake_all, self.config.home)
            return SensorAddTool(board, wired, self.drivers, where, keep, owned(), ring)

        def make_i2c() -> object:
            registers = loader.RegisterAddresses(wired, self._chip)
            return loader.load_module("i2c", where).I2C(board, registers, owned=owned())

        def make_serial() -> object:
            taken = {part.port for part in wired.values() if part.route == "serial"}
            return loader.load_module("serial", where).Serial(board, taken)

        def make_gpio() -> object:
            return loader.load_module("gpio", where).Gpio(board, make_switch())

        def make_switch() -> OutputSwitch | None:
            from picoclaw.tools.outputs import OutputSwitch

            return OutputSwitch(outputs, board, self.config.home) if outputs else None

        def make_output(client: OutputsClient) -> object:
            from picoclaw.tools.outputs import OutputTool

            return OutputTool(client)

        ports = any(not port.used_by for port in board.ports())
        if board.adapters() or board.spi_nodes() or ports:
            yield ToolGroup(("sensor_add",), make_sensor_add)
        if board.adapters():
            yield ToolGroup(("i2c",), make_i2c)
        if board.spi_nodes():
            yield ToolGroup(("spi",), lambda: loader.load_module("spi", where).Spi(board))
        if ports:
            yield ToolGroup(("serial",), make_serial)
        if board.gpio_chips():
            yield ToolGroup(("gpio",), make_gpio)
        if outputs:
            yield ToolGroup(("output", "output_history"), partial(make_output, outputs))

    def _chip(self, part: str) -> ModuleType:
        return loader.load_driver(part, loader.list_driver_folders(self.config.home))
