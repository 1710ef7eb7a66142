"""Whose credentials the operator uses, what it says if there are none, and that it notices new ones."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import kopf
import pytest

from relay_operator.credentials import CredentialsError, api_access, credentials

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "canary-token"
Json = dict[str, Any]


def kubeconfig(token: str = SECRET) -> Json:
    """With two contexts, of which `here` is the current one."""
    return {
        "current-context": "here",
        "contexts": [
            {"name": "there", "context": {"cluster": "there", "user": "there"}},
            {"name": "here", "context": {"cluster": "here", "user": "here"}},
        ],
        "clusters": [
            {"name": "there", "cluster": {"server": "https://two.example"}},
            {"name": "here", "cluster": {"server": "https://one.example"}},
        ],
        "users": [{"name": "there", "user": {"token": "other"}}, {"name": "here", "user": {"token": token}}],
    }


def write(path: Path, text: str) -> None:
    """As the kubelet does, whatever else happens."""
    path.write_text(text)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What KUBECONFIG names."""
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(kubeconfig()))
    monkeypatch.setenv("KUBECONFIG", str(path))
    return path


def test_the_current_context_of_kubeconfig_is_used(file: Path) -> None:
    assert file.exists()
    found = credentials()
    assert (found.server, found.as_http_headers()) == ("https://one.example", {"Authorization": f"Bearer {SECRET}"})


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(kubeconfig() | {"current-context": None}),
        json.dumps(kubeconfig() | {"clusters": []}),
        json.dumps(kubeconfig() | {"users": []}),
        f"token: [{SECRET}",
        SECRET,
        "",
    ],
    ids=["no current context", "no cluster", "no user", "not YAML", "no mapping", "empty"],
)
def test_a_kubeconfig_that_cannot_be_used_is_named_and_not_quoted(file: Path, text: str) -> None:
    file.write_text(text)
    with pytest.raises(CredentialsError, match="needs a current-context") as refused:
        credentials()
    assert SECRET not in f"{refused.value!r}"
    assert refused.value.__cause__ is None


def test_without_any_credentials_one_is_told_where_to_put_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(CredentialsError, match="set KUBECONFIG"):
        credentials()


async def test_a_token_that_rotates_is_read_again_and_kept_while_none_is_there(file: Path) -> None:
    async with api_access(1, iter([0.0, 59.0, 60.0, 119.0, 121.0]).__next__) as access:

        def sent() -> str:
            return access.headers()["Authorization"].removeprefix("Bearer ")

        write(file, json.dumps(kubeconfig("two")))
        assert [sent(), sent()] == [SECRET, "two"]
        write(file, "")
        assert [sent(), sent()] == ["two", "two"]


@pytest.mark.usefixtures("file")
async def test_connections_have_a_bound() -> None:
    async with api_access(7) as access:
        assert access.session.connector is not None
        assert access.session.connector.limit == 7


@pytest.mark.usefixtures("file")
def test_a_proxy_of_the_environment_leads_to_other_clusters_and_never_to_ones_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example.com:3128")
    own = kopf.ConnectionInfo(server="https://kubernetes.default.svc", token=SECRET, trust_env=True)
    monkeypatch.setattr(kopf, "login_with_service_account", lambda **_: own)
    assert credentials().trust_env
    monkeypatch.delenv("KUBECONFIG")
    assert (credentials().server, credentials().trust_env) == ("https://kubernetes.default.svc", False)
