"""What the cloud shows once is in the object's Secret before status tells of it; what is lost is made again."""

import pytest

from relay_client import Cloud, Forbidden
from relay_operator.api.meta import ADOPT_ID, PAUSED, CreateIntent
from relay_operator.engine.unclaimed_ids import UnclaimedIds
from relay_operator.flows.managed.resource import SearchResult
from relay_wire.vms import VmRecord
from tests.unit.engine.apiserver import Fault, Json, part
from tests.unit.flows.managed.cloudpods import MemoryPods, lost, refused
from tests.unit.flows.managed.shown_once import CANARY, SECRET, PodsWithAValue, kept, put_secret, secret
from tests.unit.flows.managed.world import NAMESPACE, World


class PodsThatLeaveTheList(PodsWithAValue):
    """The list has those alone that live."""

    async def find(self, cloud: Cloud, name: str, unclaimed: UnclaimedIds) -> SearchResult[VmRecord]:
        return await MemoryPods.find(self, cloud, name, unclaimed)


def writes(world: World) -> list[str]:
    return [call for call in world.server.writes if "events" not in call]


async def test_the_secret_is_written_before_the_id_and_tells_whose_value_it_has(showing: World) -> None:
    showing.apply()
    await showing.wait(1)
    assert showing.reason() == "Running"
    assert kept(showing) == ("pod-1", f"{CANARY}pod-1")
    assert part(secret(showing), "metadata")["ownerReferences"] == [
        {
            "apiVersion": "gpurelay.dev/v1alpha1",
            "kind": "GpuPod",
            "name": "train",
            "uid": showing.obj().metadata.uid,
            "controller": True,
        }
    ]
    order = writes(showing)
    assert order.index("PATCH gpupods") < len(order) - 2
    assert order[-2:] == ["POST secrets", "PATCH gpupods/status"]
    assert CANARY not in str(showing.raw())


@pytest.mark.parametrize("more", [{}, {"immutable": True}], ids=["another's", "immutable"])
async def test_a_secret_that_cannot_be_written_is_told_and_nothing_is_sent(
    showing: World, more: dict[str, bool]
) -> None:
    showing.apply()
    put_secret(showing, showing.obj().metadata.uid if more else "somebody", more)
    before = secret(showing)
    await showing.wait(20)
    assert (showing.reason(), showing.pods.sent, secret(showing)) == ("SecretTaken", [], before)
    assert "is immutable" in showing.message() if more else "is not this object's" in showing.message()
    showing.server.vanish("secrets", NAMESPACE, SECRET)
    await showing.wait(60)
    assert (showing.reason(), kept(showing)[0]) == ("Running", "pod-1")


async def test_a_secret_that_the_api_server_would_not_take_is_told_and_nothing_is_sent(showing: World) -> None:
    showing.server.faults.append(Fault(403, method="POST", plural="secrets", times=1000))
    showing.apply()
    await showing.wait(20)
    assert (showing.reason(), showing.pods.sent) == ("SecretTaken", [])
    assert f"the Secret {SECRET} cannot be written: " in showing.message()


async def test_what_a_lost_answer_led_to_is_ended_and_another_is_made(showing: World) -> None:
    showing.pods.fail("create", lost(acted=True))
    showing.apply()
    await showing.wait(30)
    assert (showing.reason(), [record.id for record in showing.pods.live]) == ("Running", ["pod-2"])
    assert kept(showing) == ("pod-2", f"{CANARY}pod-2")
    assert len(showing.pods.created) == 2


async def test_what_a_lost_answer_led_to_is_not_ended_once_another_object_records_it(showing: World) -> None:
    """Somebody puts back one that adopted it in the moment before."""

    def restore() -> None:
        showing.apply("restored", annotations={ADOPT_ID: "pod-1", PAUSED: "true"})
        recorded: Json = {"status": {"id": "pod-1", "cloudName": showing.pods.records["pod-1"].name}}
        showing.server.edit("gpupods", NAMESPACE, "restored", recorded, status=True)

    showing.pods.fail("create", lost(acted=True))
    showing.apply()
    await showing.one_pass()
    showing.pods.once_before_change(restore)
    await showing.wait(10)
    assert showing.pods.records["pod-1"].status != "terminated"


async def test_what_a_lost_answer_led_to_may_leave_the_list_as_it_ends(showing: World) -> None:
    showing.kind = PodsThatLeaveTheList
    showing.assemble()
    showing.pods.fail("create", lost(acted=True))
    showing.apply()
    await showing.wait(30)
    assert (showing.reason(), [record.id for record in showing.pods.live]) == ("Running", ["pod-2"])
    assert kept(showing) == ("pod-2", f"{CANARY}pod-2")


async def test_what_a_lost_answer_led_to_and_cannot_be_ended_is_not_taken_for_gone(showing: World) -> None:
    showing.kind = PodsThatLeaveTheList
    showing.assemble()
    showing.pods.fail("create", lost(acted=True))
    showing.pods.fail("delete", refused(Forbidden))
    showing.pods.misses = lambda _: showing.pods.count("delete") == 1
    showing.apply()
    await showing.wait(500)
    assert (showing.pods.count("create"), len(showing.pods.live)) == (1, 1)
    showing.pods.misses = lambda _: False
    await showing.wait(400)
    assert (showing.reason(), [record.id for record in showing.pods.live]) == ("Running", ["pod-2"])


