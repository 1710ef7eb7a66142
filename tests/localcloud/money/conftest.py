"""The payment processor is the cloud's, not an organization's: tests that change it put it back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import pytest_asyncio

from tests.localcloud.support.billing import set_payments

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.localcloud.support.server import Server


class SetPayments(Protocol):
    """Makes the payment processor behave like this until the test is over."""

    async def __call__(self, mode: str) -> None: ...


@pytest_asyncio.fixture
async def payments(server: Server) -> AsyncIterator[SetPayments]:
    """Changes how the module's payment processor behaves."""

    async def change(mode: str) -> None:
        await set_payments(server, mode)

    yield change
    await set_payments(server, "auto")
