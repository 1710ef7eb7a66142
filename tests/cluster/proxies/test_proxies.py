"""An operator that reaches the cloud only through the proxy that its environment names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.manifests import cloud_account

if TYPE_CHECKING:
    import pytest

    from tests.conftest import StartOperator
    from tests.support.workspace import Workspace


async def test_a_cloud_that_only_the_proxy_reaches_is_reached(
    unattended_workspace: Workspace, start_operator: StartOperator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The local cloud plays the proxy: a request whose target is a whole URL reaches the path in it."""
    workspace = unattended_workspace
    management, _ = workspace.cloud.ports.urls()
    for name in ("HTTPS_PROXY", "https_proxy", "http_proxy", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTP_PROXY", management)
    await start_operator(workspace, allowed_base_urls="http://cloud.invalid")
    await workspace.apply(cloud_account("http://cloud.invalid", "http://cloud.invalid"))
    await workspace.becomes("CloudAccount", "default")
