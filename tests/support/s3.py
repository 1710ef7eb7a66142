"""A real S3 server (versitygw over a folder) and the few calls that tests make as its administrator."""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote

import httpx2

from tests.support.certificates import write_serving_certificate
from tests.support.process import Process, free_port
from tests.support.toolchain import installed_from

if TYPE_CHECKING:
    from pathlib import Path

_PACKAGE, _VERSION = "github.com/versity/versitygw/cmd/versitygw", "v1.8.0"
_REGION = "us-east-1"


def versitygw() -> Path:
    """Returns the server's binary; builds it from its released module if needed. Raises BuildError."""
    return installed_from(_PACKAGE, _VERSION, "versitygw")


@dataclass
class S3Server:
    """One server with its data below `folder`; `url` is the value for AWS_ENDPOINT_URL.

    With `tls` it serves HTTPS with a certificate signed by `ca`.
    """

    folder: Path
    tls: bool = False
    access_key: str = "test-root"
    secret_key: str = "test-root-secret"
    process: Process = field(init=False)
    url: str = field(init=False)

    def __post_init__(self) -> None:
        port = free_port()
        self.url = f"{'https' if self.tls else 'http'}://127.0.0.1:{port}"
        data, metadata, users = (self.folder / name for name in ("data", "metadata", "users"))
        for folder in (data, metadata, users):
            folder.mkdir(parents=True, exist_ok=True)
        credentials = ["--access", self.access_key, "--secret", self.secret_key, "--region", _REGION]
        listen = ["--port", f"127.0.0.1:{port}", "--keep-alive", "--quiet"]
        if self.tls:
            write_serving_certificate(self.folder)
            listen += ["--cert", str(self.folder / "apiserver.crt"), "--key", str(self.folder / "apiserver.key")]
        # Metadata in a folder of its own: not every file system has extended attributes.
        backend = ["posix", "--sidecar", str(metadata), str(data)]
        argv = [str(versitygw()), *listen, *credentials, "--iam-dir", str(users), *backend]
        self.process = Process("versitygw", argv, self.folder / "versitygw.log", self._answers, env={})

    @property
    def ca(self) -> str:
        """The PEM certificate of the authority that signed the server's; only with `tls`."""
        return (self.folder / "ca.crt").read_text()

    async def start(self) -> None:
        """Starts the server and waits until it answers; raises StartError."""
        await self.process.start()

    async def stop(self) -> None:
        """Ends the server; the data stay."""
        await self.process.stop()

    def secret(self, **changed: str) -> dict[str, str]:
        """Returns the data of a Secret with this server's credentials, with changes."""
        keys = {"AWS_ACCESS_KEY_ID": self.access_key, "AWS_SECRET_ACCESS_KEY": self.secret_key}
        return keys | {"AWS_REGION": _REGION, "AWS_ENDPOINT_URL": self.url} | changed

    async def create_bucket(self, bucket: str) -> None:
        """Creates an empty bucket."""
        await self._call("PUT", f"/{bucket}")

    async def put(self, bucket: str, key: str, body: bytes) -> None:
        """Creates or replaces an object in one request."""
        await self._call("PUT", f"/{bucket}/{key}", body=body)

    async def get(self, bucket: str, key: str) -> bytes:
        """Returns the content of an object."""
        return (await self._call("GET", f"/{bucket}/{key}")).content

    async def delete(self, bucket: str, key: str) -> None:
        """Deletes an object."""
        await self._call("DELETE", f"/{bucket}/{key}")

    async def keys(self, bucket: str) -> list[str]:
        """Returns the keys of the first page of objects (at most 1,000)."""
        listed = await self._call("GET", f"/{bucket}", query="list-type=2")
        return re.findall("<Key>(.*?)</Key>", listed.text)

    async def uploads(self, bucket: str) -> list[str]:
        """Returns the keys of multipart uploads that are neither completed nor aborted."""
        listed = await self._call("GET", f"/{bucket}", query="uploads=")
        return re.findall("<Key>(.*?)</Key>", listed.text)

    async def _answers(self) -> bool:
        try:
            await self._call("GET", "/")
        except httpx2.TransportError:
            return False
        return True

    async def _call(self, method: str, path: str, query: str = "", body: bytes = b"") -> httpx2.Response:
        path = quote(path, safe="/-._~")
        headers = self._signed(method, path, query, body, dt.datetime.now(dt.UTC))
        async with httpx2.AsyncClient(trust_env=False, verify=False) as client:
            url = f"{self.url}{path}?{query}" if query else f"{self.url}{path}"
            answer = await client.request(method, url, headers=headers, content=body)
        return answer.raise_for_status()

    def _signed(self, method: str, path: str, query: str, body: bytes, now: dt.datetime) -> dict[str, str]:
        """Returns the headers of AWS Signature Version 4."""
        digest, moment = hashlib.sha256(body).hexdigest(), now.strftime("%Y%m%dT%H%M%SZ")
        headers = {"host": self.url.partition("://")[2], "x-amz-content-sha256": digest, "x-amz-date": moment}
        names = ";".join(headers)
        lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
        request = f"{method}\n{path}\n{query}\n{lines}\n{names}\n{digest}"
        scope = f"{moment[:8]}/{_REGION}/s3/aws4_request"
        text = f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
        key = b"AWS4" + self.secret_key.encode()
        for part in scope.split("/"):
            key = hmac.digest(key, part.encode(), "sha256")
        signature = hmac.digest(key, text.encode(), "sha256").hex()
        credential = f"AWS4-HMAC-SHA256 Credential={self.access_key}/{scope}"
        return headers | {"authorization": f"{credential}, SignedHeaders={names}, Signature={signature}"}
