"""What the cloud shows once is in the object's Secret before status tells of it; what is lost is made again."""

import base64
from collections.abc import Mapping
from datetime import timedelta

import pytest
from pydantic import Field

from relay_client import Cloud, Forbidden
from relay_operator.api.conditions import Reason
from relay_operator.api.meta import CreateIntent
from relay_operator.api.workload import SupersedingStatus
from relay_operator.engine.account import AccountWaiting
from relay_operator.engine.unclaimed_ids import UnclaimedIds
from relay_operator.flows.managed.resource import Found, Inputs, NotSeen, SearchResult
from relay_operator.flows.managed.shown_once import VALUE_OF, Life, Place
from relay_operator.kinds.gpupod import GpuPod, GpuPodSpec, GpuPodStatus, Pod
from relay_wire.vms import VmRecord
from tests.unit.engine.apiserver import Fault, Json, part
from tests.unit.flows.managed.cloudpods import MemoryPods, lost, refused
from tests.unit.flows.managed.world import NAMESPACE, World

SECRET = "the-value"
CANARY = "canary-"
HOUR = timedelta(hours=1)


class NewRecord(VmRecord):
    value: str


class RotatingPodStatus(GpuPodStatus, SupersedingStatus):
    pass


class RotatingPod(GpuPod):
    status: RotatingPodStatus = Field(default_factory=RotatingPodStatus)


class PodsWithAValue(MemoryPods):
    """Pods whose create shows a value; the list has those that ended as well."""

    model: type[GpuPod] = RotatingPod
    lives: Life | None = None
    """None: for ten hours from its create on, of which the last two are for another to take its place."""

    async def create(self, cloud: Cloud, obj: Pod, intent: CreateIntent, inputs: Inputs) -> VmRecord:
        made = await super().create(cloud, obj, intent, inputs)
        return NewRecord.model_validate({**made.model_dump(by_alias=True), "value": CANARY + made.id})

    async def find(self, cloud: Cloud, name: str, unclaimed: UnclaimedIds) -> SearchResult[VmRecord]:
        self.pods.end("find", self.pods.begin("find"))
        named = (record for record in self.pods.records.values() if record.name == name)
        return next((Found(record) for record in named), NotSeen())

    def kept_in(self, obj: Pod) -> Place:
        return Place(SECRET, "value")

    def life(self, spec: GpuPodSpec, status: GpuPodStatus) -> Life:
        made = status.running_since
        hours = None if made is None else Life(made + 10 * HOUR, 2 * HOUR, 4 * HOUR)
        return self.lives or hours or Life()

    def shown(self, observed: VmRecord) -> str:
        return observed.value if isinstance(observed, NewRecord) else ""


class PodsThatLeaveTheList(PodsWithAValue):
    """The list has those alone that live."""

    async def find(self, cloud: Cloud, name: str, unclaimed: UnclaimedIds) -> SearchResult[VmRecord]:
        return await MemoryPods.find(self, cloud, name, unclaimed)


@pytest.fixture
def showing(world: World) -> World:
    world.kind = PodsWithAValue
    world.assemble()
    return world


def secret(world: World) -> Json:
    return world.server.objects.get(("secrets", NAMESPACE, SECRET), {})


def kept(world: World) -> tuple[str, str]:
    """The id that the Secret names, and the value in it."""
    raw = secret(world)
    value = base64.b64decode(str(part(raw, "data")["value"])).decode()
    return str(part(part(raw, "metadata"), "annotations")[VALUE_OF]), value


def put_secret(world: World, uid: str, more: Mapping[str, bool] | None = None) -> None:
    owners: list[Json] = [{"apiVersion": "v1", "kind": "X", "name": "x", "uid": uid}]
    metadata: Json = {"name": SECRET, "namespace": NAMESPACE, "ownerReferences": [*owners]}
    world.server.put("secrets", {"metadata": metadata, "data": {"value": "b2xk"}, **(more or {})})


def message(world: World) -> str:
    ready = world.condition()
    assert ready is not None
    return ready.message


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
    assert "is immutable" in message(showing) if more else "is not this object's" in message(showing)
    showing.server.vanish("secrets", NAMESPACE, SECRET)
    await showing.wait(60)
    assert (showing.reason(), kept(showing)[0]) == ("Running", "pod-1")


