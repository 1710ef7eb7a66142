"""The unit tests' API server is honest: asked the same as a real one, it answers, stores and tells the same."""

from __future__ import annotations

import json
import re
import secrets
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import aiohttp
import pytest
import pytest_asyncio

from tests.support.kube import Kube, Manifest
from tests.support.manifests import gpu_pod
from tests.unit.engine.apiserver import JSON_PATCH, MERGE_PATCH, ApiServer
from tests.unit.flows.managed.world import pod_problem

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.conftest import SharedOperator

PODS, CONFIG_MAPS = (
    "/apis/gpurelay.dev/v1alpha1/namespaces/{namespace}/gpupods",
    "/api/v1/namespaces/{namespace}/configmaps",
)
POD = f"{PODS}/a"
STATUS = f"{POD}/status"
HELD = ["example.com/held"]
LAST = "last"
"""The name of the object whose creation ends what is watched."""


@dataclass(frozen=True)
class Ask:
    """A request.

    In its body and path `<uid>` is the first uid answered, `<version N>` the N-th version answered (a version counts
    as often as it is answered), `<continue>` what the last page answered.
    """

    method: str
    path: str
    body: object = None
    content_type: str = MERGE_PATCH


def made(name: str = "a", **metadata: object) -> Ask:
    pod = gpu_pod(name)
    return Ask("POST", PODS, pod | {"metadata": pod["metadata"] | metadata})


def bound(**metadata: str) -> dict[str, object]:
    """A change of status that is bound to what metadata says."""
    return {"metadata": metadata, "status": {"state": "running"}}


def labelled(value: str = "b", **metadata: object) -> dict[str, object]:
    return {"metadata": {"labels": {"a": value}, **metadata}}


LONG_AGO = "2020-01-01T00:00:00Z"
OTHER_UID = "11111111-2222-3333-4444-555555555555"
DELETE, GET = Ask("DELETE", POD), Ask("GET", POD)
RELEASE = Ask("PATCH", POD, {"metadata": {"finalizers": None}})
CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": "b"}}


def operations(*each: dict[str, object]) -> Ask:
    return Ask("PATCH", POD, each, JSON_PATCH)


