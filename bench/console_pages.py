"""The cost of the console's pages with many workloads."""

from bench import wire
from bench.cloud_world import Cloud, taken
from bench.results import Row
from relay_localcloud.console.pages import PAGES

ROUNDS = 10


async def console_rows(servers: Cloud, pods: int) -> list[Row]:
    """Measures the CPU of every page that is not about a single resource; reports the most expensive one."""
    took: dict[str, float] = {}
    for path, page in PAGES.items():
        if page.under is None:
            look = wire.request("GET", path)
            await taken(servers.pid, servers.server.url, [look])  # the first one compiles the template
            replies, all_of_them = await taken(servers.pid, servers.server.url, [look] * ROUNDS)
            assert all(reply.status == 200 for reply in replies), path
            took[page.label] = all_of_them.cpu / ROUNDS * 1e3
    dearest = max(took, key=lambda label: took[label])
    return [
        (
            f"{pods:,} live pods, a page of the console: CPU, ms",
            f"{took[dearest]:.1f} at most ({dearest}; Overview {took['Overview']:.1f})",
            "under 50",
        )
    ]
