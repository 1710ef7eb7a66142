"""The list of all kinds, one line each; every module that needs all of them reads it here."""

from typing import Final

from relay_operator.api.cloudaccount import CLOUD_ACCOUNT, CLUSTER_CLOUD_ACCOUNT, CloudAccount, ClusterCloudAccount
from relay_operator.api.inferencebackend import DEFINITION as INFERENCE_BACKEND
from relay_operator.api.inferencebatch import DEFINITION as BATCH
from relay_operator.api.inferencebatchschedule import DEFINITION as SCHEDULE
from relay_operator.api.nodereservation import DEFINITION as NODE_RESERVATION
from relay_operator.api.providernode import DEFINITION as PROVIDER_NODE
from relay_operator.api.provisioningtoken import DEFINITION as PROVISIONING_TOKEN
from relay_operator.api.servingdeployment import DEFINITION as SERVING_DEPLOYMENT
from relay_operator.engine.kind import Kind
from relay_operator.flows.wiring import Parts, accounts, batches, managed, schedules
from relay_operator.kinds.apikey import DEFINITION as API_KEY
from relay_operator.kinds.apikey import ApiKeys
from relay_operator.kinds.gpucluster import DEFINITION as GPU_CLUSTER
from relay_operator.kinds.gpucluster import clusters
from relay_operator.kinds.gpupod import DEFINITION as GPU_POD
from relay_operator.kinds.gpupod import GpuPods
from relay_operator.kinds.gpuvm import DEFINITION as GPU_VM
from relay_operator.kinds.gpuvm import GpuVms
from relay_operator.kinds.inferencebackend import InferenceBackends
from relay_operator.kinds.nodereservation import NodeReservations
from relay_operator.kinds.organizationmember import DEFINITION as ORGANIZATION_MEMBER
from relay_operator.kinds.organizationmember import OrganizationMembers
from relay_operator.kinds.providernode import ProviderNodes
from relay_operator.kinds.provisioningtoken import ProvisioningTokens
from relay_operator.kinds.registrycredential import DEFINITION as REGISTRY_CREDENTIAL
from relay_operator.kinds.registrycredential import RegistryCredentials
from relay_operator.kinds.runnerpool import DEFINITION as RUNNER_POOL
from relay_operator.kinds.runnerpool import RunnerPools
from relay_operator.kinds.servingdeployment import ServingDeployments
from relay_operator.kinds.sshkey import DEFINITION as SSH_KEY
from relay_operator.kinds.sshkey import SshKeys
from relay_operator.kinds.vmsnapshot import DEFINITION as VM_SNAPSHOT
from relay_operator.kinds.vmsnapshot import VmSnapshots

KINDS: Final[tuple[Kind[Parts], ...]] = (
    Kind(CLOUD_ACCOUNT, accounts(CLOUD_ACCOUNT, CloudAccount), uses_account=False),
    Kind(CLUSTER_CLOUD_ACCOUNT, accounts(CLUSTER_CLOUD_ACCOUNT, ClusterCloudAccount), uses_account=False),
    Kind(GPU_CLUSTER, managed(clusters), shared_by_default=True),
    Kind(GPU_POD, managed(lambda _: GpuPods()), shared_by_default=True),
    Kind(GPU_VM, managed(lambda _: GpuVms()), shared_by_default=True),
    # A batch has a day, and batches come by the hundred: people who wait for a GPU must not wait for them too.
    Kind(BATCH, batches, shared_by_default=True, gives_way=True),
    Kind(SSH_KEY, managed(SshKeys)),
    Kind(REGISTRY_CREDENTIAL, managed(RegistryCredentials)),
    Kind(API_KEY, managed(ApiKeys)),
    Kind(ORGANIZATION_MEMBER, managed(OrganizationMembers)),
    Kind(VM_SNAPSHOT, managed(VmSnapshots), assumed=True),
    Kind(RUNNER_POOL, managed(RunnerPools)),
    Kind(PROVISIONING_TOKEN, managed(ProvisioningTokens)),
    Kind(PROVIDER_NODE, managed(ProviderNodes)),
    Kind(INFERENCE_BACKEND, managed(InferenceBackends), assumed=True),
    Kind(NODE_RESERVATION, managed(NodeReservations), assumed=True),
    Kind(SERVING_DEPLOYMENT, managed(ServingDeployments), assumed=True),
    Kind(SCHEDULE, schedules, uses_account=False, wakes_with_owned=True),
)
