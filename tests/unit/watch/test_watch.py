"""The watch as kopf reads it, from a server that sends what it is told, as it is told."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NoReturn

import aiohttp
import pytest
import yaml
from aiohttp import web
from pydantic import JsonValue

from relay_kube.kube import ApiAccess, Kube, ResourceType
from relay_kube.nesting import MOST
from relay_operator.api.meta import ObjectKey
from relay_operator.watch import Absence, WatchEndedError, _settings, watch
from tests.support.eventually import PATIENCE_SECONDS
from tests.unit.engine.apiserver import Json, part
from tests.unit.watch.listener import Listener

GROUP = "/apis/gpurelay.dev/v1alpha1"
VERBS: JsonValue = ["list", "watch", "patch"]
RESOURCE: Json = {"name": "gpupods", "singularName": "", "kind": "GpuPod", "namespaced": True, "verbs": VERBS}
DISCOVERY: dict[str, Json] = {
    "/api": {"versions": ["v1"]},
    "/api/v1": {"resources": [{**RESOURCE, "name": "namespaces", "kind": "Namespace", "namespaced": False}]},
    "/apis": {
        "groups": [
            {
                "name": "gpurelay.dev",
                "preferredVersion": {"version": "v1alpha1"},
                "versions": [{"version": "v1alpha1"}],
            }
        ]
    },
    GROUP: {"resources": [RESOURCE]},
}
POD, VM = (ResourceType(plural, "gpurelay.dev", "v1alpha1") for plural in ("gpupods", "gpuvms"))
SOON = 0.01
HERE = b'"HERE"'
EXPIRED: Json = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old resource version"}}
FULL: Json = {"type": "ERROR", "object": {"kind": "Status", "code": 500, "message": "out of space"}}


def pod(name: str, version: int, note: str = "") -> Json:
    metadata: Json = {"name": name, "namespace": "team-a", "uid": f"uid-{name}", "resourceVersion": str(version)}
    return {"kind": "GpuPod", "metadata": {**metadata, "annotations": {"note": note}}, "spec": {}}


def line(event: str, told: Json) -> bytes:
    return json.dumps({"type": event, "object": told}).encode() + b"\n"


class Server:
    """Answers a list with `listed` as of `version`, and watches in turn with what `say` and `end` put in."""

    def __init__(self, kubeconfig: Path) -> None:
        self.listed: list[Json] = []
        self.instead = HERE
        """Stands in lists in place of HERE: what Python's json cannot write."""
        self.version = "1"
        self.status = 200
        self.absent = {"gpuvms"}
        """The plurals of kinds without a CRD."""
        self.absence = 404
        self.missed = asyncio.Semaphore(0)
        """Released for every request about such a kind."""
        self.since: list[str] = []
        self.limits = set[str]()
        self.asked = 0
        self.watched = asyncio.Event()
        self.token = "a-token"
        self.kubeconfig = kubeconfig
        self.url = ""
        self._said: asyncio.Queue[bytes | None] = asyncio.Queue()

    def say(self, *pieces: bytes) -> None:
        """What the watch that is open, or the next one, sends at once."""
        self._said.put_nowait(b"".join(pieces))

    def end(self) -> None:
        """Ends the watch that is open."""
        self._said.put_nowait(None)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked += 1
        status = self.status if request.headers["Authorization"] == f"Bearer {self.token}" else 401
        if status != 200:
            return web.json_response({"kind": "Status", "code": status, "message": "no"}, status=status)
        plural = request.path.rpartition("/")[2]
        if plural in self.absent:
            self.missed.release()
            return web.Response(status=self.absence, text="404 page not found\n")
        if plural not in {"gpupods", "gpuvms"}:
            found = DISCOVERY.get(request.path)
            return web.json_response(found) if found else web.json_response({}, status=404)
        if "watch" not in request.query:
            self.limits.add(request.query["limit"])
            metadata: Json = {"resourceVersion": self.version}
            page = json.dumps({"kind": "GpuPodList", "metadata": metadata, "items": self.listed}).encode()
            return web.Response(body=page.replace(HERE, self.instead), content_type="application/json")
        self.since.append(request.query["resourceVersion"])
        response = web.StreamResponse()
        await response.prepare(request)
        self.watched.set()
        while (piece := await self._said.get()) is not None:
            await response.write(piece)
        return response


