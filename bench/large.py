"""One operator with far more settled GpuPods than expected in practice."""

import tempfile
import time
from pathlib import Path

from bench.copies import ORIGINAL, copied
from bench.extent import Extent
from bench.measurements import settled
from bench.progress import say
from bench.restarting import newcomers, restart_rows, restarted, with_the_cloud
from bench.results import Row, told
from bench.world import world
from tests.support.eventually import eventually
from tests.support.kube import Kube
from tests.support.localcloud import Organization
from tests.support.manifests import gpu_pod, ready

POLLED_SECONDS = 3600
"""Webhooks report changes; at the default interval, polling so many pods would exhaust the cloud's request rate."""
SETTINGS = {"poll_settled_seconds": str(POLLED_SECONDS)}
START_SECONDS = 600.0
"""The limit for the operator's start, in which it reads all objects."""
CHANGES = 10


async def large_rows(extent: Extent) -> list[Row]:
    """Measures the set-up, a restart, a quiet period, and changes among so many objects."""
    with tempfile.TemporaryDirectory(prefix="relay-bench-") as folder:
        async with world(Path(folder)) as servers, servers.namespace("large") as kube:
            await servers.cloud.control.settings(ipAddresses=1_000_000)
            organization = await servers.organization("large", 8)
            async with servers.operator(SETTINGS) as operator, newcomers(servers) as new:
                operator.process.start_within = START_SECONDS
                await servers.account(kube, organization)
                await kube.create(gpu_pod(ORIGINAL, model="h100"))
                await eventually(kube.looking_at("GpuPod", ORIGINAL), ready, within=60, what="the original is Ready")
                await operator.stop()
                say(f"{extent.objects:,} settled pods")
                copies = await copied(servers, kube, extent.objects)
                say(f"they are there after {copies.seconds:.0f} s; a restart")
                rows = restart_rows(copies.pods, await restarted(servers, operator, new), within=120)
                await eventually(
                    lambda: operator.metric("gpurelay_objects", kind="GpuPod", reason="Running"),
                    lambda known: known > copies.pods,
                    what="the operator knows all of them, and that they run",
                )
                say(f"{extent.quiet_seconds:g} s of quiet")
                quiet = await settled(servers, operator, extent.quiet_seconds)
                say(f"{CHANGES} changes")
                created = [await with_the_cloud(new, f"late-{number}") for number in range(CHANGES)]
                changed = [await _changed(kube, organization, number) for number in range(1, CHANGES + 1)]
    return [
        *rows,
        (f"looked at every {POLLED_SECONDS} s, settled: a core", f"{quiet.core_share:.2%}", "under 5 %"),
        ("the same: resident memory", f"{quiet.resident / 1e6:.0f} MB", "under 1,500 MB"),
        ("the same: Kubernetes writes", told(quiet.writes), "0"),
        ("a new object among them is with the cloud after", f"at most {max(created):.2f} s, of {CHANGES}", "2 s"),
        ("a change of a settled one is with the cloud after", f"at most {max(changed):.2f} s, of {CHANGES}", "2 s"),
        ("writing them all into etcd and the local cloud", f"{copies.seconds:.0f} s", ""),
    ]


async def _changed(kube: Kube, organization: Organization, number: int) -> float:
    """Makes a settled pod public; returns the seconds until the cloud reports it."""
    pod = await kube.get("GpuPod", f"copy-{number:07}")
    started = time.monotonic()
    await kube.patch("GpuPod", pod["metadata"]["name"], {"spec": {"public": True}})
    await eventually(
        lambda: organization.vm(pod["status"]["id"]), lambda vm: vm["public"], every=0.02, what="the pod is public"
    )
    return time.monotonic() - started