async def test_what_was_never_made_is_made_under_another_name(showing: World) -> None:
    showing.pods.fail("create", lost(acted=False))
    showing.apply()
    await showing.wait(700)
    assert (showing.reason(), kept(showing)[0], len(showing.pods.created)) == ("Running", "pod-1", 1)


async def test_an_outage_of_the_api_server_loses_no_value(showing: World) -> None:
    showing.apply()

    def outage(_call: str) -> None:
        showing.server.faults.append(Fault(500, plural="secrets", times=3))

    showing.pods.on_call = lambda call: outage(call) if call == "create" else None
    await showing.wait(60)
    assert (showing.reason(), kept(showing)) == ("Running", ("pod-1", f"{CANARY}pod-1"))
    assert len(showing.pods.created) == 1


async def test_a_secret_that_somebody_makes_meanwhile_stays_and_what_was_made_is_ended(showing: World) -> None:
    showing.apply()
    showing.pods.on_call = lambda call: put_secret(showing, "somebody") if call == "create" else None
    await showing.wait(60)
    assert (showing.reason(), showing.pods.live) == ("SecretTaken", [])
    assert part(secret(showing), "data") == {"value": "b2xk"}


async def test_what_an_admission_policy_says_of_the_value_is_told_to_nobody(
    showing: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    showing.apply()
    body = f'{{"kind":"Status","reason":"Invalid","message":"no {CANARY}pod-1 here"}}'

    def refuse(_call: str) -> None:
        showing.server.faults.append(Fault(422, method="POST", plural="secrets", body=body))

    showing.pods.on_call = lambda call: refuse(call) if call == "create" else None
    await showing.wait(60)
    assert (showing.reason(), kept(showing)) == ("Running", ("pod-1", f"{CANARY}pod-1"))
    assert CANARY not in caplog.text


@pytest.mark.parametrize("written", [True, False], ids=["after the Secret", "before the Secret"])
async def test_a_process_that_dies_after_the_create_keeps_what_the_secret_has(showing: World, *, written: bool) -> None:
    showing.apply()
    fault = Fault(500, method="PATCH", plural="gpupods", status_write=True, times=1000)
    if not written:
        fault = Fault(500, plural="secrets", times=1000)

    def die(_call: str) -> None:
        showing.server.faults.append(fault)

    showing.pods.on_call = lambda call: die(call) if call == "create" else None
    await showing.wait(3)
    assert len(showing.pods.live) == 1
    showing.pods.on_call = lambda _call: None
    showing.server.faults.clear()
    await showing.restart()
    await showing.wait(60)
    alive = "pod-1" if written else "pod-2"
    assert ([record.id for record in showing.pods.live], showing.status().id) == ([alive], alive)
    assert kept(showing) == (alive, CANARY + alive)
    assert showing.reason() == "Running"


async def test_what_a_lost_answer_led_to_is_ended_with_the_object(showing: World) -> None:
    showing.pods.fail("create", lost(acted=True))
    showing.pods.on_call = lambda call: showing.delete() if call == "create" else None
    showing.apply()
    await showing.wait(60)
    assert (showing.exists(), showing.pods.live, secret(showing)) == (False, [], {})


async def test_nothing_is_adopted_since_its_value_is_not_known(showing: World) -> None:
    record = showing.pods.add("by-hand")
    showing.apply(annotations={"gpurelay.dev/adopt-id": record.id})
    await showing.wait(10)
    assert (showing.reason(), showing.pods.sent) == ("AdoptionRefused", [])
    assert "this kind cannot be adopted" in showing.message()


async def test_what_the_objects_own_secret_had_before_is_replaced(showing: World) -> None:
    showing.apply()
    put_secret(showing, showing.obj().metadata.uid)
    await showing.wait(1)
    assert (showing.reason(), kept(showing)) == ("Running", ("pod-1", f"{CANARY}pod-1"))


async def test_a_secret_that_is_changed_as_it_is_written_is_looked_at_again(showing: World) -> None:
    showing.apply()
    put_secret(showing, showing.obj().metadata.uid)

    def touch(_call: str) -> None:
        showing.server.faults.append(Fault(409, method="PATCH", plural="secrets"))

    showing.pods.on_call = lambda call: touch(call) if call == "create" else None
    await showing.wait(10)
    assert (showing.reason(), kept(showing), len(showing.pods.created)) == (
        "Running",
        ("pod-1", f"{CANARY}pod-1"),
        1,
    )


@pytest.mark.parametrize("there", [False, True], ids=["no Secret before", "a Secret before"])
async def test_a_leader_that_wakes_after_its_create_does_not_write_over_the_value_of_the_next_leader(
    showing: World, *, there: bool
) -> None:
    showing.apply()
    uid = showing.obj().metadata.uid
    if there:
        put_secret(showing, uid)
    showing.pods.on_call = lambda call: put_secret(showing, uid, {"later": True}) if call == "create" else None
    await showing.one_pass()
    assert part(secret(showing), "data") == {"value": "b2xk"}
    assert (secret(showing)["later"], showing.status().id) == (True, None)


async def test_a_process_that_no_longer_leads_keeps_no_value(showing: World) -> None:
    def frozen(call: str) -> None:
        showing.leading = call != "create"

    showing.apply()
    showing.pods.on_call = frozen
    await showing.one_pass()
    assert (len(showing.pods.live), secret(showing), showing.status().id) == (1, {}, None)
    assert isinstance(showing.intent(), CreateIntent)
