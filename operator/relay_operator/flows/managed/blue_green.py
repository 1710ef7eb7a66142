"""Blue and green: the old resource serves until the new one, created beside it, is Ready. Pure."""

from collections.abc import Sequence
from datetime import datetime

from relay_operator.api.meta import CreateIntent, Resource
from relay_operator.api.workload import Blue, BlueGreenStatus, FailedGreen, ManagedStatus, PricedStatus, SpecT, StatusT
from relay_operator.engine.commitment import Commitment, aside
from relay_operator.engine.intent import Unordered, fingerprints, named
from relay_operator.flows.managed import predicates
from relay_operator.flows.managed.abilities import drain, is_priced
from relay_operator.flows.managed.former import name_of
from relay_operator.flows.managed.resource import ExternalResource, ObsT, Progress
from relay_operator.flows.managed.view import Demand, Difference, Former

_FROM_THE_BLUE = ("spec_hash", "env_digest", "references")
_OTHERWISE = frozenset({Difference.BLUE_GREEN, Difference.FORBIDDEN, Difference.REPLACEABLE})


def blues(status: ManagedStatus) -> Sequence[Blue]:
    """The old resource, serving or drained; at most one."""
    return (status.former or ()) if isinstance(status, BlueGreenStatus) else ()


def serving(status: ManagedStatus) -> Blue | None:
    """The old resource if it still serves; None if it is drained, or if there is none."""
    return next((row for row in blues(status) if row.until is None), None)


def standing(
    resource: ExternalResource[SpecT, StatusT, ObsT],
    obj: Resource[SpecT, StatusT],
    observed: ObsT | None,
    difference: Difference,
    now: datetime,
) -> Former | None:
    """What to do about the old resource that serves; None if there is none, or if it ends with its object."""
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
    """The present resource's cents an hour, from the catalog or else status, and GPUs; both None if it is stopped."""
    if resource.progress(observed) is Progress.STOPPED or not is_priced(resource):
        return None, None
    has, status = resource.untold(obj, observed) or resource.capacity(obj, ""), obj.status
    told = status.price_per_hour_cents if isinstance(status, PricedStatus) else None
    return told if cents is None else cents, has.gpus * has.replicas


def set_aside(status: BlueGreenStatus, cents: int | None, gpus: int | None) -> dict[str, object]:
    """The fields of status with which the resource becomes the old one; all other fields still describe it."""
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
    """The fields of status that give the old resource its place back; empty if none serves.

    What status showed of the new one does not hold for it, and the reservation of the new one's intent ends.
    """
    blue = serving(status)
    if blue is None:
        return {}
    told = {name: getattr(blue, name) for name in (*_FROM_THE_BLUE, "price_per_hour_cents")}
    reserved = intent.reserved if intent is not None else None
    over = {} if reserved is None else {"reservation_token": reserved.token}
    shown = {"state": None} if status.id else {}
    return told | over | shown | {"id": blue.id, "cloud_name": name_of(blue), "replacing": None, "former": None}


def switched(status: StatusT, until: datetime) -> dict[str, object]:
    """The fields of status that begin to drain the old resource, which lives until then."""
    return {"former": [row.model_copy(update={"until": until}) for row in blues(status)]}


def failed(obj: Resource[SpecT, StatusT], message: str) -> FailedGreen:
    """The record that this resource failed: none is created again with the same spec and the same Secrets."""
    status = obj.status
    return FailedGreen(asked=_asked(obj), env_digest=status.env_digest, message=f"{status.id}: {message}"[:1024])


def has_failed(obj: Resource[SpecT, StatusT], env_digest: str) -> FailedGreen | None:
    """The record of a failure with this very spec and the present content of its Secrets; None if there is none."""
    known = remembered(obj)
    return None if known is None or predicates.env_changed(known.env_digest, env_digest) else known


def remembered(obj: Resource[SpecT, StatusT]) -> FailedGreen | None:
    """The record of a failure with this spec; None once people change the spec."""
    known = obj.status.failed_green if isinstance(obj.status, BlueGreenStatus) else None
    return known if known is not None and known.asked == _asked(obj) else None


def beside(status: ManagedStatus) -> Commitment:
    """What the old resource costs, in addition to the present one."""
    return aside((row.price_per_hour_cents, row.gpus) for row in blues(status))


def _asked(obj: Resource[SpecT, StatusT]) -> str:
    """Fingerprint of the spec in any order of `env`, without `replicas`, which an autoscaler changes."""
    spec = obj.spec.model_dump(mode="json", exclude_none=True, exclude={"replicas"})
    return fingerprints({"env": Unordered(spec.pop("env", ())), "spec": spec})
