"""`picoclaw history`: what the sensors said, as figures, as a chart, as JSON or as a picture."""

import re
import shutil
import sys
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TextIO

from picoclaw import chart, times
from picoclaw.app import SIMULATED_MARK, App
from picoclaw.automation.conditions import get_unit
from picoclaw.cli.arguments import Options, Parser
from picoclaw.cli.common import add_board_option, open_app, print_safe, print_wrapped
from picoclaw.errors import ConfigError
from picoclaw.files import write_atomic
from picoclaw.store.database import HISTORY_FILE
from picoclaw.store.samples import Samples, Series
from picoclaw.text import format_json
from picoclaw.tools import sensors
from picoclaw.tools.sensors import SeriesSummary

_MAX_CHART_WIDTH, _MAX_POINTS, _DATE_LABELS = 72, 320, 5

_NOTHING_MEASURED = "no measurements yet: sensors are measured while the service, `picoclaw run` or an open chat runs"


def options(parser: Parser) -> None:
    parser.add_argument("sensor", "such as greenhouse.temperature", nargs="?", default="")
    parser.add_argument("range", "yesterday, since monday, last 3 days (default: 24 h)", nargs="*")
    parser.add_argument("--json", "print figures and values as JSON")
    parser.add_argument("--svg FILE", "write the chart as an SVG picture")
    add_board_option(parser)


def run(given: Options) -> int:
    """Print it; exit code 1 when nothing was measured, or nothing of that name is kept."""
    with open_app(given, make=False) as app:
        path = app.config.home / HISTORY_FILE
        if path.exists():
            return _show_history(app, given)
        if given.sensor:
            raise ConfigError(_NOTHING_MEASURED)
        print_wrapped(_NOTHING_MEASURED)
        return 0


def _show_history(app: App, given: Options) -> int:
    samples, now = app.stores.samples, app.now()
    known = samples.known()
    if not given.sensor:
        print_wrapped(*sensors.list_newest(known, now.tzinfo))
        _print_simulated_note(app)
        return 0
    when = times.parse_range(" ".join(given.range) or "last 24 hours", now)
    series = sensors.find_series(list(known), given.sensor, "")
    if not series:
        names = ", ".join(f"{one.sensor}.{one.quantity}" for one in known)
        raise ConfigError(f"nothing is kept of {given.sensor!r}; kept are: {names or 'no measurements yet'}")
    most = _MAX_POINTS if given.svg or given.json else min(_MAX_CHART_WIDTH, shutil.get_terminal_size().columns - 10)
    if not given.range:
        when = _leave_out_beginning(samples, series, when)
    found = [look for one in series if (look := sensors.summarize_series(samples, one, when, max(8, most)))]
    if not found:
        raise ConfigError(f"nothing was measured from {when.begin:%Y-%m-%d %H:%M} to {when.end:%Y-%m-%d %H:%M}")
    if given.svg:
        _write_pictures(found, Path(given.svg), sys.stderr if given.json else sys.stdout)
    if given.json:
        print(format_json([_series_to_dict(look) | {"simulated": app.board.simulated} for look in found]))
        return 0
    if not given.svg:
        plain = not (sys.stdout.encoding or "").lower().startswith("utf")
        for number, look in enumerate(found):
            if number:
                print()
            print_wrapped(*sensors.format_summary(look))
            print_safe(*sensors.draw_series(look, plain=plain))
    _print_simulated_note(app)
    return 0


def _leave_out_beginning(samples: Samples, series: Sequence[Series], when: times.TimeRange) -> times.TimeRange:
    """The range from the first measurement on, where most of it was before: a chart of a new sensor is not one column."""
    looks = (sensors.summarize_series(samples, one, when, _MAX_POINTS) for one in series)
    first = min((span.at for look in looks if look for span in look.spans[:1]), default=0.0)
    late = first > when.begin.timestamp() + when.seconds / 2
    return when._replace(begin=datetime.fromtimestamp(first, when.end.tzinfo)) if late else when


def _print_simulated_note(app: App) -> None:
    if app.board.simulated:
        print(SIMULATED_MARK)


def _series_to_dict(look: SeriesSummary) -> dict[str, Any]:
    zone, whole = look.range.begin.tzinfo, look.whole
    figures = {"min": whole.low, "max": whole.high, "mean": whole.mean} if whole.good else {}
    return {
        "sensor": look.series.sensor,
        "quantity": look.series.quantity,
        "unit": get_unit(look.series),
        "begin": look.range.begin.isoformat(),
        "end": look.range.end.isoformat(),
        "readings": whole.good,
        "failed": whole.failed,
        **figures,
        "trend_an_hour": look.trend,
        "step_seconds": look.step_s,
        "values": [
            [datetime.fromtimestamp(s.at, zone).isoformat(), s.low, s.mean, s.high] for s in look.spans if s.good
        ],
    }


def _write_pictures(found: Sequence[SeriesSummary], path: Path, told: TextIO) -> None:
    """Write a picture of the first series, the others beside it by their quantity, of several sensors by both."""
    good = [look for look in found if look.whole.good]
    if not good:
        raise ConfigError("there is nothing to draw: every reading of that time failed")
    alone = len({look.series.sensor for look in good}) == 1
    for number, look in enumerate(good):
        words = re.sub(r"[^\w.]+", "-", look.series.quantity if alone else " ".join(look.series))
        name = path.with_stem(f"{path.stem}-{words}") if number else path
        write_atomic(name, draw_svg(look).encode(), 0o644)
        print(f"drawn: {name}", file=told)


def draw_svg(look: SeriesSummary) -> str:
    """Draw a series as SVG, with a few round moments below it."""
    begin, end = look.range.begin.timestamp(), look.range.end.timestamp()
    title = f"{look.series.sensor} {look.series.quantity} {get_unit(look.series)}".rstrip()
    points = [(span.at, span.low, span.total / span.good, span.high) for span in look.spans if span.good]
    apart = sensors.choose_step(look.range.seconds, _DATE_LABELS)
    first = look.range.begin.replace(minute=0, second=0, microsecond=0)
    if apart >= 86_400:
        first = first.replace(hour=0)
    count = int(look.range.seconds / apart) + 2
    moments = ((first + timedelta(seconds=apart * n)).timestamp() for n in range(count))
    last = end - 0.04 * (end - begin)
    dates = [(at, sensors.format_time(at, look.range)) for at in moments if begin <= at <= last]
    return chart.draw_svg(title, points, begin, end, dates, 3 * look.step_s)
