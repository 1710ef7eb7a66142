"""The result files of all rounds become one line for each record."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay_operator.records.density import MOST_NESTED
from relay_operator.records.ids import Ids
from relay_operator.records.merge import Merge, Merged, PartFiles
from relay_operator.records.pace import Pace
from relay_operator.records.problems import ProblemCode
from tests.unit.records.streams import chunks, failure, file, opens, read, record, refusal, success

Line = dict[str, Any]


def _part(ids: Sequence[str], output: Sequence[Line] | None = None, errors: Sequence[Line] | None = None) -> PartFiles:
    return PartFiles(
        opens(record(each) for each in ids),
        None if output is None else opens(output),
        None if errors is None else opens(errors),
    )


async def _merge(*rounds: list[PartFiles]) -> tuple[bytes, bytes, Merged]:
    with Ids() as ids:
        merge = Merge(rounds, ids, Pace())
        return await read(merge.outputs()), await read(merge.errors()), merge.merged


def _told(merged: Merged) -> list[str]:
    return [str(problem) for problem in merged.problems.first]


async def test_lines_of_all_parts_follow_each_other_unchanged() -> None:
    first = _part("ab", [success("a")], [failure("b")])
    second = _part("cd", [success("d"), success("c")])
    output, errors, merged = await _merge([first, second])
    assert output == file([success("a"), success("d"), success("c")])
    assert errors == file([failure("b")])
    assert (merged.records, merged.succeeded, merged.failed, merged.unanswered) == (4, 3, 1, 0)
    assert not merged.problems.total


async def test_answers_that_are_far_longer_than_their_records_come_in_small_pieces() -> None:
    names = [f"r{number}" for number in range(100)]
    answers = [success(name, "x" * 100_000) for name in names]
    with Ids() as ids:
        pieces = [piece async for piece in Merge([[_part(names, answers)]], ids, Pace()).outputs()]
    assert b"".join(pieces) == file(answers)
    assert max(map(len, pieces)) < 1_000_000


async def test_an_answer_that_is_too_dense_to_be_decoded_is_published() -> None:
    dense = success("a") | {"x": [[]] * MOST_NESTED}
    output, errors, merged = await _merge([_part("ab", [dense], [failure("b") | {"x": [[]] * MOST_NESTED}])])
    assert output == file([dense])
    assert errors == file([failure("b") | {"x": [[]] * MOST_NESTED}])
    assert merged.reasons.counts == Counter({"upstream_error": 1})
    assert not merged.problems.total


async def test_a_success_of_a_later_round_takes_the_place_of_an_error() -> None:
    output, errors, merged = await _merge(
        [_part("abc", [success("a")], [failure("b"), failure("c")])], [_part("bc", [success("b")], [failure("c", "x")])]
    )
    assert output == file([success("a"), success("b")])
    assert errors == file([failure("c", "x")])
    assert (merged.succeeded, merged.failed, merged.unanswered) == (2, 1, 0)
    assert not merged.problems.total


async def test_the_last_error_of_many_rounds_is_kept() -> None:
    rounds = [[_part("a", [], [failure("a", f"round{number}")])] for number in range(5)]
    _, errors, merged = await _merge(*rounds)
    assert errors == file([failure("a", "round4")])
    assert not merged.problems.total


async def test_an_error_stays_where_the_round_that_sent_its_record_again_has_no_answer() -> None:
    _, errors, merged = await _merge([_part("ab", [success("b")], [failure("a")])], [_part("a")])
    assert errors == file([failure("a")])
    assert (merged.succeeded, merged.failed, merged.unanswered) == (1, 1, 0)


async def test_records_without_a_line_are_unanswered() -> None:
    output, errors, merged = await _merge([_part("abc", [success("b")]), _part("de")])
    assert (output, errors) == (file([success("b")]), b"")
    assert (merged.records, merged.unanswered) == (5, 4)


async def test_reasons_are_those_of_the_errors_published() -> None:
    _, _, merged = await _merge(
        [_part("abc", [], [failure("a"), refusal("b", 429, {}), failure("c", "bad")])], [_part("b", [success("b")])]
    )
    assert merged.reasons.counts == Counter({"upstream_error": 1, "bad": 1})


PROBLEMS = {
    "a second success in one file": (
        [_part("a", [success("a", "1"), success("a", "2")])],
        "line 2: in the output file of part 1, round 1: a second answer to its custom_id",
    ),
    "a second success in another part": (
        [_part("a", [success("a", "1")]), _part("b", [success("a", "2"), success("b")])],
        "line 1: in the output file of part 2, round 1: a second answer to its custom_id",
    ),
    "a success and an error": (
        [_part("a", [success("a", "1")], [failure("a")])],
        "line 1: in the error file of part 1, round 1: a second answer to its custom_id",
    ),
    "a success that was not asked for": (
        [_part("a", [success("a", "1"), success("z")])],
        "line 2: in the output file of part 1, round 1: a custom_id that is not in the input",
    ),
    "an error that was not asked for": (
        [_part("a", [success("a", "1")], [failure("z")])],
        "line 1: in the error file of part 1, round 1: a custom_id that is not in the input",
    ),
    "a line that nothing can be read from": (
        [_part("a", [success("a", "1"), {"id": "x"}])],
        "line 2: in the output file of part 1, round 1: not an object with a custom_id",
    ),
    "a line with its id behind more than is decoded": (
        [_part("a", [success("a", "1"), {"x": [[]] * MOST_NESTED, "custom_id": "a"}])],
        "line 2: in the output file of part 1, round 1: no custom_id before its many values",
    ),
}


@pytest.mark.parametrize(("first_round", "told"), PROBLEMS.values(), ids=PROBLEMS)
async def test_what_does_not_belong_is_told_and_the_first_line_counts(first_round: list[PartFiles], told: str) -> None:
    output, errors, merged = await _merge(first_round)
    assert output.startswith(file([success("a", "1")]))
    assert _told(merged) == [told]
    assert len(output.splitlines()) + len(errors.splitlines()) == merged.succeeded + merged.failed
    assert merged.unanswered == 0


async def test_answers_in_the_order_of_their_records_need_no_set_of_ids() -> None:
    sent = [f"r{number:03}" for number in range(500)]
    output = [success(each) for each in sent if each != "r200"]
    with Ids() as ids:
        merge = Merge([[_part(sent, output, [failure("r200")])]], ids, Pace())
        assert await read(merge.outputs()) == file(output)
        assert await read(merge.errors()) == file([failure("r200")])
        assert len(ids) == 1


async def test_an_answer_for_a_record_of_a_later_part_counts() -> None:
    output, _, merged = await _merge([_part("ab", [success("a"), success("d")]), _part("cd", [success("c")])])
    assert output == file([success("a"), success("d"), success("c")])
    assert (merged.records, merged.unanswered) == (4, 1)
    assert not merged.problems.total


async def test_records_that_the_cloud_has_lost_are_those_of_their_results() -> None:
    lost = PartFiles(None, opens([success("b"), success("b"), success("a")]), opens([failure("c"), failure("a")]))
    output, errors, merged = await _merge([lost, _part("de", [success("d")])])
    assert output == file([success("b"), success("a"), success("d")])
    assert errors == file([failure("c")])
    assert (merged.records, merged.unanswered) == (5, 1)
    assert _told(merged) == [
        "line 2: in the output file of part 1, round 1: a second answer to its custom_id",
        "line 2: in the error file of part 1, round 1: a second answer to its custom_id",
    ]


@pytest.mark.parametrize("kept", [True, False], ids=["its records are there", "they are lost, too"])
async def test_records_that_the_cloud_has_lost_are_also_those_that_were_sent_again(kept: bool) -> None:
    first = PartFiles(None, opens([success("a")]), None)
    again = [_part("bc", [success("c")], [failure("b")])]
    if not kept:
        again = [replace(each, input=None) for each in again]
    output, errors, merged = await _merge([first], again)
    assert (output, errors) == (file([success("a"), success("c")]), file([failure("b")]))
    assert (merged.records, merged.unanswered) == (3, 0)
    assert not merged.problems.total


async def test_lost_records_without_any_result_are_unanswered() -> None:
    with Ids() as ids:
        merge = Merge([[PartFiles(None, opens([success("a")]), None)]], ids, Pace(), records=3)
        await read(merge.outputs())
        await read(merge.errors())
        assert (merge.merged.records, merge.merged.unanswered) == (3, 2)


ids = st.sampled_from([f"r{number}" for number in range(8)])


@given(
    st.lists(st.lists(ids, max_size=12).map(sorted) | st.lists(ids, max_size=12), min_size=4, max_size=4),
    st.integers(0, 6),
)
async def test_whatever_the_order_the_first_line_of_a_record_counts(files: list[list[str]], split: int) -> None:
    sent = [f"r{number}" for number in range(6)]  # the others are of no record
    parts = [sent[:split], sent[split:]]
    output, errors, merged = await _merge(
        [
            _part(
                parts[number], [success(each) for each in files[number]], [failure(each) for each in files[number + 2]]
            )
            for number in range(2)
        ]
    )
    answered = list(dict.fromkeys(each for file in files[:2] for each in file if each in sent))
    failed = list(dict.fromkeys(each for file in files[2:] for each in file if each in sent and each not in answered))
    assert output == file([success(each) for each in answered])
    assert errors == file([failure(each) for each in failed])
    of_none = sum(each not in sent for file in files for each in file)
    counts = {ProblemCode.UNKNOWN_CUSTOM_ID: of_none}
    counts[ProblemCode.DUPLICATE_CUSTOM_ID] = sum(map(len, files)) - len(answered) - len(failed) - of_none
    assert dict(merged.problems.counts) == {code: count for code, count in counts.items() if count}
    assert (merged.records, merged.unanswered) == (6, 6 - len(answered) - len(failed))


async def test_two_errors_for_one_record_in_one_round_are_told() -> None:
    _, errors, merged = await _merge([_part("a", [], [failure("a", "one"), failure("a", "two")])])
    assert errors == file([failure("a", "one")])
    assert _told(merged) == ["line 2: in the error file of part 1, round 1: a second answer to its custom_id"]


async def test_an_error_after_a_success_that_an_earlier_round_had_is_told() -> None:
    output, errors, merged = await _merge([_part("a", [success("a")])], [_part("a", [], [failure("a")])])
    assert (output, errors) == (file([success("a")]), b"")
    assert _told(merged) == ["line 1: in the error file of part 1, round 2: a second answer to its custom_id"]


async def test_errors_cannot_be_read_before_the_outputs_have_ended() -> None:
    with Ids() as ids:
        merge = Merge([[_part("a", [success("a")])]], ids, Pace())
        with pytest.raises(RuntimeError, match="read the outputs to their end"):
            await read(merge.errors())
        assert await read(merge.outputs()) == file([success("a")])
        assert await read(merge.errors()) == b""


async def test_files_without_a_last_newline_stay_apart() -> None:
    def ends(custom_id: str) -> PartFiles:
        return PartFiles(opens([record(custom_id)]), lambda: chunks(file([success(custom_id)])[:-1]), None)

    output, _, _ = await _merge([ends("a"), ends("b")])
    assert output == file([success("a"), success("b")])


answers = st.sampled_from(["success", "failure", "nothing"])


@given(
    st.lists(st.integers(0, 2), min_size=1, max_size=20),
    st.lists(st.lists(answers, min_size=20, max_size=20), min_size=1, max_size=4),
    st.randoms(use_true_random=False),
)
async def test_random_rounds_give_one_line_for_each_record_that_was_answered(
    part_of: list[int], outcomes: list[list[str]], chance: Any
) -> None:
    sent = [f"r{n}" for n in range(len(part_of))]
    rounds, last, to_send = [], dict[str, str](), sent
    for number, outcome in enumerate(outcomes):
        parts = []
        for part in range(3):
            ids = [each for each in to_send if part_of[int(each[1:])] == part]
            came = {each: outcome[int(each[1:])] for each in ids}
            output = [success(each, str(number)) for each in ids if came[each] == "success"]
            errors = [failure(each, str(number)) for each in ids if came[each] == "failure"]
            last |= {each: f"{came[each]} {number}" for each in ids if came[each] != "nothing"}
            chance.shuffle(output)
            chance.shuffle(errors)
            parts.append(_part(ids, output, errors))
        rounds.append(parts)
        to_send = [each for each in to_send if last.get(each, "").startswith("failure")]
    outputs, failed, merged = await _merge(*rounds)
    found = {
        each["custom_id"]: f"success {each['response']['body']['text']}"
        for each in map(json.loads, outputs.splitlines())
    } | {each["custom_id"]: f"failure {each['error']['code']}" for each in map(json.loads, failed.splitlines())}
    assert found == last
    assert len(outputs.splitlines()) == merged.succeeded
    assert len(failed.splitlines()) == merged.failed
    assert len(found) == merged.succeeded + merged.failed
    assert merged.unanswered == len(sent) - len(found)
    assert not merged.problems.total
