"""Chooses the account that reads the catalog. Pure."""

from relay_operator.accounts.account_object import is_anothers
from relay_operator.api.meta import ObjectKey
from relay_operator.api.references import AccountKind
from relay_operator.engine.account_users import SHARED_DEFAULT
from relay_operator.engine.cache import Cache
from relay_operator.settings import Settings


def chosen(settings: Settings, cache: Cache) -> ObjectKey | None:
    """The account that the setting names, else the shared default, else the oldest Ready one; None without any."""
    if settings.catalog_account:
        namespace, _, name = settings.catalog_account.partition("/")
        return ObjectKey(AccountKind.CLOUD_ACCOUNT, namespace, name)
    found = ((key, cache.get(key)) for kind in AccountKind for key in cache.keys(kind))
    known = {key: entry for key, entry in found if entry is not None and not is_anothers(settings, key, entry)}
    if SHARED_DEFAULT in known:
        return SHARED_DEFAULT
    usable = [(entry.created, entry.uid, key) for key, entry in known.items() if entry.settled and not entry.deleting]
    return min(usable)[-1] if usable else None
