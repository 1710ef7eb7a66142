"""What the log of requests keeps of a body: no secret, and not too much."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from relay_localcloud.http.loggable import LARGEST, LONGEST, loggable

if TYPE_CHECKING:
    from pydantic import JsonValue

HUSH = "hush-hush"


def kept(document: JsonValue) -> str:
    return loggable(len(json.dumps(document)), document)


def test_what_is_asked_for_is_kept() -> None:
    asked: dict[str, JsonValue] = {"name": "trainer", "gpuCount": 2, "public": True, "preferredRegions": ["eu", "us"]}
    assert json.loads(kept({**asked, "volumeGb": None})) == {**asked, "volumeGb": None}


@pytest.mark.parametrize(
    "document",
    [
        {"envVars": {"TOKEN": HUSH, "name": HUSH}},
        {"credentials": {"username": HUSH, "password": HUSH, "model": HUSH}},
        {"name": {"name": HUSH}, "image": [{"image": HUSH}], "events": [[{"events": [HUSH]}]]},
        {"apiKey": HUSH, "url": f"https://me:{HUSH}@x.test", "cloudInit": HUSH, "grant": HUSH},
        {"messages": [{"role": "user", "content": HUSH, "name": HUSH}], "tool_config": {"authorization": HUSH}},
        {"imgae": HUSH, "Name": HUSH, "": HUSH},
        [HUSH, {"name": HUSH}],
        HUSH,
    ],
)
def test_no_text_is_kept_that_may_be_a_secret(document: Any) -> None:
    assert HUSH not in kept(document)


def test_the_names_of_what_is_left_out_are_kept() -> None:
    assert kept({"envVars": {"TOKEN": HUSH}, "imgae": "x"}) == '{"envVars": {"TOKEN": "…"}, "imgae": "…"}'


def test_what_is_kept_is_bounded() -> None:
    assert loggable(LARGEST + 1, {"name": "x"}) == f"… ({LARGEST + 1} bytes)"
    wordy: JsonValue = {"image": "a" * (LARGEST - 20)}
    assert kept(wordy) == f'{{"image": "{"a" * (LONGEST - 11)} …'
    deep: JsonValue = HUSH
    for _ in range(200):
        deep = [deep]
    assert HUSH not in kept({"events": {"x": deep}})
