"""Each rule says no where it should, says why, and says nothing where it should not."""

from datetime import datetime

from rows import each_row

from picoclaw.outputs.config import OutputConfig, RequiredSensor
from picoclaw.outputs.limits import (
    LimitContext,
    OnPeriod,
    OutputRequest,
    SensorSample,
    check_limits,
    check_required_sensor,
    prune_periods,
    resolve_seconds,
    sum_on_time,
)

NOW = 100_000.0


def output(**more):
    return OutputConfig(**{"kind": "pump", "longest_on_s": 600.0, "name": "pump", "line": "GPIO17", **more})


def moment(*outputs, wall="12:00", periods=(), **more):
    known = {one.name: one for one in outputs or (output(),)}
    clock = datetime.fromisoformat(f"2026-07-01 {wall}") if wall else None
    return LimitContext(NOW, clock, {"pump": list(periods)} | more.pop("others", {}), known, **more)


def ask(level=100.0, seconds=60.0, who="owner"):
    return OutputRequest(level, seconds, who)


FAN = output(name="fan", line="GPIO4")
NEEDS = {"sensor": "porch", "quantity": "temperature", "fresh_s": 60, "low": 0, "high": 30}
ON = OnPeriod(NOW - 100)


@each_row(
    ("rule", "said", "wish", "now"),
    [
        ("stop", "picoclaw outputs resume", ask(), moment(stopped="by owner")),
        ("configuration", "line 3", ask(), moment(problem="outputs.toml: line 3")),
        ("unknown output", "declared: fan", ask(), moment(FAN)),
        ("who", "cron may not switch pump; allowed: owner", ask(who="cron"), moment()),
        ("who", "'' may not", ask(who="''"), moment()),
        ("hours", "clock not trusted", ask(), moment(output(hours="06:00-22:00"), wall=None)),
        ("hours", "it is 23:00", ask(), moment(output(hours="06:00-22:00"), wall="23:00")),
        ("hours", "it is 05:59", ask(), moment(output(hours="06:00-22:00"), wall="05:59:59")),
        ("hours", "at most 30 s", ask(), moment(output(hours="06:00-22:00"), wall="21:59:30")),
        ("hours", "it is 12:00", ask(), moment(output(hours="22:00-06:00"))),
        ("value", "only on or off, not 50 %", ask(level=50.0), moment()),
        ("longest_on", "at most 600 s", ask(seconds=601.0), moment()),
        ("longest_on", "since it was switched on: ask for at most 500", ask(seconds=501.0), moment(periods=[ON])),
        ("longest_on", "switch it off first", ask(), moment(periods=[OnPeriod(NOW - 600)])),
        ("longest_on", "more than 0", ask(seconds=0.0), moment()),
        ("shortest_off", "wait 20 s", ask(), moment(output(shortest_off_s=30.0), periods=[OnPeriod(0, NOW - 10)])),
        ("duty", "at most 20 s", ask(), moment(output(duty_s_per_hour=100.0), periods=[OnPeriod(NOW - 90, NOW - 10)])),
        ("duty", "0 s are left: wait", ask(), moment(output(duty_s_per_hour=100.0), periods=[OnPeriod(NOW - 200, NOW)])),
        ("duty", "at most 20 s", ask(), moment(output(duty_s_per_hour=120.0), periods=[ON])),
        ("toggles", "2 times", ask(), moment(output(toggles_per_hour=2), periods=[OnPeriod(NOW - 9, NOW - 8)] * 2)),
        ("exclusion", "with fan, which is on", ask(), moment(output(excludes=["fan"]), FAN, others={"fan": [ON]})),
        ("exclusion", "with fan, which is on", ask(), moment(output(), output(name="fan", excludes=["pump"]), others={"fan": [ON]})),
        ("sensor", "was not measured yet", ask(), moment(output(needs=NEEDS))),
        ("sensor", "61 s old", ask(), moment(output(needs=NEEDS), sample=SensorSample(NOW - 61, 20))),
        ("sensor", "cannot be measured: wire", ask(), moment(output(needs=NEEDS), sample=SensorSample(NOW, None, "wire"))),
        ("sensor", "is -1, below 0", ask(), moment(output(needs=NEEDS), sample=SensorSample(NOW, -1))),
        ("sensor", "is 31, above 30", ask(), moment(output(needs=NEEDS), sample=SensorSample(NOW, 31))),
    ],
)  # fmt: skip
def test_a_rule_that_speaks_against_it(rule, said, wish, now):
    refusal = check_limits("pump", wish, now)
    assert refusal
    assert (refusal.rule, said in refusal.why) == (rule, True), refusal
    assert "\n" not in str(refusal)


