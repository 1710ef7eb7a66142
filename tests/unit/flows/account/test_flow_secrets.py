"""The Secret with the account's key: another key in it, and a finalizer that may not be written or removed."""

from __future__ import annotations

import asyncio
import base64
from typing import TYPE_CHECKING

import pytest

from relay_client import Unauthorized
from relay_operator.api.conditions import Reason
from relay_operator.api.meta import ObjectKey
from relay_operator.engine.account import AccountReady, AccountRefused, AccountWaiting
from relay_operator.engine.endpoints import called
from tests.support.eventually import eventually
from tests.unit.engine.apiserver import Fault, part
from tests.unit.flows.account.passes import KEY, LOOK, Passes
from tests.unit.flows.managed.world import NAMESPACE, OPERATOR_NAMESPACE

if TYPE_CHECKING:
    from pydantic import JsonValue


async def test_of_a_large_answer_about_the_key_only_what_status_shows_is_kept(passes: Passes) -> None:
    passes.cloud.name = "n" * 4096
    passes.cloud.scopes = [f"{number:03}:{'x' * 1000}\U0001f600" for number in range(500)]
    await passes.settled()
    who = passes.accounts.whoami(KEY)
    assert who is not None
    assert len(who.model_dump_json()) < 8 * 1024
    status = passes.status()
    assert status.scopes == [f"{number:03}:{'x' * 60}" for number in range(64)]
    assert status.organization_name == "n" * 252 + "…"
    passes.accounts.organization_is_called(KEY, "o" * 4096)
    who = passes.accounts.whoami(KEY)
    assert who is not None
    assert len(who.organization_name or "") < 1000
    assert passes.accounts.organization_of(KEY) == "org-1"


async def test_an_organization_is_that_of_the_cloud_which_told_it(passes: Passes) -> None:
    await passes.settled()
    assert passes.status().endpoint == called(passes.cloud.url, "").management
    there = passes.world.server.objects["cloudaccounts", NAMESPACE, "default"]
    passes.world.server.edit("cloudaccounts", NAMESPACE, "default", {"spec": {"baseUrl": f"{passes.cloud.url}/other"}})
    passes.world.cache.put(KEY, passes.world.server.objects["cloudaccounts", NAMESPACE, "default"])
    assert passes.accounts.organization_of(KEY) is None
    passes.world.server.edit("cloudaccounts", NAMESPACE, "default", {"spec": there["spec"]})
    passes.world.cache.put(KEY, passes.world.server.objects["cloudaccounts", NAMESPACE, "default"])
    assert passes.accounts.organization_of(KEY) == "org-1"


async def test_a_new_key_is_tried_although_the_first_look_with_it_was_cancelled(passes: Passes) -> None:
    with_the_old = await passes.accounts.state(KEY)
    new_key: JsonValue = {"api-key": base64.b64encode(b"or_another_key").decode()}
    passes.world.server.edit("secrets", NAMESPACE, "key", {"data": new_key})
    passes.cloud.asked.clear()
    passes.cloud.answers.clear()
    passes.world.clock.seconds += LOOK
    looking = asyncio.create_task(passes.accounts.state(KEY))

    async def asked() -> list[str]:
        return passes.cloud.asked

    await eventually(asked, bool, every=0.01)
    looking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await looking
    passes.cloud.answers.set()
    passes.world.clock.seconds += LOOK
    with_the_new = await passes.accounts.state(KEY)
    assert isinstance(with_the_new, AccountReady)
    assert with_the_new is not with_the_old
    assert passes.cloud.asked == ["whoami", "whoami"]


async def refused(passes: Passes) -> None:
    """The cloud refuses the key, which is not tried again for minutes."""
    ready = await passes.accounts.state(KEY)
    assert isinstance(ready, AccountReady)
    passes.accounts.failed(ready, Unauthorized("create", "no such key", status=401))
    assert type(await passes.accounts.state(KEY)) is AccountRefused


async def test_an_inference_url_that_refuses_the_key_is_no_trouble_of_an_account_whose_key_the_cloud_accepts(
    passes: Passes,
) -> None:
    ready = await passes.accounts.state(KEY)
    assert isinstance(ready, AccountReady)
    passes.cloud.asked.clear()
    for _ in range(3):
        passes.accounts.failed(ready, Unauthorized("create_batch", "who are you?", status=401))
        assert await passes.accounts.state(KEY) is ready
    assert passes.cloud.asked == ["whoami"], "the cloud is asked once in a while, however often the other URL refuses"


async def test_a_revoked_key_that_only_the_inference_url_refused_so_far_is_found_at_once(passes: Passes) -> None:
    ready = await passes.accounts.state(KEY)
    assert isinstance(ready, AccountReady)
    passes.cloud.refusing = ("whoami",)
    passes.accounts.failed(ready, Unauthorized("create_batch", "it is revoked", status=401))
    assert type(await passes.accounts.state(KEY)) is AccountRefused


