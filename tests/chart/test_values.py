"""Which values a chart takes, and which it refuses before anything is installed; most of this is the operator's."""

from __future__ import annotations

import json
import re
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from pydantic import ValidationError
from pydantic.alias_generators import to_camel

from hack.release.package import CHARTS
from relay_operator.kinds import KINDS
from relay_operator.settings import Settings
from tests.chart.bad_values import Bad, each_of, told_of
from tests.support.binaries import helm
from tests.support.chart import CHART, FOREIGN_KINDS, LOCALCLOUD, RELEASE, objects_in, refusal, rendered, sets, template
from tests.support.eventually import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.kube import Manifest

every_chart = pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.name)
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())
OF_THE_CHART = {
    *("watch_namespaces", "account_secret_names", "assumed_kinds", "namespace", "leader_election", "lease_name"),
    *("allowed_base_urls", "default_base_url", "default_inference_url"),
    *("webhook_listen", "webhook_public_url", "metrics_listen"),
}
"""Settings that have a value of their own, or that the chart decides."""
LISTS = ("fileRoots", "allowedPrivateNetworks")
"""Settings that are lists in the operator and texts in the chart, each with a pattern."""
BOUNDS = ("type", "enum", "minimum", "exclusiveMinimum", "maximum", "maxLength", "pattern")


def values_file(folder: Path, values: Manifest) -> tuple[str, str]:
    path = folder / "values.yaml"
    path.write_text(yaml.safe_dump(values))
    return ("--values", str(path))


def rendered_with(folder: Path, values: Manifest, kind: str) -> list[Manifest]:
    """The objects of one kind that the chart makes of a values file."""
    command = template(CHART, *values_file(folder, {"crds": {"install": False}, **values}))
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True)
    return [one for one in objects_in(done.stdout) if one["kind"] == kind]


def mistyped(values: dict[str, Any]) -> dict[str, Any]:
    """The same tree with each leaf of another type; true is no string, number, list or object."""
    return {
        name: mistyped(value) if isinstance(value, dict) and value else ("yes" if isinstance(value, bool) else True)
        for name, value in values.items()
    }


def leaves(values: dict[str, Any], under: str = "") -> Iterator[str]:
    for name, value in values.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, f"{under}/{name}")
        else:
            yield f"{under}/{name}"


def with_a_surprise(values: dict[str, Any]) -> dict[str, Any]:
    """The same tree with one key more in each object, of a value that none can take."""
    inner = {name: with_a_surprise(value) for name, value in values.items() if isinstance(value, dict)}
    return values | inner | {"surprise": [[]]}


def objects(values: dict[str, Any], under: str = "") -> Iterator[str]:
    yield under
    for name, value in values.items():
        if isinstance(value, dict):
            yield from objects(value, f"{under}/{name}")


def defaults(chart: Path) -> dict[str, Any]:
    values: dict[str, Any] = yaml.safe_load((chart / "values.yaml").read_text())
    return values


@every_chart
def test_every_value_of_a_wrong_type_is_refused_by_its_name(chart: Path, tmp_path: Path) -> None:
    said = refusal(values_file(tmp_path, mistyped(defaults(chart))), chart)
    assert [path for path in leaves(defaults(chart)) if f"at '{path}'" not in said] == []


@every_chart
def test_an_unknown_key_is_refused_wherever_it_is(chart: Path, tmp_path: Path) -> None:
    said = refusal(values_file(tmp_path, with_a_surprise(defaults(chart))), chart)
    refused = {path.removesuffix("/surprise") for path in re.findall(r"at '([^']*)'", said)}
    assert [path for path in objects(defaults(chart)) if path not in refused] == []


def test_the_settings_that_the_chart_takes_are_those_of_the_operator() -> None:
    """After a change of a setting: write what the failure shows into the schema."""
    known = {
        to_camel(name): {"type": "string"}
        if schema.get("type") == "array"
        else {key: schema[key] for key in BOUNDS if key in schema}
        for name, schema in Settings.model_json_schema()["properties"].items()
        if name not in OF_THE_CHART
    }
    taken = SCHEMA["properties"]["settings"]["properties"]
    assert {name: {"type": "string"} if name in LISTS else schema for name, schema in taken.items()} == known