@each_row(
    ("wish", "now"),
    [
        (ask(), moment()),
        (ask(seconds=None), moment()),
        (ask(seconds=600.0), moment()),
        (ask(seconds=500.0), moment(periods=[ON])),
        (ask(level=50.0), moment(output(pwm="pwmchip0/0"))),
        (ask(who="cron"), moment(output(who=["cron"]))),
        (ask(), moment(wall=None)),
        (ask(), moment(output(hours="06:00-22:00"), wall="06:00")),
        (ask(), moment(output(hours="06:00-22:00"), wall="21:59")),
        (ask(), moment(output(hours="22:00-06:00"), wall="01:00")),
        (ask(), moment(output(hours="00:00-00:00"), wall="23:59:59")),
        (ask(), moment(output(shortest_off_s=30.0), periods=[OnPeriod(0, NOW - 30)])),
        (ask(), moment(output(shortest_off_s=30.0), periods=[ON])),
        (ask(seconds=20.0), moment(output(duty_s_per_hour=100.0), periods=[OnPeriod(NOW - 90, NOW - 10)])),
        (ask(), moment(output(duty_s_per_hour=60.0), periods=[OnPeriod(NOW - 5000, NOW - 3600)])),
        (ask(seconds=None), moment(output(duty_s_per_hour=3600.0, longest_on_s=7200.0))),
        (ask(), moment(output(toggles_per_hour=1), periods=[OnPeriod(NOW - 3600, NOW - 3590)])),
        (ask(), moment(output(toggles_per_hour=1), periods=[ON])),
        (ask(), moment(output(excludes=["fan"]), FAN, others={"fan": [OnPeriod(0, 1)]})),
        (ask(), moment(output(needs=NEEDS), sample=SensorSample(NOW - 60, 30))),
    ],
)
def test_nothing_speaks_against_it(wish, now):
    assert check_limits("pump", wish, now) is None


def test_the_rules_speak_in_their_order():
    """With everything wrong at once, mending one after the other brings up the next rule."""
    worst = output(
        hours="06:00-22:00",
        longest_on_s=10.0,
        shortest_off_s=30.0,
        duty_s_per_hour=5.0,
        toggles_per_hour=1,
        excludes=["fan"],
        needs=NEEDS,
    )
    now = moment(
        worst, FAN, wall="23:00", periods=[OnPeriod(NOW - 9, NOW - 1)], others={"fan": [ON]}, stopped="x", problem="y"
    )
    wish = ask(level=50.0, who="cron")
    mends = [
        lambda: (wish, now._replace(stopped="")),
        lambda: (wish, now._replace(problem="")),
        lambda: (wish._replace(who="owner"), now),
        lambda: (wish, now._replace(wall=datetime.fromisoformat("2026-07-01 12:00"))),
        lambda: (wish._replace(level=100.0), now),
        lambda: (wish._replace(seconds=9.0), now),
        lambda: (wish, now._replace(periods={**now.periods, "pump": [OnPeriod(NOW - 50, NOW - 31)]})),
        lambda: (
            wish._replace(seconds=1.0),
            now._replace(periods={**now.periods, "pump": [OnPeriod(NOW - 34, NOW - 31)]}),
        ),
        lambda: (wish, now._replace(periods={"fan": [ON]})),
        lambda: (wish, now._replace(periods={})),
    ]
    seen = []
    for mend in mends:
        refusal = check_limits("pump", wish, now)
        seen.append(refusal.rule)
        wish, now = mend()
    seen.append(check_limits("pump", wish, now).rule)
    rules = "stop configuration who hours value longest_on shortest_off duty toggles exclusion sensor"
    assert seen == rules.split()


def test_no_seconds_means_as_long_as_may_be():
    assert resolve_seconds(output(), ask(seconds=None), moment()) == 600
    assert resolve_seconds(output(), ask(seconds=None), moment(periods=[ON])) == 500


def test_used_counts_what_lies_in_the_last_hour():
    periods = [OnPeriod(NOW - 5000, NOW - 3500), OnPeriod(NOW - 100, NOW - 50), OnPeriod(NOW - 7)]
    assert sum_on_time(periods, NOW) == 100 + 50 + 7


def test_what_no_rule_can_see_any_more_is_forgotten_but_the_last():
    old, last = OnPeriod(0, 1), OnPeriod(2, 3)
    assert list(prune_periods([old, last], output(), NOW)) == [last]
    assert list(prune_periods([old, last], output(shortest_off_s=NOW), NOW)) == [old, last]


def test_a_required_sensor_may_have_one_limit_or_none():
    assert check_required_sensor(RequiredSensor("porch", "temperature", 60), SensorSample(NOW, 1e6), NOW) == ""
