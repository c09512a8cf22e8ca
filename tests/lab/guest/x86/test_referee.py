"""The kernel's drivers as referees: our simulated part, read by the kernel and then by picoclaw, has to give one value.

Three are checked against each other: the model of the part, the driver in tools/hw, and picoclaw.hw.kernel.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import lab
import pytest
from referee import CASES, Case

from picoclaw.hw import kernel
from picoclaw.hw.reading import WiredPart

Values = dict[str, float | str]


@contextmanager
def held_by_kernel(case: Case) -> Iterator[Path]:
    """Let the kernel's driver have the part for a while."""
    if case.kernel_at:
        folder = lab.bind_spi(case.device, case.kernel_at)
    else:
        folder = lab.bind(case.device, int(case.at.partition("/")[2], 16))
    try:
        for name, text in case.setup.items():
            next(folder.glob(name)).write_text(text)
        yield folder
    finally:
        if case.kernel_at:
            lab.unbind_spi(case.device, case.kernel_at)
        else:
            lab.unbind(int(case.at.partition("/")[2], 16))


def read_by_kernel(board, case: Case, folder: Path) -> Values:
    """Read one device through the kernel, by quantity and channel; a failure is told in its place."""
    found: Values = {}
    for sensor in kernel.list_kernel_sensors(board):
        if Path(sensor.path).resolve().is_relative_to(folder.resolve()):
            reading = kernel.read_kernel_sensor(board, sensor)
            channel = sensor.name.partition(" ")[2]
            found[f"{sensor.quantity} {channel}".strip()] = reading.problem or reading.value
    for quantity, name in case.named.items():
        found[quantity] = found.get(name, f"missing among {', '.join(found)}")
    for quantity, file in case.files.items():
        device = next(folder.glob("iio:device*"))
        raw, scale = ((device / name).read_text() if name else 1 for name in (file.raw, file.scale))
        found[quantity] = float(raw) * float(scale) * file.factor
    return found


def read_by_driver(drivers, case: Case) -> Values:
    """Read the same part with the driver in tools/hw."""
    bus, _, address = case.at.partition("/")
    if address:
        wired = WiredPart(case.part, 1, int(address, 16), options=case.options)
    else:
        wired = WiredPart(case.part, 0, chip=int(bus[-1]), options=case.options)
    readings = drivers.measure("part", wired, next(iter(case.values)))
    return {f"{r.quantity} {r.channel}".strip(): r.problem or r.value for r in readings}


def apart(case: Case, who: str, found: Values, true: dict[str, float]) -> list[str]:
    """Tell which values are missing or too far from the truth."""
    return [
        f"{who}: {quantity} is {found.get(quantity)}, not {value:g} within {case.within[quantity]:g}"
        for quantity, value in true.items()
        if not isinstance(found.get(quantity), float | int) or abs(found[quantity] - value) > case.within[quantity]
    ]


def told(value: float | str | None) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def measured(case: Case, true: dict[str, float], bridge, board, drivers) -> tuple[Values, Values]:
    """Power a part up in surroundings that are known, and read it by the kernel and then by picoclaw."""
    places = [case.at, case.kernel_at] if case.kernel_at else [case.at]
    bridge.place(case.model or case.part, *places, pace=case.pace, **true)
    try:
        time.sleep(case.settle_s)
        with held_by_kernel(case) as folder:
            for _ in range(2 if case.cold else 1):
                time.sleep(case.settle_s)
                of_kernel = read_by_kernel(board, case, folder)
        time.sleep(case.settle_s)
        return of_kernel, read_by_driver(drivers, case)
    finally:
        bridge.remove(*places)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.part}-{case.device}")
def test_kernel_and_driver_agree(case, bridge, board, drivers):
    lab.modprobe(case.module)
    differences = []
    for i in range(len(next(iter(case.values.values())))):
        true = {name: values[i] for name, values in case.values.items()}
        of_kernel, of_driver = measured(case, true, bridge, board, drivers)
        for name, value in true.items():
            row = f"true {value:g}, kernel {told(of_kernel.get(name))}, picoclaw {told(of_driver.get(name))}"
            print(f"     {case.part} {name}: {row}", flush=True)
        differences += apart(case, "kernel", of_kernel, true) + apart(case, "picoclaw", of_driver, true)
    if differences:
        pytest.fail("\n".join(differences))
