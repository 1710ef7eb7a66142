"""The `openai` client, unmodified, with the local cloud's files and batches; the one of old with everything."""

import asyncio
import os
import sys
from pathlib import Path

import pytest
from openai import AsyncOpenAI

from tests.localcloud_client import openai_plays
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.localcloud import Control, Organization
from tests.support.packages import OPENAI_2, packages_of


@pytest.fixture(scope="session")
def openai_2() -> Path:
    """The packages of the client in its second major version."""
    return packages_of(OPENAI_2)


@pytest.mark.parametrize("play", [openai_plays.files, openai_plays.batches], ids=["files", "batches"])
async def test_files_and_batches_work_with_the_client(
    play: openai_plays.Play, organization: Organization, control: Control, inference_url: str
) -> None:
    ground = openai_plays.ground_at(inference_url, organization.api_key, control.url)
    await asyncio.to_thread(play, ground)


async def test_pages_follow_each_other_with_the_asynchronous_client(
    organization: Organization, inference_url: str
) -> None:
    async with AsyncOpenAI(base_url=f"{inference_url}/v1", api_key=organization.api_key, max_retries=0) as client:
        made = [await client.files.create(file=(f"{n}.jsonl", b"{}"), purpose="batch") for n in range(5)]
        listed = [file.id async for file in client.files.list(limit=2)]
    assert listed == [file.id for file in reversed(made)]


@pytest.mark.parametrize("play", openai_plays.PLAYS)
async def test_everything_works_with_the_client_of_old(
    play: str, openai_2: Path, organization: Organization, control: Control, inference_url: str
) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-S",  # of what is installed here, nothing
        openai_plays.__file__,
        play,
        inference_url,
        organization.api_key,
        control.url,
        env={**os.environ, "PYTHONPATH": str(openai_2)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(PATIENCE_SECONDS):
        said, complaint = await process.communicate()
    assert process.returncode == 0, complaint.decode()
    assert said.startswith(b"2.")
