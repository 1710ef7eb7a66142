"""When windows open and shut: within a day, over nights and weekends, and where the clock is set forward and back."""

import sys
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay_operator.timetables.cron import BadScheduleError
from relay_operator.timetables.timetable import Timetable, UnknownTimeZoneError
from relay_operator.timetables.windows import windows

BERLIN = "Europe/Berlin"


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


@pytest.mark.parametrize(
    ("start", "stop", "at", "is_open", "change"),
    [
        ("0 8 * * 1-5", "0 18 * * 1-5", "2026-11-23T07:59:59Z", False, "2026-11-23T08:00:00Z"),
        ("0 8 * * 1-5", "0 18 * * 1-5", "2026-11-23T08:00:00Z", True, "2026-11-23T18:00:00Z"),
        ("0 8 * * 1-5", "0 18 * * 1-5", "2026-11-23T18:00:00Z", False, "2026-11-24T08:00:00Z"),
        ("0 8 * * 1-5", "0 18 * * 1-5", "2026-11-28T12:00:00Z", False, "2026-11-30T08:00:00Z"),
        ("0 22 * * *", "0 6 * * *", "2026-11-23T01:00:00Z", True, "2026-11-23T06:00:00Z"),
        ("0 * * * *", "0 18 * * *", "2026-11-23T09:30:00Z", True, "2026-11-23T18:00:00Z"),
        ("0 * * * *", "0 18 * * *", "2026-11-23T18:00:00Z", False, "2026-11-23T19:00:00Z"),
        ("0 8 * * *", "0 8 * * 1-5", "2026-11-23T08:30:00Z", False, "2026-11-28T08:00:00Z"),
        ("0 0 29 2 *", "0 0 1 3 *", "2026-11-23T00:00:00Z", False, "2028-02-29T00:00:00Z"),
        ("* * * * *", "* 0-22 * * *", "2026-11-23T00:00:00Z", False, "2026-11-23T23:00:00Z"),
        ("* * * * *", "* * * 1-11 *", "2026-01-01T00:00:00Z", False, "2026-12-01T00:00:00Z"),
        ("* * * * *", "* 0-22 * 2-12 *", "2026-02-01T00:00:00Z", False, "2026-02-01T23:00:00Z"),
        ("0 0 29 2 *", "0 0 * * 0-1,3-6", "2029-01-01T00:00:00Z", False, "2056-02-29T00:00:00Z"),  # a Tuesday
    ],
)
def test_a_window_is_open_from_a_start_to_the_next_stop(
    start: str, stop: str, at: str, is_open: bool, change: str
) -> None:
    found = windows(start, stop, None)
    assert found.open(moment(at)) is is_open
    assert found.change(moment(at)) == moment(change)


@pytest.mark.parametrize(
    ("start", "stop", "at", "change"),
    [
        # In spring the clock goes from 2:00 to 3:00: what would stop between them stops at 3:00.
        ("0 20 * * *", "30 2 * * *", "2026-03-29T00:59:59Z", "2026-03-29T01:00:00Z"),
        # In autumn it goes from 3:00 back to 2:00: what stops at 2:30 stops the first time, and stays stopped.
        ("0 20 * * *", "30 2 * * *", "2026-10-25T00:00:00Z", "2026-10-25T00:30:00Z"),
        ("0 20 * * *", "30 2 * * *", "2026-10-25T01:29:00Z", "2026-10-25T19:00:00Z"),
        ("0 20 * * *", "30 2 * * *", "2026-10-25T01:30:00Z", "2026-10-25T19:00:00Z"),
        ("15 2,3 * * *", "15,45 2 * * *", "2026-03-29T01:00:00Z", "2026-03-29T01:15:00Z"),
        # What would start in the hour that is skipped starts when the clock goes on.
        ("15 2 * * *", "0 9 * * *", "2026-03-29T00:00:00Z", "2026-03-29T01:00:00Z"),
        ("15 2 * * *", "0 9 * * *", "2026-03-29T01:00:00Z", "2026-03-29T07:00:00Z"),
    ],
)
def test_each_time_of_a_day_counts_once_when_the_clock_is_set(start: str, stop: str, at: str, change: str) -> None:
    assert windows(start, stop, BERLIN).change(moment(at)) == moment(change)


def test_a_day_that_a_zone_leaves_out_counts_when_the_clock_goes_on() -> None:
    samoa = windows("0 12 30 12 *", "0 13 31 12 *", "Pacific/Apia")  # there was no 30 December 2011
    assert samoa.change(moment("2011-12-30T09:59:59Z")) == moment("2011-12-30T10:00:00Z")