TABLE: dict[str, tuple[Ask, ...]] = {
    "create": (made(), GET),
    "create with status": (Ask("POST", PODS, gpu_pod("a") | {"status": {"id": "pod-1"}}), GET),
    "create with what the server sets": (
        made(uid=OTHER_UID, generation=7, creationTimestamp=LONG_AGO, deletionTimestamp=LONG_AGO),
        GET,
    ),
    "create with a resourceVersion": (made(resourceVersion="1"), GET),
    "create of what exists": (made(), made()),
    "create of what is being deleted": (made(finalizers=HELD), DELETE, made()),
    "create that the CRD refuses": (Ask("POST", PODS, gpu_pod("a", count=-1)),),
    "create in a namespace that is missing": (Ask("POST", PODS.format(namespace="missing"), gpu_pod("a")),),
    "create of another kind": (Ask("POST", CONFIG_MAPS, CONFIG), Ask("GET", f"{CONFIG_MAPS}/a")),
    "create of a ConfigMap with as much as fits": (Ask("POST", CONFIG_MAPS, CONFIG | {"data": {"a": "x" * 2**20}}),),
    "create of a ConfigMap with more": (Ask("POST", CONFIG_MAPS, CONFIG | {"data": {"a": "x" * 2**20, "b": "c"}}),),
    "read of what is missing": (GET,),
    "status patch": (made(), Ask("PATCH", STATUS, bound()), GET),
    "status patch with the right uid and version": (
        made(),
        Ask("PATCH", STATUS, bound(uid="<uid>", resourceVersion="<version 1>")),
    ),
    "status patch with a wrong uid": (made(), Ask("PATCH", STATUS, bound(uid=OTHER_UID)), GET),
    "status patch with a wrong uid and the right version": (
        made(),
        Ask("PATCH", STATUS, bound(uid=OTHER_UID, resourceVersion="<version 1>")),
        GET,
    ),
    "status patch with an old version": (
        made(),
        Ask("PATCH", POD, labelled()),
        Ask("PATCH", STATUS, bound(resourceVersion="<version 1>")),
        GET,
    ),
    "status patch of metadata and spec": (
        made(),
        Ask("PATCH", STATUS, bound() | labelled(finalizers=HELD) | {"spec": {"image": "other"}}),
        GET,
    ),
    "status patch that the CRD refuses": (made(), Ask("PATCH", STATUS, {"status": {"attempt": -1}}), GET),
    "status patch to nothing": (made(), Ask("PATCH", STATUS, bound()), Ask("PATCH", STATUS, {"status": None}), GET),
    "status patch that changes nothing": (made(), *[Ask("PATCH", STATUS, bound())] * 2),
    "status patch without a version": (made(), Ask("PATCH", STATUS, bound() | {"metadata": {"resourceVersion": None}})),
    "status patch of what is missing": (Ask("PATCH", STATUS, bound()),),
    "status patch of what is being deleted": (made(finalizers=HELD), DELETE, Ask("PATCH", STATUS, bound()), GET),
    "patch of metadata": (made(), Ask("PATCH", POD, labelled()), GET),
    "patch with a wrong uid": (made(), Ask("PATCH", POD, labelled(uid=OTHER_UID)), GET),
    "patch with a wrong uid and an old version": (
        made(),
        Ask("PATCH", POD, labelled()),
        Ask("PATCH", POD, labelled("c", uid=OTHER_UID, resourceVersion="<version 1>")),
    ),
    "patch with an old version": (
        made(),
        Ask("PATCH", STATUS, bound()),
        Ask("PATCH", POD, labelled(resourceVersion="<version 1>")),
        GET,
    ),
    "patch of the spec": (made(), Ask("PATCH", POD, {"spec": {"image": "other"}}), GET),
    "patch of the status of the main resource": (made(), Ask("PATCH", POD, bound() | labelled()), GET),
    "patch of the generation": (made(), Ask("PATCH", POD, labelled(generation=7)), GET),
    "patch of the moment of creation": (made(), Ask("PATCH", POD, labelled(creationTimestamp=LONG_AGO)), GET),
    "patch of the moment of deletion": (made(), Ask("PATCH", POD, labelled(deletionTimestamp=LONG_AGO)), GET),
    "patch that removes what the server sets": (
        made(finalizers=HELD),
        DELETE,
        Ask("PATCH", POD, labelled(uid=None, creationTimestamp=None, deletionTimestamp=None, generation=None)),
        Ask("PATCH", POD, labelled("c", resourceVersion=None)),
    ),
    "patch that the CRD refuses": (made(), Ask("PATCH", POD, {"spec": {"gpu": {"count": -1}}}), GET),
    "patch that changes nothing": (made(), *[Ask("PATCH", POD, labelled())] * 2, Ask("PATCH", POD, {}), GET),
    "patch of what was deleted": (made(), DELETE, Ask("PATCH", POD, labelled())),
    "patch of another object of that name": (
        made(),
        DELETE,
        made(),
        Ask("PATCH", POD, labelled(uid="<uid>")),
        Ask("PATCH", POD, labelled(resourceVersion="<version 1>")),
        Ask("PATCH", STATUS, bound(uid="<uid>")),
        Ask("PATCH", STATUS, bound(uid="<uid>", resourceVersion="<version 1>")),
        GET,
    ),
    "JSON patch": (
        made(),
        operations(
            {"op": "test", "path": "/metadata/uid", "value": "<uid>"},
            {"op": "add", "path": "/metadata/labels", "value": {"a": "b"}},
            {"op": "replace", "path": "/metadata/labels/a", "value": "c"},
        ),
        operations({"op": "remove", "path": "/metadata/labels/a"}),
        GET,
    ),
    "JSON patch with a test that fails": (
        made(),
        operations(
            {"op": "test", "path": "/metadata/uid", "value": OTHER_UID},
            {"op": "add", "path": "/metadata/labels", "value": {"a": "b"}},
        ),
        GET,
    ),
    "JSON patch with a test of what is missing": (
        made(),
        Ask("PATCH", POD, labelled()),
        operations({"op": "test", "path": "/metadata/annotations/a", "value": "b"}),
        operations({"op": "test", "path": "/metadata/annotations", "value": None}),
        operations({"op": "test", "path": "/metadata/labels/a/b", "value": None}),
    ),
    "JSON patch that removes and replaces what is missing": (
        made(),
        Ask("PATCH", STATUS, bound()),
        operations({"op": "remove", "path": "/metadata/labels/a"}),
        operations({"op": "remove", "path": "/metadata/labels"}),
        operations({"op": "add", "path": "/metadata/labels/a", "value": "b"}),
        operations({"op": "replace", "path": "/metadata/labels", "value": {"a": "b"}}),
        operations({"op": "replace", "path": "/metadata/labels", "value": {}}),
    ),
    "patch of a kind that nobody knows": (made(), Ask("PATCH", POD, labelled(), "application/json")),
    "deletion": (made(), DELETE, GET, DELETE),
    "deletion of what is held": (made(finalizers=HELD), DELETE, GET, DELETE, GET),
    "deletion with a uid that does not hold": (made(), Ask("DELETE", POD, {"preconditions": {"uid": OTHER_UID}}), GET),
    "deletion with the uid": (made(), Ask("DELETE", POD, {"preconditions": {"uid": "<uid>"}})),
    "deletion with a version that does not hold": (
        made(),
        Ask("PATCH", POD, labelled()),
        Ask("DELETE", POD, {"preconditions": {"resourceVersion": "<version 1>"}}),
        GET,
    ),
    "deletion of another kind": (
        Ask("POST", CONFIG_MAPS, CONFIG | {"metadata": {"name": "a", "finalizers": HELD}}),
        Ask("DELETE", f"{CONFIG_MAPS}/a"),
        Ask("PATCH", f"{CONFIG_MAPS}/a", {"data": {"a": "c"}}),
        Ask("PATCH", f"{CONFIG_MAPS}/a", {"metadata": {"finalizers": []}}),
    ),
    "a finalizer for what is being deleted": (
        made(finalizers=HELD),
        DELETE,
        Ask("PATCH", POD, {"metadata": {"finalizers": [*HELD, "example.com/late"]}}),
        Ask("PATCH", POD, {"metadata": {"finalizers": ["example.com/late"]}}),
        GET,
    ),
    "a finalizer for what was deleted": (made(), DELETE, Ask("PATCH", POD, {"metadata": {"finalizers": HELD}})),
    "the last finalizer goes": (
        made(finalizers=HELD),
        DELETE,
        Ask("PATCH", POD, labelled(finalizers=[])),
        GET,
    ),
    "one of two finalizers goes": (
        made(finalizers=[*HELD, "example.com/other"]),
        DELETE,
        Ask("PATCH", POD, {"metadata": {"finalizers": HELD}}),
        RELEASE,
    ),
    "finalizers are emptied of what stays": (
        made(finalizers=HELD),
        Ask("PATCH", POD, {"metadata": {"finalizers": []}}),
        GET,
    ),
    "pages": (
        *[made(name) for name in ("c", "a", "b")],
        Ask("GET", f"{PODS}?limit=2"),
        Ask("GET", f"{PODS}?limit=2&continue=<continue>"),
        Ask("GET", f"{PODS}?limit=3"),
        Ask("GET", PODS),
    ),
    "a list of nothing": (Ask("GET", PODS), Ask("GET", PODS.format(namespace="missing"))),
    "a list of another kind": (Ask("POST", CONFIG_MAPS, CONFIG), Ask("GET", f"{CONFIG_MAPS}?limit=1")),
}


