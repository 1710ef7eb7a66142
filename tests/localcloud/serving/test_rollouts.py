"""Blue/green and rolling: how what a lane runs is replaced (section 2, "Serving deployment"; assumed but for roles)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.localcloud.support.deployments import answered_by, change, create, delete, get, running, status, try_change
from tests.localcloud.support.workloads import UNTIL_RUNNING, free_gpus, happens, usage

if TYPE_CHECKING:
    from tests.localcloud.support.server import Organization

GREEN = {"rolloutRole": "green"}
JOIN = {"acknowledgeLaneJoin": True}


async def images(organization: Organization, deployment_id: str) -> list[tuple[str, str]]:
    """Status and image of each replica, sorted."""
    shown: dict[str, Any] = await get(organization, deployment_id)
    return sorted((replica["status"], replica["engineImage"]) for replica in shown["replicas"])


async def test_a_green_takes_nothing_before_it_has_weight(organization: Organization) -> None:
    blue = await running(organization, backendWeight=1, maxConcurrencyPerReplica=1)
    await running(organization, **GREEN)
    assert {await answered_by(organization) for _ in range(10)} == {blue}
    await happens(organization, blue, "unhealthy")
    assert await answered_by(organization) is None


async def test_a_green_with_weight_takes_its_share(organization: Organization) -> None:
    blue = await running(organization, backendWeight=1)
    green = await running(organization, **GREEN)
    shown = await change(organization, green, backendWeight=1)
    assert (shown["rolloutRole"], shown["backendWeight"]) == ("green", 1)
    assert {await answered_by(organization) for _ in range(40)} == {blue, green}


async def test_a_promoted_green_takes_over_the_weight_and_the_old_drain(organization: Organization) -> None:
    blue = await running(organization, backendWeight=2)
    standby = await running(organization, **JOIN)
    green = await running(organization, **GREEN, replicasDesired=2)
    shown = await change(organization, green, rolloutRole="")
    assert (shown["rolloutRole"], shown["backendWeight"], shown["status"]) == ("", 2, "running")
    for old in (blue, standby):
        deployment = await get(organization, old)
        assert (deployment["status"], deployment["statusReason"]) == ("draining", f"Replaced by {green}.")
    assert {await answered_by(organization) for _ in range(5)} == {green}
    assert (await usage(organization))["burnPerHourCents"] == 2 * 249
    await organization.server.advance(1)
    assert [await status(organization, old) for old in (blue, standby)] == ["gone", "gone"]
    assert await status(organization, green) == "running"


async def test_a_weight_that_was_given_stays(organization: Organization) -> None:
    await running(organization, backendWeight=2)
    green = await running(organization, **GREEN)
    assert (await change(organization, green, rolloutRole="", backendWeight=7))["backendWeight"] == 7


async def test_a_green_is_promoted_once_it_is_healthy(organization: Organization) -> None:
    blue = await running(organization)
    green = (await create(organization, **GREEN, replicasDesired=2))["id"]
    assert (await try_change(organization, green, rolloutRole="")).refusal == (409, "conflict")
    await organization.server.advance(UNTIL_RUNNING)
    (replica, _) = (await get(organization, green))["replicas"]
    await happens(organization, green, "unhealthy", replicaId=replica["id"])
    assert (await try_change(organization, green, rolloutRole="")).refusal == (409, "conflict")
    assert [await status(organization, each) for each in (blue, green)] == ["running", "degraded"]
    await happens(organization, green, "healthy")
    await change(organization, green, replicasDesired=3)
    assert (await try_change(organization, green, rolloutRole="")).refusal == (409, "conflict")
    await organization.server.advance(UNTIL_RUNNING)
    await change(organization, green, rolloutRole="")
    assert await status(organization, blue) == "draining"


async def test_a_promotion_replaces_nothing_of_others_and_nothing_of_other_lanes(
    organization: Organization, other: Organization
) -> None:
    elsewhere = await running(organization, maxPromptBytes=5)
    isolated = await running(organization, isolated=True)
    theirs = await running(other, backendWeight=4)
    await running(organization)
    green = await running(organization, **GREEN)
    assert (await change(organization, green, rolloutRole=""))["backendWeight"] == 0
    assert [await status(organization, each) for each in (elsewhere, isolated)] == ["running", "running"]
    assert await status(other, theirs) == "running"


async def test_a_green_may_be_given_up(organization: Organization) -> None:
    blue = await running(organization, backendWeight=1)
    await delete(organization, await running(organization, **GREEN))
    assert await answered_by(organization) == blue


async def test_promoting_what_is_no_green_changes_nothing(organization: Organization) -> None:
    blue = await running(organization)
    sibling = await running(organization, **JOIN)
    await change(organization, blue, rolloutRole="")
    assert await status(organization, sibling) == "running"


async def test_a_rolling_green_lets_the_old_go_step_by_step(organization: Organization) -> None:
    blue = await running(organization, backendWeight=1, replicasDesired=3)
    green = await running(organization, **GREEN, rolloutStrategy="rolling", maxUnavailable=2)
    await change(organization, green, rolloutRole="")
    shown = await get(organization, blue)
    assert (shown["status"], shown["replicasReady"]) == ("draining", 1)
    assert {await answered_by(organization) for _ in range(40)} == {blue, green}
    await organization.server.advance(1)
    assert (await get(organization, blue))["replicasReady"] == 0
    assert {await answered_by(organization) for _ in range(5)} == {green}
    await organization.server.advance(1)
    assert await status(organization, blue) == "gone"


async def test_what_leaves_step_by_step_leaves_at_once_when_it_is_deleted(organization: Organization) -> None:
    blue = await running(organization, replicasDesired=3)
    green = await running(organization, **GREEN, rolloutStrategy="rolling")
    await change(organization, green, rolloutRole="")
    assert (await get(organization, blue))["replicasReady"] == 2
    await delete(organization, blue)
    await organization.server.advance(1)
    assert await status(organization, blue) == "gone"


async def test_what_replicas_run_changes_in_place_where_the_strategy_is_rolling(organization: Organization) -> None:
    free = await free_gpus(organization)
    rolling = {"rolloutStrategy": "rolling", "engineImage": "e:1", "env": {"A": "1"}}
    deployment = await running(organization, backendWeight=1, replicasDesired=3, **rolling)
    shown = await change(organization, deployment, engineImage="e:2", version="v2")
    assert (shown["engineImage"], shown["version"], shown["env"]) == ("e:2", "v2", {"A": "1"})
    assert await images(organization, deployment) == [
        ("draining", "e:1"),
        ("healthy", "e:1"),
        ("healthy", "e:1"),
        ("provisioning", "e:2"),
    ]
    await organization.server.advance(UNTIL_RUNNING)
    assert sorted(await images(organization, deployment)) == [
        ("draining", "e:1"),
        ("healthy", "e:1"),
        ("healthy", "e:2"),
        ("provisioning", "e:2"),
    ]
    assert await answered_by(organization) == deployment
    await organization.server.advance(2 * UNTIL_RUNNING)
    assert await images(organization, deployment) == [("healthy", "e:2")] * 3
    assert await status(organization, deployment) == "running"
    assert await free_gpus(organization) == free - 3


async def test_max_unavailable_bounds_how_many_are_replaced_at_a_time(organization: Organization) -> None:
    deployment = await running(
        organization, replicasDesired=4, rolloutStrategy="rolling", maxUnavailable=3, engineImage="e:1"
    )
    await change(organization, deployment, engineImage="e:2")
    assert (await get(organization, deployment))["replicasReady"] == 1
    await organization.server.advance(UNTIL_RUNNING)
    assert (await get(organization, deployment))["replicasReady"] == 3
    await organization.server.advance(UNTIL_RUNNING)
    assert await images(organization, deployment) == [("healthy", "e:2")] * 4


async def test_a_second_change_on_the_way_is_rolled_out_too(organization: Organization) -> None:
    deployment = await running(organization, replicasDesired=2, rolloutStrategy="rolling", engineImage="e:1")
    await change(organization, deployment, engineImage="e:2")
    await organization.server.advance(UNTIL_RUNNING)
    await change(organization, deployment, engineImage="e:3")
    await organization.server.advance(3 * UNTIL_RUNNING)
    assert await images(organization, deployment) == [("healthy", "e:3")] * 2


async def test_blue_green_changes_nothing_in_place(organization: Organization) -> None:
    deployment = await running(organization, engineImage="e:1", maxUnavailable=5)
    before = await get(organization, deployment)
    answer = await try_change(organization, deployment, engineImage="e:2")
    assert answer.refusal == (409, "conflict")
    assert "rolloutRole green" in answer.body["error"]
    assert await get(organization, deployment) == before
    await change(organization, deployment, engineImage="e:1", maxUnavailable=2)
    await change(organization, deployment, engineImage="e:2", rolloutStrategy="rolling")
    await organization.server.advance(UNTIL_RUNNING)
    assert await images(organization, deployment) == [("healthy", "e:2")]


async def test_without_replicas_there_is_nothing_to_replace(organization: Organization) -> None:
    made = await create(organization, replicasDesired=0, engineImage="e:1")
    await change(organization, made["id"], engineImage="e:2", replicasDesired=1)
    assert await images(organization, made["id"]) == [("provisioning", "e:2")]
