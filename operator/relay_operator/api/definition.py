"""What the API server needs to know of a kind beside its fields."""

from dataclasses import dataclass
from typing import Any, Literal, cast

from relay_operator.api.meta import Model, Resource


@dataclass(frozen=True, slots=True)
class Column:
    """A column of `kubectl get`; priority 1 shows with `-o wide` alone."""

    name: str
    path: str
    type: Literal["string", "integer", "date", "boolean"] = "string"
    priority: Literal[0, 1] = 0


@dataclass(frozen=True, slots=True)
class Scale:
    """Where the scale subresource finds its numbers."""

    spec_replicas: str
    status_replicas: str
    label_selector: str


@dataclass(frozen=True, slots=True)
class Definition:
    """One kind: its model, its names, and how it shows."""

    kind: str
    plural: str
    short_name: str
    spec: type[Model]
    status: type[Model]
    columns: tuple[Column, ...]
    summary: str
    namespaced: bool = True
    scale: Scale | None = None
    rules: tuple[tuple[str, str], ...] = ()
    """CEL on a whole object, each with the sentence that says what to do."""
    creates: str | None = None
    """Plural of the kind whose objects it makes and deletes."""
    read_only: bool = False
    """The operator itself makes its objects; people read them."""

    @property
    def singular(self) -> str:
        return self.kind.lower()


READY = Column("Ready", '.status.conditions[?(@.type=="Ready")].status')
REASON = Column("Reason", '.status.conditions[?(@.type=="Ready")].reason', priority=1)
AGE = Column("Age", ".metadata.creationTimestamp", "date")
ID = Column("ID", ".status.id", priority=1)
RECORD_COLUMNS = (READY, AGE, REASON, ID)
"""Of a resource of the cloud that does not run, after those of its own."""


def definition_of(
    model: type[Resource[Any, Any]],
    short_name: str,
    *,
    summary: str,
    columns: tuple[Column, ...],
    scale: Scale | None = None,
) -> Definition:
    """The definition of a namespaced kind whose model says all about it, and whose plural is its name with an s."""
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
        scale=scale,
    )
