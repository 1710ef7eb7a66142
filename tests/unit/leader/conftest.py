"""A Lease that no test shares."""

import pytest

from tests.unit.leader.lease import World


@pytest.fixture
def world() -> World:
    return World()
