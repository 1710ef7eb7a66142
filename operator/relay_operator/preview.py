"""What the operator would do for an object, decided by its own code in the caller's process.

It changes nothing: it only reads from the API server, and a process that does not lead only reads from the cloud.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Final, Protocol

import aiohttp
from prometheus_client import CollectorRegistry
from pydantic import JsonValue, ValidationError

from relay_kube.kube import NAMESPACES, ApiAccess, JsonObject, Kube, KubeError, Refused, ResourceType
from relay_operator.accounts.account_object import parse_account
from relay_operator.api.cloudaccount import urls_passed
from relay_operator.api.meta import PLAN_ONLY, ObjectKey
from relay_operator.api.plan import Plan
from relay_operator.api.references import AccountKind
from relay_operator.assembly import assembled
from relay_operator.engine.account import AccountReady
from relay_operator.engine.controller import Controller
from relay_operator.engine.entry import Entry, entry_of, uid_of
from relay_operator.engine.flow import Turn
from relay_operator.engine.identity import RecordedElsewhereError, installation_of
from relay_operator.engine.informer import key_of
from relay_operator.engine.kind import resource_type
from relay_operator.engine.manifests import part
from relay_operator.engine.queue import Priority
from relay_operator.flows.managed.flow import ManagedFlow
from relay_operator.flows.wiring import Parts
from relay_operator.kinds import KINDS
from relay_operator.observability.metrics import Metrics
from relay_operator.proxies import Proxies, ProxyError
from relay_operator.settings import Settings

_ACCOUNTS: Final = frozenset(kind.value for kind in AccountKind)
_ASSUMED: Final = tuple(kind.name for kind in KINDS if kind.assumed)


class PreviewError(Exception):
    """A message: what cannot be read, and why."""


@dataclass(frozen=True, slots=True)
class Previews:
    """The results of a preview."""

    plans: Mapping[ObjectKey, Plan]
    """The plans of the given objects whose kind makes plans."""
    unlisted: Sequence[str]
    """Kinds listed in the objects' own namespaces at most, so that budgets may have less room than counted."""


class _Flow(Protocol):
    async def preview(self, turn: Turn, body: bytes) -> Plan: ...


async def preview(proxy: Path, asked: Iterable[JsonObject], base_url: str) -> Previews:
    """Plans for objects as they are to be, one step each; the objects need not exist.

    `proxy` is the Unix socket of a `kubectl proxy`; `base_url` is the operator's default. Raises PreviewError.
    """
    wanted = {key_of(str(raw.get("kind")), raw): _plan_only(raw) for raw in asked}
    async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(proxy))) as session:
        kube = Kube(ApiAccess("http://localhost", session))
        try:
            listed, unlisted = await _listed(kube, sorted({key.namespace for key in wanted}))
            objects = {**listed, **wanted}
            parts = _parts(kube, objects, base_url, await _installation(kube, wanted.values()))
            try:
                return Previews(await _plans(parts, wanted), unlisted)
            finally:
                await parts.accounts.close()
        except (ProxyError, RecordedElsewhereError) as unfit:
            raise PreviewError(str(unfit)) from None
        except KubeError as error:
            raise PreviewError(f"the API server does not say what a plan needs to know: {error}") from None
        except ValidationError as invalid:
            problem = invalid.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in problem["loc"])
            raise PreviewError(f"a {invalid.title} cannot be read: {where}: {problem['msg']}") from None


async def _plans(parts: Parts, wanted: Iterable[ObjectKey]) -> dict[ObjectKey, Plan]:
    engine, flows, plans = parts.engine, _flows(parts), dict[ObjectKey, Plan]()
    for key in wanted:
        entry = engine.cache.get(key)
        if key.kind in flows and entry is not None:
            await _learn_funds(parts, key)
            turn = Turn(key, entry.uid, engine.wall_clock(), Priority.CHANGE)
            plans[key] = await flows[key.kind].preview(turn, entry.body)
    return plans


