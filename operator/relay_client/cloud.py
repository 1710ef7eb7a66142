"""The cloud as typed calls: authentication, bounds, retries, rate limit, circuit.

With transport.py the only user of httpx2.
"""

import asyncio
import random
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import Any, Self, TypeVar, cast, overload

import httpx2
from pydantic import BaseModel

from relay_client import errors
from relay_client.addresses import checked_base_url, checked_key, target
from relay_client.answers import Answer, NoAnswerError, error_of, error_without_answer, result_of
from relay_client.circuit import Circuit
from relay_client.errors import CloudError, Outcome, worse
from relay_client.operations import WHOAMI, AnyOperation, Operation
from relay_client.ratelimit import BudgetSpentError, RateLimiter
from relay_client.redaction import secrets_in
from relay_client.retry import CallPolicy, pause
from relay_client.transport import SENDING, AiohttpTransport

BodyT = TypeVar("BodyT")
ResultT = TypeVar("ResultT")

# A server that closes an idle connection just as a create is sent on it leaves the create's outcome unknown.
# Servers keep idle connections for 5 s at least; older ones than this are not used again.
_KEEPALIVE_SECONDS = 2.0
# Reading a URL costs as much as sending the request, and the same ones are asked for again and again.
_url = lru_cache(maxsize=1024)(httpx2.URL)


class ConnectionPool:
    """The connections of one process; it may be shared by many `Cloud`s, since it keeps neither keys nor cookies.

    Raises ValueError where `proxy` is not the URL of an HTTP proxy.
    """

    def __init__(
        self,
        *,
        max_connections: int = 100,
        ssl_context: ssl.SSLContext | None = None,
        proxy: str | None = None,
    ) -> None:
        self._transport = AiohttpTransport(
            max_connections=max_connections,
            keepalive_seconds=_KEEPALIVE_SECONDS,
            ssl_context=httpx2.create_ssl_context() if ssl_context is None else ssl_context,
            proxy=proxy,
        )

    async def aclose(self) -> None:
        """Closes all connections."""
        await self._transport.aclose()

    async def exchange(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        content: bytes | None,
        seconds: float,
        policy: CallPolicy,
    ) -> Answer:
        """One request, one answer, within `seconds`; redirects are answers. Raises NoAnswerError."""
        begun = False

        async def trace(event: str, _info: Mapping[str, object]) -> None:
            nonlocal begun
            if event == SENDING:
                begun = True

        response: httpx2.Response | None = None
        try:
            async with asyncio.timeout(seconds):
                request = httpx2.Request(
                    method,
                    _url(url),
                    headers=headers,
                    stream=httpx2.ByteStream(content or b""),
                    extensions={"timeout": policy.phases, "trace": trace},
                )
                response = await self._transport.handle_async_request(request)
                body = await _body(response, policy.max_response_bytes)
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            if response is None:
                raise NoAnswerError(_reason(error, seconds), begun=begun) from None
            return Answer(response.status_code, response.headers, b"", broken=_reason(error, seconds))
        finally:
            if response is not None:
                await response.aclose()
        if body is None:
            return Answer(response.status_code, response.headers, b"", broken=f"over {policy.max_response_bytes} bytes")
        return Answer(response.status_code, response.headers, body)


async def _body(response: httpx2.Response, max_bytes: int) -> bytes | None:
    chunks: list[bytes] = []
    size = 0
    async for chunk in cast("httpx2.AsyncByteStream", response.stream):
        size += len(chunk)
        if size > max_bytes:
            return None
        chunks.append(chunk)
    return b"".join(chunks)


def _reason(error: Exception, seconds: float) -> str:
    if isinstance(error, httpx2.ConnectTimeout):
        return "cannot connect: timed out"
    if isinstance(error, httpx2.PoolTimeout):
        return "no connection is free"
    if isinstance(error, httpx2.ConnectError):
        return f"cannot connect: {error}"
    if isinstance(error, TimeoutError):
        return f"no complete answer within {seconds:g} s"
    return f"{type(error).__name__}: {error}"


@dataclass(frozen=True, slots=True)
class Runtime:
    """Time and chance, as a Cloud sees them; `clock` is monotonic, `wall_clock` Unix time, both in seconds."""

    clock: Callable[[], float] = time.monotonic
    wall_clock: Callable[[], float] = time.time
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    random: Callable[[], float] = random.random


