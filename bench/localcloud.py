"""The local cloud alone, over raw HTTP, compared with a floor: start, creates, load with many pods, the clock."""

import statistics
import sys
import time
from asyncio import create_subprocess_exec
from collections.abc import Callable

from bench import clock
from bench.answering import answering
from bench.cloud_world import UNTIL_RUNNING, Cloud, Floor, Took, cloud, floor
from bench.console_pages import console_rows
from bench.mixed_calls import mixed_calls
from bench.progress import say
from bench.results import Row
from bench.usage import usage

PODS = 10_000
ROUNDS = 10
STARTS = 3
CALL_SECONDS = 30
LIBRARIES = "import time, starlette, sqlalchemy, uvicorn, uvloop; print(time.process_time())"


async def localcloud_rows() -> list[Row]:
    """Makes all measurements of the local cloud."""
    async with floor() as beside, cloud() as servers, answering() as receiver:
        body = {"name": "bench", "url": receiver.url, "events": []}
        await servers.organization.ok("POST", "/v1/orgs/{org}/webhooks/create", body)
        rows = await _creation(servers, beside)
        rows += await _calls(servers, beside, lambda: receiver.answered)
        say("pages of the console")
        rows += await console_rows(servers, PODS)
        rows += [await _start(servers, f"starting with {PODS:,} pods", "under 3 s")]
    async with cloud() as fresh:
        rows.append(await _start(fresh, "starting empty", "under 1 s"))
    return rows + await clock.clock_rows()


async def _creation(servers: Cloud, beside: Floor) -> list[Row]:
    await servers.add_room(PODS)
    pairs: list[tuple[Took, Took]] = []
    starts: list[Took] = []
    for number in range(ROUNDS):
        say(f"round {number + 1}: {PODS // ROUNDS:,} pods, the floor's and the cloud's")
        _, least = await beside.create_pods(PODS // ROUNDS)
        _, mine = await servers.create_pods(PODS // ROUNDS)
        pairs.append((least, mine))
        starts.append(await _starts(servers, PODS // ROUNDS))
    created = statistics.median(mine.a_cpu_second for _, mine in pairs)
    ratio = statistics.median(least.a_cpu_second / mine.a_cpu_second for least, mine in pairs)
    wall = statistics.median(mine.count / mine.wall for _, mine in pairs)
    started = statistics.median(start.cpu / start.count for start in starts)
    return [
        (
            "creating pods: a second on a core",
            f"{created:.0f} ({ratio:.1f} x the floor's CPU; {wall:.0f} by the clock)",
            "at least 500",
        ),
        ("starting them and delivering a webhook of each: CPU a pod", f"{started * 1e3:.2f} ms", ""),
    ]


async def _starts(servers: Cloud, count: int) -> Took:
    """Measures how pods that were just created start to run and their webhooks are delivered."""
    before, started = usage(servers.pid).cpu, time.monotonic()
    await servers.server.advance(UNTIL_RUNNING)
    return Took(count, usage(servers.pid).cpu - before, time.monotonic() - started)


async def _calls(servers: Cloud, beside: Floor, delivered: Callable[[], int]) -> list[Row]:
    say(f"{CALL_SECONDS} s of 100 requests a second")
    await servers.server.ok("POST", "/clock", {"mode": "real"})
    told = delivered()
    mixed = await mixed_calls(servers, beside, CALL_SECONDS)
    told = delivered() - told
    medians = {name: statistics.median(took) * 1e3 for name, took in mixed.latencies.items()}
    each = ", ".join(f"{name} {median:.1f}" for name, median in medians.items())
    least = statistics.median(mixed.floors) * 1e3
    rates = f"{mixed.calls / mixed.seconds:.0f} requests and {told / mixed.seconds:.0f} webhooks a second"
    return [
        (
            f"{PODS:,} live pods, {rates}: p50, ms",
            f"{max(medians.values()):.1f} at most ({each}; the floor {least:.1f})",
            "under 5",
        ),
        ("the same: CPU a request, webhooks included", f"{mixed.cpu / mixed.calls * 1e3:.2f} ms", ""),
        ("the same: resident memory", f"{usage(servers.pid).resident / 1e6:.0f} MB", "under 400 MB"),
    ]


async def _start(servers: Cloud, what: str, target: str) -> Row:
    say(what)
    took, libraries = [], []
    for _ in range(STARTS):
        libraries.append(await _libraries_cpu())
        servers.server.kill()
        started = time.monotonic()
        servers.server.start()
        took.append((time.monotonic() - started, usage(servers.pid).cpu))
    wall, cpu = (statistics.median(column) for column in zip(*took, strict=True))
    least = statistics.median(libraries)
    return (what, f"{cpu:.2f} s of CPU, {wall:.2f} s by the clock (its libraries alone {least:.2f} s of CPU)", target)


async def _libraries_cpu() -> float:
    process = await create_subprocess_exec(sys.executable, "-c", LIBRARIES, stdout=-1)
    said, _ = await process.communicate()
    return float(said)