@dataclass
class Server:
    """One of the two, as the requests of a row see it."""

    session: aiohttp.ClientSession
    namespace: str
    answers: list[tuple[int, Manifest]] = field(default_factory=list)

    async def ask(self, ask: Ask) -> None:
        content_type = ask.content_type if ask.method == "PATCH" else "application/json"
        path, body = self._filled(ask.path.format(namespace=self.namespace)), self._filled(json.dumps(ask.body))
        headers = {"Content-Type": content_type}
        data = None if ask.body is None else body
        async with self.session.request(ask.method, path, data=data, headers=headers) as reply:
            self.answers.append((reply.status, await reply.json()))

    def _filled(self, text: str) -> str:
        metadata = [answer.get("metadata", {}) for _, answer in self.answers]
        uids = [one["uid"] for one in metadata if "uid" in one]
        versions = [one["resourceVersion"] for one in metadata if "uid" in one]
        tokens = [one["continue"] for one in metadata if "continue" in one]
        text = re.sub("<version ([0-9])>", lambda found: versions[int(found[1]) - 1], text)
        return text.replace("<uid>", (uids or [""])[0]).replace("<continue>", (tokens or [""])[-1])


def compared(answers: list[tuple[int, Manifest]], events: list[tuple[str, Manifest]]) -> tuple[object, object]:
    """What must be the same: uids and versions by their order, moments by whether they are there."""
    told = [*(answer for _, answer in answers), *(item for _, item in events)]
    metadata = [
        item["metadata"] for one in told for item in one.get("items", [one]) if "uid" in item.get("metadata", {})
    ]
    uids = list(dict.fromkeys(one["uid"] for one in metadata))
    versions = sorted({int(one["resourceVersion"]) for one in metadata})

    def alike(one: Manifest) -> Manifest:
        if "items" in one:
            return {"continue": bool(one["metadata"].get("continue")), "items": [alike(item) for item in one["items"]]}
        if one.get("kind") == "Status":
            return {name: one[name] for name in ("kind", "status", "reason") if name in one}
        known = {name: value for name, value in one["metadata"].items() if name not in ("managedFields", "namespace")}
        known["uid"] = f"uid {uids.index(known['uid'])}"
        known["resourceVersion"] = f"version {versions.index(int(known['resourceVersion']))}"
        known |= {name: "a moment" for name in known if name.endswith("Timestamp")}
        return {**one, "metadata": known}

    return [(status, alike(answer)) for status, answer in answers], [(event, alike(item)) for event, item in events]


