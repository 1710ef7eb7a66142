"""How a NodeReservation maps to a reservation of a node's units (section 2, "Node reservation"; the paths are assumed).

It has no name in the cloud, and a unit has one reservation at a time. A unit that is already reserved is reported,
never taken over.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final, TypeAlias

from pydantic import JsonValue

from relay_client import Cloud, items_of, operations
from relay_operator.api.conditions import Reason
from relay_operator.api.meta import CreateIntent, ObjectKey, Resource
from relay_operator.api.nodereservation import (
    DEFINITION,
    LONGEST_ID,
    SHOWN_WORKLOADS,
    NodeReservation,
    NodeReservationSpec,
    NodeReservationStatus,
)
from relay_operator.api.references import REFERENCES
from relay_operator.engine.fit_schema import moment
from relay_operator.flows.managed.resource import Change, Inputs, Progress
from relay_operator.kinds.comparison import differing, texts
from relay_operator.kinds.listed_parts import ListedParts
from relay_operator.kinds.reservation_comparison import compared, equal_to, written
from relay_wire.reservations import Reservation as Reserved
from relay_wire.reservations import ReservationCreate

NODE: Final = REFERENCES["nodeRef"]
_ACTIVE, _RELEASED, _ENDED = "active", "released", "ended"

Reserving: TypeAlias = Resource[NodeReservationSpec, NodeReservationStatus]


class NodeReservations(ListedParts[NodeReservationSpec, NodeReservationStatus, Reserved]):
    """How a NodeReservation maps to the cloud; only the list of its node shows it."""

    definition = DEFINITION
    model = NodeReservation
    noun, whole_noun = "reservations", "node"

    async def rows(self, cloud: Cloud, whole_id: str) -> Iterable[Reserved]:
        return await items_of(cloud, operations.LIST_RESERVATIONS, nodeId=whole_id)

    async def is_gone(self, cloud: Cloud, whole_id: str) -> bool:
        nodes = await items_of(cloud, operations.LIST_PROVIDER_NODES)
        return all(node.id != whole_id or node.status == "removed" for node in nodes)

    def part_of(self, obj: Reserving) -> ObjectKey:
        return ObjectKey(NODE, obj.metadata.namespace, obj.spec.node_ref.name)

    async def alike(self, cloud: Cloud, obj: Reserving) -> Sequence[Reserved]:
        rows, equals = await self.siblings(cloud, obj), equal_to(obj.spec)
        return [row for row in rows if row.status != _ENDED and equals(row)]

    async def existing(self, cloud: Cloud, obj: Reserving) -> Reserved | None:
        return next(iter(await self.alike(cloud, obj)), None)

    def made_at(self, observed: Reserved) -> datetime | None:
        return moment(observed.created_at)

    async def create(self, cloud: Cloud, obj: Reserving, intent: CreateIntent, inputs: Inputs) -> Reserved:
        sent, node_id = set(ReservationCreate.model_fields), intent.part_of
        request = ReservationCreate.model_validate(obj.spec.model_dump(mode="json", include=sent, by_alias=False))
        return await cloud.call(operations.CREATE_RESERVATION, request, nodeId=node_id)

    def of_another(self, obj: Reserving, intent: CreateIntent, made: Reserved) -> tuple[str, ...]:
        return differing(("nodeId", intent.part_of, made.node_id))

    async def end(self, cloud: Cloud, whole_id: str, part_id: str) -> None:
        await cloud.call(operations.DELETE_RESERVATION, nodeId=whole_id, id=part_id)

    def immutable(self, obj: Reserving) -> Mapping[str, JsonValue]:
        spec = obj.spec
        return {
            "nodeRef": spec.node_ref.name,
            "unitIds": texts(sorted(spec.unit_ids)),
            "allowedOrganizationIds": texts(sorted(spec.allowed_org_ids)),
            "managingOrganizationIds": texts(sorted(spec.managing_org_ids or ())),
            "startsAt": written(spec.starts_at),
            "endsAt": written(spec.ends_at),
            "contractRef": spec.contract_ref,
            "reason": spec.reason,
        }

    def differences(self, obj: Reserving, observed: Reserved) -> tuple[str, ...]:
        return differing(*compared(obj.spec)(observed))

    def changes(self, obj: Reserving, observed: Reserved, *, running: bool) -> tuple[Change, ...]:
        """The release or reclaim; empty before the reservation begins and after it ends."""
        lend, node_id = obj.spec.lend_to_spot, obj.status.part_of or ""
        if lend is None or observed.status != (_ACTIVE if lend else _RELEASED):
            return ()
        operation = operations.RELEASE_RESERVATION if lend else operations.RECLAIM_RESERVATION

        async def send(cloud: Cloud) -> None:
            await cloud.call(operation, nodeId=node_id, id=observed.id)

        return (Change("release" if lend else "reclaim", Reason.UPDATING, send),)

    def progress(self, observed: Reserved) -> Progress:
        """GONE if it ended without an `endsAt`; a reservation that ended at its `endsAt` is as asked."""
        return Progress.GONE if observed.status == _ENDED and not observed.ends_at else Progress.READY

    def told(self, obj: Reserving, observed: Reserved) -> Mapping[str, object]:
        guests = [each[:LONGEST_ID] for each in observed.spot_workload_ids if each]
        return {
            "state": observed.status,
            "starts_at": moment(observed.starts_at),
            "ends_at": moment(observed.ends_at),
            "unit_count": len(observed.unit_ids),
            "spot_workload_ids": guests[:SHOWN_WORKLOADS] or None,
            "spot_workloads": len(guests),
        }