def _flows(parts: Parts) -> dict[str, _Flow]:
    made = {kind.name: kind.reconciler(parts) for kind in KINDS}
    return {
        name: controller.flow
        for name, controller in made.items()
        if isinstance(controller, Controller) and isinstance(controller.flow, ManagedFlow)
    }


async def _learn_funds(parts: Parts, key: ObjectKey) -> None:
    """Use what the operator saw of the account's money at its last look."""
    account = parts.engine.cache.account_of(key)
    entry: Entry | None = None if account is None else parts.engine.cache.get(account)
    if account is None or entry is None:
        return
    state = await parts.accounts.state(account)
    if isinstance(state, AccountReady):
        seen = parse_account(account, entry).status
        budgets = parts.budgets
        budgets.looked(state, seen.available_cents, seen.burn_per_hour_cents, budgets.paid(state))


def _parts(kube: Kube, objects: Mapping[ObjectKey, JsonObject], base_url: str, installation: str) -> Parts:
    accounts = [part(raw, "spec") for key, raw in objects.items() if key.kind in _ACCOUNTS]
    urls = {url for key, raw in objects.items() if key.kind in _ACCOUNTS for url in _allowed(key, raw)}
    own = {
        str(part(spec, "apiKeySecretRef")["namespace"])
        for spec in accounts
        if "namespace" in part(spec, "apiKeySecretRef")
    }
    settings = Settings(
        namespace=next(iter(own), "default"),
        allowed_base_urls=tuple(sorted(urls)),
        default_base_url=base_url,
        assumed_kinds=_ASSUMED,
        webhook_public_url="",
    )
    metrics = Metrics(CollectorRegistry())
    parts = assembled(settings, kube, KINDS, metrics, "", lambda: False, Proxies.of_environment()).parts
    parts.engine.installation.name = installation
    for key, raw in objects.items():
        parts.engine.cache.put(key, raw)
    return parts


def _allowed(key: ObjectKey, raw: JsonObject) -> Iterable[str]:
    """The account's URLs; empty if the operator has not accepted them, as the caller may read others' Secrets."""
    try:
        account = parse_account(key, entry_of(raw, ""))
    except ValidationError:
        return ()
    return filter(None, (account.spec.base_url, account.spec.inference_url) if urls_passed(account) else ())


async def _listed(kube: Kube, namespaces: Sequence[str]) -> tuple[dict[ObjectKey, JsonObject], list[str]]:
    """All objects that matter for a decision; if listing all is not allowed, those of the given namespaces."""
    found, unlisted = dict[ObjectKey, JsonObject](), list[str]()
    for kind in KINDS:
        resource, definition = resource_type(kind.definition), kind.definition
        try:
            listed = await _all(kube, resource)
        except Refused:
            unlisted.append(definition.plural)
            inside = namespaces if resource.namespaced else ()
            listed = [raw for namespace in inside for raw in await _all(kube, resource, namespace)]
        found |= {key_of(kind.name, raw): raw for raw in listed}
    return found, unlisted


async def _all(kube: Kube, resource: ResourceType, namespace: str | None = None) -> list[JsonObject]:
    """The objects of a kind; none if the cluster has no such CRD, of which the API server's 404 is plain text."""
    try:
        return [raw async for page in kube.pages(resource, namespace) for raw in page]
    except KubeError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        return []


async def _installation(kube: Kube, wanted: Iterable[JsonObject]) -> str:
    """The installation that an object's status names; else the one that the operator derives without a setting."""
    for raw in wanted:
        identity = part(raw, "status", "identity")
        if identity.get("uid") == uid_of(raw):
            return str(identity.get("installation"))
    try:
        return installation_of(uid_of(await kube.get(NAMESPACES, None, "kube-system")))
    except KubeError:
        return ""  # the cloud has nothing of these objects, so no name contains it


def _plan_only(raw: JsonObject) -> JsonObject:
    metadata = part(raw, "metadata")
    annotations: Mapping[str, JsonValue] = {**part(metadata, "annotations"), PLAN_ONLY: "true"}
    return {**raw, "metadata": {**metadata, "annotations": dict(annotations)}}
