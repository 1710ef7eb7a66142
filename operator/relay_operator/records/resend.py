"""Picks the records to send another time, and those alone, from the parts they were in."""

from collections.abc import AsyncIterator, Sequence

from relay_operator.records.ids import Ids
from relay_operator.records.lines import lines
from relay_operator.records.pace import Pace
from relay_operator.records.results import Open, custom_id_of


async def picked(parts: Sequence[Open], ids: Ids, pace: Pace, *, within: bool = True) -> AsyncIterator[list[bytes]]:
    """The records of these parts whose id is in the set, or is not, unchanged, in order: for a `split.Splitter`."""
    for part in parts:
        async for block in lines(part(), pace):
            named = [(line, custom_id) for line in block.lines if (custom_id := custom_id_of(line)) is not None]
            held = ids.holds([custom_id for _, custom_id in named])
            if chosen := [line for (line, _), is_held in zip(named, held, strict=True) if is_held is within]:
                yield chosen
