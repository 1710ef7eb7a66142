"""The total that `kubectl relay plan` prints below its table."""

from relay_cli.plan import Row, total
from relay_operator.api.plan import PlannedAction


def _row(kind: str, now: int | None, after: int | None) -> Row:
    return Row(
        namespace="ml",
        kind=kind,
        name="one",
        action=PlannedAction.CREATE,
        reason="",
        price_per_hour_cents_now=now,
        price_per_hour_cents=after,
        loses=[],
    )


def test_the_total_counts_unknown_prices_but_not_what_has_none() -> None:
    assert total([_row("GpuPod", 0, 249), _row("SshKey", 0, None)]) == "\nnow $0.00 an hour, then $2.49 an hour\n"
    rows = [_row("GpuPod", 249, 249), _row("GpuVm", 0, None)]
    assert total(rows) == "\nnow $2.49 an hour, then $2.49 an hour and 1 without a price\n"
