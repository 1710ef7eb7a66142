"""`--passed FILE`: the tests that passed, one a line, for `python -m hack.fidelity --ran FILE`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


class Passed:
    """Keeps the names of tests that passed, on all workers, and writes them when the run is over."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._names: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test has been set up, called or torn down."""
        if report.when == "call" and report.passed:
            self._names.add(report.nodeid)
        elif report.failed:
            self._names.discard(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        """The run is over."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text("".join(f"{name}\n" for name in sorted(self._names)))


def pytest_addoption(parser: pytest.Parser) -> None:
    """`pytest --passed FILE`."""
    parser.addoption("--passed", type=Path, default=None, help="write the names of the tests that passed to a file")


def pytest_configure(config: pytest.Config) -> None:
    """Workers report to the process that started them, which alone writes."""
    path: Path | None = config.getoption("--passed")
    if path is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Passed(path), "passed")