async def test_a_secret_that_the_api_server_would_not_take_is_told_and_nothing_is_sent(showing: World) -> None:
    showing.server.faults.append(Fault(403, method="POST", plural="secrets", times=1000))
    showing.apply()
    await showing.wait(20)
    assert (showing.reason(), showing.pods.sent) == ("SecretTaken", [])
    assert f"the Secret {SECRET} cannot be written: " in message(showing)


async def test_what_a_lost_answer_led_to_is_ended_and_another_is_made(showing: World) -> None:
    showing.pods.fail("create", lost(acted=True))
    showing.apply()
    await showing.wait(30)
    assert (showing.reason(), [record.id for record in showing.pods.live]) == ("Running", ["pod-2"])
    assert kept(showing) == ("pod-2", f"{CANARY}pod-2")
    assert len(showing.pods.created) == 2


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
    assert "this kind cannot be adopted" in message(showing)


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


def rows(world: World) -> list[str]:
    """Ids of those before, as status tells."""
    told = RotatingPod.model_validate(world.raw()).status.former
    return [each.id for each in told or ()]


def alive(world: World) -> list[str]:
    return [record.id for record in world.pods.live]


async def aged(world: World, hours: float) -> None:
    """A resource that is so old."""
    world.apply()
    await world.wait(10)
    await world.wait(hours * 3600 - 10, step=60)


def is_settled(world: World) -> None:
    """Nothing is left of the one before."""
    ready = world.condition()
    assert ready is not None
    assert (ready.status, rows(world)) == ("True", [])


async def test_another_takes_its_place_in_time_and_the_one_before_lives_on_until_it_ends(showing: World) -> None:
    await aged(showing, 7.9)
    assert (alive(showing), kept(showing)[0]) == (["pod-1"], "pod-1")
    await showing.wait(900, step=60)
    assert (showing.reason(), alive(showing)) == ("Running", ["pod-1", "pod-2"])
    assert kept(showing) == ("pod-2", f"{CANARY}pod-2")
    assert (showing.status().id, rows(showing)) == ("pod-2", ["pod-1"])
    await showing.wait(2 * 3600, step=60)
    assert (alive(showing), showing.status().id) == (["pod-2"], "pod-2")
    is_settled(showing)
    assert showing.pods.count("delete") == 1


async def test_a_secret_that_somebody_deleted_is_made_again_with_another_value(showing: World) -> None:
    await aged(showing, 1)
    showing.server.vanish("secrets", NAMESPACE, SECRET)
    await showing.wait(400)
    assert (showing.reason(), kept(showing), rows(showing)) == ("Running", ("pod-2", f"{CANARY}pod-2"), ["pod-1"])
    showing.server.vanish("secrets", NAMESPACE, SECRET)
    await showing.wait(400)
    assert (kept(showing)[0], rows(showing), alive(showing)) == ("pod-3", ["pod-2"], ["pod-2", "pod-3"])


async def test_without_an_overlap_the_one_before_is_ended_once_the_other_is_in_the_secret(showing: World) -> None:
    assert isinstance(showing.resource, PodsWithAValue)
    showing.resource.lives = Life()
    await aged(showing, 0.1)
    showing.server.vanish("secrets", NAMESPACE, SECRET)
    await showing.wait(400)
    assert (alive(showing), kept(showing)[0]) == (["pod-2"], "pod-2")
    is_settled(showing)
    showing.delete()
    await showing.wait(20)
    assert (showing.exists(), alive(showing)) == (False, [])


async def test_a_secret_that_is_another_s_by_now_is_told_and_nothing_is_made(showing: World) -> None:
    await aged(showing, 1)
    showing.server.vanish("secrets", NAMESPACE, SECRET)
    put_secret(showing, "somebody")
    await showing.wait(400)
    assert (showing.reason(), alive(showing)) == ("SecretTaken", ["pod-1"])


async def test_what_has_ended_and_nobody_asked_another_for_is_told(showing: World) -> None:
    showing.apply()
    await showing.wait(10)
    assert isinstance(showing.resource, PodsWithAValue)
    showing.resource.lives = Life(showing.clock.wall() + HOUR, overlap_field="renewBeforeSeconds")
    showing.annotate(reconcile_at="now")
    await showing.wait(3000, step=60)
    assert showing.reason() == "Running"
    await showing.wait(1000, step=60)
    assert (showing.reason(), alive(showing)) == ("Expired", ["pod-1"])
    assert message(showing).endswith("delete its Secret to get another, and set renewBeforeSeconds")
    showing.server.vanish("secrets", NAMESPACE, SECRET)
    await showing.wait(400)
    assert kept(showing)[0] == "pod-2"


