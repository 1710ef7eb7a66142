"""Objects by the account that they use, or would use."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from relay_operator.api.meta import ObjectKey
from relay_operator.api.references import AccountKind
from relay_operator.engine.index import Index

DEFAULT_NAME = "default"
_ACCOUNTS = frozenset(AccountKind)

Reference = tuple[str, str]
"""Kind and name of an account; empty strings mean the namespace's default."""


def named_account(namespace: str, kind: str, name: str) -> ObjectKey:
    """The account that an object of this namespace names."""
    if kind == AccountKind.CLUSTER_CLOUD_ACCOUNT:
        return ObjectKey(AccountKind.CLUSTER_CLOUD_ACCOUNT, "", name)
    return ObjectKey(AccountKind.CLOUD_ACCOUNT, namespace, name)


# Of known objects only: a stranger can ask the webhooks' receiver for any name.
_account = lru_cache(maxsize=1024)(named_account)
SHARED_DEFAULT = named_account("", AccountKind.CLUSTER_CLOUD_ACCOUNT, DEFAULT_NAME)
"""The account of objects that name none, in namespaces without one of their own."""


@dataclass(slots=True)
class AccountUsers:
    """Finds the users of an account, O(1) per change.

    Objects that name no account are kept by namespace, since a namespace's default changes as accounts come and go.
    """

    exists: Callable[[ObjectKey], bool]
    """Whether an account exists."""
    without: frozenset[str] = frozenset()
    """Kinds that use no account; the kinds of accounts need not be in it."""
    _naming: Index[ObjectKey] = field(default_factory=Index)
    _defaulting: Index[str] = field(default_factory=Index)

    def __post_init__(self) -> None:
        self.without |= _ACCOUNTS

    def move(self, key: ObjectKey, before: Reference | None, after: Reference | None) -> None:
        """Record that the object's reference changed; None if it has none."""
        if before != after and key.kind not in self.without:
            self._naming.move(key, _named(key, before), _named(key, after))
            self._defaulting.move(key, _unnamed(key, before), _unnamed(key, after))

    def of(self, account: ObjectKey) -> Iterator[ObjectKey]:
        """Yields the objects that use the account, or would: O(1) each, plus a look per namespace for shared ones."""
        yield from self._naming.of(account)
        if account.name == DEFAULT_NAME:
            shared = account.kind == AccountKind.CLUSTER_CLOUD_ACCOUNT
            for namespace in self._defaulting.names() if shared else (account.namespace,):
                if self.default(namespace) == account:
                    yield from self._defaulting.of(namespace)

    def account_of(self, key: ObjectKey, reference: Reference) -> ObjectKey | None:
        """The account that this object's reference resolves to now; an account resolves to itself.

        None if the kind does not use accounts, or without a default.
        """
        if key.kind in self.without:
            return key if key.kind in _ACCOUNTS else None
        return _account(key.namespace, *reference) if reference[1] else self.default(key.namespace)

    def default(self, namespace: str) -> ObjectKey | None:
        """The namespace's own `default` account, else the cluster's; None if there is neither."""
        own = _account(namespace, AccountKind.CLOUD_ACCOUNT, DEFAULT_NAME)
        return next(filter(self.exists, (own, SHARED_DEFAULT)), None)


def _named(key: ObjectKey, reference: Reference | None) -> ObjectKey | None:
    return _account(key.namespace, *reference) if reference is not None and reference[1] else None


def _unnamed(key: ObjectKey, reference: Reference | None) -> str | None:
    return key.namespace if reference is not None and not reference[1] else None
