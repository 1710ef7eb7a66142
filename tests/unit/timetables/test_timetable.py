"""The moments of a schedule: month ends, leap years, clocks that are set forward and back, and what was missed."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relay_operator.timetables.cron import BadScheduleError, plain
from relay_operator.timetables.timetable import MANY, Timetable, UnknownTimeZoneError, timetable


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def times(schedule: str, zone: str | None, begin: str, count: int) -> list[str]:
    """So many moments after the beginning, in UTC, without year and seconds."""
    found, table = moment(begin), timetable(schedule, zone)
    told = []
    for _ in range(count):
        following = table.after(found)
        assert following is not None
        told.append(following.strftime("%m-%d %H:%M"))
        found = following
    return told


@pytest.mark.parametrize(
    ("schedule", "begin", "expected"),
    [
        ("* * * * *", "2026-12-31T23:59:00Z", ["01-01 00:00", "01-01 00:01"]),
        ("* * * * *", "2026-12-31T23:58:59Z", ["12-31 23:59", "01-01 00:00"]),
        ("0 0 31 * *", "2026-01-31T00:00:00Z", ["03-31 00:00", "05-31 00:00", "07-31 00:00", "08-31 00:00"]),
        ("0 0 29 2 *", "2026-01-01T00:00:00Z", ["02-29 00:00"]),
        ("0 12 28-31 2 *", "2028-02-28T00:00:00Z", ["02-28 12:00", "02-29 12:00", "02-28 12:00"]),
        ("0 0 13 * fri", "2026-11-01T00:00:00Z", ["11-06 00:00", "11-13 00:00", "11-20 00:00", "11-27 00:00"]),
        ("0 0 13 2 *", "2026-11-01T00:00:00Z", ["02-13 00:00"]),
        ("0 0 */10 * mon", "2026-11-01T00:00:00Z", ["11-02 00:00", "11-09 00:00", "11-11 00:00", "11-16 00:00"]),
        ("0 0 */1 * mon", "2026-11-01T00:00:00Z", ["11-02 00:00", "11-09 00:00"]),
        ("0 0 31 4,12 *", "2026-01-01T00:00:00Z", ["12-31 00:00"]),
    ],
)
def test_the_calendar_is_kept(schedule: str, begin: str, expected: list[str]) -> None:
    assert times(schedule, None, begin, len(expected)) == expected


def test_the_leap_year_that_is_left_out_is_waited_for() -> None:
    assert timetable("0 0 29 2 *", None).after(moment("2096-03-01T00:00:00Z")) == moment("2104-02-29T00:00:00Z")


@pytest.mark.parametrize("schedule", ["0 0 31 2 *", "0 0 30 2 *", "0 0 31 4,6,9,11 *"])
def test_a_date_that_no_year_has_is_refused(schedule: str) -> None:
    with pytest.raises(BadScheduleError, match="no year has a date like"):
        timetable(schedule, None)


@pytest.mark.parametrize(
    ("schedule", "zone", "begin", "expected"),
    [
        # Set forward on 29 March, 2:00 to 3:00; back on 25 October, 3:00 to 2:00.
        ("30 2 * * *", "Europe/Berlin", "2026-03-27T12:00:00Z", ["03-28 01:30", "03-30 00:30"]),
        ("0 3 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", ["03-29 01:00", "03-30 01:00"]),
        ("0 * * * *", "Europe/Berlin", "2026-03-28T23:30:00Z", ["03-29 00:00", "03-29 01:00", "03-29 02:00"]),
        ("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", ["10-25 00:30", "10-25 01:30", "10-26 01:30"]),
        ("0 * * * *", "Europe/Berlin", "2026-10-24T23:30:00Z", ["10-25 00:00", "10-25 01:00", "10-25 02:00"]),
        ("0,40 2 * * *", "Europe/Berlin", "2026-10-25T00:10:00Z", ["10-25 00:40", "10-25 01:00", "10-25 01:40"]),
        # The same on 8 March and 1 November.
        ("30 2 * * *", "America/New_York", "2026-03-07T12:00:00Z", ["03-09 06:30"]),
        ("30 1 * * *", "America/New_York", "2026-10-31T12:00:00Z", ["11-01 05:30", "11-01 06:30", "11-02 06:30"]),
        # Set by half an hour.
        ("45 1 * * *", "Australia/Lord_Howe", "2026-04-03T20:00:00Z", ["04-04 14:45", "04-04 15:15", "04-05 15:15"]),
        # A day whose midnight does not exist still has its other hours.
        ("0 6 29 3 *", "Asia/Beirut", "2026-03-28T00:00:00Z", ["03-29 03:00"]),
        ("0 0 * * *", "Asia/Beirut", "2026-03-28T00:00:00Z", ["03-29 21:00"]),
        ("0 0 * * *", "Asia/Kathmandu", "2026-03-28T00:00:00Z", ["03-28 18:15"]),
    ],
)
def test_what_the_clock_skips_does_not_happen_and_what_it_repeats_happens_twice(
    schedule: str, zone: str, begin: str, expected: list[str]
) -> None:
    assert times(schedule, zone, begin, len(expected)) == expected


@pytest.mark.parametrize(
    "zone", ["Mars/Olympus", "", "America", "../UTC", "UTC\0", "Local", "localtime", "europe berlin"]
)
def test_a_time_zone_that_does_not_exist_is_refused(zone: str) -> None:
    with pytest.raises(UnknownTimeZoneError, match="use a name of the IANA list"):
        timetable("@daily", zone)


@pytest.mark.parametrize(
    ("since", "until", "latest", "many"),
    [
        ("2026-11-21T12:00:00Z", "2026-11-21T12:00:59Z", None, False),
        ("2026-11-21T12:00:00Z", "2026-11-21T12:01:00Z", "2026-11-21T12:01:00Z", False),
        ("2026-11-21T12:00:00Z", "2026-11-21T13:40:59Z", "2026-11-21T13:40:00Z", False),
        ("2026-11-21T12:00:00Z", "2026-11-21T13:41:00Z", "2026-11-21T13:41:00Z", True),
        ("2006-11-21T12:00:00Z", "2026-11-21T13:41:59Z", "2026-11-21T13:41:00Z", True),
        ("2026-11-21T12:00:00Z", "2026-11-21T11:00:00Z", None, False),
    ],
)
def test_the_latest_missed_time_is_found_and_whether_there_were_many(
    since: str, until: str, latest: str | None, many: bool
) -> None:
    missed = timetable("* * * * *", None).missed(moment(since), moment(until))
    if latest is None:
        assert missed is None
    else:
        assert missed is not None
        assert (missed.latest, missed.many) == (moment(latest), many)


def test_the_latest_of_many_is_found_where_they_come_in_clusters() -> None:
    missed = timetable("* 3 1 1 *", None).missed(moment("2020-06-01T00:00:00Z"), moment("2026-11-21T00:00:00Z"))
    assert missed is not None
    assert (missed.latest, missed.many) == (moment("2026-01-01T03:59:00Z"), True)


ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Beirut", "Africa/Cairo")
BOUNDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))


def numbers(low: int, high: int) -> st.SearchStrategy[str]:
    number = st.integers(low, high)
    span = st.tuples(number, number).map(lambda pair: f"{min(pair)}-{max(pair)}")
    whole = st.sampled_from(["*", "?"])
    part = st.one_of(whole, number.map(str), span)
    stepped = st.tuples(part, st.integers(1, high)).map(lambda pair: f"{pair[0]}/{pair[1]}")
    return st.one_of(whole, st.lists(st.one_of(part, stepped), min_size=1, max_size=3).map(",".join))


schedules = st.tuples(*(numbers(low, high) for low, high in BOUNDS)).map(" ".join)
moments = st.datetimes(datetime(2026, 1, 1), datetime(2029, 12, 31)).map(lambda naive: naive.replace(tzinfo=UTC))  # noqa: DTZ001


def shows(schedule: str, wall: datetime) -> bool:
    """Whether a time on the calendar is one of the schedule's, told from its plain form."""
    fields = plain(schedule).split()
    values = (wall.minute, wall.hour, wall.day, wall.month, wall.isoweekday() % 7)
    fits = [field == "*" or str(value) in field.split(",") for field, value in zip(fields, values, strict=True)]
    both = "*" in (fields[2], fields[4])
    days = fits[2] and fits[4] if both else fits[2] or fits[4]
    return fits[0] and fits[1] and fits[3] and days


