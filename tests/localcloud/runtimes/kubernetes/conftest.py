"""A cloud with one node of eight H100, on a cluster that the test makes up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.localcloud.runtimes.kubernetes.rows import Rows, rows

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def room() -> Iterator[Rows]:
    own = rows()
    yield own
    own.store.close()
