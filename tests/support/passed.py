"""`--passed FILE`: writes the tests that passed, one per line, for `python -m hack.fidelity --ran FILE`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


class Passed:
    """Collects the ids of tests that passed, from all workers, and writes them at the end of the run."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._names: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Adds a test that passed; removes it if its teardown fails."""
        if report.when == "call" and report.passed:
            self._names.add(report.nodeid)
        elif report.failed:
            self._names.discard(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        """Writes the sorted ids, one per line."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text("".join(f"{name}\n" for name in sorted(self._names)))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option `--passed FILE`."""
    parser.addoption("--passed", type=Path, default=None, help="write the names of the tests that passed to a file")


def pytest_configure(config: pytest.Config) -> None:
    """Registers Passed, except in workers, whose reports reach the process that started them."""
    path: Path | None = config.getoption("--passed")
    if path is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Passed(path), "passed")
