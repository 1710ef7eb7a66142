"""The cloud as typed calls: authentication, bounds, retries, rate limit, circuits."""

import asyncio
import contextlib
import copy
import random
import time
from collections.abc import AsyncIterable, Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Final, Self, TypeVar, cast, overload

from pydantic import BaseModel

from relay_client import errors
from relay_client.addresses import checked_base_url, checked_key, target
from relay_client.answers import Answer, NoAnswerError, about, error_of, error_without_answer, result_of
from relay_client.circuit import Circuit, Outages
from relay_client.downloads import Download
from relay_client.errors import CloudError, Outcome, worse
from relay_client.list_room import ListRoom
from relay_client.operations import DOWNLOAD_FILE, UPLOAD_FILE, WHOAMI, AnyOperation, Api, Operation
from relay_client.pool import ConnectionPool, OpenAnswer, Request, always
from relay_client.ranges import NO_SUCH_RANGE, Part, asked_for, part_of
from relay_client.ratelimit import BudgetSpentError, RateLimiter
from relay_client.redaction import secrets_in
from relay_client.retry import MAX_BYTES, CallPolicy, pause
from relay_client.uploads import AnsweredTooSoonError, FileForm, Outlet, send
from relay_wire.files import FileObject

BodyT = TypeVar("BodyT")
ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class Runtime:
    """Time and randomness for a Cloud; `clock` is monotonic, `wall_clock` is Unix time, both in seconds."""

    clock: Callable[[], float] = time.monotonic
    wall_clock: Callable[[], float] = time.time
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    random: Callable[[], float] = random.random


@dataclass(slots=True)
class _Noted:
    """Records for later calls whether the cloud answers the operation."""

    outages: Outages
    operation: AnyOperation
    clock: Callable[[], float]

    def __enter__(self) -> None:
        """Nothing is known yet."""

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        name = self.operation.name
        match error:
            case CloudError() if error.operation != name or isinstance(error, errors.Withheld):
                # The error of another call came from the source of an upload: it says nothing about uploads.
                self.outages.given_up(name, self.clock())
            case errors.CloudUnavailable() | errors.Truncated():
                # The cloud's own words may be about one resource, which may be another tenant's.
                told = error.message if error.status is None else f"the cloud answers {name} with {error.status}"
                self.outages.failed(name, self.clock(), told)
            case CloudError() | None:
                self.outages.answered(name)


