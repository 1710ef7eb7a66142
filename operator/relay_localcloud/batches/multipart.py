"""The body of an upload (multipart/form-data), read as it comes: the file goes on, small fields are kept."""

from collections.abc import Callable
from dataclasses import dataclass, field

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

_LARGEST_FIELD = 1024
_MOST_PARTS = 20


class MultipartError(ValueError):
    """The body is no upload; the message says what is wrong."""


@dataclass
class MultipartUpload:
    """Push the body in with `feed`, then call `finish`; `take` is given the file's bytes piece by piece."""

    boundary: bytes
    take: Callable[[bytes], None]
    filename: str | None = None
    """None as long as no file came."""
    fields: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raises MultipartError where the boundary is none."""
        self._header = (bytearray(), bytearray())
        self._disposition = b""
        self._name, self._value = "", bytearray()
        self._in_file, self._ended = False, False
        self._parts = 0
        try:
            self._parser = MultipartParser(
                self.boundary,
                {
                    "on_part_begin": self._part_begins,
                    "on_header_field": lambda data, start, end: self._header[0].extend(data[start:end]),
                    "on_header_value": lambda data, start, end: self._header[1].extend(data[start:end]),
                    "on_header_end": self._header_ends,
                    "on_headers_finished": self._headers_end,
                    "on_part_data": self._part_data,
                    "on_part_end": self._part_ends,
                    "on_end": self._body_ends,
                },
            )
        except FormParserError as error:
            raise MultipartError(f"the boundary is not usable: {error}") from error

    def feed(self, data: bytes) -> None:
        """Read on; MultipartError where this cannot be a part of an upload."""
        try:
            self._parser.write(data)
        except FormParserError as error:
            raise MultipartError(f"the body is no multipart/form-data: {error}") from error

    def finish(self) -> None:
        """The body has ended; MultipartError where it ended too early or had no file."""
        if not self._ended:
            raise MultipartError("the body ends before its last boundary")
        if self.filename is None:
            raise MultipartError("file: this part is missing")

    def _part_begins(self) -> None:
        self._parts += 1
        if self._parts > _MOST_PARTS:
            raise MultipartError(f"the body has more than {_MOST_PARTS} parts")
        self._disposition, self._value = b"", bytearray()

    def _header_ends(self) -> None:
        name, value = self._header
        if bytes(name).lower() == b"content-disposition":
            self._disposition = bytes(value)
        name.clear()
        value.clear()

    def _headers_end(self) -> None:
        _, options = parse_options_header(self._disposition)
        self._name = options.get(b"name", b"").decode(errors="replace")
        self._in_file = self._name == "file"
        if self._in_file:
            if self.filename is not None:
                raise MultipartError("file: there is more than one")
            self.filename = options.get(b"filename", b"").decode(errors="replace")

    def _part_data(self, data: bytes, start: int, end: int) -> None:
        if self._in_file:
            self.take(data[start:end])
            return
        self._value += data[start:end]
        if len(self._value) > _LARGEST_FIELD:
            raise MultipartError(f"{self._name}: this field is over {_LARGEST_FIELD} bytes")

    def _part_ends(self) -> None:
        if not self._in_file:
            self.fields[self._name] = self._value.decode(errors="replace")

    def _body_ends(self) -> None:
        self._ended = True


def boundary_of(content_type: str) -> bytes:
    """The boundary that a Content-Type names; MultipartError where it is not multipart/form-data."""
    kind, options = parse_options_header(content_type)
    if kind != b"multipart/form-data" or not options.get(b"boundary"):
        raise MultipartError("the Content-Type must be multipart/form-data with its boundary")
    return options[b"boundary"]
