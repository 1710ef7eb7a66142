"""The finalizer and the create intent, which precede anything sent for an object, and the finalizer's removal."""

from pydantic import JsonValue, ValidationError

from relay_kube.errors import KubeError, NotFound, Unavailable
from relay_operator.api.meta import CREATE_INTENT, FINALIZER, CreateIntent, ObjectMeta
from relay_operator.engine.object_writer import ObjectWriter


def guarded(metadata: ObjectMeta, intent: CreateIntent) -> bool:
    """Whether both are present; true also for an object that is being deleted, which no longer gets either."""
    there = CreateIntent.parse(metadata.annotations.get(CREATE_INTENT)) == intent
    return (FINALIZER in metadata.finalizers and there) or metadata.deletion_timestamp is not None


async def guard(writer: ObjectWriter, metadata: ObjectMeta, intent: CreateIntent) -> None:
    """Write both in one patch. Raises KubeError."""
    others: list[JsonValue] = [name for name in metadata.finalizers if name != FINALIZER]
    await writer.metadata({"finalizers": [*others, FINALIZER], "annotations": {CREATE_INTENT: intent.to_annotation()}})


async def open_intent(writer: ObjectWriter, metadata: ObjectMeta, intent: CreateIntent) -> None:
    """Write the intent before anything is sent, so that no crash can hide that a create was tried.

    If the write's answer is lost, the object is read: only this pass can have written this intent. Raises KubeError if
    the intent is not there, or if the object has changed; then nothing may be sent.
    """
    try:
        await guard(writer, metadata, intent)
    except Unavailable:
        if not await _landed(writer, metadata, intent):
            raise


async def _landed(writer: ObjectWriter, metadata: ObjectMeta, intent: CreateIntent) -> bool:
    try:
        raw = await writer.read()
        found = ObjectMeta.model_validate((raw or {}).get("metadata"))
    except (KubeError, ValidationError):
        return False
    same = (found.generation, found.deletion_timestamp) == (metadata.generation, None)
    written = found.annotations.get(CREATE_INTENT) == intent.to_annotation()
    return same and written and FINALIZER in found.finalizers


async def release(writer: ObjectWriter, metadata: ObjectMeta) -> bool:
    """Remove the finalizer; False if the object was already gone. Raises KubeError."""
    try:
        await writer.last({"finalizers": [name for name in metadata.finalizers if name != FINALIZER]})
    except NotFound:
        return False
    return True
