"""What the parts of one process are given."""

from typing import Any, cast

from relay_operator.api.meta import ObjectKey
from relay_operator.assembly import assembled, used_with_accounts
from relay_operator.engine.queue import Priority
from relay_operator.kinds import KINDS
from relay_operator.observability.metrics import process_metrics
from relay_operator.proxies import Proxies
from relay_operator.settings import Settings


async def test_namespaces_take_turns_however_many_objects_each_has() -> None:
    metrics = process_metrics("1.0.0", used_with_accounts(KINDS))
    made = assembled(Settings(), cast("Any", None), KINDS, metrics, "me", lambda: True, Proxies())
    queue = made.parts.engine.queue
    for number in range(5):
        queue.add(ObjectKey("GpuPod", "busy", f"pod-{number}"), Priority.CHANGE)
    queue.add(ObjectKey("GpuCluster", "quiet", "llm"), Priority.CHANGE)
    assert [(await queue.take()).key.name for _ in range(3)] == ["pod-0", "llm", "pod-1"]
