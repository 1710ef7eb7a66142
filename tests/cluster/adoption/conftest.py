"""Resources that somebody made in the cloud before Kubernetes knew of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest_asyncio

from tests.support.eventually import eventually

if TYPE_CHECKING:
    from tests.support.workspace import Workspace


@pytest_asyncio.fixture
async def pod_id(workspace: Workspace) -> str:
    """A running pod with two GPUs, made by hand."""
    body = {"image": "pytorch/pytorch:2.9.0", "name": "by-hand", "gpuModelId": "l40s", "gpuCount": 2, "volumeGb": 80}
    made = await workspace.organization.call("POST", "/v1/pods", body)
    cloud_id: str = made["id"]
    await eventually(lambda: workspace.organization.vm(cloud_id), lambda vm: vm["status"] == "running")
    return cloud_id


@pytest_asyncio.fixture
async def cluster_id(workspace: Workspace) -> str:
    """A running cluster of one replica, made by hand."""
    organization = workspace.organization
    body = {
        "name": "by-hand",
        "replicaCount": 1,
        "gpuModelId": "l40s",
        "gpusPerReplica": 1,
        "imageUrl": "vllm/vllm-openai:latest",
        "containerPort": 8000,
    }
    made = await organization.call("POST", f"/v1/orgs/{organization.id}/clusters/create", body)
    cloud_id: str = made["id"]
    await eventually(lambda: organization.cluster(cloud_id), lambda cluster: cluster["status"] == "running")
    return cloud_id
