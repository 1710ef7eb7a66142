"""Which server of a model is chosen: by weight among those with room, else the overflow tail."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack

import pytest
from pydantic import JsonValue

from relay_localcloud.egress.reach import Reach
from relay_localcloud.inference import invoke
from relay_localcloud.inference.catalog import Model
from relay_localcloud.inference.invoke import Question
from relay_localcloud.inference.routing import REPLICA_HEADER, Turn, choose
from relay_localcloud.inference.upstreams import Upstreams
from relay_localcloud.kernel.vault import KEY_BYTES, Vault
from relay_localcloud.models.backends import Server
from relay_localcloud.models.built_in import BUILT_IN
from relay_localcloud.serving.lanes import Lane
from relay_localcloud.serving.traffic import Published
from relay_wire.inference import Family


def server(name: str, weight: int = 0, cap: int = 0) -> Server:
    return Server(name, "ref", "http://127.0.0.1:9/v1", frozenset({"messages"}), "none", weight, cap)


def chosen(model: Model, under_way: dict[str, int] | None = None, draw: float = 0.0) -> str | None:
    found = choose(model, under_way or {}, draw)
    assert not isinstance(found, Turn)
    return None if found is None else found.id


def test_weights_share_the_requests() -> None:
    model = Model("m", [server("a", 1), server("b", 3), server("tail")], None)
    shares = Counter(chosen(model, draw=number / 400) for number in range(400))
    assert shares == {"a": 100, "b": 300}


@pytest.mark.parametrize(("draw", "name"), [(0.0, "a"), (0.2499999, "a"), (0.25, "b"), (0.9999999999999999, "b")])
def test_a_draw_falls_to_its_part(draw: float, name: str) -> None:
    assert chosen(Model("m", [server("a", 1), server("b", 3)], None), draw=draw) == name


def test_a_server_at_its_cap_leaves_its_share_to_the_others() -> None:
    model = Model("m", [server("a", 1, cap=2), server("b", 1)], None)
    assert chosen(model, {"a": 1}) == "a"
    assert chosen(model, {"a": 2}) == "b"


def test_the_tail_takes_what_overflows_in_the_order_of_registration() -> None:
    model = Model("m", [server("tail1", cap=1), server("a", 5, cap=1), server("tail2")], None)
    assert chosen(model) == "a"
    assert chosen(model, {"a": 1}) == "tail1"
    assert chosen(model, {"a": 1, "tail1": 1}) == "tail2"


def test_the_built_in_engine_is_the_head_of_the_tail() -> None:
    model = Model("echo", [server("tail"), server("a", 1, cap=1)], BUILT_IN["echo"])
    assert chosen(model) == "a"
    assert chosen(model, {"a": 1}) == "echo"
    assert not model.is_local
    assert Model("echo", [server("tail")], BUILT_IN["echo"]).is_local


def test_without_room_there_is_none() -> None:
    model = Model("m", [server("a", 5, cap=1), server("tail", cap=2)], None)
    assert chosen(model, {"a": 1, "tail": 2}) is None


async def test_a_stream_counts_at_its_replica_from_when_it_was_sent_there_until_it_ends() -> None:
    upstreams = Upstreams(lambda: 0.0, Vault(bytes(KEY_BYTES)), Reach.everywhere())
    apis, lane = frozenset({"chat_completions"}), Lane("community", 0, 0)
    replicas = dict.fromkeys(("rep_1", "rep_2"))
    deployment = Published(1, "dep", "org", "echo", "echo", apis, 1, 1, lane, False, 0, 8000, replicas)
    model = Model("echo", (), BUILT_IN["echo"], (deployment,))
    body: JsonValue = {"model": "echo", "stream": True, "messages": [{"role": "user", "content": "x"}]}
    asked = Question.read(Family.CHAT_COMPLETIONS, body)
    with ExitStack() as held:
        streams = [await invoke.stream(upstreams, model, asked, 0, lambda _: None, held) for _ in range(3)]
    assert [stream.headers.get(REPLICA_HEADER) for stream in streams] == ["rep_1", "rep_2", None]
    assert not upstreams.under_way
    for stream in streams:
        await stream.source.aclose()
