"""Memory that large requests took goes back to the system, which glibc would keep for the next ones."""

import asyncio
import ctypes
from collections.abc import Callable
from pathlib import Path
from resource import getpagesize
from typing import Final

EVERY_SECONDS: Final = 5.0
WORTH_BYTES: Final = 4 * 1024 * 1024
_M_MMAP_THRESHOLD: Final = -3
_LARGE_BLOCK_BYTES: Final = 128 * 1024


def return_large_blocks() -> None:
    """Hold glibc's threshold at its default: each large body raises it, and then large bodies stay on the heap."""
    if adjust := _glibc("mallopt"):
        adjust(_M_MMAP_THRESHOLD, _LARGE_BLOCK_BYTES)


async def return_small_blocks() -> None:
    """Every few seconds, if the process has grown since; ends at once if there is no glibc to ask."""
    trim = _glibc("malloc_trim")
    if trim is None:
        return
    least = _resident()
    while True:
        await asyncio.sleep(EVERY_SECONDS)
        if _resident() > least + WORTH_BYTES:
            trim(0)
        least = _resident()


def _glibc(function: str) -> Callable[..., object] | None:
    """None with another C library."""
    found: Callable[..., object] | None = getattr(ctypes.CDLL(None), function, None)
    return found


def _resident() -> int:
    """Bytes of memory that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * getpagesize()
