"""The floor of the local cloud: uvicorn and SQLite, one row written per create, one read per GET, no logic.

`python -m bench.cloud_floor FOLDER` keeps its rows there, prints its URL to stdout, and runs until killed.
"""

import json
import secrets
import socket
import sqlite3
import sys
from pathlib import Path

import uvicorn
from starlette.types import Receive, Scope, Send


class Floor:
    """An ASGI application with `POST /v1/pods` and `GET /v1/pods/<id>`."""

    def __init__(self, folder: Path) -> None:
        self._rows = sqlite3.connect(folder / "floor.db", isolation_level=None)
        self._rows.execute("PRAGMA journal_mode=WAL")
        self._rows.execute("PRAGMA synchronous=NORMAL")
        self._rows.execute("CREATE TABLE pods (nr INTEGER PRIMARY KEY, id TEXT UNIQUE, body TEXT)")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        body = await _read(receive)
        look = scope["method"] == "GET"
        answer = (self._look(scope["path"].rpartition("/")[2]) if look else self._create(body)).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(answer)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})

    def _create(self, body: bytes) -> str:
        record = {"id": f"pod_{secrets.token_hex(10)}", **json.loads(body)}
        answer = json.dumps(record)
        self._rows.execute("BEGIN IMMEDIATE")
        self._rows.execute("INSERT INTO pods (id, body) VALUES (?, ?)", (record["id"], answer))
        self._rows.execute("COMMIT")
        return answer

    def _look(self, pod_id: str) -> str:
        row = self._rows.execute("SELECT body FROM pods WHERE id = ?", (pod_id,)).fetchone()
        return json.dumps(json.loads(row[0]))


async def _read(receive: Receive) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body", False):
            return bytes(body)


def main(folder: Path) -> None:
    """Serves until killed."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
    sys.stdout.write(f"http://127.0.0.1:{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    config = uvicorn.Config(Floor(folder), http="httptools", loop="uvloop", lifespan="off", access_log=False)
    uvicorn.Server(config).run([listener])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
