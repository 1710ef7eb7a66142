"""Returns unused memory to the system, between requests, so that few of them wait for it."""

import asyncio
import ctypes
import gc
import sys
import time
from collections.abc import Callable
from pathlib import Path
from resource import getpagesize
from typing import Final

EVERY_SECONDS: Final = 5.0
_GROWTH: Final = 1024 * 1024
_SWEEPS_OF_THE_YOUNG: Final = 10
"""Sweeps of the young generations before a sweep of everything, as in Python's default."""
LONG_SECONDS: Final = 0.02
"""The CPU time of a sweep after which the objects that survived it are left out of the next ones."""
EVERYTHING_EACH: Final = 720
"""Sweeps until all living objects are examined again: an hour under load, and it takes 60 ms."""
_NEVER: Final = 2**31 - 1
_M_MMAP_THRESHOLD: Final = -3
_LARGE_BLOCK_BYTES: Final = 128 * 1024


def return_large_blocks() -> None:
    """Fix glibc's threshold at its default: each large body raises it, after which large bodies stay on the heap."""
    if adjust := _glibc("mallopt"):
        adjust(_M_MMAP_THRESHOLD, _LARGE_BLOCK_BYTES)


async def tidy() -> None:
    """Collect garbage every few seconds if there was work, and return its memory to the system.

    By default, Python examines all living objects many times a second under load, and a request waits each time.
    A sweep examines what has come since a sweep took long. Most of what survives that one is the program itself; what
    a request needed just then may become garbage, so survivors are not left out each time.
    """
    trim = _glibc("malloc_trim") or (lambda _: None)
    gc.set_threshold(*gc.get_threshold()[:2], _NEVER)
    least, sweeps, again = _own(), 0, False
    while True:
        await asyncio.sleep(EVERY_SECONDS)
        busy = gc.get_count()[2] >= _SWEEPS_OF_THE_YOUNG or _own() > least + _GROWTH
        if busy or again:  # once more after the last work: its memory was in use when it was swept
            again = busy
            sweeps += 1
            if sweeps % EVERYTHING_EACH == 0:
                gc.unfreeze()
            began = time.thread_time()
            _forget_looked_up()
            gc.collect()
            if time.thread_time() - began > LONG_SECONDS:
                gc.freeze()
            trim(0)
            least = _own()


def _forget_looked_up() -> None:
    """Drop the names of attributes that Python's cache of lookups keeps; it fills again at once.

    C code and `match` look attributes up by strings made for that one lookup. The cache keeps up to 4,096 of them, and
    one that was made amid a large request can keep a megabyte of its memory from the system. Emptying it takes 10 µs.
    """
    sys._clear_type_cache()  # noqa: SLF001 - documented, with this name


def _glibc(function: str) -> Callable[..., object] | None:
    """A function of glibc; None with another C library."""
    found: Callable[..., object] | None = getattr(ctypes.CDLL(None), function, None)
    return found


def _own() -> int:
    """Resident bytes of this process; pages of its libraries come and go as the system likes, and do not count."""
    _, resident, shared, *_ = Path("/proc/self/statm").read_text().split()
    return (int(resident) - int(shared)) * getpagesize()
