"""What the operator's chart renders, with helm itself; and what holds for every chart."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from hack.release.package import CHARTS
from relay_operator.settings import PREFIX, Settings
from tests.support.binaries import helm
from tests.support.chart import CHART, LOCALCLOUD, definitions, rendered
from tests.support.eventually import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.support.kube import Manifest

GOLDENS = Path(__file__).with_name("goldens")
every_chart = pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.name)
EVERYTHING = (
    "cloud.baseUrl=https://api.example.com",
    "cloud.allowedBaseUrls[0]=https://eu.example.com/api",
    "webhook.publicUrl=https://relay.example.com",
    "webhook.ingress.enabled=true",
    "webhook.ingress.host=relay.example.com",
    "webhook.ingress.tlsSecretName=relay-tls",
    "webhook.httpRoute.enabled=true",
    "webhook.httpRoute.host=relay.example.com",
    "webhook.httpRoute.parentRefs[0].name=public",
    "networkPolicy.egress=true",
    "networkPolicy.metricsFrom[0].namespaceSelector.matchLabels.team=monitoring",
    "metrics.serviceMonitor.enabled=true",
    "metrics.serviceMonitor.scrapeTimeout=10s",
    "metrics.prometheusRule.enabled=true",
    "settings.pollSettledSeconds=120",
)


def helm_run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(helm()), *arguments], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )


def of_kind(manifests: Iterable[Manifest], *kinds: str) -> list[Manifest]:
    return [one for one in manifests if one["kind"] in kinds]


def only(manifests: Iterable[Manifest], kind: str) -> Manifest:
    (found,) = of_kind(manifests, kind)
    return found


def pod_of(manifests: Iterable[Manifest]) -> dict[str, Any]:
    spec: dict[str, Any] = only(manifests, "Deployment")["spec"]["template"]["spec"]
    return spec


def rules_of(manifests: Iterable[Manifest]) -> list[dict[str, Any]]:
    return [rule for role in of_kind(manifests, "Role", "ClusterRole") for rule in role["rules"]]


@every_chart
def test_a_chart_lints_without_a_warning(chart: Path) -> None:
    linted = helm_run("lint", "--strict", str(chart))
    assert linted.returncode == 0, linted.stdout


@pytest.mark.parametrize(
    ("chart", "golden", "values", "kinds"),
    [
        (CHART, "access", (), ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")),
        (CHART, "workload", EVERYTHING, ("Deployment", "Service", "Ingress", "HTTPRoute", "PodDisruptionBudget")),
        (LOCALCLOUD, "localcloud", (), ("StatefulSet", "PersistentVolumeClaim", "Service", "NetworkPolicy")),
    ],
)
async def test_what_is_rendered_is_what_was_reviewed(
    chart: Path, golden: str, values: tuple[str, ...], kinds: tuple[str, ...]
) -> None:
    """After a change that is meant: look at the difference, then write what the failure shows into the file."""
    manifests = of_kind(await rendered("relay-system", *values, chart=chart), *kinds)
    expected = list(yaml.safe_load_all((GOLDENS / f"{golden}.yaml").read_text()))
    assert manifests == expected


@pytest.mark.parametrize("values", [(), EVERYTHING, ("watchNamespaces[0]=team",)])
async def test_rights_name_what_they_are_for_and_never_list_secrets(values: tuple[str, ...]) -> None:
    for rule in rules_of(await rendered("relay-system", *values)):
        assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]], rule
        if "secrets" in rule["resources"]:
            assert not {"list", "watch", "delete", "update"} & set(rule["verbs"]), rule


async def test_with_watched_namespaces_only_own_kinds_and_keys_by_name_are_granted_outside_of_them() -> None:
    manifests = await rendered(
        "relay-system", "watchNamespaces[0]=team", "watchNamespaces[1]=lab", "rbac.aggregate=false"
    )
    rules = [rule for role in of_kind(manifests, "ClusterRole") for rule in role["rules"]]
    foreign = [rule for rule in rules if rule["apiGroups"] != ["gpurelay.dev"]]
    assert foreign == [
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "patch"], "resourceNames": ["relay-api-key"]},
        {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]},
    ]
    of_people = [rule for rule in rules if rule["resources"] != ["gpumodels"]]
    assert {verb for rule in of_people for verb in rule["verbs"]} == {"get", "list", "watch", "patch"}
    assert {one["metadata"]["namespace"] for one in of_kind(manifests, "Role")} == {"team", "lab", "relay-system"}
    env = {one["name"]: one.get("value") for one in pod_of(manifests)["containers"][0]["env"]}
    assert env["RELAY_WATCH_NAMESPACES"] == "team,lab"
    assert env["RELAY_ACCOUNT_SECRET_NAMES"] == "relay-api-key"


async def test_without_names_no_secret_is_granted_outside_of_watched_namespaces() -> None:
    values = ("watchNamespaces[0]=team", "accountSecretNames=null", "rbac.aggregate=false")
    manifests = await rendered("relay-system", *values)
    roles = of_kind(manifests, "ClusterRole")
    assert roles
    assert not [rule for role in roles for rule in role["rules"] if "secrets" in rule["resources"]]


async def test_nobody_but_who_is_named_may_read_the_metrics() -> None:
    by_default = only(await rendered("relay-system"), "NetworkPolicy")["spec"]
    assert by_default["policyTypes"] == ["Ingress"]
    assert by_default["ingress"] == [{"ports": [{"port": "webhook", "protocol": "TCP"}]}]
    policy = only(await rendered("relay-system", *EVERYTHING), "NetworkPolicy")["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    monitoring = {"namespaceSelector": {"matchLabels": {"team": "monitoring"}}}
    assert policy["ingress"][1] == {"ports": [{"port": "metrics", "protocol": "TCP"}], "from": [monitoring]}
    assert not of_kind(await rendered("relay-system", "networkPolicy.enabled=false"), "NetworkPolicy")


@every_chart
async def test_calls_may_leave_for_any_pod_and_any_address_but_those_of_a_nodes_metadata(chart: Path) -> None:
    policy = only(await rendered("relay-system", "networkPolicy.egress=true", chart=chart), "NetworkPolicy")["spec"]
    names, calls = policy["egress"]
    assert {one["port"] for one in names["ports"]} == {53}
    assert calls["to"] == [
        {"namespaceSelector": {}},
        {"ipBlock": {"cidr": "0.0.0.0/0", "except": ["169.254.0.0/16"]}},
        {"ipBlock": {"cidr": "::/0", "except": ["fe80::/10", "fd00:ec2::254/128"]}},
    ]
    assert {one["protocol"] for one in calls["ports"]} == {"TCP"}


async def test_the_pod_meets_the_restricted_standard_and_writes_nowhere() -> None:
    pod = pod_of(await rendered("relay-system"))
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not {"hostNetwork", "hostPID", "hostIPC", "hostUsers"} & set(pod)
    assert [list(volume) for volume in pod["volumes"]] == [["name", "emptyDir"]]
    assert not container.get("command"), "the image has no shell to run one with"


@every_chart
def test_openshift_gives_pods_their_user_and_groups_and_has_a_port_of_its_own_for_names(chart: Path) -> None:
    constraints = "security.openshift.io/v1/SecurityContextConstraints"
    values = ("--set", "extraVolumes[0].name=more,extraVolumes[0].emptyDir.medium=Memory,networkPolicy.egress=true")
    for given, named in (((), True), (("--api-versions", constraints), False)):
        text = helm_run("template", "relay", str(chart), *values, *given).stdout
        assert ("65532" in text, "5353" in text) == (named, not named)
        assert text.count("runAsNonRoot: true") == 2


@every_chart
async def test_where_a_quota_asks_for_a_limit_of_cpu_helm_test_has_one_too(chart: Path) -> None:
    manifests = await rendered("relay-system", "resources.limits.cpu=1", chart=chart)
    pods = [one["spec"] for one in of_kind(manifests, "Pod")]
    pods += [one["spec"]["template"]["spec"] for one in of_kind(manifests, "Deployment", "StatefulSet")]
    assert [one["resources"]["limits"]["cpu"] for pod in pods for one in pod["containers"]] == [1, 1]


async def test_folders_for_files_of_batches_can_be_mounted_beside_its_own() -> None:
    pod = pod_of(
        await rendered(
            "relay-system",
            "settings.fileRoots=/data",
            "extraVolumes[0].name=data",
            "extraVolumes[0].persistentVolumeClaim.claimName=batch-data",
            "extraVolumeMounts[0].name=data",
            "extraVolumeMounts[0].mountPath=/data",
        )
    )
    assert pod["volumes"][1:] == [{"name": "data", "persistentVolumeClaim": {"claimName": "batch-data"}}]
    assert pod["containers"][0]["volumeMounts"] == [
        {"name": "tmp", "mountPath": "/tmp"},
        {"name": "data", "mountPath": "/data"},
    ]
    assert pod["securityContext"]["fsGroup"] == 65532
    assert {"name": "RELAY_FILE_ROOTS", "value": "/data"} in pod["containers"][0]["env"]


async def test_every_variable_is_a_setting_of_the_operator() -> None:
    (container,) = pod_of(await rendered("relay-system", *EVERYTHING))["containers"]
    known = {f"{PREFIX}{name}".upper() for name in Settings.model_fields} | {"POD_NAME"}
    assert {one["name"] for one in container["env"]} <= known


async def test_webhooks_reach_the_leader_alone_and_metrics_come_from_every_replica() -> None:
    manifests = await rendered("relay-system")
    services = {one["metadata"]["name"]: one["spec"] for one in of_kind(manifests, "Service")}
    labels = only(manifests, "Deployment")["spec"]["template"]["metadata"]["labels"]
    webhook, metrics = services["relay-operator-webhook"], services["relay-operator-metrics"]
    assert webhook["selector"].pop("gpurelay.dev/leader") == "true"
    assert "gpurelay.dev/leader" not in labels, "the leader puts it on its own Pod"
    for service in (webhook, metrics):
        assert service["selector"].items() <= labels.items()


async def test_crds_are_kept_when_the_chart_goes_and_are_those_of_the_folder() -> None:
    crds = of_kind(await rendered("relay-system", crds=True), "CustomResourceDefinition")
    assert [one["spec"] for one in sorted(crds, key=lambda one: str(one["metadata"]["name"]))] == [
        one["spec"] for one in definitions()
    ]
    assert {one["metadata"]["annotations"]["helm.sh/resource-policy"] for one in crds} == {"keep"}
    assert not of_kind(await rendered("relay-system"), "CustomResourceDefinition")


def paths_of(values: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in values.items():
        if isinstance(value, dict) and value and name != "resources":
            yield from paths_of(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


@every_chart
def test_every_value_is_explained(chart: Path) -> None:
    explained = set(re.findall(r"`([\w.]+)`", (chart / "README.md").read_text()))
    assert set(paths_of(yaml.safe_load((chart / "values.yaml").read_text()))) <= explained
