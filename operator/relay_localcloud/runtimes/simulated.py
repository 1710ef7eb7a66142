"""The runtime in which nothing runs: what is wanted comes true after the seconds that settings say.

A report is a due item, written in the transaction that wants something, so a killed process loses none.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from relay_localcloud.kernel.instants import seconds
from relay_localcloud.kernel.store import Tx
from relay_localcloud.runtimes.runtime import BOOT, CLOUD_INIT, Expected, Facts, Noun, Wanted


@dataclass(frozen=True, slots=True)
class Simulated:
    """Keeps time for all that would run; a `Runtime`."""

    tx: Tx

    @property
    def reports_by_itself(self) -> bool:
        """Nothing runs, so there is nothing to see."""
        return False

    def lacks(self, noun: Noun) -> str | None:
        """Nothing."""
        return None

    def want(self, facts: Facts, holder_id: str, wanted: Wanted) -> Expected:
        """Schedule what tells the holder that it is as wanted; what is gone is told nothing."""
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

    def boot_log(self, script: str | None) -> Sequence[tuple[str, str]]:
        """As if it had booted, and run the script."""
        booted = (BOOT, "The VM booted.")
        if script is None:
            return [booted]
        return [booted, (CLOUD_INIT, f"The script of {len(script)} characters ran as root, once for this disk.")]

    def _told(self, fact: str | None, holder_id: str, at: int) -> int | None:
        if fact is None:
            return None
        self.tx.schedule(at, fact, holder_id)
        return at
