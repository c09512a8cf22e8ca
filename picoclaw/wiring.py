"""What hangs on the board: parts, declared outputs and the tools for them. What a verb does not use is not made."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from functools import cached_property, partial
from types import ModuleType
from typing import TYPE_CHECKING

from picoclaw.automation.wakeup import wake_all
from picoclaw.errors import ConfigError, PicoclawError
from picoclaw.hw import drivers as hw_drivers
from picoclaw.hw import sensors
from picoclaw.hw.reading import WiredPart
from picoclaw.records import dataclass

if TYPE_CHECKING:
    from picoclaw.config import Config
    from picoclaw.hw.board import Board
    from picoclaw.outputs.client import OutputsClient
    from picoclaw.tools.sensors import SensorTools

STOP_WORDS = {
    *("stop", "please stop", "stop it", "stop now", "emergency stop"),
    *("stop everything", "stop all", "all off", "everything off"),
}


@dataclass
class Wiring:
    """The hardware of one running picoclaw."""

    config: Config
    board: Board

    @cached_property
    def wired(self) -> dict[str, WiredPart]:
        return hw_drivers.resolve_parts(self.config, self.board)

    @cached_property
    def drivers(self) -> hw_drivers.Drivers:
        return hw_drivers.Drivers(self.board, self._chip)

    @cached_property
    def outputs(self) -> OutputsClient | None:
        """The client of the supervisor of the declared outputs, if there are any."""
        from picoclaw.workspace import find_outputs_file

        if not find_outputs_file(self.config.home).exists():
            return None
        from picoclaw.outputs.client import OutputsClient

        return OutputsClient(self.config.home, lambda: "sim" if self.board.simulated else "linux")

    def stop(self, text: str, who: str) -> tuple[bool, str] | None:
        """Stop the outputs if that is all that a text says: without a model, the network or the database.

        Every channel may ask this before anything else. Returns whether it went well and what to say.
        """
        if self.outputs is None or " ".join(text.lower().strip(" \t\r\n!.").split()) not in STOP_WORDS:
            return None
        try:
            return True, self.outputs.stop(who)
        except PicoclawError as error:
            return False, str(error)

    def list_names(self) -> Collection[str]:
        """List what the owner has given names to: sensors and outputs."""
        from picoclaw.workspace import find_outputs_file

        outputs: Collection[str] = ()
        if (file := find_outputs_file(self.config.home)).exists():
            from picoclaw.outputs.config import load_outputs

            with suppress(ConfigError):
                outputs = load_outputs(file).outputs
        return {*self.wired, *outputs}

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
        found = sensors.list_sensors(self.board, self.wired)
        ours = {sensor.part.part for sensor in found if sensor.part}
        theirs = {sensor.name.partition(" ")[0].lower() for sensor in found if not sensor.part}
        family_28 = {"ds18b20" for sensor in found if "/28-" in sensor.source}
        return frozenset(ours | theirs | family_28)

    def sensors(self) -> SensorTools:
        from picoclaw.tools.sensors import SensorTools

        return SensorTools(self.board, self.wired, self.drivers, str(self.config.home))

    def measured(self) -> dict[str, list[str]]:
        """Name the sensors and what each measures, without reading any."""
        from picoclaw.tools.rules import list_measured

        return list_measured(self.board, self.wired, self.drivers)

    def buses(self) -> Iterator[object]:
        """The tools of the buses that this board has; what is not there costs no memory and no word of the prompt."""
        from picoclaw.tools.sensors import SensorAddTool

        where = hw_drivers.list_driver_folders(self.config.home)
        board, wired, owned = self.board, self.wired, self.outputs.parts() if self.outputs else {}
        ports = [port for port in board.ports() if not port.used_by]
        if board.adapters() or board.spi_nodes() or ports:
            kept = partial(hw_drivers.add_sensor, self.config.home)
            yield SensorAddTool(board, wired, self.drivers, where, kept, owned, partial(wake_all, self.config.home))
        if board.adapters():
            registers = hw_drivers.RegisterAddresses(wired, self._chip)
            yield hw_drivers.load_module("i2c", where).I2C(board, registers, owned=owned)
        if board.spi_nodes():
            yield hw_drivers.load_module("spi", where).Spi(board)
        if ports:
            taken = {part.port for part in wired.values() if part.route == "serial"}
            yield hw_drivers.load_module("serial", where).Serial(board, taken)
        switch = None
        if self.outputs:
            from picoclaw.tools.outputs import OutputSwitch, OutputTool

            switch = OutputSwitch(self.outputs, board, self.config.home)
        if board.gpio_chips():
            yield hw_drivers.load_module("gpio", where).Gpio(board, switch)
        if self.outputs:
            yield OutputTool(self.outputs)

    def _chip(self, part: str) -> ModuleType:
        return hw_drivers.load_driver(part, hw_drivers.list_driver_folders(self.config.home))
