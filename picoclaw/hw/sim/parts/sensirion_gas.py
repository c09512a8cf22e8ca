"""Sensirion's gas sensors SCD41, SGP30 and SGP40."""

from collections.abc import Mapping

from picoclaw.hw.sim.parts.sensirion import Answer, Commanded, Handler, nothing, share
from picoclaw.hw.sim.parts.words import clipped
from picoclaw.hw.sim.scene import Scene

_SERIAL = [0xF896, 0x9F07, 0x3BBE]
_PASSED = 0xD400


class SimSCD4x(Commanded):
    """An SCD41: idle or measuring each 5 s (30 s with low power); it takes few commands while it measures."""

    def __init__(self, scene: Scene) -> None:
        """Measures CO2, temperature and humidity of the scene."""
        super().__init__(scene)
        self._period = 0.0
        self._began = 0.0
        self._fetched = 0
        self._settings = {"offset": 0x05D9, "altitude": 0, "calibration": 1}
        self._table: dict[int, tuple[float, Handler]] = {
            0x21B1: (0.0, self._begin(5.0)),
            0x21AC: (0.0, self._begin(30.0)),
            0x3F86: (0.5, self._begin(0.0)),
            0xEC05: (0.001, self._measurement),
            0xE4B8: (0.001, lambda _: [0x8006 if self._done() > self._fetched else 0x8000]),
            0xE000: (0.001, nothing),
            0x3682: (0.001, lambda _: _SERIAL),
            0x202F: (0.001, lambda _: [0x1440]),
            0x2318: (0.001, self._setting("offset")),
            0x241D: (0.001, self._setting("offset")),
            0x2322: (0.001, self._setting("altitude")),
            0x2427: (0.001, self._setting("altitude")),
            0x2313: (0.001, self._setting("calibration")),
            0x2416: (0.001, self._setting("calibration")),
            0x3646: (0.03, nothing),
        }

    def commands(self) -> Mapping[int, tuple[float, Handler]]:
        """Section "Digital interface description" of the SCD4x datasheet."""
        return self._table

    def refuses(self, command: int) -> bool:
        """Section 3.5: four commands and no other are taken while the part measures."""
        return bool(self._period) and command not in {0x3F86, 0xEC05, 0xE4B8, 0xE000}

    def _begin(self, period: float) -> Handler:
        def begin(_: list[int]) -> Answer:
            self._period, self._began, self._fetched = period, self.scene.now(), 0
            return []

        return begin

    def _done(self) -> int:
        return int((self.scene.now() - self._began) / self._period) if self._period else 0

    def _measurement(self, _: list[int]) -> Answer:
        if self._done() <= self._fetched:
            return []
        self._fetched = self._done()
        temperature = share(self.scene.get("temperature", 21.0), -45, 130)
        co2 = round(clipped(self.scene.get("co2", 600), 0, 40_000))
        return [co2, temperature, share(self.scene.get("humidity", 50.0), 0, 100)]

    def _setting(self, name: str) -> Handler:
        def setting(arguments: list[int]) -> Answer:
            if arguments:
                self._settings[name] = arguments[0]
                return []
            return [self._settings[name]]

        return setting


class SimSGP30(Commanded):
    """An SGP30, which shows 400 ppm and 0 ppb until 15 s after its algorithm was started."""

    def __init__(self, scene: Scene) -> None:
        """Measures CO2 (that is, shows it as its estimate) and tvoc of the scene."""
        super().__init__(scene)
        self._started: float | None = None
        self._baseline = [0x8A3C, 0x8F12]

    def commands(self) -> Mapping[int, tuple[float, Handler]]:
        """Section "Measurement communication sequence" of the SGP30 datasheet."""
        return {
            0x2003: (0.010, self._start),
            0x2008: (0.012, self._measured),
            0x2015: (0.010, lambda _: self._baseline),
            0x201E: (0.010, self._restore),
            0x2061: (0.010, nothing),
            0x2032: (0.220, lambda _: [_PASSED]),
            0x202F: (0.010, lambda _: [0x0022]),
            0x2050: (0.025, lambda _: [13_119, 18_472]),
            0x3682: (0.0005, lambda _: [0x0000, 0x0123, 0x4567]),
        }

    def _start(self, _: list[int]) -> Answer:
        self._started = self.scene.now()
        return []

    def _restore(self, arguments: list[int]) -> Answer:
        self._baseline = arguments[::-1]  # they are set in the other order than they are read
        return []

    def _measured(self, _: list[int]) -> Answer:
        if self._started is None or self.scene.now() - self._started <= 15:
            return [400, 0]
        co2, tvoc = clipped(self.scene.get("co2", 600), 400, 60_000), clipped(self.scene.get("tvoc", 35), 0, 60_000)
        return [round(co2), round(tvoc)]


class SimSGP40(Commanded):
    """An SGP40, whose signal is far too high until its sensor has been heated for a while."""

    def __init__(self, scene: Scene) -> None:
        """Shows the ticks `raw` of the scene."""
        super().__init__(scene)
        self._heated_from: float | None = None

    @property
    def hot(self) -> bool:
        """Whether the heater is on."""
        return self._heated_from is not None

    def commands(self) -> Mapping[int, tuple[float, Handler]]:
        """Section "I2C commands" of the SGP40 datasheet."""
        return {
            0x260F: (0.030, self._measured),
            0x280E: (0.320, lambda _: [_PASSED]),
            0x3615: (0.001, self._cool),
            0x3682: (0.001, lambda _: [0x0000, 0x00B1, 0xC2D3]),
        }

    def _measured(self, arguments: list[int]) -> Answer:
        now = self.scene.now()
        if self._heated_from is None:
            self._heated_from = now
        ticks = round(clipped(self.scene.get("raw", 30_000), 0, 65_535)) if len(arguments) == 2 else 0
        return [ticks if now - self._heated_from >= 0.140 else min(ticks + 8000, 65_535)]

    def _cool(self, _: list[int]) -> Answer:
        self._heated_from = None
        return []
