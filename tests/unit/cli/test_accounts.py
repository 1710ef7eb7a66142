"""Which clouds `kubectl relay` sends an account's key to."""

import pytest

from relay_cli.accounts import UrlNotAccepted, require_accepted
from relay_cli.kubectl import parsed
from relay_operator.api.cloudaccount import CloudAccount

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
