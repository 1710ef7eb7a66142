"""What lines of result files say, and which failures are worth another try."""

import json
import tracemalloc
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay_operator.records.check import LONGEST_CUSTOM_ID
from relay_operator.records.density import MOST_NESTED
from relay_operator.records.ids import Ids
from relay_operator.records.pace import Pace
from relay_operator.records.results import (
    OTHER,
    REASONS,
    Failure,
    RetryableFailures,
    custom_id_of,
    failure_of,
    failures,
)
from tests.unit.records.streams import failure, line, opens, record, refusal, success

DENSE: list[list[object]] = [[]] * MOST_NESTED
LONG = "x" * (LONGEST_CUSTOM_ID + 1)

IDS = {
    "a result": (line(success("a")), "a"),
    "a record": (line(record("a")), "a"),
    "a custom_id at the end": (b'{"body": {"custom_id": "b"}, "custom_id": "a"}', "a"),
    "the last of several": (b'{"custom_id": "b", "x": 1, "custom_id": "a"}', "a"),
    "the last of several, spelled otherwise": (b'{"custom_id": "b", "custom\\u005fid": "a"}', "a"),
    "escapes": (b'{"custom_id": "\\u0061\\n"}', "a\n"),
    "an answer cut within a character": (b'{"custom_id": "a", "response": "\\ud83d"}', "a"),
    "an answer that is not UTF-8": (b'{"custom_id": "a", "response": "\xff"}', "a"),
    "an answer with a number that is none": (b'{"custom_id": "a", "response": NaN}', "a"),
    "half a character in the id": (b'{"custom_id": "\\ud83d"}', None),
    "no custom_id": (b'{"id": "a"}', None),
    "a null one": (b'{"custom_id": null}', None),
    "an empty one": (b'{"custom_id": ""}', None),
    "a number": (b'{"custom_id": 1}', None),
    "not an object": (b"[1]", None),
    "HTML": (b"<html>", None),
    "a cut line": (b'{"custom_id": "a", "resp', None),
    "the longest id": (line(success("😀" * LONGEST_CUSTOM_ID)), "😀" * LONGEST_CUSTOM_ID),
    "an id longer than any sent": (line(success(LONG)), None),
    "such an id beside a number that is none": (line(success(LONG)).replace(b"null", b"NaN"), None),
    "an answer of more lists than are decoded": (line(success("a") | {"x": DENSE}), "a"),
    "such an answer, and the longest id, escaped": (
        json.dumps(success("😀" * LONGEST_CUSTOM_ID) | {"x": DENSE}).encode(),
        "😀" * LONGEST_CUSTOM_ID,
    ),
    "such an answer, cut": (line(success("a") | {"x": DENSE})[:-2], None),
    "such an answer, with its id at the end": (line({"x": DENSE, "custom_id": "a"}), None),
    "such an answer with a number that is none at its beginning": (
        line(success("a") | {"x": DENSE}).replace(b"200", b"+"),
        None,
    ),
    "brackets without end": (b'{"custom_id": "a", "response": ' + b"[" * 100_000, None),
}


@pytest.mark.parametrize(("given_line", "custom_id"), IDS.values(), ids=IDS)
def test_the_custom_id_of_a_line(given_line: bytes, custom_id: str | None) -> None:
    assert custom_id_of(given_line) == custom_id


