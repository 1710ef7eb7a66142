"""A kind that has no power switch, no GPUs, no inputs and no endpoint, and says nothing of them."""

from datetime import UTC, datetime
from typing import Literal, cast

import pytest
from pydantic import Field, JsonValue

from relay_client import Cloud
from relay_operator.api.conditions import Reason
from relay_operator.api.definition import Definition
from relay_operator.api.meta import CreateIntent, ObjectKey, Resource
from relay_operator.api.workload import ManagedSpec, ManagedStatus
from relay_operator.engine.account import AccountWaiting
from relay_operator.engine.actions import Keep, Nothing
from relay_operator.engine.backoff import Backoff, RetryPolicy
from relay_operator.engine.unclaimed_ids import UnclaimedIds
from relay_operator.flows.managed import predicates
from relay_operator.flows.managed.facts import Facts
from relay_operator.flows.managed.report import report_of
from relay_operator.flows.managed.resource import CannotTell, ExternalResource, Inputs, Look, Progress
from relay_operator.flows.managed.status import new_status
from relay_operator.flows.managed.view import Seen, View

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


class Key(Resource[ManagedSpec, ManagedStatus]):
    kind: Literal["Key"] = "Key"
    status: ManagedStatus = Field(default_factory=ManagedStatus)


class Keys(ExternalResource[ManagedSpec, ManagedStatus, str]):
    """Observed is the id alone."""

    definition = Definition("Key", "keys", "key", ManagedSpec, ManagedStatus, (), "A key.")
    model = Key

    async def observe(self, cloud: Cloud, cloud_id: str, last: ManagedStatus, look: Look) -> str:
        return cloud_id

    async def create(
        self, cloud: Cloud, obj: Resource[ManagedSpec, ManagedStatus], intent: CreateIntent, inputs: Inputs
    ) -> str:
        return "key-1"

    async def delete(self, cloud: Cloud, cloud_id: str) -> None: ...

    def immutable(self, obj: Resource[ManagedSpec, ManagedStatus]) -> dict[str, JsonValue]:
        return {}

    def progress(self, observed: str) -> Progress:
        return Progress.READY

    def identity(self, observed: str) -> tuple[str, str]:
        return observed, ""

    def detail(self, observed: str) -> str:
        return "it is there"


KEYS = Keys()
KEY = Key.model_validate({"metadata": {"name": "mine", "namespace": "team-a", "generation": 1}, "spec": {}})


def test_it_has_nothing_to_change_nor_models_to_try() -> None:
    assert KEYS.differences(KEY, "key-1") == ()
    assert predicates.changes_of(KEYS, KEY, "key-1", NOW) == ()
    assert predicates.models_of(KEYS, KEY) == ()
    assert predicates.deadlines(KEY.spec, KEY.status) == ()
    assert predicates.running_wanted(KEY, NOW)


async def test_without_a_search_nothing_tells_what_an_attempt_led_to() -> None:
    assert await KEYS.find(cast("Cloud", None), "team-a-mine", UnclaimedIds()) == CannotTell()


def test_a_change_of_power_that_it_does_not_have_is_a_mistake() -> None:
    with pytest.raises(AssertionError, match="does not know: stop"):
        predicates.change_named(KEYS, "key-1", None, "stop")


def facts_of(keys: Keys, seen: Seen) -> Facts[ManagedSpec, ManagedStatus, str]:
    key, account = ObjectKey("Key", "team-a", "mine"), AccountWaiting(Reason.PAUSED, "")
    return Facts(keys, key, KEY, NOW, account, View(seen=seen), observed="key-1")


def test_what_does_not_run_is_made_and_not_deployed() -> None:
    class Slow(Keys):
        def progress(self, observed: str) -> Progress:
            return Progress.PENDING

    report = report_of(facts_of(Slow(), Seen.PENDING), Keep(), Nothing(), unreachable=False)
    assert report is not None
    assert (report.reason, report.message) == (Reason.CREATING, "it is there")


def test_its_status_has_nothing_of_what_runs() -> None:
    facts = facts_of(KEYS, Seen.READY)
    report = report_of(facts, Keep(), Nothing(), unreachable=False)
    assert report is not None
    policy = RetryPolicy(Backoff(1.0, 300.0), lambda: 0.5)
    status = new_status(facts, Keep(), Nothing(), report, policy)
    dumped = status.model_dump(mode="json", exclude_none=True, exclude={"conditions"})
    assert dumped == {"observedGeneration": 1}
