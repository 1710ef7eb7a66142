"""Chooses the account that reads the catalog. Pure."""

import orjson

from relay_operator.api.meta import ObjectKey
from relay_operator.api.references import AccountKind
from relay_operator.engine.account_users import DEFAULT_NAME
from relay_operator.engine.cache import Cache
from relay_operator.engine.entry import Entry
from relay_operator.engine.manifests import part

_SHARED = ObjectKey(AccountKind.CLUSTER_CLOUD_ACCOUNT, "", DEFAULT_NAME)


def chosen(named: str, cache: Cache) -> ObjectKey | None:
    """The account that the setting names, else the shared default, else the oldest Ready one; None without any."""
    if named:
        namespace, _, name = named.partition("/")
        return ObjectKey(AccountKind.CLOUD_ACCOUNT, namespace, name)
    if cache.get(_SHARED) is not None:
        return _SHARED
    known = [(key, cache.get(key)) for kind in AccountKind for key in cache.keys(kind)]
    usable = [(_age(entry), key) for key, entry in known if entry is not None and entry.settled and not entry.deleting]
    return min(usable)[1] if usable else None


def _age(entry: Entry) -> tuple[str, str]:
    return str(part(orjson.loads(entry.body), "metadata").get("creationTimestamp", "")), entry.uid
