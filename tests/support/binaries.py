"""Finds etcd, the API server, kubectl, helm and other programs of tests, or builds them from released modules."""

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
    """The start of each server's command line."""

    etcd: tuple[str, ...]
    apiserver: tuple[str, ...]
    controller_manager: tuple[str, ...]


def server_binaries() -> ServerBinaries:
    """Returns each server from KUBEBUILDER_ASSETS if it is there, else the one built from hack/controlplane.

    KUBEBUILDER_ASSETS serves to test other Kubernetes versions; envtest ships no kube-controller-manager.
    """
    return ServerBinaries(
        etcd=_server("etcd"),
        apiserver=_server("kube-apiserver"),
        controller_manager=_server("kube-controller-manager"),
    )


def kubectl() -> Path:
    """Returns kubectl from KUBEBUILDER_ASSETS; from PATH if the servers are not ours; else the one we build."""
    given = _from_assets("kubectl")
    if given is not None:
        return given
    on_path = shutil.which("kubectl")
    if on_path and (os.environ.get("KUBEBUILDER_ASSETS") or os.environ.get("RELAY_TEST_KUBECONFIG")):
        return Path(on_path)
    ours = _controlplane()
    link = ours.parent / "kubectl"  # The binary chooses its program by the name it is called by.
    if not link.exists():
        link.unlink(missing_ok=True)
        link.symlink_to(ours.name)
    return link


def helm() -> Path:
    """Returns Helm 4: from PATH if that is version 4, else built from its released module."""
    on_path = shutil.which("helm")
    if on_path:
        said = subprocess.run(
            [on_path, "version", "--short"], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
        )
        if said.stdout.strip().startswith("v4."):
            return Path(on_path)
    return installed_from(_HELM_PACKAGE, _HELM_VERSION, "helm")


def promtool() -> Path:
    """Returns promtool, Prometheus' checker of rules; built without service discovery and its many cloud SDKs."""
    return installed_from(_PROMTOOL_PACKAGE, _PROMTOOL_VERSION, "promtool", tags="remove_all_sd")


def actionlint() -> Path:
    """Returns actionlint, which finds errors in GitHub workflows."""
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
    """Builds whatever is missing, so that no test has to; with the argument `demo`, only what the demo needs.

    Returns 1 if a build fails.
    """
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
