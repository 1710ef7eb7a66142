"""The ground of one plan: a namespace, an organization, and an account that reaches the cloud through the proxy."""

from __future__ import annotations

import json
import re
import secrets
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from tests.faults import oracles
from tests.faults.plans import Word
from tests.faults.scenarios import ACCOUNT, ENV_KEY, ENV_SECRET, SCHEDULE, workload
from tests.support.eventually import eventually
from tests.support.faultrules import Side
from tests.support.manifests import api_key_secret, cloud_account, condition, ready, stalled
from tests.support.workspace import NAMESPACES_END, Workspace

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
    from collections.abc import Set as AbstractSet

    from tests.faults.neighbour import Neighbour
    from tests.faults.oracles import Spent
    from tests.faults.scenarios import Scenario
    from tests.support.kube import Kube, Manifest
    from tests.support.localcloud import LocalCloud, Organization
    from tests.support.s3 import S3Server

_PAID = ("GpuPod", "GpuVm", "GpuCluster", "RunnerPool")
_KINDS = (*_PAID, "InferenceBatch", "CloudAccount")
UNKNOWN = "CreateOutcomeUnknown"


@dataclass(frozen=True)
class Site:
    """The servers and the URLs by which the operator reaches them."""

    cloud: LocalCloud
    urls: Mapping[Side, str]
    made: Mapping[str, str]
    """Names of all paid resources that were created, by cloud id."""
    late: AbstractSet[str]
    """Ids among them that the cloud created after another had been created in their place."""
    start_again: Callable[[Collection[str]], Awaitable[None]]
    """Stops the operators and waits until the restarted ones have called each of these operations."""
    store: S3Server | None = None
    neighbour: Neighbour | None = None


