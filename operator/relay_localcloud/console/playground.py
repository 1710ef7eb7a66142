"""The page that sends a prompt to a model and shows the answer; the organization pays as for any request."""

import json
from typing import Final

from pydantic import JsonValue

from relay_localcloud.cloud import Cloud
from relay_localcloud.console.batch import said
from relay_localcloud.console.reading import Reading
from relay_localcloud.http.errors import ApiError
from relay_localcloud.identity import organizations
from relay_localcloud.inference.callers import require_standing
from relay_localcloud.inference.catalog import listed
from relay_localcloud.inference.charges import charge
from relay_localcloud.inference.funds import Hold, require_funds
from relay_localcloud.inference.invoke import Answer, invoke
from relay_wire.inference import Family

MOST_TOKENS: Final = 4096
LONGEST_PROMPT: Final = 20_000
"""In characters."""
_LONGEST_SHOWN: Final = 20_000


def content(reading: Reading) -> dict[str, object]:
    """The models available to the selected organization, else to the first one."""
    models = [str(model["id"]) for model in listed(reading.tx, reading.organization_id)]
    return {
        "organization_id": reading.organization_id,
        "whose": organizations.name_of(reading.tx, reading.organization_id),
        "models": {model: model for model in models},
        "most_tokens": MOST_TOKENS,
        "longest": LONGEST_PROMPT,
        "answer": None,
    }


async def ask(cloud: Cloud, organization_id: str, model_id: str, prompt: str, max_tokens: int) -> dict[str, object]:
    """The values that the page shows of an answer; ApiError if the prompt cannot be sent, answered or paid."""
    if not prompt.strip() or len(prompt) > LONGEST_PROMPT:
        raise ApiError(400, f"prompt: give 1 to {LONGEST_PROMPT} characters.")
    if not 1 <= max_tokens <= MOST_TOKENS:
        raise ApiError(400, f"maxTokens: give a number from 1 to {MOST_TOKENS}.")
    answer = await _asked(cloud, organization_id, model_id, prompt, max_tokens)
    whole = json.dumps(answer.body, indent=2, ensure_ascii=False)
    return {
        "said": said(answer.body)[:_LONGEST_SHOWN],
        "input_tokens": answer.usage.input_tokens,
        "output_tokens": answer.usage.output_tokens,
        "nano_usd": answer.usage.cost_nano_usd,
        "whole": whole[:_LONGEST_SHOWN],
    }


async def _asked(cloud: Cloud, organization_id: str, model_id: str, prompt: str, max_tokens: int) -> Answer:
    with cloud.store.transaction() as tx:
        require_standing(tx, organization_id)
        require_funds(tx, organization_id)
        models = listed(tx, organization_id)
    apis: list[str] = next((each["supported_apis"] for each in models if each["id"] == model_id), [])
    family = Family.MESSAGES if apis == [Family.MESSAGES.api] else Family.CHAT_COMPLETIONS
    body: JsonValue = {
        "model": model_id,
        "max_tokens": max_tokens,
        "messages": [{"role": "user", "content": prompt}],
    }
    with Hold(cloud.funds, cloud.store, organization_id) as hold:
        answer = await invoke(cloud.store, cloud.upstreams, organization_id, family, body, hold.reserve)
        with cloud.store.transaction() as tx:
            charge(tx, organization_id, answer.usage)
    return answer
