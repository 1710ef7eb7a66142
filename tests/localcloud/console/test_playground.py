"""The playground: a model is asked, its answer shown and paid."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.async_api import expect

from tests.localcloud.support.pages import QUOTES, refusal, send, text_of, wrong

if TYPE_CHECKING:
    from tests.localcloud.support.browsing import Console
    from tests.localcloud.support.server import Answer, Organization, Server

QUESTION = {"model": "echo", "prompt": "Good morning", "maxTokens": "64"}


async def ask(organization: Organization, **form: str) -> Answer:
    path = f"orgs/{organization.id}/questions"
    return await send(organization.server, path, "/console/playground", **{**QUESTION, **form})


async def test_every_model_answers_whatever_its_family(fresh: Server) -> None:
    owner = fresh.seeded()
    for model in ("echo", "chat-only", "messages-only", "tools"):
        answer = await ask(owner, model=model)
        assert answer.status == 200
        assert "Tokens out" in text_of(answer)
    assert "Good morning" in text_of(await ask(owner))
    used = [each for each in (await fresh.ok("GET", "/audit"))["items"] if "questions" in each["operation"]]
    assert {each["actorKind"] for each in used} == {"administrator"}


@pytest.mark.parametrize(
    ("field", "value"),
    [("prompt", ""), ("prompt", " "), ("prompt", "x" * 20_001)] + [("maxTokens", text) for text in ("0", "x", "1e9")],
)
async def test_what_is_wrong_with_a_question_stands_beside_it(server: Server, field: str, value: str) -> None:
    assert wrong(await ask(server.seeded(), **{field: value}))[:2] == (400, field)


async def test_what_cannot_be_asked_is_told_why(fresh: Server) -> None:
    owner = fresh.seeded()
    code, said = refusal(await ask(owner, model=QUOTES))
    assert (code, said.startswith("There is no model")) == (404, True)
    await fresh.ok("PATCH", f"/orgs/{owner.id}", {"balanceCents": -1})
    assert refusal(await ask(owner))[0] == 402
    await fresh.ok("PATCH", f"/orgs/{owner.id}", {"balanceCents": 1000, "suspended": True})
    assert refusal(await ask(owner)) == (403, "This account is suspended for its balance: add funds.")
    nobody = await send(fresh, "orgs/org_nobody/questions", "/console/playground", **QUESTION)
    assert nobody.status == 404


async def test_what_is_asked_and_answered_is_text(fresh: Server) -> None:
    answer = await ask(fresh.seeded(), prompt=f"</textarea>{QUOTES}")
    assert answer.status == 200
    assert b"<img" not in answer.raw


@pytest.mark.asyncio(loop_scope="session")
async def test_a_person_asks_and_the_answer_stays_while_the_page_follows_the_clock(console: Console) -> None:
    web = console.page
    await console.open("/console/playground")
    await web.get_by_label("Model").select_option("echo")
    await web.get_by_label("Prompt").fill("Good morning")
    await console.press("Ask")
    await expect(web.locator("#answer")).to_contain_text("Good morning")
    await console.picture("playground")
    before = await web.locator("#now").inner_text()
    await console.press("+1 day")
    await expect(web.locator("#now")).not_to_have_text(before)
    await expect(web.locator("#answer")).to_contain_text("Good morning")
    await expect(web.get_by_label("Prompt")).to_have_value("Good morning")
