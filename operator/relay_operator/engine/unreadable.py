"""Objects that cannot be parsed: status names the field at fault, and they can be deleted."""

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Literal, TypeAlias

from pydantic import JsonValue, TypeAdapter, ValidationError

from relay_kube.errors import NotFound, Refused
from relay_kube.kube import JsonObject
from relay_kube.nesting import MOST
from relay_operator.api.conditions import Condition, ConditionType, Reason
from relay_operator.api.meta import ABANDON, API_KEY_SECRET, CREATE_INTENT, FINALIZER, ObjectMeta
from relay_operator.engine import conditions
from relay_operator.engine.intent import aside, has
from relay_operator.engine.leftover import Fate, Left
from relay_operator.engine.manifests import part
from relay_operator.engine.object_writer import ObjectWriter
from relay_operator.engine.report import Report, deletion_waits
from relay_operator.engine.status import conditions_of, merge_patch

logger = logging.getLogger(__name__)

Outcome = Literal["Ignore", "Release", "Stall"]
Hold: TypeAlias = Callable[[Report], Awaitable[None]]
"""Reports that the object waits until what it leaves in the cloud is recorded. Raises KubeError."""
Release: TypeAlias = Callable[[ObjectMeta, tuple[Left, ...], Hold], Awaitable[None]]
"""Records what stays in the cloud, and removes the finalizer. Raises KubeError."""
_TOO_MANY = f"the object cannot be read: it has more than 200 levels, or more than {MOST:,} lists and objects"
_CONDITIONS: TypeAdapter[list[Condition]] = TypeAdapter(list[Condition])


def complaint(invalid: ValidationError) -> str:
    """A message that names the field at fault."""
    problem = invalid.errors(include_url=False, include_input=False)[0]
    if problem["type"] == "json_invalid":  # the API server keeps only JSON, but any number of levels
        return _TOO_MANY
    return f"{'.'.join(map(str, problem['loc'])) or 'the object'} cannot be read: {problem['msg']}"


async def tell(
    writer: ObjectWriter, body: bytes, reason: Reason, message: str, now: datetime, release: Release
) -> tuple[Outcome, bool]:
    """Report on the object, or release it; returns what was done, and whether status was written. Raises KubeError.

    An object that may have something in the cloud is released only if people abandon it.
    """
    raw: JsonObject = json.loads(body)
    metadata, status = ObjectMeta.model_validate(raw["metadata"]), part(raw, "status")
    deleting = metadata.deletion_timestamp is not None
    if deleting and FINALIZER not in metadata.finalizers:
        return "Ignore", False
    if deleting and (metadata.annotations.get(ABANDON) == "true" or not _may_own(metadata, status)):

        async def hold(report: Report) -> None:
            await stall(writer, raw, report, now)

        await release(metadata, _left(raw), hold)
        return "Release", False
    if deleting:
        message = deletion_waits(message)
    report = Report("False", ConditionType.STALLED, reason, message, unseen=True)
    wrote = await stall(writer, raw, report, now)
    if wrote:
        logger.error("nothing can be made of the object: %s", message)
    return "Stall", wrote


def _left(raw: Mapping[str, JsonValue]) -> tuple[Left, ...]:
    """What stays in the cloud, as far as it can be read."""
    own = has(raw)
    place = own.organization, own.endpoint
    present = [Left(Fate.KEPT, own.id, own.name, *place, own.part_of)] if own.id or own.name else []
    return (*present, *(Left(Fate.KEPT, cloud_id, name, *place) for cloud_id, name in aside(part(raw, "status"))))


def _may_own(metadata: ObjectMeta, status: Mapping[str, JsonValue]) -> bool:
    """Whether something in the cloud, or a Secret, may belong to the object."""
    if status.get("cleared") is True:
        return False
    noted = {CREATE_INTENT, API_KEY_SECRET} & metadata.annotations.keys()
    return bool(noted or status.get("id") or status.get("createToken"))


async def stall(writer: ObjectWriter, raw: Mapping[str, JsonValue], report: Report, now: datetime) -> bool:
    """Report on an object given as JSON; returns whether status was written, and taken. Raises KubeError."""
    metadata, status = ObjectMeta.model_validate(raw["metadata"]), part(raw, "status")
    try:
        before = _CONDITIONS.validate_python(status.get("conditions") or [])
    except ValidationError:
        before = []
    written = conditions.written(before, conditions_of(before, report, now), metadata.generation, now)
    after: JsonObject = {
        **status,
        "observedGeneration": metadata.generation,
        "conditions": [condition.model_dump(mode="json") for condition in written],
    }
    patch = merge_patch(status, after)
    if not patch:
        return False
    try:
        await writer.status(patch)
    except (NotFound, Refused):  # an API server that validates the whole object takes no status for it
        return False
    return True
