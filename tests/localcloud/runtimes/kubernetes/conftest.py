"""A cloud with one node of eight H100, on a cluster that the test makes up."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from relay_localcloud.capacity import catalog
from relay_localcloud.runtimes.kubernetes.wanted import Terms
from tests.localcloud.runtimes.kubernetes.rows import DISK_IMAGE, IMAGE, Rows, rows

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def room() -> Iterator[Rows]:
    own = rows()
    yield own
    own.store.close()


@pytest.fixture
def sold(room: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    """An image for VMs is on sale, and there are volumes."""
    monkeypatch.setitem(catalog._DISK_IMAGES, IMAGE, DISK_IMAGE)
    room.offer = replace(room.offer, terms=Terms("mine", "fast"))
