"""Which other objects may have sent an equal request, so that a resource without a name may be theirs."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from pydantic import JsonValue

from relay_operator.api.meta import CREATE_INTENT, CreateIntent, Identity, ObjectKey
from relay_operator.engine.account import AccountReady
from relay_operator.engine.cache import Cache
from relay_operator.engine.endpoints import Endpoints
from relay_operator.flows.managed.unnamed import has_rival
from tests.unit.flows.managed.facts import account as account_ready

KEY = ObjectKey("InferenceBackend", "team-a", "mine")
SHARED = ObjectKey("ClusterCloudAccount", "", "shared")


def intent(key: ObjectKey, spec_hash: str = "model=1", organization: str = "org-1") -> CreateIntent:
    identity = Identity(installation="here", namespace=key.namespace, name=key.name, uid="u", organization=organization)
    return CreateIntent(
        token=key.name,
        name=key.name,
        attempt=1,
        spec_hash=spec_hash,
        started_at=datetime(2026, 3, 1, tzinfo=UTC),
        identity=identity,
        account="",
    )


def with_another(
    namespace: str, account: ObjectKey, *, organization: str = "", endpoint: str | None = None, **said: str
) -> tuple[Cache, AccountReady]:
    """A cache with another object that waits for an answer, and what is known of its account."""
    cache = Cache()
    cache.installation.name = "here"
    other = ObjectKey("InferenceBackend", namespace, "another")
    if organization:
        status: JsonValue = {"organizationId": organization, "endpoint": endpoint}
        cache.put(account, {"metadata": {"name": account.name, "uid": "a"}, "status": status})
    sent: JsonValue = intent(other, **said).to_annotation()
    metadata: JsonValue = {"name": "another", "namespace": namespace, "uid": "u", "annotations": {CREATE_INTENT: sent}}
    cache.put(other, {"metadata": metadata, "spec": {"accountRef": {"kind": account.kind, "name": account.name}}})
    return cache, replace(account_ready(), endpoints=Endpoints("real"))


OWN = ObjectKey("CloudAccount", "team-b", "own")


@pytest.mark.parametrize(
    ("another", "is_one"),
    [
        (with_another("team-a", ObjectKey("CloudAccount", "team-a", "gone")), True),
        (with_another("team-b", OWN, organization="org-1"), True),
        (with_another("team-b", OWN, organization="org-1", endpoint="real"), True),
        (with_another("team-b", OWN, organization="org-2"), False),
        (with_another("team-b", OWN, organization="org-1", endpoint="own"), False),
        (with_another("team-b", OWN), False),
        (with_another("team-b", OWN, organization="org-1", spec_hash="model=2"), False),
        (with_another("team-b", SHARED, organization="org-1"), True),
    ],
    ids=[
        "same namespace",
        "same organization, as an earlier release told it",
        "same organization",
        "another organization",
        "another cloud",
        "no account",
        "unlike",
        "a shared account",
    ],
)
def test_a_rival_can_have_sent_to_the_same_organization(another: tuple[Cache, AccountReady], *, is_one: bool) -> None:
    cache, account = another
    assert has_rival(cache, KEY, intent(KEY), account) is is_one
