"""The simulated runtime, in which nothing runs: what is wanted becomes true after the delays of the settings.

A report is a due item, written in the transaction that wants something, so a killed process loses none.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from relay_localcloud.kernel.instants import seconds
from relay_localcloud.kernel.store import Tx
from relay_localcloud.runtimes.runtime import BOOT, CLOUD_INIT, Expected, Facts, Labelled, Noun, Wanted

SNAPSHOT_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Simulated:
    """Schedules the reports of what would run; a `Runtime`."""

    tx: Tx

    @property
    def reports_by_itself(self) -> bool:
        """False: nothing runs, so there is nothing to observe."""
        return False

    def lacks(self, noun: Noun) -> str | None:
        """None: everything can be simulated."""
        return None

    def want(self, facts: Facts, holder_id: str, wanted: Wanted) -> Expected:
        """Schedule the report that the holder is as wanted; cancel pending reports if it is to be gone."""
        now, settings = self.tx.now, self.tx.settings
        match wanted:
            case Wanted.STARTED:
                placed_at = now + seconds(settings.placement_seconds)
                due_at = placed_at + seconds(settings.start_seconds)
                return Expected(placed_at, self._told(facts.started, holder_id, due_at))
            case Wanted.STOPPED:
                return Expected(due_at=self._told(facts.stopped, holder_id, now + seconds(settings.stop_seconds)))
            case Wanted.RESTARTED:
                return Expected()
            case Wanted.GONE | Wanted.DELETED:
                for fact in {fact for fact in (facts.started, facts.stopped) if fact is not None}:
                    self.tx.cancel(fact, holder_id)
                return Expected()

    def lingers(self, holder_id: str) -> bool:
        """False: nothing runs."""
        return False

    def holds_changed(self) -> None:
        """Do nothing: placement alone keeps workloads off a held node."""

    def orphans(self) -> Sequence[Labelled]:
        """None: nothing exists but the state."""
        return []

    def end_orphan(self, holder_id: str) -> bool:
        """False: there is none."""
        return False

    def take_snapshot(self, due: str, snapshot_id: str, vm_id: str) -> None:
        """Schedule the report that it is taken."""
        self.tx.schedule(self.tx.now + seconds(SNAPSHOT_SECONDS), due, snapshot_id)

    def drop_snapshot(self, due: str, snapshot_id: str) -> None:
        """Cancel the report."""
        self.tx.cancel(due, snapshot_id)

    def boot_log(self, script: str | None) -> Sequence[tuple[str, str]]:
        """The lines of a VM that booted, and ran the script if there is one."""
        booted = (BOOT, "The VM booted.")
        if script is None:
            return [booted]
        return [booted, (CLOUD_INIT, f"The script of {len(script)} characters ran as root, once for this disk.")]

    def _told(self, fact: str | None, holder_id: str, at: int) -> int | None:
        if fact is None:
            return None
        self.tx.schedule(at, fact, holder_id)
        return at