@pytest.mark.parametrize(
    ("setting", "good", "bad"),
    [
        (
            "default_base_url",
            (
                *("", "https://api.example.com", "http://10.0.0.7:1/", "https://[fd00::1]:65535"),
                *("https://a.b/v1/x-~_.y", "https://API.example.com:8443/v1/"),
            ),
            (
                *("https://a:99999", "https://a:65536", "https://a:0", "https://a:", "https://a,https://b"),
                *(
                    "https://a b",
                    "https://a//",
                    "https://a/../b",
                    "https://a/.",
                    "https://a/%20",
                    "https://-a",
                    "https://ä.example",
                ),
            ),
        ),
        (
            "file_roots",
            ("", "/data", "/data,/more/data", "/data, /more", " /a\t/b ", "/..data/x", "/a..b/"),
            ("data", "/data,more", "./data", "/", "/data/..", "/../etc", "/a/../b,/c", "~/data"),
        ),
        (
            "allowed_private_networks",
            (
                *("", "10.0.0.0/8", "10.96.0.0/12,fd00:1::/64", "10.0.0.7", "10.0.0.0/255.0.0.0, ::1"),
                *("10.96.0.1/12", "fd00:1::1/64", "::/0", "1:2:3:4:5:6:7:8/128", "1::8", "1:2:3:4:5:6:7::"),
                *("FD00::1:2", "0.0.0.0/0", "255.255.255.255/32", "10.0.0.0/255.255.240.0"),
            ),
            (
                *("intranet", "10.0.0.0/8;10.1.0.0/16", "10.0.0.0/8,x", "http://10.0.0.1"),
                *("10.0.0.0/33", "10.0.0.256", "10.0.0/8", "010.0.0.0/8", "10.0.0.0/255.0.255.0", "fd00::/129"),
                *("::::", ":::", "1::2::3", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "12345::", ":1", "1:", "fd00::/"),
            ),
        ),
    ],
)
def test_the_chart_takes_no_text_that_the_operator_would_refuse_at_its_start(
    setting: str, good: tuple[str, ...], bad: tuple[str, ...]
) -> None:
    schema = SCHEMA["properties"]["settings"]["properties"].get(to_camel(setting), SCHEMA["definitions"]["url"])
    assert [text for text in good + bad if taken_by_the_chart(text, schema)] == list(good)
    assert [text for text in good + bad if taken_by_the_operator(setting, text)] == list(good)


def taken_by_the_chart(text: str, schema: dict[str, Any]) -> bool:
    refused = schema.get("not", {}).get("pattern")
    return bool(re.search(schema["pattern"], text)) and not (refused and re.search(refused, text))


def taken_by_the_operator(setting: str, text: str) -> bool:
    try:
        Settings.model_validate({setting: text})
    except ValidationError:
        return False
    return True


def test_the_kinds_that_the_chart_switches_on_are_those_that_are_off() -> None:
    listed = SCHEMA["properties"]["assumedKinds"]["items"]["enum"]
    assert listed == [kind.name for kind in KINDS if kind.assumed]


