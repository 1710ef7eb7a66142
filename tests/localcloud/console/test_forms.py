"""The console's forms: a pod, a node, a deposit, something that goes wrong; nonsense, and two who press the same."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.async_api import expect

from tests.localcloud.support import clusters, deployments
from tests.localcloud.support.pages import PUBLIC_KEY, QUOTES, page, refusal, send, text_of, wrong
from tests.localcloud.support.server import Answer
from tests.localcloud.support.workloads import new_pod, running_pod, status

if TYPE_CHECKING:
    from tests.localcloud.support.browsing import Console
    from tests.localcloud.support.server import Organization, Server

POD = {"image": "app:1", "name": "trainer", "gpuModelId": "h100", "gpuCount": "2", "httpPort": "8000"}
VM = {"name": "box", "gpuModelId": "", "gpuCount": "", "resourceSize": "medium", "templateId": "", "sshKeyIds": ""}
CLUSTER = {"name": "llm", "imageUrl": "app:1", "replicaCount": "2", "gpuModelId": "a100", "gpusPerReplica": ""}
WRONG_KEYS = [("publicKey", text) for text in ("nonsense", "ssh-ed25519 !!!", QUOTES)]
USUAL = {"pods": POD, "vms": VM, "clusters": CLUSTER}
NODE = {"gpuModelId": "h100", "gpuCount": "8", "location": "sjc1"}


async def create(organization: Organization, noun: str = "pods", **form: object) -> Answer:
    path, back = f"orgs/{organization.id}/{noun}", f"/console/workloads?create={noun}"
    return await send(organization.server, path, back, **{**USUAL[noun], **form})


async def add_key(organization: Organization, **form: object) -> Answer:
    fields = {"name": "laptop", "publicKey": PUBLIC_KEY, **form}
    return await send(organization.server, f"orgs/{organization.id}/keys", "/console/keys", **fields)


async def deposit(organization: Organization, cents: object, key: str = "console-0") -> Answer:
    path = f"orgs/{organization.id}/deposits"
    return await send(organization.server, path, "/console/money", amountCents=cents, key=key)


async def test_a_pod_is_created_as_the_form_says(fresh: Server) -> None:
    answer = await create(fresh.seeded(), public="yes", volumeGb="70")
    assert answer.status == 303
    await fresh.advance(5)
    shown = text_of(await page(fresh, answer.headers["location"]))
    assert "It is created, and runs in a moment if there is room." in shown
    for part in ("trainer", "running", "2 x h100", "public", '"volumeGb": 70', '"httpPort": 8000'):
        assert part in shown, part


async def test_of_a_pod_only_the_image_must_be_given(fresh: Server) -> None:
    answer = await create(fresh.seeded(), name=" ", gpuModelId="", gpuCount="", httpPort="")
    assert answer.status == 303
    assert "1 workload: 1 deploying." in text_of(await page(fresh, "/console/workloads"))


async def test_a_vm_is_created_with_a_key_that_was_added(fresh: Server) -> None:
    owner = fresh.seeded()
    answer = await add_key(owner)
    assert (answer.status, answer.headers["location"]) == (303, "/console/keys?done=key-added")
    (key,) = (await owner.ok("GET", "/v1/orgs/{org}/ssh-keys"))["items"]
    assert (
        f'<option value="{key["id"]}">laptop</option>'
        in (await page(fresh, "/console/workloads?create=vms")).raw.decode()
    )
    made = await create(owner, "vms", sshKeyIds=key["id"])
    shown = text_of(await page(fresh, made.headers["location"]))
    for part in ("VM vm_", "CPU, medium", key["id"]):
        assert part in shown, part
    assert "1 workload" in text_of(await page(fresh, "/console/keys"))
    assert (await send(fresh, f"keys/{key['id']}/removal", "/console/keys")).status == 303
    assert refusal(await send(fresh, f"keys/{key['id']}/removal", "/console/keys")) == (
        404,
        f"There is no SSH key {key['id']!r}: it was deleted, or never existed.",
    )
    assert (await owner.ok("GET", "/v1/orgs/{org}/ssh-keys"))["items"] == []


async def test_a_vm_with_gpus_is_created(fresh: Server) -> None:
    made = await create(fresh.seeded(), "vms", gpuModelId="l40s", gpuCount="2", resourceSize="", diskSizeGb="300")
    shown = text_of(await page(fresh, made.headers["location"]))
    assert "2 x l40s" in shown
    assert '"diskSizeGb": 300' in shown
    assert "POST /console/orgs/{orgId}/vms" in shown, "its page says who created it"
    assert (await fresh.ok("GET", "/audit"))["items"][-1]["objectId"] in made.headers["location"]


async def test_a_cluster_is_created_scaled_and_ended(fresh: Server) -> None:
    made = await create(fresh.seeded(), "clusters")
    assert made.status == 303
    await fresh.advance(5)
    shown = text_of(await page(fresh, made.headers["location"]))
    assert "1 x a100 for each of 2 replicas" in shown
    assert "2 of 2 healthy" in shown


@pytest.mark.parametrize(
    ("noun", "field", "value", "status", "said"),
    [
        ("vms", "name", "", 400, "Field required"),
        ("vms", "name", "x" * 10_000, 400, "name"),
        ("vms", "gpuModelId", QUOTES, 422, "there is no"),
        ("vms", "gpuCount", "2", 422, "it needs a gpuModelId"),
        ("vms", "resourceSize", "odd", 422, "there is no"),
        ("vms", "templateId", "odd", 422, "there is no"),
        ("vms", "sshKeyIds", "ssh_nobody", 422, "has no key"),
        ("vms", "diskSizeGb", "0", 400, "from 1"),
        ("vms", "diskSizeGb", "nan", 400, "give a finite number"),
        ("clusters", "name", "", 400, "Field required"),
        ("clusters", "imageUrl", "two words", 400, "image"),
        ("clusters", "replicaCount", "0", 400, "greater than or equal to 1"),
        ("clusters", "replicaCount", "1001", 400, "at most 1000"),
        ("clusters", "replicaCount", "1.5", 400, "give a whole number"),
        ("clusters", "gpuModelId", "odd", 422, "there is no"),
        ("clusters", "gpusPerReplica", "-1", 400, "gpusPerReplica"),
        ("clusters", "containerPort", "70000", 400, "less than or equal to 65535"),
    ],
)
async def test_what_is_wrong_with_a_vm_or_cluster_stands_beside_its_field_and_the_rest_is_kept(
    server: Server, noun: str, field: str, value: str, status: int, said: str
) -> None:
    answer = await create(server.seeded(), noun, **{field: value})
    code, about, message = wrong(answer)
    assert (code, about) == (status, field)
    assert said in message
    assert field == "name" or f'value="{USUAL[noun]["name"]}"' in answer.raw.decode()
    assert "<img" not in answer.raw.decode()
    assert "No workloads." in text_of(await page(server, "/console/workloads"))


@pytest.mark.parametrize("noun", ["vms", "clusters"])
async def test_two_people_create_the_same_vm_or_cluster(fresh: Server, noun: str) -> None:
    assert (await create(fresh.seeded(), noun)).status == 303
    code, said = refusal(await create(fresh.seeded(), noun))
    assert (code, "names are free again after termination" in said) == (409, True)
    assert "1 workload: " in text_of(await page(fresh, "/console/workloads"))


@pytest.mark.parametrize(
    ("field", "value"), [("name", ""), ("name", "x" * 201), ("name", "a\u202eb"), ("publicKey", ""), *WRONG_KEYS]
)
async def test_what_is_wrong_with_a_key_stands_beside_its_field(server: Server, field: str, value: str) -> None:
    owner = server.seeded()
    code, about, _ = wrong(await add_key(owner, **{field: value}))
    assert (code, about) == (400, field)
    assert (await owner.ok("GET", "/v1/orgs/{org}/ssh-keys"))["items"] == []


async def test_two_people_create_the_same_pod(fresh: Server) -> None:
    assert (await create(fresh.seeded())).status == 303
    again = refusal(await create(fresh.seeded()))
    assert again == (409, "There is a live pod 'trainer' already; names are free again after termination.")
    assert "1 workload: " in text_of(await page(fresh, "/console/workloads"))


async def test_a_form_of_an_organization_that_is_not_there_is_refused(server: Server) -> None:
    for path, back in (("orgs/org_nobody/pods", "/console/workloads"), ("orgs/org_nobody/deposits", "/console/money")):
        answer = await send(server, path, back, **POD, amountCents="1000")
        assert refusal(answer) == (404, "There is no organization 'org_nobody'.")


async def test_a_deposit_is_charged_once_however_many_press(fresh: Server) -> None:
    owner = fresh.seeded()
    before = (await owner.ok("GET", "/v1/orgs/{org}/billing/balance"))["balanceCents"]
    shown = (await page(fresh, "/console/money")).raw.decode()
    (key,) = re.findall(r'name="key" value="([^"]+)"', shown)
    for _ in range(2):
        answer = await deposit(owner, "5000", key)
        assert answer.headers["location"] == "/console/money?done=deposit-processing"
    assert refusal(await deposit(owner, "6000", key)) == (
        409,
        "Somebody has just made another deposit: look at the balance, then try again.",
    )
    await fresh.advance(2)
    assert (await owner.ok("GET", "/v1/orgs/{org}/billing/balance"))["balanceCents"] == before + 5000
    assert "done=deposit-succeeded" in (await deposit(owner, "5000", key)).headers["location"]
    assert f'name="key" value="{key}"' not in (await page(fresh, "/console/money")).raw.decode()


async def test_a_deposit_that_cannot_be_made_is_told_why(fresh: Server) -> None:
    owner = fresh.seeded()
    for amount in ("", "x", "999", "50001", "1e30", "-5000", "1000.5"):
        code, field, _ = wrong(await deposit(owner, amount))
        assert (code, field) == (400, "amountCents"), amount
    await fresh.ok("POST", "/payments", {"mode": "decline"})
    assert "done=deposit-failed" in (await deposit(owner, "1000")).headers["location"]
    assert "The card was declined" in text_of(await page(fresh, "/console/money?done=deposit-failed"))


async def test_a_node_is_added_and_removed_with_what_is_on_it(fresh: Server) -> None:
    answer = await send(fresh, "nodes", "/console/nodes", **{**NODE, "gpuCount": "16"})
    assert (answer.status, answer.headers["location"]) == (303, "/console/nodes?done=node-added")
    node = (await fresh.ok("GET", "/nodes"))["items"][-1]
    assert (node["gpuModelId"], node["location"], len(node["units"])) == ("h100", "sjc1", 16)
    pod = await running_pod(fresh.seeded(), gpuModelId="h100")
    (holder,) = [
        each["id"]
        for each in (await fresh.ok("GET", "/nodes"))["items"]
        if any(unit["workloadId"] == pod for unit in each["units"])
    ]
    assert (await send(fresh, f"nodes/{holder}/removal", "/console/nodes")).status == 303
    assert await status(fresh.seeded(), pod) == "terminated"
    assert holder not in text_of(await page(fresh, "/console/nodes"))
    gone = text_of(await page(fresh, f"/console/nodes?node={holder}"))
    assert "There is no such node: it was removed, or never existed." in gone
    assert "There are no nodes." not in gone
    assert refusal(await send(fresh, f"nodes/{holder}/removal", "/console/nodes")) == (
        409,
        f"The node {holder!r} was removed.",
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [("gpuModelId", "x"), ("gpuModelId", ""), ("gpuCount", "0"), ("gpuCount", "x"), ("location", "")],
)
async def test_what_is_wrong_with_a_node_stands_beside_its_field(server: Server, field: str, value: str) -> None:
    before = await server.ok("GET", "/nodes")
    code, about, _ = wrong(await send(server, "nodes", "/console/nodes", **{**NODE, field: value}))
    assert (code, about) == (400, field)
    assert await server.ok("GET", "/nodes") == before


@pytest.mark.parametrize(
    ("path", "field", "form"),
    [
        ("faults", "operation", {"operation": "nonsense", "effect": "503", "count": "7"}),
        ("faults", "count", {"operation": "GET /v1/whoami", "effect": "html", "count": "0"}),
        ("clock/advance", "amount", {"amount": "soon", "seconds": "60"}),
        ("clock/set", "set", {"set": "tomorrow"}),
        ("clock/mode", "rate", {"mode": "scaled", "rate": "-1"}),
    ],
)
async def test_what_is_wrong_with_a_fault_or_the_clock_stands_beside_its_field_and_the_rest_is_kept(
    server: Server, path: str, field: str, form: dict[str, str]
) -> None:
    answer = await send(server, path, f"/console/{path.partition('/')[0]}", **form)
    assert wrong(answer)[:2] == (400, field)
    for value in form.values():
        assert re.search(rf'<input id=[^>]*value="{value}"|<option value="{value}" selected', answer.raw.decode())


async def test_a_workload_is_made_to_fail_and_offers_what_can_happen_to_it(fresh: Server) -> None:
    owner = fresh.seeded()
    pod, cluster = await running_pod(owner), await clusters.running(owner)
    deployment = await deployments.running(owner)

    async def events(workload: str) -> set[str]:
        shown = (await page(fresh, f"/console/workload?id={workload}")).raw.decode()
        return set(re.findall(r'name="event" value="([a-z]+)"', shown))

    async def happen(workload: str, event: str) -> Answer:
        return await send(fresh, f"workloads/{workload}/events", f"/console/workload?id={workload}", event=event)

    assert await events(pod) == {"fail", "exit"}
    assert await events(cluster) == {"fail", "unhealthy", "healthy"}
    assert await events(deployment) == {"unhealthy", "healthy"}
    assert (await happen(pod, "exit")).status == 303
    assert (await happen(pod, "fail")).status == 303
    assert await status(owner, pod) == "failed"
    assert await events(pod) == set()
    assert refusal(await happen(pod, "fail")) == (409, "A workload that is failed cannot fail.")
    assert (await happen(deployment, "unhealthy")).status == 303
    assert "unhealthy" in text_of(await page(fresh, f"/console/workload?id={deployment}"))
    assert (await happen(deployment, "fail")).status == 409
    assert (await happen(pod, "nonsense")).status == 400
    assert (await happen("pod_gone", "fail")).status == 404


@pytest.mark.asyncio(loop_scope="session")
async def test_a_person_creates_a_pod_lets_it_fail_and_adds_a_node_and_money(console: Console, fresh: Server) -> None:
    web = console.page
    await console.open("/console/workloads")
    await web.get_by_role("link", name="Create a pod").click()
    await web.get_by_label("Image").fill("two words")
    await web.get_by_label("Name", exact=True).fill("trainer")
    await console.press("Create a pod")
    beside = web.locator("#image-wrong")
    await expect(beside).to_contain_text("image")
    assert await web.evaluate("document.activeElement.id") == "image"
    other = await new_pod(fresh.seeded(), name="other")
    await expect(console.row(other["id"])).to_be_visible()
    await expect(beside).to_contain_text("image")
    await expect(web.get_by_label("Name", exact=True)).to_have_value("trainer")
    await console.picture("create-refused")
    console.troubles.clear()  # the browser notes the 400
    await web.get_by_label("Image").fill("app:1")
    await console.press("Create a pod")
    await expect(web.get_by_role("heading", level=1)).to_have_text("trainer")
    await console.has_said("It is created")
    await console.press("+1 min")
    facts = web.locator(".facts")
    await expect(facts).to_contain_text("running")
    await web.get_by_text("Inject a failure").click()
    await console.press("Let it fail")
    await expect(facts).to_contain_text("failed")

    await console.go("Nodes")
    await web.get_by_text("Add a node").click()
    await web.get_by_role("spinbutton", name="GPUs").fill("12")
    await console.picture("node-added")
    await console.press("Add the node")
    await console.has_said("The node was added")

    await console.go("Money")
    await web.get_by_text("Deposit", exact=True).click()
    await web.get_by_role("spinbutton", name="Cents").fill("12345")
    await console.press("Charge the card")
    await console.has_said("The card is being charged")
    await console.press("+1 min")
    await expect(web.locator("#transactions")).to_contain_text("$123.45")


@pytest.mark.asyncio(loop_scope="session")
async def test_a_page_is_open_while_its_workloads_node_is_removed(console: Console, fresh: Server) -> None:
    pod = await running_pod(fresh.seeded(), name="trainer")
    await console.open(f"/console/workload?id={pod}")
    await console.page.get_by_text("Inject a failure").click()
    (node,) = [
        each["id"]
        for each in (await fresh.ok("GET", "/nodes"))["items"]
        if any(unit["workloadId"] == pod for unit in each["units"])
    ]
    await console.press("Pause updates")
    await fresh.ok("PATCH", f"/nodes/{node}", {"removed": True})
    await console.press("Let it fail")
    await console.has_said("A workload that is terminated cannot fail.")
    console.troubles.clear()  # the browser notes the 409
    await console.press("Pause updates")
    await expect(console.page.locator(".facts")).to_contain_text("terminated")
    await expect(console.page.get_by_text("Inject a failure")).to_have_count(0)