@pytest.fixture
async def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Server]:
    """A server, and KUBECONFIG leads to it."""
    served = Server(tmp_path / "kubeconfig")
    app = web.Application()
    app.router.add_get("/{path:.*}", served.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    served.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    config: JsonValue = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "somebody"}}],
        "clusters": [{"name": "here", "cluster": {"server": served.url}}],
        "users": [{"name": "somebody", "user": {"token": served.token}}],
    }
    served.kubeconfig.write_text(yaml.safe_dump(config))
    monkeypatch.setenv("KUBECONFIG", str(served.kubeconfig))
    yield served
    await runner.cleanup()


def _keep_signals() -> None:
    """A test ends by no signal."""


def _watch(
    listener: Listener, noticed: Callable[[], None] | None = None, **more: ResourceType
) -> Coroutine[None, None, NoReturn]:
    return watch(listener, {"GpuPod": POD, **more}, ("team-a",), _keep_signals, Absence(SOON, noticed or _keep_signals))


@asynccontextmanager
async def watching(
    knowing: Listener | None = None, noticed: Callable[[], None] | None = None, **more: ResourceType
) -> AsyncIterator[Listener]:
    """kopf, watching the server."""
    listener = knowing or Listener()
    task = asyncio.create_task(_watch(listener, noticed, **more))
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            yield listener
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_what_is_listed_and_what_changes_reaches_the_cache(server: Server) -> None:
    server.listed = [pod("a", 1)]
    async with watching() as listener:
        assert await listener.told.get() == ("a", "1")
        server.say(line("ADDED", pod("b", 2)), line("MODIFIED", pod("a", 3)))
        assert {await listener.told.get(), await listener.told.get()} == {("b", "2"), ("a", "3")}
        server.say(line("DELETED", pod("a", 4)))
        assert await listener.told.get() == ("a", "gone")
        assert [key.name for key in listener.cache.keys()] == ["b"]  # noqa: SIM118 - not a dict


async def test_what_the_cache_knows_does_not_reach_kopf_but_its_end_does(server: Server) -> None:
    async with watching() as listener:
        listener.cache.put(ObjectKey("GpuPod", "team-a", "a"), pod("a", 9))
        server.say(line("ADDED", pod("a", 8)), line("MODIFIED", pod("a", 9)), line("MODIFIED", pod("a", 10)))
        server.say(line("MODIFIED", pod("a", 9)), line("DELETED", pod("a", 11)))
        assert [await listener.told.get() for _ in range(2)] == [("a", "10"), ("a", "gone")]


async def test_another_object_of_the_same_name_is_news(server: Server) -> None:
    async with watching() as listener:
        known = pod("a", 9)
        part(known, "metadata")["uid"] = "uid-of-a-former-one"
        listener.cache.put(ObjectKey("GpuPod", "team-a", "a"), known)
        server.say(line("ADDED", pod("a", 10)))
        assert await listener.told.get() == ("a", "10")


async def test_a_watch_that_ended_goes_on_at_the_last_bookmark_without_what_is_known(server: Server) -> None:
    async with watching() as listener:
        listener.cache.put(ObjectKey("GpuPod", "team-a", "a"), pod("a", 9))
        server.say(line("ADDED", pod("b", 5)), line("BOOKMARK", {"metadata": {"resourceVersion": "8"}}))
        server.say(line("MODIFIED", pod("a", 9)))
        server.end()
        server.say(line("MODIFIED", pod("a", 9)), line("ADDED", pod("c", 12)))
        assert [await listener.told.get() for _ in range(2)] == [("b", "5"), ("c", "12")]
        assert server.since == ["1", "8"]


