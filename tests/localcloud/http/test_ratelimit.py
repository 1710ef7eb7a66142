"""Rate limits of keys and organizations, and the header fields that tell of them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from relay_localcloud.http.principal import Principal
from relay_localcloud.http.ratelimit import MOST_BUCKETS, Policy, RateLimiter, Standing, policies_of
from relay_localcloud.settings import Settings
from tests.localcloud.support.inference import CHAT, chat
from tests.localcloud.support.inference import call as infer
from tests.localcloud.support.people import session_of
from tests.localcloud.support.server import Organization
from tests.localcloud.support.workloads import set_organization
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from tests.localcloud.conftest import StartServer
    from tests.localcloud.support.server import Answer, Server

FROZEN = ("--ephemeral", "--clock", "frozen")
WHOAMI = "/v1/whoami"
BURST = '"burst";q=4000;w=1'
OF_KEY, OF_ORGANIZATION = Policy("key", "caller", 3, 60), Policy("organization", "organization", 5, 60)


class Time:
    """Real time, as a test has it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def caller(name: str, organization_id: str = "org_1") -> Principal:
    return Principal("api_key", organization_id, (), name=name)


def passes(limiter: RateLimiter, name: str, organization_id: str = "org_1") -> bool:
    return limiter.ask((OF_KEY, OF_ORGANIZATION), caller(name, organization_id))[0]


async def limit(server: Server, **settings: object) -> None:
    await server.ok("PATCH", "/settings", settings)


async def another_key(organization: Organization) -> str:
    made = await organization.ok("POST", "/v1/orgs/{org}/api-keys/create", {"name": "other"})
    return str(made["key"])


def told(answer: Answer) -> tuple[str | None, str | None, str | None]:
    return answer.headers.get("ratelimit-policy"), answer.headers.get("ratelimit"), answer.headers.get("retry-after")


def test_a_key_has_its_quota_and_not_one_more() -> None:
    limiter = RateLimiter(Time())
    assert [passes(limiter, "a") for _ in range(5)] == [True, True, True, False, False]


def test_an_organization_has_its_quota_however_many_keys_it_has() -> None:
    limiter = RateLimiter(Time())
    assert [passes(limiter, name) for name in "aabbcc"] == [True] * 5 + [False]
    assert passes(limiter, "a", "org_2")


def test_people_who_belong_to_no_organization_do_not_hold_up_each_other() -> None:
    limiter = RateLimiter(Time())
    policies = (OF_ORGANIZATION,)
    assert [limiter.ask(policies, caller("usr_1", ""))[0] for _ in range(6)] == [True] * 5 + [False]
    assert limiter.ask(policies, caller("usr_2", ""))[0]


def test_a_user_has_one_quota_however_many_organizations_they_act_in() -> None:
    limiter = RateLimiter(Time())
    people = [Principal("user", f"org_{number}", (), name="usr_1") for number in range(4)]
    assert [limiter.ask((OF_KEY,), person)[0] for person in people] == [True, True, True, False]


def test_what_is_refused_counts_for_nobody() -> None:
    limiter = RateLimiter(Time())
    for _ in range(100):
        passes(limiter, "a")
    assert [passes(limiter, "b") for _ in range(3)] == [True, True, False]


def test_a_quota_comes_back_evenly_and_never_grows() -> None:
    time = Time()
    limiter = RateLimiter(time)
    assert [passes(limiter, "a") for _ in range(4)] == [True, True, True, False]
    time.now += 19.99
    assert not passes(limiter, "a")
    time.now += 0.02
    assert [passes(limiter, "a") for _ in range(2)] == [True, False]
    time.now += 86_400
    assert [passes(limiter, "a") for _ in range(4)] == [True, True, True, False]


def test_a_policy_that_changes_begins_anew() -> None:
    limiter = RateLimiter(Time())
    for quota in (1, 2, 1000):
        policy = Policy("key", "caller", quota, 60)
        assert [limiter.ask((policy,), caller("a"))[0] for _ in range(quota + 1)] == [True] * quota + [False]


def test_callers_who_are_long_gone_take_no_memory() -> None:
    time = Time()
    limiter = RateLimiter(time)
    for nr in range(3 * MOST_BUCKETS):
        time.now += 1
        passes(limiter, f"key {nr}", f"org {nr}")
    assert len(limiter._buckets) < MOST_BUCKETS + 2


