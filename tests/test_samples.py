"""The history of sensors in a real database: nothing twice, nothing at the wrong date, little on the card."""

import math
from datetime import UTC, datetime, timedelta

import pytest

from picoclaw.errors import StoreNewer
from picoclaw.store.database import HISTORY_MIGRATIONS, Database
from picoclaw.store.samples import ClockReading, SampleBlock, Samples, SensorFailure, Series, pack_points, unpack_points

NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)
WARM, WET = Series("greenhouse", "temperature"), Series("greenhouse", "humidity")
HOUR, DAY = 3600.0, 86_400.0


@pytest.fixture
def database(tmp_path):
    database = Database(tmp_path / "history.db", HISTORY_MIGRATIONS)
    yield database
    database.close()


@pytest.fixture
def samples(database):
    return Samples(database)


def moment(mono, wall=NOON, boot="first", trusted=True):
    return ClockReading(boot, mono, wall, trusted)


def at(seconds):
    return NOON + timedelta(seconds=seconds)


def values(samples, begin, end, series=WARM, step=1.0):
    return [
        (span.at - NOON.timestamp(), span.low)
        for span in samples.spans(series, NOON.timestamp() + begin, NOON.timestamp() + end, step)
        if span.good
    ]


def test_points_come_back_as_they_were():
    points = [(1000.0, 21.5), (1010.0, None), (1020.1, -3.25), (99_000.0, 7.0)]
    blocks = list(pack_points(points))
    assert len(blocks) == 2  # what tenths of a second do not reach begins a block of its own
    found = [span for began, data in blocks for span in unpack_points(began, data)]
    assert [(round(s.at, 1), s.good, s.failed, s.low if s.good else None) for s in found] == [
        (1000.0, 1, 0, 21.5), (1010.0, 0, 1, None), (1020.1, 1, 0, -3.25), (99_000.0, 1, 0, 7.0),
    ]  # fmt: skip


def test_a_block_that_was_cut_gives_what_is_whole():
    ((began, data),) = pack_points([(0.0, 1.0), (10.0, 2.0)])
    assert [span.low for span in unpack_points(began, data[:-1])] == [1.0]


def test_what_is_kept_can_be_asked_for(samples):
    samples.keep(moment(100), [SampleBlock(WARM, [(40, 20.0), (100, 22.0)]), SampleBlock(WET, [(40, 55.0)])])
    assert values(samples, -60, 1) == [(-60, 20.0), (0, 22.0)]
    assert values(samples, -60, 0) == [(-60, 20.0)]
    assert values(samples, -60, 1, WET) == [(-60, 55.0)]
    assert samples.known() == {WET: NOON.timestamp() - 60, WARM: NOON.timestamp() - 60}
    whole = samples.whole(WARM, NOON.timestamp() - 60, NOON.timestamp() + 1)
    assert (whole.good, whole.failed, whole.mean, whole.low, whole.high) == (2, 0, 21.0, 20.0, 22.0)
    assert samples.whole(WARM, 0, 1) is None


def test_samples_before_the_clock_was_set_move_to_their_date(samples):
    wrong = datetime(1970, 1, 1, tzinfo=UTC)
    samples.keep(moment(30, wrong, trusted=False), [SampleBlock(WARM, [(10, 1.0), (20, 2.0)])])
    assert values(samples, -100, 100) == []
    assert samples.undated(-1e9, 1e10)
    samples.keep(moment(100, NOON), [SampleBlock(WARM, [(90, 3.0)])])
    assert values(samples, -100, 100) == [(-90, 1.0), (-80, 2.0), (-10, 3.0)]
    assert not samples.undated(-1e9, 1e10)


@pytest.mark.parametrize("off", [-7200, 315_576_000])
def test_a_clock_that_is_set_wrongly_for_a_while_spoils_nothing(samples, off):
    samples.keep(moment(10), [SampleBlock(WARM, [(10, 1.0)])])
    samples.keep(moment(20, at(10 + off)), [SampleBlock(WARM, [(20, 2.0)])])
    samples.fold(moment(20, at(10 + off)))
    samples.keep(moment(30, at(20)), [SampleBlock(WARM, [(30, 3.0)])])
    kept = values(samples, -HOUR, HOUR)
    if off < 0:
        assert kept == [(0, 1.0), (10, 2.0), (20, 3.0)]
    else:  # ten years ahead, everything is old: a few hours are folded, none is lost
        whole = samples.whole(WARM, NOON.timestamp() - DAY + off - off, 1e11)
        assert whole.good == 3


