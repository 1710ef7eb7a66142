"""Waiting for a condition, never for time."""

from __future__ import annotations

import asyncio
import time
from pprint import pformat
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")
PATIENCE_SECONDS: Final = 300.0
"""How long a test waits for anything that must happen: so long that only a failure exceeds it on a busy machine."""
_UNSEEN = "nothing: the first look did not end"


async def eventually(
    look: Callable[[], Awaitable[T]],
    wanted: Callable[[T], object] = bool,
    *,
    within: float = PATIENCE_SECONDS,
    every: float = 0.1,
    what: str = "",
    pause: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> T:
    """Calls `look` until `wanted` accepts its value, and returns that value.

    `within` and `every` are seconds; `pause` waits between looks, at most `every` seconds. An AssertionError raised by
    `look` or `wanted` means "not yet", so both may contain plain asserts. Raises AssertionError with the last value
    after `within` seconds.
    """
    deadline = time.monotonic() + within
    seen: object = _UNSEEN
    refusal = ""
    while True:
        try:
            async with asyncio.timeout(max(deadline - time.monotonic(), every)):
                value = await look()
            seen, refusal = value, ""
            if wanted(value):
                return value
        except AssertionError as refused:
            refusal = str(refused)
        except TimeoutError:
            pass
        if time.monotonic() + every > deadline:
            subject = what or getattr(wanted, "__name__", "the condition")
            last = "\n".join([pformat(seen)] * (seen is not _UNSEEN or not refusal) + [refusal] * bool(refusal))
            raise AssertionError(f"{subject} did not come true within {within:g} s; last seen:\n{last}")
        await pause(every)
