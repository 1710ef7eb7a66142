"""An answer about another batch or file is not believed: what was really created is searched for."""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath
from typing import Any, cast

import pytest

from relay_client import Cloud, Unreadable
from relay_operator.api.meta import ObjectKey
from relay_operator.engine.cache import Cache
from relay_operator.engine.identity import identity_of
from relay_operator.flows.batch.actions import Submit
from relay_operator.flows.batch.facts import BatchMemory, Facts
from relay_operator.flows.batch.names import TAG, PartTag, file_name
from relay_operator.flows.batch.plan import Phase, View
from relay_operator.flows.batch.result import Paid, Unknown, Uploaded
from relay_operator.flows.batch.transitions import after
from relay_operator.objectstores.addresses import StorePolicy
from relay_operator.objectstores.stores import ObjectStores
from tests.unit.client.scripted import Reply, scripted_server
from tests.unit.engine.apiserver import Json
from tests.unit.flows.batch.acting import INTENT, KEY, acting, ready
from tests.unit.flows.batch.examples import NOON, TOKEN, batch, part, status

OWN = {TAG: str(PartTag(TOKEN, 1, 1, 1, 1))}
ANOTHERS = {TAG: str(PartTag("another", 1, 1, 1, 1))}
LINES = [{"customId": "a", "body": {"messages": [{"role": "user", "content": "hello"}]}}]


class _Writer:
    """Takes the marker."""

    async def status(self, patch: object) -> None:
        pass


@pytest.mark.parametrize(
    ("told", "outcome"),
    [
        ({"status": "validating", "metadata": OWN}, Paid),
        ({"status": "completed", "metadata": OWN}, Paid),
        ({"status": "validating"}, Paid),
        ({"status": "completed", "metadata": ANOTHERS, "output_file_id": "file_theirs"}, Unknown),
        ({"status": "validating", "metadata": {}}, Unknown),
        ({"status": "completed"}, Unknown),
    ],
)
async def test_a_create_that_is_answered_with_another_batch_has_an_unknown_outcome(
    told: dict[str, Any], outcome: type[Paid | Unknown]
) -> None:
    obj, cache = batch(status=status(part(inputFileId="file_1"))), Cache()
    metadata = obj.metadata.model_dump(mode="json", exclude_none=True)
    stored = {"kind": "InferenceBatch", "metadata": metadata, "status": {"createToken": TOKEN}}
    cache.put(KEY, cast("Json", stored))
    async with ObjectStores(StorePolicy()) as stores, scripted_server() as server:
        server.will(Reply(200, json.dumps({"id": "batch_theirs", **told}).encode()))
        async with Cloud(server.url, "or_key_0123456789", inference_url=server.url, organization_id="org-1") as cloud:
            facts = Facts(KEY, obj, NOON, ready(cloud), View(phase=Phase.ACTIVE), obj.status, INTENT)
            writer = cast("Any", _Writer())
            came = await acting(stores, cache).act(facts, Submit(), BatchMemory("uid-1"), writer)
    assert server.targets == ["POST /v1/batches"]
    assert type(came) is outcome


@pytest.mark.parametrize("namespace", ["ns", "elsewhere"])
async def test_a_create_that_is_answered_with_the_batch_of_another_object_has_an_unknown_outcome(
    namespace: str,
) -> None:
    """The tag can be repeated by a cloud of one's own; in another cloud the id is another batch's."""
    obj, cache = batch(status=status(part(inputFileId="file_1"))), Cache(urls=("https://real.example", ""))
    there: Json = {"status": {"id": "batch_theirs"}, "metadata": {"uid": "u2", "resourceVersion": "1"}}
    for own, url in (("ns", ""), ("elsewhere", "https://own.example")):
        key = ObjectKey("CloudAccount", own, "default")
        cache.put(key, {"metadata": {"uid": "a"}, "spec": {"apiKeySecretRef": {}, "baseUrl": url}})
    cache.put(KEY._replace(namespace=namespace, name="theirs"), there)
    metadata = obj.metadata.model_dump(mode="json", exclude_none=True)
    cache.put(KEY, cast("Json", {"metadata": metadata, "status": {"createToken": TOKEN}}))
    async with ObjectStores(StorePolicy()) as stores, scripted_server() as server:
        server.will(Reply(200, json.dumps({"id": "batch_theirs", "status": "validating", "metadata": OWN}).encode()))
        async with Cloud(server.url, "or_key_0123456789", inference_url=server.url, organization_id="org-1") as cloud:
            facts = Facts(KEY, obj, NOON, ready(cloud), View(phase=Phase.ACTIVE), obj.status, INTENT)
            came = await acting(stores, cache).act(facts, Submit(), BatchMemory("uid-1"), cast("Any", _Writer()))
    assert type(came) is (Unknown if namespace == "ns" else Paid)


@pytest.mark.parametrize("shown", [False, True])
async def test_the_cloud_that_is_asked_first_is_recorded_before_it_is_asked(*, shown: bool) -> None:
    """When the batch began, the account had another URL, or no inference API; `shown`: another part's look tells."""
    began, now = (identity_of(batch().metadata, "", "org-1", endpoint) for endpoint in ("former", "inference"))
    forged = now.model_copy(update={"uid": "another"})  # in the annotation, which people can write
    obj, cache, patches = batch(status=status(part(inputFileId="file_1"), identity=began)), Cache(), list[Json]()
    metadata = obj.metadata.model_dump(mode="json", exclude_none=True)
    cache.put(KEY, cast("Json", {"metadata": metadata, "status": {"createToken": TOKEN}}))

    class Writer:
        async def status(self, patch: Json) -> None:
            patches.append(patch)

    async with ObjectStores(StorePolicy()) as stores, scripted_server() as server:
        server.will(Reply(200, json.dumps({"id": "batch_1", "status": "validating", "metadata": OWN}).encode()))
        async with Cloud(server.url, "or_key_0123456789", inference_url=server.url, organization_id="org-1") as cloud:
            intent = INTENT.model_copy(update={"identity": forged})
            known = obj.status.model_copy(update={"identity": now}) if shown else obj.status
            facts = Facts(KEY, obj, NOON, ready(cloud), View(phase=Phase.ACTIVE), known, intent)
            came = await acting(stores, cache).act(facts, Submit(), BatchMemory("uid-1"), cast("Any", Writer()))
    assert [cast("Json", patch["identity"])["endpoint"] for patch in patches] == ["inference"]
    assert after(facts, Submit(), came).identity == now


@pytest.mark.parametrize(
    ("told", "believed"),
    [
        ({}, True),
        ({"filename": file_name(INTENT, 1, 1)}, True),
        ({"filename": file_name(INTENT, 1, 2)}, False),
        ({"filename": file_name(INTENT, 1, 1), "bytes": 1}, False),
    ],
)
async def test_an_upload_that_is_answered_with_another_file_is_not_believed(
    tmp_path: Path, told: dict[str, Any], believed: bool
) -> None:
    obj = batch(output={"url": f"file://{tmp_path}"}, input={"inline": LINES})
    policy = StorePolicy(file_roots=(PurePosixPath(tmp_path),))
    async with ObjectStores(policy) as stores, scripted_server() as server:
        server.will(Reply(200, json.dumps({"id": "file_1", "object": "file", **told}).encode()))
        async with Cloud(server.url, "or_key_0123456789", inference_url=server.url, organization_id="org-1") as cloud:
            sent = acting(stores, Cache()).sending.first(obj, cloud, INTENT, search=False)
            if believed:
                assert isinstance(await sent, Uploaded)
            else:
                with pytest.raises(Unreadable, match="is about"):
                    await sent
