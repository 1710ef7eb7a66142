"""What a batch does with one record: refuses it, asks the model, or alternates between the model and the tools."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from importlib import import_module
from typing import Final

from pydantic import JsonValue

from relay_localcloud.batches.records import Outcome, Record, RecordFailure, failure_of, sent_to_model
from relay_localcloud.batches.tool_config import Tools, tools_of
from relay_localcloud.http.bodies import refuse_unstorable
from relay_localcloud.http.errors import ApiError
from relay_localcloud.inference.catalog import find_model
from relay_localcloud.inference.errors import MODEL_NOT_FOUND, InferenceError, of_api_error
from relay_localcloud.inference.funds import Hold
from relay_localcloud.inference.invoke import Answer, Reserve, invoke_now
from relay_localcloud.kernel import disk
from relay_localcloud.kernel.store import Store, Tx
from relay_wire.inference import Family

_log: Final = logging.getLogger(__name__)

Ask = Callable[[str, Family, JsonValue, Reserve], Awaitable[Answer]]
"""Asks any model for an organization; raises InferenceError."""


class Worker:
    """Does records; the runner charges and writes them."""

    def __init__(self, store: Store, ask: Ask) -> None:
        self._store = store
        self._ask = ask

    def serves(self, organization_id: str, endpoint: Family, model: str) -> bool:
        """Whether this organization has such a model, in any family."""
        try:
            with self._store.transaction(at=0) as tx:
                find_model(tx, organization_id, model, endpoint)
        except InferenceError as error:
            return error.code != MODEL_NOT_FOUND[2]
        return True

    def now(self, tx: Tx, organization_id: str, endpoint: Family, record: Record) -> Outcome | None:
        """Do a record at once; None if it takes real time. Raises only errors of the disk."""
        try:
            return self._now(tx, organization_id, endpoint, record)
        except Exception as error:  # noqa: BLE001 - a defect ends a record, not its batch
            return _failed_here(error)

    async def later(self, organization_id: str, endpoint: Family, record: Record, hold: Hold) -> Outcome:
        """Do a record that takes real time; `hold` keeps its cost reserved until it is charged.

        Raises only errors of the disk.
        """
        try:
            return await self._later(organization_id, endpoint, record, hold)
        except Exception as error:  # noqa: BLE001 - as above
            return _failed_here(error)

    def _now(self, tx: Tx, organization_id: str, endpoint: Family, record: Record) -> Outcome | None:
        failure = failure_of(record)
        if failure is not None:
            return Outcome.failed(failure)
        try:
            refuse_unstorable(dict(record.body), "")
        except ApiError as error:
            return Outcome.refused(of_api_error(error), endpoint)
        tools = self._tools(record, endpoint)
        if isinstance(tools, RecordFailure):
            return Outcome.failed(tools)
        if tools is not None:
            return None
        try:
            answer = invoke_now(tx, organization_id, endpoint, sent_to_model(record.body))
        except InferenceError as error:
            return Outcome.refused(error, endpoint)
        return None if answer is None else Outcome.answered(answer)

    async def _later(self, organization_id: str, endpoint: Family, record: Record, hold: Hold) -> Outcome:
        tools = self._tools(record, endpoint)
        if isinstance(tools, RecordFailure):
            return Outcome.failed(tools)
        if tools is not None:
            # aiohttp takes a fifth of the start time to load, and most batches do not need it.
            rounds = await asyncio.to_thread(import_module, "relay_localcloud.batches.tool_rounds")
            outcome: Outcome = await rounds.take_turns(
                partial(self._asked, organization_id, endpoint, hold), tools, record
            )
            return outcome
        try:
            return Outcome.answered(await self._asked(organization_id, endpoint, hold, sent_to_model(record.body)))
        except InferenceError as error:
            return Outcome.refused(error, endpoint)

    async def _asked(self, organization_id: str, endpoint: Family, hold: Hold, body: JsonValue) -> Answer:
        answer = await self._ask(organization_id, endpoint, body, lambda most: hold.reserve(most.halved))
        hold.took(answer.usage.halved)
        return answer

    def _tools(self, record: Record, endpoint: Family) -> Tools | RecordFailure | None:
        return tools_of(record.body, endpoint, allow_loopback=self._store.settings.allow_loopback_executors)


def _failed_here(error: Exception) -> Outcome:
    """The outcome of a record at which the local cloud itself failed; raises the error if it is the disk's."""
    if isinstance(error, OSError) or disk.failure(error) is not None:
        raise error
    _log.error("A record of a batch failed inside the local cloud", exc_info=error)
    return Outcome.failed(
        RecordFailure("internal", "The local cloud failed at this record; its log on stderr has the traceback.")
    )
