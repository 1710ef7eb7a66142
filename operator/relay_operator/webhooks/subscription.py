"""An account's webhook subscription: created, found again, repaired, removed. Safe to interrupt at any point.

The cloud shows a subscription's secret once. A process that ends between the create and the write of the Secret
leaves a subscription with an unknown secret: the next pass finds it by its name and rolls its secret.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from relay_client import Cloud, items_of
from relay_client.errors import NotFound as CloudNotFound
from relay_client.operations import (
    CREATE_WEBHOOK,
    DELETE_WEBHOOK,
    LIST_WEBHOOKS,
    REGENERATE_WEBHOOK_SECRET,
    TOGGLE_WEBHOOK,
)
from relay_kube.errors import AlreadyExists, NotFound
from relay_kube.kube import SECRETS, JsonObject, Kube
from relay_operator.api.meta import API_VERSION, ObjectKey
from relay_operator.engine.manifests import as_secret, is_owned_by, part, texts, unquoted
from relay_wire.base import LONGEST_SECRET
from relay_wire.events import EventType
from relay_wire.webhooks import Webhook, WebhookCreate, WebhookToggle

NAME_PREFIX = "relay-operator/"
SECRET_KEY = "webhook-secret"  # noqa: S105 - the key in the Secret, not its value
ID_KEY = "webhook-id"
ASKED_KEY, SHOWN_KEY = "webhook-url", "webhook-url-shown"
_SECRET_PREFIX = "whsec_"  # noqa: S105 - how every secret begins (section 2, "Webhook")
_MANAGED_BY = {"app.kubernetes.io/managed-by": "relay-operator"}


class SecretNameTakenError(Exception):
    """The Secret for the signing secret exists and belongs to something else; the message names it."""


@dataclass(frozen=True, slots=True)
class Subscribed:
    """A subscription and its secret, as the Secret holds them; both empty if there is none."""

    webhook_id: str = ""
    secret: str = field(default="", repr=False)
    asked: str = ""
    """The URL that the subscription was asked for."""
    shown: str = ""
    """How the cloud's list shows that URL, which may differ in a slash or in case; empty until it was read there."""


@dataclass(frozen=True, slots=True)
class Repair:
    """How to arrive at exactly one good subscription; if `keep` is None, by a create."""

    keep: Webhook | None
    remove: tuple[Webhook, ...]
    roll: bool
    resume: bool


def plan_repair(webhooks: Sequence[Webhook], name: str, url: str, recorded: Subscribed) -> Repair:
    """Which subscriptions of the organization are this account's: the good one to keep, and the surplus ones. Pure."""
    ours = [hook for hook in webhooks if is_ours(hook, name, url)]
    good = [hook for hook in ours if _is_for(hook, url, recorded) and _hears_all(hook)]
    keep = next((hook for hook in good if hook.id == recorded.webhook_id), good[0] if good else None)
    return Repair(
        keep=keep,
        remove=tuple(hook for hook in ours if hook is not keep),
        roll=keep is not None and not _secret_fits(keep, recorded),
        resume=keep is not None and not keep.enabled,
    )


def is_ours(hook: Webhook, name: str, url: str) -> bool:
    """By its name, or by the same address and the name of an account object that has since been recreated."""
    return hook.name == name or (hook.url == url and (hook.name or "").startswith(NAME_PREFIX))


def _is_for(hook: Webhook, url: str, recorded: Subscribed) -> bool:
    """Whether it delivers to the URL, which the cloud may show in another notation than it was asked for."""
    asked_for_it = (recorded.webhook_id, recorded.asked) == (hook.id, url)
    return hook.url == url or (asked_for_it and recorded.shown in ("", _shown(hook)))


def _shown(hook: Webhook) -> str:
    return hook.url or "none"


def _hears_all(hook: Webhook) -> bool:
    return not hook.events or set(hook.events) >= set(EventType)


def _secret_fits(hook: Webhook, recorded: Subscribed) -> bool:
    if not 0 < len(recorded.secret) <= LONGEST_SECRET or recorded.webhook_id != hook.id:
        return False
    shown = (hook.secret_prefix or "").rstrip(".…*")
    # Compare only a value that looks like a secret's beginning: any other notation would roll the secret at every pass.
    return not shown.startswith(_SECRET_PREFIX) or recorded.secret.startswith(shown)


