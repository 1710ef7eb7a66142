"""The plan for an object, as its status shows it."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from relay_operator.api.meta import Model
from relay_operator.api.schema import atomic


class PlannedAction(StrEnum):
    """What the operator would do next."""

    CREATE = "Create"
    RECREATE = "Recreate"
    SCALE = "Scale"
    UPDATE = "Update"
    STOP = "Stop"
    START = "Start"
    DELETE = "Delete"
    NONE = "None"


class Plan(Model):
    """One step, and its consequences."""

    action: PlannedAction = Field(description="What would be done.")
    reason: str = Field(max_length=1024, description="Why.")
    price_per_hour_cents: int | None = Field(
        None, ge=0, description="Price of all of it after that, in cents; absent if it is not known, or has none."
    )
    loses: list[Annotated[str, Field(max_length=1024)]] | None = Field(
        None, max_length=8, json_schema_extra=atomic(), description="What would be lost by it, a sentence each."
    )
