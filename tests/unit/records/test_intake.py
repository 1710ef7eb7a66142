"""Reading an input: its records while all is well, and all of its problems otherwise."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay_operator.records.check import Expected
from relay_operator.records.ids import Ids
from relay_operator.records.intake import GROUP_BYTES, Findings, Intake, RecordsRefused
from relay_operator.records.pace import Pace
from relay_operator.records.problems import SHOWN, ProblemCode
from tests.unit.records.streams import CHAT, EXPECTED, chunks, cuts, file, line, record


async def _findings(data: bytes, sizes: list[int] | None = None, expected: Expected = EXPECTED) -> Findings:
    with Ids() as ids:
        return await Intake(chunks(data, sizes or []), expected, ids, Pace()).rest()


async def _records(data: bytes, expected: Expected = EXPECTED) -> list[bytes]:
    with Ids() as ids:
        records = Intake(chunks(data), expected, ids, Pace()).records()
        return [record async for group in records for record in group]


async def _collect(intake: Intake, into: list[bytes]) -> None:
    async for group in intake.records():
        into += group


def _told(findings: Findings) -> list[tuple[int, str]]:
    return [(problem.line, problem.code) for problem in findings.problems.first]


async def test_records_come_in_order_without_blank_lines() -> None:
    records = [line(record(f"r{n}")) for n in range(500)]
    assert await _records(b"\n \n".join(records)) == records


EMPTY = {"nothing": b"", "blank lines": b"\n\r\n  \n", "a byte order mark": b"\xef\xbb\xbf"}


@pytest.mark.parametrize("data", EMPTY.values(), ids=EMPTY)
async def test_an_input_without_records_is_refused(data: bytes) -> None:
    findings = await _findings(data)
    assert _told(findings) == [(0, "empty_file")]
    assert str(findings.problems.first[0]) == "the input has no records"
    with pytest.raises(RecordsRefused, match="the input has no records"):
        await _records(data)


async def test_a_repeated_custom_id_is_told_with_the_line_it_repeats() -> None:
    findings = await _findings(file([record("a"), record("b")]) + b"\n" + file([record("a"), record("b"), record("a")]))
    assert _told(findings) == [(4, "duplicate_custom_id"), (5, "duplicate_custom_id"), (6, "duplicate_custom_id")]
    assert str(findings.problems.first[0]) == "line 4: the custom_id is that of line 1; each must be unique"
    assert findings.records == 2


async def test_a_custom_id_repeated_far_away_is_found() -> None:
    findings = await _findings(file(record(f"r{n % 9_999}") for n in range(10_000)))
    assert _told(findings) == [(10_000, "duplicate_custom_id")]


async def test_the_same_custom_id_spelled_in_two_ways_is_a_repeat() -> None:
    assert _told(await _findings(file([record("a")]) + line(record("a")).replace(b'"a"', b'"\\u0061"'))) == [
        (2, "duplicate_custom_id")
    ]


async def test_all_problems_are_counted_and_the_first_are_shown_in_order() -> None:
    bad = [{}, record("a", method="PUT"), "text", record("a", url="/v2"), record("ok"), record("ok")]
    findings = await _findings(file(bad * 100))
    assert [problem.line for problem in findings.problems.first] == sorted(
        problem.line for problem in findings.problems.first
    )
    assert len(findings.problems.first) == SHOWN
    assert findings.problems.total == 6 * 100 - 1
    assert findings.problems.counts[ProblemCode.INVALID_METHOD] == 100


async def test_a_line_over_the_limit_is_told_in_its_place() -> None:
    long = line(record("long", note="x" * 200))
    data = b"{}\n" + long + b"\n[]\n" + line(record()) + b"\n"
    findings = await _findings(data, expected=Expected(CHAT, "echo", longest=200))
    assert _told(findings) == [(1, "missing_custom_id"), (2, "line_too_long"), (3, "invalid_json_line")]
    assert str(findings.problems.first[1]) == "line 2: the line is longer than 200 bytes"


async def test_nothing_comes_after_the_first_problem_and_the_rest_is_read_for_others() -> None:
    good = [record(f"r{n}") for n in range(1000)]
    data = file([*good, {}, *good])
    with Ids() as ids:
        intake = Intake(chunks(data), EXPECTED, ids, Pace())
        got: list[bytes] = []
        with pytest.raises(RecordsRefused, match="the first in line 1001: custom_id must be"):
            await _collect(intake, got)
        assert data.startswith(b"\n".join(got))
        findings = await intake.rest()
    assert findings.records == 1000
    assert findings.problems.total == 1001


async def test_what_is_handed_on_at_once_stays_bounded_when_tools_make_records_longer() -> None:
    expected = Expected(CHAT, "echo", {"url": "https://tools.example.com", "context": {"text": "x" * 20_000}})
    with Ids() as ids:
        intake = Intake(chunks(file(record(f"r{n}") for n in range(200))), expected, ids, Pace())
        groups = [group async for group in intake.records()]
    assert max(sum(map(len, group)) for group in groups) < GROUP_BYTES + 21_000
    assert sum(map(len, groups)) == 200


@given(st.lists(st.sampled_from([b"", b"{}", b"\xff", line(record("a")), line(record("b"))]), max_size=12), cuts)
async def test_any_chunking_finds_the_same(lines: list[bytes], sizes: list[int]) -> None:
    data = b"\n".join(lines)
    assert await _findings(data, sizes) == await _findings(data)
