"""Workflows are ones that GitHub takes, with least rights, and run targets that exist; a release has one version."""

from __future__ import annotations

import re
import subprocess
import tomllib
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from hack.release.package import CHARTS
from tests.support.binaries import actionlint
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.toolchain import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

GITHUB = REPOSITORY / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
every_workflow = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
OF_GITHUB = ("actions/", "docker/", "pypa/", "./")
"""Actions of these are taken by a version; those of others by the digest of a commit."""


def loaded(path: Path) -> dict[str, Any]:
    # `on` is true in YAML 1.1; as text, everything is what GitHub reads.
    document: dict[str, Any] = yaml.load(path.read_text(), Loader=yaml.BaseLoader)
    return document


def steps(path: Path) -> Iterator[dict[str, Any]]:
    document = loaded(path)
    for job in document.get("jobs", {"": document.get("runs", {})}).values():
        yield from job.get("steps", [])
        if "uses" in job:
            yield job


def test_github_would_take_them() -> None:
    command = [str(actionlint()), "-shellcheck=", "-pyflakes=", *map(str, WORKFLOWS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@every_workflow
def test_a_workflow_may_read_the_source_and_a_job_asks_for_what_else_it_needs(path: Path) -> None:
    document = loaded(path)
    assert document["permissions"] in ({}, {"contents": "read"})
    for name, job in document["jobs"].items():
        writes = {scope for scope, level in job.get("permissions", {}).items() if level == "write"}
        assert not writes or path.stem != "ci", f"{name} runs what a pull request brings"
        assert "timeout-minutes" in job or "uses" in job, f"{name} could run for hours"


@pytest.mark.parametrize("path", [*WORKFLOWS, GITHUB / "actions" / "setup" / "action.yml"], ids=lambda path: path.stem)
def test_what_runs_is_pinned(path: Path) -> None:
    for step in steps(path):
        action, _, version = step.get("uses", "").partition("@")
        if action and not action.startswith("./"):
            pinned = r"[0-9a-f]{40}" if not action.startswith(OF_GITHUB) else r"[0-9a-f]{40}|v\d+|release/v\d+"
            assert re.fullmatch(pinned, version), action


@every_workflow
def test_a_workflow_runs_targets_that_exist(path: Path) -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"\bmake ([a-z-]+)", path.read_text())) <= targets


_ON_GITHUB = {"test-node": "test-kind"}
"""The same tests on a kind cluster: GitHub's machines have cgroup v2 alone, and the project's own node needs v1."""


def test_what_every_commit_must_pass_is_what_ci_runs() -> None:
    asked = set(re.findall(r"^make (.+)$", (REPOSITORY / ".ci" / "run").read_text(), re.MULTILINE))
    run = " ".join(step.get("run", "") for step in steps(GITHUB / "workflows" / "ci.yml"))
    assert asked
    assert {one for one in asked if f"make {_ON_GITHUB.get(one, one)}" not in run} == set()


def test_every_folder_that_pins_something_is_kept_up_to_date() -> None:
    updates = loaded(GITHUB / "dependabot.yml")["updates"]
    watched = {
        (one["package-ecosystem"], folder.strip("/"))
        for one in updates
        for folder in one.get("directories", [one.get("directory")])
    }
    modules = {str(path.parent.relative_to(REPOSITORY)) for path in (REPOSITORY / "hack").rglob("go.mod")}
    packages = {str(path.parent.relative_to(REPOSITORY)) for path in (REPOSITORY / "hack").rglob("package-lock.json")}
    assert {folder for kind, folder in watched if kind == "gomod"} == modules
    assert {folder for kind, folder in watched if kind == "npm"} == packages
    assert {("pip", "requirements"), ("docker", ""), ("github-actions", "")} <= watched


@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.name)
def test_package_and_charts_have_one_version(chart: Path) -> None:
    package = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["version"]
    card = yaml.safe_load((chart / "Chart.yaml").read_text())
    assert (card["version"], card["appVersion"]) == (package, package)
    assert f"{chart.name}:{package} ." in (REPOSITORY / "Dockerfile").read_text()


def test_every_chart_is_released() -> None:
    assert {path.parent for path in (REPOSITORY / "charts").glob("*/Chart.yaml")} == set(CHARTS)
    release = loaded(GITHUB / "workflows" / "release.yml")
    assert release["jobs"]["chart"]["strategy"]["matrix"]["chart"] == [chart.name for chart in CHARTS]