@pytest_asyncio.fixture
async def fake() -> AsyncIterator[ApiServer]:
    """As the unit tests use it."""
    server = ApiServer(now=lambda: datetime.now(UTC), validate=pod_problem)
    runner = await server.start()
    yield server
    await runner.cleanup()


@pytest_asyncio.fixture
async def real(operator_kubeconfig: Path, shared_operator: SharedOperator, kube: Kube) -> AsyncIterator[Kube]:
    """The API server as its administrator, with the CRDs, a namespace of the test's own, and nobody else at work."""
    assert operator_kubeconfig
    await shared_operator.operator.stop()
    kube.namespace = f"contract-{secrets.token_hex(3)}"
    await kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": kube.namespace}})
    yield kube
    for pod in await kube.list("GpuPod"):
        await kube.patch("GpuPod", pod["metadata"]["name"], {"metadata": {"finalizers": None}})
    for kind in ("GpuPod", "ConfigMap"):
        await kube.delete_all(kind)


async def asked_of_the_fake(fake: ApiServer, namespace: str, asks: tuple[Ask, ...]) -> tuple[object, object]:
    fake.put("namespaces", {"metadata": {"name": namespace}})
    events: list[tuple[str, Manifest]] = []
    fake.on_change = lambda event, raw: events.append((event, raw))
    async with aiohttp.ClientSession(fake.url) as session:
        server = Server(session, namespace)
        for ask in asks:
            await server.ask(ask)
    return compared(server.answers, events)


async def asked_of_the_real_one(real: Kube, asks: tuple[Ask, ...]) -> tuple[object, object]:
    assert real._session is not None
    server = Server(real._session, real.namespace)
    kind = "ConfigMap" if any("configmaps" in ask.path for ask in asks) else "GpuPod"
    before = (await real.call("GET", PODS.format(namespace=real.namespace)))["metadata"]["resourceVersion"]
    for ask in asks:
        await server.ask(ask)
    await real.create((CONFIG if kind == "ConfigMap" else gpu_pod()) | {"metadata": {"name": LAST}})
    events: list[tuple[str, Manifest]] = []
    async for event in real.watch(kind, resourceVersion=before):
        if event["object"]["metadata"]["name"] == LAST:
            break
        if event["object"]["metadata"]["name"] != "kube-root-ca.crt":
            events.append((event["type"], event["object"]))
    return compared(server.answers, events)


@pytest.mark.parametrize("asks", TABLE.values(), ids=TABLE)
async def test_it_does_what_the_real_one_does(asks: tuple[Ask, ...], fake: ApiServer, real: Kube) -> None:
    answers, events = await asked_of_the_real_one(real, asks)
    of_fake, events_of_fake = await asked_of_the_fake(fake, real.namespace, asks)
    assert of_fake == answers
    assert events_of_fake == events