class Cloud:
    """One organization of the cloud, used with one API key.

    An async context manager; another key needs another Cloud. Without `organization_id`, the cloud is asked for the
    key's organization; without `inference_url` there are no files and batches.
    """

    def __init__(  # noqa: PLR0913 - all but two have defaults and are keyword-only
        self,
        base_url: str,
        api_key: str,
        *,
        inference_url: str | None = None,
        organization_id: str | None = None,
        pool: ConnectionPool | None = None,
        limiter: RateLimiter | None = None,
        policy: CallPolicy | None = None,
        runtime: Runtime | None = None,
        lists: ListRoom | None = None,
        user_agent: str = "relay-client",
    ) -> None:
        self._urls = {Api.MANAGEMENT: checked_base_url(base_url)}
        if inference_url is not None:
            self._urls[Api.INFERENCE] = checked_base_url(inference_url, "inference")
        self._api_key = checked_key(api_key)
        self._organization_id = organization_id
        self._owns_pool = pool is None
        self._pool = ConnectionPool() if pool is None else pool
        self._limiter = limiter
        self._policy = CallPolicy() if policy is None else policy
        most = min(MAX_BYTES, self._policy.max_response_bytes)
        self._policy_of_small = replace(self._policy, max_response_bytes=most)
        self._may_begin: Callable[[], bool] = always
        self._runtime = Runtime() if runtime is None else runtime
        # One for each URL: a wrong inference_url is another server, which may refuse a valid key.
        self._circuits = {api: Circuit(self._policy.recheck_seconds) for api in Api}
        self.lists: Final = ListRoom() if lists is None else lists
        """Where its lists have room, and those of guarded Clouds."""
        self._outages = {api: Outages(self._policy.outage_failures, self._policy.outage_seconds) for api in Api}
        self._headers = {
            "Authorization": f"Bearer {api_key}",
            "Accept": "application/json",
            "Accept-Encoding": "identity",  # a small body cannot expand beyond the limit
            "User-Agent": user_agent,
        }
        self._headers_with_body = {**self._headers, "Content-Type": "application/json"}

    def __repr__(self) -> str:
        return f"Cloud({self._urls[Api.MANAGEMENT]!r}, organization_id={self._organization_id!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections, unless they belong to a shared pool."""
        if self._owns_pool:
            await self._pool.aclose()

    def guarded(self, may_begin: Callable[[], bool]) -> Self:
        """A Cloud that asks `may_begin` right before the first byte of every request except a GET.

        If it returns False, the call raises CloudUnavailable with the outcome NOT_SENT.
        """
        guarded = copy.copy(self)
        guarded._may_begin = may_begin  # noqa: SLF001 - of this class
        guarded._owns_pool = False  # noqa: SLF001
        return guarded

    @property
    def base_url(self) -> str:
        """The management API, without a trailing slash."""
        return self._urls[Api.MANAGEMENT]

    @property
    def silent_since(self) -> float | None:
        """Since when, by its clock, the management API has answered no request; None if it answered the last one."""
        return self._outages[Api.MANAGEMENT].silent_since

    async def organization_id(self) -> str:
        """The organization of the key. Raises CloudError if it was not given and the cloud does not tell."""
        if self._organization_id is None:
            self._organization_id = (await self.call(WHOAMI)).organization_id
        return self._organization_id

    @overload
    async def call(
        self,
        operation: Operation[None, ResultT],
        *,
        query: Mapping[str, str | int] | None = None,
        large: bool = False,
        **path_params: str,
    ) -> ResultT: ...

    @overload
    async def call(
        self,
        operation: Operation[BodyT, ResultT],
        body: BodyT,
        *,
        query: Mapping[str, str | int] | None = None,
        large: bool = False,
        **path_params: str,
    ) -> ResultT: ...

    async def call(
        self,
        operation: Operation[Any, ResultT],
        body: object = None,
        *,
        query: Mapping[str, str | int] | None = None,
        large: bool = False,
        **path_params: str,
    ) -> ResultT:
        """Perform one operation; path parameters are keyword arguments, and `orgId` is filled in.

        Raises CloudError; its `outcome` says whether anything may have changed. Repeatable operations are retried
        in place, briefly; others are sent at most once. An answer may take tens of megabytes only if it is a text, or
        `large` is True: whoever sets it takes turns, drops the answer before anything else is awaited, or is one of
        few.
        """
        if not isinstance(body, operation.body):
            raise TypeError(f"{operation.name} takes a {operation.body.__name__}, not a {type(body).__name__}")
        if "{orgId}" in operation.path and "orgId" not in path_params:
            path_params["orgId"] = await self._organization_for(operation)
        if operation.streamed:
            raise TypeError(f"{operation.name} is done by Cloud.{operation.name.removesuffix('_file')}")
        url = self._url(operation, path_params, query)
        model = cast("BaseModel | None", body)
        content = None if model is None else model.model_dump_json(by_alias=True, exclude_none=True).encode()
        deadline = self._runtime.clock() + self._policy.total_seconds
        worst = Outcome.NOT_SENT
        for attempt in count(1):
            try:
                # Not in a variable, which an error of `about` would keep.
                return about(
                    operation,
                    path_params.get("id"),
                    await self._attempt(operation, url, content, model, deadline, large=large),
                )
            except CloudError as error:
                worst = error.outcome = worse(worst, error.outcome)
                repeatable, random = operation.repeatable, self._runtime.random
                wait = pause(error, operation.api, attempt, self._policy, random()) if repeatable else None
                if wait is None or self._runtime.clock() + wait >= deadline:
                    error.__context__ = None  # whoever keeps the error keeps no answer
                    raise error.with_traceback(None)  # noqa: B904 - it is the error itself
            await self._runtime.sleep(wait)
        raise AssertionError("the attempts are counted without end")

    async def upload(self, filename: str, chunks: AsyncIterable[bytes]) -> FileObject:
        """Store a file for batches while reading `chunks` once, with only a few of them in memory.

        The file is sent once. Raises CloudError, with a create's `outcome`; whatever `chunks` raises, and SourceStalled
        if they do not come: then nothing is stored. ValueError: the filename is empty.
        """
        url, form = self._url(UPLOAD_FILE, {}), FileForm(filename)
        await self._admit(UPLOAD_FILE, self._policy.total_seconds / 2)
        headers = {**self._headers, "Content-Type": form.content_type}

        async def opened(body: Outlet) -> OpenAnswer:
            request = Request(UPLOAD_FILE.method, url, self._policy_of_small, headers, body, None, self._may_begin)
            return await self._pool.open(request)

        with _Noted(self._outages[UPLOAD_FILE.api], UPLOAD_FILE, self._runtime.clock):
            try:
                async with contextlib.aclosing(form.around(chunks)) as pieces:
                    answer = await send(opened, pieces, self._policy)
            except NoAnswerError as failure:
                raise error_without_answer(UPLOAD_FILE, failure, self._secrets(None)) from None
            except AnsweredTooSoonError as early:
                text = "cannot read the answer: it came before the whole file was sent"
                raise errors.Unreadable(UPLOAD_FILE.name, text, status=early.answer.status) from None
            return self._settled(UPLOAD_FILE, answer, None)

    def download(self, file_id: str, *, offset: int = 0) -> Download:
        """The bytes of a file from `offset` on: `async with cloud.download(id) as pieces: async for piece in pieces`.

        Continues after broken connections; raises CloudError rather than end early. Opening raises what the first
        request raises.
        """
        url = self._url(DOWNLOAD_FILE, {"id": file_id})

        async def opened(position: int, etag: str | None) -> tuple[OpenAnswer, Part]:
            await self._admit(DOWNLOAD_FILE, self._policy.total_seconds / 2)
            with _Noted(self._outages[DOWNLOAD_FILE.api], DOWNLOAD_FILE, self._runtime.clock):
                return await self._content(url, position, etag)

        return Download(opened, self._runtime.sleep, self._runtime.random, self._policy, offset)

    async def _content(self, url: str, position: int, etag: str | None) -> tuple[OpenAnswer, Part]:
        headers = {**self._headers, "Accept": "*/*", **asked_for(position, etag)}
        seconds = self._policy.attempt_seconds
        request = Request(DOWNLOAD_FILE.method, url, self._policy_of_small, headers, seconds=seconds)
        try:
            answer = await self._pool.open(request)
        except NoAnswerError as failure:
            raise error_without_answer(DOWNLOAD_FILE, failure, self._secrets(None)) from None
        if not answer.is_success and answer.status != NO_SUCH_RANGE:
            raise self._error(DOWNLOAD_FILE, await answer.whole(seconds), None)
        try:
            part = part_of(answer.status, answer.headers, position)
        except CloudError:
            await answer.aclose()
            raise
        self._circuits[DOWNLOAD_FILE.api].accepted()
        return answer, part

    def _url(
        self, operation: AnyOperation, path_params: Mapping[str, str], query: Mapping[str, str | int] | None = None
    ) -> str:
        base = self._urls.get(operation.api)
        if base is None:
            text = "not sent: it belongs to the inference API, and the Cloud was made without inference_url"
            raise errors.NoInferenceUrl(operation.name, text)
        return base + target(operation, path_params, query)

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
        *,
        large: bool,
    ) -> ResultT:
        await self._admit(operation, (deadline - self._runtime.clock()) / 2)
        # Giving up an unrepeatable call leaves its outcome unknown, so waiting for admission does not shorten its time.
        seconds = self._policy.total_seconds
        if operation.repeatable:
            seconds = min(self._policy.attempt_seconds, deadline - self._runtime.clock())
        headers = self._headers if content is None else self._headers_with_body
        policy = self._policy if large or operation.result is str else self._policy_of_small
        request = Request(operation.method, url, policy, headers, content, seconds, self._may_begin)
        with _Noted(self._outages[operation.api], operation, self._runtime.clock):
            try:
                answer = await self._pool.exchange(request)
            except NoAnswerError as failure:
                raise error_without_answer(operation, failure, self._secrets(body)) from None
            return self._settled(operation, answer, body, large=large)

    def _settled(
        self, operation: Operation[Any, ResultT], answer: Answer, body: BaseModel | None, *, large: bool = False
    ) -> ResultT:
        if not answer.is_success:
            raise self._error(operation, answer, body)
        try:
            result = result_of(operation, answer, large=large)
        except errors.Oversized:
            self._circuits[operation.api].accepted()
            raise
        self._circuits[operation.api].accepted()
        return result

    def _error(self, operation: AnyOperation, answer: Answer, body: BaseModel | None) -> CloudError:
        error = error_of(operation, answer, self._runtime.wall_clock(), self._secrets(body))
        if isinstance(error, errors.Unauthorized):
            self._circuits[operation.api].refused(self._runtime.clock())
        elif answer.proves_key:
            self._circuits[operation.api].accepted()
        return error

    async def _admit(self, operation: AnyOperation, max_wait_seconds: float) -> None:
        circuit = self._circuits[operation.api]
        self._check_circuit(operation, circuit.wait(self._runtime.clock()))
        self._check_outage(operation)
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
        # While this call waited, the cloud may have refused the key to another call, or stopped answering.
        self._check_outage(operation)
        self._check_circuit(operation, circuit.enter(self._runtime.clock()))
        lasts = self._policy.attempt_seconds if operation.repeatable else self._policy.total_seconds
        self._outages[operation.api].enter(operation.name, self._runtime.clock(), lasts)

    def _check_circuit(self, operation: AnyOperation, wait: float) -> None:
        if wait > 0:
            raise errors.CircuitOpen(operation.name, "not sent: the cloud refused this API key", retry_after=wait)

    def _check_outage(self, operation: AnyOperation) -> None:
        outages = self._outages[operation.api]
        wait = 0.0 if operation.priority else outages.wait(operation.name, self._runtime.clock())
        if wait > 0:
            raise errors.HeldBack(operation.name, outages.reason(operation.name), retry_after=wait)

    def _secrets(self, body: BaseModel | None) -> list[str]:
        return [self._api_key, *secrets_in(body)]
