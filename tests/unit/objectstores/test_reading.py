"""An object is read to its end whatever becomes of the connection after its last byte."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from relay_operator.objectstores.errors import StoreError, StoreReason
from relay_operator.objectstores.files import FileStore
from relay_operator.objectstores.location import Location
from relay_operator.objectstores.reading import Reading
from relay_operator.objectstores.store import Opened

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path


async def test_a_connection_that_breaks_after_the_last_byte_loses_nothing(tmp_path: Path) -> None:
    (tmp_path / "object").write_bytes(b"all of it")
    location = Location.parse(f"file://{tmp_path}/object")
    store = FileStore(location, (PurePosixPath(tmp_path),))
    opened = await store.open(0, "")

    async def breaking() -> AsyncGenerator[bytes, None]:
        """As over HTTP/2, where a stream may be reset between its last byte and its end."""
        async for piece in opened.pieces:
            yield piece
        raise StoreError(StoreReason.UNREACHABLE, "the connection failed")

    reading = Reading(location, store, Opened(opened.info, breaking(), opened.close))
    assert b"".join([piece async for piece in reading]) == b"all of it"
