"""The webhook endpoint: verifies that a delivery comes from the cloud, then enqueues its hints (section 6)."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from secrets import token_hex

from aiohttp import web

from relay_client.signature import InvalidPayload, InvalidSignature, authenticate, event_in
from relay_operator.api.meta import ObjectKey
from relay_operator.api.references import AccountKind
from relay_operator.engine.account_users import named_account
from relay_operator.observability.metrics import WebhookOutcome
from relay_wire.events import DELIVERY_HEADER, SIGNATURE_HEADER, Event

CLUSTER_SEGMENT = "_cluster"
"""Stands for the namespace in the URL of a ClusterCloudAccount; a namespace cannot have this name."""

_READ_SECONDS = 10.0
_UNPROVEN_BYTES = 16 * 1024 * 1024
"""The most bytes of unverified bodies in memory, all together: with the default limit of one, all connections fit."""
_DIGEST_BYTES = 16
_NOBODYS = token_hex()
"""Signs nothing: for an unknown account the body is checked as for any other, and takes as long."""


@dataclass(slots=True)
class Receiver:
    """Accepts deliveries at `/webhooks/{namespace}/{account}`."""

    secrets_for: Callable[[ObjectKey], tuple[str, ...] | None]
    """The secrets of an account's subscription, None without one; both while a rolled secret is still accepted.

    Must answer from memory, since it is called before any proof.
    """
    seen_by: Callable[[ObjectKey], OrderedDict[bytes, None]]
    """Where digests of the ids of an account's deliveries are kept, the oldest first; asked only if it has secrets."""
    on_event: Callable[[ObjectKey, Event], None]
    """Receives an event with a valid signature; MUST only enqueue. It may be replayed, late, or about anything."""
    on_delivery: Callable[[WebhookOutcome], None]
    """Called with the outcome of each delivery, for metrics."""
    body_limit: int
    deduplication_size: int
    read_seconds: float = _READ_SECONDS
    _unproven: int = 0
    """Bytes of all bodies that are being read."""

    def app(self) -> web.Application:
        """The app with its one route, and what health checks of load balancers ask for."""
        app = web.Application()
        app.router.add_get("/", _is_here)
        app.router.add_post("/webhooks/{namespace}/{account}", self._deliver)
        return app

    async def _deliver(self, request: web.Request) -> web.Response:
        outcome = await self._outcome(request)
        self.on_delivery(outcome)
        response = web.Response(status=_STATUS[outcome])
        if response.status >= 400:
            response.force_close()  # the rest of an unwanted body is not worth reading
        return response

    async def _outcome(self, request: web.Request) -> WebhookOutcome:
        """Nothing before the end depends on whether there is such an account: strangers must not learn it."""
        if "Content-Encoding" in request.headers:
            return WebhookOutcome.MALFORMED  # the signature is over the raw bytes, which aiohttp has unpacked
        signatures = request.headers.getall(SIGNATURE_HEADER, [])
        if len(signatures) != 1 or not signatures[0].isascii():
            return WebhookOutcome.BAD_SIGNATURE  # no body can make this signature valid
        if (request.content_length or 0) > self.body_limit:
            return WebhookOutcome.TOO_LARGE
        body = bytearray()
        try:
            unread = await self._read(request, body)
        except (TimeoutError, OSError, web.RequestPayloadError):
            return WebhookOutcome.MALFORMED
        finally:
            self._unproven -= len(body)
        if unread is not None:
            return unread
        account = account_at(request.match_info["namespace"], request.match_info["account"])
        secrets = self.secrets_for(account)
        raw_body = bytes(body)
        proven = _is_proven(signatures[0], raw_body, secrets or (_NOBODYS,))
        if not secrets:
            return WebhookOutcome.UNKNOWN_ACCOUNT
        return self._accept(request, account, raw_body) if proven else WebhookOutcome.BAD_SIGNATURE

    async def _read(self, request: web.Request, body: bytearray) -> WebhookOutcome | None:
        """Read the body, whatever Content-Length says; returns why it stopped: too large, alone or with others."""
        async with asyncio.timeout(self.read_seconds):
            async for chunk in request.content.iter_any():
                body += chunk
                self._unproven += len(chunk)
                if len(body) > self.body_limit:
                    return WebhookOutcome.TOO_LARGE
                if self._unproven > _UNPROVEN_BYTES:
                    return WebhookOutcome.BUSY
        return None

    def _accept(self, request: web.Request, account: ObjectKey, signed_body: bytes) -> WebhookOutcome:
        # Without the header, duplicates cannot be recognized; they are harmless, since an event is only a hint.
        delivery, seen = request.headers.get(DELIVERY_HEADER, ""), self.seen_by(account)
        digest = blake2b(delivery.encode(errors="surrogateescape"), digest_size=_DIGEST_BYTES).digest()
        if digest in seen:
            seen.move_to_end(digest)
            return WebhookOutcome.DUPLICATE
        try:
            event = event_in(signed_body)
        except InvalidPayload:
            return WebhookOutcome.MALFORMED
        self.on_event(account, event)
        if delivery:
            seen[digest] = None
        if len(seen) > self.deduplication_size:
            seen.popitem(last=False)
        return WebhookOutcome.ACCEPTED


async def _is_here(_request: web.Request) -> web.Response:
    """Tells nothing: whether this replica leads, its Service knows."""
    return web.Response()


_STATUS = {
    WebhookOutcome.ACCEPTED: 204,
    WebhookOutcome.DUPLICATE: 204,
    WebhookOutcome.UNKNOWN_ACCOUNT: 401,  # as for a bad signature
    WebhookOutcome.BUSY: 503,
    WebhookOutcome.TOO_LARGE: 413,
    WebhookOutcome.BAD_SIGNATURE: 401,
    WebhookOutcome.MALFORMED: 400,
}


def account_at(namespace: str, name: str) -> ObjectKey:
    """The account that the two segments of a webhook URL identify."""
    shared = namespace == CLUSTER_SEGMENT
    return named_account(namespace, AccountKind.CLUSTER_CLOUD_ACCOUNT if shared else AccountKind.CLOUD_ACCOUNT, name)


def webhook_url(public_url: str, account: ObjectKey) -> str:
    """Where the cloud delivers an account's events."""
    return f"{public_url.rstrip('/')}/webhooks/{account.namespace or CLUSTER_SEGMENT}/{account.name}"


def _is_proven(signature: str, raw_body: bytes, secrets: tuple[str, ...]) -> bool:
    """Whether one of the secrets signed the body."""
    for secret in secrets:
        try:
            authenticate({SIGNATURE_HEADER: signature}, raw_body, secret)
        except InvalidSignature:
            continue
        return True
    return False
