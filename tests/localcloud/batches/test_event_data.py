"""The data of events is found as the client of the Model Context Protocol finds it, wherever the stream is cut."""

from __future__ import annotations

from itertools import pairwise

import httpx2
from hypothesis import example, given
from hypothesis import strategies as st

from relay_localcloud.batches.event_data import EventData

FIELDS = (
    "data: a",
    "data:b",
    "data:  c",
    "data:",
    "data",
    "data :d",
    "\ufeffdata: e",
    ": f",
    "event: g",
    "id: 1",
    "x",
    " data: h",
)
ENDS = ("\n", "\r", "\r\n")
STREAMS = st.lists(st.sampled_from((*FIELDS, *ENDS * 3)), max_size=30).map(lambda parts: "".join(parts).encode())


def as_the_client_reads(stream: bytes) -> list[str]:
    """The data of each event, without its empty lines; the stream's end is one, too."""
    request = httpx2.Request("GET", "http://mcp.example")
    response = httpx2.Response(200, content=stream, headers={"Content-Type": "text/event-stream"}, request=request)
    return [event.data.strip("\n") for event in httpx2.EventSource(response) if event.data.strip("\n")]


@example(b"data: a\ndata\ndata: a\n\ndata\n\n", [])
@given(STREAMS, st.lists(st.integers(0, 120), max_size=8))
def test_events_are_those_that_the_client_reads(stream: bytes, cuts: list[int]) -> None:
    events, found = EventData(), list[str]()
    places = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    for begin, end in pairwise(places):
        found += [data.decode() for data in events.fed(stream[begin:end])]
    whole = as_the_client_reads(stream)
    assert found == whole[: len(found)]
    assert found + [data.decode() for data in events.rest()] == as_the_client_reads(stream + b"\n\n")
