"""However many workloads the balance stops, a transaction stops some of them, and all stop at one instant."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from relay_localcloud.app import HANDLERS
from relay_localcloud.identity import organizations
from relay_localcloud.kernel import due
from relay_localcloud.kernel.instants import HOUR, SECOND
from relay_localcloud.kernel.store import Store
from relay_localcloud.money import billing
from relay_localcloud.money.alarms import AT_ONCE, FUNDED_AGAIN
from relay_localcloud.money.ledger import USAGE
from relay_localcloud.runtimes.simulated import Simulated
from relay_localcloud.serving.rows import DEPLOYMENTS
from relay_localcloud.workloads.workloads import VM, WORKLOADS
from relay_wire.pods import PodStatus
from relay_wire.serving import DeploymentCreate, DeploymentStatus

if TYPE_CHECKING:
    from relay_localcloud.kernel.due import DueItem
    from relay_localcloud.kernel.store import Tx

NOW = 1_800_000_000 * SECOND
COUNT = 2 * AT_ONCE + 50


def _running_vm(tx: Tx, organization_id: str, number: int) -> None:
    made = WORKLOADS.insert(
        tx,
        id=f"vm_{number}",
        kind=VM,
        organization_id=organization_id,
        name=f"n{number}",
        status=PodStatus.RUNNING,
        changed_at=tx.now,
        created_at=tx.now,
        gpu_count=0,
        price_per_hour_cents=5,
        public=False,
        label=f"vm-{number}",
        http_port=80,
        tier="standard",
        capability_tier="beta",
        compute_class="on_demand",
        request="{}",
    )
    billing.start_billing(tx, made.billed)


def _running_deployment(tx: Tx, organization_id: str, number: int) -> None:
    wanted = {"engine": "vllm", "servedModelId": "m", "gpuModelId": "h100", "gpuCountPerReplica": 1, "replicasMax": 1}
    none = {"replicasMin": 0, "replicasDesired": 0}
    named = {"organizationId": organization_id, "publicModelId": f"m{number}"}
    DEPLOYMENTS.insert(
        tx,
        id=f"sd_{number}",
        organization_id=organization_id,
        catalog_id=organization_id,
        public_model_id=f"m{number}",
        node_pool="",
        min_prompt_bytes=0,
        max_prompt_bytes=0,
        status=DeploymentStatus.RUNNING,
        generation=1,
        replica_price_cents=5,
        spec=DeploymentCreate.model_validate({**wanted, **none, **named}),
        created_at=tx.now,
        updated_at=tx.now,
    )


def test_the_balance_stops_one_deployment_in_a_transaction() -> None:
    store = Store.ephemeral()
    store.runtime_of = Simulated
    with store.transaction(at=NOW) as tx:
        organization_id = organizations.found(tx, "o", 0, ()).organization_id
        for number in range(3):
            _running_deployment(tx, organization_id, number)
        tx.schedule(NOW, billing.AUTO_STOP, organization_id)
    stopped = []
    while (item := _next(store)) is not None and item.kind == billing.AUTO_STOP:
        with store.transaction(at=item.due_at) as tx:
            due.remove(tx.connection, item.id)
            HANDLERS[item.kind](tx, item)
            stopped.append(sum(each.status is DeploymentStatus.STOPPED for each in DEPLOYMENTS.all(tx)))
    assert stopped == [1, 2, 3, 3]


def _stopped_by(store: Store, until: int) -> tuple[list[int], list[int]]:
    """How many stopped, and how many were kept for good, in each transaction up to an instant that did either."""
    ran_out, kept = [0], [0]
    while (item := _next(store)) is not None and item.due_at <= until:
        with store.transaction(at=item.due_at) as tx:
            due.remove(tx.connection, item.id)
            HANDLERS[item.kind](tx, item)
            every = WORKLOADS.all(tx)
            ran_out.append(sum(each.status is not PodStatus.RUNNING for each in every))
            kept.append(sum(each.status_reason == FUNDED_AGAIN for each in every))
    return _steps(ran_out), _steps(kept)


def _steps(counts: list[int]) -> list[int]:
    return [after - before for before, after in pairwise(counts) if after != before]


def _next(store: Store) -> DueItem | None:
    with store.transaction(at=NOW) as tx:
        return due.next_transition(tx.connection)


def test_the_balance_stops_and_funds_keep_some_in_a_transaction_and_all_at_one_instant() -> None:
    store = Store.ephemeral()
    store.runtime_of = Simulated
    with store.transaction(at=NOW) as tx:
        organization_id = organizations.found(tx, "o", 5 * COUNT, ()).organization_id
        for number in range(COUNT):
            _running_vm(tx, organization_id, number)
    stopped, _ = _stopped_by(store, NOW + 2 * HOUR)
    assert stopped == [AT_ONCE, AT_ONCE, COUNT - 2 * AT_ONCE]
    with store.transaction(at=NOW + 2 * HOUR) as tx:
        ended = {stint.ended_at for stint in USAGE.all(tx)}
        assert len(ended) == 1
        assert billing.account(tx, organization_id).available_cents == -1
        billing.post(tx, organization_id, "credit", 1000, "more")
    _, kept = _stopped_by(store, NOW + 2 * HOUR)
    assert kept == [AT_ONCE, AT_ONCE, COUNT - 2 * AT_ONCE]