@pytest.mark.parametrize(
    ("left", "item"),
    [
        (3.0, '"key";r=3;t=60'),
        (2.0, '"key";r=2;t=40'),
        (1.9, '"key";r=1;t=20'),
        (1.0, '"key";r=1;t=20'),
        (0.99, '"key";r=0;t=1'),
        (0.5, '"key";r=0;t=10'),
        (0.0, '"key";r=0;t=20'),
    ],
)
def test_nobody_is_told_to_send_faster_than_the_policy_allows(left: float, item: str) -> None:
    assert Standing(OF_KEY, left).item == item


@pytest.mark.parametrize(
    ("settings", "items"),
    [
        ({}, ['"key";q=120000;w=60', '"organization";q=240000;w=60', BURST]),
        ({"keyRequestsPerMinute": 0, "organizationRequestsPerMinute": 0}, [BURST]),
        ({"keyRequestsPerMinute": 0, "organizationRequestsPerMinute": 1}, ['"organization";q=1;w=60', BURST]),
        ({"keyRequestsPerMinute": 10**9, "organizationRequestsPerMinute": 0}, ['"key";q=1000000000;w=60', BURST]),
    ],
)
def test_settings_make_policies(settings: dict[str, int], items: list[str]) -> None:
    assert [policy.item for policy in policies_of(Settings.model_validate(settings, by_alias=True), 4_000)] == items


@pytest.mark.parametrize(
    ("per_second", "items"),
    [
        (5, ['"burst";q=5;w=1']),
        (5.5, ['"burst";q=5;w=1']),
        (1, ['"burst";q=1;w=1']),
        (0.3, ['"burst";q=1;w=4']),
        (5e-324, ['"burst";q=1;w=1000000000']),
        (4_000, [BURST]),
        (4_001, [BURST]),
        (0, []),
        (None, [BURST]),
    ],
)
def test_requests_a_second_are_a_policy_too(per_second: float | None, items: list[str]) -> None:
    settings = Settings(rate_limit_per_second=per_second, key_requests_per_minute=0, organization_requests_per_minute=0)
    assert [policy.item for policy in policies_of(settings, 4_000)] == items


async def test_every_answer_tells_what_is_left(start_server: StartServer) -> None:
    server = start_server(*FROZEN)
    await limit(server, keyRequestsPerMinute=2, organizationRequestsPerMinute=3)
    policies = f'"key";q=2;w=60, "organization";q=3;w=60, {BURST}'
    organization = server.seeded()
    first = await organization.call("GET", WHOAMI)
    assert told(first) == (policies, '"key";r=1;t=30, "organization";r=2;t=40, "burst";r=3999;t=1', None)
    refused = await organization.call("POST", "/v1/pods", {"image": 1})
    assert refused.status == 400
    assert told(refused)[:2] == (
        policies,
        f'"key";r=0;t={_window(refused)}, "organization";r=1;t=20, {_burst(refused)}',
    )
    too_many = await organization.call("GET", WHOAMI)
    assert too_many.refusal == (429, "rate_limited")
    assert told(too_many)[0] == policies
    assert 1 <= int(too_many.headers["retry-after"]) == _window(too_many) <= 30
    assert "This key or session sent more than 2 requests in 60 seconds" in too_many.body["error"]


async def test_another_key_and_another_organization_are_not_held_up(start_server: StartServer) -> None:
    server = start_server(*FROZEN)
    organization, other = server.seeded(), await server.organization()
    key, member = await another_key(organization), await session_of(organization, "viewer")
    await limit(server, keyRequestsPerMinute=1, organizationRequestsPerMinute=3)
    assert (await organization.call("GET", WHOAMI)).status == 200
    assert (await organization.call("GET", WHOAMI)).status == 429
    assert (await organization.call("GET", WHOAMI, key=key)).status == 200
    assert (await organization.call("GET", WHOAMI, key=organization.user_session_token)).status == 200
    refused = await organization.call("GET", WHOAMI, key=member.token)
    assert refused.status == 429
    assert "This organization sent more than 3 requests in 60 seconds" in refused.body["error"]
    assert (await other.call("GET", WHOAMI)).status == 200


