"""The logs of containers, as kubelets keep them."""

from collections.abc import AsyncIterator

from relay_kube.errors import KubeError, NotFound, Refused
from relay_kube.kube import Kube
from relay_localcloud.kernel.refusals import ApiError


async def log_of(
    kube: Kube, namespace: str, name: str, container: str, tail: int | None, *, follow: bool
) -> AsyncIterator[bytes]:
    """Yields the log of the container that runs, or ran last, in a Pod; nothing without a container.

    Raises ApiError 503 if the log cannot be read.
    """
    try:
        async for piece in kube.log(namespace, name, container, tail=tail, follow=follow):
            yield piece
    except (NotFound, Refused) as nothing:  # 400: the container waits to start
        if nothing.status not in {400, 404}:
            raise ApiError(503, f"The log cannot be read: {nothing}.") from nothing
    except KubeError as error:
        raise ApiError(503, f"The log cannot be read: {error}.", headers={"Retry-After": "5"}) from error
