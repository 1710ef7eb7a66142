"""Who asks an API server, as kubeconfigs and Pods say it; a refusal quotes nothing that is secret."""

from __future__ import annotations

import ssl
from base64 import b64encode
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from relay_kube.access import AccessError, FileToken, of_kubeconfig, of_pod
from tests.support.certificates import write_serving_certificate

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "not-to-be-seen"
PEM = b64encode(f"-----BEGIN CERTIFICATE-----\n{SECRET}\n-----END CERTIFICATE-----\n".encode()).decode()


def kubeconfig(folder: Path, user: dict[str, Any], **cluster: object) -> Path:
    """One whose current context is of this user."""
    path = folder / "kubeconfig"
    said = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://10.0.0.1:6443/", **cluster}}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(yaml.safe_dump(said))
    return path


def test_a_token_is_sent_to_the_server_of_the_current_context(tmp_path: Path) -> None:
    login = of_kubeconfig(kubeconfig(tmp_path, {"token": SECRET}))
    assert login.server == "https://10.0.0.1:6443"
    assert login.headers() == {"Authorization": f"Bearer {SECRET}"}
    assert login.tls.verify_mode is ssl.CERT_REQUIRED
    assert SECRET not in repr(login)


def test_files_are_found_from_the_folder_of_the_kubeconfig(tmp_path: Path) -> None:
    write_serving_certificate(tmp_path)
    (tmp_path / "token").write_text(f"{SECRET}\n")
    path = kubeconfig(tmp_path, {"tokenFile": "token"}, **{"certificate-authority": "ca.crt"})
    login = of_kubeconfig(path)
    assert login.headers() == {"Authorization": f"Bearer {SECRET}"}
    assert len(login.tls.get_ca_certs()) == 1


@pytest.mark.parametrize(
    ("user", "words"),
    [
        ({"exec": {"command": "aws", "env": [{"value": SECRET}]}}, "logs in by a plugin"),
        ({"username": "ada", "password": SECRET}, "by a password"),
        ({"token": SECRET, "as": "ada"}, "as somebody else"),
        ({"token": {"of": SECRET}}, "cannot be used"),
        ({"client-certificate-data": SECRET, "client-key-data": SECRET}, "cannot be used"),
        ({"client-certificate-data": PEM, "client-key-data": PEM}, "a certificate or key is invalid: .*PEM"),
        ({"tokenFile": "absent"}, "cannot be read"),
    ],
)
def test_what_cannot_be_used_is_refused_without_its_secrets(tmp_path: Path, user: dict[str, Any], words: str) -> None:
    with pytest.raises(AccessError, match=words) as refused:
        of_kubeconfig(kubeconfig(tmp_path, user))
    assert SECRET not in str(refused.value)


def test_a_kubeconfig_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kubeconfig").write_text("current-context: absent")
    with pytest.raises(AccessError, match="needs a current-context"):
        of_kubeconfig(tmp_path / "kubeconfig")
    with pytest.raises(AccessError, match="No such file"):
        of_kubeconfig(tmp_path / "absent")


def test_in_a_pod_its_service_account_asks(tmp_path: Path) -> None:
    write_serving_certificate(tmp_path)
    (tmp_path / "token").write_text(SECRET)
    login = of_pod(tmp_path, {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"})
    assert login.server == "https://[fd00::1]:6443"
    assert login.headers() == {"Authorization": f"Bearer {SECRET}"}


def test_in_no_pod_a_kubeconfig_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(AccessError, match="does not run in a Pod: name a kubeconfig"):
        of_pod(tmp_path, {})


def test_a_token_is_read_again_after_a_minute_and_outlives_its_file(tmp_path: Path) -> None:
    now = [0.0]
    path = tmp_path / "token"
    path.write_text("first")
    token = FileToken(path, lambda: now[0])
    assert token() == "first"
    path.write_text("second")
    assert token() == "first"
    now[0] = 60.0
    assert token() == "second"
    path.unlink()
    now[0] = 120.0
    assert token() == "second"
