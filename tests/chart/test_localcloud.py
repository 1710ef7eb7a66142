"""The chart of the local cloud: its Pod runs the real program as it is, and bad values are refused before that."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
import pytest_asyncio
import yaml

from relay_localcloud.capacity.catalog import GPU_MODELS
from tests.chart.bad_values import Bad, each_of, told_of
from tests.localcloud.support.server import COMMAND, Server, request
from tests.support.binaries import helm
from tests.support.chart import LOCALCLOUD, objects_in, refusal, rendered, sets
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.process import free_port

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.support.kube import Manifest

NAMESPACE = "relay-cloud"
DECIDED = {
    "host",
    "state",
    "admin-token-file",
    "advertise",
    "public-url",
    "gateway-domain",
    "allow-network",
    "list-vms",
}
"""Options that the chart gives, with a value of its own or without."""
FURTHER = {"clock", "key-file", "seed"}
"""Options that `extraArgs` takes."""
OF_THE_RUNTIME = {"runtime", "runtime-config", "cluster"}
"""Options that `runtimeConfig` decides."""
NEVER = {"port", "inference-port", "gateway-port", "ssh-port", "ephemeral", "tls", "public-control", "help"}
"""Options that would contradict the Services, the probes, the volume or the admin token."""
EVERYTHING = (
    "allowNetworks={10.0.0.1/8,fd00::/8}",
    "gatewayDomain=apps.example.com",
    "advertise=cloud.example.com",
    "listVms=true",
    "extraArgs={--clock=frozen}",
)

RUNTIME = (
    "runtimeConfig.clusters[0].name=here",
    "runtimeConfig.clusters[0].storageClass=fast",
    "runtimeConfig.gpuModels[0].id=h100",
    "runtimeConfig.gpuModels[0].nodeLabels.gpu=h100",
    "runtimeConfig.gpuModels[0].pricePerHourCents=249",
    "runtimeConfig.cpuSizes[0].resourceSize=tiny",
    "runtimeConfig.cpuSizes[0].vcpu=1",
    "runtimeConfig.cpuSizes[0].ramMb=512",
    "runtimeConfig.cpuSizes[0].pricePerHourCents=1",
)


US = (
    "runtimeConfig.clusters[1].name=us",
    "runtimeConfig.clusters[1].storageClass=local-ssd",
    "runtimeConfig.clusters[1].kubeconfig=/kubeconfigs/us",
)
"""A further cluster, whose kubeconfig is in the volume of KUBECONFIGS."""
KUBECONFIGS = (
    "extraVolumes[0].name=kubeconfigs",
    "extraVolumes[0].secret.secretName=kubeconfigs",
    "extraVolumeMounts[0].name=kubeconfigs",
    "extraVolumeMounts[0].mountPath=/kubeconfigs",
)


async def objects(*values: str) -> dict[str, Manifest]:
    """What the chart renders, by name and kind."""
    manifests = await rendered(NAMESPACE, *values, chart=LOCALCLOUD)
    return {f"{one['metadata']['name']} {one['kind']}": one for one in manifests}


async def pod(*values: str) -> dict[str, Any]:
    """The Pod's spec."""
    spec: dict[str, Any] = (await objects(*values))["relay-localcloud StatefulSet"]["spec"]["template"]["spec"]
    return spec


async def container(*values: str) -> dict[str, Any]:
    """The Pod's container."""
    (found,) = (await pod(*values))["containers"]
    return dict(found)


def on_this_machine(arguments: list[str], folder: Path) -> tuple[str, ...]:
    """The arguments of the Pod, with its volumes in a folder."""
    assert arguments[0] == "serve"
    (folder / "admin").mkdir()
    (folder / "admin" / "token").write_text("secret")
    return tuple(
        one.replace("=/data", f"={folder}/data").replace("=/admin", f"={folder}/admin") for one in arguments[1:]
    )


@pytest_asyncio.fixture
async def started(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Server]:
    """The program as the Pod starts it with these values, on ports of this machine."""
    arguments = (await container(*getattr(request, "param", ())))["args"]
    server = Server(on_this_machine(arguments, tmp_path))
    await asyncio.to_thread(server.start)
    yield server
    await asyncio.to_thread(server.stop)


