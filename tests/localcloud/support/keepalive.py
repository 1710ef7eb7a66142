"""Raw HTTP on one kept connection, for tests that make thousands of requests one after another."""

from __future__ import annotations

import json
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

from tests.support.eventually import PATIENCE_SECONDS


class Line:
    """One connection to a local cloud; `control` and `call` answer status, headers and parsed JSON."""

    def __init__(self, url: str) -> None:
        self._connection = HTTPConnection(urlsplit(url).netloc, timeout=PATIENCE_SECONDS)

    def control(self, method: str, path: str, body: object = None) -> Any:
        """The JSON of a control call that must succeed."""
        status, _, answer = self.call("", method, f"/_localcloud{path}", body)
        assert status == 200, (method, path, status, answer)
        return answer

    def call(self, key: str, method: str, path: str, body: object = None) -> tuple[int, dict[str, str], Any]:
        """A request with a key."""
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        data = None if body is None else json.dumps(body)
        self._connection.request(method, path, data, headers)
        answer = self._connection.getresponse()
        raw = answer.read()
        sent = {name.lower(): value for name, value in answer.getheaders()}
        return answer.status, sent, json.loads(raw) if raw else None

    def close(self) -> None:
        """Hang up."""
        self._connection.close()
