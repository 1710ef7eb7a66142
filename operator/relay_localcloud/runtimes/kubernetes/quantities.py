"""Kubernetes quantities, such as `95200m`, `800Gi` and `1e3`."""

import re
from decimal import Decimal
from typing import Final

_FORM: Final = re.compile(r"([+-]?[0-9.]+)(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?[0-9]+))?")
_DECIMAL: Final = {suffix: Decimal(1000) ** power for power, suffix in enumerate("num_kMGTPE", start=-3)}
_BINARY: Final = {f"{suffix}i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", start=1)}
_UNITS: Final = {**_DECIMAL, **_BINARY}


def amount(text: str) -> Decimal:
    """Parse a quantity. Raises ValueError if the text is not one."""
    form = _FORM.fullmatch(text)
    if form is None:
        raise ValueError(f"not a quantity of Kubernetes: {text!r}")
    number, unit, exponent = form.groups()
    return Decimal(number) * (_UNITS[unit] if unit else Decimal(10) ** int(exponent or 0))
