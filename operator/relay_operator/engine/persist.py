"""The one way to write the id of what was paid for: through conflicts, outages and the end of the process."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from relay_client import CloudError
from relay_client import NotFound as CloudNotFound
from relay_operator.engine.backoff import Backoff, Random
from relay_operator.engine.kube import Conflict, KubeError, NotFound
from relay_operator.engine.object_writer import ObjectWriter
from relay_operator.engine.status import merge_patch

logger = logging.getLogger(__name__)

_BACKOFF = Backoff(initial=0.1, limit=5.0)
_SECONDS = 600.0
"""How long it is tried. What is not written then is found again by its name."""


@dataclass(frozen=True, slots=True)
class Undo:
    """How to end what was just made. `end` raises CloudError."""

    what: str
    """Its id."""
    end: Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Persistence:
    """Writes once and again until it is written, or the object turns out to be gone."""

    clock: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]]
    random: Random

    async def write(
        self, writer: ObjectWriter, patch: Mapping[str, JsonValue], after: Mapping[str, JsonValue], undo: Undo
    ) -> None:
        """`patch` leads from what was read to `after`; `undo` ends what was made where nobody else ever could.

        Goes on though the caller is cancelled. Raises KubeError once it has been tried for long enough.
        """
        await asyncio.shield(asyncio.ensure_future(self._written(writer, patch, after, undo)))

    async def _written(
        self, writer: ObjectWriter, patch: Mapping[str, JsonValue], after: Mapping[str, JsonValue], undo: Undo
    ) -> None:
        deadline, failures = self.clock() + _SECONDS, 0
        while True:
            try:
                if not await _landed(writer, patch, after):
                    await self._undone(undo)
            except KubeError:
                if self.clock() >= deadline:
                    raise
            else:
                return
            failures += 1
            await self.sleep(_BACKOFF.after(failures, self.random))

    async def _undone(self, undo: Undo) -> None:
        logger.warning("the object vanished while %s was created for it: ending that", undo.what)
        deadline, failures = self.clock() + _SECONDS, 0
        while True:
            try:
                await undo.end()
            except CloudNotFound:
                return
            except CloudError as error:
                if self.clock() >= deadline:
                    logger.error("%s is left in the cloud without an owner: %s", undo.what, error)  # noqa: TRY400
                    return
            else:
                return
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
        status = raw.get("status")
        rest = merge_patch(status if isinstance(status, dict) else {}, after)
        ours = {name: value for name, value in rest.items() if name in after or name in patch}
        if ours:
            await writer.status(ours)
    return True
