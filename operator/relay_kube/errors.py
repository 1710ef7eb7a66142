"""How calls of the Kubernetes API fail, and what an answer that is not 2xx means. Pure."""

import json

from pydantic import JsonValue


class KubeError(Exception):
    """The API server refused a request, or could not be reached. `status` is 0 if there was no answer."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{reason}: {message}" if message else reason)
        self.status = status
        self.reason = reason


class NotFound(KubeError):
    """404 from the API server itself: the object does not exist."""


class Conflict(KubeError):
    """409: another client wrote first, or a precondition (resourceVersion, uid) does not hold."""


class AlreadyExists(Conflict):
    """409 on a create: the name is taken."""


class Refused(KubeError):
    """Any other 4xx, such as 400, 403 or 422: the same request will be refused again."""


class Unavailable(KubeError):
    """No answer, 429, 5xx, or an answer not from the API server: the request may or may not have been processed."""


class NotLeading(Unavailable):
    """Another replica may lead, so nothing is sent to the API server any more."""

    def __init__(self) -> None:
        super().__init__(0, "NotLeading", "another replica may lead: nothing is sent")


def error_of(method: str, status: int, reason: str, message: str) -> KubeError:
    """The error that an answer means, by its status and by the reason in it."""
    match status:
        case 404 if reason == "NotFound":
            return NotFound(status, reason, message)
        case 409 if method == "POST" and reason == "AlreadyExists":
            return AlreadyExists(status, reason, message)
        case 409:
            return Conflict(status, reason, message)
        case 404 | 429:  # a 404 with another reason is from a proxy, or from a server that is starting
            return Unavailable(status, reason, message)
        case _ if 400 <= status < 500:
            return Refused(status, reason, message)
        case 500 if "etcdserver: request is too large" in message:
            return Refused(413, "RequestEntityTooLarge", message)
        case _:
            return Unavailable(status, reason, message)


def told(raw: bytes) -> tuple[str, str]:
    """The reason and message of a Kubernetes Status; an answer that is not one is not quoted."""
    try:
        return reason_of(json.loads(raw.decode(errors="replace")))
    except ValueError:
        return "Unreadable", "the API server's answer is not JSON"


def reason_of(status: JsonValue) -> tuple[str, str]:
    if not isinstance(status, dict):
        return "Unreadable", "the API server's answer is not an object"
    return str(status.get("reason") or "Unknown"), str(status.get("message") or "")[:500]