@dataclass(frozen=True, slots=True)
class Subscriber:
    """The subscribing account object, and where its signing secret is kept."""

    key: ObjectKey
    uid: str
    namespace: str
    """The namespace of the Secret."""

    @property
    def webhook_name(self) -> str:
        return f"{NAME_PREFIX}{self.uid}"

    @property
    def secret_name(self) -> str:
        # The operator's own namespace may have a CloudAccount of the same name. One called `x-cluster` has the name of
        # the ClusterCloudAccount `x`: the second of both is refused, since a Secret is only its owner's.
        suffix = "-webhook" if self.key.namespace else "-cluster-webhook"
        return f"{self.key.name[: 253 - len(suffix)].rstrip('.')}{suffix}"


async def subscribe(kube: Kube, cloud: Cloud, who: Subscriber, url: str) -> Subscribed:
    """Ensure exactly one subscription with a known secret. Raises CloudError, KubeError, SecretNameTakenError."""
    recorded = await _recorded(kube, who)
    repair = plan_repair(await items_of(cloud, LIST_WEBHOOKS), who.webhook_name, url, recorded)
    for superfluous in repair.remove:
        await _remove(cloud, superfluous.id)
    if repair.keep is None:
        made = await cloud.call(CREATE_WEBHOOK, WebhookCreate(name=who.webhook_name, url=url))
        subscribed = Subscribed(made.id, made.secret, url)
    elif repair.roll:
        rolled = await cloud.call(REGENERATE_WEBHOOK_SECRET, id=repair.keep.id)
        subscribed = Subscribed(repair.keep.id, rolled.secret, url, _shown(repair.keep))
    else:
        subscribed = Subscribed(repair.keep.id, recorded.secret, url, _shown(repair.keep))
    if subscribed != recorded:
        await _record(kube, who, subscribed)
    if repair.resume:
        await cloud.call(TOGGLE_WEBHOOK, WebhookToggle(enabled=True), id=subscribed.webhook_id)
    return subscribed


async def unsubscribe(cloud: Cloud, who: Subscriber, url: str) -> None:
    """Remove all subscriptions of this account; the Secret goes with its owner. Raises CloudError."""
    for hook in await items_of(cloud, LIST_WEBHOOKS):
        if is_ours(hook, who.webhook_name, url):
            await _remove(cloud, hook.id)


async def _remove(cloud: Cloud, webhook_id: str) -> None:
    with suppress(CloudNotFound):
        await cloud.call(DELETE_WEBHOOK, id=webhook_id)


async def _recorded(kube: Kube, who: Subscriber) -> Subscribed:
    try:
        secret = await kube.get(SECRETS, who.namespace, who.secret_name)
    except NotFound:
        return Subscribed()
    if not is_owned_by(secret, who.uid):
        # Check before sending anything to the cloud: never request a secret that cannot be stored.
        raise SecretNameTakenError(_taken(who))
    data = texts(secret.get("data"), encoded=True)
    return Subscribed(*(data.get(name, "") for name in (ID_KEY, SECRET_KEY, ASKED_KEY, SHOWN_KEY)))


def _taken(who: Subscriber) -> str:
    return (
        f"the Secret {who.secret_name} in the namespace {who.namespace} is not this account's: rename it, since "
        "the webhook's signing secret is to be kept there"
    )


async def _record(kube: Kube, who: Subscriber, subscribed: Subscribed) -> None:
    data = as_secret(
        {
            ID_KEY: subscribed.webhook_id,
            SECRET_KEY: subscribed.secret,
            ASKED_KEY: subscribed.asked,
            SHOWN_KEY: subscribed.shown,
        }
    )
    metadata: JsonObject = {
        "name": who.secret_name,
        "namespace": who.namespace,
        "labels": {**_MANAGED_BY},
        "ownerReferences": [{"apiVersion": API_VERSION, "kind": who.key.kind, "name": who.key.name, "uid": who.uid}],
    }
    body: JsonObject = {"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": metadata, "data": data}
    try:
        with unquoted(who.secret_name):
            await kube.create(SECRETS, who.namespace, body)
    except AlreadyExists:
        found = await kube.get(SECRETS, who.namespace, who.secret_name)
        if not is_owned_by(found, who.uid):
            raise SecretNameTakenError(_taken(who)) from None
        metadata["resourceVersion"] = part(found, "metadata").get("resourceVersion")
        with unquoted(who.secret_name):
            await kube.patch(SECRETS, who.namespace, who.secret_name, {"metadata": metadata, "data": data})
