"""The sample that `make test` plays: one plan per class of fault and kind of object, and one planted bug, by seed."""

from __future__ import annotations

import zlib
from collections import defaultdict
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    import pytest

    from tests.faults.plans import Plan

T = TypeVar("T")
_EVERY_TIME: Final = frozenset({"", "pod", "cluster", "batch", "bucket", "suspended"})
"""The kinds of objects of which every run plays a test; of all others together it plays one."""
PLANTED: Final = "test_a_planted_bug_is_caught"
SHARES: Final = 12
"""The number of shares of a scenario's plans: so many that no worker has a long one at the end."""


@dataclass(frozen=True)
class Chosen:
    """The plans that this run plays: the `part`-th of `parts`, or those that the seed chooses."""

    part: int = 1
    parts: int = 1
    seed: int | None = None

    @classmethod
    def part_of(cls, text: str, seed: int | None) -> Chosen:
        """Reads `i/n`; raises ValueError."""
        part, parts = map(int, text.split("/"))
        if not 1 <= part <= parts:
            raise ValueError(f"{text}: a part is 1 to the number of parts")
        return cls(part, parts, seed)

    def of_share(self, plans: Iterable[Plan], number: int) -> list[Plan]:
        """Returns one share of this part. The share of a plan depends only on its name."""
        own = self.part - 1 + self.parts * number
        return [plan for plan in plans if zlib.crc32(plan.name.encode()) % (self.parts * SHARES) == own]

    def sample(self, plans: Sequence[Plan], named: str) -> list[Plan]:
        """Returns the plans that every sample has, and one other by the seed; all plans without a seed."""
        if self.seed is None:
            return list(plans)
        others = [plan for plan in plans if not plan.always]
        return [*(plan for plan in plans if plan.always), *one(others, named, self.seed)]


def one_of_each(plans: Iterable[T], class_of: Callable[[T], Hashable], seed: int) -> list[T]:
    """Returns one of each class; the same ones for the same seed."""
    classes: defaultdict[Hashable, list[T]] = defaultdict(list)
    for plan in plans:
        classes[class_of(plan)].append(plan)
    return [plan for named, members in classes.items() for plan in one(members, str(named), seed)]


def one(plans: Sequence[T], named: str, seed: int) -> list[T]:
    """Returns one of the plans, or none if there are none."""
    return [Random(f"{seed} {named}").choice(plans)] if plans else []


def sampled_out(items: Sequence[pytest.Item], seed: int) -> list[pytest.Item]:
    """Returns the tests to leave out; tests that play no plan stay, and one of the planted bugs."""
    plans = [item for item in items if any(name.endswith("plays") for name in getattr(item, "fixturenames", ()))]
    bugs = [item for item in items if item.name.startswith(f"{PLANTED}[")]
    kept = {item.nodeid for item in (*one_of_each(plans, _class_of, seed), *one(bugs, PLANTED, seed))}
    return [item for item in (*plans, *bugs) if item.nodeid not in kept]


def _class_of(item: pytest.Item) -> Hashable:
    """Returns the module, which is about one class of fault, and the kind of object; rare kinds share one class."""
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    named = item.name.partition("[")[0].split("_")
    kind = str(parameters.get("scenario", "cluster" if "cluster" in named else "pod" if "pod" in named else ""))
    return item.path.name, kind if kind in _EVERY_TIME else "another"
