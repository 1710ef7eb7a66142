"""Statements about rows are compiled once, and bounded: callers choose which fields they change together."""

from __future__ import annotations

from itertools import combinations

import relay_localcloud.app  # noqa: F401 - every table, as in the running cloud
from relay_localcloud.batches.rows import FILES
from relay_localcloud.kernel.rows import MOST_SHAPES
from relay_localcloud.kernel.store import Store


def test_however_many_sets_of_fields_change_the_statements_that_are_kept_are_bounded() -> None:
    fields = {"organization_id": "o", "filename": "f", "purpose": "p", "bytes": 2, "created_at": 3, "deleted_at": 4}
    sets = [set(chosen) for count in range(1, len(fields) + 1) for chosen in combinations(fields, count)]
    with Store.ephemeral().transaction() as tx:
        FILES.insert(
            tx, id="file-1", **dict.fromkeys(("organization_id", "filename", "purpose"), ""), bytes=0, created_at=0
        )
        for turn in range(3):
            for chosen in sets:
                FILES.change_all(tx, {name: fields[name] for name in chosen}, **({"id": "file-1"} if turn % 2 else {}))
                assert len(FILES._statements) <= MOST_SHAPES
        changed = FILES.find(tx, id="file-1")
    assert len(sets) < MOST_SHAPES < 2 * len(sets)
    assert changed is not None
    assert {name: getattr(changed, name) for name in fields} == fields
