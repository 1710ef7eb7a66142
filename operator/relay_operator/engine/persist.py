"""The one way to write the id of what was paid for: through conflicts, outages and the end of the process."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from relay_operator.engine.backoff import Backoff, Random
from relay_operator.engine.kube import Conflict, KubeError, NotFound
from relay_operator.engine.manifests import part
from relay_operator.engine.object_writer import ObjectWriter
from relay_operator.engine.status import merge_patch

_BACKOFF = Backoff(initial=0.1, limit=5.0)
_SECONDS = 600.0
"""How long it is tried. What is not written then is found again by its name."""


@dataclass(frozen=True, slots=True)
class Persistence:
    """Writes once and again until it is written, or the object turns out to be gone."""

    clock: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]]
    random: Random

    async def write(self, writer: ObjectWriter, patch: Mapping[str, JsonValue], after: Mapping[str, JsonValue]) -> bool:
        """`patch` leads from what was read to `after`; False where the object is gone, or another took its name.

        Goes on though the caller is cancelled. Raises KubeError once it has been tried for long enough.
        """
        return await asyncio.shield(asyncio.ensure_future(self._written(writer, patch, after)))

    async def _written(
        self, writer: ObjectWriter, patch: Mapping[str, JsonValue], after: Mapping[str, JsonValue]
    ) -> bool:
        deadline, failures = self.clock() + _SECONDS, 0
        while True:
            try:
                return await _landed(writer, patch, after)
            except KubeError:
                if self.clock() >= deadline:
                    raise
            failures += 1
            await self.sleep(_BACKOFF.after(failures, self.random))


async def _landed(writer: ObjectWriter, patch: Mapping[str, JsonValue], after: Mapping[str, JsonValue]) -> bool:
    """False where the object is gone, or another took its name. Raises KubeError."""
    try:
        await writer.status(patch)
    except NotFound:
        return False
    except Conflict:
        raw = await writer.read()
        if raw is None:
            return False
        rest = merge_patch(part(raw, "status"), after)
        ours = {name: value for name, value in rest.items() if name in after or name in patch}
        if ours:
            await writer.status(ours)
    return True
