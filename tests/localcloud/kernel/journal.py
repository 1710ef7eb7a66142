"""What a client of a cloud that is killed knows: what was acknowledged, and what may or may not have happened."""

from __future__ import annotations

from dataclasses import dataclass, field

AFTER = {
    "create": frozenset({"deploying", "running"}),
    "stop": frozenset({"stopping", "stopped"}),
    "terminate": frozenset({"terminated"}),
}
"""The states in which an acknowledged action leaves a pod."""

BEFORE = AFTER["create"] | AFTER["stop"]


@dataclass
class Pod:
    """A pod by its name; without an id its create was never acknowledged."""

    name: str
    id: str | None = None
    acknowledged: str = "create"
    attempted: str | None = None
    """An action whose answer a kill cut."""

    @property
    def states(self) -> frozenset[str]:
        """The states that it may be in."""
        if self.attempted == "terminate":
            return BEFORE | AFTER["terminate"]
        if self.attempted == "stop":
            return BEFORE
        return AFTER[self.acknowledged]


@dataclass
class Journal:
    """Everything that the client asked for, in the order of asking."""

    pods: list[Pod] = field(default_factory=list)
    deposits: dict[str, str | None] = field(default_factory=dict)
    """The charge that answered, by idempotency key; None where a kill cut the answer."""
    keys: list[str] = field(default_factory=list)
    """Plain-text API keys that were answered."""

    @property
    def live(self) -> list[Pod]:
        """The pods that exist and are not known to have ended."""
        return [pod for pod in self.pods if pod.id is not None and pod.acknowledged != "terminate"]
