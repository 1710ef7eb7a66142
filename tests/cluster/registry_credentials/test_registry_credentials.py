"""RegistryCredentials: made from Secrets, changed, adopted, removed; garbage is told and never sent."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.cloud_log import CREATE_CLUSTER, count
from tests.cluster.seen import seen_of
from tests.support.kube import KubeError
from tests.support.manifests import adopting, condition, gpu_cluster, gpu_vm, ready, relay_object, stalled, tells

if TYPE_CHECKING:
    from tests.support.kube import Kube, Manifest
    from tests.support.localcloud import Json
    from tests.support.operator import Operator
    from tests.support.workspace import Workspace

KIND = "RegistryCredential"
CREATE = "POST /v1/orgs/{orgId}/registry-credentials/create"
CANARY = "canary-of-the-registry"
BASIC: dict[str, Any] = {"server": "ghcr.io", "authType": "basic", "credentialsSecretRef": {"name": "pull"}}


def _credential(name: str = "hub", **spec: object) -> Manifest:
    return relay_object(KIND, name, **(spec or {"dockerConfigSecretRef": {"name": "pull"}}))


def _secret(**data: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "pull"}, "stringData": data}


def _config(*servers: str, password: str = CANARY) -> Manifest:
    """As `kubectl create secret docker-registry` makes it."""
    auths = {server: {"username": "ada", "password": password} for server in servers}
    return _secret(**{".dockerconfigjson": json.dumps({"auths": auths})}) | {"type": "kubernetes.io/dockerconfigjson"}


async def _existing(workspace: Workspace) -> list[Json]:
    listed = await workspace.organization.call("GET", f"/v1/orgs/{workspace.organization.id}/registry-credentials")
    items: list[Json] = listed["items"]
    return items


def _reason(item: Manifest | None) -> str:
    reason: str = condition(item, "Ready").get("reason", "")
    return reason


async def test_a_credential_is_made_and_removed_and_its_secret_is_shown_nowhere(
    brisk_workspace: Workspace, brisk: Operator
) -> None:
    await brisk_workspace.apply(_config("https://index.docker.io/v1/"))
    await brisk_workspace.apply(_credential(server="docker.io", dockerConfigSecretRef={"name": "pull"}))
    status = (await brisk_workspace.becomes(KIND, "hub"))["status"]
    (row,) = await _existing(brisk_workspace)
    assert (row["id"], row["name"], row["server"]) == (status["id"], status["cloudName"], "docker.io")
    assert (status["server"], status["authType"]) == ("docker.io", "basic")
    assert "state" not in status
    await brisk_workspace.kube.delete(KIND, "hub")
    await brisk_workspace.is_gone(KIND, "hub")
    assert await _existing(brisk_workspace) == []
    assert await count(brisk_workspace, CREATE) == 1
    assert CANARY not in await seen_of(brisk_workspace, brisk, KIND)


@pytest.mark.parametrize(
    ("spec", "data"),
    [
        (BASIC, {"username": "ada", "password": CANARY}),
        (BASIC | {"authType": "aws_ecr"}, {"accessKeyId": "AKIA", "secretAccessKey": CANARY}),
        (BASIC | {"authType": "gcp_gcr", "server": "gcr.io"}, {"key.json": CANARY}),
    ],
    ids=["basic", "aws_ecr", "gcp_gcr"],
)
async def test_a_credential_is_made_from_the_keys_of_a_secret(
    brisk_workspace: Workspace, spec: dict[str, Any], data: dict[str, str]
) -> None:
    await brisk_workspace.apply(_secret(**data))
    await brisk_workspace.apply(_credential(**spec))
    await brisk_workspace.becomes(KIND, "hub")
    (row,) = await _existing(brisk_workspace)
    assert (row["server"], row["authType"]) == (spec["server"], spec["authType"])


async def test_a_secret_that_cannot_be_used_is_told_and_never_sent(brisk_workspace: Workspace, brisk: Operator) -> None:
    await brisk_workspace.apply(_credential())
    await brisk_workspace.becomes(KIND, "hub", tells("EnvMissing", "Secret pull in"))
    for data, text in (
        (f'{{"auths": "{CANARY}"}}', "it is not what `docker login` writes"),
        ("{}", "it names no server"),
        (json.dumps({"auths": {"ghcr.io": {"identitytoken": CANARY}}}), "it has no user and password"),
    ):
        await brisk_workspace.apply(_secret(**{".dockerconfigjson": data}))
        await brisk_workspace.becomes(KIND, "hub", tells("EnvMissing", text))
    three = json.loads(json.dumps(_config("a.io", "b.io", "ghcr.io")["stringData"]))
    await brisk_workspace.apply(_secret(**three))
    await brisk_workspace.becomes(KIND, "hub", tells("EnvMissing", "it names 3 servers: say in spec.server"))
    assert await count(brisk_workspace, CREATE) == 0
    assert CANARY not in await seen_of(brisk_workspace, brisk, KIND)
    await brisk_workspace.apply(_credential(dockerConfigSecretRef={"name": "pull"}, server="ghcr.io"))
    assert (await brisk_workspace.becomes(KIND, "hub"))["status"]["server"] == "ghcr.io"


async def test_a_changed_secret_makes_another_and_the_former_is_deleted(
    brisk_workspace: Workspace, brisk: Operator
) -> None:
    await brisk_workspace.apply(_config("ghcr.io"))
    await brisk_workspace.apply(_credential())
    first = (await brisk_workspace.becomes(KIND, "hub"))["status"]["id"]
    await brisk_workspace.apply(_config("ghcr.io", password=f"another-{CANARY}"))

    def another(item: Manifest | None) -> bool:
        return ready(item) and item is not None and item["status"]["id"] != first and "former" not in item["status"]

    status = (await brisk_workspace.becomes(KIND, "hub", another))["status"]
    assert [row["id"] for row in await _existing(brisk_workspace)] == [status["id"]]
    await brisk_workspace.apply(_config("a.io", "b.io"))
    await brisk_workspace.becomes(KIND, "hub", tells("EnvMissing", "it names 2 servers"))
    assert [row["id"] for row in await _existing(brisk_workspace)] == [status["id"]]
    assert CANARY not in await seen_of(brisk_workspace, brisk, KIND)


async def test_another_server_is_forbidden_unless_the_strategy_says_so(brisk_workspace: Workspace) -> None:
    spec: dict[str, Any] = {"dockerConfigSecretRef": {"name": "pull"}, "server": "b.io"}
    await brisk_workspace.apply(_config("a.io", "b.io"))
    await brisk_workspace.apply(_credential(**spec | {"server": "a.io"}))
    await brisk_workspace.becomes(KIND, "hub")
    await brisk_workspace.apply(_credential(**spec))
    await brisk_workspace.becomes(KIND, "hub", lambda item: stalled(item) == "ImmutableFieldChanged")
    await brisk_workspace.apply(_credential(**spec, updateStrategy={"type": "Recreate"}))

    def moved(item: Manifest | None) -> bool:
        return (
            ready(item) and item is not None and item["status"]["server"] == "b.io" and "former" not in item["status"]
        )

    await brisk_workspace.becomes(KIND, "hub", moved)
    assert [row["server"] for row in await _existing(brisk_workspace)] == ["b.io"]


async def test_a_credential_that_exists_is_adopted_if_it_is_for_the_same_server(brisk_workspace: Workspace) -> None:
    path = f"/v1/orgs/{brisk_workspace.organization.id}/registry-credentials/create"
    login = {"username": "ada", "password": CANARY}
    wanted = {"name": "by-hand", "server": "https://ghcr.io", "authType": "basic", "credentials": login}
    by_hand = await brisk_workspace.organization.call("POST", path, wanted)
    await brisk_workspace.apply(_secret(**login))
    await brisk_workspace.apply(adopting(_credential("other", **BASIC | {"server": "a.io"}), by_hand["id"]))
    refused = await brisk_workspace.becomes(KIND, "other", lambda item: stalled(item) == "AdoptionRefused")
    assert "server: asked a.io, has ghcr.io" in condition(refused, "Stalled")["message"]
    await brisk_workspace.apply(adopting(_credential(**BASIC), by_hand["id"]))
    assert (await brisk_workspace.becomes(KIND, "hub"))["status"]["id"] == by_hand["id"]
    assert await count(brisk_workspace, CREATE) == 1


async def test_a_credential_that_the_cloud_refuses_says_why(brisk_workspace: Workspace) -> None:
    await brisk_workspace.apply(_secret(username="ada", password=CANARY * 4000))
    await brisk_workspace.apply(_credential(**BASIC))
    refused = await brisk_workspace.becomes(KIND, "hub", lambda item: stalled(item) == "SpecInvalid")
    assert "credentials: at most" in condition(refused, "Stalled")["message"]


@pytest.mark.parametrize("user", [gpu_vm("user"), gpu_cluster("user", replicas=1)], ids=lambda item: item["kind"])
async def test_what_lives_keeps_its_credential_though_the_secret_changes(
    brisk_workspace: Workspace, user: Manifest
) -> None:
    user = user | {"spec": user["spec"] | {"registryCredentialRef": {"name": "hub"}}}
    kind = user["kind"]
    await brisk_workspace.apply(user)
    await brisk_workspace.becomes(kind, "user", lambda item: _reason(item) == "ReferenceNotFound")
    await brisk_workspace.apply(_config("ghcr.io"))
    await brisk_workspace.apply(_credential())
    first = (await brisk_workspace.becomes(KIND, "hub"))["status"]["id"]
    status = (await brisk_workspace.becomes(kind, "user"))["status"]
    assert status["references"] == [{"kind": KIND, "name": "hub", "id": first}]

    await brisk_workspace.apply(_config("ghcr.io", password=f"another-{CANARY}"))

    def another(item: Manifest | None) -> bool:
        return ready(item) and item is not None and item["status"]["id"] != first

    moved = (await brisk_workspace.becomes(KIND, "hub", another))["status"]
    assert [row["id"] for row in moved["former"]] == [first]
    refresh = {"metadata": {"annotations": {"gpurelay.dev/reconcile-at": "now"}}}
    await brisk_workspace.kube.patch(KIND, "hub", refresh)
    await brisk_workspace.becomes(KIND, "hub", lambda item: (item or {})["status"].get("reconcileAt") == "now")
    assert [row["id"] for row in await _existing(brisk_workspace)] == [first, moved["id"]]
    assert (await brisk_workspace.becomes(kind, "user"))["status"]["references"] == status["references"]

    await brisk_workspace.kube.delete(KIND, "hub")
    kept = await brisk_workspace.becomes(KIND, "hub", lambda item: _reason(item) == "InUse")
    assert f"in use by {kind} user" in condition(kept, "Ready")["message"]
    assert [row["id"] for row in await _existing(brisk_workspace)] == [first, moved["id"]]
    await brisk_workspace.kube.delete(kind, "user")
    await brisk_workspace.is_gone(kind, "user")
    await brisk_workspace.is_gone(KIND, "hub")
    assert await _existing(brisk_workspace) == []


async def test_a_cluster_that_was_found_after_its_lost_create_keeps_its_credential(brisk_workspace: Workspace) -> None:
    own = brisk_workspace.organization.id
    await brisk_workspace.apply(_config("ghcr.io"))
    await brisk_workspace.apply(_credential())
    hub = (await brisk_workspace.becomes(KIND, "hub"))["status"]["id"]
    await brisk_workspace.cloud.control.fault(CREATE_CLUSTER, {"drop": "after"}, count=1, organizationId=own)
    await brisk_workspace.apply(gpu_cluster("user", replicas=1, registryCredentialRef={"name": "hub"}))
    status = (await brisk_workspace.becomes("GpuCluster", "user"))["status"]
    assert status["references"] == [{"kind": KIND, "name": "hub", "id": hub}]
    assert await count(brisk_workspace, CREATE_CLUSTER) == 1
    await brisk_workspace.kube.delete(KIND, "hub")
    await brisk_workspace.becomes(KIND, "hub", lambda item: _reason(item) == "InUse")
    await brisk_workspace.kube.delete("GpuCluster", "user")
    await brisk_workspace.is_gone(KIND, "hub")


async def test_the_former_goes_with_the_last_that_was_made_with_it(brisk_workspace: Workspace) -> None:
    async def of(name: str) -> str:
        await brisk_workspace.apply(gpu_vm(name, registryCredentialRef={"name": "hub"}))
        (row,) = (await brisk_workspace.becomes("GpuVm", name))["status"]["references"]
        given: str = row["id"]
        return given

    await brisk_workspace.apply(_config("ghcr.io"))
    await brisk_workspace.apply(_credential())
    first = await of("old")
    await brisk_workspace.apply(_config("ghcr.io", password=f"another-{CANARY}"))
    await brisk_workspace.becomes(KIND, "hub", lambda item: ready(item) and "former" in (item or {})["status"])
    second = await of("new")
    assert first != second
    assert [row["id"] for row in await _existing(brisk_workspace)] == [first, second]
    await brisk_workspace.kube.delete("GpuVm", "old")
    await brisk_workspace.is_gone("GpuVm", "old")
    await brisk_workspace.becomes(KIND, "hub", lambda item: ready(item) and "former" not in (item or {})["status"])
    assert [row["id"] for row in await _existing(brisk_workspace)] == [second]


async def test_a_spec_names_a_credential_by_its_id_or_by_its_object(kube: Kube) -> None:
    both: dict[str, Any] = {"registryCredentialId": "rcr_1", "registryCredentialRef": {"name": "hub"}}
    for manifest in (gpu_vm(**both), gpu_cluster(**both)):
        with pytest.raises(KubeError) as refused:
            await kube.apply(manifest, dry_run=True)
        assert "set registryCredentialId or registryCredentialRef, not both" in refused.value.message


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"server": "ghcr.io"}, "set exactly one of dockerConfigSecretRef and credentialsSecretRef"),
        (BASIC | {"dockerConfigSecretRef": {"name": "a"}}, "set exactly one of dockerConfigSecretRef and"),
        ({"credentialsSecretRef": {"name": "a"}, "server": "ghcr.io"}, "set server and authType as well"),
        ({"dockerConfigSecretRef": {"name": "a"}, "authType": "gcp_gcr"}, "leave authType out"),
        (BASIC | {"authType": "token"}, "supported values"),
        (BASIC | {"server": "https://ada:secret@ghcr.io"}, "spec.server"),
        (BASIC | {"deletionPolicy": "Stop"}, "nothing of this kind can be stopped"),
    ],
)
async def test_what_makes_no_sense_is_refused_at_apply(kube: Kube, spec: dict[str, Any], says: str) -> None:
    with pytest.raises(KubeError) as refused:
        await kube.apply(relay_object(KIND, "hub", **spec), dry_run=True)
    assert says.lower() in refused.value.message.lower()
