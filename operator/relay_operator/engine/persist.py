"""The one way to write the id of what was paid for: through conflicts, outages and the end of the process."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import JsonValue

from relay_operator.engine.backoff import Backoff, Random
from relay_operator.engine.kube import Conflict, KubeError, NotFound, Refused
from relay_operator.engine.manifests import part
from relay_operator.engine.object_writer import ObjectWriter
from relay_operator.engine.status import merge_patch

if TYPE_CHECKING:
    from relay_operator.engine.flow import Told

_BACKOFF = Backoff(initial=0.1, limit=1.0)
_TRIES = 3
"""In a row. After that the queue comes back for it, since others wait for the worker."""
_NEVER_TAKEN = frozenset({400, 413, 422})


@dataclass(frozen=True, slots=True)
class Unwritten:
    """What status has to tell of something that was paid for, and does not tell yet."""

    writer: ObjectWriter
    patch: Mapping[str, JsonValue]
    """Leads from what was read to `after`."""
    after: Mapping[str, JsonValue]
    instead: "Callable[[KubeError], Told]"
    """What is told where that is refused for good, and what was made is ended."""


def never_taken(error: KubeError) -> bool:
    """Whether the API server will refuse this very status again, so that what it tells cannot be recorded."""
    return isinstance(error, Refused) and error.status in _NEVER_TAKEN


@dataclass(frozen=True, slots=True)
class Persistence:
    """Writes until it is written, or the object turns out to be gone."""

    sleep: Callable[[float], Awaitable[None]]
    random: Random

    async def write(self, unwritten: Unwritten) -> bool:
        """False where the object is gone, or another took its name.

        Goes on though the caller is cancelled. Raises KubeError where some tries in a row did not do.
        """
        return await asyncio.shield(asyncio.ensure_future(self._written(unwritten)))

    async def _written(self, unwritten: Unwritten) -> bool:
        failures = 0
        while True:
            try:
                return await _landed(unwritten)
            except KubeError as error:
                failures += 1
                if failures == _TRIES or never_taken(error):
                    raise
            await self.sleep(_BACKOFF.after(failures, self.random))


async def _landed(unwritten: Unwritten) -> bool:
    """False where the object is gone, or another took its name. Raises KubeError."""
    writer, patch, after = unwritten.writer, unwritten.patch, unwritten.after
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
