"""Where one plan is played: a namespace, an organization, an account that reaches the cloud through the proxy."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.faults import oracles
from tests.faults.scenarios import ENV_KEY, ENV_SECRET
from tests.support.eventually import eventually
from tests.support.manifests import api_key_secret, cloud_account, condition, ready, stalled
from tests.support.workspace import Workspace

if TYPE_CHECKING:
    from tests.faults.oracles import Spent
    from tests.faults.plans import Word
    from tests.faults.scenarios import Scenario
    from tests.support.kube import Kube, Manifest
    from tests.support.localcloud import LocalCloud

_KINDS = ("GpuPod", "GpuCluster", "CloudAccount")
UNKNOWN = "CreateOutcomeUnknown"


@dataclass(frozen=True)
class Ground:
    """One object's surroundings, as its author and the cloud's customer see them."""

    workspace: Workspace
    scenario: Scenario
    cloud_url: str

    @classmethod
    async def prepare(cls, kube: Kube, cloud: LocalCloud, cloud_url: str, label: str, scenario: Scenario) -> Ground:
        """Makes namespace, organization and both Secrets; `cloud_url` is what the account will name."""
        kube.namespace = f"faults-{label[:40].strip('-')}-{secrets.token_hex(3)}"
        organization = await cloud.control.create_organization(kube.namespace)
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
        return cls(Workspace(kube, cloud, organization), scenario, cloud_url)

    @property
    def kube(self) -> Kube:
        """The API server as its administrator, in the namespace."""
        return self.workspace.kube

    @property
    def namespace(self) -> str:
        """Its name."""
        return self.workspace.namespace

    async def apply_account(self) -> None:
        """Applies the account."""
        await self.workspace.apply(cloud_account(self.cloud_url, self.workspace.cloud.inference_url))

    async def apply_object(self) -> None:
        """Applies the object."""
        await self.workspace.apply(self.scenario.manifest())

    async def found(self) -> Manifest | None:
        """The object as it is."""
        return await self.kube.find(self.scenario.kind.name, self.scenario.object)

    async def spent(self) -> Spent:
        """What the cloud did."""
        workspace = self.workspace
        return await oracles.spent(workspace.cloud, workspace.organization, [self.scenario.kind.create])

    async def account_ready(self) -> bool:
        """Whether the account is Ready and hears of events."""
        account = await self.kube.find("CloudAccount", "default")
        return ready(account) and condition(account, "WebhookReady").get("status") == "True"

    async def settled(self) -> bool:
        """Whether the object is Ready, and its account too."""
        return ready(await self.found()) and await self.account_ready()

    async def asks_a_person(self) -> bool:
        """Whether the object is Stalled since nobody can tell what became of its create."""
        return stalled(await self.found()) == UNKNOWN

    async def say(self, word: Word) -> None:
        """Annotates the object with what a person found out."""
        item = await self.found()
        assert item is not None
        if word == "adopt-id":
            paid_for = (await self.spent()).paid_for
            assert len(paid_for) == 1, f"there should be one resource to adopt, not {paid_for}"
            value = paid_for[0]
        else:
            value = json.loads(item["metadata"]["annotations"]["gpurelay.dev/create-intent"])["token"]
        kind = self.scenario.kind.name
        await self.kube.annotate(kind, self.scenario.object, {f"gpurelay.dev/{word}": value})

    async def statuses(self) -> dict[str, Any]:
        """Every object's status, without what differs between two runs that went equally well."""
        return {
            f"{kind}/{item['metadata']['name']}": oracles.normalised(item.get("status") or {})
            for kind in _KINDS
            for item in await self.kube.list(kind)
        }

    async def alive_and_owned(self) -> tuple[tuple[str, ...], str]:
        """What lives in the cloud, and what the object says is its own."""
        item = await self.found()
        return (await self.spent()).alive, ((item or {}).get("status") or {}).get("id", "")

    async def exposed(self) -> dict[str, str]:
        """What people without access to Secrets can read."""
        return await oracles.exposed(self.kube, _KINDS)

    async def canaries(self) -> tuple[str, ...]:
        """Every secret there is."""
        return await oracles.canaries(self.kube, self.workspace.organization)

    async def leave(self) -> None:
        """Deletes the rest in order, and waits until nothing of it can disturb the next plan."""
        await self.kube.delete("CloudAccount", "default")
        look = self.kube.looking_at("CloudAccount", "default")
        await eventually(look, lambda item: item is None, what="the account is gone", every=0.05)
        await self.kube.delete("Namespace", self.namespace)
