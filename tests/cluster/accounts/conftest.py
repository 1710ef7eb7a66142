"""The account reconciler under the chart's rights, pass by pass, with a time that only the test moves."""

from __future__ import annotations

import contextlib
import random
import secrets
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest_asyncio
from prometheus_client import CollectorRegistry

from relay_client import ConnectionPool
from relay_kube.kube import Kube
from relay_operator.accounts.accounts import Accounts
from relay_operator.api.cloudaccount import CLOUD_ACCOUNT, CLUSTER_CLOUD_ACCOUNT, CloudAccount, ClusterCloudAccount
from relay_operator.api.meta import ObjectKey
from relay_operator.budgets.budgets import Budgets
from relay_operator.collector import Collector
from relay_operator.engine.backoff import Backoff, PollIntervals, RetryPolicy
from relay_operator.engine.cache import Cache
from relay_operator.engine.controller import Controller
from relay_operator.engine.engine import Engine
from relay_operator.engine.events import Recorder
from relay_operator.engine.informer import key_of
from relay_operator.engine.passes import KindReconciler
from relay_operator.engine.queue import Priority, Queue, Taken
from relay_operator.engine.vanished import Vanished
from relay_operator.flows.account.act import Actor
from relay_operator.flows.account.bookkeeping import Bookkeeper, Departed
from relay_operator.flows.account.flow import AccountFlow
from relay_operator.flows.account.sweep import Sweeper
from relay_operator.observability.metrics import Metrics
from relay_operator.settings import ListenAddress, Settings
from tests.cluster.operators_client import client_of
from tests.conftest import OPERATOR_NAMESPACE
from tests.support.kube import Kube as Administrator
from tests.support.kube import Manifest
from tests.support.manifests import SECRET, api_key_secret, cloud_account

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.conftest import SharedOperator
    from tests.support.localcloud import LocalCloud, Organization

PUBLIC_URL = "http://127.0.0.1:1"


@dataclass
class Clock:
    """Monotonic seconds that a test moves."""

    now: float = 1_000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Bench:
    """One process's reconciler, a namespace and an organization."""

    admin: Administrator
    cloud: LocalCloud
    organization: Organization
    kube: Kube
    settings: Settings
    pool: ConnectionPool
    clock: Clock = field(default_factory=Clock)
    ahead: timedelta = timedelta()

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """A process that knows nothing: what came before was killed."""
        self.departed = Departed()
        self.cache = Cache(
            on_left=lambda key, entry: self.departed.note(key, entry, self.cache.account_meant(key, entry))
        )
        self.queue = Queue[ObjectKey](self.clock)
        self.metrics = Metrics(CollectorRegistry())
        settings = self.settings
        self.accounts = Accounts(settings, self.kube, self.cache, self.queue, self.pool, frozenset(), self.clock)
        vanished = Vanished(self.kube, OPERATOR_NAMESPACE, self.cache, self.queue, self.wall, frozenset())
        self.engine = Engine(
            kube=self.kube,
            cache=self.cache,
            queue=self.queue,
            recorder=Recorder(self.kube, "test", self.wall),
            vanished=vanished,
            retry_policy=RetryPolicy(Backoff(1.0, 300.0), random.random),
            intervals=PollIntervals(settings.poll_transition_seconds, settings.poll_settled_seconds, 0),
            wall_clock=self.wall,
            on_pass=Collector(self.cache, self.queue, self.metrics, vanished.leftovers, self.clock).on_pass,
            clock=self.clock,
        )
        self.follow(settings)

    def follow(self, settings: Settings) -> None:
        """Passes go by these settings from here on."""
        sweeper = Sweeper(
            self.engine,
            {},
            everywhere=True,
            on_late=self.metrics.on_late_create,
            organization_of=self.accounts.organization_of,
        )
        plurals = {"GpuPod": "gpupods", "GpuCluster": "gpuclusters", "InferenceBatch": "inferencebatches"}
        bookkeeper = Bookkeeper(self.engine, self.departed, OPERATOR_NAMESPACE)
        budgets = Budgets(self.engine.cache, self.engine.queue)
        actor = Actor(self.engine, settings, self.accounts, self.metrics, sweeper, bookkeeper, budgets)
        self.controllers: dict[str, KindReconciler] = {
            CLOUD_ACCOUNT.kind: Controller(self.engine, AccountFlow(CLOUD_ACCOUNT, CloudAccount, plurals, actor)),
            CLUSTER_CLOUD_ACCOUNT.kind: Controller(
                self.engine, AccountFlow(CLUSTER_CLOUD_ACCOUNT, ClusterCloudAccount, plurals, actor)
            ),
        }

    def wall(self) -> datetime:
        """The time of day, which a test may set ahead."""
        return datetime.now(UTC) + self.ahead

    @property
    def key(self) -> ObjectKey:
        return ObjectKey("CloudAccount", self.admin.namespace, "default")

    async def account(self, key: ObjectKey | None = None) -> Manifest | None:
        """The account as the API server has it."""
        key = key or self.key
        return await self.admin.find(key.kind, key.name, key.namespace or None)

    async def watch(self, kind: str, name: str) -> None:
        """What the watch would tell of an object."""
        found = await self.admin.find(kind, name)
        key = ObjectKey(kind, "" if kind == "ClusterCloudAccount" else self.admin.namespace, name)
        if found is None:
            self.cache.drop(key)
        else:
            self.cache.put(key_of(kind, found), found)

    async def run(self, key: ObjectKey | None = None) -> Manifest:
        """The watch tells of the account, and one pass is made; answers the object, {} where it is gone."""
        key = key or self.key
        await self.watch(key.kind, key.name)
        await self.controllers[key.kind].reconcile(Taken(key, Priority.CHANGE, self.clock()))
        return await self.account(key) or {}

    async def later(self, seconds: float) -> Manifest:
        """A pass after some time."""
        self.clock.now += seconds
        return await self.run()

    async def webhooks(self) -> list[Manifest]:
        """The organization's subscriptions."""
        items: list[Manifest] = (await self.organization.call("GET", f"/v1/orgs/{self.organization.id}/webhooks"))[
            "items"
        ]
        return items

    async def put_key(self, api_key: str) -> None:
        """Rotates the key in the Secret."""
        await self.admin.patch("Secret", SECRET, {"stringData": {"api-key": api_key}})


@pytest_asyncio.fixture
async def operator_kube(operator_kubeconfig: Path) -> AsyncIterator[Kube]:
    """The operator's own client, with exactly the chart's rights."""
    async with client_of(operator_kubeconfig) as operators:
        yield operators


@pytest_asyncio.fixture
async def bench(
    kube: Administrator, cloud: LocalCloud, operator_kube: Kube, shared_operator: SharedOperator
) -> AsyncIterator[Bench]:
    """An account in a namespace of its own, not looked at so far, and by no other operator later."""
    await shared_operator.operator.stop()
    kube.namespace = f"accounts-{secrets.token_hex(4)}"
    organization = await cloud.control.create_organization(kube.namespace)
    await kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": kube.namespace}})
    await kube.create(api_key_secret(organization.api_key))
    await kube.create(cloud_account(cloud.management_url, cloud.inference_url))
    settings = Settings(
        namespace=OPERATOR_NAMESPACE,
        allowed_base_urls=cloud.ports.urls(),
        webhook_public_url=PUBLIC_URL,
        webhook_listen=ListenAddress("127.0.0.1", 0),
        poll_jitter=0,
    )
    random.seed(0)
    async with contextlib.aclosing(ConnectionPool()) as pool:
        yield Bench(kube, cloud, organization, operator_kube, settings, pool)
