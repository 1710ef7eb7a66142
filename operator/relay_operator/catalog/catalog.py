"""Reads the cloud's catalog with one account, and keeps the GpuModels up to date."""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, assert_never

from relay_client import CloudError, items_of
from relay_client.operations import (
    GET_GPU_AVAILABILITY,
    GET_PRICING,
    LIST_GPU_MODELS,
    LIST_LOCATIONS,
    LIST_VM_TEMPLATES,
)
from relay_kube.errors import AlreadyExists, KubeError, NotFound, Refused
from relay_kube.kube import JsonObject, Kube
from relay_operator.accounts.accounts import Accounts
from relay_operator.api.conditions import Reason
from relay_operator.api.gpumodel import DEFINITION
from relay_operator.api.meta import API_VERSION
from relay_operator.catalog.changes import Change, Make, Remove, Tell, Trouble, to_make, to_remove, to_tell
from relay_operator.catalog.choice import chosen
from relay_operator.catalog.listing import Listing
from relay_operator.engine.account import AccountReady
from relay_operator.engine.backoff import Backoff, Random, advised
from relay_operator.engine.cache import Cache
from relay_operator.engine.kind import resource_type
from relay_operator.engine.manifests import part
from relay_operator.settings import Settings

logger = logging.getLogger(__name__)

GPU_MODELS: Final = resource_type(DEFINITION)
_PAUSE = 0.1
"""The least number of seconds between two turns, however long one took."""
_NO_ACCOUNT = Trouble(Reason.ACCOUNT_MISSING, "there is no account to read the catalog with")


@dataclass(slots=True)
class Catalog:
    """The catalog of one replica, which writes only while it leads."""

    kube: Kube
    cache: Cache
    accounts: Accounts
    settings: Settings
    leading: Callable[[], bool]
    wall_clock: Callable[[], datetime]
    clock: Callable[[], float] = time.monotonic
    random: Random = random.random
    _objects: dict[str, JsonObject] | None = None
    """The objects as last listed; None before the first list."""
    _failures: int = 0
    _logged: str = ""

    async def run(self) -> None:
        """Run for ever: five requests to the cloud and one list of objects per interval, for any number of models."""
        while True:
            begun = self.clock()
            try:
                wait = await self.turn()
            except Exception:
                # The last resort: a catalog for reading must not stop the reconciling of paid resources.
                logger.exception("reading the catalog failed unexpectedly; it is read again at the next interval")
                wait = self.settings.poll_settled_seconds
            await asyncio.sleep(max(begun + wait - self.clock(), _PAUSE))

    async def turn(self) -> float:
        """Read and write once; returns the seconds from the beginning of this turn until the next."""
        try:
            outcome = await self._read()
            if self.leading():
                await self._keep(outcome)
        except KubeError as error:
            outcome = Trouble(Reason.CLOUD_UNAVAILABLE, f"GpuModels cannot be kept: {error}")
        self._log(outcome)
        if isinstance(outcome, Listing):
            self._failures = 0
            return self.settings.poll_settled_seconds
        if outcome.reason is Reason.ACCOUNT_MISSING:  # a missing account costs no request
            self._failures = 0
            return self.settings.poll_transition_seconds
        self._failures += 1
        backoff = Backoff(self.settings.poll_transition_seconds, self.settings.poll_settled_seconds)
        return max(backoff.after(self._failures, self.random), outcome.retry_after)

    async def _read(self) -> Listing | Trouble:
        key = chosen(self.settings, self.cache)
        if key is None:
            return _NO_ACCOUNT
        account = await self.accounts.state(key)
        if not isinstance(account, AccountReady):
            return Trouble(account.reason, account.message)
        try:
            return await _listing(account)
        except CloudError as error:
            self.accounts.failed(account, error)
            wait = advised(error.retry_after, self.settings.backoff_max_seconds)
            return Trouble(Reason.CLOUD_UNAVAILABLE, error.message, wait)

    async def _keep(self, outcome: Listing | Trouble) -> None:
        """Write what differs. Raises KubeError."""
        if isinstance(outcome, Listing) or self._objects is None:
            self._objects = await self._list()
        objects = self._objects
        if isinstance(outcome, Listing):
            await self._write_all([*to_remove(objects, outcome), *to_make(objects, outcome)], objects)
        elif self._may_pass(outcome):
            return
        await self._write_all(to_tell(objects, outcome, self.wall_clock()), objects)

    def _may_pass(self, trouble: Trouble) -> bool:
        """Whether it is too early to report the trouble."""
        tried = self._failures + 1
        return trouble.reason is Reason.CLOUD_UNAVAILABLE and tried < self.settings.unavailable_after_failures

    async def _list(self) -> dict[str, JsonObject]:
        found = [raw async for page in self.kube.pages(GPU_MODELS) for raw in page]
        return {str(part(raw, "metadata").get("name")): raw for raw in found}

    async def _write_all(self, changes: Sequence[Change], objects: dict[str, JsonObject]) -> None:
        """Write each change; one that is refused or loses a race does not block others, and is retried next turn."""
        for change in changes:
            try:
                await self._write(change, objects)
            except (NotFound, AlreadyExists):
                objects.pop(change.name, None)
            except Refused as error:
                if error.status in {401, 403}:  # the others would be refused too
                    raise
                logger.warning("the GpuModel %s cannot be written: %s", change.name, error)

    async def _write(self, change: Change, objects: dict[str, JsonObject]) -> None:
        match change:
            case Make(name):
                body: JsonObject = {
                    "apiVersion": API_VERSION,
                    "kind": DEFINITION.kind,
                    "metadata": {"name": name},
                    "spec": {},
                }
                objects[name] = await self.kube.create(GPU_MODELS, None, body)
            case Tell(name, patch):
                told: JsonObject = {"status": dict(patch)}
                objects[name] = await self.kube.patch(GPU_MODELS, None, name, told, subresource="status")
            case Remove(name, uid):
                await self.kube.delete(GPU_MODELS, None, name, uid=uid)
                objects.pop(name, None)
            case _:
                assert_never(change)

    def _log(self, outcome: Listing | Trouble) -> None:
        """Log each trouble once, however often it recurs."""
        said = "" if isinstance(outcome, Listing) else str(outcome.reason)
        if isinstance(outcome, Trouble) and outcome is not _NO_ACCOUNT and said != self._logged:
            logger.warning("the catalog cannot be read: %s", outcome.message)
        self._logged = said


async def _listing(account: AccountReady) -> Listing | Trouble:
    """Read the whole catalog. Raises CloudError."""
    cloud = account.cloud
    models = await items_of(cloud, LIST_GPU_MODELS)
    if not models:  # an empty list does not prove that all models are gone
        return Trouble(Reason.CLOUD_UNAVAILABLE, "the cloud lists no GPU model")
    return Listing(
        source=str(account.key),
        models=models,
        availability=await items_of(cloud, GET_GPU_AVAILABILITY),
        pricing=await cloud.call(GET_PRICING, large=True),
        locations=await items_of(cloud, LIST_LOCATIONS),
        templates=await items_of(cloud, LIST_VM_TEMPLATES),
    )
