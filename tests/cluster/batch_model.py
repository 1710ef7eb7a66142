"""A model that fails when a scenario says so, behind the local cloud as a catalog backend."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from aiohttp import web

if TYPE_CHECKING:
    from types import TracebackType

    from tests.support.workspace import Workspace


@dataclass
class FailingModel:
    """Echoes, but for the prompts in `failing`: so often they get this HTTP status first."""

    failing: dict[str, tuple[int, int]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    name: str = ""
    tokens: int = 1
    """Of each prompt; an answer has one."""
    gate: asyncio.Event | None = None
    """Until it is set, whoever asks waits for the answer."""
    _runner: web.AppRunner | None = None

    async def serve(self, workspace: Workspace) -> Self:
        """Listens, and becomes a model of the workspace's cloud under `name`."""
        self.name = f"failing-{secrets.token_hex(3)}"
        application = web.Application()
        application.router.add_post("/v1/chat/completions", self._answer)
        self._runner = web.AppRunner(application, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        backend = {
            "provider": "openai_compatible",
            "ref": "failing",
            "endpoint": f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1",
            "nativeFamilies": ["chat_completions"],
        }
        await workspace.organization.call("POST", f"/v1/inference/models/{self.name}/backends", backend)
        return self

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        prompt: str = (await request.json())["messages"][-1]["content"]
        self.asked.append(prompt)
        if self.gate is not None:
            await self.gate.wait()
        times, status = self.failing.get(prompt, (0, 0))
        if times > 0:
            self.failing[prompt] = (times - 1, status)
            refusal = {"message": "not now", "type": "error", "code": None}
            return web.json_response({"error": refusal}, status=status)
        message = {"role": "assistant", "content": prompt}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": self.tokens, "completion_tokens": 1, "total_tokens": self.tokens + 1}
        answer: dict[str, Any] = {"id": "x", "object": "chat.completion", "created": 1, "model": "failing"}
        return web.json_response({**answer, "choices": [choice], "usage": usage})
