"""What `kubectl relay doctor` makes of what it saw of an account."""

import asyncio
import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from relay_cli.__main__ import main
from relay_cli.accounts import UrlNotAccepted
from relay_cli.doctor import _compared, _is_served, _probed, ahead, compared, used
from relay_cli.failures import Failure
from relay_cli.findings import Reached, Seen, Verdict, findings
from relay_cli.kubectl import Forbidden, parsed
from relay_cli.objects import CloudObject
from relay_client import OPERATIONS, Cloud
from relay_client.answers import MAX_VALUES
from relay_client.operations import CREATE_POD, GET_CURRENT_USAGE, LIST_VMS
from relay_operator.api.cloudaccount import CloudAccount
from relay_wire.account import Whoami
from relay_wire.webhooks import WebhookDelivery
from tests.unit.cli.conftest import Scripted
from tests.unit.client.scripted import Reply, scripted_server

SCOPES = ["vms:read", "vms:write", "clusters:read", "clusters:write", "inference", "billing:read"]
OK, WARNING, WRONG = Verdict.OK, Verdict.WARNING, Verdict.WRONG


def _condition(
    of: str, status: str = "True", message: str = "as it should be", reason: str = "Because"
) -> dict[str, str]:
    when = "2026-11-23T08:00:00Z"
    return {"type": of, "status": status, "reason": reason, "message": message, "lastTransitionTime": when}


def _account(*conditions: dict[str, str], spec: dict[str, Any] | None = None, **status: Any) -> CloudAccount:
    raw = {"apiKeySecretRef": {"name": "key", "key": "api-key"}} | (spec or {})
    told = {"conditions": list(conditions) or [_condition("Ready")]} | status
    return parsed(CloudAccount, {"metadata": {"name": "default", "namespace": "ml"}, "spec": raw, "status": told})


def _who(scopes: list[str] = SCOPES) -> Whoami:
    return Whoami(principal_type="api_key", organization_id="org_1", organization_name="Acme", scopes=scopes)


def _verdict(seen: Seen, check: str) -> tuple[Verdict, str]:
    (found,) = [(one.verdict, one.message) for one in findings(seen) if one.check == check]
    return found


def _seen(account: CloudAccount | None = None, **more: Any) -> Seen:
    fields: dict[str, Any] = {"url": Reached(0.4), "key": _who()} | more
    return Seen(account or _account(), **fields)


def test_a_healthy_account_has_no_finding_but_ok() -> None:
    arrived = WebhookDelivery(id="d", status_code=204, requested_at="2026-11-23T08:00:00Z")
    found = findings(_seen(deliveries=[arrived], missing=[]))
    assert [one.check for one in found] == ["account", "url", "clock", "key", "scopes", "webhook", "operations"]
    assert {one.verdict for one in found} == {OK}


def test_what_the_operator_says_of_the_account_comes_first() -> None:
    broken = _seen(
        _account(_condition("Ready", "False", "the key is refused"), _condition("FundsLow", message="2 h left"))
    )
    assert _verdict(broken, "account") == (WRONG, "Because: the key is refused")
    assert _verdict(broken, "funds") == (WARNING, "2 h left")
    assert _verdict(_seen(_account(_condition("Stalled"))), "account")[0] is WRONG


def test_an_account_that_is_stalled_is_wrong_although_it_stays_ready() -> None:
    deleted = _account(_condition("Stalled", message="kept", reason="InUse"), _condition("Ready"))
    assert _verdict(_seen(deleted), "account") == (WRONG, "InUse: kept")
    silent = _account(_condition("Ready"), _condition("Stalled", message="no answer", reason="CloudUnavailable"))
    told = Seen(silent, Failure("https://x does not answer: timed out"))
    assert _verdict(told, "account") == (WRONG, "CloudUnavailable: no answer")
    assert _verdict(told, "url") == (WRONG, "https://x does not answer: timed out")


def test_workloads_that_no_operator_has_looked_at_are_named() -> None:
    names = [f"GpuPod/{name}" for name in "abcde"]
    said = "no operator has looked at the present spec of GpuPod/a, GpuPod/b, GpuPod/c and 2 more: check that the "
    verdict, told = _verdict(_seen(unseen=names), "operator")
    checks = "operator runs, leads and watches this namespace, and that the cloud answers"
    assert (verdict, told) == (WRONG, f"{said}{checks}")


