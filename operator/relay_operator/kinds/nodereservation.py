"""How a NodeReservation maps to a reservation of a node's units (section 2, "Node reservation"; the paths are assumed).

It has no name in the cloud, and a unit has one reservation at a time. A unit that is already reserved is reported,
never taken over.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final, TypeAlias

from pydantic import JsonValue

from relay_client import Cloud, Unreadable, items_of, operations
from relay_operator.api.conditions import Reason
from relay_operator.api.meta import CreateIntent, ObjectKey, Resource, rfc3339
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
from relay_operator.kinds.comparison import differing, in_order, same_named, texts
from relay_operator.kinds.listed_parts import ListedParts
from relay_wire.reservations import Reservation as Reserved
from relay_wire.reservations import ReservationCreate

NODE: Final = REFERENCES["nodeRef"]
_ACTIVE, _RELEASED, _ENDED = "active", "released", "ended"
_UNSENT_IS_EMPTY: Final = ("managing_org_ids", "ends_at", "contract_ref", "reason")
"""Fields that a reservation has only if the create sent them; without `startsAt` it begins at once."""

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
        rows = await self.siblings(cloud, obj)
        return [row for row in rows if row.status != _ENDED and self._equals(obj, row)]

    async def existing(self, cloud: Cloud, obj: Reserving) -> Reserved | None:
        return next(iter(await self.alike(cloud, obj)), None)

    def made_at(self, observed: Reserved) -> datetime | None:
        return moment(observed.created_at)

    async def create(self, cloud: Cloud, obj: Reserving, intent: CreateIntent, inputs: Inputs) -> Reserved:
        sent, node_id = set(ReservationCreate.model_fields), intent.part_of
        request = ReservationCreate.model_validate(obj.spec.model_dump(mode="json", include=sent, by_alias=False))
        made = await cloud.call(operations.CREATE_RESERVATION, request, nodeId=node_id)
        if (made.node_id or node_id) != node_id:
            text = f"the answer is about the node {made.node_id}, and units of {node_id} were to be reserved"
            raise Unreadable(operations.CREATE_RESERVATION.name, text)
        return made

    async def end(self, cloud: Cloud, whole_id: str, part_id: str) -> None:
        await cloud.call(operations.DELETE_RESERVATION, nodeId=whole_id, id=part_id)

    def immutable(self, obj: Reserving) -> Mapping[str, JsonValue]:
        spec = obj.spec
        return {
            "nodeRef": spec.node_ref.name,
            "unitIds": texts(sorted(spec.unit_ids)),
            "allowedOrganizationIds": texts(sorted(spec.allowed_org_ids)),
            "managingOrganizationIds": texts(sorted(spec.managing_org_ids or ())),
            "startsAt": _written(spec.starts_at),
            "endsAt": _written(spec.ends_at),
            "contractRef": spec.contract_ref,
            "reason": spec.reason,
        }

    def differences(self, obj: Reserving, observed: Reserved) -> tuple[str, ...]:
        spec, asked, allowed = obj.spec, set(obj.spec.allowed_org_ids), set(observed.allowed_org_ids)
        as_asked = asked <= allowed and len(allowed - asked) <= 1  # the cloud adds its own organization
        return differing(
            ("unitIds", in_order(spec.unit_ids), in_order(observed.unit_ids)),
            ("allowedOrganizationIds", in_order(asked), in_order(asked if as_asked else allowed)),
            ("managingOrganizationIds", in_order(spec.managing_org_ids) or None, in_order(observed.managing_org_ids)),
            ("startsAt", _written(spec.starts_at), _written(moment(observed.starts_at))),
            ("endsAt", _written(spec.ends_at), _written(moment(observed.ends_at))),
            *same_named(spec, observed, "contract_ref", "reason"),
        )

    def _equals(self, obj: Reserving, row: Reserved) -> bool:
        more = (name for name in _UNSENT_IS_EMPTY if not getattr(obj.spec, name) and getattr(row, name))
        return not self.differences(obj, row) and not any(more)

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


def _written(at: datetime | None) -> str | None:
    return None if at is None else rfc3339(at)
