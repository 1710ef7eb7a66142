"""Azurite, Azure's own emulator of Blob Storage, and the few calls that tests make as owner of its account."""

from __future__ import annotations

import base64
import datetime as dt
import hmac
import os
import re
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import httpx2

from tests.support.azurite_install import azurite_command
from tests.support.process import Process, free_port

if TYPE_CHECKING:
    from pathlib import Path

_API = "2023-11-03"


@dataclass
class Azurite:
    """One emulator with its blobs below `folder`; `url` is the value for AZURE_STORAGE_ENDPOINT."""

    folder: Path
    account: str = "testaccount"
    key: str = field(default_factory=lambda: base64.b64encode(secrets.token_bytes(64)).decode())
    process: Process = field(init=False)
    url: str = field(init=False)

    def __post_init__(self) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}/{self.account}"
        listen = ["--blobHost", "127.0.0.1", "--blobPort", str(port)]
        keep = ["--location", str(self.folder)]
        argv = [*azurite_command(), *listen, *keep, "--silent", "--disableTelemetry", "--skipApiVersionCheck"]
        env = {"AZURITE_ACCOUNTS": f"{self.account}:{self.key}"}
        self.process = Process("azurite", argv, self.folder / "azurite.log", self._answers, env=os.environ | env)

    async def start(self) -> None:
        """Starts the emulator; returns when it answers."""
        await self.process.start()

    def secret(self, **changed: str) -> dict[str, str]:
        """Returns the data of a Secret with this account's credentials, with changes."""
        keys = {"AZURE_STORAGE_ACCOUNT_NAME": self.account, "AZURE_STORAGE_ACCOUNT_KEY": self.key}
        return keys | {"AZURE_STORAGE_ENDPOINT": self.url} | changed

    async def create_container(self, container: str) -> None:
        """Creates an empty container."""
        (await self._call("PUT", f"/{container}", {"restype": "container"})).raise_for_status()

    async def blobs(self, container: str, *, uncommitted: bool = False) -> list[str]:
        """Returns the names of all blobs; with `uncommitted`, also of blobs that have only uncommitted blocks."""
        query = {"comp": "list", "restype": "container"}
        if uncommitted:
            query["include"] = "uncommittedblobs"
        listed = (await self._call("GET", f"/{container}", query)).raise_for_status()
        return re.findall("<Name>(.*?)</Name>", listed.text)

    async def _answers(self) -> bool:
        try:
            await self._call("GET", "/", {"comp": "list"})
        except httpx2.TransportError:
            return False
        return True

    async def _call(self, method: str, path: str, query: dict[str, str]) -> httpx2.Response:
        """Makes one request without a body, signed with the account's key."""
        now = dt.datetime.now(dt.UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")
        lines = "".join(f"\n{name}:{value}" for name, value in sorted(query.items()))
        resource = f"/{self.account}/{self.account}{path}{lines}"
        text = f"{method}{chr(10) * 12}x-ms-date:{now}\nx-ms-version:{_API}\n{resource}"
        signature = base64.b64encode(hmac.digest(base64.b64decode(self.key), text.encode(), "sha256")).decode()
        headers = {"x-ms-date": now, "x-ms-version": _API, "authorization": f"SharedKey {self.account}:{signature}"}
        async with httpx2.AsyncClient(trust_env=False) as client:
            return await client.request(method, self.url + path, params=query, headers=headers)
