"""Streaming keeps little in memory, whatever the size of the object."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.objectstores.bucket import MEBIBYTE
from tests.support.eventually import PATIENCE_SECONDS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.objectstores.bucket import Bucket

_MOST = 40 * MEBIBYTE
# A process of its own: what other tests have used already would hide what this one uses.
_PROGRAM = """
import asyncio, json, os, sys
from ipaddress import ip_network
from pathlib import Path, PurePosixPath
from relay_operator.objectstores.credentials import read_credentials
from relay_operator.objectstores.location import Location
from relay_operator.objectstores.addresses import StorePolicy
from relay_operator.objectstores.stores import ObjectStores
from tests.objectstores.bucket import mebibytes

def resident(which):
    return int(Path("/proc/self/status").read_text().partition(which + ":")[2].split()[0]) * 1024

async def main(url, secret, root):
    location = Location.parse(url)
    credentials = read_credentials(location, secret, "s3") if secret else None
    policy = StorePolicy((PurePosixPath(root),), (ip_network("127.0.0.0/8"),))
    async with ObjectStores(policy) as stores:
        async def copy(count, name):
            written = await stores.write(Location.parse(url + name), credentials, mebibytes(count))
            async with stores.read(Location.parse(url + name), credentials) as reading:
                seen = 0
                async for piece in reading:
                    seen += len(piece)
            assert written and seen == count * 1048576
        await copy(1, "-small")  # libraries, certificates and threads are there from here on
        before = resident("VmRSS")
        await copy(50, "-large")
    print(resident("VmHWM") - before, flush=True)

asyncio.run(main(*json.loads(sys.argv[1])))
os._exit(0)  # as the operator ends: the stores' threads do not bear that the interpreter goes before them
"""


@pytest.mark.parametrize("scheme", ["s3", "file"])
def test_fifty_mebibytes_pass_through_bounded_memory(bucket: Bucket, root: Path, scheme: str) -> None:
    url, secret = f"file://{root}/object", {}
    if scheme == "s3":
        url, secret = f"s3://{bucket.name}/object", bucket.server.secret()
    arguments = json.dumps([url, secret, str(root)])
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < _MOST
