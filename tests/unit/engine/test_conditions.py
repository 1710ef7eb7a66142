"""What conditions say of what may come by itself, and of what is held."""

from datetime import UTC, datetime, timedelta
from typing import Final

import pytest

from relay_operator.api.conditions import Condition, ConditionType, ObjectStatus, Reason
from relay_operator.api.meta import ObjectMeta
from relay_operator.engine import conditions
from relay_operator.engine.report import Report, paused
from relay_operator.engine.status import conditions_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
READY: Final = ConditionType.READY
STALLED: Final = ConditionType.STALLED
WAITS = Report("False", STALLED, Reason.SECRET_MISSING, "the Secret is missing", patient=True)


def told(before: list[Condition], report: Report, now: datetime) -> list[Condition]:
    return conditions.written(before, conditions_of(before, report, now), 1, now)


def trouble(found: list[Condition]) -> list[str]:
    return [f"{one.type} {one.reason}" for one in found if one.type != "Ready"]


def test_what_may_come_by_itself_is_waited_for_before_people_are_called() -> None:
    seen = told([], WAITS, NOW)
    assert trouble(seen) == ["Reconciling SecretMissing"]
    for minutes, expected in ((4, "Reconciling"), (5, "Stalled"), (6, "Stalled")):
        seen = told(seen, WAITS, NOW + timedelta(minutes=minutes))
        assert trouble(seen) == [f"{expected} SecretMissing"]


def test_it_is_waited_for_again_once_it_had_come() -> None:
    stalled = told(told([], WAITS, NOW), WAITS, NOW + timedelta(minutes=9))
    fine = told(stalled, Report("True", None, Reason.RUNNING, ""), NOW + timedelta(minutes=10))
    assert trouble(told(fine, WAITS, NOW + timedelta(minutes=11))) == ["Reconciling SecretMissing"]


def test_another_trouble_is_told_at_once() -> None:
    refused = Report("False", STALLED, Reason.ACCOUNT_UNAUTHORIZED, "refused")
    assert trouble(told(told([], WAITS, NOW), refused, NOW)) == ["Stalled AccountUnauthorized"]


def condition(status: str, reason: str) -> Condition:
    return Condition.model_validate({"type": "Ready", "status": status, "reason": reason, "lastTransitionTime": NOW})


@pytest.mark.parametrize(
    ("observed", "reason", "deleted", "ready"),
    [
        pytest.param(1, "Running", False, ("True", "Running"), id="the spec is the one that holds"),
        pytest.param(-1, "Running", False, ("False", "Paused"), id="the spec changed while it is paused"),
        pytest.param(1, "Paused", False, ("False", "Paused"), id="it changed before the last pass"),
        pytest.param(-1, "Running", True, ("True", "Running"), id="a deletion changes no spec"),
    ],
)
def test_ready_of_a_paused_object_is_about_the_spec_that_was_acted_on(
    observed: int, reason: str, deleted: bool, ready: tuple[str, str]
) -> None:
    before = [condition("False" if reason == "Paused" else "True", reason)]
    status = ObjectStatus(observed_generation=observed, conditions=before)
    metadata = ObjectMeta(name="a", generation=1, deletion_timestamp=NOW if deleted else None)
    found = conditions.find(told(before, paused(status, metadata), NOW), READY)
    assert found is not None
    assert (found.status, found.reason) == ready


def test_ready_that_is_kept_stays_about_the_spec_that_it_was_seen_for() -> None:
    """Otherwise `kubectl wait` takes a change that has not been sent for done."""
    before, blind = [condition("True", "Running")], Report(None, STALLED, Reason.ACCOUNT_UNAUTHORIZED, "refused")
    found = conditions.written(before, conditions_of(before, blind, NOW), 5, NOW)
    assert [(one.type, one.observed_generation) for one in found] == [(READY, 0), (STALLED, 5)]
