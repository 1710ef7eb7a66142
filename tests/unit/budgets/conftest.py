"""A desk that no test shares."""

import pytest

from tests.unit.budgets.desk import Desk


@pytest.fixture
def desk() -> Desk:
    return Desk()
