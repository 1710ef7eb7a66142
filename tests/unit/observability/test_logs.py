"""The log: one line an action, in one format for every library, without secrets."""

import io
import json
import logging
from collections.abc import Iterator
from typing import Literal

import pytest
from aiohttp import ServerDisconnectedError
from pydantic import JsonValue

from relay_client.redaction import presentable
from relay_operator.observability.logs import LogContext, configure_logging, log_action

SECRETS = [
    "or_live_4f9a1c22d0b7",
    "vl_0123456789ab",
    "whsec_Zm9vYmFyYmF6cXV4",
    "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJyZWxheSJ9abc.c2lnbmF0dXJl",
]


@pytest.fixture(autouse=True)
def loggers_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(capture=False)


def _configured(
    log_format: Literal["json", "console"] = "json",
    level: str = "info",
    expected: tuple[type[BaseException], ...] = (OSError,),
) -> io.StringIO:
    stream = io.StringIO()
    configure_logging(log_format, level, stream, expected)
    return stream


def _lines(stream: io.StringIO) -> list[dict[str, JsonValue]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def _fail(error: Exception) -> None:
    raise error


def _raised(error: Exception) -> Exception:
    with pytest.raises(type(error)) as caught:
        _fail(error)
    return caught.value


def test_an_action_is_one_line_that_names_the_object_and_the_outcome() -> None:
    stream = _configured()
    with LogContext(kind="GpuPod", namespace="team-a", name="trainer", uid="u-1"):
        log_action(
            logging.getLogger("relay_operator.engine"),
            "created pod-1",
            action="Create",
            outcome="accepted",
            duration_seconds=0.123456,
        )
    (line,) = _lines(stream)
    assert str(line.pop("time")).endswith("Z")
    assert line == {
        "level": "info",
        "logger": "relay_operator.engine",
        "message": "created pod-1",
        "kind": "GpuPod",
        "namespace": "team-a",
        "name": "trainer",
        "uid": "u-1",
        "action": "Create",
        "outcome": "accepted",
        "durationSeconds": 0.1235,
    }


TIMES = {
    1_772_366_400.0: "2026-03-01T12:00:00.000Z",
    1_772_366_400.123: "2026-03-01T12:00:00.123Z",
    1_772_366_400.9999: "2026-03-01T12:00:00.999Z",
    1_772_366_400.9999999: "2026-03-01T12:00:01.000Z",
}


@pytest.mark.parametrize(("created", "shown"), TIMES.items(), ids=TIMES.values())
def test_the_time_is_that_of_the_record_in_milliseconds(created: float, shown: str) -> None:
    stream = _configured()
    record = logging.makeLogRecord({"created": created, "msg": "idle", "levelno": logging.INFO, "levelname": "INFO"})
    logging.getLogger().handle(record)
    assert _lines(stream)[0]["time"] == shown


def test_what_is_below_the_level_is_not_logged() -> None:
    stream = _configured(level="warning")
    log_action(logging.getLogger("relay_operator"), "created pod-1", action="Create", outcome="accepted")
    assert stream.getvalue() == ""


@pytest.mark.parametrize("field", ["name", "uid", "action", "outcome"])
def test_a_secret_is_found_in_each_field(field: str) -> None:
    stream = _configured()
    told = {"name": "a", "uid": "b", "action": "d", "outcome": "e", field: SECRETS[0]}
    with LogContext(kind="GpuPod", namespace="n", name=told["name"], uid=told["uid"]):
        log_action(logging.getLogger("relay_operator"), "m", action=told["action"], outcome=told["outcome"])
    assert SECRETS[0] not in stream.getvalue()
    assert "[redacted]" in stream.getvalue()


SHOWN = {
    "key or_live_4f9a1c22d0b7 is revoked": "key [redacted] is revoked",
    "key VL_abcdefgh1.": "key [redacted].",
    "secret=whsec_Zm9vYmFyYmF6cXV4": "secret=[redacted]",
    'sent "Authorization: bEARER abc"': 'sent "Authorization: [redacted]"',
    f"token {SECRETS[3]}, expired": "token [redacted], expired",
    "GET https://u:pw12345@host/v1": "GET https://[redacted]@host/v1",
    "GET redis://:pw:12345@host": "GET redis://[redacted]@host",
    "GET https://or_live_4f9a1c22d0b7:pw12345@host": "GET https://[redacted]@host",
    "GET https://host:8400/v1, color_depth of eyJa.b.c": "GET https://host:8400/v1, color_depth of eyJa.b.c",
}


@pytest.mark.parametrize(("text", "shown"), SHOWN.items(), ids=SHOWN)
def test_status_and_log_mask_the_same(text: str, shown: str) -> None:
    stream = _configured()
    log_action(logging.getLogger("relay_operator"), text, action="a", outcome="b")
    assert (presentable(text), _lines(stream)[0]["message"]) == (shown, shown)


def test_a_lone_surrogate_does_not_cost_the_line() -> None:
    stream = _configured()
    log_action(logging.getLogger("relay_operator"), "said \ud800", action="a", outcome="b")
    assert _lines(stream)[0]["message"] == "said \ud800"


def test_the_object_is_not_named_after_its_block_ended() -> None:
    stream = _configured()
    with LogContext(kind="GpuPod", namespace="team-a", name="trainer"):
        pass
    logging.getLogger("relay_operator").info("idle")
    (line,) = _lines(stream)
    assert "kind" not in line


def test_libraries_speak_from_warnings_on_and_in_the_same_format() -> None:
    stream = _configured()
    logging.getLogger("kopf.objects").info("chatter")
    logging.getLogger("kopf.objects").warning(
        "trouble", extra={"k8s_ref": {"kind": "GpuPod", "name": "trainer", "namespace": None}}
    )
    (line,) = _lines(stream)
    assert (line["message"], line["kind"], line["name"]) == ("trouble", "GpuPod", "trainer")


def test_libraries_are_heard_at_the_debug_level() -> None:
    stream = _configured(level="debug")
    logging.getLogger("kopf.objects").info("chatter")
    assert [line["message"] for line in _lines(stream)] == ["chatter"]


@pytest.mark.parametrize("log_format", ["json", "console"])
@pytest.mark.parametrize("secret", SECRETS)
def test_secrets_appear_in_no_part_of_a_line(log_format: Literal["json", "console"], secret: str) -> None:
    stream = _configured(log_format)
    logger = logging.getLogger("relay_operator")
    logger.error("call with %s failed", secret, exc_info=_raised(ValueError(f"key {secret} refused")))
    logger.warning("lost", exc_info=_raised(ConnectionError(f"Authorization: Bearer {secret}")))
    log_action(logger, secret, action=secret, outcome=secret)
    assert secret not in stream.getvalue()
    assert "[redacted]" in stream.getvalue()


def test_an_expected_error_is_one_line_without_a_traceback() -> None:
    stream = _configured()
    refused = _raised(ConnectionRefusedError("port 8400"))
    logging.getLogger("relay_operator").error("the cloud does not answer", exc_info=refused)
    (line,) = _lines(stream)
    assert line["message"] == "the cloud does not answer: ConnectionRefusedError: port 8400"
    assert "traceback" not in line


def test_a_connection_that_a_library_lost_is_expected() -> None:
    stream = io.StringIO()
    configure_logging("json", "info", stream)
    logging.getLogger("kopf.watching").error("the watch broke", exc_info=_raised(ServerDisconnectedError()))
    (line,) = _lines(stream)
    assert "traceback" not in line


def test_a_mistake_of_ours_keeps_its_traceback_within_the_line() -> None:
    stream = _configured()
    logging.getLogger("relay_operator").error("the pass failed", exc_info=_raised(KeyError("spec")))
    (line,) = _lines(stream)
    assert "test_logs.py" in str(line["traceback"])


def test_a_text_with_line_breaks_cannot_pass_for_two_lines() -> None:
    stream = _configured("console")
    logging.getLogger("relay_operator").info("refused: %s", "a\n00:00:00.000 INFO    all is well")
    assert len(stream.getvalue().splitlines()) == 1


def test_the_console_format_reads_as_text() -> None:
    stream = _configured("console")
    with LogContext(kind="GpuPod", namespace="team-a", name="trainer"):
        log_action(logging.getLogger("relay_operator"), "created pod-1", action="Create", outcome="accepted")
    assert stream.getvalue().endswith(
        "INFO    created pod-1 kind=GpuPod namespace=team-a name=trainer action=Create outcome=accepted\n"
    )
