"""Retry-After, as whatever sends it."""

import pytest

from relay_client.retry import retry_after

NOW = 1_800_000_000.0  # Fri, 15 Jan 2027 08:00:00 GMT


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("", None),
        ("0", 0.0),
        ("7", 7.0),
        (" 7 ", 7.0),
        ("3600", 3600.0),
        ("3601", 3600.0),
        ("9" * 5000, 3600.0),
        ("-5", None),
        ("1.5", None),
        ("inf", None),
        ("٣", None),
        ("soon", None),
        ("Fri, 15 Jan 2027 08:00:30 GMT", 30.0),
        ("Fri, 15 Jan 2027 09:00:30 +0100", 30.0),
        ("Friday, 15-Jan-27 08:00:30 GMT", 30.0),
        ("Fri Jan 15 08:00:30 2027", 30.0),
        ("Fri, 15 Jan 2027 07:00:00 GMT", 0.0),
        ("Sat, 15 Jan 2050 08:00:00 GMT", 3600.0),
        ("Fri, 99 Jan 2027 08:00:30 GMT", None),
    ],
)
def test_retry_after_is_seconds_or_a_date_and_never_more_than_an_hour(value: str | None, seconds: float | None) -> None:
    assert retry_after(value, NOW) == seconds
