"""Reconciles the account objects themselves: key, money, subscription, and their end."""

import logging
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from pydantic import ValidationError

from relay_client import CloudError, Unauthorized
from relay_operator.accounts import key_secret
from relay_operator.accounts.accounts import Accounts, AnyAccount, parse_account
from relay_operator.api import meta
from relay_operator.api.cloudaccount import CloudAccount, InUse
from relay_operator.api.conditions import Reason
from relay_operator.api.meta import ObjectKey
from relay_operator.api.references import AccountKind
from relay_operator.engine.account import AccountReady, AccountState, AccountWaiting
from relay_operator.engine.backoff import Backoff, Random, jittered
from relay_operator.engine.cache import Cache
from relay_operator.engine.entry import Entry
from relay_operator.engine.informer import keep_answer
from relay_operator.engine.kube import JsonObject, Kube, KubeError, NotFound, ResourceType
from relay_operator.engine.queue import Priority, Queue, Taken
from relay_operator.flows.account import report
from relay_operator.flows.account.observer import AccountObserver
from relay_operator.flows.account.report import AccountFinding, OrganizationSeen
from relay_operator.observability.logs import log_action, log_context
from relay_operator.observability.metrics import Metrics
from relay_operator.settings import Settings

_TYPES = {
    "CloudAccount": ResourceType("cloudaccounts", meta.GROUP, meta.VERSION),
    "ClusterCloudAccount": ResourceType("clustercloudaccounts", meta.GROUP, meta.VERSION, namespaced=False),
}
_GIVE_UP = timedelta(minutes=5)
"""How long the end of an account waits for a cloud that does not answer; a dead subscription costs nothing."""
_KUBE_BACKOFF = Backoff(initial=0.5, limit=30.0)

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Memory:
    """What this process remembers of one account; times are monotonic."""

    uid: str
    look_at: float = 0.0
    looked: tuple[int, AccountState | None] = (-1, None)
    """Generation and state at the last look: another one is looked at at once."""
    failures: int = 0
    """Attempts in a row that the cloud did not answer."""
    unready: int = 0
    """Passes in a row that found it unusable."""
    kube_failures: int = 0
    deaf: str = ""
    """Why there is no webhook subscription, where creates no longer wait for one."""
    holds: str = ""
    """The Secret that it holds."""


