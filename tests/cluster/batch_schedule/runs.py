"""A schedule whose times are all in the past, so that a test makes them come due when it wants and never waits.

Each time is a date of its own: a schedule that names a later one of them than the last has just missed it.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from tests.support.eventually import PATIENCE_SECONDS, eventually
from tests.support.manifests import condition, relay_object, up_to_date

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.kube import Manifest
    from tests.support.workspace import Workspace

KIND, BATCH, NAME = "InferenceBatchSchedule", "InferenceBatch", "nightly"
LONG_AGO = "2020-01-01T00:00:00Z"
SPEC = {
    "model": "relay-echo",
    "endpoint": "/v1/chat/completions",
    "input": {"inline": [{"customId": "a", "body": {"messages": [{"role": "user", "content": "hello"}]}}]},
    "output": {"configMapRef": {"name": "answers"}},
}
# Batches that nothing is done with: what they do is not what these scenarios are about.
UNTOUCHED = {"gpurelay.dev/paused": "true"}
TEMPLATE: Manifest = {"metadata": {"annotations": UNTOUCHED, "labels": {"team": "search"}}, "spec": SPEC}


def batch_schedule(name: str = NAME, /, **spec: object) -> Manifest:
    """A yearly schedule with a template of one inline record."""
    return relay_object(KIND, name, **({"schedule": "@yearly", "batchTemplate": TEMPLATE} | spec))


class Runs:
    """One schedule of a workspace, and its batches by the number of their time."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.kube = workspace.kube
        self._first = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(days=20)

    def at(self, number: int) -> datetime:
        """A moment of the past; a larger number is a day later."""
        return self._first + timedelta(days=number)

    def cron(self, number: int, minute: str = "0", hour: str | None = None) -> str:
        """The schedule that names it."""
        when = self.at(number)
        return f"{minute} {hour or when.hour} {when.day} {when.month} *"

    def batch(self, number: int) -> str:
        """The name of its batch."""
        return f"{NAME}-{int(self.at(number).timestamp()) // 60}"

    async def create(self, number: int = 0, **spec: object) -> Manifest:
        """A schedule whose time is missed as soon as `come_due` says that nothing was started for years."""
        await self.workspace.apply(batch_schedule(schedule=self.cron(number), **spec))
        return await self.becomes(up_to_date)

    async def forget(self) -> None:
        """Status says that nothing was started for years, and somebody asks for a look."""
        await self.kube.patch(KIND, NAME, {"status": {"lastScheduleTime": LONG_AGO}}, subresource="status")
        await self.kube.annotate(KIND, NAME, {"gpurelay.dev/reconcile-at": "years later"})

    async def come_due(self, number: int, **spec: object) -> None:
        """The time of a later number has just been missed."""
        await self.kube.patch(KIND, NAME, {"spec": {"schedule": self.cron(number), **spec}})

    async def becomes(self, wanted: Callable[[Manifest | None], object]) -> Manifest:
        return await self.workspace.becomes(KIND, NAME, wanted)

    async def started(self, number: int) -> Manifest:
        """Waits until status tells of this time's batch; answers the schedule."""
        when = self.at(number).strftime("%Y-%m-%dT%H:%M:%SZ")
        return await self.becomes(lambda item: told(item).get("lastScheduleTime") == when)

    async def run(self, number: int) -> None:
        """A time comes due, and its batch is started."""
        await (self.forget() if number == 0 else self.come_due(number))
        await self.started(number)

    async def finish(self, number: int, outcome: str = "Complete", ended: str = "2026-11-21T12:00:00Z") -> None:
        """What the batch's own status says when it is finished."""
        one = {"type": outcome, "status": "True", "reason": "Done", "message": "", "lastTransitionTime": ended}
        await self.kube.patch(BATCH, self.batch(number), {"status": {"conditions": [one]}}, subresource="status")

    async def batches(self) -> list[Manifest]:
        """All batches of the namespace, by name."""
        return sorted(await self.kube.list(BATCH), key=lambda item: str(item["metadata"]["name"]))

    async def names(self) -> list[str]:
        return [item["metadata"]["name"] for item in await self.batches()]

    async def left(self, *numbers: int, within: float = PATIENCE_SECONDS) -> None:
        """Waits until exactly these batches exist."""
        wanted = sorted(self.batch(number) for number in numbers)
        await eventually(self.names, lambda names: names == wanted, within=within, what=f"the batches are {wanted}")

    async def looked_again(self) -> Manifest:
        """Waits for one more pass."""
        stamp = datetime.now(UTC).isoformat()
        await self.kube.annotate(KIND, NAME, {"gpurelay.dev/reconcile-at": stamp})
        return await self.becomes(lambda item: told(item).get("reconcileAt") == stamp)

    async def notes(self, reason: str, count: int = 1) -> list[str]:
        """Waits until so many Events with this reason exist; answers their sentences."""

        async def look() -> list[str]:
            events = await self.kube.list("Event")
            ours = [event for event in events if event["involvedObject"]["kind"] == KIND]
            return [event["message"] for event in ours if event["reason"] == reason]

        return await eventually(look, lambda found: len(found) >= count, what=f"{count} Events {reason}")


def told(item: Manifest | None) -> dict[str, Any]:
    """Its status."""
    status: dict[str, Any] = (item or {}).get("status") or {}
    return status


def active(item: Manifest | None) -> list[str]:
    """The names of the batches that status says are not finished."""
    return [reference["name"] for reference in told(item).get("active", [])]


def why(item: Manifest | None) -> str:
    """The reason of Ready, where status is about the spec as it is."""
    reason: str = condition(item, "Ready").get("reason", "")
    return reason if up_to_date(item) else ""