def test_a_boot_without_a_date_lies_between_its_neighbours(samples):
    wrong = datetime(1970, 1, 1, tzinfo=UTC)
    samples.keep(moment(0), [SampleBlock(WARM, [(0, 1.0)])])
    samples.keep(moment(50, wrong, "second", trusted=False), [SampleBlock(WARM, [(10, 2.0), (50, 3.0)])])
    samples.keep(moment(5, at(600), "third"), [SampleBlock(WARM, [(5, 4.0)])])
    order = values(samples, -DAY, DAY)
    assert [value for _, value in order] == [1.0, 2.0, 3.0, 4.0]
    far = at(10 * DAY)
    samples.keep(moment(50, far, "fourth", trusted=False), [SampleBlock(WARM, [(50, 5.0)])])
    samples.keep(moment(5, at(1200), "fifth"), [SampleBlock(WARM, [(5, 6.0)])])
    kept = [(0, 1.0), (11, 2.0), (51, 3.0), (600, 4.0), (1194, 5.0), (1200, 6.0)]
    assert values(samples, -DAY, 20 * DAY) == kept, "the fourth ended a second before the fifth began"


def test_boots_without_a_date_follow_each_other(samples):
    samples.keep(moment(0), [SampleBlock(WARM, [(0, 1.0)])])
    for days, boot in enumerate(("second", "third"), 10):
        samples.keep(moment(50, at(days * DAY), boot, trusted=False), [SampleBlock(WARM, [(50, float(days))])])
    samples.keep(moment(5, at(600), "fourth"), [SampleBlock(WARM, [(5, 4.0)])])
    assert values(samples, -DAY, 20 * DAY) == [(0, 1.0), (543, 10.0), (594, 11.0), (600, 4.0)]


@pytest.mark.parametrize(("by", "raw"), [(7200, [1, 1, 0]), (-7200, [1, 1, 0]), (30, [0, 0, 0])])
def test_a_date_that_was_set_by_more_than_a_minute_ages_nothing_for_a_day(samples, database, by, raw):
    samples.keep(moment(10), [SampleBlock(WARM, [(10, 1.0)])])
    left = []
    for after in (0, DAY - 1, DAY):
        mono = 3 * DAY + after
        samples.fold(moment(mono, at(mono + by)))
        with database.reading() as connection:
            left.append(connection.execute("SELECT count(*) FROM raw").get)
    assert left == raw


def fill(samples, days, every=300.0):
    """Some days of a sine, a sample every few minutes, folded every hour as the sampler does."""
    mono, points = 0.0, []
    while mono < days * DAY:
        points.append((mono, 20 + 5 * math.sin(mono * math.tau / DAY) if mono % 3000 else None))
        mono += every
        if mono % HOUR == 0:
            samples.keep(moment(mono, at(mono)), [SampleBlock(WARM, points)])
            samples.fold(moment(mono, at(mono)))
            points = []
    return mono


def test_old_samples_are_folded_and_none_is_counted_twice(samples, database):
    end = fill(samples, 40)
    whole = samples.whole(WARM, NOON.timestamp(), NOON.timestamp() + end)
    count = int(end / 300)
    assert whole.good + whole.failed == count
    assert whole.failed == count // 10
    assert (round(whole.low, 1), round(whole.high, 1)) == (15.0, 25.0)
    with database.reading() as connection:
        kept = dict(connection.execute("SELECT seconds, count(*) FROM spans GROUP BY seconds").fetchall())
        raw = connection.execute("SELECT count(*), min(began) FROM raw").fetchone()
    assert end - raw[1] <= 49 * HOUR
    assert 27 * DAY <= kept[300] * 300 <= 30 * DAY
    assert 10 * 24 <= kept[3600] <= 11 * 24
    steps = samples.spans(WARM, NOON.timestamp(), NOON.timestamp() + end, DAY)
    assert len(steps) == 41  # from noon to noon
    assert all(abs(step.mean - 20) < 0.1 for step in steps[1:-1])


def test_what_is_two_years_old_goes(samples, database):
    samples.keep(moment(0), [SampleBlock(WARM, [(0, 1.0)])])
    for days in (3, 40, 732):
        late = moment(days * DAY, at(days * DAY))
        for _ in range(3):
            samples.fold(late)
    assert samples.whole(WARM, 0, 1e11) is None


def test_folding_again_changes_nothing(samples):
    fill(samples, 4)
    before = samples.whole(WARM, 0, 1e11)
    for _ in range(3):
        samples.fold(moment(4 * DAY, at(4 * DAY)))
    assert samples.whole(WARM, 0, 1e11)[1:] == pytest.approx(before[1:])


def test_a_trouble_that_lasts_is_one(samples):
    samples.keep(moment(100), [], [SensorFailure("greenhouse", 40, 100, 7, "no answer")])
    samples.keep(moment(160, at(60)), [], [SensorFailure("greenhouse", 40, 160, 13, "no answer")])
    (found,) = samples.troubles("greenhouse", 0, 1e11)
    assert (found.began - NOON.timestamp(), found.ended - NOON.timestamp(), found.times) == (-60, 60, 13)
    assert samples.troubles("porch", 0, 1e11) == []


def test_state_and_history_are_not_taken_for_each_other(tmp_path):
    Database(tmp_path / "state.db").close()
    with pytest.raises(StoreNewer, match="newer picoclaw"):
        Database(tmp_path / "state.db", HISTORY_MIGRATIONS)
