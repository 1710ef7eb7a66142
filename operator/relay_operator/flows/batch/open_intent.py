"""An open intent outlives its annotation, which others may remove while its batches are searched for."""

from relay_operator.api.inferencebatch import InferenceBatch
from relay_operator.api.meta import CREATE_INTENT, CreateIntent
from relay_operator.flows.batch.facts import BatchMemory, Facts
from relay_operator.flows.batch.plan import Phase


def with_open_intent(obj: InferenceBatch, memory: BatchMemory) -> InferenceBatch:
    """The object with its open intent, although somebody removed or spoiled it; a token in status is proof enough.

    `kubectl replace` does that. Without the intent, batches that a restored status lacks would be paid again.
    """
    metadata, known = obj.metadata, memory.intent
    written = CreateIntent.parse(metadata.annotations.get(CREATE_INTENT))
    if known is None or obj.status.create_token or isinstance(written, CreateIntent):
        return obj
    annotations = metadata.annotations | {CREATE_INTENT: known.to_annotation()}
    return obj.model_copy(update={"metadata": metadata.model_copy(update={"annotations": annotations})})


def open_intent(facts: Facts) -> CreateIntent | None:
    """The intent by which batches are searched for that status may lack; None without one."""
    written = CreateIntent.parse(facts.obj.metadata.annotations.get(CREATE_INTENT))
    searched = facts.view.phase is Phase.ACTIVE and not facts.obj.status.create_token
    return written if searched and isinstance(written, CreateIntent) else None
