"""What a start or restart that was sent means for status, until status says so. Pure."""

from relay_operator.api.meta import Resource
from relay_operator.api.workload import SpecT, StatusT
from relay_operator.flows.managed.memory import ManagedMemory


def with_begun(obj: Resource[SpecT, StatusT], memory: ManagedMemory) -> Resource[SpecT, StatusT]:
    """The object as if status said that a start or restart was sent, although that could not be written yet.

    Otherwise the next pass would send it again. Remembers in `memory` what status said when it was read.
    """
    cloud_id, said = memory.begun
    memory.as_read = {}
    if not said or cloud_id != obj.status.id:
        return obj
    memory.as_read = {name: getattr(obj.status, name) for name in said}
    return obj.model_copy(update={"status": obj.status.model_copy(update=dict(said))})


def before_begun(status: StatusT, memory: ManagedMemory) -> StatusT:
    """The status as this pass read it."""
    return status.model_copy(update=dict(memory.as_read)) if memory.as_read else status
