"""What an account's object says."""

import orjson

from relay_operator.api.cloudaccount import AnyAccount, CloudAccount, ClusterCloudAccount
from relay_operator.api.meta import ObjectKey
from relay_operator.api.references import AccountKind
from relay_operator.engine.entry import Entry
from relay_operator.engine.manifests import part
from relay_operator.settings import Settings


def depends(account: ObjectKey, user: Entry) -> bool:
    """Whether a user of the account may have something in the cloud that only this account can end.

    An object that only names a shared account does not count: the account may not even admit its namespace. Nor does
    one that the operator let go of, and that others' finalizers keep.
    """
    named = account.kind == AccountKind.CLOUD_ACCOUNT
    return not user.let_go and (named or bool(user.cloud_id) or user.attempted)


def is_anothers(settings: Settings, key: ObjectKey, entry: Entry) -> bool:
    """Whether another operator manages the account: each with watched namespaces has those with a key in its own.

    Such an operator sees only some of the account's users. One that sees all manages all, since nobody else would.
    """
    if not settings.watch_namespaces or key.kind != AccountKind.CLUSTER_CLOUD_ACCOUNT:
        return False
    return part(orjson.loads(entry.body), "spec", "apiKeySecretRef").get("namespace") != settings.namespace


def parse_account(key: ObjectKey, entry: Entry) -> AnyAccount:
    """Parse the account in the cache. Raises ValidationError."""
    model = CloudAccount if key.kind == AccountKind.CLOUD_ACCOUNT else ClusterCloudAccount
    return model.model_validate_json(entry.body)


def served_kinds(account: AnyAccount, by_default: frozenset[str]) -> frozenset[str] | None:
    """The kinds that the account may be used for; None if all are allowed."""
    if isinstance(account, CloudAccount):
        return None
    allowed = account.spec.allowed_kinds
    return by_default if allowed is None else frozenset(allowed)


def granted_scopes(account: AnyAccount) -> frozenset[str] | None:
    """The scopes that a key created with the account may have; None if all are allowed."""
    return None if isinstance(account, CloudAccount) else frozenset(account.spec.allowed_scopes or ())