async def test_limits_are_forgotten_with_a_reset_and_gone_when_they_are_nothing(start_server: StartServer) -> None:
    server = start_server(*FROZEN)
    organization = server.seeded()
    await limit(server, keyRequestsPerMinute=1)
    assert [(await organization.call("GET", WHOAMI)).status for _ in range(2)] == [200, 429]
    await server.ok("POST", "/reset")
    await limit(server, keyRequestsPerMinute=1)
    assert [(await organization.call("GET", WHOAMI)).status for _ in range(2)] == [200, 429]
    await limit(server, keyRequestsPerMinute=0, organizationRequestsPerMinute=0)
    assert told(await organization.call("GET", WHOAMI)) == (BURST, '"burst";r=3999;t=1', None)


async def test_nothing_limits_inference_and_control(start_server: StartServer) -> None:
    server = start_server(*FROZEN)
    organization = server.seeded()
    await limit(server, keyRequestsPerMinute=1, organizationRequestsPerMinute=1, rateLimitPerSecond=0.001)
    for _ in range(3):
        answer = await infer(organization, "POST", CHAT, chat("hello"))
        assert answer.status == 200
        assert told(answer) == (None, None, None)
        assert told(await server.control("GET", "/clock")) == (None, None, None)


async def test_a_fault_answers_as_it_says(start_server: StartServer) -> None:
    server = start_server(*FROZEN)
    effect = {"status": 429, "headers": {"Retry-After": "7"}}
    await server.ok("POST", "/faults", {"operation": f"GET {WHOAMI}", "effect": effect})
    assert told(await server.seeded().call("GET", WHOAMI)) == (None, None, "7")


async def test_who_is_unknown_is_told_nothing(server: Server) -> None:
    stranger = Organization(server, "org_none", "or_none", "", "")
    answer = await stranger.call("GET", WHOAMI)
    assert (answer.status, told(answer)) == (401, (None, None, None))


async def test_an_organization_has_its_own_quota_of_requests_a_second(start_server: StartServer) -> None:
    server = start_server(*FROZEN)
    organization, other = server.seeded(), await server.organization()
    await set_organization(organization, quotas={"requestsPerSecond": 1})

    async def flood() -> list[Answer]:
        return await asyncio.gather(*(organization.call("GET", WHOAMI) for _ in range(50)))

    answers = await eventually(flood, lambda answers: {answer.status for answer in answers} == {200, 429})
    refused = next(answer for answer in answers if answer.status == 429)
    assert refused.refusal == (429, "rate_limited")
    assert told(refused)[0] == '"key";q=120000;w=60, "organization";q=240000;w=60, "burst";q=1;w=1'
    assert '"burst";r=0;t=1' in str(told(refused)[1])
    assert told(refused)[2] == "1"
    assert "This organization sent more than 1 requests in 1 seconds" in refused.body["error"]
    assert BURST in str(told(await other.call("GET", WHOAMI))[0])
    for limit in (1_000, None):
        await set_organization(organization, quotas={"requestsPerSecond": limit})
        assert {answer.status for answer in await flood()} == {200}


def test_the_quota_of_a_second_is_met_to_the_request() -> None:
    (_, _, burst), time = policies_of(Settings(), 3), Time()
    limiter = RateLimiter(time)
    for _ in range(2):
        assert [limiter.ask((burst,), caller(name))[0] for name in "abcd"] == [True, True, True, False]
        time.now += 1


async def test_a_quota_of_no_requests_still_lets_one_a_second_through(start_server: StartServer) -> None:
    organization = start_server(*FROZEN).seeded()
    await set_organization(organization, quotas={"requestsPerSecond": 0})

    async def asked() -> int:
        return (await organization.call("GET", WHOAMI)).status

    await eventually(asked, lambda status: status == 200)


def _burst(answer: Answer) -> str:
    """What is left of the second's requests, which come back as it passes."""
    item = '"burst"' + answer.headers["ratelimit"].partition('"burst"')[2]
    assert item in {'"burst";r=3998;t=1', '"burst";r=3999;t=1'}
    return item


def _window(answer: Answer) -> int:
    """In how many seconds a key without requests has one."""
    return int(answer.headers["ratelimit"].partition("r=0;t=")[2].partition(",")[0])
