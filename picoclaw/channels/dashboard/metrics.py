"""The figures of the board for a program that draws them, as OpenMetrics text.

Source: https://prometheus.io/docs/specs/om/open_metrics_spec/
"""

from collections.abc import Iterable

from picoclaw.channels.dashboard.backend import Figure, SensorValue

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"


def format_metrics(readings: Iterable[SensorValue], figures: Iterable[Figure], now: float) -> str:
    """Write what the sensors say, and the figures; a sensor without a value has none here."""
    found = list(figures)
    for one in readings:
        labels = {"sensor": one.sensor, "quantity": one.quantity, "unit": one.unit}
        is_good = one.value is not None and not one.problem
        found.append(Figure("reading_valid", "1 while the sensor can be read", labels, float(is_good)))
        if one.value is not None:
            found.append(Figure("reading", "what the sensor says, in its unit", labels, one.value))
            if one.at:
                age = max(0.0, now - one.at)
                found.append(Figure("reading_age_seconds", "how old that is", labels, age))
    lines, last = [], ""
    for figure in sorted(found, key=lambda one: one.name):
        if figure.name != last:
            last = figure.name
            lines += [f"# TYPE picoclaw_{last} gauge", f"# HELP picoclaw_{last} {_escape(figure.purpose)}"]
        shown = ",".join(f'{name}="{_escape(text)}"' for name, text in figure.labels.items())
        lines.append(f"picoclaw_{figure.name}{f'{{{shown}}}' if shown else ''} {figure.value:.10g}")
    return "\n".join([*lines, "# EOF", ""])


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