@each_of(
    (
        Bad(
            "assumedKinds={GpuPod}",
            "/assumedKinds/0",
            "value must be one of 'VmSnapshot', 'InferenceBackend', 'NodeReservation', 'ServingDeployment'",
        ),
        Bad("replica=3", "", "additional properties 'replica' not allowed"),
        Bad("replicas=6", "/replicas", "maximum"),
        Bad("image.tag=a b", "/image/tag", "does not match pattern"),
        Bad("image.repository=relay-operator:0.1.0", "/image/repository", "does not match pattern"),
        Bad("image.digest=sha256:1", "/image/digest", "does not match pattern"),
        Bad("cloud.baseUrl=ftp://x", "/cloud/baseUrl", "does not match pattern"),
        Bad("cloud.allowedBaseUrls[0]=https://api.example.com/../x", "/cloud/allowedBaseUrls/0", "'not' failed"),
        Bad("webhook.publicUrl=https://relay.example.com:65536", "/webhook/publicUrl", "does not match pattern"),
        Bad("webhook.httpRoute.enabled=true", "/webhook/httpRoute/parentRefs", "minItems"),
        Bad("settings.fileRoots=data", "/settings/fileRoots", "does not match pattern"),
        Bad("settings.wrkers=3", "/settings", "additional properties 'wrkers' not allowed"),
        Bad("settings.workers=abc", "/settings/workers", "got string, want integer"),
        Bad("strategy.type=OnDelete", "/strategy/type", "value must be one of"),
        Bad("podDisruptionBudget.maxUnavailable=0", "/podDisruptionBudget/maxUnavailable", "'not' failed"),
        Bad("tolerations[0].keys=gpu", "/tolerations/0", "additional properties 'keys' not allowed"),
    ),
    (
        Bad("cloud.baseUrl=https://user@host", "/cloud/baseUrl", "does not match pattern"),
        Bad("settings.fileRoots=/data/..", "/settings/fileRoots", "'not' failed"),
        Bad("settings.watchNamespaces=a", "/settings", "additional properties 'watchNamespaces' not allowed"),
        Bad("settings.workers=0", "/settings/workers", "minimum: got 0, want 1"),
        Bad("settings.logLevel=loud", "/settings/logLevel", "value must be one of"),
        Bad("watchNamespaces[0]=Team", "/watchNamespaces/0", "does not match pattern"),
        Bad("fullnameOverride=Relay", "/fullnameOverride", "does not match pattern"),
        Bad("serviceAccount.create=false", "/serviceAccount/name", "minLength"),
        Bad("resources.requests.cpu.heldout[0]=x", "/resources/requests/cpu", "got object, want string"),
        Bad("resources.limits.memory=lots", "/resources/limits/memory", "does not match pattern"),
        Bad("extraVolumes[0].name=tmp", "/extraVolumes/0/name", "'not' failed"),
        Bad("extraVolumeMounts[0].mountPath=data", "/extraVolumeMounts/0/mountPath", "does not match pattern"),
        Bad("extraEnv[0].name=RELAY_WORKERS", "/extraEnv/0/name", "'not' failed"),
        Bad("extraArgs=--help", "/extraArgs", "got string, want array"),
        Bad("extraObjects[0].kind=ConfigMap", "/extraObjects/0", "missing propert"),
        Bad("webhook.httpRoute=null", "/webhook", "missing property 'httpRoute'"),
        Bad("strategy.rollingUpdate=null", "/strategy", "missing property 'rollingUpdate'"),
    ),
    (
        Bad("cloud.baseUrl=https://api.example.com:99999", "/cloud/baseUrl", "does not match pattern"),
        Bad(
            "commonLabels.app\\.kubernetes\\.io/name=other",
            "",
            "invalid propertyName 'app.kubernetes.io/name'\n'not' failed",
        ),
        Bad(
            "podLabels.gpurelay\\.dev/leader=true",
            "",
            "invalid propertyName 'gpurelay.dev/leader'\n'not' failed",
        ),
        Bad("podDisruptionBudget.minAvailable=half", "/podDisruptionBudget/minAvailable", "does not match pattern"),
        Bad("affinity.nodeAfinity.x=1", "/affinity", "additional properties 'nodeAfinity' not allowed"),
        Bad("leaderElection.leaseName=", "/leaderElection/leaseName", "does not match pattern"),
        Bad("extraEnv[0].name=Relay_watch_namespaces", "/extraEnv/0/name", "'not' failed"),
        Bad("metrics=null", "", "missing property 'metrics'"),
    ),
)
def test_a_bad_value_is_refused_with_its_reason(bad: Bad, beside: tuple[Bad, ...]) -> None:
    told = told_of(CHART, beside)
    assert bad.path in told
    assert bad.says in told[bad.path]


