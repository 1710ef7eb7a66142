"""Parses the data of server-sent events from pieces of a stream, as a reader of the stream sees it."""

from collections.abc import Iterator


class EventData:
    """Takes the pieces of one stream in order. Lines end with CR, LF or both, and a piece may end anywhere."""

    def __init__(self) -> None:
        self._line = bytearray()
        self._data: list[bytes] = []
        self._after_return = False

    def fed(self, piece: bytes) -> Iterator[bytes]:
        """The data of each event that ends within this piece, without empty lines around it; none of an empty event."""
        begun = int(self._after_return and piece.startswith(b"\n"))
        self._after_return = piece.endswith(b"\r")
        more, *lines = piece[begun:].replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._line += more
        for line in lines:
            yield from self._ended(bytes(self._line))
            self._line = bytearray(line)

    def rest(self) -> Iterator[bytes]:
        """The data of an event in which the stream broke off, if any."""
        return self.fed(b"\n\n")

    def _ended(self, line: bytes) -> Iterator[bytes]:
        if line == b"data" or line.startswith(b"data:"):
            self._data.append(line[len(b"data:") :].removeprefix(b" "))
        elif not line:
            data, self._data = b"\n".join(self._data).strip(b"\n"), []
            if data:
                yield data
