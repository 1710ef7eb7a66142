"""The page of one workload: what is on it, what never is, and what is said of one that is gone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.localcloud.support import clusters, deployments
from tests.localcloud.support.events import create_webhook, settle
from tests.localcloud.support.pages import QUOTES, SCRIPT, page, text_of
from tests.localcloud.support.workloads import act, new_pod, running_pod

if TYPE_CHECKING:
    from tests.localcloud.support.receiver import Receiver
    from tests.localcloud.support.server import Organization, Server

HUSH = "hush-hush"
VM: dict[str, Any] = {
    "name": "box",
    "gpuModelId": "a100",
    "envVars": {"TOKEN": HUSH},
    "cloudInit": f"#!/bin/sh\n{HUSH}",
}


async def vm_of(organization: Organization) -> str:
    secret = {"containerCommand": ["run", HUSH], "healthCheckPath": f"/?token={HUSH}"}
    made = await organization.ok("POST", "/v1/orgs/{org}/vms/create", {**VM, **secret})
    await organization.server.advance(2)
    return str(made["id"])


async def of_every_kind(organization: Organization) -> dict[str, str]:
    """The id of a workload of each kind, by what it is called."""
    return {
        "Pod": await running_pod(organization, envVars={"TOKEN": HUSH}),
        "VM": await vm_of(organization),
        "Cluster": await clusters.running(organization, envVars={"TOKEN": HUSH}, containerCommand=[HUSH]),
        "Deployment": await deployments.running(organization, env={"TOKEN": HUSH}, extraArgs=[HUSH], weightsRef=HUSH),
    }


async def test_every_kind_has_a_page_with_its_cost_and_without_its_secrets(fresh: Server) -> None:
    owner = fresh.seeded()
    made = await of_every_kind(owner)
    await fresh.advance(3600)
    token = (await owner.ok("GET", f"/v1/clusters/{made['Cluster']}/detail"))["deployToken"]
    for kind, workload in made.items():
        answer = await page(fresh, f"/console/workload?id={workload}")
        shown = text_of(answer)
        assert answer.status == 200, kind
        assert f"{kind} {workload}" in shown
        assert "running" in shown
        assert '"TOKEN": "…"' in shown, kind
        assert HUSH not in answer.raw.decode(), kind
        assert token not in answer.raw.decode()
        assert f"/{workload}" in shown
        assert owner.api_key not in answer.raw.decode()


async def test_the_cost_so_far_is_that_of_all_its_runs(fresh: Server) -> None:
    owner = fresh.seeded()
    pod = await running_pod(owner)
    await fresh.advance(3600)
    await act(owner, pod, "stop")
    await fresh.advance(7200)
    await act(owner, pod, "restart")
    await fresh.advance(2 + 1800)
    shown = text_of(await page(fresh, f"/console/workload?id={pod}"))
    assert "Cost so far $3.73" in shown, "an hour and a half at $2.49"
    assert "$2.49/h $2.49" in shown
    assert "$2.49/h $1.24" in shown


async def test_what_was_done_to_it_asked_of_it_and_told_of_it_is_on_its_page(fresh: Server, receiver: Receiver) -> None:
    owner = fresh.seeded()
    await create_webhook(owner, receiver)
    pod, other = await running_pod(owner, name="mine"), await running_pod(owner, name="other")
    await act(owner, pod, "stop")
    await settle(owner)
    shown = (await page(fresh, f"/console/workload?id={pod}")).raw.decode()
    of_it, _, _ = shown.partition('id="asked"')
    for section, wanted, unwanted in (
        ("changes", "POST /v1/vms/{id}/stop", "POST /v1/vms/{id}/terminate"),
        ("requests", f"</b> /v1/vms/{pod}/stop", "/v1/pods/capacity"),
        ("attempts", "vm.running", "vm.terminated"),
    ):
        part = of_it.partition(f'id="{section}"')[2].partition("</section>")[0]
        assert wanted in part, section
        assert unwanted not in part, section
    assert other not in shown
    vm = await vm_of(owner)
    assert "boot: The VM booted." in text_of(await page(fresh, f"/console/workload?id={vm}"))


async def test_the_commands_for_a_shell_name_the_key_where_one_is_needed(fresh: Server) -> None:
    owner = fresh.seeded()
    private, public = await running_pod(owner), await running_pod(owner, public=True)
    for pod, keys in ((private, 2), (public, 1)):
        shown = text_of(await page(fresh, f"/console/workload?id={pod}"))
        assert f'curl {fresh.url}/v1/vms/{pod} -H "Authorization: Bearer $KEY"' in shown
        assert shown.count('-H "Authorization: Bearer $KEY"') == keys
        assert shown.count("$KEY is a key of the organization") == keys


async def test_names_and_images_are_text(fresh: Server) -> None:
    owner = fresh.seeded()
    pod = await new_pod(owner, image=SCRIPT, envVars={SCRIPT: QUOTES})
    cluster = await clusters.create(owner, imageUrl=SCRIPT, envVars={SCRIPT: QUOTES})
    for workload in (pod, cluster):
        answer = await page(fresh, f"/console/workload?id={workload['id']}")
        assert answer.status == 200
        assert b"<script>" not in answer.raw
        assert b"<img" not in answer.raw


@pytest.mark.parametrize("query", ["", "?id=", "?id=pod_gone", "?id=%3Cscript%3E", "?org=org_nobody&id=x"])
async def test_a_workload_that_is_not_there_is_a_page_that_says_so_and_leads_to_the_others(
    server: Server, query: str
) -> None:
    answer = await page(server, f"/console/workload{query}")
    assert answer.status == 404
    assert "There is no " in text_of(answer)
    assert b'<a href="/console/workloads">Go back</a>' in answer.raw
    assert b"<script>" not in answer.raw


async def test_what_is_terminated_keeps_its_page_and_a_deployment_that_is_gone_has_none(fresh: Server) -> None:
    owner = fresh.seeded()
    made = await of_every_kind(owner)
    await act(owner, made["Pod"], "terminate")
    await deployments.delete(owner, made["Deployment"])
    await fresh.advance(60)
    assert "terminated" in text_of(await page(fresh, f"/console/workload?id={made['Pod']}"))
    assert (await page(fresh, f"/console/workload?id={made['Deployment']}")).status == 404
