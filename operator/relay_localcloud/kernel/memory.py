"""Memory that is needed no more goes back to the system: between requests, so that few of them wait for it."""

import asyncio
import ctypes
import gc
from collections.abc import Callable
from pathlib import Path
from resource import getpagesize
from typing import Final

EVERY_SECONDS: Final = 5.0
_GROWTH: Final = 4 * 1024 * 1024
_SWEEPS_OF_THE_YOUNG: Final = 10
"""Before a sweep of everything, as Python has it."""
EVERYTHING_EACH: Final = 720
"""Sweeps until all that lives is looked through again: an hour under load, and then it takes 60 ms."""
_NEVER: Final = 2**31 - 1
_M_MMAP_THRESHOLD: Final = -3
_LARGE_BLOCK_BYTES: Final = 128 * 1024


def return_large_blocks() -> None:
    """Hold glibc's threshold at its default: each large body raises it, and then large bodies stay on the heap."""
    if adjust := _glibc("mallopt"):
        adjust(_M_MMAP_THRESHOLD, _LARGE_BLOCK_BYTES)


async def tidy() -> None:
    """Every few seconds, if there was work: end what is garbage, and return what it took.

    Left to itself, Python looks through all that lives many times a second under load, and a request waits each time.
    What lived through a sweep is not looked at again for a long while: hardly any of it becomes garbage in circles.
    """
    trim = _glibc("malloc_trim") or (lambda _: None)
    gc.set_threshold(*gc.get_threshold()[:2], _NEVER)
    least, sweeps = _resident(), 0
    while True:
        await asyncio.sleep(EVERY_SECONDS)
        if gc.get_count()[2] >= _SWEEPS_OF_THE_YOUNG or _resident() > least + _GROWTH:
            sweeps += 1
            if sweeps % EVERYTHING_EACH == 0:
                gc.unfreeze()
            gc.collect()
            gc.freeze()
            trim(0)
            least = _resident()


def _glibc(function: str) -> Callable[..., object] | None:
    """None with another C library."""
    found: Callable[..., object] | None = getattr(ctypes.CDLL(None), function, None)
    return found


def _resident() -> int:
    """Bytes of memory that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * getpagesize()
