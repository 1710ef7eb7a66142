"""What the gateway remembers between requests, and what makes it forget."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from relay_localcloud import app
from relay_localcloud.gateway.directory import Directory
from relay_localcloud.gateway.endpoints import IdTarget, LabelTarget
from relay_localcloud.identity import credentials, organizations
from relay_localcloud.kernel.store import Store
from relay_localcloud.workloads import images, workloads
from relay_wire.pods import PodStatus

if TYPE_CHECKING:
    from collections.abc import Iterator

assert app.HANDLERS  # every table is declared once the application is loaded

LABEL = LabelTarget("pod-1", None)


class Kept:
    """A state with one running pod, its directory, and how many transactions it took."""

    def __init__(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        self.store = store
        self.now = 0
        with store.transaction() as tx:
            self.founded, _ = organizations.seed(tx)
            workloads.WORKLOADS.insert(tx, **self._pod(self.founded.organization_id))
        self.directory = Directory(store, lambda: self.now)
        self.transactions = 0
        begin = store.transaction

        def counted(at: int | None = None) -> Any:
            self.transactions += 1
            return begin(at)

        monkeypatch.setattr(store, "transaction", counted)

    def look(self) -> tuple[bool, str | None, str | None]:
        """What one request asks for: is it public, whose key is it, where does it go."""
        endpoint = self.directory.endpoint(LABEL)
        assert endpoint is not None
        key = self.directory.organization_of_key(self.founded.api_key)
        return endpoint.public, key, self.directory.upstream(endpoint.image)

    def _pod(self, organization_id: str) -> dict[str, object]:
        words = dict.fromkeys(("tier", "capability_tier", "compute_class"), "standard")
        numbers = {"changed_at": 0, "created_at": 0, "gpu_count": 1, "price_per_hour_cents": 1, "http_port": 80}
        named = {"id": "pod_1", "label": "pod-1", "kind": "pod", "name": "one", "organization_id": organization_id}
        state = {"status": PodStatus.RUNNING.value, "public": False, "image": "app:1", "request": "{}"}
        return {**words, **numbers, **named, **state}


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[Kept]:
    store = Store.ephemeral()
    yield Kept(store, monkeypatch)
    store.close()


def test_a_request_like_one_before_reads_nothing(kept: Kept) -> None:
    first = kept.look()
    assert first == (False, kept.founded.organization_id, None)
    kept.directory.endpoint(IdTarget("pod_1", "/_w/pod_1"))
    kept.transactions = 0
    for _ in range(100):
        assert kept.look() == first
    assert kept.directory.endpoint(IdTarget("pod_1", "/_w/pod_1")) == kept.directory.endpoint(LABEL)
    assert kept.transactions == 0


def test_what_other_workloads_do_makes_nothing_forgotten(kept: Kept) -> None:
    kept.look()
    with kept.store.transaction() as tx:
        credentials.create_key(tx, kept.founded.organization_id, "another", ["inference"])
        workloads.WORKLOADS.change(tx, "pod_2", public=True)
    kept.transactions = 0
    kept.look()
    assert kept.transactions == 0


def test_what_changes_is_read_again(kept: Kept) -> None:
    kept.look()
    with kept.store.transaction() as tx:
        workloads.WORKLOADS.change(tx, "pod_1", public=True)
        images.put(tx, "app:1", "http://127.0.0.1:9")
    assert kept.look() == (True, kept.founded.organization_id, "http://127.0.0.1:9")
    with kept.store.transaction() as tx:
        images.put(tx, "app:1", "http://127.0.0.1:10")
    assert kept.look()[2] == "http://127.0.0.1:10"
    with kept.store.transaction() as tx:
        images.remove(tx, "app:1")
    assert kept.look()[2] is None


def test_a_change_that_is_rolled_back_changes_nothing(kept: Kept) -> None:
    kept.look()

    def change_and_fail() -> None:
        with kept.store.transaction() as tx:
            workloads.WORKLOADS.change(tx, "pod_1", public=True)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        change_and_fail()
    assert kept.look()[0] is False


def test_a_terminated_workload_has_no_endpoint(kept: Kept) -> None:
    kept.look()
    with kept.store.transaction() as tx:
        workloads.WORKLOADS.change(tx, "pod_1", terminated_at=1)
    assert kept.directory.endpoint(LABEL) is None


def test_passages_are_looked_at_again_where_a_key_of_their_organization_changes(kept: Kept) -> None:
    told: list[str | None] = []
    kept.directory.on_key_change = told.append
    kept.look()
    with kept.store.transaction() as tx:
        made, _ = credentials.create_key(tx, kept.founded.organization_id, "another", ["inference"])
        credentials.KEYS.change(tx, made.id, revoked_at=1)
    assert told == [], "it has let nobody in"
    with kept.store.transaction() as tx:
        credentials.KEYS.change_all(tx, {"revoked_at": 1}, organization_id=kept.founded.organization_id)
    assert told == [kept.founded.organization_id]
