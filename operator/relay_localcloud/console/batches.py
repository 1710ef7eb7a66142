"""The page of batches and of their files."""

from typing import Final

from sqlalchemy import RowMapping

from relay_localcloud.batches.tables import batches, files
from relay_localcloud.console.markup import Html, element, fragment
from relay_localcloud.console.parts import Row, identifier, named, section, table
from relay_localcloud.console.reading import Reading
from relay_localcloud.console.wording import moment, pill, size
from relay_localcloud.kernel.store import Tx

PATH: Final = "/console/batches"
ON_A_PAGE: Final = 25
_BATCHES_HINT: Final = "No batch yet. Upload a file, POST /v1/files, then POST /v1/batches at the inference URL."
_FILES_HINT: Final = "No file yet. POST /v1/files at the inference URL takes one, as multipart/form-data."


def content(reading: Reading) -> Html:
    """Batches with how far they are, and files; newest first."""
    found, batch_pages = reading.page(batches, ON_A_PAGE, place="batches-before")
    kept, file_pages = reading.page(files, ON_A_PAGE, files.c.deleted_at.is_(None), place="files-before")
    heads = ("Batch", "Status", "Records", "Model", "Cost", "Created")
    return fragment(
        section(
            "Batches",
            table("Batches", heads, [_batch(reading.tx, row) for row in found], _BATCHES_HINT),
            batch_pages,
            key="batches",
        ),
        section(
            "Files",
            table(
                "Files", ("File", "Purpose", "Size", "Created"), [_file(reading.tx, row) for row in kept], _FILES_HINT
            ),
            file_pages,
            key="files",
        ),
    )


def _batch(tx: Tx, row: RowMapping) -> Row:
    done, total = row["completed"] + row["failed"], row["total"]
    failed = element("small", f"{row['failed']:,} failed") if row["failed"] else None
    bar = element("progress", value=done, max=max(total, 1), aria_label="Records done") if total else None
    tokens = f"{row['input_tokens']:,} tokens in, {row['output_tokens']:,} out"
    return Row(
        row["id"],
        (
            fragment(identifier(row["id"]), element("small", row["endpoint"])),
            pill(row["status"]),
            fragment(element("span", f"{done:,} of {total:,}"), bar, failed),
            row["model"],
            fragment(_nano_usd(row["cost_nano_usd"]), element("small", tokens)),
            moment(row["created_at"], tx.now),
        ),
    )


def _file(tx: Tx, row: RowMapping) -> Row:
    return Row(
        row["id"],
        (named(row["filename"], row["id"]), row["purpose"], size(row["bytes"]), moment(row["created_at"], tx.now)),
    )


def _nano_usd(amount: int) -> str:
    return f"${amount / 1_000_000_000:.6f}"
