"""`make bench`: measures, prints a table, and writes bench/results.md."""

import argparse
import asyncio
import os
import platform
import statistics
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from bench.measurements import floor_creates, operator_creates, settled, webhook_latency
from bench.world import world

RESULTS = Path(__file__).with_name("results.md")
NOTES = Path(__file__).with_name("notes.md")
"""What people found out about the figures; kept when they are measured again."""
Row = tuple[str, str, str]


async def measure(objects: int, rounds: int, quiet_seconds: float) -> list[Row]:
    """All measurements, one after another: (what, figure, target)."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="relay-bench-") as folder:
        floors = []
        # On servers of its own: an operator would reconcile the floor's objects too, and get in its way.
        async with world(Path(folder) / "floor") as servers:
            for number in range(rounds):
                _say(f"round {number + 1}: the floor, {objects} pods")
                floors.append(await floor_creates(servers, objects, f"floor-{number}"))
        async with world(Path(folder) / "operator") as servers, servers.operator() as operator:
            pairs = []
            for number, floor in enumerate(floors):
                _say(f"round {number + 1}: the operator, {objects} pods")
                mine, writes = await operator_creates(servers, operator, objects, f"pods-{number}")
                pairs.append((floor, mine))
                on_pods = sum(write.resource == "gpupods" for write in writes)
            ratio = statistics.median(mine.course.ready / floor.course.ready for floor, mine in pairs)
            cpu = statistics.median(mine.cpu / floor.cpu for floor, mine in pairs)
            walls = ", ".join(f"{mine.course.ready:.1f} s / {floor.course.ready:.1f} s" for floor, mine in pairs)
            per_object = statistics.median(mine.cpu / objects * 1000 for _, mine in pairs)
            rows.append((f"{objects} GpuPods, apply to Ready", f"{ratio:.2f} x the floor ({walls})", "1.5 x"))
            rows.append(("the same, CPU of the process", f"{cpu:.1f} x the floor, {per_object:.1f} ms an object", ""))
            rows.append(("Kubernetes writes an object", f"{on_pods / objects:.2f}", "3"))
            _say(f"{objects * rounds} settled objects, {quiet_seconds:g} s")
            await asyncio.sleep(20)  # what creation left behind
            quiet = await settled(servers, operator, quiet_seconds)
            rows.append((f"{objects * rounds} settled objects: a core", f"{quiet.core_share:.2%}", "under 1 %"))
            rows.append(("the same: resident memory", f"{quiet.resident / 1e6:.0f} MB", "under 150 MB"))
            rows.append(("the same: Kubernetes writes", f"{quiet.writes.total()} {dict(quiet.writes) or ''}", "0"))
            _say("webhooks, 50 events a second")
            latency = await webhook_latency(servers, operator, 50, 30)
            rows.append(("webhook to status, p50", f"at most {latency.p50 * 1000:g} ms", "under 50 ms"))
            rows.append((f"the same, p99 of {latency.events:g}", f"at most {latency.p99 * 1000:g} ms", "under 250 ms"))
    return rows


def report(rows: list[Row], load: float) -> str:
    """results.md."""
    lines = [
        "# Measured",
        "",
        f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, Python {platform.python_version()}.",
        "The API server, etcd, the local cloud and the measuring process ran on the same cores; the load average",
        f"at the start was {load:.1f}. Ratios are of runs side by side.",
        "",
        "| what | measured | target |",
        "|---|---|---|",
        *(f"| {what} | {figure} | {target} |" for what, figure, target in rows),
    ]
    return "\n".join(lines) + "\n"


def _say(text: str) -> None:
    """Progress, for whoever waits."""
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    """Measures with the counts given."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--objects", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--quiet-seconds", type=float, default=120)
    arguments = parser.parse_args()
    load = os.getloadavg()[0]
    text = report(asyncio.run(measure(arguments.objects, arguments.rounds, arguments.quiet_seconds)), load)
    RESULTS.write_text(f"{text}\n{NOTES.read_text()}")
    print(text)


if __name__ == "__main__":
    main()
