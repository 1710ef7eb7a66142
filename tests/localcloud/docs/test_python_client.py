"""The program on the page of the Python client runs as it stands."""

import asyncio
import json
import os
import re
import sys
from pathlib import Path

from tests.localcloud.conftest import StartServer

_ROOT = Path(__file__).resolve().parents[3]
_PAGE = _ROOT / "docs" / "python-client.md"


async def test_the_program_asks_and_saves_the_answers(start_server: StartServer, tmp_path: Path) -> None:
    server = start_server("--ephemeral", "--clock", "real")
    await server.ok("POST", "/clock", {"mode": "scaled", "rate": 3600})
    (program,) = re.findall(r"^```python\n(.*?)^```$", _PAGE.read_text(), re.DOTALL | re.MULTILINE)
    # The cloud's hour is a second here.
    program = program.replace("seconds: float = 30", "seconds: float = 0.2")
    ready = server.ready
    known = {"CLOUD": ready["managementUrl"], "INFERENCE": ready["inferenceUrl"], "KEY": ready["apiKey"]}
    environment = {**os.environ, **known, "PYTHONPATH": str(_ROOT / "operator")}
    running = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, cwd=tmp_path, env=environment, stderr=asyncio.subprocess.PIPE
    )
    _, told = await running.communicate()
    assert running.returncode == 0, told.decode()[-2000:]
    answers = [json.loads(line) for line in (tmp_path / "answers.jsonl").read_text().splitlines()]
    assert {answer["custom_id"] for answer in answers} == {f"q{number}" for number in range(1000)}
