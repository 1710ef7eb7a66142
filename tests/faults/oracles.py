"""The checks that must hold after every plan, on the API server, the local cloud and the operator's output."""

from __future__ import annotations

import base64
import contextlib
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import aiohttp

from tests.support.faultrules import Logged, Side
from tests.support.localcloud import CloudRefusal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from tests.support.kube import Kube, Manifest
    from tests.support.localcloud import LocalCloud, Organization

# Fields that differ from run to run. `attempt` also counts creates that are known to have failed.
_PASSING = frozenset(
    {"id", "cloudName", "createToken", "attempt", "envDigest", "endpointUrl", "nodeId", "observedGeneration", "message"}
    | {"orphans", "digest", "batchId", "inputFileId", "outputFileId", "errorFileId", "answersVersion", "errorsVersion"}
    | {"kept"}  # each with its name in the cloud
    | {"nodeRegion", "nodeLocation", "nodeHostname"}  # depends on free capacity
    | {"adoptedBefore"}  # what people asked for once
)
_MOMENT = re.compile(r"(Time|Since|At|Deadline)$")
# Fields of accounts: their identity, and what is read with amounts that depend on how long something has run: a cloud
# that answers 404 has no amounts until the next look at them.
_IDENTITY = frozenset({"organizationId", "organizationName", "endpoint", "identity", "secretPrefix", "url"})
_MONEY = frozenset(
    {"balanceCents", "availableCents", "burnPerHourCents", "runwayHours", "inUse", "spend"} | {"autoStopFloorCents"}
)
CANARY, _WEBHOOK_SECRET = "canary-", "whsec_"


# Operations that end a paid resource.
_ENDS = re.compile(r"/terminate$|^DELETE .*/runner-pools/")
# The end of a name in the cloud that an operator chose: part of the object's UID, the installation, the attempt.
_GIVEN = re.compile(r"-(?P<uid>[0-9a-f]{10})-[a-z0-9]{5}(-\d+)?$")


@dataclass(frozen=True)
class Spent:
    """What the cloud did for the organizations, from its request log and its billing."""

    created: int
    """Creates that it acted on, without late ones."""
    paid_for: tuple[str, ...]
    """Ids of everything that ever cost money, without late creates."""
    alive: tuple[str, ...]
    """Ids of what is not terminated and not reported by an account."""


