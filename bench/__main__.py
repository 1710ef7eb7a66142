"""`make bench`: measures, prints tables, and writes them to bench/results.md."""

import argparse
import asyncio
import os
from collections.abc import Callable, Coroutine
from typing import TypeAlias

from bench import results
from bench.batches import batch_rows, crowd_rows
from bench.floods import flood_rows
from bench.gateway import gateway_rows
from bench.gathering import gathering_rows
from bench.hanging import hanging_rows
from bench.localcloud import localcloud_rows
from bench.pods import Extent, pod_rows
from bench.records import record_rows
from bench.results import Row

Group: TypeAlias = tuple[str, Callable[[Extent], Coroutine[None, None, list[Row]]]]

GROUPS: dict[str, Group] = {
    "pods": ("GpuPods and GpuClusters", pod_rows),
    "gathering": ("A pass among many objects, without servers", lambda _: gathering_rows()),
    "hanging": ("A cloud that hangs for one account", lambda _: hanging_rows()),
    "localcloud": ("The local cloud, alone", lambda _: localcloud_rows()),
    "gateway": ("The gateway of workloads", lambda _: gateway_rows()),
    "floods": ("The local cloud, flooded by another organization", lambda _: flood_rows()),
    "records": ("Records of batches, without servers", lambda _: record_rows()),
    "batches": ("InferenceBatches", lambda _: batch_rows()),
    "crowd": ("InferenceBatches by the hundred", lambda _: crowd_rows()),
}


def main() -> None:
    """Measures every group, or those that are named; the tables of the others stay as they are."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", choices=GROUPS, action="append", help="measure this group; can be given again")
    parser.add_argument("--objects", type=int, default=Extent().objects)
    parser.add_argument("--rounds", type=int, default=Extent().rounds)
    parser.add_argument("--quiet-seconds", type=float, default=Extent().quiet_seconds)
    arguments = parser.parse_args()
    extent = Extent(arguments.objects, arguments.rounds, arguments.quiet_seconds)
    titles = [title for title, _ in GROUPS.values()]
    for name in arguments.only or GROUPS:
        title, measure = GROUPS[name]
        load = os.getloadavg()[0]
        text = results.section(title, asyncio.run(measure(extent)), load)
        results.write(titles, {title: text})
        print(text)


if __name__ == "__main__":
    main()
