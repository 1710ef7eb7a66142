"""What the controllers of all kinds share."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime

from relay_kube.errors import KubeError
from relay_kube.kube import Kube
from relay_operator.api.meta import ObjectKey
from relay_operator.engine.backoff import PollIntervals, RetryPolicy
from relay_operator.engine.cache import Cache
from relay_operator.engine.events import Note, Recorder
from relay_operator.engine.identity import Installation
from relay_operator.engine.leftovers import Leftovers
from relay_operator.engine.memory import Memory
from relay_operator.engine.passes import Pass
from relay_operator.engine.queue import Queue
from relay_operator.engine.served import ServedKinds
from relay_operator.engine.vanished import Vanished

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Engine:
    """What all controllers share."""

    kube: Kube
    cache: Cache
    queue: Queue[ObjectKey]
    recorder: Recorder
    vanished: Vanished
    retry_policy: RetryPolicy
    intervals: PollIntervals
    wall_clock: Callable[[], datetime]
    on_pass: Callable[[Pass], None]
    recording: set[asyncio.Task[KubeError | None]] = field(default_factory=set)
    """Writes of ids in progress."""
    served: ServedKinds = field(default_factory=ServedKinds)
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    @property
    def installation(self) -> Installation:
        """Which cluster's operator this is."""
        return self.cache.installation

    @property
    def leftovers(self) -> Leftovers:
        """The resources in the cloud that have no object."""
        return self.vanished.leftovers

    def announce(self, key: ObjectKey, memory: Memory, note: Note) -> None:
        """Record an Event of the object, unless it had too many lately."""
        if memory.may_announce(self.clock()):
            self.recorder.record(key, memory.uid, note)
        else:
            logger.debug("too many Events: one of %s is dropped", key)
