"""What is taken out of a watch is bounded for the cache as it is for kopf."""

import json
from collections.abc import Mapping

from pydantic import JsonValue

from relay_kube.nesting import MOST
from relay_operator.sifting import sifted


def test_an_object_full_of_lists_is_recognized_without_them() -> None:
    full = b"[" + b"[]," * MOST + b"0]"
    line = b'{"type":"MODIFIED","object":{"metadata":{"name":"a","resourceVersion":"1"},"spec":{"x":%s}}}' % full
    told: list[Mapping[str, JsonValue]] = []

    def knows(raw: Mapping[str, JsonValue]) -> bool:
        told.append(raw)
        return True

    assert sifted([line], knows) == b""
    assert [len(json.dumps(raw)) < 2_000 for raw in told] == [True]
