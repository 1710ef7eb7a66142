"""Answers of the built-in models: pure functions from a prompt, the same for both API families.

Tokens are whitespace-separated words, in input and output (interfaces.md).
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from relay_localcloud.http.errors import ApiError
from relay_localcloud.inference.charges import Usage
from relay_localcloud.inference.errors import of_api_error
from relay_localcloud.inference.structured import answer_in
from relay_localcloud.models.built_in import BuiltInModel
from relay_wire.inference import ResponseFormat

LARGEST_ANSWER: Final = 10 * 1024 * 1024
"""Bytes of an answer: for a built-in model, of the texts of all its choices (assumed)."""

_WORD = re.compile(r"\s*+\S++|\s++")
"""A word with the space before it, or the space at the end; it never backtracks, however much space there is."""
_DONE = "done"
_SPACE_OR_NOT = bytes(ord(" ") if chr(code).isspace() and code < 128 else ord("x") for code in range(256))
_BEGIN: Final = b" x"
"""The beginning of a word in a text that `_marked` returns."""
_WINDOW: Final = 16 * 1024
_WIDE_SPACES = [chr(code) for code in range(128, 0x3001) if chr(code).isspace()]
"""Unicode's spaces beyond ASCII."""


class Finish(Enum):
    """Why a turn ended."""

    STOP = auto()
    STOP_SEQUENCE = auto()
    LENGTH = auto()
    TOOL_CALLS = auto()


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a built-in model reads from a request, and its size for the bounds of serving deployments.

    Section 2 speaks of bytes, but not of which. Counted is the text in UTF-8: that of every message, and of `system` in
    the Messages family, with the text parts of one content as lines. Roles, tools, images and the surrounding JSON do
    not count.
    """

    said: str  # the last user message
    texts: Sequence[str]  # of every message
    limit: int | None = None
    choices: int = 1
    stops: Sequence[str] = ()
    offered_tool: str | None = None
    turns_with_calls: int = 0
    tool_results: Sequence[str] = ()
    form: ResponseFormat | None = None

    @property
    def input_tokens(self) -> int:
        """The number of tokens in all texts."""
        return sum(words(text) for text in self.texts)

    @property
    def size(self) -> int:
        """The number of bytes in all texts."""
        return sum(len(text.encode()) for text in self.texts)


@dataclass(frozen=True, slots=True)
class Turn:
    """A model's answer in each of its choices: a text, or a tool call with its arguments as JSON."""

    finish: Finish
    text: str
    input_tokens: int
    output_tokens: int  # of all choices
    choices: int = 1
    called_tool: str | None = None
    stop_sequence: str | None = None

    @property
    def usage(self) -> Usage:
        """The usage of the request that it answers."""
        return Usage.of(self.input_tokens, self.output_tokens)


def turn(model: BuiltInModel, prompt: Prompt) -> Turn:
    """The model's turn; InferenceError if the model is one that fails, or if all choices together are too large."""
    if model.failure is not None:
        raise of_api_error(ApiError(*model.failure))
    if not model.calls_tools:
        return _spoken(prompt, prompt.said)
    done = next((result for result in reversed(prompt.tool_results) if _DONE in result), None)
    if done is not None:
        return _spoken(prompt, done)
    if prompt.offered_tool is None:
        return _spoken(prompt, prompt.said)
    arguments = f'{{"round": {prompt.turns_with_calls + 1}}}'
    finish, arguments = _limited(prompt, Finish.TOOL_CALLS, arguments)
    taken = words(arguments) * prompt.choices
    return Turn(finish, arguments, prompt.input_tokens, taken, prompt.choices, prompt.offered_tool)


def words(text: str) -> int:
    """The number of tokens in a text: the same as `split` gives, in a tenth of the time."""
    return _marked(text).count(_BEGIN)


def first_words(text: str, count: int) -> str | None:
    """The beginning of a text with `count` words; None if the text has no more. It reads nothing after them."""
    left = count
    for start in range(0, len(text), _WINDOW):
        window = text[start : start + _WINDOW]
        marked = _marked(window)
        goes_on = start > 0 and not (text[start - 1].isspace() or window[0].isspace())
        found = marked.count(_BEGIN) - goes_on
        if found > left:
            at = 0
            for _ in range(goes_on + left + 1):
                at = marked.index(_BEGIN, at) + 1
            return text[: start + len(window.encode()[: at - 1].decode())].rstrip()
        left -= found
    return None


def _marked(text: str) -> bytes:
    """A space, followed by a space or an x for each byte of a text."""
    raw = text.encode()
    if not text.isascii():
        for space in _WIDE_SPACES:
            if space in text:  # a search for one character is much faster than one in bytes
                raw = raw.replace(space.encode(), b" " * len(space.encode()))
    return b" " + raw.translate(_SPACE_OR_NOT)


def pieces(text: str) -> Iterator[str]:
    """The text word by word, each with the space before it; joined, they are the text."""
    ahead = ""
    for match in _WORD.finditer(text):
        piece = match.group()
        if ahead and not piece.isspace():
            yield ahead
            ahead = ""
        ahead += piece
    if ahead:
        yield ahead


def _spoken(prompt: Prompt, text: str) -> Turn:
    text = text if prompt.form is None else answer_in(prompt.form, text)
    finish, stop_sequence = Finish.STOP, None
    first = min(((at, stop) for stop in prompt.stops if stop and (at := text.find(stop)) >= 0), default=None)
    if first is not None:
        finish, stop_sequence, text = Finish.STOP_SEQUENCE, first[1], text[: first[0]]
    finish, text = _limited(prompt, finish, text)
    stop_sequence = stop_sequence if finish is Finish.STOP_SEQUENCE else None
    size = len(text.encode()) * prompt.choices
    if size > LARGEST_ANSWER:
        raise of_api_error(
            ApiError(400, f"n: {prompt.choices} choices have {size} bytes, and an answer at most {LARGEST_ANSWER}.")
        )
    taken = words(text) * prompt.choices
    return Turn(finish, text, prompt.input_tokens, taken, prompt.choices, stop_sequence=stop_sequence)


def _limited(prompt: Prompt, finish: Finish, text: str) -> tuple[Finish, str]:
    """A text within the limit of tokens, and why it ends."""
    shorter = None if prompt.limit is None else first_words(text, prompt.limit)
    return (finish, text) if shorter is None else (Finish.LENGTH, shorter)
