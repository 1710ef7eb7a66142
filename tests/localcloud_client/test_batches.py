"""Batches through the client against the local cloud: created once, listed, cancelled, and what is refused."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from relay_client import (
    BadRequest,
    Cloud,
    CloudError,
    CloudUnavailable,
    Conflict,
    Forbidden,
    NotFound,
    Outcome,
    PaymentRequired,
    RateLimited,
    Truncated,
    batches,
)
from relay_client.operations import CANCEL_BATCH, CREATE_BATCH, DELETE_FILE, GET_BATCH, GET_FILE, OPERATIONS, Api
from relay_wire.batches import BatchCreate
from tests.localcloud_client.batches import ENDPOINT, created, downloaded, ended, lines, record, records
from tests.localcloud_client.conftest import POLICY
from tests.support.localcloud import Control, Organization

CREATE = "POST /v1/batches"


async def test_every_operation_of_the_inference_api_is_understood_by_both_sides(
    cloud: Cloud, control: Control, organization: Organization
) -> None:
    batch = await created(cloud, 3, intent="t-1")
    assert (batch.status, batch.endpoint, batch.metadata) == ("validating", ENDPOINT, {"intent": "t-1"})
    assert (batch.completion_window, batch.request_counts.total) == ("24h", 0)
    batch = await ended(cloud, control, batch)
    counts, usage = batch.request_counts, batch.usage
    assert (batch.status, batch.model, batch.error_file_id) == ("completed", "echo", None)
    assert (counts.total, counts.completed, counts.failed) == (3, 3, 0)
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens, usage.cost_nano_usd) == (6, 6, 600)
    answers = list(lines(await downloaded(cloud, batch.output_file_id)))
    assert [answer["custom_id"] for answer in answers] == ["r0", "r1", "r2"]
    assert batch.input_file_id is not None
    assert (await cloud.call(GET_FILE, id=batch.input_file_id)).purpose == "batch"
    other = await created(cloud, 1)
    assert (await cloud.call(CANCEL_BATCH, id=other.id)).status == "cancelling"
    await control.advance(60)
    assert (await cloud.call(GET_BATCH, id=other.id)).status == "cancelled"
    assert (await cloud.call(DELETE_FILE, id=batch.input_file_id)).deleted
    assert [found.id async for found in batches(cloud)] == [other.id, batch.id]
    logged = await control.requests(organization=organization)
    called = {request["operation"] for request in logged}
    table = {f"{row.method} {row.path}" for row in OPERATIONS if row.api is Api.INFERENCE}
    assert table - {"GET /v1/files"} <= called
    assert [request["unreadFields"] for request in logged if request["unreadFields"]] == []


async def test_records_can_be_given_inline(cloud: Cloud, control: Control) -> None:
    body = {"model": "echo", "messages": [{"role": "user", "content": "hello"}], "max_tokens": None}
    only = {"custom_id": "only", "method": "POST", "url": ENDPOINT, "body": body}
    batch = await cloud.call(CREATE_BATCH, BatchCreate(requests=[only], endpoint=ENDPOINT))
    batch = await ended(cloud, control, batch)
    assert batch.request_counts.completed == 1
    (answer,) = lines(await downloaded(cloud, batch.output_file_id))
    assert answer["custom_id"] == "only"


async def test_a_batch_whose_reply_was_lost_is_found_by_its_metadata(
    cloud: Cloud, control: Control, organization: Organization
) -> None:
    for number in range(5):
        await created(cloud, 1, intent=f"before {number}")
    await control.fault(CREATE, {"drop": "after"}, organizationId=organization.id, count=1)
    with pytest.raises(CloudUnavailable) as caught:
        await created(cloud, 1, intent="t-1")
    assert caught.value.outcome is Outcome.UNKNOWN
    for number in range(5):
        await created(cloud, 1, intent=f"after {number}")
    found = [batch.metadata async for batch in batches(cloud, limit=3)]
    assert len(found) == 11
    assert found.count({"intent": "t-1"}) == 1


@pytest.mark.parametrize(
    ("effect", "error", "outcome", "exists"),
    [
        ({"drop": "before"}, CloudUnavailable, Outcome.UNKNOWN, 0),
        ({"truncateBytes": 9}, Truncated, Outcome.UNKNOWN, 1),
        ({"status": 503}, CloudUnavailable, Outcome.UNKNOWN, 0),
        ({"status": 429}, RateLimited, Outcome.REJECTED, 0),
    ],
    ids=str,
)
async def test_a_create_that_fails_is_not_sent_again(
    effect: dict[str, object],
    error: type[CloudError],
    outcome: Outcome,
    exists: int,
    cloud: Cloud,
    control: Control,
    organization: Organization,
) -> None:
    await control.fault(CREATE, effect, organizationId=organization.id, count=1)
    with pytest.raises(error) as caught:
        await created(cloud, 1)
    assert caught.value.outcome is outcome
    assert len([batch async for batch in batches(cloud)]) == exists


async def test_what_cannot_be_a_batch_is_refused(cloud: Cloud) -> None:
    for wrong in (
        BatchCreate(endpoint=ENDPOINT),
        BatchCreate(endpoint=ENDPOINT, input_file_id="file_1", requests=[{}]),
        BatchCreate(endpoint="/v1/embeddings", requests=[{}]),
    ):
        with pytest.raises(BadRequest) as caught:
            await cloud.call(CREATE_BATCH, wrong)
        assert caught.value.error_type == "invalid_request_error"
    with pytest.raises(NotFound) as absent:
        await cloud.call(CREATE_BATCH, BatchCreate(endpoint=ENDPOINT, input_file_id="file_nonesuch"))
    assert absent.value.outcome is Outcome.REJECTED


async def test_what_validation_finds_is_told_with_its_line(cloud: Cloud, control: Control) -> None:
    async def twice() -> AsyncIterator[bytes]:
        for _ in range(2):
            yield record(1)

    file = await cloud.upload("input.jsonl", twice())
    batch = await cloud.call(CREATE_BATCH, BatchCreate(input_file_id=file.id, endpoint=ENDPOINT))
    batch = await ended(cloud, control, batch)
    assert batch.status == "failed"
    assert batch.errors is not None
    assert [(problem.code, problem.line) for problem in batch.errors.data] == [("duplicate_custom_id", 2)]


async def test_what_is_over_cannot_be_cancelled_and_a_live_input_cannot_be_deleted(
    cloud: Cloud, control: Control
) -> None:
    batch = await created(cloud, 1)
    assert batch.input_file_id is not None
    with pytest.raises(Conflict):
        await cloud.call(DELETE_FILE, id=batch.input_file_id)
    batch = await ended(cloud, control, batch)
    with pytest.raises(Conflict) as caught:
        await cloud.call(CANCEL_BATCH, id=batch.id)
    assert caught.value.outcome is Outcome.REJECTED


async def test_without_funds_a_batch_needs_payment(cloud: Cloud, control: Control, organization: Organization) -> None:
    await control.change_organization(organization.id, balanceCents=-1)
    with pytest.raises(PaymentRequired) as caught:
        await created(cloud, 1)
    assert (caught.value.code, caught.value.error_type) == ("insufficient_balance", "insufficient_quota")


async def test_an_account_under_review_is_forbidden(cloud: Cloud, control: Control, organization: Organization) -> None:
    await control.change_organization(organization.id, suspended=True)
    with pytest.raises(Forbidden) as caught:
        await created(cloud, 1)
    assert caught.value.code == "account_suspended"


async def test_without_access_to_batches_there_are_none(
    cloud: Cloud, control: Control, organization: Organization
) -> None:
    batch = await created(cloud, 1)
    await control.change_organization(organization.id, batchAccess=False)
    with pytest.raises(NotFound):
        await cloud.call(GET_BATCH, id=batch.id)


async def test_a_scope_that_is_lacking_is_forbidden(control: Control, inference_url: str) -> None:
    poor = await control.create_organization("Poor", scopes=["clusters:read"])
    async with Cloud(poor.management_url, poor.api_key, inference_url=inference_url, policy=POLICY) as cloud:
        with pytest.raises(Forbidden) as caught:
            await anext(aiter(batches(cloud)))
    assert caught.value.code == "insufficient_scope"


async def test_many_batches_are_created_at_once(cloud: Cloud) -> None:
    file = await cloud.upload("input.jsonl", records(1))
    wanted = BatchCreate(input_file_id=file.id, endpoint=ENDPOINT)
    made = await asyncio.gather(*(cloud.call(CREATE_BATCH, wanted) for _ in range(20)))
    assert len({batch.id for batch in made}) == 20
    assert {batch.id async for batch in batches(cloud, limit=7)} == {batch.id for batch in made}
