"""The pytest fixture `localcloud`: one cloud process per session, reset for each test, with its own organization."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

_SERVE: Final = (
    *(sys.executable, "-m", "relay_localcloud", "serve", "--ephemeral", "--clock", "frozen"),
    *("--port", "0", "--inference-port", "0", "--gateway-port", "0", "--ssh-port", "0"),
)
_DIRECT: Final = build_opener(ProxyHandler({}))
_REQUEST_SECONDS: Final = 60
_STOP_SECONDS: Final = 20


class LocalCloudRefusal(Exception):
    """The cloud answered with an error: its HTTP status and text."""


@dataclass(frozen=True)
class LocalCloud:
    """A running cloud as one test sees it; `api_key` has every scope of `organization_id`."""

    management_url: str
    inference_url: str
    gateway_url: str
    ssh_url: str
    control_url: str
    organization_id: str
    api_key: str

    def call(self, method: str, path: str, body: object = None) -> Any:  # noqa: ANN401 - what the path answers
        """Any call of the management API with the test's key; {} if the answer is empty, a string if it is not JSON.

        Raises LocalCloudRefusal.
        """
        return _call(method, self.management_url + path, body, self.api_key)

    def control(self, method: str, path: str, body: object = None) -> Any:  # noqa: ANN401 - what the path answers
        """Any call of the control interface, such as `PATCH /settings`; answers as `call` does."""
        return _call(method, self.control_url + path, body)

    def advance(self, seconds: float) -> dict[str, Any]:
        """Move the clock, which otherwise stands still; returns `{now, mode, rate}` once all due items are done."""
        time: dict[str, Any] = self.control("POST", "/clock", {"advanceSeconds": seconds})
        return time

    def fault(self, operation: str, effect: dict[str, Any], **more: object) -> dict[str, Any]:
        """Fault this organization's requests: `operation` is `METHOD /path/{template}`; `more`: count, skip."""
        fault = {"operation": operation, "organizationId": self.organization_id, "effect": effect, **more}
        added: dict[str, Any] = self.control("POST", "/faults", fault)
        return added

    def clear_faults(self) -> None:
        """Remove all faults."""
        self.control("DELETE", "/faults")

    def requests(self) -> list[Any]:
        """The requests of this organization, the oldest first: `{method, path, operation, status, ...}`."""
        sent: list[Any] = self.control("GET", f"/requests?organizationId={self.organization_id}")["items"]
        return sent

    def reset(self) -> LocalCloud:
        """The cloud as it started, with a new organization: all that the test created is gone, including its key."""
        self.control("POST", "/reset")
        return _with_organization(self)


@pytest.fixture(scope="session")
def localcloud_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    """The cloud of this session (of this worker under xdist) on free ports, with its first organization."""
    log = tmp_path_factory.mktemp("localcloud") / "log"
    with (
        log.open("w") as errors,
        subprocess.Popen(_SERVE, stdout=subprocess.PIPE, stderr=errors, text=True) as process,  # noqa: S603 - a constant
    ):
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                pytest.fail(f"relay-localcloud did not start:\n{log.read_text()[-2000:]}", pytrace=False)
            ready = json.loads(line)
            yield LocalCloud(
                management_url=ready["managementUrl"],
                inference_url=ready["inferenceUrl"],
                gateway_url=ready["gatewayUrl"],
                ssh_url=ready["sshUrl"],
                control_url=ready["controlUrl"],
                organization_id=ready["organizationId"],
                api_key=ready["apiKey"],
            )
        finally:
            process.terminate()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


@pytest.fixture
def localcloud(localcloud_process: LocalCloud) -> LocalCloud:
    """The session's cloud, reset, with an organization that only this test uses."""
    return localcloud_process.reset()


def _with_organization(cloud: LocalCloud) -> LocalCloud:
    made = cloud.control("POST", "/orgs", {"name": "test"})
    return replace(cloud, organization_id=made["organizationId"], api_key=made["apiKey"])


def _call(method: str, url: str, body: object, key: str = "") -> Any:  # noqa: ANN401
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
    data = None if body is None else json.dumps(body).encode()
    request = Request(url, data, headers, method=method)  # noqa: S310 - the URL is that of the cloud started here
    try:
        with _DIRECT.open(request, timeout=_REQUEST_SECONDS) as reply:
            text, is_json = reply.read().decode(), reply.headers.get_content_type() == "application/json"
    except HTTPError as error:
        raise LocalCloudRefusal(f"{method} {url} answered {error.code}: {error.read().decode()}") from error
    if not text:
        return {}
    return json.loads(text) if is_json else text
