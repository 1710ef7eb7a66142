"""How a ProviderNode maps to a node that the organization provides (section 3, "Provider node status")."""

from collections.abc import Mapping
from itertools import islice
from typing import Final, TypeAlias

from pydantic import JsonValue

from relay_client import BadRequest, Cloud, CloudError, Outcome, operations
from relay_client.paging import MAX_KEPT_ITEMS, weigh
from relay_operator.api.conditions import Reason
from relay_operator.api.meta import CreateIntent, Resource
from relay_operator.api.providernode import (
    DEFINITION,
    SHOWN_GPUS,
    NodeGpu,
    ProviderNode,
    ProviderNodeSpec,
    ProviderNodeStatus,
    Wanted,
)
from relay_operator.engine.fit_schema import fit_schema
from relay_operator.engine.shared_lists import SharedLists
from relay_operator.engine.unclaimed_ids import UnclaimedIds
from relay_operator.flows.managed.resource import Change, Found, Inputs, Look, Progress, SearchResult
from relay_operator.flows.wiring import Parts
from relay_operator.kinds.comparison import differing
from relay_operator.kinds.records import Records
from relay_wire.base import RESOURCE_ID
from relay_wire.provider import NodeStatusUpdate, ProviderGpu
from relay_wire.provider import ProviderNode as Machine

_ENROLLED = "nodes enrol with a ProvisioningToken, and leave by status: removed"
_HELD = frozenset({Wanted.DRAINING, Wanted.MAINTENANCE})
_PROGRESS: Final[Mapping[str, Progress]] = {
    "online": Progress.READY,
    "draining": Progress.READY,
    "maintenance": Progress.READY,
    "offline": Progress.OFFLINE,
    "removed": Progress.GONE,
}

Node: TypeAlias = Resource[ProviderNodeSpec, ProviderNodeStatus]


class EarningMachine(Machine):
    """A node with its earnings in cents; None if the cloud did not say."""

    earned: int | None = None


class ProviderNodes(Records[ProviderNodeSpec, ProviderNodeStatus, Machine]):
    """How a ProviderNode maps to the cloud."""

    definition = DEFINITION
    model = ProviderNode
    mirrored = ("workloads", "location", "region", "node_pool")
    list_operation = operations.LIST_PROVIDER_NODES
    list_query: Mapping[str, str | int] | None = {"includeRemoved": "true"}

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._earnings = SharedLists[Mapping[str, int]](parts.settings.poll_settled_seconds, parts.engine.clock)

    async def observe(self, cloud: Cloud, cloud_id: str, last: ProviderNodeStatus, look: Look) -> Machine:
        return await self._earning(cloud, await super().observe(cloud, cloud_id, last, look))

    async def find(self, cloud: Cloud, name: str, unclaimed: UnclaimedIds) -> SearchResult[Machine]:
        found = await super().find(cloud, name, unclaimed)
        return Found(await self._earning(cloud, found.resource)) if isinstance(found, Found) else found

    async def _earning(self, cloud: Cloud, node: Machine) -> EarningMachine:
        """Of one node alone: a list may have thousands. Its GPUs, as many at times, stay as they were read."""
        earned = await self._earnings.recent(cloud, lambda: _earnings(cloud))
        return EarningMachine.model_validate({**dict(node), "earned": earned.get(node.id)})

    async def living(self, cloud: Cloud, unclaimed: UnclaimedIds) -> Mapping[str, str]:
        """Empty: an operator never brings in a node."""
        return {}

    def given_id(self, obj: Node) -> str:
        return obj.spec.node_id

    def end_asked(self, obj: Node) -> bool:
        return obj.spec.status is Wanted.REMOVED

    async def create(self, cloud: Cloud, obj: Node, intent: CreateIntent, inputs: Inputs) -> Machine:
        raise BadRequest("create", _ENROLLED, outcome=Outcome.NOT_SENT)

    async def delete(self, cloud: Cloud, cloud_id: str) -> None:
        raise BadRequest("delete", _ENROLLED, outcome=Outcome.NOT_SENT)

    def immutable(self, obj: Node) -> Mapping[str, JsonValue]:
        return {"nodeId": obj.spec.node_id}

    def differences(self, obj: Node, observed: Machine) -> tuple[str, ...]:
        return differing(("nodeId", obj.spec.node_id, observed.id))

    def changes(self, obj: Node, observed: Machine, *, running: bool) -> tuple[Change, ...]:
        asked = obj.spec.status
        unconfirmed = asked is Wanted.REMOVED and obj.spec.confirm_removal != observed.id
        if unconfirmed or _is_as_asked(asked, observed.status):
            return ()

        async def send(cloud: Cloud) -> None:
            body = NodeStatusUpdate(status=asked.value)
            await cloud.call(operations.UPDATE_PROVIDER_NODE, body, nodeId=observed.id)

        return (Change("status", Reason.UPDATING, send, to=asked.value),)

    def progress(self, observed: Machine) -> Progress:
        return _PROGRESS.get(observed.status, Progress.PENDING)

    def detail(self, observed: Machine) -> str:
        said = f"the cloud says {observed.status}" if observed.status else "the cloud does not say its status"
        held = observed.workloads
        return said if held is None else f"{said}; workloads that hold GPUs of it: {held}"

    def told(self, obj: Node, observed: Machine) -> Mapping[str, object]:
        earned = observed.earned if isinstance(observed, EarningMachine) else None
        rows = None if observed.gpus is None else {gpu.id: gpu for gpu in observed.gpus}  # the list is a map by id
        return {
            **super().told(obj, observed),
            "state": observed.status,
            "gpus": None if rows is None else list(map(_shown, islice(rows.values(), SHOWN_GPUS))),
            "gpu_count": None if rows is None else len(rows),
            "earnings_cents": obj.status.earnings_cents if earned is None else earned,
        }


def _is_as_asked(asked: Wanted, has: str) -> bool:
    """Whether the node needs no change: a removed node stays removed, and no request brings an offline node online."""
    if has in {asked, "", Wanted.REMOVED}:
        return True
    return asked is Wanted.ONLINE and has not in _HELD


def _shown(gpu: ProviderGpu) -> NodeGpu:
    return NodeGpu.model_validate(fit_schema(NodeGpu, {"id": gpu.id, "gpu_model_id": gpu.gpu_model_id}))


async def _earnings(cloud: Cloud) -> Mapping[str, int]:
    """Cents by node id; empty if the cloud refuses, as it may to this key: the nodes are reported all the same."""
    try:
        rows = (await cloud.call(operations.GET_PROVIDER_EARNINGS, large=True)).items
    except CloudError:
        return {}
    earned = dict([(row.node_id, row.cents) for row in rows if RESOURCE_ID.fullmatch(row.node_id)][:MAX_KEPT_ITEMS])
    weigh(earned.items())
    return earned
