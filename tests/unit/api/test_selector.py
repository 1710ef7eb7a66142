"""The selector of the scale subresource, which a HorizontalPodAutoscaler parses."""

from __future__ import annotations

import re

import pytest

from relay_operator.api.definition import selector
from relay_operator.api.meta import ObjectMeta

UID = "9b2f8a6e-0f1c-4a53-8f0d-6f6f9f0c1b2a"
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?")


@pytest.mark.parametrize(("name", "value"), [("llm", "llm"), ("l" * 63, "l" * 63), ("l" * 64, UID), ("l" * 253, UID)])
def test_a_name_that_no_label_can_have_gives_way_to_the_uid(name: str, value: str) -> None:
    told = selector("cluster", ObjectMeta(name=name, namespace="ml", uid=UID))
    assert told == f"gpurelay.dev/cluster={value}"
    assert LABEL_VALUE.fullmatch(value)
