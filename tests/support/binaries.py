"""Where etcd, the API server, kubectl and helm come from: from what is there, else built from released modules."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.support.axe import axe
from tests.support.azurite_install import azurite_command
from tests.support.browser import browser
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.packages import OPENAI_2, InstallError, packages_of
from tests.support.s3 import versitygw
from tests.support.toolchain import REPOSITORY, BuildError, built_from, installed_from

_HELM_PACKAGE, _HELM_VERSION = "helm.sh/helm/v4/cmd/helm", "v4.2.4"
_PROMTOOL_PACKAGE, _PROMTOOL_VERSION = "github.com/prometheus/prometheus/cmd/promtool", "v0.316.0"
_ACTIONLINT_PACKAGE, _ACTIONLINT_VERSION = "github.com/rhysd/actionlint/cmd/actionlint", "v1.7.12"


@dataclass(frozen=True)
class ServerBinaries:
    """The beginning of each server's command line."""

    etcd: tuple[str, ...]
    apiserver: tuple[str, ...]
    controller_manager: tuple[str, ...]


def server_binaries() -> ServerBinaries:
    """From KUBEBUILDER_ASSETS (other Kubernetes versions; what envtest does not ship is taken from ours), else ours."""
    return ServerBinaries(
        etcd=_server("etcd"),
        apiserver=_server("kube-apiserver"),
        controller_manager=_server("kube-controller-manager"),
    )


def kubectl() -> Path:
    """kubectl: beside KUBEBUILDER_ASSETS, from PATH where somebody's own servers are used, else ours."""
    given = _from_assets("kubectl")
    if given is not None:
        return given
    on_path = shutil.which("kubectl")
    if on_path and (os.environ.get("KUBEBUILDER_ASSETS") or os.environ.get("RELAY_TEST_KUBECONFIG")):
        return Path(on_path)
    ours = _controlplane()
    link = ours.parent / "kubectl"  # The binary does what the name it was called by says.
    if not link.exists():
        link.unlink(missing_ok=True)
        link.symlink_to(ours.name)
    return link


def helm() -> Path:
    """Helm 4: from PATH if it is that, else built from its released module."""
    on_path = shutil.which("helm")
    if on_path:
        said = subprocess.run(
            [on_path, "version", "--short"], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
        )
        if said.stdout.strip().startswith("v4."):
            return Path(on_path)
    return installed_from(_HELM_PACKAGE, _HELM_VERSION, "helm")


def promtool() -> Path:
    """Prometheus' own checker of rules; without the clients of all clouds in which it could discover targets."""
    return installed_from(_PROMTOOL_PACKAGE, _PROMTOOL_VERSION, "promtool", tags="remove_all_sd")


def actionlint() -> Path:
    """What knows which workflows GitHub would refuse, or run otherwise than they read."""
    return installed_from(_ACTIONLINT_PACKAGE, _ACTIONLINT_VERSION, "actionlint")


def _server(name: str) -> tuple[str, ...]:
    given = _from_assets(name)
    return (str(given),) if given else (str(_controlplane()), name)


def _from_assets(name: str) -> Path | None:
    folder = os.environ.get("KUBEBUILDER_ASSETS")
    path = Path(folder, name) if folder else None
    return path if path is not None and path.exists() else None


def _controlplane() -> Path:
    return built_from(REPOSITORY / "hack" / "controlplane", "controlplane")


def _of_tests_alone() -> None:
    actionlint()
    promtool()
    versitygw()
    azurite_command()
    browser()
    axe()
    packages_of(OPENAI_2)


def main() -> int:
    """Builds whatever is missing, so that nothing is built in the middle of a test; `demo`: what the demo needs."""
    try:
        if not os.environ.get("RELAY_TEST_KUBECONFIG"):
            server_binaries()
        kubectl()
        helm()
        if sys.argv[1:] != ["demo"]:
            _of_tests_alone()
    except (BuildError, InstallError) as failed:
        sys.stderr.write(f"{failed}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
