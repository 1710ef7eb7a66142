"""SshKeys: registered, changed, adopted, removed; what is no public key is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.cloud_log import CREATE_POD, count
from tests.support.eventually import eventually
from tests.support.kube import KubeError
from tests.support.manifests import adopting, condition, gpu_pod, ready, relay_object, stalled, tells

if TYPE_CHECKING:
    from tests.support.kube import Kube, Manifest
    from tests.support.localcloud import Json
    from tests.support.workspace import Workspace

ADA = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
BOB = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIG2N9j80sbaY1nmljEToRcN55XktyW4TR4LTP2exYzp"
SHOWN = "SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU"
CREATE, LIST = "POST /v1/orgs/{orgId}/ssh-keys/create", "GET /v1/orgs/{orgId}/ssh-keys"
PRIVATE = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\n-----END OPENSSH PRIVATE KEY-----\n"


def _key(name: str = "ada", **spec: object) -> Manifest:
    return relay_object("SshKey", name, **(spec or {"publicKey": ADA}))


async def _registered(workspace: Workspace) -> list[Json]:
    listed = await workspace.organization.call("GET", f"/v1/orgs/{workspace.organization.id}/ssh-keys")
    items: list[Json] = listed["items"]
    return items


async def test_a_key_is_registered_replaced_and_removed(brisk_workspace: Workspace) -> None:
    await brisk_workspace.apply(_key())
    status = (await brisk_workspace.becomes("SshKey", "ada"))["status"]
    (row,) = await _registered(brisk_workspace)
    assert (row["id"], row["name"], row["publicKey"]) == (status["id"], status["cloudName"], ADA)
    assert status["fingerprint"] == SHOWN
    assert "state" not in status
    await brisk_workspace.apply(_key(publicKey=BOB))
    await brisk_workspace.becomes("SshKey", "ada", lambda item: stalled(item) == "ImmutableFieldChanged")
    await brisk_workspace.apply(_key(publicKey=BOB, updateStrategy={"type": "Recreate"}))
    another = await brisk_workspace.becomes("SshKey", "ada")
    assert [(one["id"], one["publicKey"]) for one in await _registered(brisk_workspace)] == [
        (another["status"]["id"], BOB)
    ]
    await brisk_workspace.kube.delete("SshKey", "ada")
    await brisk_workspace.is_gone("SshKey", "ada")
    assert await _registered(brisk_workspace) == []
    assert await count(brisk_workspace, CREATE) == 2


async def test_a_key_that_exists_is_adopted_if_it_is_the_same(brisk_workspace: Workspace) -> None:
    path = f"/v1/orgs/{brisk_workspace.organization.id}/ssh-keys/create"
    by_hand = await brisk_workspace.organization.call("POST", path, {"name": "by-hand", "publicKey": f"{ADA} me"})
    await brisk_workspace.apply(adopting(_key("other", publicKey=BOB), by_hand["id"]))
    refused = await brisk_workspace.becomes("SshKey", "other", lambda item: stalled(item) == "AdoptionRefused")
    assert f"has {SHOWN}" in condition(refused, "Stalled")["message"]
    await brisk_workspace.apply(adopting(_key(), by_hand["id"]))
    assert (await brisk_workspace.becomes("SshKey", "ada"))["status"]["id"] == by_hand["id"]
    assert await count(brisk_workspace, CREATE) == 1


async def test_a_secret_with_a_private_key_is_never_sent(brisk_workspace: Workspace) -> None:
    source = {"secretKeyRef": {"name": "ada", "key": "pub"}}
    secret: Manifest = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "ada"}}
    await brisk_workspace.apply(_key(publicKeyFrom=source))

    def waits(item: Manifest | None) -> bool:
        return condition(item, "Ready").get("reason") == "EnvMissing"

    await brisk_workspace.becomes("SshKey", "ada", waits)
    await brisk_workspace.apply(secret | {"stringData": {"pub": PRIVATE}})

    def warns(item: Manifest | None) -> bool:
        return waits(item) and "private key" in condition(item, "Ready")["message"]

    held = await brisk_workspace.becomes("SshKey", "ada", warns)
    assert "b3BlbnNzaC" not in str(held)
    assert await count(brisk_workspace, CREATE) == 0
    await brisk_workspace.apply(secret | {"stringData": {"pub": f"{ADA} ada\n"}})
    assert (await brisk_workspace.becomes("SshKey", "ada"))["status"]["fingerprint"] == SHOWN
    await brisk_workspace.apply(secret | {"stringData": {"pub": BOB}})
    await brisk_workspace.becomes("SshKey", "ada", lambda item: condition(item, "EnvOutdated"))


async def test_a_key_that_the_cloud_refuses_says_why(brisk_workspace: Workspace) -> None:
    await brisk_workspace.apply(_key(publicKey="ssh-ed25519 AAAA"))
    refused = await brisk_workspace.becomes("SshKey", "ada", lambda item: stalled(item) == "SpecInvalid")
    assert "publicKey: this is not an OpenSSH public key" in condition(refused, "Stalled")["message"]


async def test_a_key_that_somebody_removes_is_told_and_not_registered_again(brisk_workspace: Workspace) -> None:
    await brisk_workspace.apply(_key())
    cloud_id = (await brisk_workspace.becomes("SshKey", "ada"))["status"]["id"]
    await brisk_workspace.organization.call("DELETE", f"/v1/orgs/{brisk_workspace.organization.id}/ssh-keys/{cloud_id}")
    gone = await brisk_workspace.becomes("SshKey", "ada", lambda item: stalled(item) == "TerminatedExternally")
    assert "recovery" not in condition(gone, "Stalled")["message"]
    assert await count(brisk_workspace, CREATE) == 1


async def test_many_keys_are_read_by_few_lists(workspace: Workspace) -> None:
    await workspace.apply(_key())
    await workspace.becomes("SshKey", "ada")  # from here on nothing wakes whoever waits for the account
    before = await count(workspace, LIST)
    names = [f"key-{number}" for number in range(30)]
    for name in names:
        await workspace.apply(_key(name))
    await eventually(
        lambda: workspace.kube.list("SshKey"), lambda items: len([*filter(ready, items)]) == len(names) + 1
    )
    assert await count(workspace, CREATE) == len(names) + 1
    assert await count(workspace, LIST) - before < len(names) / 3


async def test_a_pod_waits_for_its_keys_and_they_wait_for_its_end(brisk_workspace: Workspace) -> None:
    team: Manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "team"}, "data": {"bob": BOB}}
    source = {"configMapKeyRef": {"name": "team", "key": "bob"}}
    pod = gpu_pod(sshKeyRefs=[{"name": "ada"}, source], sshKeysFrom=[source])
    await brisk_workspace.apply(pod)
    await brisk_workspace.becomes("GpuPod", "trainer", tells("EnvMissing", "ConfigMap team"))
    await brisk_workspace.apply(team)
    await brisk_workspace.becomes("GpuPod", "trainer", tells("ReferenceNotFound"))
    assert await count(brisk_workspace, CREATE_POD) == 0
    await brisk_workspace.apply(_key())
    status = (await brisk_workspace.becomes("GpuPod", "trainer"))["status"]
    ada = (await brisk_workspace.becomes("SshKey", "ada"))["status"]["id"]
    assert status["references"] == [{"kind": "SshKey", "name": "ada", "id": ada}]

    await brisk_workspace.kube.delete("SshKey", "ada")
    await brisk_workspace.becomes("SshKey", "ada", tells("InUse", "in use by GpuPod trainer"))
    await brisk_workspace.apply(gpu_pod(sshKeysFrom=[source]))
    await brisk_workspace.becomes("GpuPod", "trainer", lambda item: stalled(item) == "ImmutableFieldChanged")
    await brisk_workspace.kube.delete("GpuPod", "trainer")
    await brisk_workspace.is_gone("GpuPod", "trainer")
    await brisk_workspace.is_gone("SshKey", "ada")
    assert await count(brisk_workspace, CREATE_POD) == 1


async def test_a_pod_is_not_made_with_a_key_that_is_not_the_registered_one(brisk_workspace: Workspace) -> None:
    team: Manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "team"}}
    await brisk_workspace.apply(team | {"data": {"ada": ADA}})
    await brisk_workspace.apply(_key(publicKeyFrom={"configMapKeyRef": {"name": "team", "key": "ada"}}))
    await brisk_workspace.becomes("SshKey", "ada")
    await brisk_workspace.apply(team | {"data": {"ada": BOB}})
    await brisk_workspace.apply(gpu_pod(sshKeyRefs=[{"name": "ada"}]))
    await brisk_workspace.becomes("GpuPod", "trainer", tells("EnvMissing", f"SshKey ada is registered as {SHOWN}"))
    assert await count(brisk_workspace, CREATE_POD) == 0
    await brisk_workspace.apply(team | {"data": {"ada": ADA}})
    await brisk_workspace.becomes("GpuPod", "trainer")


async def test_a_key_costs_nothing_and_no_budget_holds_it_back(brisk_workspace: Workspace) -> None:
    workspace = brisk_workspace
    await workspace.kube.patch("CloudAccount", "default", {"spec": {"budget": {"minAvailableCents": 10**9}}})
    await workspace.apply(gpu_pod("dear"))
    await workspace.becomes("GpuPod", "dear", tells("WaitingForBudget"))
    await workspace.apply(_key())
    await workspace.becomes("SshKey", "ada")
    assert await count(workspace, CREATE) == 1


@pytest.mark.parametrize(
    "item",
    [{}, {"name": "ada", "secretKeyRef": {"name": "a", "key": "b"}}, {"name": "ada", "optional": True}],
    ids=["nothing", "both", "an SshKey that may be missing"],
)
async def test_an_item_names_an_ssh_key_and_nothing_else(kube: Kube, item: Manifest) -> None:
    with pytest.raises(KubeError) as refused:
        await kube.apply(gpu_pod(sshKeyRefs=[item]), dry_run=True)
    assert "set name, that of an SshKey" in refused.value.message


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"publicKey": PRIVATE}, "this is a private key"),
        ({"publicKey": "PuTTY-User-Key-File-3: ssh-ed25519"}, "this is a private key"),
        ({"publicKey": "ada"}, "this is not an OpenSSH public key"),
        ({"publicKey": f"{ADA}\n{BOB}"}, "this is not an OpenSSH public key"),
        ({"publicKey": ADA, "publicKeyFrom": {"secretKeyRef": {"name": "a", "key": "b"}}}, "set exactly one of"),
        ({"deletionPolicy": "Orphan"}, "set exactly one of publicKey and publicKeyFrom"),
        ({"publicKey": ADA, "deletionPolicy": "Stop"}, "nothing of this kind can be stopped"),
    ],
)
async def test_what_is_no_public_key_is_refused_at_apply(kube: Kube, spec: dict[str, object], says: str) -> None:
    with pytest.raises(KubeError) as refused:
        await kube.apply(relay_object("SshKey", "ada", **spec), dry_run=True)
    assert says in refused.value.message
