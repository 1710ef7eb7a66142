"""The tables of files and batches; the files' contents are on the disk (`storage.py`)."""

from sqlalchemy import BigInteger, Column, Index, Integer, String, Table, Text

from relay_localcloud.kernel.schema import metadata

files = Table(
    "files",
    metadata,
    Column("sequence", Integer, primary_key=True),
    Column("id", String, nullable=False, unique=True),
    Column("organization_id", String, nullable=False),
    Column("filename", Text, nullable=False),
    Column("purpose", String, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("deleted_at", BigInteger),  # the row stays: a list may go on after a file that is gone
    Index("files_of_organization", "organization_id", "sequence"),
)

batches = Table(
    "batches",
    metadata,
    Column("sequence", Integer, primary_key=True),
    Column("id", String, nullable=False, unique=True),
    Column("organization_id", String, nullable=False),
    Column("status", String, nullable=False),
    Column("endpoint", String, nullable=False),
    Column("input_file_id", String, nullable=False),
    Column("model", String),
    Column("metadata", Text),  # a JSON object
    Column("problems", Text),  # a JSON array: what validation found
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    Column("ended_at", BigInteger),
    Column("ending", String),  # how finalizing or cancelling ends: the final status
    Column("total", Integer, nullable=False, default=0),
    Column("completed", Integer, nullable=False, default=0),
    Column("failed", Integer, nullable=False, default=0),
    Column("input_tokens", BigInteger, nullable=False, default=0),
    Column("output_tokens", BigInteger, nullable=False, default=0),
    Column("cost_nano_usd", BigInteger, nullable=False, default=0),
    # How far the work has got: what lies behind these places in the files was never acknowledged.
    Column("records_done", Integer, nullable=False, default=0),
    Column("records_wanted", Integer, nullable=False, default=0),  # the total, or fewer once it is cancelled
    Column("input_offset", BigInteger, nullable=False, default=0),
    Column("output_bytes", BigInteger, nullable=False, default=0),
    Column("error_bytes", BigInteger, nullable=False, default=0),
    Column("output_file_id", String, nullable=False),
    Column("error_file_id", String, nullable=False),
    Index("batches_of_organization", "organization_id", "sequence"),
    Index("batches_of_input", "input_file_id"),
)
