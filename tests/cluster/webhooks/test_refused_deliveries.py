"""Deliveries that are forged, repeated, too large or for nobody: refused cheaply, counted, and without effect."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import aiohttp
import pytest_asyncio

from tests.cluster.cloud_log import READ_VM, count
from tests.support.eventually import eventually
from tests.support.manifests import gpu_pod

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.kube import Manifest
    from tests.support.operator import Operator
    from tests.support.workspace import Workspace

MEBIBYTE = 1_048_576


@dataclass
class Sender:
    """Delivers to the operator as the cloud, or somebody who would like to be it, does."""

    workspace: Workspace
    operator: Operator
    pod: Manifest
    secret: str
    looks: int
    """Reads of the pod before anything was sent."""

    def event(self, kind: str = "vm.terminated") -> bytes:
        """What the cloud would say of the pod."""
        data = {"vmId": self.pod["status"]["id"]}
        event = {"id": "evt_1", "type": kind, "created_at": "2026-11-21T00:00:00Z", "data": data}
        return json.dumps(event).encode()

    async def send(
        self, body: bytes, secret: str | None = None, account: str = "default", *, chunked: bool = False
    ) -> int:
        """POSTs the body with the signature of that secret (none: unsigned); answers the HTTP status."""
        url = f"{self.operator.webhook_url}/webhooks/{self.workspace.namespace}/{account}"
        headers = {"Content-Type": "application/json", "X-Relay-Event": "vm.terminated", "X-Relay-Delivery": "d-1"}
        if secret is not None:
            headers["X-Relay-Signature"] = _signature(secret, body)
        data = _pieces(body) if chunked else body
        async with aiohttp.ClientSession() as session, session.post(url, data=data, headers=headers) as reply:
            return reply.status

    async def counted(self, outcome: str) -> float:
        """Deliveries with that outcome so far, by /metrics."""
        return await self.operator.metric("gpurelay_webhook_deliveries_total", outcome=outcome)

    async def look(self, stamp: str) -> Manifest:
        """Asks for one look: what was delivered before has had its effect by then."""
        await self.workspace.kube.annotate("GpuPod", "trainer", {"gpurelay.dev/reconcile-at": stamp})

        def echoed(item: Manifest | None) -> bool:
            return bool((item or {})["status"].get("reconcileAt") == stamp)

        return await self.workspace.becomes("GpuPod", "trainer", echoed)

    async def expect_looks(self, expected: int) -> None:
        """Asks for one look, and expects so many in all."""
        seen = await self.look("asked")
        assert seen["status"]["state"] == "running"
        assert await count(self.workspace, READ_VM) - self.looks == expected + 1


def _signature(secret: str, body: bytes) -> str:
    key = hashlib.sha256(secret.encode()).hexdigest().encode()
    return "sha256=" + hmac.new(key, body, hashlib.sha256).hexdigest()


async def _pieces(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), 65_536):
        yield body[start : start + 65_536]


@pytest_asyncio.fixture
async def sender(workspace: Workspace, operator: Operator) -> Sender:
    """A sender that knows a running pod and the secret that the cloud signs with."""
    await workspace.becomes("CloudAccount", "default")
    await workspace.apply(gpu_pod())
    pod = await workspace.becomes("GpuPod", "trainer")
    kept = await workspace.kube.get("Secret", "default-webhook")
    secret = base64.b64decode(kept["data"]["webhook-secret"]).decode()

    async def delivered() -> bool:
        attempts = await workspace.cloud.control.deliveries(organization=workspace.organization)
        return any(one["statusCode"] == 204 for one in attempts)

    await eventually(delivered, what="the cloud told of the pod")
    ready = Sender(workspace, operator, pod, secret, 0)
    await ready.look("settled")
    ready.looks = await count(workspace, READ_VM)
    return ready


async def test_a_delivery_with_a_wrong_signature_or_none_is_refused(sender: Sender) -> None:
    before = await sender.counted("bad_signature")
    assert await sender.send(sender.event(), "whsec_somebody_elses") == 401
    assert await sender.send(sender.event()) == 401
    assert await sender.counted("bad_signature") == before + 2
    await sender.expect_looks(0)


async def test_a_delivery_that_is_sent_again_is_taken_and_looked_into_once(sender: Sender) -> None:
    duplicates, accepted = await sender.counted("duplicate"), await sender.counted("accepted")
    for _ in range(3):
        assert await sender.send(sender.event(), sender.secret) == 204
    assert await sender.counted("duplicate") == duplicates + 2
    assert await sender.counted("accepted") == accepted + 1
    await eventually(lambda: count(sender.workspace, READ_VM), lambda seen: seen == sender.looks + 1)
    await sender.expect_looks(1)


async def test_a_replay_by_the_cloud_itself_has_no_effect(sender: Sender) -> None:
    before, control = await sender.counted("duplicate"), sender.workspace.cloud.control
    ours = [one for one in await control.deliveries() if one["organizationId"] == sender.workspace.organization.id]
    await control.replay(ours[-1]["deliveryId"])
    await eventually(lambda: sender.counted("duplicate"), lambda counted: counted == before + 1)
    await sender.expect_looks(0)


async def test_a_signed_lie_is_looked_into_and_not_believed(sender: Sender) -> None:
    assert await sender.send(sender.event("vm.terminated"), sender.secret) == 204
    await eventually(lambda: count(sender.workspace, READ_VM), lambda seen: seen == sender.looks + 1)
    await sender.expect_looks(1)


async def test_a_body_over_a_mebibyte_is_refused_announced_or_not(sender: Sender) -> None:
    before = await sender.counted("too_large")
    body = sender.event() + b" " * MEBIBYTE
    assert await sender.send(body, sender.secret) == 413
    assert await sender.send(body, sender.secret, chunked=True) == 413
    assert await sender.counted("too_large") == before + 2
    await sender.expect_looks(0)


async def test_a_delivery_for_an_unknown_account_is_refused(sender: Sender) -> None:
    before = await sender.counted("unknown_account")
    assert await sender.send(sender.event(), sender.secret, account="nobodys") == 401
    assert await sender.counted("unknown_account") > before  # the cloud may tell accounts of former tests as well
    await sender.expect_looks(0)


async def test_a_signed_body_that_is_no_event_is_refused(sender: Sender) -> None:
    before = await sender.counted("malformed")
    for body in (b"", b"not json", b"[]", b'{"type": 1}'):
        assert await sender.send(body, sender.secret) == 400
    assert await sender.counted("malformed") == before + 4
    await sender.expect_looks(0)
