"""The pure parts of accounts: who is admitted, what a Secret holds, which secrets sign, which operation a URL is."""

import base64
import re
from typing import Any

import pytest

from relay_client import OPERATIONS
from relay_kube.kube import JsonObject
from relay_operator.accounts.account_object import granted_scopes, served_kinds
from relay_operator.accounts.accounts import Accounts
from relay_operator.accounts.key_secret import ApiKey, api_key_in
from relay_operator.accounts.namespace_selector import admits
from relay_operator.api.api_key import NoKey
from relay_operator.api.cloudaccount import CloudAccount, ClusterCloudAccount, LabelSelector
from relay_operator.api.meta import ObjectKey
from relay_operator.engine.cache import Cache
from relay_operator.observability.metered import operation_at
from relay_operator.settings import Settings
from relay_operator.webhooks.signing_secrets import SigningSecrets

TEAM = {"team": "a", "stage": "test"}
ACCOUNT = ObjectKey("CloudAccount", "team-a", "default")


@pytest.mark.parametrize(
    ("selector", "admitted"),
    [
        ({}, True),
        ({"matchLabels": {"team": "a"}}, True),
        ({"matchLabels": {"team": "b"}}, False),
        ({"matchLabels": {"team": "a", "absent": ""}}, False),
        ({"matchExpressions": [{"key": "team", "operator": "In", "values": ["a", "b"]}]}, True),
        ({"matchExpressions": [{"key": "absent", "operator": "In", "values": ["a"]}]}, False),
        ({"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]}, False),
        ({"matchExpressions": [{"key": "absent", "operator": "NotIn", "values": ["a"]}]}, True),
        ({"matchExpressions": [{"key": "team", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}, False),
        ({"matchLabels": {"team": "a"}, "matchExpressions": [{"key": "stage", "operator": "DoesNotExist"}]}, False),
    ],
)
def test_namespaces_are_selected_as_kubernetes_selects(selector: dict[str, object], admitted: bool) -> None:
    assert admits(LabelSelector.model_validate(selector), TEAM) is admitted


@pytest.mark.parametrize(
    ("said", "served"),
    [
        ({}, {"GpuPod"}),
        ({"allowedKinds": []}, set()),
        ({"allowedKinds": ["SshKey", "OfTomorrow"]}, {"SshKey", "OfTomorrow"}),
    ],
    ids=["nothing", "none", "some"],
)
def test_a_shared_account_serves_the_kinds_that_it_lists(said: dict[str, object], served: set[str]) -> None:
    """One that this release does not know is no reason not to read the rest."""
    ref = {"name": "key", "key": "api-key", "namespace": "relay"}
    spec = {"apiKeySecretRef": ref, "allowedNamespaces": {}, **said}
    account = ClusterCloudAccount.model_validate({"metadata": {"name": "shared"}, "spec": spec})
    assert served_kinds(account, frozenset({"GpuPod"})) == frozenset(served)


@pytest.mark.parametrize("said", [None, [], ["inference"]])
def test_a_shared_account_gives_keys_the_scopes_that_it_lists(said: list[str] | None) -> None:
    ref = {"name": "key", "key": "api-key", "namespace": "relay"}
    spec = {"apiKeySecretRef": ref, "allowedNamespaces": {}, "allowedScopes": said}
    account = ClusterCloudAccount.model_validate({"metadata": {"name": "shared"}, "spec": spec})
    assert granted_scopes(account) == frozenset(said or ())


def test_the_account_of_a_namespace_serves_every_kind() -> None:
    spec = {"apiKeySecretRef": {"name": "key", "key": "api-key"}}
    account = CloudAccount.model_validate({"metadata": {"name": "default", "namespace": "team-a"}, "spec": spec})
    assert served_kinds(account, frozenset({"GpuPod"})) is None


def _secret(value: str, version: str = "1") -> JsonObject:
    return {"metadata": {"uid": "u", "resourceVersion": version}, "data": {"api-key": value}}


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_a_key_is_read_without_the_line_end_that_editors_leave() -> None:
    found = api_key_in(_secret(_encoded("or_key\n")), "relay", "api-key")
    assert isinstance(found, ApiKey)
    assert found.value == "or_key"
    assert "or_key" not in repr(found)


def test_the_version_of_a_key_changes_with_the_key_alone() -> None:
    one, other = (
        api_key_in(_secret(_encoded("k"), "1"), "r", "api-key"),
        api_key_in(_secret(_encoded("k"), "2"), "r", "api-key"),
    )
    rotated = api_key_in(_secret(_encoded("l"), "3"), "r", "api-key")
    assert isinstance(one, ApiKey)
    assert isinstance(other, ApiKey)
    assert isinstance(rotated, ApiKey)
    assert one.version == other.version != rotated.version
    assert _encoded("k") not in one.version


def test_what_is_no_key_is_told_with_the_name_of_the_secret() -> None:
    assert api_key_in(_secret("!!"), "relay", "api-key") == NoKey("the key api-key of the Secret relay is not text")


def test_an_id_that_a_webhook_names_may_be_unseen_for_as_long_as_the_setting_says() -> None:
    unused: Any = None
    settings = Settings(newborn_seconds=300)
    accounts = Accounts(settings, unused, Cache(), unused, unused, frozenset())
    assert accounts.unclaimed(ObjectKey("CloudAccount", "team-a", "default")).newborn == 300


def test_a_rolled_secret_is_accepted_beside_its_follower_for_a_while() -> None:
    now = [100.0]
    secrets = SigningSecrets(overlap=60, clock=lambda: now[0])
    assert secrets.of(ACCOUNT) is None
    secrets.put(ACCOUNT, "first")
    secrets.put(ACCOUNT, "first")
    assert secrets.of(ACCOUNT) == ("first",)
    secrets.put(ACCOUNT, "second")
    assert secrets.of(ACCOUNT) == ("second", "first")
    now[0] += 60
    assert secrets.of(ACCOUNT) == ("second",)
    secrets.drop(ACCOUNT)
    assert secrets.of(ACCOUNT) is None
    assert "second" not in repr(secrets)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_every_operation_is_known_by_the_url_that_does_it(operation: object) -> None:
    path, method, name = (str(getattr(operation, part)) for part in ("path", "method", "name"))
    filled = re.sub(r"\{\w+\}", "id-1", path)
    assert operation_at(method, f"https://cloud.example.com/base{filled}?limit=2") == name


def test_an_unknown_url_is_no_label_of_its_own() -> None:
    assert operation_at("GET", "https://cloud.example.com/v1/vms/secret/else") == "other"
