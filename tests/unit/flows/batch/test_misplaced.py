"""Answers that do not fit into their ConfigMap: what warns of it, and what waits for another place."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from relay_operator.api.conditions import Condition, ConditionType, Reason
from relay_operator.api.inferencebatch import MOVABLE, InferenceBatchStatus
from relay_operator.api.meta import ObjectKey
from relay_operator.engine.account import AccountWaiting
from relay_operator.engine.actions import Nothing
from relay_operator.engine.report import Return
from relay_operator.flows.batch.actions import Record
from relay_operator.flows.batch.facts import Facts
from relay_operator.flows.batch.plan import View
from relay_operator.flows.batch.predicates import fits_nowhere, may_be_elsewhere
from relay_operator.flows.batch.publishing import unpublished
from relay_operator.flows.batch.report import doubts, report_of
from relay_operator.flows.batch.result import WorkRefused, WorkTroubled
from relay_operator.flows.batch.room import CONFIG_MAP_LIMIT, doubt, expected_bytes
from tests.unit.flows.batch.examples import NOON, batch, part, sent, status

OF_2000 = part(records=2000, size=357_000)
FITS_EXACTLY = part(records=2000, size=CONFIG_MAP_LIMIT - 2000 * 400)


def _facts(told: InferenceBatchStatus, **spec: Any) -> Facts:
    obj = batch(status=told, **spec)
    waiting = AccountWaiting(Reason.WAITING_FOR_ACCOUNT, "")
    return Facts(ObjectKey("InferenceBatch", "ns", "nightly"), obj, NOON, waiting, View(), told)


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (status(), 0),
        (status(part(records=10, size=1000)), 5000),
        (status(part(1, records=10, size=1000), part(2, records=1, size=100)), 5500),
        (status(part(1, records=10, size=1000), part(1, 2, records=10, size=1000)), 5000),
        (status(part(1, records=10, size=1000), part(2, records=10)), 0),
    ],
    ids=["nothing is read", "one part", "two parts", "sent again", "rebuilt"],
)
def test_answers_are_expected_to_be_as_long_as_their_records_and_what_is_around_them(
    told: InferenceBatchStatus, expected: int
) -> None:
    assert expected_bytes(told) == expected


def test_only_a_config_map_is_doubted_and_only_if_the_answers_are_likely_too_large() -> None:
    said = doubt(batch().spec, status(OF_2000))
    assert said is not None
    assert "about 1157000 bytes of answers are expected, and ConfigMap answers holds 1048576" in said
    assert doubt(batch().spec, status(FITS_EXACTLY)) is None
    assert doubt(batch(output={"url": "s3://b/out"}).spec, status(OF_2000)) is None


@pytest.mark.parametrize(
    ("told", "reason", "warns"),
    [
        (status(OF_2000), Reason.SUBMITTING, True),
        (status(OF_2000), Reason.RUNNING, True),
        (status(OF_2000), Reason.OUTPUT_TOO_LARGE, False),
        (status(OF_2000, completion_time=NOON), Reason.COMPLETED, False),
        (status(FITS_EXACTLY), Reason.SUBMITTING, False),
    ],
)
def test_the_warning_stands_from_before_it_is_paid_until_it_is_known(
    told: InferenceBatchStatus, reason: Reason, warns: bool
) -> None:
    assert [each.type for each in doubts(_facts(told), told, reason)] == [ConditionType.OUTPUT_MAY_NOT_FIT] * warns


def _written(kind: ConditionType, reason: Reason) -> InferenceBatchStatus:
    return status(
        sent(), conditions=[Condition(type=kind, status="True", reason=reason, message="", last_transition_time=NOON)]
    )


def test_what_is_too_large_is_not_tried_again_and_what_is_in_the_way_is() -> None:
    assert fits_nowhere(_written(ConditionType.STALLED, Reason.OUTPUT_TOO_LARGE))
    assert not fits_nowhere(_written(ConditionType.STALLED, Reason.OUTPUT_EXISTS))
    assert not fits_nowhere(_written(ConditionType.READY, Reason.OUTPUT_TOO_LARGE))
    told = status(sent())
    for reason, back, retried in [
        (Reason.OUTPUT_TOO_LARGE, Return.NEVER, False),
        (Reason.OUTPUT_EXISTS, Return.TRANSITION, True),
    ]:
        facts = replace(_facts(told), came=WorkTroubled(reason, "name another place", stalled=True))
        report = report_of(facts, Record(), Nothing(), told, unreachable=False)
        assert report is not None
        assert (report.ready, report.trouble, report.reason) == ("False", ConditionType.STALLED, reason)
        assert (report.back, report.retry is not None) == (back, retried)


def test_another_place_is_claimed_after_each_reason_that_lets_it_be_named() -> None:
    assert all(may_be_elsewhere(_written(ConditionType.READY, reason)) for reason in MOVABLE)
    assert not may_be_elsewhere(_written(ConditionType.READY, Reason.RUNNING))
    assert not may_be_elsewhere(status(sent()))


def test_paid_answers_say_where_they_are_and_whether_another_place_helps() -> None:
    obj = batch(status=status(sent(outputFileId="file_9")))
    waits = unpublished(WorkRefused(Reason.OUTPUT_TOO_LARGE, "the answers do not fit"), obj)
    assert isinstance(waits, WorkTroubled)
    assert waits.stalled
    assert "spec.output can be changed, and nothing is paid again" in waits.message
    assert waits.message.endswith("file_9")
    going = unpublished(WorkRefused(Reason.OUTPUT_UNAVAILABLE, "the namespace is being deleted"), obj)
    assert isinstance(going, WorkRefused)
    assert "spec.output" not in going.message
