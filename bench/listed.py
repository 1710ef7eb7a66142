"""Keys and members by the thousand: what the cloud is asked while they are made, and once they are settled."""

import asyncio
import base64
import tempfile
from collections import Counter
from pathlib import Path

from bench.extent import Extent
from bench.objects import until_all
from bench.progress import say
from bench.results import Row
from bench.usage import cpu
from bench.world import World, world
from tests.support.kube import Kube, Manifest
from tests.support.localcloud import Organization
from tests.support.manifests import ready, relay_object
from tests.support.operator import Operator

KINDS = ("SshKey", "ApiKey", "OrganizationMember")
POLLED_SECONDS = 10
"""Far more often than by default, so that each object is looked at several times within the quiet period."""
QUIET_SECONDS = 40
_QUOTAS = {"apiKeys": 10_000, "members": 10_000}
"""Above the defaults of 1,000, since the account's own key and the owner count as well."""
_KEY_TYPE = b"\0\0\0\x0bssh-ed25519\0\0\0 "


async def listed_rows(extent: Extent) -> list[Row]:
    """Returns two rows per kind."""
    rows: list[Row] = []
    settings = {"poll_settled_seconds": str(POLLED_SECONDS)}
    with tempfile.TemporaryDirectory(prefix="relay-bench-") as folder:
        async with world(Path(folder)) as servers, servers.operator(settings) as operator:
            for kind in KINDS:
                organization = await servers.organization(kind.lower(), 0)
                await servers.cloud.control.change_organization(organization.id, quotas=_QUOTAS)
                async with servers.namespace(kind.lower()) as kube:
                    await servers.account(kube, organization)
                    say(f"{extent.objects} of {kind}")
                    rows += await _rows(servers, operator, organization, kube, kind, extent.objects)
    return rows


async def _rows(
    servers: World, operator: Operator, organization: Organization, kube: Kube, kind: str, count: int
) -> list[Row]:
    before = await _asked(servers, organization)
    objects = [await _object(servers, kind, number) for number in range(count)]
    async with asyncio.timeout(600):
        seen = asyncio.create_task(until_all(kube, kind, count, ready))
        for each in objects:
            await kube.create(each)
        await seen
    made = await _asked(servers, organization)
    spent = cpu(operator.process.pid)
    await asyncio.sleep(QUIET_SECONDS)
    spent = cpu(operator.process.pid) - spent
    settled = await _asked(servers, organization)
    called = f"{count} of {kind}"
    return [
        (f"{called}, apply to Ready: asked of the cloud", _told(made - before), "lists only, beside the creates"),
        (
            f"settled, looked at every {POLLED_SECONDS} s, in {QUIET_SECONDS} s",
            f"{_told(settled - made)}; {spent / QUIET_SECONDS:.1%} of a core",
            "lists only",
        ),
    ]


async def _object(servers: World, kind: str, number: int) -> Manifest:
    name = f"one-{number:04}"
    match kind:
        case "SshKey":
            key = base64.b64encode(_KEY_TYPE + number.to_bytes(32, "big")).decode()
            return relay_object(kind, name, publicKey=f"ssh-ed25519 {key}")
        case "ApiKey":
            return relay_object(kind, name, scopes=["vms:read"], secretName=name)
        case _:
            person = await servers.cloud.control.call("POST", "/users", {})
            return relay_object(kind, name, email=person["email"], role="member")


async def _asked(servers: World, organization: Organization) -> Counter[str]:
    """Requests about these records so far, by operation."""
    log = await servers.cloud.control.requests(organization=organization)
    about = ("/ssh-keys", "/api-keys", "/members")
    return Counter(one["operation"] for one in log if any(part in one["operation"] for part in about))


def _told(asked: Counter[str]) -> str:
    return ", ".join(f"{number} x {operation}" for operation, number in asked.most_common()) or "nothing"