def test_workloads_that_the_operator_cannot_read_show_that_it_does_not_reach_the_cloud_either() -> None:
    stalled = {"conditions": [_condition("Ready"), _condition("Stalled", reason="CloudUnavailable")]}
    near, far = {"name": "a", "namespace": "ml"}, {"name": "b", "namespace": "elsewhere"}
    other = {"accountRef": {"name": "other"}}
    users = [
        parsed(CloudObject, {"kind": "GpuPod", "metadata": metadata, "spec": spec, "status": status})
        for metadata, spec, status in [(near, {}, stalled), (far, {}, stalled), (near, other, stalled), (near, {}, {})]
    ]
    silent = Failure("https://x does not answer: timed out")
    told = used(Seen(_account(), silent), users, datetime.now(UTC))
    said = "the cloud does not tell the operator of GpuPod/a: their conditions say what it answers"
    assert _verdict(told, "operator") == (WRONG, said)
    assert _verdict(told, "url") == (WRONG, str(silent))


@pytest.mark.parametrize(
    ("age", "observed", "unseen"), [(61, 1, True), (59, 1, False), (61, 2, False), (61, None, True)]
)
def test_a_workload_is_unseen_if_its_spec_has_waited_for_long(age: int, observed: int | None, *, unseen: bool) -> None:
    born = datetime(2026, 11, 23, 8, tzinfo=UTC)
    metadata = {"name": "a", "namespace": "ml", "generation": 2, "creationTimestamp": "2026-11-23T08:00:00Z"}
    status = {} if observed is None else {"observedGeneration": observed}
    one = parsed(CloudObject, {"kind": "GpuPod", "metadata": metadata, "spec": {}, "status": status})
    assert one.is_unseen(born + timedelta(seconds=age)) is unseen


@pytest.mark.parametrize(
    ("apart", "verdict"), [(29.9, OK), (30.0, OK), (30.1, WARNING), (-30.1, WARNING), (None, WARNING)]
)
def test_clocks_that_are_apart_are_a_warning(apart: float | None, verdict: Verdict) -> None:
    assert _verdict(_seen(url=Reached(apart)), "clock")[0] is verdict


def test_a_url_that_does_not_answer_is_wrong_unless_the_operator_reaches_it() -> None:
    silent = Failure("https://x does not answer: timed out")
    refused = _account(_condition("Ready", "Unknown"))
    assert _verdict(Seen(refused, silent), "url") == (WRONG, "https://x does not answer: timed out")
    verdict, message = _verdict(Seen(_account(), silent), "url")
    assert verdict is WARNING
    assert message.startswith("https://x does not answer: timed out; the operator reached it at its last look, so")
    assert [one.check for one in findings(Seen(refused, silent))] == ["account", "url", "webhook"]


def test_a_key_that_may_not_be_read_is_no_fault_of_the_account() -> None:
    assert _verdict(_seen(key=Forbidden("you may not")), "key") == (WARNING, "you may not")
    assert _verdict(_seen(key=UrlNotAccepted("the key was not used")), "key") == (WARNING, "the key was not used")
    assert _verdict(_seen(key=Failure("401: refused")), "key") == (WRONG, "401: refused")


def test_a_key_of_another_organization_is_wrong() -> None:
    assert _verdict(_seen(_account(organizationId="org_2")), "key")[0] is WRONG
    assert _verdict(_seen(_account(organizationId="org_1")), "key")[0] is OK


@pytest.mark.parametrize(
    ("lacks", "in_use", "verdict"),
    [
        ("clusters:write", {"gpuClusters": 1}, WRONG),
        ("clusters:write", {"gpuPods": 1}, WARNING),
        ("billing:read", {"gpuPods": 1}, WARNING),
    ],
)
def test_a_scope_that_is_lacking_is_wrong_if_objects_need_it(
    lacks: str, in_use: dict[str, int], verdict: Verdict
) -> None:
    key = _who([scope for scope in SCOPES if scope != lacks])
    found, message = _verdict(_seen(_account(inUse=in_use), key=key), "scopes")
    assert (found, f"the key lacks {lacks}, " in message) == (verdict, True)


@pytest.mark.parametrize(
    ("account", "deliveries", "verdict"),
    [
        (_account(spec={"webhook": {"enabled": False}}), Failure("not asked"), OK),
        (_account(_condition("Ready"), _condition("WebhookReady", "False")), [], WRONG),
        (_account(), Failure("get: 404"), WARNING),
        (_account(), [], WARNING),
        (_account(), [WebhookDelivery(id="d", status_code=500)], WRONG),
        (_account(), [WebhookDelivery(id="d", error="timed out")], WRONG),
        (_account(), [WebhookDelivery(id="e", status_code=204), WebhookDelivery(id="d", status_code=500)], OK),
    ],
)
def test_the_newest_delivery_says_whether_the_way_back_is_open(account: Any, deliveries: Any, verdict: Verdict) -> None:
    assert _verdict(_seen(account, deliveries=deliveries), "webhook")[0] is verdict


