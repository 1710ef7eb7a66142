"""Formats values for people: money, durations, instants, sizes, states."""

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from relay_localcloud.kernel.instants import SECOND, timestamp

_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_SECRET: Final = re.compile(r"(?<![A-Za-z0-9])(or|vl|ust|whsec|inv)_[A-Za-z0-9_-]{8,}")

_WORDS: Final = {
    "good": ("running", "healthy", "completed", "online"),
    "busy": (
        *("deploying", "provisioning", "stopping", "draining"),
        *("validating", "in_progress", "finalizing", "cancelling"),
    ),
    "warning": ("interrupted", "degraded", "unhealthy", "lost", "expired", "maintenance"),
    "bad": ("failed", "offline"),
}
"""States by tone, which is the CSS class of their colour; all other states are `off`."""

TONES: Final = {word: tone for tone, words in _WORDS.items() for word in words}


def tone(state: str) -> str:
    """The tone of a state, which is the CSS class of its colour."""
    return TONES.get(state, "off")


def money(cents: int) -> str:
    """Cents as dollars."""
    whole, rest = divmod(abs(cents), 100)
    return f"{'−' if cents < 0 else ''}${whole:,}.{rest:02}"  # noqa: RUF001 - a minus sign


def hourly(cents: int) -> str:
    """A rate in cents per hour, as dollars."""
    return f"{money(cents)}/h"


def span(seconds: int) -> str:
    """A duration in its two largest units."""
    parts: list[str] = []
    rest = max(seconds, 0)
    for size, unit in _UNITS:
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count:,} {unit}")
    return " ".join(parts[:2]) or "0 s"


def absolute(instant: int) -> str:
    """An instant to the second, in UTC."""
    return timestamp(instant)[:19].replace("T", " ")


def ago(instant: int, now: int) -> str:
    """An instant relative to `now`, in the largest unit."""
    seconds = abs(instant - now) // SECOND
    largest = " ".join(span(seconds).split(" ")[:2])
    return "now" if seconds == 0 else f"in {largest}" if instant > now else f"{largest} ago"


def size(count: int) -> str:
    """Bytes in the largest unit that fits."""
    amount, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB"):
        if round(amount, 1) < 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{count} B" if unit == "B" else f"{amount:.1f} {unit}"


def grouped(count: int) -> str:
    """A count with separated thousands."""
    return f"{count:,}"


def counted(count: int, noun: str) -> str:
    """A count with its noun, in the plural unless it is 1."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def tally(by_state: Mapping[str, int]) -> str:
    """The number of workloads in each state, in one sentence."""
    if not by_state:
        return "No workloads."
    parts = ", ".join(f"{count:,} {state}" for state, count in by_state.items())
    return f"{counted(sum(by_state.values()), 'workload')}: {parts}."


def public_part(url: str) -> str:
    """An address without its parts that may be secret: user, password, query and fragment."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def without_secrets(text: str) -> str:
    """A text with its keys, tokens and signing secrets reduced to their prefixes."""
    return _SECRET.sub(r"\1_…", text)
