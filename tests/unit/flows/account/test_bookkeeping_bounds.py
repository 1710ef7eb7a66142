"""What one look at a long month computes, and that others have their turn meanwhile."""

from __future__ import annotations

from dataclasses import replace

import pytest

from relay_operator.api.meta import ObjectKey
from relay_operator.engine.cache import Cache
from relay_operator.engine.identity import gave
from relay_operator.flows.account import owners
from relay_operator.flows.account.bookkeeping import HOLDERS
from tests.support.turns import others
from tests.unit.flows.account.books_kept import OWN, SHARED, Kept
from tests.unit.flows.managed.world import NAMESPACE


async def test_others_have_their_turn_while_a_long_month_is_accounted_for(kept: Kept) -> None:
    for number in range(500):
        kept.cents[kept.world.pods.add(f"by-hand-{number}").id] = 1
    assert await kept.spent() == {("unattributed", "unattributed"): 500}


async def test_others_have_their_turn_between_the_steps_of_a_look_that_finds_nothing_new(kept: Kept) -> None:
    await kept.created("train", 300)
    await kept.spent()
    with others() as beside:
        await kept.spent()
    assert beside.turns >= 3


async def test_an_id_on_many_lines_is_looked_for_once(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    record, asked, with_cloud_id = await kept.created("train", 300), list[str](), Cache.with_cloud_id

    def counted(cache: Cache, cloud_id: str) -> frozenset[ObjectKey]:
        asked.append(cloud_id)
        return with_cloud_id(cache, cloud_id)

    monkeypatch.setattr(Cache, "with_cloud_id", counted)
    kept.without_id += [{"resourceId": record.id, "name": record.name, "cents": 0}] * 50
    assert await kept.spent() == {(NAMESPACE, "unattributed"): 300}
    assert asked == [record.id]


async def test_of_the_holders_of_an_id_few_of_each_namespace_are_looked_at(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.page, compared = SHARED, list[str]()

    def counted(key: ObjectKey, uid: str, installation: str, name: str) -> bool:
        compared.append(key.namespace)
        return gave(key, uid, installation, name)

    monkeypatch.setattr(owners, "gave", counted)
    record = kept.world.pods.add("by-hand")
    kept.cents[record.id] = 4
    for namespace, number in [("team-b", 0), *(("team-a", number) for number in range(HOLDERS + 2))]:
        kept.records(ObjectKey("GpuPod", namespace, f"train-{number}"), f"uid-{number}", record.id)
    assert await kept.spent() == {("unattributed", "unattributed"): 4}
    assert sorted(compared) == ["team-a"] * HOLDERS + ["team-b"]


@pytest.mark.parametrize(("holders", "turns"), [(1, 3), (498, 3), (499, 4)])
async def test_holders_count_when_others_have_their_turn(kept: Kept, holders: int, turns: int) -> None:
    taken = list[float]()

    async def sleep(seconds: float) -> None:
        taken.append(seconds)

    kept.bookkeeper = replace(kept.bookkeeper, engine=replace(kept.bookkeeper.engine, sleep=sleep))
    for number in range(holders):
        kept.records(ObjectKey("GpuPod", NAMESPACE, f"train-{number}"), f"uid-{number}", "pod-1", OWN.account)
    kept.without_id += [{"resourceId": cloud_id, "name": "by-hand", "cents": 0} for cloud_id in ("pod-1", "pod-2")]
    await kept.spent()
    assert len(taken) == turns