@pytest.mark.parametrize("started", [(), EVERYTHING], indirect=True)
async def test_the_program_takes_what_the_pod_gives_it_and_answers_its_probes(started: Server, tmp_path: Path) -> None:
    here = f"http://127.0.0.1:{urlsplit(started.url).port}"
    probed = await container()
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        path, port = probed[probe]["httpGet"]["path"], probed[probe]["httpGet"]["port"]
        assert port == "management"
        assert (await request("GET", here + path)).status == 200
    assert (await request("GET", here + "/_localcloud/clock")).refusal == (401, "unauthorized")
    assert (await request("GET", here + "/_localcloud/clock", key="secret")).status == 200
    assert (tmp_path / "data" / "state" / "state.db").exists()


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
async def test_a_pod_is_reached_at_whatever_address_its_cluster_gives_it(started: Server, host: str) -> None:
    here = f"http://{host}:{urlsplit(started.url).port}/healthz"
    assert (await request("GET", here)).status == 200


@pytest.mark.parametrize(
    ("started", "host"),
    [((), "relay-localcloud.relay-cloud.svc"), (EVERYTHING, "cloud.example.com")],
    indirect=["started"],
)
async def test_urls_of_the_cloud_name_a_service_that_has_all_ports(started: Server, host: str) -> None:
    named = ("managementUrl", "inferenceUrl", "gatewayUrl", "sshUrl")
    assert {urlsplit(started.ready[name]).hostname for name in named} == {host}
    service = (await objects())["relay-localcloud Service"]["spec"]
    ports = {one["name"]: one["port"] for one in service["ports"]}
    assert ports == {"management": 8400, "inference": 8401, "gateway": 8402, "ssh": 8403}


@pytest.mark.parametrize("started", [("publicUrl=https://cloud.example.com",)], indirect=True)
async def test_behind_an_ingress_urls_name_that(started: Server) -> None:
    assert started.ready["consoleUrl"] == "https://cloud.example.com/"
    assert urlsplit(started.ready["sshUrl"]).hostname == "relay-localcloud.relay-cloud.svc"


def test_every_option_of_the_program_is_decided_taken_or_left_out() -> None:
    """After a new option: give it a value, let `extraArgs` take it, or say here why it is for no Pod."""
    told = subprocess.run(
        [COMMAND, "serve", "--help"], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True
    ).stdout
    known = set(re.findall(r"^  (?:-h, )?--([a-z-]+)", told, re.MULTILINE))
    assert known - OF_THE_RUNTIME == DECIDED | FURTHER | NEVER
    schema = json.loads((LOCALCLOUD / "values.schema.json").read_text())
    taken = schema["properties"]["extraArgs"]["items"]["pattern"]
    assert all(option in taken for option in FURTHER)