@dataclass(frozen=True)
class Books:
    """Everything that was ever created in the cloud: `made` maps ids to names.

    `late` are resources that the cloud created when their object already had another, which no operator can prevent:
    they do not count as the object's or as paid for, as long as they are ended.
    """

    cloud: LocalCloud
    organizations: Sequence[Organization]
    made: Mapping[str, str]
    late: AbstractSet[str] = frozenset()
    heirs: Mapping[str, str] = field(default_factory=dict)
    """UIDs of restored objects, mapped to those of the saved ones: both count as the same owner in the cloud."""

    async def spent(self, creates: Iterable[str], told: Iterable[str]) -> Spent:
        """Asks the cloud; `creates` are operations with `{id}` for each identifier; `told` does not count as alive."""
        wanted, acted = set(creates), [one for one in await self._log() if one["status"] and one["status"] < 300]
        created = sum(re.sub(r"\{\w+\}", "{id}", f"{one['operation']}") in wanted for one in acted)
        billed = {one["resourceId"] for each in self.organizations for one in await each.billed()} - self.late
        return Spent(
            created - len(self.late), tuple(sorted(billed)), tuple(sorted(set(await self.alive()) - set(told)))
        )

    async def alive(self) -> list[str]:
        """Returns the ids of what is not terminated, sorted."""
        return [cloud_id for cloud_id in sorted(self.made) if await self.status_of(cloud_id) != "terminated"]

    async def status_of(self, cloud_id: str) -> str:
        """Returns the status in the cloud's terms; `terminated` if the cloud does not know the id."""
        status: str = (await self._record(cloud_id))["status"]
        return status

    async def end(self, cloud_id: str) -> None:
        """Terminates a pod, VM or cluster, as a person does who cleans up in the cloud; refusals are ignored."""
        path = "clusters" if cloud_id.startswith("cluster_") else "vms"
        for organization in self.organizations:
            with contextlib.suppress(CloudRefusal):
                await organization.call("POST", f"/v1/{path}/{cloud_id}/terminate")

    async def never_more(self, at_once: int) -> None:
        """Asserts that no object ever had more than `at_once` resources that were not ended yet."""
        ends = {
            one["path"].removesuffix("/terminate").split("/")[-1]: one["at"]
            for one in reversed(await self._log())
            if _ENDS.search(str(one["operation"])) and one["status"] and one["status"] < 300
        }
        lives: dict[str, list[tuple[str, str, str]]] = {}
        for cloud_id, name in ((one, name) for one, name in self.made.items() if one not in self.late):
            made, giver = (await self._record(cloud_id))["createdAt"], given_by(name)
            lives.setdefault(self._first(giver) if giver else name, []).append(
                (made, ends.get(cloud_id, "never"), cloud_id)
            )
        for each in lives.values():
            ordered = sorted(each)
            for (_, ended, former), (made, _, later) in zip(ordered, ordered[at_once:], strict=False):
                assert ended <= made, f"{later} was made at {made} for an object that had {former}, ended: {ended}"

    def own_ids(self, recorded: Iterable[tuple[str, str]]) -> None:
        """Asserts that no object recorded an id that was made for another; `recorded` are (UID, cloud id)."""
        for uid, cloud_id in recorded:
            name = self.made.get(cloud_id, "")  # unknown while the answer to the create is on its way
            giver = given_by(name)
            own = giver != "" and self._first(uid_part(uid)) == self._first(giver)
            assert own, f"{uid} recorded {cloud_id}, which was made for {name or 'nobody so far'}"

    async def owned(self, items: Iterable[Manifest], told: Iterable[str]) -> None:
        """Asserts that each living resource is recorded by exactly one object, or reported by an account (`told`)."""
        recorded: dict[str, str] = {}
        for item in items:
            status, name = item.get("status", {}), item["metadata"]["name"]
            told_uid = status.get("identity", {}).get("uid")
            for cloud_id in {status.get("id", ""), *(row["id"] for row in status.get("former") or ())} - {""}:
                assert cloud_id not in recorded, f"{name} and {recorded[cloud_id]} both say that {cloud_id} is theirs"
                assert told_uid == item["metadata"]["uid"], f"{name} has {cloud_id} of another: {told_uid}"
                recorded[cloud_id] = name
        alive = set(await self.alive()) - set(told)
        lost = sorted(alive - set(recorded))
        named = [f"{self.made[one]} ({one}, {await self.status_of(one)})" for one in lost]
        gone = set(recorded) - alive
        assert not named, f"alive in the cloud, and no object's own: {named}"
        assert not gone, f"not alive in the cloud, or left to nobody, and yet recorded: {gone}"

    def _first(self, part: str) -> str:
        """Returns the UID part of the saved object if `part` is that of a restored one, else `part`."""
        return next((uid_part(saved) for made, saved in self.heirs.items() if uid_part(made) == part), part)

    async def _log(self) -> list[dict[str, Any]]:
        return [one for each in self.organizations for one in await self.cloud.control.requests(organization=each)]

    async def _record(self, cloud_id: str) -> dict[str, Any]:
        for organization in self.organizations:
            with _unknown():
                match cloud_id.partition("_")[0]:
                    case "cluster":
                        return await organization.cluster(cloud_id)
                    case "rnp":
                        return {"status": "there"} | await organization.runner_pool(cloud_id)
                    case _:
                        return await organization.vm(cloud_id)
        return {"status": "terminated", "createdAt": ""}


@contextlib.contextmanager
def _unknown() -> Iterator[None]:
    """Ignores a refusal that says that the cloud, or this organization, has no such resource."""
    try:
        yield
    except CloudRefusal as refused:
        if refused.status != 404:
            raise


