"""The rate limits of the management API (section 7, 429), in real time; inference has none (section 8).

If there is a limit, answers to known callers say what is left (draft-ietf-httpapi-ratelimit-headers-11):

    RateLimit-Policy: "key";q=120000;w=60, "organization";q=240000;w=60, "burst";q=4000;w=1
    RateLimit: "key";r=119999;t=60, "organization";r=239999;t=60, "burst";r=3999;t=1
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from relay_localcloud.http.errors import ApiError, ErrorAnswer
from relay_localcloud.http.exchange import exchange_of
from relay_localcloud.http.principal import Principal
from relay_localcloud.kernel.store import Store
from relay_localcloud.settings import Settings

MOST_BUCKETS: Final = 10_000
"""Buckets that are kept before full ones, which are equivalent to absent ones, are removed to add another."""

_MINUTE: Final = 60.0
_LEAST: Final = 1e-9
"""Requests per second; a lower rate has a window of more than 31 years, which makes no difference."""


@dataclass(frozen=True, slots=True)
class Policy:
    """How many requests, at least one, in how many seconds; for each caller, or for each organization."""

    name: str
    of: Literal["caller", "organization"]
    quota: float
    seconds: float

    @property
    def per_second(self) -> float:
        """How much of the quota is restored per second."""
        return self.quota / self.seconds

    @property
    def item(self) -> str:
        """The policy in the format of RateLimit-Policy."""
        return f'"{self.name}";q={math.floor(self.quota)};w={math.ceil(self.seconds)}'

    def bucket_of(self, principal: Principal) -> "_BucketName":
        """The bucket that counts a caller's requests; a changed policy has new buckets."""
        if self.of == "caller" and principal.kind == "user":  # in whichever organization they act
            return self, "", principal.name
        organization = principal.organization_id or principal.name  # a caller without an organization is treated as one
        return self, organization, principal.name if self.of == "caller" else ""


_BucketName = tuple[Policy, str, str]


@dataclass(frozen=True, slots=True)
class Standing:
    """What is left of a policy's quota."""

    policy: Policy
    left: float

    @property
    def wait(self) -> float:
        """Seconds until one request is left; 0 if there is one."""
        return max(0.0, (1 - self.left) / self.policy.per_second)

    @property
    def item(self) -> str:
        """The standing in the format of RateLimit.

        Its window is the time that restores what is left, so that no client sends faster than the policy allows.
        """
        left = math.floor(self.left)
        return f'"{self.policy.name}";r={left};t={math.ceil(max(self.wait, left / self.policy.per_second))}'


class RateLimiter:
    """A bucket for each policy and each caller or organization: how much was spent, and when; none is empty."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._buckets: dict[_BucketName, tuple[float, float]] = {}

    def ask(self, policies: Sequence[Policy], principal: Principal) -> tuple[bool, list[Standing]]:
        """Count a request under every policy if it may pass; returns whether it may, and what is left of each."""
        now = self._monotonic()
        spent = {name: self._spent(name, now) for name in (policy.bucket_of(principal) for policy in policies)}
        passes = all(name[0].quota - each >= 1 for name, each in spent.items())
        if passes:
            spent = {name: each + 1 for name, each in spent.items()}
            if len(self._buckets) >= MOST_BUCKETS:
                self._buckets = {name: kept for name, kept in self._buckets.items() if self._spent(name, now)}
            self._buckets |= {name: (each, now) for name, each in spent.items()}
        return passes, [Standing(name[0], name[0].quota - each) for name, each in spent.items()]

    def forget(self) -> None:
        """Reset all quotas."""
        self._buckets.clear()

    def _spent(self, name: _BucketName, now: float) -> float:
        spent, at = self._buckets.get(name, (0.0, now))
        return max(0.0, spent - (now - at) * name[0].per_second)


class RateLimit:
    """Answers 429 with Retry-After in whole seconds when a caller exceeds a policy.

    `per_second` gives the requests per second that an organization may send.
    """

    def __init__(
        self,
        app: ASGIApp,
        store: Store,
        limiter: RateLimiter,
        per_second: Callable[[str], float],
        refused: ErrorAnswer,
    ) -> None:
        self._app = app
        self._store = store
        self._per_second = per_second
        self._limiter = limiter
        self._refused = refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer 429; a fault's answer keeps the fault's headers."""
        exchange = exchange_of(scope)
        principal = exchange.principal
        if principal is None:
            await self._app(scope, receive, send)
            return
        policies = policies_of(self._store.settings, self._per_second(principal.organization_id))
        if not policies:
            await self._app(scope, receive, send)
            return
        passes, standings = self._limiter.ask(policies, principal)
        fields = _fields(standings)
        if not passes:
            await self._refused(_too_many(standings, fields), scope)(scope, receive, send)
            return

        async def send_on(message: Message) -> None:
            if message["type"] == "http.response.start" and exchange.fault_id is None:
                MutableHeaders(scope=message).update(fields)
            await send(message)

        await self._app(scope, receive, send_on)


def policies_of(settings: Settings, per_second: float) -> tuple[Policy, ...]:
    """The policies of an organization whose quota is so many requests per second; a setting of 0 means none."""
    of_all = settings.rate_limit_per_second
    return _policies(
        settings.key_requests_per_minute,
        settings.organization_requests_per_minute,
        per_second if of_all is None else min(of_all, per_second),
    )


@lru_cache(maxsize=100)
def _policies(of_key: int, of_organization: int, per_second: float) -> tuple[Policy, ...]:
    return tuple(_wanted(of_key, of_organization, per_second))


def _wanted(of_key: int, of_organization: int, per_second: float) -> Iterator[Policy]:
    if of_key:
        yield Policy("key", "caller", of_key, _MINUTE)
    if of_organization:
        yield Policy("organization", "organization", of_organization, _MINUTE)
    if per_second:
        yield Policy("burst", "organization", max(per_second, 1.0), max(1.0, 1 / max(per_second, _LEAST)))


def _fields(standings: Sequence[Standing]) -> dict[str, str]:
    return {
        "RateLimit-Policy": _listed(tuple(standing.policy for standing in standings)),
        "RateLimit": ", ".join(standing.item for standing in standings),
    }


@lru_cache(maxsize=100)
def _listed(policies: Sequence[Policy]) -> str:
    return ", ".join(policy.item for policy in policies)


def _too_many(standings: Sequence[Standing], fields: Mapping[str, str]) -> ApiError:
    longest = max(standings, key=lambda standing: standing.wait)
    policy, wait = longest.policy, math.ceil(longest.wait)
    sender = {"caller": "This key or session", "organization": "This organization"}[policy.of]
    message = (
        f"{sender} sent more than {policy.quota:g} requests in {policy.seconds:g} seconds: try again in {wait} seconds."
    )
    return ApiError(429, message, headers={**fields, "Retry-After": str(wait)})
