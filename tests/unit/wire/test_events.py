"""Which resource an event is about, whatever the shape of its data."""

import pytest
from pydantic import JsonValue

from relay_wire.events import MOST_IDS, Event, EventType


@pytest.mark.parametrize(
    ("data", "ids"),
    [
        ({"clusterId": "cl_1"}, ("cl_1",)),
        ({"vmId": "vm_1"}, ("vm_1",)),
        ({"podId": "pod_1"}, ("pod_1",)),
        ({"id": "x", "clusterId": "cl_1", "replicaId": "r_1"}, ("r_1", "cl_1", "x")),
        ({"vmId": "a", "podId": "a", "id": "a"}, ("a",)),
        ({"vm": {"id": "vm_1", "name": "n"}}, ("vm_1",)),
        ({"clusterId": "cl_1", "replica": {"id": "r_1"}}, ("cl_1", "r_1")),
        ({"vmId": ""}, ()),
        ({"vmId": None, "podId": 5, "id": ["x"]}, ()),
        ({"a": {"b": {"id": "too deep"}}}, ()),
        ({}, ()),
        ([], ()),
        (["vmId"], ()),
        ("vmId", ()),
        (None, ()),
        (True, ()),
    ],
)
def test_the_ids_in_the_data_are_found(data: JsonValue, ids: tuple[str, ...]) -> None:
    event = Event(id="evt_1", type="vm.running", data=data)
    assert event.resource_ids == ids
    assert event.resource_id == (ids[0] if ids else None)


def test_an_event_names_only_so_many_ids() -> None:
    data: JsonValue = {str(number): {"id": f"pod-{number}"} for number in range(1000)}
    event = Event.model_validate({"id": "e1", "type": "vm.running", "data": data})
    assert event.resource_ids == tuple(f"pod-{number}" for number in range(MOST_IDS))


def test_a_new_kind_of_event_is_taken() -> None:
    assert Event.model_validate_json('{"id":"e","type":"gpu.melted"}').type == "gpu.melted"


def test_an_event_whose_time_is_null_or_odd_is_taken() -> None:
    for time in ("null", "5.5", "{}"):
        assert Event.model_validate_json(f'{{"id":"e","type":"vm.running","created_at":{time}}}').id == "e"


def test_the_event_types_are_those_of_section_6() -> None:
    assert {str(kind) for kind in EventType} == {
        "cluster.running",
        "cluster.degraded",
        "cluster.failed",
        "replica.healthy",
        "replica.unhealthy",
        "replica.terminated",
        "vm.running",
        "vm.stopped",
        "vm.terminated",
    }
