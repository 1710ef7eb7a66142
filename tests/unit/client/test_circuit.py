"""A refused key is tried again by one probe at a time."""

from relay_client.circuit import Circuit, Outages


def test_a_closed_circuit_lets_everything_pass() -> None:
    circuit = Circuit(300)
    assert [circuit.enter(now) for now in (0, 0, 1)] == [0, 0, 0]


def test_a_refusal_opens_it_and_time_lets_one_probe_pass() -> None:
    circuit = Circuit(300)
    circuit.refused(1000)
    assert circuit.enter(1001) == 299
    assert circuit.wait(1300) == 0
    assert circuit.enter(1300) == 0
    assert circuit.wait(1300) == 300
    assert circuit.enter(1300) == 300


def test_a_probe_without_a_clear_answer_is_followed_by_the_next_recheck() -> None:
    circuit = Circuit(300)
    circuit.refused(0)
    assert circuit.enter(300) == 0
    assert circuit.enter(599) == 1
    assert circuit.enter(600) == 0


def test_an_accepted_key_closes_it() -> None:
    circuit = Circuit(300)
    circuit.refused(0)
    circuit.accepted()
    assert circuit.enter(0) == 0
    assert circuit.enter(0) == 0


def down(outages: Outages, *moments: float, operation: str = "get_vm") -> None:
    for now in moments:
        outages.failed(operation, now, f"failed at {now:g}")


def test_an_operation_that_failed_so_often_in_a_row_is_held_back() -> None:
    outages = Outages(3, 5)
    down(outages, 0, 1)
    assert outages.wait("get_vm", 1) == 0
    outages.answered("get_vm")
    down(outages, 2, 3)
    assert outages.wait("get_vm", 3) == 0
    down(outages, 4)
    assert [outages.wait("get_vm", now) for now in (4, 8, 9, 100)] == [5, 1, 0, 0]
    assert outages.reason("get_vm") == "failed at 4"


def test_other_operations_go_on() -> None:
    outages = Outages(1, 5)
    down(outages, 0)
    assert (outages.wait("get_vm", 0), outages.wait("create_pod", 0)) == (5, 0)
    assert outages.reason("create_pod") == ""


def test_one_probe_goes_at_a_time_and_the_next_after_the_last_has_failed() -> None:
    outages = Outages(1, 5)
    down(outages, 0)
    outages.enter("get_vm", 5, 15)
    assert [outages.wait("get_vm", now) for now in (5, 19)] == [15, 1]
    down(outages, 20)
    assert outages.wait("get_vm", 20) == 5


def test_a_probe_that_never_ends_is_followed_by_another() -> None:
    outages = Outages(1, 5)
    down(outages, 0)
    outages.enter("get_vm", 5, 15)
    assert outages.wait("get_vm", 20) == 0


def test_an_answer_ends_an_outage() -> None:
    outages = Outages(1, 5)
    down(outages, 0)
    outages.answered("get_vm")
    assert outages.wait("get_vm", 0) == 0
    outages.enter("get_vm", 0, 15)
    assert outages.wait("get_vm", 0) == 0


def test_nothing_is_held_back_unless_that_is_asked_for() -> None:
    outages = Outages(0, 5)
    down(outages, *range(100))
    assert outages.wait("get_vm", 99) == 0
