"""A node falls silent and returns on which thousands are stopped: what is read is what that means something to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from relay_localcloud.app import HANDLERS
from relay_localcloud.capacity import nodes
from relay_localcloud.capacity.nodes import NewNode
from relay_localcloud.identity import organizations
from relay_localcloud.kernel.due import DueItem
from relay_localcloud.kernel.store import Store
from relay_localcloud.providers import node_events
from relay_localcloud.runtimes.simulated import Simulated
from relay_localcloud.workloads.workloads import POD, WORKLOADS, Workload
from relay_wire.pods import PodStatus

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pytest

    from relay_localcloud.kernel.store import Tx

STOPPED = 50


def _pod(tx: Tx, organization_id: str, node_id: str, name: str, status: PodStatus) -> None:
    kept: dict[str, Any] = {"kind": POD, "status": status, "changed_at": 0, "created_at": 0, "gpu_count": 0}
    sold = {"price_per_hour_cents": 1, "http_port": 80, "tier": "", "capability_tier": "", "compute_class": ""}
    named = {"id": f"pod_{name}", "name": name, "label": name, "public": False, "request": "{}", "node_id": node_id}
    WORKLOADS.insert(tx, organization_id=organization_id, **kept, **sold, **named)


def test_what_is_stopped_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store.ephemeral()
    store.runtime_of = Simulated
    with store.transaction() as tx:
        organization_id = organizations.found(tx, "o", 100, ()).organization_id
        node = nodes.add_node(tx, NewNode("h100", 8, "somewhere", "us", 1024))
        _pod(tx, organization_id, node, "works", PodStatus.RUNNING)
        for number in range(STOPPED):
            _pod(tx, organization_id, node, f"stopped-{number}", PodStatus.STOPPED)
    read: list[object] = []
    decoded = WORKLOADS.of

    def counted(row: Iterable[Any]) -> Workload:
        read.append(row)
        return decoded(row)

    monkeypatch.setattr(WORKLOADS, "of", counted)
    with store.transaction() as tx:
        node_events.fell_silent(tx, node)
        HANDLERS[node_events.GRACE](tx, DueItem(1, 0, node_events.GRACE, node, None, {}))
        node_events.returned(tx, node)
        assert len(read) < STOPPED
        works = WORKLOADS.find(tx, id="pod_works")
    assert works is not None
    assert works.status is PodStatus.RUNNING
