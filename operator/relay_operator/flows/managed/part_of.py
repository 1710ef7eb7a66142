"""Resources that are part of another one, the whole, and are found only with its id. Pure."""

from relay_operator.api.meta import CREATE_INTENT, CreateIntent, Resource
from relay_operator.api.workload import PartStatus, SpecT, StatusT
from relay_operator.engine.address import address
from relay_operator.flows.managed.abilities import PartOf, is_part
from relay_operator.flows.managed.ending import says
from relay_operator.flows.managed.predicates import intent_open
from relay_operator.flows.managed.resource import ExternalResource, ObsT


def part_of(status: StatusT) -> str:
    """The id of the whole; empty if there is none, or if it is unknown."""
    return (status.part_of or "") if isinstance(status, PartStatus) else ""


def address_of(status: StatusT, cloud_id: str) -> str:
    """The address of this id in the whole of the object's resource."""
    return address(cloud_id, part_of(status))


def whole(resource: PartOf[Resource[SpecT, StatusT]], obj: Resource[SpecT, StatusT]) -> str:
    """The whole's present id, from the object that the spec refers to; empty if it is unknown now."""
    # A required field is missing only from a spec that cannot be parsed: `ending.parse`.
    required = (name for name, its in type(obj.spec).model_fields.items() if its.is_required())
    return resource.whole(obj) if says(obj, *required) else ""


def placed(resource: ExternalResource[SpecT, StatusT, ObsT], obj: Resource[SpecT, StatusT]) -> Resource[SpecT, StatusT]:
    """The object with the whole's id in status.

    Until a create is sent, that is the present id, from the object that the spec refers to; from then on it is the id
    that the create was sent to.
    """
    if not is_part(resource) or obj.status.id:
        return obj
    intent = CreateIntent.parse(obj.metadata.annotations.get(CREATE_INTENT))
    sent = intent.part_of if isinstance(intent, CreateIntent) and intent_open(obj, intent) else ""
    now = sent or whole(resource, obj)
    if now == part_of(obj.status):
        return obj
    return obj.model_copy(update={"status": obj.status.model_copy(update={"part_of": now or None})})
