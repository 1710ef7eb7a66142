"""A defect of the local cloud ends the record that meets it, and not its batch."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any

import pytest

from relay_localcloud.batches import work
from relay_localcloud.batches.records import Record
from relay_localcloud.batches.work import Worker
from relay_localcloud.inference.funds import Funds, Hold
from relay_localcloud.kernel.store import Store
from relay_wire.inference import Family

if TYPE_CHECKING:
    from relay_localcloud.batches.records import Outcome

RECORD = Record("a", "echo", {"model": "echo", "messages": [{"role": "user", "content": "hello"}]})


def failing_with(error: Exception) -> Any:
    def fails(*_: object) -> Any:
        raise error

    return fails


async def outcome(when: str, error: Exception, monkeypatch: pytest.MonkeyPatch) -> Outcome | None:
    """The outcome of a record whose model fails with this error, at once or later."""
    store, family = Store.ephemeral(), Family.CHAT_COMPLETIONS
    worker = Worker(store, failing_with(error))
    monkeypatch.setattr(work, "invoke_now", failing_with(error))
    if when == "now":
        with store.transaction() as tx:
            return worker.now(tx, "org", family, RECORD)
    with Hold(Funds(), store, "org") as hold:
        return await worker.later("org", family, RECORD, hold)


@pytest.mark.parametrize("when", ["now", "later"])
async def test_an_unexpected_error_fails_its_record_and_is_logged(
    when: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failed = await outcome(when, OverflowError("a defect"), monkeypatch)
    assert failed is not None
    assert failed.failure is not None
    assert (failed.succeeded, failed.failure.code, failed.usage.cost_nano_usd) == (False, "internal", 0)
    assert "OverflowError: a defect" in caplog.text


def full_disk() -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorcode = sqlite3.SQLITE_FULL
    return error


@pytest.mark.parametrize("when", ["now", "later"])
@pytest.mark.parametrize("error", [full_disk(), OSError("No space left on device")], ids=["database", "file"])
async def test_an_error_of_the_disk_is_not_one_of_the_record(
    when: str, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Exception, match=r"full|No space"):
        await outcome(when, error, monkeypatch)
