"""What a cloud offers at all, which depends on its runtime."""

from relay_localcloud.http.errors import ApiError
from relay_localcloud.kernel.store import Tx
from relay_localcloud.runtimes.runtime import Noun


def require_offered(tx: Tx, noun: Noun) -> None:
    """Refuse with 422 what this cloud's runtime does not support."""
    lack = tx.runtime.lacks(noun)
    if lack is not None:
        raise ApiError(422, lack)


def require_image(tx: Tx, field: str, image: str | None) -> None:
    """Refuse with 422 a workload without an image if workloads are real containers."""
    if tx.runtime.reports_by_itself and not image:
        raise ApiError(422, f"{field}: the workloads of this cloud are real containers, so name an image to run.")


def require_made_up(tx: Tx, what: str) -> None:
    """Refuse with 409 what only a simulating cloud does."""
    if tx.runtime.reports_by_itself:
        raise ApiError(
            409, f"{what}: only a simulated cloud does this, and the workloads of this cloud are real containers."
        )
