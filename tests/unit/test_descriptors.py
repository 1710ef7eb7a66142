"""How many files and connections the operator may have open."""

import resource
from collections.abc import Iterator

import pytest

from relay_operator.app import _take_descriptors


@pytest.fixture
def hard() -> Iterator[int]:
    """The hard limit; the soft one is put back after the test."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize(("given", "has"), [(512, 8192), (8192, 8192), (9000, 9000)])
def test_the_operator_takes_more_than_strangers_may_use_up(hard: int, given: int, has: int) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (given, hard))
    _take_descriptors()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (has, hard)
