"""Which clouds `kubectl relay` sends an account's key to, and which way."""

import pytest

from relay_cli.accounts import UrlNotAccepted, cloud_of, connections, require_accepted
from relay_cli.failures import Failure
from relay_cli.kubectl import Kubectl, parsed
from relay_client.operations import WHOAMI
from relay_operator.api.cloudaccount import CloudAccount
from tests.unit.client.scripted import ScriptedServer

OWN = "https://own.example"


def _account(reason: str | None = None, observed: int = 3, url: str | None = OWN) -> CloudAccount:
    when = "2026-11-23T08:00:00Z"
    ready = {"type": "Ready", "status": "False", "reason": reason, "lastTransitionTime": when}
    return parsed(
        CloudAccount,
        {
            "metadata": {"name": "default", "namespace": "ml", "generation": 3},
            "spec": {"apiKeySecretRef": {"name": "key", "key": "api-key"}, "baseUrl": url},
            "status": {"conditions": [ready | {"observedGeneration": observed}] if reason else []},
        },
    )


@pytest.mark.parametrize(
    "account",
    [
        _account("Available"),
        _account("SecretMissing"),
        _account("AccountUnauthorized"),
        _account("CloudUnavailable"),
        _account(url=None),
    ],
)
def test_a_url_that_the_operator_accepted_gets_the_key_however_the_account_fares(account: CloudAccount) -> None:
    require_accepted(account, "")


@pytest.mark.parametrize(
    "account",
    [
        _account("AccountNotAllowed"),
        _account("SpecInvalid"),
        _account("OfTomorrow"),
        _account("Available", observed=2),
        _account(),
    ],
)
def test_a_url_that_only_the_account_names_gets_the_key_if_the_caller_names_it_too(account: CloudAccount) -> None:
    for given in ("", "https://own.example.evil", "https://default.example"):
        with pytest.raises(UrlNotAccepted, match=r"^the key was not used: CloudAccount/ml/default names 'https://own"):
            require_accepted(account, given)
    require_accepted(account, f"{OWN}/")


async def test_a_cloud_is_reached_through_the_proxy_that_the_environment_names(
    cloud: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "http_proxy", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTP_PROXY", cloud.url)
    away = "http://cloud.invalid"
    async with cloud_of(Kubectl(), _account("Available", url=away), "") as reached:
        await reached.call(WHOAMI)
    assert cloud.targets == [f"GET {away}/v1/whoami"]


async def test_a_variable_that_names_no_proxy_is_named_without_its_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "socks5://user:secret@proxy.example")
    with pytest.raises(Failure, match=r"^HTTPS_PROXY must be the URL of an HTTP proxy") as failed:
        async with connections():
            pass
    assert "secret" not in str(failed.value)
