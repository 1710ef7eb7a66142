"""The second distribution, built and installed: its fixture in the tests of others."""

import os
import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest
import yaml

from relay_localcloud.__main__ import _parser

_ROOT = Path(__file__).resolve().parents[3]
_DISTRIBUTION = _ROOT / "distributions" / "localcloud"
_ISOLATED = """
import pytest

SEEN = []

@pytest.mark.parametrize("turn", [1, 2])
def test_each_finds_a_fresh_cloud(localcloud, turn):
    assert localcloud.organization_id not in SEEN
    SEEN.append(localcloud.organization_id)
    assert localcloud.control("GET", "/faults")["items"] == []
    assert localcloud.requests() == []
    before = localcloud.control("GET", "/clock")["now"]
    assert localcloud.advance(3600)["now"] > before
    localcloud.fault("GET /v1/whoami", {"status": 503})

def test_answers_that_are_not_json_are_texts(localcloud):
    vm = localcloud.call("POST", f"/v1/orgs/{localcloud.organization_id}/vms/create", {"name": "box"})
    assert localcloud.call("GET", f"/v1/vms/{vm['id']}/logs") == {}
    localcloud.advance(60)
    assert "The VM booted." in localcloud.call("GET", f"/v1/vms/{vm['id']}/logs")
    assert "/vms/create" in localcloud.control("GET", "/audit/export")

def test_reset_ends_faults_and_the_organization(localcloud):
    localcloud.fault("POST /v1/pods", {"status": 503})
    again = localcloud.reset()
    assert again.organization_id != localcloud.organization_id
    assert again.control("GET", "/faults")["items"] == []
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter that has the wheel, and sees what is installed here."""
    folder = tmp_path_factory.mktemp("distribution")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
    built = ("--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(_DISTRIBUTION))
    subprocess.run((*pip, "wheel", *built), check=True)
    (wheel,) = folder.glob("relay_localcloud-*.whl")
    venv.create(folder / "venv", with_pip=False, symlinks=True)
    interpreter = folder / "venv" / "bin" / "python"
    subprocess.run((*pip, "--python", str(interpreter), "install", "--no-deps", str(wheel)), check=True)
    (packages,) = (folder / "venv" / "lib").glob("python3*/site-packages")
    (packages / "present.pth").write_text(f"{Path(pytest.__file__).parents[1]}\n")
    return interpreter


def _passed(python: Path, folder: Path, text: str, *options: str) -> str:
    (folder / "test_it.py").write_text(text)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "PYTHONPATH"))}
    strict = ("-W", "error", "-p", "no:asyncio", "-p", "no:cacheprovider")  # as projects that fail on each warning
    command = (str(python), "-m", "pytest", *strict, *options, "test_it.py")
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_example_of_the_page_passes(python: Path, tmp_path: Path) -> None:
    page = (_ROOT / "docs" / "localcloud" / "testing.md").read_text()
    (example,) = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    assert "2 passed" in _passed(python, tmp_path, example)


def test_tests_are_isolated(python: Path, tmp_path: Path) -> None:
    assert "4 passed" in _passed(python, tmp_path, _ISOLATED)


def test_each_worker_has_a_cloud(python: Path, tmp_path: Path) -> None:
    assert "4 passed" in _passed(python, tmp_path, _ISOLATED, "-n", "2")


def test_the_composed_cloud_has_options_that_exist() -> None:
    page = (_ROOT / "docs" / "localcloud" / "testing.md").read_text()
    composed, actions = (
        yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    )
    chosen = _parser().parse_args(composed["services"]["cloud"]["command"])
    assert (chosen.advertise, chosen.clock, chosen.public_control) == ("cloud", "frozen", True)
    assert [step["run"] for step in actions["jobs"]["test"]["steps"] if "run" in step][-1] == "pytest"


def test_it_is_described_as_the_local_cloud_of_the_operators_distribution() -> None:
    ours = tomllib.loads((_DISTRIBUTION / "pyproject.toml").read_text())["project"]
    theirs = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]
    assert ours["version"] == theirs["version"]
    assert ours["dependencies"] == theirs["optional-dependencies"]["localcloud"]
