"""What a flow of objects that create and pay for nothing need not say."""

from types import SimpleNamespace
from typing import Any

from relay_operator.engine.flow import Flow
from relay_operator.engine.memory import Memory


class _Plain(Flow[Any, Any, Any, Any, Memory]):
    """Says nothing of its own."""


def test_a_flow_that_says_nothing_has_nothing_in_the_cloud() -> None:
    flow = _Plain()  # type: ignore[abstract]  # the test calls none of what it lacks
    obj, facts, result = SimpleNamespace(), SimpleNamespace(), SimpleNamespace()
    assert flow.own(obj) is obj
    assert (flow.intent(facts), flow.paid(facts, result), flow.leaves(facts)) == (None, None, ())
    assert flow.unrecorded(result, Memory("u1"), "it cannot be written") is result
