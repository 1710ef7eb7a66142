"""What has no name in the cloud is known by what was sent and when; if that leaves a doubt, a person decides."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from pydantic import TypeAdapter

from relay_client import Cloud
from relay_operator.api.meta import CREATE_INTENT, CreateIntent
from relay_operator.engine.unclaimed_ids import UnclaimedIds
from relay_operator.flows.managed.resource import CannotTell, Found, Inputs, SearchResult
from relay_operator.flows.managed.unnamed import led_to
from relay_operator.kinds.gpupod import Pod
from relay_wire.vms import VmRecord
from tests.unit.flows.managed.cloudpods import MemoryPods, lost
from tests.unit.flows.managed.world import BEGINNING, World

AN_HOUR = 3600.0
_MOMENT: TypeAdapter[datetime] = TypeAdapter(datetime)


class UnnamedPods(MemoryPods):
    """Pods that are known by their image."""

    now = BEGINNING

    async def existing(self, cloud: Cloud, obj: Pod) -> VmRecord | None:
        return None

    async def alike(self, cloud: Cloud, obj: Pod) -> Sequence[VmRecord]:
        self.pods.end("alike", self.pods.begin("alike"))
        return [one for one in self.pods.live if one.image_url == obj.spec.image]

    def made_at(self, observed: VmRecord) -> datetime | None:
        return _MOMENT.validate_python(observed.created_at) if observed.created_at else None

    async def find(self, cloud: Cloud, name: str, unclaimed: UnclaimedIds) -> SearchResult[VmRecord]:
        raise AssertionError("no name finds what has none")

    async def create(self, cloud: Cloud, obj: Pod, intent: CreateIntent, inputs: Inputs) -> VmRecord:
        failure = self.pods.begin_change("create", cloud)
        record = self.pods.add("", fields=row(obj.spec.image, intent.started_at))
        self.pods.end("create", failure)
        return record

    def identity(self, observed: VmRecord) -> tuple[str, str]:
        return observed.id, ""


def row(image: str = "pytorch/pytorch", at: datetime | None = BEGINNING) -> dict[str, object]:
    """What a pod shows."""
    shown: dict[str, object] = {"imageUrl": image, "gpuCount": 1, "public": False}
    return shown | ({"createdAt": at.isoformat()} if at is not None else {})


@pytest.fixture
def unnamed(world: World) -> World:
    world.kind = UnnamedPods
    world.assemble()
    return world


async def lose(world: World, *names: str, acted: bool) -> None:
    """Creates whose answers never come."""
    for name in names or ("train",):
        world.pods.fail("create", lost(acted=acted))
        world.apply(name)
    for _ in names or ("train",):
        await world.one_pass()


async def test_there_may_be_several_alike_and_an_end_is_believed(unnamed: World) -> None:
    unnamed.pods.add("", fields=row())
    unnamed.apply()
    await unnamed.wait(10)
    made = unnamed.status()
    assert (unnamed.reason(), made.id, len(unnamed.pods.live)) == ("Running", "pod-2", 2)
    unnamed.pods.become("pod-2", "terminated")
    unnamed.hint()
    await unnamed.settle()
    assert unnamed.stalled().startswith("TerminatedExternally: ")


async def test_the_only_one_that_was_made_since_is_what_the_lost_create_led_to(unnamed: World) -> None:
    unnamed.pods.add("", fields=row(at=BEGINNING - timedelta(seconds=1)))
    unnamed.pods.add("", fields=row("another/image"))
    await lose(unnamed, acted=True)
    await unnamed.restart()
    await unnamed.wait(60)
    assert (unnamed.reason(), unnamed.status().id) == ("Running", "pod-3")
    assert unnamed.pods.count("create") == 1


@pytest.mark.parametrize(
    "doubt",
    [
        (BEGINNING - timedelta(seconds=1),),
        (),
        (None,),
        (BEGINNING, BEGINNING),
        (BEGINNING, None),
    ],
    ids=["older", "none", "of no date", "two", "one of no date beside it"],
)
async def test_if_there_is_any_doubt_a_person_decides(unnamed: World, doubt: Sequence[datetime | None]) -> None:
    unnamed.account.state = replace(unnamed.account.ready, resend_unknown=True)  # it sends a name again: there is none
    await lose(unnamed, acted=False)
    for at in doubt:
        unnamed.pods.add("", fields=row(at=at))
    await unnamed.wait(AN_HOUR, step=30)
    assert unnamed.stalled().startswith("CreateOutcomeUnknown: ")
    assert "what equals the spec and was made at 2026-03-01T12:00:00Z or later" in unnamed.stalled()
    assert unnamed.pods.count("create") == 1


async def test_what_somebody_makes_long_after_is_not_what_the_lost_create_led_to(unnamed: World) -> None:
    await lose(unnamed, acted=False)
    await unnamed.wait(AN_HOUR, step=30)
    theirs = unnamed.pods.add("", fields=row(at=unnamed.clock.wall()))
    await unnamed.wait(AN_HOUR, step=30)
    assert (unnamed.status().id, unnamed.stalled().partition(":")[0]) == (None, "CreateOutcomeUnknown")
    unnamed.delete()
    unnamed.annotate(retry_create=unnamed.readable_intent().token)
    await unnamed.wait(60)
    assert (unnamed.exists(), unnamed.pods.live) == (False, [theirs])


async def test_a_person_says_which_one_it_is(unnamed: World) -> None:
    await lose(unnamed, acted=False)
    other, own = unnamed.pods.add("", fields=row("another/image")), unnamed.pods.add("", fields=row())
    unnamed.pods.add("", fields=row())
    unnamed.annotate(adopt_id=other.id)
    await unnamed.wait(AN_HOUR, step=30)
    assert "the spec differs from the resource, so correct the spec: image: asked" in unnamed.stalled()
    unnamed.annotate(adopt_id=own.id)
    await unnamed.wait(10)
    assert (unnamed.reason(), unnamed.status().id) == ("Running", own.id)
    assert unnamed.pods.count("create") == 1


@pytest.mark.parametrize(("acted", "says"), [(True, ("pod-2", "")), (False, (None, "CreateOutcomeUnknown"))])
async def test_what_another_object_has_is_not_it(unnamed: World, acted: bool, says: tuple[str | None, str]) -> None:
    unnamed.apply("first")
    await unnamed.settle()
    await lose(unnamed, acted=acted)
    await unnamed.wait(AN_HOUR, step=30)
    assert (unnamed.status().id, unnamed.stalled().partition(":")[0]) == says


async def test_two_that_sent_the_same_take_nothing_from_each_other(unnamed: World) -> None:
    await lose(unnamed, "first", "second", acted=True)
    unnamed.pods.become("pod-2", "terminated")
    await unnamed.wait(AN_HOUR, step=30)
    for name in ("first", "second"):
        assert (unnamed.status(name).id, unnamed.stalled(name).partition(":")[0]) == (None, "CreateOutcomeUnknown")
    unnamed.pods.fail("create", lost(acted=True))
    unnamed.apply("third", image="another/image")
    await unnamed.wait(60)
    assert unnamed.status("third").id == "pod-3"
    unnamed.delete("second")
    unnamed.annotate("second", abandon="true")
    await unnamed.wait(AN_HOUR, step=30)
    assert (unnamed.exists("second"), unnamed.status("first").id) == (False, "pod-1")


async def test_what_another_sends_while_the_list_is_read_is_the_others(unnamed: World) -> None:
    await lose(unnamed, acted=False)
    theirs = unnamed.readable_intent().model_copy(update={"token": "theirs", "name": "second", "identity": None})

    def another_sends(call: str) -> None:
        if call == "alike":
            unnamed.pods.on_call = lambda _: None
            unnamed.apply("second", annotations={CREATE_INTENT: theirs.to_annotation()})
            unnamed.pods.add("", fields=row())

    unnamed.pods.on_call = another_sends
    await unnamed.wait(5)
    assert (len(unnamed.pods.live), unnamed.status().id, unnamed.status("second").id) == (1, None, None)


@pytest.mark.parametrize(("organization", "found"), [("org-1", None), ("org-2", "pod-2")])
async def test_nor_do_two_that_sent_it_with_accounts_of_one_organization(
    unnamed: World, organization: str, found: str | None
) -> None:
    await lose(unnamed, "first", "second", acted=True)
    unnamed.pods.become("pod-1", "terminated")
    sent = unnamed.readable_intent("second")
    assert sent.identity is not None
    identity = sent.identity.model_copy(update={"organization": organization})
    elsewhere = sent.model_copy(update={"account": "CloudAccount/other", "identity": identity})
    unnamed.annotate("second", **{CREATE_INTENT.partition("/")[2]: elsewhere.to_annotation()})
    await unnamed.wait(AN_HOUR, step=30)
    assert (unnamed.status("first").id, unnamed.status("second").id) == (found, None)


async def test_what_the_spec_says_by_now_is_not_what_was_sent(unnamed: World) -> None:
    await lose(unnamed, acted=True)
    unnamed.pods.add("", fields=row("another/image"))
    unnamed.change(image="another/image")
    await unnamed.wait(AN_HOUR, step=30)
    assert unnamed.stalled().startswith("CreateOutcomeUnknown: ")
    unnamed.change(image="pytorch/pytorch")
    await unnamed.wait(AN_HOUR, step=30)
    assert unnamed.status().id == "pod-1"


async def test_a_shared_account_takes_nothing_over_by_what_it_looks_like(unnamed: World) -> None:
    """People may write annotations: an intent of theirs would find what is somebody else's."""
    unnamed.account.share()
    await lose(unnamed, acted=True)
    early = unnamed.readable_intent().model_copy(update={"started_at": BEGINNING - timedelta(minutes=5)})
    unnamed.annotate(**{CREATE_INTENT.partition("/")[2]: early.to_annotation()})
    await unnamed.restart()
    await unnamed.wait(AN_HOUR, step=30)
    assert (unnamed.status().id, unnamed.stalled().partition(":")[0]) == (None, "CreateOutcomeUnknown")
    unnamed.account.state = replace(unnamed.account.ready, adoption_allowed=True)
    await unnamed.wait(AN_HOUR, step=30)
    assert unnamed.status().id == "pod-1"


async def test_deleting_it_ends_what_it_led_to(unnamed: World) -> None:
    await lose(unnamed, acted=True)
    unnamed.delete()
    await unnamed.wait(60)
    assert (unnamed.exists(), unnamed.pods.live) == (False, [])


def test_one_is_found_from_the_second_on_in_which_it_was_sent_and_for_ten_minutes() -> None:
    second, latest = timedelta(seconds=1), timedelta(minutes=10)
    assert led_to([("a", BEGINNING)], BEGINNING) == Found("a")
    assert led_to([("a", BEGINNING + second)], BEGINNING) == Found("a")
    assert led_to([("a", BEGINNING - second)], BEGINNING) == CannotTell()
    assert led_to([("a", BEGINNING + latest)], BEGINNING) == Found("a")
    assert led_to([("a", BEGINNING + latest + second)], BEGINNING) == CannotTell()
    assert led_to([("a", BEGINNING), ("b", BEGINNING + latest + second)], BEGINNING) == CannotTell()
