"""The operator's own client of the API server, as whom a kubeconfig says."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from relay_kube.kube import ApiAccess, Kube
from tests.support.kubeconfig import connection, session_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@asynccontextmanager
async def access_of(kubeconfig: Path) -> AsyncIterator[ApiAccess]:
    """Ends its connections with the context."""
    found = connection(kubeconfig)
    async with session_of(found) as session:
        yield ApiAccess(found.server, session)


@asynccontextmanager
async def client_of(kubeconfig: Path) -> AsyncIterator[Kube]:
    """Likewise."""
    async with access_of(kubeconfig) as access:
        yield Kube(access)
