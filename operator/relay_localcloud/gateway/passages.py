"""Admits requests to workloads (section 5, "Workload endpoints"), and ends those that may not go on."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from aiohttp import web

from relay_localcloud.gateway.directory import Directory
from relay_localcloud.gateway.endpoints import Endpoint, IdTarget, Target
from relay_localcloud.http.errors import ApiError
from relay_localcloud.identity.credentials import KEY_PREFIX, LEGACY_KEY_PREFIX, SESSION_PREFIX
from relay_localcloud.runtimes.runtime import Way

_API_KEY: Final = frozenset({"x-api-key"})
_ANY_KEY: Final = frozenset({"x-api-key", "authorization"})


def admit(endpoint: Endpoint, headers: Mapping[str, str], directory: Directory) -> frozenset[str]:
    """Admit a request; returns the headers to withhold from the workload.

    ApiError 401 without a valid key, 403 with one of another organization, 503 if the workload does not serve.
    """
    consumed = _check_right(endpoint, headers, directory)
    if endpoint.unready is not None:
        raise ApiError(
            503,
            f"The {endpoint.noun} {endpoint.workload_id} {endpoint.unready}: its endpoint answers while it runs.",
            "workload_not_running",
        )
    return consumed


def is_known(endpoint: Endpoint, headers: Mapping[str, str], directory: Directory) -> bool:
    """Whether a request to a private endpoint has a cached key that admits it."""
    key, _ = _credential(endpoint, headers)
    return _is_deploy_token(endpoint, key) or directory.remembers(key, endpoint.organization_id)


def _is_deploy_token(endpoint: Endpoint, key: str) -> bool:
    token = endpoint.deploy_token
    return token is not None and key.isascii() and secrets.compare_digest(token, key)


def _check_right(endpoint: Endpoint, headers: Mapping[str, str], directory: Directory) -> frozenset[str]:
    if endpoint.public:
        return frozenset()
    key, consumed = _credential(endpoint, headers)
    if not key:
        raise ApiError(
            401,
            f"The endpoint of this {endpoint.noun} is private: send an API key of its organization in a header, "
            "Authorization: Bearer <API key> or x-api-key: <API key>.",
        )
    if _is_deploy_token(endpoint, key):
        return consumed
    organization_id = directory.organization_of_key(key)
    if organization_id is None:
        raise ApiError(401, "This is not a valid API key: it is unknown, revoked or expired.")
    if organization_id != endpoint.organization_id:
        raise ApiError(403, f"This {endpoint.noun} belongs to another organization than the API key.")
    return consumed


def _credential(endpoint: Endpoint, headers: Mapping[str, str]) -> tuple[str, frozenset[str]]:
    """The key of a request, a bearer token rather than `x-api-key` if both may be keys, and the headers that carry it.

    Any other Authorization beside `x-api-key` belongs to the application.
    """
    key = headers.get("x-api-key", "").strip()
    scheme, _, token = headers.get("authorization", "").partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or (key and token and not _may_be_ours(endpoint, token)):
        return key, _API_KEY
    return token or key, _ANY_KEY


def _may_be_ours(endpoint: Endpoint, token: str) -> bool:
    """Whether it has the form of a credential of this cloud, which no workload may see."""
    return token.startswith((KEY_PREFIX, LEGACY_KEY_PREFIX, SESSION_PREFIX)) or _is_deploy_token(endpoint, token)


class Passage:
    """An admitted request, for as long as it and its answer, or its WebSocket, last."""

    def __init__(
        self, request: web.BaseRequest, target: Target, organization_id: str, turn: Callable[[], Awaitable[None]]
    ) -> None:
        self.request = request
        self.target = target
        self.organization_id = organization_id
        """The organization of its workload, which a transfer changes."""
        self.turn = turn
        """Awaited for each piece and message in both directions, so that a busy client does not delay others."""
        self.way: Way | None = None
        """Where the request goes; None for the echo, and before that is known."""
        self.end: Callable[[], Awaitable[None]] = self.abort
        """Ends the passage; a WebSocket replaces this."""

    @property
    def prefix(self) -> str:
        """The path prefix of a workload that the path names; empty for one with its own host."""
        return self.target.prefix if isinstance(self.target, IdTarget) else ""

    async def abort(self) -> None:
        """Break the connection, so that the client does not mistake a partial answer for the whole one."""
        if self.request.transport is not None:
            self.request.transport.abort()


class Passages:
    """All passages. Each ends at once when its workload stops serving, its container is gone or its key is revoked."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._by_workload: dict[str, set[Passage]] = {}
        self._ending: set[asyncio.Future[None]] = set()
        directory.on_change = self._look_again
        directory.on_key_change = self._look_again_at_those_of

    @contextmanager
    def through(self, workload_id: str, passage: Passage) -> Iterator[None]:
        """Register a passage while this lasts."""
        beside = self._by_workload.setdefault(workload_id, set())
        beside.add(passage)
        try:
            yield
        finally:
            beside.discard(passage)
            if not beside and self._by_workload.get(workload_id) is beside:
                del self._by_workload[workload_id]

    def _look_again(self, workload_id: str) -> None:
        if workload_id in self._by_workload:
            # This runs inside a transaction, whose changes can be read, and are final, only after it.
            asyncio.get_running_loop().call_soon(self._end_refused, workload_id)

    def _look_again_at_those_of(self, organization_id: str | None) -> None:
        for workload_id, (passage, *_) in self._by_workload.items():
            if organization_id in (None, passage.organization_id):
                self._look_again(workload_id)

    def _end_refused(self, workload_id: str) -> None:
        for passage in tuple(self._by_workload.get(workload_id, ())):
            endpoint = self._directory.endpoint(passage.target)
            if endpoint is not None:
                passage.organization_id = endpoint.organization_id
            if not self._may_pass(passage, endpoint):
                ending = asyncio.ensure_future(passage.end())
                self._ending.add(ending)
                ending.add_done_callback(self._ending.discard)

    def _may_pass(self, passage: Passage, endpoint: Endpoint | None) -> bool:
        if endpoint is None or not endpoint.serves:
            return False
        try:
            _check_right(endpoint, passage.request.headers, self._directory)
            # An address may belong to another workload once its container is gone.
            self._directory.way(endpoint, None if passage.way is None else passage.way.uid)
        except ApiError:
            return False
        return True
