"""The intent that this process knows to be open, whatever happened to the annotation."""

from relay_operator.api.meta import CREATE_INTENT, CreateIntent, Resource
from relay_operator.api.workload import SpecT, StatusT
from relay_operator.flows.managed.memory import ManagedMemory


def with_open_intent(obj: Resource[SpecT, StatusT], memory: ManagedMemory) -> Resource[SpecT, StatusT]:
    """The object with its open intent, although somebody removed it or put an earlier one in its place.

    `kubectl replace` does that. Without the intent, a create whose answer is lost would read as never sent; if status
    has an id, that is proof enough. Remembers the open intent in `memory`.
    """
    metadata, ended, known = obj.metadata, obj.status.create_token, memory.intent
    said = CreateIntent.parse(metadata.annotations.get(CREATE_INTENT))
    written = said if isinstance(said, CreateIntent) and said.token != ended else None
    if known is None or known.token == ended or obj.status.id:
        memory.intent = written
        return obj
    if written is not None and (written.attempt > known.attempt or _is_as_known(written, known)):
        memory.intent = written
        return obj
    annotations = metadata.annotations | {CREATE_INTENT: known.to_annotation()}
    return obj.model_copy(update={"metadata": metadata.model_copy(update={"annotations": annotations})})


def _is_as_known(written: CreateIntent, known: CreateIntent) -> bool:
    """Whether the annotation has this very intent, and what its answer showed."""
    return written.token == known.token and bool(written.answered or not known.answered)
