"""Whose a resource is, and what is kept of that."""

from datetime import UTC, datetime, timedelta

import pytest

from relay_operator.api.meta import ObjectKey
from relay_operator.engine.intent import cloud_name
from relay_operator.flows.account.owners import MOST_BYTES, MOST_VALUES, Evidence, Holder, Owners, owner_of, read
from relay_operator.flows.account.spend import Owner

NOW = datetime(2026, 3, 17, tzinfo=UTC)
UID, OTHER_UID, FORMER_UID = (f"{each}-5678-4ef0-9abc-def012345678" for each in ("1234abcd", "abcd1234", "99887766"))
OURS = Holder(ObjectKey("GpuPod", "team-a", "train"), UID, "research")
FORGER = Holder(ObjectKey("GpuPod", "team-b", "thief"), OTHER_UID, "theirs")
A, B = OURS.owner, FORGER.owner
GIVEN, RESTORED = (cloud_name("team-a", "train", uid, "c0ffe", 1) for uid in (UID, FORMER_UID))
ELSEWHERE = cloud_name("team-a", "train", FORMER_UID, "beef0", 1)


def whose(
    name: str,
    *living: Holder,
    departed: tuple[Holder, ...] = (),
    known: Owner | None = None,
    before: Owner | None = None,
    adoptable: bool = False,
) -> Owner | None:
    evidence = Evidence(name, living, departed, known, before)
    return owner_of(evidence, "c0ffe", adoptable=adoptable)


@pytest.mark.parametrize("adoptable", [True, False])
def test_a_name_that_an_object_gave_shows_whose_it_is_and_no_status_changes_that(adoptable: bool) -> None:
    assert whose(GIVEN, FORGER, OURS, adoptable=adoptable) == A
    assert whose(GIVEN, OURS, known=B, adoptable=adoptable) == A
    assert whose(GIVEN, FORGER, departed=(FORGER, OURS), adoptable=adoptable) == A


def test_what_has_the_name_of_an_object_that_is_gone_is_of_nobody_who_forges_its_id() -> None:
    assert whose(GIVEN, FORGER) is None
    assert whose(GIVEN, FORGER, departed=(FORGER,)) is None
    assert whose(GIVEN, FORGER, known=A) == A
    assert whose(GIVEN, FORGER, before=A) == A


def test_what_has_the_name_of_another_object_may_have_been_taken_over_where_the_account_allows_it() -> None:
    assert whose(GIVEN, FORGER, adoptable=True) == B
    assert whose(GIVEN, FORGER, adoptable=True, before=A) == B
    assert whose(GIVEN, FORGER, adoptable=True, known=A) == A


def test_what_a_restored_object_gave_with_its_former_uid_is_its_own() -> None:
    assert whose(RESTORED, OURS) == A
    assert whose(RESTORED, FORGER) is None


@pytest.mark.parametrize("name", ["by-hand", "", ELSEWHERE])
def test_what_was_adopted_is_of_whom_it_was_found_with_first(name: str) -> None:
    assert whose(name) is None
    assert whose(name, OURS) == A
    assert whose(name, departed=(OURS,)) == A
    assert whose(name, FORGER, known=A) == A
    assert whose(name, OURS, FORGER) is None
    assert whose(name, OURS, FORGER, before=A) == A
    assert whose(name, FORGER, before=A) == B
    assert whose(name, before=A) == A


def test_what_stays_with_a_namespace_takes_the_cost_centre_that_its_object_has() -> None:
    assert whose("by-hand", OURS, known=Owner("team-a", "former")) == A
    assert whose("by-hand", departed=(FORGER, OURS), known=Owner("team-a", "former")) == A
    assert whose("by-hand", known=Owner("team-a", "former")) == Owner("team-a", "former")


def test_the_books_of_a_month_are_those_of_the_last_in_the_next_and_of_none_later() -> None:
    march = Owners("org-1", "2026-03", {"pod-1": A}, {"pod-0": B})
    assert march.at("org-1", NOW + timedelta(days=14)) == march
    april = march.at("org-1", NOW + timedelta(days=15))
    assert april == Owners("org-1", "2026-04", {}, {"pod-1": A})
    assert march.at("org-1", NOW + timedelta(days=45)) == Owners("org-1", "2026-05")
    january = Owners("org-1", "2025-12", {"pod-1": A}).at("org-1", datetime(2026, 1, 1, tzinfo=UTC))
    assert january == Owners("org-1", "2026-01", {}, {"pod-1": A})


def test_the_ids_of_one_organization_say_nothing_of_anothers() -> None:
    assert Owners("org-1", "2026-03", {"pod-1": A}, {"pod-0": B}).at("org-2", NOW) == Owners("org-2", "2026-03")


def test_what_is_kept_is_read_as_it_was() -> None:
    owners = Owners("org-1", "2026-03", {"pod-1": A, "pod-2": B, "pod-3": A}, {"pod-0": Owner("team-c", "")})
    assert read(owners.text(), "") == owners
    assert (
        owners.text()
        == Owners("org-1", "2026-03", dict(sorted(owners.current.items(), reverse=True)), owners.last).text()
    )


