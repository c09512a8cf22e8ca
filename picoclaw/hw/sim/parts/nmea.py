"""A satellite receiver that sends RMC, VTG, GGA, GSA, GSV and GLL each second, as u-blox' receivers do."""

import time

from picoclaw.hw.sim.parts.uart import Chatter
from picoclaw.hw.sim.parts.words import clipped

_NEEDED = 4  # satellites for a position in three dimensions
# What the sentences can hold, and u-blox' operational limits (NEO-M8 data sheet) for altitude in m and speed in m/s.
_ENDS = {
    "satellites": (0, 99),
    "latitude": (-90, 90),
    "longitude": (-180, 180),
    "altitude": (-1000, 50_000),
    "speed": (0, 500),
}


class SimGPS(Chatter):
    """Measures `latitude`, `longitude` (°), `altitude` (m), `speed` (m/s) and `satellites`; below four, no fix."""

    talker = "GP"

    def burst(self, second: int) -> bytes:
        """Return one second's sentences."""
        seen = round(self._get("satellites", 9))
        clock = time.strftime("%H%M%S.00", time.gmtime(second))
        body = self._fixed(clock, second, seen) if seen >= _NEEDED else self._lost(seen)
        return b"".join(_line(f"{self.talker}{sentence}") for sentence in body)

    def _get(self, quantity: str, default: float) -> float:
        return clipped(self._scene.get(quantity, default), *_ENDS[quantity])

    def _fixed(self, clock: str, second: int, seen: int) -> list[str]:
        where = f"{_angle(self._get('latitude', 51.4779), 2, 'NS')},{_angle(self._get('longitude', 0.0), 3, 'EW')}"
        knots = self._get("speed", 0.0) / 0.514444
        return [
            f"RMC,{clock},A,{where},{knots:.3f},,{time.strftime('%d%m%y', time.gmtime(second))},,,A",
            f"VTG,,T,,M,{knots:.3f},N,{knots * 1.852:.3f},K,A",
            f"GGA,{clock},{where},1,{seen:02d},1.01,{self._get('altitude', 46.0):.1f},M,48.0,M,,",
            "GSA,A,3,23,29,07,08,,,,,,,,,1.94,1.18,1.54",
            f"GSV,1,1,{seen:02d}",
            f"GLL,{where},{clock},A,A",
        ]

    def _lost(self, seen: int) -> list[str]:
        return [
            "RMC,,V,,,,,,,,,,N",
            "VTG,,,,,,,,,N",
            "GGA,,,,,,0,00,99.99,,,,,,",
            "GSA,A,1,,,,,,,,,,,,,99.99,99.99,99.99",
            f"GSV,1,1,{seen:02d}",
            "GLL,,,,,,V,N",
        ]


def _angle(degrees: float, digits: int, sides: str) -> str:
    whole, minutes = divmod(round(abs(degrees) * 60, 5), 60)
    return f"{int(whole):0{digits}d}{minutes:08.5f},{sides[degrees < 0]}"


def _line(body: str) -> bytes:
    check = 0
    for byte in body.encode("ascii"):
        check ^= byte
    return f"${body}*{check:02X}\r\n".encode("ascii")
