"""What is ended or stopped although the cloud does not show it."""

from dataclasses import dataclass
from typing import Generic

from relay_client.errors import CloudError, CloudUnavailable, Unreadable
from relay_operator.api.workload import SpecT, StatusT
from relay_operator.engine.account import moved
from relay_operator.flows.managed import predicates
from relay_operator.flows.managed.actions import STOP, Delete, Update
from relay_operator.flows.managed.look import Looker
from relay_operator.flows.managed.resource import Change, ObsT
from relay_operator.flows.managed.search import Sight
from relay_operator.flows.managed.subject import Subject
from relay_operator.flows.managed.view import Seen

_NOT_SHOWN = frozenset({Seen.MISSING, Seen.GONE})


@dataclass(frozen=True, slots=True)
class Unseen(Generic[SpecT, StatusT, ObsT]):
    """Tells what to end or stop of one kind's resources that a look did not show."""

    looker: Looker[SpecT, StatusT, ObsT]

    def unended(self, subject: Subject[SpecT, StatusT], sight: Sight[ObsT]) -> bool:
        """Whether the cloud does not show the resource, and this process has not told it to end it.

        Where only a list shows it, this holds however long the list has lacked it; elsewhere, until status says that
        it is gone. If the account does not admit the namespace, only the resource's name proves whose it is, so that
        what is not shown is not ended; nor is what was shown last as another's.
        A look that failed shows nothing, either: what this process has seen before in this cloud is then ended.
        """
        obj, memory = subject.obj, subject.memory
        if sight.observed is not None or obj.status.id in {memory.terminated[0], memory.foreign}:
            return False
        if sight.error is not None:
            return self._may_send(subject, sight.error, Delete())
        told = obj.status.state == "terminated" and not self.looker.resource.only_listed
        return subject.account.admits and sight.seen in ({Seen.MISSING} if told else _NOT_SHOWN)

    def stop(self, subject: Subject[SpecT, StatusT], sight: Sight[ObsT]) -> Change | None:
        """The stop of what costs and cannot be looked at, if this process has not sent it; None if there is none."""
        obj, sent = subject.obj, subject.memory.sent
        told = sent is not None and (sent.cloud_id, sent.name) == (obj.status.id, STOP)
        if sight.error is None or told or not self._may_send(subject, sight.error, Update(STOP)):
            return None
        return predicates.unseen_stop(self.looker.resource, obj, subject.turn.now)

    def _may_send(self, subject: Subject[SpecT, StatusT], error: CloudError, action: Delete | Update) -> bool:
        """Whether the action may be sent though the look failed: this process has seen the resource in this cloud.

        Once the cloud did not answer that, either, the action waits for a look.
        """
        obj, memory = subject.obj, subject.memory
        seen_before = memory.known[0] != "" and memory.known[0] == obj.status.id != memory.foreign
        here = not moved(obj.status.identity, subject.endpoint) and not self.looker.is_restored(obj)
        silent = isinstance(error, CloudUnavailable | Unreadable)
        return silent and subject.account.admits and seen_before and here and memory.silent != action
