"""What `kubectl relay models` makes of GpuModels."""

from typing import Any

from relay_cli.models import for_sale, shown
from relay_cli.tables import WIDTH


def _object(of: str, **status: Any) -> dict[str, Any]:
    return {"kind": "GpuModel", "metadata": {"name": of}, "status": status}


def test_the_cheapest_comes_first_and_what_has_no_price_last() -> None:
    rows = for_sale([_object("c"), _object("b", pricePerHourCents=249), _object("a", pricePerHourCents=139)])
    assert [row.id for row in rows] == ["a", "b", "c"]


def test_two_without_a_price_are_in_the_order_of_their_names() -> None:
    assert [row.id for row in for_sale([_object("b"), _object("a")])] == ["a", "b"]


def test_the_rest_of_the_catalog_is_no_model() -> None:
    assert for_sale([_object("catalog", cpuSizes=[])]) == []


def test_no_free_gpu_is_a_0_and_what_is_not_known_a_dash() -> None:
    text = shown(for_sale([_object("h100", freeGpus=0)]))
    assert text.splitlines()[1].split() == ["h100", "-", "-", "0", "-", "-", "-"]


def test_figures_that_are_old_say_why() -> None:
    old = {
        "type": "Stalled",
        "status": "True",
        "reason": "AccountMissing",
        "lastTransitionTime": "2026-11-23T08:00:00Z",
    }
    text = shown(for_sale([_object("h100", conditions=[old | {"message": "the account is gone"}])]))
    assert text.endswith("\nThese figures are old: the account is gone\n")


def test_the_longest_names_fit_80_columns() -> None:
    text = shown(for_sale([_object("m" * 253, name="n" * 1024, freeGpus=10**6, spotFreeGpus=10**6)]))
    assert max(map(len, text.splitlines())) <= WIDTH


def test_without_models_it_says_where_they_come_from() -> None:
    assert "RELAY_CATALOG_ACCOUNT" in shown([])
