"""Contents of files in an exported state: beside the tables, `{files: {id: base64}}`."""

import base64
import binascii
from collections.abc import Mapping

from pydantic import JsonValue

from relay_localcloud.batches import file_rows, rows
from relay_localcloud.batches.storage import FileStorage
from relay_localcloud.kernel.disk import StateFileError
from relay_localcloud.kernel.store import Tx


def restore(tx: Tx, storage: FileStorage, document: JsonValue) -> None:
    """Put a document's contents onto the disk, after its tables; StateFileError where one is missing or unreadable."""
    given = document.get("files", {}) if isinstance(document, dict) else {}
    if not isinstance(given, dict):
        raise StateFileError("files is no object")
    written = {file_id for file_id, size in rows.contents_at_work(tx).items() if size}
    missing = sorted((file_rows.ids_of_all(tx) | written) - given.keys())
    if missing:
        raise StateFileError(f"files has no content of {missing[0]!r}")
    storage.put({file_id: _decoded(given, file_id) for file_id in _known(tx) & given.keys()})


def sweep(tx: Tx, storage: FileStorage) -> None:
    """Remove every content that no file and no batch at work has."""
    storage.keep_only(_known(tx))


def _known(tx: Tx) -> set[str]:
    return file_rows.ids_of_all(tx) | rows.contents_at_work(tx).keys()


def _decoded(given: Mapping[str, JsonValue], file_id: str) -> bytes:
    content = given[file_id]
    try:
        if isinstance(content, str):
            return base64.b64decode(content, validate=True)
    except (binascii.Error, ValueError):
        pass
    raise StateFileError(f"the content of {file_id!r} is no base64")
