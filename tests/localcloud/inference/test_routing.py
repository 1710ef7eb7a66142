"""Which server of a model is chosen: by weight among those with room, else the overflow tail."""

from __future__ import annotations

from collections import Counter

import pytest

from relay_localcloud.inference.catalog import Model
from relay_localcloud.inference.routing import Turn, choose
from relay_localcloud.models.backends import Server
from relay_localcloud.models.built_in import BUILT_IN


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
