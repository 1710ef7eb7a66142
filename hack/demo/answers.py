"""The first answers of the demo's batches, as lines to print."""

from __future__ import annotations

import json
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hack.demo.stage import Stage
    from tests.support.kube import Manifest

_SHOWN = 3


async def told(stage: Stage, manifests: Iterable[Manifest]) -> list[str]:
    """For each InferenceBatch: the name of its output ConfigMap, then its first answers, one line each."""
    lines: list[str] = []
    for manifest in manifests:
        if manifest["kind"] == "InferenceBatch":
            name: str = manifest["spec"]["output"]["configMapRef"]["name"]
            published: str = (await stage.kube.get("ConfigMap", name))["data"]["output.jsonl"]
            lines += [f"The first answers in ConfigMap {name}, key output.jsonl:", *_first(published)]
    return lines


def _first(published: str) -> Iterator[str]:
    for line in islice(published.splitlines(), _SHOWN):
        result = json.loads(line)
        yield f"  {result['custom_id']:<14}{result['response']['body']['choices'][0]['message']['content']}"
