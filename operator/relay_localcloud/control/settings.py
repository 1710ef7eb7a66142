"""`/_localcloud/settings`: latencies and behaviours."""

from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response

from relay_localcloud.capacity import vacancies
from relay_localcloud.cloud import CurrentCloud
from relay_localcloud.http.bodies import answer, parse, read_body
from relay_localcloud.http.errors import ApiError, sentence
from relay_localcloud.http.routing import Router
from relay_localcloud.settings import Settings

router = Router()


@router.patch(
    "/settings",
    summary="Change latencies and behaviours",
    openapi_extra=lambda: {
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": Settings.model_json_schema(by_alias=True)}},
        }
    },
)
async def change_settings(request: Request, cloud: CurrentCloud) -> Response:
    """Takes any of the settings, and answers all of them."""
    document = parse(await read_body(request))
    if not isinstance(document, dict):
        raise ApiError(400, "The body must be a JSON object.")
    with cloud.store.transaction() as tx:
        kept = tx.settings.model_dump(by_alias=True)
        try:
            changed = Settings.model_validate({**kept, **document}, by_alias=True, by_name=False)
        except ValidationError as error:
            raise ApiError(400, sentence(error.errors(include_url=False, include_input=False))) from None
        cloud.store.change_settings(tx, changed)
        if changed.ip_addresses > tx.settings.ip_addresses:
            vacancies.announce_address(tx)
    return answer(changed.model_dump(by_alias=True))
