"""What the operator would do for an object, decided by its own code in the caller's process.

It changes nothing: it only reads from the API server, and a process that does not lead only reads from the cloud.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Final, Protocol

import aiohttp
from prometheus_client import CollectorRegistry
from pydantic import JsonValue, ValidationError

from relay_client.errors import PaymentRequired
from relay_kube.errors import KubeError, Refused
from relay_kube.kube import NAMESPACES, ApiAccess, JsonObject, Kube, ResourceType
from relay_operator.accounts.account_object import parse_account
from relay_operator.api.cloudaccount import AnyAccount, ClusterCloudAccount, readiness, secret_namespace, urls_passed
from relay_operator.api.meta import PLAN_ONLY, ObjectKey
from relay_operator.api.plan import Plan, PlannedAction
from relay_operator.api.references import AccountKind
from relay_operator.assembly import assembled
from relay_operator.engine.account import AccountReady
from relay_operator.engine.controller import Controller
from relay_operator.engine.entry import entry_of, uid_of
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
_NOBODYS: Final = "namespace-of-no-operator"


class PreviewError(Exception):
    """A message: what cannot be read, and why."""


class UrlUnknownError(Exception):
    """Neither the account nor the caller names the cloud's URL, but the operator may have a default."""

    def __init__(self, account: AnyAccount) -> None:
        super().__init__(f"the URL of {account.key}")
        self.account = account


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

    `proxy` is the Unix socket of a `kubectl proxy`; `base_url` is the operator's default, empty if it is not known.
    Raises PreviewError, and UrlUnknownError if an object's account needs that default.
    """
    wanted = {key_of(str(raw.get("kind")), raw): _plan_only(raw) for raw in asked}
    async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(proxy))) as session:
        kube = Kube(ApiAccess("http://localhost", session))
        try:
            listed, unlisted = await _listed(kube, sorted({key.namespace for key in wanted}))
            operators = _Operators(kube, {**listed, **wanted}, base_url, await _installation(kube, wanted.values()))
            try:
                return Previews(await _plans(operators, wanted), unlisted)
            finally:
                await operators.close()
        except (ProxyError, RecordedElsewhereError) as unfit:
            raise PreviewError(str(unfit)) from None
        except KubeError as error:
            raise PreviewError(f"the API server does not say what a plan needs to know: {error}") from None
        except ValidationError as invalid:
            problem = invalid.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in problem["loc"])
            raise PreviewError(f"a {invalid.title} cannot be read: {where}: {problem['msg']}") from None


@dataclass(frozen=True, slots=True)
class _Operator:
    parts: Parts
    flows: Mapping[str, _Flow]
    """By the kinds that make plans."""


class _Operators:
    """The operators as this process assembles them, one for each namespace with the Secrets of shared accounts.

    An operator uses only shared accounts whose Secrets are in its own namespace, and releases may share the cluster.
    """

    def __init__(self, kube: Kube, objects: Mapping[ObjectKey, JsonObject], base_url: str, installation: str) -> None:
        self._kube = kube
        self._objects = objects
        self._base_url = base_url
        self._installation = installation
        self._accounts = _accounts(objects)
        self._made: dict[str, _Operator] = {}

    def account(self, key: ObjectKey) -> AnyAccount | None:
        """The account of an object; None if it does not exist, or cannot be read."""
        named = self._of(_NOBODYS).parts.engine.cache.account_of(key)
        return None if named is None else self._accounts.get(named)

    def of(self, account: AnyAccount | None) -> _Operator:
        """The operator that uses the account; for a shared one that none has accepted, one that refuses it."""
        if isinstance(account, ClusterCloudAccount) and not _refusal(account):
            return self._of(secret_namespace(account))
        return self._of(_NOBODYS)

    async def close(self) -> None:
        for operator in self._made.values():
            await operator.parts.accounts.close()

    def _of(self, namespace: str) -> _Operator:
        if namespace not in self._made:
            urls = {url for account in self._accounts.values() for url in _allowed(account)}
            parts = _parts(self._kube, namespace, urls, self._base_url)
            parts.engine.installation.name = self._installation
            for key, raw in self._objects.items():
                parts.engine.cache.put(key, raw)
            self._made[namespace] = _Operator(parts, _flows(parts))
        return self._made[namespace]


def _parts(kube: Kube, namespace: str, allowed: Iterable[str], base_url: str) -> Parts:
    settings = Settings(
        namespace=namespace,
        allowed_base_urls=tuple(sorted(allowed)),
        default_base_url=base_url,
        assumed_kinds=_ASSUMED,
        webhook_public_url="",
    )
    metrics = Metrics(CollectorRegistry())
    return assembled(settings, kube, KINDS, metrics, "", lambda: False, Proxies.of_environment()).parts


def _flows(parts: Parts) -> dict[str, _Flow]:
    made = {kind.name: kind.reconciler(parts) for kind in KINDS}
    return {
        name: controller.flow
        for name, controller in made.items()
        if isinstance(controller, Controller) and isinstance(controller.flow, ManagedFlow)
    }


async def _plans(operators: _Operators, wanted: Iterable[ObjectKey]) -> dict[ObjectKey, Plan]:
    found = {key: await _plan(operators, key) for key in wanted}
    return {key: plan for key, plan in found.items() if plan is not None}


async def _plan(operators: _Operators, key: ObjectKey) -> Plan | None:
    """The plan; None for a kind without. Raises UrlUnknownError."""
    account = operators.account(key)
    operator = operators.of(account)
    engine, flow = operator.parts.engine, operator.flows.get(key.kind)
    entry = engine.cache.get(key)
    if flow is None or entry is None:
        return None
    refusal = "" if account is None else _refusal(account)
    if account is not None and not refusal:
        if not account.spec.base_url and not operator.parts.settings.default_base_url:
            raise UrlUnknownError(account)
        await _learn_funds(operator.parts, account, key)
    plan = await flow.preview(Turn(key, entry.uid, engine.wall_clock(), Priority.CHANGE), entry.body)
    is_held = refusal and plan.action is PlannedAction.NONE
    return plan.model_copy(update={"reason": refusal[:1024]}) if is_held else plan


async def _learn_funds(parts: Parts, account: AnyAccount, whose: ObjectKey) -> None:
    """Use what the operator saw of the account's money at its last look, and what it knows was refused for that."""
    state = await parts.accounts.state(account.key)
    if isinstance(state, AccountReady):
        seen, budgets = account.status, parts.budgets
        budgets.looked(state, seen.available_cents, seen.burn_per_hour_cents, budgets.paid(state))
        parts.accounts.failed(state, PaymentRequired("", "if its status says so"), whose)


def _accounts(objects: Mapping[ObjectKey, JsonObject]) -> dict[ObjectKey, AnyAccount]:
    """The accounts that can be read."""
    found = dict[ObjectKey, AnyAccount]()
    for key, raw in objects.items():
        if key.kind in _ACCOUNTS:
            with suppress(ValidationError):
                found[key] = parse_account(key, entry_of(raw, ""))
    return found


def _allowed(account: AnyAccount) -> Iterable[str]:
    """The account's URLs; empty if the operator has not accepted them, as the caller may read others' Secrets."""
    return filter(None, (account.spec.base_url, account.spec.inference_url) if urls_passed(account) else ())


def _refusal(account: AnyAccount) -> str:
    """Why no operator uses the account, which is shared; empty if one does, or if it is not shared."""
    if not isinstance(account, ClusterCloudAccount) or urls_passed(account):
        return ""
    ready = readiness(account)
    return f"no operator has accepted {account.key}{' yet' if ready is None else f': {ready.message}'}"


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
