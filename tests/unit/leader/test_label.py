"""The leader's mark on its Pod."""

from collections.abc import Mapping

import pytest
from pydantic import JsonValue

from relay_kube.errors import KubeError, NotFound, Refused, Unavailable
from relay_kube.kube import JsonObject, ResourceType
from relay_operator.leader.label import LeaderLabel


class _Pods:
    """Pods as the API patches them; fails first, as often as told."""

    def __init__(self, *failures: KubeError) -> None:
        self.failures = list(failures)
        self.labels: dict[str | None, JsonValue] = {}
        self.asked = 0

    async def patch(
        self, kind: ResourceType, _namespace: str | None, name: str, body: Mapping[str, JsonValue]
    ) -> JsonObject:
        assert kind.plural == "pods"
        self.asked += 1
        if self.failures:
            raise self.failures.pop(0)
        self.labels[name] = body["metadata"]
        return {}

    async def sleep(self, _seconds: float) -> None:
        """No time passes."""


async def test_the_leader_marks_its_pod_and_the_next_process_in_it_takes_the_mark_away() -> None:
    pods = _Pods()
    label = LeaderLabel(pods, "relay-system", "operator-1", pods.sleep)
    await label.put(leading=True)
    assert pods.labels == {"operator-1": {"labels": {"gpurelay.dev/leader": "true"}}}
    await label.put(leading=False)
    assert pods.labels == {"operator-1": {"labels": {"gpurelay.dev/leader": None}}}


async def test_without_a_pod_nothing_is_labelled() -> None:
    pods = _Pods()
    await LeaderLabel(pods, "relay-system", None, pods.sleep).put(leading=True)
    assert pods.asked == 0


async def test_an_api_server_that_does_not_answer_is_asked_again() -> None:
    pods = _Pods(Unavailable(0, "Unreachable", "away"), Unavailable(500, "Internal", "away"))
    await LeaderLabel(pods, "relay-system", "operator-1", pods.sleep).put(leading=True)
    assert "operator-1" in pods.labels


async def test_each_try_is_a_sign_of_life() -> None:
    pods, beats = _Pods(Unavailable(0, "Unreachable", "away"), Unavailable(0, "Unreachable", "away")), list[int]()
    label = LeaderLabel(pods, "relay-system", "operator-1", pods.sleep)
    await label.put(leading=False, on_try=lambda: beats.append(pods.asked))
    assert beats == [0, 1, 2]


async def test_a_refusal_is_final_and_does_not_keep_the_operator_from_working() -> None:
    pods = _Pods(Refused(403, "Forbidden", "no patch on pods"))
    await LeaderLabel(pods, "relay-system", "operator-1", pods.sleep).put(leading=True)
    assert pods.asked == 1


async def test_who_takes_over_takes_the_mark_off_the_one_before() -> None:
    pods = _Pods(Unavailable(0, "Unreachable", "away"))
    await LeaderLabel(pods, "relay-system", "operator-2", pods.sleep).take_from("operator-1")
    assert pods.labels == {"operator-1": {"labels": {"gpurelay.dev/leader": None}}}


@pytest.mark.parametrize(("pod", "former"), [("operator-2", ""), ("operator-2", "operator-2"), (None, "a-laptop")])
async def test_nobody_loses_a_mark_where_nobody_was_taken_over_from(pod: str | None, former: str) -> None:
    pods = _Pods()
    await LeaderLabel(pods, "relay-system", pod, pods.sleep).take_from(former)
    assert pods.asked == 0


async def test_a_pod_that_is_gone_is_no_trouble(caplog: pytest.LogCaptureFixture) -> None:
    pods = _Pods(NotFound(404, "NotFound", "no such Pod"))
    await LeaderLabel(pods, "relay-system", "operator-2", pods.sleep).take_from("operator-1")
    assert (pods.asked, caplog.text) == (1, "")
