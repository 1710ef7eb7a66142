"""What would be done, in the words of `status.plan`: an answer for each action that can be held back."""

from dataclasses import replace
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import cast, get_args

import pytest
from pydantic import JsonValue

from relay_client import Cloud
from relay_operator.api.conditions import Reason
from relay_operator.api.plan import PlannedAction
from relay_operator.api.workload import Former
from relay_operator.engine.actions import Expire, Keep, Nothing, Release
from relay_operator.flows.managed import actions
from relay_operator.flows.managed.actions import RESTART, START, STOP, Held, Propose
from relay_operator.flows.managed.facts import Facts
from relay_operator.flows.managed.funding import Funded
from relay_operator.flows.managed.proposal import proposal, sentence
from relay_operator.flows.managed.report import report_of
from relay_operator.flows.managed.resource import Change
from relay_operator.flows.managed.view import Demand, Gate, Recovery, Seen, View
from relay_operator.flows.wiring import Parts
from relay_operator.kinds.apikey import ApiKey, ApiKeys
from tests.unit.flows.managed.facts import INTENT, NOW, PODS, PodFacts, account, ago, pod, record

READY = View(seen=Seen.READY, plan_only=True)
GOING = replace(READY, demand=Demand.DELETE)
PLANS: dict[str, tuple[Held, View, PlannedAction, str, int | None, bool]] = {
    "create": (actions.Create(), View(), PlannedAction.CREATE, "nothing of it", 7, False),
    "resend": (actions.Resend(), View(), PlannedAction.CREATE, "the answer to its create is lost", 7, False),
    "discard": (actions.Discard(), View(), PlannedAction.RECREATE, "and its value with it", 7, False),
    "replace": (
        actions.Replace(),
        replace(READY, recovery=Recovery.RECREATE),
        PlannedAction.RECREATE,
        "recovery: recreate",
        7,
        True,
    ),
    "replacing": (actions.Delete(), replace(READY, replacing=True), PlannedAction.RECREATE, "was begun", 7, True),
    "forget": (actions.Forget(), replace(READY, seen=Seen.GONE), PlannedAction.RECREATE, "was begun", 7, False),
    "aside": (actions.SetAside(), READY, PlannedAction.RECREATE, "what it is made from has changed", 7, False),
    "former": (actions.EndFormer(), READY, PlannedAction.DELETE, "nothing uses pod-0 any more", 6, False),
    "switch over": (actions.SwitchOver(), READY, PlannedAction.UPDATE, "and replaces the old one", 7, False),
    "delete": (actions.Delete(), GOING, PlannedAction.DELETE, "is being deleted", 0, True),
    "stop to go": (actions.Update(STOP), GOING, PlannedAction.STOP, "is being deleted", 0, True),
    "expire": (Expire(), replace(READY, seen=Seen.STOPPED), PlannedAction.DELETE, "ttlSecondsAfterStopped", 0, True),
    "release": (Release(), GOING, PlannedAction.DELETE, "pod-1 stays in the cloud", 6, False),
    "recover": (
        actions.Update(START),
        replace(READY, recovery=Recovery.RESTART),
        PlannedAction.START,
        "recovery: start",
        7,
        False,
    ),
    "restart": (
        actions.Update(RESTART),
        replace(READY, recovery=Recovery.RESTART),
        PlannedAction.UPDATE,
        "recovery: restart",
        7,
        True,
    ),
    "scale": (actions.Update("scale"), READY, PlannedAction.SCALE, "scale 3", 7, False),
    "in place": (
        actions.Update("visibility"),
        replace(READY, seen=Seen.STOPPED),
        PlannedAction.UPDATE,
        "visibility",
        0,
        False,
    ),
}


async def _never(_cloud: Cloud) -> None:
    raise AssertionError("a plan sends nothing")


