"""What is asked of an object without parsing it."""

import pytest

from relay_operator.engine.entry import Entry, entry_of
from tests.unit.engine.apiserver import Json


def entry(**said: Json) -> Entry:
    metadata: Json = {"name": "train", "namespace": "team-a", "uid": "1", **said.get("metadata", {})}
    return entry_of({**said, "metadata": metadata})


@pytest.mark.parametrize(
    ("said", "says"),
    [
        ({"metadata": {"annotations": {"gpurelay.dev/adopt-id": "pod-1"}}}, True),
        ({"status": {"id": "pod-1"}}, True),
        ({"status": {"id": "pod-2", "conditions": [{"type": "LateCreate", "message": "pod-1 is being ended"}]}}, False),
        ({}, False),
    ],
    ids=["an annotation", "status", "a condition alone", "nothing"],
)
def test_an_object_says_what_stands_anywhere_but_in_its_conditions(said: dict[str, Json], *, says: bool) -> None:
    assert entry(**said).says("pod-1") is says


def test_it_is_paused_if_people_say_so() -> None:
    held: Json = {"annotations": {"gpurelay.dev/paused": "true"}}
    assert [entry(metadata=held).paused, entry().paused] == [True, False]
