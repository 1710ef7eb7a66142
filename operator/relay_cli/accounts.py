"""Accounts, and the cloud as their keys see it; pure, except for the async functions."""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Annotated, Final, NamedTuple, TypeAlias

import typer

from relay_cli import objects
from relay_cli.failures import Failure, Status
from relay_cli.kubectl import Forbidden, Kubectl, Missing, parsed
from relay_cli.objects import DEFAULT, CloudObject
from relay_cli.terminal import complain
from relay_client import Cloud, CloudError, ConnectionPool
from relay_operator.api.api_key import NoKey, key_in
from relay_operator.api.cloudaccount import (
    AnyAccount,
    CloudAccount,
    ClusterCloudAccount,
    readiness,
    secret_namespace,
    urls_passed,
)
from relay_operator.api.meta import GROUP
from relay_operator.api.references import AccountKind, AccountRef
from relay_operator.proxies import Proxies, ProxyError

BaseUrl: TypeAlias = Annotated[
    str,
    typer.Option(
        "--base-url",
        envvar="RELAY_DEFAULT_BASE_URL",
        metavar="URL",
        help="URL of the cloud's management API, for accounts without spec.baseUrl.",
    ),
]

_MODELS: Final[Mapping[AccountKind, type[AnyAccount]]] = {
    AccountKind.CLOUD_ACCOUNT: CloudAccount,
    AccountKind.CLUSTER_CLOUD_ACCOUNT: ClusterCloudAccount,
}


async def listed(kubectl: Kubectl, *, everywhere: bool) -> list[AnyAccount]:
    """The CloudAccounts of the namespace; with `everywhere`, of all namespaces, with the visible ClusterCloudAccounts.

    Raises Failure.
    """
    found = [parsed(CloudAccount, raw) for raw in await kubectl.list([f"cloudaccounts.{GROUP}"], everywhere=everywhere)]
    if not everywhere:
        return [*found]
    try:
        shared = await kubectl.list([f"clustercloudaccounts.{GROUP}"])
    except Forbidden as refused:
        complain(f"ClusterCloudAccounts are left out: {refused}")
        return [*found]
    return [*found, *(parsed(ClusterCloudAccount, raw) for raw in shared)]


async def named(kubectl: Kubectl, ref: AccountRef) -> AnyAccount:
    """The account that the reference names. Raises Failure."""
    return parsed(_MODELS[ref.kind], await kubectl.get(f"{ref.kind.lower()}s.{GROUP}/{ref.name}"))


async def called(kubectl: Kubectl, name: str) -> AnyAccount:
    """The account for a name on the command line: a CloudAccount's, or `ccacct/NAME`. Raises Failure."""
    raw = await kubectl.get(objects.checked(name) if "/" in name else f"cloudaccounts.{GROUP}/{name}")
    model = next((model for kind, model in _MODELS.items() if raw.get("kind") == kind), None)
    if model is None:
        raise Failure(f"{name} is a {raw.get('kind')}, not an account: name one, or ccacct/NAME", Status.MISUSED)
    return parsed(model, raw)


async def of(kubectl: Kubectl, obj: CloudObject) -> AnyAccount:
    """The object's own account; without one, the namespace's default, else the cluster's. Raises Failure."""
    if obj.account is not None:
        return await named(kubectl, obj.account)
    try:
        return await named(kubectl, DEFAULT)
    except Missing:
        return await named(kubectl, AccountRef(kind=AccountKind.CLUSTER_CLOUD_ACCOUNT, name=DEFAULT.name))


class UrlNotAccepted(Failure):
    """Only the account names its URL, so it does not get a key that the caller may read."""


@asynccontextmanager
async def cloud_of(kubectl: Kubectl, account: AnyAccount, base_url: str) -> AsyncIterator[Cloud]:
    """The cloud with the account's key. Raises Failure, also for every call within the context."""
    require_accepted(account, base_url)
    ref = account.spec.api_key_secret_ref
    key = key_in(await kubectl.get(f"secret/{ref.name}", secret_namespace(account)), ref.name, ref.key)
    if isinstance(key, NoKey):
        raise Failure(key.message)
    try:
        async with connections() as pool:
            yield Cloud(url_of(account, base_url), key, user_agent="kubectl-relay", pool=pool)
    except CloudError as error:
        raise Failure(f"the cloud of {account.key}: {error}") from None
    except ValueError as unfit:
        raise Failure(f"{account.key} cannot be used: {unfit}") from None


@asynccontextmanager
async def connections() -> AsyncIterator[ConnectionPool]:
    """Connections to clouds, through the environment's proxy. Raises Failure if a variable names none."""
    try:
        pool = ConnectionPool(proxy=Proxies.of_environment())
    except ProxyError as unfit:
        raise Failure(str(unfit)) from None
    async with aclosing(pool):
        yield pool


def require_accepted(account: AnyAccount, base_url: str) -> None:
    """Raises UrlNotAccepted unless the operator or the caller (`base_url`) accepts the account's own URL.

    Whoever writes an account may name a Secret that they cannot read, and a server of their own. Pure.
    """
    own = (account.spec.base_url or "").rstrip("/")
    if own in {"", base_url.rstrip("/")} or urls_passed(account):
        return
    raise UrlNotAccepted(
        f"the key was not used: {account.key} names {own!r} as its cloud, and the operator has not accepted this spec; "
        "if you trust that URL, give it with --base-url"
    )


def url_of(account: AnyAccount, base_url: str) -> str:
    """The account's own URL, else `base_url`. Raises Failure if both are empty."""
    found = account.spec.base_url or base_url
    if not found:
        raise url_unknown(account)
    return found


def url_unknown(account: AnyAccount) -> Failure:
    """The failure to report if nobody names the account's URL. Pure."""
    return Failure(
        f"{account.key} has no spec.baseUrl, and this command does not know the operator's default: give the "
        "cloud's URL with --base-url or RELAY_DEFAULT_BASE_URL",
        Status.MISUSED,
    )


class Organization(NamedTuple):
    """An organization of one cloud: another cloud may have one with the same id, or say so."""

    endpoint: str
    """Which cloud, as status tells it; empty if it tells nothing."""
    id: str


def organizations(accounts: Iterable[AnyAccount]) -> dict[Organization, list[AnyAccount]]:
    """The accounts of each organization; leaves out those whose organization is unknown. Pure."""
    found: dict[Organization, list[AnyAccount]] = {}
    for account in accounts:
        if account.status.organization_id:
            organization = Organization(_endpoint(account), account.status.organization_id)
            found.setdefault(organization, []).append(account)
    return found


def _endpoint(account: AnyAccount) -> str:
    """The cloud whose answers the account gets; its own URL if status may still tell of a former one."""
    own, ready = account.spec.base_url or "", readiness(account)
    is_ready = ready is not None and ready.status == "True"
    told = account.status.endpoint if not own or is_ready else None
    return told or own
