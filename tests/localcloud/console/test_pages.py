"""The console's pages as bytes: what is in them, what never is, and when they are not sent at all."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING

import pytest

from tests.localcloud.support.browsing import PAGES
from tests.localcloud.support.events import create_webhook, deliveries_of, make_event, settle
from tests.localcloud.support.pages import QUOTES, SCRIPT, inline_of, page, text_of
from tests.localcloud.support.workloads import act, happens, new_pod, running_pod

if TYPE_CHECKING:
    from tests.localcloud.conftest import StartServer
    from tests.localcloud.support.receiver import Receiver
    from tests.localcloud.support.server import Server

STRANGE = ("?find=%3Cscript%3Ealert(1)", "?done=%3Cscript%3E", "?status=%22%3E%3Cscript%3E")
INVITE = {"email": "ada@example.test", "role": "viewer"}
SENSELESS = (
    "before=x",
    "before=-1",
    f"before={10**30}",
    "after=x",
    "node=x",
    "status=x",
    "span=x",
    "org=",
    "%00=%ff&&",
)


async def version_of(server: Server, path: str) -> str:
    found = re.search(r'<body data-version="([^"]+)"', (await page(server, path)).raw.decode())
    assert found is not None
    return found[1]


async def test_every_page_of_an_empty_cloud_says_what_to_do_next(fresh: Server) -> None:
    hints = (
        "POST /v1/",
        "POST /_localcloud/",
        "PATCH /_localcloud/",
        "key of the ready line",
        "Take down",
        "Invites send one",
        "Move on",
    )
    for path in PAGES:
        answer = await page(fresh, path)
        assert answer.status == 200
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert answer.headers["cache-control"] == "no-store"
        # The seeded organization has money, so nothing about it is empty.
        assert path == "/console/money" or any(hint in text_of(answer) for hint in hints), path


async def test_every_page_of_a_state_without_an_organization_is_shown_or_says_how_to_make_one(
    start_server: StartServer,
) -> None:
    server = start_server("--ephemeral", "--clock", "frozen")
    exported = await server.ok("GET", "/export")
    await server.ok("POST", "/import", {"schemaVersion": exported["schemaVersion"], "tables": {}})
    for path in PAGES:
        answer = await page(server, path)
        assert answer.status == 200 or "create one with POST /_localcloud/orgs" in text_of(answer), path


async def test_pages_are_shown_however_slowly_the_clock_runs(start_server: StartServer) -> None:
    server = start_server("--ephemeral")
    await server.ok("POST", "/clock", {"mode": "scaled", "rate": 1e-308})
    assert (await page(server, "/")).status == 200


async def test_the_policy_allows_nothing_from_elsewhere_and_nothing_inline(server: Server) -> None:
    pod = await new_pod(await server.organization(), name=QUOTES + " style= javascript:")
    for path in (*PAGES, f"/console/workload?id={pod['id']}"):
        answer = await page(server, path)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert inline_of(answer) == [], path


@pytest.mark.usefixtures("no_faults_left")
async def test_what_people_name_things_is_text_on_every_page(server: Server, receiver: Receiver) -> None:
    organization = await server.organization(name=SCRIPT)
    webhook = {"name": QUOTES, "url": f"{receiver.url}/%3Cscript%3E", "events": []}
    await organization.ok("POST", "/v1/orgs/{org}/webhooks/create", webhook)
    pod = await running_pod(organization, **{SCRIPT: QUOTES})
    await happens(organization, pod, "fail", reason=SCRIPT + QUOTES)
    await organization.call("GET", "/v1/<script>alert(1)</script>")
    fault = {"operation": "GET /v1/whoami", "effect": {"status": 500, "body": SCRIPT}}
    await server.ok("POST", "/faults", fault)
    await server.ok("POST", f"/orgs/{organization.id}/invites", INVITE)
    for path in PAGES:
        for parameters in ("", f"?org={organization.id}", *STRANGE):
            answer = await page(server, path + parameters)
            assert answer.status == 200
            assert b"<script>" not in answer.raw, path
            assert b"<img" not in answer.raw, path
    for path, said in (("/console/workloads", SCRIPT + QUOTES), ("/console/faults", SCRIPT)):
        assert html.escape(said).encode() in (await page(server, path)).raw, path


async def test_no_secret_is_on_any_page(server: Server, receiver: Receiver) -> None:
    organization = await server.organization(name="Discreet")
    webhook = await create_webhook(organization, receiver)
    credentials = await organization.ok(
        "POST",
        "/v1/orgs/{org}/webhooks/create",
        {"name": "query", "url": receiver.url.replace("//", "//me:pa55word@") + "?token=hush", "events": []},
    )
    cluster = {"name": "llm", "gpuModelId": "a100", "replicaCount": 1, "envVars": {"TOKEN": "hush-hush"}}
    made = await organization.ok("POST", "/v1/orgs/{org}/clusters/create", cluster)
    detail = await organization.ok("GET", f"/v1/clusters/{made['id']}/detail")
    invite = await server.ok("POST", f"/orgs/{organization.id}/invites", INVITE)
    await organization.call("GET", f"/v1/invites/{invite['token']}/accept")
    await organization.call("GET", f"/v1/{organization.api_key}")
    await settle(organization)
    secrets = (
        organization.api_key,
        organization.user_session_token,
        webhook["secret"],
        credentials["secret"],
        detail["deployToken"],
        invite["token"],
        "hush",
        "pa55word",
        server.ready["apiKey"],
    )
    for path in PAGES:
        for parameters in ("", f"?org={organization.id}"):
            shown = (await page(server, path + parameters)).raw.decode()
            assert [secret for secret in secrets if secret in shown] == [], path


async def test_a_page_that_would_be_the_same_is_not_sent_again(fresh: Server) -> None:
    for path in PAGES:
        known = await version_of(fresh, path)
        again = await page(fresh, path, X_Console_Version=known)
        assert (again.status, again.raw) == (204, b"")
    known = await version_of(fresh, "/")
    await new_pod(fresh.seeded())
    assert (await page(fresh, "/", X_Console_Version=known)).status == 200


async def test_more_workloads_than_fit_are_shown_in_pages(fresh: Server) -> None:
    made = [await new_pod(fresh.seeded(), name=f"pod-{number}", gpuModelId="rtx4090") for number in range(7)]
    made += [(await new_pod(fresh.seeded(), name=f"more-{number}", gpuModelId="l40s")) for number in range(16)]
    made += [(await new_pod(fresh.seeded(), name=f"last-{number}", gpuModelId="a100")) for number in range(7)]
    first = (await page(fresh, "/console/workloads")).raw.decode()
    assert [pod["id"] in first for pod in made] == [False] * 5 + [True] * 25
    (older,) = re.findall(r'href="([^"]+)">Older', first)
    second = (await page(fresh, html.unescape(older).partition("#")[0])).raw.decode()
    assert [f'<tr id="{pod["id"]}"' in second for pod in made] == [True] * 5 + [False] * 25
    found = (await page(fresh, "/console/workloads?find=pod-0")).raw.decode()
    assert [f'<tr id="{pod["id"]}"' in found for pod in made] == [True] + [False] * 29


async def test_a_vm_that_starts_is_found_and_counted_by_the_status_that_it_is_shown_with(server: Server) -> None:
    organization = await server.organization()
    vm = await organization.ok("POST", "/v1/orgs/{org}/vms/create", {"name": "box"})
    found = {}
    for status in ("provisioning", "deploying"):
        shown = (await page(server, f"/console/workloads?org={organization.id}&status={status}")).raw.decode()
        found[status] = f'<tr id="{vm["id"]}"' in shown
    assert found == {"provisioning": True, "deploying": False}
    overview = (await page(server, f"/?org={organization.id}")).raw.decode()
    assert 'id="count-provisioning"' in overview
    assert 'id="count-deploying"' not in overview


async def test_the_pages_of_a_search_show_only_what_was_searched(server: Server) -> None:
    organization = await server.organization()
    ended = [await new_pod(organization, name=name) for name in ("other", "wanted")]
    await act(organization, ended[0]["id"], "terminate")
    for _ in range(25):
        await act(organization, ended[-1]["id"], "terminate")
        ended.append(await new_pod(organization, name="wanted"))
    await act(organization, ended[-1]["id"], "terminate")
    search = f"/console/workloads?org={organization.id}&status=terminated&find=wanted"
    first = (await page(server, search)).raw.decode()
    (older,) = re.findall(r'href="([^"]+)">Older', first)
    second = (await page(server, html.unescape(older).partition("#")[0])).raw.decode()
    assert [f'<tr id="{pod["id"]}"' in first for pod in ended] == [False, False] + [True] * 25
    assert [f'<tr id="{pod["id"]}"' in second for pod in ended] == [False, True] + [False] * 25
    (newest,) = re.findall(r'href="([^"]+)">← Newest', second)
    assert html.unescape(newest).partition("#")[0] == search


async def test_the_attempts_that_failed_are_shown_alone(fresh: Server, receiver: Receiver) -> None:
    receiver.answers.append(500)
    webhook = await create_webhook(fresh.seeded(), receiver)
    for _ in range(2):
        await make_event(fresh.seeded())
        await settle(fresh.seeded())
    taken, failed = await deliveries_of(fresh.seeded(), webhook)
    assert (taken["statusCode"], failed["statusCode"]) == (200, 500)
    for parameters, shown in (("", [True, True]), ("?only=failed", [False, True])):
        answer = (await page(fresh, "/console/webhooks" + parameters)).raw.decode()
        assert [f'<tr id="{each["id"]}"' in answer for each in (taken, failed)] == shown


async def test_transactions_that_do_not_fit_are_said_to_be_there(fresh: Server) -> None:
    owner = fresh.seeded()
    for cents, told in ((range(49), False), (range(49, 50), True)):  # the seed has one
        for each in cents:
            await fresh.ok("PATCH", f"/orgs/{owner.id}", {"balanceCents": each})
        shown = text_of(await page(fresh, "/console/money"))
        assert ("These are the newest ones; GET /_localcloud/export has all of them." in shown) is told
        assert shown.count(" txn_") == 50


async def test_subscriptions_that_do_not_fit_are_said_to_be_there(fresh: Server) -> None:
    owner = fresh.seeded()
    body = {"name": "hook", "url": "http://127.0.0.1:9/", "events": ["vm.running"]}
    for added, told in ((50, False), (1, True)):
        for _ in range(added):
            await owner.ok("POST", "/v1/orgs/{org}/webhooks/create", body)
        shown = text_of(await page(fresh, "/console/webhooks"))
        assert ("These are the newest ones; the API lists all of them." in shown) is told
        assert shown.count(" hook ") == 50


@pytest.mark.parametrize("parameters", SENSELESS)
async def test_parameters_that_make_no_sense_are_left_out(server: Server, parameters: str) -> None:
    for path in PAGES:
        assert (await page(server, f"{path}?{parameters}")).status == 200


async def test_an_organization_that_is_not_there_is_a_page_that_says_so(server: Server) -> None:
    answer = await page(server, "/console/workloads?org=org_nobody")
    assert answer.status == 404
    assert "There is no organization 'org_nobody'." in text_of(answer)


async def test_the_balance_over_time_is_what_the_api_said_at_each_time(fresh: Server) -> None:
    organization = fresh.seeded()
    said = []
    for step in range(13):
        if step:
            await fresh.advance(480)
        balance = await organization.ok("GET", "/v1/orgs/{org}/billing/balance")
        said.append(balance["availableCents"])
        if step in {0, 3, 5}:
            await running_or_new_pod(fresh, step)
        if step == 7:
            await fresh.ok("PATCH", f"/orgs/{organization.id}", {"balanceCents": 50_000})
    table = (await page(fresh, "/console/money")).raw.decode().partition("As a table")[2].partition("</table>")[0]
    amounts = [int(re.sub(r"\D", "", amount)) for amount in re.findall(r"\$([\d,.]+)", table)]
    # What is posted at an instant counts from that instant on; the API was asked just before.
    now = await organization.ok("GET", "/v1/orgs/{org}/billing/balance")
    assert amounts[0] == now["availableCents"]
    assert [amount for place, amount in enumerate(reversed(amounts)) if place != 7] == said[:7] + said[8:]


async def running_or_new_pod(server: Server, step: int) -> None:
    """Another pod, and the end of an earlier one."""
    pod = await new_pod(server.seeded(), name=f"pod-{step}")
    if step == 5:
        await server.seeded().ok("POST", f"/v1/vms/{pod['id']}/terminate")


async def test_files_are_kept_by_browsers_and_named_by_their_contents(server: Server) -> None:
    first = (await page(server, "/")).raw.decode()
    addresses = re.findall(r'(?:src|href)="(/console/assets/[^"]+)"', first)
    assert addresses
    for address in addresses:
        answer = await page(server, address)
        assert answer.status == 200
        assert "immutable" in answer.headers["cache-control"]
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert (await page(server, "/console/assets/../console.py")).status == 404
    assert (await page(server, "/console/assets/other.css")).status == 404


async def test_only_control_calls_stay_out_of_the_log_of_requests(fresh: Server) -> None:
    await page(fresh, "/console/requests")
    assert "No request yet." in text_of(await page(fresh, "/console/requests"))
    await fresh.seeded().call("GET", "/v1/whoami?key=hush")
    shown = text_of(await page(fresh, "/console/requests"))
    assert "GET /v1/whoami" in shown
    assert "hush" not in shown


async def test_what_was_sent_is_with_each_request_without_its_secrets(fresh: Server) -> None:
    await new_pod(fresh.seeded(), name="trainer", envVars={"TOKEN": "hush"})
    await fresh.seeded().call("POST", "/v1/pods", raw=b'{"image": "hush"')
    shown = text_of(await page(fresh, "/console/requests"))
    assert '"name": "trainer"' in shown
    assert '"envVars": {"TOKEN": "…"}' in shown
    assert "hush" not in shown
    assert shown.count("What was sent") == 1, "a body that is not JSON is not kept"