async def test_the_pod_meets_the_restricted_standard_and_writes_to_its_volumes_alone() -> None:
    spec, own = await pod(), await container()
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] == spec["securityContext"]["fsGroup"] == 65532
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert own["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not {"hostNetwork", "hostPID", "hostIPC", "hostUsers"} & set(spec)
    written = [one["mountPath"] for one in own["volumeMounts"] if not one.get("readOnly")]
    assert written == ["/data", "/tmp"]


async def test_with_a_runtime_it_has_a_token_and_its_document_and_otherwise_no_rights_at_all() -> None:
    access = {"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "ValidatingAdmissionPolicy", "ConfigMap"}
    assert not access & {one["kind"] for one in (await objects()).values()}
    found = await objects(*RUNTIME)
    assert access <= {one["kind"] for one in found.values()}
    spec = await pod(*RUNTIME)
    assert (spec["serviceAccountName"], spec["automountServiceAccountToken"]) == ("relay-localcloud", True)
    assert {"--runtime=kubernetes", "--runtime-config=/runtime/config.yaml"} <= set((await container(*RUNTIME))["args"])
    document = yaml.safe_load(found["relay-localcloud-runtime ConfigMap"]["data"]["config.yaml"])
    assert document == {
        "clusters": [{"name": "here", "storageClass": "fast"}],
        "gpuModels": [{"id": "h100", "nodeLabels": {"gpu": "h100"}, "pricePerHourCents": 249}],
        "cpuSizes": [{"resourceSize": "tiny", "vcpu": 1, "ramMb": 512, "pricePerHourCents": 1}],
    }


async def test_a_further_cluster_has_its_kubeconfig_in_a_volume() -> None:
    found = await objects(*RUNTIME, *US, *KUBECONFIGS)
    document = yaml.safe_load(found["relay-localcloud-runtime ConfigMap"]["data"]["config.yaml"])
    assert document["clusters"] == [
        {"name": "here", "storageClass": "fast"},
        {"name": "us", "storageClass": "local-ssd", "kubeconfig": "/kubeconfigs/us"},
    ]
    mounts = (await container(*RUNTIME, *US, *KUBECONFIGS))["volumeMounts"]
    assert {"name": "kubeconfigs", "mountPath": "/kubeconfigs"} in mounts


async def test_it_has_rights_to_vms_only_if_it_offers_images_for_them() -> None:
    def groups(found: dict[str, Manifest]) -> set[str]:
        roles = [one for one in found.values() if one["kind"] == "ClusterRole"]
        return {group for role in roles for rule in role["rules"] for group in rule["apiGroups"]}

    of_vms = {"kubevirt.io", "cdi.kubevirt.io", "snapshot.storage.k8s.io"}
    assert not of_vms & groups(await objects(*RUNTIME))
    assert of_vms <= groups(await objects(*RUNTIME, "runtimeConfig.vmImages.ubuntu=docker://quay.io/ubuntu:24.04"))


async def test_another_document_replaces_the_pod() -> None:
    def told(found: dict[str, Manifest]) -> str:
        template = found["relay-localcloud StatefulSet"]["spec"]["template"]
        return str(template["metadata"]["annotations"]["gpurelay.dev/runtime-config"])

    dearer = ("runtimeConfig.gpuModels[0].pricePerHourCents=250",)
    assert told(await objects(*RUNTIME)) != told(await objects(*RUNTIME, *dearer))


async def test_the_cluster_that_the_chart_is_installed_in_need_not_be_named() -> None:
    found = await objects(*RUNTIME[2:])
    options = found["relay-localcloud StatefulSet"]["spec"]["template"]["spec"]["containers"][0]["args"]
    assert "--runtime=kubernetes" in options
    assert "clusters" not in found["relay-localcloud-runtime ConfigMap"]["data"]["config.yaml"]
    assert "simulated workloads" in refusal(sets(*RUNTIME[2:], "extraArgs={--clock=frozen}"), LOCALCLOUD)


async def test_there_is_never_a_second_pod_and_the_volume_outlives_the_release() -> None:
    found = await objects()
    assert found["relay-localcloud StatefulSet"]["spec"]["replicas"] == 1
    claim = found["relay-localcloud PersistentVolumeClaim"]
    assert claim["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert "storageClassName" not in claim["spec"], "the cluster's default class"
    fast = (await objects("persistence.storageClass=fast"))["relay-localcloud PersistentVolumeClaim"]["spec"]
    assert fast["storageClassName"] == "fast"


async def test_a_secret_of_ones_own_takes_the_place_of_the_charts() -> None:
    found = await objects("adminToken.existingSecret=ours")
    assert not [name for name in found if name.endswith(" Secret")]
    volumes = {one["name"]: one for one in (await pod("adminToken.existingSecret=ours"))["volumes"]}
    assert volumes["admin"]["secret"] == {"secretName": "ours"}


async def test_each_service_leads_to_a_port_of_the_pod() -> None:
    found = await objects("services.gateway.type=LoadBalancer", "services.gateway.annotations.team=ml")
    labels = found["relay-localcloud StatefulSet"]["spec"]["template"]["metadata"]["labels"]
    ports = {one["name"] for one in (await container())["ports"]}
    services = [one for one in found.values() if one["kind"] == "Service"]
    assert len(services) == 5
    for service in services:
        assert service["spec"]["selector"].items() <= labels.items()
        assert {one["targetPort"] for one in service["spec"]["ports"]} <= ports
    gateway = found["relay-localcloud-gateway Service"]
    assert (gateway["spec"]["type"], gateway["metadata"]["annotations"]) == ("LoadBalancer", {"team": "ml"})


async def test_only_who_is_named_reaches_the_cloud_if_somebody_is() -> None:
    (anybody,) = (await objects())["relay-localcloud NetworkPolicy"]["spec"]["ingress"]
    assert "from" not in anybody
    team = "networkPolicy.from[0].namespaceSelector.matchLabels.team=ml"
    found = await objects(team, "networkPolicy.egress=true")
    policy = found["relay-localcloud NetworkPolicy"]["spec"]
    tester = found["relay-localcloud-test Pod"]["metadata"]["labels"]
    named, of_the_test = policy["ingress"][0]["from"]
    assert named == {"namespaceSelector": {"matchLabels": {"team": "ml"}}}
    assert of_the_test["podSelector"]["matchLabels"].items() <= tester.items()
    assert [one["port"] for one in policy["egress"][1]["ports"]] == [443, 8088]
    assert not [name for name in await objects("networkPolicy.enabled=false") if name.endswith(" NetworkPolicy")]


@pytest.mark.parametrize("given", [(), (f"fullnameOverride={'a' * 52}",)], ids=["release", "fullnameOverride"])
async def test_the_longest_name_of_a_release_fits_into_every_name_of_its_objects(given: tuple[str, ...]) -> None:
    command = [str(helm()), "template", "a" * 53, str(LOCALCLOUD), "--namespace", "n" * 63, *sets(*RUNTIME, *given)]
    done = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True
    )
    manifests = objects_in(done.stdout)
    services = [one["metadata"]["name"] for one in manifests if one["kind"] == "Service"]
    assert max(map(len, services)) == 63
    (pods,) = (one["metadata"]["name"] for one in manifests if one["kind"] == "StatefulSet")
    assert len(pods) + len("-0123456789") <= 63, "the label controller-revision-hash"
    for one in manifests:
        labels = [one["metadata"]["labels"], one["spec"]["selector"] if one["kind"] == "Service" else {}]
        assert max(len(value) for found in labels for value in found.values()) <= 63
        assert len(one["metadata"]["name"]) <= 253


async def test_common_labels_are_on_every_object_and_select_nothing() -> None:
    for one in (await objects("commonLabels.cost-center=42a")).values():
        assert one["metadata"]["labels"]["cost-center"] == "42a", one["metadata"]["name"]
        assert "cost-center" not in str(one.get("spec", {}).get("selector"))


async def run_test_of(*ports: int) -> tuple[int, str]:
    """What the Pod of `helm test` ends with if the Services were these ports."""
    (tester,) = (await objects())["relay-localcloud-test Pod"]["spec"]["containers"]
    python, *code, _seconds, gateway, inference, management = tester["command"]
    assert (python, management) == ("python", "relay-localcloud-management.relay-cloud:8400")
    assert (inference, gateway) == (
        "relay-localcloud-inference.relay-cloud:8401",
        "relay-localcloud-gateway.relay-cloud:8402",
    )
    command = [sys.executable, *code, "0", *(f"127.0.0.1:{port}" for port in ports)]
    done = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    return done.returncode, done.stdout + done.stderr


async def test_helm_test_passes_while_all_ports_answer_and_names_one_that_does_not(started: Server) -> None:
    ports = [urlsplit(started.ready[name]).port or 0 for name in ("gatewayUrl", "inferenceUrl", "managementUrl")]
    status, said = await run_test_of(*ports)
    assert (status, said.count(" answers with ")) == (0, 3)
    nobody = free_port()
    status, said = await run_test_of(ports[0], nobody, ports[2])
    assert (status, f"nothing answers at 127.0.0.1:{nobody}" in said) == (1, True)


def test_notes_tell_the_next_command() -> None:
    options = ("--namespace", NAMESPACE, "--dry-run=client", "--output=json")
    command = [str(helm()), "install", "cloud", str(LOCALCLOUD), *options]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True)
    notes = json.loads(shown.stdout)["info"]["notes"]
    assert "get secret cloud-admin" in notes
    assert "http://cloud-management.relay-cloud.svc:8400" in notes
    assert "allowNetworks" in notes
    assert "helm test cloud --namespace relay-cloud" in notes


def test_the_card_names_the_image_of_this_version() -> None:
    card = yaml.safe_load((LOCALCLOUD / "Chart.yaml").read_text())
    (image,) = yaml.safe_load(card["annotations"]["artifacthub.io/images"])
    assert image["image"] == f"relay-localcloud:{card['appVersion']}"
    assert {"home", "icon", "sources", "maintainers", "kubeVersion", "keywords"} <= card.keys()


@each_of(
    (
        Bad("replicas=2", "", "additional properties 'replicas' not allowed"),
        Bad("runtimeConfig.privilegedAllowed=true", "/runtimeConfig", "missing property 'gpuModels'"),
        Bad("serviceAccount.create=false", "/serviceAccount/name", "minLength"),
        Bad("image.tag=a b", "/image/tag", "does not match pattern"),
        Bad("image.digest=sha256:1", "/image/digest", "does not match pattern"),
        Bad("persistence.size=lots", "/persistence/size", "does not match pattern"),
        Bad("persistence.storageClass=Fast", "/persistence/storageClass", "does not match pattern"),
        Bad("adminToken.existingSecret=A Secret", "/adminToken/existingSecret", "does not match pattern"),
        Bad("adminToken.value=secret", "/adminToken", "additional properties 'value' not allowed"),
        Bad("gatewayDomain=", "/gatewayDomain", "does not match pattern"),
        Bad("advertise=https://cloud.example.com", "/advertise", "does not match pattern"),
        Bad("listVms=1", "/listVms", "got number, want boolean"),
        Bad(f"fullnameOverride={'a' * 53}", "/fullnameOverride", "maxLength"),
        Bad("publicUrl=cloud.example.com", "/publicUrl", "does not match pattern"),
    ),
    (
        Bad("runtimeConfig.gpuModel=h100", "/runtimeConfig", "additional properties 'gpuModel' not allowed"),
        Bad(
            "runtimeConfig.clusters[0].kubeconfig=eu", "/runtimeConfig/clusters/0/kubeconfig", "does not match pattern"
        ),
        Bad(
            "runtimeConfig.gpuModels[0].pricePerHourCents=2.49",
            "/runtimeConfig/gpuModels/0/pricePerHourCents",
            "got string, want integer",
        ),
        Bad(
            "runtimeConfig.clusters[0].imagePullPolicy=Never",
            "/runtimeConfig/clusters/0/imagePullPolicy",
            "value must be one of 'Always', 'IfNotPresent'",
        ),
        Bad("runtimeConfig.vmImages.ubuntu=ubuntu", "/runtimeConfig/vmImages/ubuntu", "does not match pattern"),
        Bad("persistence.size=0Gi", "/persistence/size", "does not match pattern"),
        Bad("gatewayDomain=*.example.com", "/gatewayDomain", "does not match pattern"),
        Bad("allowNetworks[0]=10.0.0.0", "/allowNetworks/0", "does not match pattern"),
        Bad("allowNetworks[1]=10.0.0.0/33", "/allowNetworks/1", "does not match pattern"),
        Bad("allowNetworks[2]=10.0.0.256/32", "/allowNetworks/2", "does not match pattern"),
        Bad("allowNetworks[3]=::::/64", "/allowNetworks/3", "does not match pattern"),
        Bad("extraArgs[0]=--public-control", "/extraArgs/0", "does not match pattern"),
        Bad("extraArgs[1]=--port=80", "/extraArgs/1", "does not match pattern"),
        Bad("extraArgs[2]=--clock=scaled", "/extraArgs/2", "does not match pattern"),
        Bad("publicUrl=https://cloud.example.com/console", "/publicUrl", "does not match pattern"),
    ),
    (
        Bad("gatewayDomain=Apps.example.com", "/gatewayDomain", "does not match pattern"),
        Bad("publicUrl=https://cloud.example.com:99999", "/publicUrl", "does not match pattern"),
        Bad("services.console.type=ClusterIP", "/services", "additional properties 'console' not allowed"),
        Bad("services.gateway.port=80", "/services/gateway", "additional properties 'port' not allowed"),
        Bad("services.gateway.type=ExternalName", "/services/gateway/type", "value must be one of"),
        Bad("networkPolicy.egressPorts={99999}", "/networkPolicy/egressPorts/0", "maximum"),
        Bad("resources.limits.memory=lots", "/resources/limits/memory", "does not match pattern"),
        Bad("extraVolumes[0].name=data", "/extraVolumes/0/name", "'not' failed"),
        Bad("extraVolumeMounts[0].mountPath=/data", "/extraVolumeMounts/0/mountPath", "'not' failed"),
        Bad(
            "podLabels.app\\.kubernetes\\.io/name=other",
            "",
            "invalid propertyName 'app.kubernetes.io/name'\n'not' failed",
        ),
        Bad("tolerations[0].keys=gpu", "/tolerations/0", "additional properties 'keys' not allowed"),
    ),
)
def test_a_bad_value_is_refused_with_its_reason(bad: Bad, beside: tuple[Bad, ...]) -> None:
    told = told_of(LOCALCLOUD, beside)
    assert bad.path in told
    assert bad.says in told[bad.path]


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (("extraVolumeMounts[0].name=keys", "extraVolumeMounts[0].mountPath=/keys"), "names the volume keys"),
        (("extraArgs={--key-file=/keys/key}",), "names the file /keys/key, which no volume has"),
        ((*RUNTIME, "nameOverride=cloud"), "nameOverride changes the label"),
        ((*RUNTIME, "extraArgs={--clock=frozen}"), "extraArgs has --clock=frozen, which only a cloud with simulated"),
        ((*RUNTIME, "extraArgs={--seed=/data/seed}"), "extraArgs has --seed=/data/seed, which only a cloud with"),
        (("extraArgs={--seed=/database/x}",), "names the file /database/x, which no volume has"),
        ((*RUNTIME, *US), "names the file /kubeconfigs/us, which no volume has"),
        ((*RUNTIME, *US, "runtimeConfig.clusters[1].name=here"), "give each cluster a name of its own"),
        ((*RUNTIME, *US[:2]), "several clusters without a kubeconfig"),
        ((*RUNTIME, US[0], US[2]), "for each cluster or for none"),
    ],
)
def test_values_that_contradict_each_other_are_refused_with_a_sentence(values: tuple[str, ...], says: str) -> None:
    assert says in refusal(sets(*values), LOCALCLOUD)


def test_a_model_that_is_not_built_in_needs_its_memory() -> None:
    assert "missing property 'memoryGb'" in refusal(sets(*RUNTIME, "runtimeConfig.gpuModels[0].id=mi300x"), LOCALCLOUD)
    schema = json.loads((LOCALCLOUD / "values.schema.json").read_text())
    model = schema["properties"]["runtimeConfig"]["properties"]["gpuModels"]["items"]
    assert model["if"]["properties"]["id"]["enum"] == list(GPU_MODELS)


async def test_the_key_of_secrets_can_come_from_a_secret() -> None:
    values = (
        "extraVolumes[0].name=keys",
        "extraVolumes[0].secret.secretName=cloud-key",
        "extraVolumeMounts[0].name=keys",
        "extraVolumeMounts[0].mountPath=/keys",
        "extraArgs={--key-file=/keys/key}",
    )
    assert "--key-file=/keys/key" in (await container(*values))["args"]
    assert {"name": "keys", "mountPath": "/keys"} in (await container(*values))["volumeMounts"]