async def test_an_event_may_come_in_pieces(server: Server) -> None:
    async with watching() as listener:
        split = line("ADDED", pod("b", 3))
        server.say(line("ADDED", pod("a", 2)), split[:40])
        assert await listener.told.get() == ("a", "2")
        server.say(split[40:], line("ADDED", pod("c", 4))[:-1])  # the last one without the end of its line
        assert await listener.told.get() == ("b", "3")
        server.end()
        assert await listener.told.get() == ("c", "4")


async def test_a_line_over_two_megabytes_is_read(server: Server) -> None:
    async with watching() as listener:
        server.say(line("ADDED", pod("a", 2, note="x" * 2_500_000)), line("ADDED", pod("b", 3)))
        assert {await listener.told.get(), await listener.told.get()} == {("a", "2"), ("b", "3")}
        entry = listener.cache.get(ObjectKey("GpuPod", "team-a", "a"))
        assert entry is not None
        assert len(entry.body) > 2_500_000


@pytest.mark.parametrize("levels", [300, 1_000, 1_100, 5_000])
async def test_a_line_that_is_nested_too_deeply_for_kopf_is_read(server: Server, levels: int) -> None:
    deep = b'{"a":' * levels + b"1" + b"}" * levels
    async with watching() as listener:
        server.say(line("ADDED", pod("a", 2, note="HERE")).replace(HERE, deep), line("ADDED", pod("b", 3)))
        assert {await listener.told.get(), await listener.told.get()} == {("a", "2"), ("b", "3")}
        server.listed = [pod("c", 5, note="HERE")]
        server.instead = deep
        server.say(json.dumps(EXPIRED).encode() + b"\n")
        server.end()
        assert await listener.told.get() == ("c", "5")


async def test_what_is_full_of_lists_reaches_neither_kopf_nor_the_cache(server: Server) -> None:
    full = b"[" + b"[]," * MOST + b"0]"
    async with watching() as listener:
        spec: Json = {"x": "HERE", "y": {"z": []}}
        server.say(line("ADDED", {**pod("a", 2), "spec": spec}).replace(HERE, full), line("ADDED", pod("b", 3)))
        assert {await listener.told.get(), await listener.told.get()} == {("a", "2"), ("b", "3")}
        server.listed = [{**pod("c", 5), "spec": spec}]
        server.instead = full
        server.say(json.dumps(EXPIRED).encode() + b"\n")
        server.end()
        assert await listener.told.get() == ("c", "5")
        entries = [listener.cache.get(ObjectKey("GpuPod", "team-a", name)) for name in ("a", "c")]
        assert [len(entry.body) < 2_000 for entry in entries if entry is not None] == [True, True]


async def test_a_watch_that_is_too_old_begins_with_a_list(server: Server) -> None:
    async with watching() as listener:
        server.say(line("ADDED", pod("a", 2)))
        assert await listener.told.get() == ("a", "2")
        server.listed = [pod("a", 2), pod("b", 7)]
        server.say(json.dumps(EXPIRED).encode() + b"\n")
        server.end()
        server.say(line("ADDED", pod("c", 8)))
        assert [await listener.told.get() for _ in range(2)] == [("b", "7"), ("c", "8")]


async def test_of_a_list_only_what_the_cache_does_not_know_reaches_kopf(server: Server) -> None:
    listener = Listener()
    listener.cache.put(ObjectKey("GpuPod", "team-a", "known"), pod("known", 5))
    listener.cache.put(ObjectKey("GpuPod", "team-a", "newer"), pod("newer", 3))
    server.listed = [pod("known", 5), pod("newer", 4), pod("unknown", 2)]
    async with watching(listener):
        assert {await listener.told.get(), await listener.told.get()} == {("newer", "4"), ("unknown", "2")}
        assert server.limits == {"50"}
        server.say(line("MODIFIED", pod("known", 6)))
        assert await listener.told.get() == ("known", "6")


