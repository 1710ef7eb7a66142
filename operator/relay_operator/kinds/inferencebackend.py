"""How an InferenceBackend maps to a backend of the catalog (section 2, "Inference catalog backend"; paths assumed)."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial

from pydantic import JsonValue

from relay_client import Cloud, NotFound, Unreadable, items_of, operations
from relay_operator.api.conditions import Reason
from relay_operator.api.inferencebackend import (
    DEFINITION,
    Backing,
    InferenceBackend,
    InferenceBackendSpec,
    InferenceBackendStatus,
)
from relay_operator.api.meta import CreateIntent
from relay_operator.engine.address import parts_of
from relay_operator.engine.fit_schema import moment
from relay_operator.engine.shared_lists import SharedLists
from relay_operator.flows.managed.resource import Change, ExternalResource, InputRefs, Inputs, Look, Progress
from relay_operator.flows.wiring import Parts
from relay_operator.kinds.comparison import differing
from relay_operator.kinds.secret_text import SecretText
from relay_wire.inference import LONGEST_KEY, Backend, BackendCreate, BackendUpdate

_KEY = SecretText("apiKeySecretRef")
_TOLD_APART_BY = ("provider", "ref", "endpoint")


class InferenceBackends(ExternalResource[InferenceBackendSpec, InferenceBackendStatus, Backend]):
    """How an InferenceBackend maps to a backend, which belongs to the model that it serves."""

    definition = DEFINITION
    model = InferenceBackend
    mirrored = ("provider", "ref", "endpoint", "auth", "transport", "weight", "max_concurrency")

    def __init__(self, parts: Parts) -> None:
        self._lists = SharedLists[Mapping[str, Backend]](parts.settings.poll_settled_seconds, parts.engine.clock)

    async def observe(self, cloud: Cloud, cloud_id: str, last: InferenceBackendStatus, look: Look) -> Backend:
        """The backend as the model's shared list shows it; a GET of its own if the list is too old or lacks it.

        The path of that GET is assumed. So a backend that it does not find, and the list shows, exists.
        """
        model_id, backend_id = parts_of(cloud_id)
        if not model_id:
            raise Unreadable(operations.GET_BACKEND.name, f"status.partOf does not name the model of {backend_id}")
        read = partial(_listed, cloud, model_id)
        if look is Look.ROUTINE:
            found = (await self._lists.recent(cloud, read, model_id)).get(backend_id)
            if found is not None:
                return found
        try:
            return await cloud.call(operations.GET_BACKEND, modelId=model_id, id=backend_id)
        except NotFound:
            found = (await self._lists.fresh(cloud, read, model_id)).get(backend_id)
            if found is None:
                raise
            return found

    async def existing(self, cloud: Cloud, obj: Backing) -> Backend | None:
        """None: several backends may be alike."""
        return None

    async def alike(self, cloud: Cloud, obj: Backing) -> Sequence[Backend]:
        model_id, asked = obj.status.part_of or obj.spec.model_id, _asked(obj.spec)
        listed = await self._lists.fresh(cloud, partial(_listed, cloud, model_id), model_id)
        return tuple(row for row in listed.values() if _shown(row) == asked)

    def made_at(self, observed: Backend) -> datetime | None:
        return moment(observed.created_at)

    async def create(self, cloud: Cloud, obj: Backing, intent: CreateIntent, inputs: Inputs) -> Backend:
        request = BackendCreate.model_validate({**_asked(obj.spec), "apiKey": _KEY.of(inputs) or None})
        return await cloud.call(operations.CREATE_BACKEND, request, modelId=intent.part_of)

    def of_another(self, obj: Backing, intent: CreateIntent, made: Backend) -> tuple[str, ...]:
        """Compares what tells the backends of a model apart; the cloud may choose the rest otherwise."""
        alike = ((name, _asked(obj.spec)[name], _shown(made)[name]) for name in _TOLD_APART_BY)
        return differing(("modelId", intent.part_of, made.model_id), *alike)

    async def delete(self, cloud: Cloud, cloud_id: str) -> None:
        model_id, backend_id = parts_of(cloud_id)
        await cloud.call(operations.DELETE_BACKEND, modelId=model_id, id=backend_id)

    def whole(self, obj: Backing) -> str:
        return obj.spec.model_id

    def input_refs(self, obj: Backing) -> InputRefs:
        return _KEY.refs(obj.spec.api_key_secret_ref)

    def unusable(self, obj: Backing, inputs: Inputs) -> str | None:
        ref, key = obj.spec.api_key_secret_ref, _KEY.of(inputs)
        printable = key.isascii() and key.isprintable() and " " not in key
        if ref is None or (printable and 0 < len(key) <= LONGEST_KEY):
            return None
        wrong = f"is not a key: a key has 1 to {LONGEST_KEY} printable ASCII characters and no spaces"
        return _KEY.refused(ref, wrong)

    def immutable(self, obj: Backing) -> Mapping[str, JsonValue]:
        """Leaves out which Secret holds the key, since only the key itself matters."""
        spec = obj.spec
        return {"modelId": spec.model_id, "auth": spec.auth.value, _KEY.field: spec.api_key_secret_ref is not None}

    def differences(self, obj: Backing, observed: Backend) -> tuple[str, ...]:
        return differing(
            ("modelId", obj.spec.model_id, observed.model_id), ("auth", obj.spec.auth.value, observed.auth)
        )

    def changes(self, obj: Backing, observed: Backend, *, running: bool) -> tuple[Change, ...]:
        has = _shown(observed)
        differs = {name: value for name, value in _asked(obj.spec).items() if has[name] not in (value, None)}
        if not differs:
            return ()
        body, model_id = BackendUpdate.model_validate(differs), obj.spec.model_id

        async def send(cloud: Cloud) -> None:
            await cloud.call(operations.UPDATE_BACKEND, body, modelId=model_id, id=observed.id)

        return (Change("update", Reason.UPDATING, send, to=body.model_dump_json(exclude_none=True)),)

    def progress(self, observed: Backend) -> Progress:
        return Progress.READY

    def identity(self, observed: Backend) -> tuple[str, str]:
        return observed.id, ""

    def detail(self, observed: Backend) -> str:
        return f"the cloud has it as {observed.id}, with the weight {observed.weight}"

    def told(self, obj: Backing, observed: Backend) -> Mapping[str, object]:
        return {**super().told(obj, observed), "created_at": self.made_at(observed)}


async def _listed(cloud: Cloud, model_id: str) -> Mapping[str, Backend]:
    """The backends of a model, by id; empty on 404, which the cloud also answers for a model without backends."""
    try:
        return {row.id: row for row in await items_of(cloud, operations.LIST_BACKENDS, modelId=model_id)}
    except NotFound:
        return {}


def _asked(spec: InferenceBackendSpec) -> Mapping[str, JsonValue]:
    """What a create sends, without the key, by the request's field names."""
    return {
        "provider": spec.provider.value,
        "ref": spec.ref,
        "endpoint": spec.endpoint,
        "nativeFamilies": list[JsonValue](sorted(family.value for family in spec.native_families)),
        "auth": spec.auth.value,
        "transport": spec.transport.value,
        "weight": spec.weight,
        "maxConcurrency": spec.max_concurrency,
    }


def _shown(row: Backend) -> Mapping[str, JsonValue]:
    """The same fields of an observed backend."""
    return {
        "provider": row.provider,
        "ref": row.ref,
        "endpoint": row.endpoint,
        "nativeFamilies": list[JsonValue](sorted(row.native_families)),
        "auth": row.auth,
        "transport": row.transport,
        "weight": row.weight,
        "maxConcurrency": row.max_concurrency or 0,
    }