NEEDED = {"repository", "replicas", "leaseName", "type", "port", "create", "size", "gatewayDomain"}
"""Names of values that cannot be empty."""
SWITCHED_ON: dict[Path, Manifest] = {
    CHART: {
        "crds": {"install": False},
        "webhook": {
            "publicUrl": "https://relay.example.com",
            "ingress": {"enabled": True, "tlsSecretName": "relay-tls"},
            "httpRoute": {"enabled": True, "parentRefs": [{"name": "public"}]},
        },
        "metrics": {name: {"enabled": True} for name in ("serviceMonitor", "prometheusRule", "dashboard")},
        "networkPolicy": {"enabled": True, "egress": True, "metricsFrom": [{"podSelector": {}}]},
        "podDisruptionBudget": {"enabled": True},
        "admissionPolicy": {"enabled": True},
        "rbac": {"aggregate": True},
        "watchNamespaces": ["team"],
    },
    LOCALCLOUD: {
        "networkPolicy": {"enabled": True, "egress": True},
        "admissionPolicy": {"enabled": True},
        "runtimeConfig": {"gpuModels": [{"id": "h100", "nodeLabels": {"gpu": "h100"}, "pricePerHourCents": 1}]},
    },
}


def emptied(values: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """The same tree without a value, but what is given and what is needed."""
    return given | {
        name: emptied(value, given.get(name, {})) if isinstance(value, dict) and value else given.get(name)
        for name, value in values.items()
        if name not in NEEDED
    }


@every_chart
@pytest.mark.parametrize("switched_on", [False, True], ids=["default", "switched on"])
def test_a_key_without_a_value_is_the_empty_value(chart: Path, switched_on: bool, tmp_path: Path) -> None:
    values = emptied(defaults(chart), SWITCHED_ON[chart] if switched_on else {})
    foreign = [part for kind in FOREIGN_KINDS for part in ("--api-versions", kind)]
    command = template(chart, *foreign, *values_file(tmp_path, values))
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@every_chart
def test_a_key_with_values_beneath_it_cannot_be_empty(chart: Path, tmp_path: Path) -> None:
    names = {name for name, value in defaults(chart).items() if isinstance(value, dict) and value} - {"resources"}
    said = refusal(values_file(tmp_path, dict.fromkeys(names)), chart)
    missing = re.search(r"at '': missing properties (.*)", said)
    assert missing is not None, said
    assert set(re.findall(r"'(\w+)'", missing[1])) == names


INGRESS = "webhook.ingress.enabled=true"
EGRESS = "networkPolicy.enabled=true", "networkPolicy.egress=true"
ROUTE = ("webhook.httpRoute.enabled=true", "webhook.httpRoute.parentRefs[0].name=public")
PUBLIC = "webhook.publicUrl=https://relay.example.com"
DEEP = "webhook.publicUrl=https://relay.eu.example.com"
SCRAPED = ("metrics.serviceMonitor.enabled=true", "networkPolicy.metricsFrom[0].podSelector.matchLabels.a=b")


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ((INGRESS,), "webhook.ingress.enabled needs webhook.publicUrl"),
        (ROUTE, "webhook.httpRoute.enabled needs webhook.publicUrl"),
        ((PUBLIC, INGRESS, "webhook.ingress.host=other.example.com"), "webhook.ingress.host is other.example.com"),
        ((PUBLIC, *ROUTE, "webhook.httpRoute.host=*.example.org"), "webhook.httpRoute.host is *.example.org"),
        ((f"{PUBLIC}/relay", INGRESS), "has the path /relay"),
        ((DEEP, INGRESS, "webhook.ingress.host=*.example.com"), "webhook.ingress.host is *.example.com"),
        (("webhook.publicUrl=https://10.0.0.7:8443", INGRESS), "webhook.publicUrl has the address 10.0.0.7"),
        (("webhook.publicUrl=https://[fd00::1]", *ROUTE), "webhook.publicUrl has the address fd00::1"),
        (("webhook.publicUrl=https://relay..example.com", INGRESS), "that of webhook.publicUrl is relay..example.com"),
        ((*EGRESS, "cloud.baseUrl=http://cloud.local:8400"), "add the port 8400 to networkPolicy.egressPorts"),
        ((*EGRESS, "cloud.inferenceUrl=http://cloud.local"), "add the port 80 to networkPolicy.egressPorts"),
        ((*EGRESS, "cloud.baseUrl=https://cloud.local", "networkPolicy.egressPorts={6443}"), "add the port 443 to"),
        (("podDnsPolicy=None",), "name some in podDnsConfig.nameservers"),
        (("podDnsPolicy=None", "podDnsConfig.searches[0]=a.example.com"), "name some in podDnsConfig.nameservers"),
        (("podDisruptionBudget.minAvailable=1", "replicas=1"), "keeps every node from being drained"),
        (("podDisruptionBudget.minAvailable=51%",), "keeps every node from being drained"),
        (("podDisruptionBudget.minAvailable=1", "podDisruptionBudget.maxUnavailable=1"), "not both"),
        (("metrics.serviceMonitor.enabled=true",), "name its namespace in networkPolicy.metricsFrom"),
        (("strategy.rollingUpdate.maxSurge=0",), "no Pod could be replaced"),
        (("settings.leaseDurationSeconds=10",), "leaseRenewDeadlineSeconds=10, and that below leaseDurationSeconds=10"),
        (("settings.leaseRetrySeconds=10",), "leaseRetrySeconds=10 must be below leaseRenewDeadlineSeconds=10"),
        (("settings.backoffMaxSeconds=1", "settings.backoffInitialSeconds=2"), "must not be above backoffMaxSeconds=1"),
        (("extraVolumeMounts[0].name=data", "extraVolumeMounts[0].mountPath=/data"), "names the volume data"),
    ],
)
def test_values_that_contradict_each_other_are_refused_with_a_sentence(values: tuple[str, ...], says: str) -> None:
    foreign = [part for kind in FOREIGN_KINDS for part in ("--api-versions", kind)]
    assert says in refusal([*foreign, *sets(*values)])