FAILURES: dict[str, tuple[dict[str, Any], Failure, str, bool]] = {
    "expired": (failure("a", "batch_expired"), Failure("batch_expired", None), "batch_expired", True),
    "a tool that hangs": (failure("a", "tool_timeout"), Failure("tool_timeout", None), "tool_timeout", True),
    "a tool that fails": (
        failure("a", "tool_executor_error"),
        Failure("tool_executor_error", None),
        "tool_executor_error",
        True,
    ),
    "tools that moved": (
        failure("a", "tool_config_moved"),
        Failure("tool_config_moved", None),
        "tool_config_moved",
        False,
    ),
    "malformed tools": (
        failure("a", "invalid_tool_config"),
        Failure("invalid_tool_config", None),
        "invalid_tool_config",
        False,
    ),
    "a stream": (failure("a", "stream_unsupported"), Failure("stream_unsupported", None), "stream_unsupported", False),
    "a code of its own": (failure("a", "strange"), Failure("strange", None), "strange", False),
    "rate limited": (
        refusal("a", 429, {"code": "rate_limit_error", "type": "rate_limit_error"}),
        Failure("rate_limit_error", 429),
        "rate_limit_error",
        True,
    ),
    "an upstream error": (
        refusal("a", 502, {"code": "upstream_error"}),
        Failure("upstream_error", 502),
        "upstream_error",
        True,
    ),
    "no capacity": (
        refusal("a", 503, {"code": "upstream_unavailable"}),
        Failure("upstream_unavailable", 503),
        "upstream_unavailable",
        True,
    ),
    "a server error without words": (refusal("a", 500, None), Failure(None, 500), "status_500", False),
    "a gateway's HTML": (refusal("a", 502, "<html>"), Failure(None, 502), "status_502", True),
    "a type without a code": (
        refusal("a", 422, {"code": None, "type": "invalid_request_error"}),
        Failure("invalid_request_error", 422),
        "invalid_request_error",
        False,
    ),
    **{
        f"status {status}": (refusal("a", status, {}), Failure(None, status), f"status_{status}", False)
        for status in (400, 401, 402, 403, 404, 413, 422, 418, 504)
    },
    "a status beyond all bounds": (
        refusal("a", 10**99, {}),
        Failure(None, 10**99),
        f"status_{10**99}"[:64],  # status.failureReasons takes no more
        False,
    ),
    "an error of more lists than are decoded": (
        refusal("a", 429, {"code": "rate_limit_error", "x": DENSE}),
        Failure("rate_limit_error", 429),
        "rate_limit_error",
        True,
    ),
    "nothing at all": ({"custom_id": "a"}, Failure(None, None), OTHER, False),
    "odd types": (
        {"error": [], "response": {"status_code": True, "body": {"error": {"code": 7}}}},
        Failure(None, None),
        OTHER,
        False,
    ),
}


@pytest.mark.parametrize(("result", "found", "reason", "retried"), FAILURES.values(), ids=FAILURES)
def test_why_a_record_failed(result: dict[str, Any], found: Failure, reason: str, *, retried: bool) -> None:
    assert failure_of(line(result)) == found
    assert found.reason == reason
    assert RetryableFailures().retries(found) is retried


def test_what_may_not_be_sent_unchanged_is_never_retried_whatever_the_policy_says() -> None:
    policy = RetryableFailures(frozenset({400, 418}), frozenset({"invalid_tool_config"}))
    assert policy.retries(Failure(None, 418))
    assert not policy.retries(Failure(None, 400))
    assert not policy.retries(Failure("invalid_tool_config", 418))


def test_a_reason_is_one_short_line_without_secrets() -> None:
    reason = Failure("a\nb or_secret123456 " + "x" * 500, None).reason
    assert reason.startswith("a b [redacted] x")
    assert len(reason) == 64


def test_nothing_is_kept_of_a_code_as_long_as_a_line() -> None:
    tracemalloc.start()
    reasons = [Failure(f"{number} {'x' * 1_000_000}", None).reason for number in range(20)]
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert reasons == [f"{number} {'x' * 64}"[:64] for number in range(20)]
    assert kept < 1_000_000


async def test_the_ids_to_send_again_are_those_of_failures_that_may_pass() -> None:
    files = [
        opens([failure("a"), failure("b", "invalid_tool_config"), refusal("c", 429, {})]),
        opens([failure("d", "batch_expired"), refusal("e", 400, {"code": "bad"}), {"odd": 1}, failure("a")]),
    ]
    with Ids() as again:
        found = await failures(files, RetryableFailures(), again, Pace())
        assert again.holds("abcde") == [True, False, True, True, False]
        assert len(again) == 3
    assert found.retried == 4
    assert found.reasons.counts == Counter(
        {"upstream_error": 2, "invalid_tool_config": 1, "status_429": 1, "batch_expired": 1, "bad": 1}
    )


async def test_the_table_of_reasons_stays_small() -> None:
    with Ids() as again:
        found = await failures(
            [opens(failure(f"r{n}", f"code{n}") for n in range(500))], RetryableFailures(), again, Pace()
        )
    assert len(found.reasons.counts) == REASONS + 1
    assert found.reasons.counts[OTHER] == 500 - REASONS


@given(st.binary(max_size=60))
def test_no_bytes_make_reading_fail(data: bytes) -> None:
    custom_id_of(data)
    assert isinstance(failure_of(data), Failure)
