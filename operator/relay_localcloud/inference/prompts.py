"""How large a prompt is, for the bounds of serving deployments (section 2 names bytes and leaves open of what).

Counted is what was said, as UTF-8: the text of every message, and of `system` in the Messages family, where the text
parts of one content are lines. Roles, tools, images and the JSON around it all count nothing.
"""

from relay_localcloud.inference.chat import text_of
from relay_wire.inference import ChatRequest, MessagesRequest


def size_of(request: ChatRequest | MessagesRequest) -> int:
    """The size of a request's prompt in bytes."""
    contents = [message.content for message in request.messages]
    if isinstance(request, MessagesRequest):
        contents.append(request.system)
    return sum(len(text_of(content).encode()) for content in contents)
