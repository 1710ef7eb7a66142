"""The neighbours of the real flow of batches: uploads end at once, in two parts; a batch runs until it is cancelled."""

from collections.abc import Iterable
from typing import Any, cast

from relay_client import Cloud
from relay_operator.api.inferencebatch import InferenceBatch, PartStatus
from relay_operator.api.meta import ObjectKey
from relay_operator.engine.account import Accounts
from relay_operator.engine.backoff import RetryPolicy
from relay_operator.engine.confirmation import ConfirmationDelays
from relay_operator.engine.engine import Engine
from relay_operator.flows.batch import predicates
from relay_operator.flows.batch.act import Actor
from relay_operator.flows.batch.actions import Work
from relay_operator.flows.batch.flow import BatchFlow
from relay_operator.flows.batch.gather import Gatherer
from relay_operator.flows.batch.plan import Round, Transfer
from relay_operator.flows.batch.polls import BatchPolls, Looked
from relay_operator.flows.batch.result import Cleared, Uploaded, WorkResult
from relay_operator.flows.batch.transfers import Job, Transfers
from tests.model import asked
from tests.model.neighbours import ModelCloud, Script, batch_of

_PARTS = 2


class ModelPolls:
    """Observes each batch by its id."""

    async def look(self, cloud: Cloud, ids: Iterable[str], *, exact: bool) -> Looked:
        ours = cast(ModelCloud, cloud)
        seen = {one: ours.look(asked.Observe(one, ours.organization)) for one in ids}
        return Looked({one: batch_of(there) if isinstance(there, asked.Seen) else None for one, there in seen.items()})


class ModelTransfers:
    """Long work that is done as soon as it is needed."""

    def __init__(self) -> None:
        self.body = b""
        """The object of the pass."""

    def state(self, key: ObjectKey, job: Job) -> Transfer:
        if job.work is Work.CLEAR:
            return Transfer.DONE
        obj = InferenceBatch.model_validate_json(self.body)
        now = obj.metadata.creation_timestamp
        assert now is not None
        unsent = predicates.round_of(obj.spec, obj.status, now) is Round.UNSENT
        return Transfer.DONE if unsent and obj.metadata.deletion_timestamp is None else Transfer.IDLE

    def result(self, key: ObjectKey) -> WorkResult:
        obj = InferenceBatch.model_validate_json(self.body)
        if obj.status.completion_time is not None:
            return Cleared()
        number = obj.status.round or 1
        known = {part.part: part for part in predicates.this_round(obj.status) if part.input_file_id}
        made = (PartStatus(round=number, part=one, records=1, input_file_id=f"f{one}") for one in range(1, _PARTS + 1))
        return Uploaded(tuple(known.get(part.part, part) for part in made), _PARTS)

    def drop(self, key: ObjectKey) -> bool:
        return False


def flow(
    script: Script,
    engine: Engine,
    accounts: Accounts,
    transfers: ModelTransfers,
    policy: RetryPolicy,
    delays: ConfirmationDelays,
) -> BatchFlow:
    """Returns the real flow, without the parts that read inputs and write outputs."""
    long_work, nothing = cast(Transfers, transfers), cast(Any, None)
    gatherer = Gatherer(
        accounts,
        engine.cache,
        cast(BatchPolls, ModelPolls()),
        long_work,
        engine.clock,
        delays,
        engine.installation,
        policy.longest,
    )
    actor = Actor(
        accounts=accounts,
        transfers=long_work,
        sending=nothing,
        publishing=nothing,
        destinations=nothing,
        clock=engine.clock,
        new_token=lambda: f"t{script.ask(asked.Token())}",
        installation=engine.installation,
        leading=lambda: bool(script.ask(asked.Leads())),
        cache=engine.cache,
    )
    return BatchFlow(gatherer, actor, long_work, policy, engine.installation, 0.0, 3, engine.clock)