def test_a_missing_assumed_operation_is_a_warning_and_a_missing_documented_one_is_wrong() -> None:
    assert _verdict(_seen(missing=[LIST_VMS]), "operations") == (
        WARNING,
        "the cloud does not serve GET /v1/orgs/{orgId}/vms",
    )
    both = [one.verdict for one in findings(_seen(missing=[LIST_VMS, CREATE_POD])) if one.check == "operations"]
    assert both == [WRONG, WARNING]


async def test_a_long_answer_is_served() -> None:
    async with scripted_server() as server, Cloud(server.url, "sk_key", organization_id="org_1") as cloud:
        usage = b'{"usageCents":0,"usageHours":0,"breakdown":[%s{}]}' % (b"{}," * MAX_VALUES)
        server.will(Reply(200, usage))
        assert await _is_served(cloud, GET_CURRENT_USAGE)


async def test_a_probe_that_fails_is_a_warning_and_says_nothing_of_the_key() -> None:
    async with scripted_server() as server, Cloud(server.url, "sk_key", organization_id="org_1") as cloud:
        server.will(Reply(402, b'{"error": {"message": "no funds"}}'))
        missing = await _probed(cloud)
    verdict, message = _verdict(_seen(missing=missing), "operations")
    assert (verdict, message.startswith("not all operations could be checked: ")) == (WARNING, True)
    assert _verdict(_seen(missing=missing), "key")[0] is OK


def test_an_openapi_document_is_compared_whatever_it_calls_its_parameters() -> None:
    paths: dict[str, dict[str, object]] = {}
    for row in OPERATIONS:
        if row is not GET_CURRENT_USAGE:
            paths.setdefault(row.path.replace("{id}", "{vmId}"), {})[row.method.lower()] = {}
    assert compared(json.dumps({"paths": paths}).encode(), "https://x") == [GET_CURRENT_USAGE]


def test_what_is_no_openapi_document_compares_nothing() -> None:
    assert isinstance(compared(b"<html>", "https://x"), Failure)


@pytest.mark.parametrize("status", [301, 404, 502])
async def test_an_error_page_is_not_read_as_a_document(status: int) -> None:
    async with scripted_server() as server:
        server.will(Reply(status, b"<html>"))
        told = await _compared(server.url)
    assert str(told) == f"{server.url} answers with status {status}: correct --docs-url"


@pytest.fixture
def far_from_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("zone", ["GMT", "-0000", "+0000"])
@pytest.mark.usefixtures("far_from_utc")
def test_the_clock_of_a_server_is_read_from_its_answers(zone: str) -> None:
    assert ahead({"date": f"Mon, 23 Nov 2026 08:00:00 {zone}"}, 1795420800.0 - 60) == 60.0


def test_no_clock_is_read_from_what_is_no_date() -> None:
    assert (ahead({}, 0.0), ahead({"date": "noon"}, 0.0)) == (None, None)
    assert ahead({"date": "Sun, 29 Nov 2026 10:00:00 +99999999999999"}, 0.0) is None


@pytest.mark.parametrize(
    ("url", "said"),
    [("http://cloud.example:99999", "cannot be used: "), (f"http://{70 * 'a'}", "does not answer: cannot connect")],
    ids=["port", "label"],
)
def test_an_account_whose_url_cannot_be_used_is_a_finding(
    url: str, said: str, kubectl: Scripted, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _only(_account(spec={"baseUrl": url}), kubectl, tmp_path)
    main(["doctor", "-o", "json", f"--base-url={url}"])
    found = {one["check"]: one["message"] for one in json.loads(capsys.readouterr().out)["items"]}
    assert found["url"].startswith(f"{url}/v1/whoami {said}")


def _only(account: CloudAccount, kubectl: Scripted, folder: Path) -> None:
    """Let kubectl know this account alone."""
    shown = account.model_dump(mode="json", by_alias=True, exclude_none=True)
    (folder / "accounts").write_text(json.dumps({"items": [shown]}))
    kubectl("cat accounts")


async def test_a_url_that_only_the_account_names_is_not_called(
    kubectl: Scripted, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with scripted_server() as server:
        server.will(Reply(404, b"{}"))
        _only(_account(spec={"baseUrl": server.url}), kubectl, tmp_path)
        await asyncio.to_thread(main, ["doctor", "-o", "json"])
        assert server.seen == []
    found = {one["check"]: (one["verdict"], one["message"]) for one in json.loads(capsys.readouterr().out)["items"]}
    assert found["url"] == ("warning", "it was not called: only the account names it")
    assert found["key"][0] == "warning"
