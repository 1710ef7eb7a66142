"""What one record must be, and what is told where it is not."""

import gzip
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay_operator.records.check import LONGEST_CUSTOM_ID, Expected, check, tool_config_of
from relay_operator.records.density import MOST_NESTED
from relay_operator.records.problems import RecordProblem
from relay_wire.batches import ToolConfig
from tests.unit.records.streams import CHAT, EXPECTED, line, record

BODY: dict[str, Any] = record()["body"]
TOOLS = tool_config_of(ToolConfig(url="https://tools.example.com", authorization="Bearer s3cret", max_rounds=3))
WITH_TOOLS = Expected(CHAT, "echo", TOOLS)
MESSAGES = Expected("/v1/messages", "echo")


def _body(**changes: object) -> dict[str, Any]:
    return record(body=BODY | changes)


def _without(*keys: str) -> dict[str, Any]:
    return {key: value for key, value in record().items() if key not in keys}


AS_IT_IS = {
    "a common record": line(record()),
    "spaces and order are kept": b'{ "body" : {"model":"echo"}, "url":"/v1/chat/completions",'
    b' "method":"POST", "custom_id":"a" }  ',
    "stream is false": line(_body(stream=False)),
    "stream is null": line(_body(stream=None)),
    "its own tools": line(_body(relay={"tool_config": {"url": "https://own.example.com"}})),
    "numbers stay as they are spelled": line(_body()).replace(b'"echo"', b'"echo","temperature":1.000,"seed":1e400'),
    "more fields than are known": line(record(priority=1)),
    "an id of any characters": line(record("a\n\u0000 😀")),
    "the longest id": line(record("ü" * LONGEST_CUSTOM_ID)),
}


@pytest.mark.parametrize("given_line", AS_IT_IS.values(), ids=AS_IT_IS)
def test_a_record_without_gaps_is_sent_byte_for_byte(given_line: bytes) -> None:
    spaced = given_line.replace(b'"custom_id"', b' "custom_id" ')
    assert check(spaced, 1, EXPECTED) == (json.loads(given_line)["custom_id"], spaced)


FILLED_IN = {
    "no method": _without("method"),
    "no url": _without("url"),
    "neither": _without("method", "url"),
    "nulls": record(method=None, url=None),
    "no model": record(body={"messages": BODY["messages"]}),
    "a null model": _body(model=None),
}


@pytest.mark.parametrize("gaps", FILLED_IN.values(), ids=FILLED_IN)
def test_what_the_object_says_for_all_is_filled_in(gaps: dict[str, Any]) -> None:
    checked = check(line(gaps), 1, EXPECTED)
    assert isinstance(checked, tuple)
    assert json.loads(checked[1]) == record()


FAULTS = {
    "not JSON": (b"{", "invalid_json_line"),
    "two values": (b"{} {}", "invalid_json_line"),
    "not a number": (b'{"a": NaN}', "invalid_json_line"),
    "too deep": (b"[" * 300 + b"]" * 300, "invalid_json_line"),
    "half a character": (line(record()).replace(b'"a"', b'"\\ud800"'), "invalid_json_line"),
    "more lists than a line may have": (line(_body(x=[[]] * MOST_NESTED)), "invalid_json_line"),
    "an array": (b"[]", "invalid_json_line"),
    "a text": (b'"custom_id"', "invalid_json_line"),
    "null": (b"null", "invalid_json_line"),
    "Latin-1": ("Grüße".encode("latin-1").join([b'{"custom_id":"', b'"}']), "invalid_utf8"),
    "UTF-16": ("{}".encode("utf-16"), "invalid_utf8"),
    "overlong UTF-8": (b'{"custom_id":"\xc0\x80"}', "invalid_utf8"),
    "no custom_id": (line(_without("custom_id")), "missing_custom_id"),
    "an empty custom_id": (line(record("")), "missing_custom_id"),
    "a null custom_id": (line(record(None)), "missing_custom_id"),
    "a number as custom_id": (line(record(7)), "missing_custom_id"),
    "a long custom_id": (line(record("x" * (LONGEST_CUSTOM_ID + 1))), "custom_id_too_long"),
    "GET": (line(record(method="GET")), "invalid_method"),
    "post": (line(record(method="post")), "invalid_method"),
    "a number as method": (line(record(method=0)), "invalid_method"),
    "another endpoint": (line(record(url="/v1/messages")), "url_mismatch"),
    "a full URL": (line(record(url="https://example.com/v1/chat/completions")), "url_mismatch"),
    "no body": (line(_without("body")), "invalid_body"),
    "a body that is text": (line(record(body="{}")), "invalid_body"),
    "another model": (line(_body(model="gpt")), "model_mismatch"),
    "an empty model": (line(_body(model="")), "model_mismatch"),
    "a stream": (line(_body(stream=True)), "stream_unsupported"),
    "a stream by number": (line(_body(stream=1)), "stream_unsupported"),
    "a stream by zero": (line(_body(stream=0)), "stream_unsupported"),
    "bare tools in the body": (line(_body(tool_config={})), "tool_config_moved"),
    "bare null tools in the body": (line(_body(tool_config=None)), "tool_config_moved"),
    "bare tools beside the body": (line(record(tool_config={})), "tool_config_moved"),
    "an extension that is not an object": (line(_body(relay=[])), "invalid_tool_config"),
}


@pytest.mark.parametrize(("given_line", "code"), FAULTS.values(), ids=FAULTS)
def test_a_fault_has_its_line_its_code_and_a_sentence(given_line: bytes, code: str) -> None:
    problem = check(given_line, 41, EXPECTED)
    assert isinstance(problem, RecordProblem)
    assert (problem.line, problem.code) == (41, code)
    assert str(problem).startswith("line 41: ")


