"""What became of a create whose answer is lost, for a kind without names in the cloud. Reads only."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from relay_operator.api.meta import CreateIntent, ObjectKey, Resource
from relay_operator.api.workload import SpecT, StatusT
from relay_operator.engine.account import AccountReady
from relay_operator.engine.cache import Cache
from relay_operator.engine.intent import changed_fields, sent_to
from relay_operator.flows.managed.abilities import Unnamed
from relay_operator.flows.managed.resource import CannotTell, ExternalResource, Found, ObsT
from relay_operator.flows.managed.subject import Subject

_LATEST: Final = timedelta(minutes=10)
"""How long after a create was sent its resource may appear: an equal one that is made later may be somebody else's."""


async def found_unnamed(
    resource: ExternalResource[SpecT, StatusT, ObsT],
    kind: Unnamed[Resource[SpecT, StatusT], ObsT],
    cache: Cache,
    subject: Subject[SpecT, StatusT],
    intent: CreateIntent,
) -> Found[ObsT] | CannotTell:
    """The resource that equals the spec, if the spec was sent and no other object has it.

    `resource` and `kind` are the same object. Nothing else proves the owner: if the account does not allow adoption,
    nothing is taken over. Raises CloudError.
    """
    key, obj, account = subject.key, subject.obj, subject.account
    another = changed_fields(intent.spec_hash, resource.immutable(obj))
    if another or not account.adoption_allowed:
        return CannotTell()
    alike = [(one, resource.identity(one)[0]) for one in await kind.alike(account.cloud, obj)]
    if has_rival(cache, key, intent, account):  # only now: another may have sent its request while the list was read
        return CannotTell()
    free = [one for one, cloud_id in alike if not cache.others(key, cloud_id)]
    return led_to([(one, kind.made_at(one)) for one in free], intent.started_at)


def led_to(alike: Sequence[tuple[ObsT, datetime | None]], started_at: datetime) -> Found[ObsT] | CannotTell:
    """Of the resources that equal what was sent, with their creation times, the only one that was created soon after.

    If there is none, that proves nothing: a late create could never be told from another.
    """
    match [(one, at) for one, at in alike if at is None or at >= started_at]:
        case [(one, datetime() as at)] if at - started_at <= _LATEST:
            return Found(one)
        case _:
            return CannotTell()


def has_rival(cache: Cache, key: ObjectKey, intent: CreateIntent, account: AccountReady) -> bool:
    """Whether another object waits for the answer to an equal request to this organization: a resource may be either's.

    With whatever account: several may have keys of one organization.
    """
    others = ((other, cache.get(other)) for other in cache.keys(key.kind) if other != key)
    return any(
        entry is not None and entry.searching and _is_alike(entry.sent, intent) and _reaches(cache, other, key, account)
        for other, entry in others
    )


def _is_alike(other: CreateIntent | None, intent: CreateIntent) -> bool:
    where = sent_to(intent)
    return other is not None and other.spec_hash == intent.spec_hash and (not where or sent_to(other) in {"", where})


def _reaches(cache: Cache, other: ObjectKey, key: ObjectKey, account: AccountReady) -> bool:
    """Whether the other object can have sent a request to this organization: anybody can write an intent by hand."""
    used = cache.account_of(other)
    if used == account.key or other.namespace == key.namespace:
        return True
    told = cache.get(used) if used is not None else None
    status = told.status() if told is not None else {}
    same_cloud = status.get("endpoint") in {None, account.endpoints.management}
    return same_cloud and status.get("organizationId") == account.organization_id