@dataclass(slots=True)
class AccountReconciler:
    """A `KindReconciler` for both kinds of account."""

    settings: Settings
    kube: Kube
    cache: Cache
    queue: Queue[ObjectKey]
    accounts: Accounts
    metrics: Metrics
    clock: Callable[[], float] = time.monotonic
    wall_clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    random: Random = random.random
    _memories: dict[ObjectKey, _Memory] = field(default_factory=dict)

    async def reconcile(self, taken: Taken[ObjectKey]) -> None:
        """One pass; it comes back by itself, at the latest when the Secret is to be read again."""
        key, started, outcome = taken.key, self.clock(), "Error"
        entry = self.cache.get(key)
        if entry is None:
            await self._forget(key)
            return
        memory = self._memory(key, entry)
        with log_context(kind=key.kind, namespace=key.namespace, name=key.name, uid=entry.uid):
            try:
                outcome = await self._pass(key, parse_account(key, entry), memory)
                memory.kube_failures = 0
            except ValidationError as invalid:
                problem = invalid.errors(include_url=False, include_input=False)[0]
                logger.error("the account cannot be read: %s", problem["msg"])  # noqa: TRY400
            except KubeError as error:
                memory.kube_failures += 1
                self.queue.add_after(key, _KUBE_BACKOFF.after(memory.kube_failures, self.random), Priority.RETRY)
                logger.info("the Kubernetes API did not take it: %s", error)
        self.metrics.reconciles.labels(key.kind, outcome).inc()
        self.metrics.reconcile_seconds.labels(key.kind).observe(self.clock() - started)

    async def _pass(self, key: ObjectKey, account: AnyAccount, memory: _Memory) -> str:
        deleting, paused = account.metadata.deletion_timestamp is not None, _paused(account)
        if deleting and meta.FINALIZER not in account.metadata.finalizers:
            return "Ignore"
        if deleting and not paused and self._in_use(key) == InUse():
            return await self._end(key, account)
        if not deleting:
            await self._protect(key, account)
        state = await self.accounts.state(key)
        await self._hold(account, memory)
        state, seen = await self._look(key, account, state, memory)
        finding = AccountFinding(
            state=state,
            who=self.accounts.whoami(key),
            # Counting walks through all objects, so it is done where it is told.
            in_use=self._in_use(key) if deleting or seen is not None else InUse(),
            generation=account.metadata.generation,
            now=self.wall_clock(),
            failures=memory.failures,
            unavailable_after=self.settings.unavailable_after_failures,
            seen=seen,
            deleting=deleting,
            reconcile_at=_heeded(account, seen),
            paused=paused,
            deaf=memory.deaf,
        )
        await self._report(key, account, finding)
        self._come_back(key, state, memory, deleting=deleting)
        return "Keep" if isinstance(state, AccountReady) else str(state.reason)

    async def _look(
        self, key: ObjectKey, account: AnyAccount, state: AccountState, memory: _Memory
    ) -> tuple[AccountState, OrganizationSeen | None]:
        """Asks the cloud where that is due; a cloud that does not answer is a state of its own after a while."""
        if not isinstance(state, AccountReady):
            memory.failures = memory.failures + 1 if state.reason is Reason.CLOUD_UNAVAILABLE else 0
            return state, None
        if not self._look_is_due(account, state, memory):
            return state, None
        observer = self._observer()
        try:
            # Whose end has begun may be in a namespace that ends as well, where no Secret can be written.
            untouched = _paused(account) or account.metadata.deletion_timestamp is not None
            seen = await observer.look(account, state.cloud, read_only=untouched)
        except Unauthorized:
            self.accounts.refused(state)
            return await self.accounts.state(key), None
        except CloudError as error:
            memory.failures += 1
            if isinstance(state, AccountReady) and not self.accounts.listens(key) and not self.accounts.deaf_for(state):
                memory.deaf = f"no subscription could be made so far: {error.message}"
            if memory.failures < self.settings.unavailable_after_failures:
                return state, None
            return AccountWaiting(Reason.CLOUD_UNAVAILABLE, error.message), None
        memory.failures, memory.deaf = 0, ""
        memory.looked = (account.metadata.generation, state)
        interval = jittered(self.settings.poll_settled_seconds, self.settings.poll_jitter, self.random)
        memory.look_at = self.clock() + interval
        if seen.balance is not None:
            burn = seen.usage.burn_per_hour_cents if seen.usage is not None else None
            self.metrics.on_balance(key.namespace, key.name, seen.balance.available_cents, burn)
        return state, seen

    def _observer(self) -> AccountObserver:
        public_url = self.settings.webhook_public_url
        accounts = self.accounts
        return AccountObserver(self.kube, accounts.webhook_secrets, public_url, accounts.listening, accounts.evidence)

    def _look_is_due(self, account: AnyAccount, state: AccountReady, memory: _Memory) -> bool:
        asked = account.metadata.annotations.get(meta.RECONCILE_AT) != account.status.reconcile_at
        changed = memory.looked != (account.metadata.generation, state)
        return asked or changed or self.clock() >= memory.look_at

    async def _protect(self, key: ObjectKey, account: AnyAccount) -> None:
        """Finalizer and annotation, before anything can depend on them.

        The annotation names the Secret that is held, so that it can be let go whatever spec says later.
        """
        metadata = account.metadata
        held, wanted = metadata.annotations.get(meta.API_KEY_SECRET), self._secret_to_hold(account)
        if meta.FINALIZER in metadata.finalizers and held == wanted:
            return
        if held and held != wanted:
            await key_secret.release(self.kube, metadata.namespace, held, metadata.uid)
        change: JsonObject = {"resourceVersion": metadata.resource_version}
        if meta.FINALIZER not in metadata.finalizers:
            change["finalizers"] = [*metadata.finalizers, meta.FINALIZER]
        if held != wanted:
            change["annotations"] = {meta.API_KEY_SECRET: wanted}
        await self._patch(key, {"metadata": change})

    def _secret_to_hold(self, account: AnyAccount) -> str | None:
        """The Secret in the account's own namespace; a shared one is the administrator's to keep.

        None where it could not be let go at the namespace's end.
        """
        name = account.spec.api_key_secret_ref.name
        return name if isinstance(account, CloudAccount) and self.settings.may_hold_secret(name) else None

    async def _hold(self, account: AnyAccount, memory: _Memory) -> None:
        name = self._secret_to_hold(account)
        if name is not None and account.metadata.deletion_timestamp is None:
            memory.holds = name
            await key_secret.hold(self.kube, account.metadata.namespace, name, account.metadata.uid, self.wall_clock())

    async def _end(self, key: ObjectKey, account: AnyAccount) -> str:
        """Nothing depends on it any longer: subscription, Secret and finalizer go, in this order."""
        state = await self.accounts.state(key)
        if not await self._unsubscribed(account, state):
            self.queue.add_after(key, self.settings.poll_transition_seconds, Priority.DELETE)
            return "Wait"
        held = account.metadata.annotations.get(meta.API_KEY_SECRET)
        if held:
            await key_secret.release(self.kube, account.metadata.namespace, held, account.metadata.uid)
        rest = [item for item in account.metadata.finalizers if item != meta.FINALIZER]
        version = account.metadata.resource_version
        await self._patch(key, {"metadata": {"resourceVersion": version, "finalizers": [*rest]}})
        log_action(logger, "nothing depends on it: let go", action="Release", outcome="released")
        return "Release"

    async def _unsubscribed(self, account: AnyAccount, state: AccountState) -> bool:
        """Whether the subscription is gone, or nobody can remove it."""
        since = account.metadata.deletion_timestamp or self.wall_clock()
        if account.status.webhook is None:
            return True
        if not isinstance(state, AccountReady):
            return state.reason is not Reason.CLOUD_UNAVAILABLE or self.wall_clock() - since > _GIVE_UP
        try:
            await self._observer().end(account, state.cloud)
        except CloudError as error:
            logger.warning("the webhook subscription cannot be removed: %s", error)
            return self.wall_clock() - since > _GIVE_UP
        return True

    async def _report(self, key: ObjectKey, account: AnyAccount, finding: AccountFinding) -> None:
        """At most one status write, and only if something changed."""
        patch = report.status_patch(account.status, report.new_status(account.status, finding))
        if not patch:
            return
        await self._patch(key, {"metadata": {"uid": account.metadata.uid}, "status": patch}, "status")
        state = finding.state
        message = "the account can be used" if isinstance(state, AccountReady) else state.message
        outcome = Reason.AVAILABLE if isinstance(state, AccountReady) else state.reason
        log_action(logger, message, action="Report", outcome=outcome)

    async def _patch(self, key: ObjectKey, body: JsonObject, subresource: str | None = None) -> None:
        try:
            raw = await self.kube.patch(_TYPES[key.kind], key.namespace, key.name, body, subresource=subresource)
        except NotFound:
            return  # deleted meanwhile: the watch will tell
        keep_answer(self.cache, self.queue, key, raw)

    def _come_back(self, key: ObjectKey, state: AccountState, memory: _Memory, *, deleting: bool) -> None:
        if deleting:
            self.queue.add_after(key, self.settings.poll_transition_seconds, Priority.DELETE)
            return
        memory.unready = 0 if isinstance(state, AccountReady) else memory.unready + 1
        tries, reread = max(memory.unready, memory.failures), self.settings.secret_reread_seconds
        if tries:
            backoff = Backoff(self.settings.poll_transition_seconds, reread)
            self.queue.add_after(key, backoff.after(tries, self.random), Priority.RETRY)
        else:
            self.queue.add_after(key, jittered(reread, self.settings.poll_jitter, self.random), Priority.POLL)

    def _in_use(self, key: ObjectKey) -> InUse:
        kinds = Counter(
            dependent.kind
            for dependent, entry in self.cache.users(key)
            # A shared account is not held by what only names it: it may not even admit that namespace.
            if key.kind == AccountKind.CLOUD_ACCOUNT or entry.cloud_id or entry.attempted
        )
        return InUse(
            gpu_pods=kinds["GpuPod"],
            gpu_clusters=kinds["GpuCluster"],
            inference_batches=kinds["InferenceBatch"],
        )

    def _memory(self, key: ObjectKey, entry: Entry) -> _Memory:
        memory = self._memories.get(key)
        if memory is None or memory.uid != entry.uid:
            memory = self._memories[key] = _Memory(entry.uid)
        return memory

    async def _forget(self, key: ObjectKey) -> None:
        memory = self._memories.pop(key, None)
        if memory is not None and memory.holds:
            # Somebody took the account's finalizer off by hand: its Secret must not stay behind, undeletable.
            try:
                await key_secret.release(self.kube, key.namespace, memory.holds, memory.uid)
            except KubeError as error:
                logger.warning("the Secret %s of %s may keep a finalizer: %s", memory.holds, key, error)
        self.accounts.forget(key)
        self.metrics.forget_account(key.namespace, key.name)


def _heeded(account: AnyAccount, seen: OrganizationSeen | None) -> str | None:
    """The `reconcile-at` that was acted on: by a look, and by nothing less."""
    return account.status.reconcile_at if seen is None else account.metadata.annotations.get(meta.RECONCILE_AT)


def _paused(account: AnyAccount) -> bool:
    return account.metadata.annotations.get(meta.PAUSED) == "true"
