"""Settled pods by the ten thousand: copies of one real pod, each with its own names and ids.

They are written to etcd as the API server would have stored them, and to the cloud by an import of its own export.
"""

import asyncio
import base64
import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias
from uuid import UUID

import aiohttp

from bench.world import World
from tests.support.kube import Kube, Manifest

Tables: TypeAlias = dict[str, list[dict[str, Any]]]

ORIGINAL = "copy-0000000"
_UID_DIGITS = 10
"""How many digits of a UID are part of names in the cloud."""
_ROWS = ("nodes", "workloads", "claims", "addresses", "usage_records")
"""The cloud's tables with rows about a pod or its node; logs and deliveries are not copied."""
_AT_ONCE = 100
"""Objects per transaction of etcd, which allows at most 128."""
_PATIENCE = aiohttp.ClientTimeout(total=600)


@dataclass(frozen=True, slots=True)
class Copied:
    """The number of copies and the seconds that copying took."""

    pods: int
    seconds: float


async def copied(world: World, kube: Kube, count: int) -> Copied:
    """Makes so many copies of the settled pod `ORIGINAL`; no operator may run meanwhile."""
    started = time.monotonic()
    original = await kube.get("GpuPod", ORIGINAL)
    exported = await world.cloud.control.call("GET", "/export")
    words = _words(original, exported["tables"])
    rows = _rows_of(exported["tables"], words)
    await _import(world, exported, _with_copies(exported["tables"], rows, words, count))
    await _store(world, kube, words, count)
    return Copied(count, time.monotonic() - started)


def _words(pod: Manifest, tables: Tables) -> Mapping[str, str]:
    """Returns each text that is unique to the original, with the format that yields a copy's.

    Formats take the copy's number, its UID, and the part of the UID that names contain.
    """
    metadata, status = pod["metadata"], pod["status"]
    (workload,) = (row for row in tables["workloads"] if row["id"] == status["id"])
    ids = {cloud_id: cloud_id.partition("_")[0] + "_{0:020x}" for cloud_id in (workload["id"], workload["node_id"])}
    return ids | {
        ORIGINAL: "copy-{0:07}",
        metadata["uid"]: "{1}",
        _uid_part(metadata["uid"]): "{2}",
        status["createToken"]: "copy-{0}",
        workload["label"]: "copy-{0}",
    }


def _rows_of(tables: Tables, words: Mapping[str, str]) -> Tables:
    named = re.compile("|".join(map(re.escape, words)))
    return {table: [row for row in tables[table] if named.search(json.dumps(row))] for table in _ROWS}


def _with_copies(tables: Tables, rows: Tables, words: Mapping[str, str], count: int) -> Tables:
    """Returns all rows with those of the copies; multiplies the organization's spending accordingly."""
    write = _Writer(words)
    with_copies = dict(tables)
    for table, originals in rows.items():
        text, last = json.dumps(originals), max((row.get("sequence", 0) for row in tables[table]), default=0)
        made = [row for number in range(1, count + 1) for row in json.loads(write.copy(text, number))]
        numbered = [row | ({"sequence": last + each} if "sequence" in row else {}) for each, row in enumerate(made, 1)]
        with_copies[table] = tables[table] + numbered
    (paying,) = {row["organization_id"] for row in rows["workloads"]}
    with_copies["accounts"] = [
        row | {"burn": row["burn"] * (count + 1)} if row["organization_id"] == paying else row
        for row in tables["accounts"]
    ]
    return with_copies


async def _import(world: World, exported: Mapping[str, object], tables: Tables) -> None:
    body = await asyncio.to_thread(json.dumps, {**exported, "tables": tables})
    url = f"{world.cloud.control.url}/import"
    async with aiohttp.ClientSession(timeout=_PATIENCE) as session, session.post(url, data=body) as answer:
        assert answer.status == 200, await answer.text()


async def _store(world: World, kube: Kube, words: Mapping[str, str], count: int) -> None:
    """Writes the copies to etcd, which sets their resource versions."""
    etcd = next(arg.partition("=")[2] for arg in world.plane.apiserver.argv if arg.startswith("--etcd-servers="))
    prefix = f"/registry/gpurelay.dev/gpupods/{kube.namespace}/"
    async with aiohttp.ClientSession(etcd, timeout=_PATIENCE) as session:
        async with session.post("/v3/kv/range", json={"key": _encoded(prefix + ORIGINAL)}) as answer:
            (found,) = (await answer.json())["kvs"]
        write, text = _Writer(words), base64.b64decode(found["value"]).decode()
        for numbers in _chunks(range(1, count + 1)):
            puts = [
                {"requestPut": {"key": _encoded(f"{prefix}copy-{each:07}"), "value": _encoded(write.copy(text, each))}}
                for each in numbers
            ]
            async with session.post("/v3/kv/txn", json={"success": puts}) as answer:
                assert answer.status == 200, await answer.text()


@dataclass(slots=True)
class _Writer:
    words: Mapping[str, str]

    def copy(self, text: str, number: int) -> str:
        """Returns the original's text with the names and ids of this copy."""
        uid = UUID(int=number << 88)  # the number is in the part that names contain
        mine = {word: pattern.format(number, uid, _uid_part(str(uid))) for word, pattern in self.words.items()}
        # The longest first: the part of the UID in names may be a prefix of the UID.
        found = re.compile("|".join(map(re.escape, sorted(mine, key=len, reverse=True))))
        return found.sub(lambda word: mine[word[0]], text)


def _uid_part(uid: str) -> str:
    return uid.replace("-", "")[:_UID_DIGITS]


def _chunks(numbers: range) -> Iterator[range]:
    return (numbers[start : start + _AT_ONCE] for start in range(0, len(numbers), _AT_ONCE))


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
