"""Whether an id that was paid for may still be written after somebody else wrote."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from random import Random

import orjson
import pytest
from pydantic import JsonValue

from relay_kube.errors import Conflict, KubeError, Unavailable
from relay_kube.kube import JsonObject, ResourceType
from relay_operator.api.meta import ObjectKey
from relay_operator.engine.object_writer import ObjectWriter
from relay_operator.engine.persist import PaidFor, Recorded, Records, Unwritten, after_conflict, write_id
from relay_operator.engine.report import Told

INTENT = "t0ken"
KNOWN = Records(INTENT, "t0ken", frozenset({"batch-1"}))
"""Of an object whose second part is being paid for."""
FIRST = Records(INTENT, "former", frozenset())
"""Of one whose attempt before was refused."""
LOST = Records("", "", frozenset())


@pytest.mark.parametrize(
    ("known", "found"),
    [
        (KNOWN, KNOWN),
        (KNOWN, replace(KNOWN, intent="")),
        (KNOWN, LOST),
        (FIRST, FIRST),
        (FIRST, LOST),
        (FIRST, replace(LOST, intent=INTENT)),
    ],
)
def test_what_was_lost_is_nobodys_decision(known: Records, found: Records) -> None:
    assert after_conflict(known, found, "batch-2") is None


@pytest.mark.parametrize(
    ("known", "found"),
    [
        (KNOWN, replace(KNOWN, intent="another")),
        (KNOWN, replace(KNOWN, token="another")),
        (KNOWN, replace(KNOWN, ids=frozenset())),
        (KNOWN, replace(KNOWN, ids=frozenset({"batch-1", "batch-3"}))),
        (KNOWN, replace(KNOWN, intent="", token="", ids=frozenset({"batch-3"}))),
        (KNOWN, replace(LOST, intent="another")),
        (FIRST, replace(FIRST, token="another")),
        (FIRST, replace(FIRST, ids=frozenset({"pod-3"}))),
    ],
)
def test_what_another_process_decided_stands(known: Records, found: Records) -> None:
    assert after_conflict(known, found, "batch-2") is Recorded.SUPERSEDED


@pytest.mark.parametrize("found", [replace(KNOWN, token=""), replace(LOST, intent=INTENT)])
def test_a_lost_status_is_rebuilt_by_the_search_that_its_open_intent_asks_for(found: Records) -> None:
    """Since this process read it, it may have told of another part."""
    assert after_conflict(KNOWN, found, "batch-2") is Recorded.SOUGHT


def test_an_id_that_stands_there_was_written() -> None:
    assert after_conflict(KNOWN, replace(KNOWN, ids=frozenset({"batch-1", "batch-2"})), "batch-2") is Recorded.WRITTEN


def test_an_id_that_made_room_for_another_was_written() -> None:
    """Though its own write is late: it is in use, and the one beside it was made since."""
    found = Records("next", "next", frozenset({"key-3"}), frozenset({"key-1", "key-2"}))
    assert after_conflict(Records(INTENT, "former", frozenset(), frozenset({"key-1"})), found, "key-2") is (
        Recorded.WRITTEN
    )


@dataclass
class _Wiped:
    """An object whose status is lost before the first write of it; the second write fails for another reason."""

    status: JsonObject = field(default_factory=dict)
    failures: list[KubeError] = field(default_factory=lambda: [Conflict(409, "Conflict", ""), Unavailable(0, "", "")])

    async def patch(
        self, kind: ResourceType, namespace: str | None, name: str, body: Mapping[str, JsonValue], **_: str | None
    ) -> JsonObject:
        if self.failures:
            raise self.failures.pop(0)
        status = body["status"]
        assert isinstance(status, dict)
        self.status |= status
        return await self.get(kind, namespace, name)

    async def get(self, *_: object) -> JsonObject:
        return {"metadata": {"uid": "u", "resourceVersion": "2"}, "status": self.status}

    async def delete(self, *_: object, **__: object) -> None:
        raise AssertionError("nothing is ended")


async def test_each_further_try_writes_all_that_was_lost() -> None:
    server, after = _Wiped(), {"createToken": "t0ken", "id": "pod-1"}
    body = orjson.dumps({"metadata": {"uid": "u", "resourceVersion": "1"}, "status": {"createToken": "t0ken"}})
    key = ObjectKey("GpuPod", "team-a", "train")
    writer = ObjectWriter(server, ResourceType("gpupods"), key, "u", "1", lambda _: None, lambda: None, body)
    unwritten = Unwritten(writer, {"id": "pod-1"}, lambda: dict(after), PaidFor("pod-1", "Delete"), _never)

    async def at_once(_: float) -> None:
        return

    assert await write_id(unwritten, at_once, Random(1).random) is Recorded.WRITTEN
    assert server.status == after


def _never(error: KubeError) -> Told:
    raise error
