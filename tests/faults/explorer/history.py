"""A history: acts of people and of the world on a few objects. Plain data that can be saved and replayed."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Final, Self

from tests.faults.saved import Saved
from tests.support.faultrules import Json, Rule


class Do(StrEnum):
    """The sort of an act; an act that is impossible at the time does nothing."""

    APPLY = "apply"
    DELETE = "delete"
    FORCE_AWAY = "force away"  # deleted, and its finalizers removed
    ABANDON = "abandon"
    RENAME = "rename"  # deleted, and applied under another name with its annotations
    COPY = "copy"  # with annotations, finalizers and status
    SCALE = "scale"
    RECREATE = "recreate"  # another image
    STOP = "stop"
    START = "start"
    PAUSE = "pause"
    UNPAUSE = "unpause"
    ADOPT = "adopt"  # a resource that its account reports as left, or one of another object
    MOVE = "move"  # to another account: deleted, and applied again
    BACK_UP = "back up"
    RESTORE = "restore"  # what was backed up, once it is gone; with its status if `number` is 1
    KILL = "kill"
    FREEZE = "freeze"  # SIGSTOP, until a thaw
    THAW = "thaw"
    FAULT = "fault"
    LOSE_WEBHOOKS = "lose webhooks"
    CLOCK = "clock"  # the cloud's clock advances by `number` seconds
    FUNDS_GO = "funds go"
    FUNDS_COME = "funds come"
    NODE_LOST = "node lost"  # the node of this object
    NODES_BACK = "nodes back"
    SETTLE = "settle"  # faults end, everything comes to rest, every oracle is checked


PODS: Final = ("ada", "bob", "eve")
CLUSTERS: Final = ("cay", "dot", "fay")
ACCOUNTS: Final = ("default", "other")


def kind_of(name: str) -> str:
    """Returns the kind of an object, which its name decides."""
    return "GpuPod" if name in PODS else "GpuCluster"


@dataclass(frozen=True)
class Act:
    """One act: the object, the other name or account, and a number, as far as the act needs them.

    Before the next act, `calls` further requests of the operators are waited for, but not long.
    """

    do: Do
    object: str = ""
    other: str = ""
    number: int = 0
    calls: int = 0
    rule: Rule | None = None

    def __str__(self) -> str:
        said = (self.do, self.object, self.other, self.number or "", self.rule or "")
        return " ".join(str(one) for one in said if one) + (f" (then {self.calls} calls)" if self.calls else "")


@dataclass(frozen=True)
class History(Saved):
    """Acts in order; everything settles at the end, even without an act that says so."""

    name: str
    acts: tuple[Act, ...]

    def as_json(self) -> Json:
        acts = [{**asdict(act), "rule": act.rule.as_json() if act.rule else None} for act in self.acts]
        return {"name": self.name, "acts": acts}

    @classmethod
    def from_json(cls, data: Json) -> Self:
        return cls(data["name"], tuple(_act(one) for one in data["acts"]))


def _act(data: Json) -> Act:
    rule = Rule.from_json(data["rule"]) if data["rule"] else None
    return Act(**{**data, "do": Do(data["do"]), "rule": rule})