@pytest.mark.parametrize("values", [(), ("podDisruptionBudget.minAvailable=1",)], ids=["default", "minAvailable"])
async def test_without_replicas_there_is_no_budget_that_could_contradict_them(values: tuple[str, ...]) -> None:
    manifests = await rendered("relay-system", "replicas=0", *values)
    assert [one["kind"] for one in manifests if one["kind"] == "PodDisruptionBudget"] == []


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (("metrics.serviceMonitor.enabled=true",), "monitoring.coreos.com/v1/ServiceMonitor"),
        (("metrics.prometheusRule.enabled=true",), "monitoring.coreos.com/v1/PrometheusRule"),
        ((PUBLIC, *ROUTE), "gateway.networking.k8s.io/v1/HTTPRoute"),
    ],
)
def test_kinds_that_the_cluster_lacks_are_refused_before_anything_is_installed(
    values: tuple[str, ...], kind: str
) -> None:
    assert f"needs the kind {kind}, which this cluster does not have" in refusal(sets(*values))


@every_chart
@pytest.mark.parametrize("release", ["team.relay-operator", "2-relay-operator"])
def test_a_name_that_no_service_can_have_is_refused_before_anything_is_installed(chart: Path, release: str) -> None:
    command = [str(helm()), "template", release, str(chart)]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert f"Services cannot be named after {release}: set fullnameOverride" in refused.stderr
    named = [*command, "--set", "fullnameOverride=relay"]
    assert subprocess.run(named, capture_output=True, timeout=PATIENCE_SECONDS, check=False).returncode == 0


