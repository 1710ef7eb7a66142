"""Bad values that are rendered together: helm tells all errors of the schema at once, each with its path."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.support.chart import refusal, sets

if TYPE_CHECKING:
    from pathlib import Path


class Bad(NamedTuple):
    """A value as `--set` takes it, the path that helm blames for it, and a part of what helm says of that path."""

    value: str
    path: str
    says: str


def each_of(*together: tuple[Bad, ...]) -> pytest.MarkDecorator:
    """A test for each of the values, with those that it is rendered with."""
    for beside in together:
        assert len({(bad.path, bad.says) for bad in beside}) == len(beside), "one error would do for two values"
    cases = [pytest.param(bad, beside, id=bad.value) for beside in together for bad in beside]
    return pytest.mark.parametrize(("bad", "beside"), cases)


@cache  # charts do not change during a run
def told_of(chart: Path, beside: tuple[Bad, ...]) -> dict[str, str]:
    """What helm says of these values: by path, one sentence a line."""
    said: dict[str, list[str]] = defaultdict(list)
    errors = refusal(sets(*(bad.value for bad in beside)), chart)
    for path, sentence in re.findall(r"^ *- at '([^']*)': (.+)$", errors, re.MULTILINE):
        said[path].append(sentence)
    return {path: "\n".join(sentences) for path, sentences in said.items()}
