"""Which objects an account has to stay for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from relay_operator.accounts.account_object import depends
from relay_operator.api.meta import CREATE_INTENT, FINALIZER, ObjectKey
from relay_operator.engine.entry import entry_of

if TYPE_CHECKING:
    from pydantic import JsonValue

OWN, SHARED = ObjectKey("CloudAccount", "team-a", "default"), ObjectKey("ClusterCloudAccount", "", "default")
GOING: dict[str, JsonValue] = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
MADE: dict[str, JsonValue] = {"annotations": {CREATE_INTENT: "{}"}}


@pytest.mark.parametrize(
    ("metadata", "status", "own", "shared"),
    [
        ({}, {}, True, False),
        (MADE, {}, True, True),
        ({}, {"id": "pod-1"}, True, True),
        (GOING | {"finalizers": [FINALIZER, "example.com/audit"]}, {"id": "pod-1"}, True, True),
        (GOING | MADE | {"finalizers": ["example.com/audit"]}, {"id": "pod-1"}, False, False),
    ],
    ids=["names it", "tried", "has something", "is being deleted", "was let go of, and is kept by another"],
)
def test_an_account_stays_for_what_only_it_can_end(
    metadata: dict[str, JsonValue], status: dict[str, JsonValue], *, own: bool, shared: bool
) -> None:
    user = entry_of({"metadata": {"uid": "u-1", "name": "a", "namespace": "team-a", **metadata}, "status": status}, "")
    assert (depends(OWN, user), depends(SHARED, user)) == (own, shared)
