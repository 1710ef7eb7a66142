"""The runtime in which nothing runs: what it promises, and what falls due of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from sqlalchemy import select

import relay_localcloud.app  # noqa: F401 - every table, as in the running cloud
from relay_localcloud.kernel import tables
from relay_localcloud.kernel.instants import SECOND
from relay_localcloud.kernel.store import Store
from relay_localcloud.runtimes.runtime import Expected, Facts, Wanted
from relay_localcloud.runtimes.simulated import Simulated
from relay_localcloud.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from relay_localcloud.kernel.store import Tx

NOW = 1_000 * SECOND
FACTS = Facts(started="any.start", stopped="any.stop")


@pytest.fixture
def tx() -> Iterator[Tx]:
    store = Store.ephemeral()
    store.settings = Settings(placement_seconds=2, start_seconds=3, stop_seconds=7)
    store.runtime_of = Simulated
    with store.transaction(at=NOW) as tx:
        yield tx
    store.close()


def due_items(tx: Tx) -> list[tuple[str, str, int]]:
    item = tables.due.c
    query = select(item.kind, item.subject, item.due_at).order_by(item.due_at)
    return [(row.kind, row.subject, row.due_at - NOW) for row in tx.connection.execute(query)]


def test_what_is_wanted_comes_true_after_what_settings_say(tx: Tx) -> None:
    assert tx.runtime.want(FACTS, "pod_a", Wanted.STARTED) == Expected(NOW + 2 * SECOND, NOW + 5 * SECOND)
    assert tx.runtime.want(FACTS, "pod_b", Wanted.STOPPED) == Expected(None, NOW + 7 * SECOND)
    assert due_items(tx) == [("any.start", "pod_a", 5 * SECOND), ("any.stop", "pod_b", 7 * SECOND)]


@pytest.mark.parametrize("end", [Wanted.GONE, Wanted.DELETED])
def test_what_is_gone_is_told_nothing(tx: Tx, end: Wanted) -> None:
    for holder in ("pod_a", "pod_b"):
        tx.runtime.want(FACTS, holder, Wanted.STARTED)
        tx.runtime.want(FACTS, holder, Wanted.STOPPED)
    assert tx.runtime.want(FACTS, "pod_a", end) == Expected()
    assert due_items(tx) == [("any.start", "pod_b", 5 * SECOND), ("any.stop", "pod_b", 7 * SECOND)]


@pytest.mark.parametrize("wanted", list(Wanted))
def test_who_is_not_told_something_waits_for_nothing(tx: Tx, wanted: Wanted) -> None:
    assert tx.runtime.want(Facts(), "cluster_a", wanted).due_at is None
    assert due_items(tx) == []


def test_a_container_that_is_recreated_in_place_is_told_nothing(tx: Tx) -> None:
    assert tx.runtime.want(FACTS, "pod_a", Wanted.RESTARTED) == Expected()
    assert due_items(tx) == []


def test_a_script_is_logged_by_the_boot_that_runs_it(tx: Tx) -> None:
    booted = ("boot", "The VM booted.")
    ran = ("cloud-init", "The script of 4 characters ran as root, once for this disk.")
    assert [*tx.runtime.boot_log(None)] == [booted]
    assert [*tx.runtime.boot_log("true")] == [booted, ran]
