"""A refused key is tried again by one probe at a time."""

from relay_client.circuit import Circuit


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
