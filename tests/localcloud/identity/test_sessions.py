"""Sessions are bounded: a user has so many, and those that expired leave no row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.localcloud.support.people import Person, session_of, sign_up

if TYPE_CHECKING:
    from tests.localcloud.support.server import Organization, Server

MOST = 100
DAY = 86_400


async def signed_in(person: Person, times: int) -> list[Person]:
    """The same person, signed in so many more times."""
    return [await sign_up(person.server, email=person.email) for _ in range(times)]


async def works(person: Person) -> bool:
    answer = await person.call("GET", "/v1/me")
    assert answer.status in {200, 401}
    return answer.status == 200


async def rows_of(person: Person) -> int:
    tables = (await person.server.ok("GET", "/export"))["tables"]
    return sum(row["user_id"] == person.id for row in tables["sessions"])


async def test_each_session_beyond_the_hundredth_ends_the_oldest_of_its_user(organization: Organization) -> None:
    first, other = await sign_up(organization.server), await session_of(organization, "viewer")
    second, *_ = await signed_in(first, MOST - 2)
    assert (await works(first), await rows_of(first)) == (True, MOST - 1)
    await signed_in(first, 1)
    assert (await works(first), await rows_of(first)) == (True, MOST)
    (newest,) = await signed_in(first, 1)
    assert [await works(each) for each in (first, second, newest, other)] == [False, True, True, True]
    assert await rows_of(first) == MOST


async def test_sessions_that_expired_a_day_ago_are_forgotten_when_somebody_signs_in(server: Server) -> None:
    person = await sign_up(server)
    for passed, kept in ((2 * DAY - 1, 1), (1, 0)):
        await server.advance(passed)
        await sign_up(server)
        assert await rows_of(person) == kept
