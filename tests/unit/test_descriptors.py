"""How many files and connections the operator may have open."""

import resource
from collections.abc import Iterator

import pytest

from relay_operator import app


@pytest.fixture
def hard() -> Iterator[int]:
    """The hard limit; the soft one is put back after the test."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize(("given", "has"), [(512, 1024), (1000, 1024), (1024, 1024), (1100, 1100)])
def test_the_operator_takes_more_than_strangers_may_use_up(
    hard: int, given: int, has: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "_DESCRIPTORS", 1024)
    resource.setrlimit(resource.RLIMIT_NOFILE, (given, hard))
    app._take_descriptors()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (has, hard)
