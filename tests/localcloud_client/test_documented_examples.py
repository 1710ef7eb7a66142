"""The example of docs/python-client.md, run as it stands."""

import re
from pathlib import Path
from typing import Any

import pytest

from relay_client import Cloud
from tests.localcloud_client.batches import lines
from tests.support.localcloud import Control

PAGE = Path(__file__).resolve().parents[2] / "docs" / "python-client.md"


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    """Every name that the page's code defines."""
    names: dict[str, Any] = {}
    (block,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    exec(compile(block, PAGE.name, "exec"), names)
    return names


async def test_the_questions_of_the_page_are_answered(
    example: dict[str, Any], cloud: Cloud, control: Control, tmp_path: Path
) -> None:
    batch = await example["ask"](cloud)
    assert (await example["find"](cloud, "2026-11-21")).id == batch.id
    assert await example["find"](cloud, "another") is None
    await control.advance(3600)
    batch = await example["wait"](cloud, batch, 0)
    assert (batch.status, batch.error_file_id) == ("completed", None)
    await example["save"](cloud, batch.output_file_id, str(tmp_path / "answers.jsonl"))
    answers = lines((tmp_path / "answers.jsonl").read_bytes())
    assert {answer["custom_id"] for answer in answers} == {f"q{number}" for number in range(1000)}
