"""All kinds, one line each: whoever has to know of all of them reads it here."""

from typing import Final

from relay_operator.api.cloudaccount import CLOUD_ACCOUNT, CLUSTER_CLOUD_ACCOUNT, CloudAccount, ClusterCloudAccount
from relay_operator.api.inferencebatch import DEFINITION as BATCH
from relay_operator.api.inferencebatchschedule import DEFINITION as SCHEDULE
from relay_operator.engine.kind import Kind
from relay_operator.flows.wiring import Parts, accounts, batches, managed, schedules
from relay_operator.kinds.gpucluster import DEFINITION as GPU_CLUSTER
from relay_operator.kinds.gpucluster import clusters
from relay_operator.kinds.gpupod import DEFINITION as GPU_POD
from relay_operator.kinds.gpupod import GpuPods
from relay_operator.kinds.gpuvm import DEFINITION as GPU_VM
from relay_operator.kinds.gpuvm import GpuVms
from relay_operator.kinds.sshkey import DEFINITION as SSH_KEY
from relay_operator.kinds.sshkey import SshKeys

# Batches have a day, and come by the hundred: people who wait for a GPU do not wait for them as well.
_IN_THE_BACKGROUND = 0.25

KINDS: Final[tuple[Kind[Parts], ...]] = (
    Kind(CLOUD_ACCOUNT, accounts(CLOUD_ACCOUNT, CloudAccount), uses_account=False),
    Kind(CLUSTER_CLOUD_ACCOUNT, accounts(CLUSTER_CLOUD_ACCOUNT, ClusterCloudAccount), uses_account=False),
    Kind(GPU_CLUSTER, managed(clusters), shared_by_default=True),
    Kind(GPU_POD, managed(lambda _: GpuPods()), shared_by_default=True),
    Kind(GPU_VM, managed(lambda _: GpuVms()), shared_by_default=True),
    Kind(BATCH, batches, shared_by_default=True, worker_share=_IN_THE_BACKGROUND),
    Kind(SSH_KEY, managed(SshKeys)),
    Kind(SCHEDULE, schedules, uses_account=False, wakes_with_owned=True),
)
