"""The finalizers with which accounts hold the Secret of their key, while others write to it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from relay_kube.errors import Conflict
from relay_operator.accounts.key_secret import finalizer_of, release
from tests.unit.flows.managed.world import NAMESPACE

if TYPE_CHECKING:
    from tests.unit.engine.apiserver import Call
    from tests.unit.flows.managed.world import World


def held_by(world: World, *accounts: str) -> None:
    finalizers = [finalizer_of(account) for account in accounts]
    world.server.put("secrets", {"metadata": {"name": "key", "namespace": NAMESPACE, "finalizers": [*finalizers]}})


def finalizers(world: World) -> object:
    metadata = world.server.objects["secrets", NAMESPACE, "key"]["metadata"]
    assert isinstance(metadata, dict)
    return metadata.get("finalizers")


async def test_accounts_that_end_together_all_release_the_secret_that_they_share(world: World) -> None:
    held_by(world, "u1", "u2", "u3")
    await asyncio.gather(*(release(world.kube, NAMESPACE, "key", account) for account in ("u1", "u2", "u3")))
    assert not finalizers(world)


async def test_a_secret_that_others_write_all_the_time_is_released_by_another_pass(world: World) -> None:
    held_by(world, "u1")
    written = 0

    def somebody_writes(call: Call) -> None:
        nonlocal written
        if call.method == "PATCH":
            written += 1
            world.server.edit("secrets", NAMESPACE, "key", {"metadata": {"labels": {"written": str(written)}}})

    world.server.before = somebody_writes
    with pytest.raises(Conflict):
        await release(world.kube, NAMESPACE, "key", "u1")
    world.server.before = lambda _: None
    await release(world.kube, NAMESPACE, "key", "u1")
    assert not finalizers(world)
