"""The small pure parts: waits, names, fingerprints, unclaimed ids, conditions, memories, accounts, facts."""

from datetime import UTC, datetime, timedelta

import pytest
from pydantic import JsonValue

from relay_operator.api.conditions import Condition, ConditionType, Reason
from relay_operator.api.meta import CreateIntent, ObjectKey
from relay_operator.api.references import AccountKind, AccountRef
from relay_operator.engine import conditions
from relay_operator.engine import intent as intents
from relay_operator.engine.account import AccountWaiting, pinned
from relay_operator.engine.backoff import Backoff, jittered
from relay_operator.engine.conditions import MESSAGE_LIMIT, Wanted
from relay_operator.engine.intent import MAX_NAME, Unordered, changed_fields, cloud_name, fingerprints
from relay_operator.engine.memory import MOST_EVENTS, Memories, Memory
from relay_operator.engine.unclaimed_ids import UnclaimedIds
from relay_operator.flows.managed.facts import Facts
from relay_operator.flows.managed.view import View
from relay_operator.kinds.gpupod import GpuPod, GpuPods, GpuPodSpec, GpuPodStatus
from relay_wire.vms import VmRecord

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
UID = "1234abcd-5678-90ef-aaaa-bbbbbbbbbbbb"


@pytest.mark.parametrize(
    ("failures", "least", "most"),
    [(0, 1.0, 2.0), (1, 1.0, 2.0), (2, 2.0, 4.0), (5, 16.0, 32.0), (9, 150.0, 300.0), (10_000, 150.0, 300.0)],
)
def test_backoff_doubles_up_to_its_limit_with_its_upper_half_at_random(
    failures: int, least: float, most: float
) -> None:
    backoff = Backoff(initial=2.0, limit=300.0)
    assert backoff.after(failures, lambda: 0.0) == least
    assert backoff.after(failures, lambda: 1.0) == most


def test_an_interval_is_varied_to_either_side() -> None:
    assert jittered(100.0, 0.2, lambda: 0.0) == 80.0
    assert jittered(100.0, 0.2, lambda: 0.5) == 100.0
    assert jittered(100.0, 0.2, lambda: 1.0) == 120.0


NAMES: dict[str, tuple[str, str, int, str]] = {
    "the first attempt": ("team-a", "train", 1, "team-a-train-1234abcd56-c0ffe"),
    "a later attempt": ("team-a", "train", 3, "team-a-train-1234abcd56-c0ffe-3"),
    "dots and capitals": ("Team", "my.Pod_x", 1, "team-my-pod-x-1234abcd56-c0ffe"),
    "too long": ("n" * 40, "p" * 253, 1, "n" * 40 + "-" + "p" * 5 + "-1234abcd56-c0ffe"),
    "cut at a hyphen": ("n" * 45, "p", 1, "n" * 45 + "-1234abcd56-c0ffe"),
}


@pytest.mark.parametrize(("namespace", "name", "attempt", "expected"), NAMES.values(), ids=NAMES)
def test_a_cloud_name_is_readable_safe_and_short(namespace: str, name: str, attempt: int, expected: str) -> None:
    made = cloud_name(namespace, name, UID, "c0ffe", attempt)
    assert made == expected
    assert len(made) <= MAX_NAME


def test_cloud_names_of_namesakes_differ() -> None:
    assert cloud_name("a", "b", UID, "c0ffe", 1) != cloud_name("a", "b", "99" + UID, "c0ffe", 1)


def test_fingerprints_name_the_fields_that_changed() -> None:
    before: dict[str, JsonValue] = {"image": "a", "env": [{"name": "x", "value": "1"}], "count": 1}
    recorded = fingerprints(before)
    assert changed_fields(recorded, before) == ()
    assert changed_fields(recorded, {**before, "image": "b", "count": 2}) == ("count", "image")
    assert changed_fields(recorded, {**before, "addedLater": True}) == ()
    assert changed_fields("", {**before, "image": "b"}) == ()


