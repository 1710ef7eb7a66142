"""What memory is taken from: allocators that return it to the system."""

import ctypes
import os
import sys
from collections.abc import Callable
from typing import Final

_CHOICE: Final = "PYTHONMALLOC"
_M_MMAP_THRESHOLD: Final = -3
_LARGE_BLOCK_BYTES: Final = 128 * 1024


def glibc(function: str) -> Callable[..., object] | None:
    """A function of glibc; None with another C library."""
    found: Callable[..., object] | None = getattr(ctypes.CDLL(None), function, None)
    return found


def use_malloc() -> None:
    """Start this program again with glibc's allocator in place of Python's, unless the environment chooses one.

    Python's returns a megabyte only once nothing in it lives any more; glibc's returns every unused page. It costs 5 %
    of the CPU.
    """
    if _CHOICE not in os.environ and glibc("malloc_trim") is not None:
        os.environ[_CHOICE] = "malloc"
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - this program itself


def return_large_blocks() -> None:
    """Fix glibc's threshold at its default: each large body raises it, after which large bodies stay on the heap."""
    if adjust := glibc("mallopt"):
        adjust(_M_MMAP_THRESHOLD, _LARGE_BLOCK_BYTES)
