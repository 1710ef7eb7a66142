"""The sample that `make test` plays: two plans per class of fault and kind of object, and one planted bug, by seed."""

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
_OF_EACH: Final = 2
_EVERY_TIME: Final = frozenset({"", "pod", "cluster", "batch", "bucket", "suspended"})
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
        """Returns the plans that every sample has, and a few others by the seed."""
        always = [plan for plan in plans if plan.always]
        others = [plan for plan in plans if not plan.always]
        return [*always, *few(others, named, self.seed)]


def some_of_each(plans: Iterable[T], class_of: Callable[[T], Hashable], seed: int) -> list[T]:
    """Returns two of each class, or all of a smaller class; the same ones for the same seed."""
    classes: defaultdict[Hashable, list[T]] = defaultdict(list)
    for plan in plans:
        classes[class_of(plan)].append(plan)
    return [plan for named, members in classes.items() for plan in few(members, str(named), seed)]


def few(plans: Sequence[T], named: str, seed: int | None, most: int = _OF_EACH) -> Sequence[T]:
    """Returns at most so many of the plans, in their order; all of them without a seed."""
    if seed is None or len(plans) <= most:
        return plans
    chosen = sorted(Random(f"{seed} {named}").sample(range(len(plans)), most))
    return [plans[index] for index in chosen]


def sampled_out(items: Sequence[pytest.Item], seed: int) -> list[pytest.Item]:
    """Returns the tests to leave out; tests that play no plan stay, and one of the planted bugs."""
    plans = [item for item in items if any(name.endswith("plays") for name in getattr(item, "fixturenames", ()))]
    bugs = [item for item in items if item.name.startswith(f"{PLANTED}[")]
    kept = {item.nodeid for item in (*some_of_each(plans, _class_of, seed), *few(bugs, PLANTED, seed, 1))}
    return [item for item in (*plans, *bugs) if item.nodeid not in kept]


def _class_of(item: pytest.Item) -> Hashable:
    """Returns the module, which is about one class of fault, and the kind of object; rare kinds share one class."""
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    named = item.name.partition("[")[0].split("_")
    kind = str(parameters.get("scenario", "cluster" if "cluster" in named else "pod" if "pod" in named else ""))
    return item.path.name, kind if kind in _EVERY_TIME else "another"