async def test_a_new_key_is_tried_again_soon_if_the_cloud_does_not_answer_the_first_time(passes: Passes) -> None:
    await refused(passes)
    new_key: JsonValue = {"api-key": base64.b64encode(b"or_another_key").decode()}
    passes.world.server.edit("secrets", NAMESPACE, "key", {"data": new_key})
    passes.cloud.failing = ("whoami",)
    passes.world.clock.seconds += 10
    unanswered = await passes.accounts.state(KEY)
    assert isinstance(unanswered, AccountWaiting)
    assert unanswered.reason is Reason.CLOUD_UNAVAILABLE
    passes.cloud.failing = ()
    passes.world.clock.seconds += 10
    assert type(await passes.accounts.state(KEY)) is AccountReady


async def test_a_refused_key_that_comes_back_is_tried_and_not_called_missing(passes: Passes) -> None:
    await refused(passes)
    key = passes.world.server.objects["secrets", NAMESPACE, "key"]["data"]
    passes.world.server.edit("secrets", NAMESPACE, "key", {"data": {"api-key": ""}})
    passes.world.clock.seconds += 10
    missing = await passes.accounts.state(KEY)
    assert isinstance(missing, AccountWaiting)
    assert missing.reason is Reason.SECRET_MISSING
    passes.world.server.edit("secrets", NAMESPACE, "key", {"data": key})
    passes.world.clock.seconds += 10
    assert type(await passes.accounts.state(KEY)) is AccountReady


async def test_a_secret_that_may_not_be_written_is_told_and_the_account_is_used(passes: Passes) -> None:
    body = '{"kind":"Status","reason":"Forbidden","message":"no b3JfdGVzdF9rZXk= here"}'
    passes.world.server.faults.append(Fault(403, method="PATCH", plural="secrets", times=99, body=body))
    await passes.settled()
    assert "the Secret key may be gone" in passes.condition("Ready")[1]
    assert "b3JfdGVzdF9rZXk=" not in passes.condition("Ready")[1]  # an admission policy may quote what it refuses
    assert (passes.condition("Ready")[0], passes.status().available_cents) == ("True", 10**6)
    passes.world.server.faults.clear()
    await passes.look()
    assert passes.condition("Ready") == ("True", "the key works")


async def test_a_former_secret_that_may_not_be_released_stays_noted_until_it_is(passes: Passes) -> None:
    await passes.settled()
    secret = passes.world.server.objects["secrets", NAMESPACE, "key"]
    passes.world.server.put("secrets", {"metadata": {"name": "other", "namespace": NAMESPACE}, "data": secret["data"]})
    passes.world.server.faults.append(Fault(403, method="PATCH", plural="secrets", times=99))
    passes.change({"apiKeySecretRef": {"name": "other", "key": "api-key"}})
    await passes.look()
    assert "keeps a finalizer" in passes.condition("Ready")[1]
    passes.world.server.faults.clear()
    await passes.look()
    assert "finalizers" not in part(passes.world.server.objects["secrets", NAMESPACE, "key"], "metadata")
    assert part(passes.world.server.objects["secrets", NAMESPACE, "other"], "metadata")["finalizers"]


@pytest.mark.parametrize("has_something", [False, True])
async def test_who_only_names_a_shared_account_does_not_keep_it_in_its_former_organization(
    passes: Passes, has_something: bool
) -> None:
    shared, stranger = ObjectKey("ClusterCloudAccount", "", "shared"), ObjectKey("GpuPod", "stranger", "pod")
    api_key: JsonValue = {"api-key": base64.b64encode(b"or_shared_key").decode()}
    passes.world.server.put("secrets", {"metadata": {"name": "k", "namespace": OPERATOR_NAMESPACE}, "data": api_key})
    secret: JsonValue = {"namespace": OPERATOR_NAMESPACE, "name": "k", "key": "api-key"}
    passes.world.cache.put(
        shared,
        {
            "metadata": {"name": "shared", "uid": "u-1", "generation": 1, "resourceVersion": "1"},
            "spec": {"baseUrl": passes.cloud.url, "apiKeySecretRef": secret, "allowedNamespaces": {}},
            "status": {"organizationId": "org-0"},
        },
    )
    passes.world.cache.put(
        stranger,
        {
            "metadata": {"name": "pod", "namespace": "stranger", "uid": "u-2", "resourceVersion": "1"},
            "spec": {"accountRef": {"kind": "ClusterCloudAccount", "name": "shared"}},
            "status": {"id": "pod-1"} if has_something else {},
        },
    )
    state = await passes.accounts.state(shared)
    assert type(state) is (AccountRefused if has_something else AccountReady)
