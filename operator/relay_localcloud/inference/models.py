"""The built-in models (interfaces.md): deterministic, without a network, each there to be relied on by a test."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from relay_localcloud.inference.errors import RATE_LIMITED, REJECTED, UPSTREAM_ERROR, UPSTREAM_UNAVAILABLE, Row
from relay_wire.inference import Family

NANO_USD_PER_TOKEN: Final = 100
"""The price of every model, in or out (assumed); a batch pays half."""

BOTH: Final = (Family.CHAT_COMPLETIONS, Family.MESSAGES)


@dataclass(frozen=True, slots=True)
class Failure:
    """How a model fails, always."""

    row: Row
    message: str


@dataclass(frozen=True, slots=True)
class BuiltInModel:
    """A model that the local cloud answers by itself: with an echo unless it calls tools or fails."""

    id: str
    families: tuple[Family, ...]
    calls_tools: bool = False
    failure: Failure | None = None


_MODELS: Final = (
    BuiltInModel("echo", BOTH),
    BuiltInModel("chat-only", (Family.CHAT_COMPLETIONS,)),
    BuiltInModel("messages-only", (Family.MESSAGES,)),
    BuiltInModel("tools", (Family.CHAT_COMPLETIONS,), calls_tools=True),
    BuiltInModel("refuse", BOTH, failure=Failure(REJECTED, "The model rejected the request.")),
    BuiltInModel("busy", BOTH, failure=Failure(RATE_LIMITED, "The model is busy: back off, then try again.")),
    BuiltInModel("down", BOTH, failure=Failure(UPSTREAM_ERROR, "The model is temporarily unavailable.")),
    BuiltInModel("full", BOTH, failure=Failure(UPSTREAM_UNAVAILABLE, "All capacity for the model is unavailable.")),
)

BUILT_IN: Final[Mapping[str, BuiltInModel]] = {model.id: model for model in _MODELS}
