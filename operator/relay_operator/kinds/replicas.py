"""What the cloud says of something that has replicas. Pure."""


def said(status: str, healthy: int | None, wanted: int | None, reason: str | None, which: str = "") -> str:
    """A message with the status, how many replicas are healthy, which are not, and the cloud's reason.

    A reason that begins with the numbers is not preceded by them.
    """
    counts = f"{healthy or 0} of {wanted} replicas"
    told = "" if reason and reason.startswith(counts) else f", {counts} healthy"
    return f"the cloud says {status}{told}{which}{f': {reason}' if reason else ''}"
