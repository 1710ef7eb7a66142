"""`--progress`: prints the progress of a long run line by line, and each failure as it happens."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from _pytest.terminal import TerminalReporter

_EVERY_SECONDS: Final = 10.0
_DEEP: Final = 2
"""How many parts of a path name a folder in the report: `tests/cluster`."""


class Progress:
    """Prints the time, the tests done and failed, and the progress of each folder that is under way.

    It prints at most every 10 seconds, and whenever a folder is done.
    """

    def __init__(self, terminal: TerminalReporter) -> None:
        self._terminal = terminal
        self._start = self._told = time.monotonic()
        self._all: Counter[str] = Counter()
        self._done: Counter[str] = Counter()
        self._failed: set[str] = set()
        self._finished: set[str] = set()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Counts the tests if they run in this process."""
        self._expect(item.nodeid for item in session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: object, ids: list[str]) -> None:
        """Counts the tests if they run in workers; each worker collects all of them."""
        self._expect(ids)

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """Suppresses pytest's dots and letters, which this report replaces."""
        if report.when == "call" and report.passed:
            return "passed", "", ""
        if report.failed:
            return ("failed", "", "FAILED") if report.when == "call" else ("error", "", "ERROR")
        return None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Prints a failure in full; counts a test as done after its teardown."""
        if report.failed:
            self._failed.add(report.nodeid)
            self._terminal.write_line("")
            self._terminal.write_sep("_", f"{report.when} of {report.nodeid}", red=True)
            report.toterminal(self._terminal._tw)
        if report.when == "teardown":
            self._done[_folder(report.nodeid)] += 1
            self._tell()

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Keeps pytest from repeating the failures, which were printed in full."""
        session.config.option.tbstyle = "no"

    def _expect(self, names: Iterable[str]) -> None:
        self._all = Counter(map(_folder, names))

    def _tell(self) -> None:
        over = {folder for folder in self._done if self._done[folder] >= self._all[folder]} - self._finished
        self._finished |= over
        now = time.monotonic()
        if now - self._told < _EVERY_SECONDS and not over:
            return
        self._told = now
        under_way = [
            f"{folder.removeprefix('tests/')} {self._done[folder]}/{count}"
            for folder, count in self._all.items()
            if 0 < self._done[folder] < count
        ]
        done, count = self._done.total(), self._all.total()
        failed = f"  {len(self._failed)} failed" if self._failed else ""
        minutes, seconds = divmod(round(now - self._start), 60)
        finished = [f"{folder.removeprefix('tests/')} done" for folder in sorted(over)]
        shown = ", ".join([*finished, *under_way])
        self._terminal.write_line(f"{minutes:2}:{seconds:02}  {done:>{len(str(count))}}/{count}{failed}  {shown}")


def _folder(nodeid: str) -> str:
    return "/".join(nodeid.partition("::")[0].split("/")[:_DEEP])


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option `--progress`."""
    parser.addoption("--progress", action="store_true", help="tell how far the run is, in place of a dot a test")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Registers Progress, except in workers, whose reports reach the process that started them."""
    terminal: Any = config.pluginmanager.get_plugin("terminalreporter")
    if config.getoption("--progress") and terminal is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Progress(terminal), "progress")