@every_chart
def test_a_cluster_that_is_too_old_is_refused(chart: Path) -> None:
    assert "incompatible with Kubernetes v1.29.9" in refusal(["--kube-version", "1.29.9"], chart)


@pytest.mark.parametrize("given", [(), ("webhook.ingress.host=*.example.com",)])
async def test_ways_in_lead_from_the_host_of_the_public_url(given: tuple[str, ...]) -> None:
    manifests = {one["kind"]: one for one in await rendered("relay-system", PUBLIC, INGRESS, *ROUTE, *given)}
    host = "*.example.com" if given else "relay.example.com"
    assert manifests["Ingress"]["spec"]["rules"][0]["host"] == host
    assert manifests["HTTPRoute"]["spec"]["hostnames"] == ["relay.example.com"]


async def test_the_host_of_a_way_in_is_in_small_letters() -> None:
    given = ("webhook.publicUrl=https://Relay.Example.com", "webhook.ingress.tlsSecretName=relay-tls")
    for hosts in ((), ("webhook.ingress.host=relay.example.com", "webhook.httpRoute.host=relay.example.com")):
        rendering = await rendered("relay-system", INGRESS, *ROUTE, *given, *hosts)
        manifests = {one["kind"]: one["spec"] for one in rendering if "spec" in one}
        assert manifests["Ingress"]["rules"][0]["host"] == "relay.example.com"
        assert manifests["Ingress"]["tls"][0]["hosts"] == ["relay.example.com"]
        assert manifests["HTTPRoute"]["hostnames"] == ["relay.example.com"]


async def test_an_asterisk_of_a_route_covers_more_than_one_label() -> None:
    manifests = await rendered("relay-system", DEEP, *ROUTE, "webhook.httpRoute.host=*.example.com")
    (route,) = (one["spec"] for one in manifests if one["kind"] == "HTTPRoute")
    assert route["hostnames"] == ["*.example.com"]


@pytest.mark.parametrize(
    ("lasts", "interval", "fits"),
    [
        ("30s", "10s", False),
        ("60s1ms", "1m", False),
        ("61s", "1m", False),
        ("1m31s", "1m30s", False),
        ("1h1ms", "60m", False),
        ("500ms", "400ms", False),
        ("90s", "1m30s", True),
        ("500ms", "1s", True),
        ("09s", "010s", True),
        ("59m", "1h", True),
    ],
)
async def test_a_scrape_takes_no_longer_than_the_time_between_two(lasts: str, interval: str, fits: bool) -> None:
    """The Prometheus operator would skip a ServiceMonitor of which it does."""
    times = {"scrapeTimeout": lasts, "interval": interval}
    values = (*SCRAPED, *(f"metrics.serviceMonitor.{name}={value}" for name, value in times.items()))
    if not fits:
        with pytest.raises(AssertionError, match=f"scrapeTimeout={lasts} must not be above interval={interval}"):
            await rendered("relay-system", *values)
        return
    manifests = await rendered("relay-system", *values)
    (monitor,) = (one["spec"] for one in manifests if one["kind"] == "ServiceMonitor")
    assert monitor["endpoints"][0].items() >= times.items()


def test_numbers_of_a_values_file_reach_the_operator_as_they_are(tmp_path: Path) -> None:
    """Helm reads them as floats, whose text for a million would be 1e+06."""
    settings = {"webhookBodyLimitBytes": 2_097_152, "pollJitter": 0.1, "logLevel": "debug", "leaseRetrySeconds": 1}
    (deployment,) = rendered_with(tmp_path, {"settings": settings}, "Deployment")
    env = {one["name"]: one.get("value") for one in deployment["spec"]["template"]["spec"]["containers"][0]["env"]}
    read = Settings.model_validate({name: env[f"RELAY_{name.upper()}"] for name in ("webhook_body_limit_bytes",)})
    assert read.webhook_body_limit_bytes == 2_097_152
    assert (env["RELAY_POLL_JITTER"], env["RELAY_LOG_LEVEL"], env["RELAY_LEASE_RETRY_SECONDS"]) == ("0.1", "debug", "1")


