"""One large InferenceBatch from a bucket to a bucket: CPU, memory and Kubernetes writes."""

import time
from collections import Counter
from dataclasses import dataclass

from bench.measurements import workload_writes
from bench.records import EXPECTED, Shape, requests
from bench.usage import Meter, Spent
from bench.world import OPERATOR_USER, World
from tests.cluster.batch_side import KIND, batch, complete
from tests.support.eventually import eventually
from tests.support.kube import Kube, Manifest
from tests.support.operator import Operator
from tests.support.s3 import S3Server

CREDENTIALS = {"name": "bucket"}
WITHIN = 300.0
"""The time limit in seconds."""


@dataclass(frozen=True, slots=True)
class Servers:
    """The servers of a measurement."""

    world: World
    operator: Operator
    s3: S3Server


@dataclass(frozen=True, slots=True)
class Course:
    """The measurement of one batch; `seconds` from its creation until it was complete."""

    records: int
    input_bytes: int
    output_bytes: int
    seconds: float
    operator: Spent
    cloud: Spent
    writes: Counter[str]


async def measured(servers: Servers, kube: Kube, name: str, shape: Shape) -> Course:
    """Runs one batch in a namespace with an account and the Secret of `open_bucket`. Raises AssertionError."""
    s3, world = servers.s3, servers.world
    await s3.create_bucket(name)
    content = b"".join(requests(shape))
    await s3.put(name, "input.jsonl", content)
    position, started = world.plane.audit.position(), time.monotonic()
    operator, cloud = Meter(servers.operator.process.pid), Meter(world.cloud.process.pid)
    await kube.create(
        batch(
            name,
            model=EXPECTED.model,
            input={"url": f"s3://{name}/input.jsonl", "credentialsSecretRef": CREDENTIALS},
            output={"url": f"s3://{name}/out", "credentialsSecretRef": CREDENTIALS},
        )
    )
    look = kube.looking_at(KIND, name)
    await eventually(look, complete, within=WITHIN, every=0.5, what=f"the batch {name} is complete")
    took, spent, cloud_spent = time.monotonic() - started, operator.spent(), cloud.spent()
    answers = await s3.get(name, "out/output.jsonl")
    assert answers.count(b"\n") == shape.records
    writes = workload_writes(world.plane.writes_by(OPERATOR_USER, position))
    by_resource = Counter(write.resource for write in writes)
    return Course(shape.records, len(content), len(answers), took, spent, cloud_spent, by_resource)


async def open_bucket(kube: Kube, s3: S3Server) -> None:
    """Creates the Secret with the bucket credentials of a namespace's batches."""
    secret: Manifest = {"apiVersion": "v1", "kind": "Secret", "metadata": CREDENTIALS, "stringData": s3.secret()}
    await kube.create(secret)
