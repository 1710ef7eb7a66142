"""What is part of another resource of the cloud, without whose id nothing asks for it. Pure."""

from relay_operator.api.meta import CREATE_INTENT, CreateIntent, Resource
from relay_operator.api.workload import PartStatus, SpecT, StatusT
from relay_operator.engine.address import address
from relay_operator.flows.managed.predicates import intent_open
from relay_operator.flows.managed.resource import ExternalResource, ObsT, PartOf, is_part


def part_of(status: StatusT) -> str:
    """The id of that; empty if there is none, or it is not known."""
    return (status.part_of or "") if isinstance(status, PartStatus) else ""


def asked(status: StatusT, cloud_id: str) -> str:
    """What the cloud is asked for: this id, in what the object's resource is part of."""
    return address(cloud_id, part_of(status))


def whole(resource: PartOf[Resource[SpecT, StatusT]], obj: Resource[SpecT, StatusT]) -> str:
    """The id of that, as the object that the spec refers to has it now; empty if nothing says so any more."""
    # What a spec requires is missing only if it cannot be parsed: `ending.parse`.
    said = obj.spec.model_fields_set
    legible = all(name in said for name, its in type(obj.spec).model_fields.items() if its.is_required())
    return resource.whole(obj) if legible else ""


def placed(resource: ExternalResource[SpecT, StatusT, ObsT], obj: Resource[SpecT, StatusT]) -> Resource[SpecT, StatusT]:
    """The object with that id in status: once something was sent the one that it was sent to, and until then the one
    that the object which the spec refers to has now.
    """
    if not is_part(resource) or obj.status.id:
        return obj
    intent = CreateIntent.parse(obj.metadata.annotations.get(CREATE_INTENT))
    sent = intent.part_of if isinstance(intent, CreateIntent) and intent_open(obj, intent) else ""
    now = sent or whole(resource, obj)
    if now == part_of(obj.status):
        return obj
    return obj.model_copy(update={"status": obj.status.model_copy(update={"part_of": now or None})})
