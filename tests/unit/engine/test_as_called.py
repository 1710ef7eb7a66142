"""An intent names the account that is called, whatever somebody wrote into it."""

from datetime import UTC, datetime

import pytest

from relay_client import Cloud
from relay_operator.api.meta import CreateIntent, ObjectKey, ObjectMeta
from relay_operator.engine.account import AccountReady, as_called, identity_in
from relay_operator.engine.endpoints import Endpoints
from relay_operator.engine.identity import identity_of
from relay_operator.engine.unclaimed_ids import UnclaimedIds

ACCOUNT = ObjectKey("CloudAccount", "ns", "default")
META = ObjectMeta(name="nightly", namespace="ns", uid="u1")


@pytest.mark.parametrize(("kind", "endpoint"), [("InferenceBatch", "inference"), ("GpuPod", "real")])
@pytest.mark.parametrize("forged", [True, False], ids=["forged", "without an identity"])
def test_an_intent_names_the_account_that_is_called(kind: str, endpoint: str, *, forged: bool) -> None:
    cloud = Cloud("https://cloud.example", "or_test_key", organization_id="org-1")
    endpoints = Endpoints("real", "inference")
    account = AccountReady(ACCOUNT, cloud, "org-1", UnclaimedIds(), False, True, endpoints=endpoints)
    written = CreateIntent(
        token="token1", name="nightly", attempt=1, spec_hash="", started_at=datetime(2026, 3, 1, tzinfo=UTC)
    )
    if forged:
        another = identity_of(META, "c0ffe", "org-9", "another")
        written = written.model_copy(update={"identity": another, "account": "CloudAccount/another"})
    told = as_called(written, account, identity_in(account, META, kind, "c0ffe"))
    assert told.identity == identity_of(META, "c0ffe", "org-1", endpoint)
    assert told.account == "CloudAccount/default"
