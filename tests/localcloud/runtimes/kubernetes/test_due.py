"""Organizations take turns, however many holders each has."""

from __future__ import annotations

from relay_localcloud.runtimes.kubernetes.due import Due


def test_one_holder_waits_for_no_thousand_of_another_organization() -> None:
    due = Due()
    for number in range(1000):
        due.add(f"a{number}")
    due.add("b0")
    assert not due.is_sorted
    due.sort(lambda holder_id: holder_id[0])
    assert due.take(3, ()) == ["a0", "b0", "a1"]


def test_organizations_take_turns_from_one_time_to_the_next() -> None:
    due = Due()
    for holder_id in ("a0", "a1", "a2", "b0", "b1"):
        due.add(holder_id, holder_id[0])
    assert [due.take(1, ()) for _ in range(6)] == [["a0"], ["b0"], ["a1"], ["b1"], ["a2"], []]


def test_a_holder_whose_turn_is_under_way_keeps_its_place_and_holds_up_nobody() -> None:
    due = Due()
    for holder_id in ("a0", "a1", "b0"):
        due.add(holder_id, holder_id[0])
    assert due.take(8, {"a0", "b0"}) == ["a1"]
    assert due.take(8, {"a0", "b0"}) == []
    assert sorted(due.take(8, ())) == ["a0", "b0"]


def test_a_holder_is_due_once() -> None:
    due = Due()
    due.add("a0")
    due.add("a0", "a")
    due.sort(lambda _: "a")
    due.add("a0")
    assert due.is_sorted
    assert due.take(8, ()) == ["a0"]
    due.add("a0", "a")
    assert due.take(8, ()) == ["a0"]
