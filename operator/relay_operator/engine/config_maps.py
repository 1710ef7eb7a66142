"""ConfigMaps in the operator's own namespace, each of which keeps one text."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from relay_client.errors import clause
from relay_kube.errors import AlreadyExists, KubeError, NotFound
from relay_kube.kube import CONFIG_MAPS, JsonObject, Kube
from relay_operator.engine.manifests import part


@dataclass(frozen=True, slots=True)
class ConfigMaps:
    """The ConfigMaps with one label, by which people find them."""

    kube: Kube
    namespace: str
    label: str
    key: str
    """The key of the text in `data`."""

    def text(self, config_map: Mapping[str, JsonValue]) -> str | None:
        """The text that the ConfigMap keeps; None if it is not one of these."""
        text = part(config_map, "data").get(self.key)
        return text if self.label in part(config_map, "metadata", "labels") and isinstance(text, str) else None

    def unwritten(self, name: str, error: KubeError) -> str:
        """That the ConfigMap cannot be written, why, and what to do about it."""
        help_ = "check the operator's rights, quotas and admission policies there; the operator tries again"
        return f"the ConfigMap {self.namespace}/{name} cannot be written: {clause(str(error))}; {help_}"

    async def put(self, name: str, value: str, text: str, replaces: Callable[[JsonObject], bool] | None = None) -> None:
        """Create the ConfigMap with this value of the label, or overwrite it; with `replaces`, only if that accepts it.

        `replaces` is called with the present ConfigMap. Raises KubeError: Conflict if the ConfigMap changes after that.
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
        """Delete the ConfigMap; with `yields`, only if that accepts it. Absence is success.

        `yields` is called with the present ConfigMap. Raises KubeError: Conflict if the ConfigMap changes after that.
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