class Cloud:
    """One organization of the cloud, as seen with one API key.

    An async context manager; a key that changes needs a new Cloud. `organization_id` is learned from the key where it
    is not given.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str,
        *,
        organization_id: str | None = None,
        pool: ConnectionPool | None = None,
        limiter: RateLimiter | None = None,
        policy: CallPolicy | None = None,
        runtime: Runtime | None = None,
        user_agent: str = "relay-client",
    ) -> None:
        self._base_url = checked_base_url(base_url)
        self._api_key = checked_key(api_key)
        self._organization_id = organization_id
        self._owns_pool = pool is None
        self._pool = ConnectionPool() if pool is None else pool
        self._limiter = limiter
        self._policy = CallPolicy() if policy is None else policy
        self._runtime = Runtime() if runtime is None else runtime
        self._circuit = Circuit(self._policy.recheck_seconds)
        self._headers = {
            "Authorization": f"Bearer {api_key}",
            "Accept": "application/json",
            "Accept-Encoding": "identity",  # a small body cannot grow past the cap
            "User-Agent": user_agent,
        }
        self._headers_with_body = {**self._headers, "Content-Type": "application/json"}

    def __repr__(self) -> str:
        return f"Cloud({self._base_url!r}, organization_id={self._organization_id!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes the connections, unless they came with a shared pool."""
        if self._owns_pool:
            await self._pool.aclose()

    async def organization_id(self) -> str:
        """The organization of the key. Raises CloudError where it was not given and the cloud cannot be asked."""
        if self._organization_id is None:
            self._organization_id = (await self.call(WHOAMI)).organization_id
        return self._organization_id

    @overload
    async def call(
        self, operation: Operation[None, ResultT], *, query: Mapping[str, str | int] | None = None, **path_params: str
    ) -> ResultT: ...

    @overload
    async def call(
        self,
        operation: Operation[BodyT, ResultT],
        body: BodyT,
        *,
        query: Mapping[str, str | int] | None = None,
        **path_params: str,
    ) -> ResultT: ...

    async def call(
        self,
        operation: Operation[Any, ResultT],
        body: object = None,
        *,
        query: Mapping[str, str | int] | None = None,
        **path_params: str,
    ) -> ResultT:
        """Does one operation; what its path names in braces is given by name, `orgId` is filled in.

        Raises CloudError; its `outcome` says whether anything may have changed. Repeatable operations are retried
        in place, briefly; others are sent at most once.
        """
        if not isinstance(body, operation.body):
            raise TypeError(f"{operation.name} takes a {operation.body.__name__}, not a {type(body).__name__}")
        if "{orgId}" in operation.path and "orgId" not in path_params:
            path_params["orgId"] = await self._organization_for(operation)
        url = self._base_url + target(operation, path_params, query)
        model = cast("BaseModel | None", body)
        content = None if model is None else model.model_dump_json(by_alias=True, exclude_none=True).encode()
        deadline = self._runtime.clock() + self._policy.total_seconds
        worst = Outcome.NOT_SENT
        for attempt in count(1):
            try:
                return await self._attempt(operation, url, content, model, deadline)
            except CloudError as error:
                worst = error.outcome = worse(worst, error.outcome)
                wait = pause(error, attempt, self._policy, self._runtime.random()) if operation.repeatable else None
                if wait is None or self._runtime.clock() + wait >= deadline:
                    raise
            await self._runtime.sleep(wait)
        raise AssertionError("the attempts are counted without end")

    async def _organization_for(self, operation: AnyOperation) -> str:
        try:
            return await self.organization_id()
        except CloudError as error:
            error.message = f"the key's organization is not known: {error.message}"
            error.operation = operation.name
            error.outcome = Outcome.NOT_SENT
            raise

    async def _attempt(
        self,
        operation: Operation[Any, ResultT],
        url: str,
        content: bytes | None,
        body: BaseModel | None,
        deadline: float,
    ) -> ResultT:
        await self._admit(operation, (deadline - self._runtime.clock()) / 2)
        # Giving up on what cannot be repeated leaves an unknown outcome, so waiting for admission takes nothing off it.
        seconds = self._policy.total_seconds
        if operation.repeatable:
            seconds = min(self._policy.attempt_seconds, deadline - self._runtime.clock())
        headers = self._headers if content is None else self._headers_with_body
        try:
            answer = await self._pool.exchange(operation.method, url, headers, content, seconds, self._policy)
        except NoAnswerError as failure:
            raise error_without_answer(operation, failure, self._secrets(body)) from None
        if answer.is_success:
            result = result_of(operation, answer)
            self._circuit.accepted()
            return result
        error = error_of(operation, answer, self._runtime.wall_clock(), self._secrets(body))
        if isinstance(error, errors.Unauthorized):
            self._circuit.refused(self._runtime.clock())
        elif answer.proves_key:
            self._circuit.accepted()
        raise error

    async def _admit(self, operation: AnyOperation, max_wait_seconds: float) -> None:
        self._check_circuit(operation, self._circuit.wait(self._runtime.clock()))
        if self._limiter is not None:
            try:
                await self._limiter.acquire(priority=operation.priority, max_wait_seconds=max_wait_seconds)
            except BudgetSpentError as spent:
                raise errors.RateLimited(
                    operation.name,
                    "not sent: the account's own request rate is used up",
                    retry_after=spent.retry_after,
                    outcome=Outcome.NOT_SENT,
                ) from None
        # The key may have been refused to another call while this one waited.
        self._check_circuit(operation, self._circuit.enter(self._runtime.clock()))

    def _check_circuit(self, operation: AnyOperation, wait: float) -> None:
        if wait > 0:
            raise errors.CircuitOpen(operation.name, "not sent: the cloud refused this API key", retry_after=wait)

    def _secrets(self, body: BaseModel | None) -> list[str]:
        return [self._api_key, *secrets_in(body)]
