"""Of many problems the first are kept, and at least one of each code."""

import pytest

from relay_operator.records.problems import SHOWN, ProblemCode, Problems, RecordProblem


def _kept(*codes: ProblemCode) -> list[tuple[int, ProblemCode]]:
    problems = Problems()
    for number, code in enumerate(codes, 1):
        problems.add(RecordProblem(number, code, "wrong"))
    assert problems.total == len(codes)
    return [(problem.line, problem.code) for problem in problems.first]


def test_a_code_that_comes_late_is_kept_in_place_of_a_repeated_one() -> None:
    repeated, late = ProblemCode.DUPLICATE_CUSTOM_ID, ProblemCode.LINE_TOO_LONG
    kept = _kept(*[repeated] * 30, late, late)
    assert kept == [*((number, repeated) for number in range(1, SHOWN)), (31, late)]


def test_every_code_has_a_place_and_the_first_of_each_keeps_it() -> None:
    codes = list(ProblemCode)
    kept = _kept(*[codes[0]] * 10, *[codes[1]] * 15, *codes, *codes)
    assert [line for line, _ in kept] == sorted(line for line, _ in kept)
    assert (len(kept), {code for _, code in kept}) == (SHOWN, set(codes))
    assert {line for line, code in kept if code in codes[:2]} >= {1, 11}


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (1, "line 1: bad"),
        (2, "line 1: bad, and 1 more problem (see status.problems)"),
        (30, "line 1: bad, and 29 more problems (see status.problems)"),
    ],
)
def test_one_sentence_tells_the_first_problem_and_where_the_others_are(lines: int, told: str) -> None:
    problems = Problems()
    for line in range(1, lines + 1):
        problems.add(RecordProblem(line, ProblemCode.INVALID_BODY, "bad"))
    assert problems.told == told
