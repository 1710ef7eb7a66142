"""Answers are written beside what others keep in the ConfigMap, or refused if both do not fit into it."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from relay_kube.errors import NotLeading
from relay_operator.api.conditions import Reason
from relay_operator.api.inferencebatch import RequestCounts
from relay_operator.flows.batch.destinations import ANSWERS, ERRORS, Destinations
from relay_operator.flows.batch.result import Published, StoppedError, WorkRefused
from relay_operator.flows.batch.sources import Sources
from relay_operator.records.ids import Ids
from relay_operator.records.merge import Merge, PartFiles
from relay_operator.records.pace import Pace
from tests.unit.engine.apiserver import Fault
from tests.unit.flows.batch.examples import NOON, batch
from tests.unit.records.streams import opens, record, success

if TYPE_CHECKING:
    from relay_operator.objectstores.stores import ObjectStores
    from tests.unit.engine.apiserver import Json
    from tests.unit.flows.managed.world import World

MOST = 2**20


async def _write(world: World, theirs: int, *, leading: bool = True) -> Json:
    """The ConfigMap after a batch wrote its answers beside so many bytes of others."""
    stored: Json = {"metadata": {"name": "answers", "namespace": "ns"}, "data": {"theirs": "x" * theirs}}
    world.server.put("namespaces", {"metadata": {"name": "ns"}})
    world.server.put("configmaps", stored)
    stores = cast("ObjectStores", None)  # a ConfigMap is in none
    destinations = Destinations(world.kube, stores, Sources(world.kube, stores), lambda: leading)
    obj = batch(output={"configMapRef": {"name": "answers"}, "onExisting": "Replace"})
    with Ids() as ids:
        merge = Merge([[PartFiles(opens([record("a")]), opens([success("a")]), None)]], ids, Pace())
        await destinations.write(obj, merge, "token", lambda output: Published(output, RequestCounts(), 0, 0, NOON))
    return world.server.objects["configmaps", "ns", "answers"]


async def test_answers_are_written_beside_what_others_keep(world: World) -> None:
    data = cast("dict[str, str]", (await _write(world, 1000))["data"])
    assert data["theirs"] == "x" * 1000
    assert '"custom_id":"a"' in data[ANSWERS].replace(" ", "")


async def test_answers_are_written_only_by_who_leads(world: World) -> None:
    with pytest.raises(NotLeading):
        await _write(world, 1, leading=False)
    assert world.server.objects["configmaps", "ns", "answers"]["data"] == {"theirs": "x"}
    written = cast("Json", (await _write(world, 1))["data"])
    assert written.keys() == {"theirs", ANSWERS, ERRORS}


@pytest.mark.parametrize("status", [None, 413])
async def test_what_the_api_server_finds_too_long_is_refused_as_too_large(world: World, status: int | None) -> None:
    if status is not None:
        world.server.faults.append(Fault(status, method="PATCH", plural="configmaps"))
    with pytest.raises(StoppedError) as stopped:
        await _write(world, MOST - 100 if status is None else 1000)
    assert isinstance(stopped.value.came, WorkRefused)
    assert stopped.value.came.reason is Reason.OUTPUT_TOO_LARGE
    assert "with the other keys that are in it, do not fit" in stopped.value.came.message
    assert "use output.url" in stopped.value.came.message