def told(schedule: str, zone: str) -> Timetable | None:
    try:
        return timetable(schedule, zone)
    except BadScheduleError:  # a day that no month of the schedule has
        return None


@given(schedule=schedules, zone=st.sampled_from(ZONES), begin=moments)
def test_the_next_moment_shows_a_time_of_the_schedule_and_none_before_it_does(
    schedule: str, zone: str, begin: datetime
) -> None:
    table = told(schedule, zone)
    if table is None:
        return
    following = table.after(begin)
    assert following is not None
    assert following > begin
    assert following.second == following.microsecond == 0
    assert shows(schedule, following.astimezone(ZoneInfo(zone)))
    between = begin.replace(second=0, microsecond=0) + timedelta(minutes=1)
    for minute in range(60 * 26):
        passed = between + timedelta(minutes=minute)
        if passed >= following:
            break
        assert not shows(schedule, passed.astimezone(ZoneInfo(zone)))


@settings(max_examples=50)
@given(
    schedule=schedules, zone=st.sampled_from(ZONES), begin=moments, span=st.timedeltas(timedelta(), timedelta(days=40))
)
def test_nothing_lies_between_the_latest_missed_moment_and_the_end(
    schedule: str, zone: str, begin: datetime, span: timedelta
) -> None:
    table = told(schedule, zone)
    if table is None:
        return
    end = begin + span
    missed, first = table.missed(begin, end), table.after(begin)
    if missed is None:
        assert first is None or first > end
        return
    assert begin < missed.latest <= end
    following = table.after(missed.latest)
    assert following is None or following > end
    count, passed = 0, first
    while passed is not None and passed <= end and count <= MANY:
        count, passed = count + 1, table.after(passed)
    assert missed.many == (count > MANY)


ENDS = ["0001-01-01T00:00:00Z", "0001-06-01T00:00:00Z", "9996-03-01T00:00:00Z", "9999-12-31T23:59:59Z"]


@pytest.mark.parametrize("zone", [None, "America/New_York", "Pacific/Kiritimati"])
@pytest.mark.parametrize("schedule", ["* * * * *", "0 0 29 2 *"])
@pytest.mark.parametrize("text", ENDS)
def test_at_both_ends_of_the_calendar_nothing_is_due(text: str, schedule: str, zone: str | None) -> None:
    found, table = datetime.fromisoformat(text), timetable(schedule, zone)
    following, former = table.after(found), table.once_until(found)
    assert following == table.once_after(found)
    assert (following is None) is (found.year > 9000)
    assert following is None or 1970 <= following.year <= 1972
    assert (former is None) is (found.year < 1000)


@pytest.mark.parametrize("zone", [None, "America/New_York"])
def test_what_was_missed_since_the_first_year_is_found(zone: str | None) -> None:
    missed = timetable("0 12 * * *", zone).missed(datetime(1, 1, 1, tzinfo=UTC), moment("2026-11-21T18:00:00Z"))
    assert missed is not None
    assert missed.many
    assert missed.latest.date() == moment("2026-11-21T18:00:00Z").date()