def test_a_stop_that_counts_at_midnight_shuts_nothing_of_the_new_day() -> None:
    nuuk = windows("* * * * 0", "* * * * 6", "America/Nuuk")  # on Saturdays in spring the clock goes from 23:00 to 0:00
    assert nuuk.change(moment("2026-03-29T00:59:59Z")) == moment("2026-03-29T01:01:00Z")


@pytest.mark.parametrize(
    ("start", "stop", "at", "change"),
    [
        ("* * * * *", "* * 27-29 3 *", "2027-03-27T00:00:00Z", "2027-03-29T22:00:00Z"),
        ("* * * * *", "* * * 1-11 *", "2026-01-01T00:00:00Z", "2026-11-30T23:00:00Z"),
        ("* * * 2 *", "* * 1-28 * 0-1,3-6", "2029-01-01T00:00:00Z", "2056-02-28T23:00:00Z"),
        ("* * * * *", "0-58 * * * *", "2027-03-28T00:00:00Z", "2027-03-28T00:59:00Z"),
    ],
)
def test_a_window_far_away_is_found_in_few_steps(
    monkeypatch: pytest.MonkeyPatch, start: str, stop: str, at: str, change: str
) -> None:
    found, search, steps = windows(start, stop, BERLIN), Timetable.once_after, list[datetime]()

    def counted(timetable: Timetable, moment: datetime) -> datetime | None:
        steps.append(moment)
        return search(timetable, moment)

    monkeypatch.setattr(Timetable, "once_after", counted)
    assert found.change(moment(at)) == moment(change)
    assert len(steps) < 10


@given(
    st.integers(1_577_836_800, 2_051_222_400),  # 2020 to 2035
    st.one_of(
        st.tuples(
            st.sampled_from(["0 8 * * *", "30 2 * * *", "*/15 * * * *", "0 0 * * 0", "45 1,2,3 * * *"]),
            st.sampled_from(["0 18 * * *", "0 3 * * *", "0 2 * * 1", "59 23 * * *"]),
        ),
        st.sampled_from(
            [
                ("*/15 * * * *", "*/15 0-3,5-22 * * *"),
                ("45 1,2,3 * * *", "15,45 2,3 2-31 * *"),
                ("30 2 * * *", "*/5 * * 2-12 *"),
            ]
        ),
    ),
    st.sampled_from([None, BERLIN, "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca"]),
)
def test_what_is_open_changes_at_the_next_change_and_not_before(
    at: int, times: tuple[str, str], zone: str | None
) -> None:
    found, now = windows(*times, zone), datetime.fromtimestamp(at, UTC)
    change = found.change(now)
    assert change is not None
    assert change > now
    assert found.open(change) is not found.open(now)
    for share in (0.25, 0.5, 0.75, 0.999):
        assert found.open(now + (change - now) * share) is found.open(now)
    assert found.open(change - timedelta(seconds=1)) is found.open(now) or change - now < timedelta(seconds=1)


@pytest.mark.parametrize(
    ("start", "stop", "problem"),
    [
        ("0 8 * * *", "0 8 * * *", "it would start and stop at the same times, '0 8 .*': make one of them another"),
        ("0 8 * * 1", "0 8 * * mon", "it would start and stop at the same times"),
        ("0 0 31 2 *", "0 8 * * *", "no year has a date like"),
        ("0 8 * * *", "0 0 31 2 *", "no year has a date like"),
        ("0 8 * *", "0 9 * * *", "a schedule has five fields"),
        ("0 8 * * *", "* * * * *", "it would never run: '. . . . .' stops whatever '0 8 . . .' starts"),
        ("0 8 * * 1", "0 8,9 * * 1-5", "it would never run"),
        ("0 8 31 * *", "0 8 * 1,3,5,7,8,10,12 *", "it would never run"),  # other months have no 31st
    ],
)
def test_windows_that_never_open_or_shut_are_refused(start: str, stop: str, problem: str) -> None:
    with pytest.raises(BadScheduleError, match=problem):
        windows(start, stop, None)


def test_a_zone_that_is_not_there_is_refused() -> None:
    with pytest.raises(UnknownTimeZoneError, match="there is no time zone 'Europe/Atlantis'"):
        windows("0 8 * * *", "0 18 * * *", "Europe/Atlantis")


def test_a_thousand_times_of_a_day_are_kept_in_little_room() -> None:
    found = windows("0-58 * * * *", "59 0 * * *", None)
    assert len(found.alone) == 59 * 24
    assert sys.getsizeof(found.alone) < 4096
