"""A schedule of its own for each test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.batch_schedule.runs import Runs

if TYPE_CHECKING:
    from tests.support.workspace import Workspace


@pytest.fixture
def runs(workspace: Workspace) -> Runs:
    """In a workspace of the shared operator; nothing is created so far."""
    return Runs(workspace)
