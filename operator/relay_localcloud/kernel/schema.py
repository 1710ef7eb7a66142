"""The one MetaData that every table of the local cloud belongs to.

Each noun declares its tables in its own module, on this MetaData, and all are imported before a store is opened: by
`app.py`, and those of the Kubernetes runtime by its `opening.py`.
Rules for tables: instants are integers, microseconds since 1970 UTC (`instants.py`); JSON is text; no binary columns,
since `GET /_localcloud/export` writes every table as JSON.
"""

from sqlalchemy import MetaData

metadata = MetaData()

SCHEMA_VERSION = 8
"""The version in every state; a newer one is refused, an older one is migrated (`migrations.py`)."""
