"""ConfigMaps of the operator's own namespace, each of which keeps a text."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from relay_kube.kube import CONFIG_MAPS, AlreadyExists, JsonObject, Kube, NotFound
from relay_operator.engine.manifests import part


@dataclass(frozen=True, slots=True)
class ConfigMaps:
    """Those with one label, by which people find them."""

    kube: Kube
    namespace: str
    label: str
    key: str
    """Of the text."""

    def text(self, config_map: Mapping[str, JsonValue]) -> str | None:
        """What it keeps; None if it is none of these."""
        text = part(config_map, "data").get(self.key)
        return text if self.label in part(config_map, "metadata", "labels") and isinstance(text, str) else None

    async def put(self, name: str, value: str, text: str, replaces: Callable[[JsonObject], bool] | None = None) -> None:
        """Create it with this value of the label, or write it again; then only if `replaces` says so of what is there.

        Raises KubeError: Conflict if what `replaces` was asked about is changed meanwhile.
        """
        data: JsonObject = {"data": {self.key: text}}
        labels: JsonObject = {self.label: value}
        try:
            metadata: JsonObject = {"name": name, "namespace": self.namespace, "labels": labels}
            await self.kube.create(CONFIG_MAPS, self.namespace, {"metadata": metadata, **data})
        except AlreadyExists:
            if replaces is not None:
                there = await self.kube.get(CONFIG_MAPS, self.namespace, name)
                if not replaces(there):
                    return
                version = part(there, "metadata").get("resourceVersion")
                data["metadata"] = {"labels": labels, "resourceVersion": version}
            await self.kube.patch(CONFIG_MAPS, self.namespace, name, data)

    async def delete(self, name: str, yields: Callable[[JsonObject], bool] | None = None) -> None:
        """Delete it, then only if `yields` says so of what is there; absence is success.

        Raises KubeError: Conflict if what `yields` was asked about is changed meanwhile.
        """
        version = ""
        if yields is not None:
            try:
                there = await self.kube.get(CONFIG_MAPS, self.namespace, name)
            except NotFound:
                return
            if not yields(there):
                return
            version = str(part(there, "metadata").get("resourceVersion") or "")
        await self.kube.delete(CONFIG_MAPS, self.namespace, name, version=version)