@dataclass(frozen=True)
class Ground:
    """The surroundings of a workload, as its author and the cloud's customer see them."""

    workspace: Workspace
    scenario: Scenario
    site: Site
    organizations: list[Organization] = field(default_factory=list)
    """The organizations of the namespace's accounts."""
    heirs: dict[str, str] = field(default_factory=dict)
    """UIDs of objects restored from a backup, mapped to those of the saved objects."""

    @classmethod
    async def prepare(cls, kube: Kube, site: Site, label: str, scenario: Scenario) -> Self:
        """Creates the namespace, the organization and both Secrets."""
        kube.namespace = f"faults-{label[:40].strip('-')}-{secrets.token_hex(3)}"
        organization = await site.cloud.control.create_organization(kube.namespace)
        await kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": kube.namespace}})
        await kube.create(api_key_secret(organization.api_key))
        await kube.create(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": ENV_SECRET},
                "stringData": {ENV_KEY: oracles.CANARY + secrets.token_hex(12)},
            }
        )
        return cls(Workspace(kube, site.cloud, organization), scenario, site, [organization])

    @property
    def secrets(self) -> int:
        """The number of secrets: the API key, the webhook's secret and the canary."""
        return 3

    @property
    def books(self) -> oracles.Books:
        """What the cloud has and had, at this moment."""
        return oracles.Books(
            self.workspace.cloud, self.organizations, dict(self.site.made), frozenset(self.site.late), self.heirs
        )

    @property
    def kube(self) -> Kube:
        """An administrator's client, in the namespace."""
        return self.workspace.kube

    @property
    def namespace(self) -> str:
        """The name of the namespace."""
        return self.workspace.namespace

    async def apply_account(self) -> None:
        """Applies the account."""
        await self.workspace.apply(cloud_account(self.site.urls[Side.CLOUD], self.site.urls[Side.INFERENCE]))

    async def apply_object(self) -> None:
        """Applies the object, unless the scenario is about the account alone."""
        if self.scenario.kind is not ACCOUNT:
            await self.workspace.apply(workload(self.scenario))

    async def found(self) -> Manifest | None:
        """Returns the object; None if it does not exist."""
        return await self.kube.find(self.scenario.kind.name, self.scenario.object)

    async def spent(self) -> Spent:
        """Returns what the cloud created, billed and keeps."""
        return await self.books.spent([self.scenario.kind.create], await self.told())

    async def account_ready(self) -> bool:
        """Whether every account is Ready, receives webhooks, and reports nothing left to end."""
        accounts = await self.kube.list("CloudAccount")
        # A resource kept for a restored object must be that object's by now.
        over = ("unclaimed", "kept") if self.heirs else ("unclaimed",)
        left = any(one.get("status", {}).get(what) for one in accounts for what in over)
        return not left and all(
            ready(one) and condition(one, "WebhookReady").get("status") == "True" for one in accounts
        )

    async def told(self) -> set[str]:
        """Returns ids that accounts report: as orphans, if objects were forced away; as kept, if people left them."""
        may_stay = [what for what, is_so in (("orphans", self.scenario.forced), ("kept", self.scenario.kept)) if is_so]
        if not may_stay:
            return set()
        statuses = [one.get("status", {}) for one in await self.kube.list("CloudAccount")]
        return {one.get("id", "") for each in statuses for what in may_stay for one in each.get(what) or ()}

    async def settled(self) -> bool:
        """Whether every object matches its spec, has nothing else in the cloud, and the accounts are Ready."""
        items = await self.objects()
        left = any(condition(one, "LateCreate") or one.get("status", {}).get("former") for one in items)
        return not left and all(ready(one) for one in items) and await self.account_ready()

    async def objects(self) -> list[Manifest]:
        """Returns the objects of the scenario's kind."""
        return await self.kube.list(self.scenario.kind.name)

    async def at_rest(self) -> bool:
        """Whether nothing is left to do: all objects are gone, or settled with nothing else alive."""
        if not await self.objects():
            return True
        if not await self.settled():
            return False
        try:
            await self.verify()
        except AssertionError:
            return False
        return True

    @property
    def lives_by_webhooks(self) -> bool:
        """Whether the object may need a webhook that is retried after a crash."""
        return True

    async def verify(self) -> None:
        """Checks what must hold of settled objects; raises AssertionError."""
        items = [item for kind in _PAID for item in await self.kube.list(kind)]
        await self.books.owned(items, await self.told())

    async def verify_the_past(self) -> None:
        """Checks what must hold of everything that was ever created; raises AssertionError."""
        await self.books.never_more(self.scenario.at_once)
        if self.site.neighbour is not None:
            await self.site.neighbour.is_unharmed(await self.kube.list("CloudAccount"))

    async def results(self) -> dict[str, object]:
        """Returns what is left after the object is gone, to compare with the undisturbed run."""
        return {}

    async def asking(self) -> Manifest | None:
        """Returns an object of the kind that is Stalled with CreateOutcomeUnknown; None if none is."""
        return next((one for one in await self.objects() if stalled(one) == UNKNOWN), None)

    async def say(self, word: Word) -> None:
        """Annotates the object that asks with a person's answer; asserts that one asks."""
        item = await self.asking()
        assert item is not None
        intent = json.loads(item["metadata"]["annotations"]["gpurelay.dev/create-intent"])
        billed = [one for each in self.organizations for one in await each.billed()]
        named = [one["resourceId"] for one in billed if one["name"] == intent["name"]]
        if word == "as-found":
            word = Word.ADOPT_ID if named else Word.RETRY_CREATE
        if word == "adopt-id":
            assert len(named) == 1, f"there should be one resource to adopt, not {named}"
            value = named[0]
        else:
            value = intent["token"]
        await self.kube.annotate(item["kind"], item["metadata"]["name"], {f"gpurelay.dev/{word}": value})

    async def statuses(self) -> dict[str, Any]:
        """Returns every object's status, without what may differ between two equally good runs."""
        normalised = oracles.at_rest if self.scenario.steps else oracles.normalised  # a change may fail at first
        statuses = {
            f"{kind}/{item['metadata']['name']}": normalised(item.get("status") or {})
            for kind in _KINDS
            for item in await self.kube.list(kind)
        }
        # The names of a schedule's batches contain their times.
        fired = self.scenario.kind is SCHEDULE
        return {re.sub(r"-\d+$", f"-{at}", name) if fired else name: statuses[name] for at, name in enumerate(statuses)}

    async def exposed(self) -> dict[str, str]:
        """Returns what people without access to Secrets can read."""
        return await oracles.exposed(self.kube, _KINDS)

    async def canaries(self) -> tuple[str, ...]:
        """Returns every secret of the namespace."""
        return await oracles.canaries(self.kube, self.organizations, expected=self.secrets)

    async def leave(self) -> None:
        """Deletes the rest in order and waits until it cannot disturb the next plan."""
        if self.scenario.forced or self.scenario.kept:  # what stays would keep its GPUs
            for cloud_id in tuple(self.site.made):
                await self.books.end(cloud_id)
        await self.kube.delete_all("CloudAccount")
        look = partial(self.kube.list, "CloudAccount")
        await eventually(look, lambda left: not left, what="the accounts are gone", every=0.05)
        if NAMESPACES_END:
            await self.kube.delete("Namespace", self.namespace)

    async def give_up(self, made: Iterable[str]) -> None:
        """Cleans up after a failure, while no operator runs: frees GPUs and lost nodes for other tests."""
        await self.workspace.remove(attended=False)
        if not self.workspace.cloud.process.running:
            return
        control = self.workspace.cloud.control
        await control.clear_faults()
        for node in await control.nodes():
            await control.change_node(node["id"], reporting=True)
        for cloud_id in made:
            await self.books.end(cloud_id)

    async def close(self) -> None:
        """Ends what runs for this ground."""
        if self.site.neighbour is not None:
            await self.site.neighbour.moves_out()
