"""`/_localcloud/upstreams`: what answers at the endpoints of an image's workloads."""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from relay_localcloud.http.arguments import Query
from relay_localcloud.http.bodies import Answer, ControlBody
from relay_localcloud.http.errors import ApiError
from relay_localcloud.http.routing import Router
from relay_localcloud.http.web_addresses import is_base_address
from relay_localcloud.kernel.store import Tx
from relay_localcloud.workloads import images

router = Router()


def _base(url: str) -> str:
    if not is_base_address(url):
        raise ValueError("must be an http or https URL without credentials, query and fragment")
    return url


class Upstream(BaseModel):
    """An image, and the server that answers for its workloads; its path goes before each request's own."""

    model_config = ConfigDict(frozen=True, strict=True, defer_build=True)

    image: Annotated[str, Field(min_length=1, max_length=2000)]
    url: Annotated[str, Field(max_length=2000), AfterValidator(_base)]


@router.post("/upstreams", summary="Send requests for workloads of an image to a server")
def set_upstream(body: ControlBody[Upstream], tx: Tx) -> Answer:
    """Answers the same; takes the place of what was there for the image, from the next request on."""
    images.put(tx, body.image, body.url)
    return body


@router.get("/upstreams", summary="The servers behind images")
def list_upstreams(tx: Tx) -> Answer:
    """Answers `{items: [{image, url}]}`; the echo answers for every other image."""
    upstreams = images.every(tx)
    return {"items": [{"image": image, "url": url} for image, url in upstreams.items()]}


@router.delete("/upstreams", summary="Let the echo answer for an image again")
def remove_upstream(tx: Tx, image: Annotated[str, Query(), Field(max_length=2000)]) -> None:
    """404 where nothing was set for the image."""
    if not images.remove(tx, image):
        raise ApiError(404, f"There is no upstream for the image {image!r}.")
