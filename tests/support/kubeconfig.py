"""Connections from the current context of a kubeconfig."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
import yaml

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    import kopf


def connection(kubeconfig: Path) -> kopf.ConnectionInfo:
    """Returns the server and the credentials, inline or in files that the kubeconfig names; plugins are ignored."""
    import kopf  # noqa: PLC0415 - it takes half a second, which tests without a cluster should not pay for

    said = yaml.safe_load(kubeconfig.read_text())

    def one(plural: str, name: str) -> dict[str, Any]:
        found = next(item for item in said[plural] if item["name"] == name)
        return dict(found[plural.removesuffix("s")])

    context = one("contexts", said["current-context"])
    cluster, user = one("clusters", context["cluster"]), one("users", context["user"])
    return kopf.ConnectionInfo(
        server=cluster["server"].rstrip("/"),
        ca_path=cluster.get("certificate-authority"),
        ca_data=cluster.get("certificate-authority-data"),
        insecure=cluster.get("insecure-skip-tls-verify"),
        certificate_path=user.get("client-certificate"),
        certificate_data=user.get("client-certificate-data"),
        private_key_path=user.get("client-key"),
        private_key_data=user.get("client-key-data"),
        token=user.get("token"),
    )


@asynccontextmanager
async def session_of(found: kopf.ConnectionInfo) -> AsyncIterator[aiohttp.ClientSession]:
    """Yields a session that makes requests to the server with these credentials."""
    connector = aiohttp.TCPConnector(ssl=found.as_ssl_context())
    async with aiohttp.ClientSession(
        found.server, headers=found.as_http_headers(), connector=connector, read_bufsize=2**21
    ) as session:
        yield session
