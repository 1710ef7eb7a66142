"""`/_localcloud/upstreams`: what answers at the endpoints of an image's workloads."""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from starlette.responses import Response

from relay_localcloud.cloud import CurrentCloud
from relay_localcloud.http.arguments import Query
from relay_localcloud.http.bodies import ControlBody, answer, no_content
from relay_localcloud.http.errors import ApiError
from relay_localcloud.http.routing import Router
from relay_localcloud.http.web_addresses import is_base_address
from relay_localcloud.workloads import images

router = Router()


def _base(url: str) -> str:
    if not is_base_address(url):
        raise ValueError("must be an http or https URL without credentials, query and fragment")
    return url


class Upstream(BaseModel):
    """An image, and the server that answers for its workloads; its path goes before each request's own."""

    model_config = ConfigDict(frozen=True, strict=True)

    image: Annotated[str, Field(min_length=1, max_length=2000)]
    url: Annotated[str, Field(max_length=2000), AfterValidator(_base)]


@router.post("/upstreams", summary="Send requests for workloads of an image to a server")
async def set_upstream(body: ControlBody[Upstream], cloud: CurrentCloud) -> Response:
    """Answers the same; takes the place of what was there for the image, from the next request on."""
    with cloud.store.transaction() as tx:
        images.put(tx, body.image, body.url)
    return answer(body)


@router.get("/upstreams", summary="The servers behind images")
async def list_upstreams(cloud: CurrentCloud) -> Response:
    """Answers `{items: [{image, url}]}`; the echo answers for every other image."""
    with cloud.store.transaction() as tx:
        upstreams = images.every(tx)
    return answer({"items": [{"image": image, "url": url} for image, url in upstreams.items()]})


@router.delete("/upstreams", status_code=204, summary="Let the echo answer for an image again")
async def remove_upstream(cloud: CurrentCloud, image: Annotated[str, Query(), Field(max_length=2000)]) -> Response:
    """404 where nothing was set for the image."""
    with cloud.store.transaction() as tx:
        if not images.remove(tx, image):
            raise ApiError(404, f"There is no upstream for the image {image!r}.")
    return no_content()
