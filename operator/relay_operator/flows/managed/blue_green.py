"""Blue and green: the old resource serves until the one that was made beside it is Ready. Pure."""

from collections.abc import Sequence
from datetime import datetime

from relay_operator.api.meta import CreateIntent, Resource
from relay_operator.api.workload import Blue, BlueGreenStatus, FailedGreen, ManagedStatus, PricedStatus, SpecT, StatusT
from relay_operator.engine.commitment import Commitment, aside
from relay_operator.engine.intent import fingerprints, named
from relay_operator.flows.managed import predicates
from relay_operator.flows.managed.plan import Demand, Difference, Former
from relay_operator.flows.managed.resource import ExternalResource, ObsT, Progress, drain, is_priced

_FROM_THE_BLUE = ("spec_hash", "env_digest", "references")
_OTHERWISE = frozenset({Difference.BLUE_GREEN, Difference.FORBIDDEN, Difference.REPLACEABLE})


def blues(status: ManagedStatus) -> Sequence[Blue]:
    """The old one, whether it serves or is drained; there is one at most."""
    return (status.former or ()) if isinstance(status, BlueGreenStatus) else ()


def serving(status: ManagedStatus) -> Blue | None:
    """The old one, if it is to serve still."""
    return next((row for row in blues(status) if row.until is None), None)


def standing(
    resource: ExternalResource[SpecT, StatusT, ObsT],
    obj: Resource[SpecT, StatusT],
    observed: ObsT | None,
    difference: Difference,
    now: datetime,
) -> Former | None:
    """What is to become of the old one that serves; None if there is none, or it is to go with its object."""
    demand = predicates.demand(obj)
    if serving(obj.status) is None or demand in {Demand.DELETE, Demand.DELETE_ORPHANING}:
        return None
    asked = demand is Demand.EXIST and drain(resource, obj) is not None
    if not asked or not predicates.running_wanted(obj, now) or difference in _OTHERWISE:
        return Former.RETURNING
    ready = observed is not None and resource.progress(observed) is Progress.READY
    return Former.RELIEVED if ready else Former.SERVING


def costs(
    resource: ExternalResource[SpecT, StatusT, ObsT], obj: Resource[SpecT, StatusT], observed: ObsT, cents: int | None
) -> tuple[int | None, int | None]:
    """Cents an hour, as the catalog or the cloud says, and GPUs of what there is; neither if it is stopped."""
    if resource.progress(observed) is Progress.STOPPED or not is_priced(resource):
        return None, None
    has, status = resource.untold(obj, observed) or resource.capacity(obj, ""), obj.status
    told = status.price_per_hour_cents if isinstance(status, PricedStatus) else None
    return told if cents is None else cents, has.gpus * has.replicas


def set_aside(status: BlueGreenStatus, cents: int | None, gpus: int | None) -> dict[str, object]:
    """The fields of status with which the resource becomes the old one; what they show is still about that."""
    row = Blue(
        id=status.id or "",
        name=named(status.id or "", status.cloud_name or ""),
        price_per_hour_cents=cents,
        gpus=gpus,
        **{name: getattr(status, name) for name in _FROM_THE_BLUE},
    )
    cleared = ("id", "cloud_name", "spec_hash", "env_digest", "references", "deletion_deadline", "replacing")
    return dict.fromkeys(cleared) | {"former": [row], "failed_green": None}


def reinstated(status: StatusT, intent: CreateIntent | None) -> dict[str, object]:
    """The fields of status with which the old one has its place again; none if there is no such one.

    What status showed of the new one is not true of it, and what was reserved with the intent of that is over.
    """
    blue = serving(status)
    if blue is None:
        return {}
    told = {name: getattr(blue, name) for name in (*_FROM_THE_BLUE, "price_per_hour_cents")}
    reserved = intent.reserved if intent is not None else None
    over = {} if reserved is None else {"reservation_token": reserved.token}
    shown = {"state": None} if status.id else {}
    return told | over | shown | {"id": blue.id, "cloud_name": blue.name, "replacing": None, "former": None}


def switched(status: StatusT, until: datetime) -> dict[str, object]:
    """The fields of status with which the old one begins to be drained."""
    return {"former": [row.model_copy(update={"until": until}) for row in blues(status)]}


def failed(obj: Resource[SpecT, StatusT], message: str) -> FailedGreen:
    """What is written down of the resource: with the same spec and the same Secrets none is made again."""
    status = obj.status
    return FailedGreen(asked=_asked(obj), env_digest=status.env_digest, message=f"{status.id}: {message}"[:1024])


def has_failed(obj: Resource[SpecT, StatusT], env_digest: str) -> FailedGreen | None:
    """What failed that was made from this very spec, and from what its Secrets hold now."""
    known = remembered(obj)
    if known is None or (env_digest and known.env_digest and env_digest != known.env_digest):
        return None
    return known


def remembered(obj: Resource[SpecT, StatusT]) -> FailedGreen | None:
    """What failed, as long as people do not change the spec."""
    known = obj.status.failed_green if isinstance(obj.status, BlueGreenStatus) else None
    return known if known is not None and known.asked == _asked(obj) else None


def beside(status: ManagedStatus) -> Commitment:
    """What is paid for the old one, beside what is paid for the resource."""
    return aside((row.price_per_hour_cents, row.gpus) for row in blues(status))


def _asked(obj: Resource[SpecT, StatusT]) -> str:
    """Fingerprint of the spec; an autoscaler changes the number of replicas."""
    spec = obj.spec.model_dump(mode="json", exclude_none=True, exclude={"replicas"})
    return fingerprints({"spec": spec})
