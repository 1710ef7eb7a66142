"""What is wanted of each holder of GPUs, as the runtime keeps it: which start of it, and what was seen of that."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass
from enum import StrEnum
from typing import Any, Final

from relay_localcloud.kernel.instants import DAY
from relay_localcloud.kernel.rows import Rows
from relay_localcloud.kernel.store import Tx, read_meta, write_meta
from relay_localcloud.runtimes.kubernetes.facts import Exited
from relay_localcloud.runtimes.runtime import INSTANCE, Expected, Facts, Noun, Wanted

KEPT: Final = DAY
"""How long it is known that a holder ended: what a killed process had sent may reach the cluster after it."""


class Standing(StrEnum):
    """What there is to be of a holder."""

    RUN = "run"
    REST = "rest"  # its volume, and nothing else
    END = "end"  # nothing


@dataclass(frozen=True, slots=True)
class Holding:
    """A holder; `start` counts its starts, from 1, and what follows is of the last one."""

    id: str
    standing: Standing
    start: int
    since: int
    uid: str | None  # of its Pod, from when that was seen until it is seen to go
    exits: tuple[Any, ...]  # the last ones, as `exits_of` reads them
    ended_at: int | None = None
    organization_id: str | None = None  # whose it is; None until something of it may be on the cluster


HOLDINGS: Final = Rows(Holding, "kubernetes_holdings", key=("id",))
_STANDING: Final[Mapping[Wanted, Standing]] = {
    Wanted.STARTED: Standing.RUN,
    Wanted.RESTARTED: Standing.RUN,
    Wanted.STOPPED: Standing.REST,
    Wanted.GONE: Standing.REST,
    Wanted.DELETED: Standing.END,
}


@dataclass(frozen=True, slots=True)
class OnKubernetes:
    """Keeps what is wanted, and has `changed` called once that is on disk; a `Runtime`.

    `lacking` says of what it cannot make why, and what to use.
    """

    tx: Tx
    changed: Callable[[str], None]
    lacking: Mapping[Noun, str]

    @property
    def reports_by_itself(self) -> bool:
        """It sees what runs."""
        return True

    def lacks(self, noun: Noun) -> str | None:
        """What the cluster has not, or this runtime does not make yet."""
        return self.lacking.get(noun)

    def want(self, facts: Facts, holder_id: str, wanted: Wanted) -> Expected:
        """Nobody knows when it comes true."""
        standing = _STANDING[wanted]
        known = HOLDINGS.find(self.tx, id=holder_id)
        start = 0 if known is None else known.start
        same = known is not None and known.standing is standing is not Standing.RUN
        if not same:
            HOLDINGS.put(
                self.tx,
                id=holder_id,
                standing=standing,
                start=start + (standing is Standing.RUN),
                since=self.tx.now,
                uid=None,
                exits=(),
                ended_at=self.tx.now if standing is Standing.END else None,
                organization_id=None if known is None else known.organization_id,
            )
        self.tx.after_commit(lambda: self.changed(holder_id))
        return Expected()

    def boot_log(self, script: str | None) -> Sequence[tuple[str, str]]:
        """What a VM prints, nobody here reads."""
        return []


def exits_of(holding: Holding) -> list[Exited]:
    """The last exits of its present start, the oldest first."""
    return [Exited(*each) for each in holding.exits]


def saw(tx: Tx, holding: Holding, start: int, uid: str | None, exits: Sequence[Exited]) -> None:
    """Keep what a Pod says of a start, which may be a later one than a restored state knows of.

    `uid` is None of a Pod that is going: another is to come.
    """
    seen = {"start": start, "uid": uid, "exits": tuple(list(astuple(each)) for each in exits)}
    if seen != {"start": holding.start, "uid": holding.uid, "exits": holding.exits}:
        HOLDINGS.change(tx, holding.id, **seen)


def forget(tx: Tx) -> None:
    """Drop the holders that ended long enough ago."""
    ended_at = HOLDINGS.table.c.ended_at
    tx.connection.execute(HOLDINGS.table.delete().where(ended_at <= tx.now - KEPT))


def instance_of(tx: Tx) -> str:
    """What tells the objects of this cloud from those of any other: random, and a part of the state."""
    kept = read_meta(tx.connection, INSTANCE)
    if kept is None:
        kept = secrets.token_hex(8)
        write_meta(tx.connection, INSTANCE, kept)
    return kept