def test_the_place_of_a_fault_in_its_line_is_told() -> None:
    assert str(check(b'{"a" 1}', 3, EXPECTED)) == "line 3: not JSON: expected `:` at byte 6"
    assert str(check(b"nope", 3, EXPECTED)) == "line 3: not JSON: neither true, false nor null at byte 2"
    assert str(check(b'{"a":1', 3, EXPECTED)) == "line 3: not JSON: the line ends within an object at byte 6"
    zipped = "line 1: the input is compressed with gzip: store it uncompressed"
    assert str(check(gzip.compress(b"{}"), 1, EXPECTED)) == zipped
    assert str(check(b'{"\xff":1}', 3, EXPECTED)) == "line 3: byte 3 is not UTF-8: save the input as UTF-8"


def test_a_line_that_is_too_dense_is_told_the_bounds() -> None:
    told = "line 3: the line has more than 100000 lists, objects and members, 200000 texts or 1500000 values"
    assert str(check(line(_body(x=[[]] * MOST_NESTED)), 3, EXPECTED)) == told


@pytest.mark.parametrize(("given_line", "_code"), FAULTS.values(), ids=FAULTS)
def test_a_fault_quotes_nothing_of_the_record(given_line: bytes, _code: str) -> None:
    secret = given_line.replace(b"Gr", b"hunter2").replace(b"gpt", b"hunter2").replace(b"GET", b"hunter2")
    assert "hunter2" not in str(check(secret, 1, EXPECTED))


def test_the_tools_of_the_object_are_put_into_a_record() -> None:
    checked = check(line(record()), 1, WITH_TOOLS)
    assert isinstance(checked, tuple)
    expected = {"url": "https://tools.example.com", "type": "http", "authorization": "Bearer s3cret", "max_rounds": 3}
    assert json.loads(checked[1]) == _body(relay={"tool_config": expected})
    assert b" " not in checked[1].replace(b"Bearer s3cret", b"")


def test_other_extensions_stay_beside_the_tools() -> None:
    checked = check(line(_body(relay={"cache": True})), 1, WITH_TOOLS)
    assert isinstance(checked, tuple)
    assert json.loads(checked[1])["body"]["relay"] == {"cache": True, "tool_config": TOOLS}


def test_a_null_extension_counts_as_none() -> None:
    checked = check(line(_body(relay=None)), 1, WITH_TOOLS)
    assert isinstance(checked, tuple)
    assert json.loads(checked[1])["body"]["relay"] == {"tool_config": TOOLS}


TOOL_FAULTS = {
    "both have tools": (_body(relay={"tool_config": {}}), WITH_TOOLS, "tool_config_twice"),
    "the record's are null": (_body(relay={"tool_config": None}), WITH_TOOLS, "tool_config_twice"),
    "bare ones": (_body(tool_config={}), WITH_TOOLS, "tool_config_moved"),
    "no place for them": (_body(relay="x"), WITH_TOOLS, "invalid_tool_config"),
    "Messages has none": (
        record(url="/v1/messages", body=BODY | {"relay": {"tool_config": {}}}),
        MESSAGES,
        "invalid_tool_config",
    ),
    "Messages gets none": (record(url="/v1/messages"), Expected("/v1/messages", "echo", TOOLS), "invalid_tool_config"),
}


@pytest.mark.parametrize(("given_record", "expected", "code"), TOOL_FAULTS.values(), ids=TOOL_FAULTS)
def test_tools_that_cannot_be(given_record: dict[str, Any], expected: Expected, code: str) -> None:
    problem = check(line(given_record), 1, expected)
    assert isinstance(problem, RecordProblem)
    assert problem.code == code
    assert "s3cret" not in f"{problem}{expected}"


def test_nulls_in_the_context_of_tools_are_kept() -> None:
    config = ToolConfig(url="https://tools.example.com", context={"user": None, "tags": [None]})
    assert tool_config_of(config)["context"] == {"user": None, "tags": [None]}


def test_a_number_that_cannot_be_written_again_is_told() -> None:
    problem = check(line(record()).replace(b'"echo"', b'"echo","seed":1e999'), 1, WITH_TOOLS)
    assert isinstance(problem, RecordProblem)
    assert problem.code == "invalid_json_line"


def test_the_word_infinity_is_no_number() -> None:
    assert isinstance(check(line(_body(user="Infinity")), 1, WITH_TOOLS), tuple)


def test_a_record_that_grows_over_the_limit_is_too_long() -> None:
    short = line(record())
    problem = check(short, 5, Expected(CHAT, "echo", TOOLS, longest=len(short) + 20))
    assert isinstance(problem, RecordProblem)
    assert problem.code == "line_too_long"


_OWN = ("model", "stream", "relay", "tool_config")
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(st.dictionaries(st.text(min_size=1), values, max_size=4))
def test_whatever_a_body_holds_is_sent_as_it_was(body: dict[str, Any]) -> None:
    whole = {"model": "echo"} | {key: value for key, value in body.items() if key not in _OWN}
    given_line = json.dumps(record(body=whole)).encode()
    checked = check(given_line, 1, WITH_TOOLS)
    assert isinstance(checked, tuple)
    sent = json.loads(checked[1])
    assert sent["body"].pop("relay") == {"tool_config": TOOLS}
    assert sent == json.loads(given_line)


@given(st.binary(max_size=60))
def test_no_bytes_make_the_check_fail(data: bytes) -> None:
    assert isinstance(check(data, 1, WITH_TOOLS), RecordProblem)