@pytest.mark.parametrize("name", PLANS)
def test_each_says_what_why_at_what_price_and_with_what_loss(name: str) -> None:
    held, view, action, why, price, loses = PLANS[name]
    status: dict[str, JsonValue] = {"id": "pod-1", "cloudName": INTENT.name, "pricePerHourCents": 5}
    former = Former(id="pod-0", name="former")
    to = {
        "scale": Change("scale", Reason.SCALING, _never, to="3"),
        "in place": Change("visibility", Reason.UPDATING, _never),
    }
    facts: PodFacts = Facts(
        PODS,
        pod().key,
        pod(status=status),
        NOW,
        account(),
        view,
        INTENT,
        record(pricePerHourCents=6),
        former=former,
        funded=Funded(quote=7),
        change=to.get(name),
    )
    plan = proposal(facts, Propose(held))
    assert (plan.action, plan.price_per_hour_cents, bool(plan.loses)) == (action, price, loses)
    assert why in plan.reason
    assert plan.reason in sentence(plan)


def test_what_expires_and_stays_in_the_cloud_loses_nothing() -> None:
    kept = pod({"deletionPolicy": "Orphan"}, {"id": "pod-1"})
    facts: PodFacts = Facts(PODS, kept.key, kept, NOW, account(), replace(READY, seen=Seen.STOPPED))
    assert proposal(facts, Propose(Expire())).loses is None


def test_every_action_that_is_held_back_has_its_plan() -> None:
    assert {type(held) for held, *_ in PLANS.values()} == set(get_args(Held))


def test_a_value_that_was_shown_once_is_lost_with_its_record_which_costs_nothing() -> None:
    settings, engine = SimpleNamespace(poll_settled_seconds=300.0), SimpleNamespace(clock=lambda: 0.0)
    keys = ApiKeys(cast("Parts", SimpleNamespace(settings=settings, engine=engine)))
    metadata = {"name": "ci", "namespace": "team-a"}
    key = ApiKey.model_validate(
        {"metadata": metadata, "spec": {"secretName": "ci-key", "scopes": ["vms:read"]}, "status": {"id": "k"}}
    )
    plan = proposal(Facts(keys, key.key, key, NOW, account(), GOING), Propose(actions.Delete()))
    assert plan.loses == ["k is ended", "the value in its Secret is no longer valid"]
    assert plan.price_per_hour_cents is None
    nothing = proposal(Facts(keys, key.key, key, NOW, account(), READY), Keep(), "as asked")
    assert (nothing.action, nothing.reason, nothing.price_per_hour_cents) == (PlannedAction.NONE, "as asked", None)


def test_a_price_that_the_cloud_does_not_tell_is_that_of_what_there_is_now() -> None:
    was = pod(status={"id": "pod-1", "pricePerHourCents": 5})
    facts: PodFacts = Facts(PODS, was.key, was, NOW, account(), READY, funded=Funded(price=9))
    assert proposal(facts, Keep()).price_per_hour_cents == 9
    assert proposal(replace(facts, funded=Funded()), Keep()).price_per_hour_cents == 5


@pytest.mark.parametrize(
    ("seen", "status", "deadline"),
    [
        (Seen.STOPPED, {"state": "stopped", "stateSince": ago(86400)}, NOW + timedelta(days=6)),
        (Seen.READY, {"state": "interrupted", "deletionDeadline": ago(-60)}, None),
    ],
)
def test_what_the_cloud_is_about_to_delete_is_told_beside_a_plan(
    seen: Seen, status: dict[str, JsonValue], deadline: datetime | None
) -> None:
    obj = pod(status={"id": "pod-1", "nextAttemptTime": ago(-60), **status})
    facts: PodFacts = Facts(PODS, obj.key, obj, NOW, account(), replace(GOING, seen=seen))
    report = report_of(facts, Propose(actions.Delete()), Nothing(), unreachable=False)
    assert report is not None
    assert (report.deletion_deadline, report.next_attempt) == (deadline, None)
    held = replace(facts, view=replace(facts.view, gate=Gate.LATER))
    report = report_of(held, Propose(actions.Delete()), Nothing(), unreachable=False)
    assert report is not None
    assert report.next_attempt == NOW + timedelta(minutes=1)