def test_fingerprints_do_not_depend_on_order_and_do_not_show_values() -> None:
    assert fingerprints({"b": {"y": 1, "x": 2}, "a": "s3cret"}) == fingerprints({"a": "s3cret", "b": {"x": 2, "y": 1}})
    assert "s3cret" not in fingerprints({"a": "s3cret"})


def test_fingerprints_are_those_that_objects_have_recorded() -> None:
    fields: dict[str, JsonValue] = {
        "image": "pytorch/pytorch:2.9.0",
        "word": "Größe\x7f",
        "count": 1,
        "public": True,
        "none": None,
        "share": 0.5,
        "env": [{"name": "É", "value": "3"}],
        "ssh": [],
        "nested": {"b": 1, "a": True},
    }
    recorded = (
        "count=6b86b273,env=51e39599,image=346c4ac6,nested=a3f44886,none=74234e98,public=b5bea41b,share=d2cbad71,"
        "ssh=4f53cda1,word=aa820e6b"
    )
    assert fingerprints(fields) == recorded
    assert fingerprints({"count": True, "share": False}) != fingerprints({"count": 1, "share": 0})


def test_items_without_an_order_are_those_recorded_in_any_order_or_as_the_spec_had_them() -> None:
    items: list[JsonValue] = [{"name": "b", "value": "2"}, {"name": "a", "value": "1"}]
    recorded, as_written = fingerprints({"env": Unordered(items)}), fingerprints({"env": items})
    assert changed_fields(recorded, {"env": Unordered(reversed(items))}) == ()
    assert changed_fields(as_written, {"env": Unordered(items)}) == ()
    assert changed_fields(recorded, {"env": Unordered(items[:1])}) == ("env",)


@pytest.mark.parametrize(("length", "remembered"), [(128, 1), (129, 0), (16_384, 0)])
def test_only_short_texts_of_specs_are_remembered(length: int, remembered: int) -> None:
    intents._remembered.cache_clear()
    fields: dict[str, JsonValue] = {"cloudInit": "x" * length}
    assert changed_fields(fingerprints(fields), fields) == ()
    assert changed_fields(fingerprints(fields), {"cloudInit": "x" * (length - 1) + "y"}) == ("cloudInit",)
    assert intents._remembered.cache_info().currsize == 2 * remembered


def test_of_the_names_of_unclaimed_ids_so_much_is_kept_as_one_of_ours_may_have() -> None:
    unclaimed = UnclaimedIds()
    unclaimed.learn("a", "n" * 4096, "w" * 4096)
    assert list(unclaimed.names()) == [("a", "n" * 253)]
    assert list(unclaimed.names(but="w" * 253)) == []
    assert list(unclaimed.nameless()) == []


def test_unclaimed_ids_are_looked_up_once_newest_first() -> None:
    unclaimed = UnclaimedIds()
    for cloud_id in ("a", "b", "c", "a"):
        unclaimed.add(cloud_id)
    assert list(unclaimed.nameless()) == ["a", "c", "b"]
    unclaimed.learn("c", "train-1")
    assert list(unclaimed.nameless()) == ["a", "b"]
    assert (unclaimed.named("train-1"), unclaimed.named("train-2")) == ("c", None)


def test_unclaimed_ids_are_bounded_and_the_oldest_go() -> None:
    unclaimed = UnclaimedIds(limit=2)
    for cloud_id in ("a", "b", "c"):
        unclaimed.add(cloud_id)
    assert list(unclaimed.nameless()) == ["c", "b"]


@pytest.mark.parametrize("name", [None, "", "train-1"])
def test_discarding_tells_whether_an_id_had_been_seen(name: str | None) -> None:
    unclaimed = UnclaimedIds()
    unclaimed.add("a")
    if name is not None:
        unclaimed.learn("a", name)
    assert [unclaimed.discard("a"), unclaimed.discard("a")] == [True, False]


def condition(status: str = "True", **fields: object) -> Condition:
    return Condition.model_validate(
        {"type": "Ready", "status": status, "reason": "Running", "lastTransitionTime": NOW, **fields}
    )


