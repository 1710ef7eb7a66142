"""How values are written for people: money, spans of time, instants, sizes, states."""

from enum import StrEnum
from typing import Final

from relay_localcloud.console.markup import Html, element, fragment
from relay_localcloud.kernel.instants import SECOND, timestamp

_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


class Tone(StrEnum):
    """What a state means to whoever looks: the class of its colour."""

    GOOD = "good"
    BUSY = "busy"
    WARNING = "warning"
    BAD = "bad"
    OFF = "off"


TONES: Final = {
    "running": Tone.GOOD,
    "healthy": Tone.GOOD,
    "completed": Tone.GOOD,
    "online": Tone.GOOD,
    "deploying": Tone.BUSY,
    "provisioning": Tone.BUSY,
    "stopping": Tone.BUSY,
    "validating": Tone.BUSY,
    "in_progress": Tone.BUSY,
    "finalizing": Tone.BUSY,
    "cancelling": Tone.BUSY,
    "interrupted": Tone.WARNING,
    "degraded": Tone.WARNING,
    "unhealthy": Tone.WARNING,
    "lost": Tone.WARNING,
    "expired": Tone.WARNING,
    "failed": Tone.BAD,
    "offline": Tone.BAD,
}
"""By the word of the state; all others are over, or off."""


def pill(word: str, tone: Tone | None = None) -> Html:
    """A state: its word, with a colour beside it."""
    return element("span", word.replace("_", " "), class_=f"pill {tone or TONES.get(word, Tone.OFF)}")


def money(cents: int) -> str:
    """Cents as dollars."""
    whole, rest = divmod(abs(cents), 100)
    return f"{'−' if cents < 0 else ''}${whole:,}.{rest:02}"  # noqa: RUF001 - a minus sign


def hourly(cents: int) -> str:
    """A rate in cents an hour."""
    return f"{money(cents)}/h"


def span(seconds: int) -> str:
    """A span in its two largest units."""
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


def moment(instant: int, now: int) -> Html:
    """An instant, relative to the cloud's time and absolute."""
    ahead = instant > now
    seconds = abs(instant - now) // SECOND
    largest = " ".join(span(seconds).split(" ")[:2])
    relative = "now" if seconds == 0 else f"in {largest}" if ahead else f"{largest} ago"
    return element(
        "time", fragment(relative, " ", element("small", absolute(instant))), datetime=timestamp(instant), class_="when"
    )


def size(count: int) -> str:
    """Bytes in the largest unit that fits."""
    amount, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB"):
        if amount < 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{count} B" if unit == "B" else f"{amount:.1f} {unit}"


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """A count with its noun."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"
