"""The words of the console: values as people read them."""

from __future__ import annotations

import pytest

from relay_localcloud.console.wording import size


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1024**2 - 52, "1023.9 KiB"),
        (1024**2 - 1, "1.0 MiB"),
        (1024**3 - 1, "1.0 GiB"),
        (1024**4, "1024.0 GiB"),
    ],
)
def test_a_size_is_in_the_largest_unit_that_fits(count: int, words: str) -> None:
    assert size(count) == words
