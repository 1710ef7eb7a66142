"""The five fields: what each stands for, and what is refused with which words."""

import pytest

from relay_operator.timetables.cron import BadScheduleError, plain


@pytest.mark.parametrize(
    ("schedule", "meaning"),
    [
        ("* * * * *", "* * * * *"),
        ("  5\t4  * * *  ", "5 4 * * *"),
        ("*/20 * * * *", "0,20,40 * * * *"),
        ("50/4 * * * *", "50,54,58 * * * *"),
        ("0 9-17/4 * * *", "0 9,13,17 * * *"),
        ("30,5,5,10-12 * * * *", "5,10,11,12,30 * * * *"),
        ("0 0 1-7 * mon", "0 0 1,2,3,4,5,6,7 * 1"),
        ("0 0 ? JAN,dec Sun-TUE", "0 0 * 1,12 0,1,2"),
        ("0 0 */1 * 1", "0 0 * * 1"),
        ("0 0 1-31 * 1", "0 0 " + ",".join(map(str, range(1, 32))) + " * 1"),
        ("0 0 5,* * 1", "0 0 * * 1"),
        ("007 00 01 1 0", "7 0 1 1 0"),
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
        ("@monthly", "0 0 1 * *"),
        ("@weekly", "0 0 * * 0"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@hourly", "0 * * * *"),
    ],
)
def test_a_schedule_stands_for_these_numbers(schedule: str, meaning: str) -> None:
    assert plain(schedule) == meaning


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        ("", "a schedule has five fields (minute, hour, day of the month, month, day of the week), not 0"),
        ("* * * *", "not 4"),
        ("0 * * * * *", "not 6"),
        ("60 * * * *", "minute: 60 is not from 0 to 59"),
        ("* 24 * * *", "hour: 24 is not from 0 to 23"),
        ("* * 0 * *", "day of the month: 0 is not from 1 to 31"),
        ("* * * 13 *", "month: 13 is not from 1 to 12"),
        ("* * * * 7", "day of the week: 7 is not from 0 to 6"),
        ("* * * foo *", "month: 'foo' is not a number, nor one of jan, feb"),
        ("x * * * *", "minute: 'x' is not a number"),
        ("-5 * * * *", "minute: 'an empty part' is not a number"),
        ("1,,2 * * * *", "minute: 'an empty part' is not a number"),
        ("5-1 * * * *", "minute: 5-1 begins after its end"),
        ("* * * * fri-mon", "day of the week: fri-mon begins after its end"),
        ("1-2-3 * * * *", "minute: '2-3' is not a number"),
        ("*/0 * * * *", "minute: the step of '*/0' is not a number from 1"),
        ("*/ * * * *", "minute: the step of '*/' is not a number from 1"),
        ("*/2/3 * * * *", "minute: the step of '*/2/3' is not a number from 1"),
        ("*-5 * * * *", "minute: '*' is not a number"),
        ("٣ * * * *", "minute: '٣' is not a number"),
        ("0 0 L * *", "day of the month: 'L' is not a number"),
        ("0 0 * * 1#2", "day of the week: '1#2' is not a number"),
        ("@every 1h", "'@every 1h' is not one of @yearly"),
        ("@reboot", "write five fields"),
        ("@Daily", "write five fields"),
        ("CRON_TZ=Europe/Berlin 0 6 * * *", "TZ and CRON_TZ are not allowed in a schedule: set timeZone"),
        ("TZ=UTC @daily", "set timeZone"),
    ],
)
def test_a_bad_schedule_is_refused_with_what_is_wrong(schedule: str, words: str) -> None:
    with pytest.raises(BadScheduleError) as refused:
        plain(schedule)
    assert words in str(refused.value)
