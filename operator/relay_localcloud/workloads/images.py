"""The URLs that requests to workloads of an image go to, as set by `POST /_localcloud/upstreams`."""

from typing import Final

from sqlalchemy import Column, String, Table, Text, delete, insert, select

from relay_localcloud.kernel.schema import metadata
from relay_localcloud.kernel.store import Tx

gateway_upstreams: Final = Table(
    "gateway_upstreams",
    metadata,
    Column("image", String, primary_key=True),
    Column("url", Text, nullable=False),
)


def put(tx: Tx, image: str, url: str) -> None:
    """Send requests for workloads of the image to this URL from now on."""
    tx.connection.execute(insert(gateway_upstreams).prefix_with("OR REPLACE"), {"image": image, "url": url})


def remove(tx: Tx, image: str) -> bool:
    """Let the echo answer for workloads of the image again; returns whether it had a URL."""
    return tx.connection.execute(delete(gateway_upstreams).where(gateway_upstreams.c.image == image)).rowcount > 0


def every(tx: Tx) -> dict[str, str]:
    """The URL of every image that has one, by image."""
    query = select(gateway_upstreams).order_by(gateway_upstreams.c.image)
    return {row["image"]: row["url"] for row in tx.connection.execute(query).mappings()}