@pytest.mark.parametrize(("settings", "seconds"), [({}, 60), ({"shutdownSeconds": 90.5}, 131)])
def test_passes_have_the_time_to_finish_that_their_setting_gives_them(
    settings: Manifest, seconds: int, tmp_path: Path
) -> None:
    (deployment,) = rendered_with(tmp_path, {"settings": settings}, "Deployment")
    assert deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == seconds
    assert Settings.model_fields["shutdown_seconds"].default + 40 == 60


def test_the_chart_and_the_operator_know_the_same_default_times() -> None:
    texts = [
        (CHART / "templates" / name).read_text() for name in ("contradictions.yaml", "deployment.yaml", "NOTES.txt")
    ]
    known = re.findall(r'dig "(\w+)" (\d+) ', "".join(texts))
    fields = {to_camel(name): field.default for name, field in Settings.model_fields.items()}
    assert known == [(name, str(fields[name])) for name, _ in known] != []


async def test_what_a_site_adds_to_pods_is_there() -> None:
    manifests = await rendered(
        "relay-system",
        "extraEnv[0].name=HTTPS_PROXY",
        "extraEnv[0].value=http://proxy:3128",
        "extraArgs[0]=--help",
        "hostAliases[0].ip=10.0.0.7",
        "hostAliases[0].hostnames[0]=api.example.com",
        "podDnsPolicy=None",
        "podDnsConfig.nameservers[0]=10.0.0.53",
        "runtimeClassName=gvisor",
        "deploymentAnnotations.team=search",
        "strategy.type=Recreate",
    )
    (deployment,) = (one for one in manifests if one["kind"] == "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    assert deployment["metadata"]["annotations"] == {"team": "search"}
    assert deployment["spec"]["strategy"] == {"type": "Recreate"}
    assert {"name": "HTTPS_PROXY", "value": "http://proxy:3128"} in pod["containers"][0]["env"]
    assert pod["containers"][0]["args"] == ["run", "--help"]
    assert pod["hostAliases"] == [{"ip": "10.0.0.7", "hostnames": ["api.example.com"]}]
    assert (pod["dnsPolicy"], pod["dnsConfig"]) == ("None", {"nameservers": ["10.0.0.53"]})
    assert pod["runtimeClassName"] == "gvisor"


DIGITS = "2024"
OF_BOTH: Manifest = {
    "fullnameOverride": "true",
    "serviceAccount": {"name": DIGITS},
    "priorityClassName": DIGITS,
    "podLabels": {"team": DIGITS},
}
NAMED: list[tuple[Path, Manifest]] = [
    (
        CHART,
        {
            "nameOverride": DIGITS,
            "webhook": {"ingress": {"className": DIGITS, "tlsSecretName": DIGITS}},
            "watchNamespaces": [DIGITS],
            "accountSecretNames": [DIGITS],
            "leaderElection": {"leaseName": DIGITS},
            "runtimeClassName": DIGITS,
        },
    ),
    (LOCALCLOUD, {"adminToken": {"existingSecret": DIGITS}, "persistence": {"storageClass": DIGITS}}),
    (LOCALCLOUD, {"nameOverride": DIGITS, "runtimeConfig": None}),
]


def scalars(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from scalars(inner, f"{path}/{name}")
    elif isinstance(value, list):
        for inner in value:
            yield from scalars(inner, path)
    else:
        yield path, value


def merged(one: Manifest, other: Manifest) -> Manifest:
    """Both trees in one; where both have a value, that of the other."""
    both = (name for name in one.keys() & other.keys() if isinstance(one[name], dict) and isinstance(other[name], dict))
    return one | other | {name: merged(one[name], other[name]) for name in both}


@pytest.mark.parametrize(("chart", "named"), NAMED, ids=["operator", "local cloud", "local cloud without a runtime"])
def test_a_name_that_yaml_reads_as_something_else_stays_a_name(chart: Path, named: Manifest, tmp_path: Path) -> None:
    values = merged(SWITCHED_ON[chart], named | OF_BOTH)
    foreign = [part for kind in FOREIGN_KINDS for part in ("--api-versions", kind)]
    command = [str(helm()), "template", "true", str(chart), "--namespace", DIGITS, *foreign]
    command += values_file(tmp_path, values)
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True)
    found = [one for manifest in objects_in(done.stdout) for one in scalars(manifest)]
    read = {value for _, value in found}
    assert {DIGITS, "true"} <= read
    assert [path for path, value in found if value == int(DIGITS)] == []
    flags = {path for path, value in found if isinstance(value, bool)}
    assert [path for path in flags if path.endswith(("ame", "amespace", "/instance"))] == []


async def test_common_labels_are_on_every_object_and_select_nothing() -> None:
    for one in await rendered("relay-system", "commonLabels.cost-center=42a", crds=True):
        assert one["metadata"]["labels"]["cost-center"] == "42a", one["metadata"]["name"]
        assert "cost-center" not in str(one.get("spec", {}).get("selector"))


class _Strict(yaml.CSafeLoader):
    """Refuses a key that is twice in a mapping, as the parser of Flux does."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value]
        assert len(keys) == len(set(keys)), keys
        return super().construct_mapping(node, deep)


@every_chart
def test_a_label_of_one_object_takes_the_place_of_the_common_one(chart: Path, tmp_path: Path) -> None:
    own = {"labels": {"team": "b"}, "enabled": True}
    metrics = dict.fromkeys(("serviceMonitor", "prometheusRule", "dashboard"), own)
    values: Manifest = {"commonLabels": {"team": "a"}, "podLabels": {"team": "b"}}
    if chart == CHART:
        values |= {"metrics": metrics, "networkPolicy": {"metricsFrom": [{"podSelector": {}}]}}
    foreign = [part for kind in FOREIGN_KINDS for part in ("--api-versions", kind)]
    command = template(chart, *foreign, *values_file(tmp_path, values))
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True)
    objects = [one for one in yaml.load_all(done.stdout, _Strict) if one]
    pods = [one["spec"]["template"] for one in objects if one["kind"] in {"Deployment", "StatefulSet"}]
    monitoring = [one for one in objects if one["kind"] in {"ServiceMonitor", "PrometheusRule"}]
    assert {one["metadata"]["labels"]["team"] for one in pods + monitoring} == {"b"}


def test_objects_of_a_site_are_installed_with_the_chart_and_know_its_names(tmp_path: Path) -> None:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "{{ .Release.Name }}-a"}}
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: '{{ include \"relay-operator.fullname\" . }}-b'\n"
    found = rendered_with(tmp_path, {"extraObjects": [config, text]}, "ConfigMap")
    assert [one["metadata"]["name"] for one in found] == [f"{RELEASE}-a", f"{RELEASE}-b"]


@pytest.mark.parametrize(
    ("values", "spec"),
    [
        ((), {"maxUnavailable": 1}),
        (("podDisruptionBudget.minAvailable=50%",), {"minAvailable": "50%"}),
        (("podDisruptionBudget.minAvailable=2", "replicas=3"), {"minAvailable": 2}),
        (("podDisruptionBudget.maxUnavailable=2", "replicas=3"), {"maxUnavailable": 2}),
        (("replicas=1",), None),
    ],
)
async def test_a_disruption_budget_lets_nodes_be_drained(
    values: tuple[str, ...], spec: dict[str, int | str] | None
) -> None:
    manifests = await rendered("relay-system", *values)
    found = [one["spec"] for one in manifests if one["kind"] == "PodDisruptionBudget"]
    told = [{key: one[key] for key in ("minAvailable", "maxUnavailable") if key in one} for one in found]
    assert told == ([spec] if spec else [])
