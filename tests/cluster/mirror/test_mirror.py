"""A mirror of the real API server: it follows what others do, knows its own writes at once, and recovers."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest_asyncio

from relay_kube.kube import CONFIG_MAPS
from relay_kube.kube import Kube as Client
from relay_kube.mirror import Mirror
from tests.cluster.operators_client import access_of
from tests.support.eventually import PATIENCE_SECONDS, eventually
from tests.support.kube import Kube

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from relay_kube.kube import ApiAccess, JsonObject, ResourceType
    from tests.support.controlplane import Cluster, ControlPlane

LABEL = "mirrored"


def value_of(raw: Any) -> tuple[str, str]:
    """Name and value of a ConfigMap; one whose value is `odd` cannot be read."""
    value = raw.get("data", {}).get("value", "")
    if value == "odd":
        raise ValueError("odd")
    return raw["metadata"]["name"], value


class HeldUp(Client):
    """The API server's news come late: while `goes_on` is not set, a watch tells nothing."""

    def __init__(self, access: ApiAccess) -> None:
        super().__init__(access)
        self.goes_on = asyncio.Event()
        self.goes_on.set()

    async def watch(self, kind: ResourceType, version: str, *, field_selector: str = "") -> AsyncIterator[JsonObject]:
        async for event in super().watch(kind, version, field_selector=field_selector):
            await self.goes_on.wait()
            yield event


class Mirrored:
    """A mirror of the ConfigMaps of a namespace, and what it told."""

    def __init__(
        self, mirror: Mirror[tuple[str, str]], told: list[tuple[str, str]], namespace: str, news: asyncio.Event
    ) -> None:
        self.mirror = mirror
        self.told = told
        self.namespace = namespace
        self.news = news

    async def value(self, name: str) -> str | None:
        found = self.mirror.get(self.namespace, name)
        return None if found is None else found[1]

    async def becomes(self, name: str, wanted: str | None) -> None:
        await eventually(lambda: self.value(name), lambda value: value == wanted, what=f"{name} is {wanted}")


def config_map(namespace: str, name: str, value: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": {"value": value},
    }


@asynccontextmanager
async def mirrored(kubeconfig: Path, namespace: str) -> AsyncIterator[Mirrored]:
    """A mirror that has read everything and goes on."""
    told: list[tuple[str, str]] = []
    selector = f"metadata.namespace={namespace}"
    async with access_of(kubeconfig) as access:
        kube = HeldUp(access)
        mirror = Mirror(kube, CONFIG_MAPS, value_of, told.append, field_selector=selector)
        running = asyncio.create_task(mirror.run())
        async with asyncio.timeout(PATIENCE_SECONDS):
            await mirror.listed()
        yield Mirrored(mirror, told, namespace, kube.goes_on)
        running.cancel()
        await asyncio.wait([running])


@pytest_asyncio.fixture
async def namespace(kube: Kube) -> AsyncIterator[str]:
    """One with a ConfigMap `first` that is as old as it."""
    name = f"mirror-{secrets.token_hex(4)}"
    await kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    await kube.create(config_map(name, "first", "1"))
    yield name
    await kube.delete("Namespace", name)


async def test_it_has_what_there_was_and_follows_what_happens(cluster: Cluster, kube: Kube, namespace: str) -> None:
    async with mirrored(cluster.kubeconfig, namespace) as seen:
        assert await seen.value("first") == "1"
        await kube.create(config_map(namespace, "second", "a"))
        await seen.becomes("second", "a")
        await kube.apply(config_map(namespace, "second", "b"))
        await seen.becomes("second", "b")
        assert ("second", "b") in list(seen.mirror)
        await kube.delete("ConfigMap", "second", namespace)
        await seen.becomes("second", None)
        of_second = [told for told in seen.told if told[0] == "second"]
    assert of_second == [("second", "a"), ("second", "b"), ("second", "b")]


async def test_what_cannot_be_read_is_not_there_and_holds_nothing_up(
    cluster: Cluster, kube: Kube, namespace: str
) -> None:
    await kube.create(config_map(namespace, "strange", "odd"))
    async with mirrored(cluster.kubeconfig, namespace) as seen:
        assert await seen.value("strange") is None
        await kube.create(config_map(namespace, "later", "1"))
        await seen.becomes("later", "1")


async def test_an_own_write_is_known_at_once_and_never_raises_the_dead(
    cluster: Cluster, kube: Kube, namespace: str
) -> None:
    async with mirrored(cluster.kubeconfig, namespace) as seen:
        answer = await kube.create(config_map(namespace, "own", "1"))
        seen.mirror.wrote(answer)
        assert await seen.value("own") == "1"
        await kube.delete("ConfigMap", "own", namespace)
        await seen.becomes("own", None)
        seen.mirror.wrote(answer)
        assert await seen.value("own") is None


async def test_an_own_write_outlives_older_news(cluster: Cluster, kube: Kube, namespace: str) -> None:
    async with mirrored(cluster.kubeconfig, namespace) as seen:
        seen.news.clear()
        await kube.create(config_map(namespace, "own", "1"))
        seen.mirror.wrote(await kube.apply(config_map(namespace, "own", "2")))
        await kube.create(config_map(namespace, "later", "1"))
        seen.news.set()
        await seen.becomes("later", "1")
        assert [value for name, value in seen.told if name == "own"] == ["2"]


async def test_it_goes_on_after_the_api_server_was_away(private_controlplane: ControlPlane) -> None:
    async with Kube(private_controlplane.kubeconfig) as kube:
        await kube.create(config_map("default", "before", "1"))
    async with mirrored(private_controlplane.kubeconfig, "default") as seen:
        await private_controlplane.apiserver.kill()
        await private_controlplane.apiserver.start()
        assert await seen.value("before") == "1"
        async with Kube(private_controlplane.kubeconfig) as kube:
            await kube.delete("ConfigMap", "before", "default")
            await kube.create(config_map("default", "after", "1"))
        await seen.becomes("after", "1")
        await seen.becomes("before", None)
