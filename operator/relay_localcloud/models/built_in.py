"""The built-in models (interfaces.md): deterministic, without a network, each useful for some tests."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from relay_wire.inference import Family

NANO_USD_PER_TOKEN: Final = 100
"""The price of every model, for input and output (assumed); a batch pays half."""

BOTH: Final = (Family.CHAT_COMPLETIONS, Family.MESSAGES)


@dataclass(frozen=True, slots=True)
class BuiltInModel:
    """A model that the local cloud answers itself: with an echo unless it calls tools or fails."""

    id: str
    families: tuple[Family, ...]
    calls_tools: bool = False
    failure: tuple[int, str] | None = None
    """The status and the message with which it always fails."""


_MODELS: Final = (
    BuiltInModel("echo", BOTH),
    BuiltInModel("chat-only", (Family.CHAT_COMPLETIONS,)),
    BuiltInModel("messages-only", (Family.MESSAGES,)),
    BuiltInModel("tools", (Family.CHAT_COMPLETIONS,), calls_tools=True),
    BuiltInModel("refuse", BOTH, failure=(422, "The model rejected the request.")),
    BuiltInModel("busy", BOTH, failure=(429, "The model is busy: back off, then try again.")),
    BuiltInModel("down", BOTH, failure=(502, "The model is temporarily unavailable.")),
    BuiltInModel("full", BOTH, failure=(503, "All capacity for the model is in use.")),
)

BUILT_IN: Final[Mapping[str, BuiltInModel]] = {model.id: model for model in _MODELS}