def test_an_edited_text_has_nothing_paid_by_another_namespace_through_an_account_of_this() -> None:
    owners = Owners("org-1", "2026-03", {"pod-1": A, "pod-2": B}, {"pod-0": B})
    assert read(owners.text(), "team-a") == Owners("org-1", "2026-03", {"pod-1": A}, {})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"organization":"org-1","month":"2026-03","current":[{"namespace":"a"}],"last":[]}',
        Owners("org-1", "2026-03", {"pod-1": Owner("a" * 63, "")}).text().replace("aaa", "aaaa", 1),
        Owners("org-1", "2026-03", {"pod/1": A}).text(),
        Owners("org-1", "2026-03", last={"p" * 254: A}).text(),
    ],
)
def test_what_is_no_book_is_not_read(text: str) -> None:
    assert read(text, "") is None


def test_a_name_of_63_characters_is_read() -> None:
    owners = Owners("org-1", "2026-03", {"pod-1": Owner("a" * 63, "b" * 63)})
    assert read(owners.text(), "") == owners


def test_what_has_room_is_kept_and_then_the_last_month_goes_before_what_cost_least_in_this() -> None:
    current = {f"pod-{number:04}": A for number in range(100)}
    owners = Owners("org-1", "2026-03", current, {"pod-x": B})
    cents = {cloud_id: number for number, cloud_id in enumerate(current)}
    size, alone = len(owners.text()), len(Owners("org-1", "2026-03", current).text())
    assert owners.fitting(cents, size) == owners.fitting(cents, size + 1) == owners
    assert owners.fitting(cents, size - 1) == owners.fitting(cents, alone) == Owners("org-1", "2026-03", current)
    less = owners.fitting(cents, alone - 1)
    assert len(less.text()) < alone
    assert 0 < len(less.current) < 100
    assert set(less.current) == set(sorted(current)[-len(less.current) :])
    assert owners.fitting({}, 1) == Owners("org-1", "2026-03")


def test_the_books_of_twenty_thousand_resources_fit_into_a_config_map() -> None:
    current = {f"cluster_{number:016x}": Owner(f"team-{number % 50}", "") for number in range(20_000)}
    owners = Owners("org-1", "2026-03", current, {"pod-0": A})
    assert owners.fitting({}) == owners


def test_a_book_has_so_many_ids_and_what_cost_most_is_kept_then_what_was_known_first() -> None:
    known = dict.fromkeys(("pod-3", "pod-2"), A)
    owners = Owners("org-1", "2026-03", known).with_those({"pod-1": A, "pod-0": A, "pod-4": B})
    assert owners.fitting({}, most_values=5 + 2 * 4) == owners
    assert set(owners.fitting({"pod-0": 1}, most_values=4 + 4).current) == {"pod-0", "pod-3", "pod-2", "pod-1"}
    assert set(owners.fitting({"pod-0": 1}, most_values=4 + 2).current) == {"pod-0", "pod-3"}
    assert set(owners.fitting({"pod-4": 1}, most_values=4 + 2).current) == {"pod-4"}
    assert owners.fitting({}, most_values=-1) == Owners("org-1", "2026-03")


def test_the_fullest_book_is_read_and_a_fuller_one_is_not() -> None:
    few = {f"p{number}": Owner("team-a", f"c{number % 2}") for number in range(MOST_VALUES)}
    full = Owners("org-1", "2026-03", few, {"pod-0": A}).fitting({})
    assert (full.last, len(full.current)) == ({}, MOST_VALUES - 2 * 4)
    assert read(full.text(), "") == full
    assert read(full.with_those({f"q{number}": A for number in range(8)}).text(), "") is None
    many = Owners("org-1", "2026-03", {f"p{number}": Owner("a", f"{number}") for number in range(MOST_VALUES)})
    full = many.fitting({})
    assert len(full.current) == MOST_VALUES // 5
    assert read(full.text(), "") == full


def test_the_size_of_a_book_is_known_before_it_is_written() -> None:
    odd = [Owner("team-ä", '"'), Owner("team-b", "\n\\"), Owner("team-b", "\x7f\u2028")]
    for current, last in ((5, 4), (3, 0), (0, 1)):
        ids = [{f"pod-{number}": odd[number % 3] for number in range(each)} for each in (current, last)]
        owners = Owners('org-"1"', "2026-03", *ids)
        size = len(owners.text().encode())
        assert owners.fitting({}, size) == owners
        assert owners.fitting({}, size - 1) != owners


def test_what_costs_least_goes_until_the_text_fits_and_no_more() -> None:
    long = {f"{number:05}".rjust(200, "x"): Owner("team-a", f"c{number % 7}") for number in range(5_000)}
    size = len(Owners("org-1", "2026-03", long).fitting({}).text())
    assert MOST_BYTES - 203 < size <= MOST_BYTES


def test_the_ids_of_one_owner_share_it() -> None:
    some, others = ({f"{kind}-{number}": Owner("team-a", "c") for number in range(9)} for kind in ("pod", "vm"))
    owners = Owners("org-1", "2026-03", some).with_those(others)
    kept = read(owners.text(), "")
    assert kept is not None
    for each in (owners, kept):
        assert len({id(owner) for owner in each.current.values()}) == 1


def test_a_clock_that_goes_back_into_the_last_month_forgets_no_owner() -> None:
    owner = Owner("team-a", "")
    november = Owners("org-1", "2026-11", current={"pod-1": owner})
    december = november.at("org-1", datetime(2026, 12, 1, 0, 0, 1, tzinfo=UTC))
    assert december.at("org-1", datetime(2026, 11, 30, 23, 59, 59, tzinfo=UTC)).last == {"pod-1": owner}
    assert december.at("org-1", datetime(2026, 12, 1, 0, 0, 3, tzinfo=UTC)) == december
    assert december.at("org-1", datetime(2026, 1, 31, tzinfo=UTC)).month == "2026-01"
