"""Amounts of Kubernetes."""

from __future__ import annotations

from decimal import Decimal

import pytest

from relay_localcloud.runtimes.kubernetes.quantities import amount


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("8", "8"),
        ("0", "0"),
        ("-1", "-1"),
        ("+0.5", "0.5"),
        (".5", "0.5"),
        ("95200m", "95.2"),
        ("1500u", "0.0015"),
        ("7n", "0.000000007"),
        ("3k", "3000"),
        ("1M", "1000000"),
        ("2G", "2000000000"),
        ("1T", "1e12"),
        ("1P", "1e15"),
        ("1E", "1e18"),
        ("4Ki", "4096"),
        ("1.5Mi", "1572864"),
        ("800Gi", "858993459200"),
        ("1Ei", "1152921504606846976"),
        ("1e3", "1000"),
        ("12E-1", "1.2"),
    ],
)
def test_a_quantity_is_read_exactly(written: str, meant: str) -> None:
    assert amount(written) == Decimal(meant)


@pytest.mark.parametrize("written", ["", "m", "1 Gi", "1Ki1", "1K", "one", "1e", "0x10"])
def test_what_is_no_quantity_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match="not a quantity of Kubernetes"):
        amount(written)
