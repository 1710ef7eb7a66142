"""What a request says in either family, and how large that is for the bounds of serving deployments.

Section 2 names bytes and leaves open of what. Counted is what was said, as UTF-8: the text of every message, and of
`system` in the Messages family, where the text parts of one content are lines. Roles, tools, images and the JSON around
it all count nothing.
"""

from relay_localcloud.inference import chat, messages
from relay_localcloud.inference.chat import text_of
from relay_localcloud.inference.engine import Prompt
from relay_wire.inference import ChatRequest, MessagesRequest


def prompt_of(request: ChatRequest | MessagesRequest) -> Prompt:
    """What a built-in model reads of a request."""
    return chat.prompt(request) if isinstance(request, ChatRequest) else messages.prompt(request)


def size_of(request: ChatRequest | MessagesRequest) -> int:
    """The size of a request's prompt in bytes."""
    contents = [message.content for message in request.messages]
    if isinstance(request, MessagesRequest):
        contents.append(request.system)
    return sum(len(text_of(content).encode()) for content in contents)
