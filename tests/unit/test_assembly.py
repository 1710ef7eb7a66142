"""Who gets how many of the workers of one process."""

from collections import Counter
from typing import Any, cast

import pytest

from relay_operator.api.meta import ObjectKey
from relay_operator.assembly import assembled, used_with_accounts
from relay_operator.engine.cache import Cache
from relay_operator.engine.queue import Priority, Queue
from relay_operator.kinds import KINDS
from relay_operator.observability.metrics import process_metrics
from relay_operator.proxies import Proxies
from relay_operator.settings import Settings
from tests.unit.engine.apiserver import Json

WORKERS = 96
OWN: Json = {"name": "own"}


@pytest.fixture
def parts() -> tuple[Queue[ObjectKey], Cache]:
    return parts_with(WORKERS)


def parts_with(workers: int) -> tuple[Queue[ObjectKey], Cache]:
    metrics = process_metrics("1.0.0", used_with_accounts(KINDS))
    settings, kube = Settings(workers=workers), cast("Any", None)
    engine = assembled(settings, kube, KINDS, metrics, "me", lambda: True, Proxies()).parts.engine
    return engine.queue, engine.cache


async def test_namespaces_take_turns_however_many_objects_each_has(parts: tuple[Queue[ObjectKey], Cache]) -> None:
    queue, _ = parts
    for number in range(5):
        queue.add(ObjectKey("GpuPod", "busy", f"pod-{number}"), Priority.CHANGE)
    queue.add(ObjectKey("GpuCluster", "quiet", "llm"), Priority.CHANGE)
    assert [(await queue.take()).key.name for _ in range(3)] == ["pod-0", "llm", "pod-1"]


@pytest.mark.parametrize(
    ("kinds", "accounts", "held"),
    [
        (["GpuPod", "InferenceBatch"], 1, [36, 4]),
        (["GpuPod"], 2, [48]),
        (["GpuPod"], 9, [48]),
        (["InferenceBatch"], 9, [4]),
        (["GpuPod", "CloudAccount"], 1, [36, 8]),
    ],
)
async def test_the_clouds_of_one_namespace_that_hang_leave_workers_to_the_others(
    parts: tuple[Queue[ObjectKey], Cache], kinds: list[str], accounts: int, held: list[int]
) -> None:
    queue, cache = parts

    def add(key: ObjectKey, account: str, priority: Priority) -> None:
        body: Json = {"kind": key.kind, "metadata": {"name": key.name}, "spec": {"accountRef": {"name": account}}}
        cache.put(key, body)
        queue.add(key, priority)

    for number in range(60):
        for kind in kinds:
            add(ObjectKey(kind, "busy", f"one-{number}"), f"account-{number % accounts}", Priority.DELETE)
    quiet = [ObjectKey(kind, "quiet", "one") for kind in ("GpuPod", "InferenceBatch")]
    for key in quiet:
        add(key, "own", Priority.POLL)
    taken = [(await queue.take()).key for _ in range(sum(held) + len(quiet))]
    assert taken[-2:] == quiet
    assert Counter(key.kind for key in taken[:-2]) == dict(zip(kinds, held, strict=True))


@pytest.mark.parametrize(
    ("kind", "account", "size", "held"),
    [
        ("GpuPod", {"name": "own"}, 60_000, 36),
        ("GpuPod", {"name": "own"}, 70_000, 8),
        ("GpuPod", {"name": "own-{}"}, 70_000, 8),
        ("GpuPod", {"kind": "ClusterCloudAccount", "name": "shared"}, 70_000, 8),
        ("GpuPod", {"kind": "ClusterCloudAccount", "name": "shared-{}"}, 70_000, 8),
        ("InferenceBatch", {"name": "own-{}"}, 70_000, 4),
        ("InferenceBatchSchedule", {}, 70_000, 8),
        ("CloudAccount", {}, 70_000, 8),
    ],
)
async def test_few_workers_have_large_objects_of_a_namespace(
    parts: tuple[Queue[ObjectKey], Cache], kind: str, account: dict[str, str], size: int, held: int
) -> None:
    queue, cache = parts

    def add(namespace: str, number: int, priority: Priority) -> None:
        key = ObjectKey(kind, namespace, f"large-{number}")
        ref: Json = {word: text.format(number) for word, text in account.items()}
        many = size if kind != "CloudAccount" or number % 2 else 0  # an account takes as much memory if it is small
        cache.put(key, {"kind": kind, "metadata": {"name": key.name}, "spec": {"accountRef": ref, "x": "x" * many}})
        queue.add(key, priority)

    for number in range(60):
        add("busy", number, Priority.DELETE)
    add("quiet", 60, Priority.POLL)
    taken = Counter([(await queue.take()).key.namespace for _ in range(held + 1)])
    assert taken == {"busy": held, "quiet": 1}


async def test_large_objects_of_all_namespaces_leave_workers_to_the_others(
    parts: tuple[Queue[ObjectKey], Cache],
) -> None:
    queue, cache = parts
    for number in range(20 * WORKERS):
        key = ObjectKey("GpuPod", f"busy-{number % 20}", f"large-{number}")
        cache.put(key, {"kind": key.kind, "metadata": {"name": key.name}, "spec": {"x": "x" * 70_000}})
        queue.add(key, Priority.DELETE)
    small = ObjectKey("GpuPod", "quiet", "small")
    queue.add(small, Priority.POLL)
    assert [(await queue.take()).key for _ in range(WORKERS // 4 + 1)][-1] == small


@pytest.mark.parametrize(("workers", "batches"), [(4, 1), (16, 4), (32, 8), (96, 8), (192, 16)])
async def test_batches_have_a_few_of_the_workers_and_one_owner_half_of_these(workers: int, batches: int) -> None:
    queue, cache = parts_with(workers)
    for owner in ("one", "other", "third"):
        for number in range(20):
            key = ObjectKey("InferenceBatch", owner, f"batch-{number}")
            cache.put(key, {"kind": key.kind, "metadata": {"name": key.name}, "spec": {"accountRef": OWN}})
            queue.add(key, Priority.CHANGE)
    pod = ObjectKey("GpuPod", "quiet", "pod")
    queue.add(pod, Priority.REPAIR)
    taken = [(await queue.take()).key for _ in range(batches + 1)]
    assert taken[-1] == pod
    assert Counter(key.namespace for key in taken[:-1]).most_common(1)[0][1] <= max(batches // 2, 1)


async def test_a_namespace_with_all_its_accounts_and_a_shared_one_leaves_workers_to_the_others(
    parts: tuple[Queue[ObjectKey], Cache],
) -> None:
    queue, cache = parts
    shared: Json = {"kind": "ClusterCloudAccount", "name": "shared"}

    def add(namespace: str, name: str, account: Json) -> None:
        key = ObjectKey("GpuPod", namespace, name)
        cache.put(key, {"kind": key.kind, "metadata": {"name": name}, "spec": {"accountRef": account}})
        queue.add(key, Priority.CHANGE)

    for number in range(60):
        add("busy", f"own-{number}", {"name": f"account-{number}"})
        add("busy", f"shared-{number}", shared)
    for name in "abcdefghijkl":
        add("quiet", name, shared)
    taken = Counter([(await queue.take()).key.namespace for _ in range(WORKERS)])
    assert taken == {"busy": WORKERS // 2 + WORKERS * 3 // 8, "quiet": 12}
