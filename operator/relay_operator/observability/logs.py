"""One line per action on stderr, as JSON or for people, and never with a secret."""

import json
import logging
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import lru_cache
from types import MappingProxyType
from typing import Literal, TextIO

import orjson
from aiohttp import ClientError

from relay_client.redaction import SECRET_SIGNS, redact

FIELDS = ("kind", "namespace", "name", "uid", "action", "outcome", "durationSeconds")
"""The fields of a line besides time, level, logger and message; those that do not apply are absent."""

EXPECTED_ERRORS: tuple[type[BaseException], ...] = (OSError, TimeoutError, ClientError)
"""Errors from outside, for which one line is enough. Any other error is a bug and keeps its traceback."""

_QUIET_LOGGERS = ("kopf", "aiohttp", "asyncio", "kubernetes")
_EXTRA = "relay_fields"
_context: ContextVar[Mapping[str, str]] = ContextVar("log_context", default=MappingProxyType({}))


class LogContext:
    """Adds the object to every line that this task logs until the block ends; for one block."""

    __slots__ = ("_fields", "_token")

    def __init__(self, *, kind: str, namespace: str | None, name: str, uid: str | None = None) -> None:
        fields = {"kind": kind, "namespace": namespace, "name": name, "uid": uid}
        self._fields = {field: value for field, value in fields.items() if value}

    def __enter__(self) -> None:
        self._token = _context.set(self._fields)

    def __exit__(self, *_: object) -> None:
        _context.reset(self._token)


def log_action(
    logger: logging.Logger,
    message: str,
    *,
    action: str,
    outcome: str,
    duration_seconds: float | None = None,
) -> None:
    """Log one action and its outcome; the object is that of the surrounding `LogContext`."""
    if not logger.isEnabledFor(logging.INFO):
        return
    fields: dict[str, str | float] = {"action": action, "outcome": outcome}
    if duration_seconds is not None:
        fields["durationSeconds"] = round(duration_seconds, 4)
    # `logger.log` would walk the stack for the caller's place, which no format shows.
    logger.handle(logger.makeRecord(logger.name, logging.INFO, "", 0, "%s", (message,), None, extra={_EXTRA: fields}))


def configure_logging(
    log_format: Literal["json", "console"],
    level: str,
    stream: TextIO,
    expected_errors: tuple[type[BaseException], ...] = EXPECTED_ERRORS,
) -> None:
    """Make every logger of the process write to the stream in one format; libraries log from warnings on."""
    formatter = JsonLines(expected_errors) if log_format == "json" else ConsoleLines(expected_errors)
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)
    logging.captureWarnings(capture=True)
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False  # no format shows these
    for name in _QUIET_LOGGERS:
        library = logging.getLogger(name)
        library.handlers.clear()
        library.propagate = True
        library.setLevel(logging.NOTSET if level == "debug" else logging.WARNING)


class _Lines(logging.Formatter):
    """What both formats share: the fields of a record, redacted."""

    def __init__(self, expected_errors: tuple[type[BaseException], ...]) -> None:
        super().__init__()
        self._expected_errors = expected_errors

    def told(self, record: logging.LogRecord) -> tuple[str, dict[str, str | float]]:
        """The message and the fields of a line."""
        message, fields = self._message(record), _fields(record)
        # Texts are redacted where they arise, with the secrets known there; this catches what else looks like a secret.
        # One look at all texts costs no more than one at a single text, and hardly ever finds anything.
        texts = "\0".join(map(str, (message, *fields.values()))).lower()
        if not any(sign in texts for sign in SECRET_SIGNS):
            return message, fields
        return redact(message), {field: _redacted(value) for field, value in fields.items()}

    def _message(self, record: logging.LogRecord) -> str:
        text = record.getMessage()
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and self._is_expected(error):
            text = f"{text}: {type(error).__name__}: {error}"
        return " ".join(text.split())

    def traceback(self, record: logging.LogRecord) -> str | None:
        error = record.exc_info[1] if record.exc_info else None
        if record.exc_info is None or error is None or self._is_expected(error):
            return None
        return redact(self.formatException(record.exc_info))

    def _is_expected(self, error: BaseException) -> bool:
        return isinstance(error, self._expected_errors)


class JsonLines(_Lines):
    """Formats one JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        message, fields = self.told(record)
        line: dict[str, str | float] = {
            "time": _milliseconds(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": message,
            **fields,
        }
        if (traceback := self.traceback(record)) is not None:
            line["traceback"] = traceback
        return _encoded(line)


def _encoded(line: dict[str, str | float]) -> str:
    try:
        return orjson.dumps(line).decode()
    except orjson.JSONEncodeError:  # a lone surrogate, which is no Unicode
        return json.dumps(line)


class ConsoleLines(_Lines):
    """Formats time, level, message and `field=value` pairs, for people."""

    def format(self, record: logging.LogRecord) -> str:
        message, told = self.told(record)
        fields = " ".join(f"{field}={value}" for field, value in told.items())
        line = f"{_time(record):%H:%M:%S.%f}"[:-3] + f" {record.levelname:<7} {message} {fields}".rstrip()
        traceback = self.traceback(record)
        return line if traceback is None else f"{line}\n{traceback}"


def _milliseconds(record: logging.LogRecord) -> str:
    seconds, microseconds = divmod(round(record.created * 1_000_000), 1_000_000)
    return f"{_second(seconds)}.{microseconds // 1000:03}Z"


@lru_cache(maxsize=2)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, tz=UTC).isoformat()[:19]


def _time(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, tz=UTC)


def _fields(record: logging.LogRecord) -> dict[str, str | float]:
    found: dict[str, str | float] = {**_kopf_reference(record), **_context.get()}
    found.update(getattr(record, _EXTRA, {}))
    return {field: found[field] for field in FIELDS if field in found}


def _redacted(value: str | float) -> str | float:
    return redact(value) if isinstance(value, str) else value


def _kopf_reference(record: logging.LogRecord) -> dict[str, str]:
    """The object that kopf attaches to its log records."""
    reference = getattr(record, "k8s_ref", None)
    if not isinstance(reference, Mapping):
        return {}
    return {field: str(reference[field]) for field in ("kind", "namespace", "name", "uid") if reference.get(field)}
