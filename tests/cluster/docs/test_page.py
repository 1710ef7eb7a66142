"""The pages of the operator do what they say: each runs from top to bottom, in a fresh namespace and organization."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.cluster.docs.given import BEFORE, FUNCTIONS, GIVEN, everywhere
from tests.support import binaries
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.pages import LACKING, of_the_cloud, pages, ran, script
from tests.support.toolchain import REPOSITORY

if TYPE_CHECKING:
    from tests.support.workspace import Workspace

PAGES = [page for page in pages() if not of_the_cloud(page) and script(page)]


def _environment(workspace: Workspace, folder: Path) -> dict[str, str]:
    """kubectl in the workspace's namespace, every command on PATH, and where the cloud is."""
    known: dict[str, Any] = yaml.safe_load(workspace.kube.kubeconfig.read_text())
    for context in known["contexts"]:
        context["context"]["namespace"] = workspace.namespace
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(known))
    programs = (binaries.kubectl().parent, binaries.helm().parent, Path(sys.executable).parent)
    return {
        **os.environ,
        "PATH": os.pathsep.join((*map(str, programs), os.environ["PATH"])),
        "KUBECONFIG": str(kubeconfig),
        "CLOUD": workspace.cloud.management_url,
        "CONTROL": workspace.cloud.control.url,
        "KEY": workspace.organization.api_key,
        "ORG": workspace.organization.id,
    }


@pytest.mark.skipif(bool(LACKING), reason=f"needs {', '.join(LACKING)}")
@pytest.mark.parametrize("page", PAGES)
async def test_a_page_runs_from_top_to_bottom(page: str, page_workspace: Workspace, tmp_path: Path) -> None:
    workspace = page_workspace
    given = await GIVEN[page](workspace) if page in GIVEN else {}
    lines = FUNCTIONS + BEFORE.get(page, "") + script(page)
    for written, instead in (everywhere(workspace) | given).items():
        lines = lines.replace(written, instead)
    lines = re.sub(r"--timeout=\w+", f"--timeout={PATIENCE_SECONDS:g}s", lines)
    await workspace.becomes("CloudAccount", "default")
    for folder in ("charts", "examples"):
        (tmp_path / folder).symlink_to(REPOSITORY / folder)
    environment = _environment(workspace, tmp_path)
    workspace.is_kubes_alone = False
    await asyncio.to_thread(ran, lines, tmp_path, environment, "y\n")
