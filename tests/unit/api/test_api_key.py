"""The API key in a Secret, for the operator and for people."""

import base64
from typing import Any

import pytest

from relay_operator.api.api_key import NoKey, key_in


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ({}, "the Secret key has no key api-key"),
        ({"data": {}}, "the Secret key has no key api-key"),
        ({"data": {"api-key": ""}}, "the key api-key of the Secret key is empty"),
        ({"data": {"api-key": "hunter2!"}}, "the key api-key of the Secret key is not text"),
        ({"data": {"api-key": base64.b64encode(b"\xff").decode()}}, "the key api-key of the Secret key is not text"),
        ({"data": {"api-key": base64.b64encode(b" \n").decode()}}, "the key api-key of the Secret key is empty"),
    ],
)
def test_a_secret_without_a_key_is_told_without_what_is_in_it(data: dict[str, Any], sentence: str) -> None:
    assert key_in({"metadata": {}, **data}, "key", "api-key") == NoKey(sentence)


def test_spaces_around_a_key_are_nobodys_intention() -> None:
    assert key_in({"data": {"api-key": base64.b64encode(b" sk \n").decode()}}, "key", "api-key") == "sk"
