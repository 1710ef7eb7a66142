"""`kubectl relay doctor`: finds what prevents accounts from working, as far as the caller's rights reach."""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Final

import typer
from pydantic import BaseModel, JsonValue, ValidationError

from relay_cli import accounts, objects
from relay_cli.accounts import BaseUrl, UrlNotAccepted, connections
from relay_cli.failures import Failure, Status
from relay_cli.findings import Finding, Reached, Seen, Verdict, findings, undocumented
from relay_cli.kubectl import Kubectl
from relay_cli.objects import CloudObject
from relay_cli.options import AllNamespaces, OutputOption
from relay_cli.tables import Column, Output, as_json, table
from relay_cli.terminal import say
from relay_client import (
    OPERATIONS,
    AnyOperation,
    Api,
    CallPolicy,
    Cloud,
    CloudError,
    Forbidden,
    NotFound,
    NotServed,
    Oversized,
    Unreadable,
)
from relay_client.answers import Answer, NoAnswerError
from relay_client.operations import LIST_WEBHOOK_DELIVERIES, WHOAMI
from relay_client.pool import Request
from relay_client.retry import http_date
from relay_operator.api.cloudaccount import AnyAccount
from relay_wire.webhooks import WebhookDelivery

_PATIENCE_SECONDS: Final = 10.0
_PROBES: Final = [
    row
    for row in OPERATIONS
    if row.assumed and row.method == "GET" and row.api is Api.MANAGEMENT and "{" not in row.path.replace("{orgId}", "")
]
"""Assumed operations that need no id and change nothing."""
_MANAGEMENT: Final = [row for row in OPERATIONS if row.api is Api.MANAGEMENT]

DocsUrl = Annotated[
    str, typer.Option("--docs-url", metavar="URL", help="The cloud's OpenAPI document, to check all operations.")
]


class _OpenApi(BaseModel):
    paths: dict[str, dict[str, JsonValue]]


_COLUMNS: Final[tuple[Column[Finding], ...]] = (
    Column("ACCOUNT", lambda row: row.account),
    Column("CHECK", lambda row: row.check),
    Column("VERDICT", lambda row: row.verdict),
    Column("FINDING", lambda row: row.message),
)


async def doctor(
    kubectl: Kubectl,
    all_namespaces: AllNamespaces = False,
    docs_url: DocsUrl = "",
    base_url: BaseUrl = "",
    output: OutputOption = Output.TABLE,
) -> None:
    """Check what accounts need to work, from the operator to the cloud; the exit status is 1 if something is wrong."""
    found, users = await _all(kubectl, all_namespaces), await _users(kubectl, all_namespaces)
    looked = [used(await _looked(kubectl, one, docs_url, base_url), users, datetime.now(UTC)) for one in found]
    rows = [finding for seen in looked for finding in findings(seen)]
    say(as_json(rows) if output is Output.JSON else table(_COLUMNS, rows))
    if any(row.verdict is Verdict.WRONG for row in rows):
        raise typer.Exit(Status.FOUND_WRONG)


async def _all(kubectl: Kubectl, everywhere: bool) -> list[AnyAccount]:
    found = await accounts.listed(kubectl, everywhere=everywhere)
    if not found:
        raise Failure("found no account: create a CloudAccount, or look in other namespaces with -n or -A")
    return found


async def _users(kubectl: Kubectl, everywhere: bool) -> Sequence[CloudObject]:
    """The workloads; none if the caller may not list them."""
    with suppress(Failure):
        return await objects.workloads(kubectl, everywhere=everywhere)
    return ()


def used(seen: Seen, users: Sequence[CloudObject], now: datetime) -> Seen:
    """With what the conditions of workloads say about the operator and the account. Pure."""
    key = seen.account.key
    near = [one for one in users if one.metadata.namespace == key.namespace]
    own = [one for one in users if one.is_made_with(key)]
    return replace(
        seen,
        unseen=[one.label for one in near if one.is_unseen(now)],
        unread=[one.label for one in own if one.is_unread],
    )


async def _looked(kubectl: Kubectl, account: AnyAccount, docs_url: str, base_url: str) -> Seen:
    try:
        accounts.require_accepted(account, base_url)  # a tenant may name a server that only this machine reaches
        url = await _reached(accounts.url_of(account, base_url))
    except UrlNotAccepted as refused:
        return Seen(account, refused, refused)
    except Failure as failed:
        return Seen(account, failed)
    try:
        async with accounts.cloud_of(kubectl, account, base_url) as cloud:
            who = await cloud.call(WHOAMI)
            webhook = account.status.webhook
            deliveries = await _deliveries(cloud, webhook.id) if webhook and webhook.id else None
            missing = await (_compared(docs_url) if docs_url else _probed(cloud))
            return Seen(account, url, who, deliveries, missing)
    except Failure as failed:
        return Seen(account, url, failed)


async def _reached(url: str) -> Reached:
    """Check that the cloud's URL answers. Raises Failure."""
    answer = await _got(f"{url.rstrip('/')}{WHOAMI.path}")
    return Reached(ahead(answer.headers, time.time()))


async def _got(url: str) -> Answer:
    """The answer to a GET without a key. Raises Failure."""
    async with connections() as pool:
        try:
            return await pool.exchange(Request("GET", url, CallPolicy(), seconds=_PATIENCE_SECONDS))
        except NoAnswerError as silent:
            raise Failure(f"{url} does not answer: {silent.reason}") from None
        except ValueError as unfit:
            raise Failure(f"{url} cannot be used: {unfit}") from None


def ahead(headers: Mapping[str, str], now: float) -> float | None:
    """By how many seconds a server's clock is ahead of `now`, in Unix time; None without a readable Date. Pure."""
    moment = http_date(headers.get("date", ""))
    return None if moment is None else moment.timestamp() - now


async def _deliveries(cloud: Cloud, webhook_id: str) -> list[WebhookDelivery] | Failure:
    try:
        return (await cloud.call(LIST_WEBHOOK_DELIVERIES, id=webhook_id, large=True)).items
    except CloudError as error:
        return Failure(str(error))


async def _probed(cloud: Cloud) -> list[AnyOperation] | Failure:
    """The probed operations that the cloud does not serve, or why a probe fails in another way."""
    try:
        return [row for row in _PROBES if not await _is_served(cloud, row)]
    except CloudError as error:
        return Failure(f"not all operations could be checked: {error}")


async def _is_served(cloud: Cloud, row: AnyOperation) -> bool:
    try:
        with suppress(Oversized, Forbidden):  # what the key may not do, the check of scopes reports
            await cloud.call(row, large=True)
    except (NotServed, NotFound, Unreadable):
        return False
    return True


async def _compared(docs_url: str) -> list[AnyOperation] | Failure:
    try:
        answer = await _got(docs_url)
    except Failure as failed:
        return failed
    if not answer.is_success:
        return Failure(f"{docs_url} answers with status {answer.status}: correct --docs-url")
    return compared(answer.body, docs_url)


def compared(document: bytes, where: str) -> list[AnyOperation] | Failure:
    """The operations of the management API that an OpenAPI document lacks. Pure."""
    try:
        paths = _OpenApi.model_validate_json(document).paths
    except ValidationError:
        return Failure(f"{where} is not an OpenAPI document in JSON: correct --docs-url")
    return undocumented({path: list(methods) for path, methods in paths.items()}, _MANAGEMENT)
