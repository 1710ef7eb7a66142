"""Who waits for room in a budget comes in the order of age, in as many lines as it waits in."""

from relay_operator.api.meta import ObjectKey
from relay_operator.budgets.lines import Age, Line, Lines

ACCOUNT = ObjectKey("ClusterCloudAccount", "", "default")
WHOLE, PART = Line(ACCOUNT), Line(ACCOUNT, "team-a")
A, B, C = (ObjectKey("GpuPod", "team-a", name) for name in "abc")
OLD, YOUNG, YOUNGER = (Age(f"2026-03-01T12:00:0{second}Z", "u") for second in range(3))


def lines(*gone: ObjectKey) -> Lines:
    return Lines(lambda key, _age, _line: key not in gone)


def test_the_oldest_is_first_whoever_came_first() -> None:
    waiting = lines()
    for key, age in ((B, YOUNG), (C, YOUNGER), (A, OLD)):
        waiting.join(key, age, [WHOLE])
    assert waiting.first(WHOLE) == A
    assert [waiting.is_behind(key, age, WHOLE) for key, age in ((A, OLD), (B, YOUNG))] == [False, True]
    assert waiting.leave(A) == {ACCOUNT}
    assert waiting.first(WHOLE) == B


def test_of_the_same_age_the_uid_decides() -> None:
    waiting = lines()
    waiting.join(B, Age("2026", "u2"), [WHOLE])
    waiting.join(A, Age("2026", "u1"), [WHOLE])
    assert waiting.first(WHOLE) == A


def test_one_that_moves_to_another_line_leaves_the_former() -> None:
    waiting = lines()
    waiting.join(A, OLD, [WHOLE, PART])
    waiting.join(A, OLD, [PART])
    assert (waiting.first(WHOLE), waiting.first(PART), waiting.of(ACCOUNT)) == (None, A, [PART])
    assert waiting.leave(A) == {ACCOUNT}
    assert (waiting.leave(A), waiting.of(ACCOUNT)) == (set(), [])


def test_one_that_is_gone_waits_no_longer() -> None:
    waiting = lines(A)
    waiting.join(A, OLD, [WHOLE, PART])
    waiting.join(B, YOUNG, [WHOLE])
    assert (waiting.first(WHOLE), waiting.first(PART)) == (B, None)
    assert (waiting.vacated(), waiting.vacated()) == ({ACCOUNT}, set())


def test_one_that_comes_back_is_there_once() -> None:
    waiting = lines()
    waiting.join(A, OLD, [WHOLE])
    waiting.leave(A)
    waiting.join(B, YOUNG, [WHOLE])
    waiting.join(A, YOUNGER, [WHOLE])
    assert waiting.first(WHOLE) == B
    waiting.leave(B)
    assert waiting.first(WHOLE) == A


def test_one_that_joins_over_and_over_with_another_spec_takes_a_bounded_place() -> None:
    waiting = lines()
    for key, age in ((B, YOUNG), (A, OLD)):
        waiting.join(key, age, [WHOLE])
    for generation in range(1_000):
        waiting.join(C, YOUNGER._replace(generation=generation), [WHOLE])
        assert waiting.first(WHOLE) == A
    assert len(waiting._order[WHOLE]) <= 2 * 3 + 64
    for key in (A, B, C):
        assert waiting.first(WHOLE) == key
        waiting.leave(key)
    assert waiting.first(WHOLE) is None


def test_those_that_come_and_go_behind_the_first_take_a_bounded_place() -> None:
    waiting = lines()
    waiting.join(A, OLD, [WHOLE])
    for _ in range(1_000):
        waiting.join(B, YOUNG, [WHOLE])
        waiting.leave(B)
    assert len(waiting._order[WHOLE]) <= 2 * 2 + 64
    assert waiting.first(WHOLE) == A