async def test_a_watch_begins_where_the_informer_listed_and_lists_itself_only_later(server: Server) -> None:
    listener = Listener()
    server.listed, server.version = [pod("a", 3)], "4"
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {server.token}"}) as session:
        kube = Kube(ApiAccess(server.url, session))
        await listener.relist(kube, "GpuPod", POD, ("team-a",))
    assert listener.told.get_nowait() == ("a", "3")
    server.listed, server.version = [pod("a", 3), pod("b", 7)], "8"
    async with watching(listener):
        server.say(line("DELETED", pod("a", 5)), line("ADDED", pod("c", 6)), json.dumps(EXPIRED).encode() + b"\n")
        server.end()
        assert {await listener.told.get(), await listener.told.get()} == {("a", "gone"), ("c", "6")}
        assert await listener.told.get() == ("b", "7")
        server.say(line("ADDED", pod("d", 9)))
        assert await listener.told.get() == ("d", "9")
        assert server.since == ["4", "8"]


async def test_an_error_of_another_kind_ends_the_watch(server: Server) -> None:
    server.say(json.dumps(FULL).encode() + b"\n")
    with pytest.raises(WatchEndedError, match="out of space"):
        await asyncio.wait_for(_watch(Listener()), PATIENCE_SECONDS)


@pytest.mark.parametrize("status", [404, 403], ids=["its CRD is absent", "the operator may not list it"])
async def test_a_kind_that_cannot_be_listed_is_waited_for_and_holds_up_no_other(
    server: Server, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    """However long that takes: kopf's list of the kind runs into its time limit meanwhile."""
    server.absence = status
    settings = _settings()
    settings.networking.request_timeout, settings.networking.error_backoffs = 5 * SOON, [SOON]
    monkeypatch.setattr("relay_operator.watch._settings", lambda: settings)
    async with watching(GpuVm=VM) as listener:
        for _ in range(50):
            await server.missed.acquire()
        server.say(line("ADDED", pod("a", 2)))
        assert await listener.told.get() == ("a", "2")
        server.listed, server.absent = [pod("b", 3)], set()
        assert await listener.told.get() == ("b", "3")
        assert listener.cache.get(ObjectKey("GpuVm", "team-a", "b")) is not None


async def test_when_a_crd_is_deleted_that_is_told_once_and_once_more_when_it_is_back(server: Server) -> None:
    noticed = asyncio.Semaphore(0)
    async with watching(noticed=noticed.release) as listener:
        for version in ("2", "3"):
            server.say(line("ADDED", pod("a", int(version))))
            assert await listener.told.get() == ("a", version)
            server.absent |= {"gpupods"}
            server.end()
            await noticed.acquire()
            for _ in range(3):
                await server.missed.acquire()
            assert noticed.locked()
            server.absent.clear()
            await noticed.acquire()


async def test_credentials_that_are_refused_are_not_tried_for_ever(server: Server) -> None:
    watched = asyncio.create_task(_watch(Listener()))
    async with asyncio.timeout(PATIENCE_SECONDS):
        await server.watched.wait()
        server.status, server.asked = 401, 0
        server.end()
        with pytest.raises(WatchEndedError, match="Ran out of valid credentials"):
            await watched
    assert server.asked == 1


async def test_credentials_that_rotated_take_the_place_of_those_that_were_refused(server: Server) -> None:
    async with watching() as listener:
        await server.watched.wait()
        config = yaml.safe_load(server.kubeconfig.read_text())
        config["users"][0]["user"]["token"] = server.token = "another-token"
        server.kubeconfig.write_text(yaml.safe_dump(config))
        server.end()
        server.say(line("ADDED", pod("a", 2)))
        assert await listener.told.get() == ("a", "2")
