"""Which webhook subscriptions are ours, which one stays, and what is repaired."""

import json

import pytest
from pydantic import JsonValue

from relay_client import Cloud
from relay_kube.errors import Refused
from relay_operator.api.meta import ObjectKey
from relay_operator.webhooks.subscription import Repair, Subscribed, Subscriber, plan_repair, subscribe, unsubscribe
from relay_wire.events import EventType
from relay_wire.webhooks import Webhook
from tests.unit.client.scripted import Reply, scripted_server
from tests.unit.engine.apiserver import Fault
from tests.unit.flows.managed.world import NAMESPACE, World

NAME, URL = "relay-operator/uid-1", "https://relay.example.com/webhooks/team-a/default"
KNOWN = Subscribed("wh-1", "whsec_abcdefgh")


def _hook(webhook_id: str = "wh-1", /, **other: object) -> Webhook:
    told = {"id": webhook_id, "name": NAME, "url": URL, "secretPrefix": "whsec_abcd", "events": [], "enabled": True}
    return Webhook.model_validate(told | other)


def _plan(*hooks: Webhook, recorded: Subscribed = KNOWN) -> Repair:
    return plan_repair(hooks, NAME, URL, recorded)


def test_a_good_subscription_is_left_alone() -> None:
    assert _plan(_hook()) == Repair(keep=_hook(), remove=(), roll=False, resume=False)


def test_without_one_it_is_made() -> None:
    assert _plan() == Repair(keep=None, remove=(), roll=False, resume=False)


def test_one_whose_create_was_never_recorded_is_found_by_its_name_and_its_secret_rolled() -> None:
    repair = _plan(_hook("wh-9"), recorded=Subscribed())
    assert (repair.keep, repair.roll) == (_hook("wh-9"), True)


@pytest.mark.parametrize(
    "recorded",
    [
        Subscribed("wh-1", ""),
        Subscribed("wh-7", "whsec_abcdefgh"),
        Subscribed("wh-1", "whsec_zzzz"),
        Subscribed("wh-1", "whsec_abcd".ljust(4097, "e")),
    ],
)
def test_a_lost_foreign_or_endless_secret_is_rolled(recorded: Subscribed) -> None:
    assert _plan(_hook(), recorded=recorded).roll


@pytest.mark.parametrize("shown", [None, "", "whsec_abcd…", "whsec_abcd****", "whsec_abcd...", "abcd", "…efgh"])
def test_another_notation_of_the_prefix_does_not_roll_at_every_pass(shown: str | None) -> None:
    assert not _plan(_hook(secretPrefix=shown)).roll


def test_of_duplicates_the_recorded_one_stays() -> None:
    repair = _plan(_hook("wh-0"), _hook("wh-1"), _hook("wh-2"))
    assert repair.keep == _hook("wh-1")
    assert [hook.id for hook in repair.remove] == ["wh-0", "wh-2"]


def test_a_paused_one_is_resumed() -> None:
    assert _plan(_hook(enabled=False)).resume


def test_one_for_another_address_is_replaced() -> None:
    repair = _plan(_hook(url="https://old.example.com/webhooks/team-a/default"))
    assert repair.keep is None
    assert [hook.id for hook in repair.remove] == ["wh-1"]


def test_one_that_was_narrowed_to_some_events_is_replaced() -> None:
    assert _plan(_hook(events=["vm.running"])).keep is None
    assert _plan(_hook(events=[*EventType])).keep is not None


def test_one_of_a_former_account_object_at_the_same_address_is_ours() -> None:
    repair = _plan(_hook(name="relay-operator/uid-0"), recorded=Subscribed())
    assert repair.keep is not None
    assert repair.roll


@pytest.mark.parametrize(
    "other", [{"name": "ci"}, {"name": None}, {"name": "relay-operator/uid-2", "url": "https://elsewhere.example.com"}]
)
def test_those_of_others_are_never_touched(other: dict[str, object]) -> None:
    assert _plan(_hook(**other)) == Repair(keep=None, remove=(), roll=False, resume=False)