@pytest.mark.parametrize(("status", "moved"), [("True", False), ("False", True)])
def test_a_condition_keeps_its_time_while_its_status_stays(status: str, moved: bool) -> None:
    later = NOW + timedelta(hours=1)
    wanted = Wanted(ConditionType.READY, "True" if status == "True" else "False", Reason.DEGRADED, "one is ill")
    (written,) = conditions.written([condition()], [wanted], 7, later)
    assert written.last_transition_time == (later if moved else NOW)
    assert (written.reason, written.message, written.observed_generation) == ("Degraded", "one is ill", 7)


def test_exactly_the_wanted_conditions_are_written_in_their_order() -> None:
    wanted = [Wanted(ConditionType.READY, "False", Reason.FAILED), Wanted(ConditionType.STALLED, "True", Reason.FAILED)]
    before = [condition(type="Reconciling"), condition()]
    written = conditions.written(before, wanted, 1, NOW)
    assert [item.type for item in written] == ["Ready", "Stalled"]
    assert conditions.find(written, ConditionType.RECONCILING) is None


@pytest.mark.parametrize("length", [MESSAGE_LIMIT, MESSAGE_LIMIT + 1, 10_000])
def test_a_message_is_cut_where_it_is_too_long(length: int) -> None:
    (written,) = conditions.written([], [Wanted(ConditionType.READY, "True", Reason.RUNNING, "x" * length)], 1, NOW)
    assert len(written.message) == MESSAGE_LIMIT
    assert written.message.endswith("…") == (length > MESSAGE_LIMIT)


def test_a_namesake_of_another_uid_is_not_remembered() -> None:
    memories, key = Memories(Memory), ObjectKey("GpuPod", "team-a", "train")
    first = memories.of(key, "uid-1")
    assert memories.of(key, "uid-1") is first
    assert memories.of(key, "uid-2") is not first
    memories.drop(key)
    memories.drop(key)
    assert memories.of(key, "uid-2").uid == "uid-2"


def test_an_object_has_so_many_events_at_once_and_then_one_in_five_minutes() -> None:
    memory = Memory("uid-1")
    moments = [*[10.0] * (MOST_EVENTS + 1), 309.0, 310.0, 310.0, *[1e6] * (MOST_EVENTS + 1)]
    burst = [True] * MOST_EVENTS + [False]
    assert [memory.may_announce(now) for now in moments] == [*burst, False, True, False, *burst]


OWN, SHARED = (AccountRef(kind=kind, name="x") for kind in AccountKind)


def intent(account: str) -> CreateIntent:
    return CreateIntent(token="t", name="n", attempt=1, spec_hash="", started_at=NOW, account=account)


@pytest.mark.parametrize(
    ("ref", "recorded", "sent_with", "asked"),
    [
        (OWN, SHARED, "CloudAccount/other", SHARED),
        (OWN, None, "ClusterCloudAccount/x", SHARED),
        (OWN, None, "", OWN),
        (OWN, None, None, OWN),
        (None, None, None, None),
    ],
    ids=["where it exists", "where it may exist", "an old intent", "nothing exists", "the default"],
)
def test_the_account_to_ask(
    ref: AccountRef | None, recorded: AccountRef | None, sent_with: str | None, asked: AccountRef | None
) -> None:
    assert pinned(ref, recorded, None if sent_with is None else intent(sent_with)) == asked


def test_nothing_is_done_in_the_cloud_without_an_account() -> None:
    obj = GpuPod.model_validate({"metadata": {"name": "train"}, "spec": {"image": "x"}})
    waiting = AccountWaiting(Reason.ACCOUNT_MISSING, "none")
    facts: Facts[GpuPodSpec, GpuPodStatus, VmRecord] = Facts(GpuPods(), obj.key, obj, NOW, waiting, View())
    with pytest.raises(AssertionError, match="without an account"):
        _ = facts.usable_account
