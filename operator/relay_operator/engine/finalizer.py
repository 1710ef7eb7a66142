"""The finalizer and the intent, which stand on an object before anything is sent for it, and the finalizer's end."""

from pydantic import JsonValue, ValidationError

from relay_kube.kube import KubeError, NotFound, Unavailable
from relay_operator.api.meta import CREATE_INTENT, FINALIZER, CreateIntent, ObjectMeta
from relay_operator.engine.object_writer import ObjectWriter


def guarded(metadata: ObjectMeta, intent: CreateIntent) -> bool:
    """Whether both are there; an object on its way out gets neither any more."""
    there = CreateIntent.parse(metadata.annotations.get(CREATE_INTENT)) == intent
    return (FINALIZER in metadata.finalizers and there) or metadata.deletion_timestamp is not None


async def guard(writer: ObjectWriter, metadata: ObjectMeta, intent: CreateIntent) -> None:
    """Write both in one patch. Raises KubeError."""
    others: list[JsonValue] = [name for name in metadata.finalizers if name != FINALIZER]
    await writer.metadata({"finalizers": [*others, FINALIZER], "annotations": {CREATE_INTENT: intent.to_annotation()}})


async def open_intent(writer: ObjectWriter, metadata: ObjectMeta, intent: CreateIntent) -> None:
    """Written before anything is sent, so that no crash can make a create look as if it had never been tried.

    Where the write's answer is lost, what is there decides; nobody but this pass can have sent it. Raises KubeError
    where it is not there, or the object does not ask for the same any more: nothing is to be sent then.
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
    """Let the object go; False for one that was gone already. Raises KubeError."""
    try:
        await writer.last({"finalizers": [name for name in metadata.finalizers if name != FINALIZER]})
    except NotFound:
        return False
    return True