def test_accounts_of_one_name_never_share_a_secret() -> None:
    own = Subscriber(ObjectKey("CloudAccount", "relay-system", "default"), "u", "relay-system")
    shared = Subscriber(ObjectKey("ClusterCloudAccount", "", "default"), "v", "relay-system")
    assert own.secret_name == "default-webhook"
    assert own.secret_name != shared.secret_name
    assert len(Subscriber(ObjectKey("CloudAccount", "n", "x" * 253), "u", "n").secret_name) == 253


@pytest.mark.parametrize("method", ["POST", "PATCH"])
async def test_what_an_admission_policy_says_of_the_signing_secret_is_told_to_nobody(world: World, method: str) -> None:
    who = Subscriber(ObjectKey("CloudAccount", NAMESPACE, "default"), "uid-1", NAMESPACE)
    if method == "PATCH":
        metadata: JsonValue = {"name": who.secret_name, "namespace": NAMESPACE, "ownerReferences": [{"uid": "uid-1"}]}
        world.server.put("secrets", {"metadata": metadata})
    body = '{"kind":"Status","reason":"Invalid","message":"no whsec_abcdefgh here"}'
    world.server.faults.append(Fault(422, method=method, plural="secrets", body=body))
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        made = _hook().model_dump(mode="json", by_alias=True) | {"secret": "whsec_abcdefgh"}
        server.will(Reply(body=b'{"items":[]}'), Reply(status=201, body=json.dumps(made).encode()))
        with pytest.raises(Refused) as refused:
            await subscribe(world.kube, cloud, who, URL)
    assert str(refused.value) == "Invalid: the Secret default-webhook is not written"


@pytest.mark.parametrize("shown", [f"{URL}/", "https://RELAY.example.com/webhooks/team-a/default", None])
async def test_a_url_that_the_cloud_shows_in_another_notation_makes_no_second_subscription(
    world: World, shown: str | None
) -> None:
    who = Subscriber(ObjectKey("CloudAccount", NAMESPACE, "default"), "uid-1", NAMESPACE)
    made = _hook().model_dump(mode="json", by_alias=True)
    page, empty = ({"items": items} for items in ([made | {"url": shown}], []))
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        server.will(_reply(empty), _reply(made | {"secret": "whsec_abcdefgh"}), *(_reply(page) for _ in range(3)))
        found = [await subscribe(world.kube, cloud, who, URL) for _ in range(4)]
        assert {one.secret for one in found} == {"whsec_abcdefgh"}
        assert [target.split()[0] for target in server.targets] == ["GET", "POST", "GET", "GET", "GET"]
        server.will(
            _reply({"items": [made | {"url": "https://elsewhere.example.com"}]}),
            Reply(status=204),
            _reply(made | {"id": "wh-2", "secret": "whsec_ijklmnop"}),
        )
        assert (await subscribe(world.kube, cloud, who, URL)).webhook_id == "wh-2"
    assert world.server.writes.count("PATCH secrets") == 2, "how the cloud shows each of them is written once"


def _reply(body: object) -> Reply:
    return Reply(body=json.dumps(body).encode())


async def test_what_a_later_page_shows_is_removed_too() -> None:
    who = Subscriber(ObjectKey("CloudAccount", "team-a", "default"), "uid-1", "team-a")
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        first = {"items": [_hook("wh-8", name="another's", url="https://x.example").model_dump()], "nextCursor": "1"}
        second = {"items": [_hook().model_dump()]}
        server.will(*(Reply(body=json.dumps(page).encode()) for page in (first, second)), Reply(status=204))
        await unsubscribe(cloud, who, URL)
    path = "/v1/orgs/org-1/webhooks"
    assert server.targets == [f"GET {path}", f"GET {path}?cursor=1", f"DELETE {path}/wh-1"]
