"""Whose log `kubectl relay logs` asks for, and how much of it."""

from typing import Any

import pytest

from relay_cli.__main__ import main
from relay_cli.failures import Failure
from relay_cli.kubectl import Kubectl, parsed
from relay_cli.logs import MOST_LINES, logged_id, logs, untold
from relay_cli.objects import CloudObject
from relay_client import CallPolicy, Oversized, Unreadable
from tests.unit.client.scripted import Reply, ScriptedServer


def _object(kind: str = "GpuVm", **status: Any) -> CloudObject:
    return parsed(
        CloudObject, {"kind": kind, "metadata": {"name": "x", "namespace": "ml"}, "spec": {}, "status": status}
    )


def test_the_log_of_what_has_stopped_is_still_asked_for() -> None:
    assert logged_id(_object(id="vm_1", state="stopped")) == "vm_1"


@pytest.mark.parametrize(
    ("obj", "sentence"),
    [
        (_object("GpuCluster", id="cluster_1"), "^GpuCluster/ml/x has no log; these kinds do: GpuPod, GpuVm$"),
        (_object(), "^GpuVm/ml/x has nothing in the cloud yet$"),
    ],
)
def test_what_has_no_log_is_told_so(obj: CloudObject, sentence: str) -> None:
    with pytest.raises(Failure, match=sentence):
        logged_id(obj)


def test_a_log_that_is_too_long_is_not_told_as_one_that_the_cloud_does_not_serve() -> None:
    said = str(untold(_object(), 9000, Oversized("get_vm_logs", "the answer is too large", status=200)))
    assert said == "the last 9000 lines of GpuVm/ml/x are too long for one answer: ask for fewer with --tail"
    assert "not every cloud serves logs" in str(untold(_object(), 9000, Unreadable("get_vm_logs", "HTML", status=200)))


@pytest.mark.parametrize(("tail", "said"), [(0, ""), (7, "kubectl relay: the log of GpuVm/ml/box is empty\n")])
async def test_a_log_of_which_no_line_was_asked_for_is_not_called_empty(
    tail: int, said: str, cloud: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    cloud.will(Reply(200, b"", content_type="text/plain"))
    await logs(Kubectl(), "gvm/box", tail=tail, base_url=cloud.url)
    assert capsys.readouterr() == ("", said)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Reply(200, b"x" * (CallPolicy().max_response_bytes + 1)), "the last 7 lines of GpuVm/ml/box are too long"),
        (Reply(404, b'{"error": "?"}'), "the cloud shows no log of GpuVm/ml/box: not every cloud serves logs"),
        (Reply(404, b"<html>", content_type="text/html"), "the cloud shows no log of GpuVm/ml/box: not every cloud"),
    ],
    ids=["too long", "not found", "a page"],
)
async def test_why_there_is_no_log_to_print(answer: Reply, said: str, cloud: ScriptedServer) -> None:
    cloud.will(answer)
    with pytest.raises(Failure, match=said):
        await logs(Kubectl(), "gvm/box", tail=7, base_url=cloud.url)
    assert cloud.targets == ["GET /v1/vms/vm_1/logs?tail=7"]


@pytest.mark.parametrize(
    ("lines", "misused"),
    [(-1, True), (0, False), (1, False), (MOST_LINES - 1, False), (MOST_LINES, False), (MOST_LINES + 1, True)],
)
def test_the_bounds_of_a_tail(lines: int, misused: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")  # what is well said fails of a kubectl that is not there
    assert main(["logs", "gvm/box", f"--tail={lines}"]) == (2 if misused else 1)