async def test_a_cloud_whose_clock_is_wrong_gets_no_more_than_two_in_the_time_of_one(showing: World) -> None:
    assert isinstance(showing.resource, PodsWithAValue)
    showing.resource.lives = Life(showing.clock.wall(), HOUR, HOUR)
    await aged(showing, 5.5)
    assert len(showing.pods.created) == 6


async def test_another_spec_makes_another_beside_it(showing: World) -> None:
    await aged(showing, 1)
    showing.change(image="another")
    await showing.wait(10)
    assert (showing.reason(), alive(showing)) == ("ImmutableFieldChanged", ["pod-1"])
    showing.change(updateStrategy={"type": "Recreate"})
    await showing.wait(10)
    assert (showing.reason(), kept(showing)[0], alive(showing)) == ("Running", "pod-2", ["pod-1", "pod-2"])


async def test_a_rotation_whose_answer_is_lost_leaves_one_beside_the_one_before(showing: World) -> None:
    await aged(showing, 7.9)
    showing.pods.fail("create", lost(acted=True))
    await showing.wait(900, step=10)
    assert (showing.reason(), alive(showing)) == ("Running", ["pod-1", "pod-3"])
    assert (kept(showing), rows(showing)) == (("pod-3", f"{CANARY}pod-3"), ["pod-1"])


@pytest.mark.parametrize("status_write", [True, False], ids=["recorded", "made"])
async def test_a_process_that_dies_in_the_midst_is_followed_by_one_that_goes_on(
    showing: World, *, status_write: bool
) -> None:
    await aged(showing, 7.9)
    fault = Fault(500, method="PATCH", plural="gpupods", status_write=status_write, times=1000)
    showing.server.faults.append(fault)
    await showing.wait(900, step=60)
    showing.server.faults.clear()
    await showing.restart()
    await showing.wait(60)
    assert (showing.reason(), alive(showing), rows(showing)) == ("Running", ["pod-1", "pod-2"], ["pod-1"])
    assert kept(showing) == ("pod-2", f"{CANARY}pod-2")


async def test_both_are_ended_with_the_object(showing: World) -> None:
    await aged(showing, 8.2)
    assert alive(showing) == ["pod-1", "pod-2"]
    showing.delete()
    await showing.wait(20)
    assert (showing.exists(), alive(showing)) == (False, [])


async def test_nothing_is_left_of_a_rotation_that_the_end_of_the_object_meets(showing: World) -> None:
    await aged(showing, 7.9)
    showing.pods.fail("create", *[lost(acted=False)] * 3)
    await showing.wait(900, step=60)
    assert (showing.status().id, rows(showing)) == (None, ["pod-1"])
    state = showing.account.state
    showing.account.state = AccountWaiting(Reason.ACCOUNT_MISSING, "none")
    showing.delete()
    await showing.wait(60)
    assert (showing.exists(), alive(showing)) == (True, ["pod-1"])
    showing.account.state = state
    showing.annotate(reconcile_at="now")
    await showing.wait(2000, step=10)
    assert (showing.exists(), alive(showing)) == (False, [])


async def test_both_are_kept_and_written_down_where_people_ask_for_that(showing: World) -> None:
    await aged(showing, 8.2)
    showing.change(deletionPolicy="Orphan")
    showing.delete()
    await showing.wait(20)
    assert (showing.exists(), alive(showing)) == (False, ["pod-1", "pod-2"])
    assert {name for name in ("pod-1", "pod-2") if name in str(showing.left_behind())} == {"pod-1", "pod-2"}


async def test_what_was_ended_by_another_hand_is_forgotten_and_what_has_another_name_is_left(showing: World) -> None:
    await aged(showing, 8.2)
    showing.pods.become("pod-1", "terminated")
    await showing.wait(2 * 3600, step=60)
    assert (rows(showing), showing.pods.count("delete")) == ([], 0)


async def test_what_is_refused_is_tried_again_and_what_the_cloud_does_not_find_is_forgotten(showing: World) -> None:
    await aged(showing, 8.2)
    showing.pods.fail("delete", refused(Forbidden))
    del showing.pods.records["pod-1"]
    await showing.wait(2 * 3600, step=60)
    assert (rows(showing), showing.reason()) == ([], "Running")
