"""`make bench`: measures, prints tables, and writes them to bench/results.md."""

import argparse
import asyncio
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import NamedTuple

from bench import results
from bench.batches import batch_rows, crowd_rows
from bench.containers import container_rows
from bench.extent import Extent
from bench.floods import flood_rows
from bench.gateway import gateway_rows
from bench.gathering import gathering_rows
from bench.hanging import hanging_rows
from bench.large import large_rows
from bench.listed import listed_rows
from bench.localcloud import localcloud_rows
from bench.peers.beside import peer_rows
from bench.pods import pod_rows
from bench.records import record_rows
from bench.results import Row


class Group(NamedTuple):
    """One table of results.md and the function that measures it."""

    title: str
    measure: Callable[[Extent], Coroutine[None, None, list[Row]]]
    objects: int = 0
    """The default number of objects; 0 if the group ignores it."""
    always: bool = True
    """Whether it is measured when no group is named."""


GROUPS = {
    "pods": Group("GpuPods and GpuClusters", pod_rows, 1000),
    "large": Group("A hundred thousand GpuPods in one process", large_rows, 100_000, always=False),
    "peers": Group("GpuPods beside Requests of provider-http", peer_rows, 300, always=False),
    "listed": Group("Keys and members by the thousand", listed_rows, 1000),
    "gathering": Group("A pass among many objects, without servers", lambda _: gathering_rows()),
    "hanging": Group("A cloud that hangs for one account", lambda _: hanging_rows()),
    "localcloud": Group("The local cloud, alone", lambda _: localcloud_rows()),
    "gateway": Group("The gateway of workloads", lambda _: gateway_rows()),
    "containers": Group("Pods of the cloud as containers of a real node", container_rows, always=False),
    "floods": Group("The local cloud, flooded by another organization", lambda _: flood_rows()),
    "records": Group("Records of batches, without servers", lambda _: record_rows()),
    "batches": Group("InferenceBatches", lambda _: batch_rows()),
    "crowd": Group("InferenceBatches by the hundred", lambda _: crowd_rows()),
}


def main() -> None:
    """Measures the named groups, by default all that are `always` measured, and replaces their tables in results.md."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", choices=GROUPS, action="append", help="measure this group; can be given again")
    parser.add_argument("--objects", type=int, help="of pods and listed (1000), large (100000) and peers (300)")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--quiet-seconds", type=float, default=120)
    parser.add_argument("--provider-http", type=Path, help="for peers: a folder with `provider` and `package/crds`")
    arguments = parser.parse_args()
    named = arguments.only or [name for name, group in GROUPS.items() if group.always]
    if "peers" in named and arguments.provider_http is None:
        parser.error("peers needs --provider-http: a clone of its repository in which its program was built")
    titles = [group.title for group in GROUPS.values()]
    for title, measure, objects, _ in map(GROUPS.__getitem__, named):
        extent = Extent(
            arguments.objects or objects, arguments.rounds, arguments.quiet_seconds, arguments.provider_http
        )
        load = os.getloadavg()[0]
        text = results.section(title, asyncio.run(measure(extent)), load)
        results.write(titles, {title: text})
        print(text)


if __name__ == "__main__":
    main()