def assert_told(late: Iterable[str], calls: Iterable[Logged]) -> None:
    """Asserts that a status write reported each late create in the condition `LateCreate`."""
    statuses = [
        one.body["status"] for one in calls if one.call.side is Side.KUBE and isinstance(one.body.get("status"), dict)
    ]
    told = [
        each["message"] for status in statuses for each in status.get("conditions", ()) if each["type"] == "LateCreate"
    ]
    for cloud_id in late:
        assert any(cloud_id in message for message in told), f"{cloud_id} was made late, and nothing told of it: {told}"


def given_by(name: str) -> str:
    """Returns the part of the UID of the object that gave this name; empty if no operator chose the name."""
    given = _GIVEN.search(name)
    return given["uid"] if given is not None else ""


def uid_part(uid: str) -> str:
    """Returns the part of a UID that names in the cloud contain."""
    return uid.replace("-", "")[:10]


def normalised(status: object) -> Any:
    """Returns a status without what may differ between two equally good runs."""
    if isinstance(status, dict):
        kept = {name: normalised(value) for name, value in status.items() if not _passes(name)}
        return {name: value for name, value in kept.items() if value not in (None, [], {})}
    if isinstance(status, list):
        return sorted((normalised(one) for one in status), key=json.dumps)
    return status


def at_rest(status: Mapping[str, Any]) -> Any:
    """Returns the normalised status of an object to which something happened.

    The number of failures stays in status until the object has run for a while. A cluster that was stopped before it
    was scaled gets its new number of replicas only when it starts. A stopped object may say that it ran out of funds,
    if it did so before a person stopped it.
    """
    stopped = {"replicas", "statusReason"} if status.get("state") == "stopped" else set()
    passed = {"failures", "recoveries"} | stopped
    return normalised({name: value for name, value in status.items() if name not in passed})


def _passes(name: str) -> bool:
    return name in _PASSING | _IDENTITY | _MONEY or bool(_MOMENT.search(name))


def writes(calls: Iterable[Logged]) -> list[str]:
    """Returns the operator's writes to every server, as text, without those that renew its Lease."""
    return [
        f"{one.call} {json.dumps(one.body)[:300]}"
        for one in calls
        if one.call.writes and not one.call.operation.endswith(" leases")
    ]


async def canaries(kube: Kube, organizations: Sequence[Organization], expected: int) -> tuple[str, ...]:
    """Returns every secret of the namespace: plain, in Base64, and without its first third.

    Asserts that there are at least `expected`.
    """
    kept = [value for secret in await kube.list("Secret") for value in (secret.get("data") or {}).values()]
    plain = {base64.b64decode(value).decode(errors="replace") for value in kept}
    keys = {one.api_key for one in organizations}
    secret = keys | {value for value in plain if value.startswith((CANARY, _WEBHOOK_SECRET))}
    assert len(secret) >= expected, f"API keys, webhooks' secrets and canaries: {expected}, not {len(secret)}"
    hearts = {value[len(value) // 3 :] for value in secret}
    return tuple(sorted(secret | hearts | {base64.b64encode(value.encode()).decode() for value in secret}))


async def exposed(kube: Kube, kinds: Sequence[str]) -> dict[str, str]:
    """Returns, by kind, what people without access to Secrets can read in the namespace."""
    items: dict[str, list[Manifest]] = {kind: await kube.list(kind) for kind in (*kinds, "Event", "ConfigMap")}
    return {kind: json.dumps(found) for kind, found in items.items()}


async def metrics_text(url: str) -> str:
    """Returns the operator's metrics as text."""
    async with aiohttp.ClientSession() as session, session.get(f"{url}/metrics") as reply:
        return await reply.text()


def assert_no_secret(secrets: Iterable[str], places: dict[str, str]) -> None:
    """Asserts that none of the texts contains a secret."""
    known = list(secrets)
    told = [name for name, text in places.items() if any(secret in text for secret in known)]
    assert not told, f"a secret is told in: {', '.join(told)}"


def assert_no_traceback(log: str) -> None:
    """Asserts that the operator's log has no traceback, which would be an unforeseen failure."""
    lines = log.splitlines()
    at = next((number for number, line in enumerate(lines) if "Traceback (most recent" in line), None)
    assert at is None, "the operator's log has a traceback:\n" + "\n".join(
        lines[max((at or 0) - 3, 0) : (at or 0) + 40]
    )
