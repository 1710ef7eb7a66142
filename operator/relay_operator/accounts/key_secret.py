"""The Secret that holds an account's API key: read by GET only, and kept until nothing depends on the account."""

import hashlib
import re
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from pydantic import JsonValue

from relay_kube.errors import Conflict, NotFound
from relay_kube.kube import SECRETS, JsonObject, Kube
from relay_operator.api.api_key import NoKey, key_in
from relay_operator.api.meta import GROUP
from relay_operator.engine.manifests import part, unquoted

_TRIES = 5
"""Reads of a Secret that others write at the same time, before its release is left to another pass."""
_DELETION_DOUBT = timedelta(seconds=30)
"""The deletion of a namespace reaches its Secrets and its accounts within this time of each other."""
_NAME = re.compile(r"[a-z0-9][-.a-z0-9]{0,252}")
"""A Secret's name. The held Secret's name is in an annotation, which people can edit."""


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as read; `version` changes with the Secret's identity and the key, not with its labels."""

    value: str = field(repr=False)
    version: str


def finalizer_of(account_uid: str) -> str:
    """The finalizer with which one account holds its Secret; several accounts may hold the same Secret."""
    return f"{GROUP}/account.{account_uid}"


def api_key_in(secret: JsonObject, name: str, key: str) -> ApiKey | NoKey:
    """The key in a Secret. Pure."""
    value = key_in(secret, name, key)
    if isinstance(value, NoKey):
        return value
    digest = hashlib.sha256(value.encode()).hexdigest()
    return ApiKey(value, f"{part(secret, 'metadata').get('uid')}/{digest}")


async def read_api_key(kube: Kube, namespace: str, name: str, key: str) -> ApiKey | NoKey:
    """Read the key from its Secret. Raises KubeError if the API server cannot be asked."""
    try:
        return api_key_in(await kube.get(SECRETS, namespace, name), name, key)
    except NotFound:
        return NoKey(f"the Secret {name} does not exist in the namespace {namespace}")


async def hold(kube: Kube, namespace: str, name: str, account_uid: str, now: datetime) -> None:
    """Keep the Secret from vanishing before the account does, as it would with its namespace.

    A Secret that is deleted by itself, to be replaced by another, is released: that is how keys are rotated.
    Raises KubeError.
    """
    with suppress(NotFound, Conflict):  # if another writer was faster, the next pass, within a minute, tries again
        secret = await kube.get(SECRETS, namespace, name)
        deleted = part(secret, "metadata").get("deletionTimestamp")
        if deleted is None:
            await _set(kube, namespace, name, secret, account_uid, held=True)
        elif now - datetime.fromisoformat(str(deleted)) > _DELETION_DOUBT:
            await _set(kube, namespace, name, secret, account_uid, held=False)


async def release(kube: Kube, namespace: str, name: str, account_uid: str) -> None:
    """Release the Secret; does nothing if the name cannot be a Secret's. Raises KubeError.

    Nobody would release it later, so that another writer who is faster, maybe for another account, is no reason to
    leave it: it is read again, and after some tries Conflict is raised.
    """
    if not _NAME.fullmatch(name):
        return
    for tries_left in reversed(range(_TRIES)):
        try:
            await _set(kube, namespace, name, await kube.get(SECRETS, namespace, name), account_uid, held=False)
        except NotFound:
            return
        except Conflict:
            if not tries_left:
                raise
        else:
            return


async def _set(kube: Kube, namespace: str, name: str, secret: JsonObject, account_uid: str, *, held: bool) -> None:
    metadata, ours = part(secret, "metadata"), finalizer_of(account_uid)
    listed = metadata.get("finalizers")
    before = list(listed) if isinstance(listed, list) else []
    if (ours in before) == held:
        return
    after: list[JsonValue] = [*before, ours] if held else [item for item in before if item != ours]
    patch: JsonObject = {"metadata": {"resourceVersion": metadata.get("resourceVersion"), "finalizers": after}}
    with unquoted(name):
        await kube.patch(SECRETS, namespace, name, patch)
