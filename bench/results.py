"""Writes results.md: a table for each group of measurements, then the notes."""

import os
import platform
import re
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

Row: TypeAlias = tuple[str, str, str]
"""What was measured, the figure, and its target; the target may be empty."""

RESULTS = Path(__file__).with_name("results.md")
NOTES = Path(__file__).with_name("notes.md")
"""Written by hand; appended to the tables."""

_HEAD = """\
# Measured

The API server, etcd, the local cloud, the S3 server and the measuring process ran on the same cores as the operator.
Ratios are of runs side by side. CPU is what the system booked for the process: where others keep the machine busy it is
up to two thirds more for the same work (caches, shared cores), while seconds are many times as many.
"""
_SECTION = re.compile(r"^## (?P<title>.+)\n(?:(?!^## ).*\n?)*", re.MULTILINE)


def p99(seconds: Sequence[float]) -> float:
    """Returns the 99th percentile."""
    return sorted(seconds)[int(len(seconds) * 0.99)]


def told(writes: Counter[str]) -> str:
    """Returns the number of writes and their distribution as text."""
    return f"{writes.total()} {dict(writes) or ''}".strip()


def section(title: str, rows: Sequence[Row], load: float) -> str:
    """Returns the section of one group; `load` is the load average at its start."""
    machine = f"{os.cpu_count()} cores, Python {platform.python_version()}"
    lines = [
        f"## {title}",
        "",
        f"{datetime.now(UTC):%Y-%m-%d}, {machine}, load average at the start {load:.1f}.",
        "",
        "| what | measured | target |",
        "|---|---|---|",
        *(f"| {what} | {figure} | {target} |" for what, figure, target in rows),
    ]
    return "\n".join(lines) + "\n"


def write(titles: Sequence[str], measured: dict[str, str]) -> None:
    """Writes the measured sections, by title, and keeps the others, in the order of `titles`."""
    before = RESULTS.read_text() if RESULTS.exists() else ""
    kept = {found["title"]: found[0].rstrip() + "\n" for found in _SECTION.finditer(before)}
    parts = [text for title in titles if (text := (kept | measured).get(title))]
    RESULTS.write_text("\n".join([_HEAD, *parts, NOTES.read_text()]))
