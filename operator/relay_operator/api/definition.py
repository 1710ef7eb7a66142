"""What the API server needs to know of a kind besides its fields."""

from dataclasses import dataclass
from typing import Any, Literal, cast

from relay_operator.api.meta import GROUP, Model, ObjectMeta, Resource


@dataclass(frozen=True, slots=True)
class Column:
    """A column of `kubectl get`; one of priority 1 shows only with `-o wide`."""

    name: str
    path: str
    type: Literal["string", "integer", "date", "boolean"] = "string"
    priority: Literal[0, 1] = 0


_LONGEST_LABEL = 63


def selector(noun: str, metadata: ObjectMeta) -> str:
    """The label selector of the scale subresource. Nothing carries the label, but autoscalers parse it.

    So a name that is too long for the value of a label gives way to the UID.
    """
    value = metadata.name if len(metadata.name) <= _LONGEST_LABEL else metadata.uid
    return f"{GROUP}/{noun}={value}"


@dataclass(frozen=True, slots=True)
class Definition:
    """One kind: its model, its names, and its presentation."""

    kind: str
    plural: str
    short_name: str
    spec: type[Model]
    status: type[Model]
    columns: tuple[Column, ...]
    summary: str
    namespaced: bool = True
    scaled_by: str = ""
    """The path of the replicas that `kubectl scale` changes; empty if the kind cannot be scaled."""
    rules: tuple[tuple[str, str], ...] = ()
    """CEL rules on a whole object, each with a message that says what to do."""
    creates: str | None = None
    """Plural of the kind whose objects this kind creates and deletes."""
    read_only: bool = False
    """Whether the operator itself creates the objects; people read them."""

    @property
    def printed(self) -> tuple[Column, ...]:
        """The columns of `kubectl get`."""
        return (*self.columns, STALLED)

    @property
    def singular(self) -> str:
        return self.kind.lower()


READY = Column("Ready", '.status.conditions[?(@.type=="Ready")].status')
REASON = Column("Reason", '.status.conditions[?(@.type=="Ready")].reason', priority=1)
STALLED = Column("Stalled", '.status.conditions[?(@.type=="Stalled")].reason', priority=1)
"""Of every kind: while the cloud is silent, `Ready` and its reason stay as they were."""
AGE = Column("Age", ".metadata.creationTimestamp", "date")
ID = Column("ID", ".status.id", priority=1)
RECORD_COLUMNS = (READY, AGE, REASON, ID)
"""The last columns of a cloud resource that does not run."""


def definition_of(
    model: type[Resource[Any, Any]],
    short_name: str,
    *,
    summary: str,
    columns: tuple[Column, ...],
    scaled_by: str = "",
) -> Definition:
    """The definition of a namespaced kind that its model describes in full, and whose plural is its name with an s."""
    fields = model.model_fields
    kind: str = fields["kind"].default
    return Definition(
        kind=kind,
        plural=f"{kind.lower()}s",
        short_name=short_name,
        spec=cast("type[Model]", fields["spec"].annotation),
        status=cast("type[Model]", fields["status"].annotation),
        columns=columns,
        summary=summary,
        scaled_by=scaled_by,
    )
